// Package rundir makes directories for the sockets and files of a process. Each is
// locked by its process for as long as that lives, so that those of processes that
// were killed are told from the others, and removed by the next.
package rundir

import (
	"os"
	"path/filepath"
	"syscall"
)

// Make makes a directory whose name begins with prefix, which no digit ends, in
// the first of places where that is possible, by default that of temporary files.
// It removes those of this user that were left behind in any of them. The path has
// no symbolic links.
func Make(prefix string, places ...string) (dir string, remove func(), err error) {
	if len(places) == 0 {
		places = []string{os.TempDir()}
	}
	for _, place := range places {
		sweep(place, prefix)
	}
	for {
		if dir, err = makeFirst(prefix, places); err != nil {
			return "", nil, err
		}
		// Before the lock is taken, the sweep of another process may remove it.
		if held := lock(dir); held != nil {
			return dir, func() {
				os.RemoveAll(dir)
				held.Close()
			}, nil
		}
	}
}

func makeFirst(prefix string, places []string) (dir string, err error) {
	for _, place := range places {
		if place, err = filepath.EvalSymlinks(place); err != nil {
			continue
		}
		if dir, err = os.MkdirTemp(place, prefix); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// all are the directories of a place that may have been made with prefix.
func all(place, prefix string) []string {
	dirs, _ := filepath.Glob(filepath.Join(place, prefix+"[0-9]*"))
	return dirs
}

// Sweep removes the directories among the temporary files that no process holds
// and returns their names. What cannot be removed is in nobody's way.
func Sweep(prefix string) (removed []string) { return sweep(os.TempDir(), prefix) }

func sweep(place, prefix string) (removed []string) {
	for _, dir := range all(place, prefix) {
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
	for _, dir := range all(os.TempDir(), prefix) {
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
