package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/retryqueue/retryqueue/internal/queue"
)

var planRules = rules{
	"a plan describes what will run": func(t *testing.T, e *env) {
		e.die(permanent(422, "invalid"), names("p", 30)...)
		one := newJob("x")
		one.MaxAttempts = 1
		e.accept(one)
		e.killPending(retryable(503, "busy"), 1)
		e.clock.Advance(77)
		s := spec("r1", everything())
		got := e.plan(s)
		if got.UID != "r1" || got.State != queue.RedrivePlanned || got.Summary.Hash == "" || got.RunUntil != 0 || got.StartedAt != 0 {
			t.Errorf("redrive %+v", got)
		}
		sum := got.Summary
		if sum.Matched != 31 || sum.Selected != 31 || len(sum.SampleIDs) == 0 || len(sum.SampleIDs) > 20 || sum.PlannedAt != Start+77 {
			t.Errorf("summary %+v", sum)
		}
		e.same("by reason", sum.ByReason, map[queue.Reason]int64{queue.ReasonPermanent: 30, queue.ReasonExhausted: 1})
		if len(sum.ByFingerprint) != 2 || sum.ByFingerprint[0].Count != 30 || sum.ByFingerprint[0].SampleError == nil {
			t.Errorf("by fingerprint %+v", sum.ByFingerprint)
		}
		if sum.Estimated < 2_000 || sum.Estimated > 3_200 {
			t.Errorf("estimated %s for 31 jobs at 10/s", sum.Estimated)
		}
		e.same("spec", got.Spec, s)
		e.same("progress", got.Progress, queue.RedriveProgress{Remaining: 31})
		e.same("read again", e.redrive("r1"), got)
	},
	"planning changes no job": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		before, stats := e.job("a"), e.stats()
		e.plan(spec("r1", everything()))
		e.same("job", e.job("a"), before)
		e.same("stats", e.stats(), stats)
	},
	"the limit takes the first in order of death and says how many it left out": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "z")
		e.die(permanent(422, "x"), "y")
		e.die(permanent(422, "x"), "a")
		s := spec("r1", everything())
		s.Limit = 2
		got := e.plan(s)
		if got.Summary.Matched != 3 || got.Summary.Selected != 2 || got.Summary.Skipped["Limit"] != 1 {
			t.Errorf("summary %+v", got.Summary)
		}
		e.same("sample", got.Summary.SampleIDs, []string{"z", "y"})
		e.finish("r1")
		e.same("still dead", e.deadIDs(queue.Selector{}), []string{"a"})
	},
	"jobs redriven as often as allowed are skipped and counted": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "often", "never")
		for i := range 2 {
			e.release(fmt.Sprint("r", i), ids("often"))
			e.settle(e.lease("often"), permanent(422, "again"))
		}
		if got := e.job("often").Redrives; got != 2 {
			t.Fatalf("redrives %d", got)
		}
		s := spec("r9", everything())
		s.MaxRedrives = 2
		got := e.plan(s)
		if got.Summary.Matched != 2 || got.Summary.Selected != 1 || got.Summary.Skipped["RedriveLimit"] != 1 {
			t.Errorf("summary %+v", got.Summary)
		}
		e.finish("r9")
		e.wantState(queue.Dead, "often")
		e.wantState(queue.Succeeded, "never")
	},
	"selectors pick the same as a listing does": func(t *testing.T, e *env) {
		for i := range 6 {
			e.die(permanent(400+i, fmt.Sprint("cause ", string(rune('a'+i)))), fmt.Sprintf("d-%d", i))
			e.clock.Advance(1)
		}
		for i, sel := range []queue.Selector{
			{DiedAfter: Start + 1, DiedBefore: Start + 3},
			{HTTPStatuses: []string{"401", "403"}},
			{HTTPStatuses: []string{"4xx"}, DiedAfter: Start + 4},
			{IDs: []string{"d-5", "d-0", "nobody"}},
			{Fingerprints: []string{e.job("d-2").Fingerprint}},
			{Reasons: []queue.Reason{queue.ReasonExhausted}},
		} {
			got := e.plan(spec(fmt.Sprint("r", i), sel))
			e.same(fmt.Sprint("selected by ", i), got.Summary.SampleIDs, e.deadIDs(sel))
		}
	},
	"a plan is made once for a uid: asked again, whatever the spec, the stored one is answered": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		first := e.plan(spec("r1", everything()))
		e.die(permanent(422, "x"), "b")
		e.same("same spec", e.plan(spec("r1", everything())), first)
		other := spec("r1", ids("b"))
		other.Limit, other.Name = 7, "other"
		e.same("other spec", e.plan(other), first)
		e.restart()
		e.same("after a restart", e.plan(spec("r1", everything())), first)
		e.finish("r1")
		e.wantState(queue.Dead, "b")
	},
	"a plan is frozen: jobs that die later are not in it": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		e.acceptIDs("b")
		l := e.lease("b")
		r := e.plan(spec("r1", everything()))
		e.settle(l, permanent(422, "x"))
		e.die(permanent(422, "x"), "c")
		got := e.finish("r1")
		if got.Summary.Hash != r.Summary.Hash || got.Progress.Delivered != 1 {
			t.Errorf("redrive %+v", got)
		}
		e.same("still dead", e.deadIDs(queue.Selector{}), []string{"b", "c"})
	},
	"a plan is frozen: a job that dies again is not released again by it": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), names("d", 10)...)
		e.plan(spec("r1", everything()))
		e.run("r1", 40, func(c queue.Claimed) { e.settleAll(c, permanent(422, "again")) })
		for _, id := range names("d", 10) {
			if j := e.job(id); j.State != queue.Dead || j.Redrives != 1 {
				t.Errorf("%s is %s after %d redrives", id, j.State, j.Redrives)
			}
		}
		e.wantProgress("r1", queue.RedriveProgress{Released: 10, DiedAgain: 10})
	},
	"no redrive of an unknown uid": func(t *testing.T, e *env) {
		if _, err := e.s.Redrive(t.Context(), "r1"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("Redrive: %v", err)
		}
		if _, err := e.s.PermitRedrive(t.Context(), queue.RedrivePermit{UID: "r1", Hash: "h", For: 1000}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("PermitRedrive: %v", err)
		}
		if _, err := e.s.CancelRedrive(t.Context(), "r1"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("CancelRedrive: %v", err)
		}
	},
	"an invalid spec is refused and nothing is planned": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a")
		for what, breakIt := range map[string]func(*queue.RedriveSpec){
			"no uid":             func(s *queue.RedriveSpec) { s.UID = "" },
			"uid of no header":   func(s *queue.RedriveSpec) { s.UID = "a\nb" },
			"uid too long":       func(s *queue.RedriveSpec) { s.UID = strings.Repeat("u", 254) },
			"no name":            func(s *queue.RedriveSpec) { s.Name = "" },
			"too many ids":       func(s *queue.RedriveSpec) { s.Selector.IDs = make([]string, 1001) },
			"no limit":           func(s *queue.RedriveSpec) { s.Limit = 0 },
			"limit too large":    func(s *queue.RedriveSpec) { s.Limit = 1_000_001 },
			"no rate":            func(s *queue.RedriveSpec) { s.Rate.Jobs = 0 },
			"rate too fast":      func(s *queue.RedriveSpec) { s.Rate.Jobs = 100_001 },
			"no period":          func(s *queue.RedriveSpec) { s.Rate.Per = 0 },
			"period too long":    func(s *queue.RedriveSpec) { s.Rate.Per = 86_400_001 },
			"burst too small":    func(s *queue.RedriveSpec) { s.Rate = queue.Rate{Jobs: 100, Per: 1000, Burst: 10} },
			"no attempts":        func(s *queue.RedriveSpec) { s.Budget.MaxAttempts = 0 },
			"no deadline":        func(s *queue.RedriveSpec) { s.Budget.Deadline = 0 },
			"no outstanding":     func(s *queue.RedriveSpec) { s.MaxOutstanding = 0 },
			"a malformed status": func(s *queue.RedriveSpec) { s.Selector.HTTPStatuses = []string{"5x"} },
		} {
			s := spec("bad", everything())
			breakIt(&s)
			if _, err := e.s.PlanRedrive(t.Context(), s); err == nil {
				t.Errorf("%s: taken", what)
			}
			if _, err := e.s.Redrive(t.Context(), s.UID); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("%s: planned all the same: %v", what, err)
			}
		}
	},
	"the hash changes with every field of the spec": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b")
		e.must(e.s.Close())
		base := spec("r1", everything())
		base.Canary = queue.Canary{Jobs: 1, MaxFailurePercent: 1, Timeout: 120_000}
		base.Abort = queue.Abort{MaxFailurePercent: 20, MinJobs: 20}
		seen := map[string]string{}
		check := func(what string, s queue.RedriveSpec) {
			c := e.copy()
			hash := c.plan(s).Summary.Hash
			if other, ok := seen[hash]; ok {
				t.Errorf("%s and %s have the same hash", what, other)
			}
			seen[hash] = what
		}
		check("the base", base)
		leaves(reflect.TypeFor[queue.RedriveSpec](), "", nil, func(path string, index []int) {
			s := base
			change(reflect.ValueOf(&s).Elem().FieldByIndex(index))
			check(path, s)
		})
		e.s = e.h.open(t, e.o)
	},
	"the hash is the same for the same plan of the same data, and another when an item differs": func(t *testing.T, e *env) {
		e.die(permanent(422, "x"), "a", "b")
		e.must(e.s.Close())
		one, two, three := e.copy(), e.copy(), e.copy()
		if a, b := one.plan(spec("r1", everything())).Summary.Hash, two.plan(spec("r1", everything())).Summary.Hash; a != b {
			t.Errorf("hashes %s and %s", a, b)
		}
		three.purge(ids("a"))
		three.die(permanent(422, "x"), "c")
		if a, b := one.redrive("r1").Summary.Hash, three.plan(spec("r1", everything())).Summary.Hash; a == b {
			t.Error("other items, same hash")
		}
		e.s = e.h.open(t, e.o)
	},
	"the hash is another in another store": func(t *testing.T, e *env) {
		other := newEnv(t, e.h)
		for _, x := range []*env{e, other} {
			x.die(permanent(422, "x"), "a")
		}
		if e.plan(spec("r1", everything())).Summary.Hash == other.plan(spec("r1", everything())).Summary.Hash {
			t.Error("same hash in two stores")
		}
	},
}

// copy opens a copy of the closed store of e.
func (e *env) copy() *env {
	e.t.Helper()
	c := *e
	c.o.Dir = dir(e.tb)
	e.h.copyData(e.tb, e.o.Dir, c.o.Dir)
	c.s = e.h.open(e.tb, c.o)
	s := c.s
	e.tb.Cleanup(func() { _ = s.Close() })
	return &c
}

// leaves calls visit for every field of t that is not a struct.
func leaves(t reflect.Type, path string, index []int, visit func(string, []int)) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int{}, index...), i)
		if f.Type.Kind() == reflect.Struct {
			leaves(f.Type, path+f.Name+".", at, visit)
			continue
		}
		visit(path+f.Name, at)
	}
}

// change makes v another value that is valid wherever the suite's spec has it.
func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		el := reflect.New(v.Type().Elem()).Elem()
		el.SetString("422")
		if v.Type().Elem() == reflect.TypeFor[queue.Reason]() {
			v.Set(v.Slice(0, v.Len()-1))
			return
		}
		v.Set(reflect.Append(v, el))
	default:
		panic("storetest: cannot change a " + v.Kind().String())
	}
}
