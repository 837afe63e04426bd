package workerapi

import "crypto/sha256"

type content struct {
	mediaType  string
	payload    []byte
	mode       eventMode
	attributes map[string]string
}

func contentSHA(c content) [32]byte {
	return sha256.Sum256(append([]byte(c.mediaType+"\x00"+string(c.mode)+"\x00"), c.payload...))
}
