package sqlite

import "fmt"

// States of an item as they are stored.
const (
	itemPlanned = iota
	itemReleased
	itemFailing
	itemDelivered
	itemDied
	itemGone
)

var (
	sqlSetItems = inList(`update redrive_items set state = ? where rid = ? and pos in %s`)

	sqlAddOutcomes = `update redrives set failing = failing + ?, delivered = delivered + ?, died = died + ?,
		canary_delivered = canary_delivered + ?, canary_died = canary_died + ? where rid = ?`

	sqlStarted = `update redrives set unstarted = unstarted - ? where rid = ?`
)

// plan is what never changes of a redrive.
type plan struct {
	uid    string
	canary int64
}

// uid is that of the redrive rid, empty for 0.
func (s *Store) uid(rid int64) string { return s.plan(rid).uid }

func (s *Store) plan(rid int64) plan {
	if p, ok := s.plans.Load(rid); ok {
		return p.(plan)
	}
	return plan{}
}

// outcomes gathers what one operation did to the items of redrives, by rid.
type outcomes map[int64]*outcome

type outcome struct {
	items                       map[int][]int64 // state → positions
	failing, delivered, died    int64
	canaryDelivered, canaryDied int64
}

// add notes that r, which may have been released by a redrive, came to state. failing says whether an attempt
// of this budget had failed before.
func (o outcomes) add(s *Store, r *row, state int, failing bool) {
	if r.redrive == 0 || state == itemFailing && failing {
		return
	}
	d := o[r.redrive]
	if d == nil {
		d = &outcome{items: map[int][]int64{}}
		o[r.redrive] = d
	}
	d.items[state] = append(d.items[state], r.item)
	inCanary := r.item <= s.plan(r.redrive).canary
	switch state {
	case itemFailing:
		d.failing++
		return
	case itemDelivered:
		d.delivered++
		if inCanary {
			d.canaryDelivered++
		}
	case itemDied:
		d.died++
		if inCanary {
			d.canaryDied++
		}
	}
	if failing {
		d.failing--
	}
}

// writeOutcomes writes them, in the transaction of whatever caused them.
func (t *tx) writeOutcomes(o outcomes) error {
	for rid, d := range o {
		for state, positions := range d.items {
			if err := t.setItems(rid, state, positions); err != nil {
				return err
			}
		}
		if _, err := t.exec(sqlAddOutcomes, d.failing, d.delivered, d.died, d.canaryDelivered, d.canaryDied, rid); err != nil {
			return fmt.Errorf("counting the outcomes of a redrive: %w", err)
		}
	}
	return nil
}

func (t *tx) setItems(rid int64, state int, positions []int64) error {
	return padded(positions, func(_ []int64, args []any) error {
		if _, err := t.exec(sqlSetItems[len(args)], append([]any{state, rid}, args...)...); err != nil {
			return fmt.Errorf("writing the items of a redrive: %w", err)
		}
		return nil
	})
}

// starts counts released jobs that were claimed for the first time, or died before that, by rid.
type starts map[int64]int64

func (t *tx) started(n starts) error {
	for rid, k := range n {
		if _, err := t.exec(sqlStarted, k, rid); err != nil {
			return fmt.Errorf("counting the starts of a redrive: %w", err)
		}
	}
	return nil
}
