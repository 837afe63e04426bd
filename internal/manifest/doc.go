// Package manifest turns RetryQueue and Redrive resources into what the core runs: it parses and validates a
// manifest by the CRD's own schema and rules, and converts it. It is the only place where the API types and
// the core meet.
package manifest
