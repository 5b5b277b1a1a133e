package ecore

import (
	"fmt"

	"tapir/nic/msglog"
)

// InitDP sets the verbosity of the device's log, before anything else or at any
// time: modules of which all is said, or a level.
func (d *Dev) InitDP(m msglog.Msglvl) {
	if d.cfg.Log != nil {
		d.cfg.Log.SetMsglvl(m)
	}
}

func (d *Dev) notice(module msglog.Topic, format string, args ...any) {
	d.cfg.Log.Say(msglog.Notice, module, format, args...)
}

func (h *Hwfn) notice(module msglog.Topic, format string, args ...any) {
	h.dev.notice(module, "[%v] %s", h, fmt.Sprintf(format, args...))
}

func (h *Hwfn) verbose(module msglog.Topic, format string, args ...any) {
	if l := h.dev.cfg.Log; l.On(module) {
		l.Addf(module, "[%v] %s", h, fmt.Sprintf(format, args...))
	}
}
