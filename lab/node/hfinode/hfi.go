package hfinode

import (
	"tapir/lab/node/nodectl"
	"tapir/nic/al"
	"tapir/nic/port"
	"tapir/nic/ptp"
	"tapir/nic/timer"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/opa/sma"
	"tapir/vnic"
	"tapir/vnic/vema"
	"tapir/wire/frame"
)

// HFI is an HFI port with its vports and agents. It knows no clock, TAP or
// goroutine: the loop of a Node drives it in real time, a lab in virtual time.
type HFI struct {
	timer.Queue
	PTP *ptp.Service // the PTP unit of the fabric port

	cfg    Config      // with its defaults
	common port.Common // of the side below the port
	fabric *port.Port
	port   *hfi.Port
	vports *vnic.Port
	sma    *sma.Agent
	vema   *vema.Agent
	tools  *sma.IB // for InfiniBand's tools
	smLID  opa.LID // the fabric manager in charge, and the way to it
	smSL   uint8
	now    frame.Time
	seen   seen
	raise  func(al.EventType) // takes events of the port
}

// NewHFI returns the HFI of cfg with its link down. agents answer management
// packets beside those that every managed port has. Vports of an HFI that is
// not managed exist from now on.
func NewHFI(cfg Config, env Env, agents ...mad.Agent) (*HFI, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &HFI{cfg: cfg.WithDefaults()}
	c := &h.cfg
	if err := h.compose(&env); err != nil {
		return nil, err
	}
	h.raise = func(al.EventType) {}
	h.port.Watch(h.portEvent)
	h.vports = vnic.NewPort(h.port, env.Pool)
	h.sma, h.vema = sma.New(h), vema.New(h.vports, func(uint8) vnic.Policy { return c.Policy })
	h.tools = sma.NewIB(h, h.portCounters)
	h.port.Attach(h.tools)
	h.port.Attach(sma.NewPerf(h.portStatus))
	if c.Managed {
		h.port.Attach(h.sma)
		h.port.Attach(h.vema)
	}
	for _, a := range agents {
		h.port.Attach(a)
	}
	return h, h.static()
}

// static makes the vports of an HFI without an Ethernet Manager.
func (h *HFI) static() error {
	if h.cfg.Managed {
		return nil
	}
	for i, v := range h.cfg.VNICs {
		num := uint8(i + 1)
		d, err := h.vports.Create(num, v.Policy)
		if err != nil {
			return err
		}
		if err := d.Configure(v.VPort(num)); err != nil {
			return err
		}
	}
	return nil
}

// Config is the configuration with its defaults filled in.
func (h *HFI) Config() *Config { return &h.cfg }

// Ready says of the HFI what a Node's Ready does.
func (h *HFI) Ready() string { return h.cfg.Ready("-") }

// Port is the HFI port.
func (h *HFI) Port() *hfi.Port { return h.port }

// VPorts are its vports.
func (h *HFI) VPorts() *vnic.Port { return h.vports }

// Counters are those of the port and of its agents.
func (h *HFI) Counters() []nodectl.Counter {
	var list []nodectl.Counter
	for _, c := range new(h.port.Counts()).Counters() {
		list = append(list, nodectl.Counter(c))
	}
	for _, c := range h.PTP.Counters() {
		list = append(list, nodectl.Counter(c))
	}
	s, v, t := h.sma.Counters(), h.vema.Counters(), h.tools.Counters()
	return append(list,
		nodectl.Count("ib_mads", t.Gets), nodectl.Count("ib_mads_refused", t.Refused),
		nodectl.Count("sma_gets", s.Gets), nodectl.Count("sma_sets", s.Sets), nodectl.Count("sma_refused", s.Refused),
		nodectl.Count("vema_gets", v.Gets), nodectl.Count("vema_sets", v.Sets),
		nodectl.Count("vema_refused", v.Refused), nodectl.Count("vema_malformed", v.Malformed),
		nodectl.Count("vema_traps", v.Traps), nodectl.Count("vema_traps_delayed", v.Delayed),
		nodectl.Count("vema_traps_repressed", v.Repressed))
}
