// Package toolset is the table of the tools that faces serve: each declaration of
// package api with its schemas.
package toolset

import (
	"slices"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/infer"
)

// Tool is one row of the table.
type Tool struct {
	api.Declaration
	// Input and Output infer the schemas of the request and of the reply.
	Input, Output func() (infer.Schema, error)
}

// Table lists the tools in the order of a run, then of authoring.
var Table = []Tool{
	row(api.Search), row(api.Begin), row(api.Next), row(api.Attest),
	row(api.Mint), row(api.Update), row(api.Delete), row(api.Dump), row(api.Spaces),
}

func row[Request, Reply any](t api.Tool[Request, Reply]) Tool {
	return Tool{Declaration: t.Declaration, Input: infer.Request[Request], Output: infer.Reply[Reply]}
}

// Names lists the names of the tools.
func Names() []string {
	names := make([]string, len(Table))
	for i, t := range Table {
		names[i] = t.Name
	}
	return names
}

// commonFields are the fields of a solution that are not the evidence of one type.
var commonFields = []string{"type", "nonce", "proof_hash", "evidence"}

// SolutionFields are the challenge types that have a field of their own in the
// solutions of kairos_next, in alphabetical order.
func SolutionFields() ([]string, error) {
	s, err := infer.Request[api.Solution]()
	if err != nil {
		return nil, err
	}
	fields := slices.DeleteFunc(s.Properties(), func(name string) bool { return slices.Contains(commonFields, name) })
	slices.Sort(fields)
	return fields, nil
}
