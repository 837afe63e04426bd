package retryqueue

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/retryqueue/retryqueue/api/v1alpha1"
)

const (
	workerName = "worker"

	publicPort  = 8080
	adminPort   = 8443
	metricsPort = 9090

	manifestKey  = "queue.yaml"
	dataDir      = "/var/lib/retryqueue"
	manifestDir  = "/etc/retryqueue/manifest"
	tlsDir       = "/etc/retryqueue/tls"
	producersDir = "/etc/retryqueue/producers"
	signingDir   = "/etc/retryqueue/signing"
)

// volume is one of the worker's volumes and where it is mounted.
type volume struct {
	path     string
	readOnly bool
	spec     *corev1ac.VolumeApplyConfiguration
}

// volumes of the worker. Secrets of the queue's owner are mounted by the kubelet; the manager never reads them.
func volumes(rq *v1alpha1.RetryQueue) []volume {
	secret := func(name, secret string) *corev1ac.VolumeApplyConfiguration {
		return corev1ac.Volume().WithName(name).
			WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secret).WithDefaultMode(0o440))
	}
	all := []volume{
		{dataDir, false, corev1ac.Volume().WithName("data").WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(claimName(rq)))},
		{"/tmp", false, corev1ac.Volume().WithName("tmp").WithEmptyDir(
			corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse("64Mi")))},
		{manifestDir, true, corev1ac.Volume().WithName("manifest").WithConfigMap(
			corev1ac.ConfigMapVolumeSource().WithName(childName(rq)).WithDefaultMode(0o440))},
		{tlsDir, true, secret("tls", secretName(rq))},
	}
	if ref := rq.Spec.Accept.TokenSecretRef; ref != nil {
		all = append(all, volume{producersDir, true, secret("producers", ref.Name)})
	}
	if h := rq.Spec.Delivery.HTTP; h != nil && h.SigningSecretRef != nil {
		all = append(all, volume{signingDir, true, secret("signing", h.SigningSecretRef.Name)})
	}
	return all
}

func buildVolumes(rq *v1alpha1.RetryQueue) []*corev1ac.VolumeApplyConfiguration {
	var specs []*corev1ac.VolumeApplyConfiguration
	for _, v := range volumes(rq) {
		specs = append(specs, v.spec)
	}
	return specs
}

func buildWorker(rq *v1alpha1.RetryQueue, t v1alpha1.WorkerTemplate, image string) (*corev1ac.ContainerApplyConfiguration, error) {
	res := resources(t.Resources)
	requirements, err := convert[corev1ac.ResourceRequirementsApplyConfiguration](res)
	if err != nil {
		return nil, err
	}
	c := corev1ac.Container().
		WithName(workerName).
		WithImage(image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithArgs("worker",
			"--file="+manifestDir+"/"+manifestKey,
			"--data-dir="+dataDir,
			"--listen=:"+strconv.Itoa(publicPort),
			"--admin-listen=:"+strconv.Itoa(adminPort),
			"--metrics-listen=:"+strconv.Itoa(metricsPort),
			"--admin-tls-cert="+tlsDir+"/"+corev1.TLSCertKey,
			"--admin-tls-key="+tlsDir+"/"+corev1.TLSPrivateKeyKey,
			"--admin-client-ca="+tlsDir+"/"+corev1.ServiceAccountRootCAKey,
			"--producer-tokens="+producersDir,
			"--signing-keys="+signingDir,
			"--log-format=json").
		WithPorts(port("http", publicPort), port("admin", adminPort), port("metrics", metricsPort)).
		WithResources(requirements).
		WithSecurityContext(restricted()).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		// Opening the store may take a while after a crash; and a second pod waits for the first one's file.
		WithStartupProbe(probe("/healthz").WithPeriodSeconds(2).WithFailureThreshold(150)).
		WithLivenessProbe(probe("/healthz").WithPeriodSeconds(10).WithFailureThreshold(6).WithTimeoutSeconds(5)).
		WithReadinessProbe(probe("/readyz").WithPeriodSeconds(2).WithFailureThreshold(2).WithTimeoutSeconds(5))
	if limit := res.Limits.Memory().Value(); limit > 0 {
		// The collector works harder before the kernel ends the process.
		c.WithEnv(corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValue(strconv.FormatInt(limit/10*8, 10)))
	}
	for _, v := range volumes(rq) {
		m := corev1ac.VolumeMount().WithName(*v.spec.Name).WithMountPath(v.path)
		if v.readOnly {
			m.WithReadOnly(true)
		}
		c.WithVolumeMounts(m)
	}
	return c, nil
}

// buildSidecar is a container beside the worker, as confined as it. It mounts nothing of the queue's.
func buildSidecar(s v1alpha1.Sidecar) (*corev1ac.ContainerApplyConfiguration, error) {
	c := corev1ac.Container().
		WithName(s.Name).
		WithImage(s.Image).
		WithArgs(s.Args...).
		WithSecurityContext(restricted())
	for _, e := range s.Env {
		env, err := convert[corev1ac.EnvVarApplyConfiguration](e)
		if err != nil {
			return nil, err
		}
		c.WithEnv(env)
	}
	if s.Resources != nil {
		r, err := convert[corev1ac.ResourceRequirementsApplyConfiguration](s.Resources)
		if err != nil {
			return nil, err
		}
		c.WithResources(r)
	}
	return c, nil
}

// resources of the worker; what its owner leaves out has a default. No limit of CPU: throttling would hold leases.
func resources(r *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if r != nil {
		return *r
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

// restricted is what the restricted pod security standard asks of a container.
func restricted() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithAllowPrivilegeEscalation(false).
		WithPrivileged(false).
		WithReadOnlyRootFilesystem(true).
		WithRunAsNonRoot(true).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
}

func port(name string, number int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(number).WithProtocol(corev1.ProtocolTCP)
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(metricsPort)))
}
