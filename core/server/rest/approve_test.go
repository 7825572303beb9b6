package rest_test

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

const releaseDoc = "# Release <b>\n\n## Pick\n\nx\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"name\":\"pick\",\"shell\":{\"cmd\":\"ls\"}}}\n```\n\n" +
	"## Ship it\n\nship <script>alert(1)</script>\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",%s\"shell\":{\"cmd\":\"ship <img src=x>\"}}}\n```\n"

// gate plays a run over REST up to the approval and returns the page's path
// and what asks again.
func (w *world) gate(extra string) (path string, again func() answer) {
	w.t.Helper()
	path, _, again = w.gateRun(w.mint(fmt.Sprintf(releaseDoc, extra)))
	return path, again
}

// gateRun plays another run of the protocol up to its approval.
func (w *world) gateRun(uris []string) (path, id string, again func() answer) {
	w.t.Helper()
	path, id, again, waits := w.atGate(uris)
	if waits.str("error_code") != "WAITING_FOR_USER" || waits.str("approval_url") == "" {
		w.t.Fatalf("reply %s, want one that waits for the page", waits.body)
	}
	return path, id, again
}

func (w *world) atGate(uris []string) (path, id string, again func() answer, first answer) {
	w.t.Helper()
	r := w.post("kairos_begin", fmt.Sprintf(`{"uri":%q}`, uris[0])).want(200, "")
	c := r.fields["challenge"].(map[string]any)
	r = w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q,"proof_hash":%q,"shell":{"exit_code":0}}}`,
		uris[0], c["nonce"], c["proof_hash"])).want(200, "")
	c = r.fields["challenge"].(map[string]any)
	again = func() answer {
		return w.post("kairos_next", fmt.Sprintf(`{"uri":%q,"solution":{"type":"shell","nonce":%q}}`, uris[1], c["nonce"]))
	}
	first = again()
	return first.str("approval_url"), r.str("run_id"), again, first
}

var digestField = regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`)

// press answers the page as a browser does.
func (w *world) press(path, decision, phrase string, headers ...string) answer {
	w.t.Helper()
	m := digestField.FindStringSubmatch(string(w.get(path).body))
	digest := ""
	if m != nil {
		digest = m[1]
	}
	form := url.Values{"decision": {decision}, "digest": {digest}, "phrase": {phrase}}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w.do("POST", path, strings.NewReader(form.Encode()), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

func TestThePageShowsWhatIsApprovedAndRunsNothing(t *testing.T) {
	w := newWorld(t, nil)
	path, again := w.gate("")
	for range 3 { // as link previews do
		page := w.get(path)
		if page.status != 200 || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") {
			t.Fatalf("%d %s", page.status, page.header)
		}
		text := string(page.body)
		for _, want := range []string{"Ship it", "step 2 of 2", html.EscapeString(`ship <img src=x>`), "Identity is not checked", `name="digest"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		if strings.Contains(text, "<script") || strings.Contains(text, "<img") || strings.Contains(text, "Release <b>") {
			t.Error("text of the protocol became markup")
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		} {
			if got := page.header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("policy = %q", csp)
		}
	}
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("opening the page decided: %s", r.body)
	}
}

func TestThePageTakesOneAnswer(t *testing.T) {
	for decision, want := range map[string]string{"approved": "", "rejected": "USER_DECLINED"} {
		t.Run(decision, func(t *testing.T) {
			w := newWorld(t, nil)
			path, again := w.gate("")
			if r := w.press(path, decision, "", "Origin", w.url); r.status != http.StatusSeeOther {
				t.Fatalf("%d %s, want a redirect", r.status, r.body)
			}
			shown := string(w.get(path).body)
			if strings.Contains(shown, "<form") || strings.Contains(shown, "good until") || !strings.Contains(strings.ToLower(shown), decision) {
				t.Errorf("the page after the answer still asks, or does not say %s", decision)
			}
			w.press(path, map[string]string{"approved": "rejected", "rejected": "approved"}[decision], "")
			if r := again(); r.str("error_code") != want {
				t.Errorf("error_code = %q (%s), want %q", r.str("error_code"), r.str("message"), want)
			}
		})
	}
}

func TestThePhraseIsAskedForOnThePage(t *testing.T) {
	w := newWorld(t, nil)
	path, again := w.gate(`"approval":{"phrase":"ship it now"},`)
	if page := string(w.get(path).body); !strings.Contains(page, "ship it now") || strings.Contains(page, `value="ship it now"`) {
		t.Error("the page does not name the phrase, or fills it in")
	}
	if r := w.press(path, "approved", "ship"); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), "type exactly") {
		t.Errorf("%d %s, want the page again with what is wrong", r.status, r.body)
	}
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("a wrong phrase decided: %s", r.body)
	}
	if r := w.press(path, "approved", "ship it now"); r.status != http.StatusSeeOther {
		t.Errorf("%d %s, want it taken", r.status, r.body)
	}
}

// Programs that show links add what stands behind them, cut them, or escape them.
func TestALinkThatWasChangedGetsAPage(t *testing.T) {
	w := newWorld(t, nil)
	path, again := w.gate("")
	for name, tc := range map[string]struct {
		path string
		want int
	}{
		"with what stands behind it": {path + ";%20calling", 400},
		"with a comma, escaped":      {path + "%2C", 400},
		"with a space":               {path + "%20", 400},
		"with a slash too many":      {"/" + path, 400},
		"with another slash":         {strings.Replace(path, "/approve/", "/approve//", 1), 400},
		"with dots":                  {"/x/.." + path, 400},
		"escaped":                    {strings.Replace(path, "/approve/", "/approve%2F", 1), 400},
		"with a slash at its end":    {path + "/", 404},
		"cut":                        {path[:strings.LastIndexByte(path, '/')], 404},
		"cut early":                  {"/approve", 404},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.get(tc.path)
			if r.status != tc.want || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") || !strings.Contains(string(r.body), "This link was changed") {
				t.Errorf("%d %s %s, want %d and a page", r.status, r.header.Get("Content-Type"), r.body, tc.want)
			}
			if secret := path[strings.LastIndexByte(path, '/')+1:]; strings.Contains(string(r.body), secret) {
				t.Errorf("the page shows the secret: %s", r.body)
			}
		})
	}
	if r := w.get("//health"); !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		t.Errorf("another path gets %s, want JSON", r.header.Get("Content-Type"))
	}
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("it is decided: %s", r.body)
	}
}

func TestAnotherFormDecidesNothing(t *testing.T) {
	w := newWorld(t, nil)
	path, again := w.gate("")
	guessed := path[:strings.LastIndexByte(path, '/')+1] + strings.Repeat("0", 32)
	const form = "application/x-www-form-urlencoded"
	for name, tc := range map[string]struct {
		method, path, media, body string
		headers                   []string
		want                      int
	}{
		"another secret":   {"GET", guessed, "", "", nil, 404},
		"another run":      {"GET", "/approve/0/0", "", "", nil, 404},
		"more of a path":   {"GET", path + "/x", "", "", nil, 404},
		"no secret":        {"GET", path[:strings.LastIndexByte(path, '/')], "", "", nil, 404},
		"a page elsewhere": {"POST", path, form, "decision=approved", []string{"Origin", "https://evil.example"}, 403},
		"a hidden origin":  {"POST", path, form, "decision=approved", []string{"Origin", "null"}, 403},
		"another host":     {"POST", path, form, "decision=approved", []string{"Host", "evil.example"}, 403},
		"no digest":        {"POST", path, form, "decision=approved", nil, 422},
		"JSON":             {"POST", path, "application/json", `{"decision":"approved"}`, nil, 400},
		"a long form":      {"POST", path, form, "decision=approved&x=" + strings.Repeat("x", 128<<10), nil, 413},
		"another site":     {"POST", path, form, "decision=approved", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a sister's site":  {"POST", path, form, "decision=approved", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"the page itself":  {"POST", path, form, "decision=approved", []string{"Sec-Fetch-Site", "same-origin"}, 422},
		"another method":   {"PUT", path, form, "decision=approved", nil, 405},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.do(tc.method, tc.path, strings.NewReader(tc.body), append([]string{"Content-Type", tc.media}, tc.headers...)...)
			if r.status != tc.want {
				t.Errorf("%d %s, want %d", r.status, r.body, tc.want)
			}
			if tc.want == 405 && (!strings.HasPrefix(r.header.Get("Content-Type"), "text/html") || r.header.Get("Allow") == "") {
				t.Errorf("reply %v, want a page and what is allowed", r.header)
			}
		})
	}
	if r := again(); r.str("error_code") != "WAITING_FOR_USER" {
		t.Errorf("it is decided: %s", r.body)
	}
}

// A guess gets the same reply whether the run exists or not.
func TestUnknownAndKnownRunsLookAlike(t *testing.T) {
	w := newWorld(t, nil)
	path, _ := w.gate("")
	guess := path[strings.LastIndexByte(path, '/'):len(path)-1] + "x"
	known, unknown := path[:strings.LastIndexByte(path, '/')]+guess, "/approve/01900000-0000-7000-8000-000000000000"+guess
	for _, method := range []string{"GET", "HEAD", "POST"} {
		form := strings.NewReader
		a := w.do(method, known, form("decision=approved&digest=0"), "Content-Type", "application/x-www-form-urlencoded")
		b := w.do(method, unknown, form("decision=approved&digest=0"), "Content-Type", "application/x-www-form-urlencoded")
		for _, r := range []answer{a, b} {
			r.header.Del("Date")
			r.header.Del("X-Request-Id")
		}
		if a.status != b.status || string(a.body) != string(b.body) || !maps.EqualFunc(a.header, b.header, slices.Equal) || method != "HEAD" && a.status != 404 {
			t.Errorf("%s: %d %v %s\nfor a run that exists, %d %v %s\nfor another", method, a.status, a.header, a.body, b.status, b.header, b.body)
		}
	}
}

func TestTheSecretIsInNoLog(t *testing.T) {
	w := newWorld(t, nil)
	path, _ := w.gate("")
	secret := path[strings.LastIndexByte(path, '/')+1:]
	w.press(path, "approved", "")
	w.get(path + "0")
	w.do("PUT", path, nil)
	log := w.log.String()
	if strings.Contains(log, secret) {
		t.Errorf("the log has the secret:\n%s", log)
	}
	if !strings.Contains(log, "/approve/{run}/{secret}") {
		t.Error("the log does not have the page's route")
	}
}

func TestThePageAloneServesNothingElse(t *testing.T) {
	var alone *rest.API
	w := newWorld(t, nil)
	path, _ := w.gate("")
	w2 := newWorld(t, func(c *rest.Config) {
		c.Engine, c.MCP, c.Tools, c.Check, c.Approvals = nil, nil, nil, nil, w.engine.Runs
	})
	alone = w2.api
	if alone == nil || w2.get(path).status != 200 {
		t.Error("the page is not served")
	}
	for _, p := range []string{"/", "/api", "/health", "/mcp", "/api/kairos_search"} {
		if r := w2.get(p); r.status != 404 {
			t.Errorf("%s = %d, want 404", p, r.status)
		}
	}
}

// TestThePageSaysWhenItWasOpened: from what kind of address, which is not kept
// itself, and not from where an untrusted header says.
func TestThePageSaysWhenItWasOpened(t *testing.T) {
	w := newWorld(t, nil)
	path, _ := w.gate("")
	if first := string(w.get(path).body); strings.Contains(first, "Opened before") {
		t.Error("the first visitor is told of visits before")
	}
	second := string(w.do("GET", path, nil, "X-Forwarded-For", "203.0.113.7").body)
	if !strings.Contains(second, "Opened before") || !strings.Contains(second, ", from this machine") {
		t.Errorf("the page does not say that it was opened from this machine: %s", second)
	}
	third := string(w.get(path).body)
	if !strings.Contains(third, ", from behind a proxy") || strings.Contains(third, "203.0.113.7") {
		t.Errorf("the page does not say that a proxy forwarded a visit: %s", third)
	}
}
