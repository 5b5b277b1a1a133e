package vfdrv

import (
	"encoding/binary"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// VportStart starts the VF's vport. Of p it takes MTU, TPA, RemoveInnerVLAN and
// OnlyUntagged; the PF decides on the rest.
func (d *Driver) VportStart(p l2.StartParams) error {
	q := &tlv.VportStartRequest{TPAMode: uint32(p.TPA), MTU: uint16(p.MTU), RemoveInnerVLAN: tlv.Bit(p.RemoveInnerVLAN),
		OnlyUntagged: tlv.Bit(p.OnlyUntagged)}
	for i := range d.got.Got.Num.Blocks {
		q.BlockAddrs[i] = blockAddr + uint64(i)*blockLen
	}
	return d.send(tlv.VportStart, q, nil)
}

// Where a driver's status blocks would lie.
const (
	blockAddr = 0x30000
	blockLen  = 0x1000
)

// VportStop stops the vport. Its queues have to be stopped before.
func (d *Driver) VportStop() error { return d.simple(tlv.VportTeardown) }

// VportUpdate changes the vport. rss, unless it is nil, is a change of RSS whose Queues
// are those of the VF. NOTIMPL: the PF refuses a part, or all, of it; the rest is done.
func (d *Driver) VportUpdate(p l2.UpdateParams, rss *iov.RSS) error {
	var more []any
	add := func(t tlv.Type, h *tlv.Header, v any) {
		*h = tlv.Header{Type: t, Length: uint16(tlv.Size(v))}
		more = append(more, v)
	}
	if p.RxActive != nil || p.TxActive != nil {
		q := &tlv.Activate{UpdateRx: tlv.Bit(p.RxActive != nil), UpdateTx: tlv.Bit(p.TxActive != nil),
			Rx: set(p.RxActive), Tx: set(p.TxActive)}
		add(tlv.UpdateActivate, &q.Header, q)
	}
	if p.TxSwitching != nil {
		q := &tlv.Flag{On: set(p.TxSwitching)}
		add(tlv.UpdateTxSwitch, &q.Header, q)
	}
	if p.InnerVLANRemoval != nil {
		q := &tlv.Flag{On: set(p.InnerVLANRemoval)}
		add(tlv.UpdateVLANStrip, &q.Header, q)
	}
	if p.Bins != nil {
		q := &tlv.Mcast{}
		for i, bins := range p.Bins {
			q.Bins[i/2] |= uint64(bins) << (32 * (i % 2))
		}
		add(tlv.UpdateMcast, &q.Header, q)
	}
	if a := p.Accept; a != nil {
		q := &tlv.AcceptParam{UpdateRx: tlv.Bit(a.UpdateRx), UpdateTx: tlv.Bit(a.UpdateTx), Rx: uint8(a.Rx),
			Tx: uint8(a.Tx)}
		add(tlv.UpdateAcceptParam, &q.Header, q)
	}
	if rss != nil {
		q := rssTLV(rss)
		add(tlv.UpdateRSS, &q.Header, q)
	}
	if p.AcceptAnyVLAN != nil {
		q := &tlv.AcceptAnyVLAN{Update: 1, On: set(p.AcceptAnyVLAN)}
		add(tlv.UpdateAcceptAnyVLAN, &q.Header, q)
	}
	if p.TPA != nil {
		q := tpaTLV(p.TPA)
		add(tlv.UpdateSGETPA, &q.Header, q)
	}
	return d.update(more)
}

// update sends the parts of a VPORT_UPDATE and reads what has become of each.
func (d *Driver) update(more []any) error {
	if err := d.send(tlv.VportUpdate, &tlv.First{}, nil, more...); err != nil {
		return err
	}
	for at := int(binary.LittleEndian.Uint16(d.reply[2:])); ; {
		var r tlv.Reply
		if at > len(d.reply) || tlv.Decode(d.reply[at:], &r) != nil || r.Length < tlv.HeaderLen {
			return status.IO.Errorf("the PF's reply has no end")
		}
		switch {
		case r.Type == tlv.ListEnd:
			return nil
		case r.Status != tlv.Success:
			return &Refused{r.Type, r.Status}
		}
		at += int(r.Length)
	}
}

func rssTLV(r *iov.RSS) *tlv.RSS {
	q := &tlv.RSS{Enable: tlv.Bit(r.Enable), Caps: uint8(r.Hashes), TableLog: uint8(r.TableLog), Key: r.Key}
	for i, on := range []bool{r.UpdateConfig, r.UpdateCaps, r.UpdateTable, r.UpdateKey} {
		q.Flags |= tlv.Bit(on) << i
	}
	for i, id := range r.Queues {
		q.Table[i] = uint16(id)
	}
	return q
}

func tpaTLV(p *l2.TPAParams) *tlv.SGETPA {
	return &tlv.SGETPA{Flags: uint16(tlv.Bit(p.IPv4))*tlv.TPAIPv4 | uint16(tlv.Bit(p.IPv6))*tlv.TPAIPv6,
		Update: tlv.UpdateTPAEnable | tlv.UpdateTPAParams, BuffersPerCQE: uint8(p.MaxBuffersPerCQE),
		MaxSize: uint16(p.MaxSize), MinStart: uint16(p.MinStart), MinContinue: uint16(p.MinContinue),
		MaxAggregations: uint8(p.MaxAggregations)}
}

// Queue is a queue of a VF that is to be started.
type Queue struct {
	ID      int // in the VF
	Block   int // number of its status block in the VF
	PI      uint8
	Pages   int // of its ring, of 4096 octets
	BufSize int // octets of a buffer, of those that receive
	Usage   int // among those with the same ID, if the PF knows QIDs
}

// qid are the TLVs by which a request says which queue it means.
func (d *Driver) qid(usage int) []any {
	if d.got.PF.Capabilities&tlv.PFQueueQIDs == 0 {
		return nil
	}
	return []any{&tlv.QueueID{Header: tlv.Header{Type: tlv.QID, Length: 8}, ID: uint8(usage)}}
}

// block is the id of a status block.
func (d *Driver) block(n int) uint16 {
	if n < 0 || n >= len(d.got.Got.Blocks) {
		return 0xffff
	}
	return d.got.Got.Blocks[n].ID
}

// RxQueueStart starts a receive queue. It returns the offset of its producer.
func (d *Driver) RxQueueStart(q Queue) (offset uint32, err error) {
	var r tlv.StartReply
	err = d.send(tlv.StartRxq, &tlv.StartRxqRequest{PBLSize: uint16(q.Pages), Block: d.block(q.Block),
		Queue: uint16(q.ID), BufSize: uint16(q.BufSize), Index: q.PI}, &r, d.qid(q.Usage)...)
	return r.Offset, err
}

// TxQueueStart starts a transmit queue. It returns the offset of its doorbell.
func (d *Driver) TxQueueStart(q Queue) (offset uint32, err error) {
	var r tlv.StartReply
	err = d.send(tlv.StartTxq, &tlv.StartTxqRequest{PBLSize: uint16(q.Pages), Block: d.block(q.Block),
		Queue: uint16(q.ID), Index: q.PI}, &r, d.qid(q.Usage)...)
	return r.Offset, err
}

// RxQueueStop stops a receive queue.
func (d *Driver) RxQueueStop(q Queue) error {
	return d.send(tlv.StopRxqs, &tlv.StopRxqsRequest{Queue: uint16(q.ID), Num: 1}, nil, d.qid(q.Usage)...)
}

// TxQueueStop stops a transmit queue.
func (d *Driver) TxQueueStop(q Queue) error {
	return d.send(tlv.StopTxqs, &tlv.StopTxqsRequest{Queue: uint16(q.ID), Num: 1}, nil, d.qid(q.Usage)...)
}

// FilterUcast changes the VF's filters. Of p it takes Op, Type, MAC and VLAN.
func (d *Driver) FilterUcast(p l2.UcastParams) error {
	q := &tlv.UcastRequest{Op: uint8(p.Op), Type: uint8(p.Type), MAC: p.MAC, VLAN: p.VLAN}
	return d.send(tlv.UcastFilter, q, nil)
}

// SetMTU changes the MTU of the vport, whose queues go on.
func (d *Driver) SetMTU(mtu int) error {
	return d.send(tlv.UpdateMTU, &tlv.MTURequest{MTU: uint16(mtu)}, nil)
}

// SetCoalesce sets the coalescing times of a queue, in microseconds; 0 leaves one as it
// is.
func (d *Driver) SetCoalesce(queue, rx, tx int) error {
	return d.send(tlv.CoalesceUpdate, &tlv.CoalesceRequest{Rx: uint16(rx), Tx: uint16(tx), Queue: uint16(queue)}, nil)
}

// Coalesce is the coalescing time of a queue, in microseconds.
func (d *Driver) Coalesce(queue int, tx bool) (us int, err error) {
	var r tlv.CoalesceReadReply
	err = d.send(tlv.CoalesceRead, &tlv.CoalesceReadRequest{Queue: uint16(queue), IsRx: tlv.Bit(!tx)}, &r)
	return int(r.Coalesce), err
}

// SetTunnels asks for tunnels that the device is to recognize, and returns those that it
// does.
func (d *Driver) SetTunnels(p l2.TunnelParams) (l2.TunnelParams, error) {
	var r tlv.TunnReply
	err := d.send(tlv.UpdateTunnParam, tlv.WantTunnels(p), &r)
	return r.Params(), err
}

// UseVXLAN asks that the device recognizes VXLAN at a UDP port; other tunnels stay as they are.
// INVAL: the PF does not let VFs change that.
func (d *Driver) UseVXLAN(port uint16) error {
	var r tlv.TunnReply
	q := &tlv.TunnRequest{UpdateModes: 1 << tlv.ModeVXLAN, Modes: 1 << tlv.ModeVXLAN, UpdateVXLANPort: 1,
		VXLANPort: port}
	if err := d.send(tlv.UpdateTunnParam, q, &r); err != nil {
		return err
	}
	if r.VXLAN == 0 || r.VXLANPort != port {
		return status.Inval.Errorf("the PF does not change the port of VXLAN, %d, for a VF: it takes vf_tunnels: true",
			r.VXLANPort)
	}
	return nil
}

// TellMAC tells the PF of the address that a trusted VF uses.
func (d *Driver) TellMAC(mac ether.Addr) error {
	return d.send(tlv.BulletinUpdateMAC, &tlv.MACRequest{MAC: mac}, nil)
}

func set(on *bool) uint8 { return tlv.Bit(on != nil && *on) }
