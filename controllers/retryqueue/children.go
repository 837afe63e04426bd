package retryqueue

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/internal/pki"
)

// child is an object that a queue must have.
type child struct {
	want *unstructured.Unstructured
	// blind: the manager may not watch such objects, only apply them.
	blind bool
	// whole: nobody else has a say in its spec or data, so what others added is taken out.
	whole bool
	// quiet: it follows every change of the queue, so that an update of it is no news.
	quiet bool
}

// keepChildren makes what is missing and puts right what was changed. The Deployment comes last: its pods need
// the others.
func (p *pass) keepChildren(ctx context.Context) (*verdict, error) {
	ca, err := p.ca.Current(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.children(ca)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		v, err := p.keep(ctx, c)
		if err == nil && v != nil && c.want.GroupVersionKind() == claimKind && v.reason == v1alpha1.ReasonObjectRefused {
			p.late = v // a volume that cannot grow holds up nothing else
			continue
		}
		if v != nil || err != nil {
			return v, err
		}
	}
	p.rq.Status.Address = Address(p.rq)
	return nil, nil
}

func (p *pass) children(ca *pki.CA) ([]child, error) {
	configMap, err := buildConfigMap(p.rq)
	if err != nil {
		return nil, err
	}
	secret, err := buildSecret(p.rq, ca, p.clock.Now())
	if err != nil {
		return nil, err
	}
	policy, err := buildNetworkPolicy(p.rq, p.managerNamespace)
	if err != nil {
		return nil, err
	}
	deployment, err := buildDeployment(p.rq, p.image)
	if err != nil {
		return nil, err
	}
	var all []child
	add := func(ac runtime.ApplyConfiguration, c child) {
		if c.want, err = convert[unstructured.Unstructured](ac); err == nil {
			all = append(all, c)
		}
	}
	if claim := buildClaim(p.rq); claim != nil {
		add(claim, child{}) // the binder has a say in it
	}
	for _, o := range []struct {
		ac runtime.ApplyConfiguration
		c  child
	}{
		{configMap, child{whole: true, quiet: true}},
		{secret, child{blind: true}},
		{policy, child{whole: true}},
		{buildService(p.rq), child{whole: true}},
		{deployment, child{whole: true}},
	} {
		if err == nil {
			add(o.ac, o.c)
		}
	}
	return all, err
}

var claimKind = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")

// metadataOnly are the kinds of children of which the cache holds just the metadata.
var metadataOnly = []schema.GroupVersionKind{
	claimKind,
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
}

// taken is the verdict on an object of a name that the queue needs, which is not the queue's.
func taken(kind, name string, uid types.UID) verdict {
	if kind == "PersistentVolumeClaim" {
		return stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf("PersistentVolumeClaim %s exists and is not this RetryQueue's; it may hold the jobs "+
			"of a deleted RetryQueue: make this one anew with spec.storage.sqlite.existingClaim: %s to adopt it, or delete the claim; one of this RetryQueue that lost its labels "+
			"is known again by the label %s=%s", name, name, QueueUIDLabel, uid))
	}
	return stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf("%s %s exists and is not this RetryQueue's: delete or rename it, or give the RetryQueue another name", kind, name))
}
