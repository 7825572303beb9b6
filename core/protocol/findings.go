package protocol

import "github.com/kairos-mcp/kairos/sdk/driver"

// findings are the diagnostics of a document.
type findings struct {
	list   []Diagnostic
	failed bool // list holds an error
}

// add keeps at most maxFindings, but always the first error.
func (f *findings) add(found ...Diagnostic) {
	for _, d := range found {
		first := d.Severity == driver.SeverityError && !f.failed
		if len(f.list) < maxFindings || first {
			f.list = append(f.list, d)
		}
		f.failed = f.failed || first
	}
}

func (f *findings) addAt(severity driver.Severity, at Place, message string) {
	f.add(Diagnostic{Severity: severity, Line: at.Line, Column: at.Column, Message: message})
}
