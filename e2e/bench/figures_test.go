package bench_test

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
)

// figure is something measured that has a target.
type figure struct {
	name     string
	measured float64
	unit     string
	bound    string // "<=" or ">="
	target   float64
	floor    string // what it is compared with, measured in the same run; empty: nothing
}

// most is a figure that must not be larger than its target, and least one that must
// not be smaller.
func most(name string, measured float64, unit string, target float64) figure {
	return figure{name: name, measured: measured, unit: unit, bound: "<=", target: target}
}

func least(name string, measured float64, unit string, target float64) figure {
	return figure{name: name, measured: measured, unit: unit, bound: ">=", target: target}
}

// over says what the figure is compared with.
func (f figure) over(format string, a ...any) figure {
	f.floor = fmt.Sprintf(format, a...)
	return f
}

func (f figure) met() string {
	if (f.bound == "<=" && f.measured <= f.target) || (f.bound == ">=" && f.measured >= f.target) {
		return "met"
	}
	return "MISSED"
}

// figures are those of this run, in the order in which they were measured.
type figures struct {
	mu  sync.Mutex // guards the field below
	all []figure
}

// measured is told of every figure and shown at the end.
var measured figures

func (f *figures) add(one figure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.all {
		if f.all[i].name == one.name { // measured again
			f.all[i] = one
			return
		}
	}
	f.all = append(f.all, one)
}

// digits are three that count.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// print writes the table of all figures, which is the result of make bench.
func (f *figures) print(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\nfigure\tmeasured\ttarget\t\tfloor in the same run")
	for _, one := range f.all {
		fmt.Fprintf(t, "%s\t%s %s\t%s %s\t%s\t%s\n", one.name, digits(one.measured), one.unit, one.bound, digits(one.target), one.met(), one.floor)
	}
	_ = t.Flush() // of stdout; there is nowhere to say that it failed
}
