package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/drivertest"
	"github.com/kairos-mcp/kairos/sdk/filecheck"
)

const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // SHA-256 of "abc"

func TestFilesAreAsTheyAre(t *testing.T) {
	dir := folderWith(t, map[string]string{
		"a.txt": "abc", "empty": "", "out/one.md": "# One\n", "out/two.md": "# Two\n", "out/deep/three.md": "# Three\n",
		"data.json": `{"count": 3}`, "Übung/日本.txt": "x", ".hidden": "x", "folder/": "",
	})
	old := began.Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "empty"), old, old))
	must(t, os.Chtimes(filepath.Join(dir, "a.txt"), began.Add(-400*time.Millisecond), began.Add(-400*time.Millisecond)))
	for name, tc := range map[string]struct{ files, failed string }{
		"exists":             {`[{"path":"a.txt"}]`, ""},
		"is not there":       {`[{"path":"b.txt"}]`, "exists"},
		"below a file":       {`[{"path":"a.txt/b"}]`, "exists"},
		"in other letters":   {`[{"path":"A.txt"}]`, "exists"},
		"unicode":            {`[{"path":"Übung/日本.txt"}]`, ""},
		"a decomposed name":  {`[{"path":"U\u0308bung/日本.txt"}]`, "exists"},
		"a folder":           {`[{"path":"folder"}]`, "exists"},
		"absent":             {`[{"path":"b.txt","absent":true}]`, ""},
		"is there":           {`[{"path":"a.txt","absent":true}]`, "absent"},
		"a folder is there":  {`[{"path":"folder","absent":true}]`, "absent"},
		"size":               {`[{"path":"a.txt","min_size":3,"max_size":3}]`, ""},
		"too small":          {`[{"path":"empty","min_size":1}]`, "min_size"},
		"too large":          {`[{"path":"a.txt","max_size":2}]`, "max_size"},
		"digest":             {`[{"path":"a.txt","sha256":"` + abc + `"}]`, ""},
		"another digest":     {`[{"path":"a.txt","sha256":"` + strings.Repeat("0", 64) + `"}]`, "sha256"},
		"contains":           {`[{"path":"out/one.md","contains":"# One"}]`, ""},
		"does not":           {`[{"path":"out/one.md","contains":"# Two"}]`, "contains"},
		"expression":         {`[{"path":"out/one.md","regex":"(?m)^# [A-Z][a-z]+$"}]`, ""},
		"no match":           {`[{"path":"out/one.md","regex":"^[0-9]+$"}]`, "regex"},
		"schema":             {`[{"path":"data.json","json_schema":{"required":["count"],"properties":{"count":{"minimum":3}}}}]`, ""},
		"not by the schema":  {`[{"path":"data.json","json_schema":{"properties":{"count":{"minimum":4}}}}]`, "json_schema"},
		"no JSON":            {`[{"path":"a.txt","json_schema":{}}]`, "json_schema"},
		"of the same second": {`[{"path":"a.txt","newer_than_run":true}]`, ""},
		"old":                {`[{"path":"empty","newer_than_run":true}]`, "newer_than_run"},
		"glob":               {`[{"glob":"out/*.md","min_count":2,"max_count":2}]`, ""},
		"glob in depth":      {`[{"glob":"**/*.md","min_count":3,"max_count":3,"min_size":6}]`, ""},
		"one too small":      {`[{"glob":"**/*.md","min_size":7}]`, "min_size"},
		"too few":            {`[{"glob":"out/*.md","min_count":3}]`, "min_count"},
		"too many":           {`[{"glob":"out/*.md","max_count":1}]`, "max_count"},
		"nothing matches":    {`[{"glob":"*.tmp"}]`, "min_count"},
		"glob absent":        {`[{"glob":"**/*.tmp","absent":true}]`, ""},
		"glob not absent":    {`[{"glob":"**/*.md","absent":true}]`, "absent"},
		"a dot matches":      {`[{"glob":".*"}]`, ""},
		"folders never do":   {`[{"glob":"fold*"}]`, "min_count"},
		"the second fails":   {`[{"path":"a.txt"},{"path":"b.txt"}]`, "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			r := seen(t, configured(t, `{}`), stdio, tc.files, dir)
			failed, why := failedAt(r)
			if failed != tc.failed || r.Passed != (tc.failed == "") {
				t.Errorf("%s: passed %v, fails %q (%s), want %q", tc.files, r.Passed, failed, why, tc.failed)
			}
		})
	}
}

func TestWhatWasSeenIsRecordedWithItsDigest(t *testing.T) {
	dir := folderWith(t, map[string]string{"a.txt": "abc"})
	at := began.Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "a.txt"), at, at))
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		r := seen(t, d.Capability, stdio, `[{"path":"a.txt","contains":"b"}]`, dir)
		got, err := json.Marshal(r)
		must(t, err)
		want := fmt.Sprintf(`{"passed":true,"files":[{"path":"a.txt","check":"exists, contains","passed":true,"root":%q,"size":3,"sha256":%q,"modified":"2026-03-04T06:06:07.5Z"}]}`, dir, abc)
		if string(got) != want {
			t.Errorf("the answer is\n%s, want\n%s", got, want)
		}
	})
}

func TestWhoseFoldersAreLookedInto(t *testing.T) {
	work := folderWith(t, map[string]string{"a": "abc", "sub/b": "abc"})
	other := folderWith(t, map[string]string{"c": "abc"})
	sub := filepath.Join(work, "sub")
	const asks, unavailable = "asks", "unavailable"
	for name, tc := range map[string]struct {
		client driver.Client
		allow  []string
		begun  []string
		listed []string
		file   string
		want   string // asks, unavailable, true or false
	}{
		"the client's":                         {client: stdio, listed: []string{work}, file: "a", want: "true"},
		"the client's, whatever is allowed":    {client: stdio, allow: []string{other}, listed: []string{work}, file: "a", want: "true"},
		"two of the client's":                  {client: stdio, listed: []string{work, other}, file: "c", want: "true"},
		"narrowed by the run":                  {client: stdio, listed: []string{work}, begun: []string{sub}, file: "b", want: "true"},
		"the run cannot leave the client's":    {client: stdio, listed: []string{work}, begun: []string{other}, file: "c", want: unavailable},
		"nor by its name":                      {client: stdio, listed: []string{sub}, begun: []string{sub + "x"}, file: "c", want: unavailable},
		"the client lists none":                {client: stdio, begun: []string{work}, file: "a", want: unavailable},
		"the client lists none, some allowed":  {client: stdio, allow: []string{work}, file: "a", want: "true"},
		"the client is elsewhere":              {client: stdio, listed: []string{"/no/such/folder"}, file: "a", want: unavailable},
		"some are not there":                   {client: stdio, listed: []string{"/no/such/folder", work}, file: "a", want: "true"},
		"the run's":                            {client: rootles, begun: []string{work}, file: "a", want: "true"},
		"the run's, inside what is allowed":    {client: rootles, allow: []string{work}, begun: []string{sub}, file: "b", want: "true"},
		"the run's, outside":                   {client: rootles, allow: []string{work}, begun: []string{other}, file: "c", want: unavailable},
		"what is allowed":                      {client: rootles, allow: []string{work}, file: "a", want: "true"},
		"nobody's":                             {client: rootles, file: "a", want: unavailable},
		"remote, nothing allowed":              {client: remote, begun: []string{work}, file: "a", want: unavailable},
		"remote, listing, nothing allowed":     {client: lister, begun: []string{work}, listed: []string{work}, file: "a", want: unavailable},
		"remote, allowed":                      {client: remote, allow: []string{work}, file: "a", want: "true"},
		"remote, narrowed":                     {client: remote, allow: []string{work}, begun: []string{sub}, file: "a", want: "false"},
		"remote, outside":                      {client: remote, allow: []string{work}, begun: []string{other}, file: "c", want: unavailable},
		"remote, its own roots outside":        {client: lister, allow: []string{work}, listed: []string{other}, file: "c", want: unavailable},
		"remote, its own roots inside":         {client: lister, allow: []string{work}, listed: []string{sub}, file: "b", want: "true"},
		"remote, the run outside its own":      {client: lister, allow: []string{work}, listed: []string{sub}, begun: []string{work}, file: "a", want: unavailable},
		"remote, climbing":                     {client: remote, allow: []string{sub}, begun: []string{sub + "/../.."}, file: "a", want: unavailable},
		"a plain REST client is remote":        {client: driver.Client{Transport: "rest"}, begun: []string{work}, file: "a", want: unavailable},
		"an unheard-of transport is remote":    {client: driver.Client{Transport: "carrier-pigeon"}, begun: []string{work}, file: "a", want: unavailable},
		"the command line is on this machine":  {client: driver.Client{Transport: "cli"}, begun: []string{work}, file: "a", want: "true"},
		"a client that says nothing is remote": {client: driver.Client{Roots: true}, listed: []string{work}, file: "a", want: unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			d := allowing(t, tc.allow...)
			in := demanding(fmt.Sprintf(`[{"path":%q}]`, tc.file), tc.begun...)
			answer, why := obtain(t, d, tc.client, in, listed(tc.listed...))
			got := unavailable
			if answer != nil {
				got = fmt.Sprint(resultOf(t, answer).Passed)
			}
			if got != tc.want {
				t.Errorf("%s (%s), want %s", got, why, tc.want)
			}
			if tc.client.Transport != "stdio" && tc.client.Transport != "cli" && strings.Contains(why, "/") {
				t.Errorf("a remote client is told of the disk: %s", why)
			}
		})
	}
}

// obtain plays the whole exchange with a client.
func obtain(t *testing.T, d driver.Capability, c driver.Client, in driver.Input, roots json.RawMessage) (*driver.Answer, string) {
	t.Helper()
	asked, err := d.Render(t.Context(), driver.RenderRequest{Input: in, Client: c})
	must(t, err)
	if asked.Unavailable != nil {
		return nil, asked.Unavailable.Reason
	}
	if asked.Answer != nil {
		return asked.Answer, ""
	}
	if asked.ClientRequest == nil || asked.ClientRequest.Method != "roots/list" || !c.Roots {
		t.Fatalf("Render = %+v, want roots/list from a client that has it", asked)
	}
	res, err := d.Interpret(t.Context(), driver.InterpretRequest{Input: in, Client: c, Raw: roots})
	must(t, err)
	if res.Unavailable != nil {
		return nil, res.Unavailable.Reason
	}
	if res.Answer == nil {
		t.Fatalf("Interpret = %+v, want an answer", res)
	}
	return res.Answer, ""
}

func TestARemoteClientLearnsWhichEntryFailedAndNothingElse(t *testing.T) {
	dir := folderWith(t, map[string]string{"a.txt": "hunter2", "x/secret-name.md": "abc"})
	in := demanding(`[{"path":"a.txt","min_size":100},{"glob":"**/*.md","max_count":0}]`)
	for name, tc := range map[string]struct {
		client driver.Client
		want   string
	}{
		"remote": {remote, "a.txt; **/*.md"},
		"local":  {rootles, "a.txt: it has 7 bytes, at least 100 are demanded (min_size); **/*.md: 1 files match it, at most 0 are allowed (max_count)"},
	} {
		answer, _ := obtain(t, allowing(t, dir), tc.client, in, nil)
		r := resultOf(t, answer)
		if _, told, _ := strings.Cut(r.Message, "demands: "); told != tc.want {
			t.Errorf("%s: the message is %q, want %q", name, r.Message, tc.want)
		}
	}
}

func TestRootsThatCannotBeUsedAreNamed(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": "abc"})
	d := configured(t, `{}`)
	for uri, want := range map[string]string{
		"file:" + dir: "", "file://server/share": "is on another machine", `\\\\server\\share`: "must be an absolute path", "file:///srv/100%": "%25", "untitled:x": "must be an absolute path",
	} {
		res, err := d.Interpret(t.Context(), driver.InterpretRequest{Input: demanding(`[{"path":"a"}]`), Client: stdio, Raw: json.RawMessage(`{"roots":[{"uri":"` + uri + `"}]}`)})
		must(t, err)
		switch {
		case want == "" && res.Answer == nil:
			t.Errorf("%s = %+v, want it read", uri, res)
		case want != "" && (res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, want)):
			t.Errorf("%s = %+v, want the reason to say that it %s", uri, res.Unavailable, want)
		}
	}
}

func TestRepliesToRootsListAreAStrangers(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": "abc"})
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("/no/%d", i)
	}
	const answer, invalid, unavailable = "answer", "invalid", "unavailable"
	for name, tc := range map[string]struct{ raw, want string }{
		"named":          {`{"roots":[{"uri":"file://` + dir + `","name":"work"}]}`, answer},
		"beside others":  {`{"roots":[{"uri":"https://example.com"},{"uri":"file://other/host"},{"uri":"file://` + dir + `"}]}`, answer},
		"only others":    {`{"roots":[{"uri":"https://example.com"}]}`, unavailable},
		"none":           {`{"roots":[]}`, unavailable},
		"a thousand":     {string(listed(many...)), unavailable},
		"no list":        {`{}`, invalid},
		"null":           {`{"roots":null}`, invalid},
		"an object":      {`{"roots":{}}`, invalid},
		"strings":        {`{"roots":["file:///"]}`, invalid},
		"no uri":         {`{"roots":[{"name":"x"}]}`, invalid},
		"a number":       {`{"roots":[{"uri":7}]}`, invalid},
		"prose":          {`my home`, invalid},
		"nothing":        {``, invalid},
		"nested deep":    {strings.Repeat("[", 5000), invalid},
		"a relative one": {`{"roots":[{"uri":"work"}]}`, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
				res, err := d.Capability.Interpret(t.Context(), driver.InterpretRequest{Input: demanding(`[{"path":"a"}]`), Client: stdio, Raw: json.RawMessage(tc.raw)})
				must(t, err)
				got := answer
				switch {
				case res.Invalid != nil:
					got = invalid
				case res.Unavailable != nil:
					got = unavailable
				}
				if got != tc.want {
					t.Errorf("Interpret(%.100s) = %+v, want %s", tc.raw, res, tc.want)
				}
			})
		})
	}
}

func TestAFileCountsOnceHoweverOftenItsFolderIsNamed(t *testing.T) {
	dir := folderWith(t, map[string]string{"sub/a.md": "abc", "sub/deep/": ""})
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Join(dir, "sub"), link))
	d := allowing(t)
	for name, roots := range map[string][]string{
		"twice": {dir, dir}, "nested": {dir, dir + "/sub"}, "the inner one first": {dir + "/sub", dir + "/sub/deep", dir}, "by a link": {dir, link},
	} {
		for files, want := range map[string]bool{
			`[{"glob":"**/*.md","min_count":2}]`: false,
			`[{"glob":"**/*.md","max_count":1}]`: true,
		} {
			if r := seen(t, d, stdio, files, roots...); r.Passed != want {
				t.Errorf("%s: %s: %+v, want passed %v", name, files, r, want)
			}
		}
	}
	if r := seen(t, d, stdio, `[{"path":"a.md"}]`, dir, dir+"/sub"); !r.Passed {
		t.Errorf("a path below the inner root: %+v, want it found", r)
	}
}

func TestAnExpensiveExpressionEndsWithTheLook(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": strings.Repeat("a", 8<<20)})
	d := configured(t, `{"timeout":"100ms"}`)
	r := seen(t, d, stdio, `[{"path":"a","regex":"((a{0,30}){0,30}){0,1}[^a]$"}]`, dir)
	if _, why := failedAt(r); r.Passed || !strings.Contains(why, "long") {
		t.Errorf("passed %v because %q, want it given up with the time of the look", r.Passed, why)
	}
}

func TestAnErrorOfTheClientIsNotAnAnswerAndAnEmptyListLeavesWhatIsAllowed(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": "abc"})
	refused := driver.InterpretRequest{Input: demanding(`[{"path":"a"}]`), Client: stdio, ClientError: &driver.ClientError{Code: -1, Message: "no"}}
	for name, d := range map[string]driver.Capability{"nothing allowed": configured(t, `{}`), "allowed": allowing(t, dir)} {
		if res, err := d.Interpret(t.Context(), refused); err != nil || res.Unavailable == nil || !strings.Contains(res.Unavailable.Reason, "no (-1)") {
			t.Errorf("%s: Interpret = %+v, %v, want unavailable with the client's words", name, res, err)
		}
	}
	if r := seen(t, allowing(t, dir), stdio, `[{"path":"a"}]`); !r.Passed {
		t.Errorf("a client without roots: %+v, want what is allowed to be looked into", r)
	}
}

func TestOtherInputsAndUnsoundListsAreLeftToOthers(t *testing.T) {
	drivertest.EachWay(t, definition(), func(t *testing.T, d driver.Driver) {
		for name, in := range map[string]driver.Input{
			"evidence":        {ID: "evidence", Kind: driver.KindEvidence},
			"no display":      {ID: "files", Kind: driver.KindFiles},
			"nothing":         demanding(`null`),
			"climbing":        demanding(`[{"path":"../a"}]`),
			"absolute":        demanding(`[{"path":"/etc/passwd"}]`),
			"of another kind": demanding(`"a"`),
		} {
			res, err := d.Capability.Render(t.Context(), driver.RenderRequest{Input: in, Client: driver.Client{Transport: "stdio"}})
			if err != nil || res.Unavailable == nil {
				t.Errorf("Render(%s) = %+v, %v, want unavailable", name, res, err)
			}
		}
	})
}

func TestOnlyAbsoluteFoldersMayBeAllowed(t *testing.T) {
	c := definition().Capability.(driver.Configurer)
	for config, want := range map[string]string{
		`{"allow":["/srv"]}`: "", `{"allow":["srv"]}`: "/allow/0", `{"allow":"/srv"}`: "/allow", `{"timeout":"1ms"}`: "/timeout", `{"max_names":0}`: "/max_names",
	} {
		found, err := c.Configure(context.Background(), json.RawMessage(config), true)
		must(t, err)
		if got := len(found) > 0; got != (want != "") || got && found[0].Pointer != want {
			t.Errorf("Configure(%s) finds %v, want something at %q", config, found, want)
		}
	}
}

func TestContract(t *testing.T) {
	dir := folderWith(t, map[string]string{"a": "abc"})
	reply := func(c driver.Client, raw string) driver.InterpretRequest {
		return driver.InterpretRequest{Input: demanding(`[{"path":"a"}]`), Client: c, Raw: json.RawMessage(raw)}
	}
	drivertest.Run(t, definition(),
		drivertest.Sample{Name: "asks", Request: driver.RenderRequest{Input: demanding(`[{"path":"a"}]`), Client: stdio}, Want: drivertest.ClientRequest},
		drivertest.Sample{Name: "looks", Request: driver.RenderRequest{Input: demanding(`[{"path":"a"}]`, dir), Client: rootles}, Want: drivertest.Answer},
		drivertest.Sample{Name: "remote", Request: driver.RenderRequest{Input: demanding(`[{"path":"a"}]`), Client: remote}, Want: drivertest.Unavailable},
		drivertest.Sample{Name: "listed", Request: reply(stdio, string(listed(dir))), Want: drivertest.Answer},
		drivertest.Sample{Name: "prose", Request: reply(stdio, `"my home"`), Want: drivertest.NotAnswer},
	)
}

// No reply of a client makes the driver open anything outside the folder that it
// may name, and the driver answers.
func FuzzRoots(f *testing.F) {
	for _, seed := range []string{`{"roots":[{"uri":"file:///"}]}`, `{"roots":[{"uri":"file:///%2e%2e"}]}`, `{"roots":[[]]}`, `null`} {
		f.Add([]byte(seed))
	}
	d := definition().Capability
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, err := d.Interpret(t.Context(), driver.InterpretRequest{Input: demanding(`[{"path":"no/such/file/for/sure"}]`), Client: stdio, Raw: raw})
		if err != nil {
			t.Fatal(err)
		}
		if res.Answer != nil {
			if r, ok := filecheck.ReadResult(res.Answer.Value); !ok || r.Passed {
				t.Errorf("Interpret(%s) = %s", raw, res.Answer.Value)
			}
		}
	})
}
