package frame

import (
	"fmt"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	var off *Log
	l := &Log{Now: func() Time { return 7 }}
	if off.On(LogCM) || l.On(LogAll) {
		t.Error("a log that nobody switched on wants lines")
	}
	l.Mask = LogCM | LogTX
	if !l.On(LogCM) || l.On(LogRX) {
		t.Errorf("mask %#x", l.Mask)
	}
	for i := range 2*logLines + 5 {
		if i%2 == 0 {
			l.Addf(LogCM, "line %d", i)
		} else {
			l.Append(LogTX, func(b []byte) []byte { return fmt.Appendf(b, "line %d", i) })
		}
	}
	all := l.Since(0)
	if len(all) != logLines || all[0].Seq != logLines+5 {
		t.Fatalf("%d lines from %d", len(all), all[0].Seq)
	}
	for i, line := range all {
		want := Line{uint64(logLines + 5 + i), 7, LogCM, fmt.Sprintf("line %d", logLines+5+i)}
		if want.Seq%2 == 1 {
			want.Topic = LogTX
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
	for i, name := range TopicNames {
		topic := Topic(1) << i
		sum |= topic
		if topic.String() != name {
			t.Errorf("topic %d is %q", i, topic)
		}
	}
	if sum != LogAll || !strings.HasPrefix(Topic(3).String(), "topics 0x3") {
		t.Errorf("all %#x, named %#x", LogAll, sum)
	}
}

func TestParseTopics(t *testing.T) {
	if got, err := ParseTopics("cm,wr"); got != LogCM|LogWR || err != nil {
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
	l := &Log{Mask: LogCM, Now: func() Time { return 3 }}
	var heard []string
	l.Listen(LogWR|LogCM, func(topic Topic, at Time, text []byte) {
		heard = append(heard, fmt.Sprint(topic, " ", int64(at), " ", string(text)))
	})
	for _, topic := range []Topic{LogWR, LogCM, LogTX} {
		if l.On(topic) {
			l.Addf(topic, "line")
		}
	}
	if got := l.Since(0); len(got) != 1 || got[0].Topic != LogCM || strings.Join(heard, ",") != "wr 3 line,cm 3 line" {
		t.Errorf("kept %+v, heard %q", got, heard)
	}
	if l.Listen(0, nil); l.On(LogWR) {
		t.Error("somebody still listens")
	}
}

func TestSilentLogCostsNothing(t *testing.T) {
	l := &Log{}
	n := testing.AllocsPerRun(100, func() {
		if l.On(LogTX) {
			l.Addf(LogTX, "%d", 1)
		}
	})
	if n != 0 || l.ring != nil {
		t.Errorf("%v allocations", n)
	}
}
