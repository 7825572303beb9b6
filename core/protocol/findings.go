package protocol

import (
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

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

func (f *findings) failAt(at Place, step, message string) {
	f.add(finding(driver.SeverityError, at, step, message))
}

func (f *findings) warnAt(at Place, step, message string) {
	f.add(finding(driver.SeverityWarning, at, step, message))
}

func finding(severity driver.Severity, at Place, step, message string) Diagnostic {
	return Diagnostic{Severity: severity, Line: at.Line, Column: at.Column, Step: step, Message: plain.Clip(message, maxMessage)}
}
