package main

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"time"

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
	counter string // of the frames that it has passed on
}

func (n throughNIC) sent() (sent tally, err error) {
	err = n.DoWait(func(frame.Time) {
		for _, c := range n.Device.Counters() {
			if c.Name == n.counter {
				sent = tallied(c.Value)
				sent.interrupts = interrupts(n.Device)
			}
		}
	})
	return sent, err
}

// throughNICOf starts such a NIC with these settings, and so many VFs.
func throughNICOf(settings nic.Config, vfs int) startForwarder {
	return func(ctx context.Context, s *link.Space, w way) (forwarder, error) {
		counter := "tx_packets"
		if w.back {
			counter = "host_tx_packets"
		}
		cfg := nicconf.Config{Name: "bench", TAP: opaFabric, HostTAP: opaHost, IPFromHost: true, MTU: opaMTU,
			Frames: w.frames(), NIC: settings}
		if vfs > 0 {
			cfg.SRIOV = &nicconf.SRIOV{NumVFs: vfs}
		}
		n, err := nicnode.Start(ctx, cfg, node.Env{NS: s.NS})
		return throughNIC{n, counter}, err
	}
}

// Of linux/if_packet.h.
const (
	solPacket     = 263
	packetVnetHdr = 15
	qdiscBypass   = 20
)

// floodedWhole counts the super-frames that f forwards in that time.
func floodedWhole(s *link.Space, f forwarder, w way, d time.Duration) (n tally, err error) {
	in := w.in()
	far, err := far(s, w)
	if err := errors.Join(err, s.Net.Up(opaHost), s.Net.Up(opaFabric)); err != nil {
		return tally{}, err
	}
	dev, err := s.Net.Netdev(in)
	if err != nil {
		return tally{}, err
	}
	var fd int
	if err := s.NS.Do(func() (err error) {
		fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		return tally{}, err
	}
	defer syscall.Close(fd)
	for _, opt := range []int{packetVnetHdr, qdiscBypass} {
		if err := syscall.SetsockoptInt(fd, solPacket, opt, 1); err != nil {
			return tally{}, err
		}
	}
	b, to := superFrame(ether.Addr(far)), &syscall.SockaddrLinklayer{Ifindex: dev.Index}
	return during(f, d, func() { _ = syscall.Sendto(fd, b, 0, to) }) // a full queue is what is wanted
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
