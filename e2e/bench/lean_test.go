package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
)

// lean is a connection that sends POSTs and reads whole replies. It shares the
// processors with the server, so that what it does not do counts: net/http took a
// third of the client's time.
type lean struct {
	conn net.Conn
	in   *bufio.Reader
	head string // of every request, up to the length of its body
	out  []byte
}

// dialLean connects to the server of a URL; headers are those of every request.
func dialLean(url string, headers ...string) (*lean, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	head := "POST /" + path + " HTTP/1.1\r\nHost: " + host + "\r\n"
	for _, h := range headers {
		head += h + "\r\n"
	}
	return &lean{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), head: head + "Content-Length: "}, nil
}

// post returns the body of the reply, whatever its status is.
func (l *lean) post(message []byte, headers ...string) ([]byte, error) {
	l.out = append(l.out[:0], l.head...)
	l.out = strconv.AppendInt(l.out, int64(len(message)), 10)
	for _, h := range headers {
		l.out = append(append(l.out, "\r\n"...), h...)
	}
	l.out = append(append(l.out, "\r\n\r\n"...), message...)
	if _, err := l.conn.Write(l.out); err != nil {
		return nil, err
	}
	length, chunked := -1, false
	for first := true; ; first = false {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if first {
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return nil, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = string(value) == "chunked"
		}
	}
	switch {
	case chunked:
		body, err := io.ReadAll(httputil.NewChunkedReader(l.in))
		if err == nil {
			_, err = l.in.Discard(len("\r\n")) // behind the last chunk
		}
		return body, err
	case length >= 0:
		body := make([]byte, length)
		_, err := io.ReadFull(l.in, body)
		return body, err
	}
	return nil, fmt.Errorf("a reply without a length")
}
