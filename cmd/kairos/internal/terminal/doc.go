// Package terminal is the terminal MCP host behind `kairos run`: it starts a
// server as a child over stdio and plays a protocol with a person, answering
// the server's questions and doing the agent's work where the server asks for
// it. It is a client: it knows the tools' wire and nothing of the engine.
//
// # Who answers
//
// A client that declares elicitation or sampling first submits a placeholder
// for the open step, so that the server can ask for what it needs. When the
// server answers MISSING_FIELD, or the client declares nothing, the host is the
// agent: it runs commands, calls tools of its own MCP servers and writes
// comments, each after the person's consent.
//
// # Scripts
//
// A script answers everything unattended. It is YAML with strict keys: a list
// of rules, tried in order for each question; the first rule whose kind and
// text fit answers. A question that no rule fits ends the run with an error
// that quotes it.
//
//	rules:
//	  - on: elicitation            # a form for the person
//	    after: 1s                  # as long as a person takes
//	    match: How long            # substring of the question, case ignored
//	    answer: {duration_minutes: 30}
//	  - on: sampling               # the server asks the client's model
//	    matches: '(?s)Resolve: (?P<names>\[.*\])'
//	    call:                      # a real tool call is the model's answer
//	      server: calendar
//	      tool: find_user_by_name
//	      arguments: {names: '${json:names}'}
//	      as: people
//	  - on: confirm
//	    match: create_event
//	    decline: true
//	  - on: visit                  # somebody answers at the address meanwhile
//	    run: true
//
// The kinds (`on`) are the questions a host can face:
//
//	elicitation  a form; answer is the object, or the value of its only field
//	visit        an address where a person answers; its text ends with the address
//	sampling     a prompt for a model; answer is text or JSON
//	tool         consent to call a tool on the agent path
//	shell        consent to run a command on the agent path
//	comment      a text the agent has to write
//	confirm      a question to the person on the agent path
//	evidence     what a challenge type unknown to the host demands, as JSON
//
// A rule with `match` (substring) or `matches` (regular expression) looks at
// the whole question as a person would read it; a rule with neither fits all.
// `times: n` lets a rule answer n times at most. `after: 1s` has it take that long: a server
// takes what comes faster than a person can answer for the client's own answer. Exactly one action:
//
//	answer: VALUE      the literal answer (elicitation, sampling, comment, confirm, evidence)
//	decline: true      the person declines (elicitation, visit, confirm)
//	cancel: true       the person closes the form (elicitation), or does not go there (visit)
//	refuse: true       not done (sampling, tool, shell, comment, evidence)
//	run: true          go ahead: run it, call it, ask the configured model (sampling, tool, shell, comment);
//	                   somebody answers at the address (visit)
//	arguments: {...}   go ahead with these arguments (tool)
//	call: {...}        call a tool; its structured result is the answer (sampling, evidence)
//
// A script without a rule for visit is a client that cannot open addresses:
// the server does not ask it to.
//
// Strings in `arguments` may pick values: ${name} is the text of a named group
// of `matches`, ${json:name} the same text read as JSON, ${result.as.path} a
// value of the result of an earlier call of this run. A string that is nothing
// but one of the last two becomes the value itself; inside a longer string
// values other than text are written as JSON. $$ is a dollar sign.
package terminal
