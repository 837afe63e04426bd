package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retryqueue/retryqueue/internal/worker"
)

func newWorkerCommand() *cobra.Command {
	var o worker.Options
	var format, level string
	c := &cobra.Command{
		Use:   "worker -f queue.yaml --data-dir DIR",
		Short: "Run one queue: accept, deliver, retry and keep the dead",
		Long: `Run one queue as its RetryQueue manifest declares it.

Producers post jobs to --listen (POST /v1/jobs). Operators use --admin-listen, which is plain HTTP and bound
to loopback unless certificates are given; then it takes mutual TLS only. --metrics-listen serves /metrics,
/healthz and /readyz.

SIGTERM or an interrupt drains: no new attempts start, those in flight finish. A second one ends at once; then
what was in flight counts as lost attempts.`,
		Example: "  retryqueue worker -f queue.yaml --data-dir ./data",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := newLogger(c.ErrOrStderr(), format, level)
			if err != nil {
				return err
			}
			redirectLibraries(log)
			o.Log, o.Now, o.Version = log, time.Now, buildVersion()
			if err := worker.Run(c.Context(), o); err != nil {
				log.Error("worker.failed", "error", strings.ReplaceAll(err.Error(), "\n", "; "))
				return fmt.Errorf("running the worker: %w", errors.Join(err, errLogged))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&o.Manifest, "file", "f", "", "file with the RetryQueue manifest (required)")
	f.StringVar(&o.DataDir, "data-dir", "", "directory for the jobs; made if absent (required)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address of the API for producers")
	f.StringVar(&o.AdminListen, "admin-listen", "127.0.0.1:8443", "address of the admin API")
	f.StringVar(&o.MetricsListen, "metrics-listen", "127.0.0.1:9090", "address of /metrics, /healthz and /readyz")
	f.StringVar(&o.AdminTokenFile, "admin-token-file", "", "file with a bearer token that the admin API demands")
	f.StringVar(&o.AdminTLS.Cert, "admin-tls-cert", "", "certificate of the admin API (PEM); with it the API takes mutual TLS only")
	f.StringVar(&o.AdminTLS.Key, "admin-tls-key", "", "key of --admin-tls-cert (PEM)")
	f.StringVar(&o.AdminTLS.ClientCA, "admin-client-ca", "", "authority of the clients' certificates (PEM)")
	f.StringVar(&o.ProducerTokens, "producer-tokens", "/etc/retryqueue/producers",
		"directory with bearer tokens of producers, one a file; read while spec.accept.tokenSecretRef is set")
	f.StringVar(&o.SigningKeys, "signing-keys", "/etc/retryqueue/signing",
		"directory with Standard Webhooks secrets, one a file; read while spec.delivery.http.signingSecretRef is set")
	f.StringVar(&format, "log-format", "text", "text or json")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return c
}

// redirectLibraries makes debug records of what libraries print. That of net/http quotes the target's answers.
func redirectLibraries(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer())
}

// newLogger logs to w.
func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level must be debug, info, warn or error, is %q", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fmt.Errorf("--log-format must be text or json, is %q", format)
}
