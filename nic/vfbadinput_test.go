package nic

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
)

// Messages that are truncated, too long, unknown or out of order, and requests for what is
// another's, get the status of the guide or none, and leave everything as it was: the VF's own
// traffic and that of others goes on.
//
// IO-09 IO-13 IO-15 IO-32
func TestVFBadMessages(t *testing.T) {
	r := newVFs(t, Config{}, fastlinq.SRIOV{Queues: 2, Total: 4}, 3)
	d := r.hand(1, vfdrv.Config{Want: tlv.Resources{RxQueues: 2, TxQueues: 2, Blocks: 2, MACs: 1, VLANs: 2}})
	const reply, free, own = 0x10000, 2, 1
	own1 := ether.Addr{2, 0, 0, 0, 0, 0x61}
	r.ok(d.Acquire())
	d.up(own1, 1)
	blank := r.hand(free, vfdrv.Config{}) // a VF whose driver has done nothing yet

	acquire := func(want tlv.Resources) []byte {
		return tlv.Request(tlv.Acquire, reply, &tlv.AcquireRequest{Want: want, VF: tlv.VFInfo{HSIMajor: iov.HSIMajor}})
	}
	rxq := func(queue, block, pages uint16) []byte {
		return tlv.Request(tlv.StartRxq, reply, &tlv.StartRxqRequest{PBLSize: pages, Block: block, Queue: queue, BufSize: 2048})
	}
	ucast := func(op l2.Opcode, typ l2.FilterType, mac ether.Addr, vlan uint16) []byte {
		return tlv.Request(tlv.UcastFilter, reply, &tlv.UcastRequest{Op: uint8(op), Type: uint8(typ), MAC: mac, VLAN: vlan})
	}
	simple := func(typ tlv.Type) []byte { return tlv.Request(typ, reply, &tlv.First{}) }
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	length := func(b []byte, n uint16) []byte {
		b = slices.Clone(b)
		binary.LittleEndian.PutUint16(b[2:], n)
		return b
	}
	first, _ := r.b.IOV().VFInfo(own)
	other, _ := r.b.IOV().VFInfo(0)
	for _, c := range []struct {
		name string
		to   *vfDriver
		msg  []byte
		want tlv.Status // Waiting: no reply
	}{
		{"nothing", d, nil, tlv.Waiting},
		{"less than a header", d, []byte{1, 0, 16}, tlv.Waiting},
		{"without its end", d, cut(simple(tlv.IntCleanup), tlv.EndLen), tlv.Failure},
		{"cut in the end", d, cut(simple(tlv.IntCleanup), 5), tlv.Failure},
		{"a length of 0", d, length(simple(tlv.UpdateMTU), 0), tlv.Failure},
		{"a length beyond the message", d, length(simple(tlv.UpdateMTU), 4000), tlv.Failure},
		{"a structure that is too short", d, simple(tlv.UpdateMTU), tlv.Failure},
		{"more than 1024 octets", d, append(cut(simple(tlv.IntCleanup), tlv.EndLen), make([]byte, 4000)...), tlv.Failure},
		{"an unknown type", d, simple(200), tlv.NotSupported}, // by the address of ACQUIRE
		{"an unknown type, by another address", d, tlv.Request(200, 0x7777, &tlv.First{}), tlv.Waiting},
		{"a part as a message", d, simple(tlv.UpdateRSS), tlv.NotSupported},
		{"no part that is known", d, simple(tlv.VportUpdate), tlv.NotSupported},
		{"ACQUIRE a second time", d, acquire(tlv.Resources{}), tlv.Acquired},
		{"a vport a second time", d, tlv.Request(tlv.VportStart, reply, &tlv.VportStartRequest{MTU: 1500}), tlv.Failure},
		{"a queue a second time", d, rxq(0, first.Blocks[0], 1), tlv.NoResource},
		{"a queue beyond the share", d, rxq(2, first.Blocks[0], 1), tlv.NoResource},
		{"the status block of another VF", d, rxq(1, other.Blocks[0], 1), tlv.NoResource},
		{"a ring without pages", d, rxq(1, first.Blocks[1], 0), tlv.Failure},
		{"two queues to stop", d, tlv.Request(tlv.StopRxqs, reply, &tlv.StopRxqsRequest{Num: 2}), tlv.NotSupported},
		{"a queue to stop that is not started", d, tlv.Request(tlv.StopRxqs, reply, &tlv.StopRxqsRequest{Queue: 1, Num: 1}),
			tlv.Failure},
		{"a group as station", d, ucast(l2.FilterAdd, l2.FilterMAC, ether.Addr{1, 0, 0x5e, 0, 0, 1}, 0), tlv.Failure},
		{"VLAN 4096", d, ucast(l2.FilterAdd, l2.FilterVLAN, ether.Addr{}, 4096), tlv.Failure},
		{"a filter that there is not", d, ucast(9, l2.FilterMAC, own1, 0), tlv.Failure},
		{"coalescing of a queue that is not started", d, tlv.Request(tlv.CoalesceUpdate, reply,
			&tlv.CoalesceRequest{Rx: 20, Queue: 1}), tlv.Failure},
		{"before ACQUIRE: a vport", blank, tlv.Request(tlv.VportStart, reply, &tlv.VportStartRequest{MTU: 1500}), tlv.Failure},
		{"before ACQUIRE: a queue", blank, rxq(0, 0, 1), tlv.Failure},
		{"more queues than the share", blank, acquire(tlv.Resources{RxQueues: 3}), tlv.NoResource},
		{"more filters than the share", blank, acquire(tlv.Resources{MACs: 2}), tlv.NoResource},
	} {
		before := r.states()
		mem := &rawMemory{}
		r.ok(r.b.IOV().Connect(c.to.vf, mem))
		r.ok(c.to.Send(c.msg))
		r.run(0)
		got := tlv.Waiting
		if len(mem.last) > 4 {
			got = tlv.Status(mem.last[4])
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if now := r.states(); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: VFs change from\n%+v to\n%+v", c.name, before, now)
		}
		r.clear()
		r.passes(1, r.mac[0], own1, 1<<0)
		r.passes(0, own1, r.mac[0], 1<<1)
	}
	if n := r.counter("vf1_malformed"); n != 8 || r.counter("vf0_malformed") != 0 {
		t.Errorf("%d malformed messages are counted", n)
	}
}

// states are all VFs as the PF has them.
func (r *vfRig) states() (list []iov.VFInfo) {
	for vf := range r.vfs {
		i, err := r.b.IOV().VFInfo(vf)
		r.ok(err)
		i.Counts, i.BulletinVersion = iov.Counts{}, 0
		list = append(list, i)
	}
	return list
}
