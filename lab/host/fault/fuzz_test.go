package fault

import (
	"path/filepath"
	"testing"

	"tapir/lab/check/capturetest"
	"tapir/rdmap"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// everything is a rule for each thing and each effect that it can have.
func everything(t testing.TB) *Engine {
	e := New(1, [2]string{"a", "b"})
	var rules []Rule
	whats, _ := Whats()
	for _, w := range whats {
		for _, effect := range []Effect{Flip, Duplicate, Reorder} {
			r := NewRule(effect, w)
			r.Every, r.Copies, r.Behind = 1, 0, 0
			rules = append(rules, r)
		}
	}
	for _, f := range fpduFields {
		r := NewRule(Flip, "fpdu")
		r.Field, r.Transmissions = f.name, 2
		rules = append(rules, r)
	}
	for _, f := range pduFields {
		r := NewRule(Flip, "iscsi")
		r.Field = f.name
		rules = append(rules, r)
	}
	for _, f := range roceFields {
		r := NewRule(Flip, "roce")
		r.Field, r.Transmissions, r.MendICRC = f.name, 2, f.size != 32
		rules = append(rules, r)
	}
	for _, w := range []What{"tcp", "ptp", "16b", "9b"} {
		for _, f := range headerFields(w.kind()) {
			r := NewRule(Flip, w)
			r.Field = f.name
			rules = append(rules, r)
		}
	}
	if err := e.SetRules(rules); err != nil {
		t.Fatal(err)
	}
	return e
}

// apply judges a frame and checks that the verdict fits it.
func apply(t testing.TB, e *Engine, from Side, b []byte) *Verdict {
	v := e.Judge(from, b, frame.Time(0))
	if v != nil {
		v.Apply(b)
		_ = v.Note()
	}
	return v
}

// FuzzJudge: no frame, and no stream, panics the engine.
func FuzzJudge(f *testing.F) {
	k := &talk{t: &testing.T{}, e: New(1, [2]string{}), port: 4000}
	f.Add(k.frame(A, 5, tcp.SYN, nil), []byte("x"))
	from, packets := conversation()
	f.Add([]byte{1, 2, 3}, k.fpdu(A, k.header(A, rdmap.Write, 0, 1), make([]byte, 30)))
	f.Add(ethernet(0x88f7, make([]byte, 44)), []byte{0, 0, 0})
	f.Add(ethernet(0x894f, make([]byte, 80)), []byte{0xff, 0xff, 0xff})
	for i, p := range packets {
		f.Add(roceFrame(from[i], []int{1, 4, 6}[i%3], p), []byte{0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, raw, stream []byte) {
		e := everything(t)
		apply(t, e, A, raw)
		talk := newTalk(t, e, 4000)
		talk.layout[0].Markers = len(raw)%2 == 0
		talk.start()
		stream = stream[:min(len(stream), 4096)]
		for n := 1; len(stream) > 0; n = n*2 + 1 {
			cut := min(n, len(stream), 1400)
			for range 2 { // once more
				apply(t, e, A, talk.frame(A, talk.seq[A], tcp.ACK, stream[:cut]))
			}
			talk.seq[A] = talk.seq[A].Add(cut)
			stream = stream[cut:]
		}
	})
}

// TestGolden follows real Linux siw: in each capture with RDMA all messages that
// were sent are found, and the engine strikes the FPDU that was meant.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("../../tool/capture/layers/testdata/*.pcap")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d golden captures, %v", len(files), err)
	}
	struck := map[string]uint64{}
	for _, file := range files {
		e := engine(t, 1, with(Flip, "fpdu", func(r *Rule) { r.Nth = []int{2} }), NewRule(Duplicate, "mpa-request"), NewRule(Duplicate, "write"),
			NewRule(Duplicate, "read-response"), NewRule(Duplicate, "send"), NewRule(Duplicate, "terminate"))
		for _, p := range capturetest.Packets(t, file) {
			x := look(p.Data)
			from := A
			if x.src.Compare(x.dst) > 0 {
				from = B
			}
			apply(t, e, from, p.Data)
		}
		for _, c := range e.Counts() {
			struck[c.Name] += c.Struck
			if c.Missed > 0 && c.Name == "duplicate-mpa-request" {
				t.Errorf("%s: %+v", file, c)
			}
		}
	}
	for name, n := range struck {
		if n < 5 {
			t.Errorf("%s struck %d times in %d captures", name, n, len(files))
		}
	}
	t.Log(len(files), struck)
}
