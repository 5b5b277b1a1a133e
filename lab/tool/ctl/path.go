package ctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"tapir/nic/uapi/runtimedir"
)

const (
	suffix      = ".sock"
	maxSunPath  = 107 // octets of sun_path, unix(7), without the final zero
	nameRule    = "use 1 to 32 letters, digits, '-', '_' and '.', beginning with a letter or digit"
	freeHint    = "remove it, or set XDG_RUNTIME_DIR to a directory of your own"
	shorterHint = "set XDG_RUNTIME_DIR to a directory with a shorter path"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`)

// CheckName says whether name can name a NIC.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return &Error{What: fmt.Sprintf("NIC name %q is not allowed", name), Remedy: nameRule}
	}
	return nil
}

// Dir is the directory of this user's control sockets.
func Dir() string { return runtimedir.Path() }

// RunPath is where the socket of tapir run lies of the NIC called name.
func RunPath(name string) string { return runtimedir.Programs(name) }

// checkDir refuses a directory that someone else could have prepared.
func checkDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !fi.IsDir():
		return &Error{What: dir + " is not a directory", Remedy: freeHint}
	case !ok || int(st.Uid) != os.Getuid():
		return &Error{What: dir + " belongs to another user", Remedy: freeHint}
	case fi.Mode().Perm()&0o077 != 0:
		return &Error{What: dir + " is open to other users", Remedy: "chmod 700 " + dir}
	}
	return nil
}

// listenAs makes the socket of the NIC called name. A socket whose process is
// gone is replaced, one that answers is refused.
func listenAs(name string) (*socket, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	dir := Dir()
	path := filepath.Join(dir, name+suffix)
	if len(path+newSuffix) > maxSunPath {
		return nil, &Error{What: fmt.Sprintf("the socket path %s is longer than %d octets", path,
			maxSunPath-len(newSuffix)), Remedy: shorterHint}
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c, err := net.Dial("unix", path); err == nil {
		defer c.Close()
		return nil, alreadyRunning(c, name, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{What: fmt.Sprintf("cannot replace the stale socket: %v", err), Remedy: freeHint}
	}
	l, err := appear(path)
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("cannot make the control socket: %v", err), Remedy: freeHint}
	}
	return l, nil
}

// newSuffix is of a socket that nobody may look for yet. No name of a NIC can
// have it.
const newSuffix = "~"

// socket is a listener that lies at path.
type socket struct {
	*net.UnixListener
	path string
}

// appear makes a listener whose socket answers from the moment it is there:
// between bind(2) and listen(2) it would refuse who waited for it.
func appear(path string) (*socket, error) {
	_ = os.Remove(path + newSuffix) // of a process that was killed just then
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + newSuffix, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err = os.Chmod(path+newSuffix, 0o600); err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.SetUnlinkOnClose(false) // of a name that is gone
	return &socket{l, path}, nil
}

// Close removes the socket, too.
func (s *socket) Close() error {
	_ = os.Remove(s.path) // its directory may be gone
	return s.UnixListener.Close()
}

func alreadyRunning(c net.Conn, name, path string) error {
	hello, err := handshake(context.Background(), c)
	if err != nil {
		return &Error{What: fmt.Sprintf("NIC %s is already running (%s)", name, path), Remedy: "choose another --name"}
	}
	return &Error{What: fmt.Sprintf("NIC %s is already running (process %d)", name, hello.PID),
		Remedy: fmt.Sprintf("choose another --name, or end it with: kill -INT %d", hello.PID)}
}

// lockDir makes dir if need be and holds it against a second NIC that starts
// or ends at the same time.
func lockDir(dir string) (unlock func(), err error) {
	for range 1000 { // each time another NIC was the last one to end
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &Error{What: fmt.Sprintf("cannot make the directory of control sockets: %v", err),
				Remedy: freeHint}
		}
		f, err := openDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, err
		}
		// A NIC that ended meanwhile may have removed the directory.
		if same(f, dir) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
	return nil, &Error{What: dir + " is being removed by other processes", Remedy: "try again"}
}

func openDir(dir string) (*os.File, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	return os.Open(dir)
}

func same(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// removeDir removes the directory of a socket that was closed, if it was the
// last one.
func removeDir(dir string) {
	if unlock, err := lockDir(dir); err == nil {
		_ = os.Remove(dir) // fails when another NIC's socket is in it
		unlock()
	}
}

// sockets returns the names of all sockets in dir, running or stale, in order.
func sockets(dir string) (names []string) {
	if checkDir(dir) != nil {
		return nil // it holds no NIC of ours
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // removed meanwhile
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
