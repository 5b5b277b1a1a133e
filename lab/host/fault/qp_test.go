package fault

import (
	"errors"
	"strings"
	"testing"

	"tapir/rdmap"
)

// A rule for a queue pair strikes on its connection alone, whose it is being
// asked once, with its first FPDU; things are counted from there.
func TestQP(t *testing.T) {
	var asked []string
	find := func(nic string, c Connection) (uint32, error) {
		asked = append(asked, nic+" "+c.Src.String()+" "+c.Dst.String())
		if c.Src.Port() == 4001 || c.Dst.Port() == 4001 {
			return 5, nil
		}
		return 4, nil
	}
	e := engine(t, 1, with(Drop, "fpdu", func(r *Rule) { r.NIC, r.QPN, r.Nth, r.From = "n", 5, []int{3}, A }),
		with(Duplicate, "terminate", func(r *Rule) { r.NIC, r.QPN = "n", 5 }),
		with(Duplicate, "write", func(r *Rule) { r.NIC, r.QPN = "n", 6 }))
	e.FindQPs(find)
	other, own := newTalk(t, e, 4000).start(), newTalk(t, e, 4001).start()
	if len(asked) > 0 {
		t.Errorf("asked %q before an FPDU passed", asked)
	}
	for i := range 4 {
		if v := other.message(A, rdmap.Write, 1)[0]; v != nil {
			t.Errorf("of another queue pair: %+v", v)
		}
		v := own.message(A, rdmap.Write, 1)[0]
		if (v != nil) != (i == 2) || v != nil && v.Note() != "drop-fpdu: dropped: FPDU 3 (RDMA Write 3, segment 1) from a, connection 2, QP 5 of n" {
			t.Errorf("FPDU %d: %+v", i+1, v)
		}
	}
	own.message(B, rdmap.Write, 3)
	if got := strings.Join(asked, ", "); got != "n 10.0.0.1:4000 10.0.0.2:7174, n 10.0.0.1:4001 10.0.0.2:7174" {
		t.Errorf("asked %q", got)
	}
	c := e.Counts()
	if c[0].Silent() != nil || c[0].Struck != 1 {
		t.Errorf("%+v", c[0])
	}
	for i, want := range map[int]string{1: "no terminate on a connection of QP 5 of n passed the link", 2: "no write on a connection of QP 6 of n passed the link"} {
		if err := c[i].Silent(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A NIC that does not answer is told of by the rule that found nothing.
func TestQPUnasked(t *testing.T) {
	e := engine(t, 1, with(Drop, "fpdu", func(r *Rule) { r.NIC, r.QPN = "n", 5 }))
	e.FindQPs(func(string, Connection) (uint32, error) { return 0, errors.New("n is asleep") })
	if v := newTalk(t, e, 4000).start().message(A, rdmap.Write, 1)[0]; v != nil {
		t.Errorf("%+v", v)
	}
	if err := e.Counts()[0].Silent(); err == nil || !strings.Contains(err.Error(), "n is asleep") {
		t.Error(err)
	}
}
