package queue

// State is where a job is. Pending → Leased → Succeeded | Pending | Dead; Dead → Pending by redrive only.
type State string

// The four states of a job.
const (
	Pending   State = "Pending"
	Leased    State = "Leased"
	Succeeded State = "Succeeded"
	Dead      State = "Dead"
)

// Reason is why a job died. The set is closed, and tested in this order.
type Reason string

// Every way to die.
const (
	ReasonPermanent        Reason = "Permanent"
	ReasonExhausted        Reason = "Exhausted"
	ReasonDeadlineExceeded Reason = "DeadlineExceeded"
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{ReasonPermanent, ReasonExhausted, ReasonDeadlineExceeded}
}

// Kinds of failure that the core itself writes. Delivery adds its own (HTTPStatus, Timeout, …).
const (
	// KindWorkerLost: the lease ran out before the attempt was settled.
	KindWorkerLost = "WorkerLost"
	// KindNeverStarted: the deadline came before any attempt; the message says what stood in the way.
	KindNeverStarted = "NeverStarted"
)

// Bounds of what is kept with a job.
const (
	MaxHistory      = 50   // attempts kept: the first and the latest 49
	MaxErrorMessage = 1024 // bytes of an error message kept
	MaxIDLength     = 256  // bytes of a job id
	MaxHeaders      = 64   // headers kept with a job
	MaxHeaderBytes  = 16 << 10
)

// Failure is why an attempt failed.
type Failure struct {
	Kind       string `json:"kind"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
	Message    string `json:"message,omitempty"`
}

// Attempt is one entry of a job's history.
type Attempt struct {
	Attempt   int      `json:"attempt"`           // from 1 within its budget; 0 when the job died unstarted
	Redrive   string   `json:"redrive,omitempty"` // uid of the redrive whose budget this attempt used
	StartedAt Time     `json:"startedAt,omitzero"`
	EndedAt   Time     `json:"endedAt"`
	Outcome   Outcome  `json:"outcome"`
	Error     *Failure `json:"error,omitempty"`
}

// Header is one HTTP header that travels with a payload, in the order it came.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Job is what a queue keeps, as it is shown. Payload and Headers are left out where only causes are asked for.
type Job struct {
	ID              string    `json:"id"`
	Queue           string    `json:"queue"` // namespace/name, or name
	State           State     `json:"state"`
	Attempts        int       `json:"attempts"` // claims within the present budget
	MaxAttempts     int       `json:"maxAttempts"`
	AvailableAt     Time      `json:"availableAt,omitzero"`
	Deadline        Time      `json:"deadline"`
	FirstReceivedAt Time      `json:"firstReceivedAt"`
	FirstFailedAt   Time      `json:"firstFailedAt,omitzero"`
	FinishedAt      Time      `json:"finishedAt,omitzero"` // when it succeeded
	DiedAt          Time      `json:"diedAt,omitzero"`
	Reason          Reason    `json:"reason,omitempty"`
	LastError       *Failure  `json:"lastError,omitempty"`
	History         []Attempt `json:"history,omitempty"`
	Redrives        int       `json:"redrives"`
	RedriveUID      string    `json:"redriveUID,omitempty"` // the redrive that last released it
	Fingerprint     string    `json:"fingerprint,omitempty"`
	ContentType     string    `json:"contentType"`
	DeadSeq         int64     `json:"deadSeq,omitempty"` // order of death within the queue; new at every death
	Headers         []Header  `json:"headers,omitempty"`
	Payload         []byte    `json:"-"`
}

// NewJob is a request to accept work.
type NewJob struct {
	ID          string // 1..MaxIDLength bytes of printable ASCII
	ContentType string // media type as it came; may be empty
	Headers     []Header
	Payload     []byte
	// ContentSHA identifies the content for the conflict check; see [ContentSHA]. Required.
	ContentSHA [32]byte
	// Shortened budget. Zero takes the policy's; a larger value than the policy's is refused.
	MaxAttempts int
	Deadline    Millis
	// Delay before the first attempt. A delay that reaches the deadline is refused.
	Delay Millis
}

// Accepted is the answer to one NewJob.
type Accepted struct {
	Job   Job
	Known bool // the id was already known; Job is the stored one, unchanged
}
