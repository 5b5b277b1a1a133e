package demo

import (
	"os"
	"path/filepath"
	"syscall"
)

// runPrefix begins the name of every run directory; digits follow.
const runPrefix = "tapir-demo"

// RunDir makes a directory for the control sockets of one demo, apart from
// those of the user's own NICs, and removes those of the user's demos that
// were killed. A demo holds a lock on its directory for as long as it lives.
func RunDir() (dir string, remove func(), err error) {
	sweep()
	for {
		if dir, err = os.MkdirTemp("", runPrefix); err != nil {
			return "", nil, err
		}
		// Before the lock is taken, the sweep of another demo may remove it.
		if lock := lockRunDir(dir); lock != nil {
			return dir, func() {
				os.RemoveAll(dir)
				lock.Close()
			}, nil
		}
	}
}

// sweep removes the run directories that nobody holds. What cannot be removed
// is in nobody's way.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), runPrefix+"[0-9]*"))
	for _, dir := range dirs {
		if lock := lockRunDir(dir); lock != nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// lockRunDir locks a directory of this user's own, or returns nil.
func lockRunDir(dir string) *os.File {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	opened, err := f.Stat()
	if err == nil && int(opened.Sys().(*syscall.Stat_t).Uid) == os.Getuid() &&
		syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		if now, err := os.Lstat(dir); err == nil && os.SameFile(opened, now) {
			return f
		}
	}
	f.Close()
	return nil
}
