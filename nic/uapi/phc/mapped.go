package phc

import (
	"sync"
	"time"

	"tapir/nic/ptp"
	"tapir/wire/frame"
)

// Mapped is a Netdev whose frames no NIC sees: the kernel's stamps are
// translated to what a clock showed then, in a PTP unit of its own.
type Mapped struct {
	mu    sync.Mutex
	port  ptp.Port
	unit  *ptp.Unit
	clock mappedClock
}

// NewMapped returns the time stamping of a netdev by clk.
func NewMapped(clk Clock, faults ptp.Faults) *Mapped {
	m := &Mapped{clock: mappedClock{clk: clk}}
	m.unit = ptp.New(&m.port, "kernel", &m.clock)
	m.unit.Faults = faults
	return m
}

// Config implements Netdev.
func (m *Mapped) Config() (ptp.HWConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unit.Config(), nil
}

// Configure implements Netdev.
func (m *Mapped) Configure(c ptp.HWConfig) (ptp.HWConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unit.Enable(0); err != nil {
		return ptp.HWConfig{}, err
	}
	return m.unit.Configure(c)
}

// Rx implements Netdev.
func (m *Mapped) Rx(p ptp.Packet, realtime int64) (ns int64, ok bool) {
	if realtime == 0 {
		return 0, false // the kernel begins to stamp a moment after it is told to
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.err = nil
	s, ok := m.unit.Received(p, frame.Time(realtime))
	m.unit.RxStamp(p.ID)
	return int64(s), ok && m.clock.err == nil
}

// Tx implements Netdev.
func (m *Mapped) Tx(p ptp.Packet, realtime int64, first bool) (ns int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.err = nil
	m.unit.Poll(frame.Time(time.Now().UnixNano()))
	if first {
		m.unit.Request(p, frame.Time(realtime))
		m.unit.Sent(p, frame.Time(realtime))
	}
	s, ok, _ := m.unit.TxStamp(p.ID)
	return int64(s), ok && m.clock.err == nil
}

// Stats are the unit's counts.
func (m *Mapped) Stats() ptp.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unit.Stats()
}

// mappedClock is a Clock for a unit whose engine time is CLOCK_REALTIME. The
// unit reads it several times for one event; it is asked once.
type mappedClock struct {
	clk  Clock
	last frame.Time
	ns   int64
	err  error // of this call into the unit
}

func (c *mappedClock) At(now frame.Time) frame.Stamp {
	if now != c.last || c.err != nil {
		c.last = now
		c.ns, c.err = c.clk.At(int64(now))
	}
	return frame.Stamp(c.ns)
}

func (c *mappedClock) Now(now frame.Time) frame.Stamp { return c.At(now) }
func (c *mappedClock) Counter(now frame.Time) int64   { return int64(c.At(now)) }
func (c *mappedClock) ResetCounter(frame.Time)        {}
