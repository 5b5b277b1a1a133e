package phc

import (
	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// systemRules: a program that reads the system's clock in nanoseconds asks
// with ADJ_NANO, for which the kernel wants the right to set it.
func systemRules() []trap.Rule {
	return []trap.Rule{{Nr: unix.SYS_ADJTIMEX},
		{Nr: unix.SYS_CLOCK_ADJTIME, When: []trap.Cond{{Arg: 0, Mask: ^uint32(0), Value: unix.CLOCK_REALTIME}}}}
}

// serveSystem answers such a question without touching the clock.
func serveSystem(c *trap.Call, at uint64) trap.Answer {
	asked, err := trap.Get[unix.Timex](c, at)
	if err != nil || asked.Modes != unix.ADJ_NANO {
		return trap.Pass()
	}
	var tx unix.Timex // no modes: it only reads
	state, err := unix.Adjtimex(&tx)
	if err != nil {
		return fail(err)
	}
	if tx.Status&unix.STA_NANO == 0 {
		tx.Time.Usec *= 1000
		tx.Status |= unix.STA_NANO
	}
	return answer(state, trap.Put(c, at, &tx))
}
