package api

// Spaces declares kairos_spaces.
var Spaces = Tool[SpacesRequest, SpacesReply]{Declaration{
	Name: "kairos_spaces", Title: "List spaces and chain counts",
	Description: "List the spaces you can read and how many protocols each holds, also by title.",
	ReadOnly:    true, Idempotent: true,
	Icon: "M4 4h6v6h-6zM14 4h6v6h-6zM4 14h6v6h-6zM14 14h6v6h-6z",
}}

// SpacesRequest says what to list of the spaces.
type SpacesRequest struct {
	Titles bool `json:"include_chain_titles,omitempty" doc:"List titles too"`
	// Limit bounds the titles of one reply. The default is 500. More than 1000 are never given.
	Limit int `json:"limit,omitempty" doc:"Titles at most; default 500" min:"1" max:"1000"`
	// Cursor is the NextCursor of the reply before. The default is the start.
	Cursor string `json:"cursor,omitempty" doc:"next_cursor of the reply before"`
}

// SpacesReply lists spaces.
type SpacesReply struct {
	Spaces []SpaceInfo `json:"spaces"`
	// NextCursor is set when there are more titles.
	NextCursor string `json:"next_cursor,omitempty" doc:"Set when there are more titles"`
	// NextCall lists them.
	NextCall *NextCall `json:"next_call,omitempty"`
}

// SpaceInfo is one space; Chains only on request.
type SpaceInfo struct {
	Name       string      `json:"name"`
	SpaceID    string      `json:"space_id,omitempty" doc:"What space means in full"`
	ChainCount int         `json:"chain_count"`
	Chains     []ChainInfo `json:"chains,omitempty"`
}

// ChainInfo is one protocol of a space.
type ChainInfo struct {
	ChainID   string `json:"chain_id"`
	URI       string `json:"uri" doc:"The first step, for kairos_begin"` // of the first step
	Title     string `json:"title"`
	StepCount int    `json:"step_count"`
}
