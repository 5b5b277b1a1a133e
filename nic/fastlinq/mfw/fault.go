package mfw

// Faults are the firmware's faults, set by SetFaults.
type Faults struct {
	Hang         bool     // it does not answer any more
	HSI1         bool     // it knows LOAD_REQ of version 1 alone
	Refuse       Response // with which every LOAD_REQ is refused; 0: none
	BIST         uint32   // of these selftests, 1 << number, it says that they failed
	DriverExists bool     // it says of every load that a driver is there
}

// Faults are those that are set.
func (f *Firmware) Faults() Faults { return f.fault }

// SetFaults sets the faults.
func (f *Firmware) SetFaults(to Faults) { f.fault = to }

// Reset restarts the firmware, also one that hangs. Mailboxes and their sequences
// start again, and the history counter tells the drivers so. What the firmware
// knows about functions and links stays.
func (f *Firmware) Reset() {
	f.fault.Hang = false
	f.stats.Resets++
	f.shm.History++
	for fn := range f.funcs {
		f.shm.DrvMB[fn] = DrvMB{}
		f.funcs[fn].last = 0
	}
}

// FailFan makes the fan fail. The drivers must stop the device before it overheats.
func (f *Firmware) FailFan() { f.postAll(MsgFailureDetected) }

// CriticalError reports that the firmware has found an error it cannot survive.
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
