package nic

import (
	"tapir/nic/hardware"
	"tapir/nic/param"
	"tapir/nic/verbs"
)

// defaults are what the settings below show when nothing was given.
var defaults = verbs.DefaultLimits()

// rdmaParams are the parameters of the RDMA function, those that the FastLinQ
// driver core has before it allocates resources, and the limits of its objects.
func (c *Config) rdmaRows() []*param.Row {
	list := []*param.Row{
		param.Choice(param.Row{Name: "personality", Origin: param.FastLinQ,
			Help: "RDMA protocol beside Ethernet; eth: no RDMA at all"},
			&c.RDMA.Personality,
			param.Named("iwarp", verbs.IWARP), param.Named("eth", verbs.Ethernet)),
	}
	for _, l := range []struct {
		name, help string
		field      *int
		def, low   int
	}{
		{"min_dpis", "contexts that can be open at a time", &c.RDMA.MinDPIs, defaults.MaxContext, 1},
		{"num_qps", "queue pairs, at most 32512 of iWARP; there are twice as many completion queues", &c.RDMA.NumQPs,
			hardware.DefaultQPs, 1},
		{"num_mrs", "memory regions; one is reserved", &c.RDMA.NumMRs, defaults.MaxMR + 1, 2},
		{"num_srqs", "shared receive queues", &c.RDMA.NumSRQs, defaults.MaxSRQ, 1},
		{"max_cnq", "completion notification queues that there are", &c.RDMA.MaxCNQ, defaults.MaxCNQ, 1},
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
