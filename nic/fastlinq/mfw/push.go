package mfw

import (
	"encoding/binary"
	"slices"
)

// Pushed is what a function's driver has told the firmware of its own accord.
type Pushed struct {
	Client       Client // who changed the configuration last
	MTU          uint32
	MAC          [6]byte
	WWNN, WWPN   uint64
	WoL          WoL
	State        DriverState
	ESwitch      ESwitch
	StormFW      uint32 // major, minor, build, drop
	Driver       string
	DriverNumber uint32
	BusNum       uint32
	BootProgress uint32
}

// Kinds of address of SET_VMAC and GET_VMAC.
const (
	VMACMAC  = 1
	VMACWWNN = 2
	VMACWWPN = 3

	vmacShift = 4
)

// Pushed is what function fn has pushed.
func (f *Firmware) Pushed(fn int) Pushed {
	p := f.funcs[fn].pushed
	p.WoL, p.State = f.funcs[fn].wol, f.funcs[fn].state
	return p
}

// push does the commands by which a driver tells what it does. They are always
// taken; whether they change anything is decided here.
func (f *Firmware) push(fn int, c Command, param uint32, data []byte) (Response, uint32, bool) {
	me := &f.funcs[fn]
	p := &me.pushed
	switch c {
	case CmdUpdateCurrentConfig:
		p.Client = Client(param & 0xf)
	case CmdUpdateMTU:
		p.MTU = param
		f.shm.Func[fn].MTU = param
	case CmdUpdateWoL:
		me.wol = WoL(param & 3)
	case CmdUpdateDriverState:
		me.state = DriverState(param & 0xf)
	case CmdUpdateESwitch:
		p.ESwitch = ESwitch(param & 3)
	case CmdUpdateStormFW:
		p.StormFW = param
	case CmdUpdateBusNum:
		p.BusNum = param
	case CmdUpdateBootProgress:
		p.BootProgress = param
	case CmdBWUpdateAck:
		me.acks++
	case CmdSetVersion:
		p.DriverNumber = binary.LittleEndian.Uint32(data)
		p.Driver = text(data[4:32])
		return OK, 0, true
	case CmdSetVMAC:
		return p.setVMAC(param>>vmacShift&3, data), 0, true
	case CmdGetVMAC:
		return p.getVMAC(param>>vmacShift&3, data), 0, true
	default:
		return 0, 0, false
	}
	return c.done(), 0, true
}

// text is a string that ends with the first zero octet.
func text(b []byte) string {
	if i := slices.Index(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// setVMAC takes an address: the two words of mcp_mac, or of a world wide name.
func (p *Pushed) setVMAC(kind uint32, data []byte) Response {
	upper, lower := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	name := uint64(upper)<<32 | uint64(lower)
	switch kind {
	case VMACMAC:
		binary.BigEndian.PutUint16(p.MAC[:], uint16(upper))
		binary.BigEndian.PutUint32(p.MAC[2:], lower)
	case VMACWWNN:
		p.WWNN = name
	case VMACWWPN:
		p.WWPN = name
	default:
		return Error
	}
	return OK
}

func (p *Pushed) getVMAC(kind uint32, data []byte) Response {
	var name uint64
	switch kind {
	case VMACMAC:
		name = uint64(binary.BigEndian.Uint16(p.MAC[:]))<<32 | uint64(binary.BigEndian.Uint32(p.MAC[2:]))
	case VMACWWNN:
		name = p.WWNN
	case VMACWWPN:
		name = p.WWPN
	default:
		return Error
	}
	binary.LittleEndian.PutUint32(data, uint32(name>>32))
	binary.LittleEndian.PutUint32(data[4:], uint32(name))
	return OK
}

// SetBandwidth gives a function another share of its port, in percent, and
// tells its driver; 0 is the default.
func (f *Firmware) SetBandwidth(fn int, low, high uint8) {
	before := f.shm.Func[fn].Config
	f.shm.Func[fn].setBandwidth(low, high)
	if f.shm.Func[fn].Config != before {
		f.post(fn, MsgBWUpdate)
	}
}

// magicRepeat is how often a magic packet repeats the address, after six
// octets of ones.
const magicRepeat = 16

// Sniff looks into a frame that came in on port n while functions sleep. A
// magic packet for one that waits for it wakes it, and true is returned.
func (f *Firmware) Sniff(n int, b []byte) bool {
	for fn := range f.funcs {
		me := &f.funcs[fn]
		if !me.armed || me.phase != idle || f.cfg.Funcs[fn].Port != n || !isMagic(b, f.sleeper(fn)) {
			continue
		}
		me.armed = false
		f.stats.Wakes++
		f.shm.Port[n].WoLInfo++
		if f.cfg.Wake != nil {
			f.cfg.Wake(fn)
		}
		return true
	}
	return false
}

// sleeper is the address by which a function is woken: what its driver pushed,
// or its own.
func (f *Firmware) sleeper(fn int) [6]byte {
	if mac := f.funcs[fn].pushed.MAC; mac != [6]byte{} {
		return mac
	}
	return f.shm.Func[fn].Info().MAC
}

// isMagic looks for the pattern anywhere in the frame.
func isMagic(b []byte, mac [6]byte) bool {
	const length = 6 * (1 + magicRepeat)
	for i := 0; i+length <= len(b); i++ {
		if b[i] == 0xff && magicAt(b[i:i+length], mac) {
			return true
		}
	}
	return false
}

func magicAt(b []byte, mac [6]byte) bool {
	for i, v := range b {
		if i < 6 && v != 0xff || i >= 6 && v != mac[i%6] {
			return false
		}
	}
	return true
}
