package queue

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound: no such job, or no such redrive.
	ErrNotFound = errors.New("not found")
	// ErrLeaseLost: the settle's token is not the job's; nothing was changed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrClockBackwards: the store's clock is before the claim's; nothing was changed.
	ErrClockBackwards = errors.New("clock went backwards since the claim")
	// ErrFenced: another process has taken the store over; this one can never write again and must exit.
	ErrFenced = errors.New("the store is owned by another process")
	// ErrStorageFull: the disk, or the size given to the store, is nearly used up. Nothing was stored.
	ErrStorageFull = errors.New("storage is nearly full")
	// ErrClockJump: the wall clock leapt ahead of the monotonic one; claims and burials wait until it is confirmed.
	ErrClockJump = errors.New("clock jumped ahead; waiting for it to be confirmed")
)

// InvalidError says what is wrong with one job of a batch, and how to mend it.
type InvalidError struct {
	Index  int    // of the job within the call
	Field  string // the request's name of the field: id, delay, deadline, maxAttempts, headers, …
	Detail string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Detail) }

// ConflictError: these ids are stored with other content. Nothing was changed.
type ConflictError struct{ Indexes []int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%d id(s) are already known with other content", len(e.Indexes))
}

// LimitError: accepting would break a limit. Nothing was stored.
type LimitError struct {
	Limit      string // maxPayload, maxPending or maxBytes
	Max        int64
	RetryAfter Millis // a guess at when trying again makes sense; 0 for maxPayload
	Index      int    // of the job, for maxPayload
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limits.%s is %d and would be exceeded", e.Limit, e.Max)
}

// RedriveError refuses an operation on a redrive, with one of the Redrive reasons below.
type RedriveError struct{ Reason, Detail string }

func (e *RedriveError) Error() string { return e.Detail }

// Reasons of a RedriveError.
const (
	RedriveHashMismatch    = "PlanHashMismatch" // the permission names another plan
	RedriveAlreadyExecuted = "AlreadyExecuted"  // a redrive of this name and spec has run
	RedriveInvalid         = "Invalid"
	RedriveFinished        = "Finished"
)
