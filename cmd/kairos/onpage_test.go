package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// surveyDoc asks a person for a text, a choice, several choices and a confirmation.
const surveyDoc = "# %s\n\n## Survey\n\nAsk them.\n\n```json\n{\"challenge\":{\"type\":\"user_input\",\"user_input\":{\"prompt\":\"How was it?\"}," +
	`"output_schema":{"type":"object","properties":{"why":{"type":"string"},"stars":{"type":"integer","enum":[1,2,3]},` +
	`"liked":{"type":"array","items":{"type":"string","oneOf":[{"const":"f","title":"The food"},{"const":"r","title":"The room"}]}},"again":{"type":"boolean"}},` +
	"\"required\":[\"why\",\"stars\",\"again\"]}}}\n```\n"

// fillAt reads the page of a question and answers it, as a person does.
func fillAt(t *testing.T, link string, form url.Values) (status int, after string) {
	t.Helper()
	_, page := visit(t, "GET", link, "")
	digest := regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`).FindStringSubmatch(page)
	if digest == nil {
		t.Fatalf("the page is %s", page)
	}
	form.Set("digest", digest[1])
	form.Set("decision", "answered")
	return visit(t, "POST", link, form.Encode())
}

// A headless client closes the form itself, in no time. The person it works for answers on the page.
func TestAQuestionThatAClientAnswersItselfIsAnsweredOnItsPage(t *testing.T) {
	long(t)
	b := withShippedDrivers(t, "")
	inBothEras(t, func(t *testing.T, era string) {
		s := &stage{b.visit(t, era, hasForms), t}
		// On a busy machine an answer at once may take as long as a person's. Then another run is tried.
		for range 20 {
			r := s.begun(s.document(surveyDoc), "")
			placeholder := noResult("user_input", r)
			k := s.next(r, placeholder)
			k.atOnce(k.ask("elicitation/create"), `{"action":"cancel"}`)
			told := k.step()
			if !strings.Contains(told.Message, "faster than a person can") {
				t.Logf("an answer at once took too long: %s", told.Message)
				continue
			}
			if told.ApprovalURL == "" || told.NextCall == nil || *told.RetryCount != 0 {
				t.Fatalf("to the client's own answer the server says %+v", told)
			}
			if status, page := fillAt(t, told.ApprovalURL, url.Values{"field.why": {"quiet"}, "field.stars": {"9"}, "field.again": {"true"}}); status != 422 || !strings.Contains(page, "/stars") {
				t.Errorf("to a wrong choice the page says %d %s", status, page)
			}
			if status, page := fillAt(t, told.ApprovalURL, url.Values{"field.why": {"quiet & <calm>"}, "field.stars": {"3"}, "field.liked": {"r", "f"}, "field.again": {"true"}}); status != 200 || !strings.Contains(page, "Answered: Survey") {
				t.Errorf("to the answer the page says %d %s", status, page)
			}
			done := s.next(r, placeholder).step()
			s.code(done, "")
			s.proves(done, driver.LinkHolder)
			for _, m := range b.timeline(t, r.RunID).Moments {
				var said bytes.Buffer
				if m.What != "answered" {
					continue
				}
				if err := json.Compact(&said, m.Answer); err != nil || m.Via != "page" || said.String() != `{"why":"quiet & <calm>","stars":3,"liked":["r","f"],"again":true}` {
					t.Errorf("the timeline says of the answer %+v: %s", m, m.Answer)
				}
			}
			return
		}
		t.Error("this machine never answers at once")
	})
}
