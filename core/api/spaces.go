package api

// SpacesRequest says what to list of the spaces.
type SpacesRequest struct {
	Titles bool
	// Limit bounds the titles of one reply; 0: 500. More than 1000 are never given.
	Limit int
	// Cursor is the NextCursor of the reply before; empty: from the start.
	Cursor string
}

// SpacesReply lists spaces.
type SpacesReply struct {
	Spaces []SpaceInfo `json:"spaces"`
	// NextCursor is set when there are more titles.
	NextCursor string `json:"next_cursor,omitempty"`
	// NextCall lists them.
	NextCall *NextCall `json:"next_call,omitempty"`
}

// SpaceInfo is one space; Chains only on request.
type SpaceInfo struct {
	Name       string      `json:"name"`
	SpaceID    string      `json:"space_id,omitempty"`
	ChainCount int         `json:"chain_count"`
	Chains     []ChainInfo `json:"chains,omitempty"`
}

// ChainInfo is one protocol of a space.
type ChainInfo struct {
	ChainID   string `json:"chain_id"`
	URI       string `json:"uri"` // of the first step
	Title     string `json:"title"`
	StepCount int    `json:"step_count"`
}
