package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tapir/lab/capture"
	"tapir/lab/fault"
	"tapir/lab/link"
	"tapir/lab/topo"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// cable is a link of the lab.
type cable struct {
	*topo.Link
	wire  *link.Cable
	ends  [2]*node
	taps  [2]*tap.TAP
	fault [2]link.Impairment // now, of frames from either end, as if it were up
	down  bool
	file  string // of the capture; "" if there is none
	cap   *capture.Session
	disk  *os.File
}

// addLink makes the ports of a link, and the cable between them.
func (b *Bed) addLink(t *topo.Link) (*cable, error) {
	c := &cable{Link: t, fault: t.Fault}
	mtu, vnet := t.MTU, false
	for i, name := range t.Ends {
		c.ends[i] = b.nodes[name]
		vnet = vnet || c.ends[i].vnet()
		if t.MTU == 0 {
			mtu = max(mtu, c.ends[i].mtu(t))
		}
	}
	if mtu == 0 {
		mtu = 1500
	}
	for i, n := range c.ends {
		var err error
		if c.taps[i], err = n.plug(t, mtu, vnet); err != nil {
			if i == 1 {
				c.taps[0].Close()
			}
			return nil, err
		}
		if n.Kind == topo.NIC && n.NIC.MTU == 0 && t.MTU != 0 {
			n.flags = append(n.flags, fmt.Sprintf("--mtu=%d", mtu))
		}
	}
	cfg := link.CableConfig{A: c.taps[0], B: c.taps[1], ToB: c.fault[0], ToA: c.fault[1], MTU: mtu, Seed: b.lab.SeedOf(t)}
	var err error
	if cfg.Rules, err = b.lab.Rules(t); err != nil {
		return nil, errors.Join(err, c.taps[0].Close(), c.taps[1].Close())
	}
	cfg.Struck = func(s fault.Strike) { b.log.printf("%s: %v", t.Name, s) }
	if b.wanted(t) {
		if err := c.record(filepath.Join(b.files, t.Name+".pcapng"), mtu); err != nil {
			return nil, errors.Join(err, c.taps[0].Close(), c.taps[1].Close())
		}
		cfg.Tracer = entering{c.cap}
	}
	if c.wire, err = link.NewCable(cfg); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// wanted tells whether somebody will read the link's capture.
func (b *Bed) wanted(t *topo.Link) bool {
	if b.opt.Out != "" || b.opt.Draw {
		return t.Capture
	}
	for _, s := range b.lab.Steps {
		if s.Condition.Filter != "" && s.Condition.Link == t.Name {
			return true
		}
	}
	return false
}

// record starts the capture of the link.
func (c *cable) record(file string, mtu int) (err error) {
	if c.disk, err = os.Create(file); err != nil {
		return err
	}
	c.file = file
	c.cap = capture.New(c.disk, capture.Info{Application: "tapir lab", Name: c.Name, MTU: mtu,
		About: fmt.Sprintf("link between %s and %s, MTU %d; outbound is from %s", c.Ends[0], c.Ends[1], mtu, c.Ends[0])}, capture.Options{})
	c.cap.Live()
	return nil
}

// entering lets a capture see frames once: as they enter the link, outbound
// those of its first end.
type entering struct{ *capture.Session }

// Trace implements frame.Tracer.
func (e entering) Trace(r *frame.Record) {
	if r.Dir == frame.Inbound {
		return
	}
	if r.Port == 1 {
		r.Port, r.Dir = 0, frame.Inbound
	}
	e.Session.Trace(r)
}

// set makes f happen to frames from now on.
func (c *cable) set(f [2]link.Impairment) error {
	c.fault = f
	f[0].Down, f[1].Down = c.down, c.down
	return c.wire.Set(f[0], f[1])
}

// plug takes the link down or up.
func (c *cable) plug(down bool) error {
	c.down = down
	err := c.set(c.fault)
	for i, n := range c.ends {
		err = errors.Join(err, n.unplug(c.taps[i], down))
	}
	return err
}

// counts are the link's counters.
func (c *cable) counts() topo.LinkCounts {
	a, b := c.wire.Faults()
	return topo.LinkCounts{Frames: a.Frames + b.Frames, Lost: a.Lost + b.Lost, Duplicated: a.Duplicated + b.Duplicated,
		Corrupted: a.Corrupted + b.Corrupted, Reordered: a.Reordered + b.Reordered, Refused: a.Refused + b.Refused, Rules: c.wire.Rules()}
}

// close ends the cable, then its capture.
func (c *cable) close() (err error) {
	if c.wire != nil {
		err = c.wire.Close()
	}
	if c.cap != nil {
		err = errors.Join(err, c.cap.Close(), c.disk.Close())
		if st := c.cap.Stats(); st.Lost > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d frames did not fit into the capture's queue", c.Name, st.Lost))
		}
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", c.Name, err)
	}
	return nil
}
