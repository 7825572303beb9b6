package api

// SearchRequest looks for protocols.
type SearchRequest struct {
	Query string
	// Queries say the same in other words; at most 5. A protocol counts with
	// the text that fits it best.
	Queries []string
	// Space narrows the search to one of the caller's spaces; empty: all.
	Space string
	// Limit is the number of matches at most, 1 to 10; 0: 5. While no match is
	// sure there are 3 at most.
	Limit int
}

// SearchReply lists choices, best first; never empty.
type SearchReply struct {
	MustObey   bool       `json:"must_obey"`
	Message    string     `json:"message"`
	Confidence Confidence `json:"confidence"`
	NextAction string     `json:"next_action"`
	// NextCall begins the first choice where that is sure, and refines a search
	// that found nothing. Nil: the caller has to choose.
	NextCall *NextCall `json:"next_call,omitempty"`
	Choices  []Choice  `json:"choices"`
}

// Choice is one answer of a search.
type Choice struct {
	ChainLabel *string `json:"chain_label"`
	// Description is the first line of the protocol's, shortened; set where
	// the choice has to be weighed.
	Description string   `json:"description,omitempty"`
	URI         string   `json:"uri"`
	Label       string   `json:"label"`
	Score       *float64 `json:"score"` // 0..1; nil for refine and create
	Role        string   `json:"role"`  // match, refine, create
	Tags        []string `json:"tags"`
	NextAction  string   `json:"next_action"`
}

// Confidence says what a search knows of its best match.
type Confidence string

// The confidences.
const (
	ConfidenceSure    Confidence = "sure"    // it is the protocol that was asked for
	ConfidencePerhaps Confidence = "perhaps" // somebody has to choose
	ConfidenceNone    Confidence = "none"    // there is no match
)
