package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

// examineServer asks a server how it is. Fixes that are commands are for the
// machine that it runs on.
func examineServer(ctx context.Context, s session.Session) doctorReport {
	r := newReport()
	var found operations.Report
	err := s.WithTools(ctx, func(ctx context.Context, t api.Transport) (err error) {
		found, err = operations.Doctor.Call(ctx, t, operations.DoctorRequest{})
		return err
	})
	if err != nil {
		fix := ""
		var f *fault.Error
		if errors.As(err, &f) {
			fix = f.ForPeople()
		}
		r.check("server", s.Server(), fix, err)
		return r.concluded()
	}
	r.note("server", fmt.Sprintf("kairos %s at %s", found.Version, s.Server()))
	if found.Version != s.Version {
		r.warn(fmt.Sprintf("this program is kairos %s", s.Version), "use the version of the server if a command is refused")
	}
	r.part("store", found.Store, "run `kairos doctor`")
	if found.Index != nil {
		r.part("index", *found.Index, indexFix)
	}
	if found.Embedding.Detail != "none" || found.Embedding.Problem != "" {
		r.part("embedding", found.Embedding, "run `kairos embedding check`")
	}
	r.part("readiness", found.Readiness, "run `kairos doctor`")
	var failing []finding
	for _, d := range found.Drivers {
		if d.Failing {
			failing = append(failing, finding{
				Problem: fmt.Sprintf("driver %s %s is in state %s", d.Name, d.Version, d.State),
				Fix:     fmt.Sprintf("see `kairos driver info %s`; `kairos driver reload %s` once it is fixed", d.Name, d.Name),
			})
		}
	}
	r.note("drivers", output.Count(len(found.Drivers), "driver"), failing...)
	r.unserved(found.Unserved)
	r = r.concluded()
	if !r.OK {
		r.Checks[0].Detail += "; the commands below are for the machine that it runs on"
	}
	return r
}

// part notes one thing that a server depends on.
func (r *doctorReport) part(name string, p operations.Part, fix string) {
	if p.Problem == "" {
		r.note(name, cmp.Or(p.Detail, "calls can be served"))
		return
	}
	r.note(name, p.Detail, finding{Problem: p.Problem, Fix: fix})
}
