package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/retryqueue/retryqueue/internal/workerapi"
)

// Options are everything a worker is started with.
type Options struct {
	// Manifest is the file with the RetryQueue.
	Manifest string
	// DataDir holds the SQLite file; it is made if absent.
	DataDir string
	// Listen, AdminListen and MetricsListen are host:port. Without TLS the admin API takes loopback only.
	Listen, AdminListen, MetricsListen string
	// AdminTokenFile, when set, holds the bearer token of the admin API, one or more in a directory.
	AdminTokenFile string
	// AdminTLS, when set, makes the admin API speak mutual TLS only. All three files or none.
	AdminTLS workerapi.ServerFiles
	// ProducerTokens is the directory of the producers' bearer tokens, one a file.
	ProducerTokens string
	// SigningKeys is the directory of the Standard Webhooks secrets, one a file.
	SigningKeys string
	Version     string
	Log         *slog.Logger
	// Now is a clock with a monotonic part.
	Now func() time.Time
	// Bound, when not nil, is told the addresses once all listeners are bound: for ports chosen by the system.
	Bound func(Addresses)
}

// Addresses are where a worker listens.
type Addresses struct{ Public, Admin, Metrics string }

func (o Options) mutualTLS() bool { return o.AdminTLS != workerapi.ServerFiles{} }

// validate says everything that is wrong with the options, each with the flag and the mend.
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Manifest != "", "--file must name the RetryQueue manifest")
	check(o.DataDir != "", "--data-dir must name a directory for the jobs")
	for flag, addr := range map[string]string{"listen": o.Listen, "admin-listen": o.AdminListen, "metrics-listen": o.MetricsListen} {
		_, _, err := net.SplitHostPort(addr)
		check(err == nil, "--%s must be host:port, such as 127.0.0.1:8080, is %q", flag, addr)
	}
	t := o.AdminTLS
	if o.mutualTLS() {
		check(t.Cert != "" && t.Key != "" && t.ClientCA != "",
			"--admin-tls-cert, --admin-tls-key and --admin-client-ca must be given together")
		check(o.AdminTokenFile == "", "--admin-token-file must not be given beside certificates: mutual TLS needs no token")
	} else {
		host, _, err := net.SplitHostPort(o.AdminListen)
		check(err != nil || workerapi.IsLoopback(host), "--admin-listen must be a loopback address, such as 127.0.0.1:8443, while "+
			"there is no --admin-tls-cert, --admin-tls-key and --admin-client-ca; is %q", o.AdminListen)
	}
	return errors.Join(errs...)
}
