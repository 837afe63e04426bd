package manager

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentName is the manager's own Deployment, and containerName the container in it (config/manager).
const (
	deploymentName = "retryqueue-manager"
	containerName  = "manager"
)

// OwnImage is the image that the manager's Deployment in namespace declares, so that it is set in one place. It takes
// no permission that the manager does not hold for its workers' Deployments.
func OwnImage(ctx context.Context, cfg *rest.Config, namespace string) (string, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deploymentName}, d); err != nil {
		return "", fmt.Errorf("looking up the image of the workers, set it by --worker-image or RETRYQUEUE_IMAGE: %w", err)
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name == containerName {
			return container.Image, nil
		}
	}
	return "", fmt.Errorf("the Deployment %s/%s has no container %s whose image workers could run; set --worker-image or RETRYQUEUE_IMAGE",
		namespace, deploymentName, containerName)
}
