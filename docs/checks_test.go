package docs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

const checksPage = "reference/driver-checks.md"

const checksHead = `# The checks of the driver contract

` + "`kairos driver test BINARY --sample f.json`" + ` holds a driver in any language against these rules, and
` + "`drivertest.RunFile(t, driver, \"samples.json\")`" + ` does so for a driver in Go within ` + "`go test`" + `. An id never changes its meaning.

A broken **MUST** fails the verdict, a broken **SHOULD** warns. A check that could not run is *skipped*, and the report says
what to give so that it runs; one whose rule is not about the driver (the other role, no configuration, no process) is
marked ` + "`-`" + `. Where a method, or a kind of input, has no sample, the kit makes up a request as far as the descriptor allows.

The kit gives idempotency keys as the server does: a driver with effect ` + "`reads`" + ` gets one for each sample, one with ` + "`effects`" + ` a new one for
each call, so that it acts each time. A sample may name its own. What a driver did can be seen in its replies alone: let the proof or the answer
name it, for example by the number of the payment, or ` + "`call/acts-once`" + ` cannot tell one act from two. ` + "`challenge/asks-first`" + ` sees
an act that came before any answer only if the driver tells of it, at once or asked with ` + "`recover`" + `.

This page is generated: ` + "`go test ./docs -run Checks -update`" + `.

| check | level | rule | concerns |
|---|---|---|---|
`

const checksTail = `
` + "`drivertest.Run`" + ` also holds ` + "`call/same-over-grpc`" + ` (MUST): a pure driver answers the same directly and over gRPC.

## Samples

` + "```json" + `
{
  "config": {"min": 2},
  "samples": [
    {"name": "passes", "method": "Advance", "want": "accepted",
     "request": {"challenge": {"type": "counter", "counter": {}},
                 "answers": [{"input_id": "number", "value": 3, "provenance": "agent-reported"}]}}
  ]
}
` + "```" + `

` + "`config`" + ` (optional) is the configuration under which the samples hold; the driver gets it first. ` + "`request`" + ` is the JSON form of the method's request.
Unknown keys are errors. ` + "`want`" + ` may be left out; else it is one of:

| method | want |
|---|---|
| ` + "`Validate`" + ` | ` + "`valid`, `invalid`" + ` |
| ` + "`Interpret`" + ` | ` + "`answer`, `declined`, `not_an_answer`, `unavailable`, `missing`, `dismissed`" + ` |
| ` + "`Advance`" + ` | ` + "`need_input`, `accepted`, `rejected`, `declined`, `unavailable`, `pending`, `unknown`, `not_done`" + ` |
| ` + "`Render`" + ` | ` + "`client_request`, `agent_challenge`, `answer`, `unavailable`, `client_review`, `elsewhere`, `not_an_answer`, `pending`, `unknown`, `not_done`" + ` |

Give each outcome that the driver has: the more of them, the fewer checks are skipped.
`

func TestChecksAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString(checksHead)
	for _, c := range drivertest.Checks() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.ID, c.Level, c.Why, c.On)
	}
	b.WriteString(checksTail)
	generated(t, checksPage, b.String(), "go test ./docs -run Checks -update")
}
