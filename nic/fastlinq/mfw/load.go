package mfw

import (
	"encoding/binary"
	"time"

	"tapir/wire/frame"
)

// phase is where a function is between idle and loaded.
type phase uint8

const (
	idle phase = iota
	loading
	loaded
	unloading
)

// function is what the firmware keeps about a function and its driver.
type function struct {
	last     uint16 // sequence of the last command
	phase    phase
	until    frame.Time // loading, unloading: the engine is locked
	role     Role
	versions [3]uint32 // of the driver that is recorded: two words, and its storm firmware
	wol      WoL       // what the driver said last
	armed    bool      // unloaded: a magic packet wakes
	features Features  // of the driver
	wants    bool      // asked for link
	pushed   Pushed
	state    DriverState
	stats    []ProtocolStats // by kind, nil until there are any
	acks     uint64          // of changes of bandwidth
	tlv      tlvAnswer
}

// defaultLock is how long an engine stays locked by a driver that loads.
const defaultLock = 10 * time.Second

// LoadReqHSI is the version of LOAD_REQ with fields; version 1 has none.
const LoadReqHSI = 2

const (
	hsiShift  = 16 // of the version in LOAD_REQ's parameter
	driverHSI = 0xff
)

// LoadRequest is what LOAD_REQ carries, and what its answer tells about the
// driver that is recorded. 16 octets, little-endian.
type LoadRequest struct {
	Versions    [3]uint32 // driver, in two words, and storm firmware
	Role        Role
	LockTimeout uint8 // seconds; LockDefault, LockNone
	Force       Force
	AvoidReset  bool
	// DriverExists is of the answer: a driver is recorded there.
	DriverExists bool
}

// Encode writes a request.
func (l *LoadRequest) Encode(b []byte) {
	for i, v := range l.Versions {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	misc := uint32(l.Role) | uint32(l.LockTimeout)<<8 | uint32(l.Force)<<16
	if l.AvoidReset {
		misc |= 1 << 20
	}
	binary.LittleEndian.PutUint32(b[12:], misc)
}

// DecodeLoadRequest reads a request.
func DecodeLoadRequest(b []byte) LoadRequest {
	l := decodeLoad(b)
	misc := binary.LittleEndian.Uint32(b[12:])
	l.LockTimeout, l.Force, l.AvoidReset = uint8(misc>>8), Force(misc>>16&0xf), misc>>20&1 != 0
	return l
}

// DecodeLoadAnswer reads an answer.
func DecodeLoadAnswer(b []byte) LoadRequest {
	l := decodeLoad(b)
	l.DriverExists = binary.LittleEndian.Uint32(b[12:])>>16&1 != 0
	return l
}

func decodeLoad(b []byte) (l LoadRequest) {
	for i := range l.Versions {
		l.Versions[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	l.Role = Role(b[12])
	return l
}

func (fn *function) encodeAnswer(b []byte, exists bool) {
	for i, v := range fn.versions {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	misc := uint32(fn.role) | LoadReqHSI<<8
	if exists {
		misc |= 1 << 16
	}
	binary.LittleEndian.PutUint32(b[12:], misc)
}

// engine is the engine of a function.
func (f *Firmware) engine(fn int) int { return f.cfg.Ports[f.cfg.Funcs[fn].Port].Engine }

// others counts the other functions with a driver on the engine, and on the
// port.
func (f *Firmware) others(fn int) (onEngine, onPort int) {
	for i := range f.funcs {
		if p := f.funcs[i].phase; i == fn || p == idle || p == unloading || f.engine(i) != f.engine(fn) {
			continue
		}
		onEngine++
		if f.cfg.Funcs[i].Port == f.cfg.Funcs[fn].Port {
			onPort++
		}
	}
	return onEngine, onPort
}

// locked tells whether another function's driver loads or unloads there.
func (f *Firmware) locked(fn int) bool {
	for i := range f.funcs {
		if p := f.funcs[i].phase; i != fn && (p == loading || p == unloading) && f.engine(i) == f.engine(fn) {
			return true
		}
	}
	return false
}

func (f *Firmware) loadReq(fn int, param uint32, data []byte) Response {
	me := &f.funcs[fn]
	hsi := param >> hsiShift & driverHSI
	switch {
	case f.fault.Refuse != 0:
		return f.fault.Refuse
	case f.fault.HSI1 && hsi != 1:
		return RefusedHSI1
	}
	req := LoadRequest{Role: RoleOS}
	if hsi != 1 {
		req = DecodeLoadRequest(data)
	}
	if me.phase != idle && req.Force == ForceNone {
		me.encodeAnswer(data, true)
		return RefusedRequiresForce
	}
	f.pushAside(fn, req.Force)
	if f.locked(fn) {
		return RefusedReject
	}
	onEngine, onPort := f.others(fn)
	me.phase, me.role, me.versions = loading, req.Role, req.Versions
	me.until = f.now.Add(lockTime(req.LockTimeout))
	if req.LockTimeout == LockNone {
		me.until = frame.Never
	}
	me.armed, me.state = false, DriverLoading
	me.encodeAnswer(data, f.fault.DriverExists)
	switch {
	case onEngine == 0:
		return LoadEngine
	case onPort == 0:
		return LoadPort
	}
	return LoadFunction
}

func lockTime(seconds uint8) time.Duration {
	if seconds == LockDefault {
		return defaultLock
	}
	return time.Duration(seconds) * time.Second
}

// pushAside forgets the drivers that a forced load does not ask.
func (f *Firmware) pushAside(fn int, force Force) {
	for i := range f.funcs {
		if force == ForcePF && i == fn || force == ForceAll && f.engine(i) == f.engine(fn) {
			f.forget(i)
		}
	}
}

// forget is the end of a driver, however it came.
func (f *Firmware) forget(fn int) {
	me := &f.funcs[fn]
	me.phase, me.role, me.versions, me.wants, me.features = idle, RoleNone, [3]uint32{}, false, 0
	me.state = DriverNotLoaded
	f.releaseLocks(fn)
}

func (f *Firmware) loadDone(fn int) Response {
	me := &f.funcs[fn]
	if me.phase != loading {
		return Error
	}
	me.phase = loaded
	return LoadDone
}

func (f *Firmware) cancelLoad(fn int) Response {
	if f.funcs[fn].phase == loading {
		f.forget(fn)
	}
	return OK
}

func (f *Firmware) unloadReq(fn int, param uint32) Response {
	me := &f.funcs[fn]
	if me.phase != loaded && me.phase != loading {
		return Error
	}
	me.phase, me.until = unloading, f.now.Add(defaultLock)
	switch w := WoL(param & 3); w {
	case WoLEnabled, WoLDisabled:
		me.armed = w == WoLEnabled
	case WoLMCP:
		me.armed = f.nvmWoL(fn)
	default:
		me.armed = me.wol == WoLEnabled
	}
	onEngine, onPort := f.others(fn)
	switch {
	case onEngine == 0:
		return UnloadEngine
	case onPort == 0:
		return UnloadPort
	}
	return UnloadFunction
}

func (f *Firmware) unloadDone(fn int) Response {
	if f.funcs[fn].phase != unloading {
		return Error
	}
	f.forget(fn)
	f.refresh(f.cfg.Funcs[fn].Port) // what kept its link may be gone
	return UnloadDone
}

// flr is a reset of the function: its driver is no more.
func (f *Firmware) flr(fn int) {
	f.forget(fn)
	f.refresh(f.cfg.Funcs[fn].Port)
}

// expireLoads forgets the drivers that keep an engine locked for too long.
func (f *Firmware) expireLoads() frame.Time {
	for i := range f.funcs {
		if me := &f.funcs[i]; (me.phase == loading || me.phase == unloading) && f.now >= me.until {
			f.flr(i)
		}
	}
	return f.nextLoadExpiry()
}

func (f *Firmware) nextLoadExpiry() frame.Time {
	next := frame.Never
	for i := range f.funcs {
		if me := &f.funcs[i]; me.phase == loading || me.phase == unloading {
			next = min(next, me.until)
		}
	}
	return next
}

// Loaded tells which kind of driver a function has, RoleNone: none.
func (f *Firmware) Loaded(fn int) Role {
	if f.funcs[fn].phase == idle {
		return RoleNone
	}
	return f.funcs[fn].role
}
