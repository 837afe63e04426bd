package retryqueue

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// refusal is the verdict on a child that the API server will not take until a person has mended something; nil for
// an error that may pass by itself.
func refusal(err error, kind, name string) *verdict {
	switch {
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "`immutable` is set"):
		// The manager may delete nothing, least of all what holds keys. Where the admission policies are in force
		// nobody can do this.
		v := stalled(v1alpha1.ReasonObjectRefused, fmt.Sprintf("%s %s was made immutable by hand: delete it, and it is made again", kind, name))
		return &v
	case apierrors.IsInvalid(err):
		return invalid(fmt.Sprintf("%s %s is refused by the API server, mend the part of the spec that it is made of: %s", kind, name, reasonOf(err)))
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// A quota, a volume that cannot grow, another's admission policy.
		v := stalled(v1alpha1.ReasonObjectRefused, fmt.Sprintf("%s %s is refused by the API server: %s", kind, name, reasonOf(err)))
		return &v
	}
	return nil
}

// reasonOf is what the API server says is wrong, without its preamble.
func reasonOf(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return err.Error()
	}
	cause := status.ErrStatus.Details.Causes[0]
	if cause.Field == "" {
		return cause.Message
	}
	return cause.Field + ": " + cause.Message
}
