package cache_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/cache"
)

func TestTheValueThatWasNotUsedForLongestIsEvicted(t *testing.T) {
	const each = 1000
	c := cache.New[string, int](20 * (each + 200))
	for i := range 20 {
		c.Put(fmt.Sprint(i), i, each)
	}
	c.Get("0")
	c.Put("new", 20, each)
	for key, want := range map[string]bool{"0": true, "1": false, "2": true, "19": true, "new": true} {
		if _, ok := c.Get(key); ok != want {
			t.Errorf("Get(%q) finds a value: %t, want %t", key, ok, want)
		}
	}
}

func TestAValueThatIsTooLargeEvictsNothing(t *testing.T) {
	c := cache.New[string, string](16 << 10)
	c.Put("small", "1", 100)
	c.Put("large", "2", 1<<10)
	if _, ok := c.Get("large"); ok {
		t.Error("a value larger than its share is kept")
	}
	if v, ok := c.Get("small"); !ok || v != "1" {
		t.Errorf("Get(small) = %q, %t, want the value that was there", v, ok)
	}
	c.Put("small", "3", 1<<10)
	if v, ok := c.Get("small"); ok {
		t.Errorf("Get(small) = %q, want that the replaced value is gone", v)
	}
}

// The model keeps every value and its size: what the cache returns is the last value,
// and all that it still has fits the limit.
func TestWhatIsKeptFitsTheLimitAndIsTheLastValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 20_000).Draw(t, "limit")
		c := cache.New[int, int](limit)
		last, sizes := map[int]int{}, map[int]int{}
		for i := range rapid.IntRange(1, 100).Draw(t, "puts") {
			key, size := rapid.IntRange(0, 20).Draw(t, "key"), rapid.IntRange(0, 2000).Draw(t, "size")
			c.Put(key, i, size)
			last[key], sizes[key] = i, size
			total := 0
			for key, want := range last {
				if got, ok := c.Get(key); ok && got != want {
					t.Fatalf("Get(%d) = %d, want the last value %d", key, got, want)
				} else if ok {
					total += sizes[key]
				}
			}
			if total > limit {
				t.Fatalf("%d bytes are kept, want at most %d", total, limit)
			}
		}
	})
}

func TestTheLimitIsAboutWhatIsReallyTaken(t *testing.T) {
	const limit = 4 << 20
	before := heap()
	c := cache.New[[32]byte, []byte](limit)
	for i := range 100_000 {
		var key [32]byte
		copy(key[:], fmt.Sprint(i))
		value := []byte(strings.Repeat("x", i%300))
		c.Put(key, value, len(key)+len(value))
	}
	if took := heap() - before; took < limit/2 || took > limit*3/2 {
		t.Errorf("the cache takes %d bytes, its limit is %d", took, limit)
	}
	runtime.KeepAlive(c)
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
