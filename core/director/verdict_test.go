package director_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// judged is the reply to evidence that a driver judges so.
func judged(t *testing.T, evidence string, judge func() driver.AdvanceResult) (retries int, code, message string) {
	t.Helper()
	w := judgedBy(descriptors["user_input"].Effect, judge)(t)
	uri := w.mint(stagedStep)[0]
	r := w.next(uri, solve(w.begin(uri), works))
	r = w.next(uri, solve(r, evidence))
	return *r.RetryCount, r.ErrorCode, r.Message
}

func TestADriversCodeIsNeverTakenForOneOfTheCore(t *testing.T) {
	for code, want := range map[string]string{
		"RUN_COMPLETE":       "user_input.RUN_COMPLETE",
		"NONCE_MISMATCH":     "user_input.NONCE_MISMATCH",
		"WORD_MISSING":       "user_input.WORD_MISSING",
		"MISSING_FIELD":      "MISSING_FIELD", // clients of the contract act on these
		"COMMAND_FAILED":     "COMMAND_FAILED",
		"COMMENT_TOO_SHORT":  "COMMENT_TOO_SHORT",
		"COMMENT_IRRELEVANT": "COMMENT_IRRELEVANT",
	} {
		retries, got, _ := judged(t, `{"ok":true}`, func() driver.AdvanceResult { return driver.Reject(code, "no") })
		if got != want || retries != 1 {
			t.Errorf("%s is replied as %q with %d retries, want %q and 1", code, got, retries, want)
		}
	}
}

func TestAFailedRouteHasNoCodeOfTheCore(t *testing.T) {
	for name, want := range map[string]fault.Code{
		"elicitation": fault.ElicitationFailed, "sampling": "SAMPLING_FAILED", "store": "store.FAILED", "command": "command.FAILED",
	} {
		if got := fault.OfRoute(name); got != want {
			t.Errorf("OfRoute(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestAnOutputThatIsTooLargeIsRefused(t *testing.T) {
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", 256<<10) + `"}`)
	accept := func() driver.AdvanceResult { return driver.Accept(json.RawMessage(`{}`), large) }
	for name, tc := range map[string]struct {
		evidence string
		code     fault.Code
		retries  int
	}{
		"made of large evidence": {fmt.Sprintf(`{"ok":true,"more":%s}`, large), fault.OutputInvalid, 1},
		"made by the driver":     {`{"ok":true}`, fault.DriverUnavailable, 0},
	} {
		retries, code, message := judged(t, tc.evidence, accept)
		if code != string(tc.code) || retries != tc.retries || !strings.Contains(message, "at most 262144 are kept") {
			t.Errorf("%s: %s with %d retries, %q; want %s and %d", name, code, retries, message, tc.code, tc.retries)
		}
	}
}
