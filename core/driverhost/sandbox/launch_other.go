//go:build unix && !linux

package sandbox

import (
	"errors"
	"os"
	"os/exec"
)

// apply leaves the command as it is: there is no launcher here.
func (l Launch) apply(_ *exec.Cmd, j job) error {
	if j.Look != nil || l.Namespaces || l.Landlock || l.NoNetwork || l.NoTCP {
		return errors.New("only Linux has it")
	}
	return nil
}

func decodeSeen([]byte) ([]Seen, error) { return nil, nil }

func identity(os.FileInfo) (device, inode uint64, ok bool) { return 0, 0, false }
