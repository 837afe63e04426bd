package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// States as they are stored. A purged job is nothing but an id that is remembered.
const (
	statePending = iota
	stateLeased
	stateSucceeded
	stateDead
	statePurged
)

var stateNames = [...]queue.State{queue.Pending, queue.Leased, queue.Succeeded, queue.Dead, queue.Dead}

// reasonCode is 1 for the first reason, so that 0 is none.
func reasonCode(r queue.Reason) int { return slices.Index(queue.Reasons(), r) + 1 }

func reasonName(code int) queue.Reason {
	if code < 1 || code > len(queue.Reasons()) {
		return ""
	}
	return queue.Reasons()[code-1]
}

// row is one row of jobs.
type row struct {
	seq, bytes                        int64
	id                                string
	state, attempts, maxAttempts      int
	availableAt, deadline, receivedAt queue.Time
	sha                               []byte
	contentType                       string
	token                             int64
	claimedAt, leaseUntil             queue.Time
	previousDelay                     queue.Millis
	firstFailedAt, finishedAt         queue.Time
	redrives                          int
	redrive, item                     int64
	deadSeq                           int64
	diedAt                            queue.Time
	reason                            int
	fingerprint                       string
}

// rowColumns are the columns of a row in the order of scan; the table is called j.
const rowColumns = `j.seq, j.id, j.state, j.attempts, j.max_attempts, j.available_at, j.deadline, j.received_at, j.bytes,
	j.content_sha, j.content_type, j.token, j.claimed_at, j.lease_until, j.previous_delay, j.first_failed_at, j.finished_at,
	j.redrives, j.redrive, j.item, j.dead_seq, j.died_at, j.reason, j.fingerprint`

func (r *row) into() []any {
	return []any{&r.seq, &r.id, &r.state, &r.attempts, &r.maxAttempts, &r.availableAt, &r.deadline, &r.receivedAt, &r.bytes,
		&r.sha, &r.contentType, &r.token, &r.claimedAt, &r.leaseUntil, &r.previousDelay, &r.firstFailedAt, &r.finishedAt,
		&r.redrives, &r.redrive, &r.item, &r.deadSeq, &r.diedAt, &r.reason, &r.fingerprint}
}

// hotColumns are those that decide what becomes of a job, in the order of hot.
const hotColumns = `j.seq, j.id, j.state, j.attempts, j.max_attempts, j.deadline, j.bytes, j.token, j.claimed_at, j.lease_until,
	j.previous_delay, j.first_failed_at, j.redrive, j.item`

func (r *row) hot() []any {
	return []any{&r.seq, &r.id, &r.state, &r.attempts, &r.maxAttempts, &r.deadline, &r.bytes, &r.token, &r.claimedAt, &r.leaseUntil,
		&r.previousDelay, &r.firstFailedAt, &r.redrive, &r.item}
}

func (r *row) budget() queue.Budget {
	return queue.Budget{Attempts: r.attempts, MaxAttempts: r.maxAttempts, Deadline: r.deadline, PreviousDelay: r.previousDelay}
}

// job is r as it is shown, without history and content. redriveUID is the uid of r.redrive.
func (r *row) job(queueName, redriveUID string) queue.Job {
	j := queue.Job{
		ID: r.id, Queue: queueName, State: stateNames[r.state], Attempts: r.attempts, MaxAttempts: r.maxAttempts,
		Deadline: r.deadline, FirstReceivedAt: r.receivedAt, FirstFailedAt: r.firstFailedAt, FinishedAt: r.finishedAt,
		Redrives: r.redrives, RedriveUID: redriveUID, ContentType: r.contentType,
	}
	switch r.state {
	case statePending:
		j.AvailableAt = r.availableAt
	case stateDead, statePurged:
		j.DiedAt, j.Reason, j.Fingerprint, j.DeadSeq = r.diedAt, reasonName(r.reason), r.fingerprint, r.deadSeq
	}
	return j
}

// attempt is a queue.Attempt as it is stored.
type attempt struct {
	Number  int            `json:"n"`
	Redrive string         `json:"r,omitempty"`
	Started int64          `json:"s,omitempty"`
	Ended   int64          `json:"e"`
	Outcome queue.Outcome  `json:"o"`
	Error   *queue.Failure `json:"f,omitempty"`
}

func encodeHistory(history []queue.Attempt) (string, error) {
	stored := make([]attempt, len(history))
	for i, a := range history {
		stored[i] = attempt{Number: a.Attempt, Redrive: a.Redrive, Started: int64(a.StartedAt), Ended: int64(a.EndedAt), Outcome: a.Outcome, Error: a.Error}
	}
	b, err := json.Marshal(stored)
	return string(b), err
}

func decodeHistory(s string) ([]queue.Attempt, error) {
	if s == "" {
		return nil, nil
	}
	var stored []attempt
	if err := json.Unmarshal([]byte(s), &stored); err != nil {
		return nil, fmt.Errorf("reading the history of a job: %w", err)
	}
	history := make([]queue.Attempt, len(stored))
	for i, a := range stored {
		history[i] = queue.Attempt{Attempt: a.Number, Redrive: a.Redrive, StartedAt: queue.Time(a.Started), EndedAt: queue.Time(a.Ended), Outcome: a.Outcome, Error: a.Error}
	}
	return history, nil
}

// lastError is the error of the latest attempt.
func lastError(history []queue.Attempt) *queue.Failure {
	if len(history) == 0 {
		return nil
	}
	return history[len(history)-1].Error
}

func encodeHeaders(headers []queue.Header) (string, error) {
	if len(headers) == 0 {
		return "", nil
	}
	b, err := json.Marshal(headers)
	return string(b), err
}

func decodeHeaders(s string) (headers []queue.Header, err error) {
	if s == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(s), &headers); err != nil {
		return nil, fmt.Errorf("reading the headers of a job: %w", err)
	}
	return headers, nil
}
