package v1alpha1

// Names that admission policies guard (config/admission), so that they are the same everywhere.
const (
	// ReservedPrefix starts the names of all objects that the manager makes for a queue: the queue orders is
	// run by the Deployment retryqueue-orders. Outside the manager's namespace nobody else may use it.
	ReservedPrefix = "retryqueue-"

	// DataSuffix ends the names of claims that hold a queue's data: retryqueue-orders-data. Only workers may
	// mount such claims.
	DataSuffix = "-data"

	// LabelQueue is on the pods of a queue's workers, with the queue's name, and what its Service selects.
	// Nobody else may put it on a pod.
	LabelQueue = "retryqueue.dev/queue"

	// LabelQueueUID is on what the manager makes for a queue, with the queue's uid. On a claim nobody else may
	// change it.
	LabelQueueUID = "retryqueue.dev/queue-uid"

	// SecretTypeWorkerTLS is the type of the Secrets that the manager makes; it may touch no others.
	SecretTypeWorkerTLS = "retryqueue.dev/worker-tls"

	// VerbApprove on a Redrive lets one approve it.
	VerbApprove = "approve"

	// VerbSetRedrivePolicy on a RetryQueue lets one set its redrivePolicy and adopt a volume.
	VerbSetRedrivePolicy = "set-redrive-policy"
)
