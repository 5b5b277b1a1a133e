package fibre

import "tapir/wire/fc"

// fcp judges an information unit, or a part of one.
func (f *Fabric) fcp(h *fc.Header, t *task, payload []byte, opens bool) {
	if opens {
		f.command(h, t, payload)
		return
	}
	switch {
	case !t.is || t.vague:
	case h.RCtl == fc.SolicitedData:
		f.data(h, t, uint32(len(payload)))
	case h.RCtl == fc.DataDescriptor:
		f.transfer(t, payload)
	case h.RCtl == fc.CommandStatus:
		f.response(h, t, payload)
	}
}

func (f *Fabric) command(h *fc.Header, t *task, payload []byte) {
	if h.RCtl != fc.UnsolicitedCmd {
		return
	}
	cmd, err := fc.ParseCommand(payload)
	if err != nil {
		f.bad(fcpShort, "FCP_CMND, %d octets", len(payload))
		return
	}
	t.cmd, t.is = cmd, true
	from, to := f.ports[h.S], f.ports[h.D]
	seen := from != nil && from.in && to != nil && to.in // all that the two have said is in the capture
	if l := f.pairs[pairOf(h.S, h.D)]; seen && (l == nil || !l.port || !l.process) {
		f.bad(frameProcess, "%v to %v", h.S, h.D)
	}
}

// data judges a frame of data. Its parameter is the offset if F_CTL says so.
func (f *Fabric) data(h *fc.Header, t *task, n uint32) {
	write := h.FCtl&fc.FromResponder == 0
	end := uint64(h.Param) + uint64(n)
	switch {
	case h.FCtl&fc.RelOffset != 0 && h.Param != t.moved && t.begins, write && t.begins && t.moved >= t.to:
		f.lacks(t) // of another sequence, or of an FCP_XFER_RDY
		return
	case h.FCtl&fc.RelOffset != 0 && h.Param != t.moved:
		f.bad(fcpOffset, "%d instead of %d", h.Param, t.moved)
		t.vague = true
		return
	case h.FCtl&fc.RelOffset == 0:
		end = uint64(t.moved) + uint64(n)
	}
	t.moved += n
	switch {
	case end > uint64(t.cmd.DataLen):
		f.bad(fcpLong, "%d of %d octets", end, t.cmd.DataLen)
		t.vague = true
	case write && end > uint64(t.to):
		f.bad(fcpUnasked, "up to %d; asked for up to %d", end, t.to)
		t.vague = true
	}
}

func (f *Fabric) transfer(t *task, payload []byte) {
	x, err := fc.ParseTransfer(payload)
	switch {
	case err != nil:
		f.bad(fcpShort, "FCP_XFER_RDY, %d octets", len(payload))
	case x.Burst == 0 || uint64(x.Offset)+uint64(x.Burst) > uint64(t.cmd.DataLen):
		f.bad(fcpTransfer, "%d at %d of %d octets", x.Burst, x.Offset, t.cmd.DataLen)
		t.vague = true
	default:
		t.to, t.moved = x.Offset+x.Burst, x.Offset
	}
}

func (f *Fabric) response(h *fc.Header, t *task, payload []byte) {
	r, err := fc.ParseResponse(payload)
	if err != nil {
		f.bad(fcpShort, "FCP_RSP, %d octets", len(payload))
		return
	}
	if r.Flags&fc.ConfirmWanted == 0 && h.FCtl&fc.Last == 0 {
		f.bad(fcpEnd, "")
	}
	if t.seq[0].open { // written data has no end
		f.lacks(t)
	}
	if t.vague || r.Status != 0 || t.cmd.Flags == 0 {
		return
	}
	want := t.cmd.DataLen
	if r.Flags&fc.Underrun != 0 {
		if r.Residual > want {
			f.bad(fcpResidual, "%d too few of %d octets", r.Residual, want)
			return
		}
		want -= r.Residual
	}
	if t.moved != want {
		f.bad(fcpResidual, "%d of %d octets came, %d too few", t.moved, t.cmd.DataLen, r.Residual)
	}
}
