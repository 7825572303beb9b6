package rest_test

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/rest"
)

// guesses are more than an address may make at once.
const guesses = 60

// guess is the request of somebody who guesses at a route.
func guess(audience, method, pattern string) (at string, headers []string) {
	at = strings.NewReplacer("{run}", "run", "{secret}", "guess").Replace(pattern)
	switch {
	case pattern == "/auth/callback":
		return at + "?code=bad", []string{"Cookie", "__Host-kairos-flow=kept-1"}
	case pattern == "/auth/login": // begins a login
		return at, nil
	case audience == "people", pattern == "/auth/logout":
		return at, []string{"Cookie", "__Host-kairos=login-9"}
	}
	return at, []string{"Authorization", "Bearer carls", "Cookie", "a=b", "Content-Type", "application/json"} // without a cookie the client of the tests sends a token
}

// TestGuessingEndsAtEveryRoute: whoever guesses tokens, cookies, links or codes is told to wait, and so is who begins
// one login after another. Other addresses behind the same proxy do not wait.
func TestGuessingEndsAtEveryRoute(t *testing.T) {
	list, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		part := strings.Fields(line)
		if part[0] == "anybody" && !strings.HasPrefix(part[2], "/auth/") {
			continue // there is nothing to guess
		}
		for _, method := range strings.Split(strings.Replace(part[1], "*", "GET,POST,DELETE", 1), ",") {
			t.Run(method+" "+part[2], func(t *testing.T) {
				w := withProvider(t, func(c *rest.Config) { c.Access.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
				at, headers := guess(part[0], method, part[2])
				from := func(address string) int {
					return w.do(method, at, strings.NewReader(`{}`), append(headers[:len(headers):len(headers)], "X-Forwarded-For", address, "X-Forwarded-Proto", "https")...).status
				}
				limited := 0
				for range guesses {
					switch status := from("203.0.113.7"); status {
					case http.StatusTooManyRequests:
						limited++
					case http.StatusOK:
						if part[2] != "/auth/logout" {
							t.Fatalf("a guess = %d", status)
						}
					}
				}
				if limited == 0 {
					t.Errorf("none of %d guesses was limited", guesses)
				}
				if status := from("203.0.113.8"); status == http.StatusTooManyRequests {
					t.Errorf("another address behind the proxy = %d", status)
				}
			})
		}
	}
}

// TestNobodyGuessesFromAddressesOfTheirChoice: only a proxy that is trusted says from where a request comes.
func TestNobodyGuessesFromAddressesOfTheirChoice(t *testing.T) {
	w := withProvider(t, nil)
	limited := 0
	for n := range guesses {
		address := netip.AddrFrom4([4]byte{203, 0, 113, byte(n)}).String()
		if w.post("kairos_spaces", `{}`, "Authorization", "Bearer carls", "Cookie", "a=b", "X-Forwarded-For", address).status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		t.Errorf("none of %d guesses was limited", guesses)
	}
}
