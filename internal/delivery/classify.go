package delivery

const (
	KindHTTPStatus = "HTTPStatus"
	KindTimeout    = "Timeout"
	KindConnection = "Connection"
	KindTLS        = "TLS"
)

func reserved(name string) bool { return false }
