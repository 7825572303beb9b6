package rest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/web"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Approvals is what people answer on the approval page. Methods are called
// concurrently.
type Approvals interface {
	Approval(ctx context.Context, c access.Caller, id run.ID, secret string) (approval.View, error)
	AnswerApproval(ctx context.Context, c access.Caller, id run.ID, secret string, in approval.Answer) (approval.View, error)
}

var _ Approvals = (*director.Engine)(nil)

const (
	approvePrefix = "/approve/"
	// approvePattern is what logs and metrics see: the path holds a secret.
	approvePattern = approvePrefix + "{run}/{secret}"
	// maxApproveForm is more than a decision, a digest and a phrase take, and room for what a person
	// writes, in bytes.
	maxApproveForm = 64 << 10
	// fieldPrefix stands before the names of the fields of a question.
	fieldPrefix = "field."
)

// ApprovalPath is the path of the page for an approval.
func ApprovalPath(id run.ID, secret string) string { return approvePrefix + string(id) + "/" + secret }

//go:embed approve.html
var approveHTML string

var approvePage = template.Must(template.New("approve").Funcs(template.FuncMap{"plain": plain.Text, "line": plain.Line, "utc": utc}).Parse(approveHTML))

// shownApproval is what the template shows.
type shownApproval struct {
	approval.View
	Does    string // Display, set out
	Problem string // with the answer before
	// Known: the server knows people by name; Who is the one that answers.
	Known bool
	Who   access.Caller
}

// page is where people answer approvals.
type page struct {
	approvals Approvals
	network   network
	// identified: the server knows who people are.
	identified bool
	log        *slog.Logger
}

// serve answers a request for the page. Reading it decides nothing: programs that preview
// links read it, too.
func (p *page) serve(c *call) {
	pageHeaders(c.w.Header())
	c.caller.Visit = p.visit(c.r)
	id, secret, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, approvePrefix), "/")
	if c.r.Method == http.MethodPost {
		p.take(c, run.ID(id), secret)
		return
	}
	v, err := p.approvals.Approval(c.r.Context(), c.caller, run.ID(id), secret)
	if err != nil {
		p.refuse(c, err)
		return
	}
	p.show(c, http.StatusOK, v, "")
}

// pageHeaders are those of every page for people.
func pageHeaders(h http.Header) {
	// no-referrer would make browsers send the Origin null with the form.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("X-Robots-Tag", "noindex, nofollow")
}

// visit describes how the page was reached. No address is
// kept, only what kind it is.
func (p *page) visit(r *http.Request) run.Visit {
	v := run.Visit{Browser: r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	at, wrong := netip.ParseAddr(p.network.remote(r))
	forwarded := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != ""
	switch {
	case err != nil || wrong != nil:
	case forwarded && !p.network.trusts(peer.Addr().Unmap()):
		v.From = run.BehindProxy
	case at.IsLoopback():
		v.From = run.ThisMachine
	case at.IsPrivate(), at.IsLinkLocalUnicast():
		v.From = run.PrivateNetwork
	default:
		v.From = run.PublicNetwork
	}
	return v
}

func (p *page) take(c *call, id run.ID, secret string) {
	if !p.sameSite(c) {
		return
	}
	if len(c.body) > maxApproveForm {
		p.note(c, http.StatusRequestEntityTooLarge, "This is too long for an answer",
			fmt.Sprintf("At most %d bytes are taken, and nothing was decided. Open the link again and answer there.", maxApproveForm))
		return
	}
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	form, err := url.ParseQuery(string(c.body))
	if kind != "application/x-www-form-urlencoded" || err != nil {
		p.note(c, http.StatusBadRequest, "This is not the form of the page", "Open the link again and use its buttons.")
		return
	}
	in := approval.Answer{Decision: form.Get("decision"), Digest: form.Get("digest"), Phrase: form.Get("phrase"), Fields: fieldsIn(form)}
	if p.identified {
		in.By = c.caller.Principal
	}
	v, err := p.approvals.AnswerApproval(c.r.Context(), c.caller, id, secret, in)
	switch {
	case fault.CodeOf(err) == fault.InvalidArgument && v.State != "":
		p.show(c, http.StatusUnprocessableEntity, v.Filled(in.Fields), messageOf(err))
	case err != nil:
		p.refuse(c, err)
	case v.Late:
		p.show(c, http.StatusConflict, v, "Your answer came too late and changed nothing.")
	default:
		// Loading the page again must not answer again.
		// Relative, for a proxy that serves us below a path of its own.
		p.redirect(c, secret)
	}
}

// crossSite finds out whether the page of another site sends what changes something here.
// A program that is not a browser says nothing of it, and has no cookie of a person.
var crossSite = http.NewCrossOriginProtection()

// sameSite refuses what the page of another site sends; false: it did.
func (p *page) sameSite(c *call) bool {
	if crossSite.Check(c.r) == nil {
		return true
	}
	p.note(c, http.StatusForbidden, "This did not come from the page", "Open the link again and use its buttons.")
	return false
}

func (p *page) redirect(c *call, to string) {
	c.w.Header().Set("Location", to)
	c.w.WriteHeader(http.StatusSeeOther)
}

// fieldsIn are the fields of a question in the form of the page.
func fieldsIn(form url.Values) map[string][]string {
	given := map[string][]string{}
	for name, values := range form {
		if field, ok := strings.CutPrefix(name, fieldPrefix); ok {
			given[field] = values
		}
	}
	return given
}

func (p *page) show(c *call, status int, v approval.View, problem string) {
	s := shownApproval{View: v, Does: setOut(v.Display), Problem: problem, Known: p.identified}
	if s.Known {
		s.Who = c.caller
	}
	var body bytes.Buffer
	if err := approvePage.Execute(&body, s); err != nil {
		p.log.ErrorContext(c.r.Context(), "the approval page could not be made", "error", err)
		p.note(c, http.StatusInternalServerError, "The page could not be made", "The server's log has the cause.")
		return
	}
	title := "Approval"
	if v.Asks {
		title = "Question"
	}
	p.html(c, status, fmt.Sprintf("%s: %s", title, v.Label), body.Bytes())
}

// refuse says why there is nothing to show.
func (p *page) refuse(c *call, err error) {
	var f *fault.Error
	if !errors.As(err, &f) {
		p.log.ErrorContext(c.r.Context(), "the approval page failed", "error", err)
		p.note(c, http.StatusInternalServerError, "This did not work", "Nothing was decided. The server's log has the cause.")
		return
	}
	status, title := fault.RowOf(f.Code).Status, "This did not work"
	switch status {
	case http.StatusOK:
		status = http.StatusConflict
	case http.StatusNotFound:
		title = "No such approval"
	case http.StatusForbidden:
		title = "Not yours to answer"
	}
	p.note(c, status, title, f.Message)
}

// changedLink answers an address that no link has. It shows nothing of it.
func (p *page) changedLink(c *call, status int) {
	const again = "Nothing was decided. Copy the whole link again, without a space or a character behind it"
	if strings.HasPrefix(c.r.URL.Path, linkPrefix) {
		p.note(c, status, "This link was changed on its way", again+".")
		return
	}
	p.note(c, status, "This link was changed on its way", again+", or let the agent continue: it gets the link again.")
}

func (p *page) note(c *call, status int, title, text string) {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<div class="narrow"><h1>%s</h1><p>%s</p></div>`, template.HTMLEscapeString(title), template.HTMLEscapeString(text))
	p.html(c, status, title, body.Bytes())
}

func (p *page) html(c *call, status int, title string, body []byte) {
	c.w.Header().Set("Content-Security-Policy", web.Policy())
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	whole := web.Page{Title: plain.Text(title), Body: template.HTML(body)} // #nosec G203 -- a template of ours has escaped it
	if err := whole.Render(c.w); err != nil {
		p.log.DebugContext(c.r.Context(), "page not sent", "error", err)
	}
}

// setOut is a JSON document for people, with characters instead of escapes;
// what is none stays as it is.
func setOut(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return string(raw)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if enc.Encode(v) != nil {
		return string(raw)
	}
	return strings.TrimSpace(text.String())
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
