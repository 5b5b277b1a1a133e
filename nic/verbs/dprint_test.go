package verbs

import (
	"fmt"
	"slices"
	"testing"

	"tapir/nic/msglog"
)

// The topics obj, mm, wr and data tell of each object, region, window, work
// request and piece of memory used, and only while they are on.
func TestDprint(t *testing.T) {
	f := windows(t)
	w := f.mw(t, MWType2B)
	log := &msglog.Log{Mask: msglog.MM}
	f.dev.SetLog(log)
	story := func() (lines []string) {
		for _, l := range log.Since(0) {
			lines = append(lines, l.Topic.String()+" "+l.Text)
		}
		return lines
	}
	want := func(lines ...string) {
		t.Helper()
		if got := story(); !slices.Equal(got, lines) {
			t.Errorf("lines %q, want %q", got, lines)
		}
		*log = msglog.Log{Mask: log.Mask}
	}
	b := Bind{MW: w, Key: 1, MR: f.mr, Addr: f.mr.Addr(), Length: 100, Access: RemoteRead}
	if _, err := f.qp.PostSend(SendWR{ID: 1, Opcode: OpBindMW, Bind: &b}); err != nil {
		t.Fatal(err)
	}
	f.qp.NextSend()
	at := fmt.Sprintf("%#x", f.mr.Addr())
	stag := fmt.Sprintf("%#08x", w.RKey())
	want("mm bind MW 1 type 2B MR 2 STag " + stag + " addr " + at + " len 100 access rr")
	if err := w.Dealloc(); err != nil {
		t.Fatal(err)
	}
	want("mm unbind MW 1 type 2B MR 2 STag " + stag + " addr " + at + " len 100 access rr")

	log.Mask = msglog.Obj | msglog.MM
	mr, err := f.pd.RegMemory(Bytes(f.mem), 0x1000, RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	region := " MR 3 PD 1 STag " + fmt.Sprintf("%#08x", mr.RKey()) + " addr 0x1000 len 4096 access rr"
	want("obj create MR 3, 3 exist", "mm register"+region, "mm invalidate"+region, "obj destroy MR 3, 2 exist")

	log.Mask = msglog.WR
	if _, err := f.qp.PostRecv(RecvWR{ID: 5, SGEs: f.sge(0, 30)}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.qp.PostSend(SendWR{ID: 6, SGEs: f.sge(0, 20)}); err != nil {
		t.Fatal(err)
	}
	f.qp.NextRecv()
	f.qp.FinishRecv(RecvDone{ByteLen: 7})
	if err := f.qp.Modify(Err); err != nil {
		t.Fatal(err)
	}
	want("wr QP 1 post WR 5 receive SGEs 1 len 30", "wr QP 1 post WR 6 Send SGEs 1 len 20",
		"wr QP 1 done WR 5 recv: success len 7 CQ 1", "wr QP 1 done WR 6 send: WR flushed len 0 CQ 1")
	log.Mask = msglog.Data
	long := []byte("as many octets as are shown, and more")
	if err := f.mr.Place(long, f.mr.Addr()+7); err != nil {
		t.Fatal(err)
	}
	if err := f.mr.Fetch(long[:2], f.mr.Addr()+8); err != nil {
		t.Fatal(err)
	}
	region = " MR 2 STag " + fmt.Sprintf("%#08x", f.mr.RKey())
	want("data write"+region+" offset 7 len 37: 61 73 20 6d 61 6e 79 20 6f 63 74 65 74 73 20 61...", "data read"+region+" offset 8 len 2: 73 20")
	log.Mask = 0
	if err := f.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	want()
}
