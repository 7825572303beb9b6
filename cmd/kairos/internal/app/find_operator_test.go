package app

import (
	"net/url"
	"testing"
)

func TestAServerIsFoundByTheAddressAtWhichItListens(t *testing.T) {
	for name, tc := range map[string]struct {
		url, listens string
		want         bool
	}{
		"the same":                        {"http://127.0.0.1:3300", "127.0.0.1:3300", true},
		"localhost":                       {"http://localhost:3300/", "127.0.0.1:3300", true},
		"localhost, IPv6":                 {"http://localhost:3300", "[::1]:3300", true},
		"all addresses, from here":        {"http://localhost:3300", "[::]:3300", true},
		"the usual port":                  {"https://127.0.0.1", "127.0.0.1:443", true},
		"an address of the machine":       {"http://10.0.0.5:3300", "10.0.0.5:3300", true},
		"another port":                    {"http://127.0.0.1:3301", "127.0.0.1:3300", false},
		"another loopback address":        {"http://127.0.0.2:3300", "127.0.0.1:3300", false},
		"the other loopback":              {"http://[::1]:3300", "127.0.0.1:3300", false},
		"another machine":                 {"http://10.0.0.6:3300", "10.0.0.5:3300", false},
		"another machine, all addresses":  {"http://10.0.0.6:3300", "0.0.0.0:3300", false},
		"a name":                          {"http://kairos.example.org:3300", "127.0.0.1:3300", false},
		"a name that begins so":           {"http://127.0.0.1.example.org:3300", "127.0.0.1:3300", false},
		"a server that listens nowhere":   {"http://127.0.0.1:3300", "", false},
		"no port, and not the usual one":  {"http://127.0.0.1", "127.0.0.1:3300", false},
		"a user that looks like the host": {"http://127.0.0.1:3300@example.org", "127.0.0.1:3300", false},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := url.Parse(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			if got := reaches(at, tc.listens); got != tc.want {
				t.Errorf("reaches(%s, %s) = %t, want %t", tc.url, tc.listens, got, tc.want)
			}
		})
	}
}
