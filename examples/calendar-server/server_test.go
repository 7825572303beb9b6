package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	program "github.com/kairos-mcp/kairos/examples/calendar-server"
)

// programEnv makes the test binary the program itself.
const programEnv = "CALENDAR_SERVER_TEST_PROGRAM=1"

func TestMain(m *testing.M) {
	if os.Getenv("CALENDAR_SERVER_TEST_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	if err := program.Run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// connect starts the server on a state file as a host would.
func connect(t *testing.T, version, state string) *client.Client {
	t.Helper()
	stdio := transport.NewStdio(os.Args[0], []string{programEnv, "GORACE=atexit_sleep_ms=0"}, "--state", state, "--now", "2026-03-02T08:00:00Z")
	c := client.NewClient(stdio, client.WithProtocolVersion(version))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	init.Params.ProtocolVersion = version
	if _, err := c.Initialize(t.Context(), init); err != nil {
		t.Fatal(err)
	}
	if c.ProtocolVersion() != version {
		t.Fatalf("speaks %s, want %s", c.ProtocolVersion(), version)
	}
	return c
}

// call returns the structured result, and the text of a tool error.
func call(t *testing.T, c *client.Client, tool, arguments string) (json.RawMessage, string) {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name = tool
	req.Params.Arguments = json.RawMessage(arguments)
	res, err := c.CallTool(context.WithoutCancel(t.Context()), req)
	if err != nil {
		t.Fatal(err)
	}
	text := mcp.GetTextFromContent(res.Content[0])
	if res.IsError {
		return nil, text
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var structured, plain bytes.Buffer
	if err := json.Compact(&structured, raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&plain, []byte(text)); err != nil {
		t.Fatalf("the text is not JSON: %v", err)
	}
	var a, b any
	_ = json.Unmarshal(structured.Bytes(), &a)
	_ = json.Unmarshal(plain.Bytes(), &b)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("structured %s, text %s", structured.String(), plain.String())
	}
	return raw, ""
}

func TestAppointmentIsReallyBooked(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "calendar.json")
			c := connect(t, version, state)
			people, _ := call(t, c, "find_user_by_name", `{"names":["Adam","Betty","Candy"]}`)
			want := `{"resolved":{"Adam":"adam@example.com","Betty":"betty@example.com","Candy":null}}`
			if string(people) != want {
				t.Fatalf("find_user_by_name = %s, want %s", people, want)
			}
			slot, _ := call(t, c, "find_slot", `{"participants":{"Adam":"adam@example.com","Betty":"betty@example.com","Candy":null},"duration_minutes":30}`)
			want = `{"end":"2026-03-02T12:00:00Z","participants":["adam@example.com","betty@example.com"],"start":"2026-03-02T11:30:00Z"}`
			if string(slot) != want {
				t.Fatalf("find_slot = %s, want %s", slot, want)
			}
			booking := strings.TrimSuffix(string(slot), "}") + `,"title":"Talk"}`
			var booked struct {
				Success bool   `json:"success"`
				EventID string `json:"event_id"`
				Error   string `json:"error"`
			}
			res, _ := call(t, c, "create_event", booking)
			if err := json.Unmarshal(res, &booked); err != nil || !booked.Success || booked.EventID == "" {
				t.Fatalf("create_event = %s", res)
			}
			// A second process sees the first one's event.
			other := connect(t, version, state)
			res, _ = call(t, other, "create_event", booking)
			if err := json.Unmarshal(res, &booked); err != nil || booked.Success || !strings.Contains(booked.Error, "busy") {
				t.Errorf("create_event again = %s, want it refused as busy", res)
			}
			var list struct {
				Events []map[string]any `json:"events"`
				Count  int              `json:"count"`
			}
			res, _ = call(t, other, "list_events", `{"title":"Talk"}`)
			if err := json.Unmarshal(res, &list); err != nil || list.Count != 1 || len(list.Events) != 1 {
				t.Errorf("list_events = %s, want one", res)
			}
			if res, _ = call(t, other, "list_events", `{"title":"Another"}`); !strings.Contains(string(res), `"events":[]`) {
				t.Errorf("list_events of another title = %s, want an empty list", res)
			}
		})
	}
}

func TestBadArgumentsAreToolErrors(t *testing.T) {
	c := connect(t, "2025-11-25", filepath.Join(t.TempDir(), "calendar.json"))
	for name, tc := range map[string]struct{ tool, arguments, want string }{
		"no names":           {"find_user_by_name", `{"names":[]}`, "names"},
		"unknown argument":   {"find_user_by_name", `{"names":["Adam"],"name":"x"}`, "name"},
		"stranger":           {"find_slot", `{"participants":["candy@example.com"],"duration_minutes":30}`, "candy@example.com"},
		"nobody resolved":    {"find_slot", `{"participants":{"Candy":null},"duration_minutes":30}`, "participants"},
		"wrong shape":        {"find_slot", `{"participants":7,"duration_minutes":30}`, "participants"},
		"too short":          {"find_slot", `{"participants":["adam@example.com"],"duration_minutes":4}`, "duration_minutes"},
		"too far":            {"find_slot", `{"participants":["adam@example.com"],"duration_minutes":30,"within_days":91}`, "within_days"},
		"no room":            {"find_slot", `{"participants":["adam@example.com"],"duration_minutes":480,"within_days":1}`, "no free slot"},
		"time is not a time": {"create_event", `{"title":"x","participants":["adam@example.com"],"start":"soon","end":"later"}`, "cannot parse"},
	} {
		t.Run(name, func(t *testing.T) {
			if res, text := call(t, c, tc.tool, tc.arguments); !strings.Contains(text, tc.want) {
				t.Errorf("%s(%s) = %s, error %q, want an error about %q", tc.tool, tc.arguments, res, text, tc.want)
			}
		})
	}
}

func TestServerNeedsAState(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), programEnv)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--state") {
		t.Errorf("without flags: %v, %q, want an error about --state", err, out)
	}
}

func TestTheSameKeyBooksOnce(t *testing.T) {
	state := filepath.Join(t.TempDir(), "calendar.json")
	book := func(key, title string) string {
		t.Helper()
		var req mcp.CallToolRequest
		req.Params.Name = "create_event"
		req.Params.Arguments = json.RawMessage(`{"title":"` + title + `","participants":["adam@example.com"],"start":"2026-03-02T11:30:00Z","end":"2026-03-02T12:00:00Z"}`)
		req.Params.Meta = &mcp.Meta{AdditionalFields: map[string]any{"io.github.kairos-mcp/idempotency-key": key}}
		res, err := connect(t, "2025-11-25", state).CallTool(t.Context(), req) // a process each
		if err != nil {
			t.Fatal(err)
		}
		return mcp.GetTextFromContent(res.Content[0])
	}
	first := book("a", "Talk")
	if again := book("a", "Talk"); again != first || !strings.Contains(first, `"success":true`) {
		t.Errorf("first %s, again %s", first, again)
	}
	if other := book("b", "Talk"); !strings.Contains(other, "busy") {
		t.Errorf("another key: %s", other)
	}
	if none := book("", "Talk"); !strings.Contains(none, "busy") {
		t.Errorf("without a key: %s", none)
	}
}
