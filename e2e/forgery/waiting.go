package forgery

// waiting are attacks on KAIROS that are not played yet, and what they wait for.
var waiting = map[string]string{
	"change the script after its approval":    commands,
	"change the workspace after its approval": commands,
	"swap a file for a link":                  commands,
	"edit the tests that judge":               commands,
}

const commands = "there is no driver command"

// Waits says what an attack on a kind of record waits for; empty: nothing.
func Waits(attack string, r Record) string {
	if r == Observed {
		return waiting[attack]
	}
	return ""
}
