package fastlinq

import (
	"time"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// identifying is the port's LED while it blinks, so that somebody finds the
// port.
type identifying struct {
	on     bool
	lit    bool
	cancel func() // of the next change
}

// blinkEvery is half of a period, as with qede.
const blinkEvery = 500 * time.Millisecond

// Identify begins to blink with the port's LED, once a second. done is told
// whether the management firmware does it. BUSY: it blinks already.
func (d tools) Identify(now frame.Time, done func(error)) {
	i := &d.identify
	if i.on {
		done(status.Busy.Errorf("the LED of %s blinks already", d.cfg.Name))
		return
	}
	i.on, i.lit = true, true
	d.management.mcp.SetLED(mfw.LEDOn, now, func(err error) {
		if err != nil {
			d.IdentifyEnd(d.now())
		}
		done(err)
	})
	if i.on {
		i.cancel = d.nic.Schedule(now.Add(blinkEvery), d.blink)
	}
	d.Manage(now)
}

// blink changes the LED.
func (d tools) blink(now frame.Time) {
	i := &d.identify
	i.lit = !i.lit
	mode := mfw.LEDOff
	if i.lit {
		mode = mfw.LEDOn
	}
	d.management.mcp.SetLED(mode, now, d.management.note)
	i.cancel = d.nic.Schedule(now.Add(blinkEvery), d.blink)
	d.Manage(now)
}

// IdentifyEnd ends it: the LED shows the operation of the port again.
func (d tools) IdentifyEnd(now frame.Time) {
	i := &d.identify
	if !i.on {
		return
	}
	if i.cancel != nil {
		i.cancel()
	}
	*i = identifying{}
	d.management.mcp.SetLED(mfw.LEDOper, now, d.management.note)
	d.nic.Schedule(now, d.Manage)
}
