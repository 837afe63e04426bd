package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/retryqueue/retryqueue/controllers/manager"
)

func newManagerCommand() *cobra.Command {
	var o manager.Options
	var format, level string
	c := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator: keep the workers of RetryQueues, and replay what was approved",
		Long: `Run the operator in a cluster, from its service account, or with KUBECONFIG from elsewhere.

Several may run; one leads. SIGTERM ends it and hands the lead over.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := newLogger(c.ErrOrStderr(), format, level)
			if err != nil {
				return err
			}
			o.Log = log
			ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
			klog.SetSlogLogger(log)
			if err := runManager(c, o); err != nil {
				log.Error("manager.failed", "error", err)
				return fmt.Errorf("running the manager: %w", errors.Join(err, errLogged))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the manager (or env POD_NAMESPACE)")
	f.StringVar(&o.WorkerImage, "worker-image", os.Getenv("RETRYQUEUE_IMAGE"), "image of the workers (or env RETRYQUEUE_IMAGE); default that of the manager's own Deployment")
	f.StringVar(&o.MetricsListen, "metrics-listen", ":8080", "address of /metrics; 0 for none")
	f.StringVar(&o.HealthListen, "health-listen", ":8081", "address of /healthz and /readyz; 0 for none")
	f.BoolVar(&o.LeaderElection, "leader-elect", true, "let one of several managers act; without it there must be only one")
	f.IntVar(&o.MinApprovals, "min-approvals", 0, "least number of approvals of any Redrive, whatever the queue says; 0 leaves it to the queues")
	f.BoolVar(&o.ForbidSelfApproval, "forbid-self-approval", false, "forbid self approval for every queue, whatever the queue says")
	f.StringVar(&format, "log-format", "json", "text or json")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return c
}

func runManager(c *cobra.Command, o manager.Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	cfg.QPS, cfg.Burst = 50, 100
	cfg.UserAgent = "retryqueue-manager/" + buildVersion()
	if o.WorkerImage == "" && o.Namespace != "" {
		if o.WorkerImage, err = manager.OwnImage(c.Context(), cfg, o.Namespace); err != nil {
			return err
		}
	}
	mgr, err := manager.New(cfg, o)
	if err != nil {
		return err
	}
	return mgr.Start(c.Context())
}
