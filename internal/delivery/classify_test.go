package delivery

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/retryqueue/retryqueue/internal/queue"
)

func TestClassifyStatusByDefault(t *testing.T) {
	t.Parallel()
	for outcome, statuses := range map[queue.Outcome][]int{
		queue.OutcomeSucceeded: {200, 201, 202, 204, 299},
		queue.OutcomeRetryable: {408, 425, 429, 500, 501, 502, 503, 504, 599},
		queue.OutcomePermanent: {100, 101, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 413, 422, 424, 426, 499, 600, 999},
	} {
		for _, status := range statuses {
			got := classifyStatus(nil, status, "because")
			if got.Outcome != outcome {
				t.Errorf("%d is %s, want %s", status, got.Outcome, outcome)
			}
			if outcome == queue.OutcomeSucceeded {
				continue
			}
			want := &queue.Failure{Kind: KindHTTPStatus, HTTPStatus: status, Message: "because"}
			if diff := cmp.Diff(want, got.Failure); diff != "" {
				t.Errorf("failure of %d (-want +got):\n%s", status, diff)
			}
		}
	}
}

func TestClassifyByRules(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		{Name: "done", Statuses: []string{"409"}, Action: ActionSucceed},
		{Name: "one-503", Statuses: []string{"503"}, Action: ActionRetry},
		{Name: "all-5xx", Statuses: []string{"5xx", "404"}, Action: ActionFail},
		{Name: "late-retry", Statuses: []string{"404", "418"}, Action: ActionRetry},
		{Name: "no-2xx", Statuses: []string{"204"}, Action: ActionFail},
		{Name: "bad-cert", Errors: []string{KindTLS}, Action: ActionFail},
		{Name: "slow", Errors: []string{KindTimeout, KindConnection}, Action: ActionRetry},
	}
	tests := map[string]struct {
		status int
		kind   string
		want   queue.Outcome
		rule   string
	}{
		"a status may mean success":                    {status: 409, want: queue.OutcomeSucceeded},
		"the first rule that matches decides":          {status: 503, want: queue.OutcomeRetryable, rule: "one-503"},
		"a class matches":                              {status: 500, want: queue.OutcomePermanent, rule: "all-5xx"},
		"a later rule is not asked":                    {status: 404, want: queue.OutcomePermanent, rule: "all-5xx"},
		"a permanent status may be retried":            {status: 418, want: queue.OutcomeRetryable, rule: "late-retry"},
		"even 2xx can fail":                            {status: 204, want: queue.OutcomePermanent, rule: "no-2xx"},
		"what no rule names keeps its default":         {status: 400, want: queue.OutcomePermanent},
		"TLS can be permanent":                         {kind: KindTLS, want: queue.OutcomePermanent, rule: "bad-cert"},
		"a rule with two classes":                      {kind: KindConnection, want: queue.OutcomeRetryable, rule: "slow"},
		"a status class does not match another number": {status: 650, want: queue.OutcomePermanent},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := classifyStatus(rules, tt.status, "because")
			if tt.kind != "" {
				got = classifyError(rules, queue.Failure{Kind: tt.kind, Message: "because"})
			}
			if got.Outcome != tt.want {
				t.Fatalf("outcome = %s, want %s", got.Outcome, tt.want)
			}
			if got.Failure == nil {
				return
			}
			message := "because"
			if tt.rule != "" {
				message = "failurePolicy rule " + tt.rule + ": because"
			}
			if got.Failure.Message != message {
				t.Errorf("message = %q, want %q", got.Failure.Message, message)
			}
		})
	}
}

func TestTransportErrorsAreRetryableByDefault(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{KindTimeout, KindConnection, KindTLS, KindAddressForbidden, KindInterrupted} {
		if got := classifyError(nil, queue.Failure{Kind: kind}); got.Outcome != queue.OutcomeRetryable {
			t.Errorf("%s is %s, want retryable", kind, got.Outcome)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"one line of several":                {"a\r\n\tb\n\nc\n", "a b c"},
		"no control characters":              {"a\x00b\x1b[31mred\x7f", "a b [31mred"},
		"nothing that turns the text around": {"a\u202eb\u200bc", "a b c"},
		"what is no UTF-8 shows as such":     {"a\xff\xfeb", "a\uFFFDb"},
		"letters of any language stay":       {"größer 大", "größer 大"},
		"nothing":                            {" \n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := line([]byte(tt.in)); got != tt.want {
				t.Errorf("line(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	long := line([]byte("x" + strings.Repeat("ß", queue.MaxErrorMessage)))
	if len(long) != queue.MaxErrorMessage-1 || !utf8.ValidString(long) {
		t.Errorf("a long line has %d bytes, valid %v, want %d bytes cut between characters", len(long), utf8.ValidString(long), queue.MaxErrorMessage-1)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	valid := func() Config { return Config{Queue: "orders", URL: "https://x/y?z=1", AttemptTimeout: 1} }
	if err := valid().Validate(); err != nil {
		t.Fatalf("a valid config is refused: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"another scheme":            {func(c *Config) { c.URL = "ftp://x" }, "http or https"},
		"no host":                   {func(c *Config) { c.URL = "http:///x" }, "with a host"},
		"user information":          {func(c *Config) { c.URL = "http://u:secret@x" }, "user information"},
		"a fragment":                {func(c *Config) { c.URL = "http://x#y" }, "fragment"},
		"no URL":                    {func(c *Config) { c.URL = "http://u:secret@%zz" }, "must be a URL"},
		"no timeout":                {func(c *Config) { c.AttemptTimeout = 0 }, "attemptTimeout"},
		"a header of our own":       {func(c *Config) { c.Headers = []queue.Header{{Name: "retryQueue-attempt"}} }, "retryQueue-attempt"},
		"a header of the signature": {func(c *Config) { c.Headers = []queue.Header{{Name: "webhook-id"}} }, "webhook-id"},
		"a header of the transport": {func(c *Config) { c.Headers = []queue.Header{{Name: "transfer-encoding"}} }, "transfer-encoding"},
		"a header with a line end":  {func(c *Config) { c.Headers = []queue.Header{{Name: "A", Value: "b\r\nC: d"}} }, "control characters"},
		"an unknown action":         {func(c *Config) { c.Rules = []Rule{{Name: "r", Action: "Ignore"}} }, "Succeed, Retry or Fail"},
		"an unknown status":         {func(c *Config) { c.Rules = []Rule{{Name: "r", Action: ActionFail, Statuses: []string{"6xx"}}} }, "409 or 5xx"},
		"an unknown class of error": {func(c *Config) { c.Rules = []Rule{{Name: "r", Action: ActionFail, Errors: []string{"DNS"}}} }, "Timeout, Connection or TLS"},
		"success without an answer": {func(c *Config) { c.Rules = []Rule{{Name: "r", Action: ActionSucceed, Errors: []string{KindTimeout}}} }, "success"},
		"signed without a key":      {func(c *Config) { c.Signed = true }, "at least one key"},
		"an empty key":              {func(c *Config) { c.SigningKeys = [][]byte{{}} }, "must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := valid()
			tt.change(&c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want one that says %q", err, tt.says)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows a password: %v", err)
			}
		})
	}
}
