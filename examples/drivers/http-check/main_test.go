package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

// site answers as the tests need it.
func site(t *testing.T) *url.URL {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"version":"2.4.1"}`)
	})
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/health", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat(".", maxBody), "end")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func configured(t *testing.T, config string) driver.Challenge {
	t.Helper()
	c := definition().Challenge
	if found, err := c.(driver.Configurer).Configure(t.Context(), json.RawMessage(config), false); found != nil || err != nil {
		t.Fatalf("Configure(%s) = %v, %v", config, found, err)
	}
	return c
}

func submitted(challenge, evidence string) driver.AdvanceRequest {
	return driver.AdvanceRequest{
		Challenge: json.RawMessage(challenge),
		Answers:   []driver.Answer{{InputID: "evidence", Value: json.RawMessage(evidence), Provenance: driver.AgentReported}},
	}
}

// verdict is the error code of a rejection, else the outcome, with its text.
func verdict(t *testing.T, c driver.Challenge, challenge, evidence string) (code, text string) {
	t.Helper()
	res, err := c.Advance(t.Context(), submitted(challenge, evidence))
	switch {
	case err != nil:
		t.Fatal(err)
	case res.Accepted != nil && res.Accepted.Observed:
		return "observed", string(res.Accepted.Output)
	case res.Rejected != nil:
		return res.Rejected.Code, res.Rejected.Message
	case res.Unavailable != nil:
		return "unavailable", res.Unavailable.Reason
	}
	t.Fatalf("Advance = %+v", res)
	return "", ""
}

func TestWhatTheURLAnswersDecides(t *testing.T) {
	at := site(t)
	c := configured(t, fmt.Sprintf(`{"private_hosts":[%q]}`, at.Host))
	for name, tc := range map[string]struct{ path, demands, code, says string }{
		"status":          {"/health", ``, "observed", `"status":200`},
		"body":            {"/health", `,"contains":"2.4.1"`, "observed", `"bytes":19`},
		"pattern":         {"/health", `,"matches":"\"version\":\"2\\.\\d+"`, "observed", `"body_sha256":"`},
		"header":          {"/health", `,"headers":{"content-type":"json"}`, "observed", `"status":200`},
		"head":            {"/health", `,"method":"HEAD"`, "observed", `"bytes":0`},
		"another status":  {"/gone", `,"status":410`, "observed", `"status":410`},
		"wrong status":    {"/gone", ``, "HTTP_STATUS", "status 410, not 200"},
		"wrong body":      {"/health", `,"contains":"2.5"`, "HTTP_BODY", `does not contain "2.5"`},
		"wrong pattern":   {"/health", `,"matches":"^v"`, "HTTP_BODY", "does not match ^v"},
		"wrong header":    {"/health", `,"headers":{"Content-Type":"html"}`, "HTTP_HEADER", "Content-Type"},
		"redirect":        {"/moved", ``, "HTTP_STATUS", "status 302"},
		"too slow":        {"/slow", `,"within":"200ms"`, "HTTP_UNREACHABLE", "within 200ms"},
		"beyond the size": {"/large", `,"contains":"end"`, "HTTP_BODY", "1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			challenge := fmt.Sprintf(`{"http_check":{"url":"%s%s"%s}}`, at, tc.path, tc.demands)
			code, text := verdict(t, c, challenge, `{"done":true}`)
			if code != tc.code || !strings.Contains(text, tc.says) {
				t.Errorf("Advance = %s %q, want %s %q", code, text, tc.code, tc.says)
			}
			if code != "observed" && strings.Contains(text, "version") {
				t.Errorf("the rejection %q quotes the body", text)
			}
		})
	}
}

func TestNobodyLooksBeforeTheWorkIsDone(t *testing.T) {
	c := configured(t, `{"hosts":["example.com"]}`)
	for evidence, want := range map[string]string{
		`{"done":false}`: "NOT_DONE", `{}`: "MISSING_FIELD", `{"done":7}`: "MISSING_FIELD", `"done"`: "MISSING_FIELD",
	} {
		if code, text := verdict(t, c, `{"http_check":{"url":"https://example.com"}}`, evidence); code != want {
			t.Errorf("Advance(%s) = %s %q, want %s", evidence, code, text, want)
		}
	}
}

func TestOnlyAllowedHostsAreAsked(t *testing.T) {
	at := site(t)
	for name, tc := range map[string]struct{ config, url, code, says string }{
		"nothing allowed":      {`{}`, at.String(), "unavailable", "not among the hosts"},
		"another port":         {`{"private_hosts":["127.0.0.1"]}`, at.String(), "unavailable", "not among the hosts"},
		"another host":         {`{"hosts":["example.com"]}`, "http://example.com.evil.test", "unavailable", "not among"},
		"a password":           {`{"hosts":["example.com"]}`, "http://me:secret@example.com", "unavailable", "password"},
		"a file":               {`{"hosts":["example.com"]}`, "file:///etc/passwd", "unavailable", "http or https"},
		"not an URL":           {`{}`, "http://[::1", "unavailable", "missing ']'"},
		"a template is left":   {`{}`, at.String() + "/{{ input.path }}", "unavailable", "not among the hosts"},
		"private, not said so": {fmt.Sprintf(`{"hosts":[%q]}`, at.Host), at.String(), "HTTP_UNREACHABLE", "not public"},
		"a name for it":        {fmt.Sprintf(`{"hosts":["localhost:%s"]}`, at.Port()), "http://localhost:" + at.Port(), "HTTP_UNREACHABLE", "not public"},
		"private, said so":     {fmt.Sprintf(`{"private_hosts":[%q]}`, at.Host), at.String() + "/gone", "HTTP_STATUS", "410"},
	} {
		t.Run(name, func(t *testing.T) {
			challenge := fmt.Sprintf(`{"http_check":{"url":%q}}`, tc.url)
			code, text := verdict(t, configured(t, tc.config), challenge, `{"done":true}`)
			if code != tc.code || !strings.Contains(text, tc.says) {
				t.Errorf("Advance(%s) = %s %q, want %s %q", tc.url, code, text, tc.code, tc.says)
			}
		})
	}
}

func TestOnlyPublicAddressesArePublic(t *testing.T) {
	for _, a := range []string{"93.184.215.14", "2606:2800:21f:cb07::1"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is not public, want public", a)
		}
	}
	for _, a := range []string{
		"127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::",
		"224.0.0.1", "255.255.255.255", "fe80::1", "fd00::1", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::",
	} {
		if isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is public, want not public", a)
		}
	}
}

func TestWhatIsWrongIsPointedAt(t *testing.T) {
	c := configured(t, `{"hosts":["example.com"]}`)
	for params, want := range map[string]string{
		`{"url":"https://example.com","method":"HEAD","status":301,"within":"1s"}`: "",
		`{"url":"https://{{ input.host }}/health"}`:                                "",
		`{}`:                            "/http_check/url",
		`{"url":"https://example.org"}`: "/http_check/url",
		`{"url":"https://example.com","method":"POST"}`:                 "/http_check/method",
		`{"url":"https://example.com","method":"HEAD","contains":"ok"}`: "/http_check/method",
		`{"url":"https://example.com","status":99}`:                     "/http_check/status",
		`{"url":"https://example.com","within":"1m"}`:                   "/http_check/within",
		`{"url":"https://example.com","matches":"("}`:                   "/http_check/matches",
		`{"url":"https://example.com","headers":{"a":1}}`:               "/http_check/headers/a",
	} {
		res, err := c.Validate(t.Context(), driver.ValidateRequest{Challenge: json.RawMessage(`{"http_check":` + params + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, d := range res.Diagnostics {
			got += d.Pointer
		}
		if got != want {
			t.Errorf("Validate(%s) points at %q, want %q: %v", params, got, want, res.Diagnostics)
		}
	}
}

func TestContract(t *testing.T) {
	at := site(t)
	d := definition()
	d.Challenge = configured(t, fmt.Sprintf(`{"private_hosts":[%q]}`, at.Host))
	challenge := fmt.Sprintf(`{"type":"http_check","http_check":{"url":"%s/health"}}`, at)
	drivertest.Run(t, d,
		drivertest.Sample{Name: "valid", Request: driver.ValidateRequest{Challenge: json.RawMessage(challenge)}, Want: drivertest.Valid},
		drivertest.Sample{Name: "no url", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"http_check":{}}`)}, Want: drivertest.Invalid},
		drivertest.Sample{Name: "asks", Request: driver.AdvanceRequest{Challenge: json.RawMessage(challenge)}, Want: drivertest.NeedInput},
		drivertest.Sample{Name: "passes", Request: submitted(challenge, `{"done":true}`), Want: drivertest.Accepted},
		drivertest.Sample{Name: "not done", Request: submitted(challenge, `{"done":false}`), Want: drivertest.Rejected},
	)
}
