package fcoe

import (
	"tapir/nic/fastlinq/status"
	"tapir/nic/fastlinq/storage"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
)

// Params are those of the function (fcoe_pf_params). All are set.
type Params struct {
	storage.Params
	MTU int // of the frames of sessions, in octets behind the Ethernet header
}

// Limits of a function.
const (
	MaxTasks = 2048
	MinMTU   = 256 + fcoe.Overhead
	MaxMTU   = 9000
)

// MaxPayload is the longest payload of a frame, in octets.
func (p *Params) MaxPayload() int { return min(p.MTU-fcoe.Overhead, fc.MaxPayload) &^ 3 }

// Validate refuses what contradicts itself. INVAL.
func (p *Params) Validate() error {
	if p.MTU < MinMTU || p.MTU > MaxMTU {
		return status.Inval.Errorf("mtu %d: use %d to %d", p.MTU, MinMTU, MaxMTU)
	}
	return p.Params.Validate("sq_num_pbl_pages")
}
