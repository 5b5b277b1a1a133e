package iwarp

import (
	"errors"
	"fmt"
	"net/netip"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// fallback tries again with MPA revision 1 where the peer closed the
// connection instead of answering a request of revision 2: what a responder
// does that does not know that one (RFC 6581 section 10). Peer-to-peer
// connections cannot do without revision 2.
func (c *conn) fallback(err error, now frame.Time) bool {
	var t *toe.Error
	closed := c.mute || errors.As(err, &t) && t.Kind == toe.Reset && c.err == nil
	e, id := c.e, c.id
	if !closed || c.phase != waitReply || c.initiator.Begun() || !e.cfg.Fallback {
		return false
	}
	cfg := e.mpaConfig(id.Params())
	if cfg.Revision == 1 || cfg.PeerToPeer || c.revision == 1 {
		return false
	}
	local := netip.AddrPortFrom(c.tcp.Local().Addr(), id.Params().Local.Port())
	e.forget(c)
	if err := e.dial(id, local, 1, now); err != nil {
		id.Fail(cm.Failed, err, nil)
		id.Finish(err)
	}
	return true
}

// dial begins the connection of id from local with a request of revision rev.
func (e *Engine) dial(id *cm.ID, local netip.AddrPort, rev uint8, now frame.Time) error {
	c := e.newConn()
	cfg := e.mpaConfig(id.Params())
	cfg.Revision, c.revision = rev, rev
	var err error
	if c.initiator, err = mpa.NewInitiator(cfg); err == nil {
		c.tcp, err = e.tcp.Connect(local, id.Remote(), c, now)
	}
	if t := (*toe.Error)(nil); errors.As(err, &t) && t.Kind == toe.AddrInUse && local.Port() == 0 {
		err = fmt.Errorf("%w: every ephemeral port is taken (%w)", cm.ErrNoResources, err)
	}
	if err != nil {
		e.forget(c)
		return err
	}
	c.id = id
	id.Attach(c)
	c.bind(id.QP())
	c.classify()
	id.SetLocal(c.tcp.Local())
	return nil
}
