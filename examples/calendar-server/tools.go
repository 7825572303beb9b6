package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/examples/calendar-server/calendar"
)

// tools are the handlers; each decodes, asks the calendar, encodes.
type tools struct {
	file calendar.File
	now  func() time.Time
}

func newServer(file calendar.File, now func() time.Time) *server.MCPServer {
	t := tools{file: file, now: now}
	s := server.NewMCPServer("calendar", "1.0.0", server.WithToolCapabilities(false))
	add(s, "find_user_by_name", "Look people up in the directory by name; null for a name that is not in it.", true,
		`{"type":"object","required":["names"],"additionalProperties":false,"properties":{
			"names":{"type":"array","items":{"type":"string"},"minItems":1}}}`, t.findUser)
	add(s, "find_slot", "Find the first time in working hours at which all participants are free.", true,
		`{"type":"object","required":["participants","duration_minutes"],"additionalProperties":false,"properties":{
			"participants":{"description":"emails, or the resolved object of find_user_by_name (null entries are left out)",
				"type":["array","object"]},
			"duration_minutes":{"type":"integer","minimum":5,"maximum":480},
			"within_days":{"type":"integer","minimum":1,"maximum":90,"default":14}}}`, t.findSlot)
	add(s, "create_event", "Create a calendar event; refused if a participant is busy then.", false,
		`{"type":"object","required":["title","participants","start","end"],"additionalProperties":false,"properties":{
			"title":{"type":"string","minLength":1},
			"participants":{"description":"emails","type":"array","items":{"type":"string"},"minItems":1},
			"start":{"type":"string","format":"date-time"},"end":{"type":"string","format":"date-time"}}}`, t.createEvent)
	add(s, "list_events", "List events, all or those with exactly this title.", true,
		`{"type":"object","additionalProperties":false,"properties":{"title":{"type":"string"}}}`, t.listEvents)
	return s
}

// add registers a tool whose handler takes its arguments as In. Unknown
// arguments are refused: a typo must not pass as "not given".
func add[In any](s *server.MCPServer, name, description string, readOnly bool, schema string,
	handle func(in In, key string) (any, error),
) {
	tool := mcp.NewToolWithRawSchema(name, description, json.RawMessage(schema))
	no := false
	tool.Annotations = mcp.ToolAnnotation{
		Title: name, ReadOnlyHint: &readOnly, DestructiveHint: &no, IdempotentHint: &readOnly, OpenWorldHint: &no,
	}
	s.AddTool(tool, func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in, err := decode[In](req)
		if err != nil {
			return mcp.NewToolResultErrorf("%s: %v", name, err), nil
		}
		out, err := handle(in, keyOf(req))
		if err != nil {
			return mcp.NewToolResultErrorf("%s: %v", name, err), nil
		}
		text, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultStructured(out, string(text)), nil
	})
}

// keyOf is the idempotency key that KAIROS sends with a call, or empty.
func keyOf(req mcp.CallToolRequest) string {
	if req.Params.Meta == nil {
		return ""
	}
	key, _ := req.Params.Meta.AdditionalFields["io.github.kairos-mcp/idempotency-key"].(string)
	return key
}

func decode[In any](req mcp.CallToolRequest) (In, error) {
	var in In
	raw, err := json.Marshal(req.GetArguments())
	if err != nil {
		return in, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return in, d.Decode(&in)
}

type findUserInput struct {
	Names []string `json:"names"`
}

func (t tools) findUser(in findUserInput, _ string) (any, error) {
	if len(in.Names) == 0 {
		return nil, errors.New("names is empty")
	}
	var resolved map[string]*string
	err := t.file.View(func(b calendar.Book) error {
		resolved = b.Resolve(in.Names)
		return nil
	})
	return map[string]any{"resolved": resolved}, err
}

type findSlotInput struct {
	Participants participants `json:"participants"`
	Minutes      int          `json:"duration_minutes"`
	Days         *int         `json:"within_days"`
}

func (t tools) findSlot(in findSlotInput, _ string) (any, error) {
	days := 14
	if in.Days != nil {
		days = *in.Days
	}
	if in.Minutes < 5 || in.Minutes > 480 {
		return nil, fmt.Errorf("duration_minutes is %d, not between 5 and 480", in.Minutes)
	}
	if days < 1 || days > 90 {
		return nil, fmt.Errorf("within_days is %d, not between 1 and 90", days)
	}
	var slot calendar.Slot
	err := t.file.View(func(b calendar.Book) (err error) {
		slot, err = b.FindSlot(t.now(), in.Participants, time.Duration(in.Minutes)*time.Minute, days)
		return err
	})
	return slot, err
}

type createEventInput struct {
	Title        string    `json:"title"`
	Participants []string  `json:"participants"`
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
}

type createEventOutput struct {
	Success bool   `json:"success"`
	EventID string `json:"event_id,omitempty"`
	Error   string `json:"error,omitempty"`
}

// createEvent answers a refusal as a result, since "no" is an answer too. A call
// with a key that it has seen returns the event of the first call.
func (t tools) createEvent(in createEventInput, key string) (any, error) {
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	event := calendar.Event{
		ID: "evt-" + hex.EncodeToString(id), Title: in.Title, Participants: in.Participants,
		Start: in.Start.UTC(), End: in.End.UTC(), Key: key,
	}
	refusal := ""
	err := t.file.Change(func(b *calendar.Book) error {
		if known, ok := b.WithKey(key); ok {
			event = known
			return nil
		}
		err := b.Add(event)
		if err != nil {
			refusal = err.Error()
		}
		return err
	})
	if refusal != "" {
		return createEventOutput{Error: refusal}, nil
	}
	return createEventOutput{Success: true, EventID: event.ID}, err
}

type listEventsInput struct {
	Title string `json:"title"`
}

func (t tools) listEvents(in listEventsInput, _ string) (any, error) {
	var events []calendar.Event
	err := t.file.View(func(b calendar.Book) error {
		events = b.WithTitle(in.Title)
		return nil
	})
	return map[string]any{"events": events, "count": len(events)}, err
}

// participants are emails: given as a list, or as the object that
// find_user_by_name resolved, whose null entries have no calendar.
type participants []string

// UnmarshalJSON reads both forms.
func (p *participants) UnmarshalJSON(data []byte) error {
	var emails []string
	if err := json.Unmarshal(data, &emails); err == nil {
		*p = emails
		return nil
	}
	var resolved map[string]*string
	if err := json.Unmarshal(data, &resolved); err != nil {
		return errors.New("participants is neither a list of emails nor an object of name to email")
	}
	*p = nil
	for _, email := range resolved {
		if email != nil {
			*p = append(*p, *email)
		}
	}
	slices.Sort(*p)
	return nil
}
