package show

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/nic/verbs"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

func TestDropNames(t *testing.T) {
	for r, want := range map[frame.DropReason]string{
		drop.IPChecksum: "rx_drop_ip_checksum", drop.TxQueue: "tx_drop_transmit_queue_full",
		drop.Neighbor: "tx_drop_neighbor_unreachable",
	} {
		if got := DropName(r); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
	seen := map[string]bool{}
	for r := range nicdrop.All() {
		if name := DropName(r); seen[name] || strings.Contains(name, " ") || strings.HasSuffix(name, "unknown") {
			t.Errorf("%v is counted as %q", r, name)
		} else {
			seen[name] = true
		}
	}
}

// Every object that the device has gets a line, under its own number.
func TestObjectsAreShown(t *testing.T) {
	v := &View{Verbs: verbs.NewDevice(verbs.Limits{}, rand.NewPCG(0, 1))}
	pd, err := v.Verbs.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 100), verbs.LocalWrite|verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	mw, err := pd.AllocMW(verbs.MWType2B)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := v.Verbs.CreateCQ(10, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := v.ShowMR(); len(l) != 1 || l[0].STag != mr.RKey() || l[0].Len != 100 || l[0].Access != "lw,rr" {
		t.Errorf("regions: %+v", l)
	}
	if l := v.ShowMW(); len(l) != 1 || l[0].STag != mw.RKey() || l[0].Kind != "2B" || l[0].MR != 0 {
		t.Errorf("windows: %+v", l)
	}
	if l := v.ShowCQ(); len(l) != 1 || l[0].Num != cq.Num() || l[0].Entries != 10 || l[0].Waiting != 0 {
		t.Errorf("completion queues: %+v", l)
	}
}

func TestLastStampNeedsAFrame(t *testing.T) {
	v := &View{}
	v.Wire = port.New(&v.Common, frame.Wire, nil, nil)
	if got := v.LastStamp(); got != 0 {
		t.Errorf("%d before the first frame", got)
	}
}
