package driverhost

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	keptLines   = 200  // of a driver's output
	keptSamples = 1024 // durations of calls, by method
)

// Line is one cleaned line that a driver printed, or a message of the host about it.
type Line struct {
	At         time.Time `json:"at"`
	Generation int       `json:"generation"`
	Stream     string    `json:"stream"` // "stderr", "stdout" or "host"
	Level      string    `json:"level"`
	Text       string    `json:"text"`
}

// journal keeps statistics and output of a driver by name, over all its generations
// and sets. Its methods are safe for concurrent use.
type journal struct {
	mu         sync.Mutex // guards the fields below
	generation int        // of the latest start
	crashes    int
	calls      int64
	failures   int64
	repeats    int64
	fromMemory int64
	lastError  string
	lastAt     time.Time
	excess     MemoryExcess
	latency    map[string]*samples
	lines      []Line
	dropped    int // lines before these
}

// journals are those of a host, by driver name.
type journals struct {
	mu     sync.Mutex // guards the field below
	byName map[string]*journal
}

// of returns the journal of a driver and creates it if need be.
func (js *journals) of(name string) *journal {
	js.mu.Lock()
	defer js.mu.Unlock()
	j := js.byName[name]
	if j == nil {
		if js.byName == nil {
			js.byName = map[string]*journal{}
		}
		j = newJournal()
		js.byName[name] = j
	}
	return j
}

// find returns the journal of a driver, or nil if there never was one of the name.
func (js *journals) find(name string) *journal {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.byName[name]
}

func newJournal() *journal {
	return &journal{latency: map[string]*samples{}}
}

func (j *journal) nextGeneration() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.generation++
	return j.generation
}

func (j *journal) called(method string, took time.Duration, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.failures++
		j.lastError, j.lastAt = err.Error(), time.Now()
	}
	j.count(method, took)
}

// lost records a call under which the process died.
func (j *journal) lost(method string, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failures++
	j.count(method, took)
}

// count needs the lock.
func (j *journal) count(method string, took time.Duration) {
	j.calls++
	s := j.latency[method]
	if s == nil {
		s = &samples{}
		j.latency[method] = s
	}
	s.add(took)
}

func (j *journal) repeated() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.repeats++
}

func (j *journal) remembered() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fromMemory++
}

// crashed records an unexpected end of a process.
func (j *journal) crashed(cause error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.crashes++
	j.lastError, j.lastAt = "its process died: "+cause.Error(), time.Now()
}

// failed records a failed start.
func (j *journal) failed(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lastError, j.lastAt = err.Error(), time.Now()
}

// say keeps a line.
func (j *journal) say(l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == keptLines {
		j.lines = slices.Delete(j.lines, 0, 1)
		j.dropped++
	}
	j.lines = append(j.lines, l)
}

// note keeps a message of the host about the driver; generation 0: about none.
func (j *journal) note(generation int, level slog.Level, text string) {
	j.say(Line{At: time.Now(), Generation: generation, Stream: "host", Level: level.String(), Text: text})
}

// after returns the kept lines behind a position, oldest first, and the position behind
// them. A reader that is too slow misses lines.
func (j *journal) after(position int) (lines []Line, next int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	start := min(max(0, position-j.dropped), len(j.lines))
	return slices.Clone(j.lines[start:]), j.dropped + len(j.lines)
}

// samples are the latest durations of one method.
type samples struct {
	count  int64
	recent []time.Duration
}

func (s *samples) add(took time.Duration) {
	if len(s.recent) < keptSamples {
		s.recent = append(s.recent, took)
	} else {
		s.recent[s.count%keptSamples] = took
	}
	s.count++
}

// Latency is how long the calls of one method took, in milliseconds, over the
// latest 1024 of them; Count is of all.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func (s *samples) summary() Latency {
	sorted := slices.Sorted(slices.Values(s.recent))
	at := func(q float64) float64 {
		return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Microseconds()) / 1000
	}
	return Latency{Count: s.count, P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}
