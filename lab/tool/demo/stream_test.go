package demo

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/gopacket/pcapgo"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// message is one RDMAP message as it crossed the wire.
type message struct {
	op   rdmap.Opcode
	size int
	sha  string
}

// flow is one direction of a TCP connection.
type flow struct{ src, dst netip.AddrPort }

type segment struct {
	off  uint32 // from the first octet behind the SYN
	data []byte
}

// readFrames returns the frames of a pcap file as the kernel saw them.
func readFrames(t *testing.T, file string) (frames [][]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, _, err := r.ReadPacketData()
		if err == io.EOF {
			return frames
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		frames = append(frames, data)
	}
}

// readMessages puts every TCP stream of the frames together and takes it
// apart again down to the messages, without any help from the NICs.
func readMessages(t *testing.T, frames [][]byte) (all []message) {
	t.Helper()
	start := map[flow]uint32{}
	segments := map[flow][]segment{}
	var order []flow
	for _, f := range frames {
		h, n, err := ether.Parse(f)
		if err != nil || h.Type != ether.TypeIPv4 && h.Type != ether.TypeIPv6 {
			continue
		}
		iph, body, err := ip.Parse(f[n:])
		if err != nil || iph.Proto != ip.ProtoTCP {
			continue
		}
		th, data, err := tcp.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		key := flow{netip.AddrPortFrom(iph.Src, th.SrcPort), netip.AddrPortFrom(iph.Dst, th.DstPort)}
		if th.Flags&tcp.SYN != 0 {
			start[key] = uint32(th.Seq) + 1
			order = append(order, key)
		}
		if len(data) > 0 {
			segments[key] = append(segments[key], segment{uint32(th.Seq) - start[key], data})
		}
	}
	for i, key := range order {
		kind := mpa.Request
		if i%2 == 1 {
			kind = mpa.Reply
		}
		all = append(all, messagesOf(t, key, kind, join(t, key, segments[key]))...)
	}
	return all
}

// join orders the segments; what was sent again counts once.
func join(t *testing.T, key flow, segs []segment) (stream []byte) {
	t.Helper()
	slices.SortStableFunc(segs, func(a, b segment) int { return cmp.Compare(a.off, b.off) })
	for _, s := range segs {
		have := uint32(len(stream))
		if s.off > have {
			t.Fatalf("%v: octets %d to %d are missing from the capture", key, have, s.off)
		}
		if end := s.off + uint32(len(s.data)); end > have {
			stream = append(stream, s.data[have-s.off:]...)
		}
	}
	return stream
}

func messagesOf(t *testing.T, key flow, kind mpa.Kind, stream []byte) []message {
	t.Helper()
	hello, n, err := mpa.ParseFrame(stream, kind)
	if err != nil || n == 0 {
		t.Fatalf("%v: no MPA %v: %v", key, kind, err)
	}
	if !hello.CRC {
		t.Errorf("%v: MPA %v without CRC", key, kind)
	}
	c := &collector{t: t}
	r := mpa.NewReceiver(mpa.Layout{CRC: true}, nil)
	if err := r.Receive(stream[n:], c); err != nil {
		t.Fatalf("%v: %v", key, err)
	}
	if r.Partial() != 0 {
		t.Errorf("%v: ends inside an FPDU", key)
	}
	return c.messages
}

// collector gathers the payload of messages. Tagged and untagged messages of
// one direction may interleave.
type collector struct {
	t        *testing.T
	open     [2][]byte
	messages []message
}

func (c *collector) ULPDU(b []byte) error {
	h, payload, err := ddp.Parse(b)
	if err != nil {
		return err
	}
	kind := 0
	if h.Tagged {
		kind = 1
	}
	c.open[kind] = append(c.open[kind], payload...)
	if h.Last {
		data := c.open[kind]
		sum := sha256.Sum256(data)
		c.messages = append(c.messages, message{rdmap.Opcode(h.ULP & 0xf), len(data), hex.EncodeToString(sum[:])})
		c.open[kind] = nil
	}
	return nil
}
