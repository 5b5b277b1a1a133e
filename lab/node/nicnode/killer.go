package nicnode

import (
	"encoding/binary"
	"sync"
	"syscall"

	"tapir/nic/uapi/abi"
)

// killer kills a program when it has rung the doorbell of a send queue so many
// times: behind that post, before anything that it would do next.
type killer struct {
	mu   sync.Mutex
	left int
}

// postSend is IB_USER_VERBS_CMD_POST_SEND of ib_user_verbs.h, in the first
// octets of a command in the machine's order.
const postSend = 28

// open makes files whose posts are counted.
func (k *killer) open(open abi.Opener) abi.Opener {
	return func(c abi.Caller, flags int) (abi.File, int, error) {
		f, fd, err := open(c, flags)
		if err != nil {
			return nil, -1, err
		}
		return &mortal{f, k}, fd, nil
	}
}

// mortal is an open file of a program that is going to be killed.
type mortal struct {
	abi.File
	k *killer
}

// Command implements abi.File.
func (f *mortal) Command(c abi.Caller, b []byte) error {
	pid := c.Process()
	posts := len(b) >= 4 && binary.NativeEndian.Uint32(b) == postSend
	err := f.File.Command(c, b)
	if posts && err == nil && pid > 0 && f.k.posted() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	return err
}

// posted counts one more post, and reports whether it is the last.
func (k *killer) posted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	return k.left == 0
}
