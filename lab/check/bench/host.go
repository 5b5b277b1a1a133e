package main

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
	"tapir/wire/virtio"
)

// throughNIC is a NIC with a host TAP between the two.
type throughNIC struct {
	*nicnode.Node
	// passed is how many frames have left the NIC. It reads no more than that: the
	// statistics of many VFs cost as much as many frames.
	passed func(d *nic.Device) uint64
}

// toWire and toHost are frames that have left by a port.
func toWire(d *nic.Device) uint64 { return d.Wire.Frames[frame.Outbound].Packets }
func toHost(d *nic.Device) uint64 { return d.Host.Frames[frame.Outbound].Packets }

func (n throughNIC) sent() (sent tally, err error) {
	err = n.DoWait(func(frame.Time) {
		sent = tallied(n.passed(n.Device))
		sent.interrupts = interrupts(n.Device)
	})
	return sent, err
}

// throughNICOf starts such a NIC with these settings, and so many VFs.
func throughNICOf(settings nic.Config, vfs int) startForwarder {
	return func(ctx context.Context, s *link.Space, w way) (forwarder, error) {
		passed := toWire
		if w.back {
			passed = toHost
		}
		cfg := nicconf.Config{Name: "bench", TAP: opaFabric, HostTAP: opaHost, IPFromHost: true, MTU: opaMTU,
			Frames: w.frames(), NIC: settings}
		if vfs > 0 {
			cfg.SRIOV = &nicconf.SRIOV{NumVFs: vfs}
		}
		n, err := nicnode.Start(ctx, cfg, node.Env{NS: s.NS})
		return throughNIC{n, passed}, err
	}
}

// Of linux/if_packet.h.
const (
	solPacket     = 263
	packetVnetHdr = 15
	qdiscBypass   = 20
)

// floodWhole sends super-frames.
func floodWhole(s *link.Space, w way) (send func(), err error) {
	in := w.in()
	far, err := far(s, w)
	if err := errors.Join(err, s.Net.Up(opaHost), s.Net.Up(opaFabric)); err != nil {
		return nil, err
	}
	dev, err := s.Net.Netdev(in)
	if err != nil {
		return nil, err
	}
	var fd int
	if err := s.NS.Do(func() (err error) {
		fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		return nil, err
	}
	s.Undo.Add(func() { _ = syscall.Close(fd) })
	for _, opt := range []int{packetVnetHdr, qdiscBypass} {
		if err := syscall.SetsockoptInt(fd, solPacket, opt, 1); err != nil {
			return nil, err
		}
	}
	b, to := superFrame(ether.Addr(far)), &syscall.SockaddrLinklayer{Ifindex: dev.Index}
	return func() { _ = syscall.Sendto(fd, b, 0, to) }, nil // a full queue is what is wanted
}

// superFrame is one of 44 full segments to a station, behind its virtio-net header.
func superFrame(to ether.Addr) []byte {
	const size = opaMTU - ip.HeaderLen4 - tcp.HeaderLen
	const payload = 44 * size
	src, dst := netip.MustParseAddr("10.6.0.1"), netip.MustParseAddr("10.6.0.2")
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: src, Dst: dst, PayloadLen: tcp.HeaderLen + payload}
	th := tcp.Header{SrcPort: 1, DstPort: 2, Flags: tcp.ACK, Window: 100,
		Checksum: ip.Fold(ip.PseudoSum(src, dst, ip.ProtoTCP, h.PayloadLen))}
	b := make([]byte, virtio.HeaderLen, virtio.HeaderLen+ether.HeaderLen+ip.HeaderLen4+h.PayloadLen)
	virtio.Put(b, frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, GSOSize: size,
		HdrLen:    ether.HeaderLen + ip.HeaderLen4 + tcp.HeaderLen,
		CsumStart: ether.HeaderLen + ip.HeaderLen4, CsumOffset: tcp.ChecksumOffset})
	b = ether.Header{Dst: to, Src: ether.Addr{2, 0, 0, 0, 0, 1}, Type: ether.TypeIPv4}.AppendTo(b)
	headers := make([]byte, ip.HeaderLen4+tcp.HeaderLen)
	h.Put(headers)
	th.Put(headers[ip.HeaderLen4:])
	return append(append(b, headers...), make([]byte, payload)...)
}
