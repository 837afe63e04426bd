package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// cannotSend is the result of an attempt that was not sent at all.
func cannotSend(err error) queue.Result {
	var unsigned *unsignedError
	if errors.As(err, &unsigned) {
		return failed(queue.OutcomeUnknown, queue.Failure{Kind: KindUnsigned, Message: line([]byte(err.Error()))})
	}
	return failed(queue.OutcomePermanent, queue.Failure{Kind: KindInvalidRequest, Message: line([]byte(err.Error()))})
}

// failureOf says why there is no answer. given is the caller's context, attempt the one with the timeout.
func failureOf(given, attempt context.Context, err error, step string, timeout queue.Millis) queue.Failure {
	failure := func(kind, format string, args ...any) queue.Failure {
		return queue.Failure{Kind: kind, Message: line(fmt.Appendf(nil, format, args...))}
	}
	var refused *forbiddenError
	var lookup *net.DNSError
	var network net.Error
	switch {
	case errors.Is(given.Err(), context.Canceled):
		return failure(KindInterrupted, "the worker stopped while %s", step)
	case attempt.Err() != nil:
		return failure(KindTimeout, "no answer within %s (attemptTimeout) while %s", timeout, step)
	case errors.As(err, &refused):
		return failure(KindAddressForbidden, "%v", refused)
	case errors.As(err, &network) && network.Timeout(): // connecting has a bound of its own
		return failure(KindTimeout, "%s: %v", step, bare(err))
	case isTLS(err):
		return failure(KindTLS, "%s: %v", step, bare(err))
	case errors.As(err, &lookup):
		return failure(KindConnection, "looking up %s: %s", lookup.Name, lookup.Err)
	}
	return failure(KindConnection, "%s: %v", step, bare(err))
}

// isTLS says that there was a connection, but no TLS that can be trusted.
func isTLS(err error) bool {
	var (
		unverified  *tls.CertificateVerificationError
		noTLS       tls.RecordHeaderError
		badCert     x509.CertificateInvalidError
		badHost     x509.HostnameError
		badSigner   x509.UnknownAuthorityError
		op          *net.OpError
		plainAnswer = strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
	)
	if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") { // TLS alerts
		return true
	}
	return plainAnswer || errors.As(err, &unverified) || errors.As(err, &noTLS) ||
		errors.As(err, &badCert) || errors.As(err, &badHost) || errors.As(err, &badSigner)
}

// bare drops from a network error what differs at every attempt and helps nobody: our own port.
func bare(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Err == nil {
		return err
	}
	if op.Op == "dial" && op.Addr != nil {
		return fmt.Errorf("%s: %w", op.Addr, op.Err)
	}
	return op.Err
}
