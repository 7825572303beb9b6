package wordindex

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
)

// maxDocuments and maxOutlines are how many bytes of each are cached.
const (
	maxDocuments = 4 << 20
	maxOutlines  = 4 << 20
)

// documentCache caches documents and the outlines of their chains. Its entries never
// become outdated: a chain that is stored again is another document.
type documentCache struct {
	documents *cache.Cache[int64, search.Document]
	outlines  *cache.Cache[int64, protocol.Chain]
}

func newDocumentCache() documentCache {
	return documentCache{cache.New[int64, search.Document](maxDocuments), cache.New[int64, protocol.Chain](maxOutlines)}
}

// eachKnown calls each for what is cached, and returns the ids of the others.
func eachKnown[V any](known *cache.Cache[int64, V], ids []int64, each func(int64, V)) (unread []int64) {
	for _, id := range ids {
		if v, ok := known.Get(id); ok {
			each(id, v)
		} else {
			unread = append(unread, id)
		}
	}
	return unread
}

// documentsOf reads documents, in no order.
func (l *lookup) documentsOf(ids []int64, each func(int64, search.Document)) error {
	known := l.index.found.documents
	unread := eachKnown(known, ids, each)
	if len(unread) == 0 {
		return nil
	}
	return l.reader.Documents(unread, func(id int64, raw []byte) error {
		d, err := search.OpenDocument(raw)
		if err != nil {
			return &Damage{"search document", fmt.Sprint(id), err}
		}
		known.Put(id, d, len(raw))
		each(id, d)
		return nil
	})
}

// outlinesOf reads the outlines of the chains of documents. Other searches have the
// same: they must not be modified.
func (l *lookup) outlinesOf(ids []int64) (map[int64]protocol.Chain, error) {
	known := l.index.found.outlines
	all := make(map[int64]protocol.Chain, len(ids))
	unread := eachKnown(known, ids, func(id int64, c protocol.Chain) { all[id] = c })
	if len(unread) == 0 {
		return all, nil
	}
	read, err := l.reader.Outlines(unread)
	if err == nil && len(read) < len(unread) {
		err = &Damage{"search index", "of protocols", errOrphan}
	}
	if err != nil {
		return nil, err
	}
	for id, c := range read {
		all[id] = c
		known.Put(id, c, c.Size())
	}
	return all, nil
}
