package mfw

import "encoding/binary"

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

// temperatures writes temperature_status: a count, then a word per sensor of
// id, threshold, critical and current, an octet each from the lowest.
func (f *Firmware) temperatures(data []byte) Response {
	binary.LittleEndian.PutUint32(data, uint32(len(f.board.sensors)))
	for i, s := range f.board.sensors {
		w := data[4+4*i:]
		w[0], w[1], w[2], w[3] = s.ID, s.ThresholdHigh, s.CritHigh, uint8(s.Current)
	}
	return OK
}

// MaxSensors is how many sensors a firmware tells about at most.
const MaxSensors = 7

// DecodeTemperatures reads a temperature_status.
func DecodeTemperatures(data []byte) (list []Sensor) {
	for i := range min(binary.LittleEndian.Uint32(data), MaxSensors) {
		w := data[4+4*i:]
		list = append(list, Sensor{ID: w[0], ThresholdHigh: w[1], CritHigh: w[2], Current: int32(int8(w[3]))})
	}
	return list
}

func (f *Firmware) setLED(fn int, param uint32) Response {
	if param > uint32(LEDOff) {
		return Error
	}
	f.board.leds[f.cfg.Funcs[fn].Port] = LED(param)
	return OK
}

// LED is the mode of a port's light.
func (f *Firmware) LED(n int) LED { return f.board.leds[n] }

// gpio reads, writes and describes a pin: its number in the lower half of the
// parameter, the value in the upper.
func (f *Firmware) gpio(c Command, param uint32) (Response, uint32) {
	pin, value := param&0xffff, param>>16
	if pin >= NumGPIO || value > 1 {
		return Error, 0
	}
	b := &f.board
	switch c {
	case CmdGPIOInfo:
		return OK, b.outputs >> pin & 1 // direction: 1 for out
	case CmdGPIORead:
		return OK, b.pins >> pin & 1
	}
	if b.outputs>>pin&1 == 0 {
		return Error, 0
	}
	b.pins = b.pins&^(1<<pin) | value<<pin
	return OK, 0
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

// Encode writes the statistics of a kind, 24 or 32 octets.
func (s *ProtocolStats) Encode(kind int, b []byte) {
	binary.LittleEndian.PutUint64(b, s.Rx)
	binary.LittleEndian.PutUint64(b[8:], s.Tx)
	if kind == StatsLAN || kind == StatsFCoE {
		binary.LittleEndian.PutUint32(b[16:], s.FCSErrors)
		binary.LittleEndian.PutUint32(b[20:], s.LoginFailures)
		return
	}
	binary.LittleEndian.PutUint64(b[16:], s.RxBytes)
	binary.LittleEndian.PutUint64(b[24:], s.TxBytes)
}

func (f *Firmware) takeStats(fn int, kind uint32, data []byte) Response {
	if kind < StatsLAN || kind > StatsRDMA {
		return Error
	}
	me := &f.funcs[fn]
	if me.stats == nil {
		me.stats = make([]ProtocolStats, StatsRDMA+1)
	}
	s := &me.stats[kind]
	*s = ProtocolStats{Rx: binary.LittleEndian.Uint64(data), Tx: binary.LittleEndian.Uint64(data[8:])}
	if kind == StatsLAN || kind == StatsFCoE {
		s.FCSErrors, s.LoginFailures = binary.LittleEndian.Uint32(data[16:]), binary.LittleEndian.Uint32(data[20:])
	} else {
		s.RxBytes, s.TxBytes = binary.LittleEndian.Uint64(data[16:]), binary.LittleEndian.Uint64(data[24:])
	}
	return OK
}

// AskStats asks a function's driver for its statistics of a kind.
func (f *Firmware) AskStats(fn, kind int) { f.post(fn, MsgGetLANStats+Message(kind-StatsLAN)) }

// ProtocolStats are the statistics of a kind that the driver has told last.
func (f *Firmware) ProtocolStats(fn, kind int) (s ProtocolStats) {
	if list := f.funcs[fn].stats; kind < len(list) {
		s = list[kind]
	}
	return s
}

// BandwidthAcks counts the changes of its share that a function's driver has
// acknowledged.
func (f *Firmware) BandwidthAcks(fn int) uint64 { return f.funcs[fn].acks }

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
