package mfw

// Faults are the firmware's faults, set by SetFaults.
type Faults struct {
	Stuck        bool     // it does not answer any more
	HSI1         bool     // it knows LOAD_REQ of version 1 alone
	Refuse       Response // with which every LOAD_REQ is refused; 0: none
	BIST         uint32   // of these selftests, 1 << number, it says that they failed
	DriverExists bool     // it says of every load that a driver is there
}

// Faults are those that are set.
func (f *Firmware) Faults() Faults { return f.fault }

// SetFaults sets the faults.
func (f *Firmware) SetFaults(to Faults) { f.fault = to }

// Reset restarts the firmware, which mends a stuck one: mailboxes and their
// sequences begin anew, and the history counter tells drivers. Books and links
// stay.
func (f *Firmware) Reset() {
	f.fault.Stuck = false
	f.stats.Resets++
	f.shm.History++
	for fn := range f.funcs {
		f.shm.DrvMB[fn] = DrvMB{}
		f.funcs[fn].last = 0
	}
}

// FailFan lets the fan fail: the drivers must take the device down before it
// melts.
func (f *Firmware) FailFan() { f.postAll(MsgFailureDetected) }

// CriticalError says that the firmware has found its own undoing.
func (f *Firmware) CriticalError() {
	f.dumpReason(dumpCritical)
	f.postAll(MsgCriticalError)
}

// Spurious asserts a function's attention without any message.
func (f *Firmware) Spurious(fn int) {
	if f.cfg.Attention != nil {
		f.cfg.Attention(fn)
	}
}
