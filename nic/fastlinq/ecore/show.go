package ecore

import (
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/spq"
)

// HwfnInfo describes a hwfn for display.
type HwfnInfo struct {
	Device, State string
	Call          string // under way
	Hwfn, PF      int
	Chip          Kind
	Personality   Personality
	MTU           int
	MF            MFMode
	IntMode       IntMode
	Load          Load
	Firmware      fw.Version // of the storms; 0: none was loaded
	Form          fw.Form    // of its file
	Phases        []string
	Fastpath      bool
	Tunnels       Tunnels
	Shares        [NumResources]Share
	PTT           hw.PTTStats
	CIDs          []cxt.Use
	ILTUsed       int // lines
	ILTLimit      int
	ILTMapped     int    // lines that were given a page when they were first used
	Contexts      int    // in memory, of connections and shared receive queues
	SRQs          [2]int // used, and of how many
	Lines         [cxt.NumClients]cxt.Lines
	Tasks         int // RDMA
	TasksLess     int
	RTValid       int
	SPQ           spq.Stats
	EQ            spq.EQStats
	Ramrods       uint64 // that the firmware has executed
	ByCommand     []RamrodCount
	Doorbells     int // in the recovery list
	BellsAgain    uint64
	Health        string
}

// Show describes the hwfns, nil before hw_prepare.
func (d *Dev) Show() (list []HwfnInfo) {
	for _, h := range d.Hwfns {
		i := HwfnInfo{Device: d.cfg.Name, State: d.state.String(), Call: d.call, Hwfn: h.Index, PF: h.storm.pf,
			Chip:        d.cfg.Chip.Kind,
			Personality: h.info.Personality, MTU: h.info.MTU, MF: d.cfg.Chip.MF, IntMode: d.intMode, Load: h.load,
			Phases:   h.Phases(),
			Fastpath: d.FastpathOpen(), Tunnels: h.storm.tunnels, Shares: h.res, PTT: h.BAR.Stats(),
			Ramrods: h.storm.executed(), ByCommand: h.storm.commands(),
			Health: d.HealthState()}
		if d.image != nil {
			i.Firmware, i.Form = h.Firmware(), d.image.Form
		}
		if a := h.alloc; a != nil {
			i.CIDs = a.cxt.CIDs(-1)
			i.ILTUsed, i.ILTLimit, i.ILTMapped, i.Contexts = a.cxt.ILT()
			i.SRQs[0], i.SRQs[1] = a.cxt.SRQs()
			for c := range cxt.NumClients {
				i.Lines[c] = a.cxt.Lines(c)
			}
			if p := h.info.Personality.rdma(); p != cxt.Common {
				i.Tasks, i.TasksLess = a.cxt.Tasks(p)
			}
			i.RTValid, i.SPQ, i.EQ = a.rt.Valid(), a.spq.Stats(), a.eq.Stats()
			i.Doorbells, i.BellsAgain = a.bells.Len(), a.bells.Occurred()
		}
		list = append(list, i)
	}
	return list
}
