package app

import (
	"context"
	"strings"

	"github.com/kairos-mcp/kairos/core/adoption"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/principal"
	"github.com/kairos-mcp/kairos/core/runs"
)

// Adopt moves what one principal has to another one or to a space; unless move is set, it only
// looks. Servers of the database may run meanwhile.
func Adopt(ctx context.Context, a *App, from, to string, move bool) (report adoption.Report, err error) {
	giver, err := giverOf(from)
	if err != nil {
		return adoption.Report{}, err
	}
	receiver, err := receiverOf(a.made, to)
	if err != nil {
		return adoption.Report{}, err
	}
	if giver == receiver {
		return adoption.Report{}, fault.New(fault.InvalidArgument, "--from and --to are both %s", from).WithHint("name who has it, and who is to have it")
	}
	s := a.engineStore()
	store := adoption.Store{
		Protocols: s.Protocols, Writer: s.Writer, Archive: s.Archive, Acceptances: s.Acceptances, Declines: s.Declines, Clock: a.clock, Stay: []string{FilesSpace},
		Runs: runs.New(runs.Store{Runs: s.Runs, Index: s.Index, History: s.History}, runs.Options{Clock: a.clock}),
	}
	if move {
		err = a.Audit.Do(ctx, a.Caller(), audit.Act{Action: audit.IdentityAdopt, Object: to, Details: map[string]string{"from": from}}, func(*audit.Doing) (err error) {
			report, err = adoption.Move(ctx, store, giver, receiver)
			return err
		})
		return report, err
	}
	return adoption.Look(ctx, store, giver, receiver)
}

func giverOf(from string) (adoption.Owner, error) {
	switch {
	case from == LocalPrincipal:
		return adoption.Owner{Principal: LocalPrincipal, Space: localSpace}, nil
	case principal.IsUser(from) && from != localSpace:
		return adoption.Owner{Principal: from, Space: from}, nil
	}
	return adoption.Owner{}, fault.New(fault.InvalidArgument, "--from is %q, which names no principal", from).
		WithHint("write %s, or a person as user:REALM:NAME", LocalPrincipal)
}

func receiverOf(made *madeSpaces, to string) (adoption.Owner, error) {
	if principal.IsUser(to) && to != localSpace {
		return adoption.Owner{Principal: to, Space: to}, nil
	}
	name, isSpace := strings.CutPrefix(to, "space:")
	if !isSpace {
		return adoption.Owner{}, fault.New(fault.InvalidArgument, "--to is %q, which names no person and no space", to).
			WithHint("write a person as user:REALM:NAME, or a space as space:NAME")
	}
	id, err := made.named(name)
	if err != nil {
		return adoption.Owner{}, err
	}
	return adoption.Owner{Space: id}, nil
}
