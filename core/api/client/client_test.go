package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/fault"
)

const (
	uri   = "kairos://mem/12345678-1234-4234-8234-123456789abc"
	token = "very-secret-token"
)

// server answers every call with this status and body, and keeps the last request.
type server struct {
	*httptest.Server
	path, body string
	header     http.Header
}

func answering(t *testing.T, status int, contentType, reply string) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.path, s.body, s.header = r.Method+" "+r.URL.RequestURI(), string(b), r.Header
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	t.Cleanup(s.Close)
	return s
}

func connected(t *testing.T, address string, hc *http.Client) *client.Client {
	t.Helper()
	c, err := client.New(address, token, hc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each call is sent as section 7 of the contract has it.
func TestCallsAreSentAsTheContractHasThem(t *testing.T) {
	ctx := t.Context()
	for name, tc := range map[string]struct {
		call       func(c *client.Client) error
		path, body string
	}{
		"search": {func(c *client.Client) error {
			_, err := api.Search.Call(ctx, c, api.SearchRequest{Query: "a <b>"})
			return err
		},
			"POST /api/kairos_search", `{"query":"a <b>"}`},
		"search in several ways": {func(c *client.Client) error {
			_, err := api.Search.Call(ctx, c, api.SearchRequest{Query: "a", Queries: []string{"b", "c"}, Space: "s", Limit: 3})
			return err
		}, "POST /api/kairos_search", `{"query":"a","queries":["b","c"],"space":"s","limit":3}`},
		"begin": {func(c *client.Client) error {
			_, err := api.Begin.Call(ctx, c, api.BeginRequest{URI: uri, Input: json.RawMessage(`{"a":1}`), SessionID: "s"})
			return err
		}, "POST /api/kairos_begin", `{"uri":"` + uri + `","input":{"a":1},"session_id":"s"}`},
		"next": {func(c *client.Client) error {
			_, err := api.Next.Call(ctx, c, api.NextRequest{URI: uri, Solution: json.RawMessage(`{"type":"comment"}`), RunID: "r"})
			return err
		}, "POST /api/kairos_next", `{"uri":"` + uri + `","solution":{"type":"comment"},"run_id":"r"}`},
		"next without a solution": {func(c *client.Client) error { _, err := api.Next.Call(ctx, c, api.NextRequest{URI: uri}); return err },
			"POST /api/kairos_next", `{"uri":"` + uri + `"}`},
		"attest": {func(c *client.Client) error {
			_, err := api.Attest.Call(ctx, c, api.AttestRequest{URI: uri, Outcome: "success", Message: "m", QualityBonus: 1, ModelID: "me"})
			return err
		}, "POST /api/kairos_attest", `{"uri":"` + uri + `","outcome":"success","message":"m","quality_bonus":1,"llm_model_id":"me"}`},
		"mint": {func(c *client.Client) error {
			_, err := api.Mint.Call(ctx, c, api.MintRequest{Document: "# T", ModelID: "me", Force: true, Space: "Group: x"})
			return err
		}, "POST /api/kairos_mint/raw?force=true&llm_model_id=me&space=Group%3A+x", "# T"},
		"update": {func(c *client.Client) error {
			_, err := api.Update.Call(ctx, c, api.UpdateRequest{URIs: []string{uri}, Documents: []string{"## S"}})
			return err
		}, "POST /api/kairos_update", `{"uris":["` + uri + `"],"markdown_doc":["## S"]}`},
		"delete": {func(c *client.Client) error {
			_, err := api.Delete.Call(ctx, c, api.DeleteRequest{URIs: []string{uri}})
			return err
		},
			"POST /api/kairos_delete", `{"uris":["` + uri + `"]}`},
		"dump": {func(c *client.Client) error {
			_, err := api.Dump.Call(ctx, c, api.DumpRequest{URI: uri, Protocol: true})
			return err
		},
			"POST /api/kairos_dump", `{"uri":"` + uri + `","protocol":true}`},
		"spaces": {func(c *client.Client) error {
			_, err := api.Spaces.Call(ctx, c, api.SpacesRequest{Titles: true, Limit: 3, Cursor: "c"})
			return err
		}, "POST /api/kairos_spaces", `{"include_chain_titles":true,"limit":3,"cursor":"c"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, http.StatusOK, "application/json; charset=utf-8", `{"metadata":{"duration_ms":1},"a_field_of_tomorrow":true}`)
			if err := tc.call(connected(t, s.URL+"/", nil)); err != nil {
				t.Fatal(err)
			}
			if s.path != tc.path || strings.TrimSpace(s.body) != tc.body {
				t.Errorf("sent %s %s, want %s %s", s.path, s.body, tc.path, tc.body)
			}
			if got := s.header.Get("Authorization"); got != "Bearer "+token {
				t.Errorf("Authorization is %q", got)
			}
		})
	}
}

func TestRepliesAreThoseOfTheEngine(t *testing.T) {
	count := 1
	want := api.StepReply{
		MustObey:    true,
		CurrentStep: api.CurrentStep{URI: uri, Content: "## S", MIMEType: "text/markdown"},
		Challenge:   api.Challenge{Type: "shell", Description: "d", Nonce: "n", ProofHash: "p", Display: json.RawMessage(`{"cmd":"true"}`)},
		NextAction:  "retry kairos_next with " + uri, ErrorCode: "COMMAND_FAILED", RetryCount: &count, RunID: "r", StepIndex: 1, StepCount: 2,
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	s := answering(t, http.StatusOK, "application/json", string(b))
	got, err := api.Next.Call(t.Context(), connected(t, s.URL+"/behind/a/proxy", nil), api.NextRequest{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Next (-want +got):\n%s", diff)
	}
	if s.path != "POST /behind/a/proxy/api/kairos_next" {
		t.Errorf("sent to %s", s.path)
	}
}

func TestErrorsHaveCodeMessageAndNextAction(t *testing.T) {
	const problem = "application/json"
	for name, tc := range map[string]struct {
		status      int
		kind, reply string
		want        fault.Error
	}{
		"a code of the engine": {
			http.StatusBadRequest, problem, `{"error":"INVALID_INPUT","error_code":"INVALID_ARGUMENT","message":"no uri","next_action":"give one"}`,
			fault.Error{Code: fault.InvalidArgument, Message: "no uri", NextAction: "give one"},
		},
		"the contract alone": {
			http.StatusNotFound, problem, `{"error":"NOT_FOUND","message":"no such step"}`, fault.Error{Code: fault.NotFound, Message: "no such step"},
		},
		"details": {
			http.StatusConflict, problem, `{"error":"DUPLICATE_CHAIN","message":"there","chain_id":"c"}`,
			fault.Error{Code: fault.DuplicateChain, Message: "there", Details: map[string]any{"chain_id": "c"}},
		},
		"an error as a reply": {
			http.StatusOK, problem, `{"must_obey":false,"error_code":"NO_OPEN_RUN","message":"none","next_action":"begin"}`,
			fault.Error{Code: fault.NoOpenRun, Message: "none", NextAction: "begin"},
		},
		"no credentials": {
			http.StatusUnauthorized, problem, `{"error":"Unauthorized","message":"log in"}`,
			fault.Error{Code: "Unauthorized", Message: "log in", Hint: "set KAIROS_BEARER_TOKEN to the token of this server, or to one that its operator makes with `kairos token create`; calls of operators need none from the user of the server on its machine"},
		},
		"busy": {
			http.StatusServiceUnavailable, problem, `{"error":"BUSY","message":"too many calls"}`,
			fault.Error{Code: "BUSY", Message: "too many calls", Hint: "repeat the call later"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, tc.status, tc.kind, tc.reply)
			_, err := api.Next.Call(t.Context(), connected(t, s.URL, nil), api.NextRequest{URI: uri})
			var f *fault.Error
			if !errors.As(err, &f) {
				t.Fatalf("Next = %v, want a fault", err)
			}
			if len(f.Details) == 0 {
				f.Details = nil
			}
			if f.Code != tc.want.Code || f.Message != tc.want.Message || f.NextAction != tc.want.NextAction || f.Hint != tc.want.Hint || !cmp.Equal(f.Details, tc.want.Details) {
				t.Errorf("Next = %+v, want %+v", *f, tc.want)
			}
		})
	}
}

func TestAnotherKindOfServerIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		status      int
		kind, reply string
	}{
		"a web page":            {http.StatusOK, "text/html", "<html>"},
		"JSON of something":     {http.StatusOK, "application/json", "[1"},
		"a page that is absent": {http.StatusNotFound, "text/html", "<html>"},
		"another API":           {http.StatusNotFound, "application/json", `{"error":"Not found"}`},
		"a failed proxy":        {http.StatusBadGateway, "text/html", "<html>"},
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, tc.status, tc.kind, tc.reply)
			_, err := api.Dump.Call(t.Context(), connected(t, s.URL, nil), api.DumpRequest{URI: uri})
			if fault.CodeOf(err) != fault.UnexpectedReply || !strings.Contains(err.Error(), s.URL) {
				t.Errorf("Dump = %v, want %s with the URL", err, fault.UnexpectedReply)
			}
		})
	}
}

func TestAServerWithoutTheCallIsNamed(t *testing.T) {
	s := answering(t, http.StatusNotFound, "application/json", `{"error":"Not found"}`)
	_, err := api.Dump.Call(t.Context(), connected(t, s.URL, nil), api.DumpRequest{URI: uri})
	var f *fault.Error
	if !errors.As(err, &f) || !strings.Contains(f.Message, "does not serve /api/kairos_dump") || !strings.Contains(f.ForPeople(), "http.operations") {
		t.Errorf("Dump = %v, want the call that is not served and what to do", err)
	}
}

func TestAServerThatIsDownIsNamedWithWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = api.Spaces.Call(t.Context(), connected(t, address, nil), api.SpacesRequest{})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.ServerUnreachable || !strings.Contains(f.Message, address) || !strings.Contains(f.ForPeople(), "kairos serve --http") {
		t.Errorf("Spaces = %v, want %s, the address and what to do", err, fault.ServerUnreachable)
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	_, err := api.Spaces.Call(t.Context(), connected(t, s.URL, &http.Client{Timeout: 50 * time.Millisecond}), api.SpacesRequest{})
	if fault.CodeOf(err) != fault.ServerUnreachable || !strings.Contains(err.Error(), "in time") {
		t.Errorf("Spaces = %v, want that it does not answer in time", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := api.Spaces.Call(ctx, connected(t, s.URL, nil), api.SpacesRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Spaces of a cancelled call = %v, want context.Canceled", err)
	}
}

func TestARedirectToAnotherHostIsRefused(t *testing.T) {
	other := answering(t, http.StatusOK, "application/json", `{}`)
	for name, status := range map[string]int{"kept method": http.StatusTemporaryRedirect, "changed method": http.StatusFound} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.RedirectHandler(other.URL+"/api/kairos_dump", status))
			defer s.Close()
			_, err := api.Dump.Call(t.Context(), connected(t, s.URL, nil), api.DumpRequest{URI: uri})
			if fault.CodeOf(err) != fault.UnexpectedReply || !strings.Contains(err.Error(), other.URL) {
				t.Errorf("Dump = %v, want a refusal that names %s", err, other.URL)
			}
			if other.path != "" {
				t.Errorf("the other host was asked: %s", other.path)
			}
		})
	}
}

func TestARedirectWithinTheServerIsFollowed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/kairos_dump" {
			http.Redirect(w, r, "/v2/api/kairos_dump", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"label":"moved"}`)
	}))
	defer s.Close()
	if reply, err := api.Dump.Call(t.Context(), connected(t, s.URL, nil), api.DumpRequest{URI: uri}); err != nil || reply.Label != "moved" {
		t.Errorf("Dump = %+v, %v, want the reply of where it moved", reply, err)
	}
}

func TestAReplyWithoutEndIsCutOff(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	_, err := api.Dump.Call(t.Context(), connected(t, s.URL, nil), api.DumpRequest{URI: uri})
	if fault.CodeOf(err) != fault.UnexpectedReply || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("Dump = %v, want the limit", err)
	}
}

func TestTheTokenIsNeverShown(t *testing.T) {
	secret := client.Token(token)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("call", "token", secret)
	down := connected(t, "http://127.0.0.1:1", nil)
	_, err := api.Spaces.Call(t.Context(), down, api.SpacesRequest{})
	_, bad := client.New("http://127.0.0.1:1", "line\nbreak "+token, nil)
	for what, text := range map[string]string{
		"log": log.String(), "formatted": fmt.Sprintf("%v %+v %#v %s", secret, secret, secret, secret),
		"error": fmt.Sprint(err), "error of a bad token": fmt.Sprint(bad), "client": fmt.Sprintf("%+v", down),
	} {
		if strings.Contains(text, token) {
			t.Errorf("%s shows the token: %s", what, text)
		}
	}
	if bad == nil {
		t.Error("a token with a line break is taken")
	}
}

func TestAWrongURLIsRefused(t *testing.T) {
	for _, address := range []string{"", "localhost:3300", "ftp://host", "http://", "http://host?x=1", "http://host#x", "http://me:pw@host", "http://[::1"} {
		_, err := client.New(address, "", nil)
		if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("New(%q) = %v, want %s", address, err, fault.InvalidArgument)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("New(%q) shows the password: %v", address, err)
		}
	}
}
