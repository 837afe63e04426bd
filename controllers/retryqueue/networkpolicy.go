package retryqueue

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// managerLabels pick the manager's pods (config/manager).
var managerLabels = map[string]string{"app.kubernetes.io/name": "retryqueue-manager"}

// buildNetworkPolicy lets in producers (those of accept.from, or anyone, whom a token then holds back), the
// manager to the admin API, and anyone in the cluster to the metrics. What goes out is not restrained: the
// target may be anywhere.
func buildNetworkPolicy(rq *v1alpha1.RetryQueue, managerNamespace string) (*networkingv1ac.NetworkPolicyApplyConfiguration, error) {
	rule := func(port int32) *networkingv1ac.NetworkPolicyIngressRuleApplyConfiguration {
		return networkingv1ac.NetworkPolicyIngressRule().WithPorts(
			networkingv1ac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(port)))
	}
	public := rule(publicPort)
	for _, p := range rq.Spec.Accept.From {
		peer, err := convert[networkingv1ac.NetworkPolicyPeerApplyConfiguration](p)
		if err != nil {
			return nil, fmt.Errorf("reading accept.from: %w", err)
		}
		public.WithFrom(peer)
	}
	manager := networkingv1ac.NetworkPolicyPeer().
		WithNamespaceSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: managerNamespace})).
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(managerLabels))
	cluster := networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector())
	return networkingv1ac.NetworkPolicy(childName(rq), rq.Namespace).
		WithLabels(objectLabels(rq)).
		WithOwnerReferences(owner(rq)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(rq))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(public, rule(adminPort).WithFrom(manager), rule(metricsPort).WithFrom(cluster))), nil
}
