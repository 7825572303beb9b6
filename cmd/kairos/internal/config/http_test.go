package config

import (
	"strings"
	"testing"
)

func TestWhatIsWrongInTheHTTPSectionIsNamed(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, want string }{
		"address":   {"http: {listen: here}", "http.listen"},
		"port":      {"http: {listen: '127.0.0.1:http'}", "http.listen"},
		"origin":    {"http: {allowed_origins: [app.example]}", "http.allowed_origins"},
		"proxy":     {"http: {trusted_proxies: [10.0.0.0/99]}", "http.trusted_proxies"},
		"half TLS":  {"http: {tls: {cert: c.pem}}", "http.tls"},
		"body":      {"http: {max_body: -1}", "http.max_body"},
		"rate":      {"http: {rate: {per_minute: -2}}", "http.rate.per_minute"},
		"shutdown":  {"http: {shutdown: -1s}", "http.shutdown"},
		"metrics":   {"metrics: {listen: '9390'}", "metrics.listen"},
		"unknown":   {"http: {lisen: x}", "lisen"},
		"all right": {"http: {listen: '[::1]:0', allowed_hosts: [a], trusted_proxies: [10.0.0.1], rate: {per_minute: -1}}\nmetrics: {listen: off}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, tc.yaml).Load()
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("load: %v, want an error that names %s", err, tc.want)
			}
		})
	}
}

func TestOperationsAreServedToThisMachineUnlessConfigured(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		listen     string
		configured *bool
		socket     string
		want       bool
	}{
		"this machine":               {"127.0.0.1:3300", nil, "", true},
		"other machines":             {"0.0.0.0:3300", nil, "", false},
		"this machine, turned off":   {"127.0.0.1:3300", &no, "", false},
		"other machines, turned on":  {"0.0.0.0:3300", &yes, "", true},
		"a name that others resolve": {"kairos.example.org:3300", nil, "", false},
		"no token":                   {"127.0.0.1:3300", nil, AdminOff, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{HTTP: httpConfig{Listen: tc.listen, Operations: tc.configured}, Admin: adminConfig{Socket: tc.socket}}
			if got := c.ServesOperations(); got != tc.want {
				t.Errorf("ServesOperations = %t, want %t", got, tc.want)
			}
		})
	}
}
