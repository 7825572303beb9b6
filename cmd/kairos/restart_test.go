package main

import (
	"strings"
	"testing"
	"time"
)

// Clients such as Gemini CLI and Cline keep sending the id of a session that the server does not
// know any more, and never introduce themselves again: a killed server must continue it.
func TestClientsKeepTheirSessionAfterARestart(t *testing.T) {
	long(t)
	t.Parallel()
	b := withShippedDrivers(t, "handover: {dir: out}\n")
	h := b.halt(t, halted{from: legacyEra, to: legacyEra, at: "a question"})
	b.killed()
	h.call.leave()
	b.client.CloseIdleConnections() // the client's, to the server that is gone
	s := &served{t: t, dir: b.dir}
	s.startAt(strings.TrimPrefix(b.url, "http://"))

	// The same client and session: what it was asked before the kill, it is asked again.
	b.end(&stage{h.client, t}, h.at, h.reply)
}

// The client is gone with its end of stdin, and nobody hears what the person answers.
func TestAServerEndsWithItsStdinWhileAPersonIsAsked(t *testing.T) {
	t.Parallel()
	s := withPage(t)
	s.write("kairos.yaml", "database: data/kairos.db\nadmin: {socket: run/admin.sock}\nmcp: {wait: 50s}\ndrivers: {dir: "+buildDrivers(t)+"}\n")
	p := s.pipe(t, legacyEra, hasNothing, "--stdio", "--page")
	r := p.opens(approvedCommand)
	p.next(r, noResult("shell", r))
	s.logs(pageOpened, 1)
	began := time.Now()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	const patience = 10 * time.Second // a server that waits for the person does so for longer
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	if err := p.cmd.Wait(); !late.Stop() {
		t.Errorf("the server was still there %s after its stdin had ended", patience)
	} else if err != nil {
		t.Errorf("the server ended with %v", err)
	}
	t.Logf("the server ended %s after its stdin", time.Since(began).Round(time.Millisecond))
}
