package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// kubectl runs kubectl with input on its standard input and returns what it printed.
func (s *Story) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	if s.Kubeconfig != "" {
		args = append([]string{"--kubeconfig", s.Kubeconfig}, args...)
	}
	if s.Context != "" {
		args = append([]string{"--context", s.Context}, args...)
	}
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(input)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// show runs kubectl and prints the command and its answer.
func (s *Story) show(ctx context.Context, args ...string) error {
	out, err := s.kubectl(ctx, "", args...)
	if err != nil {
		return err
	}
	s.say("   $ kubectl %s", strings.Join(args, " "))
	for line := range strings.Lines(out) {
		s.say("     %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// call asks one of the shop's services through the API server's proxy, so that the story needs no way of its
// own into the cluster.
func (s *Story) call(ctx context.Context, method, service, path string, params map[string]string, body, answer any) error {
	req := s.kube.CoreV1().RESTClient().Verb(method).Namespace(namespace).Resource("services").Name(service + ":80").
		SubResource("proxy").Suffix(path)
	for k, v := range params {
		req = req.Param(k, v)
	}
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req = req.Body(b)
	}
	out, err := req.DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s %s%s: %w", method, service, path, err)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("reading the answer of %s%s: %w", service, path, err)
	}
	return nil
}

// wait polls until done says so; what is last said is in the error when it does not.
func wait(ctx context.Context, limit time.Duration, what string, done func() (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := ""
	for {
		ok, state, err := done()
		if err == nil && ok {
			return nil
		}
		if err != nil {
			state = err.Error()
		}
		last = state
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not come within %s: %s", what, limit, last)
		case <-time.After(250 * time.Millisecond):
		}
	}
}
