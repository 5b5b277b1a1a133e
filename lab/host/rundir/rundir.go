// Package rundir makes directories for the sockets of labs. Each is locked by
// the process of its lab for as long as that lives, so that those of labs that
// were killed are told from the others, and removed.
package rundir

import (
	"os"
	"path/filepath"
	"syscall"
)

// Make makes a directory whose name begins with prefix, which no digit ends,
// and removes those of this user that were left behind.
func Make(prefix string) (dir string, remove func(), err error) {
	Sweep(prefix)
	for {
		if dir, err = os.MkdirTemp("", prefix); err != nil {
			return "", nil, err
		}
		// Before the lock is taken, the sweep of another lab may remove it.
		if held := lock(dir); held != nil {
			return dir, func() {
				os.RemoveAll(dir)
				held.Close()
			}, nil
		}
	}
}

// all are the directories that may have been made with prefix.
func all(prefix string) []string {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"[0-9]*"))
	return dirs
}

// Sweep removes the directories that no process holds and returns their names.
// What cannot be removed is in nobody's way.
func Sweep(prefix string) (removed []string) {
	for _, dir := range all(prefix) {
		if held := lock(dir); held != nil {
			if os.RemoveAll(dir) == nil {
				removed = append(removed, dir)
			}
			held.Close()
		}
	}
	return removed
}

// Held returns the directories of this user that a process holds.
func Held(prefix string) (dirs []string) {
	for _, dir := range all(prefix) {
		if !own(dir) {
			continue
		}
		if held := lock(dir); held != nil {
			held.Close()
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func own(dir string) bool {
	fi, err := os.Lstat(dir)
	return err == nil && fi.IsDir() && int(fi.Sys().(*syscall.Stat_t).Uid) == os.Getuid()
}

// lock locks a directory of this user's own, or returns nil.
func lock(dir string) *os.File {
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
