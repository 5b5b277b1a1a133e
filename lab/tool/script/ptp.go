package script

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// ptpSettings are the settings of a script of PTP messages.
type ptpSettings struct {
	cfg    ptp.Config
	offset time.Duration // of the clock from the script's time
	lost   bool          // the stamps of what is sent are
}

// ptpEpoch is what a clock without offset shows at the start of a script. The
// times of messages count from it.
const ptpEpoch = frame.Stamp(1_700_000_000_000_000_000)

// clockID is the identity of clock n: 1 is the one under the script.
func clockID(n uint64) msg.ClockIdentity {
	return msg.ClockIdentity{0, 0x1b, 0x19, 0xff, 0xfe, 0, byte(n >> 8), byte(n)}
}

func clockNumber(id msg.ClockIdentity) uint64 { return uint64(id[6])<<8 | uint64(id[7]) }

func defaultPTP() ptpSettings {
	return ptpSettings{cfg: ptp.NewConfig(ptp.Profile(0), clockID(1), 1)}
}

var signedForm = valueForm{
	want: "a number from -128 to 127",
	parse: func(text string) (any, bool) {
		n, err := parseInt(text, math.MinInt8, math.MaxInt8)
		return n, err == nil
	},
	text: func(v any) string { return fmt.Sprint(v) },
}

// portForm is a port, as CLOCK or CLOCK/PORT.
var portForm = valueForm{
	want: "a port as CLOCK/PORT, such as 2/1",
	parse: func(text string) (any, bool) {
		var c, p uint16
		if n, err := fmt.Sscanf(text+"\n", "%d/%d\n", &c, &p); err != nil || n != 2 {
			return nil, false
		}
		return msg.PortIdentity{Clock: clockID(uint64(c)), Port: p}, true
	},
	text: func(v any) string {
		p := v.(msg.PortIdentity)
		return fmt.Sprintf("%d/%d", clockNumber(p.Clock), p.Port)
	},
}

var (
	thisPort  = msg.PortIdentity{Clock: clockID(1), Port: 1}
	otherPort = msg.PortIdentity{Clock: clockID(2), Port: 1}
)

// flagNames are the flags that scripts know.
var flagNames = []struct {
	name string
	bit  msg.Flags
}{
	{"two-step", msg.FlagTwoStep}, {"unicast", msg.FlagUnicast}, {"alternate", msg.FlagAlternateMaster},
	{"leap61", msg.FlagLeap61},
	{"leap59", msg.FlagLeap59}, {"ptp-timescale", msg.FlagPTPTimescale},
}

// kindOfMessage makes the kind of messages of a type, with the fields that
// follow the header.
func kindOfMessage(name string, more ...fieldSpec) *messageKind {
	k := &messageKind{name: name, fields: []fieldSpec{
		{name: "seq", form: numberForm(16, false), usual: uint64(0)},
		{name: "source", form: portForm, usual: otherPort},
		{name: "domain", form: numberForm(8, false), usual: uint64(0), strict: true},
		{name: "sdo", form: numberForm(12, true), usual: uint64(0), strict: true},
		{name: "correction", form: timeForm, usual: time.Duration(0), strict: true},
		{name: "interval", form: signedForm, usual: int64(0)},
	}}
	for _, f := range flagNames {
		k.fields = append(k.fields, fieldSpec{name: f.name, form: flagForm, usual: false})
	}
	k.fields = append(k.fields, more...)
	// What no clock sends.
	k.fields = append(k.fields, fieldSpec{name: "version", form: numberForm(4, false), in: true},
		fieldSpec{name: "unstamped", form: flagForm, in: true},
		fieldSpec{name: "short", form: numberForm(8, false), in: true})
	return k
}

var (
	timeField = fieldSpec{name: "time", form: timeForm, usual: time.Duration(0)}
	portField = fieldSpec{name: "port", form: portForm, usual: thisPort}
)

// ptpKinds are the messages by name, with their types.
var ptpKinds = map[string]*messageKind{
	"sync": kindOfMessage("sync", timeField), "follow-up": kindOfMessage("follow-up", timeField),
	"delay-req":             kindOfMessage("delay-req", timeField),
	"delay-resp":            kindOfMessage("delay-resp", timeField, portField),
	"pdelay-req":            kindOfMessage("pdelay-req", timeField),
	"pdelay-resp":           kindOfMessage("pdelay-resp", timeField, portField),
	"pdelay-resp-follow-up": kindOfMessage("pdelay-resp-follow-up", timeField, portField),
	"announce": kindOfMessage("announce",
		fieldSpec{name: "gm", form: numberForm(16, false), usual: uint64(2)},
		fieldSpec{name: "priority1", form: numberForm(8, false), usual: uint64(100)},
		fieldSpec{name: "priority2", form: numberForm(8, false), usual: uint64(128)},
		fieldSpec{name: "class", form: numberForm(8, false), usual: uint64(6)},
		fieldSpec{name: "accuracy", form: numberForm(8, true), usual: uint64(0x21)},
		fieldSpec{name: "variance", form: numberForm(16, true), usual: uint64(0x4e5d)},
		fieldSpec{name: "steps", form: numberForm(16, false), usual: uint64(0)},
		fieldSpec{name: "utc", form: numberForm(15, false), usual: uint64(37)}),
}

var ptpTypes = map[string]msg.Type{
	"sync": msg.Sync, "follow-up": msg.FollowUp, "delay-req": msg.DelayReq, "delay-resp": msg.DelayResp,
	"pdelay-req":  msg.PdelayReq,
	"pdelay-resp": msg.PdelayResp, "pdelay-resp-follow-up": msg.PdelayRespFollowUp, "announce": msg.Announce,
}

// ptpNumbers are the expectations with a number.
func ptpNumbers(s *ptp.Snapshot) map[string]uint64 {
	return map[string]uint64{
		"master": clockNumber(s.Parent.Port.Clock), "gm": clockNumber(s.Parent.Grandmaster.Identity),
		"steps": uint64(s.Current.StepsRemoved), "foreign": uint64(s.Ports[0].Foreign),
	}
}

// ptpTimes are those with a time that was measured, within the tolerance.
func ptpTimes(s *ptp.Snapshot) map[string]time.Duration {
	return map[string]time.Duration{
		"offset": s.Current.OffsetFromMaster.Duration(), "delay": s.Current.MeanDelay.Duration(),
		"link": s.Ports[0].LinkDelay.Duration(),
	}
}

var ptpExpects = func() map[string]expectReader {
	table := map[string]expectReader{
		"quiet": quiet(unclaimed), "port": parsePTPState,
		"counter": counted(func(b *ptpBench) map[string]uint64 {
			all := map[string]uint64{}
			s := b.inst.Stats(0)
			for _, c := range s.Counters() {
				all[c.Name] = c.Value
			}
			return all
		}),
	}
	empty := &ptp.Snapshot{Ports: make([]ptp.PortSnapshot, 1)}
	for name := range ptpNumbers(empty) {
		table[name] = numbered(func(b *ptpBench) uint64 { return ptpNumbers(new(b.inst.Snapshot()))[name] })
	}
	for name := range ptpTimes(empty) {
		table[name] = func(e *expectation, l *line) {
			v, w := l.form(&timeForm)
			e.mark(w)
			e.holds = func(r *runner, _ *peer) (bool, string) {
				have := ptpTimes(new(r.bench.(*ptpBench).inst.Snapshot()))[name]
				return (have - v.(time.Duration)).Abs() <= time.Microsecond, have.String()
			}
		}
	}
	return table
}()

var ptpProtocol = &protocol{
	settings: func(s *settings) readers {
		const state = "a state"
		c, p := &s.ptp.cfg, &s.ptp.cfg.Ports[0]
		return readers{
			"profile": func(l *line) {
				w := l.next("a profile, such as default or gptp")
				p, err := ptp.ParseProfile(w.text)
				if err != nil {
					panic(l.at(w, "%v", err))
				}
				*c = ptp.NewConfig(p, clockID(1), 1)
			},
			"mechanism": func(l *line) {
				i, _ := l.oneOf("a delay mechanism", []string{"e2e", "p2p"})
				p.DelayMechanism = []msg.DelayMechanism{msg.DelayE2E, msg.DelayP2P}[i]
			},
			"offset": func(l *line) {
				v, _ := l.form(&timeForm)
				s.ptp.offset = v.(time.Duration)
			},
			"slave-only":         either(&c.SlaveOnly, state, "off", "on"),
			"master-only":        either(&p.MasterOnly, state, "off", "on"),
			"free-running":       either(&c.FreeRunning, state, "off", "on"),
			"one-step":           func(l *line) { either(&c.TwoStep, state, "off", "on")(l); c.TwoStep = !c.TwoStep },
			"stamps-lost":        either(&s.ptp.lost, state, "off", "on"),
			"domain":             unsigned(&c.Domain, "a number", 255),
			"priority1":          unsigned(&c.Priority1, "a number", 255),
			"priority2":          unsigned(&c.Priority2, "a number", 255),
			"class":              unsigned(&c.Quality.Class, "a number", 255),
			"announce-interval":  signed(&p.LogAnnounceInterval, "a number", -16, 255),
			"announce-timeout":   signed(&p.AnnounceReceiptTimeout, "a number", -16, 255),
			"sync-interval":      signed(&p.LogSyncInterval, "a number", -16, 255),
			"delay-req-interval": signed(&p.LogMinDelayReqInterval, "a number", -16, 255),
			"pdelay-interval":    signed(&p.LogMinPdelayReqInterval, "a number", -16, 255),
		}
	},
	messages: ptpKinds,
	expects:  ptpExpects,
	commands: map[string]func(l *line) action{"expect": parseExpect(ptpExpects), "step": parseClockStep},
	start:    newPTP,
}

// ptpBench is a clock with one port.
type ptpBench struct {
	r      *runner
	phc    *clock.PHC
	inst   *ptp.Instance
	stamps []txStamp
}

// txStamp is a stamp that is to be reported.
type txStamp struct {
	id uint64
	at frame.Stamp
}

func newPTP(r *runner) (bench, error) {
	set := &r.script.set.ptp
	b := &ptpBench{r: r}
	var err error
	b.phc, err = clock.New(clock.Config{Start: r.now(), Initial: ptpEpoch + frame.Stamp(set.offset),
		MaxAdj: 500_000_000})
	if err != nil {
		return nil, err
	}
	cfg := set.cfg
	cfg.Ports = slices.Clone(cfg.Ports)
	cfg.Seed = 1
	if b.inst, err = ptp.New(cfg, b.phc, b); err != nil {
		return nil, err
	}
	b.poll() // an instance starts with the first
	return b, nil
}

// poll goes on until nothing more is due, with the stamps of what was sent.
func (b *ptpBench) poll() frame.Time {
	for {
		next := b.inst.Poll(b.r.now())
		if len(b.stamps) == 0 {
			return next
		}
		due := b.stamps
		b.stamps = nil
		for _, s := range due {
			b.inst.TxStamp(0, s.id, s.at, nil, b.r.now())
		}
	}
}

// Send implements ptp.Lower. Whatever the script says, the message must be
// sound.
func (b *ptpBench) Send(_ int, out ptp.Outgoing) {
	now := b.phc.At(b.r.now())
	if out.ID != 0 && !b.r.script.set.ptp.lost {
		b.stamps = append(b.stamps, txStamp{out.ID, now})
	}
	var m msg.Message
	if err := m.Parse(b.r.over.carryPTP(out.Body, false)); err != nil {
		b.r.observed(ptpKinds["sync"], nil, err.Error())
		return
	}
	if out.OneStep && m.Type == msg.Sync {
		m.Timestamp = msg.TimestampOf(now)
	}
	if out.OneStep && m.Type == msg.PdelayResp {
		d, _ := msg.Between(now, out.Since)
		m.Correction = m.Correction.Add(d)
	}
	for name, typ := range ptpTypes {
		if typ == m.Type {
			b.r.observed(ptpKinds[name], messageValues(&m), "")
			return
		}
	}
	b.r.observed(ptpKinds["sync"], nil, fmt.Sprintf("a message of type %v", m.Type))
}

// sinceEpoch is a stamp as a time of the script.
func sinceEpoch(t msg.Timestamp) time.Duration {
	s, ok := t.Stamp()
	if !ok || s == 0 {
		return 0
	}
	return time.Duration(s - ptpEpoch)
}

func messageValues(m *msg.Message) map[string]any {
	v := map[string]any{
		"seq": uint64(m.Sequence), "source": m.Source, "domain": uint64(m.Domain), "sdo": uint64(m.SdoID),
		"correction": m.Correction.Duration(), "interval": int64(m.LogInterval),
	}
	for _, f := range flagNames {
		if m.Flags.Has(f.bit) {
			v[f.name] = true
		}
	}
	switch m.Type {
	case msg.Announce:
		g := &m.Grandmaster
		v["gm"], v["priority1"], v["priority2"] = clockNumber(g.Identity), uint64(g.Priority1), uint64(g.Priority2)
		v["class"], v["accuracy"], v["variance"] = uint64(g.Quality.Class), uint64(g.Quality.Accuracy),
			uint64(g.Quality.Variance)
		v["steps"], v["utc"] = uint64(g.StepsRemoved), uint64(uint16(g.UTCOffset))
	case msg.DelayResp, msg.PdelayResp, msg.PdelayRespFollowUp:
		v["port"], v["time"] = m.Port, sinceEpoch(m.Timestamp)
	default:
		v["time"] = sinceEpoch(m.Timestamp)
	}
	return v
}

// send implements bench: a message of another clock. It is stamped as it
// arrives.
func (b *ptpBench) send(m *fields) string {
	t := ptpTypes[m.kind.name]
	h := msg.Header{
		Type: t, SdoID: uint16(m.num("sdo")), MinorVersion: 1, Domain: uint8(m.num("domain")),
		Sequence:   uint16(m.num("seq")),
		Correction: msg.IntervalOf(m.value("correction").(time.Duration)), Source: m.value("source").(msg.PortIdentity),
		Control: t.Control(), LogInterval: int8(m.value("interval").(int64)),
	}
	for _, f := range flagNames {
		if m.flag(f.name) {
			h.Flags |= f.bit
		}
	}
	full := msg.Message{Header: h}
	if d, ok := m.value("time").(time.Duration); ok {
		full.Timestamp = msg.TimestampOf(ptpEpoch + frame.Stamp(d))
	}
	if p, ok := m.value("port").(msg.PortIdentity); ok {
		full.Port = p
	}
	if t == msg.Announce {
		full.Grandmaster = msg.Grandmaster{
			UTCOffset: int16(m.num("utc")), Priority1: uint8(m.num("priority1")), Priority2: uint8(m.num("priority2")),
			Identity: clockID(m.num("gm")), StepsRemoved: uint16(m.num("steps")), TimeSource: 0x20,
		}
		full.Grandmaster.Quality.Class = uint8(m.num("class"))
		full.Grandmaster.Quality.Accuracy = uint8(m.num("accuracy"))
		full.Grandmaster.Quality.Variance = uint16(m.num("variance"))
	}
	body := full.Append(nil)
	if n, given := m.given["version"].(uint64); given {
		body[1] = body[1]&0xf0 | byte(n)
	}
	body = body[:len(body)-min(len(body), int(m.num("short")))]
	meta := ptp.Meta{Src: transport.Addr{MAC: ether.Addr{2, 0, 0, 0, 0, h.Source.Clock[7]}}, Now: b.r.now()}
	if t.Event() && !m.flag("unstamped") {
		meta.Stamp, meta.Stamped = b.phc.At(b.r.now()), true
	}
	b.inst.Receive(0, b.r.over.carryPTP(body, true), meta)
	return ""
}

func (b *ptpBench) unclaimed() string { return "" }

// parsePTPState reads: port STATE.
func parsePTPState(e *expectation, l *line) {
	w := l.next("a state of the port, such as LISTENING, MASTER or SLAVE")
	e.mark(w)
	e.holds = func(r *runner, _ *peer) (bool, string) {
		have := strings.ToUpper(r.bench.(*ptpBench).inst.State(0).String())
		return have == w.text, "port " + have
	}
}

// parseClockStep reads: step TIME: someone steps the clock.
func parseClockStep(l *line) action {
	v, _ := l.form(&timeForm)
	return do(func(b *ptpBench) string {
		err := b.phc.AdjTime(b.r.now(), v.(time.Duration))
		b.inst.ClockStepped()
		return errorText(err)
	})
}
