package reference_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/reference"
	"github.com/kairos-mcp/kairos/core/api"
)

// shelf replies to kairos_spaces with protocols, and finds nothing.
type shelf []api.ChainInfo

func (s shelf) Call(_ context.Context, tool api.Declaration, _ json.RawMessage) (json.RawMessage, error) {
	if tool.Name == api.Spaces.Name {
		return json.Marshal(api.SpacesReply{Spaces: []api.SpaceInfo{{Name: "Personal", Chains: s}}})
	}
	return json.Marshal(api.SearchReply{})
}

func TestTheEndOfAnIDNamesOneProtocol(t *testing.T) {
	protocols := shelf{
		{Title: "Release a version", URI: "kairos://mem/9d51e9c9-c7f9-4b9b-99b6-2a9c3085aaaa"},
		{Title: "Restore a backup", URI: "kairos://mem/1d51e9c9-c7f9-4b9b-99b6-2a9c3085bbbb"},
		{Title: "Close an incident", URI: "kairos://mem/2d51e9c9-c7f9-4b9b-99b6-2a9c1085bbbb"},
	}
	got, err := reference.Find(t.Context(), protocols, "3085AAAA")
	if err != nil || got.URI != protocols[0].URI || !got.Whole {
		t.Errorf("Find = %v, %v, want the protocol %s", got, err, protocols[0].URI)
	}
	_, err = reference.Find(t.Context(), protocols, "085bbbb")
	if err == nil || !strings.Contains(err.Error(), "names 2 protocols") || !strings.Contains(err.Error(), protocols[1].URI+"  Restore a backup") ||
		!strings.Contains(err.Error(), protocols[2].URI) || strings.Contains(err.Error(), protocols[0].URI) {
		t.Errorf("Find of two protocols: %v, want both of them and no other", err)
	}
	if _, err = reference.Find(t.Context(), protocols, "bbb"); err == nil || !strings.Contains(err.Error(), "no protocol has the title") {
		t.Errorf("Find of three digits: %v, want nothing found", err)
	}
}
