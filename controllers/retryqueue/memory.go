package retryqueue

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what was applied last, so that a pass over a queue that is as it should be sends nothing. Losing it
// (a restart) costs one apply an object, which changes nothing.
type memory struct {
	mu     sync.Mutex
	queues map[types.UID]map[string]applied
}

// applied is one object as we left it.
type applied struct {
	digest     string // of what was applied
	version    string // resourceVersion of the outcome
	generation int64
	at         time.Time
}

func newMemory() *memory { return &memory{queues: map[types.UID]map[string]applied{}} }

func (m *memory) get(queue types.UID, kind string) applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queues[queue][kind]
}

func (m *memory) put(queue types.UID, kind string, a applied) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queues[queue] == nil {
		m.queues[queue] = map[string]applied{}
	}
	m.queues[queue][kind] = a
}

func (m *memory) forget(queue types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.queues, queue)
}
