package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThePageOfAClientShowsWhatIsWritten compares docs/clients with the entries that
// the command writes.
func TestThePageOfAClientShowsWhatIsWritten(t *testing.T) {
	index := page(t, "README")
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			text := page(t, c.name)
			if !strings.Contains(index, "]("+c.name+".md)") {
				t.Errorf("docs/clients/README.md does not list %s.md", c.name)
			}
			if !strings.Contains(text, filepath.Base(c.file)+"`") {
				t.Errorf("the page does not name the file %s", c.file)
			}
			start := command{program: "/usr/local/bin/kairos", args: []string{"serve"}}
			for _, address := range []string{"", defaultURL} {
				if address != "" && c.http == nil {
					continue
				}
				e, err := c.entry(start, address)
				if err != nil {
					t.Fatal(err)
				}
				document, err := c.format.encode(c.servers, e)
				if err != nil {
					t.Fatal(err)
				}
				fence := strings.ToLower(c.format.name)
				want := "```" + fence + "\n" + strings.TrimRight(string(document), "\n") + "\n```\n"
				if !strings.Contains(text, want) {
					t.Errorf("docs/clients/%s.md does not have\n%s", c.name, want)
				}
			}
		})
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../../docs/clients", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
