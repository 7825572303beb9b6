package app

import (
	"net/url"
	"testing"
)

func TestATokenIsForTheAddressAtWhichItsServerListens(t *testing.T) {
	for name, tc := range map[string]struct{ url, listens, connect string }{
		"the same":                        {"http://127.0.0.1:3300", "127.0.0.1:3300", "127.0.0.1:3300"},
		"localhost":                       {"http://localhost:3300/", "127.0.0.1:3300", "127.0.0.1:3300"},
		"localhost, IPv6":                 {"http://localhost:3300", "[::1]:3300", "[::1]:3300"},
		"all addresses, from here":        {"http://localhost:3300", "[::]:3300", "127.0.0.1:3300"},
		"the usual port":                  {"https://127.0.0.1", "127.0.0.1:443", "127.0.0.1:443"},
		"an address of the machine":       {"http://10.0.0.5:3300", "10.0.0.5:3300", "10.0.0.5:3300"},
		"another port":                    {"http://127.0.0.1:3301", "127.0.0.1:3300", ""},
		"another loopback address":        {"http://127.0.0.2:3300", "127.0.0.1:3300", ""},
		"the other loopback":              {"http://[::1]:3300", "127.0.0.1:3300", ""},
		"another machine":                 {"http://10.0.0.6:3300", "10.0.0.5:3300", ""},
		"another machine, all addresses":  {"http://10.0.0.6:3300", "0.0.0.0:3300", ""},
		"a name":                          {"http://kairos.example.org:3300", "127.0.0.1:3300", ""},
		"a name that begins so":           {"http://127.0.0.1.example.org:3300", "127.0.0.1:3300", ""},
		"a server that listens nowhere":   {"http://127.0.0.1:3300", "", ""},
		"no port, and not the usual one":  {"http://127.0.0.1", "127.0.0.1:3300", ""},
		"a user that looks like the host": {"http://127.0.0.1:3300@example.org", "127.0.0.1:3300", ""},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := reaches(at, tc.listens); got != tc.connect || ok != (tc.connect != "") {
				t.Errorf("reaches(%s, %s) = %q, %t, want %q", tc.url, tc.listens, got, ok, tc.connect)
			}
		})
	}
}
