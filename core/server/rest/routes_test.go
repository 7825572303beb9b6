package rest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRoutesAreTheListedOnes: cmd/kairos tries every credential at each route of the list.
func TestRoutesAreTheListedOnes(t *testing.T) {
	const list = "testdata/routes.txt"
	got := strings.Join(withProvider(t, nil).api.Routes(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("routes (-listed +served); write the list with go test ./core/server/rest -run Routes -update:\n%s", diff)
	}
}
