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

// print writes the table of targets. benchstat takes no notice of it.
func (f *figures) print(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\nfigure\tmeasured\ttarget\t")
	for _, one := range f.all {
		fmt.Fprintf(t, "%s\t%.3g %s\t%s %.3g\t%s\n", one.name, one.measured, one.unit, one.bound, one.target, one.met())
	}
	_ = t.Flush() // of stdout; there is nowhere to say that it failed
}
