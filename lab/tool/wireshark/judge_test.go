package wireshark

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tapir/opa"
)

// TestJudge: a capture of which everything is known judges the judge.
func TestJudge(t *testing.T) {
	t.Parallel()
	f := framed(opa.FramingNSH)
	f.add(vemaFrame(vemaCases[2]))
	f.add(bytes.Clone(arpRequest)) // not of the fabric
	unknown := bytes.Clone(arpRequest)
	unknown[12] = 0x99 // an EtherType that nobody knows
	f.add(wrapped(opa.FramingNSH, samples[0].header.AppendTo(nil, unknown, opa.ICRCv1)))
	got, err := Judge(judge(t), f.write(t))
	if err != nil {
		t.Fatal(err)
	}
	want := Verdict{Frames: 8, Packets16B: 6, Packets9B: 1, Inner: 5, GoodICRC: 6, BadICRC: []string{"5"}, Complaints: got.Complaints}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Complaints) != 1 {
		t.Errorf("%s, complaints %q", diff, got.Complaints)
	}
}
