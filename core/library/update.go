package library

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Update replaces steps by newly written Markdown, or some of their fields.
// Each URI succeeds or fails for itself; of two updates of one protocol at
// once, none is lost.
func (l *Library) Update(ctx context.Context, c access.Caller, in api.UpdateRequest) (reply api.UpdateReply, err error) {
	defer l.operatedOn(OperationUpdate, c, time.Now(), &reply.TotalUpdated, &reply.TotalFailed, &err)
	ctx = access.InSpace(ctx, c.Space)
	if err := countURIs(in.URIs); err != nil {
		return api.UpdateReply{}, err
	}
	if len(in.Documents) > 0 && len(in.Documents) != len(in.URIs) {
		return api.UpdateReply{}, fault.New(fault.InvalidArgument, "markdown_doc has %d entries for %d uris", len(in.Documents), len(in.URIs)).
			WithNext("call kairos_update with one document for each of the uris")
	}
	changes, err := readChanges(in)
	if err != nil {
		return api.UpdateReply{}, err
	}
	uris := once(in.URIs)
	h, release := l.hold()
	defer release()
	reply.Results = make([]api.UpdateResult, 0, len(uris))
	for _, uri := range uris {
		message, err := h.updateOne(ctx, c, uri, changes[stepNamed(uri)])
		reply.Results = append(reply.Results, l.itemResult(ctx, uri, "updated", message, err))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalUpdated++
	}
	return reply, nil
}

// maxURIs bounds what one call changes: each URI is a transaction and a part of the reply.
const maxURIs = 1000

func countURIs(uris []string) error {
	switch {
	case len(uris) == 0:
		return fault.New(fault.InvalidArgument, "uris must not be empty")
	case len(uris) > maxURIs:
		return fault.New(fault.InvalidArgument, "uris has %d entries, at most %d are taken at a time", len(uris), maxURIs).
			WithNext("make several calls with fewer uris each")
	}
	return nil
}

// stepNamed is what tells URIs of different steps apart.
func stepNamed(uri string) string {
	if id, err := protocol.ParseURI(uri); err == nil {
		return id
	}
	return uri
}

// once leaves out the URIs that are there twice.
func once(uris []string) []string {
	seen := make(map[string]bool, len(uris))
	return slices.DeleteFunc(slices.Clone(uris), func(uri string) bool {
		step := stepNamed(uri)
		again := seen[step]
		seen[step] = true
		return again
	})
}

// readChanges is what each step is to become, by its name. Nothing that was sent
// is left out silently: not updates beside a document, nor one of two documents
// for one step.
func readChanges(in api.UpdateRequest) (map[string]stepChange, error) {
	fields, err := readUpdates(in.Updates)
	if err != nil {
		return nil, err
	}
	changes := make(map[string]stepChange, len(in.URIs))
	for i, uri := range in.URIs {
		change := fields
		if i < len(in.Documents) && strings.TrimSpace(in.Documents[i]) != "" {
			if !fields.empty() {
				return nil, fault.New(fault.InvalidArgument, "markdown_doc and updates cannot be combined: markdown_doc replaces the whole step, updates sets single fields; nothing was changed").
					WithNext("call kairos_update with one of the two, or make two calls")
			}
			change = stepChange{document: in.Documents[i]}
		}
		step := stepNamed(uri)
		if before, twice := changes[step]; twice && before.document != change.document {
			return nil, fault.New(fault.InvalidArgument, "uris has %s twice, with different documents; nothing was changed", plain.Clip(uri, 80)).
				WithNext("call kairos_update with one document for each step")
		}
		changes[step] = change
	}
	return changes, nil
}

// itemResult tells what became of one URI.
func (l *Library) itemResult(ctx context.Context, uri, done, message string, err error) api.UpdateResult {
	if err == nil {
		return api.UpdateResult{URI: uri, Status: done, Message: message}
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == fault.Internal {
		l.log.ErrorContext(ctx, "a step could not be changed", "uri", uri, "error", err)
		return api.UpdateResult{
			URI: uri, Status: "error", Message: "an internal error; the server's log has it", ErrorCode: string(fault.Internal),
		}
	}
	failed := api.UpdateResult{URI: uri, Status: "error", Message: f.Message, ErrorCode: string(f.Code), NextCall: api.CallOf(f)}
	if _, refused := f.Details["diagnostics"]; f.NextAction != "" && !refused {
		failed.Message += "; " + f.NextAction
	}
	return failed
}

// stepChange is what a step is to become: a whole document, or single fields.
type stepChange struct {
	document  string
	text      *string
	label     *string
	challenge json.RawMessage // null: none any more; nil: as it is
}

// changeable are the fields of a step that updates may set. What else a step
// has follows from these, or says where it is and whose.
const changeable = "text, label and challenge"

// readUpdates takes the fields of `updates`, and refuses the others by name.
func readUpdates(updates json.RawMessage) (stepChange, error) {
	var change stepChange
	if len(bytes.TrimSpace(updates)) == 0 {
		return change, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(updates, &fields); err != nil {
		return change, fault.New(fault.InvalidArgument, "updates must be a JSON object")
	}
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var bad bool
		switch raw := fields[name]; name {
		case "text":
			bad = json.Unmarshal(raw, &change.text) != nil || change.text == nil || strings.TrimSpace(*change.text) == ""
		case "label":
			bad = json.Unmarshal(raw, &change.label) != nil || change.label == nil || strings.TrimSpace(*change.label) == ""
		case "challenge":
			change.challenge = raw
			bad = string(raw) != "null" && !isObject(raw)
		default:
			refused = append(refused, fmt.Sprintf("%q", plain.Clip(name, 80)))
		}
		if bad {
			return change, fault.New(fault.InvalidArgument, "updates: %s must be %s", name, wanted[name])
		}
	}
	if len(refused) > 0 {
		return change, fault.New(fault.InvalidArgument, "updates: %s cannot be set; only %s can", strings.Join(refused, ", "), changeable).
			WithNext("leave it out, or call kairos_mint with force_update to replace the whole protocol")
	}
	return change, nil
}

var wanted = map[string]string{"text": "a string that is not blank", "label": "a string that is not blank", "challenge": "a JSON object, or null to remove it"}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// empty: nothing is to be changed.
func (c stepChange) empty() bool {
	return c.document == "" && c.text == nil && c.label == nil && c.challenge == nil
}

// read is step i of the chain as it is to become.
func (c stepChange) read(chain protocol.Chain, i int) (protocol.Step, []protocol.Diagnostic, error) {
	if c.document != "" {
		step, found := chain.ParseStep(i, []byte(c.document))
		return step, found, nil
	}
	step := chain.Steps[i]
	var found []protocol.Diagnostic
	if c.text != nil {
		step, found = chain.ParseText(i, []byte(*c.text))
		if _, _, err := split([]protocol.Chain{chain}, found); err != nil {
			return step, nil, err
		}
		if step.Challenge == nil {
			step.Challenge = chain.Steps[i].Challenge
		}
	}
	if c.label != nil {
		body := bodyOf(step)
		step.Label = strings.Join(strings.Fields(*c.label), " ")
		step.Text = "## " + step.Label + "\n\n" + body
	}
	switch {
	case string(c.challenge) == "null":
		step.Challenge = nil
	case c.challenge != nil:
		step.Challenge = c.challenge
	}
	// Read again as a whole, because a text may end in what swallows a challenge.
	step, more := chain.ParseStep(i, []byte(protocol.RenderStep(step)))
	return step, append(found, more...), nil
}

// bodyOf is the text of a step without its heading.
func bodyOf(s protocol.Step) string {
	text := s.Text
	if first, rest, _ := strings.Cut(text, "\n"); s.Label != "" && first == "## "+s.Label {
		text = rest
	}
	return strings.Trim(text, "\r\n")
}

// updateOne changes one step and says so.
func (l withSetup) updateOne(ctx context.Context, c access.Caller, uri string, change stepChange) (message string, err error) {
	err = whileOvertaken(ctx, func() error {
		chain, i, err := l.FindStep(ctx, c, uri)
		if err != nil {
			return err
		}
		if err := checkWrite(c, chain); err != nil {
			return err
		}
		changed, warnings, err := l.withStep(ctx, chain, i, change)
		if err != nil {
			return err
		}
		w := rewriting(changed, &chain)
		if err := l.save(ctx, w); err != nil {
			return err
		}
		l.rateStored(w, "kairos_update")
		message = updatedMessage(warnings, l.embed(ctx, changed))
		return nil
	})
	return message, err
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

// withStep is the chain with one step changed, as if it had been minted so.
func (l withSetup) withStep(ctx context.Context, chain protocol.Chain, i int, change stepChange) (protocol.Chain, []protocol.Diagnostic, error) {
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
	judged, err := l.judgeStep(ctx, chain, i)
	if err != nil {
		return chain, nil, err
	}
	found = slices.Concat(found, twice, judged, protocol.CheckReferences(chain))
	_, warnings, err := split([]protocol.Chain{chain}, found)
	chain.UpdatedAt = l.opt.Clock.Now()
	return chain, warnings, err
}

// judgeStep lets the challenge driver judge one step, and keeps what it says
// of templates.
func (l withSetup) judgeStep(ctx context.Context, chain protocol.Chain, i int) ([]protocol.Diagnostic, error) {
	s := &chain.Steps[i]
	s.Templates = nil
	if s.Challenge == nil {
		return nil, nil
	}
	use, problem := l.JudgeOf(*s)
	if problem != nil {
		return []protocol.Diagnostic{*problem}, nil
	}
	return l.validate(ctx, use, s)
}

// Delete removes steps; the rest of the protocol closes the gap. Deleting its
// first step, by which everybody knows it, deletes the protocol. Old versions
// are kept either way, and can be restored.
func (l *Library) Delete(ctx context.Context, c access.Caller, in api.DeleteRequest) (reply api.DeleteReply, err error) {
	defer l.operatedOn(OperationDelete, c, time.Now(), &reply.TotalDeleted, &reply.TotalFailed, &err)
	ctx = access.InSpace(ctx, c.Space)
	if err := countURIs(in.URIs); err != nil {
		return api.DeleteReply{}, err
	}
	reply.Results = make([]api.DeleteResult, 0, len(in.URIs))
	gone := make(map[string]string) // UUIDs of the steps that this call deleted, to what was said of it
	for _, uri := range once(in.URIs) {
		message, err := l.deleteOne(ctx, c, uri, gone)
		reply.Results = append(reply.Results, api.DeleteResult(l.itemResult(ctx, uri, "deleted", message, err)))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalDeleted++
	}
	return reply, nil
}

func (l *Library) deleteOne(ctx context.Context, c access.Caller, uri string, gone map[string]string) (message string, err error) {
	if id, bad := protocol.ParseURI(uri); bad == nil && gone[id] != "" {
		return gone[id], nil
	}
	err = whileOvertaken(ctx, func() error {
		chain, i, err := l.FindStep(ctx, c, uri)
		if err != nil {
			return err
		}
		if err := checkWrite(c, chain); err != nil {
			return err
		}
		deleted := chain.Steps[i : i+1]
		if i == 0 {
			deleted = chain.Steps
			message = fmt.Sprintf("deleted the protocol %q with its %s; `kairos restore %s` brings it back", chain.Title, steps(len(deleted)), chain.ID)
			err = l.store.Writer.DeleteChain(ctx, chain.Space, chain.ID, chain.Revision)
		} else {
			message = fmt.Sprintf("deleted step %q; the protocol %q has %s now", deleted[0].Label, chain.Title, steps(len(chain.Steps)-1))
			err = l.deleteStep(ctx, chain, i)
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

func steps(n int) string {
	if n == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", n)
}

func (l *Library) deleteStep(ctx context.Context, chain protocol.Chain, i int) error {
	old := chain
	chain.Steps = slices.Delete(slices.Clone(chain.Steps), i, i+1)
	chain, found := chain.Rename()
	for _, d := range append(found, protocol.CheckReferences(chain)...) {
		if d.Severity == driver.SeverityError {
			return fault.New(fault.InvalidArgument, "step %q needs the result of this one: %s; change it first", d.Step, d.Message)
		}
	}
	chain.UpdatedAt = l.opt.Clock.Now()
	if err := l.save(ctx, rewriting(chain, &old)); err != nil {
		return err
	}
	l.embed(ctx, chain)
	return nil
}
