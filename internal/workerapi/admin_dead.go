package workerapi

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/retryqueue/retryqueue/internal/queue"
)

// Query parameters of a selector. Those that pick values may be repeated.
var selectorParams = []string{"reason", "httpStatus", "fingerprint", "id", "diedAfter", "diedBefore"}

const (
	defaultDeadLimit   = 100
	maxDeadLimit       = 1000
	defaultGroupsLimit = 20
)

// Purged is the answer to DELETE /admin/v1/dead.
type Purged struct {
	Purged int `json:"purged"`
}

// DeadGroups is the answer to GET /admin/v1/dead/groups.
type DeadGroups struct {
	Groups []queue.DeadGroup `json:"groups"`
}

func (s *admin) dead(w http.ResponseWriter, r *http.Request, _ []string) error {
	values, selector, err := readSelector(r, "limit", "after")
	if err != nil {
		return err
	}
	q := queue.DeadQuery{Selector: selector}
	if q.Limit, err = intParam(values, "limit", defaultDeadLimit, 1, maxDeadLimit); err != nil {
		return err
	}
	after, err := intParam(values, "after", 0, 0, 1<<62)
	if err != nil {
		return err
	}
	q.After = int64(after)
	store, err := s.backend.Store()
	if err != nil {
		return err
	}
	page, err := store.DeadJobs(r.Context(), q)
	if err != nil {
		return err
	}
	if page.Jobs == nil {
		page.Jobs = []queue.Job{}
	}
	return writeJSON(w, http.StatusOK, page)
}

func (s *admin) deadGroups(w http.ResponseWriter, r *http.Request, _ []string) error {
	values, selector, err := readSelector(r, "limit")
	if err != nil {
		return err
	}
	limit, err := intParam(values, "limit", defaultGroupsLimit, 1, maxDeadLimit)
	if err != nil {
		return err
	}
	store, err := s.backend.Store()
	if err != nil {
		return err
	}
	groups, err := store.DeadGroups(r.Context(), selector, limit)
	if err != nil {
		return err
	}
	if groups == nil {
		groups = []queue.DeadGroup{}
	}
	return writeJSON(w, http.StatusOK, DeadGroups{Groups: groups})
}

func (s *admin) purge(w http.ResponseWriter, r *http.Request, _ []string) error {
	_, selector, err := readSelector(r)
	if err != nil {
		return err
	}
	if selector.Empty() {
		return invalid("selector", "purging must name what to delete; give at least one of reason, httpStatus, fingerprint, id, diedAfter, diedBefore")
	}
	store, err := s.backend.Store()
	if err != nil {
		return err
	}
	n, err := store.Purge(r.Context(), s.backend.Settings().Policy, selector)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, Purged{Purged: n})
}

var (
	statusPattern      = regexp.MustCompile(`^[1-5]([0-9][0-9]|xx)$`)
	fingerprintPattern = regexp.MustCompile(`^[!-~]{1,256}$`)
)

// readSelector reads the selector and refuses every other parameter but those of more.
func readSelector(r *http.Request, more ...string) (url.Values, queue.Selector, error) {
	var s queue.Selector
	values, err := params(r, slices.Concat(selectorParams, more)...)
	if err != nil {
		return nil, s, err
	}
	for _, name := range []string{"httpStatus", "fingerprint", "id", "reason"} {
		if len(values[name]) > queue.MaxSelectorValues {
			return nil, s, invalid(name, "must be given at most %d times", queue.MaxSelectorValues)
		}
	}
	for _, v := range values["reason"] {
		if !slices.Contains(queue.Reasons(), queue.Reason(v)) {
			return nil, s, invalid("reason", "must be one of Permanent, Exhausted, DeadlineExceeded")
		}
		s.Reasons = append(s.Reasons, queue.Reason(v))
	}
	for _, v := range values["httpStatus"] {
		if !statusPattern.MatchString(v) {
			return nil, s, invalid("httpStatus", `must be a status such as "503" or a class such as "5xx"`)
		}
	}
	for _, v := range values["fingerprint"] {
		if !fingerprintPattern.MatchString(v) {
			return nil, s, invalid("fingerprint", "must be a fingerprint as GET /admin/v1/dead/groups shows it")
		}
	}
	for _, v := range values["id"] {
		if v == "" || len(v) > queue.MaxIDLength {
			return nil, s, invalid("id", "must be 1 to %d bytes", queue.MaxIDLength)
		}
	}
	s.HTTPStatuses, s.Fingerprints, s.IDs = values["httpStatus"], values["fingerprint"], values["id"]
	return values, s, readTimes(values, &s)
}

func readTimes(values url.Values, s *queue.Selector) (err error) {
	if s.DiedAfter, err = timeParam(values, "diedAfter"); err != nil {
		return err
	}
	if s.DiedBefore, err = timeParam(values, "diedBefore"); err != nil {
		return err
	}
	if s.DiedAfter != 0 && s.DiedBefore != 0 && s.DiedBefore <= s.DiedAfter {
		return invalid("diedBefore", "must be after diedAfter")
	}
	return nil
}

// oneParam is the one value of a parameter; set is false without it.
func oneParam(values url.Values, name string) (value string, set bool, err error) {
	switch all := values[name]; len(all) {
	case 0:
		return "", false, nil
	case 1:
		return all[0], true, nil
	default:
		return "", true, invalid(name, "must be given once, not %d times", len(all))
	}
}

func timeParam(values url.Values, name string) (queue.Time, error) {
	value, set, err := oneParam(values, name)
	if err != nil || !set {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, invalid(name, "must be RFC 3339, such as 2026-09-06T12:00:00.000Z; write + as %2B")
	}
	return queue.TimeOf(t), nil
}

func intParam(values url.Values, name string, def, least, most int) (int, error) {
	value, set, err := oneParam(values, name)
	if err != nil || !set {
		return def, err
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, invalid(name, "must be a whole number from %d to %d", least, most)
	}
	return n, nil
}
