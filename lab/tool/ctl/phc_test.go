package ctl

import (
	"errors"
	"testing"

	"tapir/nic/ptp"
	"tapir/ptp/msg"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPHCCommands(t *testing.T) {
	c, _, _, _ := deviceClient(t)
	ctx := t.Context()
	if caps, err := c.PHCCaps(ctx); err != nil || caps != (PHCCaps{Name: "nic0", MaxAdj: 291_666_666}) {
		t.Errorf("%+v, %v", caps, err)
	}
	near := func(what string, got int64, err error, want int64) {
		t.Helper()
		if err != nil || got < want || got > want+1000 {
			t.Errorf("%s: %d, %v, want %d", what, got, err, want)
		}
	}
	const at = 1_700_000_000_000_000_000
	must(t, c.PHCSetTime(ctx, at))
	ns, err := c.PHCTime(ctx)
	near("time", ns, err, at)
	must(t, c.PHCAdjTime(ctx, -500_000_000))
	ns, err = c.PHCTime(ctx)
	near("after a step", ns, err, at-500_000_000)
	must(t, c.PHCAdjFine(ctx, -37<<16))
	if f, err := c.PHCFrequency(ctx); err != nil || f != -37<<16 {
		t.Errorf("frequency %d, %v", f, err)
	}
	list, err := c.PHCSamples(ctx, 3)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for i, s := range list {
		if s.Before >= s.After || s.Before < 1_000_000 || s.PHC < at-500_000_000 || i > 0 && (s.PHC <= list[i-1].PHC || s.Before <= list[i-1].After) {
			t.Errorf("sample %d: %+v", i, s)
		}
	}
	last := list[2]
	ns, err = c.PHCAt(ctx, last.After)
	near("at a time of the system", ns, err, last.PHC)
	wantErrno(t, c.PHCAdjFine(ctx, 300_000_000<<16/1000), "ERANGE")
	_, err = c.PHCSamples(ctx, 26)
	wantErrno(t, err, "EINVAL")
	wantError(t, c.Command(ctx, "phc.settime", map[string]int{"s": 1}, nil), "cannot be read")
	wantError(t, c.Command(ctx, "phc.melt", nil, nil), "no command phc.melt")
}

func wantErrno(t *testing.T, err error, want string) {
	t.Helper()
	if e := (*Error)(nil); !errors.As(err, &e) || e.Errno != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestHWTimestampCommands(t *testing.T) {
	c, d, th, pool := deviceClient(t)
	ctx := t.Context()
	caps, err := c.HWTimestampCaps(ctx)
	if err != nil || caps.Clock != "nic0" || len(caps.TxTypes) != 2 || len(caps.RxFilters) != 13 || caps.Owner != "" {
		t.Errorf("%+v, %v", caps, err)
	}
	got, err := c.SetHWTimestamps(ctx, ptp.HWConfig{TxType: ptp.TxOn, Filter: ptp.FilterV2L2Sync})
	want := ptp.HWConfig{TxType: ptp.TxOn, Filter: ptp.FilterV2L2Event}
	if err != nil || got != want {
		t.Errorf("granted %+v, %v", got, err)
	}
	if got, err := c.HWTimestamps(ctx); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if caps, err := c.HWTimestampCaps(ctx); err != nil || caps.Owner != "host" {
		t.Errorf("owner %q, %v", caps.Owner, err)
	}
	_, err = c.SetHWTimestamps(ctx, ptp.HWConfig{TxType: ptp.TxOneStepSync, Filter: ptp.FilterV2L2Event})
	wantErrno(t, err, "ERANGE")
	_, err = c.SetHWTimestamps(ctx, ptp.HWConfig{Flags: 1})
	wantErrno(t, err, "EINVAL")

	m := make([]byte, 44)
	m[0], m[1], m[27], m[29], m[31] = 1, 2, 9, 1, 7
	must(t, th.DoWait(func(now frame.Time) {
		f := pool.Get(64)
		f.Append(ether.Header{Dst: ether.Addr{1, 0x1b, 0x19}, Src: ether.Addr{2}, Type: ether.TypePTP}.AppendTo(nil))
		f.Append(m)
		d.Device.Receive(frame.Wire, []*frame.Frame{f}, 5000)
	}))
	id := MessageID{Type: 1, Sequence: 7, Source: msg.PortIdentity{Clock: msg.ClockIdentity{7: 9}, Port: 1}}
	if s, err := c.RxStamp(ctx, id); err != nil || s != (MessageStamp{OK: true, NS: 5000}) {
		t.Errorf("%+v, %v", s, err)
	}
	for range 2 { // it is given out once, and nothing was sent
		if s, err := c.RxStamp(ctx, id); err != nil || s != (MessageStamp{}) {
			t.Errorf("%+v, %v", s, err)
		}
		if s, err := c.TxStamp(ctx, id); err != nil || s != (MessageStamp{}) {
			t.Errorf("%+v, %v", s, err)
		}
	}
}
