package api

// Delete declares kairos_delete.
var Delete = Tool[DeleteRequest, DeleteReply]{Declaration{
	Name: "kairos_delete", Title: "Delete KAIROS Memory",
	Description: "Delete stored steps; the first step of a protocol deletes all of it. Ask the user before you delete.",
	Destructive: true, Idempotent: true,
	Icon: "M5 7h14M9 7v-3h6v3M7 7l1 13h8l1-13",
}}

// DeleteRequest names the steps to delete.
type DeleteRequest struct {
	URIs []string `json:"uris" doc:"URIs of steps" min:"1" items:"uri"`
}

// DeleteReply lists the outcome for each URI, in order.
type DeleteReply struct {
	Results      []DeleteResult `json:"results"`
	TotalDeleted int            `json:"total_deleted"`
	TotalFailed  int            `json:"total_failed"`
}

// DeleteResult is the outcome for one URI.
type DeleteResult struct {
	URI     string `json:"uri"`
	Status  string `json:"status" enum:"deleted,error"`
	Message string `json:"message"`
	// ErrorCode is set when Status is error, NextCall where one helps.
	ErrorCode string    `json:"error_code,omitempty" doc:"Set when status is error; the code to act on"`
	NextCall  *NextCall `json:"next_call,omitempty" doc:"The call that next_action names, for programs"`
}
