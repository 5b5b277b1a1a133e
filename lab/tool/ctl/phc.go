package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf/ptpconf"
	"tapir/lab/tool/ptprun"
	"tapir/nic/ptp"
	"tapir/nic/uapi/refclock"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// The commands of a NIC's hardware clock and of its time stamps. Times are in
// nanoseconds; those of the system are CLOCK_REALTIME. An error carries the
// errno that a driver would return.
//
//	phc.caps                         PHCCaps
//	phc.gettime                      PHCTime
//	phc.settime     PHCTime          nothing
//	phc.adjtime     PHCDelta         nothing
//	phc.adjfine     PHCFrequency     nothing
//	phc.frequency                    PHCFrequency, as it was last adjusted
//	phc.gettimex    PHCSamples       a list of PHCSample
//	phc.at          SystemTime       PHCTime: what the clock showed at a time of the system
//	hwtstamp.get                     ptp.HWConfig
//	hwtstamp.set    ptp.HWConfig     ptp.HWConfig, as granted
//	hwtstamp.caps                    HWTimestampCaps
//	hwtstamp.rx     MessageID        MessageStamp of a received event message
//	hwtstamp.tx     MessageID        MessageStamp of a sent event message
//	ptp.status                       ptprun.Status
//	ptp.set         []ptpconf.Setting nothing

// PHCCaps is what PTP_CLOCK_GETCAPS answers, and the clock's name.
type PHCCaps struct {
	Name   string `json:"name"`
	MaxAdj int64  `json:"max_adj"` // ppb
	Alarms int    `json:"n_alarm"`
	ExtTS  int    `json:"n_ext_ts"`
	PerOut int    `json:"n_per_out"`
	PPS    bool   `json:"pps"`
	Pins   int    `json:"n_pins"`
}

// PHCTime is a reading of the clock.
type PHCTime struct {
	NS int64 `json:"ns"`
}

// PHCDelta is a step of the clock.
type PHCDelta struct {
	NS int64 `json:"ns"`
}

// PHCFrequency is a correction of the clock's frequency in units of 2^-16 ppm.
type PHCFrequency struct {
	ScaledPPM int64 `json:"scaled_ppm"`
}

// PHCSamples asks for so many readings, 1 to 25.
type PHCSamples struct {
	N int `json:"n"`
}

// PHCSample is a reading of the clock between two of the system's.
type PHCSample struct {
	Before int64 `json:"before"`
	PHC    int64 `json:"phc"`
	After  int64 `json:"after"`
}

// SystemTime is a time of the system.
type SystemTime struct {
	Realtime int64 `json:"realtime"`
}

// MessageID names a PTP event message.
type MessageID struct {
	Type     uint8            `json:"type"` // messageType
	Sequence uint16           `json:"sequence"`
	Source   msg.PortIdentity `json:"source"`
}

// MessageStamp is the hardware stamp of a message. It is given out once.
type MessageStamp struct {
	OK      bool  `json:"ok"`
	Waiting bool  `json:"waiting,omitempty"` // not yet, but it may still come
	NS      int64 `json:"ns,omitempty"`
}

// HWTimestampCaps is what ETHTOOL_GET_TS_INFO answers.
type HWTimestampCaps struct {
	Clock     string         `json:"clock"` // name of the hardware clock
	TxTypes   []ptp.TxType   `json:"tx_types"`
	RxFilters []ptp.RxFilter `json:"rx_filters"`
	Owner     string         `json:"owner"` // who has the port's PTP unit now; empty: nobody
}

// maxSamples is PTP_MAX_SAMPLES.
const maxSamples = 25

// phcCommands run on the thread.
var phcCommands = map[string]clockCommand{
	"phc.caps": asking(func(d *Clock, _ frame.Time) any {
		return PHCCaps{Name: d.Name, MaxAdj: d.PTP.PHC().MaxAdj()}
	}),
	"phc.gettime": asking(func(d *Clock, _ frame.Time) any {
		return PHCTime{int64(d.PTP.PHC().Now(d.Thread.Now()))}
	}),
	"phc.settime": changing(func(d *Clock, t PHCTime, now frame.Time) error {
		return d.PTP.PHC().SetTime(now, frame.Stamp(t.NS))
	}),
	"phc.adjtime": changing(func(d *Clock, t PHCDelta, now frame.Time) error {
		return d.PTP.PHC().AdjTime(now, time.Duration(t.NS))
	}),
	"phc.adjfine": changing(func(d *Clock, f PHCFrequency, now frame.Time) error {
		return d.PTP.PHC().AdjFine(now, f.ScaledPPM)
	}),
	"phc.frequency": asking(func(d *Clock, _ frame.Time) any {
		return PHCFrequency{d.PTP.PHC().Frequency()}
	}),
	"phc.gettimex": with((*Clock).getTimeX),
	"phc.at": with(func(d *Clock, t SystemTime, _ frame.Time) (any, error) {
		return PHCTime{int64(d.PTP.PHC().At(d.Thread.FromRealtime(t.Realtime)))}, nil
	}),
	"hwtstamp.get": asking(func(d *Clock, _ frame.Time) any { return d.PTP.HWTimestamps() }),
	"hwtstamp.set": with(func(d *Clock, c ptp.HWConfig, now frame.Time) (any, error) {
		return d.PTP.SetHWTimestamps(c, now)
	}),
	"hwtstamp.caps": asking(func(d *Clock, _ frame.Time) any {
		return HWTimestampCaps{Clock: d.Name, TxTypes: []ptp.TxType{ptp.TxOff, ptp.TxOn},
			RxFilters: ptp.Filters(), Owner: d.PTP.Owner()}
	}),
	"hwtstamp.rx": with(func(d *Clock, id MessageID, _ frame.Time) (any, error) {
		s, ok := d.PTP.RxStamp(id.unit())
		return MessageStamp{OK: ok, NS: int64(s)}, nil
	}),
	"hwtstamp.tx": with(func(d *Clock, id MessageID, _ frame.Time) (any, error) {
		s, ok, waiting := d.PTP.TxStamp(id.unit())
		return MessageStamp{OK: ok, Waiting: waiting, NS: int64(s)}, nil
	}),
	"ptp.status": asking(func(d *Clock, _ frame.Time) any {
		return ptprun.StatusOf(d.Node, d.Thread, d.Thread.Now())
	}),
	"ptp.set": changing(func(d *Clock, list []ptpconf.Setting, now frame.Time) error {
		return ptpError(ptprun.Set(d.Node, list, now))
	}),
}

func (m MessageID) unit() ptp.ID {
	return ptp.ID{Type: msg.Type(m.Type), Sequence: m.Sequence, Source: m.Source}
}

func (d *Clock) getTimeX(ask PHCSamples, _ frame.Time) (any, error) {
	if ask.N < 1 || ask.N > maxSamples {
		return nil, &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("%d samples: expected 1 to %d", ask.N,
			maxSamples), Errno: "EINVAL"}
	}
	list := make([]PHCSample, ask.N)
	for i := range list {
		before := d.Thread.Now()
		phc := d.PTP.PHC().Now(d.Thread.Now())
		after := d.Thread.Now()
		list[i] = PHCSample{d.Thread.Realtime(before), int64(phc), d.Thread.Realtime(after)}
	}
	return list, nil
}

// errnos are the answers of a driver.
var errnos = []struct {
	err   error
	errno string
}{
	{ptp.ErrBusy, "EBUSY"}, {ptp.ErrRange, "ERANGE"}, {ptp.ErrInvalid, "EINVAL"}, {ptp.ErrDisabled, "ENODEV"},
	{clock.ErrRange, "ERANGE"},
}

// withErrno adds the errno to an error of the clock or the PTP unit.
func withErrno(err error) error {
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			out := &Error{What: err.Error(), Errno: e.errno}
			if what, who, ok := strings.Cut(out.What, ": another function of the port owns PTP: "); ok &&
				what == "ptp" {
				out.Remedy = fmt.Sprintf("the owner is the %s: end its use of PTP first", who)
			}
			return out
		}
	}
	return err
}

// ptpError adds how to mend what a PTP instance refuses. What is wrong with a
// configuration is the client's.
func ptpError(err error) error {
	switch e := withErrno(err); {
	case e != err:
		return e
	case errors.Is(err, ptprun.ErrNoInstance):
		return &Error{What: err.Error(), Remedy: "start one with: tapir ptp run"}
	case errors.Is(err, ptp.ErrPTPRuns):
		return &Error{What: err.Error(), Remedy: "end it first; see: tapir ptp status", Errno: "EBUSY"}
	case err != nil:
		return &Error{Status: http.StatusBadRequest, What: err.Error()}
	}
	return nil
}

// call runs a command with arguments and decodes its answer.
func call[T any](ctx context.Context, c *Client, name string, args any) (answer T, err error) {
	err = c.Command(ctx, name, args, &answer)
	return answer, err
}

// PHCCaps describes the NIC's hardware clock.
func (c *Client) PHCCaps(ctx context.Context) (PHCCaps, error) {
	return call[PHCCaps](ctx, c, "phc.caps", nil)
}

// PHCTime reads the hardware clock.
func (c *Client) PHCTime(ctx context.Context) (int64, error) {
	t, err := call[PHCTime](ctx, c, "phc.gettime", nil)
	return t.NS, err
}

// PHCSetTime sets the hardware clock.
func (c *Client) PHCSetTime(ctx context.Context, ns int64) error {
	_, err := call[struct{}](ctx, c, "phc.settime", PHCTime{ns})
	return err
}

// PHCAdjTime steps the hardware clock.
func (c *Client) PHCAdjTime(ctx context.Context, ns int64) error {
	_, err := call[struct{}](ctx, c, "phc.adjtime", PHCDelta{ns})
	return err
}

// PHCAdjFine corrects the hardware clock's frequency, in units of 2^-16 ppm.
func (c *Client) PHCAdjFine(ctx context.Context, scaledPPM int64) error {
	_, err := call[struct{}](ctx, c, "phc.adjfine", PHCFrequency{scaledPPM})
	return err
}

// PHCFrequency is the correction in force, in units of 2^-16 ppm.
func (c *Client) PHCFrequency(ctx context.Context) (int64, error) {
	f, err := call[PHCFrequency](ctx, c, "phc.frequency", nil)
	return f.ScaledPPM, err
}

// PHCSamples reads the hardware clock n times between readings of the
// system's.
func (c *Client) PHCSamples(ctx context.Context, n int) ([]PHCSample, error) {
	return call[[]PHCSample](ctx, c, "phc.gettimex", PHCSamples{n})
}

// PHCAt is what the hardware clock showed when the system's showed realtime,
// for what has just happened.
func (c *Client) PHCAt(ctx context.Context, realtime int64) (int64, error) {
	t, err := call[PHCTime](ctx, c, "phc.at", SystemTime{realtime})
	return t.NS, err
}

// HWTimestamps is the configuration of hardware time stamps.
func (c *Client) HWTimestamps(ctx context.Context) (ptp.HWConfig, error) {
	return call[ptp.HWConfig](ctx, c, "hwtstamp.get", nil)
}

// SetHWTimestamps asks for hardware time stamps and returns what was granted.
func (c *Client) SetHWTimestamps(ctx context.Context, cfg ptp.HWConfig) (ptp.HWConfig, error) {
	return call[ptp.HWConfig](ctx, c, "hwtstamp.set", cfg)
}

// HWTimestampCaps tells what hardware time stamps there are.
func (c *Client) HWTimestampCaps(ctx context.Context) (HWTimestampCaps, error) {
	return call[HWTimestampCaps](ctx, c, "hwtstamp.caps", nil)
}

// RxStamp takes the stamp of an event message that the host function received.
func (c *Client) RxStamp(ctx context.Context, id MessageID) (MessageStamp, error) {
	return call[MessageStamp](ctx, c, "hwtstamp.rx", id)
}

// TxStamp takes the stamp of an event message that the host function sent.
func (c *Client) TxStamp(ctx context.Context, id MessageID) (MessageStamp, error) {
	return call[MessageStamp](ctx, c, "hwtstamp.tx", id)
}

// tries is how often the clocks are read for a sample: the reading that took
// least counts.
const tries = 5

// ClockSample returns a function that takes a sample of the hardware clock, which
// is ahead of UTC by so much, beside the system's.
func (c *Client) ClockSample(ahead time.Duration) func(context.Context) (refclock.Sample, error) {
	return func(ctx context.Context) (refclock.Sample, error) {
		list, err := c.PHCSamples(ctx, tries)
		if err != nil {
			return refclock.Sample{}, err
		}
		best := slices.MinFunc(list, func(a, b PHCSample) int {
			return cmp.Compare(a.After-a.Before, b.After-b.Before)
		})
		return refclock.Sample{System: best.Before + (best.After-best.Before)/2, Clock: best.PHC - int64(ahead)}, nil
	}
}
