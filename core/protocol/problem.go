package protocol

import "github.com/kairos-mcp/kairos/sdk/driver"

// Problem is an error at a place of the step's challenge, by JSON Pointer.
func (s Step) Problem(pointer, message string) *Diagnostic {
	at := s.Position(pointer)
	return &Diagnostic{
		Severity: driver.SeverityError, Line: at.Line, Column: at.Column, Step: s.Label, Pointer: pointer, Message: message,
	}
}
