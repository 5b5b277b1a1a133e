package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/host/process"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

func floodRows() []row {
	flood := func(name, what string, secs int, next func(*rand.Rand) []byte) row {
		return row{name: name, what: what, secs: secs, grows: 32, run: func(ctx context.Context, t *trial) error {
			return t.onBed(ctx, func(b *bed) error { return b.flood(ctx, next) })
		}}
	}
	return []row{
		flood("syn", "SYN segments of any options, from any source, to an open port and others", 12, synFrame),
		flood("tcp", "segments of any flags and sequence numbers, damaged options", 12, tcpFrame),
		flood("arp", "ARP requests and replies of any sender", 12, arpFrame),
		flood("nd", "neighbor and router messages of any sender, damaged options", 12, ndFrame),
		flood("fragments", "IPv4 and IPv6 fragments that overlap, exceed 64 KiB or never end", 12, fragmentFrame),
		flood("icmp", "ICMP errors of any kind, quoting connections that are and are not", 12, icmpFrame),
		{name: "ptp", what: "PTP messages of a running instance, changed at random", secs: 12, grows: 32,
			run: ptpFlood},
		{name: "rdma", what: "frames of RDMA connections, changed at random, checksums right again", secs: 12,
			grows: 64,
			run:   rdmaFlood},
		{name: "read", what: "Read Requests for 4 MiB each from peers that never read the answers", secs: 12,
			grows: 160,
			run:   readFlood},
	}
}

// onBed makes a bed, attacks it and judges.
func (t *trial) onBed(ctx context.Context, attack func(b *bed) error, extra ...string) error {
	b, err := newBed(ctx, t, extra...)
	if err != nil {
		return err
	}
	defer b.drop()
	if err := attack(b); err != nil {
		return err
	}
	return b.judge(ctx)
}

// flood sends frames for the time of the trial. nic0 has an open port.
func (b *bed) flood(ctx context.Context, next func(*rand.Rand) []byte) error {
	server, err := b.verifyServer(ctx, 0)
	if err != nil {
		return err
	}
	defer server.Stop()
	b.t.unit = "frames"
	return b.inject(ctx, b.raw, func() []byte { return next(b.t.rng) })
}

// verifyServer serves on a NIC without end.
func (b *bed) verifyServer(ctx context.Context, nic int) (*process.Process, error) {
	server, err := b.start(ctx, "verify", "server", "--nic", nicName(nic), "-n", "0")
	if err != nil {
		return nil, err
	}
	err = process.Until(ctx, func() (bool, error) {
		c, err := b.dial(ctx, nic)
		if err == nil {
			c.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		server.Kill()
		return nil, fmt.Errorf("verify server: %w: %s", err, server.Tail())
	}
	return server, nil
}

// dial connects the kernel to the server on a NIC.
func (b *bed) dial(ctx context.Context, nic int) (c net.Conn, err error) {
	var d net.Dialer
	err = b.NS.Do(func() (err error) {
		c, err = d.DialContext(ctx, "tcp", nicIP(nic)+":7174")
		return err
	})
	return c, err
}

// inject sends what next makes until the time is over, at least once.
func (b *bed) inject(ctx context.Context, fd int, next func() []byte) error {
	for end := time.Now().Add(b.t.d); ; {
		f := next()
		switch err := unix.Send(fd, f[:min(len(f), 1514)], 0); {
		case err == nil:
			b.t.count++
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EINTR): // or too short
		default:
			return fmt.Errorf("send a frame: %w", err)
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return ctx.Err()
		}
	}
}

// Frames. All go to nic0.

func frameOf(r *rand.Rand, typ uint16, payload []byte) []byte {
	to, from := nicMAC(0), ether.Addr{2, 1}
	binary.BigEndian.PutUint32(from[2:], r.Uint32())
	f := append(append(to[:], from[:]...), byte(typ>>8), byte(typ))
	return append(f, payload...)
}

// source is an address on the link, mostly.
func source4(r *rand.Rand) [4]byte {
	if r.IntN(4) == 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], r.Uint32())
		return a
	}
	return [4]byte{10, 0, 0, byte(r.Uint32())}
}

func ip4Frame(r *rand.Rand, proto byte, fragment uint16, src [4]byte, payload []byte) []byte {
	h := []byte{0x45, 0, 0, 0, byte(r.Uint32()), byte(r.Uint32()), byte(fragment >> 8), byte(fragment), 64, proto, 0, 0,
		src[0], src[1], src[2], src[3], 10, 0, 0, 1}
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(payload)))
	binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
	return frameOf(r, 0x0800, append(h, payload...))
}

func source6(r *rand.Rand) netip.Addr {
	a := netip.MustParseAddr("fd00::").As16()
	if r.IntN(2) == 0 {
		a[0], a[1] = 0xfe, 0x80
	}
	binary.BigEndian.PutUint64(a[8:], r.Uint64()>>r.IntN(64))
	return netip.AddrFrom16(a)
}

var nic0IP6 = netip.MustParseAddr("fd00::1")

func ip6Frame(r *rand.Rand, next byte, src netip.Addr, payload []byte) []byte {
	h := append([]byte{0x60, 0, 0, 0, byte(len(payload) >> 8), byte(len(payload)), next, 255}, src.AsSlice()...)
	return frameOf(r, 0x86dd, append(append(h, nic0IP6.AsSlice()...), payload...))
}

func octets(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// segment is a TCP segment, in IPv4 or IPv6.
func segment(r *rand.Rand, flags byte, options, data []byte) []byte {
	ports := []uint16{7174, 7174, 18515, uint16(r.Uint32())}
	h := make([]byte, 20, 60)
	binary.BigEndian.PutUint16(h, uint16(r.Uint32()))
	binary.BigEndian.PutUint16(h[2:], ports[r.IntN(4)])
	binary.BigEndian.PutUint32(h[4:], r.Uint32())
	binary.BigEndian.PutUint32(h[8:], r.Uint32())
	h[12], h[13] = byte(5+len(options)/4)<<4, flags
	binary.BigEndian.PutUint16(h[14:], uint16(r.Uint32()))
	h = append(append(h, options...), data...)
	if r.IntN(4) == 0 {
		src := source6(r)
		binary.BigEndian.PutUint16(h[16:], ip.Checksum(h, ip.PseudoSum(src, nic0IP6, 6, len(h))))
		return ip6Frame(r, 6, src, h)
	}
	src := source4(r)
	binary.BigEndian.PutUint16(h[16:], ip.Checksum(h, ip.PseudoSum(netip.AddrFrom4(src),
		netip.AddrFrom4([4]byte{10, 0, 0, 1}), 6, len(h))))
	return ip4Frame(r, 6, 0, src, h)
}

func tcpOptions(r *rand.Rand) []byte {
	if r.IntN(2) == 0 {
		return []byte{2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}
	}
	o := octets(r, 4*r.IntN(11))
	for i := 0; i+1 < len(o); i += 2 + r.IntN(6) {
		o[i], o[i+1] = byte(r.IntN(10)), byte(r.IntN(12))
	}
	return o
}

func synFrame(r *rand.Rand) []byte { return segment(r, 2, tcpOptions(r), nil) }

func tcpFrame(r *rand.Rand) []byte {
	return segment(r, byte(r.Uint32()), tcpOptions(r), octets(r, r.IntN(100)))
}

func arpFrame(r *rand.Rand) []byte {
	src, mac := source4(r), octets(r, 6)
	p := []byte{0, 1, 8, 0, 6, 4, 0, byte(1 + r.IntN(2))}
	p = append(append(p, mac...), src[:]...)
	p = append(append(p, octets(r, 6)...), 10, 0, 0, byte(1+r.IntN(2)))
	if r.IntN(8) == 0 {
		p[r.IntN(8)] = byte(r.Uint32())
	}
	return frameOf(r, 0x0806, p)
}

func ndFrame(r *rand.Rand) []byte {
	m := append([]byte{byte(133 + r.IntN(5)), 0, 0, 0}, octets(r, 4)...)
	target := source6(r)
	if r.IntN(2) == 0 {
		target = nic0IP6
	}
	m = append(m, target.AsSlice()...)
	for range r.IntN(4) {
		o := octets(r, 8*(1+r.IntN(3)))
		o[0], o[1] = byte(1+r.IntN(5)), byte(r.IntN(4))
		m = append(m, o...)
	}
	src := source6(r)
	icmp.SetChecksum6(src, nic0IP6, m)
	return ip6Frame(r, 58, src, m)
}

func fragmentFrame(r *rand.Rand) []byte {
	data, offset, more := octets(r, 8*(1+r.IntN(150))), uint16(r.IntN(8192)), uint16(r.IntN(2))
	if r.IntN(2) == 0 {
		offset %= 256
	}
	if r.IntN(2) == 0 {
		return ip4Frame(r, 17, offset|more<<13, source4(r), data[:len(data)-r.IntN(8)])
	}
	h := []byte{17, 0, byte(offset >> 5), byte(offset<<3) | byte(more), 0, 0, byte(r.Uint32()), byte(r.Uint32())}
	return ip6Frame(r, 44, source6(r), append(h, data...))
}

func icmpFrame(r *rand.Rand) []byte {
	quote := append([]byte{0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, byte(r.IntN(4))},
		segment(r, 0x10, nil, nil)[34:54]...)
	if r.IntN(4) == 0 {
		src := source6(r)
		m := append([]byte{byte(1 + r.IntN(4)), byte(r.IntN(6)), 0, 0, 0, 0, byte(r.IntN(6)), byte(r.Uint32())},
			ip6Frame(r, 6, nic0IP6, quote[20:])[14:]...)
		icmp.SetChecksum6(src, nic0IP6, m)
		return ip6Frame(r, 58, src, m)
	}
	types := []byte{3, 3, 3, 4, 5, 8, 11, 12, byte(r.Uint32())}
	m := append([]byte{types[r.IntN(len(types))], byte(r.IntN(16)), 0, 0, 0, 0, byte(r.IntN(6)), byte(r.Uint32())},
		quote[:len(quote)-r.IntN(20)]...)
	icmp.SetChecksum4(m)
	return ip4Frame(r, 1, 0, source4(r), m)
}

// recorder keeps frames that pass an interface.
type recorder struct {
	fd     int
	wanted func([]byte) bool
	frames [][]byte
}

// recorded is how many frames a recorder keeps.
const recorded = 512

// take keeps what has passed, in place of older frames at random.
func (c *recorder) take(r *rand.Rand) {
	buf := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(c.fd, buf, unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		switch f := bytes.Clone(buf[:n]); {
		case n < 15 || !c.wanted(f):
		case len(c.frames) < recorded:
			c.frames = append(c.frames, f)
		default:
			c.frames[r.IntN(recorded)] = f
		}
	}
}

// mutant is a frame that was recorded, changed in a few places behind the addresses.
func (c *recorder) mutant(r *rand.Rand, repair func([]byte)) []byte {
	f := bytes.Clone(c.frames[r.IntN(len(c.frames))])
	for range r.IntN(6) {
		at := 12 + r.IntN(len(f)-12)
		if r.IntN(3) == 0 {
			at = 14 + r.IntN(min(60, len(f)-14))
		}
		switch r.IntN(4) {
		case 0:
			f[at] ^= 1 << r.IntN(8)
		case 1:
			f[at] = byte(r.Uint32())
		case 2:
			f[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
		default:
			f = f[:max(15, at)]
		}
	}
	if repair != nil {
		repair(f)
	}
	return f
}

// mutate records what passes the interface named and is wanted, and sends changed
// frames to the bridge.
func (b *bed) mutate(ctx context.Context, name string, out int, wanted func([]byte) bool, repair func([]byte)) error {
	c := recorder{wanted: wanted}
	var err error
	if c.fd, err = b.packetSocket(name); err != nil {
		return err
	}
	defer unix.Close(c.fd)
	within, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	err = process.Until(within, func() (bool, error) {
		c.take(b.t.rng)
		return len(c.frames) >= 16, nil
	})
	if err != nil {
		return fmt.Errorf("record frames: %w", err)
	}
	b.t.unit = "frames"
	sent := 0
	return b.inject(ctx, out, func() []byte {
		if sent++; sent%4096 == 0 {
			c.take(b.t.rng)
		}
		return c.mutant(b.t.rng, repair)
	})
}

// repairIP sets the checksums of a frame right that holds IPv4 and TCP or UDP.
func repairIP(f []byte) {
	if len(f) < 34 || f[12] != 8 || f[13] != 0 || f[14] != 0x45 {
		return
	}
	n := min(len(f)-14, int(binary.BigEndian.Uint16(f[16:])))
	if n < 20 {
		return
	}
	h, l4 := f[14:34], f[34:14+n]
	h[10], h[11] = 0, 0
	binary.BigEndian.PutUint16(h[10:], ip.Checksum(h, 0))
	at := map[byte]int{6: 16, 17: 6}[h[9]]
	if at == 0 || len(l4) < at+2 {
		return
	}
	l4[at], l4[at+1] = 0, 0
	src, _ := netip.AddrFromSlice(h[12:16])
	dst, _ := netip.AddrFromSlice(h[16:20])
	binary.BigEndian.PutUint16(l4[at:], ip.Checksum(l4, ip.PseudoSum(src, dst, h[9], len(l4))))
}

// isPTP knows PTP by its EtherType and by its UDP ports, 319 and 320.
func isPTP(f []byte) bool {
	return f[12] == 0x88 && f[13] == 0xf7 || len(f) > 38 && f[36] == 1 && (f[37] == 0x3f || f[37] == 0x40)
}

func ptpFlood(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		var instances []*process.Process
		for i, how := range [][]string{{"--priority1", "1"}, nil, {"--priority1", "200"}} {
			p, err := b.start(ctx, append([]string{"ptp", "run", nicName(i), "--sync-interval", "-3"}, how...)...)
			if err != nil {
				return err
			}
			defer p.Stop()
			instances = append(instances, p)
		}
		err := b.mutate(ctx, tapName(0), b.raw, isPTP, repairIP)
		return errors.Join(err, running(instances...))
	})
}

// rdmaFlood changes what passes between nic2 and nic0.
func rdmaFlood(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		server, err := b.verifyServer(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		within, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			for within.Err() == nil { // whether it ends well is up to the frames
				_, _ = b.run(within, "verify", "client", "--nic", nicName(2), nicIP(0), "write:3000", "read:3000",
					"send:64:8",
					"echo:999", "sleep:20")
			}
			done <- nil
		}()
		err = b.mutate(ctx, tapName(2), b.raw, func(f []byte) bool { return f[12] == 8 && f[13] == 0 }, repairIP)
		cancel()
		<-done
		return err
	})
}

// readPeers is how many peers amplify.
const readPeers = 4

// readFlood asks for much by little: each peer has as many Reads outstanding as it
// may, and more, and takes no answer.
func readFlood(ctx context.Context, t *trial) error {
	t.unit = "Read Requests"
	return t.onBed(ctx, func(b *bed) error {
		server, err := b.verifyServer(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Stop()
		for end := time.Now().Add(t.d); ; {
			var peers []net.Conn
			for range readPeers {
				c, err := b.amplify(ctx)
				if err != nil {
					return err
				}
				peers = append(peers, c)
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(t.d/4, time.Until(end))):
			}
			for _, c := range peers {
				c.Close()
			}
			if ctx.Err() != nil || time.Now().After(end) {
				return ctx.Err()
			}
		}
	})
}

// amplify connects to the server on nic0 and posts Reads.
func (b *bed) amplify(ctx context.Context) (c net.Conn, err error) {
	if c, err = b.dial(ctx, 0); err != nil {
		return nil, err
	}
	stag, to, layout, err := greet(c)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("MPA: %w", err)
	}
	var out []byte
	pos := uint64(0)
	for i := range 16 {
		h := rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, uint32(1+i), 0)
		request := rdmap.ReadRequest{SinkSTag: 1, Size: 4 << 20, SourceSTag: stag, SourceTO: to}
		ulpdu := request.AppendTo(h.AppendTo(nil))
		at := len(out)
		out = append(out, make([]byte, layout.FPDULen(pos, len(ulpdu)))...)
		pos += uint64(layout.Put(out[at:], pos, ulpdu))
		b.t.count++
	}
	_, err = c.Write(out)
	return c, err
}

// greet is the MPA start-up of a verify client. It returns the STag and address of
// the server's memory.
func greet(c net.Conn) (stag uint32, to uint64, layout mpa.Layout, err error) {
	cfg := mpa.DefaultConfig()
	cfg.PrivateData = binary.LittleEndian.AppendUint32(nil, 0x73697774)
	cfg.PrivateData = append(cfg.PrivateData, 0, 16, 0, 16)
	i, err := mpa.NewInitiator(cfg)
	if err != nil {
		return 0, 0, layout, err
	}
	if _, err := c.Write(i.AppendRequest(nil)); err != nil {
		return 0, 0, layout, err
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	for buf := make([]byte, 2048); ; {
		n, err := c.Read(buf)
		if err != nil {
			return 0, 0, layout, err
		}
		_, done, err := i.Receive(buf[:n])
		if err != nil {
			return 0, 0, layout, err
		}
		if done {
			break
		}
	}
	r := i.Result()
	if len(r.PrivateData) < 32 {
		return 0, 0, layout, fmt.Errorf("%d octets of private data", len(r.PrivateData))
	}
	return binary.LittleEndian.Uint32(r.PrivateData[4:]), binary.LittleEndian.Uint64(r.PrivateData[24:]), r.Tx(), nil
}
