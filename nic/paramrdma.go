package nic

import (
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/verbs"
)

// defaults are what the settings below show when nothing was given.
var defaults = verbs.DefaultLimits()

// rdmaParams are the parameters of the RDMA function, those that the FastLinQ
// driver core has before it allocates resources, and the limits of its objects.
func rdmaParams() []*Param {
	list := []*Param{
		choice(Param{Name: "personality", Origin: originDriver, Help: "RDMA protocol beside Ethernet; eth: no RDMA at all"},
			func(c *Config) *verbs.Personality { return &c.RDMA.Personality },
			named[verbs.Personality]{"iwarp", verbs.IWARP}, named[verbs.Personality]{"eth", verbs.Ethernet}),
	}
	for _, l := range []struct {
		name, help string
		field      func(*Config) *int
		def, low   int
	}{
		{"min_dpis", "contexts that can be open at a time", func(c *Config) *int { return &c.RDMA.MinDPIs }, defaults.MaxContext, 1},
		{"num_qps", "queue pairs, at most 32512 of iWARP; there are twice as many completion queues", func(c *Config) *int { return &c.RDMA.NumQPs }, ecore.DefaultQPs, 1},
		{"num_mrs", "memory regions; one is reserved", func(c *Config) *int { return &c.RDMA.NumMRs }, defaults.MaxMR + 1, 2},
		{"num_srqs", "shared receive queues", func(c *Config) *int { return &c.RDMA.NumSRQs }, defaults.MaxSRQ, 1},
		{"max_cnq", "completion notification queues that there are", func(c *Config) *int { return &c.RDMA.MaxCNQ }, defaults.MaxCNQ, 1},
		{"desired_cnq", "completion notification queues to start with, 0 for all; more than max_cnq is an error", func(c *Config) *int { return &c.RDMA.DesiredCNQs }, 0, 0},
		{"max_qp_wr", "work requests per send or receive queue", func(c *Config) *int { return &c.RDMA.MaxQPWR }, defaults.MaxQPWR, 1},
		{"max_srq_wr", "work requests per shared receive queue", func(c *Config) *int { return &c.RDMA.MaxSRQWR }, defaults.MaxSRQWR, 1},
		{"max_cqe", "entries per completion queue", func(c *Config) *int { return &c.RDMA.MaxCQE }, defaults.MaxCQE, 1},
		{"max_sge", "elements per work request", func(c *Config) *int { return &c.RDMA.MaxSGE }, defaults.MaxSGE, 1},
		{"max_inline", "octets of inline data", func(c *Config) *int { return &c.RDMA.MaxInline }, defaults.MaxInline, 1},
	} {
		list = append(list, number(Param{Name: l.name, Origin: originDriver, Help: l.help}, l.field, l.def, l.low, 1<<24))
	}
	return list
}
