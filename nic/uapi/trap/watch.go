package trap

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// watches is the one inotify instance of this process, read by one goroutine.
var watches struct {
	mu      sync.Mutex
	inotify int // 0: not yet made
	ended   map[int32]func()
}

// Watch calls ended once, when the program's descriptor of the inode that fd is
// open on is gone: closed in every process that had it, with every mapping that
// was made of it, however that came about. The program's must have been opened
// again (/proc/self/fd/N of fd, or the other end of a pipe), and no other that
// was may be closed meanwhile. ended must not block. fd stays the caller's; an
// inode has one watch. stop ends the watch, and ended is not called any more
// unless it is already under way.
func Watch(fd int, ended func()) (stop func(), err error) {
	w := &watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inotify == 0 {
		n, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, fmt.Errorf("watch a file (fs.inotify.max_user_instances): %w", err)
		}
		w.inotify, w.ended = n, map[int32]func(){}
		go readWatches(os.NewFile(uintptr(n), "inotify"))
	}
	n, err := unix.InotifyAddWatch(w.inotify, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_CLOSE|unix.IN_ONESHOT)
	if err != nil {
		return nil, fmt.Errorf("watch a file (fs.inotify.max_user_watches): %w", err)
	}
	wd := int32(n)
	w.ended[wd] = ended
	return func() {
		if takeWatch(wd) != nil {
			_, _ = unix.InotifyRmWatch(watches.inotify, uint32(wd)) // fails if it has just ended
		}
	}, nil
}

// takeWatch removes a watch and returns what it calls; nil: it is gone.
func takeWatch(wd int32) func() {
	watches.mu.Lock()
	defer watches.mu.Unlock()
	ended := watches.ended[wd]
	delete(watches.ended, wd)
	return ended
}

// readWatches passes events on. A watch has two at most, the file's end and
// the watch's, so that the kernel's queue has room for them.
func readWatches(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return // the descriptor is never closed, so there is no error
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask, name := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			b = b[unix.SizeofInotifyEvent+int(name):]
			if mask&unix.IN_CLOSE == 0 {
				continue
			}
			if ended := takeWatch(wd); ended != nil {
				ended()
			}
		}
	}
}
