package tshark

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pause"
	"tapir/wire/pcapng"
)

// The stock dissector reads PAUSE and PFC frames as they were meant, and finds none malformed.
func TestDissectorReadsPause(t *testing.T) {
	if err := Available(); err != nil {
		t.Fatal(err)
	}
	b := (&pcapng.Section{}).AppendTo(nil)
	b = (&pcapng.Interface{LinkType: 1}).AppendTo(b)
	src := ether.Addr{2, 0, 0, 0, 0, 7}
	for i, f := range []pause.Frame{
		{Src: src, Quanta: 0x1234},
		{Src: src, PFC: true, Enabled: 0x88, Timers: [8]uint16{3: 0xffff, 7: 1}},
		{Src: src, PFC: true, Enabled: 1 << 3},
	} {
		data := make([]byte, pause.Len)
		f.Put(data)
		b = (&pcapng.Packet{Data: data, OrigLen: pause.Len, Stamp: int64(frame.Stamp(i))}).AppendTo(b)
	}
	file := filepath.Join(t.TempDir(), "pause.pcapng")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := Fields(ctx, file, Options{}, "macc.opcode", "macc.pause_time", "macc.cbfc.enbv",
		"macc.cbfc.pause_time.c3", "macc.cbfc.pause_time.c7", "_ws.malformed")
	want := [][]string{
		{"0x0001", "4660", "", "", "", ""},
		{"0x0101", "", "0x0088", "65535", "1", ""},
		{"0x0101", "", "0x0008", "0", "0", ""},
	}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%v %q", err, rows)
	}
}
