package session

import "github.com/kairos-mcp/kairos/core/decision"

// Tree compiles the tree of a file, or of an empty one the configured tree.
func (s Session) Tree(file string) (*decision.Tree, error) {
	c, err := s.Load()
	if err != nil {
		return nil, err
	}
	if file != "" {
		c.Tree = file
	}
	return c.CompileTree()
}
