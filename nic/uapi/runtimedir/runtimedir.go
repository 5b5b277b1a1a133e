// Package runtimedir knows where the sockets of running NICs lie.
package runtimedir

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Path is the directory of this user's sockets: one only, so that what a
// client finds does not depend on where else it may look.
func Path() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" && ownedBy(d, os.Getuid()) {
		return filepath.Join(d, "tapir")
	}
	// In a user namespace made by an ordinary user, uid 0 does not own /run.
	if os.Getuid() == 0 && ownedBy("/run", 0) {
		return "/run/tapir"
	}
	return fmt.Sprintf("/tmp/tapir-%d", outerUID())
}

func ownedBy(dir string, uid int) bool {
	fi, err := os.Stat(dir)
	if err != nil || !fi.IsDir() {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == uid
}

// outerUID is the user as seen from outside the user namespace, so that the
// same user finds a NIC from inside and outside of one.
func outerUID() int {
	uid := os.Getuid()
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return uid
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var inside, outside, n int
		if _, err := fmt.Sscan(sc.Text(), &inside, &outside, &n); err == nil && uid >= inside && uid < inside+n {
			return outside + uid - inside
		}
	}
	return uid
}

// Programs is the socket of the NIC called name for programs that use its RDMA,
// beside its control socket. It belongs to who has that one.
func Programs(name string) string { return filepath.Join(Path(), name+suffix) }

const suffix = ".run"

// Running returns the names of the NICs that have such a socket, in order.
func Running() (names []string) {
	entries, err := os.ReadDir(Path())
	if err != nil {
		return nil // there is none
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
			names = append(names, name)
		}
	}
	return names
}
