package tap

import (
	"golang.org/x/sys/unix"

	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// Read fills f with the next frame that the kernel side sent.
func (t *TAP) Read(f *frame.Frame) error {
	if t.vnet {
		return t.readVnet(f)
	}
	b := f.Extend(f.Tailroom())
	n, err := rawRead(t.fd, b)
	if err != nil {
		f.Truncate(0)
		return failure(err)
	}
	f.Truncate(n)
	if n == len(b) {
		return ErrOversize // the kernel cuts without saying so
	}
	return nil
}

// readVnet lets the kernel put the header into the frame's headroom.
func (t *TAP) readVnet(f *frame.Frame) error {
	f.Prepend(virtio.HeaderLen)
	f.Extend(f.Tailroom())
	b := f.Bytes()
	n, err := rawRead(t.fd, b)
	if err != nil || n < virtio.HeaderLen {
		f.TrimFront(virtio.HeaderLen)
		f.Truncate(0)
		if err == nil {
			return ErrRefused
		}
		return failure(err)
	}
	off, err := virtio.Parse(b[:n])
	f.Truncate(n)
	f.TrimFront(virtio.HeaderLen)
	f.Offload = off
	if err != nil {
		return ErrRefused
	}
	if n == len(b) {
		return ErrOversize
	}
	return nil
}

// Write sends f to the kernel side. On a plain queue, work that the sender
// left in f.Offload is done first, so that the kernel sees true frames; on others if it is one
// that the kernel cannot do.
func (t *TAP) Write(f *frame.Frame) error {
	switch {
	case t.vnet && (t.uso || f.GSO != frame.GSOUDP):
		return t.writeVnet(f)
	case f.NeedsCsum || f.GSO != frame.GSONone:
		return t.writeSegments(f)
	}
	return t.write(f.Bytes())
}

func (t *TAP) writeVnet(f *frame.Frame) error {
	if f.Headroom() < virtio.HeaderLen {
		return ErrRefused
	}
	virtio.Put(f.Prepend(virtio.HeaderLen), f.Offload)
	err := t.write(f.Bytes())
	f.TrimFront(virtio.HeaderLen)
	return err
}

// writeSegments may be interrupted by ErrAgain; the retry of the same frame
// then skips what is out already.
func (t *TAP) writeSegments(f *frame.Frame) error {
	var failed error
	i := 0
	err := t.split.Split(f.Offload, f.Bytes(), func(seg []byte) {
		if failed == nil && i >= t.sent {
			if failed = t.writePlain(seg); failed == nil {
				t.sent++
			}
		}
		i++
	})
	if err != nil {
		return ErrRefused
	}
	if failed != ErrAgain {
		t.sent = 0
	}
	return failed
}

// writePlain writes a frame on which no work is left.
func (t *TAP) writePlain(b []byte) error {
	if t.vnet {
		b = append(make([]byte, virtio.HeaderLen, virtio.HeaderLen+len(b)), b...)
	}
	return t.write(b)
}

func (t *TAP) write(b []byte) error {
	if err := rawWrite(t.fd, b); err != nil {
		return failure(err)
	}
	return nil
}

// failure sorts what the kernel answers into: wait, this frame only, or over.
func failure(err error) error {
	switch err {
	case unix.EAGAIN, unix.EINTR:
		return ErrAgain
	case unix.EBADFD, unix.EBADF, unix.ENODEV:
		return ErrGone
	}
	return ErrRefused
}
