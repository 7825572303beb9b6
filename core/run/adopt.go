package run

// Owner says whose a run is.
type Owner struct {
	// From is the principal that had the run before.
	From      string `json:"from"`
	Principal string `json:"principal"`
	Space     string `json:"space"`
	// Pin is the digest of the protocol of the run in the space where it is now.
	Pin string `json:"pin"`
}

// adopted changes whose the run is. Its steps and proofs stay as they are.
func adopted(r *Run, e Event) error {
	o := e.Owner
	if o == nil || o.Principal == "" || o.Space == "" || o.Pin == "" {
		return lacks("whose the run is now")
	}
	r.Principal, r.Space, r.Pin = o.Principal, o.Space, o.Pin
	// A connection belongs to whoever had the run.
	r.Connection = ""
	return nil
}
