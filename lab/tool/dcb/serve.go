package dcb

import (
	"context"
	"encoding/json"
	"fmt"

	"tapir/lab/tool/ctl"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/uapi/dcbnl"
	"tapir/wire/frame"
)

// command hands a netlink message to a NIC: a dcbnl.Request in, a dcbnl.Answer out.
const command = "dcbnl"

// Client asks a NIC, which has the name of a netdev.
func Client(ctx context.Context, c *ctl.Client, netdev string) *dcbnl.Client {
	return &dcbnl.Client{Netdev: netdev, Ask: func(r dcbnl.Request) (a dcbnl.Answer, err error) {
		return a, c.Command(ctx, command, r, &a)
	}}
}

// Commands are those of the NIC's control server.
func Commands(d *nic.Device, on ctl.Thread) map[string]ctl.Answer {
	return map[string]ctl.Answer{command: func(_ context.Context, raw json.RawMessage) (any, error) {
		var r dcbnl.Request
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, ctl.BadRequest(fmt.Errorf("the arguments cannot be read: %w", err))
		}
		var a dcbnl.Answer
		err := on.DoWait(func(frame.Time) { a = dcbnl.Serve(port{d}, r) })
		return a, err
	}}
}

// port is a NIC as dcbnl wants it, on the NIC's thread.
type port struct{ *nic.Device }

// State implements dcbnl.NIC.
func (p port) State() (s dcbnl.State, err error) {
	cfg := p.Config()
	x := fastlinq.DCBX{Classes: cfg.DCB.Values()}
	if h := fastlinq.Of(p.Hardware); h != nil {
		if x, err = h.DCBX(); err != nil {
			return s, err
		}
	} else {
		x.Admin, s.NoDCBX = x.Set.Values(x.Classes), true
	}
	s.Port, s.Admin, s.Oper, s.Peer = x.Classes, x.Admin, x.Oper, x.Remote
	s.Set, s.Version, s.Static = x.Set.Version, x.Version, x.Set.Static
	if p.Wire.PFC() {
		counted := map[string]*uint64{}
		for prio := range s.Sent {
			counted[fmt.Sprintf("tx_prio%d_pause", prio)] = &s.Sent[prio]
			counted[fmt.Sprintf("rx_prio%d_pause", prio)] = &s.Received[prio]
		}
		for _, c := range p.Counters() {
			if n := counted[c.Name]; n != nil {
				*n = c.Value
			}
		}
	}
	return s, nil
}

// Setting implements dcbnl.NIC.
func (p port) Setting(name string) string {
	cfg := p.Config()
	if r := cfg.Param(name); r != nil {
		return r.Get()
	}
	return ""
}

// Set implements dcbnl.NIC.
func (p port) Set(changes ...dcbnl.Change) error {
	list := make([]nic.Setting, len(changes))
	for i, c := range changes {
		list[i] = nic.Setting(c)
	}
	return p.Device.Set(list...)
}
