package mcp

import (
	"context"
	"encoding/json"

	"github.com/kairos-mcp/kairos/sdk/driver"
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
	size := questionBytes + int64(len(r.Params))
	if err := p.http.sessions.hold(p.sess, size); err != nil {
		return nil, nil, err
	}
	defer p.http.sessions.drop(p.sess, size)
	q.posed = pose(r)
	defer p.sess.requests.close(q.posed)
	if !p.deliver(q.posed) && !p.own.able {
		return nil, nil, errUnreachable
	}
	return q.answered(ctx, p.sess.gone, func() { p.withdraw(q.posed) })
}

// send sends a message by the response or a GET stream. It returns nil if neither is open.
func (p *sessionPeer) send(v any) carrier {
	if p.own.send(v) == nil {
		return p.own
	}
	return p.sess.send(v)
}

// deliver sends a copy of a question, and reports whether it could. If the client has
// just hung up, its next call gets it.
func (p *sessionPeer) deliver(q *posed) bool {
	var via carrier
	err := p.sess.requests.send(q, p.http.lastID.Add(1), func(v any) error {
		c := p.send(v)
		if c == nil {
			return errStreamOver
		}
		via = c
		return nil
	})
	p.sess.streams.Lock()
	defer p.sess.streams.Unlock()
	q.via = via
	return err == nil
}

// withdraw cancels the copies of a question that the client has not answered, where it
// can be reached: by the call that got the newest one, which may still wait.
func (p *sessionPeer) withdraw(q *posed) {
	p.sess.streams.Lock()
	via := q.via
	p.sess.streams.Unlock()
	for _, id := range p.sess.requests.close(q) {
		if via == nil || via.send(withdrawal(id)) != nil {
			p.send(withdrawal(id))
		}
	}
}

func (p *sessionPeer) again(q *question, due bool) bool {
	p.sess.streams.Lock()
	due = due || q.posed.via == nil || q.posed.via.disconnected()
	if due {
		q.posed.via = p.own // so that no other call does it as well
	}
	p.sess.streams.Unlock()
	return due && p.deliver(q.posed)
}
