package mcp_test

import (
	"strings"
	"testing"
)

func isLog(m msg) bool { return m.Method == "notifications/message" }

func TestAClientHearsOfItsCallsAtTheLevelItAskedFor(t *testing.T) {
	w := dial(t, config(), newDirector())
	w.initialize(`{}`)
	failing := func() { w.reply(w.call("kairos_begin", obj{})) }
	failing()
	if m := w.reply(w.request("logging/setLevel", obj{"level": "loud"})); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("level loud: %v, want -32602", m)
	}
	if m := w.reply(w.request("logging/setLevel", obj{"level": "warning"})); m.Error != nil {
		t.Fatalf("setLevel = %v", m)
	}
	w.reply(w.call("kairos_spaces", obj{}))
	failing()
	m := w.until("a message", isLog)
	if got := string(m.Params); !strings.Contains(got, `"level":"warning"`) || !strings.Contains(got, "INVALID_ARGUMENT") || !strings.Contains(got, "kairos_begin") {
		t.Errorf("message = %s, want the failed begin as warning", got)
	}
	w.reply(w.request("ping", obj{})) // comes after all that was said before
	for _, m := range w.kept {
		if isLog(m) {
			t.Errorf("also said: %v", m)
		}
	}
}

func TestOverHTTPOnlyWhoAskedGetsAStreamForAMessage(t *testing.T) {
	v := newSite(t, config(), newDirector()).visit(`{}`)
	if _, r := v.call("kairos_spaces", obj{}); r.isStream() {
		t.Error("a stream for a client that did not ask")
	}
	v.post(rpc(99, "logging/setLevel", obj{"level": "info"}), nil).reply("99")
	id, r := v.call("kairos_spaces", obj{})
	if m := r.until("a message", isLog); !strings.Contains(string(m.Params), "kairos_spaces") {
		t.Errorf("message = %v", m)
	}
	r.reply(id)
	meta := modernMeta(`{}`)
	meta["io.modelcontextprotocol/logLevel"] = "info"
	id, r = v.modern(`{}`, "kairos_spaces", obj{}, obj{"_meta": meta})
	r.until("a message", isLog)
	r.reply(id)
}
