package rest_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

// named is what a request of an operation may name.
type named struct{ run, title string }

// requests are the arguments of every operation.
var requests = map[string]func(n named) string{
	"runs_list":        func(named) string { return `{"all":true}` },
	"runs_show":        func(n named) string { return fmt.Sprintf(`{"run_id":%q}`, n.run) },
	"runs_page":        func(n named) string { return fmt.Sprintf(`{"run_id":%q}`, n.run) },
	"runs_resume":      func(n named) string { return fmt.Sprintf(`{"run_id":%q}`, n.run) },
	"runs_abandon":     func(n named) string { return fmt.Sprintf(`{"run_id":%q,"reason":"no"}`, n.run) },
	"runs_cancel":      func(n named) string { return fmt.Sprintf(`{"run_id":%q}`, n.run) },
	"runs_decide":      func(n named) string { return fmt.Sprintf(`{"run_id":%q,"happened":false,"reason":"no"}`, n.run) },
	"runs_export":      func(n named) string { return fmt.Sprintf(`{"run_id":%q}`, n.run) },
	"runs_key":         func(named) string { return `{}` },
	"spaces_create":    func(named) string { return `{"name":"production"}` },
	"doctor":           func(named) string { return `{}` },
	"protocol_history": func(n named) string { return fmt.Sprintf(`{"protocol":%q}`, n.title) },
	"protocol_version": func(n named) string { return fmt.Sprintf(`{"protocol":%q,"revision":1}`, n.title) },
	"protocol_restore": func(n named) string { return fmt.Sprintf(`{"protocol":%q,"revision":1}`, n.title) },
}

// tokens identifies callers by their Authorization header.
func tokens(c *rest.Config) {
	c.RunSpaces = []string{"group:test:annsfiles"} // of nobody who says who they are
	c.Operator = nil
	c.Identify = func(r *http.Request) (access.Caller, error) {
		switch r.Header.Get("Authorization") {
		case "ann":
			return access.Caller{Principal: "ann", Space: "user:test:ann", Groups: []string{"group:test:annsfiles"}}, nil
		case "ann left":
			return access.Caller{Principal: "ann", Space: "user:test:ann"}, nil
		case "bob":
			return access.Caller{Principal: "bob", Space: "user:test:bob", Groups: []string{"group:test:annsfiles"}}, nil
		}
		return access.Caller{}, fault.New(fault.Forbidden, "say who you are")
	}
}

func TestOperationsTellNothingOfOthers(t *testing.T) {
	w := newWorld(t, tokens)
	mint := func(space, document string) string {
		a := w.do("POST", "/api/kairos_mint/raw?llm_model_id=test&space="+space, strings.NewReader(document), "Authorization", "ann").want(200, "")
		return a.fields["items"].([]any)[0].(map[string]any)["uri"].(string)
	}
	begin := func(uri string) string {
		return w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uri), "Authorization", "ann").want(200, "").str("run_id")
	}
	own := named{title: "Two Steps", run: begin(mint("", twoSteps))}
	group := named{title: "Shared Steps", run: begin(mint("group:test:annsfiles", strings.ReplaceAll(twoSteps, "Two Steps", "Shared Steps")))}
	nothing := named{title: "No Such Steps", run: "01900000-0000-7000-8000-000000000000"}
	for _, o := range operations.Table {
		body, ok := requests[o.Name]
		if !ok {
			t.Errorf("no request of %s is tried; add one", o.Name)
			continue
		}
		reply := func(n named, who string) string {
			a := w.post(o.Name, body(n), "Authorization", who)
			delete(a.fields, "duration_ms")
			delete(a.fields, "metadata")
			return strings.NewReplacer(n.run, "RUN", n.title, "TITLE").Replace(fmt.Sprint(a.status, a.fields))
		}
		w.post(o.Name, body(own)).want(403, "forbidden")
		for name, tc := range map[string]struct {
			of  named
			who string
		}{
			"another principal":                   {own, "bob"},
			"another principal of the same group": {group, "bob"},
			"a space that was left":               {group, "ann left"},
		} {
			if name == "another principal of the same group" && !o.OfRuns {
				continue // members share protocols
			}
			if name == "a space that was left" && o.Name == "runs_list" {
				if a := w.post(o.Name, body(group), "Authorization", tc.who); strings.Contains(string(a.body), group.title) {
					t.Errorf("%s names a run of a space that was left: %s", o.Name, a.body)
				}
				continue
			}
			if diff := cmp.Diff(reply(nothing, tc.who), reply(tc.of, tc.who)); diff != "" {
				t.Errorf("%s by %s tells what exists (-absent +there):\n%s", o.Name, name, diff)
			}
		}
	}
	for _, n := range []named{own, group} {
		for _, op := range []string{"runs_list", "runs_show", "runs_page", "runs_resume", "runs_export", "protocol_history", "protocol_version", "protocol_restore"} {
			if a := w.post(op, requests[op](n), "Authorization", "ann").want(200, ""); !strings.Contains(string(a.body), n.title) && !strings.Contains(string(a.body), n.run) {
				t.Errorf("%s does not show ann what is hers: %s", op, a.body)
			}
		}
	}
}

func TestADiagnosisNamesOnlyWhatIsTheCallers(t *testing.T) {
	w := newWorld(t, tokens)
	ann := access.Caller{Principal: "ann", Space: "user:test:ann", Groups: []string{"group:test:annsfiles"}}
	id := w.begun(ann, twoSteps)
	w.compile("shell")
	if a := w.post("doctor", `{}`, "Authorization", "ann").want(200, ""); !strings.Contains(string(a.body), "Two Steps") || !strings.Contains(string(a.body), string(id)) {
		t.Errorf("ann is not told that no driver serves her steps and her run: %s", a.body)
	}
	if a := w.post("doctor", `{}`, "Authorization", "bob").want(200, ""); strings.Contains(string(a.body), "Two Steps") || strings.Contains(string(a.body), string(id)) {
		t.Errorf("bob is told of what is ann's: %s", a.body)
	}
	w.post("doctor", `{}`).want(403, "forbidden")
}

func TestRunsOfFilesAreShownWhereNobodyIsIdentified(t *testing.T) {
	const files = "space:files"
	w := newWorld(t, func(c *rest.Config) { c.RunSpaces = []string{files} })
	operator := access.Caller{Principal: "local", Space: files}
	id := w.begun(operator, twoSteps)
	if a := w.post("runs_list", `{}`).want(200, ""); !strings.Contains(string(a.body), string(id)) {
		t.Errorf("the run is not listed: %s", a.body)
	}
	w.post("runs_show", fmt.Sprintf(`{"run_id":%q}`, id)).want(200, "")
	if a := w.post("kairos_search", `{"query":"two steps"}`).want(200, ""); strings.Contains(string(a.body), "Two Steps") {
		t.Errorf("tools find protocols of files: %s", a.body)
	}
}

func TestOperationsRefuseWhatTheyCannotUse(t *testing.T) {
	w := newWorld(t, nil)
	for name, tc := range map[string]struct{ operation, body, message string }{
		"an unknown state": {"runs_list", `{"state":"lost"}`, "no run is in state"},
		"no run":           {"runs_show", `{}`, "run_id is missing"},
		"another type":     {"runs_show", `{"run_id":3}`, "run_id"},
		"no protocol":      {"protocol_history", `{}`, "name a protocol"},
		"no object":        {"runs_list", `[]`, "JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.post(tc.operation, tc.body).want(400, "INVALID_INPUT"); !strings.Contains(a.str("message"), tc.message) {
				t.Errorf("message %q, want %q in it", a.str("message"), tc.message)
			}
		})
	}
}

func TestOperationsAreGuardedAsTheToolsAre(t *testing.T) {
	w := newWorld(t, nil)
	n := named{run: "01900000-0000-7000-8000-000000000000", title: "Nothing"}
	for _, o := range operations.Table {
		body := requests[o.Name](n)
		w.post(o.Name, body, "Host", "evil.example").want(403, "")
		w.post(o.Name, body, "Origin", "https://evil.example").want(403, "ORIGIN_NOT_ALLOWED")
		w.post(o.Name, body, "Content-Type", "text/plain").want(415, "")
		if a := w.get(o.Path()); a.status != 405 {
			t.Errorf("GET %s = %d, want 405", o.Path(), a.status)
		}
	}
}

// withToken lets only those through as operators that send the token.
func withToken(c *rest.Config) {
	c.Operator = func(r *http.Request) error {
		if r.Header.Get("Authorization") == "Bearer secret" {
			return nil
		}
		return errors.New("send the content of FILE")
	}
}

func TestOperationsNeedAnOperator(t *testing.T) {
	w := newWorld(t, withToken)
	id := w.begun(access.Caller{Principal: "local", Space: "user:local:operator"}, twoSteps)
	for _, o := range operations.Table {
		body := requests[o.Name](named{run: string(id), title: "Two Steps"})
		for _, headers := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "secret"}, {"Authorization", "Basic secret"}} {
			a := w.post(o.Name, body, headers...).want(401, "Unauthorized")
			if !strings.Contains(a.str("message"), "FILE") || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s with %v: %s, want it to say where the token is", o.Name, headers, a.body)
			}
			if strings.Contains(string(a.body), string(id)) || strings.Contains(string(a.body), "Two Steps") {
				t.Errorf("%s with %v shows a run: %s", o.Name, headers, a.body)
			}
		}
	}
	w.post("runs_list", `{}`, "Authorization", "Bearer secret").want(200, "")
}

// Everything that a server answers without the token of the operator; what is not listed
// here needs it, and shows no runs.
func TestOnlyThisIsOpen(t *testing.T) {
	open := []string{
		"/", "/api", "/api/openapi.json", "/api/snapshot", "/health", "/healthz", "/readyz", "/auth/callback", "/auth/login", "/mcp", "/approve/{run}/{secret}",
		"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
	}
	for _, tool := range toolset.Table {
		open = append(open, tool.Path())
	}
	slices.Sort(open)
	if diff := cmp.Diff(open, newWorld(t, withToken).api.Open()); diff != "" {
		t.Errorf("routes without the token (-expected +served):\n%s", diff)
	}
}

func TestOperationsAreNotServedWithoutWhoIsAnOperator(t *testing.T) {
	var c rest.Config
	newWorld(t, func(given *rest.Config) { c = *given })
	c.Operator = nil
	if _, err := rest.New(c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no Operator is set") {
		t.Errorf("New = %v, want an error: everybody would be an operator", err)
	}
}

func TestOperationsAreServedOnlyWhereThereAreSome(t *testing.T) {
	w := newWorld(t, func(c *rest.Config) { c.Operations = nil })
	w.post("runs_list", `{}`).want(404, "")
	if a := w.get("/api/openapi.json"); strings.Contains(string(a.body), "runs_list") {
		t.Error("openapi.json has operations that are not served")
	}
}
