package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/param"
	"tapir/wire/ether"
)

// engineRows are the settings of a NIC with two engines.
func (c *Config) engineRows() []*param.Row {
	all := []*param.Row{
		param.Bool(param.Row{Name: "iwarp_cmt", Origin: param.FastLinQ,
			Help: "pin all packets but RoCE's to the engine of RDMA: needed for iWARP on a card with two engines"},
			&c.CMT.PinIWARP, false),
		param.List(param.Row{Name: "llh_affinity", Origin: param.FastLinQ,
			Expect: "PPFIDs with an engine, such as 1:engine1 or 0:both, with commas, or none",
			Help:   "engine that the packets of a PPFID go to; the others are spread over both by their hash"},
			"none", &c.CMT.Affinity, parseAffinity, func(a PPFIDAffinity) string {
				return fmt.Sprintf("%d:%v", a.PPFID, a.Affinity)
			}),
		param.List(param.Row{Name: "llh_filters", Origin: param.FastLinQ,
			Expect: "filters such as 1 tcp-dst 3260 or 1 mac 02:00:00:00:00:01, with commas, or none",
			Help:   "packets that are a PPFID's, at most 16 kinds each; what no filter matches is PPFID 0's"},
			"none", &c.CMT.Filters, parseLLHFilter, formatLLHFilter),
		c.engineState("engine0", 0), c.engineState("engine1", 1),
	}
	for _, p := range all {
		p.Runtime = true
	}
	return append([]*param.Row{
		param.Number(param.Row{Name: "engines", Origin: param.FastLinQ,
			Help: "engines of the NIC: 2 share its Ethernet side, each on a thread of its own (CMT)"},
			&c.Engines, 1, 1, cmt.Engines),
	}, all...)
}

func (c *Config) engineState(name string, engine int) *param.Row {
	return param.Choice(param.Row{Name: name, Origin: param.Tapir,
		Help: "state of that engine: a fault or its recovery; no_filters: its vport has lost its filters"},
		&c.CMT.States[engine],
		param.Named("working", EngineWorks), param.Named("failed", EngineFailed),
		param.Named("no_filters", EngineUnfiltered))
}

func parsePPFID(s string) (int, error) {
	id, err := strconv.Atoi(s)
	if err != nil || id < 0 || id >= cmt.MaxPPFIDs {
		return 0, param.ErrValue
	}
	return id, nil
}

// parseAffinity reads PPFID:ENGINE.
func parseAffinity(s string) (a PPFIDAffinity, err error) {
	id, word, _ := strings.Cut(s, ":")
	if a.PPFID, err = parsePPFID(id); err != nil {
		return a, err
	}
	a.Affinity, err = cmt.ParseAffinity(word)
	return a, err
}

// llhWords are the kinds of filters.
var llhWords = [...]string{cmt.FilterMAC: "mac", cmt.FilterEtherType: "ethertype", cmt.FilterTCPSrc: "tcp-src",
	cmt.FilterTCPDst: "tcp-dst", cmt.FilterTCPBoth: "tcp",
	cmt.FilterUDPSrc: "udp-src", cmt.FilterUDPDst: "udp-dst", cmt.FilterUDPBoth: "udp"}

// parseLLHFilter reads PPFID KIND VALUE, where kinds of two ports have SRC:DST.
func parseLLHFilter(s string) (f LLHFilter, err error) {
	words := strings.Fields(s)
	if len(words) != 3 {
		return f, param.ErrValue
	}
	kind := slices.Index(llhWords[:], words[1])
	if f.PPFID, err = parsePPFID(words[0]); err != nil || kind < 0 {
		return f, param.ErrValue
	}
	f.Kind = cmt.FilterKind(kind)
	return f, llhValue(&f.Filter, words[2])
}

func llhValue(f *cmt.Filter, v string) (err error) {
	switch f.Kind {
	case cmt.FilterMAC:
		f.MAC, err = ether.ParseAddr(v)
	case cmt.FilterEtherType:
		err = llhNumber(&f.EtherType, v)
	case cmt.FilterTCPSrc, cmt.FilterUDPSrc:
		err = llhNumber(&f.SrcPort, v)
	case cmt.FilterTCPDst, cmt.FilterUDPDst:
		err = llhNumber(&f.DstPort, v)
	default:
		src, dst, _ := strings.Cut(v, ":")
		err = cmp.Or(llhNumber(&f.SrcPort, src), llhNumber(&f.DstPort, dst))
	}
	return err
}

func llhNumber(to *uint16, v string) error {
	n, err := strconv.ParseUint(v, 0, 16)
	if err != nil || n == 0 {
		return param.ErrValue
	}
	*to = uint16(n)
	return nil
}

func formatLLHFilter(f LLHFilter) string {
	var v string
	switch f.Kind {
	case cmt.FilterMAC:
		v = f.MAC.String()
	case cmt.FilterEtherType:
		v = fmt.Sprintf("%#04x", f.EtherType)
	case cmt.FilterTCPBoth, cmt.FilterUDPBoth:
		v = fmt.Sprintf("%d:%d", f.SrcPort, f.DstPort)
	default:
		v = strconv.Itoa(int(f.SrcPort | f.DstPort))
	}
	return fmt.Sprintf("%d %s %s", f.PPFID, llhWords[f.Kind], v)
}

// EngineState is how an engine does, which is a fault that is injected.
type EngineState uint8

// CMT are the settings of a NIC with two engines.
type CMT struct {
	// PinIWARP pins all packets but RoCE's to the engine of RDMA. Cards do so when
	// iWARP is to run on a device with two engines.
	PinIWARP bool
	// Affinity of PPFIDs; those that are not named have both engines. Filters say
	// which packets are whose; the rest is PPFID 0's.
	Affinity []PPFIDAffinity
	Filters  []LLHFilter
	States   [cmt.Engines]EngineState
}

// PPFIDAffinity is the engine, or both, of a PPFID.
type PPFIDAffinity struct {
	PPFID    int
	Affinity cmt.Affinity
}

// LLHFilter is a filter of a PPFID.
type LLHFilter struct {
	PPFID int
	cmt.Filter
}

// validateEngines says what a NIC with its number of engines cannot have.
func (c *Config) validateEngines() error {
	e := &c.CMT
	switch {
	case c.Engines < 1 || c.Engines > cmt.Engines:
		return fmt.Errorf("%d engines: want 1 or %d", c.Engines, cmt.Engines)
	case c.Engines == 1 && (e.PinIWARP || e.States != [cmt.Engines]EngineState{} || len(e.Affinity)+len(e.Filters) > 0):
		return fmt.Errorf(
			"iwarp_cmt, llh_affinity, llh_filters, engine0 and engine1 are about two engines: use --engines 2")
	case c.Engines == 2 && len(c.Ethernet.TxRates) > 0:
		return fmt.Errorf("queue_maxrate: with two engines queues have no rates: use tx_maxrate or one engine")
	case c.Engines == 2 && len(c.Ethernet.Stations) > 0:
		return fmt.Errorf("vports: a NIC with two engines has one: use one engine")
	}
	_, err := c.LLH()
	return err
}

// LLH is the classification at the port that the configuration asks for.
func (c *Config) LLH() (*cmt.LLH, error) {
	h, err := cmt.NewLLH(cmt.MaxPPFIDs)
	h.SetFunctionAsDefault()
	for _, a := range c.CMT.Affinity {
		err = cmp.Or(err, h.SetPPFIDAffinity(a.PPFID, a.Affinity))
	}
	if c.CMT.PinIWARP {
		err = cmp.Or(err, h.SetPPFIDAffinity(0, cmt.Engine0))
	}
	for _, f := range c.CMT.Filters {
		err = cmp.Or(err, h.AddFilter(f.PPFID, f.Filter))
	}
	return h, err
}

// The states.
const (
	EngineWorks      EngineState = iota
	EngineFailed                 // nothing passes it
	EngineUnfiltered             // the filters of its vport are missing
)
