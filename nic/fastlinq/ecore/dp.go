package ecore

import (
	"fmt"

	"tapir/wire/frame"
)

// InitDP sets the verbosity of the device's log, before anything else or at any
// time: modules of which all is said, or a level.
func (d *Dev) InitDP(m frame.Msglvl) {
	if d.cfg.Log != nil {
		d.cfg.Log.SetMsglvl(m)
	}
}

func (d *Dev) notice(module frame.Topic, format string, args ...any) {
	d.cfg.Log.Say(frame.Notice, module, format, args...)
}

func (h *Hwfn) notice(module frame.Topic, format string, args ...any) {
	h.dev.notice(module, "[%v] %s", h, fmt.Sprintf(format, args...))
}

func (h *Hwfn) verbose(module frame.Topic, format string, args ...any) {
	if l := h.dev.cfg.Log; l.On(module) {
		l.Addf(module, "[%v] %s", h, fmt.Sprintf(format, args...))
	}
}
