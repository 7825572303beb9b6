package library

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Update replaces steps by new Markdown, or changes some of their fields. Each URI
// succeeds or fails on its own. Concurrent updates of one protocol are all
// applied.
func (l *Library) Update(ctx context.Context, c access.Caller, in api.UpdateRequest) (reply api.UpdateReply, err error) {
	defer operatedOn(l.opt.Observer, OperationUpdate, c, time.Now(), &reply.TotalUpdated, &reply.TotalFailed, &err)
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
	leave, err := l.large.enter(ctx, sizeOf(in))
	if err != nil {
		return api.UpdateReply{}, err
	}
	defer leave()
	uris := once(in.URIs)
	j, release := hold(l.setups)
	defer release()
	e := edit{l, j, c}
	reply.Results = make([]api.UpdateResult, 0, len(uris))
	for _, uri := range uris {
		message, err := e.audited(ctx, api.Update.Name, audit.ProtocolUpdate, uri, func() (string, error) {
			return e.updateOne(ctx, uri, changes[stepNamed(uri)])
		})
		reply.Results = append(reply.Results, itemResult(ctx, l.log, uri, "updated", message, err))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalUpdated++
	}
	return reply, nil
}

// sizeOf is how many bytes of documents and fields an update brings.
func sizeOf(in api.UpdateRequest) int {
	size := len(in.Updates)
	for _, document := range in.Documents {
		size += len(document)
	}
	return size
}

// maxURIs bounds the URIs of one call: each is a transaction and a part of the
// reply.
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

// stepNamed identifies the step that a URI names.
func stepNamed(uri string) string {
	if id, err := protocol.ParseURI(uri); err == nil {
		return id
	}
	return uri
}

// once removes duplicate URIs.
func once(uris []string) []string {
	seen := make(map[string]bool, len(uris))
	return slices.DeleteFunc(slices.Clone(uris), func(uri string) bool {
		step := stepNamed(uri)
		again := seen[step]
		seen[step] = true
		return again
	})
}

// readChanges returns the change for each step. It rejects requests in which one
// part would be ignored: updates beside a document, or two documents for one step.
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

// itemResult is the result for one URI.
func itemResult(ctx context.Context, log *slog.Logger, uri, done, message string, err error) api.UpdateResult {
	if err == nil {
		return api.UpdateResult{URI: uri, Status: done, Message: message}
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == fault.Internal {
		log.ErrorContext(ctx, "a step could not be changed", "uri", uri, "error", err)
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

// stepChange is a change of a step: a whole document, or single fields.
type stepChange struct {
	document  string
	text      *string
	label     *string
	challenge json.RawMessage // null: remove it; nil: keep it
}

// changeable lists the fields of a step that updates may set. All other fields
// follow from these or identify the step.
const changeable = "text, label and challenge"

// readUpdates parses `updates` and rejects unknown fields by name.
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
			bad = json.Unmarshal(raw, &change.text) != nil || change.text == nil || plain.Empty(*change.text)
		case "label":
			bad = json.Unmarshal(raw, &change.label) != nil || change.label == nil || plain.Empty(*change.label)
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

// empty reports whether nothing would change.
func (c stepChange) empty() bool {
	return c.document == "" && c.text == nil && c.label == nil && c.challenge == nil
}

// read returns step i of the chain after the change.
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
		body := step.Body()
		step.Label = strings.Join(strings.Fields(*c.label), " ")
		step.Text = "## " + step.Label + "\n\n" + body
	}
	switch {
	case string(c.challenge) == "null":
		step.Challenge = nil
	case c.challenge != nil:
		step.Challenge = c.challenge
	}
	// Parse it again as a whole: the end of a text may swallow the challenge.
	step, more := chain.ParseStep(i, []byte(protocol.RenderStep(step)))
	return step, append(found, more...), nil
}

// Delete removes steps. Deleting the first step of a protocol, which identifies
// it, deletes the protocol. Old versions are kept and can be restored.
func (l *Library) Delete(ctx context.Context, c access.Caller, in api.DeleteRequest) (reply api.DeleteReply, err error) {
	defer operatedOn(l.opt.Observer, OperationDelete, c, time.Now(), &reply.TotalDeleted, &reply.TotalFailed, &err)
	ctx = access.InSpace(ctx, c.Space)
	if err := countURIs(in.URIs); err != nil {
		return api.DeleteReply{}, err
	}
	e := edit{library: l, caller: c}
	reply.Results = make([]api.DeleteResult, 0, len(in.URIs))
	gone := make(map[string]string) // messages by the UUID of the step that this call deleted
	for _, uri := range once(in.URIs) {
		message, err := e.deleteOne(ctx, uri, gone)
		reply.Results = append(reply.Results, api.DeleteResult(itemResult(ctx, l.log, uri, "deleted", message, err)))
		if err != nil {
			reply.TotalFailed++
			continue
		}
		reply.TotalDeleted++
	}
	return reply, nil
}
