// Command demo tells the story on the cluster of a kubeconfig. `make demo` prepares the cluster and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/retryqueue/retryqueue/hack/demo/story"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "\nNOT AS TOLD:", err)
		os.Exit(1)
	}
}

func run() error {
	config := story.Config{Out: os.Stdout}
	flag.StringVar(&config.Kubeconfig, "kubeconfig", "", "kubeconfig; unset takes kubectl's own")
	flag.StringVar(&config.Context, "context", "", "context of the kubeconfig; unset takes the current one")
	flag.StringVar(&config.Manifests, "manifests", "hack/demo/manifests", "directory of the demo's manifests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return story.Run(ctx, config)
}
