package terminal

import "sync"

// exchange is what the server asked its client during the present call, and what
// became of its last question. Methods may be called concurrently.
type exchange struct {
	mu          sync.Mutex
	asked, form bool
	// onlyApproved: the forms of the present call were approvals.
	onlyApproved bool
	dismissed    bool
	disallowed   bool   // the person did not allow KAIROS to do steps itself
	approved     string // the last question that the person answered with "approved"
}

// begin begins a call of the server.
func (e *exchange) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.form, e.onlyApproved = false, false, true
}

// ask notes a question, showForm that it is a form.
func (e *exchange) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = true
}

func (e *exchange) showForm() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.form = true
}

// answered notes whether the person closed the last question without an answer.
func (e *exchange) answered(dismissed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dismissed = dismissed
}

// approve notes what question the person approved with their last answer; "": none.
func (e *exchange) approve(question string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.approved = question
}

// takeApproved returns the question that was approved last, once: work that is
// done again is asked for again.
func (e *exchange) takeApproved() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	question := e.approved
	e.approved = ""
	return question
}

func (e *exchange) hasAsked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func (e *exchange) hasShownForm() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.form
}

func (e *exchange) wasDismissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dismissed
}

// allow notes whether the person allowed KAIROS to do steps itself, when asked.
func (e *exchange) allow(allowed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disallowed = !allowed
}

func (e *exchange) wasDisallowed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.disallowed
}

// answer notes what kind of form was answered.
func (e *exchange) answer(approval bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onlyApproved = e.onlyApproved && approval
}

// answeredItself reports whether the client gave what the present call was about,
// rather than a mere approval.
func (e *exchange) answeredItself() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked && (!e.form || !e.onlyApproved)
}
