package uapi

import (
	"context"
	"time"

	"tapir/lab/tool/ctl"
	"tapir/nic/ptp"
	"tapir/nic/uapi/phc"
	"tapir/nic/view"
)

// patience bounds a question to the NIC; shortly, one after another that was
// not answered.
const patience, shortly = 5 * time.Second, 200 * time.Millisecond

// ask asks the NIC.
func ask[T any](d *device, question func(ctx context.Context) (T, error)) (T, error) {
	limit := patience
	if d.silent.Load() {
		limit = shortly
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	answer, err := question(ctx)
	d.silent.Store(ctx.Err() != nil)
	return answer, d.errno(err)
}

// tell is ask where there is nothing to answer.
func tell(d *device, order func(ctx context.Context) error) error {
	_, err := ask(d, func(ctx context.Context) (struct{}, error) { return struct{}{}, order(ctx) })
	return err
}

// remoteClock is the NIC's hardware clock.
type remoteClock device

func (r *remoteClock) dev() *device { return (*device)(r) }

func (r *remoteClock) MaxAdj() (int64, error) {
	caps, err := ask(r.dev(), r.client.PHCCaps)
	return caps.MaxAdj, err
}

func (r *remoteClock) Time() (int64, error) { return ask(r.dev(), r.client.PHCTime) }

func (r *remoteClock) SetTime(ns int64) error {
	return tell(r.dev(), func(ctx context.Context) error { return r.client.PHCSetTime(ctx, ns) })
}

func (r *remoteClock) AdjTime(ns int64) error {
	return tell(r.dev(), func(ctx context.Context) error { return r.client.PHCAdjTime(ctx, ns) })
}

func (r *remoteClock) AdjFine(scaledPPM int64) error {
	return tell(r.dev(), func(ctx context.Context) error { return r.client.PHCAdjFine(ctx, scaledPPM) })
}

func (r *remoteClock) Frequency() (int64, error) { return ask(r.dev(), r.client.PHCFrequency) }

func (r *remoteClock) Samples(n int) ([]phc.Sample, error) {
	list, err := ask(r.dev(), func(ctx context.Context) ([]ctl.PHCSample, error) { return r.client.PHCSamples(ctx, n) })
	samples := make([]phc.Sample, 0, len(list))
	for _, s := range list {
		samples = append(samples, phc.Sample(s))
	}
	return samples, err
}

func (r *remoteClock) At(realtime int64) (int64, error) {
	return ask(r.dev(), func(ctx context.Context) (int64, error) { return r.client.PHCAt(ctx, realtime) })
}

// hostFunction is the time stamping of the NIC's host function: the NIC's own
// stamps, taken as the messages passed its wire.
type hostFunction device

func (h *hostFunction) dev() *device { return (*device)(h) }

func (h *hostFunction) Config() (ptp.HWConfig, error) { return ask(h.dev(), h.client.HWTimestamps) }

func (h *hostFunction) Configure(c ptp.HWConfig) (ptp.HWConfig, error) {
	return ask(h.dev(), func(ctx context.Context) (ptp.HWConfig, error) { return h.client.SetHWTimestamps(ctx, c) })
}

func (h *hostFunction) Rx(p ptp.Packet, _ int64) (int64, bool) { return h.stamp(h.client.RxStamp, p) }

func (h *hostFunction) Tx(p ptp.Packet, _ int64, _ bool) (int64, bool) {
	return h.stamp(h.client.TxStamp, p)
}

// Statistics are what ethtool -S shows of the NIC.
func (h *hostFunction) Statistics() (names []string, values []uint64, err error) {
	e, err := ask(h.dev(), func(ctx context.Context) (e view.EthtoolInfo, err error) {
		return e, h.client.Show(ctx, "ethtool", &e)
	})
	for _, s := range e.Stats {
		names, values = append(names, s.Name), append(values, s.Value)
	}
	return names, values, err
}

func (h *hostFunction) stamp(take func(context.Context, ctl.MessageID) (ctl.MessageStamp, error),
	p ptp.Packet) (int64, bool) {
	s, err := ask(h.dev(), func(ctx context.Context) (ctl.MessageStamp, error) {
		return take(ctx, ctl.MessageID{Type: uint8(p.Type), Sequence: p.Sequence, Source: p.Source})
	})
	return s.NS, err == nil && s.OK
}
