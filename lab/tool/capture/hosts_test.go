package capture

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"tapir/wire/pcapng"
)

func encoded(blocks ...pcapng.Block) *bytes.Buffer {
	var b []byte
	for _, x := range blocks {
		b = x.AppendTo(b)
	}
	return bytes.NewBuffer(b)
}

func at(stamp int64, iface uint32, id uint64) *pcapng.Packet {
	p := &pcapng.Packet{Interface: iface, Stamp: stamp, Data: []byte{byte(stamp)}, OrigLen: 1}
	if id != 0 {
		p.Has, p.ID = pcapng.HasID, id
	}
	return p
}

// Captures of two hosts, one of two sections, and an old pcap become one file in the
// order of time, whose interfaces have their names.
func TestMerge(t *testing.T) {
	iface := func(name string) *pcapng.Interface { return &pcapng.Interface{LinkType: 1, Name: name} }
	one := encoded(&pcapng.Section{}, iface("tap0"), at(10, 0, 1), at(40, 0, 2),
		&pcapng.Journal{Stamp: 45, Message: []byte("linkdown")}, &pcapng.Section{}, iface("tap1"), at(50, 0, 0))
	two := encoded(&pcapng.Section{}, iface("tap0"), iface("eth0"), at(30, 1, 1), at(20, 0, 2),
		&pcapng.Statistics{Interface: 1, Has: pcapng.HasDropped, Dropped: 7})
	var old bytes.Buffer
	w := pcapgo.NewWriterNanos(&old)
	info := gopacket.CaptureInfo{CaptureLength: 1, Length: 1}
	info.Timestamp = info.Timestamp.UTC().AddDate(1969, 0, 0).Add(35) // 35 ns after the epoch
	if err := errors.Join(w.WriteFileHeader(64, layers.LinkTypeEthernet), w.WritePacket(info, []byte{35})); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m, err := Merge(&out, []Input{{"h1", one}, {"h2", two}, {"old", &old}})
	if err != nil || m != (Merged{Packets: 6, Backwards: 1}) {
		t.Errorf("%+v %v", m, err)
	}
	var names, order []string
	var stamps []int64
	ids := map[uint64]bool{}
	for r := pcapng.NewReader(&out); ; {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch b := b.(type) {
		case *pcapng.Interface:
			names = append(names, b.Name+" "+strings.Join(b.Comments, ","))
		case *pcapng.Packet:
			stamps, order = append(stamps, b.Stamp), append(order, names[b.Interface])
			if b.ID != 0 && ids[b.ID] {
				t.Errorf("two packets have the id %d", b.ID)
			}
			ids[b.ID] = true
		case *pcapng.Journal:
			stamps = append(stamps, b.Stamp)
		case *pcapng.Statistics:
			if names[b.Interface] != "eth0 captured in h2" {
				t.Errorf("statistics of %s", names[b.Interface])
			}
		}
	}
	if diff := cmp.Diff([]int64{10, 30, 20, 35, 40, 45, 50}, stamps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"tap0 captured in h1", "eth0 captured in h2", "tap0 captured in h2",
		" captured in old", "tap0 captured in h1", "tap1 captured in h1"}, order); diff != "" {
		t.Error(diff)
	}
}

// An input that is no capture is named, and one that breaks off is merged up to there.
func TestMergeBadInput(t *testing.T) {
	if _, err := Merge(io.Discard, []Input{{"x.txt", strings.NewReader("text")}}); !errors.Is(err, ErrNotCapture) ||
		!strings.HasPrefix(err.Error(), "x.txt: ") {
		t.Error(err)
	}
	cut := encoded(&pcapng.Section{}, &pcapng.Interface{LinkType: 1}, at(1, 0, 0), at(2, 0, 0))
	cut.Truncate(cut.Len() - 3)
	m, err := Merge(io.Discard, []Input{{"cut", cut}})
	if m.Packets != 1 || !errors.Is(err, pcapng.ErrTruncated) {
		t.Errorf("%+v %v", m, err)
	}
}
