package mfw

import (
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
	mac      uint64 // that was pushed, as the mailbox has it
	state    DriverState
	stats    [StatsRDMA + 1]ProtocolStats // by kind
	acks     uint64                       // of changes of bandwidth
	tagAcks  uint64                       // of changes of the outer tag
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

// loadWords is LOAD_REQ or its answer in the mailbox.
type loadWords struct {
	Versions [3]uint32
	Role     Role
	Timeout  uint8 // of an answer, the version of LOAD_REQ
	Flags    uint8 // Force, and in bit 4 AvoidReset; of an answer, whether there is a driver
	_        uint8
}

// Encode writes a request.
func (l *LoadRequest) Encode(b []byte) {
	encode(b, loadWords{Versions: l.Versions, Role: l.Role, Timeout: l.LockTimeout,
		Flags: uint8(l.Force) | uint8(b2u(l.AvoidReset))<<4})
}

// DecodeLoadRequest reads a request.
func DecodeLoadRequest(b []byte) LoadRequest {
	w := decode[loadWords](b)
	return LoadRequest{Versions: w.Versions, Role: w.Role, LockTimeout: w.Timeout, Force: Force(w.Flags & 0xf),
		AvoidReset: w.Flags>>4&1 != 0}
}

// DecodeLoadAnswer reads an answer.
func DecodeLoadAnswer(b []byte) LoadRequest {
	w := decode[loadWords](b)
	return LoadRequest{Versions: w.Versions, Role: w.Role, DriverExists: w.Flags&1 != 0}
}

func (fn *function) encodeAnswer(b []byte, exists bool) {
	encode(b, loadWords{Versions: fn.versions, Role: fn.role, Timeout: LoadReqHSI, Flags: uint8(b2u(exists))})
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

func (f *Firmware) loadReq(r *request) Response {
	fn, me := r.fn, &f.funcs[r.fn]
	hsi := r.param >> hsiShift & driverHSI
	switch {
	case f.fault.Refuse != 0:
		return f.fault.Refuse
	case f.fault.HSI1 && hsi != 1:
		return RefusedHSI1
	}
	req := LoadRequest{Role: RoleOS}
	if hsi != 1 {
		req = DecodeLoadRequest(r.data)
	}
	if me.phase != idle && req.Force == ForceNone {
		me.encodeAnswer(r.data, true)
		return RefusedRequiresForce
	}
	f.pushAside(fn, req.Force)
	if f.locked(fn) {
		return RefusedReject
	}
	me.phase, me.role, me.versions = loading, req.Role, req.Versions
	me.until = f.now.Add(lockTime(req.LockTimeout))
	if req.LockTimeout == LockNone {
		me.until = frame.Never
	}
	me.armed, me.state = false, DriverLoading
	me.encodeAnswer(r.data, f.fault.DriverExists)
	return f.first(fn, LoadEngine, LoadPort, LoadFunction)
}

// first is the answer to a function that is the only one with a driver on its
// engine, on its port, or neither.
func (f *Firmware) first(fn int, engine, port, function Response) Response {
	onEngine, onPort := f.others(fn)
	switch {
	case onEngine == 0:
		return engine
	case onPort == 0:
		return port
	}
	return function
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

func (f *Firmware) loadDone(r *request) Response {
	me := &f.funcs[r.fn]
	if me.phase != loading {
		return Error
	}
	me.phase = loaded
	return LoadDone
}

func (f *Firmware) cancelLoad(r *request) Response {
	if f.funcs[r.fn].phase == loading {
		f.forget(r.fn)
	}
	return OK
}

func (f *Firmware) unloadReq(r *request) Response {
	me := &f.funcs[r.fn]
	if me.phase != loaded && me.phase != loading {
		return Error
	}
	me.phase, me.until = unloading, f.now.Add(defaultLock)
	switch w := WoL(r.param & 3); w {
	case WoLEnabled, WoLDisabled:
		me.armed = w == WoLEnabled
	case WoLMCP:
		me.armed = f.nvmWoL(r.fn)
	default:
		me.armed = me.wol == WoLEnabled
	}
	return f.first(r.fn, UnloadEngine, UnloadPort, UnloadFunction)
}

func (f *Firmware) unloadDone(r *request) Response {
	if f.funcs[r.fn].phase != unloading {
		return Error
	}
	f.flr(r.fn)
	return UnloadDone
}

// flr is a reset of the function: it has no driver any more, and nobody may need
// the port's link.
func (f *Firmware) flr(fn int) {
	f.forget(fn)
	f.refresh(f.cfg.Funcs[fn].Port)
}

// FLR resets a function whose driver has ended without a word.
func (f *Firmware) FLR(fn int) { f.flr(fn) }

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
