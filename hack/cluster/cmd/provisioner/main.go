// Command provisioner gives the development cluster dynamic volumes: for each pending claim of its class it
// makes a directory on the node and a PersistentVolume that is bound to the claim, and removes both when a
// volume with reclaim policy Delete is released. It is a developer's tool: one node, no quota.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	class           = "standard"
	provisionerName = "retryqueue.local/directory"
	interval        = 300 * time.Millisecond
)

type provisioner struct {
	client kubernetes.Interface
	dir    string
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of an administrator")
	dir := flag.String("dir", "", "directory on the node that holds the volumes")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	p := provisioner{client: client, dir: *dir}
	for ; ; time.Sleep(interval) {
		if err := p.pass(context.Background()); err != nil {
			log.Print(err)
		}
	}
}

func (p provisioner) pass(ctx context.Context) error {
	claims, err := p.client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	var errs []error
	for _, c := range claims.Items {
		if c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == class && c.Spec.VolumeName == "" {
			errs = append(errs, p.provide(ctx, &c))
		}
	}
	volumes, err := p.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("listing volumes: %w", err))...)
	}
	for _, v := range volumes.Items {
		released := v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		if released && v.Spec.StorageClassName == class && v.DeletionTimestamp.IsZero() {
			errs = append(errs, p.remove(ctx, &v))
		}
	}
	return errors.Join(errs...)
}

func (p provisioner) provide(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	name := "pvc-" + string(c.UID)
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making the volume's directory: %w", err)
	}
	// Pods run as any user, and the kubelet sets no group on host directories.
	if err := os.Chmod(path, 0o777); err != nil {
		return fmt.Errorf("opening the volume's directory: %w", err)
	}
	volume := &corev1.PersistentVolume{
		// The annotation keeps the cluster's own controller from deleting what it did not provide.
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   c.Spec.AccessModes,
			StorageClassName:              class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating a volume for %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}

func (p provisioner) remove(ctx context.Context, v *corev1.PersistentVolume) error {
	if err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting volume %s: %w", v.Name, err)
	}
	return os.RemoveAll(filepath.Join(p.dir, v.Name))
}
