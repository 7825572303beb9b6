package drivertest_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// kitDriver makes a driver of the kit's tests with a fault, or without one.
type kitDriver struct {
	make    func(fault string) driver.Driver
	samples func(fault string) []sampleOf
	config  func(*testing.T) string
}

var kitDrivers = map[string]kitDriver{
	"counter": {counterDriver, counterSamples, always(counterConfig)},
	"desk":    {deskDriver, deskSamples, always(`{"polite":true}`)},
	"till":    {tillDriver, tillSamples, tillConfig},
	"notary":  {notaryDriver, notarySamples, always(`{}`)},
	"crane":   {craneDriver, craneSamples, always(`{}`)},
}

func always(config string) func(*testing.T) string { return func(*testing.T) string { return config } }

// written is the file of samples as their author would write it.
func written(t *testing.T, config string, samples []sampleOf) []byte {
	t.Helper()
	var all []map[string]any
	for _, s := range samples {
		all = append(all, map[string]any{"name": s.name, "method": s.method, "request": json.RawMessage(s.request), "want": s.want})
	}
	raw, err := json.Marshal(map[string]any{"config": json.RawMessage(config), "samples": all})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// file writes the samples and reads them back.
func file(t *testing.T, config string, samples []sampleOf) drivertest.SampleFile {
	t.Helper()
	f, err := drivertest.ParseSamples(written(t, config, samples))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const counterConfig = `{"min":2,"strict":true}`

// direct is the driver as a subject without a process.
func direct(t *testing.T, name, fault string) drivertest.Subject {
	t.Helper()
	k := kitDrivers[name]
	d := k.make(fault)
	s := drivertest.Subject{Descriptor: d.Descriptor, Challenge: d.Challenge, Capability: d.Capability}
	s.Configurer, _ = d.Challenge.(driver.Configurer)
	if d.Capability != nil {
		s.Configurer, _ = d.Capability.(driver.Configurer)
	}
	if c, ok := d.Challenge.(*counter); ok {
		t.Cleanup(func() { close(c.leaked) })
	}
	f := file(t, k.config(t), k.samples(fault))
	s.Samples, s.Config = f.Samples, f.Config
	if _, err := s.Configurer.Configure(t.Context(), s.Config, false); err != nil {
		t.Fatal(err)
	}
	return s
}

func verify(t *testing.T, s drivertest.Subject, opt drivertest.Options) drivertest.Report {
	t.Helper()
	opt.Soon = cmp.Or(opt.Soon, time.Minute)
	report, err := drivertest.Verify(t.Context(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// broken are the ids of the rules that a driver breaks, and text what is said about them.
func broken(r drivertest.Report) (ids []string, text string) {
	var b strings.Builder
	for _, result := range r.Results {
		if result.Status == drivertest.Failed || result.Status == drivertest.Warned {
			ids = append(ids, result.ID)
			b.WriteString(result.Line() + "\n")
		}
	}
	return ids, b.String()
}

// Faults that show in a driver called directly, each by the check that has to
// find it and no other. The part behind a comma names one of several faults of a
// check.
var directFaults = map[string][]string{
	"counter": {
		"descriptor/valid", "config/nonsense", "config/sound", "config/unknown-key", "config/wrong-type",
		"health/answers", "sample/outcome", "call/sound-result", "call/says-why", "call/repeatable", "call/concurrent",
		"call/cancelled", "call/hostile-input", "call/huge-input", "call/size-limits", "call/no-growth",
		"challenge/garbage", "challenge/normal-form", "challenge/pointers", "challenge/inputs", "challenge/description",
		"challenge/unknown-answers", "challenge/declined", "challenge/no-is-final", "challenge/unknown-state",
		"challenge/state-version", "challenge/observed", "challenge/params-schema", "challenge/params-schema, unusable", "challenge/output-schema", "call/pending, pure", "call/recover-outcomes, pure",
	},
	"till": {
		"call/pending", "call/pending, why", "call/pending, how much", "call/pending, cannot be asked",
		"call/pending-continues", "call/pending-continues, lost", "call/acts-once", "call/recovers", "call/recovers, otherwise",
		"call/recover-outcomes", "call/recover-outcomes, why", "call/recover-outcomes, not asked", "call/not-done", "call/late", "call/cancels",
	},
	"notary": {"challenge/asks-first", "challenge/asks-first, at once"},
	"crane":  {"preview/sound", "preview/sound, effect", "preview/repeatable", "preview/proposal", "preview/planned"},
	"desk": {
		"capability/needs", "capability/undeclared", "capability/other-kinds", "capability/approval-default",
		"capability/secrets", "capability/review", "capability/elsewhere", "capability/how", "capability/provenance", "capability/provenance, pure", "capability/client-error",
		"capability/any-reply", "capability/declined", "capability/no-is-final",
	},
}

// without are all checks but the two that take longest, unless they are what
// the fault is about.
func without(fault string) drivertest.Options {
	var opt drivertest.Options
	for _, c := range drivertest.Checks() {
		if costly := c.ID == "call/huge-input" || c.ID == "call/size-limits"; !costly || c.ID == fault {
			opt.Only = append(opt.Only, c.ID)
		}
	}
	return opt
}

// verifyFault makes the checks. A driver that does something too late is found
// in little time, and the others are not checked for that.
func verifyFault(t *testing.T, subject func() drivertest.Subject, fault string) drivertest.Report {
	t.Helper()
	opt := without(fault)
	if fault != "call/cancelled" && fault != "process/lifeline" {
		return verify(t, subject(), opt)
	}
	opt.Only = slices.DeleteFunc(opt.Only, func(id string) bool { return id == fault })
	report := verify(t, subject(), opt)
	late := verify(t, subject(), drivertest.Options{Only: []string{fault}, Soon: 50 * time.Millisecond})
	report.Results = append(report.Results, late.Results...)
	return report
}

func TestEachFaultIsFoundByTheCheckThatNamesItAndByNoOther(t *testing.T) {
	for name, faults := range directFaults {
		for _, fault := range faults {
			t.Run(fault, func(t *testing.T) {
				ids, text := broken(verifyFault(t, func() drivertest.Subject { return direct(t, name, fault) }, fault))
				want, _, _ := strings.Cut(fault, ",")
				if diff := gocmp.Diff([]string{want}, ids); diff != "" {
					t.Errorf("broken rules (-want +got):\n%s\n%s", diff, text)
				}
			})
		}
	}
}

func TestEveryCheckHasAFaultThatProvesIt(t *testing.T) {
	proven := map[string]bool{}
	all := slices.Collect(maps.Keys(processFaults))
	for _, faults := range directFaults {
		all = append(all, faults...)
	}
	for _, fault := range all {
		id, _, _ := strings.Cut(fault, ",")
		proven[id] = true
	}
	for _, c := range drivertest.Checks() {
		if !proven[c.ID] {
			t.Errorf("no bad driver proves that check %s finds anything", c.ID)
		}
		delete(proven, c.ID)
	}
	if len(proven) > 0 {
		t.Errorf("faults %v name no check", slices.Sorted(maps.Keys(proven)))
	}
}

func TestSoundDriversBreakNothing(t *testing.T) {
	for name := range kitDrivers {
		t.Run(name, func(t *testing.T) {
			report := verify(t, direct(t, name, ""), drivertest.Options{})
			if ids, text := broken(report); len(ids) > 0 {
				t.Errorf("broken: %s", text)
			}
			for _, result := range report.Results {
				if result.Status == drivertest.Skipped && result.Give != "a binary: kairos driver test BINARY" {
					t.Errorf("skipped: %s", result.Line())
				}
			}
		})
	}
}

func TestADriverWithoutAConfigSchemaMayIgnoreConfiguration(t *testing.T) {
	s := direct(t, "counter", "config/nonsense")
	s.Descriptor.ConfigSchema = nil
	for _, c := range []driver.Configurer{s.Configurer, nil} {
		s.Configurer = c
		report := verify(t, s, drivertest.Options{Only: []string{"config/*", "health/answers"}})
		if n := report.Count(drivertest.NotConcerned); n != len(report.Results)-1 || !report.Conforms() {
			t.Errorf("%d of %d checks are not about the driver: %+v", n, len(report.Results), report.Results)
		}
	}
}

func TestThereAreEnoughChecksOfEachRole(t *testing.T) {
	if n := len(drivertest.Checks()); n < 25 {
		t.Errorf("there are %d checks, want at least 25", n)
	}
	seen := map[string]bool{}
	for _, c := range drivertest.Checks() {
		if (c.Level != drivertest.Must && c.Level != drivertest.Should) || c.Why == "" || c.On == "" || seen[c.ID] {
			t.Errorf("check %s lacks a level, a rule or whom it concerns, or is there twice", c.ID)
		}
		seen[c.ID] = true
	}
}
