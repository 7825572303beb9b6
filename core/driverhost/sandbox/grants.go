package sandbox

import "os"

// The paths that every program needs: those in readable are read and executed, those in
// usable are written as well.
var (
	readable = []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store", "/proc", "/sys",
		"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/current-system", "/var/lib/ca-certificates",
	}
	usable = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"}
)

// Grants is what Landlock leaves to a process besides the system's paths.
type Grants struct {
	// Use lists files and folders that may be read, executed and changed.
	Use []string
	// Execute is an open file that may be read and executed; nil: none.
	Execute *os.File
}

// Conflict returns the first path that Landlock would grant although it
// contains a secret, and the secret; both are empty if there is none.
func (h Hidden) Conflict(use []string) (path, secret string) {
	for _, p := range use {
		if s := within(p, h.all()); s != "" {
			return p, s
		}
	}
	for _, p := range append(readable, usable...) {
		if s := within(p, h.Secret); s != "" {
			return p, s
		}
	}
	return "", ""
}
