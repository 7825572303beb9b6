package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/drivers/manual"
	"github.com/kairos-mcp/kairos/e2e/clients"
	"github.com/kairos-mcp/kairos/e2e/forgery"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
)

var update = flag.Bool("update", false, "rewrite the generated pages")

const (
	protoFile     = "../proto/kairos/driver/v1/driver.proto"
	pluginsFolder = "../plugins"

	// The first message of the capability role: from here on they have a page of their own.
	firstOfCapability = "Links"
)

const messagesHead = `# Messages of drivers

The methods of a driver, and the messages of every driver and of the challenge role. The capability role and the enums have a
[page of their own](driver-messages-capability.md). The JSON form of the messages is in [the wire](driver-wire.md#messages), the Go names
are in [sdk/driver](../../sdk/driver), and [your first driver](../tutorials/first-driver.md) uses them.

Generated from [driver.proto](../../proto/kairos/driver/v1/driver.proto): ` + "`go test ./docs -run Reference -update`" + `.

`

const capabilityHead = `# Messages of capability drivers

The messages of the capability role, and the enums of all drivers. The methods and all other messages are in [messages of drivers](driver-messages.md).

Generated from [driver.proto](../../proto/kairos/driver/v1/driver.proto): ` + "`go test ./docs -run Reference -update`" + `.

`

const shippedHead = `# Shipped drivers

What each driver of KAIROS is and how it is configured, below ` + "`drivers.settings.NAME.config`" + ` in the [configuration](configuration.md).
The words are explained in [the contract](driver-contract.md#the-descriptor).

Generated from what the drivers print with ` + "`--describe`" + `: ` + "`go test ./docs -run Reference -update`" + `.
`

// TestTheReferenceIsThatOfTheCode builds the pages anew and compares.
func TestTheReferenceIsThatOfTheCode(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: builds every shipped driver; make test runs it without the race detector")
	}
	source := readFile(t, protoFile)
	all := parseProto(t, string(source))
	at := slices.IndexFunc(all, func(d declaration) bool { return d.name == firstOfCapability })
	if at < 0 {
		t.Fatalf("%s has no message %s", protoFile, firstOfCapability)
	}
	messages, capability, shipped := bytes.NewBufferString(messagesHead), bytes.NewBufferString(capabilityHead), bytes.NewBufferString(shippedHead)
	writeContract(messages, "service", "Methods", all)
	writeContract(messages, "message", "Messages", all[:at])
	writeContract(capability, "message", "Messages", all[at:])
	writeContract(capability, "enum", "Enums", all)
	writeDrivers(t, shipped)
	for file, page := range map[string]*bytes.Buffer{
		"reference/driver-messages.md": messages, "reference/driver-messages-capability.md": capability, "reference/shipped-drivers.md": shipped,
	} {
		generated(t, file, strings.TrimRight(page.String(), "\n")+"\n", "go test ./docs -run Reference -update")
	}
}

// generated compares a page with what it has to be, or writes it with -update.
func generated(t *testing.T, file, want, command string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a page that everybody reads
			t.Fatal(err)
		}
	}
	have := readFile(t, file)
	if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("docs/%s is out of date; write it with `%s` (-page +code):\n%s", file, command, diff)
	}
}

// declaration is a service, message or enum of the proto file.
type declaration struct {
	kind, name, comment string
	members             []member
}

// member is a method, field or value.
type member struct{ name, kind, number, oneof, comment string }

var (
	opens  = regexp.MustCompile(`^(service|message|enum|oneof) (\w+) \{(\})?$`)
	method = regexp.MustCompile(`^rpc (\w+)\(((?:stream )?\w+)\) returns \(((?:stream )?\w+)\);$`)
	field  = regexp.MustCompile(`^((?:repeated |optional )?[\w.]+) (\w+) = (\d+);$`)
	value  = regexp.MustCompile(`^(\w+) = (\d+);$`)
	// Lines of the file itself, which are not part of the contract.
	preamble = regexp.MustCompile(`^(syntax|package|option) `)
)

// parseProto reads a proto file in the form that `make fmt` gives it. A line that
// it does not know is a failure, so nothing is left out in silence.
func parseProto(t *testing.T, source string) []declaration {
	t.Helper()
	var all []declaration
	var comment []string
	depth, oneof := 0, ""
	told := func() string { s := strings.Join(comment, " "); comment = nil; return s }
	add := func(m member) {
		m.comment, m.oneof = told(), oneof
		last := &all[len(all)-1]
		last.members = append(last.members, m)
	}
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "//"); ok {
			comment = append(comment, strings.TrimSpace(text))
			continue
		}
		switch {
		case line == "" || preamble.MatchString(line):
			told()
		case line == "}":
			depth, oneof = depth-1, ""
			told()
		case opens.MatchString(line):
			m := opens.FindStringSubmatch(line)
			if m[1] == "oneof" {
				oneof = m[2]
				told()
			} else {
				all = append(all, declaration{kind: m[1], name: m[2], comment: told()})
			}
			if m[3] == "" {
				depth++
			}
		case method.MatchString(line):
			m := method.FindStringSubmatch(line)
			add(member{name: m[1], kind: m[2] + " → " + m[3]})
		case field.MatchString(line):
			m := field.FindStringSubmatch(line)
			add(member{name: m[2], kind: m[1], number: m[3]})
		case value.MatchString(line):
			m := value.FindStringSubmatch(line)
			add(member{name: m[1], number: m[2]})
		default:
			t.Fatalf("%s: a line that is not understood: %s", protoFile, line)
		}
	}
	if depth != 0 || len(all) < 30 {
		t.Fatalf("%s: %d declarations, %d left open", protoFile, len(all), depth)
	}
	return all
}

func writeContract(page *bytes.Buffer, kind, title string, all []declaration) {
	fmt.Fprintf(page, "## %s\n", title)
	for _, d := range all {
		if d.kind != kind {
			continue
		}
		fmt.Fprintf(page, "\n### %s\n", d.name)
		if d.comment != "" {
			fmt.Fprintf(page, "\n%s\n", d.comment)
		}
		writeMembers(page, d)
	}
	page.WriteString("\n")
}

func writeMembers(page *bytes.Buffer, d declaration) {
	switch {
	case len(d.members) == 0:
		page.WriteString("\nNo fields.\n")
		return
	case d.kind == "service":
		page.WriteString("\n| method | request → reply | |\n|---|---|---|\n")
	case d.kind == "enum":
		page.WriteString("\n| value | number | |\n|---|---|---|\n")
	default:
		page.WriteString("\n| field | type | number | |\n|---|---|---|---|\n")
	}
	for _, m := range d.members {
		comment := m.comment
		if m.oneof != "" {
			comment = strings.TrimSpace("one of `" + m.oneof + "`. " + comment)
		}
		cells := []string{"`" + m.name + "`"}
		if m.kind != "" {
			cells = append(cells, m.kind)
		}
		if m.number != "" {
			cells = append(cells, m.number)
		}
		row(page, append(cells, comment)...)
	}
}

func row(page *bytes.Buffer, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	fmt.Fprintf(page, "| %s |\n", strings.Join(cells, " | "))
}

// writeDrivers builds the shipped drivers and writes what they say of themselves.
func writeDrivers(t *testing.T, page *bytes.Buffer) {
	t.Helper()
	programs, err := filepath.Glob(filepath.Join(pluginsFolder, "*", "main.go"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no drivers below %s: %v", pluginsFolder, err)
	}
	bin := t.TempDir()
	for _, program := range programs {
		folder := filepath.Base(filepath.Dir(program))
		binary := filepath.Join(bin, folder)
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+filepath.Dir(program)).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", folder, err, out)
		}
		out, err := exec.CommandContext(t.Context(), binary, "--describe").Output()
		if err != nil {
			t.Fatalf("describe %s: %v", folder, err)
		}
		var d driver.Descriptor
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatalf("describe %s: %v", folder, err)
		}
		fmt.Fprintf(page, "\n%s\nSource: [plugins/%s](../../plugins/%s).\n", manual.Page(d, 2), folder, folder)
	}
}

const checksPage = "reference/driver-checks.md"

const checksHead = `# The checks of the driver contract

` + "`kairos driver test BINARY --sample f.json`" + ` holds a driver in any language against these rules, and
` + "`drivertest.RunFile(t, driver, \"samples.json\")`" + ` does so for a driver in Go within ` + "`go test`" + `. An id never changes its meaning.

A broken **MUST** fails the verdict, a broken **SHOULD** warns. A check that could not run is *skipped*, and the report says
what to give so that it runs; one whose rule is not about the driver (the other role, no configuration, no process) is
marked ` + "`-`" + `. Where a method, or a kind of input, has no sample, the kit makes up a request as far as the descriptor allows.

The kit gives idempotency keys as the server does: a driver with effect ` + "`reads`" + ` gets one for each sample, one with ` + "`changes`" + ` a new one for
each call, so that it acts each time. A sample may name its own. Write ` + "`{{fresh}}`" + ` in a sample for a name that there can be only once, such as
that of a tag or an account: it becomes another name for each key, and the same one where a call is made again. What a driver did can be seen in its replies alone: let the proof or the answer
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

const (
	forgeryCommand = "go test ./docs -run Forgery -update"
	forgeryBegin   = "<!-- forgery: written by " + forgeryCommand + " -->\n"
	forgeryEnd     = "<!-- end of forgery -->\n"
)

func TestForgeryPageIsWhatTheAttacksAre(t *testing.T) {
	generated(t, "reference/forgery.md", forgery.Page(), forgeryCommand)
	const readme = "../README.md"
	text := readFile(t, readme)
	before, rest, begins := strings.Cut(string(text), forgeryBegin)
	_, after, ends := strings.Cut(rest, forgeryEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks %q or %q", readme, forgeryBegin, forgeryEnd)
	}
	generated(t, readme, before+forgeryBegin+"\n"+forgery.Summary()+"\n"+forgery.Losses()+"\n"+forgeryEnd+after, forgeryCommand)
}

const (
	configPage   = "reference/configuration.md"
	configSchema = "../cmd/kairos/internal/config/config.schema.json"
	keysBegin    = "<!-- keys: written by go test ./docs -run Configuration -update -->\n"
	keysEnd      = "<!-- end of keys -->\n"
)

// TestConfigurationIsThatOfItsSchema holds the table of keys against the schema
// that the server publishes for editors.
func TestConfigurationIsThatOfItsSchema(t *testing.T) {
	source := readFile(t, configSchema)
	page := readFile(t, configPage)
	before, rest, begins := strings.Cut(string(page), keysBegin)
	_, after, ends := strings.Cut(rest, keysEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the keys", configPage)
	}
	table := keysOf(t, source)
	generated(t, configPage, before+keysBegin+table+keysEnd+after, "go test ./docs -run Configuration -update")
}

const restarts = "Needs a restart."

// stated is a default that a description states because no constant holds it.
var stated = regexp.MustCompile(` ?\b(?:Default|Not set): (.+?)\.(?: |$)`)

// keysOf is the table of keys in the order of the schema, one line for each key
// that holds a value.
func keysOf(t *testing.T, source []byte) string {
	t.Helper()
	var schema yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(source, &schema, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| key | value | default | restart | meaning |\n|---|---|---|---|---|\n")
	n := writeKeys(t, &b, "", "", schema)
	if n < 40 {
		t.Fatalf("the schema has %d keys: the test does not find them all", n)
	}
	return b.String()
}

// writeKeys writes the keys of an object, whose own keys need a restart if restart says so.
func writeKeys(t *testing.T, b *strings.Builder, prefix, restart string, object yaml.MapSlice) int {
	t.Helper()
	n := 0
	properties, _ := lookup(object, "properties").(yaml.MapSlice)
	for _, p := range properties {
		name, ok := p.Key.(string)
		of, isObject := p.Value.(yaml.MapSlice)
		if !ok || !isObject {
			t.Fatalf("%s%v is not a schema", prefix, p.Key)
		}
		key, restart := prefix+name, restart
		meaning, _ := lookup(of, "description").(string)
		if before, _, needs := strings.Cut(meaning, restarts); needs {
			restart, meaning = "yes", strings.TrimSpace(before)
		}
		below, byName := of, lookup(of, "additionalProperties")
		if each, ok := byName.(yaml.MapSlice); ok && lookup(each, "properties") != nil {
			key, below = key+".NAME", each
		}
		if lookup(below, "properties") != nil {
			n += writeKeys(t, b, key+".", restart, below)
			continue
		}
		n++
		preset := presetOf(t, of)
		if found := stated.FindStringSubmatch(meaning); found != nil && preset == "" {
			preset, meaning = found[1], strings.TrimSpace(stated.ReplaceAllString(meaning, " "))
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", key, valueOf(of), preset, restart, strings.ReplaceAll(meaning, "|", `\|`))
	}
	return n
}

func lookup(s yaml.MapSlice, key string) any {
	for _, item := range s {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

// valueOf says in a few words which values a key takes.
func valueOf(s yaml.MapSlice) string {
	if ref, ok := lookup(s, "$ref").(string); ok {
		return strings.TrimPrefix(ref, "#/$defs/")
	}
	if enum, ok := lookup(s, "enum").([]any); ok {
		words := make([]string, len(enum))
		for i, e := range enum {
			words[i] = fmt.Sprintf("`%v`", e)
		}
		return strings.Join(words, ", ")
	}
	switch kind := lookup(s, "type").(type) {
	case string:
		if kind == "array" {
			return "list"
		}
		return kind
	case []any:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(kind), " ", " or "), "[]")
	}
	return "any"
}

func presetOf(t *testing.T, s yaml.MapSlice) string {
	t.Helper()
	preset := lookup(s, "default")
	switch preset := preset.(type) {
	case nil:
		return ""
	case string:
		return "`" + preset + "`"
	}
	b, err := json.Marshal(preset)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + string(b) + "`"
}

// documented calls the Python driver of docs/reference/driver-wire.md.
func documented(t *testing.T) *driverrpc.ExecClient {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("PYTHON IS MISSING, the driver in docs/reference/driver-wire.md was not tried: install Python 3")
	}
	manual := readFile(t, "reference/driver-wire.md")
	_, rest, _ := strings.Cut(string(manual), "```python\n")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("driver-wire.md holds no Python driver")
	}
	file := filepath.Join(t.TempDir(), "contains")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return driverrpc.NewExecClient(func(ctx context.Context, method string, request []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, python, file, driverrpc.CallFlag, method)
		if method == driverrpc.MethodDescribe {
			cmd = exec.CommandContext(ctx, python, file, driverrpc.DescribeFlag)
		}
		cmd.Stdin = bytes.NewReader(request)
		reply, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		return reply, nil
	})
}

// TestTheDriverInTheWireDocumentationBreaksNoRule plays steps with it.
func TestTheDriverInTheWireDocumentationBreaksNoRule(t *testing.T) {
	c := documented(t)
	d, err := c.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	challenge := json.RawMessage(`{"type":"contains","contains":{"word":"tea"}}`)
	says := func(value string) driver.AdvanceRequest {
		return driver.AdvanceRequest{Challenge: challenge, Answers: []driver.Answer{
			{InputID: "evidence", Value: json.RawMessage(value), Provenance: driver.AgentReported}}}
	}
	report, err := drivertest.Verify(t.Context(), drivertest.Subject{
		Descriptor: d, Challenge: c.Challenge(), Configurer: c, Samples: []drivertest.Sample{
			{Name: "valid", Request: driver.ValidateRequest{Challenge: challenge}, Want: drivertest.Valid},
			{Name: "first round", Request: driver.AdvanceRequest{Challenge: challenge}, Want: drivertest.NeedInput},
			{Name: "there", Request: says(`"hot tea"`), Want: drivertest.Accepted},
			{Name: "missing", Request: says(`"coffee"`), Want: drivertest.Rejected},
			{Name: "not a text", Request: says(`5`), Want: drivertest.Rejected},
			{Name: "no word", Request: driver.ValidateRequest{Challenge: json.RawMessage(`{"contains":{}}`)}, Want: drivertest.Invalid},
		},
	}, drivertest.Options{Only: []string{
		"descriptor/valid", "health/*", "sample/*", "call/sound-result", "call/says-why", "challenge/garbage", "challenge/pointers",
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range report.Results {
		if result.Status == drivertest.Failed || result.Status == drivertest.Warned {
			t.Error(result.Line())
		}
	}
}

func TestAgentProgramsAreThoseOfTheRecord(t *testing.T) {
	generated(t, "clients/programs.md", clients.Page(), "go test ./docs -run AgentPrograms -update")
}
