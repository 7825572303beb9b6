package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// A list that has a way has its parts, and people write only the whole.
func TestAWayHasTheConditionOfItsRow(t *testing.T) {
	for _, tc := range []struct{ written, all []string }{
		{nil, nil},
		{[]string{driver.ByForm}, []string{driver.ByForm}},
		{[]string{driver.ByPage, driver.ByForm}, []string{driver.ByPage, driver.ByForm, protocol.HowLogin}},
		{[]string{protocol.HowLogin}, []string{protocol.HowLogin}},
		{[]string{"passkey"}, []string{"passkey"}},
	} {
		if diff := cmp.Diff(tc.all, protocol.WithParts(tc.written)); diff != "" {
			t.Errorf("WithParts(%v) (-want +got):\n%s", tc.written, diff)
		}
		if diff := cmp.Diff(tc.written, protocol.WithoutParts(tc.all)); diff != "" {
			t.Errorf("WithoutParts(%v) (-want +got):\n%s", tc.all, diff)
		}
	}
	login, ok := protocol.WayOf(protocol.HowLogin)
	if !ok || !login.Login || login.Barred == "" || protocol.AnsweredBy(protocol.HowLogin) != driver.ByPage {
		t.Errorf("WayOf(login) = %+v, %t, want what it demands, and what the page says", login, ok)
	}
	for _, name := range []string{driver.ByPage, "passkey", ""} {
		if way, ok := protocol.WayOf(name); ok || protocol.AnsweredBy(name) != name {
			t.Errorf("WayOf(%q) = %+v, want none, and a driver that answers so", name, way)
		}
	}
	if protocol.Unmet([]string{driver.ByPage, driver.ByForm}) != "" || protocol.Unmet([]string{driver.ByForm, protocol.HowLogin}) == "" {
		t.Error("Unmet does not tell login from ways that need no login")
	}
}
