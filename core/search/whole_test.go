package search

// ParseDocument is OpenDocument that rejects what AppendBinary does not write.
func ParseDocument(b []byte) (Document, error) {
	d, err := OpenDocument(b)
	if err == nil && !d.wellFormed() {
		err = errDocument
	}
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// wellFormed reports whether the lists are as AppendBinary writes them.
func (d Document) wellFormed() bool {
	r := reader{rest: d.lists}
	last := -1
	for len(r.rest) > 0 {
		at := max(last, 0) + r.number(1<<32-1)
		if at <= last || at >= 1<<32 || !d.has(place(at)) {
			return false
		}
		last = at
		words := r.number(maxEntries)
		number := 0
		for range words {
			gap := r.number(1<<32 - 1)
			if number += gap; gap == 0 || number >= 1<<32 {
				return false
			}
		}
		if words == 0 || r.failed {
			return false
		}
	}
	return true
}
