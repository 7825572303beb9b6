package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bombSize    = 10<<20 - 4096   // bytes: just below the largest document
	bombText    = 1_000_000       // bytes: just below the largest text and challenge of a step
	bombTime    = 2 * time.Minute // fifteen times what the slowest takes, four at once on an idle machine
	bombMemory  = 512 << 20       // bytes of the server's resident memory
	bombCeiling = 2 << 30         // bytes of data that a process may have
)

// whole repeats a part up to the size of a document.
func whole(part string) string { return strings.Repeat(part, bombSize/len(part)) }

// fill repeats a part up to the size of a step.
func fill(part string) string { return strings.Repeat(part, bombText/len(part)) }

// count joins the parts of 0, 1, 2, ... up to a size.
func count(size int, between string, part func(i int) string) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := part(i)
		if b.Len()+len(next)+len(between) > size {
			return b.String()
		}
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(next)
	}
}

// in returns a kind of document of steps with a challenge, as many as are allowed.
func in(challenge string) func(title string) string {
	step := "\n\n## One\n\nDo it.\n\n```json\n{\"challenge\":" + challenge + "}\n```\n"
	return func(title string) string { return "# " + title + strings.Repeat(step, min(4, bombSize/len(step))) }
}

// one is in with a single step.
func one(challenge string) func(title string) string {
	return func(title string) string {
		return "# " + title + "\n\n## One\n\nDo it.\n\n```json\n{\"challenge\":" + challenge + "}\n```\n"
	}
}

// withInputs returns a kind of document of one free step with inputs.
func withInputs(schema string) func(title string) string {
	return func(title string) string {
		return "# " + title + "\n\n```json\n{\"inputs\":" + schema + "}\n```\n\n## One\n\nDo it.\n"
	}
}

// text returns a kind of document of steps with this text, as many as fit.
func text(body string) func(title string) string {
	step := "\n\n## One\n\n" + body + "\n"
	return func(title string) string { return "# " + title + strings.Repeat(step, min(9, bombSize/len(step))) }
}

// front returns a kind of document with this front matter.
func front(yaml string) func(title string) string {
	return func(title string) string { return "---\n" + yaml + "\n---\n# " + title + "\n\n## One\n\nDo it.\n" }
}

func each(part string) func(i int) string {
	return func(i int) string { return strings.ReplaceAll(part, "#", strconv.Itoa(i)) }
}

// bombs are hostile documents by their kind.
func bombs() map[string]func(title string) string {
	const comment = `{"type":"comment","comment":{"min_length":1}`
	long := strings.Repeat("a.b.", 45)
	size := bombSize - 1000
	ask := `{"type":"user_input","user_input":{"prompt":"x"},"output_schema":`
	return map[string]func(title string) string{
		"step headings":        func(title string) string { return "# " + title + "\n" + whole("## S\n") },
		"protocols":            func(title string) string { return count(size, "\n", each("# "+title+" #\n\n## A\n\nx\n")) },
		"titles without steps": func(title string) string { return count(size, "\n", each("# "+title+" #\nx")) },
		"10,000 steps": func(title string) string {
			return "# " + title + "\n" + strings.Repeat("## S\n\n"+strings.Repeat("x ", 500)+"\n", 9_900)
		},
		"10,000 challenges": func(title string) string {
			return "# " + title + "\n" + strings.Repeat("## S\n\n```json\n{\"challenge\":"+comment+"}}\n```\n", 9_900)
		},
		"deep headings":         text(fill("###### h\n")),
		"code blocks":           text(fill("```\n```\n")),
		"an open fence":         text("```\n" + fill("``\n")),
		"long fences":           text(fill(strings.Repeat("`", 5000) + "\n")),
		"nested lists":          text(fill(strings.Repeat("- ", 90) + "x\n")),
		"list items":            text(fill("- x\n")),
		"quotes":                text(fill(strings.Repeat("> ", 90) + "x\n")),
		"indented blocks":       text(fill("- a\n\n      b\n\n")),
		"links":                 text(fill("[a](b) ")),
		"open brackets":         text(fill("[")),
		"reference definitions": text(count(bombText, "\n", each("[a#]: http://example.com/#"))),
		"emphasis":              text(fill("*a **b _c ")),
		"a table":               text("| a | b |\n|---|---|\n" + fill("| 1 | 2 |\n")),
		"html":                  text(fill("<div>\n\n")),
		"open comments":         text(fill("<!-- ")),
		"entities":              text(fill("&amp;&#x41;")),
		"a long line":           text(fill("word ")),
		"blank lines":           text(fill("\n")),
		"carriage returns":      text(fill("\r\r\r\n")),
		"byte order marks":      text(fill("\ufeff\n")),
		"combining marks":       text("e" + fill("\u0301")),
		"tag characters":        text(fill("\U000e0041")),
		"a huge title":          func(title string) string { return "# " + title + whole("x") + "\n\n## One\n\nx\n" },
		"a huge heading":        func(title string) string { return "# " + title + "\n\n## " + whole("word ") + "\n\nx\n" },
		"underlined headings":   text(fill("a\n---\n")),
		"a zero byte":           text(fill("x") + "\x00"),
		"invalid UTF-8":         text(fill("x") + "\xff"),
		"quoted as JSON": func(title string) string {
			return strconv.Quote("# " + title + "\n\n## A\n\n" + strings.Repeat("x\\", 2_000_000))
		},
		"old proofs of work":    text(fill("PROOF OF WORK: [timeout 90s] true\n")),
		"numbered headings":     func(title string) string { return "# " + title + "\n" + count(1<<20, "\n", each("## Step #: 3. a")) },
		"front matter, huge":    front("x: " + whole("a")),
		"front matter, aliases": front("a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\ntags: [*b,*b,*b,*b]"),
		"front matter, deep":    front("a: " + strings.Repeat("[", 30_000)),
		"front matter, keys":    front(count(60_000, "\n", each("k#: v"))),
		"front matter, words":   front("tags: " + count(60_000, ", ", each("t#"))),
		"text templates": func(title string) string {
			return withInputs(`{"properties":{"a":{"type":"string"}}}`)(title) + fill("{{ input.a }}")
		},
		"other text templates": func(title string) string {
			return withInputs(`{"properties":{"a":{"type":"string"}}}`)(title) + count(bombText, " ", each("{{ input.b# }}"))
		},
		"braces":                text(fill("{{")),
		"almost templates":      text(fill("{{ input. }}")),
		"one template repeated": in(comment + `,"note":"` + fill("{{ input.a }}") + `"}`),
		"80,000 templates":      in(`{"type":"shell","shell":{"cmd":"echo ` + strings.Repeat("{{ input.a }}", 80_000) + `"}}`),
		"9,000 templates":       one(`{"type":"shell","shell":{"cmd":"echo ` + strings.Repeat("{{ input.a }}"+strings.Repeat(" x", 45), 9_000) + `"}}`),
		"9,000 bad templates":   one(`{"type":"shell","shell":{"cmd":"echo '` + strings.Repeat("{{ input.a }}"+strings.Repeat(" x", 45), 9_000) + `"}}`),
		"templates of a big step": func(title string) string {
			return in(`{"type":"comment","name":"one","comment":{"min_length":1,"x":"`+strings.Repeat("x", 900_000)+`"},"output_schema":{"properties":{"a":{}}}}`)(title) + "\n## Two\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"shell\":{\"cmd\":\"echo " + count(300_000, " ", each("{{ steps.one.b# }}")) + "\"}}}\n```\n"
		},
		"braces of a challenge": in(`{"type":"shell","shell":{"cmd":"` + fill("{{") + `"}}`),
		"integers":              in(comment + `,"n":[` + fill("1,") + `1]}`),
		"objects":               in(comment + `,"n":[` + fill("{},") + `1]}`),
		"deep JSON":             in(comment + `,"n":` + strings.Repeat("[", 60) + fill("1,") + "1" + strings.Repeat("]", 60) + `}`),
		"deeper JSON":           in(fill("[")),
		"many keys":             in(`{"type":"comment","comment":{"min_length":1},` + count(bombText, ",", each(`"k#":1`)) + `}`),
		"keys beside the challenge": func(title string) string {
			return strings.Replace(one(comment+`}`)(title), `{"challenge"`, "{"+count(bombText, ",", each(`"k#":1`))+`,"challenge"`, 1)
		},
		"a long key":               in(`{"type":"comment","comment":{"min_length":1},"` + strings.Repeat("k", 900_000) + `":{"a":[` + strings.Repeat("0,", 2<<20) + `0]}}`),
		"long keys":                in(`{"type":"comment","comment":{` + count(bombText, ",", each(`"`+strings.Repeat("k", 900)+`#":{"a":1}`)) + `}}`),
		"unknown keys of a driver": one(`{"type":"comment","comment":{"min_length":1,` + count(900_000, ",", each(`"k#":1`)) + `}}`),
		"duplicate keys":           in(comment + `,` + fill(`"a":1,`) + `"a":1}`),
		"escapes":                  in(comment + `,"x":"` + fill(`\u0041\n\"`) + `"}`),
		"exponents":                in(comment + `,"x":[` + strings.Repeat("1e999999999,", 100_000) + `1]}`),
		"long numbers":             in(comment + `,"x":` + fill("9") + `}`),
		"an open string":           in(`{"type":"` + fill("x")),
		"10,000 patterns in files": in(comment + `,"files":[` + count(200_000, ",", each(`{"path":"a#","regex":"x{999}#"}`)) + `]}`),
		"files of many steps": func(title string) string {
			return "# " + title + "\n" + count(5<<20, "\n", each("## S #\n\n```json\n{\"challenge\":"+comment+`},"files":[`+strings.TrimSuffix(strings.Repeat(`{"path":"a","regex":"(ab?c#){999}"},`, 20), ",")+"]}}\n```"))
		},
		"patterns of 6 MiB": withInputs(`{"properties":{` + count(125_000, ",", each(`"a#":{"pattern":"(`+long+`#){1000}"}`)) + `}}`),
		"small patterns":    withInputs(`{"properties":{` + count(900_000, ",", each(`"a#":{"pattern":"x#{99}"}`)) + `}}`),
		"classes":           withInputs(`{"properties":{` + count(900_000, ",", each(`"a#":{"pattern":"`+strings.Repeat(`\\pL`, 1000)+`#"}`)) + `}}`),
		"schemas of many steps": func(title string) string {
			return "# " + title + "\n" + count(size, "\n", each("## S #\n\n```json\n{\"challenge\":"+comment+`},"output_schema":{"properties":{`+strings.TrimSuffix(strings.Repeat(`"a":{"b":{}},`, 1), ",")+`,"p":{"pattern":"(ab?c#){999}"}}}`+"}}\n```"))
		},
		"wide schemas": func(title string) string {
			return "# " + title + "\n" + count(size, "\n", each("## S #\n\n```json\n{\"challenge\":"+comment+`},"output_schema":{"properties":{`+count(18_000, ",", each(`"a#":{}`))+`}}`+"}\n```"))
		},
		"alternatives":           in(ask + `{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 50_000), ",") + `]}}}`),
		"3,000 alternatives":     withInputs(`{"properties":{"l":{"items":{"anyOf":[` + count(60_000, ",", each(`{"const":"#"}`)) + `]}}}}`),
		"an enum":                in(ask + `{"properties":{"a":{"enum":[` + count(bombText, ",", each("#")) + `]}}}}`),
		"cycles of references":   withInputs(`{"$ref":"#/$defs/a0","$defs":{` + count(300_000, ",", each(`"a#":{"$ref":"#/$defs/b"}`)) + `,"b":{"$ref":"#/$defs/a0"}}}`),
		"references that double": withInputs(`{"$ref":"#/$defs/a0","$defs":{` + doubling(60) + `}}`),
		"identifiers":            withInputs(`{"$defs":{` + count(60_000, ",", each(`"a#":{"$id":"urn:x:#"}`)) + `},"allOf":[` + count(30_000, ",", each(`{"$ref":"urn:x:#"}`)) + `]}`),
		"pattern properties":     withInputs(`{"patternProperties":{` + count(900_000, ",", each(`"^a#.*b.*c$":{}`)) + `}}`),
		"dependent schemas":      withInputs(`{"dependentSchemas":{` + count(900_000, ",", each(`"a#":{"required":["b"]}`)) + `}}`),
		"a form of many fields":  in(ask + `{"type":"object","properties":{` + count(bombText, ",", each(`"a#":{"type":"string"}`)) + `}}}`),
		"many inputs": func(title string) string {
			return "# " + title + "\n\n" + whole("```json\n{\"inputs\":{}}\n```\n") + "\n## One\n\nx\n"
		},
		"180,000 integers":   one(comment + `,"n":[` + strings.Repeat("1,", 180_000) + `1]}`),
		"the largest forms":  in(ask + `{"type":"object","properties":{` + count(36_000, ",", each(`"a#":{"type":"string"}`)) + `}}}`),
		"a large form":       one(ask + `{"type":"object","properties":{` + count(70_000, ",", each(`"a#":{"type":"string"}`)) + `}}}`),
		"the largest inputs": withInputs(`{"properties":{` + count(30_000, ",", each(`"a#":{"pattern":"#(ab?c){30}"}`)) + `},"items":{"anyOf":[` + count(30_000, ",", each(`{"const":"#"}`)) + `]}}`),
		"500 protocols":      func(title string) string { return count(15_000, "\n", each("# "+title+" #\n\n## A\n\nx\n")) },
		"unknown types": func(title string) string {
			return "# " + title + "\n" + strings.Repeat("## S\n\n```json\n{\"challenge\":{\"type\":\"telepathy\"}}\n```\n", 9_900)
		},
		"unknown keys": func(title string) string {
			return "# " + title + "\n" + strings.Repeat("## S\n\n```json\n{\"challenge\":"+comment+",\"minlength\":1},\"retries\":1}\n```\n", 9_000)
		},
	}
}

func doubling(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	return strings.Join(parts, ",") + fmt.Sprintf(`,"a%d":{}`, n)
}

// blast is what one hostile document did to the server.
type blast struct {
	name        string
	size        int
	mint, begin answer        // begin: of what was stored; else its status is 0
	took        time.Duration // by the slower of the two
}

// explode posts a document of a kind and begins what was stored of it.
func (b *program) explode(name, document string) blast {
	began := time.Now()
	m := blast{name: name, size: len(document)}
	m.mint = b.bomb("/api/kairos_mint/raw?force=true&llm_model_id=test", document, "text/markdown")
	m.took = time.Since(began)
	var stored struct {
		Items []struct {
			URI string `json:"uri"`
		} `json:"items"`
	}
	if m.mint.status == 200 && json.Unmarshal([]byte(m.mint.body), &stored) == nil && len(stored.Items) > 0 {
		began = time.Now()
		m.begin = b.bomb("/api/kairos_begin", fmt.Sprintf(`{"uri":%q}`, stored.Items[0].URI), "application/json")
		m.took = max(m.took, time.Since(began))
	}
	return m
}

func (b *program) bomb(path, body, kind string) answer {
	a, err := b.try("POST", path, body, map[string]string{"Content-Type": kind, "Accept": "application/json"})
	if err != nil {
		a = answer{status: 599, body: err.Error()}
	}
	return a
}

// bombard explodes the kinds, four at a time. What does harm fails the test.
func (b *program) bombard(kinds []string) (all []blast) {
	b.t.Helper()
	documents := bombs()
	next, done := make(chan int), make(chan blast)
	for range 4 {
		go func() {
			for i := range next {
				done <- b.explode(kinds[i], documents[kinds[i]](fmt.Sprintf("Bomb %d of %d", i, len(kinds))))
			}
		}()
	}
	go func() {
		for i := range kinds {
			next <- i
		}
		close(next)
	}()
	for range kinds {
		m := <-done
		b.t.Logf("%-27s %9d B  mint %d, begin %d, %5.2fs  %.90q", m.name, m.size, m.mint.status, m.begin.status, m.took.Seconds(), m.mint.body)
		if m.size > 10<<20 {
			b.t.Errorf("%s: the document has %d bytes", m.name, m.size)
		}
		for _, a := range []answer{m.mint, m.begin} {
			if a.status >= 500 || m.took > bombTime {
				b.t.Errorf("%s: %d after %s: %.300s", m.name, a.status, m.took, a.body)
			}
		}
		if broken := m.name == "deeper JSON" || m.name == "an open string" || m.name == "duplicate keys"; strings.Contains(m.mint.body, "invalid JSON") && !broken {
			b.t.Errorf("%s: the document itself is wrong: %.300s", m.name, m.mint.body)
		}
		all = append(all, m)
	}
	return all
}

// limitData bounds what the server and the drivers that it starts may allocate.
func (b *program) limitData() {
	limit := unix.Rlimit{Cur: bombCeiling, Max: bombCeiling}
	if err := unix.Prlimit(b.cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
		b.t.Fatalf("limit the memory of the server: %v", err)
	}
}

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`)

// peak is the most resident memory that the server ever had.
func (b *program) peak() int {
	b.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	m := peakLine.FindSubmatch(status)
	if err != nil || m == nil {
		b.t.Fatalf("the server is gone: %v\n%.4000s", err, b.stderr.String())
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n << 10
}

// Hostile documents are refused or stored in time and memory, four of several kinds at
// once and four of the same, and so is the beginning of what was stored.
func TestNoDocumentKillsTheServer(t *testing.T) {
	long(t)
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("SKIPPED: the peak of a process's memory is read from /proc, which this system does not have")
	}
	only := regexp.MustCompile(os.Getenv("KAIROS_BOMBS"))
	b := withShippedDrivers(t, "")
	b.client.Timeout = 2 * bombTime
	b.limitData()
	kinds := slices.Sorted(maps.Keys(bombs()))
	all := b.bombard(slices.DeleteFunc(kinds, func(name string) bool { return !only.MatchString(name) }))
	slices.SortFunc(all, func(a, b blast) int { return cmp.Compare(b.took, a.took) })
	for _, slow := range all[:min(5, len(all))] {
		b.bombard(slices.Repeat([]string{slow.name}, 4))
	}
	if peak := b.peak(); peak > bombMemory {
		t.Errorf("the server took %d MiB", peak>>20)
	}
}
