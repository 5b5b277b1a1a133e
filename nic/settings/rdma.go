package settings

import (
	"cmp"
	"fmt"
	"strconv"

	"tapir/nic/hardware"
	"tapir/nic/param"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/verbs"
)

// RDMA sets up the RDMA side of a NIC, with the names of the FastLinQ driver
// core. Zero fields take the value of verbs.DefaultLimits, but for what hardware has
// less of.
type RDMA struct {
	verbs.Limits
	// Personality chooses iWARP or RoCE, a storage function, or Ethernet alone: without RDMA its objects are
	// refused.
	Personality verbs.Personality
	// PKeys is the port's partition key table; none: the default partition alone.
	PKeys []uint16
	// DCQCN is RoCE's congestion control.
	DCQCN dcqcn.Params
	// GIDsV2 leaves entries for RoCE v1 out of the GID table.
	GIDsV2  bool
	MinDPIs int // contexts that can be open at a time
	NumQPs  int // queue pairs; there are twice as many completion queues
	NumMRs  int // memory regions, one of which is reserved
	NumSRQs int
	// DesiredCNQs are the completion notification queues (completion
	// vectors) to start with; more than MaxCNQ is an error.
	DesiredCNQs int
}

// Resources are the limits of the objects.
func (r *RDMA) Resources() verbs.Limits {
	l := r.Limits
	for _, f := range []struct {
		to *int
		v  int
	}{{&l.MaxContext, r.MinDPIs}, {&l.MaxQP, r.NumQPs}, {&l.MaxCQ, 2 * r.NumQPs}, {&l.MaxMR, r.NumMRs - 1},
		{&l.MaxSRQ, r.NumSRQs}} {
		if *f.to == 0 && f.v > 0 {
			*f.to = f.v
		}
	}
	if r.Personality == verbs.RoCE {
		l.MaxSGE, l.MaxQPWR = cmp.Or(l.MaxSGE, roceSGE), cmp.Or(l.MaxQPWR, roceWRs)
		l.MaxInline = cmp.Or(l.MaxInline, roceInline)
		l.MaxIRD, l.MaxORD = min(l.MaxIRD, roceReads), min(l.MaxORD, roceReads)
	}
	if r.Personality.RDMA() {
		l.MaxQP, l.MaxSRQ = cmp.Or(l.MaxQP, hardware.DefaultQPs), cmp.Or(l.MaxSRQ, hardware.DefaultSRQs)
		l.MaxMR, l.MaxMW = cmp.Or(l.MaxMR, hardware.MaxTasks-1), cmp.Or(l.MaxMW, hardware.MaxTasks-1)
	}
	return l
}

// Validate says what a NIC cannot have.
func (r *RDMA) Validate() error {
	switch {
	case r.Personality > verbs.FCoE:
		return fmt.Errorf("personality %d: use iwarp, roce, eth, iscsi or fcoe", r.Personality)
	case min(r.MinDPIs, r.NumQPs, r.NumSRQs, r.DesiredCNQs, r.NumMRs) < 0:
		return fmt.Errorf("RDMA: a number of objects is negative")
	case r.Personality == verbs.IWARP && max(r.NumQPs, r.MaxQP) > hardware.MaxQPs:
		return fmt.Errorf("%d queue pairs: iWARP has connection ids for %d", max(r.NumQPs, r.MaxQP), hardware.MaxQPs)
	case r.Personality == verbs.RoCE && max(r.NumQPs, r.MaxQP) > hardware.MaxRoCEQPs:
		return fmt.Errorf("%d queue pairs: RoCE has connection ids for %d", max(r.NumQPs, r.MaxQP), hardware.MaxRoCEQPs)
	case r.NumMRs == 1:
		return fmt.Errorf("num_mrs 1: one region is reserved, use 2 or more")
	}
	if len(r.PKeys) > 0 && r.Personality != verbs.RoCE {
		return fmt.Errorf("pkeys: personality %v has no partitions: use personality roce", r.Personality)
	}
	if r.DCQCN.Enable && r.Personality != verbs.RoCE {
		return fmt.Errorf("roce_enable_dcqcn: personality %v has no DCQCN: use personality roce", r.Personality)
	}
	if len(r.PKeys) > verbs.MaxPKeys {
		return fmt.Errorf("pkeys: %d keys: the table has %d entries", len(r.PKeys), verbs.MaxPKeys)
	}
	for _, f := range []struct {
		name    string
		v, most int
	}{{"num_mrs", max(r.NumMRs, r.MaxMR+1, r.MaxMW+1), hardware.MaxTasks},
		{"num_srqs", max(r.NumSRQs, r.MaxSRQ), hardware.MaxSRQs},
		{"max_cnq", max(r.MaxCNQ, r.DesiredCNQs), hardware.MaxCNQs}} {
		if r.Personality.RDMA() && f.v > f.most {
			return fmt.Errorf("%s %d: the hardware has %d", f.name, f.v, f.most)
		}
	}
	return nil
}

// What hardware does for RoCE: elements and octets of inline data of a work request, work
// requests of a queue, and Reads of a queue pair, 51 cut to a power of two.
const (
	roceSGE    = 4
	roceWRs    = 0x7fff
	roceInline = 256
	roceReads  = 32
)

// parsePKey reads a partition key, whose lower 15 bits name a partition.
func parsePKey(s string) (uint16, error) {
	k, err := strconv.ParseUint(s, 0, 16)
	if err != nil || k&0x7fff == 0 {
		return 0, param.ErrValue
	}
	return uint16(k), nil
}

// defaults are what the settings below show when nothing was given.
var defaults = verbs.DefaultLimits()

// rdmaRows are the parameters of the RDMA function, those that the FastLinQ
// driver core has before it allocates resources, and the limits of its objects.
func (c *Bound) rdmaRows() []*param.Row {
	list := []*param.Row{
		param.Choice(param.Row{Name: "personality", Origin: param.FastLinQ,
			Help: "what the function does beside Ethernet: " +
				"RDMA by iwarp or roce, storage by iscsi or fcoe, or eth: neither"},
			&c.RDMA.Personality,
			param.Named("iwarp", verbs.IWARP), param.Named("roce", verbs.RoCE), param.Named("eth", verbs.Ethernet),
			param.Named("iscsi", verbs.ISCSI), param.Named("fcoe", verbs.FCoE)),
		param.Choice(param.Row{Name: "gid_types", Origin: param.FastLinQ,
			Help: "entries of the GID table of RoCE: v2 alone, as rxe has them, or both v1 and v2 of each address"},
			&c.RDMA.GIDsV2, param.Named("both", false), param.Named("v2", true)),
	}
	list = append(list, param.List(param.Row{Name: "pkeys", Origin: param.Tapir,
		Expect: "partition keys with commas, such as 0xffff,0x8001; limited members without 0x8000",
		Help:   "partition keys of a RoCE port; packets of other partitions are dropped"}, "0xffff", &c.RDMA.PKeys,
		parsePKey, func(k uint16) string { return fmt.Sprintf("%#04x", k) }))
	list = append(list, c.dcqcnRows()...)
	for _, l := range []struct {
		name, help string
		field      *int
		def, low   int
	}{
		{"min_dpis", "contexts that can be open at a time", &c.RDMA.MinDPIs, defaults.MaxContext, 1},
		{"num_qps", "queue pairs, at most 32512 of iWARP, 32768 of RoCE; there are twice as many completion queues",
			&c.RDMA.NumQPs, hardware.DefaultQPs, 1},
		{"num_mrs", "memory regions, at most 131071; one is reserved, windows count with them", &c.RDMA.NumMRs,
			hardware.MaxTasks, 2},
		{"num_srqs", "shared receive queues, at most 32768", &c.RDMA.NumSRQs, hardware.DefaultSRQs, 1},
		{"max_cnq", "completion notification queues that there are, at most 64", &c.RDMA.MaxCNQ, defaults.MaxCNQ, 1},
		{"desired_cnq", "completion notification queues to start with, 0 for all; more than max_cnq is an error",
			&c.RDMA.DesiredCNQs, 0, 0},
		{"max_qp_wr", "work requests per send or receive queue", &c.RDMA.MaxQPWR, defaults.MaxQPWR, 1},
		{"max_srq_wr", "work requests per shared receive queue", &c.RDMA.MaxSRQWR, defaults.MaxSRQWR, 1},
		{"max_cqe", "entries per completion queue", &c.RDMA.MaxCQE, defaults.MaxCQE, 1},
		{"max_sge", "elements per work request", &c.RDMA.MaxSGE, defaults.MaxSGE, 1},
		{"max_inline", "octets of inline data", &c.RDMA.MaxInline, defaults.MaxInline, 1},
	} {
		list = append(list, param.Number(param.Row{Name: l.name, Origin: param.FastLinQ, Help: l.help}, l.field, l.def,
			l.low, 1<<24))
	}
	return list
}
