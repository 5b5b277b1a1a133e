package shm

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

func hello(vnet bool) []byte {
	b := append([]byte(magic), version, 0, 0, 0)
	if vnet {
		b[9] = 1
	}
	return b
}

// invite makes the memory and passes it to the peer, which has connected.
func (w *Wire) invite() {
	fd, err := newMemory()
	if err == nil {
		w.memfd = fd
		w.memory, err = mapped(fd)
	}
	if err == nil {
		err = unix.Sendmsg(w.point.Conn(), hello(w.vnet), unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	if err != nil {
		w.breakOff()
	}
}

// newMemory makes memory whose size nobody can change any more.
func newMemory() (fd int, err error) {
	if fd, err = unix.MemfdCreate("tapir wire", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, fmt.Errorf("memfd: %w", err)
	}
	if err = unix.Ftruncate(fd, total); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("memfd: %w", err)
	}
	return fd, nil
}

// seals keep the memory as long as it is: a process that touches what has been cut off dies.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// mapped maps memory that is as long as it has to be, and stays so.
func mapped(fd int) ([]byte, error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || have&unix.F_SEAL_SHRINK == 0 {
		return nil, errBroken
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size != total {
		return nil, errBroken
	}
	b, err := unix.Mmap(fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return b, nil
}

// greet takes in the peer's hello and, at the end that connected, its memory.
func (w *Wire) greet() {
	var b [helloLen + 1]byte
	var oob [64]byte
	n, oobn, _, _, err := unix.Recvmsg(w.point.Conn(), b[:], oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	fd := received(oob[:oobn])
	// A bell may lie behind the hello of an end that has begun to send.
	if n < helloLen || string(b[:len(magic)]) != magic || b[8] != version || b[9] > 1 ||
		binary.NativeEndian.Uint16(b[10:]) != 0 || (fd >= 0) == w.point.Accepted() {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if err == nil && n == 0 { // it has gone
			w.point.Drop()
			w.leave()
			return
		}
		w.breakOff()
		return
	}
	w.theirs = b[9] == 1
	if w.point.Accepted() {
		_ = unix.Close(w.memfd)
		w.memfd = -1
		w.begin(0, 1)
		return
	}
	w.memory, err = mapped(fd)
	_ = unix.Close(fd)
	if err == nil {
		err = unix.Sendto(w.point.Conn(), hello(w.vnet), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	}
	if err != nil {
		w.breakOff()
		return
	}
	w.begin(1, 0)
}

// received is the first descriptor of a control message, -1 if there is none. Others are
// closed.
func received(oob []byte) (fd int) {
	fd = -1
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	for i := range all {
		fds, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue
		}
		for _, f := range fds {
			if fd < 0 {
				fd = f
			} else {
				_ = unix.Close(f)
			}
		}
	}
	return fd
}

// begin starts to use the memory: ring tx to send, ring rx to receive.
func (w *Wire) begin(tx, rx int) {
	at := func(r *ring, i int) {
		r.attach(w.memory[i*control:(i+1)*control], w.memory[4096+i*ringSize:4096+(i+1)*ringSize])
	}
	at(&w.tx, tx)
	at(&w.rx, rx)
	w.up = true
	if w.carrier != nil {
		w.carrier(true)
	}
}
