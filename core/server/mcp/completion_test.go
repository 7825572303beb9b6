package mcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/fault"
)

type completed struct {
	Values  []string `json:"values"`
	Total   int      `json:"total"`
	HasMore bool     `json:"hasMore"`
}

func (w *wire) complete(ref obj, name, typed string) completed {
	w.t.Helper()
	m := w.reply(w.request("completion/complete", obj{"ref": ref, "argument": obj{"name": name, "value": typed}}))
	if m.Error != nil {
		w.t.Fatalf("completion: %v", m.Error)
	}
	return decode[struct {
		Completion completed `json:"completion"`
	}](w.t, m.Result).Completion
}

var (
	prompt = obj{"type": "ref/prompt", "name": "contextual-prompt"}
	step1  = obj{"type": "ref/resource", "uri": "kairos://mem/{id}"}
)

func TestProtocolsAreCompleted(t *testing.T) {
	d := newDirector()
	d.titles, d.page = []string{"Release a patch", "Water the greenhouse", "Patch the server"}, 2
	w := dial(t, config(), d)
	w.initialize(`{}`)
	const id = "00000000-0000-0000-0000-00000000000"
	for name, tc := range map[string]struct {
		ref         obj
		name, typed string
		want        []string
	}{
		"nothing typed":    {prompt, "protocol", "", d.titles},
		"part of a title":  {prompt, "protocol", " PATCH ", []string{"Release a patch", "Patch the server"}},
		"begun uri":        {prompt, "protocol", "kairos://m", []string{"kairos://mem/" + id + "1", "kairos://mem/" + id + "2", "kairos://mem/" + id + "3"}},
		"whole uri":        {prompt, "protocol", "KAIROS://mem/" + id + "2", []string{"kairos://mem/" + id + "2"}},
		"id":               {step1, "id", id + "3", []string{id + "3"}},
		"id by title":      {step1, "id", "greenhouse", []string{id + "2"}},
		"uri of a ref":     {step1, "id", "kairos://mem/" + id + "1", []string{"kairos://mem/" + id + "1"}},
		"no match":         {prompt, "protocol", "zebra", []string{}},
		"other argument":   {prompt, "mood", "", []string{}},
		"other prompt":     {obj{"type": "ref/prompt", "name": "x"}, "protocol", "", []string{}},
		"other resource":   {obj{"type": "ref/resource", "uri": "kairos://doc/{x}"}, "x", "", []string{}},
		"not even a regex": {prompt, "protocol", "*(", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			got := w.complete(tc.ref, tc.name, tc.typed)
			if diff := cmp.Diff(completed{Values: tc.want, Total: len(tc.want)}, got); diff != "" {
				t.Errorf("completion of %q (-want +got):\n%s", tc.typed, diff)
			}
		})
	}
}

func TestCompletionsAreBounded(t *testing.T) {
	d := newDirector()
	d.page = 1000
	for i := range 6000 {
		d.titles = append(d.titles, fmt.Sprintf("Protocol %d", i))
	}
	w := dial(t, config(), d)
	for typed, want := range map[string]completed{
		"protocol":      {Values: d.titles[:100], HasMore: true},
		"protocol 4999": {Values: []string{"Protocol 4999"}, HasMore: true},
		"protocol 5999": {Values: []string{}, HasMore: true},
	} {
		if diff := cmp.Diff(want, w.complete(prompt, "protocol", typed)); diff != "" {
			t.Errorf("completion of %q (-want +got):\n%s", typed, diff)
		}
	}
}

func TestACompletionThatFailsRevealsNothing(t *testing.T) {
	d := newDirector()
	d.err = errors.New("disk on fire at /secret")
	w := dial(t, config(), d)
	m := w.reply(w.request("completion/complete", obj{"ref": prompt, "argument": obj{"name": "protocol", "value": ""}}))
	if m.Error == nil || strings.Contains(m.Error.Message, "secret") {
		t.Errorf("completion = %v, want an error without its cause", m)
	}
}

func TestThePromptNamesTheProtocolToRun(t *testing.T) {
	d := newDirector()
	d.titles, d.page = []string{"A", "Release a patch"}, 1
	w := dial(t, config(), d)
	get := func(protocol string) msg {
		return w.reply(w.request("prompts/get", obj{"name": "contextual-prompt", "arguments": obj{"protocol": protocol}}))
	}
	for protocol, want := range map[string]string{
		"release a PATCH": `call kairos_begin with kairos://mem/00000000-0000-0000-0000-000000000002`,
		stepURI:           "call kairos_begin with " + stepURI,
	} {
		if got := string(get(protocol).Result); !strings.Contains(got, want) || !strings.Contains(got, "must_obey") {
			t.Errorf("prompt for %q = %s, want the policy and %s", protocol, got, want)
		}
	}
	if m := get("zebra"); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("prompt for an unknown protocol = %v", m)
	}
	d.err = fault.New(fault.NotFound, "no step")
	if m := get(stepURI); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("prompt for an unknown URI = %v", m)
	}
}

func TestGuidesAreShortAndListed(t *testing.T) {
	w := dial(t, config(), newDirector())
	list := decode[struct {
		Resources []struct{ URI, Name, Description, MIMEType string }
	}](t, w.reply(w.request("resources/list", obj{})).Result)
	if len(list.Resources) != 4 {
		t.Errorf("resources = %+v, want four guides", list.Resources)
	}
	for _, r := range list.Resources {
		got := string(w.reply(w.request("resources/read", obj{"uri": r.URI})).Result)
		if !strings.Contains(got, `"text":"# `) || len(got) > 6600 || r.Description == "" || r.MIMEType != "text/markdown" {
			t.Errorf("%+v has %d bytes: %.100s", r, len(got), got)
		}
	}
}
