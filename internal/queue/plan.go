package queue

import (
	"encoding/hex"
	"slices"
)

// ItemsDigest sums up the frozen items of a plan, which are added in order of release.
type ItemsDigest struct{ d digest }

// NewItemsDigest starts an empty one.
func NewItemsDigest() *ItemsDigest { return &ItemsDigest{newDigest("redrive-items/1")} }

// Add appends one item: a job, by the death it is to be replayed from and by its content.
func (i *ItemsDigest) Add(deadSeq int64, jobID string, contentSHA [32]byte) {
	i.d.number(deadSeq)
	i.d.text(jobID)
	i.d.bytes(contentSHA[:])
}

// Sum is the digest of what was added so far.
func (i *ItemsDigest) Sum() [32]byte { return i.d.sum() }

// PlanHash is what an approval names: it covers the store, everything in spec, and the count frozen items.
// Any difference in what would be replayed, how fast, how often, where to, or when it stops is another hash.
func PlanHash(storeID string, spec RedriveSpec, items [32]byte, count int64) string {
	d := newDigest("redrive-plan/1")
	for _, s := range []string{storeID, spec.QueueUID, spec.UID, spec.Name, spec.SpecDigest, spec.TargetDigest} {
		d.text(s)
	}
	spec.Selector.digest(d)
	d.numbers(spec.Limit, count)
	d.bytes(items[:])
	d.numbers(int64(spec.Budget.MaxAttempts), int64(spec.Budget.Deadline))
	d.numbers(spec.Rate.Jobs, int64(spec.Rate.Per), spec.Rate.Burst)
	d.numbers(spec.Canary.Jobs, spec.Canary.MaxFailurePercent, int64(spec.Canary.Timeout))
	d.numbers(spec.Abort.MaxFailurePercent, spec.Abort.MinJobs)
	d.numbers(spec.MaxOutstanding, int64(spec.MaxRedrives))
	sum := d.sum()
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digest adds s; the order in which its sets are written does not matter.
func (s Selector) digest(d digest) {
	d.numbers(int64(s.DiedAfter), int64(s.DiedBefore))
	reasons := make([]string, len(s.Reasons))
	for i, r := range s.Reasons {
		reasons[i] = string(r)
	}
	for _, set := range [][]string{reasons, s.HTTPStatuses, s.Fingerprints, s.IDs} {
		set = slices.Clone(set)
		slices.Sort(set)
		d.texts(slices.Compact(set))
	}
}
