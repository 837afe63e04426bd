package queue

// Verdict is what the stop rules of a redrive say.
type Verdict string

const (
	// VerdictPass: go on.
	VerdictPass Verdict = "Pass"
	// VerdictHold: release nothing for now; what is on its way decides.
	VerdictHold Verdict = "Hold"
	// VerdictInconclusive: as Hold, and only a person can resume.
	VerdictInconclusive Verdict = "Inconclusive"
	// VerdictFail: stop for good.
	VerdictFail Verdict = "Fail"
)

// CanaryCount is how the canary's items fared.
type CanaryCount struct {
	Jobs      int64  // items in the canary: min(Canary.Jobs, selected), those gone included
	Gone      int64  // of these, gone
	Delivered int64  // of these, delivered
	Died      int64  // of these, dead again
	Waited    Millis // since the canary began, without the time that the breaker was open or the redrive suspended
}

// CanaryVerdict decides as soon as it can: with a = floor(jobs · MaxFailurePercent / 100) allowed deaths, Fail
// when more died, Pass when all but a are delivered. Till then Hold, and Inconclusive from the timeout on. Items
// that are gone make the canary smaller. Without a canary it passes.
func CanaryVerdict(c Canary, n CanaryCount) Verdict {
	jobs := max(n.Jobs-n.Gone, 0)
	allowed := jobs * c.MaxFailurePercent / 100
	switch {
	case n.Died > allowed:
		return VerdictFail
	case n.Delivered >= jobs-allowed:
		return VerdictPass
	case n.Waited >= c.Timeout:
		return VerdictInconclusive
	}
	return VerdictHold
}

// AbortCount is how the latest released items with at least one finished attempt fared; see [Abort.Window].
type AbortCount struct {
	Failing   int64 // failed at least once and unfinished
	Delivered int64
	Died      int64
}

// Window is over how many of the latest released and tried items [AbortVerdict] is to be asked.
func (a Abort) Window() int64 { return max(a.MinJobs, 100) }

// AbortVerdict is Fail when, of at least MinJobs finished, more than MaxFailurePercent died; Hold when, of at
// least MinJobs tried, more than that died or fail so far; else Pass. Fewer than MinJobs never stop a redrive:
// what they are waiting for would never be released.
func AbortVerdict(a Abort, n AbortCount) Verdict {
	finished, tried := n.Delivered+n.Died, n.Delivered+n.Died+n.Failing
	switch {
	case finished >= a.MinJobs && tooMany(n.Died, finished, a):
		return VerdictFail
	case tried >= a.MinJobs && tooMany(n.Died+n.Failing, tried, a):
		return VerdictHold
	}
	return VerdictPass
}

// tooMany says whether more than the allowed share of all is bad; equality is allowed.
func tooMany(bad, all int64, a Abort) bool { return bad*100 > all*a.MaxFailurePercent }
