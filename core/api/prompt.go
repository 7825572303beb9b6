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

// ArgumentKind is how the text of an argument becomes the value of an input.
type ArgumentKind string

// The kinds of arguments.
const (
	ArgumentText ArgumentKind = "text" // a string
	ArgumentList ArgumentKind = "list" // strings, separated by commas or as a JSON array
	ArgumentJSON ArgumentKind = "json" // any other type, such as a number
)

// PromptArgument is an input of a protocol. Clients send every argument as text.
type PromptArgument struct {
	Name        string
	Description string
	Required    bool
	Kind        ArgumentKind
	// Values lists the allowed values. If it is nil any value is allowed.
	Values []string
}
