package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// soundResultID is the check that names the fault of a sample whose plain call
// already fails, and quietID the one that names noise in the replies. The
// checks after them leave out what cannot be judged any more, so that one
// fault is named once.
const (
	soundResultID = "call/sound-result"
	quietID       = "process/quiet-stdout"
)

// found is what earlier checks found that later ones must not find again, and
// what the check that runs has left out. It is safe for concurrent use.
type found struct {
	mu      sync.Mutex // guards the fields below
	unsound []string
	noisy   bool
	silent  string   // what was called when there was no answer; empty: there always was
	leftOut []string // by the check that runs, each once
}

// note changes what was found. Without anything to remember it in it does nothing.
func (f *found) note(change func()) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// blame notes that the plain call of a sample fails.
func (f *found) blame(sample string) { f.note(func() { f.unsound = append(f.unsound, sample) }) }

func (f *found) blamed(sample string) (blamed bool) {
	f.note(func() { blamed = slices.Contains(f.unsound, sample) })
	return blamed
}

// setHung notes a call that got no answer.
func (f *found) setHung(method string) { f.note(func() { f.silent = method }) }

// hung is the method that got no answer, or empty.
func (f *found) hung() (method string) {
	f.note(func() { method = f.silent })
	return method
}

func (f *found) setNoisy() { f.note(func() { f.noisy = true }) }

func (f *found) isNoisy() (noisy bool) {
	f.note(func() { noisy = f.noisy })
	return noisy
}

// leaveOut notes a sample that the check that runs leaves out.
func (f *found) leaveOut(sample, why string) {
	f.note(func() { f.leftOut = appendNew(f.leftOut, fmt.Sprintf("sample %q: %s", sample, why)) })
}

// left returns what was left out since it was asked last.
func (f *found) left() (lines []string) {
	f.note(func() { lines, f.leftOut = f.leftOut, nil })
	return lines
}

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// samplesBelow are the samples that a check can work with: those whose plain
// call is sound and, of a check that makes many calls of each, that are not
// very large. Bytes of 0 mean any size.
func (s Subject) samplesBelow(bytes int) []Sample {
	var out []Sample
	for _, sample := range s.everything() {
		switch size := documentBytes(sample.Request); {
		case s.found.blamed(sample.Name):
			s.found.leaveOut(sample.Name, "it fails "+soundResultID)
		case bytes > 0 && size > bytes:
			s.found.leaveOut(sample.Name, fmt.Sprintf("its %d bytes are too many for a check of many calls", size))
		default:
			out = append(out, sample)
		}
	}
	return out
}

// usable are the samples of any size whose plain call is sound.
func (s Subject) usable() []Sample { return s.samplesBelow(0) }

// manyTimes is the size up to which a sample is called again and again.
const manyTimes = 1 << 20 // bytes

// light are the samples that can be called again and again.
func (s Subject) light() []Sample { return s.samplesBelow(manyTimes) }

// documentBytes is about the size of a request.
func documentBytes(request any) int {
	switch req := request.(type) {
	case driver.ValidateRequest:
		return len(req.Challenge)
	case driver.AdvanceRequest:
		n := len(req.Challenge) + len(req.State.Data)
		for _, a := range req.Answers {
			n += len(a.Value)
		}
		return n
	case driver.RenderRequest:
		return len(req.Input.Schema) + len(req.Input.Display)
	case driver.InterpretRequest:
		return len(req.Raw) + len(req.Input.Schema) + len(req.Input.Display)
	}
	return 0
}

// nothingUsable says why a check has no sample to work with.
func nothingUsable(s Subject) error {
	if len(s.everything()) == 0 {
		return skip("there are no samples", "samples")
	}
	return skip("no sample is left: each fails "+soundResultID+" or is very large", "a small sample that passes "+soundResultID)
}

// allBlamed reports whether there are samples of the kind of request and the
// plain call of every one of them fails.
func allBlamed[Req any](s Subject) bool {
	any := false
	for _, sample := range s.everything() {
		if _, ok := sample.Request.(Req); !ok {
			continue
		}
		if !s.found.blamed(sample.Name) {
			return false
		}
		any = true
	}
	return any
}

// eachSample runs a check on every sample that is sound, derived ones included.
func (s Subject) eachSample(ctx context.Context, check func(Sample) error) error {
	return eachOf(ctx, s, s.usable(), check)
}

// eachLight is eachSample without the very large ones.
func (s Subject) eachLight(ctx context.Context, check func(Sample) error) error {
	return eachOf(ctx, s, s.light(), check)
}

func eachOf(ctx context.Context, s Subject, samples []Sample, check func(Sample) error) error {
	if len(samples) == 0 {
		return nothingUsable(s)
	}
	_, err := each(ctx, samples, check)
	return err
}

// errPassedOver says that a sample does not show what the check is about.
var errPassedOver = errors.New("passed over")

// each runs a check on samples and reports whether one showed what it is about. When
// ctx ends it stops, and what the last one came to is nobody's fault.
func each(ctx context.Context, samples []Sample, check func(Sample) error) (shown bool, err error) {
	var errs []error
	for _, sample := range samples {
		err := check(sample)
		if ctx.Err() != nil {
			return true, errors.Join(append(errs, context.Cause(ctx))...)
		}
		if errors.Is(err, errPassedOver) {
			continue
		}
		shown = true
		if err != nil {
			errs = append(errs, fmt.Errorf("sample %q: %w", sample.Name, err))
		}
		if errors.Is(err, errGone) { // the others would fail for that alone
			break
		}
	}
	return shown, errors.Join(errs...)
}

// eachRequest runs a check on the samples of one kind of request. A check that
// returns errPassedOver for all of them could not run; give says what would
// make it run.
func eachRequest[Req any](ctx context.Context, s Subject, give string, check func(Req) error) error {
	if allBlamed[Req](s) {
		return nothingUsable(s)
	}
	shown, err := each(ctx, s.usable(), func(sample Sample) error {
		if req, ok := sample.Request.(Req); ok {
			return check(req)
		}
		return errPassedOver
	})
	if !shown {
		return skip("no sample shows it", give)
	}
	return err
}

// leftOutNote is what a result says about samples that its check left out.
func leftOutNote(left []string) string {
	if len(left) == 0 {
		return ""
	}
	return "left out: " + strings.Join(left, "; ")
}
