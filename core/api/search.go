package api

// Search declares kairos_search.
var Search = Tool[SearchRequest, SearchReply]{Declaration{
	Name: "kairos_search", Title: "Search for protocol chains",
	Description: "Find the protocol for a task before you start it. Where confidence is sure, follow next_call. Otherwise begin what you find in choices or nearest only if it is exactly what the user wants; else refine or create. " + RulesOfARun,
	ReadOnly:    true, Idempotent: true,
	Icon: "M10 4a6 6 0 1 0 0 12a6 6 0 1 0 0-12M15 15l6 6",
}}

// RulesOfARun stand in the description of the tool that agents call first, because many
// hosts do not show a model the instructions of a server.
const RulesOfARun = "A run is kairos_begin, kairos_next for each step, kairos_attest. While must_obey is true, do exactly what next_action says; " +
	"next_call is the same call with its arguments. Replace texts in angle brackets by what really happened: never make up a result, and never answer in the user's place."

// SearchRequest looks for protocols.
type SearchRequest struct {
	Query string `json:"query" doc:"What the user wants, in three to six words like a title" min:"1"`
	// Queries say the same in other words; at most 5. A protocol counts with
	// the text that fits it best.
	Queries []string `json:"queries,omitempty" doc:"The user's own sentence, synonyms, another language" max:"5"`
	// Space narrows the search to one of the caller's spaces. Empty means all.
	Space string `json:"space,omitempty" doc:"Only look in this space"`
	// SpaceID is another name of Space, which wins.
	SpaceID string `json:"space_id,omitempty" doc:"Same as space"`
	// Limit is the number of matches at most, 1 to 10. The default is 5. While no match is
	// sure there are 3 at most.
	Limit int `json:"limit,omitempty" doc:"Matches at most; default 5" min:"1" max:"10"`
}

// SearchReply lists choices, best first; never empty.
type SearchReply struct {
	MustObey   bool       `json:"must_obey" doc:"true: follow next_action. false: use your judgement."`
	Message    string     `json:"message" doc:"What happened, in words"`
	Confidence Confidence `json:"confidence" doc:"sure: the first choice is what was asked for. perhaps: somebody has to choose. weak: see nearest. none: nothing was found" enum:"sure,perhaps,weak,none"`
	NextAction string     `json:"next_action" doc:"The call that comes next"`
	// NextCall begins the first choice where that is sure, and refines a search
	// that found nothing. Nil: the caller has to choose.
	NextCall *NextCall `json:"next_call,omitempty"`
	Choices  []Choice  `json:"choices" doc:"Best first, never empty"`
	// Nearest are protocols that match too weakly to be choices, the best first. Where the
	// caller can read only few protocols, all the others follow. Empty if the first choice is sure.
	Nearest []Nearest `json:"nearest,omitempty" doc:"Weaker matches: none of these may fit"`
}

// Nearest is a protocol that the caller may judge.
type Nearest struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty" doc:"What the protocol is for"`
	URI         string `json:"uri"`
	Why         string `json:"why,omitempty" doc:"What was found; absent if it is only listed"`
}

// Choice is one answer of a search.
type Choice struct {
	ChainLabel *string `json:"chain_label" doc:"Title of the protocol"`
	// Description is the first line of the protocol's, shortened; set where
	// the choice has to be weighed.
	Description string   `json:"description,omitempty" doc:"What the protocol is for, where there is a choice to make"`
	URI         string   `json:"uri"`
	Label       string   `json:"label" doc:"Heading of the first step"`
	Score       *float64 `json:"score" doc:"0 to 1; null unless role is match"`
	Role        string   `json:"role" enum:"match,refine,create"`
	Tags        []string `json:"tags"`
	NextAction  string   `json:"next_action"`
}

// Confidence says what a search knows of its best match.
type Confidence string

// The confidences.
const (
	ConfidenceSure    Confidence = "sure"    // it is the protocol that was asked for
	ConfidencePerhaps Confidence = "perhaps" // somebody has to choose
	ConfidenceWeak    Confidence = "weak"    // no match is good enough to be a choice
	ConfidenceNone    Confidence = "none"    // there is no match
)
