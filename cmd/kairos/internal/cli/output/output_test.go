package output

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/core/fault"
)

func TestPeopleAreToldCommandsInsteadOfTools(t *testing.T) {
	const uri = "kairos://mem/9d51e9c9-c7f9-4b9b-99b6-2a9c3085aaaa"
	const run = "0197a3c1-0000-7000-8000-00000000abcd"
	for text, want := range map[string]string{
		"call kairos_next with " + uri + " again":                                     "run `kairos runs next " + uri + "` again",
		"call kairos_attest with " + uri + " and run_id " + run + ", outcome success": "run `kairos runs attest " + uri + " --run-id " + run + "`, outcome success",
		"calling kairos_next again continues it":                                      "running `kairos runs next` again continues it",
		"retry kairos_next with " + uri + ", or give up":                              "retry `kairos runs next " + uri + "`, or give up",
		"Do not do its work: call kairos_begin, and wait":                             "Do not do its work: run `kairos runs begin`, and wait",
		"kairos_http_requests_total, kairos_beginning":                                "kairos_http_requests_total, kairos_beginning",
	} {
		if got := Commands(text); got != want {
			t.Errorf("Commands(%q) = %q, want %q", text, got, want)
		}
	}
	err := fault.New(fault.DriverUnavailable, "it is not readable; call kairos_next again").WithHint("call kairos_attest to give up")
	want := "DRIVER_UNAVAILABLE: it is not readable; run `kairos runs next` again\n  next: run `kairos runs attest` to give up"
	if got := Message(err); got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
}

// An error may quote a text of several lines. Only its first line begins at the
// left edge, where the program's own lines begin.
func TestAnErrorOfSeveralLinesIsIndented(t *testing.T) {
	refused := fault.New(fault.InvalidArgument, "the answer is \"no\nattested: verified true\x1b[2A\r\n  indented\n\nrun 1\"").WithHint("try again")
	want := "INVALID_ARGUMENT: the answer is \"no\n  attested: verified true⟨U+001B⟩[2A\n  indented\n\n  run 1\"\n  next: try again"
	if got := Message(refused); got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}

// A command of the nine calls prints text, wherever standard output goes, and each format
// on request.
func TestTheNineCallsHaveTextAndMarkdown(t *testing.T) {
	rows := [][]string{{"TITLE", "STEPS"}, {"Release a version", "5"}}
	for flag, want := range map[string]string{
		"":     "TITLE              STEPS\nRelease a version  5\n",
		"text": "TITLE              STEPS\nRelease a version  5\n",
		"md":   "| TITLE | STEPS |\n|---|---|\n| Release a version | 5 |\n",
		"json": "[\n  [\n    \"TITLE\",\n    \"STEPS\"\n  ],\n  [\n    \"Release a version\",\n    \"5\"\n  ]\n]\n",
	} {
		f, cmd := new(Format), &cobra.Command{Use: "search"}
		f.AddToTool(cmd)
		if flag != "" {
			if err := cmd.ParseFlags([]string{"-o", flag}); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		if err := f.Print(&out, rows, func(p *Printer) { p.Rows(rows) }); err != nil || out.String() != want {
			t.Errorf("-o %s prints %q (%v), want %q", flag, out.String(), err, want)
		}
	}
	f, cmd := new(Format), &cobra.Command{Use: "runs"}
	f.AddTo(cmd)
	if err := cmd.ParseFlags([]string{"-o", "md"}); err == nil || !strings.Contains(err.Error(), "must be text, json or yaml") {
		t.Errorf("-o md where there is no Markdown: %v, want the formats that there are", err)
	}
}

func TestValuesBreakBetweenWordsAtATerminal(t *testing.T) {
	screen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = screen.Close(), terminal.Close() }()
	p := &Printer{W: terminal}
	p.Field("answer", strings.Repeat("wonderful ", 10)+"\x1b[2J")
	p.Printf("end\n")
	b := make([]byte, 1024)
	var shown string
	for !strings.Contains(shown, "end") && p.Err == nil {
		n, err := screen.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(b[:n])
	}
	lines := strings.Split(shown, "\r\n")
	if !strings.HasPrefix(lines[0], "       answer     wonderful") || !strings.HasPrefix(lines[1], strings.Repeat(" ", 18)+"wonderful") || len(lines[0]) > 80 {
		t.Errorf("shown:\n%s", shown)
	}
	if strings.Contains(shown, "\x1b") {
		t.Errorf("a value steers the terminal: %q", shown)
	}
}

// drawing starts a progress that takes its writer for a terminal.
func drawing(w *strings.Builder, total int, what string) *Progress {
	p := NewProgress(w, total, what)
	p.show()
	return p
}

func TestProgressAppearsAfterASecondAndIsErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := drawing(&out, 5000, "importing")
		time.Sleep(999 * time.Millisecond)
		p.Add(400)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		p.Add(800)
		time.Sleep(progressEvery)
		synctest.Wait()
		p.End()
		p.End()
		want := eraseLine + "importing: 400 of 5000, 400/s" + eraseLine + "importing: 1200 of 5000, 1000/s" + eraseLine
		if out.String() != want {
			t.Errorf("it writes %q, want %q", &out, want)
		}
	})
}

func TestProgressOfWhatNobodyCountsIsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := drawing(&out, 0, "checking the database")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p.End()
		if want := eraseLine + "checking the database: 2s" + eraseLine; !strings.HasSuffix(out.String(), want) {
			t.Errorf("it writes %q, want %q at the end", &out, want)
		}
	})
}

func TestProgressIsSilentForAShortCommandAndWithoutATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var short, piped strings.Builder
		p := drawing(&short, 10, "importing")
		p.Add(10)
		p.End()
		q := NewProgress(&piped, 10, "importing")
		time.Sleep(time.Minute)
		q.End()
		if short.Len()+piped.Len() > 0 {
			t.Errorf("a short command writes %q and a piped one %q, want nothing", &short, &piped)
		}
	})
}
