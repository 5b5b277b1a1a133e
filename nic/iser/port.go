package iser

import (
	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/iscsi"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// port is what one side holds of a device.
type port struct {
	ctx    *al.Context
	pd     *verbs.PD
	cm     *cm.Manager
	conns  []*Conn
	ended  bool // close was called
	closed bool
}

// newPort takes a context, which it closes if it fails.
func newPort(ctx *al.Context, m *cm.Manager) (*port, error) {
	p := &port{ctx: ctx, cm: m}
	var err error
	if p.pd, err = ctx.AllocPD(); err != nil {
		ctx.CloseAsync(nil)
		return nil, err
	}
	return p, nil
}

// close ends all connections at once, and gives the device back when they have ended.
func (p *port) close(now frame.Time) {
	if p.ended {
		return
	}
	p.ended = true
	for _, c := range p.conns {
		c.abort(now)
	}
	p.letGo()
}

// letGo gives the device back behind the last connection.
func (p *port) letGo() {
	if !p.ended || p.closed || len(p.conns) > 0 {
		return
	}
	p.closed = true
	p.ctx.Device().Defer(func(now frame.Time) {
		_ = p.ctx.Reclaim(now) // fails in callbacks only, and this is none
	})
}

// region is memory of a target's pool, registered for good.
type region struct {
	port *port
	mr   *verbs.MR
}

// Release implements iscsi.Buffer's.
func (r *region) Release() {
	if !r.port.closed {
		r.mr.DeregAsync(func(error) {}) // it has no windows, and goes with its device at the latest
	}
}

// region is the registration of a buffer.
func (p *port) region(b *iscsi.Buffer) (*verbs.MR, error) {
	if r, ok := b.Region.(*region); ok && r.port == p {
		return r.mr, nil
	}
	mr, err := p.pd.RegMR(b.Bytes(), verbs.LocalWrite)
	if err == nil {
		b.Region = &region{p, mr}
	}
	return mr, err
}
