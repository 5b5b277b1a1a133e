package ctl

import (
	"context"
	"encoding/json"

	"tapir/wire/frame"
)

// Management datagrams (MADs) of programs, for tapir run: of the local agent of an
// RDMA NIC, or over the fabric of an Omni-Path HFI.
const (
	madCommand     = "mad"      // a MAD in, the octets of its answer out; of RDMA NICs
	MADPortCommand = "mad.port" // a MADPort out; of HFIs
	MADSendCommand = "mad.send" // a MAD in; of HFIs
	// MADOp is the job of an HFI that tells of each MAD that comes for programs.
	MADOp = "mad"
)

// MAD is a management datagram.
type MAD struct {
	QP     uint32 `json:"qp"`  // 0: subnet management; 1: all else
	LID    uint16 `json:"lid"` // of the far end
	SL     uint8  `json:"sl,omitempty"`
	PKey   uint16 `json:"pkey,omitempty"` // index of the P_Key table; of HFIs
	Octets []byte `json:"octets"`
}

// MADPort is the port of an HFI as InfiniBand's tools see it.
type MADPort struct {
	GUID  uint64   `json:"guid"`
	Name  string   `json:"name"`
	LID   uint32   `json:"lid"`
	SMLID uint32   `json:"sm_lid"` // the fabric manager in charge; 0: none
	SMSL  uint8    `json:"sm_sl"`
	State uint8    `json:"state"` // 1 down, 2 init, 3 armed, 4 active
	PKeys []uint16 `json:"pkeys"` // up to the last that is not 0
}

// MADEvent is what the job MADOp tells: first the session, whose number responses
// have in the upper 16 bits of their transaction, then MADs from LID, and asynchronous events
// of the port, numbered as libibverbs' ibv_event_type.
type MADEvent struct {
	Session uint16 `json:"session,omitempty"`
	MAD     *MAD   `json:"mad,omitempty"`
	Event   uint32 `json:"event,omitempty"`
}

// madJob is the job.
type madJob struct {
	Op string `json:"op"`
}

// exchangeMAD asks the agent of the RDMA port.
func exchangeMAD(_ context.Context, d *served, raw json.RawMessage) (answer any, err error) {
	args, err := arguments[MAD](raw)
	if err != nil {
		return nil, err
	}
	if d.LocalMAD == nil {
		return nil, &Error{What: d.Device.Config().Name + " has no RDMA port, and so no agent for a MAD"}
	}
	err = d.on(func(frame.Time) error {
		b, err := d.LocalMAD(args.QP, args.LID, args.Octets)
		answer = b
		return BadRequest(err)
	})
	return answer, err
}

// MAD returns what an agent of the NIC's RDMA port answers. Error: there is no such
// agent, or it does not answer that.
func (c *Client) MAD(ctx context.Context, m MAD) (answer []byte, err error) {
	return answer, c.Command(ctx, madCommand, m, &answer)
}

// MADPort describes the port of an HFI. Error: it is none.
func (c *Client) MADPort(ctx context.Context) (p MADPort, err error) {
	return p, c.Command(ctx, MADPortCommand, nil, &p)
}

// SendMAD sends a MAD from the port of an HFI. It may be lost.
func (c *Client) SendMAD(ctx context.Context, m MAD) error {
	return c.Command(ctx, MADSendCommand, m, nil)
}

// FollowMADs tells of the MADs that come for programs, until ctx ends or the HFI does.
func (c *Client) FollowMADs(ctx context.Context, each func(MADEvent)) error {
	return c.Perf(ctx, madJob{MADOp}, func(b json.RawMessage) {
		var e MADEvent
		if json.Unmarshal(b, &e) == nil {
			each(e)
		}
	}, nil)
}
