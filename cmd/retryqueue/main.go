// Command retryqueue is the one binary of RetryQueue: the manager that runs in a cluster, and the worker that
// runs one queue, in a cluster or on a laptop.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version string

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signalled()
	defer stop()
	root := newRootCommand()
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errLogged) {
			fmt.Fprintln(os.Stderr, "retryqueue:", err)
		}
		return 1
	}
	return 0
}

// errLogged marks an error that a command has already logged.
var errLogged = errors.New("logged")

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "retryqueue",
		Short:         "Retry queues with bounded retries, dead letters with causes, and replay by approval",
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
	}
	root.AddCommand(newManagerCommand(), newWorkerCommand())
	return root
}

// signalled is done at the first SIGTERM or interrupt; the second one ends the process at once.
func signalled() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// buildVersion is what the linker or the build's version control information says.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
