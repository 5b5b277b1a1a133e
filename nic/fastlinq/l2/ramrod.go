package l2

import (
	"errors"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Command is the id of a ramrod of protocol ETH.
type Command uint8

// The commands (eth_ramrod_cmd_id). PFUpdate, by which the tunnels change, has no
// id among them: it is protocol COMMON's.
const (
	PFUpdate Command = iota
	VportStart
	VportUpdate
	VportStop
	RxQueueStart
	RxQueueStop
	TxQueueStart
	TxQueueStop
	FiltersUpdate
	GFTUpdateFilter Command = 16
)

var commandNames = [...]string{PFUpdate: "PF_UPDATE", VportStart: "VPORT_START", VportUpdate: "VPORT_UPDATE",
	VportStop:    "VPORT_STOP",
	RxQueueStart: "RXQ_START", RxQueueStop: "RXQ_STOP", TxQueueStart: "TXQ_START", TxQueueStop: "TXQ_STOP",
	FiltersUpdate: "FILTERS_UPDATE", GFTUpdateFilter: "GFT_UPDATE_FILTER"}

func (c Command) String() string {
	return enum.Name(commandNames[:], c, "Command(%d)")
}

// codeFailed is what the firmware returns where there is no FilterCode.
const codeFailed = 0xff

// Ramrod is a call of the driver on its way to the firmware.
type Ramrod struct {
	Command Command
	Queue   int          // whose connection it is about, of those that start and stop queues
	Tunnels TunnelParams // of PFUpdate
	Async   bool         // the driver does not wait for the answer
	// Err is what has come of it, in words: an event has room for a code only.
	Err error

	do func(fn *Function) error
}

// Execute is the firmware doing a ramrod. It returns 0, or the code of what is
// wrong.
func (fn *Function) Execute(r *Ramrod) (code uint8) {
	var filter FilterCode
	switch r.Err = r.do(fn); {
	case r.Err == nil:
		return 0
	case errors.As(r.Err, &filter):
		return uint8(filter)
	case r.Command == GFTUpdateFilter:
		return uint8(GFTUpdateFail)
	}
	return codeFailed
}

// Slowpath is the driver's end of the Ethernet side: each of its calls is a
// ramrod. The errors are those of the Function's calls of the same names, and of
// Post.
type Slowpath struct {
	// Post has the firmware execute a ramrod. It returns what has come of that, nil
	// if the answer comes later, or why the ramrod could not be sent.
	Post func(*Ramrod) error
}

// send has a command call a method with one parameter.
func send[P any](s Slowpath, c Command, call func(*Function, P) error, p P) error {
	return s.Post(&Ramrod{Command: c, do: func(fn *Function) error { return call(fn, p) }})
}

// VportStart is sp_vport_start.
func (s Slowpath) VportStart(p StartParams) error {
	return send(s, VportStart, (*Function).VportStart, p)
}

// VportStop is sp_vport_stop.
func (s Slowpath) VportStop(id int) error { return send(s, VportStop, (*Function).VportStop, id) }

// VportUpdate is sp_vport_update, with the RSS table in it.
func (s Slowpath) VportUpdate(p UpdateParams) error {
	return send(s, VportUpdate, (*Function).VportUpdate, p)
}

// FilterAccept is filter_accept_cmd, an update of the vport.
func (s Slowpath) FilterAccept(id int, p AcceptParams, anyVLAN *bool) error {
	return s.VportUpdate(UpdateParams{Vport: id, Accept: &p, AcceptAnyVLAN: anyVLAN})
}

// FilterMcast is filter_mcast_cmd, an update of the vport's bins.
func (s Slowpath) FilterMcast(p McastParams) error {
	return send(s, VportUpdate, (*Function).FilterMcast, p)
}

// FilterUcast is filter_ucast_cmd.
func (s Slowpath) FilterUcast(p UcastParams) error {
	return send(s, FiltersUpdate, (*Function).FilterUcast, p)
}

// RxQueueStart is eth_rx_queue_start. AGAIN: it was not executed, because the
// device recovers.
func (s Slowpath) RxQueueStart(p QueueParams, bufSize int) (*RxQueue, error) {
	return start(s, RxQueueStart, "receive", p, bufSize, (*Function).RxQueueStart)
}

// TxQueueStart is eth_tx_queue_start. AGAIN as with RxQueueStart.
func (s Slowpath) TxQueueStart(p QueueParams, tc uint8) (*TxQueue, error) {
	return start(s, TxQueueStart, "transmit", p, tc, (*Function).TxQueueStart)
}

func start[Q, A any](s Slowpath, c Command, kind string, p QueueParams, a A,
	call func(*Function, QueueParams, A) (*Q, error)) (q *Q, err error) {
	err = s.Post(&Ramrod{Command: c, Queue: p.Queue, do: func(fn *Function) (err error) {
		q, err = call(fn, p, a)
		return err
	}})
	if err == nil && q == nil {
		err = status.Again.Errorf("%s queue %d: the device recovers", kind, p.Queue)
	}
	return q, err
}

// RxQueueStop is eth_rx_queue_stop.
func (s Slowpath) RxQueueStop(q *RxQueue) error {
	return s.Post(&Ramrod{Command: RxQueueStop, Queue: q.ID, do: func(fn *Function) error { return fn.RxQueueStop(q) }})
}

// TxQueueStop is eth_tx_queue_stop.
func (s Slowpath) TxQueueStop(q *TxQueue) error {
	return s.Post(&Ramrod{Command: TxQueueStop, Queue: q.ID, do: func(fn *Function) error { return fn.TxQueueStop(q) }})
}

// AddRule is configure_rfs_ntuple_filter for a rule that is added, RemoveRule for
// one that goes. Neither waits for the answer.
func (s Slowpath) AddRule(r Rule) error {
	return s.rule(func(fn *Function) error { return fn.AddRule(r) })
}

// RemoveRule takes a rule out.
func (s Slowpath) RemoveRule(t Tuple) error {
	return s.rule(func(fn *Function) error { return fn.RemoveRule(t) })
}

func (s Slowpath) rule(do func(fn *Function) error) error {
	return s.Post(&Ramrod{Command: GFTUpdateFilter, Async: true, do: do})
}

// SetTunnels is sp_pf_update_tunn_cfg.
func (s Slowpath) SetTunnels(p TunnelParams) error {
	return s.Post(&Ramrod{Command: PFUpdate, Tunnels: p, do: func(fn *Function) error { return fn.SetTunnels(p) }})
}
