package api

// DeleteReply lists the outcome for each URI, in order.
type DeleteReply struct {
	Results      []ItemResult `json:"results"`
	TotalDeleted int          `json:"total_deleted"`
	TotalFailed  int          `json:"total_failed"`
}
