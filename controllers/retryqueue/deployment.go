package retryqueue

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

// user runs the workers and owns their files.
const user = 65532

// drainMargin is what a worker may take to end beyond the attempts in flight: to settle them, answer its last
// requests and close the store.
const drainMargin = 45 * time.Second

// buildDeployment runs the worker. What only concerns policy must leave no trace in it: a change of the pod's
// template restarts the worker. So the grace period is in steps.
func buildDeployment(rq *v1alpha1.RetryQueue, image string) (*appsv1ac.DeploymentApplyConfiguration, error) {
	template := v1alpha1.WorkerTemplate{}
	if t := rq.Spec.Workers.Template; t != nil {
		template = *t
	}
	pod, err := buildPod(rq, template, image)
	if err != nil {
		return nil, fmt.Errorf("building the workers' pod: %w", err)
	}
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, selectorLabels(rq))
	labels[ManagedByLabel] = ManagedBy
	meta := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(pod)
	meta.WithAnnotations(template.Annotations)
	meta.WithAnnotations(map[string]string{"kubectl.kubernetes.io/default-container": workerName})
	return appsv1ac.Deployment(childName(rq), rq.Namespace).
		WithLabels(objectLabels(rq)).
		WithOwnerReferences(owner(rq)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(replicas(rq)).
			WithRevisionHistoryLimit(3).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selectorLabels(rq))).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithTemplate(meta)), nil
}

func replicas(rq *v1alpha1.RetryQueue) int32 {
	if n := rq.Spec.Workers.Replicas; n != nil {
		return *n
	}
	return 1
}

// gracePeriod is long enough for the attempts in flight, in seconds. It doubles from step to step, so that few
// changes of attemptTimeout restart the worker.
func gracePeriod(attemptTimeout time.Duration) int64 {
	grace := int64(60)
	for time.Duration(grace)*time.Second < attemptTimeout+drainMargin {
		grace *= 2
	}
	return grace
}

func buildPod(rq *v1alpha1.RetryQueue, t v1alpha1.WorkerTemplate, image string) (*corev1ac.PodSpecApplyConfiguration, error) {
	worker, err := buildWorker(rq, t, image)
	if err != nil {
		return nil, err
	}
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(gracePeriod(rq.Spec.RetryPolicy.AttemptTimeout.Duration)).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(user).WithRunAsGroup(user).WithFSGroup(user).
			WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithVolumes(buildVolumes(rq)...).
		WithContainers(worker)
	for _, s := range t.Sidecars {
		c, err := buildSidecar(s)
		if err != nil {
			return nil, err
		}
		pod.WithContainers(c)
	}
	return pod, schedule(pod, t)
}

// schedule copies what the owner of the queue may say about placement.
func schedule(pod *corev1ac.PodSpecApplyConfiguration, t v1alpha1.WorkerTemplate) error {
	pod.WithNodeSelector(t.NodeSelector)
	if t.PriorityClassName != "" {
		pod.WithPriorityClassName(t.PriorityClassName)
	}
	if t.Affinity != nil {
		a, err := convert[corev1ac.AffinityApplyConfiguration](t.Affinity)
		if err != nil {
			return err
		}
		pod.WithAffinity(a)
	}
	for _, toleration := range t.Tolerations {
		a, err := convert[corev1ac.TolerationApplyConfiguration](toleration)
		if err != nil {
			return err
		}
		pod.WithTolerations(a)
	}
	for _, s := range t.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	return nil
}
