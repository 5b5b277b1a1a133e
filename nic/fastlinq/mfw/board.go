package mfw

// NumGPIO is how many pins there are.
const NumGPIO = 32

// Sensor measures a temperature, in degrees Celsius.
type Sensor struct {
	ID                      uint8
	ThresholdHigh, CritHigh uint8
	Current                 int32
}

// board has what is soldered on.
type board struct {
	sensors [2]Sensor
	leds    [MaxPorts]LED
	pins    uint32
	outputs uint32
	kills   [MaxPaths]uint32
}

func (b *board) init() {
	b.sensors[0] = Sensor{ID: 0, ThresholdHigh: 95, CritHigh: 105, Current: 52}
	b.sensors[1] = Sensor{ID: 1, ThresholdHigh: 70, CritHigh: 75, Current: 41}
	b.outputs = 0xffff // the lower half; the others are strapped
}

// SetTemperature warms a sensor. From its critical threshold on the fan is no
// longer enough, which the drivers are told once.
func (f *Firmware) SetTemperature(sensor int, celsius int32) {
	s := &f.board.sensors[sensor]
	was := s.Current >= int32(s.CritHigh)
	s.Current = celsius
	f.shm.Global.InternalTemperature = f.board.sensors[0].Current
	if celsius >= int32(s.CritHigh) && !was {
		f.postAll(MsgFailureDetected)
	}
}

// temperatureStatus is temperature_status: a count, then a word for each sensor.
type temperatureStatus struct {
	Count   uint32
	Sensors [MaxSensors]struct{ ID, High, Critical, Current uint8 }
}

func (f *Firmware) temperatures(r *request) Response {
	t := temperatureStatus{Count: uint32(len(f.board.sensors))}
	for i, s := range f.board.sensors {
		t.Sensors[i] = struct{ ID, High, Critical, Current uint8 }{s.ID, s.ThresholdHigh, s.CritHigh, uint8(s.Current)}
	}
	encode(r.data, t)
	return OK
}

// MaxSensors is how many sensors a firmware tells about at most.
const MaxSensors = 7

// DecodeTemperatures reads a temperature_status.
func DecodeTemperatures(data []byte) (list []Sensor) {
	t := decode[temperatureStatus](data)
	for _, s := range t.Sensors[:min(t.Count, MaxSensors)] {
		list = append(list, Sensor{s.ID, s.High, s.Critical, int32(int8(s.Current))})
	}
	return list
}

func (f *Firmware) setLED(r *request) Response {
	if r.param > uint32(LEDOff) {
		return Error
	}
	f.board.leds[f.cfg.Funcs[r.fn].Port] = LED(r.param)
	return OK
}

// LED is the mode of a port's light.
func (f *Firmware) LED(n int) LED { return f.board.leds[n] }

// gpio reads, writes and describes a pin: its number in the lower half of the
// parameter, the value in the upper.
func (f *Firmware) gpio(r *request) Response {
	pin, value := r.param&0xffff, r.param>>16
	b := &f.board
	switch {
	case pin >= NumGPIO || value > 1:
		return Error
	case r.cmd == CmdGPIOInfo:
		r.value = b.outputs >> pin & 1 // direction: 1 for out
	case r.cmd == CmdGPIORead:
		r.value = b.pins >> pin & 1
	case b.outputs>>pin&1 == 0:
		return Error
	default:
		b.pins = b.pins&^(1<<pin) | value<<pin
	}
	return OK
}

// Kinds of statistics that the firmware asks drivers for, by the parameter of
// GET_STATS.
const (
	StatsLAN   = 1
	StatsFCoE  = 2
	StatsISCSI = 3
	StatsRDMA  = 4
)

// ProtocolStats are what a driver told about a protocol: in a LAN packets,
// over iSCSI and RDMA PDUs and octets.
type ProtocolStats struct {
	Rx, Tx, RxBytes, TxBytes uint64
	FCSErrors, LoginFailures uint32
}

// packetStats are the statistics of LAN and FCoE in the mailbox, pduStats those of
// iSCSI and RDMA.
type (
	packetStats struct {
		Rx, Tx                   uint64
		FCSErrors, LoginFailures uint32
	}
	pduStats struct{ Rx, Tx, RxBytes, TxBytes uint64 }
)

func countsPackets(kind uint32) bool { return kind == StatsLAN || kind == StatsFCoE }

// Encode writes the statistics of a kind, 24 or 32 octets.
func (s *ProtocolStats) Encode(kind int, b []byte) {
	if countsPackets(uint32(kind)) {
		encode(b, packetStats{s.Rx, s.Tx, s.FCSErrors, s.LoginFailures})
	} else {
		encode(b, pduStats{s.Rx, s.Tx, s.RxBytes, s.TxBytes})
	}
}

func (f *Firmware) takeStats(r *request) Response {
	if r.param < StatsLAN || r.param > StatsRDMA {
		return Error
	}
	s := &f.funcs[r.fn].stats[r.param]
	if countsPackets(r.param) {
		p := decode[packetStats](r.data)
		*s = ProtocolStats{Rx: p.Rx, Tx: p.Tx, FCSErrors: p.FCSErrors, LoginFailures: p.LoginFailures}
	} else {
		p := decode[pduStats](r.data)
		*s = ProtocolStats{Rx: p.Rx, Tx: p.Tx, RxBytes: p.RxBytes, TxBytes: p.TxBytes}
	}
	return OK
}

// AskStats asks a function's driver for its statistics of a kind.
func (f *Firmware) AskStats(fn, kind int) { f.post(fn, MsgGetLANStats+Message(kind-StatsLAN)) }

// ProtocolStats are the statistics of a kind that the driver has told last.
func (f *Firmware) ProtocolStats(fn, kind int) ProtocolStats { return f.funcs[fn].stats[kind] }

// BandwidthAcks counts the changes of its share that a function's driver has
// acknowledged.
func (f *Firmware) BandwidthAcks(fn int) uint64 { return f.funcs[fn].acks }

// STagAcks counts the changes of its outer tag that a function's driver has
// acknowledged.
func (f *Firmware) STagAcks(fn int) uint64 { return f.funcs[fn].tagAcks }

// ProcessKill begins a recovery of an engine: what its drivers must do is
// unload without the firmware, and load again.
func (f *Firmware) ProcessKill(engine int) {
	f.board.kills[engine]++
	f.shm.Path[engine].ProcessKill = f.board.kills[engine] & 0xffff
	for fn := range f.funcs {
		if f.engine(fn) == engine {
			f.post(fn, MsgErrorRecovery)
			f.flr(fn)
		}
	}
}
