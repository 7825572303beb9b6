package docs_test

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"
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
	source, err := os.ReadFile(protoFile)
	if err != nil {
		t.Fatal(err)
	}
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
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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

// descriptor is what a driver prints with --describe.
type descriptor struct {
	Name, Version, Role, Effect, Approval, Transport string
	Handles, Features, Needs                         []string
	StateVersions                                    []int  `json:"state_versions"`
	ConfigSchema                                     schema `json:"config_schema"`
}

type schema struct {
	Type, Description string
	Default           json.RawMessage
	Enum              []string
	Minimum, Maximum  *float64
	Required          []string
	WriteOnly         bool
	Properties        map[string]schema
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
		var d descriptor
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatalf("describe %s: %v", folder, err)
		}
		writeDriver(page, folder, d)
	}
}

func writeDriver(page *bytes.Buffer, folder string, d descriptor) {
	fmt.Fprintf(page, "\n## %s\n\n%s driver, version %s, source in [plugins/%s](../../plugins/%s).\n\n| | |\n|---|---|\n", d.Name, d.Role, d.Version, folder, folder)
	for _, fact := range [][2]string{
		{"handles", strings.Join(d.Handles, ", ")}, {"effect", d.Effect}, {"features", strings.Join(d.Features, ", ")},
		{"needs", strings.Join(d.Needs, ", ")}, {"approval", d.Approval}, {"transport", orElse(d.Transport, "grpc")},
		{"state versions", strings.Trim(fmt.Sprint(d.StateVersions), "[]")},
	} {
		if fact[1] != "" {
			row(page, fact[0], fact[1])
		}
	}
	if len(d.ConfigSchema.Properties) == 0 {
		page.WriteString("\nTakes no configuration.\n")
		return
	}
	page.WriteString("\nIts configuration:\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
	writeSettings(page, "", d.ConfigSchema)
}

func writeSettings(page *bytes.Buffer, prefix string, s schema) {
	keys := make([]string, 0, len(s.Properties))
	for key := range s.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		p := s.Properties[key]
		if p.Type == "object" && len(p.Properties) > 0 {
			writeSettings(page, prefix+key+".", p)
			continue
		}
		preset := "none"
		switch {
		case len(p.Default) > 0:
			preset = "`" + strings.Trim(string(p.Default), `"`) + "`"
		case slices.Contains(s.Required, key):
			preset = "required"
		}
		meaning := p.Description
		if p.WriteOnly {
			meaning += " (secret)"
		}
		row(page, "`"+prefix+key+"`", p.Type+p.bounds(), preset, meaning)
	}
}

func (s schema) bounds() string {
	switch {
	case len(s.Enum) > 0:
		return ": " + strings.Join(s.Enum, ", ")
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf(", %v to %v", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf(", at least %v", *s.Minimum)
	case s.Maximum != nil:
		return fmt.Sprintf(", at most %v", *s.Maximum)
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
