package output

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/fault"
)

func TestPeopleAreToldCommandsInsteadOfTools(t *testing.T) {
	const uri = "kairos://mem/9d51e9c9-c7f9-4b9b-99b6-2a9c3085aaaa"
	const run = "0197a3c1-0000-7000-8000-00000000abcd"
	for text, want := range map[string]string{
		"call kairos_next with " + uri + " again":                                     "run `kairos next " + uri + "` again",
		"call kairos_attest with " + uri + " and run_id " + run + ", outcome success": "run `kairos attest " + uri + " --run-id " + run + "`, outcome success",
		"calling kairos_next again continues it":                                      "running `kairos next` again continues it",
		"retry kairos_next with " + uri + ", or give up":                              "retry `kairos next " + uri + "`, or give up",
		"Do not do its work: call kairos_begin, and wait":                             "Do not do its work: run `kairos begin`, and wait",
		"kairos_http_requests_total, kairos_beginning":                                "kairos_http_requests_total, kairos_beginning",
	} {
		if got := Commands(text); got != want {
			t.Errorf("Commands(%q) = %q, want %q", text, got, want)
		}
	}
	err := fault.New(fault.DriverUnavailable, "it is not readable; call kairos_next again").WithHint("call kairos_attest to give up")
	want := "DRIVER_UNAVAILABLE: it is not readable; run `kairos next` again\n  next: run `kairos attest` to give up"
	if got := Message(err); got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
}
