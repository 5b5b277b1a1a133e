package hficonf

import (
	"cmp"
	"fmt"

	"tapir/lab/conf"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/opa"
	"tapir/opa/em"
)

// EMConfig is a vesw.yaml: the fabric as it is to be, and where its manager
// runs.
type EMConfig struct {
	Port     Config // the HFI of the manager itself
	Priority uint8  // among managers
	Standby  bool   // the lowest priority
	Audit    string // file that the audit log is appended to; empty: none
	FE       string // address on which the front end listens, such as 127.0.0.1:3245; empty: none
	Timing   em.Timing
	Fabric   em.Config
}

// fields are the settings of a manager, bound to c.
func (c *EMConfig) fields() []conf.Field {
	p := &c.Port
	return []conf.Field{
		{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: conf.Name(&p.Name)},
		{Name: "fabric_tap", Expect: "an interface name such as fabem, at most 15 characters",
			Set: conf.Checked(&p.TAP, tap.CheckName)},
		{Name: "wire", Expect: wires.Expect, Set: conf.Checked(&p.Wire, wires.Check)},
		{Name: "bridge", Expect: "the name of a bridge, such as fabric", Set: conf.Checked(&p.Bridge, tap.CheckName)},
		{Name: "guid", Expect: "a GUID that is not 0, such as 0x00117501010000ff",
			Set: conf.Parsed(&p.GUID, parseGUID)},
		{Name: "framing", Expect: "nsh, 88b5 or geneve", Set: conf.Parsed(&p.Framing, opa.ParseFraming)},
		{Name: "icrc", Expect: "v1, none or bad", Set: conf.Parsed(&p.ICRC, opa.ParseICRC)},
		{Name: "priority", Expect: "a number from 0 to 15", Set: conf.Number(&c.Priority, 0, 15)},
		{Name: "audit", Expect: "the name of a file", Set: conf.String(&c.Audit)},
		{Name: "fe", Expect: "an address to listen on, such as 127.0.0.1:3245", Set: conf.Checked(&c.FE, checkListen)},
		{Name: "poll", Expect: "a time such as 2s", Set: conf.Time(&c.Timing.Poll, 1, 0)},
		{Name: "sweep", Expect: "a time such as 500ms", Set: conf.Time(&c.Timing.Sweep, 1, 0)},
		{Name: "takeover", Expect: "a time such as 1s", Set: conf.Time(&c.Timing.Takeover, 1, 0)},
	}
}

// LoadEM reads the vesw.yaml of a manager: what ParseVESWs reads, and
//
//	manager:
//	  fabric_tap: fabem
//	  guid: 0x00117501010000ff
//
// A mistake is a *conf.Error.
func LoadEM(path string) (EMConfig, error) { return conf.Load(path, ParseEM) }

// ParseEM is LoadEM of a file already read; path is for messages only.
func ParseEM(path string, data []byte) (EMConfig, error) {
	f, root, err := parseVESWFile(path, data)
	if err != nil {
		return EMConfig{}, err
	}
	at, ok := f.places[managerKey]
	if !ok {
		return EMConfig{},
			root.Errorf("no manager: give `manager:` with fabric_tap and guid of the port that it runs on")
	}
	return f.config(at, "em0", 0)
}

// managerKey is the part of a vesw.yaml that is about the manager itself.
const managerKey = "manager"

// config is the manager's configuration; name and guid are of its port if the
// file has none. at is where mistakes are.
func (f *veswFile) config(at conf.Node, name string, guid uint64) (EMConfig, error) {
	c := f.manager
	c.Fabric, c.Port.Managed = f.cfg, true
	c.Port.Name, c.Port.GUID = cmp.Or(c.Port.Name, name), cmp.Or(c.Port.GUID, guid)
	if err := c.Port.Validate(); err != nil {
		return c, at.Errorf("%v", err)
	}
	return c, nil
}

// Ready says that the manager runs on an HFI with that fabric TAP.
func (c *EMConfig) Ready(tap string) string {
	role := "manager"
	if c.Standby {
		role = "standby"
	}
	return fmt.Sprintf("ready %s guid=%s tap=%s role=%s vesws=%d", c.Port.ControlName(), GUIDText(c.Port.GUID), tap,
		role, len(c.Fabric.VESWs))
}
