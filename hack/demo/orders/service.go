package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

// service takes orders. It deduplicates by Idempotency-Key, as a good receiver does, and remembers every arrival.
type service struct {
	mu       sync.Mutex
	mode     shop.Mode
	arrivals []shop.Arrival
	taken    map[string]int // id → how often it was processed; deduplication keeps this at 1
}

func newService() *service { return &service{taken: map[string]int{}} }

func (s *service) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /handle", s.handle)
	mux.HandleFunc("PUT /mode", s.setMode)
	mux.HandleFunc("GET /report", s.report)
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	var order shop.Order
	err := json.NewDecoder(r.Body).Decode(&order)
	mode, status := s.arrive(r, order, err)
	time.Sleep(time.Duration(mode.DelayMillis) * time.Millisecond)
	switch status {
	case http.StatusOK:
		fmt.Fprintln(w, "taken")
	case http.StatusUnprocessableEntity:
		http.Error(w, fmt.Sprintf("order %s has no items", order.ID), status)
	default:
		http.Error(w, "the orders database does not answer", status)
	}
}

// arrive decides the answer and records the arrival.
func (s *service) arrive(r *http.Request, order shop.Order, decodeErr error) (shop.Mode, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := http.StatusOK
	switch {
	case decodeErr != nil || order.Items == 0:
		status = http.StatusUnprocessableEntity
	case s.mode.Status != 0:
		status = s.mode.Status
	}
	id := r.Header.Get("Idempotency-Key")
	attempt, _ := strconv.Atoi(r.Header.Get("RetryQueue-Attempt"))
	repeated := s.taken[id] > 0
	s.arrivals = append(s.arrivals, shop.Arrival{ID: id, At: time.Now(), Attempt: attempt, Status: status,
		Redrive: r.Header.Get("RetryQueue-Redrive"), Repeated: repeated})
	if status == http.StatusOK && !repeated {
		s.taken[id]++
	}
	return s.mode, status
}

func (s *service) setMode(w http.ResponseWriter, r *http.Request) {
	var m shop.Mode
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
	w.WriteHeader(http.StatusNoContent)
}

func (s *service) report(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writeJSON(w, shop.Report{Arrivals: s.arrivals, Taken: s.taken, Now: time.Now()})
}
