package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

func TestIntegrityFindsDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, path string)
		want string // empty: no damage
	}{
		"nothing": {func(*testing.T, string) {}, ""},
		"a page overwritten": {func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			must(t, err)
			at := bytes.LastIndex(content, []byte("Zebra crossing"))
			if at < 4096 {
				t.Fatalf("the text stands at %d of %d, want it behind the first page", at, len(content))
			}
			page := at / 4096 * 4096
			write(t, path, string(content[:page])+strings.Repeat("\xa5", 4096)+string(content[page+4096:]))
		}, "page"},
		"the end cut off": {func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.Truncate(path, info.Size()/2))
		}, "damaged"},
		"an index that disagrees": {func(t *testing.T, path string) {
			script(t, path, `PRAGMA writable_schema = ON; PRAGMA foreign_keys = OFF;
				CREATE TABLE copy AS SELECT * FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = 'runs';
				DELETE FROM sqlite_schema WHERE name IN (SELECT name FROM copy)`)
			script(t, path, `DELETE FROM runs`)
			script(t, path, `PRAGMA writable_schema = ON; INSERT INTO sqlite_schema SELECT * FROM copy; DELETE FROM sqlite_schema WHERE name = 'copy'`)
		}, "wrong # of entries in index"},
		"a reference to nothing": {func(t *testing.T, path string) {
			script(t, path, `DELETE FROM runs`)
		}, "3 rows of table saves refer to rows of runs that do not exist"},
		"a protocol that cannot be read": {func(t *testing.T, path string) {
			script(t, path, `UPDATE texts SET texts = x'00'`)
		}, `protocol "Zebra crossing" of user:test cannot be read`},
		"a run that lost a save": {func(t *testing.T, path string) {
			script(t, path, `UPDATE runs SET document = json_set(document, '$.revision', 2) WHERE number = 2`)
		}, "its revision is 2, and the last one that was saved is 1"},
		"a proof that follows nothing": {func(t *testing.T, path string) {
			forged := pack.Pack(pack.Save, []byte(`{"events":[{"kind":"accepted","step":1,"proof":{"hash":"x"},"evidence":{"proof":{}}}]}`))
			script(t, path, fmt.Sprintf(`DROP TRIGGER saves_are_never_changed; UPDATE saves SET document = x'%x' WHERE id >> 20 = 2`, forged))
		}, "step 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := fresh(t)
			newRuns(t, s, 3)
			must(t, save(s, storetest.NewChain("user:test", "Zebra crossing", "One", "Two")))
			must(t, s.Close())
			tc.harm(t, path)
			before, _ := os.ReadFile(path)
			s = open(t, path)
			damages, err := s.Integrity(t.Context())
			got := strings.Join(damages, "\n")
			if err != nil {
				got += err.Error()
			}
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("Integrity = %q, %v, want %q", damages, err, tc.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("Integrity changed the file")
			}
		})
	}
}

func TestIntegrityOfNoFileMakesNone(t *testing.T) {
	s, path := fresh(t)
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %v, %v, want nothing", damages, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Stat = %v, want no file", err)
	}
}
