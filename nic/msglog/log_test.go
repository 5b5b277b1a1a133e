package msglog

import (
	"fmt"
	"strings"
	"testing"

	"tapir/wire/frame"
)

func TestLog(t *testing.T) {
	var off *Log
	l := &Log{}
	l.Begin(7)
	if off.On(CM) || l.On(All) {
		t.Error("a log that nobody switched on wants lines")
	}
	l.Mask = CM | TX
	if !l.On(CM) || l.On(RX) {
		t.Errorf("mask %#x", l.Mask)
	}
	for i := range 2*logLines + 5 {
		if i%2 == 0 {
			l.Addf(CM, "line %d", i)
		} else {
			l.Append(TX, func(b []byte) []byte { return fmt.Appendf(b, "line %d", i) })
		}
	}
	all := l.Since(0)
	if len(all) != logLines || all[0].Seq != logLines+5 {
		t.Fatalf("%d lines from %d", len(all), all[0].Seq)
	}
	for i, line := range all {
		want := Line{uint64(logLines + 5 + i), 7, Verbose, CM, fmt.Sprintf("line %d", logLines+5+i)}
		if want.Seq%2 == 1 {
			want.Topic = TX
		}
		if line != want {
			t.Fatalf("%+v, want %+v", line, want)
		}
	}
	last := all[logLines-1].Seq
	if got := l.Since(last); len(got) != 1 || len(l.Since(last+1))+len(l.Since(last+9)) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestTopics(t *testing.T) {
	var sum Topic
	for _, n := range TopicNames {
		if sum&n.Topic != 0 || n.Topic.String() != n.Name {
			t.Errorf("topic %#x is %q and %q", uint32(n.Topic), n.Topic, n.Name)
		}
		sum |= n.Topic
	}
	for i, name := range Modules {
		if (name != "") != (sum&(1<<i) != 0) {
			t.Errorf("bit %d: %q, topics %#x", i, name, uint32(sum))
		}
	}
	if !strings.HasPrefix(Topic(3).String(), "topics 0x3") {
		t.Errorf("%v", Topic(3))
	}
}

// The word holds a level and modules, as the driver core does. OV-09
func TestMsglvl(t *testing.T) {
	for _, c := range []struct {
		word, shown uint32
		level       Level
		topics      Topic
	}{
		{0, 0x80000000, Notice, 0}, {0x40000000, 0x40000000, Info, 0}, {0x80000000, 0x80000000, Notice, 0}, {0xc0000000, 0xc0000000, Err, 0},
		{0x4, 0x4, Verbose, Link}, {0x84000000, 0x4000000, Verbose, CM}, {0x3fffffff, 0x3fffffff, Verbose, All},
	} {
		if m := Msglvl(c.word); m.Level() != c.level || m.Topics() != c.topics || m.Word() != c.shown {
			t.Errorf("%#x: %v, %#x, shown as %#x", c.word, m.Level(), uint32(m.Topics()), m.Word())
		}
	}
	for bit, name := range map[int]string{0: "drv", 2: "link", 6: "rx_err", 14: "wol", 16: "spq", 20: "sp", 23: "cxt", 26: "rdma", 27: "debug"} {
		if Modules[bit] != name {
			t.Errorf("bit %d is %q, want %q", bit, Modules[bit], name)
		}
	}
}

// Lines of a level are kept if that level is wanted; ERR always is. OV-08
func TestLevels(t *testing.T) {
	for _, c := range []struct {
		word Msglvl
		want string
	}{
		{0, "notice err"}, {0x40000000, "info notice err"}, {0x80000000, "notice err"}, {0xc0000000, "err"},
		{Msglvl(CM), "rdma info notice err"}, {Msglvl(MM), "info notice err"},
	} {
		l := &Log{Mask: c.word.Topics(), Level: c.word.Level()}
		if l.On(CM) {
			l.Addf(CM, "rdma")
		}
		l.Say(Info, CM, "info")
		l.Say(Notice, CM, "notice")
		l.Say(Err, CM, "err")
		var got []string
		for _, line := range l.Since(0) {
			got = append(got, line.Text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%#x keeps %v, want %s", uint32(c.word), got, c.want)
		}
	}
	(*Log)(nil).Say(Err, CM, "nobody listens")
}

func TestParseTopics(t *testing.T) {
	if got, err := ParseTopics("cm,tx_done,stats"); got != CM|WR|0x20000 || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for _, s := range []string{"", "cm,", "what"} {
		if _, err := ParseTopics(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// Who listens hears of its topics; only the others' lines are kept.
func TestListen(t *testing.T) {
	l := &Log{Mask: CM}
	l.Begin(3)
	var heard []string
	l.Listen(WR|CM, func(topic Topic, at frame.Time, text []byte) {
		heard = append(heard, fmt.Sprint(topic, " ", int64(at), " ", string(text)))
	})
	for _, topic := range []Topic{WR, CM, TX} {
		if l.On(topic) {
			l.Addf(topic, "line")
		}
	}
	if got := l.Since(0); len(got) != 1 || got[0].Topic != CM || strings.Join(heard, ",") != "wr 3 line,cm 3 line" {
		t.Errorf("kept %+v, heard %q", got, heard)
	}
	if l.Listen(0, nil); l.On(WR) {
		t.Error("somebody still listens")
	}
}

func TestSilentLogCostsNothing(t *testing.T) {
	l := &Log{}
	n := testing.AllocsPerRun(100, func() {
		if l.On(TX) {
			l.Addf(TX, "%d", 1)
		}
	})
	if n != 0 || l.ring != nil {
		t.Errorf("%v allocations", n)
	}
}
