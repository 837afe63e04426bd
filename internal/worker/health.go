package worker

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// health is what the metrics listener serves: /metrics, /healthz and /readyz. alive and ready say what is
// missing, "" when nothing is.
func health(g prometheus.Gatherer, alive, ready func() string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", probe(alive))
	mux.HandleFunc("GET /readyz", probe(ready))
	return mux
}

func probe(missing func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if m := missing(); m != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, m)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}
