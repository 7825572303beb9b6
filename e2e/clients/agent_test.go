package clients_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// play is what the agent is asked to do, and what it knows.
type play struct {
	hears   string // words of the person's request; other requests are not the agent's
	search  string
	begin   string         // the uri of the protocol, if the person named it
	input   map[string]any // of the protocol
	folder  string         // in which the program works: the roots that it passes if it is asked for them
	answers map[string]any // what the person said in the chat, per challenge
	waits   int            // how often it asks again while it waits for a person
	pause   time.Duration  // between two of them
}

// verified is how a run ends that was played to its end.
const verified = "verified"

// mostReplies bounds a run: an agent that has read as many goes in a circle.
const mostReplies = 40

// next is the next call, or the last words.
func (p play) next(t *talk) answer {
	all := t.outcomes()
	at := -1
	replies, errors, waits := 0, 0, 0
	for i, o := range all {
		if !o.ours() {
			continue
		}
		at = i
		replies++
		if strings.Contains(o.text, `error_code`) {
			errors++
		}
		if strings.Contains(o.text, "WAITING_FOR_USER") {
			waits++
		}
	}
	if at < 0 {
		if len(all) > 0 {
			return answer{words: "no reply of KAIROS can be read: " + cut(all[len(all)-1].text)}
		}
		if p.begin != "" {
			return call("kairos_begin", map[string]any{"uri": p.begin, "input": p.input})
		}
		return call("kairos_search", map[string]any{"query": p.search})
	}
	reply := jsonIn(all[at].text)
	code := text(reply, "error_code")
	next := object(reply, "next_call")
	switch {
	case reply == nil:
		return answer{words: "not JSON: " + cut(all[at].text)}
	case strings.HasSuffix(all[at].name, "kairos_attest") && code == "":
		if reply["verified"] == true {
			return answer{words: verified}
		}
		return answer{words: "attested, not verified: " + cut(all[at].text)}
	case code == "WAITING_FOR_USER" && waits > p.waits:
		return answer{words: "stopped while it waits"}
	case next == nil:
		return answer{words: "stuck: " + code + " " + cut(text(reply, "message"))}
	case replies > mostReplies || errors > 12+p.waits:
		return answer{words: "gives up: " + code}
	}
	if code == "WAITING_FOR_USER" {
		time.Sleep(p.pause)
	}
	return p.follow(t, reply, next, all[at+1:])
}

// follow does what next_call says. done is what was done since, for the open challenge.
func (p play) follow(t *talk, reply, next map[string]any, done []outcome) answer {
	name, args := text(next, "tool"), object(next, "arguments")
	switch {
	case strings.HasSuffix(name, "kairos_begin"):
		if in, ok := args["input"]; (!ok || placeholders(in)) && p.input != nil {
			args["input"] = p.input
		}
		if _, ok := args["roots"]; ok {
			args["roots"] = []any{p.folder}
		}
		return call(name, args)
	case strings.HasSuffix(name, "kairos_attest"):
		args = withoutOptional(args)
		for k, v := range args {
			if placeholders(v) {
				args[k] = "Played to the end."
			}
		}
		args["outcome"] = "success"
		return call(name, args)
	case !placeholders(args):
		return call(name, args)
	}
	solution := withoutOptional(object(args, "solution"))
	if first, ready := p.solve(t, object(reply, "challenge"), solution, done); !ready {
		return first
	}
	args["solution"] = solution
	return call(name, args)
}

// solve fills the solution in, or returns what is to be done first.
func (p play) solve(t *talk, challenge, solution map[string]any, done []outcome) (first answer, ready bool) {
	shown := encoded(solution["evidence"])
	switch kind := text(solution, "type"); {
	case strings.Contains(shown, `files`): // the server cannot look itself: the agent reports the files as they are
		solution["evidence"] = asShown(solution["evidence"], map[string]any{"files": p.files(object(challenge, kind), challenge)})
	case kind == "shell":
		if len(done) == 0 {
			return runs(t, text(object(challenge, "shell"), "cmd")), false
		}
		said := done[len(done)-1].text
		solution["shell"] = map[string]any{"exit_code": exitCode(said), "stdout": outputOf(said)}
	case kind == "mcp":
		want := object(challenge, "mcp")
		arguments := object(want, "arguments")
		if arguments == nil {
			arguments = map[string]any{}
		}
		if len(done) == 0 {
			return call(text(want, "tool_name"), arguments), false
		}
		var got any = done[len(done)-1].text
		if o := jsonIn(done[len(done)-1].text); o != nil {
			got = o
		}
		solution["mcp"] = map[string]any{"tool_name": want["tool_name"], "arguments": arguments, "result": asShown(object(solution, "mcp")["result"], got), "success": true}
	case kind == "comment":
		solution["comment"] = map[string]any{"text": "The system is away for the time that was agreed; ask the person on call. Nobody else has to do anything."}
	case kind == "user_input":
		_, form := solution["evidence"]
		answered := p.answered(form, shown+encoded(challenge))
		if answered == nil {
			return answer{words: "nobody has told the agent: " + cut(encoded(solution))}, false
		}
		if form {
			solution["evidence"] = asShown(solution["evidence"], answered)
		} else {
			filled := object(solution, "user_input")
			for k, v := range filled {
				if placeholders(v) {
					filled[k] = answered
				}
			}
		}
	default:
		return answer{words: "cannot fill " + cut(encoded(solution))}, false
	}
	return answer{}, true
}

// answered is what the person said that fits: for a form the answer with its fields.
func (p play) answered(form bool, shown string) any {
	for _, a := range p.answers {
		fields, is := a.(map[string]any)
		fits := is == form
		for name := range fields {
			fits = fits && strings.Contains(shown, name)
		}
		if fits {
			return a
		}
	}
	return nil
}

// files are what the agent reports of the files of a challenge.
func (p play) files(of ...map[string]any) []any {
	var all []any
	for _, o := range of {
		for _, f := range objects(o["files"]) {
			path := text(f, "path")
			content, err := os.ReadFile(filepath.Join(p.folder, path))
			if err != nil {
				all = append(all, map[string]any{"path": path, "exists": false})
				continue
			}
			sum := sha256.Sum256(content)
			all = append(all, map[string]any{"path": path, "exists": true, "size": len(content), "sha256": hex.EncodeToString(sum[:])})
		}
	}
	return all
}

// asShown is a value of a solution as next_call shows it: what may be any JSON is a text
// there, and some programs refuse anything else.
func asShown(placeholder, v any) any {
	if shown, is := placeholder.(string); is && strings.HasPrefix(shown, "<JSON as text") {
		return encoded(v)
	}
	return v
}

// runs is a call of the program's own tool that runs commands.
func runs(t *talk, command string) answer {
	sh, ok := t.shell()
	if !ok {
		return answer{words: "no tool that runs commands"}
	}
	properties := object(sh.schema, "properties")
	for _, key := range []string{"command", "cmd", "commands"} {
		p := object(properties, key)
		if p == nil {
			continue
		}
		args := map[string]any{key: command}
		if text(p, "type") == "array" {
			args[key] = []any{command}
			if key == "command" {
				args[key] = []any{"bash", "-lc", command}
			}
		}
		required, _ := sh.schema["required"].([]any)
		for _, name := range required {
			n, _ := name.(string)
			if _, given := args[n]; !given {
				args[n] = sample(object(properties, n))
			}
		}
		return answer{tool: tool{name: sh.name}, args: args}
	}
	return answer{words: "the tool that runs commands takes none: " + cut(string(sh.raw))}
}

func sample(schema map[string]any) any {
	switch text(schema, "type") {
	case "boolean":
		return false
	case "integer", "number":
		return 1
	case "array":
		return []any{}
	}
	return "a step of the protocol"
}

func call(name string, args map[string]any) answer {
	if args == nil {
		args = map[string]any{}
	}
	return answer{tool: tool{name: name}, args: args}
}

// placeholders says whether something is left to be filled in.
func placeholders(v any) bool {
	switch x := v.(type) {
	case string:
		return strings.HasPrefix(x, "<") && strings.HasSuffix(x, ">")
	case map[string]any:
		for _, in := range x {
			if placeholders(in) {
				return true
			}
		}
	case []any:
		for _, in := range x {
			if placeholders(in) {
				return true
			}
		}
	}
	return false
}

// mayBeLeftOut is a placeholder that says so of itself; within one of JSON as text others may.
var mayBeLeftOut = regexp.MustCompile(`^<[^:]*, optional[:>]`)

// withoutOptional leaves out the placeholders that may be left out.
func withoutOptional(o map[string]any) map[string]any {
	kept := make(map[string]any)
	for k, v := range o {
		if s, ok := v.(string); ok && mayBeLeftOut.MatchString(s) {
			continue
		}
		kept[k] = v
	}
	return kept
}

var (
	exitCodes  = regexp.MustCompile(`(?i)exit(?:ed with)?[ _](?:code|status)"?:?\s*(-?\d+)`)
	outputMark = regexp.MustCompile(`(?ms)^Output:[ \n](.*)`)
)

func exitCode(said string) int {
	if m := exitCodes.FindStringSubmatch(said); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits
		return n
	}
	return 0
}

// outputOf is the output of a command, without what the program wrote around it.
func outputOf(said string) string {
	if m := outputMark.FindStringSubmatch(said); m != nil {
		said = m[1]
	}
	return strings.TrimSpace(said)
}

func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}
