package mfw

import (
	"bytes"
	"cmp"
	"encoding/binary"
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

func (f *Firmware) updateMTU(r *request) Response {
	f.funcs[r.fn].pushed.MTU, f.shm.Func[r.fn].MTU = r.param, r.param
	return Response(r.cmd)
}

func (f *Firmware) setVersion(r *request) Response {
	p := &f.funcs[r.fn].pushed
	p.DriverNumber = binary.LittleEndian.Uint32(r.data)
	name, _, _ := bytes.Cut(r.data[4:32], []byte{0})
	p.Driver = string(name)
	return OK
}

// vmac is the address that a SET_VMAC or GET_VMAC is about; nil: its kind is unknown.
func (fn *function) vmac(param uint32) *uint64 {
	return map[uint32]*uint64{VMACMAC: &fn.mac, VMACWWNN: &fn.pushed.WWNN,
		VMACWWPN: &fn.pushed.WWPN}[param>>vmacShift&3]
}

// setVMAC takes an address: the two words of mcp_mac, or of a world wide name.
func (f *Firmware) setVMAC(r *request) Response {
	me := &f.funcs[r.fn]
	to := me.vmac(r.param)
	if to == nil {
		return Error
	}
	words := decode[[2]uint32](r.data)
	*to = uint64(words[0])<<32 | uint64(words[1])
	me.pushed.MAC = macOf(uint32(me.mac>>32), uint32(me.mac))
	return OK
}

func (f *Firmware) getVMAC(r *request) Response {
	from := f.funcs[r.fn].vmac(r.param)
	if from == nil {
		return Error
	}
	encode(r.data, [2]uint32{uint32(*from >> 32), uint32(*from)})
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

// SetOVLAN gives a function another outer tag, 0: none, and tells its driver.
func (f *Firmware) SetOVLAN(fn int, tag uint16) {
	c, s := &f.cfg.Funcs[fn], &f.shm.Func[fn]
	if c.OVLAN == tag {
		return
	}
	c.OVLAN, s.OVLAN = tag, uint32(cmp.Or(tag, NoOVLAN))
	f.post(fn, MsgSTagUpdate)
}

// SetUFP gives a function another traffic class, and says whether the operating system
// decides on the priority of the outer tag; its driver is told.
func (f *Firmware) SetUFP(fn int, tc uint8, os bool) {
	s, word := &f.shm.Func[fn], uint32(tc)|oemPriorityNIC
	if os {
		word = uint32(tc) | oemPriorityOS
	}
	if s.OEMConfig != word {
		s.OEMConfig = word
		f.post(fn, MsgOEMCfgUpdate)
	}
}

// SetAddress gives a function without a driver its own MAC address, MTU and protocol.
func (f *Firmware) SetAddress(fn int, mac [6]byte, mtu uint16, p Protocol) {
	c, s := &f.cfg.Funcs[fn], &f.shm.Func[fn]
	c.MAC, c.MTU, c.Protocol, s.MTU = mac, mtu, p, uint32(mtu)
	s.Config = s.Config&^(0xf<<funcProtocolShift) | uint32(p)<<funcProtocolShift
	s.setMAC(mac)
	if a := f.ports[c.Port].agent; a != nil {
		a.SetMAC(f.portMAC(c.Port))
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
	ones := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	return bytes.Contains(b, append(ones, bytes.Repeat(mac[:], magicRepeat)...))
}
