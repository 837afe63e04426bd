package queue

import (
	"reflect"
	"testing"
)

func testRedrive() RedriveSpec {
	return RedriveSpec{
		UID: "u", Name: "n", SpecDigest: "s", QueueUID: "q", Limit: 500,
		Selector: Selector{
			DiedAfter: 1, DiedBefore: 2, Reasons: []Reason{ReasonExhausted, ReasonPermanent}, HTTPStatuses: []string{"503", "5xx"},
			Fingerprints: []string{"f", "g"}, IDs: []string{"a", "b"},
		},
		Rate: Rate{Jobs: 10, Per: 1000, Burst: 5}, Budget: RedriveBudget{MaxAttempts: 2, Deadline: 60_000},
		Canary: Canary{Jobs: 10, MaxFailurePercent: 10, Timeout: 120_000}, Abort: Abort{MaxFailurePercent: 20, MinJobs: 20},
		MaxOutstanding: 200, MaxRedrives: 3, TargetDigest: "t",
	}
}

func testItems() [32]byte {
	d := NewItemsDigest()
	d.Add(1, "a", [32]byte{1})
	d.Add(2, "b", [32]byte{2})
	return d.Sum()
}

// Whatever field is added to a RedriveSpec: a plan that differs in it must have another hash.
func TestPlanHashCoversEveryField(t *testing.T) {
	t.Parallel()
	base := PlanHash("store", testRedrive(), testItems(), 2)
	var walk func(path string, at func(*RedriveSpec) reflect.Value)
	walk = func(path string, at func(*RedriveSpec) reflect.Value) {
		spec := testRedrive()
		v := at(&spec)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, func(s *RedriveSpec) reflect.Value { return at(s).Field(i) })
			}
			return
		case reflect.Slice:
			v.Set(v.Slice(0, 1))
		case reflect.String:
			v.SetString(v.String() + "x")
		default:
			v.SetInt(v.Int() + 1)
		}
		if PlanHash("store", spec, testItems(), 2) == base {
			t.Errorf("%s is not covered by the hash", path)
		}
	}
	walk("spec", func(s *RedriveSpec) reflect.Value { return reflect.ValueOf(s).Elem() })
}

func TestPlanHash(t *testing.T) {
	t.Parallel()
	base := PlanHash("store", testRedrive(), testItems(), 2)
	reordered := testRedrive()
	reordered.Selector.IDs = []string{"b", "a", "b"}
	items := func(add func(*ItemsDigest)) [32]byte {
		d := NewItemsDigest()
		add(d)
		return d.Sum()
	}
	tests := map[string]struct {
		got  string
		same bool
	}{
		"the same plan":                    {PlanHash("store", testRedrive(), testItems(), 2), true},
		"the order of a set":               {PlanHash("store", reordered, testItems(), 2), true},
		"another store":                    {PlanHash("other", testRedrive(), testItems(), 2), false},
		"another count":                    {PlanHash("store", testRedrive(), testItems(), 3), false},
		"another death of one job":         {PlanHash("store", testRedrive(), items(func(d *ItemsDigest) { d.Add(1, "a", [32]byte{1}); d.Add(3, "b", [32]byte{2}) }), 2), false},
		"other content of one job":         {PlanHash("store", testRedrive(), items(func(d *ItemsDigest) { d.Add(1, "a", [32]byte{1}); d.Add(2, "b", [32]byte{3}) }), 2), false},
		"another order of items":           {PlanHash("store", testRedrive(), items(func(d *ItemsDigest) { d.Add(2, "b", [32]byte{2}); d.Add(1, "a", [32]byte{1}) }), 2), false},
		"names that run into each other":   {PlanHash("storeq", RedriveSpec{}, [32]byte{}, 0), false},
		"the last items are not left out":  {PlanHash("store", testRedrive(), items(func(d *ItemsDigest) { d.Add(1, "a", [32]byte{1}) }), 2), false},
		"a plan of nothing has a hash too": {PlanHash("store", testRedrive(), NewItemsDigest().Sum(), 0), false},
	}
	for name, tt := range tests {
		if same := tt.got == base; same != tt.same {
			t.Errorf("%s: the same hash: %v, want %v", name, same, tt.same)
		}
	}
	if a, b := PlanHash("storeq", RedriveSpec{}, [32]byte{}, 0), PlanHash("store", RedriveSpec{QueueUID: "q"}, [32]byte{}, 0); a == b {
		t.Error("fields run into each other")
	}
	if want := "sha256:39f9fc6ff4dba895d097f987eefbd81a03af8789361d42d4ded45bc546cc6c5f"; base != want {
		t.Errorf("PlanHash = %s, want %s: approvals name it", base, want)
	}
}

func TestRedriveSpecValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*RedriveSpec)
		ok     bool
	}{
		"a full spec":                        {func(*RedriveSpec) {}, true},
		"no uid":                             {func(s *RedriveSpec) { s.UID = "" }, false},
		"no name":                            {func(s *RedriveSpec) { s.Name = "" }, false},
		"no limit":                           {func(s *RedriveSpec) { s.Limit = 0 }, false},
		"the largest limit":                  {func(s *RedriveSpec) { s.Limit = MaxRedriveLimit }, true},
		"a larger limit":                     {func(s *RedriveSpec) { s.Limit = MaxRedriveLimit + 1 }, false},
		"no rate":                            {func(s *RedriveSpec) { s.Rate.Jobs = 0 }, false},
		"too high a rate":                    {func(s *RedriveSpec) { s.Rate = Rate{Jobs: 100_001, Per: 86_400_000, Burst: 5} }, false},
		"no span":                            {func(s *RedriveSpec) { s.Rate.Per = 0 }, false},
		"a span of more than a day":          {func(s *RedriveSpec) { s.Rate.Per = 86_400_001 }, false},
		"the least burst":                    {func(s *RedriveSpec) { s.Rate.Burst = 2 }, true},
		"a burst that cannot keep the rate":  {func(s *RedriveSpec) { s.Rate.Burst = 1 }, false},
		"a fraction needs a whole job":       {func(s *RedriveSpec) { s.Rate = Rate{Jobs: 11, Per: 1000, Burst: 2} }, false},
		"a whole job for the fraction":       {func(s *RedriveSpec) { s.Rate = Rate{Jobs: 11, Per: 1000, Burst: 3} }, true},
		"no attempts":                        {func(s *RedriveSpec) { s.Budget.MaxAttempts = 0 }, false},
		"no deadline":                        {func(s *RedriveSpec) { s.Budget.Deadline = 0 }, false},
		"no canary":                          {func(s *RedriveSpec) { s.Canary = Canary{} }, true},
		"a negative canary":                  {func(s *RedriveSpec) { s.Canary.Jobs = -1 }, false},
		"a canary without a timeout":         {func(s *RedriveSpec) { s.Canary.Timeout = 0 }, false},
		"a canary's share over 100":          {func(s *RedriveSpec) { s.Canary.MaxFailurePercent = 101 }, false},
		"a negative share":                   {func(s *RedriveSpec) { s.Abort.MaxFailurePercent = -1 }, false},
		"no least number for an abort":       {func(s *RedriveSpec) { s.Abort.MinJobs = 0 }, false},
		"nothing may be outstanding":         {func(s *RedriveSpec) { s.MaxOutstanding = 0 }, false},
		"a queue that allows no redrives":    {func(s *RedriveSpec) { s.MaxRedrives = 0 }, false},
		"a selection of no time at all":      {func(s *RedriveSpec) { s.Selector.DiedAfter = 2 }, false},
		"a selection without bounds of time": {func(s *RedriveSpec) { s.Selector = Selector{} }, true},
	}
	for name, tt := range tests {
		s := testRedrive()
		tt.change(&s)
		if err := s.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRateEstimate(t *testing.T) {
	t.Parallel()
	r := Rate{Jobs: 3, Per: 1000, Burst: 2}
	for n, want := range map[int64]Millis{0: 0, 1: 0, 2: 0, 3: 334, 5: 1000, 302: 100_000} {
		if got := r.Estimate(n); got != want {
			t.Errorf("%d jobs: %d ms, want %d", n, got, want)
		}
	}
}
