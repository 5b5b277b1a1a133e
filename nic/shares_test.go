package nic

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
)

// What a function is shown to have is what it can have: of each resource that
// devlink lists as many as it says, the next one is refused with the status of that
// resource, in one line, and changes nothing. What nothing in the NIC takes is shown
// without a use.
//
// IN-28 RD-02
func TestSharesAreHeld(t *testing.T) {
	e := newEthernetHost(t, Config{Queues: 4, RDMA: RDMA{MinDPIs: 3, NumQPs: 20, NumMRs: 10, NumSRQs: 5,
		Limits: verbs.Limits{MaxPD: 7, MaxMW: 4}}})
	d, sp, v := e.n.dev, e.slowpath(0), e.n.dev.Verbs
	pd, err := v.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mac := func(i int) l2.UcastParams {
		return l2.UcastParams{Op: l2.FilterAdd, Type: l2.FilterMAC, Sides: l2.Both, MAC: ether.Addr{2, 0, 0, 9, byte(i >> 8), byte(i)}}
	}
	vlan := func(i int) l2.UcastParams {
		return l2.UcastParams{Op: l2.FilterAdd, Type: l2.FilterVLAN, Sides: l2.Both, VLAN: uint16(1 + i)}
	}
	srq := func(int) error { _, err := pd.CreateSRQ(4, 1); return err }
	full := func(err error) bool { return errors.Is(err, verbs.ErrLimit) }
	inval := func(err error) bool { return errors.Is(err, status.Inval) }
	snapshot := func() string {
		b, err := json.Marshal([]any{d.ShowDevlink().Resources, v.Objects(), d.ShowVport()})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	type kind struct {
		take func(i int) error
		full func(error) bool
	}
	kinds := map[string]kind{
		"context":     {func(int) error { _, err := v.Open(nil); return err }, full},
		"pd":          {func(int) error { _, err := v.AllocPD(); return err }, full},
		"mr":          {func(int) error { _, err := pd.RegMR(make([]byte, 8), verbs.LocalWrite); return err }, full},
		"mw":          {func(int) error { _, err := pd.AllocMW(verbs.MWType1); return err }, full},
		"cq":          {func(int) error { _, err := v.CreateCQ(1, nil); return err }, full},
		"qp":          {nil, full}, // with a completion queue of its own, below
		"srq":         {srq, full},
		"share_mac":   {func(i int) error { return sp.FilterUcast(mac(i)) }, func(err error) bool { return errors.Is(err, l2.MACAddFull) }},
		"share_vlan":  {func(i int) error { return sp.FilterUcast(vlan(i)) }, func(err error) bool { return errors.Is(err, l2.VLANAddFull) }},
		"share_vport": {func(i int) error { return sp.VportStart(l2.StartParams{Vport: i, MTU: 1500}) }, inval},
		"share_l2_queue": {func(i int) error {
			_, err := sp.TxQueueStart(l2.QueueParams{Queue: i, Size: 128}, 0)
			return err
		}, inval},
	}
	kinds["share_ll2_queue"] = kind{func(int) error {
		back := func(any, []byte) {}
		_, err := d.LL2().Acquire(ll2.Params{Type: ll2.Test, MTU: 1500, RxDescs: 1, TxDescs: 1}, ll2.Callbacks{
			RxComplete: func(ll2.Rx) {}, RxRelease: back, TxComplete: back, TxRelease: back})
		return err
	}, func(err error) bool { return errors.Is(err, status.Busy) }}
	resource := func(name string) view.DevlinkResource {
		list := d.ShowDevlink().Resources
		return list[slices.IndexFunc(list, func(r view.DevlinkResource) bool { return r.Name == name })]
	}
	cq, err := v.CreateCQ(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.ShowDevlink().Resources {
		k, ok := kinds[r.Name]
		if r.Name == "qp" {
			k.take = func(int) error { _, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}); return err }
		}
		switch {
		case ok:
		case r.Name == "icid" || strings.HasPrefix(r.Name, "cid_") || r.Name == "ilt_lines" || r.Name == "share_ilt",
			r.Name == "share_sb", r.Name == "share_rdma_cnq_ram", r.Name == "share_rss_eng":
			continue // below, and in TestPFParams, TestQueuePairsTakeConnectionIDs
		case r.Occ == nil:
			continue
		default:
			t.Errorf("%s: nothing here exceeds it", r.Name)
			continue
		}
		used, i := *resource(r.Name).Occ, 0
		if r.Name == "share_l2_queue" || r.Name == "share_vport" {
			i = used
		}
		for ; *resource(r.Name).Occ < r.Size; i++ {
			if err := k.take(i); err != nil {
				t.Fatalf("%s: %d of %d: %v", r.Name, *resource(r.Name).Occ, r.Size, err)
			}
		}
		before := snapshot()
		if err := k.take(i); !k.full(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: one more than %d: %v", r.Name, r.Size, err)
		}
		if after := snapshot(); after != before {
			t.Errorf("%s: refused, and now %s, before %s", r.Name, after, before)
		}
		if r.Name == "mr" { // windows need tasks, too
			for _, m := range slices.Clone(v.MRs())[1:] {
				if err := m.Dereg(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if qp, cid := resource("qp"), resource("cid_iwarp"); qp.Size != cid.Size || *qp.Occ != 20 || *cid.Occ != 20 {
		t.Errorf("queue pairs %d of %d, connection ids %d of %d", *qp.Occ, qp.Size, *cid.Occ, cid.Size)
	}
	for range 4 {
		_, err = pd.RegMR(make([]byte, 8), verbs.LocalWrite)
	}
	if r := value(t, d.ShowDevice(), "rdma_tasks", ""); *r.Limit != 10 || *r.Used != 10 || err != nil {
		t.Errorf("%d of %d tasks, %v", *r.Used, *r.Limit, err)
	}
	if _, err = pd.RegMR(make([]byte, 8), verbs.LocalWrite); !full(err) || !strings.Contains(err.Error(), "all 10 tasks are in use") {
		t.Errorf("%v", err)
	}
	rss := func(engine int) error {
		return sp.VportUpdate(l2.UpdateParams{RSS: &l2.RSSParams{Engine: engine, UpdateConfig: true}})
	}
	if r := resource("share_rss_eng"); r.Size != 207 || rss(r.Size-1) != nil || !inval(rss(r.Size)) {
		t.Errorf("%d engines of RSS", r.Size)
	}
	for name, want := range map[string]int{"share_mac": 512, "share_vlan": 512, "share_vport": 208, "share_l2_queue": 4} {
		if r := resource(name); r.Size != want || *r.Occ != want {
			t.Errorf("%s: %d of %d, want %d", name, *r.Occ, r.Size, want)
		}
	}
}
