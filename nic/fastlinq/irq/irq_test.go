package irq

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

func want(t *testing.T, err error, code status.Code) {
	t.Helper()
	if status.Of(err) != code {
		t.Errorf("%v, want %v", err, code)
	}
}

func device(t *testing.T, c Config) *Device {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range d.Hwfns {
		h.IntEnable(0)
	}
	return d
}

func block(t *testing.T, h *Hwfn, id int) *SB {
	t.Helper()
	sb, err := h.SBInit(id)
	if err != nil {
		t.Fatal(err)
	}
	h.Setup(sb)
	return sb
}

func msix(vectors int) Platform { return Platform{Vectors: vectors} }

// IT-01 IT-02
func TestProtocolIndices(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	sb := block(t, d.Hwfns[0], 0)
	for pi := range PIs {
		for range pi + 1 {
			sb.Event(pi, 0)
		}
	}
	for pi := range PIs {
		if sb.PI(pi) != uint16(pi+1) {
			t.Errorf("index %d: %d", pi, sb.PI(pi))
		}
	}
	// The 16 bits of an index, and the 24 of the producer, wrap.
	for range 1 << 16 {
		sb.Event(RxPI, 0)
	}
	if sb.PI(RxPI) != 1 || sb.PI(TxPI0) != 2 {
		t.Errorf("after 65536 events: Rx %d, Tx %d", sb.PI(RxPI), sb.PI(TxPI0))
	}
	sb.prod, sb.ack = indexMask, indexMask
	sb.Event(RxPI, 0)
	if sb.prod != 0 || !sb.UpdateIdx() || sb.UpdateIdx() {
		t.Errorf("producer %#x after the last of 24 bits", sb.prod)
	}
}

// IT-05 IT-11
func TestStatusBlocks(t *testing.T) {
	d := device(t, Config{SBs: 4, VFSBs: 2, Mode: MSIX, Platform: msix(5)})
	h := d.Hwfns[0]
	sb := block(t, h, 2)
	if m := h.Map()[3]; m != (Mapping{Vector: 3, Valid: true}) {
		t.Errorf("line of block 2: %+v", m)
	}
	if n := h.Num(); n != (NumSBs{4, 4, 3, 2, 2, 2}) {
		t.Errorf("%+v", n)
	}
	for id, code := range map[int]status.Code{-1: status.Inval, 4: status.Inval, 2: status.Exists, SPSB: status.Inval} {
		_, err := h.SBInit(id)
		want(t, err, code)
	}
	want(t, h.SBRelease(h.SP()), status.Inval)
	want(t, h.RelocateSB(2, true), status.Inval)  // in use
	want(t, h.RelocateSB(1, false), status.Inval) // not given away
	want(t, h.RelocateSB(9, true), status.Inval)
	want(t, h.RelocateSB(1, true), status.Success)
	want(t, h.RelocateSB(1, true), status.Inval)
	_, err := h.SBInit(1)
	want(t, err, status.Inval)
	if n := h.Num(); n != (NumSBs{4, 3, 2, 2, 3, 3}) {
		t.Errorf("one given to the VFs: %+v", n)
	}
	want(t, h.AssignVF(17, 4), status.NoResources)
	want(t, h.AssignVF(17, 65), status.Inval)
	want(t, h.AssignVF(17, 3), status.Success)
	want(t, h.AssignVF(17, 1), status.Inval)
	if m := h.Map(); m[2] != (Mapping{0, 17, true, true}) || m[5] != (Mapping{1, 17, true, true}) || m[6] != (Mapping{2, 17, true, true}) {
		t.Errorf("lines of VF 17: %+v", m)
	}
	want(t, h.RelocateSB(1, false), status.NoResources)
	if n := h.ReleaseVF(17); n != 3 {
		t.Errorf("VF 17 gave %d back", n)
	}
	want(t, h.RelocateSB(1, false), status.Success)
	sb.Event(RxPI, 0)
	want(t, h.SBRelease(sb), status.Success)
	want(t, h.SBRelease(sb), status.Inval)
	sb.Event(RxPI, 0)
	sb.Ack(Enable, true, 0)
	if sb.PI(RxPI) != 0 || sb.UpdateIdx() {
		t.Error("a released block is not zeroed")
	}
	block(t, h, 2)
	if n := h.Num(); n != (NumSBs{4, 4, 3, 2, 2, 2}) {
		t.Errorf("in the end: %+v", n)
	}
}

func TestRegisterCB(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	h := d.Hwfns[0]
	ran := [PIs]int{}
	for i := range PIs {
		pi, err := h.RegisterCB(func(frame.Time) { ran[i]++ })
		if err != nil || pi != i {
			t.Fatal(pi, err)
		}
	}
	_, err := h.RegisterCB(func(frame.Time) {})
	want(t, err, status.NoMem)
	h.SP().Event(7, 0)
	if ran != [PIs]int{7: 1} {
		t.Errorf("index 7: %v", ran)
	}
	want(t, h.UnregisterCB(3), status.Success)
	want(t, h.UnregisterCB(3), status.NoMem)
	want(t, h.UnregisterCB(PIs), status.NoMem)
	if pi, err := h.RegisterCB(func(frame.Time) {}); pi != 3 || err != nil {
		t.Error("the free index is not taken", pi, err)
	}
}

// IT-14 CM-09
func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name    string
		c       Config
		mode    Mode
		vectors int
		code    status.Code
	}{
		{"all granted", Config{SBs: 8, Mode: MSIX, Platform: msix(64)}, MSIX, 9, status.Success},
		{"some", Config{SBs: 8, Mode: MSIX, Platform: msix(5)}, MSIX, 5, status.Success},
		{"the minimum", Config{SBs: 8, Mode: MSIX, Platform: msix(2)}, MSIX, 2, status.Success},
		{"below", Config{SBs: 8, Mode: MSIX, Platform: msix(1)}, MSI, 1, status.Success},
		{"below, no MSI", Config{SBs: 8, Mode: MSIX, Platform: Platform{Vectors: 1, NoMSI: true}}, INTA, 1, status.Success},
		{"below, forced", Config{SBs: 8, Mode: MSIX, Force: true, Platform: msix(1)}, 0, 0, status.NoResources},
		{"MSI forced", Config{SBs: 8, Mode: MSI, Force: true, Platform: Platform{NoMSI: true}}, 0, 0, status.NoResources},
		{"no MSI", Config{SBs: 8, Mode: MSI, Platform: Platform{NoMSI: true}}, INTA, 1, status.Success},
		{"INTA", Config{SBs: 8, Mode: INTA, Platform: msix(64)}, INTA, 1, status.Success},
		{"POLL", Config{SBs: 8, Mode: Poll, Platform: msix(64)}, Poll, 0, status.Success},
		{"crash kernel", Config{SBs: 8, Mode: MSIX, Crash: true, Platform: msix(64)}, MSIX, 2, status.Success},
		{"CMT", Config{Hwfns: 2, SBs: 8, Mode: MSIX, Platform: msix(64)}, MSIX, 18, status.Success},
		{"CMT, odd", Config{Hwfns: 2, SBs: 8, Mode: MSIX, Platform: msix(7)}, MSIX, 6, status.Success},
		{"CMT, below", Config{Hwfns: 2, SBs: 8, Mode: MSIX, Platform: msix(3)}, INTA, 1, status.Success},
		{"CMT, MSI", Config{Hwfns: 2, SBs: 8, Mode: MSI}, 0, 0, status.Inval},
		{"VF", Config{SBs: 4, Mode: MSIX, Platform: Platform{Vectors: 5, VF: true}}, MSIX, 5, status.Success},
		{"VF, short", Config{SBs: 4, Mode: MSIX, Platform: Platform{Vectors: 4, VF: true}}, 0, 0, status.NoResources},
		{"VF, INTA", Config{SBs: 4, Mode: INTA, Platform: Platform{VF: true}}, 0, 0, status.Inval},
		{"mode 4", Config{SBs: 4, Mode: 4}, 0, 0, status.Inval},
	} {
		mode, vectors, err := Select(&c.c)
		if mode != c.mode || vectors != c.vectors || status.Of(err) != c.code {
			t.Errorf("%s: %v with %d vectors, %v", c.name, mode, vectors, err)
		}
	}
	for _, c := range []Config{{SBs: 0}, {SBs: MaxSBs}, {Hwfns: 3, SBs: 1}, {SBs: 1, VFSBs: -1}, {SBs: 100, VFSBs: MaxVectors}} {
		_, err := New(c)
		want(t, err, status.Inval)
	}
	short := device(t, Config{SBs: 8, Mode: MSIX, Platform: msix(5)})
	if n := short.Hwfns[0].Num().Orig; n != 4 || short.RDMAVectors(2) != 2 || short.RDMAVectors(9) != 0 {
		t.Errorf("5 vectors: %d status blocks, %d left to RDMA", n, short.RDMAVectors(2))
	}
	if d := device(t, Config{SBs: 128, Mode: INTA}); d.Hwfns[0].Num().Orig != MaxSISR-1 || d.RDMAVectors(1) != 0 {
		t.Errorf("single ISR: %d status blocks", d.Hwfns[0].Num().Orig)
	}
	for _, m := range []Mode{INTA, MSIX, MSI, Poll} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Error(m, got, err)
		}
	}
	_, err := ParseMode("legacy")
	want(t, err, status.Inval)
}

// IT-08: 129 status blocks of a PF, and 2048 vectors in a device.
func TestMostVectors(t *testing.T) {
	d := device(t, Config{SBs: MaxSBs - 1, VFSBs: MaxVectors - MaxSBs, Mode: MSIX, Platform: msix(MaxVectors)})
	h := d.Hwfns[0]
	var fired []int
	d.fired = func(v int, _ frame.Time) { fired = append(fired, v) }
	for id := range MaxSBs - 1 {
		block(t, h, id).Event(RxPI, 0)
	}
	if len(fired) != MaxSBs-1 || fired[0] != 1 || fired[127] != 128 {
		t.Errorf("%d interrupts", len(fired))
	}
	if n := h.Num(); n.VFCnt != MaxVectors-MaxSBs {
		t.Errorf("%+v", n)
	}
}

// CM-02 CM-03: vector 2n is hwfn 0's, 2n+1 hwfn 1's; 0 and 1 are the slowpaths.
func TestVectorsOfTwoHwfns(t *testing.T) {
	for _, mode := range []Mode{MSIX, INTA} {
		var fired []int
		served := map[[2]int]int{}
		d := device(t, Config{Hwfns: 2, SBs: 3, Mode: mode, Platform: msix(64)})
		d.fired = func(v int, now frame.Time) {
			fired = append(fired, v)
			d.Service(v, now)
		}
		for i, h := range d.Hwfns {
			if _, err := h.RegisterCB(func(frame.Time) { served[[2]int{i, -1}]++ }); err != nil {
				t.Fatal(err)
			}
			h.SP().Event(0, 0)
			for id := range 3 {
				sb := block(t, h, id)
				sb.Handle(func(*SB, frame.Time) { served[[2]int{i, id}]++ })
				sb.Event(RxPI, 0)
			}
		}
		wantFired := []int{0, 2, 4, 6, 1, 3, 5, 7}
		if mode == INTA {
			wantFired = []int{0, 0, 0, 0, 0, 0, 0, 0} // one line for both
		}
		if !slices.Equal(fired, wantFired) || len(served) != 8 {
			t.Errorf("%v: vectors %v, served %v", mode, fired, served)
		}
	}
}

// IT-10: what SISR says, and that the line is quiet until all are acknowledged.
func TestSISR(t *testing.T) {
	for _, mode := range []Mode{INTA, MSI} {
		fired := 0
		d := device(t, Config{SBs: 3, Mode: mode})
		d.fired = func(int, frame.Time) { fired++ }
		h := d.Hwfns[0]
		a, b := block(t, h, 0), block(t, h, 2)
		a.Event(RxPI, 0)
		b.Event(RxPI, 0)
		h.SP().Event(0, 0)
		if bits := h.ReadSISR(); fired != 1 || bits != 0b1011 {
			t.Fatalf("%v: %d interrupts, SISR %#b", mode, fired, bits)
		}
		block(t, h, 1).Event(RxPI, 0)
		for i, sb := range []*SB{a, b} {
			sb.UpdateIdx()
			if sb.Ack(Enable, true, 0); fired != 1 {
				t.Errorf("%v: interrupt after %d of 3 acknowledgements", mode, i+1)
			}
		}
		h.SP().UpdateIdx()
		if h.SP().Ack(Enable, true, 0); fired != 2 || h.ReadSISR() != 0b100 || h.ReadSISR() != 0 {
			t.Errorf("%v: %d interrupts after the last acknowledgement", mode, fired)
		}
	}
}

// IT-12 IT-13
func TestAck(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	h := d.Hwfns[0]
	fired := 0
	d.fired = func(int, frame.Time) { fired++ }
	sb := block(t, h, 0)
	step := func(what string, n int) {
		t.Helper()
		if fired != n {
			t.Errorf("%s: %d interrupts, want %d", what, fired, n)
		}
	}
	sb.Event(RxPI, 0)
	sb.Event(RxPI, 0)
	step("two events, no acknowledgement", 1)
	sb.UpdateIdx()
	sb.Event(RxPI, 0) // between the two
	sb.Ack(Enable, true, 0)
	step("an old index", 2)
	sb.UpdateIdx()
	sb.Ack(Disable, true, 0)
	sb.Event(RxPI, 0)
	step("disabled", 2)
	sb.Ack(Enable, false, 0)
	step("enabled again, without reading", 3)
	sb.UpdateIdx()
	sb.Ack(Nop, true, 0)
	sb.Event(RxPI, 0)
	step("NOP does not enable", 3)
	sb.UpdateIdx()
	sb.Ack(Enable, true, 0)
	step("nothing new", 3)
	h.IntDisable()
	sb.Event(RxPI, 0)
	step("the function is disabled", 3)
	h.IntEnable(0)
	step("and enabled", 4)
	sb.UpdateIdx()
	sb.Ack(Enable, true, 0)
	want(t, d.MaskVector(1), status.Success)
	sb.Event(RxPI, 0)
	step("masked", 4)
	want(t, d.UnmaskVector(1, 0), status.Success)
	step("unmasked", 5)
	want(t, d.UnmaskVector(1, 0), status.Success)
	step("nothing pending", 5)
	want(t, d.MaskVector(2), status.Inval)
	want(t, d.UnmaskVector(-1, 0), status.Inval)
	if v := d.ShowVectors(); len(v) != 2 || v[1] != (VectorInfo{Vector: 1, SB: 0, Interrupts: 5}) || v[0].SB != -1 {
		t.Errorf("%+v", v)
	}
	d.fired = d.Service
	sb.UpdateIdx()
	sb.Ack(Enable, true, 0)
	if sb.Event(RxPI, 0); d.Unhandled() != 1 {
		t.Error("an interrupt that nobody handles is not counted")
	}
}

// IT-04: section D's vectors.
func TestCoalescingResolutions(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	h := d.Hwfns[0]
	for _, c := range []struct {
		usecs        int
		timeset, res uint32
		effective    int
	}{
		{1, 1, 0, 1}, {0x7f, 0x7f, 0, 127}, {0x80, 64, 1, 128}, {0xff, 127, 1, 254}, {0x100, 64, 2, 256}, {0x1ff, 127, 2, 508},
	} {
		sb := block(t, h, 0)
		want(t, sb.SetCoalesce(RxPI, c.usecs), status.Success)
		if got := sb.Coalesce(RxPI); got != 0 {
			t.Errorf("%d us while disabled: %d", c.usecs, got)
		}
		sb.SetState(Rx, Enabled, 0)
		w, e := h.cauPI[sb.line*PIs], h.cauSB[sb.line]
		if w>>piTimeset&timesetOf != c.timeset || e.res(Rx) != c.res || sb.Coalesce(RxPI) != c.effective {
			t.Errorf("%d us: timeset %d, resolution %d, effective %d", c.usecs, w>>piTimeset&timesetOf, e.res(Rx), sb.Coalesce(RxPI))
		}
		start := frame.Time(time.Hour)
		sb.Event(RxPI, start)
		due := start.Add(time.Duration(c.effective) * time.Microsecond)
		if next := d.Poll(due - 1); next != due || sb.Updates() != 0 {
			t.Errorf("%d us: due after %v", c.usecs, next.Sub(start))
		}
		if next := d.Poll(due); next != frame.Never || sb.Updates() != 1 || sb.PI(RxPI) != 1 {
			t.Errorf("%d us: not written when due", c.usecs)
		}
		want(t, h.SBRelease(sb), status.Success)
	}
}

// IT-19 IT-04
func TestSetQueueCoalesce(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	sb := block(t, d.Hwfns[0], 0)
	sb.SetState(Rx, Enabled, 0)
	sb.SetState(Tx, Enabled, 0)
	show := func(rx, tx, tx1 int) {
		t.Helper()
		if r, a, b := sb.Coalesce(RxPI), sb.Coalesce(TxPI0), sb.Coalesce(TxPI0+1); r != rx || a != tx || b != tx1 {
			t.Errorf("rx %d, tx %d and %d us; want %d, %d, %d", r, a, b, rx, tx, tx1)
		}
	}
	set := func(pi, usecs int, code status.Code) {
		t.Helper()
		want(t, sb.SetCoalesce(pi, usecs), code)
	}
	set(RxPI, 24, status.Success)
	set(TxPI0, 48, status.Success)
	show(24, 48, 0)
	set(RxPI, 0, status.Success) // as it was
	show(24, 48, 0)
	set(RxPI, 0x200, status.Inval)
	set(TxPI0, 0x200, status.Inval)
	set(RxPI, -1, status.Inval)
	set(TxPI0+1, 200, status.Inval) // another resolution
	show(24, 48, 0)
	set(RxPI, 300, status.Success) // Rx has a machine of its own
	set(TxPI0+1, 127, status.Success)
	show(300, 48, 127)
	want(t, sb.SetCoalesce(PIs, 1), status.Inval)
}

// IT-03: many events, one update, one interrupt; and the earliest timer writes
// for all.
func TestAggregation(t *testing.T) {
	d := device(t, Config{SBs: 2, Mode: MSIX, Platform: msix(3)})
	sb, other := block(t, d.Hwfns[0], 0), block(t, d.Hwfns[0], 1)
	fired := 0
	d.fired = func(int, frame.Time) { fired++ }
	sb.SetState(Rx, Enabled, 0)
	sb.SetState(Tx, Enabled, 0)
	want(t, sb.SetCoalesce(RxPI, 100), status.Success)
	want(t, sb.SetCoalesce(TxPI0, 50), status.Success)
	us := frame.Time(time.Microsecond)
	for i := range frame.Time(70) {
		sb.Event(RxPI, i*us)
	}
	sb.Event(TxPI0, 20*us) // due at 70, before the first of Rx at 100
	other.Event(RxPI, 20*us)
	if fired != 1 {
		t.Errorf("a block without coalescing: %d interrupts", fired)
	}
	if d.Poll(69*us) != 70*us || d.Poll(70*us) != frame.Never || fired != 2 {
		t.Errorf("%d interrupts", fired)
	}
	if sb.PI(RxPI) != 70 || sb.PI(TxPI0) != 1 || sb.Updates() != 1 || sb.Reported() != 71 {
		t.Errorf("Rx %d, Tx %d, %d updates", sb.PI(RxPI), sb.PI(TxPI0), sb.Updates())
	}
	// Stopped: nothing is written until it goes on; the other machine does.
	sb.SetState(Rx, Stopped, 100*us)
	sb.Event(RxPI, 100*us)
	sb.Event(TxPI0, 100*us)
	if d.Poll(700 * us); sb.PI(RxPI) != 70 || sb.PI(TxPI0) != 2 {
		t.Errorf("Rx is stopped: %d; Tx %d", sb.PI(RxPI), sb.PI(TxPI0))
	}
	if sb.SetState(Rx, Enabled, 800*us); sb.PI(RxPI) != 71 || sb.State(Rx) != Enabled {
		t.Error("what waited is not written")
	}
	sb.Event(RxPI, 800*us)
	sb.SetState(Rx, Stopped, 800*us) // with a timer running
	if d.Poll(1400 * us); sb.PI(RxPI) != 71 {
		t.Error("a stopped machine wrote")
	}
}

// IT-15
func TestAttentions(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	h := d.Hwfns[0]
	mfw, pglue := 0, 0
	want(t, h.HandleAttention(AttnMFW, func(frame.Time) { mfw++ }), status.Success)
	want(t, h.HandleAttention(AttnMFW, func(frame.Time) {}), status.Exists)
	want(t, h.HandleAttention(0x300, func(frame.Time) {}), status.Inval)
	want(t, h.HandleAttention(0x1000, func(frame.Time) {}), status.Inval)
	interrupts := func() uint64 { return d.ShowVectors()[0].Interrupts }
	h.AttnAssert(AttnMFW, 0)
	h.AttnAssert(AttnMFW, 0) // as before
	if mfw != 1 || interrupts() != 1 || h.attn.ack != AttnMFW || h.attn.enable&AttnMFW != 0 {
		t.Errorf("asserted: handled %d times, %d interrupts, ack %#x, mask %#x", mfw, interrupts(), h.attn.ack, h.attn.enable)
	}
	h.AttnDeassert(AttnMFW, 0)
	if interrupts() != 2 || h.attn.ack != 0 || h.attn.known != 0 || h.attn.enable != attnBits {
		t.Errorf("deasserted: ack %#x, known %#x, mask %#x", h.attn.ack, h.attn.known, h.attn.enable)
	}
	h.AttnAssert(AttnMFW, 0)
	h.AttnDeassert(AttnMFW, 0)
	if mfw != 2 {
		t.Error("the second is not handled")
	}
	// Nobody handles bit 2: it is masked and does not storm.
	before := interrupts()
	for range 1000 {
		h.AttnAssert(4, 0)
		h.AttnDeassert(4, 0)
	}
	if n := interrupts() - before; n != 2 {
		t.Errorf("an unknown attention made %d interrupts", n)
	}
	if list := h.Attentions(); len(list) != 2 || list[0] != (AttnInfo{4, 1, false, true}) || list[1] != (AttnInfo{AttnMFW, 2, false, false}) {
		t.Errorf("%+v", list)
	}
	h.AttnAssert(4, 0)
	want(t, h.HandleAttention(4, func(frame.Time) { pglue++ }), status.Success)
	if pglue != 1 {
		t.Errorf("handled at last %d times", pglue)
	}
	// A handler whose attention goes and comes back meanwhile.
	again := 0
	want(t, h.HandleAttention(8, func(now frame.Time) {
		h.AttnDeassert(8, now)
		if again++; again < 3 {
			h.AttnAssert(8, now)
		}
	}), status.Success)
	if h.AttnAssert(8, 0); again != 3 {
		t.Errorf("handled %d times", again)
	}
	h.IntDisable()
	if h.AttnAssert(AttnMFW, 0); mfw != 2 {
		t.Error("handled while interrupts are disabled")
	}
	if h.IntEnable(0); mfw != 3 {
		t.Error("lost while interrupts were disabled")
	}
	poll := device(t, Config{SBs: 1, Mode: Poll})
	want(t, poll.Hwfns[0].HandleAttention(AttnMFW, func(frame.Time) { mfw++ }), status.Success)
	poll.Hwfns[0].AttnAssert(AttnMFW, 0)
	if mfw != 3 || !poll.Look(0) || mfw != 4 || poll.Look(0) {
		t.Error("mode POLL: an attention needs a look, once")
	}
}

// A batch is one update; a timer for all queues of a block goes through the
// resolutions.
func TestBatchesAndTimers(t *testing.T) {
	d := device(t, Config{SBs: 1, Mode: MSIX, Platform: msix(2)})
	sb := block(t, d.Hwfns[0], 0)
	n := 0
	sb.Handle(func(*SB, frame.Time) { n++ })
	sb.Events(RxPI, 40, 0)
	if n != 1 || sb.PI(RxPI) != 40 || sb.Updates() != 1 {
		t.Errorf("a batch of 40: %d interrupts, index %d", n, sb.PI(RxPI))
	}
	us := frame.Time(time.Microsecond)
	for _, c := range []struct{ usecs, effective int }{{100, 100}, {500, 500}, {129, 128}, {1, 1}} {
		want(t, sb.SetTimer(Rx, c.usecs, 0), status.Success)
		for _, pi := range []int{RxPI, CNQPI} {
			if sb.Coalesce(pi) != c.effective || sb.Coalesce(TxPI0) != 0 {
				t.Errorf("%d us: index %d %d, Tx %d", c.usecs, pi, sb.Coalesce(pi), sb.Coalesce(TxPI0))
			}
		}
	}
	want(t, sb.SetTimer(Rx, 512, 0), status.Inval)
	if sb.Event(RxPI, 5*us); n != 1 || d.Poll(5*us) != 6*us {
		t.Error("the event does not wait")
	}
	want(t, sb.SetTimer(Rx, 0, 5*us), status.Success)
	if n != 2 || sb.Coalesce(RxPI) != 0 || d.Poll(6*us) != frame.Never {
		t.Error("what waited stays when coalescing ends")
	}
}

// TestHandlerThatMakesEvents: deliveries are not nested, and none is lost.
func TestHandlerThatMakesEvents(t *testing.T) {
	for _, mode := range []Mode{MSIX, MSI, INTA} {
		d := device(t, Config{SBs: 2, Mode: mode, Platform: msix(3)})
		a, b := block(t, d.Hwfns[0], 0), block(t, d.Hwfns[0], 1)
		depth, left := 0, 1000
		handler := func(other *SB) func(*SB, frame.Time) {
			return func(own *SB, now frame.Time) {
				if depth++; depth > 1 {
					t.Fatal("nested")
				}
				if left--; left > 0 {
					own.Event(TxPI0, now)
					other.Event(RxPI, now)
				}
				depth--
			}
		}
		a.Handle(handler(b))
		b.Handle(handler(a))
		a.Event(RxPI, 0)
		if left > 0 || a.ack != a.prod || b.ack != b.prod {
			t.Errorf("%v: %d calls are missing", mode, left)
		}
	}
}

func TestRegisters(t *testing.T) {
	d := device(t, Config{SBs: 2, Mode: MSIX, Platform: msix(3)})
	names := map[string]bool{}
	for _, r := range d.Hwfns[0].Registers() {
		old := r.Read()
		r.Write(0xffffffff)
		if r.Read() != old|r.Mask {
			t.Errorf("%s: %#x after all ones", r.Name, r.Read())
		}
		r.Write(old)
		if r.Read() != old || names[r.Name] {
			t.Errorf("%s: not restored, or twice", r.Name)
		}
		names[r.Name] = true
	}
	if len(names) != 2+3*3+3*PIs {
		t.Errorf("%d registers", len(names))
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	_, err := New(Config{SBs: 500})
	if !errors.Is(err, status.Inval) || err.Error() != "500 status blocks, a PF has 1..128 beside the slowpath's: INVAL" {
		t.Error(err)
	}
}
