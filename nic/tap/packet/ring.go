package packet

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/wire/ether"
	"tapir/wire/virtio"
)

const (
	// slots is how many frames a ring holds, as many as a TAP's queue does.
	slots = 1024
	// overhead is what stands in a slot beside a frame without its Ethernet header, in
	// octets at most: the kernel's header and address, and padding.
	overhead = 160
	// minSlot and maxSlot bound a slot, in octets.
	minSlot, maxSlot = 2 << 10, 16 << 10
	blockLen         = 64 << 10
)

// ring is memory into which the kernel puts received frames, each with its virtio-net header
// (TPACKET_V2 of packet_mmap), so that a frame costs no system call. Frames that do not fit
// into a slot come by the socket. The zero value holds none.
type ring struct {
	mem  []byte
	slot int
	at   int
}

// newRing sets up the ring of a socket for frames of mtu octets behind their Ethernet header.
// Where the kernel refuses, all frames come by the socket.
func newRing(fd, mtu int) (r ring) {
	r.slot = minSlot
	for r.slot < min(mtu+ether.HeaderLen+overhead, maxSlot) {
		r.slot *= 2
	}
	size := r.slot * slots
	req := unix.TpacketReq{Block_size: blockLen, Block_nr: uint32(size / blockLen), Frame_size: uint32(r.slot),
		Frame_nr: slots}
	if unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2) != nil ||
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1) != nil ||
		unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req) != nil {
		return ring{}
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{})
		return ring{}
	}
	r.mem = mem
	return r
}

func (r *ring) close() error {
	if r.mem == nil {
		return nil
	}
	mem := r.mem
	r.mem = nil
	return unix.Munmap(mem)
}

// head is that of the oldest slot.
func (r *ring) head() *unix.Tpacket2Hdr { return (*unix.Tpacket2Hdr)(unsafe.Pointer(&r.mem[r.at])) }

// buffered tells whether there is a frame.
func (r *ring) buffered() bool {
	return r.mem != nil && atomic.LoadUint32(&r.head().Status)&unix.TP_STATUS_USER != 0
}

// frame is the frame of the oldest slot, vnet its virtio-net header.
func (r *ring) frame(h *unix.Tpacket2Hdr) []byte {
	return r.mem[r.at+int(h.Mac):][:h.Snaplen]
}

func (r *ring) vnet(h *unix.Tpacket2Hdr) []byte {
	return r.mem[r.at+int(h.Mac)-virtio.HeaderLen:][:virtio.HeaderLen]
}

// next gives the oldest slot back to the kernel.
func (r *ring) next() {
	atomic.StoreUint32(&r.head().Status, unix.TP_STATUS_KERNEL)
	r.at = (r.at + r.slot) % len(r.mem)
}
