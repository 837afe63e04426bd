package retryqueue

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
	"github.com/retryqueue/retryqueue/controllers/workers"
)

// buildService is where producers and the manager find the worker. Only a ready one is there: a second pod that
// waits for the file would answer nothing.
func buildService(rq *v1alpha1.RetryQueue) *corev1ac.ServiceApplyConfiguration {
	port := func(name string, number, target int32) *corev1ac.ServicePortApplyConfiguration {
		return corev1ac.ServicePort().WithName(name).WithProtocol(corev1.ProtocolTCP).
			WithPort(number).WithTargetPort(intstr.FromInt32(target))
	}
	return corev1ac.Service(childName(rq), rq.Namespace).
		WithLabels(objectLabels(rq)).
		WithOwnerReferences(owner(rq)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selectorLabels(rq)).
			WithPublishNotReadyAddresses(false).
			WithPorts(port("http", 80, publicPort), port("admin", workers.AdminPort, adminPort)))
}
