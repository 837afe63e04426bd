package redrive

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/queue"
)

// queueIndex finds the Redrives of a RetryQueue in the cache.
const queueIndex = "redrive.retryqueue.dev/queue"

// turns keeps two passes of this process from taking the turn of one queue at once. Queues share locks by chance;
// that costs a short wait and nothing else.
type turns [64]sync.Mutex

func (t *turns) lock(queueUID string) (unlock func()) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(queueUID))
	m := &t[h.Sum32()%uint32(len(t))]
	m.Lock()
	return m.Unlock
}

// takeTurn lets one Redrive of a queue release at a time, so that all together keep to redrivePolicy.maxRate.
func (p *pass) takeTurn(ctx context.Context) (*outcome, error) {
	p.unlock = p.turns.lock(string(p.rq.UID))
	return p.waitTurn(ctx)
}

// waitTurn is the outcome while another Redrive has the turn.
func (p *pass) waitTurn(ctx context.Context) (*outcome, error) {
	if p.plan.Progress.Remaining == 0 {
		return nil, nil
	}
	var list v1alpha1.RedriveList
	err := p.client.List(ctx, &list, client.InNamespace(p.rd.Namespace), client.MatchingFields{queueIndex: p.rq.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the redrives of the queue: %w", err)
	}
	for _, other := range list.Items {
		if other.UID == p.rd.UID || recordedEnd(&other) {
			continue
		}
		theirs, err := p.ask(ctx, string(other.UID))
		if errors.Is(err, queue.ErrNotFound) {
			continue
		}
		if err != nil {
			return p.unreachable(ctx, err), nil
		}
		if hasTurn(theirs, *p.plan) {
			return waiting(v1alpha1.ReasonWaitingForRedrive, fmt.Sprintf(
				"Redrive %s of the same queue is releasing jobs, and one goes at a time; this one follows, or suspend that one", other.Name), retryAfter), nil
		}
	}
	return nil, nil
}

func (p *pass) ask(ctx context.Context, uid string) (queue.Redrive, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.admin.Redrive(call, uid)
}

// hasTurn says whether another redrive keeps ours from releasing: it may release now, and ours may not yet or
// began later.
func hasTurn(theirs, ours queue.Redrive) bool {
	if !live(theirs) || theirs.Progress.Remaining == 0 {
		return false
	}
	return !live(ours) || before(theirs, ours)
}

// before orders two redrives: the one that released first, then by uid. Two controllers that let two redrives in at
// once both find the same one to stop.
func before(a, b queue.Redrive) bool {
	if a.StartedAt == b.StartedAt {
		return a.UID < b.UID
	}
	return a.StartedAt != 0 && (b.StartedAt == 0 || a.StartedAt < b.StartedAt)
}

// live says that the worker holds a permission for a redrive now.
func live(rd queue.Redrive) bool {
	return !rd.State.Finished() && rd.RunUntil > rd.Now
}
