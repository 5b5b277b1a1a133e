// Package stock measures a switch with two stock ptp4l: a master and a slave in
// namespaces of their own, each on a TAP of the switch. Both have the machine's
// clock, which neither may set, so the offset that the slave reports is the
// error of measurement, the switch's part in it included.
package stock

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"tapir/lab/check/linuxptp"
	"tapir/lab/conf/swconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/node/sw"
	"tapir/lab/node/swnode"
	"tapir/wire/frame"
)

// Config describes a measurement.
type Config struct {
	Switch    swconf.Config // without Ports
	Transport string        // of ptp4l: L2, UDPv4 or UDPv6
	P2P       bool          // the delay mechanism
	Samples   int           // offsets of the slave that are wanted; default 100
}

// Result is what the slave reported, in nanoseconds.
type Result struct {
	Offsets []int64 // in order; those before it had settled are left out
	Delays  []int64 // mean path or link delays
	Ports   []sw.PortCounts
	Clock   sw.ClockCounts
}

// settle is how many measurements a slave's filters need.
const settle = 20

// Quantile is the |offset| below which the fraction q of all lie.
func (r *Result) Quantile(q float64) int64 {
	abs := make([]int64, len(r.Offsets))
	for i, v := range r.Offsets {
		abs[i] = max(v, -v)
	}
	slices.Sort(abs)
	return abs[min(int(q*float64(len(abs))), len(abs)-1)]
}

// lab is a switch with the hosts at its ports.
type lab struct {
	undo  []func()
	hosts []*linuxptp.Host
	node  *swnode.Node
}

func (l *lab) close() {
	for _, u := range slices.Backward(l.undo) {
		u()
	}
}

// tapName is what the TAP of a host is called.
const tapName = "eth0"

// open makes a switch of cfg with a host at each of n ports.
func open(cfg swconf.Config, n int) (l *lab, err error) {
	l = &lab{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	cfg.Ports = nil
	var env node.Env
	for i := range n {
		h, err := linuxptp.NewIsolated()
		if err != nil {
			return l, err
		}
		l.hosts = append(l.hosts, h)
		l.undo = append(l.undo, func() { h.Close() })
		cfg.Ports = append(cfg.Ports, swconf.PortConfig{Name: fmt.Sprintf("port%d", i), TAP: tapName})
		env.PortNS = append(env.PortNS, h.NS())
	}
	if l.node, err = swnode.Start(cfg, env); err != nil {
		return l, err
	}
	l.undo = append(l.undo, func() { l.node.Close() })
	for i, h := range l.hosts {
		if err := address(h.NS(), i); err != nil {
			return l, err
		}
	}
	return l, nil
}

// address gives a host's TAP addresses.
func address(ns *netns.NS, i int) error {
	n, err := link.In(ns)
	if err != nil {
		return err
	}
	defer n.Close()
	v6 := [16]byte{0: 0xfe, 1: 0x80, 15: byte(i + 1)}
	return errors.Join(
		n.AddAddr(tapName, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 24)),
		n.AddAddr(tapName, netip.PrefixFrom(netip.AddrFrom16(v6), 64)))
}

// Rates are high, so that nobody waits long: log2 of the intervals in s.
const logAnnounce, logSync = -3, -5

// ptp4l starts one at a port.
func (l *lab) ptp4l(ctx context.Context, port int, cfg *Config, options linuxptp.Options) (*linuxptp.Daemon, error) {
	sync, pdelay := strconv.Itoa(logSync), strconv.Itoa(logSync+1)
	all := linuxptp.Options{
		"network_transport": cfg.Transport, "logAnnounceInterval": strconv.Itoa(logAnnounce), "logSyncInterval": sync,
		"logMinDelayReqInterval": sync, "logMinPdelayReqInterval": pdelay, "delay_mechanism": "E2E",
	}
	if cfg.P2P {
		all["delay_mechanism"] = "P2P"
	}
	for k, v := range options {
		all[k] = v
	}
	return l.hosts[port].PTP4L(ctx, linuxptp.PTP4L{Options: all, Sections: []linuxptp.Section{{Name: tapName}}})
}

// Measure runs master and slave until the slave has reported as many offsets
// as are wanted.
func Measure(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Samples == 0 {
		cfg.Samples = 100
	}
	l, err := open(cfg.Switch, 2)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if _, err := l.ptp4l(ctx, 0, &cfg, linuxptp.Options{"priority1": "1"}); err != nil {
		return nil, err
	}
	slave, err := l.ptp4l(ctx, 1, &cfg, linuxptp.Options{"slaveOnly": "1"})
	if err != nil {
		return nil, err
	}
	var samples []linuxptp.Sample
	err = slave.Await(ctx, fmt.Sprintf("%d measurements", cfg.Samples), func(log linuxptp.Log) bool {
		samples = log.Samples()
		return len(samples) >= settle+cfg.Samples
	})
	r := &Result{}
	if stopped := l.node.DoWait(func(frame.Time) { r.counts(l.node.Switch()) }); err == nil {
		err = stopped
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the switch: %+v", err, r.Clock)
	}
	for _, s := range samples[settle:] {
		r.Offsets = append(r.Offsets, s.Offset)
		r.Delays = append(r.Delays, s.Delay)
	}
	return r, nil
}

// counts takes over what the switch has counted.
func (r *Result) counts(s *sw.Switch) {
	for i := range 2 {
		r.Ports = append(r.Ports, s.Counts(i))
	}
	r.Clock = s.ClockCounts()
}
