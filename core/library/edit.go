package library

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// edit changes stored protocols for one caller.
type edit struct {
	library *Library
	judge   judge // zero: nothing is validated
	caller  access.Caller
}

// audited has audited a change of the protocol that a step names. A step that the caller does not
// find, or may not change, is none: it would let whoever only reads write many lines.
func (e edit) audited(ctx context.Context, useCase string, action audit.Action, uri string, do func() (string, error)) (message string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	chain, _, err := e.library.catalog.step(ctx, e.caller, uri)
	if err != nil {
		return "", err
	}
	log, act := e.library.opt.Audit, audit.Act{Action: action, Space: chain.Space, Object: uri}
	if err := checkWrite(e.caller, useCase, chain); err != nil {
		return "", log.Refused(ctx, e.caller, act, err)
	}
	err = log.Do(ctx, e.caller, act, func(*audit.Doing) (err error) {
		message, err = do()
		return err
	})
	return message, err
}

// updateOne changes one step and describes the change.
func (e edit) updateOne(ctx context.Context, uri string, change stepChange) (message string, err error) {
	err = whileOvertaken(ctx, func() error {
		chain, i, err := e.library.catalog.step(ctx, e.caller, uri)
		if err != nil {
			return err
		}
		if err := checkWrite(e.caller, api.Update.Name, chain); err != nil {
			return err
		}
		changed, warnings, err := e.withStep(ctx, chain, i, change)
		if err != nil {
			return err
		}
		w := rewriting(changed, &chain)
		if err := e.library.catalog.save(ctx, w); err != nil {
			return err
		}
		e.library.ratings.rateStored(w, "kairos_update")
		message = updatedMessage(warnings, e.library.meanings.add(ctx, changed))
		return nil
	})
	return message, err
}

// withStep returns the chain with one step changed, validated like a minted one.
func (e edit) withStep(ctx context.Context, chain protocol.Chain, i int, change stepChange) (protocol.Chain, []protocol.Diagnostic, error) {
	if change.empty() {
		return chain, nil, fault.New(fault.InvalidArgument, "nothing to update: give markdown_doc, or updates with %s", changeable)
	}
	step, found, err := change.read(chain, i)
	if err != nil {
		return chain, nil, err
	}
	if _, _, err := split([]protocol.Chain{chain}, found); err != nil {
		return chain, nil, err
	}
	chain.Steps = slices.Clone(chain.Steps)
	chain.Steps[i] = step
	chain, twice := chain.Rename()
	judged, err := e.judge.step(ctx, chain, i)
	if err != nil {
		return chain, nil, err
	}
	found = slices.Concat(found, twice, judged, protocol.CheckReferences(chain), protocol.CheckHidden(chain))
	_, warnings, err := split([]protocol.Chain{chain}, found)
	chain.UpdatedAt = e.library.opt.Clock.Now()
	return chain, warnings, err
}

func (e edit) deleteOne(ctx context.Context, uri string, gone map[string]string) (message string, err error) {
	if id, bad := protocol.ParseURI(uri); bad == nil && gone[id] != "" {
		return gone[id], nil
	}
	return e.audited(ctx, api.Delete.Name, audit.ProtocolDelete, uri, func() (string, error) { return e.deleteStored(ctx, uri, gone) })
}

func (e edit) deleteStored(ctx context.Context, uri string, gone map[string]string) (message string, err error) {
	err = whileOvertaken(ctx, func() error {
		chain, i, err := e.library.catalog.step(ctx, e.caller, uri)
		if err != nil {
			return err
		}
		if err := checkWrite(e.caller, api.Delete.Name, chain); err != nil {
			return err
		}
		deleted := chain.Steps[i : i+1]
		if i == 0 {
			deleted = chain.Steps
			message = fmt.Sprintf("deleted the protocol %q with its %s; `kairos protocols restore %s` brings it back", chain.Title, steps(len(deleted)), chain.ID)
			err = e.library.catalog.writer.DeleteChain(ctx, chain.Space, chain.ID, chain.Revision)
		} else {
			message = fmt.Sprintf("deleted step %q; the protocol %q has %s now", deleted[0].Label, chain.Title, steps(len(chain.Steps)-1))
			err = e.deleteStep(ctx, chain, i)
		}
		if err != nil {
			return err
		}
		for _, s := range deleted {
			gone[s.UUID] = message
		}
		return nil
	})
	return message, err
}

func (e edit) deleteStep(ctx context.Context, chain protocol.Chain, i int) error {
	old := chain
	chain.Steps = slices.Delete(slices.Clone(chain.Steps), i, i+1)
	chain, found := chain.Rename()
	for _, d := range append(found, protocol.CheckReferences(chain)...) {
		if d.Severity == driver.SeverityError {
			return fault.New(fault.InvalidArgument, "step %q needs the result of this one: %s; change it first", d.Step, d.Message)
		}
	}
	chain.UpdatedAt = e.library.opt.Clock.Now()
	if err := e.library.catalog.save(ctx, rewriting(chain, &old)); err != nil {
		return err
	}
	e.library.meanings.add(ctx, chain)
	return nil
}

func updatedMessage(warnings []protocol.Diagnostic, more string) string {
	parts := []string{"updated"}
	for _, d := range warnings {
		parts = append(parts, d.String())
	}
	if more != "" {
		parts = append(parts, more)
	}
	return strings.Join(parts, "; ")
}

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}
