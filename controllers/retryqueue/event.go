package retryqueue

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// Reasons of the events on a RetryQueue; that it is stalled has the reason of the condition.
const (
	eventCreated     = "Created"
	eventUpdated     = "Updated"
	eventConfigured  = "ConfigApplied"
	eventDead        = "DeadLetters"
	eventUnreachable = "WorkerUnreachable"
	eventKept        = "StorageKept"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

// note is an event that waits until the status says the same.
type note struct {
	kind, reason, action, message string
	related                       runtime.Object // nil, or the child that it is about
}

func (p *pass) note(kind, reason, action, message string) {
	p.notes = append(p.notes, note{kind: kind, reason: reason, action: action, message: message})
}

// noteChild is note about a child. Events that differ in their message only would become one, with the first's.
func (p *pass) noteChild(reason, action, message string, child runtime.Object) {
	p.notes = append(p.notes, note{kind: normal, reason: reason, action: action, message: message, related: child})
}

// noteTransitions tells what came to be since the status was last written, and not what merely still is.
func (p *pass) noteTransitions(v verdict) {
	became := func(condition string) bool {
		is := meta.FindStatusCondition(p.rq.Status.Conditions, condition)
		was := meta.FindStatusCondition(p.stored.Status.Conditions, condition)
		return is != nil && is.Status == metav1.ConditionTrue &&
			(was == nil || was.Status != metav1.ConditionTrue || was.Reason != is.Reason)
	}
	if became(v1alpha1.ConditionDeadLetters) {
		p.note(warning, eventDead, "Bury", meta.FindStatusCondition(p.rq.Status.Conditions, v1alpha1.ConditionDeadLetters).Message)
	}
	if became(v1alpha1.ConditionStalled) {
		p.note(warning, v.reason, "Reconcile", v.message)
	}
	// Whether workers are missing because somebody scaled to zero or because they died: only the latter is news.
	available := v1alpha1.ConditionWorkersAvailable
	if v.reason == v1alpha1.ReasonWorkersNotReady && meta.IsStatusConditionTrue(p.stored.Status.Conditions, available) &&
		meta.IsStatusConditionFalse(p.rq.Status.Conditions, available) {
		p.note(warning, v.reason, "Observe", v.message)
	}
	if v.reason == v1alpha1.ReasonConfigPending && became(v1alpha1.ConditionReconciling) {
		p.note(warning, eventUnreachable, "Configure", v.message)
	}
}

// maxNote is what an event's note may hold, in bytes.
const maxNote = 1024

func (p *pass) tell() {
	for _, n := range p.notes {
		p.events.Eventf(p.rq, n.related, n.kind, n.reason, n.action, "%s", strings.ToValidUTF8(n.message[:min(len(n.message), maxNote)], ""))
	}
}

// gone tells that the data of a deleted queue are kept, and forgets the queue. Nothing else is to do: the garbage
// collector removes what the queue owned.
func (r *Reconciler) gone(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	rq, ok := e.Object.(*v1alpha1.RetryQueue)
	if !ok {
		return
	}
	r.memory.forget(rq.UID)
	if f, ok := r.workers.(interface{ Forget(queue types.UID) }); ok {
		f.Forget(rq.UID)
	}
	if rq.Spec.DeletionPolicy != v1alpha1.DeletionDelete || adoptedClaim(rq) != "" {
		name := claimName(rq)
		r.events.Eventf(rq, nil, normal, eventKept, "Delete", "%s", fmt.Sprintf("PersistentVolumeClaim %s and its jobs are kept: "+
			"a new RetryQueue of this name adopts them with spec.storage.sqlite.existingClaim: %s; delete the claim to be rid of them", name, name))
	}
}
