package shape

import "slices"

// Carried returns a copy of a schema of arguments in the form that every host can carry:
// without lists of types, without places that have no type, and without bounds of texts,
// which hosts read differently. A place that may be an object or null is an object there,
// and one that may be anything is a string, which holds JSON as text. Arguments that fit
// the schema itself are taken, too.
func (s *Schema) Carried() *Schema {
	c := *s
	c.Pattern, c.MinLength, c.MaxLength = "", nil, nil
	switch types, several := s.Type.([]string); {
	case several:
		c.Type = types[slices.IndexFunc(types, func(t string) bool { return t != "null" })]
	case s.Type == nil:
		c.Type = typeNames[text]
	}
	return c.each((*Schema).Carried)
}

// Outline returns a copy of a schema of replies with their types only: no descriptions,
// and no alternatives. A reply that fits the schema fits its outline.
func (s *Schema) Outline() *Schema {
	c := *s
	c.Description, c.AnyOf = "", nil
	if c.AdditionalProperties == true {
		c.AdditionalProperties = nil // as it is without the keyword
	}
	return c.each((*Schema).Outline)
}

// each replaces the schemas of members, items and values.
func (s *Schema) each(change func(*Schema) *Schema) *Schema {
	if s.Properties != nil {
		members := make(Properties, len(s.Properties))
		for i, p := range s.Properties {
			members[i] = Property{p.Name, change(p.Schema)}
		}
		s.Properties = members
	}
	if s.Items != nil {
		s.Items = change(s.Items)
	}
	if values, ok := s.AdditionalProperties.(*Schema); ok {
		s.AdditionalProperties = change(values)
	}
	return s
}
