package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// model is the name of the model of the cases. Its vectors have eight dimensions.
const (
	model      = "test/model/8"
	otherModel = "test/other/8"
)

var vectorCases = map[string]func(*testing.T, Protocols){
	"every passage is missing at first":           vectorsMissing,
	"a saved vector is known and not missing":     vectorsKnown,
	"an unchanged passage keeps its vector":       vectorsKept,
	"a removed passage loses its vector":          vectorsDropped,
	"a passage of two chains stays with either":   vectorsShared,
	"vectors of removed passages are dropped":     vectorsTooLate,
	"another model starts over":                   vectorsOfOtherModel,
	"another length starts over":                  vectorsOfOtherLength,
	"invalid vectors are refused":                 vectorsRefused,
	"a cancelled save of vectors changes nothing": vectorsCancelled,
}

// passages of chains by hash.
func passages(chains ...protocol.Chain) map[string]string {
	all := make(map[string]string)
	for _, c := range chains {
		for i := range c.Steps {
			text := c.Passage(i)
			all[protocol.PassageHash(text)] = text
		}
	}
	return all
}

// hashes of chains' passages, in order.
func hashes(chains ...protocol.Chain) []string {
	var all []string
	for _, c := range chains {
		for i := range c.Steps {
			all = append(all, protocol.PassageHash(c.Passage(i)))
		}
	}
	return all
}

func wantMissing(t *testing.T, s library.Vectors, model string, want map[string]string) {
	t.Helper()
	missing, err := s.Missing(t.Context(), model, 1000)
	if err != nil {
		t.Fatalf("Missing(%s) = %v, want nil", model, err)
	}
	got := make(map[string]string)
	for _, p := range missing {
		if _, twice := got[p.Hash]; twice {
			t.Errorf("Missing(%s) lists %s twice", model, p.Hash)
		}
		got[p.Hash] = p.Text
	}
	wantSame(t, fmt.Sprintf("Missing(%s)", model), want, got)
}

func wantKnown(t *testing.T, s library.Vectors, model string, want map[string][]float32, asked ...string) {
	t.Helper()
	wantRead(t, "Known("+model+")", want, cmpopts.EquateEmpty())(s.Known(t.Context(), model, asked))
}

// vectorsFor makes a vector of unit length for each of the hashes, different for
// every hash and seed.
func vectorsFor(seed float32, hashes ...string) map[string][]float32 {
	vectors := make(map[string][]float32)
	for _, hash := range hashes {
		v := make([]float32, 8)
		v[0] = seed
		sum := float64(seed * seed)
		for i := 1; i < len(v); i++ {
			v[i] = float32(hash[i]) / 256
			sum += float64(v[i] * v[i])
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(sum))
		}
		vectors[hash] = v
	}
	return vectors
}

func mustSaveVectors(t *testing.T, s library.Vectors, model string, vectors map[string][]float32) {
	t.Helper()
	if err := s.SaveVectors(t.Context(), model, vectors); err != nil {
		t.Fatalf("SaveVectors(%s) = %v, want nil", model, err)
	}
}

func vectorsMissing(t *testing.T, s Protocols) {
	wantMissing(t, s, model, map[string]string{})
	// The same chain in two spaces has the same passages.
	a, b := NewChain(mine, "A", "One", "Two"), NewChain(theirs, "A", "One", "Other")
	mustSave(t, s, a, b)
	wantMissing(t, s, model, passages(a, b))
	for _, limit := range []int{-1, 0, 1, 2, 3, 4} {
		got, err := s.Missing(t.Context(), model, limit)
		if want := min(max(limit, 0), 3); err != nil || len(got) != want {
			t.Errorf("Missing(limit %d) = %d, %v, want %d, nil", limit, len(got), err, want)
		}
	}
}

func vectorsKnown(t *testing.T, s Protocols) {
	c := NewChain(mine, "Known", "One", "Two", "Three")
	mustSave(t, s, c)
	all := hashes(c)
	first := vectorsFor(1, all[0], all[2])
	mustSaveVectors(t, s, model, first)
	wantKnown(t, s, model, first, append(all, protocol.PassageHash("never stored"))...)
	wantKnown(t, s, model, nil)
	wantMissing(t, s, model, map[string]string{all[1]: c.Passage(1)})
	second := vectorsFor(2, all[0], all[1]) // the first one again
	mustSaveVectors(t, s, model, second)
	wantKnown(t, s, model, map[string][]float32{all[0]: second[all[0]], all[1]: second[all[1]], all[2]: first[all[2]]}, all...)
	wantMissing(t, s, model, map[string]string{})
	mustSaveVectors(t, s, model, nil)
}

func vectorsKept(t *testing.T, s Protocols) {
	c := NewChain(mine, "Kept", "One", "Two", "Three")
	mustSave(t, s, c)
	vectors := vectorsFor(1, hashes(c)...)
	mustSaveVectors(t, s, model, vectors)
	changed := c
	changed.Steps = []protocol.Step{c.Steps[2], c.Steps[0], c.Steps[1]} // positions do not matter
	changed.Steps[2].Text = "## Two\n\nIn another way."
	mustReplace(t, s, changed, 1)
	wantMissing(t, s, model, map[string]string{protocol.PassageHash(changed.Passage(2)): changed.Passage(2)})
	all := hashes(c)
	wantKnown(t, s, model, map[string][]float32{all[0]: vectors[all[0]], all[2]: vectors[all[2]]}, all...)
}

func vectorsDropped(t *testing.T, s Protocols) {
	replaced, deleted := NewChain(mine, "Replaced", "One", "Two"), NewChain(mine, "Deleted", "One", "Two")
	mustSave(t, s, replaced, deleted)
	all := hashes(replaced, deleted)
	mustSaveVectors(t, s, model, vectorsFor(1, all...))
	mustReplace(t, s, NewChain(mine, "Replaced", "Other"), 1)
	mustDelete(t, s, deleted, 1)
	wantKnown(t, s, model, nil, all...)
	// Restored passages have no vector, and are missing.
	mustReplace(t, s, deleted, 0)
	wantMissing(t, s, model, passages(NewChain(mine, "Replaced", "Other"), deleted))
}

func vectorsShared(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "Shared", "One"), NewChain(theirs, "Shared", "One")
	mustSave(t, s, a, b)
	hash := hashes(a)[0]
	vectors := vectorsFor(1, hash)
	mustSaveVectors(t, s, model, vectors)
	mustDelete(t, s, a, 1)
	wantKnown(t, s, model, vectors, hash)
	mustDelete(t, s, b, 1)
	wantKnown(t, s, model, nil, hash)
}

// vectorsTooLate: between Missing and SaveVectors the protocol may change.
func vectorsTooLate(t *testing.T, s Protocols) {
	c := NewChain(mine, "Changes", "One", "Two")
	mustSave(t, s, c)
	late := vectorsFor(1, hashes(c)...)
	changed := NewChain(mine, "Changes", "One", "Other")
	mustReplace(t, s, changed, 1)
	late[protocol.PassageHash("never stored")] = late[hashes(c)[0]]
	mustSaveVectors(t, s, model, late)
	kept := hashes(c)[0]
	wantKnown(t, s, model, map[string][]float32{kept: late[kept]},
		append(hashes(c, changed), protocol.PassageHash("never stored"))...)
	wantMissing(t, s, model, map[string]string{hashes(changed)[1]: changed.Passage(1)})
}

func vectorsOfOtherModel(t *testing.T, s Protocols) {
	c := NewChain(mine, "Model", "One", "Two")
	mustSave(t, s, c)
	all := hashes(c)
	mustSaveVectors(t, s, model, vectorsFor(1, all...))
	wantKnown(t, s, otherModel, nil, all...)
	wantMissing(t, s, otherModel, passages(c))
	other := vectorsFor(2, all...)
	mustSaveVectors(t, s, otherModel, map[string][]float32{all[0]: other[all[0]]})
	wantMissing(t, s, otherModel, map[string]string{all[1]: c.Passage(1)})
	mustSaveVectors(t, s, otherModel, map[string][]float32{all[1]: other[all[1]]})
	wantKnown(t, s, otherModel, other, all...)
	wantMissing(t, s, otherModel, map[string]string{})
}

func vectorsOfOtherLength(t *testing.T, s Protocols) {
	c := NewChain(mine, "Length", "One", "Two")
	mustSave(t, s, c)
	all := hashes(c)
	mustSaveVectors(t, s, model, vectorsFor(1, all...))
	long := map[string][]float32{all[0]: append(make([]float32, 15), 1)}
	mustSaveVectors(t, s, model, long)
	wantKnown(t, s, model, long, all...)
	wantMissing(t, s, model, map[string]string{all[1]: c.Passage(1)})
	long[all[1]] = slices.Clone(long[all[0]])
	mustSaveVectors(t, s, model, long)
	wantMissing(t, s, model, map[string]string{})
}

func vectorsRefused(t *testing.T, s Protocols) {
	c := NewChain(mine, "Refused", "One", "Two")
	mustSave(t, s, c)
	all := hashes(c)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, vectors := range map[string]map[string][]float32{
		"no numbers":  {all[0]: {}},
		"two lengths": {all[0]: {1, 2}, all[1]: {1, 2, 3}},
		"NaN":         {all[0]: {1, nan}},
		"infinite":    {all[0]: {1, inf}},
		"zeros":       {all[0]: {0, 0}},
		"not a hash":  {"hash": {1, 2}},
	} {
		wantCode(t, "SaveVectors("+name+")", s.SaveVectors(t.Context(), model, vectors), fault.InvalidArgument)
	}
	wantMissing(t, s, model, passages(c))
}

func vectorsCancelled(t *testing.T, s Protocols) {
	c := NewChain(mine, "Cancelled", "One")
	mustSave(t, s, c)
	wantCancelled(t, "SaveVectors(cancelled)", s.SaveVectors(cancelled(t), model, vectorsFor(1, hashes(c)...)))
	_, err := s.Missing(cancelled(t), model, 1)
	wantCancelled(t, "Missing(cancelled)", err)
	wantMissing(t, s, model, passages(c))
}
