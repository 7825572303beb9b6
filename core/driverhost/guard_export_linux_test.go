package driverhost

import "golang.org/x/sys/unix"

// GroupPlan says what cgroupTree.plan decides for a tree of files, with the
// folders that systemd has marked; paths are relative to the tree.
func GroupPlan(root string, pid int, marked ...string) (base, leave string, enable bool, err error) {
	t := cgroupTree{root: root, pid: pid, marked: func(dir string) bool {
		for _, m := range marked {
			if dir == root+m {
				return true
			}
		}
		return false
	}}
	p, err := t.plan()
	return trimRoot(root, p.base), trimRoot(root, p.leave), p.enable, err
}

func trimRoot(root, path string) string {
	if path == "" {
		return ""
	}
	return path[len(root):]
}

// StarterThread starts the thread of a starter and returns its number.
func StarterThread() (tid int, end func()) {
	s := newStarter()
	_ = s.do(func() error { tid = unix.Gettid(); return nil })
	return tid, s.close
}
