package app

import "testing"

func TestDevModeStaysOnThisMachine(t *testing.T) {
	for address, allowed := range map[string]bool{
		"": true, "127.0.0.1:3300": true, "[::1]:3300": true, "localhost:3300": true, "unix:/run/kairos.sock": true,
		":3300": false, "0.0.0.0:3300": false, "192.0.2.7:3300": false, "example.org:3300": false, "nonsense": false,
	} {
		if err := checkDev(address); (err == nil) != allowed {
			t.Errorf("checkDev(%q) = %v, want allowed = %v", address, err, allowed)
		}
	}
}
