package filecheck

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

// Result is the value of a files input that somebody looked at.
type Result struct {
	// Passed: everything that is demanded is true.
	Passed bool `json:"passed"`
	// Message is what may be told to the client that was served. It says no
	// more of a disk than the client may know; Files does.
	Message string    `json:"message,omitempty"`
	Files   []Finding `json:"files,omitempty"`
	// More counts findings that are left out.
	More int `json:"more,omitempty"`
}

// Finding is what was seen of one file, or of a name that no file has.
type Finding struct {
	// Path is the file's, below Root; of an entry that no file matches, its
	// path or glob.
	Path string `json:"path"`
	// Check that failed, else all that were made.
	Check  string `json:"check"`
	Passed bool   `json:"passed"`
	Reason string `json:"reason,omitempty"` // why it failed
	Root   string `json:"root,omitempty"`
	Size   *int64 `json:"size,omitempty"` // bytes
	SHA256 string `json:"sha256,omitempty"`
	// Modified is when the content changed last, RFC 3339.
	Modified string `json:"modified,omitempty"`
}

// ReadResult reads a Result. False: it does not say whether it passed.
func ReadResult(value json.RawMessage) (Result, bool) {
	var said struct{ Passed *bool }
	var r Result
	if json.Unmarshal(value, &said) != nil || said.Passed == nil || json.Unmarshal(value, &r) != nil {
		return Result{}, false
	}
	return r, true
}

// ReportSchema is the JSON Schema of a Report.
var ReportSchema = json.RawMessage(`{"type":"object","properties":{"files":{"type":"array",` +
	`"description":"One entry for each file that challenge.files demands and each one that matches a glob there","items":{"type":"object","properties":{` +
	`"path":{"type":"string","description":"path of the file, relative to the root, with slashes"},` +
	`"exists":{"type":"boolean","description":"whether the file is there"},` +
	`"size":{"type":"integer","description":"its size in bytes; needed when it is there"},` +
	`"sha256":{"type":"string","description":"SHA-256 of its content in hex; needed when it is there"}},` +
	`"required":["path","exists"]}}},"required":["files"]}`)

// Report is what somebody says of files without anybody having looked.
type Report struct{ files []reported }

type reported struct {
	path   string
	exists bool
	size   int64
	sha256 string
}

// maxReported bounds the entries of a report.
const maxReported = 1000

// ReadReport reads a report. With diagnostics it is not to be used.
func ReadReport(value json.RawMessage) (Report, []driver.Diagnostic) {
	o := fields.Open(value, "")
	raw := o.Raw("files")
	if problems := o.Problems(); len(problems) > 0 {
		return Report{}, problems
	}
	var entries []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &entries) != nil {
		return Report{}, []driver.Diagnostic{driver.Problem("/files", "must be a list of files, each with path and exists")}
	}
	if len(entries) > maxReported {
		return Report{}, []driver.Diagnostic{driver.Problem("/files", fmt.Sprintf("holds %d files, at most %d are taken", len(entries), maxReported))}
	}
	var r Report
	var problems []driver.Diagnostic
	seen := make(map[string]bool, len(entries))
	for i, entry := range entries {
		e := fields.Open(entry, fields.Pointer("files", fmt.Sprint(i)))
		f := readReported(e)
		if len(e.Problems()) == 0 && seen[f.path] {
			e.Wrong("path", "is reported twice")
		}
		seen[f.path] = true
		problems = append(problems, e.Problems()...)
		r.files = append(r.files, f)
	}
	return r, problems
}

func readReported(e *fields.Object) reported {
	var f reported
	if len(e.Problems()) > 0 {
		return f
	}
	path, named := e.String("path")
	if why := badPath(path); named && why != "" {
		e.Wrong("path", why)
	}
	exists, said := e.Bool("exists")
	f = reported{path: path, exists: exists}
	missing := func(key string) {
		if !e.Has(key) {
			e.Wrong(key, "is missing")
		}
	}
	missing("path")
	missing("exists")
	if !said || !exists {
		return f
	}
	missing("size")
	missing("sha256")
	if size := (entry{of: e}).wholeNumber("size", maxSize); size != nil {
		f.size = *size
	}
	digest, given := e.String("sha256")
	if f.sha256 = strings.ToLower(digest); given && !isDigest(f.sha256) {
		e.Wrong("sha256", "must be 64 hexadecimal digits")
	}
	return f
}

// Contradictions says where the report itself admits that something demanded is
// not so. Checks of what a report cannot show, such as the content, are left to
// the reporter.
func (r Report) Contradictions(checks []Check) []string {
	var found []string
	for _, c := range checks {
		if why := r.contradicts(c); why != "" {
			found = append(found, c.Name()+": "+why)
		}
	}
	return found
}

func (r Report) contradicts(c Check) string {
	if c.Path != "" {
		for _, f := range r.files {
			if f.path == c.Path {
				return f.contradicts(c)
			}
		}
		return "it is not reported"
	}
	matching := 0
	for _, f := range r.files {
		if !f.exists || !c.Glob.Match(f.path) {
			continue
		}
		matching++
		if c.Absent {
			continue
		}
		if why := f.contradicts(c); why != "" {
			return f.path + ": " + why
		}
	}
	_, why := c.Count(matching)
	return why
}

func (f reported) contradicts(c Check) string {
	switch {
	case c.Absent && f.exists:
		return "it must not be there, and is reported to be"
	case c.Absent:
		return ""
	case !f.exists:
		return "it must be there, and is reported not to be"
	case c.SHA256 != "" && c.SHA256 != f.sha256:
		return "the reported SHA-256 is another than demanded"
	}
	_, why := c.Size(f.size)
	return why
}
