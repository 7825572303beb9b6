package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxBody is how much of an answer is read; what comes after is not looked at.
const maxBody = 1 << 20

// seen is what the driver saw; it is recorded with the step.
type seen struct {
	Status     int    `json:"status"`
	TookMS     int64  `json:"took_ms"`
	Bytes      int    `json:"bytes"`
	BodySHA256 string `json:"body_sha256"`

	header http.Header
	body   []byte
}

// look asks the URL once. Redirects are not followed: what counts is what this
// very URL answers, and another host was not allowed.
func look(ctx context.Context, allowed policy, want demand) (seen, error) {
	target, err := allowed.parse(want.URL)
	if err != nil {
		return seen{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, want.Within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, want.Method, want.URL, nil)
	if err != nil {
		return seen{}, err
	}
	req.Header.Set("User-Agent", "kairos-driver-http_check")
	// Nothing is kept between calls, and no proxy is asked.
	transport := &http.Transport{DialContext: allowed.dialer(target).DialContext, DisableKeepAlives: true}
	began := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return seen{}, explain(err, want)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return seen{}, explain(err, want)
	}
	sum := sha256.Sum256(body)
	return seen{
		Status: resp.StatusCode, TookMS: time.Since(began).Milliseconds(),
		Bytes: len(body), BodySHA256: hex.EncodeToString(sum[:]), header: resp.Header, body: body,
	}, nil
}

func explain(err error, want demand) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %v", want.Within)
	}
	return err
}

// fault says what the step demands and was not seen, or nothing. It quotes
// nothing of the body: who submits a step need not be allowed to read it.
func (s seen) fault(want demand) (code, message string) {
	if s.Status != want.Status {
		return "HTTP_STATUS", fmt.Sprintf("it answered with status %d, not %d", s.Status, want.Status)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Headers)) {
		if part := want.Headers[name]; !strings.Contains(strings.Join(s.header.Values(name), ", "), part) {
			return "HTTP_HEADER", fmt.Sprintf("its header %s does not contain %q", name, part)
		}
	}
	if !strings.Contains(string(s.body), want.Contains) {
		return "HTTP_BODY", fmt.Sprintf("its body of %d bytes does not contain %q", s.Bytes, want.Contains)
	}
	if !regexp.MustCompile(want.Matches).Match(s.body) { // check has compiled it
		return "HTTP_BODY", fmt.Sprintf("its body of %d bytes does not match %s", s.Bytes, want.Matches)
	}
	return "", ""
}
