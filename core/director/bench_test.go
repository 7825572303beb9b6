package director_test

import (
	"testing"
)

// BenchmarkNext is the engine's and the store's own share of a kairos_next:
// its drivers cost nothing.
func BenchmarkNext(b *testing.B) {
	w := newWorld(b, nil)
	uris := w.mint(threeSteps)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		r := w.begin(uris[0])
		s := solve(r, `{"ok":true}`)
		b.StartTimer()
		w.next(uris[0], s)
	}
}
