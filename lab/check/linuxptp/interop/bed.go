package interop

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// tapName is the TAP between the NIC and stock programs.
const tapName = "tap0"

// Bed is one NIC on a TAP in a namespace of its own, and a host for programs
// at the kernel's side of it.
type Bed struct {
	Host  *linuxptp.Host
	NIC   *nicnode.Node
	space *link.Space
}

// NewBed makes a bed. change may be nil.
func NewBed(ctx context.Context, change func(*nicconf.Config, *node.Env)) (b *Bed, err error) {
	b = &Bed{}
	defer func() {
		if err != nil {
			b.Close()
			b = nil
		}
	}()
	if b.space, err = link.NewSpace(nil); err != nil {
		return b, err
	}
	if b.Host, err = linuxptp.NewHost(b.space.NS); err != nil {
		return b, err
	}
	cfg := nicconf.Config{
		Name: "nic0", TAP: tapName,
		IP:  []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")},
		IP6: []netip.Prefix{netip.MustParsePrefix("fd00::1/64")},
		TAPIP: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24"), netip.MustParsePrefix("fd00::fe/64"),
			netip.MustParsePrefix("fe80::fe/64")},
	}
	env := node.Env{NS: b.space.NS}
	if change != nil {
		change(&cfg, &env)
	}
	b.NIC, err = nicnode.Start(ctx, cfg, env)
	return b, err
}

// Close ends everything.
func (b *Bed) Close() error {
	err := b.Host.Close()
	if b.NIC != nil {
		err = errors.Join(err, b.NIC.Close())
	}
	b.space.Close()
	return err
}

// sections are the interface of a ptp4l on the TAP.
func sections() []linuxptp.Section { return []linuxptp.Section{{Name: tapName}} }

// Watch collects what an instance measures. It belongs to the NIC's thread
// until the NIC is closed.
type Watch struct {
	Samples []ptp.Sample
	States  []string
	enough  int
	reached chan struct{}
}

// PortState implements ptp.Observer.
func (w *Watch) PortState(_ int, _, to msg.PortState, why string, _ frame.Time) {
	w.States = append(w.States, to.String()+": "+why)
}

// Measured implements ptp.Observer.
func (w *Watch) Measured(s ptp.Sample) {
	if s.Servo < servo.Locked {
		return
	}
	if w.Samples = append(w.Samples, s); len(w.Samples) == w.enough {
		close(w.reached)
	}
}

// StartPTP runs an instance of the profile on the NIC, changed by change. The
// watch's channel closes when it has made so many measurements with a locked
// servo.
func (b *Bed) StartPTP(p ptp.Profile, enough int, change func(*unit.InstanceConfig)) (*Watch, error) {
	w := &Watch{enough: enough, reached: make(chan struct{})}
	var failed error
	err := b.NIC.DoWait(func(now frame.Time) {
		c := b.NIC.Device.PTP.DefaultInstance(p)
		change(&c)
		var i *ptp.Instance
		if i, failed = b.NIC.Device.PTP.Start(c, now); failed == nil {
			i.Observe(w)
		}
	})
	return w, errors.Join(err, failed)
}

// ClockError is by how much the NIC's clock is ahead of the system's.
func (b *Bed) ClockError() (off time.Duration, err error) {
	err = b.NIC.DoWait(func(now frame.Time) {
		off = time.Duration(int64(b.NIC.Device.PTP.PHC().Now(now)) - b.NIC.Realtime(now))
	})
	return off, err
}

// tapir sets up the instance of the cell.
func (c Cell) tapir(p *unit.InstanceConfig) {
	p.Transport, p.TwoStep, p.P2POneStep = c.Transport, !c.OneStep, c.OneStep
	port := &p.Ports[0]
	port.DelayMechanism = c.Delay
	port.LogAnnounceInterval, port.LogSyncInterval = -2, -4
	port.LogMinDelayReqInterval, port.LogMinPdelayReqInterval = -4, -4
	port.TxTimestampTimeout = 200 * time.Millisecond
	if c.Transport != transport.Ethernet {
		p.Local = false
	}
}
