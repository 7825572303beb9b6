package protocol

import "github.com/kairos-mcp/kairos/sdk/driver"

// Problem is an error at a JSON pointer of the step's challenge.
func (s Step) Problem(pointer, message string) *Diagnostic {
	at := s.Position(pointer)
	return &Diagnostic{
		Severity: driver.SeverityError, Line: at.Line, Column: at.Column, Step: s.Label, Pointer: pointer, Message: message,
	}
}
