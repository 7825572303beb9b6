package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/setup"
)

const (
	dialTime = 2 * time.Second
	callTime = 10 * time.Second
	// maxReply bounds what a server is believed.
	maxReply = 16 << 20
)

// Client calls one server over its socket. Its methods are safe for
// concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client for a socket; the first call connects. Call Close
// when done.
func NewClient(socket string) *Client {
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
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConns: 1}}}
}

// Close frees the connection. It may be called twice.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Server says which server this is.
func (c *Client) Server(ctx context.Context) (info Info, err error) {
	return info, c.call(ctx, callTime, http.MethodGet, "/v1/server", nil, &info)
}

// Drivers lists the drivers of the server, by name.
func (c *Client) Drivers(ctx context.Context) ([]driverhost.Status, error) {
	var r driversReply
	err := c.call(ctx, callTime, http.MethodGet, "/v1/drivers", nil, &r)
	return r.Drivers, err
}

// Driver shows one driver.
func (c *Client) Driver(ctx context.Context, name string) (s driverhost.Status, err error) {
	return s, c.call(ctx, callTime, http.MethodGet, "/v1/drivers/"+url.PathEscape(name), nil, &s)
}

// Reload makes the server take up what its files say now; the drivers named
// get a fresh process in any case. An error means that nothing was changed.
func (c *Client) Reload(ctx context.Context, again ...string) (r setup.Report, err error) {
	return r, c.call(ctx, reloadTime, http.MethodPost, "/v1/reload", reloadRequest{Drivers: again}, &r)
}

// Rollback makes the server go back to what was before its last change.
func (c *Client) Rollback(ctx context.Context) (r setup.Report, err error) {
	return r, c.call(ctx, reloadTime, http.MethodPost, "/v1/rollback", struct{}{}, &r)
}

// Logs returns at most the last n log lines of a driver, oldest first.
func (c *Client) Logs(ctx context.Context, name string, n int) ([]driverhost.Line, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var out []driverhost.Line
	err := readLines(ctx, c, driverLogs(name), url.Values{"lines": {strconv.Itoa(n)}}, func(l driverhost.Line) error {
		out = append(out, l)
		return nil
	})
	return out, err
}

// FollowLogs emits the last n lines of a driver and then every new one, until
// ctx ends, emit fails or the server stops, which is not an error.
func (c *Client) FollowLogs(ctx context.Context, name string, n int, emit func(driverhost.Line) error) error {
	return readLines(ctx, c, driverLogs(name), url.Values{"lines": {strconv.Itoa(n)}, "follow": {"1"}}, emit)
}

func driverLogs(name string) string { return "/v1/drivers/" + url.PathEscape(name) + "/logs" }

// ServerLogs emits the last n records of the server's own log that are of the
// level or a worse one, as slog.JSONHandler writes them. With follow it continues
// until ctx ends, emit fails or the server stops, which is not an error.
func (c *Client) ServerLogs(ctx context.Context, n int, level slog.Level, follow bool, emit func(json.RawMessage) error) error {
	query := url.Values{"lines": {strconv.Itoa(n)}, "level": {level.String()}}
	if follow {
		query.Set("follow", "1")
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	return readLines(ctx, c, "/v1/logs", query, emit)
}

// readLines emits the documents of a reply, one after the other.
func readLines[T any](ctx context.Context, c *Client, path string, query url.Values, emit func(T) error) (err error) {
	resp, err := c.send(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	for dec := json.NewDecoder(resp.Body); ; {
		var line T
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("read %s of the server: %w", path, err)
		}
		if err := emit(line); err != nil {
			return err
		}
	}
}

func (c *Client) call(ctx context.Context, limit time.Duration, method, path string, body, to any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(to); err != nil {
		return fmt.Errorf("read the reply of the server at %s: %w", c.socket, err)
	}
	return nil
}

// send returns only successes; the caller closes the body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://kairos"+path, content)
	if err != nil {
		return nil, err
	}
	if err := authorize(req, c.socket); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the server at %s: %w", c.socket, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	return nil, errors.Join(refusal(resp), resp.Body.Close())
}

// Refused is the server's own reason for not doing what was asked.
type Refused struct {
	Status int // of HTTP
	Reason string
}

// Error implements error.
func (r *Refused) Error() string { return r.Reason }

func refusal(resp *http.Response) error {
	var f failure
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil || json.Unmarshal(b, &f) != nil || f.Error == "" {
		f.Error = "the server answers " + resp.Status + ": " + strings.TrimSpace(string(b))
	}
	return &Refused{Status: resp.StatusCode, Reason: f.Error}
}

// Found is a server that lives.
type Found struct {
	Info
	Socket string
	Client *Client
}

// Find asks every socket in the places, folders or sockets, which server is
// there. Those that do not answer are dead and left out, and so is a place that
// does not exist. The error says which places were refused; what was found
// elsewhere is returned with it. The caller closes the clients.
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
		c := NewClient(socket)
		info, err := c.Server(ctx)
		if err != nil || slices.ContainsFunc(out, func(f Found) bool { return f.PID == info.PID }) {
			c.Close()
			continue
		}
		out = append(out, Found{Info: info, Socket: socket, Client: c})
	}
	slices.SortFunc(out, func(a, b Found) int { return cmp.Compare(a.PID, b.PID) })
	return out, errors.Join(errs...)
}
