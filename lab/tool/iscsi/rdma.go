package iscsi

import (
	"errors"
	"fmt"

	"tapir/nic/al"
	"tapir/nic/iscsi"
	"tapir/nic/iser"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

// iserScheme is that of addresses that are reached by RDMA.
const iserScheme = "iser"

// errISEROffload refuses what has no TCP.
var errISEROffload = errors.New("only sessions of TCP are handed over: leave out iSER, or --offload and --from-kernel")

// dialISER connects by RDMA. The device may go: its last event ends the session.
func (s *session) dialISER(now frame.Time) error {
	var c *iser.Conn
	ctx, err := s.nic.CA.Open(al.EventFunc(func(ev al.Event, _ frame.Time) {
		if ev.Type == al.DeviceFatal && c != nil {
			c.Abort()
		}
	}), nil)
	if err != nil {
		return err
	}
	if c, err = iser.Dial(ctx, s.nic.Device.CM, s.task.Portal, overRDMA{s}, now); err != nil {
		return err
	}
	s.link = c
	return nil
}

// overRDMA is a session as its connection in iSER has it.
type overRDMA struct{ *session }

// Established implements iser.Handler.
func (s overRDMA) Established(*iser.Conn, frame.Time) { s.login() }

// Control implements iser.Handler.
func (s overRDMA) Control(m *wire.Message, now frame.Time) {
	s.heard = now
	s.i.Control(m, now)
}

// Hello implements iser.Handler: initiators get none.
func (s overRDMA) Hello() bool {
	s.Malformed()
	return false
}

// Malformed implements iser.Handler.
func (s overRDMA) Malformed() { s.link.Abort() }

// PeerClosed implements iser.Handler.
func (s overRDMA) PeerClosed(err error, now frame.Time) {
	if err == nil {
		err = iscsi.ErrClosed
	}
	s.finish(err, now)
}

// Closed implements iser.Handler.
func (s overRDMA) Closed(err error, now frame.Time) {
	if err == nil {
		err = errors.New("closed by the peer")
	}
	s.closed(fmt.Errorf("iSER: %w", err), now)
}
