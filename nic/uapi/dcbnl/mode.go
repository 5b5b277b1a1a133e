package dcbnl

import (
	"strings"

	"golang.org/x/sys/unix"

	"tapir/nic/dcbx"
)

// Bits of the mode of DCBX (DCB_CAP_DCBX).
const (
	modeHost   = 1 << 0 // the host decides: what is set acts at once
	modeNIC    = 1 << 1 // DCBX of the NIC decides (LLD_MANAGED)
	modeCEE    = 1 << 2
	modeIEEE   = 1 << 3
	modeStatic = 1 << 4 // no negotiation
	modeAll    = modeHost | modeNIC | modeCEE | modeIEEE | modeStatic
)

// mode is the one that is set.
func (s *State) mode() uint8 {
	m, ok := map[dcbx.Version]uint8{dcbx.IEEE: modeIEEE, dcbx.CEE: modeCEE, dcbx.Dynamic: modeIEEE | modeCEE}[s.Set]
	if !ok {
		return modeHost | modeIEEE
	}
	if m |= modeNIC; s.Static {
		m |= modeStatic
	}
	return m
}

// agent is the LLDP agent that DCBX is on.
const agent = "nearest-bridge"

// setMode makes the settings of a mode. Without a word on who decides, the NIC does.
func (s *State) setMode(n NIC, mode uint8) ([]Change, error) {
	versions := map[uint8]string{modeIEEE: "ieee", modeCEE: "cee", modeIEEE | modeCEE: "dynamic"}
	version, named := versions[mode&(modeIEEE|modeCEE)]
	switch {
	case mode == s.mode():
		return nil, nil
	case s.NoDCBX:
		return nil, refused(unix.EOPNOTSUPP, "dcbx: the NIC's hardware has no DCBX: the host decides")
	case mode&^modeAll != 0, mode&modeHost != 0 && mode&modeNIC != 0:
		return nil, refused(unix.EINVAL, "dcbx: give host or lld-managed, with cee, ieee or both, and static")
	case mode&modeHost != 0 && mode&(modeCEE|modeStatic) != 0:
		return nil, refused(unix.EINVAL, "dcbx: with host there is no DCBX, and only ieee: give lld-managed")
	case mode&modeHost != 0:
		return []Change{{"dcbx", "off"}, {"dcbx_static", "0"}}, nil
	case !named && s.Set == dcbx.Disabled:
		version = "ieee"
	case !named:
		version = n.Setting("dcbx")
	}
	changes := []Change{{"dcbx", version}, {"dcbx_static", "0"}}
	if mode&modeStatic != 0 {
		changes[1].Value = "1"
	}
	if agents := n.Setting("lldp"); !strings.Contains(agents, agent) {
		changes = append(changes, Change{"lldp", withWord(agents, agent, true)})
	}
	return changes, nil
}

// withWord is a list with commas, or none, with a word or without it.
func withWord(list, word string, with bool) string {
	var words []string
	for _, w := range strings.Split(list, ",") {
		if w != word && w != "none" && w != "" {
			words = append(words, w)
		}
	}
	if with {
		words = append(words, word)
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ",")
}
