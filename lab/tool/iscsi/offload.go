package iscsi

import (
	"errors"
	"fmt"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/iscsi"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// offloadable is a session that hardware can take over.
type offloadable interface {
	Agreed() (iscsi.Agreed, bool)
	Offload(hw iscsi.Hardware)
}

// function is the NIC's iSCSI function, if it does what is asked of it.
func (n *NIC) function(target bool) (*fastlinq.ISCSIFunction, error) {
	name := n.Device.Config().Name
	d := fastlinq.Of(n.Device.Hardware)
	if d == nil || fastlinq.ISCSI(d) == nil {
		return nil, fmt.Errorf("%s has no iSCSI function: start it with --personality iscsi", name)
	}
	f := fastlinq.ISCSI(d)
	switch is := f.Params().Target; {
	case is && !target:
		return nil, fmt.Errorf("the iSCSI function of %s is that of a target: start the NIC without --iscsi-is-target",
			name)
	case !is && target:
		return nil, fmt.Errorf("the iSCSI function of %s is that of an initiator: start the NIC with "+
			"--iscsi-is-target=1", name)
	}
	return f, nil
}

// How long a connection may take to be quiet, and how often it is looked at.
const (
	quietWithin = time.Second
	quietEvery  = time.Millisecond
)

// offload hands a session over whose login has just ended: in the next Poll, or as soon as
// nothing is in flight. done hears of the connection that the session has then.
func (n *NIC) offload(s offloadable, target bool, tcp *toe.Conn, h toe.Handler, now frame.Time,
	done func(tcp *toe.Conn, err error, now frame.Time)) {
	until := now.Add(quietWithin)
	var try func(now frame.Time)
	try = func(now frame.Time) {
		conn, err := n.handOver(s, target, tcp, h, now)
		if errors.Is(err, &toe.Error{Kind: toe.NotQuiet}) && now < until {
			n.Device.Schedule(now.Add(quietEvery), try)
			return
		}
		done(conn, err, now)
	}
	n.Device.Schedule(now, try)
}

// handOver takes a session's connection out of the TCP engine, and has the function take it
// with all its state. What fails leaves the session where it is.
func (n *NIC) handOver(s offloadable, target bool, tcp *toe.Conn, h toe.Handler, now frame.Time) (*toe.Conn, error) {
	agreed, ok := s.Agreed()
	if !ok {
		return tcp, nil // it has ended meanwhile
	}
	f, err := n.function(target)
	if err != nil {
		return tcp, err
	}
	c, err := f.Acquire()
	if err != nil {
		return tcp, err
	}
	engine := n.Device.TCP()
	tcb, err := engine.Upload(tcp)
	if err != nil {
		return tcp, errors.Join(err, c.Release())
	}
	own := *tcb
	moved, err := c.Offload(tcb, h)
	if err != nil {
		err = errors.Join(err, c.Release())
		back, bad := engine.Offload(&own, h, now)
		return back, errors.Join(err, bad)
	}
	c.ReleaseAtEnd()
	s.Offload(c)
	return moved, c.Agree(agreed)
}
