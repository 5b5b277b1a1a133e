package nic

import (
	"fmt"
	"strconv"
	"strings"

	"tapir/nic/fastlinq/cmt"
	"tapir/wire/ether"
)

// engineParams are the settings of a NIC with two engines.
func engineParams() []*Param {
	all := []*Param{
		boolean(Param{Name: "iwarp_cmt", Origin: originDriver, Help: "pin all packets but RoCE's to the engine of RDMA, as a card does that is to have iWARP on two"},
			func(c *Config) *bool { return &c.CMT.PinIWARP }, false),
		list(Param{Name: "llh_affinity", Origin: originDriver, Expect: "PPFIDs with an engine, such as 1:engine1 or 0:both, with commas, or none", Help: "engine that the packets of a PPFID go to; the others are spread over both by their hash"},
			"none", func(c *Config) *[]PPFIDAffinity { return &c.CMT.Affinity }, parseAffinity, func(a PPFIDAffinity) string { return fmt.Sprintf("%d:%v", a.PPFID, a.Affinity) }),
		list(Param{Name: "llh_filters", Origin: originDriver, Expect: "filters such as 1 tcp-dst 3260 or 1 mac 02:00:00:00:00:01, with commas, or none", Help: "packets that are a PPFID's, at most 16 kinds each; what no filter matches is PPFID 0's"},
			"none", func(c *Config) *[]LLHFilter { return &c.CMT.Filters }, parseLLHFilter, formatLLHFilter),
		engineState("engine0", 0), engineState("engine1", 1),
	}
	for _, p := range all {
		p.Runtime = true
	}
	return append([]*Param{
		number(Param{Name: "engines", Origin: originDriver, Help: "engines of the NIC: 2 share its Ethernet side, each on a thread of its own (CMT)"},
			func(c *Config) *int { return &c.Engines }, 1, 1, cmt.Engines),
	}, all...)
}

func engineState(name string, engine int) *Param {
	return choice(Param{Name: name, Origin: originTapir, Help: "what becomes of that engine: a fault, or its recovery. no_filters: the filters of its vport are lost"},
		func(c *Config) *EngineState { return &c.CMT.States[engine] },
		named[EngineState]{"working", EngineWorks}, named[EngineState]{"failed", EngineFailed}, named[EngineState]{"no_filters", EngineUnfiltered})
}

func parsePPFID(s string) (int, error) {
	id, err := strconv.Atoi(s)
	if err != nil || id < 0 || id >= cmt.MaxPPFIDs {
		return 0, errValue
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
var llhWords = [...]string{cmt.FilterMAC: "mac", cmt.FilterEtherType: "ethertype", cmt.FilterTCPSrc: "tcp-src", cmt.FilterTCPDst: "tcp-dst", cmt.FilterTCPBoth: "tcp",
	cmt.FilterUDPSrc: "udp-src", cmt.FilterUDPDst: "udp-dst", cmt.FilterUDPBoth: "udp"}

// parseLLHFilter reads PPFID KIND VALUE, where kinds of two ports have SRC:DST.
func parseLLHFilter(s string) (f LLHFilter, err error) {
	words := strings.Fields(s)
	if len(words) != 3 {
		return f, errValue
	}
	if f.PPFID, err = parsePPFID(words[0]); err != nil {
		return f, err
	}
	err = errValue
	for kind, word := range llhWords {
		if word == words[1] {
			f.Kind = cmt.FilterKind(kind)
			err = llhValue(&f.Filter, words[2])
		}
	}
	return f, err
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
		if err = llhNumber(&f.SrcPort, src); err == nil {
			err = llhNumber(&f.DstPort, dst)
		}
	}
	return err
}

func llhNumber(to *uint16, v string) error {
	n, err := strconv.ParseUint(v, 0, 16)
	if err != nil || n == 0 {
		return errValue
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
