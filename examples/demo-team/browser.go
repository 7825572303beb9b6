package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// shown is what a browser shows, and the browser.
type shown struct {
	browser *http.Client
	at      *url.URL // where it came to
	page    string   // of the approval
	status  int
	text    string
}

// logIn opens the page as a person who has no login yet, logs in at the provider, and returns
// the page to which that leads back.
func logIn(ctx context.Context, page, person string) (shown, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return shown{}, err
	}
	s := shown{browser: &http.Client{Jar: jar}, page: page}
	first, err := s.open(ctx, page, nil)
	if err != nil {
		return s, err
	}
	if first.status != http.StatusUnauthorized || strings.Contains(first.text, "make deploy") {
		return s, fmt.Errorf("without a login: %d %s", first.status, first.text)
	}
	form, err := s.open(ctx, first.at.ResolveReference(&url.URL{Path: "/auth/login"}).String(), nil)
	if err != nil {
		return s, err
	}
	id := form.at.Query().Get("id")
	if id == "" {
		return s, errors.New("the button does not lead to the provider: " + form.text)
	}
	return s.open(ctx, form.at.String(), url.Values{"id": {id}, "username": {person}, "password": {"password"}})
}

var digest = regexp.MustCompile(`name="digest" value="([0-9a-f]+)"`)

// answer sends the form of the page of an approval, with its button or without.
func (s shown) answer(ctx context.Context, decision string) (shown, error) {
	form := url.Values{"decision": {decision}, "digest": {strings.Repeat("0", 64)}}
	if found := digest.FindStringSubmatch(s.text); found != nil {
		form.Set("digest", found[1])
	}
	return s.open(ctx, s.page, form)
}

// open opens an address, with a form to send or without.
func (s shown) open(ctx context.Context, at string, form url.Values) (shown, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return s, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := s.browser.Do(req) // #nosec G704 -- the demo opens what its server links to
	if err != nil {
		return s, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	s.at, s.status, s.text = res.Request.URL, res.StatusCode, string(text)
	return s, err
}
