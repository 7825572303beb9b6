package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// system lists what every process reads and executes, if it exists. No folder of
// people is among them, and of /etc only what programs of everybody need.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/networks",
	"/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/mime.types", "/etc/locale.alias", "/etc/terminfo",
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/crypto-policies",
	"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted",
	"/run/systemd/resolve", "/run/resolvconf", "/run/current-system",
}

// devices are the files of /dev that every process reads and writes. Without a
// controlling terminal /dev/tty cannot be opened; bubblewrap needs its name.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// tmp is where a process with a root of its own has its folder for temporary files.
const tmp = "/tmp"

// View is what a process sees besides the system's files: nothing else exists for it.
type View struct {
	// Read lists files and folders that it reads and executes.
	Read []string `json:",omitempty"`
	// Write lists files and folders that it changes as well.
	Write []string `json:",omitempty"`
	// Temp is its folder for temporary files, which it sees as /tmp where it has a
	// root of its own.
	Temp string `json:",omitempty"`
	// Home is the path of its home folder, which has no files at first. A driver without one has "".
	Home string `json:",omitempty"`
	// Except lists files and folders inside of the others that do not exist for it.
	// Only a root of its own can leave them out.
	Except []string `json:",omitempty"`
	// Own lists folders that it changes also where they are inside of Except.
	Own []string `json:",omitempty"`
}

// In reports whether a path is a folder or lies in it, by their names.
func In(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// Real follows the links of a path as far as it exists.
func Real(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(Real(parent), filepath.Base(path))
	}
	return path
}

// OfSystem reports whether every process sees a path anyway.
func OfSystem(path string) bool {
	path = Real(path)
	return slices.ContainsFunc(system, func(dir string) bool { return In(Real(dir), path) })
}

// Seen is what a process found at a path, looked at from inside.
type Seen struct {
	Path          string
	Device, Inode uint64
	Write         bool
}

// Is reports whether it is the very file that this process has at the path.
func (s Seen) Is(info os.FileInfo) bool {
	device, inode, ok := identity(info)
	return ok && device == s.Device && inode == s.Inode
}
