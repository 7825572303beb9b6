package socket

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/server/operations"
)

const (
	dialTime = 2 * time.Second
	callTime = 10 * time.Second // for a call that only reads what is there
)

// Client makes operations on the server at a socket. It is safe for concurrent use.
type Client struct {
	*client.Client
	http *http.Client
}

// NewClient returns a client for a socket; the first call connects. Call Close when done.
func NewClient(socket string) (Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if own, ok := conn.(*net.UnixConn); ok {
			if err := checkPeer(own); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
		}
		return conn, nil
	}
	h := &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 1}}
	c, err := client.New("http://kairos", "", h)
	return Client{c, h}, err
}

// Close frees the connection. It may be called twice.
func (c Client) Close() { c.http.CloseIdleConnections() }

// Found is a server that lives, and a client for it.
type Found struct {
	operations.Info
	Client

	Socket string
}

// Find asks every socket in the places, folders or sockets, which server is
// there. Those that do not answer are dead and left out, and so is a place that
// does not exist. The error says which places were refused; what was found
// elsewhere is returned with it. The caller closes what was found.
func Find(ctx context.Context, places ...string) ([]Found, error) {
	var errs []error
	var sockets []string
	for _, place := range places {
		in, err := socketsAt(place)
		if err != nil {
			errs = append(errs, err)
		}
		sockets = append(sockets, in...)
	}
	slices.Sort(sockets)
	var out []Found
	for _, socket := range slices.Compact(sockets) {
		f, err := ask(ctx, socket)
		if err != nil || slices.ContainsFunc(out, func(o Found) bool { return o.PID == f.PID }) {
			f.Close()
			continue
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Found) int { return cmp.Compare(a.PID, b.PID) })
	return out, errors.Join(errs...)
}

func ask(ctx context.Context, socket string) (f Found, err error) {
	f.Socket = socket
	if f.Client, err = NewClient(socket); err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	f.Info, err = operations.ShowServer.Call(ctx, f, operations.NoRequest{})
	return f, err
}
