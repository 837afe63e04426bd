package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of every listener. A batch of the largest payloads must fit through in the read timeout.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 15 * time.Second
)

// listener is one bound address and what is served there.
type listener struct {
	name   string
	net    net.Listener
	server *http.Server
}

func bind(name, addr string, config *tls.Config) (*listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("binding the %s listener (--%s): %w", name, flagOf(name), err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return &listener{name: name, net: l}, nil
}

func flagOf(name string) string {
	if name == "public" {
		return "listen"
	}
	return name + "-listen"
}

func (l *listener) addr() string { return l.net.Addr().String() }

// serve answers with h until shut down; fail is told when it ends by itself.
func (l *listener) serve(h http.Handler, log *slog.Logger, fail func(error)) {
	l.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.With("listener", l.name).Handler(), slog.LevelDebug),
	}
	go func() {
		if err := l.server.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serving the %s listener: %w", l.name, err))
		}
	}()
}

// shutdown lets requests finish, for a while, and closes the rest.
func (l *listener) shutdown() error {
	if l.server == nil {
		return l.net.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shutting down the %s listener: %w", l.name, err), l.server.Close())
	}
	return nil
}
