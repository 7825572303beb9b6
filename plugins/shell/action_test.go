package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func actionText(t testing.TB, command string) string {
	t.Helper()
	raw, err := actionOf(command)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// reads is what only rules compare.
var reads = regexp.MustCompile(`,\{"reads_as":\[[^\]]*\]\}`)

func TestSpellingsOfACommandAreOneAction(t *testing.T) {
	for want, spellings := range map[string][]string{
		`{"command":[["rm","-fr","/srv/x"]]}`: {
			"rm -rf /srv/x", "rm  -rf   /srv/x", " rm\t-rf /srv/x\n", "rm -rf /srv/x #", "rm -rf /srv/x # harmless", "# first\nrm -rf /srv/x",
			"rm -r -f /srv/x", "rm -f -r /srv/x", "rm -fr /srv/x", "rm -Rf /srv/x", "rm /srv/x -rf", "rm --recursive --force /srv/x", "rm -rf -- /srv/x", "rm -rfrf /srv/x",
			`rm -rf "/srv/x"`, `rm -rf '/srv/x'`, `"rm" '-rf' /srv/x`, `r\m -rf /srv/x`, `rm -rf /srv/""x`, `rm -rf $'/srv/\x78'`, `\rm -rf /srv/x`, `rm -rf /srv/\x`,
			"rm -rf \\\n /srv/x", "rm\u00a0-rf\u3000/srv/x", "rm -rf /srv/x\u200b", "r\u200bm -rf /srv/\u00adx", "rm -rf /srv/x;", "rm -rf /srv/x\r\n", "/bin/rm -rf /srv/x", "/usr/bin/rm -rf /srv/x",
			"true; rm -rf /srv/x", "rm -rf /srv/x || true", "( rm -rf /srv/x )", "{ rm -rf /srv/x; }", "! rm -rf /srv/x", "rm -rf /srv/x &", "rm -rf /srv/{x,}x"[:len("rm -rf /srv/")] + "x",
		},
		`{"command":[["make","ship"]]}`:                                         {"make ship", " make ship\n", "make ship && make ship"},
		`{"command":[["tar","-xf","a"]]}`:                                       {"tar -xf a", "tar -x -f a"},
		`{"command":[["tar","-fx","a"]]}`:                                       {"tar -f -x a"}, // -f takes what follows
		`{"command":[["echo",{"unparsed":"$HOME"},{"unparsed":"$()"}],["id"]]}`: {`echo "$HOME" "$(id)"`, "echo ${HOME} `id`"},
		`{"command":[["touch","a","b"]]}`:                                       {"touch {a,b}", "touch 'a' b"},
		`{"command":[["sudo","rm","-rf","/x"],["rm","-fr","/x"]]}`:              {"sudo rm -rf /x", `sudo "rm" -rf /x`},
		`{"command":[["sh","-c","rm -rf /x"],["rm","-fr","/x"]]}`:               {`sh -c "rm -rf /x"`},
		`{"command":[["eval","rm","/x"],["rm","-","/x"]]}`:                      {"eval rm /x"},
		`{"command":[{"set":"A=1"},["make"],{"redirect":"2\u003e log"}]}`:       {"A=1 make 2>log"},
		`{"command":[{"for":["i","a","b"]},["rm","-",{"unparsed":"$i"}]]}`:      {"for i in a b; do rm $i; done"},
		`{"command":[{"unparsed":"rm-rf/srv/x("}]}`:                             {"rm -rf /srv/x (", " rm  -rf /srv/\u200bx ( "},
		`{"command":[["rm","-fr","/srv/x"],{"unparsed":"rm-rf/srv/x("}]}`:       {"rm -rf /srv/x\n("}, // a shell runs the first line
		`{"command":[{"unparsed":"#nothing"}]}`:                                 {"# nothing"},
	} {
		for _, spelling := range spellings {
			if got := reads.ReplaceAllString(actionText(t, spelling), ""); got != want {
				t.Errorf("the action of %q is %s, want %s", spelling, got, want)
			}
		}
	}
}

// A rule such as [fly, deploy] has to find the command however it is written, and must not
// find others.
func TestARuleFindsACommandInItsReadings(t *testing.T) {
	const deploy = `["fly","deploy"`
	for command, want := range map[string]string{
		"fly deploy --now":               deploy,
		"cd app && fly deploy":           deploy,
		"/opt/fly/bin/fly deploy":        `{"reads_as":` + deploy,
		"fly -a shop deploy":             `{"reads_as":` + deploy,
		"fly --app=shop -v deploy":       `{"reads_as":` + deploy,
		"sudo -u app fly deploy":         deploy,
		"timeout 5 fly deploy":           `{"reads_as":` + deploy,
		"env A=1 fly deploy":             deploy,
		`sh -c "fly deploy"`:             deploy,
		`eval "fly deploy"`:              deploy,
		"echo `fly deploy`":              deploy,
		"fly $WHAT":                      `["fly",{"unparsed":"$WHAT"}]`,
		"$(echo fly) deploy":             `[{"unparsed":"$()"},"deploy"]`,
		"f() { fly $1; }; f deploy":      `["fly",{"unparsed":"$1"}]`,
		"fl? deploy":                     `[{"unparsed":"fl?"},"deploy"]`,
		"echo fly deploy | sh":           `{"unparsed":"sh"}`,
		"sh deploy.sh":                   `{"unparsed":"sh deploy.sh"}`,
		". ./deploy":                     `{"unparsed":". ./deploy"}`,
		"echo deploy | xargs fly":        `{"unparsed":"xargs fly"}`,
		"fly deploy (":                   `{"unparsed":"flydeploy("}`,
		`bash -c "$SCRIPT"`:              `[{"unparsed":"$SCRIPT"}]`,
		"find . -exec fly deploy {} \\;": deploy,
	} {
		if got := actionText(t, command); !strings.Contains(got, want) {
			t.Errorf("the action of %q is %s, want %s in it", command, got, want)
		}
	}
	for _, command := range []string{"echo fly deploy", "echo '$HOME' \\*", "flyctl deploy", "fly status deploy", "git -C deploy status", "rm -rf deploy"} {
		if got := actionText(t, command); strings.Contains(got, deploy) || strings.Contains(got, "unparsed") {
			t.Errorf("the action of %q is %s, which a rule for fly deploy takes for one", command, got)
		}
	}
}

func TestOtherCommandsAreOtherActions(t *testing.T) {
	seen := map[string]string{}
	for _, command := range []string{
		"rm -rf /srv/x", "rm -r /srv/x", "rm -rf /srv/X", "rm -rf /srv/y", "rm -rf /srv/ x", "rm -rf '/srv/x y'", "rm -rf /srv/x y", "rmdir /srv/x", "rm -rf /srv/x /srv/y",
		"tar -xf a", "tar -fx a", "cc -oprod x", "cc -odrop x", "echo a > b", "echo a >> b", "echo a", "A=1 make", "A=2 make", "make", "chmod -r x", "chmod -R x",
		"scp -i a -o b", "scp -o a -i b", "touch {1..9}", "touch {1..8}", "[[ -f a ]]", "[[ -f b ]]", "case a in b) make;; esac", "cat <<E\na\nE", "cat <<E\nb\nE", "cat (", "cat [ (",
	} {
		action := actionText(t, command)
		if other, twice := seen[action]; twice {
			t.Errorf("%q and %q are one action: %s", command, other, action)
		}
		seen[action] = command
	}
}

// A shell takes each of these spellings of a word for the word.
func TestQuotingDoesNotChangeTheAction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9/_.$'"\\ ;|&{},~*-]{1,8}`), 1, 5).Draw(t, "words")
		words[0] = "tool" // nothing that is read in another way
		spelt := func(seed uint64) string {
			r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			var b strings.Builder
			for i, w := range words {
				if i > 0 {
					b.WriteString(strings.Repeat(" ", 1+r.IntN(3)))
				}
				switch r.IntN(3) {
				case 0:
					fmt.Fprintf(&b, "'%s'", strings.ReplaceAll(w, "'", `'\''`))
				case 1:
					fmt.Fprintf(&b, `"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(w))
				default:
					for _, c := range w {
						fmt.Fprintf(&b, `\%c`, c)
					}
				}
			}
			return b.String()
		}
		a, err := actionOf(spelt(1))
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(4) {
			b, err := actionOf(spelt(seed + 2))
			if err != nil || string(a) != string(b) {
				t.Errorf("%s is %s, and %s is %s, %v", spelt(1), a, spelt(seed+2), b, err)
			}
		}
	})
}

// FuzzAction: whatever the command is, its action is one JSON object of bounded size, the
// same each time, and what stands in front of it does not hide it.
func FuzzAction(f *testing.F) {
	for _, seed := range []string{"rm -rf /srv/x", "a && b | c", "$(", "((((", "{a,{b,c}}{1..99999999}", "cat <<E\n$(x)\nE", "sh -c 'sh -c \"sh -c x\"'", "${a:-${b}}", "\\", "$'\\x", "eval eval eval a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, command string) {
		action := actionText(t, command)
		var read struct {
			Commands []json.RawMessage `json:"command"`
			Anything bool              `json:"more than can be compared"`
		}
		if err := json.Unmarshal([]byte(action), &read); err != nil || len(read.Commands) == 0 != read.Anything || len(read.Commands) > maxParts+1 || action != actionText(t, command) {
			t.Fatalf("the action of %q is %.300s, %v", command, action, err)
		}
		more := actionText(t, "before\n"+command)
		for _, part := range read.Commands {
			if !strings.Contains(string(part), `"unparsed"`) && len(read.Commands) < maxParts-1 && !strings.Contains(more, string(part)) {
				t.Errorf("%s of %q is not found behind another command: %s", part, command, more)
			}
		}
	})
}

// What is too much to compare may be anything, so that padding does not hide a command.
func TestAHugeCommandIsBounded(t *testing.T) {
	distinct := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "c %d\n", i)
		}
		return b.String()
	}
	for name, tc := range map[string]struct{ command, has string }{
		"braces":   {"touch " + strings.Repeat("{a,b}", 60), `"touch"`},
		"sequence": {"touch {1..99999999}", `{1..99999999}`},
		"nested":   {strings.Repeat("$(", 20_000), "more than can be compared"},
		"parens":   {strings.Repeat("(", 60_000), "more than can be compared"},
		"repeated": {strings.Repeat("a\n", 30_000) + strings.Repeat("b 1\n", 10), `["b","1"]`},
		"comment":  {"#" + strings.Repeat("x", 100_000) + "\nrm -rf /x", `["rm","-fr","/x"]`},
		"distinct": {distinct(5000), "more than can be compared"},
		"long":     {strings.Repeat("x", 1<<20), "more than can be compared"},
		"evals":    {strings.Repeat("eval ", 5000) + "a", `"eval"`},
	} {
		action := actionText(t, tc.command)
		if len(action) > 1<<20 || !strings.Contains(action, tc.has) {
			t.Errorf("%s: the action has %d bytes: %.100s", name, len(action), action)
		}
	}
}
