package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Refusal is an answer with a status other than 200 OK.
type Refusal struct {
	Status  int
	Message string // of the endpoint, fit to be shown
	// After is the Retry-After of the endpoint, or zero if there is none.
	After time.Duration
}

// Error says what the endpoint answered, and what to look at.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("it answers %d %s", r.Status, http.StatusText(r.Status))
	if r.Message != "" {
		text += ": " + r.Message
	}
	switch {
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		text += " (is the API key right?)"
	case r.Status == http.StatusNotFound:
		text += " (are the URL and the model right?)"
	case r.Status >= 300 && r.Status < 400:
		text += " (redirects are not followed; give the URL it leads to)"
	}
	return text
}

// Passing reports whether the same request may succeed a little later.
func (r *Refusal) Passing() bool {
	return r.Status == http.StatusTooManyRequests || r.Status >= 500
}

// Content reports whether this request was refused for what is in it.
func (r *Refusal) Content() bool {
	return r.Status == http.StatusBadRequest || r.Status == http.StatusRequestEntityTooLarge || r.Status == http.StatusUnprocessableEntity
}

// Unusable is an answer that cannot be used.
type Unusable struct{ Problem string }

// Error says why.
func (e *Unusable) Error() string { return "its answer cannot be used: " + e.Problem }

func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(v); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 86400)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
