package config

import (
	"fmt"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/core/decision"
)

// TreeSource reads the decision tree.
func (c Config) TreeSource() (decision.Source, error) {
	if c.Tree == "" {
		return decision.Default(), nil
	}
	b, err := files.Read(c.Tree)
	if err != nil {
		return decision.Source{}, fmt.Errorf("read the decision tree: %w", err)
	}
	return decision.Source{Name: c.Tree, YAML: b}, nil
}

// CompileTree reads and compiles the decision tree against the locked drivers.
func (c Config) CompileTree() (*decision.Tree, error) {
	lock, err := c.ReadLock()
	if err != nil {
		return nil, err
	}
	src, err := c.TreeSource()
	if err != nil {
		return nil, err
	}
	return decision.Compile(src, lock.Descriptors())
}

// Facts are what conditions of the tree see as `config`.
func (c Config) Facts() decision.ConfigFacts {
	return decision.ConfigFacts{
		UserInput: decision.UserInputFacts{Enabled: c.UserInput.ServerDriver, Driver: c.UserInput.Driver},
		Approval:  decision.ApprovalFacts{DelegateToClient: *c.Approval.DelegateToClient, TrustAgent: c.Approval.TrustAgent, Typed: c.Approval.Typed},
	}
}
