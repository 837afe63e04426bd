package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retryqueue/retryqueue/hack/demo/shop"
)

// front posts orders and keeps posting each until it is accepted: the same Idempotency-Key makes that safe.
type front struct {
	queueURL, tokenFile string
	client              *http.Client

	mu      sync.Mutex
	status  shop.FrontStatus
	ids     []string
	running bool
}

func newFront(queueURL, tokenFile string) (*front, error) {
	if queueURL == "" || tokenFile == "" {
		return nil, fmt.Errorf("set QUEUE_URL and TOKEN_FILE")
	}
	return &front{queueURL: queueURL, tokenFile: tokenFile, client: &http.Client{Timeout: 10 * time.Second}}, nil
}

func (f *front) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /orders", f.start)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		writeJSON(w, f.status)
	})
	mux.HandleFunc("GET /jobs", f.jobs)
}

// start posts ?count orders at ?rate a second in the background; every ?invalid-th has no items.
func (f *front) start(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	count, _ := strconv.Atoi(q.Get("count"))
	rate, _ := strconv.Atoi(q.Get("rate"))
	invalid, _ := strconv.Atoi(q.Get("invalid"))
	if count < 1 || rate < 1 || invalid < 1 {
		http.Error(w, "count, rate and invalid must be at least 1", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		http.Error(w, "already posting", http.StatusConflict)
		return
	}
	f.running = true
	go f.post(count, rate, invalid)
	w.WriteHeader(http.StatusAccepted)
}

func (f *front) post(count, rate, invalid int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var wg sync.WaitGroup
	for i := range count {
		<-tick.C
		order := shop.Order{ID: fmt.Sprintf("order-%04d", i+1), Items: 1 + i%5}
		if (i+1)%invalid == 0 {
			order.Items = 0
		}
		wg.Go(func() { f.postUntilAccepted(order) })
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.status.Done = false, true
}

func (f *front) postUntilAccepted(o shop.Order) {
	body, err := json.Marshal(o)
	if err != nil {
		log.Fatal(err)
	}
	for {
		status, err := f.postOnce(o.ID, body)
		f.mu.Lock()
		accepted := err == nil && (status == http.StatusAccepted || status == http.StatusOK)
		if accepted {
			f.status.Accepted++
			f.ids = append(f.ids, o.ID)
		} else {
			f.status.Repeated++
			f.status.LastRefusal = fmt.Sprintf("status %d, error %v", status, err)
		}
		f.mu.Unlock()
		if accepted {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (f *front) postOnce(id string, body []byte) (int, error) {
	res, err := f.do(context.Background(), http.MethodPost, "/v1/jobs", id, body)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// jobs asks the queue what became of every accepted order.
func (f *front) jobs(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	ids := append([]string(nil), f.ids...)
	f.mu.Unlock()
	jobs := make([]json.RawMessage, 0, len(ids))
	for _, id := range ids {
		res, err := f.do(r.Context(), http.MethodGet, "/v1/jobs/"+url.PathEscape(id), "", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			http.Error(w, fmt.Sprintf("job %s: status %d, error %v: %s", id, res.StatusCode, err, b), http.StatusBadGateway)
			return
		}
		jobs = append(jobs, b)
	}
	writeJSON(w, jobs)
}

func (f *front) do(ctx context.Context, method, path, id string, body []byte) (*http.Response, error) {
	token, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, f.queueURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if id != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", id)
	}
	return f.client.Do(req)
}
