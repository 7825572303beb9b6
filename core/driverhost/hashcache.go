package driverhost

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

// hashesSuffix is the suffix of the hash cache beside the lock, which identifies the
// files that were hashed for it. Hashing a binary costs more than the rest of a start,
// and an unchanged file need not be hashed again. The cache belongs to this machine:
// without it, or if anything differs, the binary is hashed.
const hashesSuffix = ".seen"

// minAge is the least age of a file's last change when it is hashed, so that any later
// change has another time. File systems count in steps of up to 10 ms.
const minAge = 50 * time.Millisecond

// identity is the file system's record of a file. The kernel sets Changed at every
// change of content or attributes, and only root can forge it.
type identity struct {
	Device   uint64 `json:"dev"`
	Inode    uint64 `json:"ino"`
	Size     int64  `json:"size"`
	Modified int64  `json:"mtime_ns"`
	Changed  int64  `json:"ctime_ns"`
}

// hashedFile identifies a binary that was hashed. The zero value identifies none.
type hashedFile struct {
	SHA256   string   `json:"sha256"`
	Identity identity `json:"identity"`
}

// matches reports whether the open file is the one that was hashed with this sum.
func (h hashedFile) matches(file *os.File, sum string) bool {
	id, ok := identityOf(file)
	return ok && h.SHA256 == sum && h.Identity == id
}

// recordHash notes a file that was hashed; it had the identity before it was hashed,
// at the time began. A file that changed just before, or meanwhile, is not noted.
func recordHash(file *os.File, before identity, began time.Time, sum string) hashedFile {
	after, ok := identityOf(file)
	if !ok || after != before || began.Sub(time.Unix(0, before.Changed)) < minAge {
		return hashedFile{}
	}
	return hashedFile{SHA256: sum, Identity: before}
}

// writeHashes writes the hash cache of a lock, by driver name.
func writeHashes(lockPath string, l Lock) error {
	all := map[string]hashedFile{}
	for _, e := range l.Drivers {
		if e.hashed != (hashedFile{}) {
			all[e.Name] = e.hashed
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the hint: %w", err)
	}
	return writeFile(lockPath+hashesSuffix, append(b, '\n'))
}

// readHashes reads the hash cache of a lock. It trusts only a file of the lock's owner
// that nobody else can write.
func readHashes(lockPath string, l *Lock) {
	if !sameOwner(lockPath, lockPath+hashesSuffix) {
		return
	}
	b, err := os.ReadFile(lockPath + hashesSuffix)
	if err != nil {
		return
	}
	var all map[string]hashedFile
	if json.Unmarshal(b, &all) != nil {
		return
	}
	for i, e := range l.Drivers {
		l.Drivers[i].hashed = all[e.Name]
	}
}

func sameOwner(lockPath, hintPath string) bool {
	lock, err := os.Stat(lockPath)
	if err != nil {
		return false
	}
	hint, err := os.Lstat(hintPath)
	if err != nil || !hint.Mode().IsRegular() || hint.Mode().Perm()&0o022 != 0 {
		return false
	}
	a, ok := lock.Sys().(*syscall.Stat_t)
	b, ok2 := hint.Sys().(*syscall.Stat_t)
	return ok && ok2 && a.Uid == b.Uid
}
