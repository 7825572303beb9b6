// Command kairos-driver-http_check is a challenge driver: a URL must answer as
// the step demands. The agent says that the work is done; the driver then looks
// for itself, so that its proof is server-observed.
package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/sdk/challenge"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/pattern"
	"github.com/kairos-mcp/kairos/sdk/settings"
)

func main() { driverrpc.Main(definition()) }

// demand is the object http_check of a challenge.
type demand struct {
	URL      string            `json:"url" required:"true" max:"2000" doc:"what to ask"`
	Method   string            `json:"method" default:"GET" enum:"GET,HEAD"`
	Status   int               `json:"status" default:"200" min:"200" max:"599" doc:"status it has to answer with"`
	Headers  map[string]string `json:"headers" max:"10" doc:"headers it has to answer with, and what each has to contain"`
	Contains string            `json:"contains" doc:"text that its body has to contain"`
	Matches  string            `json:"matches" max:"500" doc:"regular expression (RE2) that its body has to match"`
	Within   time.Duration     `json:"within" default:"5s" min:"100ms" max:"8s" doc:"how fast it has to answer"`
}

// evidence is what the agent submits before the driver looks.
type evidence struct {
	Done bool   `json:"done" required:"true" doc:"true once the work is done"`
	Note string `json:"note" doc:"anything worth keeping"`
}

func definition() driver.Driver {
	allowed := settings.New[policy]()
	judge := func(ctx context.Context, want demand, e evidence) challenge.Verdict {
		return judge(ctx, allowed.Now(), want, e)
	}
	return challenge.New("http_check", "0.1.0", judge, challenge.Options[demand]{
		Ask:      ask,
		Check:    func(want demand) []driver.Diagnostic { return check(allowed.Now(), want) },
		Settings: allowed, Effect: driver.EffectReads, Output: seen{},
	})
}

func judge(ctx context.Context, allowed policy, want demand, e evidence) challenge.Verdict {
	if !e.Done {
		return challenge.Reject("NOT_DONE", "Do the work first, then submit evidence with done true.")
	}
	saw, err := look(ctx, allowed, want)
	if err != nil {
		return challenge.Reject("HTTP_UNREACHABLE", fmt.Sprintf("%s %s: %v.", want.Method, want.URL, err))
	}
	if code, message := saw.fault(want); code != "" {
		return challenge.Reject(code, fmt.Sprintf("%s %s: %s.", want.Method, want.URL, message))
	}
	return challenge.Observe(saw)
}

// check finds what the tags of demand cannot say.
func check(allowed policy, want demand) []driver.Diagnostic {
	var found []driver.Diagnostic
	if _, err := allowed.parse(want.URL); err != nil {
		found = append(found, driver.Problem("/url", err.Error()))
	}
	if _, err := pattern.Compile(want.Matches); err != nil {
		found = append(found, driver.Problem("/matches", err.Error()))
	}
	if want.Method == http.MethodHead && want.Contains+want.Matches != "" {
		found = append(found, driver.Problem("/method", "must be GET where the body is looked at"))
	}
	return found
}

func ask(want demand) string {
	text := fmt.Sprintf("Do what the step says. KAIROS then asks %s %s itself, which has to answer within %v with status %d",
		want.Method, want.URL, want.Within, want.Status)
	for _, name := range slices.Sorted(maps.Keys(want.Headers)) {
		text += fmt.Sprintf(", a header %s with %q", name, want.Headers[name])
	}
	if want.Contains != "" {
		text += fmt.Sprintf(", a body with %q", want.Contains)
	}
	if want.Matches != "" {
		text += ", a body that matches " + want.Matches
	}
	return text + "."
}
