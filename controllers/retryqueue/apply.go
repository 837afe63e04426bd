package retryqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// keep makes or mends one child. A child that is as we left it is left alone.
func (p *pass) keep(ctx context.Context, c child) (*verdict, error) {
	kind, name := c.want.GetKind(), c.want.GetName()
	digest, err := digestOf(c)
	if err != nil {
		return nil, err
	}
	last := p.memory.get(p.rq.UID, kind)
	now := p.clock.Now()
	if c.blind && last.digest == digest && now.Sub(last.at) < p.poll {
		return nil, nil
	}
	have, err := p.observe(ctx, c)
	if apierrors.IsForbidden(err) && c.blind {
		return new(taken(kind, name, p.rq.UID)), nil // the policy on the manager's Secrets: it is of another type
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	if have != nil {
		if v := p.claim(have, kind, name); v != nil {
			return v, nil
		}
		if !c.blind && last.digest == digest && last.version == have.GetResourceVersion() {
			p.remember(kind, last)
			return nil, nil
		}
	}
	return p.apply(ctx, c, have, applied{digest: digest, at: now}, last)
}

func (p *pass) apply(ctx context.Context, c child, have client.Object, a, last applied) (*verdict, error) {
	kind, name := c.want.GetKind(), c.want.GetName()
	if have != nil && c.whole {
		if err := p.takeOver(ctx, c.want.GroupVersionKind(), have); err != nil {
			return nil, fmt.Errorf("taking %s %s over: %w", kind, name, err)
		}
	}
	o := c.want.DeepCopy()
	err := p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if v := refusal(err, kind, name); v != nil {
		return v, nil
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", kind, name, err)
	}
	a.version, a.generation = o.GetResourceVersion(), o.GetGeneration()
	p.remember(kind, a)
	switch {
	case have == nil:
		p.noteChild(eventCreated, "Create", fmt.Sprintf("made %s %s", kind, name), c.want)
	case !c.quiet && changed(have, a) && a.version != last.version:
		p.noteChild(eventUpdated, "Update", fmt.Sprintf("updated %s %s", kind, name), c.want)
	}
	return nil, nil
}

// changed tells a change of what we apply from one of the status, where the API server counts generations.
func changed(have client.Object, a applied) bool {
	if a.generation > 0 {
		return have.GetGeneration() != a.generation
	}
	return have.GetResourceVersion() != a.version
}

func (p *pass) remember(kind string, a applied) {
	p.memory.put(p.rq.UID, kind, a)
	if kind == "Deployment" {
		p.deploymentGeneration = a.generation
	}
}

// observe is the object as the cache has it, else as the API server has it: the cache holds only what has our
// labels. nil if there is none. Of a blind child only the metadata travel, as the answer to a patch that changes
// nothing: the manager may not get Secrets, and an admission policy keeps it from patching others.
func (p *pass) observe(ctx context.Context, c child) (client.Object, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(c.want.GroupVersionKind())
	key := client.ObjectKeyFromObject(c.want)
	if c.blind {
		meta.Name, meta.Namespace = key.Name, key.Namespace
		err := p.client.Patch(ctx, meta, client.RawPatch(types.MergePatchType, []byte("{}")))
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return meta, err
	}
	var o client.Object = meta
	if c.want.GetKind() == "Deployment" {
		o = &appsv1.Deployment{} // cached whole, for its status
	}
	err := p.client.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		o = meta
		err = p.live.Get(ctx, key, meta)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// claim says what stands against touching an object that is there, or nil when it is this queue's.
func (p *pass) claim(have client.Object, kind, name string) *verdict {
	ref := metav1.GetControllerOf(have)
	switch {
	case ref != nil && ref.UID == p.rq.UID, ref == nil && have.GetLabels()[QueueUIDLabel] == string(p.rq.UID):
		return nil
	case ref == nil && kind != claimKind.Kind && madeByUs(have):
		return nil // somebody took labels and owner away; there is nothing in it that we do not write
	case ref != nil && ref.Kind == "RetryQueue" && ref.Name == p.rq.Name:
		return waiting(v1alpha1.ReasonProgressing, fmt.Sprintf("%s %s of a deleted RetryQueue of this name is being removed", kind, name)).in(waitAfter)
	}
	return new(taken(kind, name, p.rq.UID))
}

// madeByUs says that we applied an object, whatever it says of itself.
func madeByUs(have client.Object) bool {
	return slices.ContainsFunc(have.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldOwner && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

func digestOf(c child) (string, error) {
	b, err := c.want.MarshalJSON()
	if err != nil {
		return "", fmt.Errorf("writing %s %s: %w", c.want.GetKind(), c.want.GetName(), err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
