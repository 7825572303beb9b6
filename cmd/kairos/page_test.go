package main

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

// withPage starts servers on standard streams, with the shipped drivers and no port configured.
func withPage(t *testing.T) *served {
	t.Helper()
	long(t)
	s := &served{t: t, dir: t.TempDir()}
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\nmcp: {wait: 5s}\ndrivers: {dir: "+buildDrivers(t)+"}\n")
	return s
}

// pageOpened is what the log says when the page opens.
const pageOpened = `msg="approval page"`

func TestThePageOfAServerOverStdioIsOpenedOnDemand(t *testing.T) {
	t.Parallel()
	inBothEras(t, func(t *testing.T, era string) {
		s := withPage(t)
		p := s.pipe(t, era, hasNothing, "--page")
		if done := p.submit(p.opens(oneCommand), "shell", ranWell).step(); done.ProofHash == "" {
			t.Fatalf("a step that nobody approves is %+v", done)
		}
		if strings.Contains(s.stderr.String(), pageOpened) {
			t.Errorf("the page is open although nobody has a link:\n%s", s.stderr.String())
		}
		r := p.opens(approvedCommand)
		placeholder := noResult("shell", r)
		first := p.next(r, placeholder).step()
		if first.ErrorCode != "WAITING_FOR_USER" || first.ApprovalURL == "" {
			t.Fatalf("without an answer it is %s %q: %s", first.ErrorCode, first.ApprovalURL, first.Message)
		}
		link, err := url.Parse(first.ApprovalURL)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/health", "/mcp", "/api/kairos_search"} {
			if status, page := visit(t, "GET", "http://"+link.Host+path, ""); status != 404 {
				t.Errorf("GET %s is %d %s, want a page for links only", path, status, page)
			}
		}

		// The link of a server that is gone is that of the next one.
		p.kill()
		p = s.pipe(t, era, hasNothing, "--page")
		again := p.next(r, placeholder).step()
		later, err := url.Parse(again.ApprovalURL)
		if err != nil || later.Path != link.Path || later.Host == link.Host {
			t.Fatalf("the next server gives the link %s after %s (%v), want the same page at its own port", again.ApprovalURL, first.ApprovalURL, err)
		}
		if strings.Contains(again.Message, link.Host) || !strings.Contains(again.Message, later.Host) {
			t.Errorf("with the page at %s the message is %s", later.Host, again.Message)
		}
		approveAt(t, again.ApprovalURL)
		if open := p.next(r, placeholder).step(); open.ErrorCode != "" || !strings.Contains(open.Message, "approved") {
			t.Errorf("after the approval: %s %s", open.ErrorCode, open.Message)
		}
		p.leave()
		if c, err := net.Dial("tcp", later.Host); err == nil {
			_ = c.Close()
			t.Errorf("the page at %s outlives its server", later.Host)
		}
	})
}

// Another program may have the port: steps stop as without a page, and the server works on.
func TestAPageThatCannotOpenIsAsNone(t *testing.T) {
	t.Parallel()
	s := withPage(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\ndrivers: {dir: "+buildDrivers(t)+"}\napproval: {listen: "+taken.Addr().String()+"}\n")
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(approvedCommand)
	if none := p.next(r, noResult("shell", r)).step(); none.ErrorCode != "APPROVAL_UNAVAILABLE" || none.ApprovalURL != "" {
		t.Errorf("with its port taken it is %s %q: %s", none.ErrorCode, none.ApprovalURL, none.Message)
	}
	s.logs("there is no approval page", 1)
	if done := p.submit(p.opens(oneCommand), "shell", ranWell).step(); done.ProofHash == "" {
		t.Errorf("another step is %+v", done)
	}
}

func TestWithoutTheFlagThereIsNoPage(t *testing.T) {
	t.Parallel()
	s := withPage(t)
	p := s.pipe(t, legacyEra, hasNothing)
	r := p.opens(approvedCommand)
	none := p.next(r, noResult("shell", r)).step()
	if none.ErrorCode != "APPROVAL_UNAVAILABLE" || none.ApprovalURL != "" || !strings.Contains(none.Message, "serve --page") {
		t.Errorf("without a page it is %s %q: %s", none.ErrorCode, none.ApprovalURL, none.Message)
	}
	if strings.Contains(s.stderr.String(), pageOpened) {
		t.Errorf("the page is open:\n%s", s.stderr.String())
	}
}
