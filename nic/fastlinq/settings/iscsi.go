package settings

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"tapir/nic/fastlinq/iscsi"
	"tapir/nic/param"
	"tapir/nic/verbs"
)

// ISCSI are the parameters of the iSCSI function. Zero fields stand for their defaults.
type ISCSI iscsi.Params

// Values are the parameters with their defaults.
func (i *ISCSI) Values() iscsi.Params {
	p := iscsi.Params(*i)
	storageDefaults(&p.Params, iscsi.MaxTasks)
	p.UHQPages, p.MaxFinRT = cmp.Or(p.UHQPages, p.SQPages), cmp.Or(p.MaxFinRT, defaultFinRT)
	p.KAMaxProbes, p.TwoMSL = cmp.Or(p.KAMaxProbes, defaultProbes), cmp.Or(p.TwoMSL, defaultTwoMSL)
	p.HalfWayClose, p.TxSWS = cmp.Or(p.HalfWayClose, defaultHalfWay), cmp.Or(p.TxSWS, defaultSWS)
	return p
}

// The defaults: those that the public drivers and the guide have.
const (
	defaultFinRT   = 3
	defaultProbes  = 10
	defaultTwoMSL  = 4 * time.Second
	defaultSWS     = 500 * time.Millisecond
	defaultHalfWay = 10 * time.Second
)

func (i *ISCSI) validate(p verbs.Personality) error {
	if p != verbs.ISCSI {
		if *i != (ISCSI{}) {
			return errors.New("parameters that begin with iscsi_ are of the iSCSI function: use personality iscsi")
		}
		return nil
	}
	v := i.Values()
	if err := v.Validate(); err != nil {
		return fmt.Errorf("personality iscsi: %w", err)
	}
	return nil
}

// iscsiRows are the settings of the iSCSI function.
func (c *Config) iscsiRows() []*param.Row {
	i := &c.ISCSI
	row := func(name, help string) param.Row { return param.Row{Name: name, Origin: param.FastLinQ, Help: help} }
	return append(storageRows(&i.Params, &storageNames{"iscsi", "iSCSI", "num_sq_pages_in_ring", "num_queues", "PDU",
		"data that no task has asked for", "commands that initiators may have outstanding at a target",
		iscsi.MaxTasks}),
		param.Number(row("iscsi_num_uhq_pages_in_ring",
			"pages of the queue of PDUs that are not acknowledged, 512 in each; 0: as many "+
				"as the send queue has"), &i.UHQPages, 0, 0, maxPages),
		param.Number(row("iscsi_max_fin_rt",
			"retransmissions of a FIN of the iSCSI function"), &i.MaxFinRT, defaultFinRT, 1, 255),
		param.Number(row("iscsi_ka_max_probe_cnt",
			"unanswered keep-alive probes that end a connection of the iSCSI function"), &i.KAMaxProbes,
			defaultProbes, 1, 255),
		param.Number(row("iscsi_tos",
			"type of service of the packets of the iSCSI function, DSCP times 4"), &i.TOS, 0, 0, 255),
		param.Duration(row("iscsi_two_msl_timer",
			"stay in TIME-WAIT of connections of the iSCSI function"), &i.TwoMSL, defaultTwoMSL, time.Hour, false),
		param.Duration(row("iscsi_tx_sws_timer",
			"time that a segment waits for a window that holds it whole"), &i.TxSWS, defaultSWS, time.Minute, false),
		param.Duration(row("iscsi_half_way_close_timeout",
			"silence of a peer in FIN-WAIT-2 that ends a connection of the iSCSI function"), &i.HalfWayClose,
			defaultHalfWay, time.Hour, false),
	)
}
