package oidc

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Report is what a provider publishes, for the person who configures a server.
type Report struct {
	Keys int // public keys with which it signs
	// Skew is how far its clock is ahead of the one of this machine, give or take a second;
	// negative: behind. Dated is false where its replies have no time.
	Skew  time.Duration
	Dated bool
}

// Apart reports whether the clocks differ by more than tokens may.
func (r Report) Apart() bool { return r.Skew.Abs() > maxSkew }

// Examine asks a provider for its metadata and its keys, as a server does. The error says why a
// server would refuse them.
func Examine(ctx context.Context, issuer string) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	own := client()
	defer own.CloseIdleConnections()
	noted, c := &dated{RoundTripper: own.Transport}, *own
	c.Transport = noted
	p, err := ask(ctx, &c, issuer)
	if err != nil {
		return noted.report, err
	}
	noted.report.Keys = len(p.keys)
	return noted.report, nil
}

// dated compares the time of each reply with that of this machine.
type dated struct {
	http.RoundTripper
	report Report
}

// RoundTrip implements http.RoundTripper.
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	res, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return res, nil //nolint:nilerr // a reply may have no time
	}
	age, _ := strconv.Atoi(res.Header.Get("Age")) // of a reply that a cache has kept
	took := time.Since(began)
	d.report.Dated, d.report.Skew = true, at.Add(time.Duration(age)*time.Second+500*time.Millisecond).Sub(began.Add(took/2)).Round(time.Second)
	return res, nil
}
