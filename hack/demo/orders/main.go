// Command orders is both sides of a small shop, for the demo and the end-to-end tests.
//
//	orders serve   the orders service: a target that can be told to be slow, to fail, and to report what came
//	orders front   the shop's front: a producer that posts orders to a RetryQueue and asks what became of them
//
// Both listen on :8080, GET /healthz included.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if len(os.Args) != 2 {
		log.Fatal("usage: orders serve|front")
	}
	switch os.Args[1] {
	case "serve":
		newService().routes(mux)
	case "front":
		front, err := newFront(os.Getenv("QUEUE_URL"), os.Getenv("TOKEN_FILE"))
		if err != nil {
			log.Fatal(err)
		}
		front.routes(mux)
	default:
		log.Fatalf("orders knows serve and front, not %q", os.Args[1])
	}
	if err := serve(mux); err != nil {
		log.Fatal(err)
	}
}

func serve(h http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	s := &http.Server{Addr: ":8080", Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.Printf("writing an answer: %v", err)
	}
}
