package show

import (
	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/nic/view"
)

// QPInfo describes a queue pair for display.
type QPInfo = iwarp.QPInfo

// CEPInfo describes a connection end point for display.
type CEPInfo = iwarp.CEPInfo

// ShowQP describes the queue pairs in order of creation.
func (v *View) ShowQP() []QPInfo {
	switch {
	case v.IWARP != nil:
		return v.IWARP.QPs()
	case v.RoCE != nil:
		return v.fabricQPs()
	}
	return nil
}

// ShowCEP describes the listeners, then the connections, in order of
// creation.
func (v *View) ShowCEP() []CEPInfo {
	switch {
	case v.IWARP != nil:
		return v.IWARP.CEPs()
	case v.RoCE != nil:
		return v.fabricCEPs()
	}
	return nil
}

// ShowCQ describes the completion queues in order of creation.
func (v *View) ShowCQ() []view.CQInfo {
	return each(v.Verbs.CQs(), func(c *verbs.CQ) view.CQInfo {
		return view.CQInfo{Num: c.Num(), Entries: c.Cap(), Waiting: c.Len(), Total: c.Total(), Failed: c.Failed()}
	})
}

// ShowMR describes the memory regions in order of creation.
func (v *View) ShowMR() []view.MRInfo {
	return each(v.Verbs.MRs(), func(m *verbs.MR) view.MRInfo {
		return view.MRInfo{Num: m.Num(), STag: m.RKey(), PD: m.PD().Num(), Addr: m.Addr(), Len: m.Len(),
			Access: m.Access().String(), Valid: m.Valid()}
	})
}

// ShowMW describes the memory windows in order of creation.
func (v *View) ShowMW() []view.MWInfo {
	return each(v.Verbs.MWs(), func(w *verbs.MW) view.MWInfo {
		i := view.MWInfo{Num: w.Num(), Kind: w.Kind().String(), STag: w.RKey(), PD: w.PD().Num()}
		if mr := w.Bound(); mr != nil {
			i.MR, i.Addr, i.Len, i.Access = mr.Num(), w.Addr(), w.Len(), w.Access().String()
		}
		if qp := w.QP(); qp != nil {
			i.QP = qp.Num()
		}
		return i
	})
}

// each describes all elements of a list.
func each[T, Info any](list []T, describe func(T) Info) []Info {
	infos := make([]Info, len(list))
	for i, v := range list {
		infos[i] = describe(v)
	}
	return infos
}

// TCPConn is the TCP connection below an RDMA connection, nil if there is
// none: for its state, and for parameters of its own such as TOS, keep-alive
// or congestion control (toe.Conn.SetParams). Those that are set right after
// Connect hold from the SYN on. Only iWARP has such connections.
func (v *View) TCPConn(id *cm.ID) *toe.Conn {
	if v.IWARP == nil {
		return nil
	}
	return v.IWARP.TCP(id)
}

// TCPListener is the TCP listener below an RDMA listener: its parameters are
// those of the connections that it accepts from then on. It is nil without iWARP.
func (v *View) TCPListener(l *cm.Listener) *toe.Listener {
	if v.IWARP == nil {
		return nil
	}
	return v.IWARP.TCPListener(l)
}
