package mcp_test

import (
	"net/http"
	"slices"
	"testing"
)

func TestASessionBelongsToWhatItsClientHasShown(t *testing.T) {
	cfg := config()
	cfg.Identify = asked
	s := newSite(t, cfg, newDirector())
	laptop := &visitor{site: s, who: "alice/laptop"}
	laptop.initialize(everything)
	again := laptop.restarted(cfg, newDirector())
	for name, at := range map[string]*site{"in memory": s, "after a restart": again.site} {
		for _, who := range []string{"alice/phone", "alice"} {
			if got := (&visitor{site: at, who: who, session: laptop.session}).post(rpc(1, "ping", obj{}), nil).status; got != http.StatusNotFound {
				t.Errorf("the session of alice/laptop %s, called as %s = %d, want 404", name, who, got)
			}
		}
	}
	for name, v := range map[string]*visitor{"in memory": laptop, "after a restart": again} {
		if got := v.post(rpc(1, "ping", obj{}), nil).status; got != http.StatusOK {
			t.Errorf("the session of alice/laptop %s = %d, want 200", name, got)
		}
	}
}

// The spaces that every caller has where nobody is identified are not those of callers
// that say who they are.
func TestIdentifiedCallersHaveTheirOwnSpacesOnly(t *testing.T) {
	cfg := config()
	cfg.Groups = func() []string { return []string{"space:everybodys"} }
	d := newDirector()
	stranger := newSite(t, cfg, d).visit(everything)
	id, r := stranger.call("kairos_begin", beginArgs)
	r.reply(id)
	if got := d.lastCaller().Groups; !slices.Contains(got, "space:everybodys") {
		t.Errorf("groups of a caller = %q, want those of all", got)
	}
	cfg.Identify = asked
	d = newDirector()
	alice := &visitor{site: newSite(t, cfg, d), who: "alice"}
	alice.initialize(everything)
	id, r = alice.call("kairos_begin", beginArgs)
	r.reply(id)
	if got := d.lastCaller().Groups; !slices.Equal(got, []string{"group:a"}) {
		t.Errorf("groups of alice = %q, want her own", got)
	}
}
