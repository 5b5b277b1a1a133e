package fastlinq

import (
	"errors"
	"fmt"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/fcoe"
	"tapir/nic/fastlinq/iscsi"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/rdma"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// What the driver of the host function asks of the firmware goes by the slowpath
// queue of the hwfn, as ramrods: the firmware executes them when it takes them
// from there, and answers by the event queue. So the netdev opens after hw_init,
// and closes before hw_stop.

// slowpath is the way of the ramrods of one engine's vport.
type slowpath struct {
	d     *Device
	hwfn  int
	waits bool // for a ramrod in mode EBLOCK
}

// post sends a ramrod and lets the core work until it is answered. INVAL: the
// device does not run, or has no such queue. BUSY: the firmware does not answer; the
// slowpath queue waits on, and reports a hardware error when the ramrod's time has
// come.
func (s *slowpath) post(r *l2.Ramrod) error {
	d, dev := s.d, s.d.core.dev
	if dev.State() != ecore.Running {
		return status.Inval.Errorf("ramrod %v in state %v", r.Command, dev.State())
	}
	if s.waits {
		d.pollCore(d.now())
	}
	if s.waits {
		return status.Busy.Errorf("ramrod %v: one before it is not answered", r.Command)
	}
	q, err := s.request(r)
	if err != nil {
		return err
	}
	answered, late := false, false
	q.Done = func(res spq.Result, _ frame.Time) {
		answered = true
		if r.Err = outcome(r, res); !r.Async {
			s.waits = false
		} else if late {
			d.management.note(r.Err)
		}
	}
	s.waits = !r.Async
	if err := dev.Hwfns[s.hwfn].Post(q, d.now()); err != nil {
		s.waits = false
		return err
	}
	for !answered && d.pollCore(d.now()) <= d.now() {
	}
	if answered {
		return r.Err
	}
	late = true
	d.nic.Schedule(d.now(), d.Manage) // which waits on
	if r.Async {
		return nil
	}
	return status.Busy.Errorf("ramrod %v is not answered", r.Command)
}

// fwAssert reports a ramrod that the firmware must not accept.
func (s *slowpath) fwAssert(text string) {
	s.d.core.dev.Hwfns[s.hwfn].HWError(ecore.FWAssert, errors.New(text))
}

// request is a ramrod as the slowpath queue takes it: for the connection of the
// queue that it is about, or the slowpath's own.
func (s *slowpath) request(r *l2.Ramrod) (spq.Request, error) {
	h, queues := s.d.core.dev.Hwfns[s.hwfn], s.d.core.queues[s.hwfn]
	if r.Queue < 0 || 2*r.Queue >= len(queues) {
		return spq.Request{}, status.Inval.Errorf("ramrod %v: queue %d: the function has %d", r.Command, r.Queue,
			len(queues)/2)
	}
	q := spq.Request{CID: h.SlowpathCID(), Cmd: uint8(r.Command), Protocol: cxt.Eth, Data: r}
	switch r.Command {
	case l2.RxQueueStart, l2.RxQueueStop:
		q.CID = queues[2*r.Queue]
	case l2.TxQueueStart, l2.TxQueueStop:
		q.CID = queues[2*r.Queue+1]
	case l2.PFUpdate:
		q.Cmd, q.Protocol, q.Data = ecore.RamrodPFUpdate, cxt.Common, toCore(r.Tunnels)
	}
	if r.Async {
		q.Mode = spq.Callback
	}
	return q, nil
}

// outcome is what has become of a ramrod.
func outcome(r *l2.Ramrod, res spq.Result) error {
	switch {
	case res.Err != nil:
		return res.Err
	case r.Err == nil && res.Code != 0:
		return status.UnknownError.Errorf("ramrod %v: the firmware returns %d", r.Command, res.Code)
	}
	return r.Err
}

// ethernetRamrods are those of the vport of an engine.
func (d driver) ethernetRamrods(engine int, el spq.Element) (code uint8, _ uint64) {
	code = codeUnknown
	if r, ok := el.Data.(*l2.Ramrod); ok {
		d.onVport(engine, func(fn *l2.Function) { code = fn.Execute(r) })
	}
	return code, 0
}

// codeUnknown is what the firmware returns for a ramrod that means nothing to it.
const codeUnknown = 0xff

// commonRamrods has the vport know the tunnels that the function knows, and the port
// the outer tag.
func (d *Device) commonRamrods(engine int, el spq.Element) (uint8, uint64) {
	tunnels, ok := el.Data.(ecore.Tunnels)
	switch data := el.Data.(type) {
	case ecore.PFStart:
		tunnels, ok = data.Tunnels, true
		d.tag(data.Outer)
	case ecore.Outer:
		d.tag(data)
	}
	if ok {
		d.onVport(engine, func(fn *l2.Function) { d.management.note(fn.SetTunnels(fromCore(tunnels))) })
	}
	return 0, 0
}

// tag has the port put an outer tag on the function's frames.
func (d driver) tag(t ecore.Outer) {
	if d.tagged != nil {
		d.tagged(t.Tag, t.Inner)
	}
}

// onVport runs fn where it may touch the vport of an engine; not at all without a
// host function.
func (d *Device) onVport(engine int, fn func(*l2.Function)) {
	switch {
	case d.function == nil:
	case engine == 0:
		fn(d.function.Function())
	default:
		d.cmt.withSecond(func(e *SecondEngine) { fn(e.netdev.Function()) })
	}
}

// toCore and fromCore are the tunnels of the Ethernet side as the core has them,
// and the other way round.
func toCore(p l2.TunnelParams) ecore.Tunnels {
	t := ecore.Tunnels{VXLANPort: p.VXLANPort, GenevePort: p.GenevePort}
	for i := range t.On {
		if t.On[i] = p.Enable[l2.VXLAN+l2.TunnelType(i)]; p.Class[l2.VXLAN+l2.TunnelType(i)] == l2.ClassInnerMACVLAN {
			t.Class[i] = ecore.ClassInnerMACVLAN
		}
	}
	return t
}

func fromCore(t ecore.Tunnels) l2.TunnelParams {
	p := l2.TunnelParams{VXLANPort: t.VXLANPort, GenevePort: t.GenevePort}
	for i := range t.On {
		if p.Enable[l2.VXLAN+l2.TunnelType(i)] = t.On[i]; t.Class[i] == ecore.ClassInnerMACVLAN {
			p.Class[l2.VXLAN+l2.TunnelType(i)] = l2.ClassInnerMACVLAN
		}
	}
	return p
}

// open opens or closes RDMA and the netdev of the host function.
func (d *Device) open(open bool) error {
	if d.core.open = open; !open {
		d.sriov.stop()
		d.iscsi.stop()
		d.fcoe.stopFunction()
		d.light.stop()
		d.contexts.stop()
		return d.setNetdev(&d.cfg)
	}
	return errors.Join(d.giveShares(), d.contexts.start(), d.light.start(), d.iscsi.start(),
		d.fcoe.startFunction(), d.setNetdev(&d.cfg), d.sriov.start())
}

// RamrodName names a command: "ETH VPORT_START".
func RamrodName(c ecore.RamrodCount) string {
	switch c.Protocol {
	case cxt.Eth:
		return fmt.Sprintf("%v %v", c.Protocol, l2.Command(c.Cmd))
	case cxt.IWARP:
		return fmt.Sprintf("%v %v", c.Protocol, rdma.Command(c.Cmd))
	case cxt.RoCE:
		return fmt.Sprintf("%v %v", c.Protocol, rdma.RoCECommand(c.Cmd))
	case cxt.ISCSI:
		return fmt.Sprintf("%v %v", c.Protocol, iscsi.Command(c.Cmd))
	case cxt.FCoE:
		return fmt.Sprintf("%v %v", c.Protocol, fcoe.Command(c.Cmd))
	case cxt.Core:
		return fmt.Sprintf("%v %v", c.Protocol, ll2.Command(c.Cmd))
	}
	return c.String()
}

// Slowpath is the way of ramrods to the vport of an engine.
func (d *Device) Slowpath(hwfn int) *l2.Slowpath {
	return &l2.Slowpath{Post: (&slowpath{d: d, hwfn: hwfn}).post}
}
