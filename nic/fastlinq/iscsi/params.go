package iscsi

import (
	"time"

	"tapir/nic/fastlinq/storage"
)

// Params are those of the function (iscsi_pf_params). All are set.
type Params struct {
	storage.Params
	UHQPages     int   // of a connection's queue of PDUs that are not acknowledged (num_uhq_pages_in_ring)
	MaxFinRT     int   // retransmissions of a FIN
	KAMaxProbes  int   // unanswered keep-alive probes
	TOS          uint8 // tos_or_tc
	TwoMSL       time.Duration
	TxSWS        time.Duration // override of silly-window avoidance
	HalfWayClose time.Duration // silence in FIN-WAIT-2
}

// MaxTasks is how many tasks a function has at most.
const MaxTasks = 4096

// Validate refuses what contradicts itself. INVAL.
func (p *Params) Validate() error { return p.Params.Validate("num_sq_pages_in_ring") }
