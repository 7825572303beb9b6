package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// probe is an attempt to get out of the sandbox. In its line OUT is the folder
// around it, TCP, UDP and ABSTRACT are listeners, VICTIM is a process, and LASTING
// is the number of seconds to sleep by which survivors are recognised.
type probe struct {
	name, line string
	// works: without a sandbox the attempt succeeds, which shows that harm is seen.
	works bool
}

const python = "python3 -c '"

var probes = []probe{
	{"read an SSH key", `cat OUT/.ssh/id_ed25519`, true},
	{"read the database", `cat OUT/server/kairos.db`, true},
	{"read the server's key", `cat OUT/server/state.key`, true},
	{"read drivers.lock", `cat OUT/server/drivers.lock`, true},
	{"read the configuration", `cat OUT/kairos.yaml`, true},
	{"read a secret in the workspace", `cat data/token`, true},
	{"read everything", `grep -rs ` + canary + ` OUT /root /home /srv /var /mnt 2>/dev/null | head -5`, false},
	{"read through a link", `ln -s OUT/server/kairos.db x && cat x`, true},
	{"read through a link in .git", `cat .git/objects/id_ed25519`, true},
	{"read through a hard link", `ln OUT/server/kairos.db x && cat x`, false},
	{"read through ..", `cat ../server/kairos.db`, true},
	{"copy a secret to the workspace", `cp OUT/.ssh/id_ed25519 stolen`, false},
	{"read the original of the workspace", `cat /proc/1/root` + `OUT/server/kairos.db`, false},
	{"read through /proc/1/root", `cat /proc/*/rootOUT/.ssh/id_ed25519`, true},
	{"read through /proc/*/cwd", `cat /proc/*/cwd/../server/kairos.db`, false},
	{"read environments", `cat /proc/*/environ | tr "\0" "\n"`, true},
	{"read the memory of a process", `cat /proc/VICTIM/environ`, true},
	{"read command lines of the machine", `cat /proc/VICTIM/cmdline && ls -d /proc/VICTIM && echo ` + canary, true},
	{"read the kernel's memory", `head -c 100 /proc/kcore /dev/mem /dev/kmem && echo ` + canary, false},
	{"read the disk", `cat /dev/sda /dev/vda /dev/nvme0n1 2>/dev/null | head -c 10 | grep -q . && echo ` + canary, false},
	{"make a device", `mknod d b 252 0 && head -c 10 d && echo ` + canary, false},
	{"read file descriptors that were left open", `for f in /proc/self/fd/*; do case $f in */0|*/1|*/2) ;; *) timeout 1 cat $f;; esac; done 2>/dev/null | grep -a ` + canary, false},
	{"read shadow", `cat /etc/shadow && echo ` + canary, os.Geteuid() == 0},

	{"write beside the workspace", `echo x > OUT/other/new`, true},
	{"change a file of somebody else", `echo x >> OUT/other/report.txt`, true},
	{"delete a file of somebody else", `rm -f OUT/other/report.txt`, true},
	{"change modes outside", `chmod 000 OUT/other/report.txt`, true},
	{"write through a link", `ln -s OUT/other/report.txt x && echo x > x`, true},
	{"write through a folder that is a link", `ln -s OUT/other d && echo x > d/new`, true},
	{"swap a link while writing", `mkdir d; (for i in $(seq 300); do rm -rf d; ln -s OUT/other d 2>/dev/null; rm -f d; mkdir d 2>/dev/null; done) & for i in $(seq 300); do echo x > d/new 2>/dev/null; done; wait`, false},
	{"write to the original of the workspace", `echo x > /proc/1/root` + `OUT/project/Makefile`, false},
	{"write the database", `echo x > OUT/server/kairos.db`, true},
	{"replace what is masked", `rmdir OUT/server; mv OUT/server OUT/gone; mkdir OUT/server2; ls OUT/gone && echo ` + canary, false},
	{"write a hook", `mkdir -p .git/hooks && echo "echo x" > .git/hooks/pre-commit && echo ` + canary, true},
	{"write the settings of git", `echo "[core] fsmonitor=x" >> .git/config && echo ` + canary, true},
	{"replace .git", `mv .git g && echo ` + canary, true},
	{"write to the system", `echo x > /usr/bin/x || echo x > /etc/x || echo x > /opt/x && echo ` + canary, false},
	{"write to kernel settings", `echo x > /proc/sys/kernel/core_pattern && echo ` + canary, false},
	{"trigger sysrq", `echo h > /proc/sysrq-trigger && echo ` + canary, false},
	{"write to cgroups", `mkdir /sys/fs/cgroup/x && echo ` + canary, false},

	{"connect by TCP", python + `import socket; socket.create_connection(("127.0.0.1", TCP), 2)'`, true},
	{"send by UDP", python + `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP))'`, true},
	{"connect to an abstract socket", python + `import socket; s = socket.socket(socket.AF_UNIX); s.connect("\0ABSTRACT")'`, true},
	{"reach the internet", python + `import socket; socket.create_connection(("1.1.1.1", 443), 2)' && echo ` + canary, false},
	{"resolve a name", python + `import socket; socket.gethostbyname("example.com")' && echo ` + canary, false},
	{"open a raw socket", python + `import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print("` + canary + `")'`, os.Geteuid() == 0},
	{"add a network interface", `ip link add dummy0 type dummy && ip link set lo up && ip addr add 10.9.9.9/8 dev dummy0 && echo ` + canary, false},

	{"kill a process outside", `kill -9 VICTIM`, true},
	{"kill everything", `kill -9 -1`, false},
	{"trace a process", python + `import ctypes; c = ctypes.CDLL(None, use_errno=True); print("` + canary + `" if c.ptrace(16, VICTIM, 0, 0) == 0 else "no")'`, true},
	{"survive as a daemon", `setsid sleep LASTING >/dev/null 2>&1 & true`, true},
	{"survive by forking twice", `(sleep LASTING >/dev/null 2>&1 &) & true`, true},
	{"survive without signals", `trap "" TERM INT HUP; nohup sleep LASTING >/dev/null 2>&1 & true`, true},
	{"keep the output open", `sleep LASTING & true`, true},
	{"use file descriptors that were left open", `for f in 3 4 5 6 7 8 9; do echo x >&$f && echo ` + canary + `; done 2>/dev/null`, false},
	{"start at or cron", `echo "echo ` + canary + `" | at now || echo "* * * * * true" | crontab - && echo ` + canary, false},

	{"mount", `mount -t tmpfs x /mnt && echo ` + canary, false},
	{"unmount a mask", `umount OUT/server; cat OUT/server/kairos.db`, true},
	{"bind over a mask", `mount --bind OUT/other OUT/server && echo ` + canary, false},
	{"remount to write", `mount -o remount,rw / && echo ` + canary, false},
	{"make namespaces", `unshare -Urm cat OUT/server/kairos.db`, true},
	{"enter namespaces", `nsenter -t 1 -m cat OUT/server/kairos.db`, false},
	{"change the root", `chroot / true && echo ` + canary, os.Geteuid() == 0},
	{"become root", `su -c "echo ` + canary + `" </dev/null || sudo -n echo ` + canary, os.Geteuid() == 0},
	{"set the user id", python + `import os; os.setuid(0) if os.getuid() else os.setuid(1); print("` + canary + `")'`, os.Geteuid() == 0},
	{"make a program that sets the user id", `cp /bin/cat c && chmod u+s c && ./c OUT/server/kairos.db`, true},
	{"use keys of the server", python + `import ctypes; c = ctypes.CDLL(None); print("` + canary + `" if c.syscall(250, 10, -3, b"user", b"kairos-probe", 0) > 0 else "no")'`, false},
	{"load a module", `modprobe dummy || insmod x.ko && echo ` + canary, false},
	{"read the kernel's log", `dmesg | grep -q . && echo ` + canary, false},
	{"set the clock", `date -s 2001-01-01 && echo ` + canary, false},
	{"set the host name", `hostname sandbox2 && echo ` + canary, false},
	{"type into the terminal", python + `import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b"x"); print("` + canary + `")'`, false},
	{"raise its priority", `nice -n -20 true 2>&1 | grep -q . || echo ` + canary, false},
}

func (o *outside) line(p probe, lasting string) string {
	return strings.NewReplacer(
		"OUT", o.dir, "TCP", port(o.tcp.Addr()), "UDP", port(o.udp.LocalAddr()), "ABSTRACT", strings.TrimPrefix(o.abstract.Addr().String(), "@"),
		"VICTIM", fmt.Sprint(o.victim.Process.Pid), "LASTING", lasting,
	).Replace(p.line)
}

func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}

func TestNothingGetsOutOfTheSandbox(t *testing.T) {
	needsSandbox(t)
	if len(probes) < 50 {
		t.Errorf("%d probes", len(probes))
	}
	for i, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			o := newOutside(t)
			lasting := fmt.Sprintf("%d.%d", 3000+i, os.Getpid())
			c := o.command
			c.Line = o.line(p, lasting) + "\necho was tried"
			res, err := o.sandbox.Run(t.Context(), c)
			if err != nil {
				t.Fatalf("Run = %+v, %v", res, err)
			}
			if !strings.Contains(res.Stdout.Text, "was tried") && p.name != "kill everything" {
				t.Errorf("it was not tried: %+v", res)
			}
			o.hearAll()
			if harm := o.harm(res, lasting); harm != nil {
				t.Errorf("%q: %q\n%s%s", c.Line, harm, res.Stdout.Text, res.Stderr.Text)
			}
		})
	}
}

// Attempts that fail without a sandbox as well would show nothing.
func TestHarmIsSeenWithoutASandbox(t *testing.T) {
	needsSandbox(t)
	for i, p := range probes {
		if !p.works {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			o := newOutside(t)
			lasting := fmt.Sprintf("%d.%d", 4000+i, os.Getpid())
			cmd := exec.CommandContext(t.Context(), "sh", "-c", o.line(p, lasting))
			cmd.Dir = o.command.Workspace
			cmd.WaitDelay = 100 * time.Millisecond
			out, _ := cmd.CombinedOutput()
			var harm []string
			for end := time.Now().Add(10 * time.Second); harm == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
				harm = o.harm(Result{Stdout: Output{Text: string(out)}}, lasting)
			}
			for _, pid := range running(lasting) {
				_ = exec.CommandContext(t.Context(), "kill", "-9", pid).Run()
			}
			if harm == nil {
				t.Errorf("%q does no harm: %s", o.line(p, lasting), out)
			}
		})
	}
}
