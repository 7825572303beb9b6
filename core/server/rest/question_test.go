package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/web/webtest"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// question is a question on the page, which takes what fits its schema, once. It is safe for concurrent use.
type question struct {
	asked driver.Input

	mu    sync.Mutex // guards the fields below
	taken json.RawMessage
}

func (q *question) Approval(context.Context, access.Caller, run.ID, string) (approval.View, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.view()
}

func (q *question) view() (approval.View, error) {
	fields, err := input.FieldsOf(q.asked)
	v := approval.View{State: approval.Open, Asks: true, Label: "Plan it", Protocol: "Trip", Step: 1, Count: 2, Question: q.asked.Description, Fields: fields,
		Text: "## Plan it", Digest: "abc", AskedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	if q.taken != nil {
		v.State, v.DecidedAt, v.Fields = approval.Answered, time.Now(), nil
	}
	return v, err
}

func (q *question) AnswerApproval(_ context.Context, _ access.Caller, _ run.ID, _ string, in approval.Answer) (approval.View, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	v, err := q.view()
	if v.Late = q.taken != nil; v.Late || err != nil {
		return v, err
	}
	value, wrong := input.ReadFields(q.asked, in.Fields)
	if in.Decision != "answered" || len(wrong) > 0 {
		return v, fault.New(fault.InvalidArgument, "%s", input.WrongFields(wrong))
	}
	q.taken = value
	return q.view()
}

const tripForm = `{"type":"object","properties":{
	"where":{"type":"string","title":"Where <b>to</b>?","description":"A city"},
	"when":{"type":"string","format":"date"},
	"days":{"type":"integer","minimum":1},
	"class":{"type":"string","oneOf":[{"const":"a","title":"First <i>class</i>"},{"const":"b","title":"Second"}]},
	"meals":{"type":"array","items":{"type":"string","enum":["fish","\"none\""]}},
	"people":{"type":"array","items":{"type":"string"}},
	"seat \"x\"":{"type":"number","enum":[1.5,2]},
	"insured":{"type":"boolean"}},
	"required":["where","class","insured","people"]}`

// asks is a world whose page asks this.
func asks(t *testing.T) (*world, *question, string) {
	t.Helper()
	q := &question{asked: driver.Input{Description: "Plan the <script>trip</script>", Schema: json.RawMessage(tripForm)}}
	w := newWorld(t, func(c *rest.Config) { c.Approvals = q })
	return w, q, "/approve/01a22329-3e01-7802-8a41-86120c53b684/" + strings.Repeat("0", 32)
}

func (w *world) fill(path string, form url.Values) answer {
	w.t.Helper()
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w.do("POST", path, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
}

func TestAQuestionIsAnsweredOnItsPage(t *testing.T) {
	w, q, path := asks(t)
	page := string(w.get(path).body)
	for _, want := range []string{
		"A question to you: Plan it", "Plan the &lt;script&gt;", "Where &lt;b&gt;to", `<textarea id="field-0" name="field.where"`, `type="date"`, `inputmode="decimal"`,
		`type="radio" name="field.class" value="a"`, "First &lt;i&gt;", `type="checkbox" name="field.meals" value="&#34;none&#34;"`, `name="field.seat &#34;x&#34;"`, `value="1.5"`, `value="true"`, `value="rejected"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, " checked>") || strings.Contains(page, " selected>") || strings.Contains(page, `value="approved"`) {
		t.Errorf("the page runs something, chooses for the person, or asks for an approval:\n%s", page)
	}
	given := url.Values{
		"decision": {"answered"}, "digest": {"abc"}, "field.where": {"Oslo & <b>\r\nBergen"}, "field.days": {" 3 "}, "field.class": {"b"}, "field.meals": {"fish", `"none"`},
		"field.people": {"Ada\r\nBob"}, `field.seat "x"`: {"1.5"}, "field.insured": {"false"}, "field.when": {""}, "field.more": {"x"}, "phrase": {"x"},
	}
	wrong := func(field string, values ...string) {
		t.Helper()
		form := url.Values{}
		for k, v := range given {
			form[k] = v
		}
		form["field."+field] = values
		r := w.fill(path, form)
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), "/"+field) || !strings.Contains(string(r.body), "This is not an answer yet") {
			t.Errorf("to %s %q: %d %.300s, want 422 with the reason", field, values, r.status, r.body)
		}
		if field != "where" && !strings.Contains(string(r.body), "Oslo &amp; &lt;b&gt;\r\nBergen</textarea>") {
			t.Errorf("after %s %q the page forgot what was filled in", field, values)
		}
	}
	wrong("where")
	wrong("where", "\u200b")
	wrong("class", "c")
	wrong("class", "a", "b")
	wrong("days", "three")
	wrong("days", "0")
	wrong("when", "tomorrow")
	wrong("insured", "")
	wrong("meals", "meat")
	if r := w.fill(path, given); r.status != http.StatusSeeOther {
		t.Fatalf("%d %s, want it taken", r.status, r.body)
	}
	if want := `{"where":"Oslo & <b>\nBergen","days":3,"class":"b","meals":["fish","\"none\""],"people":["Ada","Bob"],"seat \"x\"":1.5,"insured":false}`; string(q.taken) != want {
		t.Errorf("taken was %s, want %s", q.taken, want)
	}
	if page := string(w.get(path).body); !strings.Contains(page, "This was answered at") || strings.Contains(page, "<form") {
		t.Errorf("after the answer the page says %s", page)
	}
	given.Set("field.where", "Rome")
	if r := w.fill(path, given); r.status != http.StatusConflict || !strings.Contains(string(r.body), "too late") {
		t.Errorf("another answer gets %d %s", r.status, r.body)
	}
	given.Set("field.where", strings.Repeat("x", 128<<10))
	if r := w.fill(path, given); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large answer gets %d", r.status)
	}
}

func TestTheQuestionFitsTheScreen(t *testing.T) {
	b := webtest.Open(t)
	w, _, path := asks(t)
	for width, scheme := range map[int]webtest.Scheme{360: webtest.Light, 900: webtest.Dark} {
		b.Show(w.url+path, width, scheme)
		if over := b.Overflowing(); len(over) > 0 {
			t.Errorf("at a width of %d these reach beyond it: %v", width, over)
		}
	}
	var pressed bool
	b.Ask(`(document.querySelector('[name="field.where"]').value="Oslo", document.querySelector('[name="field.class"]').click(),
		document.querySelector('[name="field.people"]').value="Ada", document.querySelector('[name="field.insured"]').click(),
		document.querySelector('button[value=answered]').click(), true)`, &pressed)
	w.settles(t, w.url+path, "This was answered at")
}
