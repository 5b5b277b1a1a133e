package fabric

import (
	"fmt"
	"strings"

	"tapir/opa"
	"tapir/opa/em"
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
	cfg    Config // with its defaults
	port   *hfi.Port
	vports *vnic.Port
	sma    *sma.Agent
	vema   *vema.Agent
	smLID  opa.LID // the fabric manager in charge, and the way to it
	smSL   uint8
	now    frame.Time
}

// NewHFI returns the HFI of cfg with its link down. agents answer management
// packets beside those that every managed port has. Vports of an HFI that is
// not managed exist from now on.
func NewHFI(cfg Config, env hfi.Env, agents ...mad.Agent) (*HFI, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &HFI{cfg: cfg.withDefaults()}
	c := &h.cfg
	var err error
	h.port, err = hfi.New(hfi.Config{Name: c.Name, GUID: c.GUID, LID: c.LID, PKeys: c.PKeys, MTU: c.MTU, Framing: c.Framing, ICRC: c.ICRC}, env)
	if err != nil {
		return nil, err
	}
	h.vports = vnic.NewPort(h.port, env.Pool)
	h.sma, h.vema = sma.New(h), vema.New(h.vports, func(uint8) vnic.Policy { return c.Policy })
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
		if err := d.Configure(v.vport(num)); err != nil {
			return err
		}
	}
	return nil
}

// Config is the configuration with its defaults filled in.
func (h *HFI) Config() *Config { return &h.cfg }

// Ready says of the HFI what a Node's Ready does.
func (h *HFI) Ready() string { return h.cfg.ready("-") }

func (c *Config) ready(tap string) string {
	lid, vnics := "-", "-"
	if c.LID != 0 {
		lid = c.LID.String()
	}
	var list []string
	for _, v := range c.VNICs {
		list = append(list, fmt.Sprintf("%d:%s", v.VESW, v.TAP))
	}
	if list != nil {
		vnics = strings.Join(list, ",")
	}
	return fmt.Sprintf("ready %s guid=%s lid=%s tap=%s framing=%v vesw=%s", c.Name, guidText(c.GUID), lid, tap, c.Framing, vnics)
}

// Port is the HFI port.
func (h *HFI) Port() *hfi.Port { return h.port }

// VPorts are its vports.
func (h *HFI) VPorts() *vnic.Port { return h.vports }

// ReceiveFabric takes frames that came in from the fabric.
func (h *HFI) ReceiveFabric(frames []*frame.Frame, now frame.Time) {
	h.now = now
	h.port.Receive(frames, now)
}

// Poll lets port and agents send, then hands the hosts what came. It returns
// the next deadline.
func (h *HFI) Poll(now frame.Time) frame.Time {
	h.now = now
	next := h.port.Poll(now)
	return min(next, h.vports.Poll(now))
}

// Counters are those of the port and of its agents.
func (h *HFI) Counters() []Counter {
	list := []Counter{}
	counts := h.port.Counts()
	for _, c := range counts.Counters() {
		list = append(list, Counter(c))
	}
	s, v := h.sma.Counters(), h.vema.Counters()
	return append(list,
		Counter{"sma_gets", s.Gets}, Counter{"sma_sets", s.Sets}, Counter{"sma_refused", s.Refused},
		Counter{"vema_gets", v.Gets}, Counter{"vema_sets", v.Sets}, Counter{"vema_refused", v.Refused}, Counter{"vema_malformed", v.Malformed},
		Counter{"vema_traps", v.Traps}, Counter{"vema_traps_delayed", v.Delayed}, Counter{"vema_traps_repressed", v.Repressed})
}

// appendDrops lists the reasons for which frames were lost at TAPs.
func appendDrops(list []Counter, drops frame.Drops) []Counter {
	for r := range frame.DropReasons() {
		if drops[r] > 0 {
			list = append(list, Counter{"tap_drop_" + strings.ReplaceAll(strings.ToLower(r.String()), " ", "_"), drops[r]})
		}
	}
	return list
}

// ManagerCounters are those of an Ethernet Manager.
func ManagerCounters(m *em.Manager) []Counter {
	c := m.Counters()
	return []Counter{
		{"mads_sent", c.Sent}, {"mads_received", c.Received}, {"retries", c.Retries}, {"timeouts", c.Timeouts},
		{"refused", c.Refused}, {"unexpected", c.Unexpected}, {"malformed", c.Malformed}, {"traps", c.Traps},
		{"unknown_traps", c.UnknownTraps}, {"sets", c.Sets}, {"takeovers", c.Takeovers}, {"ports_down", c.PortsDown},
		{"agent_restarts", c.Restarts}, {"duplicate_macs", c.DuplicateMACs}, {"refused_macs", c.RefusedMACs},
		{"duplicate_lids", c.DuplicateLIDs}, {"table_overflows", c.TableOverflows}, {"reconfigurations", c.Reconfigurations},
	}
}
