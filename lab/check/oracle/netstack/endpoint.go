package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// endpoint is a TAP with virtio-net headers as a link of netstack, whose own
// one knows super-frames on sockets only.
type endpoint struct {
	file       *os.File
	fd         uintptr
	mtu        uint32
	addr       tcpip.LinkAddress
	dispatcher atomic.Pointer[stack.NetworkDispatcher]
	done       chan struct{}
}

// viewSizes are the pieces that a frame is read into: the pool of netstack has
// no larger ones, and a small frame fills only the first.
var viewSizes = [...]int{2 << 10, 16 << 10, 16 << 10, 32 << 10}

// superOctets is the longest frame.
const superOctets = 65535

func newEndpoint(fd int, mtu uint32, addr tcpip.LinkAddress) (*endpoint, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	// The descriptor goes to the runtime's poller: a goroutine of its own on a
	// locked thread costs netstack half its speed.
	return &endpoint{file: os.NewFile(uintptr(fd), "tap"), fd: uintptr(fd), mtu: mtu, addr: addr,
		done: make(chan struct{})}, nil
}

func (e *endpoint) MTU() uint32                             { return e.mtu }
func (e *endpoint) SetMTU(mtu uint32)                       { e.mtu = mtu }
func (e *endpoint) MaxHeaderLength() uint16                 { return header.EthernetMinimumSize }
func (e *endpoint) LinkAddress() tcpip.LinkAddress          { return e.addr }
func (e *endpoint) SetLinkAddress(addr tcpip.LinkAddress)   { e.addr = addr }
func (e *endpoint) IsAttached() bool                        { return e.dispatcher.Load() != nil }
func (e *endpoint) Wait()                                   { <-e.done }
func (e *endpoint) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (e *endpoint) Close()                                  { e.file.Close() }
func (e *endpoint) SetOnCloseAction(func())                 {}
func (e *endpoint) GSOMaxSize() uint32                      { return superOctets - 128 }
func (e *endpoint) SupportedGSO() stack.SupportedGSO        { return stack.HostGSOSupported }
func (e *endpoint) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityTXChecksumOffload | stack.CapabilityRXChecksumOffload | stack.CapabilityResolutionRequired
}

// Attach implements stack.LinkEndpoint.
func (e *endpoint) Attach(d stack.NetworkDispatcher) {
	if d == nil {
		e.dispatcher.Store(nil)
		return
	}
	if e.dispatcher.Swap(&d) == nil {
		go e.receive()
	}
}

// AddHeader implements stack.LinkEndpoint.
func (e *endpoint) AddHeader(pkt *stack.PacketBuffer) {
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		SrcAddr: pkt.EgressRoute.LocalLinkAddress, DstAddr: pkt.EgressRoute.RemoteLinkAddress,
		Type: pkt.NetworkProtocolNumber,
	})
}

// ParseHeader implements stack.LinkEndpoint.
func (e *endpoint) ParseHeader(pkt *stack.PacketBuffer) bool {
	b, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize)
	if ok {
		pkt.NetworkProtocolNumber = header.Ethernet(b).Type()
	}
	return ok
}

// WritePackets implements stack.LinkEndpoint.
func (e *endpoint) WritePackets(list stack.PacketBufferList) (n int, _ tcpip.Error) {
	for _, pkt := range list.AsSlice() {
		if errno := e.write(pkt); errno != 0 {
			return n, tcpip.TranslateErrno(errno)
		}
		n++
	}
	return n, nil
}

// offload says what netstack leaves to the device.
func offload(pkt *stack.PacketBuffer) (off frame.Offload) {
	g := &pkt.GSOOptions
	if g.Type == stack.GSONone {
		return off
	}
	if g.NeedsCsum {
		off.NeedsCsum = true
		off.CsumStart, off.CsumOffset = header.EthernetMinimumSize+g.L3HdrLen, g.CsumOffset
	}
	if pkt.Data().Size() > int(g.MSS) {
		off.GSO, off.GSOSize, off.HdrLen = frame.GSOTCPv4, g.MSS, uint16(pkt.HeaderSize())
	}
	return off
}

func (e *endpoint) write(pkt *stack.PacketBuffer) syscall.Errno {
	var head [virtio.HeaderLen]byte
	virtio.Put(head[:], offload(pkt))
	var room [16]syscall.Iovec
	iov := append(room[:0], vector(head[:]))
	for _, b := range pkt.AsSlices() {
		if len(b) > 0 {
			iov = append(iov, vector(b))
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, e.fd, uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
	if errno == syscall.EAGAIN {
		return 0 // a full queue loses frames
	}
	return errno
}

func vector(b []byte) syscall.Iovec { return syscall.Iovec{Base: &b[0], Len: uint64(len(b))} }

// receive reads until the TAP is closed.
func (e *endpoint) receive() {
	defer close(e.done)
	raw, err := e.file.SyscallConn()
	if err != nil {
		return
	}
	var head [virtio.HeaderLen]byte
	var views [len(viewSizes)]*buffer.View
	for {
		iov := [1 + len(viewSizes)]syscall.Iovec{vector(head[:])}
		for i := range views {
			if views[i] == nil {
				views[i] = buffer.NewViewSize(viewSizes[i])
			}
			iov[1+i] = vector(views[i].AsSlice())
		}
		var n uintptr
		var errno syscall.Errno
		err := raw.Read(func(fd uintptr) bool {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
			return errno != syscall.EAGAIN
		})
		if err != nil || errno != 0 {
			return
		}
		if d := e.dispatcher.Load(); d != nil && n > virtio.HeaderLen {
			e.deliver(*d, views[:], int(n)-virtio.HeaderLen)
		}
	}
}

// deliver hands over the first n octets of views, taken.
func (e *endpoint) deliver(d stack.NetworkDispatcher, views []*buffer.View, n int) {
	var payload buffer.Buffer
	for i, v := range views {
		if n == 0 {
			break
		}
		k := min(n, v.Size())
		v.CapLength(k)
		payload.Append(v)
		views[i] = nil
		n -= k
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: payload})
	defer pkt.DecRef()
	if e.ParseHeader(pkt) {
		d.DeliverNetworkPacket(pkt.NetworkProtocolNumber, pkt)
	}
}
