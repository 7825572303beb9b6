package api

// Prompt is a protocol as clients offer it to people, for example in a slash menu.
type Prompt struct {
	// Name is unique among the prompts of one caller, and does not change with the
	// protocol's text.
	Name        string
	Title       string
	Description string
	URI         string           // of the first step, for kairos_begin
	Arguments   []PromptArgument // in the order in which the protocol declares them
}

// PromptArgument is an input of a protocol. Clients send every argument as text.
type PromptArgument struct {
	Name        string
	Description string
	Required    bool
	// Text reports that the input is a string. Another one is JSON, such as a number.
	Text bool
	// Values lists the allowed values; nil: any.
	Values []string
}
