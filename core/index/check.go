package index

import (
	"context"
	"time"
)

// Report says how an index differs from the database.
type Report struct {
	Protocols int      `json:"protocols"`
	Steps     int      `json:"steps"`
	Missing   int      `json:"missing"` // steps that the index lacks
	Wrong     int      `json:"wrong"`   // steps that differ
	Stray     int      `json:"stray"`   // points that no protocol has
	Of        []string `json:"of"`      // space and title of protocols with such steps, some of them
}

// Good reports whether index and database agree.
func (r Report) Good() bool { return r.Missing == 0 && r.Wrong == 0 && r.Stray == 0 }

// maxListed bounds Report.Of.
const maxListed = 20

// Compare brings the index up to date and compares every step with the database.
func (f *Feeder) Compare(ctx context.Context, did func(protocols int)) (Report, error) {
	r := Report{Of: []string{}}
	if err := f.Deliver(ctx); err != nil {
		return r, err
	}
	found := 0
	for cursor := ""; ; {
		entries, next, err := f.store.Entries(ctx, cursor, batch)
		if err != nil {
			return r, err
		}
		d, err := f.compare(ctx, entries)
		if err == nil && len(d.Protocols) > 0 {
			d, err = f.again(ctx, d)
		}
		if err != nil {
			return r, err
		}
		r.Protocols += len(entries)
		found += r.add(d)
		did(len(entries))
		if cursor = next; next == "" {
			break
		}
	}
	all, err := f.index.Count(ctx)
	r.Stray = max(0, all-found)
	return r, err
}

func (f *Feeder) compare(ctx context.Context, entries []Entry) (Difference, error) {
	m, err := f.open(ctx)
	if err != nil {
		return Difference{}, err
	}
	documents, err := f.read(ctx, entries, m)
	if err != nil {
		return Difference{}, err
	}
	return f.index.Compare(ctx, documents)
}

// add adds a difference and returns how many steps the index has.
func (r *Report) add(d Difference) (found int) {
	found = d.Found
	r.Steps += d.Found
	for _, p := range d.Protocols {
		found += p.Found
		r.Steps, r.Missing, r.Wrong = r.Steps+p.Found+p.Missing, r.Missing+p.Missing, r.Wrong+p.Wrong
		if len(r.Of) < maxListed {
			r.Of = append(r.Of, p.Space+": "+p.Title)
		}
	}
	return found
}

// again compares protocols that differed once more: they may have been stored in
// between.
func (f *Feeder) again(ctx context.Context, before Difference) (Difference, error) {
	if err := f.Deliver(ctx); err != nil {
		return before, err
	}
	var entries []Entry
	for _, p := range before.Protocols {
		entries = append(entries, p.Entry)
	}
	d, err := f.compare(ctx, entries)
	d.Found += before.Found
	return d, err
}

// Rebuild removes the index and makes it again from the database. did is called
// with the number of protocols of each batch.
func (f *Feeder) Rebuild(ctx context.Context, did func(protocols int)) error {
	database, err := f.store.DatabaseID(ctx)
	if err != nil {
		return err
	}
	if err := f.index.Drop(ctx, database); err != nil {
		return err
	}
	f.mu.Lock()
	f.opened = time.Time{}
	f.mu.Unlock()
	return f.deliver(ctx, did)
}
