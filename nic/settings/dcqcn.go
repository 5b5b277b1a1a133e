package settings

import (
	"tapir/nic/param"
	"tapir/nic/roce/dcqcn"
)

// dcqcnRows are the parameters of RoCE's congestion control, with the names of the FastLinQ
// driver core.
func (c *Bound) dcqcnRows() []*param.Row {
	p, d := &c.RDMA.DCQCN, &dcqcn.Defaults
	row := func(name, help string) param.Row {
		return param.Row{Name: name, Origin: param.FastLinQ, Help: help}
	}
	words := make([]param.Word[dcqcn.Algorithm], len(dcqcn.Algorithms))
	for i, a := range dcqcn.Algorithms {
		words[i] = param.Named(a.Name, dcqcn.Algorithm(i))
	}
	list := []*param.Row{
		param.Bool(row("roce_enable_dcqcn", "congestion control of RoCE v2: reserves 64 rate limiters, which the "+
			"first 64 queue pairs get; frames of the host TAP share the first one"), &p.Enable, false),
		param.Bool(row("notification_point", "send congestion notification packets (CNPs) for packets marked with CE"),
			&p.NoNotification, true),
		param.Bool(row("reaction_point", "limit the rate of queue pairs at CNPs; 0 reserves no limiters"),
			&p.NoReaction, true),
		param.Choice(param.Row{Name: "roce_congestion", Origin: param.Tapir,
			Help: "what limits the rate: dcqcn, or aimd, which halves it at a CNP and adds rl_r_ai each " +
				"dcqcn_timeout_us"},
			&p.Algorithm, words...),
		param.Number(row("dcqcn_cnp_dscp", "DSCP of CNPs"), &p.CNPDSCP, int(d.CNPDSCP), 1, 63),
		param.Number(row("dcqcn_cnp_vlan_priority", "priority of CNPs with a VLAN tag"), &p.CNPPriority,
			int(d.CNPPriority), 1, 7),
	}
	for _, n := range []struct {
		name, help     string
		field          *int
		def, low, high int
	}{
		{"dcqcn_cnp_send_timeout_us", "least time between CNPs of a queue pair, in microseconds", &p.CNPTimeout,
			d.CNPTimeout, 1, 1e6},
		{"rl_bc_rate", "octets sent between increases of the rate", &p.ByteCount, d.ByteCount, 1000, 1 << 30},
		{"rl_max_rate", "the most that a queue pair with a limiter sends, in Mb/s; 0: the speed of the link",
			&p.MaxRate, 0, 0, 1e6},
		{"rl_r_ai", "additive increase of the rate, in Mb/s", &p.RAI, d.RAI, 1, 1e6},
		{"rl_r_hai", "hyper increase of the rate, in Mb/s", &p.RHAI, d.RHAI, 1, 1e6},
		{"dcqcn_g", "gain of alpha, in parts of 65536", &p.G, d.G, 1, 65535},
		{"dcqcn_k_us", "time between updates of alpha without CNPs, in microseconds", &p.K, d.K, 1, 1e6},
		{"dcqcn_timeout_us", "time between increases of the rate, in microseconds", &p.Timeout, d.Timeout, 1, 1e6},
	} {
		list = append(list, param.Number(row(n.name, n.help), n.field, n.def, n.low, n.high))
	}
	return list
}
