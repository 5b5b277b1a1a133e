package capture

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"tapir/opa"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

const exportStamp = 1_700_000_000_250_000_000 // a quarter of a second

// fabricFrames are Ethernet frames that carry a 16B packet, one with a bad
// ICRC, a 9B packet, and none.
func fabricFrames(framing opa.Framing) (frames [][]byte, inner []byte) {
	inner = bytes.Repeat([]byte{0x5a}, 64)
	h := opa.Header{SLID: 5, DLID: 6, VESW: 0xabc, PKey: 0x8001, SC: 3, RC: 4, Entropy: 0x3c, FECN: true}
	for _, icrc := range []opa.ICRC{opa.ICRCv1, opa.ICRCBad} {
		f := frame.New(make([]byte, 512), nil)
		f.Append(h.AppendTo(nil, inner, icrc))
		framing.Wrap(f, 1)
		frames = append(frames, f.Bytes())
	}
	f := frame.New(make([]byte, 512), nil)
	f.Append((&opa.Header9B{SLID: 5, DLID: 6, PKey: 0xffff, DestQP: 1}).AppendTo(nil, make([]byte, 64), opa.ICRCv1))
	framing.Wrap9B(f)
	return append(frames, f.Bytes(), make([]byte, 60)), inner
}

// ngFile is a capture of frames, the first outbound, the others inbound.
func ngFile(frames [][]byte) []byte {
	b := (&pcapng.Section{Application: "test"}).AppendTo(nil)
	b = (&pcapng.Interface{LinkType: pcapng.LinkEthernet, Name: "hfi0"}).AppendTo(b)
	for i, data := range frames {
		p := pcapng.Packet{Stamp: exportStamp, Data: data, OrigLen: uint32(len(data)), Has: pcapng.HasFlags, Flags: pcapng.Inbound}
		if i == 0 {
			p.Flags = pcapng.Outbound
		}
		p.Comments = []string{"said before"}
		b = p.AppendTo(b)
	}
	return (&pcapng.Statistics{Has: pcapng.HasReceived, Received: 4}).AppendTo(b)
}

func export(t *testing.T, in []byte, form Form) (file, Exported) {
	t.Helper()
	var out bytes.Buffer
	st, err := Export(&out, bytes.NewReader(in), form)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out.Bytes()), st
}

func TestExportInner(t *testing.T) {
	for _, framing := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		frames, inner := fabricFrames(framing)
		f, st := export(t, ngFile(frames), FormInner)
		if st != (Exported{Written: 2, Left: 2}) || len(f.packets) != 2 || len(f.ifaces) != 1 || f.ifaces[0].LinkType != 1 || len(f.stats) != 1 {
			t.Fatalf("%v: %+v, %+v", framing, st, f)
		}
		const fields = "OPA16B vesw=2748 slid=0x000005 dlid=0x000006 sc=3 rc=4 fecn=1 becn=0 pkey=0x8001 entropy=0x3c age=0 pad=7 icrc="
		for i, icrc := range []string{"good", "bad"} {
			p := f.packets[i]
			if !bytes.Equal(p.Data, inner) || int(p.OrigLen) != len(inner) || p.Stamp != exportStamp {
				t.Errorf("%v: %+v", framing, p)
			}
			if diff := cmp.Diff([]string{"said before", fields + icrc}, p.Comments); diff != "" {
				t.Errorf("%v: %s", framing, diff)
			}
		}
	}
}

func TestExportERF(t *testing.T) {
	frames, _ := fabricFrames(opa.FramingNSH)
	f, st := export(t, ngFile(frames), FormERF)
	if st != (Exported{Written: 3, Left: 1}) || f.ifaces[0].LinkType != 197 {
		t.Fatalf("%+v, %+v", st, f.ifaces[0])
	}
	// Stamp 1700000000 and 2^30 of 2^32 parts of a second; type 28; lengths;
	// port 1; direction; PBC with bypass, RHF with bypass and ICRC error, RHF
	// with type IB.
	for i, want := range []string{
		"00000040" + "00f15365" + "1c04" + "0080" + "0000" + "0070" + "0100000000000000" + "1800001000000000",
		"00000040" + "00f15365" + "1c04" + "0080" + "0000" + "0070" + "0101000000000000" + "1840000000000080",
		"00000040" + "00f15365" + "1c04" + "0080" + "0000" + "0070" + "0101000000000000" + "1820000000000000",
	} {
		data := f.packets[i].Data
		if got := hex.EncodeToString(data[:32]); got != want || len(data) != 128 {
			t.Errorf("record %d of %d octets:\n%s, want\n%s", i, len(data), got, want)
		}
	}
}

// TestExportBack: records and bare packets are read as well as written.
func TestExportBack(t *testing.T) {
	frames, inner := fabricFrames(opa.FramingGeneve)
	for _, form := range []Form{FormERF, FormUser0} {
		var once bytes.Buffer
		if _, err := Export(&once, bytes.NewReader(ngFile(frames)), form); err != nil {
			t.Fatal(err)
		}
		f, st := export(t, once.Bytes(), FormInner)
		if st.Written != 2 || !bytes.Equal(f.packets[1].Data, inner) || f.packets[0].Flags != pcapng.Outbound || f.packets[1].Flags != pcapng.Inbound {
			t.Errorf("%s: %+v, %+v", formNames[form], st, f.packets)
		}
	}
}

func TestExportReadsPcap(t *testing.T) {
	frames, inner := fabricFrames(opa.FramingNSH)
	var old bytes.Buffer
	w := pcapgo.NewWriterNanos(&old)
	if err := w.WriteFileHeader(65535, gplayers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for i, data := range append(frames, frames[0]) {
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, exportStamp), CaptureLength: len(data), Length: len(data)}
		if i == len(frames) { // cut by a snap length
			data, ci.CaptureLength = data[:100], 100
		}
		if err := w.WritePacket(ci, data); err != nil {
			t.Fatal(err)
		}
	}
	f, st := export(t, old.Bytes(), FormInner)
	if st != (Exported{Written: 2, Left: 3}) || !bytes.Equal(f.packets[0].Data, inner) || f.packets[0].Stamp != exportStamp {
		t.Errorf("%+v, %+v", st, f.packets)
	}
}

func TestExportRefuses(t *testing.T) {
	good := ngFile(nil)
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"nothing", nil, ErrNotCapture}, {"text", []byte("hello, world, this is text"), ErrNotCapture},
		{"cut", good[:len(good)-3], pcapng.ErrTruncated},
	} {
		if _, err := Export(io.Discard, bytes.NewReader(c.in), FormInner); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	frames, _ := fabricFrames(opa.FramingNSH)
	if _, err := Export(broken{}, bytes.NewReader(ngFile(frames)), FormInner); !errors.Is(err, errBroken) {
		t.Errorf("writer's error: %v", err)
	}
	if _, err := ParseForm("pcap"); err == nil || !strings.Contains(err.Error(), "erf, user0, inner") {
		t.Error(err)
	}
}

// TestExportDoesNotWait: what has been read is written though more may come.
func TestExportDoesNotWait(t *testing.T) {
	frames, _ := fabricFrames(opa.FramingNSH)
	in, feed := io.Pipe()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Export(w, in, FormUser0)
		w.CloseWithError(err)
		done <- err
	}()
	go feed.Write(ngFile(frames))
	r := pcapng.NewReader(out)
	for packets := 0; packets < 2; {
		blk, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := blk.(*pcapng.Packet); ok {
			packets++
		}
	}
	feed.Close()
	io.Copy(io.Discard, out)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzExport(f *testing.F) {
	frames, _ := fabricFrames(opa.FramingNSH)
	f.Add(ngFile(frames[:1]), uint8(FormInner))
	f.Fuzz(func(t *testing.T, b []byte, form uint8) {
		var once, twice bytes.Buffer
		if _, err := Export(&once, bytes.NewReader(b), Form(form%3)); err != nil {
			return
		}
		if _, err := Export(&twice, &once, FormInner); err != nil {
			t.Fatalf("an export cannot be read: %v", err)
		}
	})
}
