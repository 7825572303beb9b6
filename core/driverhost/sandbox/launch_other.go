//go:build unix && !linux

package sandbox

import (
	"errors"
	"os"
	"os/exec"
)

var errNotHere = errors.New("only Linux has it")

// LandlockVersion is an error: only Linux has it.
func LandlockVersion() (int, error) { return 0, errNotHere }

// apply leaves the command as it is: there is no launcher here.
func (l Launch) apply(_ *exec.Cmd, j job) error {
	if j.Look != nil || l.Namespaces || l.Landlock || l.NoNetwork || l.NoTCP {
		return errNotHere
	}
	return nil
}

func decodeSeen([]byte) ([]Seen, error) { return nil, nil }

func identity(os.FileInfo) (device, inode uint64, ok bool) { return 0, 0, false }
