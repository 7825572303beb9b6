package mcp

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/mark3labs/mcp-go/mcp"
)

// sessionPeer reaches the client of one POST: by the response to it, or else by
// a GET stream of its session.
type sessionPeer struct {
	http *httpTransport
	sess *httpSession
	own  *postStream
}

func (p *sessionPeer) reachable() bool { return p.own.open() || p.sess.listens() }

func (p *sessionPeer) notify(method string, params any) error {
	return p.own.send(notice(method, params)) // it is about this call
}

func (p *sessionPeer) call(
	ctx context.Context, q *question, r clientRequest,
) (json.RawMessage, *driver.ClientError, error) {
	w := p.http
	defer w.asking.Add(-1)
	if w.asking.Add(1) > maxAsking {
		return nil, nil, errTooManyOpen
	}
	id := w.lastID.Add(1)
	answer := p.sess.requests.open(id)
	defer p.sess.requests.close(id)
	message := &sent{message: ourRequest{mcp.JSONRPC_VERSION, id, r}}
	p.sess.keep(q.key, message)
	defer p.sess.drop(q.key, message)
	if !p.deliver(message) {
		return nil, nil, errUnreachable
	}
	close(q.out)
	select {
	case r := <-answer:
		return r.result, r.err, nil
	case <-p.sess.gone:
		return nil, nil, errGone
	case <-ctx.Done():
		if over(p.sess.gone) {
			return nil, nil, errGone
		}
		p.send(withdrawal(id))
		return nil, nil, ctx.Err()
	}
}

// send sends a message by the response or a GET stream; nil: neither is open.
func (p *sessionPeer) send(v any) carrier {
	if p.own.send(v) == nil {
		return p.own
	}
	return p.sess.send(v)
}

// deliver sends a question. If the client has just hung up, its next call gets it.
// It returns false if the client cannot be reached, now or later.
func (p *sessionPeer) deliver(q *sent) bool {
	via := p.send(q.message)
	p.sess.streams.Lock()
	defer p.sess.streams.Unlock()
	q.via = via
	return via != nil || p.own.able
}

// rejoin sends a question again if its connection broke: the same request, so that
// either answer counts.
func (p *sessionPeer) rejoin(key questionKey) {
	p.sess.streams.Lock()
	q, ok := p.sess.sent[key]
	lost := ok && (q.via == nil || q.via.lost())
	if lost {
		q.via = p.own // so that no other call does it as well
	}
	p.sess.streams.Unlock()
	if lost {
		p.deliver(q)
	}
}
