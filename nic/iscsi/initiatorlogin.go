package iscsi

import (
	"errors"

	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// sendLogin sends a login request.
func (i *Initiator) sendLogin(flags byte, text []byte) {
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.LoginReq)|0x40, flags
	for k := range 6 {
		h[8+k] = byte(i.isid >> (40 - 8*k))
	}
	h[14], h[15] = byte(i.tsih>>8), byte(i.tsih)
	h.Put(iscsi.ITT, i.itt)
	h.Put(iscsi.CmdSN, i.cmdSN)
	i.send(&h, text)
}

// loginRsp takes an answer of the login phase.
func (i *Initiator) loginRsp(h *iscsi.BHS, data []byte, now frame.Time) {
	if i.stage == full {
		i.fail(errors.New("iscsi: login response in the full feature phase"), now)
		return
	}
	if status := uint16(h.U32(iscsi.StatusClass) >> 16); status != 0 {
		i.fail(LoginError(status), now)
		return
	}
	if i.loginText = append(i.loginText, data...); len(i.loginText) > maxText {
		i.fail(errors.New("iscsi: too much text in the login"), now)
		return
	}
	if h[1]&iscsi.Continue != 0 {
		i.sendLogin(i.stage<<2, nil)
		return
	}
	pairs, err := iscsi.ParseText(i.loginText)
	i.loginText = nil
	if err == nil {
		err = i.par.Answered(pairs, &i.agreed, i.cfg.Digests, i.rdma != nil)
	}
	if err != nil {
		i.fail(err, now)
		return
	}
	i.nextLogin(h, pairs, now)
}

// nextLogin sends the next request of the login, or ends it.
func (i *Initiator) nextLogin(h *iscsi.BHS, pairs []iscsi.Pair, now frame.Time) {
	switch transit, nsg := h[1]&iscsi.Transit != 0, h[1]&3; {
	case !transit && i.stage == security:
		text, err := i.auth.Prove(pairs, i.cfg.CHAP, i.cfg.Random)
		if err != nil {
			i.fail(err, now)
			return
		}
		flags := byte(security << 2)
		if i.auth.Proved {
			flags |= iscsi.Transit | operational
		}
		i.sendLogin(flags, text)
	case !transit:
		i.sendLogin(iscsi.Transit|operational<<2|full, nil)
	case i.stage == security && i.cfg.CHAP.MySecret != "" && !i.auth.Knows(pairs, i.cfg.CHAP.MySecret):
		i.fail(ErrAuthentication, now)
	case i.stage == security && nsg == operational:
		i.stage = operational
		i.sendLogin(iscsi.Transit|operational<<2|full, i.par.Offer(i.cfg.Digests, i.cfg.Target != "", i.rdma != nil))
	case nsg == full && i.rdma != nil && i.cfg.Target != "" && !i.par.ISER:
		i.fail(errors.New("iscsi: the target does not go on in iSER"), now)
	case nsg == full && i.stage == operational:
		i.stage, i.tsih = full, uint16(h[14])<<8|uint16(h[15])
		i.par.Digests, i.rd.Digests, i.rd.Max = i.agreed, i.agreed, maxSegment
		i.maxCmdSN = h.U32(iscsi.MaxCmdSN)
		i.cfg.Ready(now)
	default:
		i.fail(errors.New("iscsi: the target goes on to a stage that nobody asked for"), now)
	}
}
