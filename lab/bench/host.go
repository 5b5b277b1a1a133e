package main

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"time"

	"tapir/lab/node"
	"tapir/nic"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

// throughNIC is a NIC whose operating system sends.
type throughNIC struct{ *node.Node }

func (n throughNIC) sent() (sent uint64, err error) {
	err = n.DoWait(func(frame.Time) { sent = n.Device.ShowNIC().TxPackets })
	return sent, err
}

func (n throughNIC) close() error { return n.Close() }

func startHost(ctx context.Context, s *side, vnet bool) (forwarder, error) {
	frames := nic.Wire
	if vnet {
		frames = nic.GSO
	}
	n, err := node.Start(ctx, node.Config{Name: "bench", TAP: opaFabric, HostTAP: opaHost, IPFromHost: true, MTU: opaMTU, Frames: frames.String(), NS: s.ns})
	if err != nil {
		return nil, err
	}
	return throughNIC{n}, nil
}

// Of linux/if_packet.h.
const (
	solPacket     = 263
	packetVnetHdr = 15
	qdiscBypass   = 20
)

// floodedWhole counts the super-frames that f forwards in that time.
func floodedWhole(s *side, f forwarder, d time.Duration) (n uint64, err error) {
	if err := errors.Join(s.net.Up(opaHost), s.net.Up(opaFabric)); err != nil {
		return 0, err
	}
	dev, err := s.net.Netdev(opaHost)
	if err != nil {
		return 0, err
	}
	var fd int
	if err := s.ns.Do(func() (err error) {
		fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	for _, opt := range []int{packetVnetHdr, qdiscBypass} {
		if err := syscall.SetsockoptInt(fd, solPacket, opt, 1); err != nil {
			return 0, err
		}
	}
	b, to := superFrame(), &syscall.SockaddrLinklayer{Ifindex: dev.Index}
	return during(f, d, func() { _ = syscall.Sendto(fd, b, 0, to) }) // a full queue is what is wanted
}

// superFrame is one of 44 full segments behind its virtio-net header.
func superFrame() []byte {
	const size = opaMTU - ip.HeaderLen4 - tcp.HeaderLen
	const payload = 44 * size
	src, dst := netip.MustParseAddr("10.6.0.1"), netip.MustParseAddr("10.6.0.2")
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: src, Dst: dst, PayloadLen: tcp.HeaderLen + payload}
	th := tcp.Header{SrcPort: 1, DstPort: 2, Flags: tcp.ACK, Window: 100, Checksum: ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, h.PayloadLen))}
	b := make([]byte, virtio.HeaderLen, virtio.HeaderLen+ether.HeaderLen+ip.HeaderLen4+h.PayloadLen)
	virtio.Put(b, frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: size, HdrLen: ether.HeaderLen + ip.HeaderLen4 + tcp.HeaderLen,
		CsumStart: ether.HeaderLen + ip.HeaderLen4, CsumOffset: tcp.ChecksumOffset})
	b = ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, 2}, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeIPv4}.AppendTo(b)
	headers := make([]byte, ip.HeaderLen4+tcp.HeaderLen)
	h.Put(headers)
	th.Put(headers[ip.HeaderLen4:])
	return append(append(b, headers...), make([]byte, payload)...)
}
