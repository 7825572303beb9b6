package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

// The first call of a server begins the filling; another name of a model is
// another model, whose vectors are all made anew.
func TestAServerEmbedsWhatIsMissing(t *testing.T) {
	long(t)
	t.Parallel()
	endpoint := embedtest.Start(embedtest.Options{})
	defer endpoint.Close()
	endpoint.Behave(embedtest.Behaviour{Fault: embedtest.Down})
	s := newServed(t)
	s.lock()
	use := func(model string) {
		s.configure("embedding: {url: '" + endpoint.URL() + "', model: " + model + "}\n")
	}
	use("first")
	if out, err := s.program("mint", "../../examples/shell.md").CombinedOutput(); err != nil || !strings.Contains(string(out), "cannot be compared by meaning yet") {
		t.Fatalf("mint without the endpoint = %s, %v, want what is missing", out, err)
	}
	if out, err := s.program("doctor").CombinedOutput(); err == nil || !strings.Contains(string(out), endpoint.URL()) {
		t.Errorf("doctor without the endpoint = %s, %v, want its address", out, err)
	}
	endpoint.Behave(embedtest.Behaviour{})
	for _, model := range []string{"first", "second"} {
		t.Run(model, func(t *testing.T) {
			s.t = t
			use(model)
			if out := s.doctor("passages have no vector yet"); !strings.Contains(out, "openai/"+model+"/") {
				t.Errorf("doctor = %s, want the model %s", out, model)
			}
			s.start()
			s.client.search("disk")
			s.doctor("every passage has a vector")
		})
	}
}

// doctor asks until the answer says what it is to say.
func (s *served) doctor(want string) string {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		out, err := s.program("doctor").CombinedOutput()
		if strings.Contains(string(out), want) {
			return string(out)
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("doctor = %s, %v, want %q", out, err, want)
		}
	}
}
