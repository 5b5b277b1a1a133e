package ecore

import (
	"fmt"
	"math/bits"
)

// Level says how important a message is.
type Level uint8

// The levels.
const (
	Verbose Level = iota
	LevelInfo
	Notice
	Err
)

var levelNames = [...]string{"VERBOSE", "INFO", "NOTICE", "ERR"}

// String is the level's name.
func (l Level) String() string { return levelNames[l] }

// Module is the part of the core that a verbose message belongs to.
type Module uint32

// The modules (DP_MODULE); up to DPWoL they are those of netif_msg.
const (
	DPDrv     Module = 0x1
	DPProbe   Module = 0x2
	DPLink    Module = 0x4
	DPIfDown  Module = 0x10
	DPIfUp    Module = 0x20
	DPIntr    Module = 0x200
	DPHW      Module = 0x2000
	DPSPQ     Module = 0x10000
	DPSP      Module = 0x100000
	DPCxt     Module = 0x800000
	DPILT     Module = 0x2000000
	DPDebug   Module = 0x8000000
	dpModules        = 1<<30 - 1
)

// MsgLevel is the verbosity in one word of 32 bits, as ethtool's msglvl: bits
// 29-0 are the modules that are verbose, bit 30 has INFO on, bit 31 NOTICE. Any
// module at all means level VERBOSE. What is ERR is always said.
type MsgLevel uint32

// The bits of the levels.
const (
	MsgInfo   MsgLevel = 1 << 30
	MsgNotice MsgLevel = 1 << 31
)

// Level is the least important level that is said.
func (m MsgLevel) Level() Level {
	switch {
	case m&dpModules != 0:
		return Verbose
	case m&MsgInfo != 0:
		return LevelInfo
	case m&MsgNotice != 0:
		return Notice
	}
	return Err
}

// On tells whether a message is said.
func (m MsgLevel) On(l Level, module Module) bool {
	if l == Verbose {
		return bits.OnesCount32(uint32(m)&uint32(module)&dpModules) > 0
	}
	return l >= m.Level()
}

// InitDP sets the verbosity, before anything else or at any time.
func (d *Dev) InitDP(m MsgLevel) { d.dp = m }

// DP is the verbosity.
func (d *Dev) DP() MsgLevel { return d.dp }

func (d *Dev) say(l Level, module Module, format string, args ...any) {
	if d.cfg.Hooks.Log != nil && d.dp.On(l, module) {
		d.cfg.Hooks.Log(l, module, fmt.Sprintf(format, args...))
	}
}

func (d *Dev) notice(module Module, format string, args ...any) {
	d.say(Notice, module, format, args...)
}

func (h *Hwfn) verbose(module Module, format string, args ...any) {
	if h.dev.dp.On(Verbose, module) {
		h.dev.say(Verbose, module, "[%v] %s", h, fmt.Sprintf(format, args...))
	}
}

func (h *Hwfn) notice(module Module, format string, args ...any) {
	h.dev.notice(module, "[%v] %s", h, fmt.Sprintf(format, args...))
}
