package decision

// Coverage counts how often decisions used the rules and routes of a tree.
type Coverage struct {
	Tree      string `json:"tree"`      // Tree.Digest
	Decisions int    `json:"decisions"` // that are counted
	// Replayed counts those that another tree made. They are counted as this
	// tree decides on the same facts.
	Replayed int `json:"replayed,omitempty"`
	// Unknown counts decisions without facts, as runs of older versions have.
	// They are not part of the other counts.
	Unknown int    `json:"unknown,omitempty"`
	Nodes   []Used `json:"nodes"` // in the order of the tree
}

// Used counts the decisions that reached a rule, a route or an entry of the policy.
type Used struct {
	Path string `json:"path"`
	Name string `json:"name,omitempty"`
	Line int    `json:"line"`
	Via  string `json:"via,omitempty"` // of a route
	When string `json:"when,omitempty"`
	// Numbers of decisions that evaluated it, chose it, and got an answer from
	// it. Only routes have answers.
	Looked   int `json:"looked"`
	Chosen   int `json:"chosen"`
	Answered int `json:"answered"`
}

// Coverage counts how often the decisions used each rule and route of the tree.
func (t *Tree) Coverage(made []Past) Coverage {
	c := Coverage{Tree: t.digest, Nodes: t.Outline().unused()}
	at := make(map[string]*Used, len(c.Nodes))
	for i := range c.Nodes {
		at[c.Nodes[i].Path] = &c.Nodes[i]
	}
	for _, p := range made {
		d, known := t.on(p)
		if !known {
			c.Unknown++
			continue
		}
		c.Decisions++
		if p.Record.Tree != t.digest {
			c.Replayed++
		}
		for _, n := range d.Trace {
			used := at[n.Path]
			if used == nil {
				continue // a kind of input for which there are no routes
			}
			used.Looked++
			if !n.Chosen {
				continue
			}
			used.Chosen++
			if p.Answered && n.Via != "" && p.Decision.Route != nil && n.Via == p.Decision.Route.Via {
				used.Answered++
			}
		}
	}
	return c
}

// Never lists the rules and routes that no decision chose.
func (c Coverage) Never() []Used {
	var out []Used
	for _, n := range c.Nodes {
		if n.Chosen == 0 {
			out = append(out, n)
		}
	}
	return out
}

func (o Outline) unused() []Used {
	var out []Used
	routes := func(list []RouteOutline) {
		for _, r := range list {
			out = append(out, Used{Path: r.Path, Line: r.Line, Via: r.Via, When: r.When})
		}
	}
	for _, r := range o.Rules {
		out = append(out, Used{Path: r.Path, Name: r.Name, Line: r.Line, When: r.When})
		routes(r.Routes)
	}
	for _, in := range o.Inputs {
		out = append(out, Used{Path: in.Path, Line: in.Line})
		routes(in.Routes)
	}
	for _, e := range o.Policy {
		out = append(out, Used{Path: e.Path, Name: e.Name, Line: e.Line, When: e.When})
	}
	return out
}
