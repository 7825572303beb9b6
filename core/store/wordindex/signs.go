package wordindex

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/search"
)

// The limits of a search by vectors.
const (
	// nearBatch is how many vectors are read from the file at a time, those with the
	// most signs in common with the query first.
	nearBatch = 300
	// nearEnough is how many visible ones are enough.
	nearEnough = 100
	// nearMost is where a search stops if few vectors of a large file are visible;
	// below nearFew chains their vectors are looked up first.
	nearMost = 12 * nearBatch
	nearFew  = 1000
	// nearSample is the size of the sample that represents all vectors.
	nearSample = 256
)

// near is the step of a chain whose vector is nearest to the query's.
type near struct {
	score float64 // calibrated
	step  int
}

// sense finds the chains with similar embeddings.
func (l *lookup) sense(q library.Query) error {
	switch {
	case q.Near != nil:
		return l.takeNear(*q.Near)
	case q.Embedding != nil:
		return l.compareVectors(q.Embedding)
	}
	return nil
}

// takeNear takes over what an index found.
func (l *lookup) takeNear(n library.Near) error {
	best := map[int64]cosine{}
	err := l.reader.Near(n.Steps, l.numbers(), func(i int, id int64, step int) error {
		keepBest(best, id, cosine{n.Steps[i].Cosine, step})
		return nil
	})
	l.calibrate(best, search.BackgroundOf(n.Random))
	return err
}

// calibrate turns cosines into scores.
func (l *lookup) calibrate(cosines map[int64]cosine, background search.Background) {
	l.near = map[int64]near{}
	for id, c := range cosines {
		if score := background.Score(c.cosine); score > 0 {
			l.near[id] = near{score, c.step}
		}
	}
}

// compareVectors compares the query with the stored vectors. Those of another model
// than the query's are ignored.
func (l *lookup) compareVectors(e *library.Embedding) error {
	model, length, err := l.reader.Model(e.Model)
	if err != nil || length != len(e.Vector) {
		return err
	}
	x := &l.index.signs
	if err := x.refresh(l.reader, model, length); err != nil {
		return err
	}
	keys, background, err := l.nearestSigns(x, model, e.Vector)
	if err != nil {
		return err
	}
	cosines, err := l.cosines(keys, model, e.Vector)
	l.calibrate(cosines, background)
	return err
}

// nearestSigns returns the keys of the candidate vectors, those with the most
// signs in common with the query first.
func (l *lookup) nearestSigns(x *signIndex, model int64, vector []float32) ([]int64, search.Background, error) {
	var only []int64
	few := 0
	for _, space := range l.spaces {
		few += space.Chains
	}
	if few <= nearFew && x.size() > nearMost {
		var err error
		if only, err = l.reader.VectorKeys(l.numbers()); err != nil {
			return nil, search.Background{}, err
		}
	}
	keys, background := x.nearest(model, vector, only)
	return keys, background, nil
}

func (l *lookup) numbers() []int64 {
	var all []int64
	for _, space := range l.spaces {
		all = append(all, space.Number)
	}
	return all
}

// cosine of the best step of a chain.
type cosine struct {
	cosine float64
	step   int
}

// keepBest keeps the nearest step of each chain, the first of equal ones.
func keepBest(best map[int64]cosine, id int64, c cosine) {
	if b, ok := best[id]; !ok || c.cosine > b.cosine || c.cosine == b.cosine && c.step < b.step {
		best[id] = c
	}
}

// cosines reads vectors until enough belong to visible chains.
func (l *lookup) cosines(keys []int64, model int64, vector []float32) (map[int64]cosine, error) {
	best := map[int64]cosine{}
	seen := 0
	for batch := range slices.Chunk(keys, nearBatch) {
		err := l.reader.VectorsOf(batch, model, l.numbers(), func(id int64, step int, raw []byte) error {
			seen++
			keepBest(best, id, cosine{search.Cosine(vector, ParseVector(raw)), step})
			return nil
		})
		if err != nil || seen >= nearEnough {
			return best, err
		}
	}
	return best, nil
}

// signIndex holds the signs of all vectors of one model in memory: for 1024
// dimensions 128 bytes and some 40 more each.
type signIndex struct {
	mu     sync.RWMutex // guards the fields below
	model  int64
	words  int // of 64 signs, a vector
	last   int64
	keys   []int64
	signs  []uint64
	at     map[int64]int // of a key, in keys
	clean  int           // number of keys after the last compaction
	sample [][]float32
}

func (x *signIndex) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.keys)
}

// refresh reads the signs that were added since.
func (x *signIndex) refresh(r Reader, model int64, length int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.model != model {
		x.reset(model, length)
	}
	before := len(x.keys)
	if err := x.read(r); err != nil {
		return err
	}
	if len(x.keys) > x.clean+x.clean/8 && len(x.keys) > before {
		if err := x.compact(r, length); err != nil {
			return err
		}
	}
	return nil
}

func (x *signIndex) reset(model int64, length int) {
	x.model, x.words, x.last, x.clean = model, (length+63)/64, 0, 0
	x.keys, x.signs, x.at, x.sample = nil, nil, map[int64]int{}, nil
}

func (x *signIndex) read(r Reader) error {
	return r.Signs(x.model, x.last, func(id, key int64, raw []byte) error {
		x.last = id
		signs := parseSigns(raw, x.words)
		if i, ok := x.at[key]; ok {
			copy(x.signs[i*x.words:], signs)
			return nil
		}
		x.at[key] = len(x.keys)
		x.keys, x.signs = append(x.keys, key), append(x.signs, signs...)
		return nil
	})
}

// compact rebuilds the index if many of the vectors are gone, and takes a new
// sample.
func (x *signIndex) compact(r Reader, length int) error {
	stored, err := r.CountSigns(x.model)
	if err != nil {
		return err
	}
	if len(x.keys) > stored+stored/8 {
		x.reset(x.model, length)
		if err := x.read(r); err != nil {
			return err
		}
	}
	x.clean, x.sample = len(x.keys), nil
	var keys []int64
	for i := range min(nearSample, len(x.keys)) {
		keys = append(keys, x.keys[i*len(x.keys)/min(nearSample, len(x.keys))])
	}
	return r.Vectors(keys, func(raw []byte) error {
		x.sample = append(x.sample, ParseVector(raw))
		return nil
	})
}

// nearest returns the keys with the most signs in common, at most nearMost, of all
// vectors or only of some, and the background of the query.
func (x *signIndex) nearest(model int64, vector []float32, only []int64) ([]int64, search.Background) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.model != model {
		return nil, search.Background{} // another search has switched the model
	}
	signs := signsOf(vector)
	positions := x.positions(only)
	// Counting sort: there are few distances.
	distances := make([]int32, len(positions))
	starts := make([]int, 64*x.words+2)
	for i, at := range positions {
		d := distance(signs, x.signs[at*x.words:(at+1)*x.words])
		distances[i] = d
		starts[d+1]++
	}
	for d := range starts[1:] {
		starts[d+1] += starts[d]
	}
	keys := make([]int64, len(positions))
	for i, at := range positions {
		keys[starts[distances[i]]] = x.keys[at]
		starts[distances[i]]++
	}
	var cosines []float64
	for _, s := range x.sample {
		cosines = append(cosines, search.Cosine(vector, s))
	}
	return keys[:min(nearMost, len(keys))], search.BackgroundOf(cosines)
}

func (x *signIndex) positions(only []int64) []int {
	var all []int
	if only == nil {
		all = make([]int, len(x.keys))
		for i := range all {
			all[i] = i
		}
		return all
	}
	for _, key := range only {
		if i, ok := x.at[key]; ok {
			all = append(all, i)
		}
	}
	return all
}

func distance(a, b []uint64) int32 {
	n := 0
	for i := range b {
		n += bits.OnesCount64(a[i] ^ b[i])
	}
	return int32(n)
}

func signsOf(vector []float32) []uint64 {
	signs := make([]uint64, (len(vector)+63)/64)
	for i, x := range vector {
		if x < 0 {
			signs[i/64] |= 1 << (i % 64)
		}
	}
	return signs
}

// Signs returns the signs of a vector as they are stored.
func Signs(vector []float32) []byte {
	signs := signsOf(vector)
	raw := make([]byte, 0, 8*len(signs))
	for _, s := range signs {
		raw = binary.LittleEndian.AppendUint64(raw, s)
	}
	return raw
}

// FormatVector returns a vector as it is stored: 32-bit floats, little endian.
func FormatVector(vector []float32) []byte {
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return raw
}

// ParseVector reads what FormatVector wrote.
func ParseVector(raw []byte) []float32 {
	vector := make([]float32, len(raw)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return vector
}

// parseSigns returns this many words, whatever is stored.
func parseSigns(raw []byte, words int) []uint64 {
	signs := make([]uint64, words)
	for i := range signs {
		if len(raw) >= 8*(i+1) {
			signs[i] = binary.LittleEndian.Uint64(raw[8*i:])
		}
	}
	return signs
}
