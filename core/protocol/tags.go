package protocol

// Tags returns the search tags of a step.
func Tags(s Step) []string { return nil }
