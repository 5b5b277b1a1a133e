package nic

import (
	"tapir/nic/irq"
	"tapir/nic/selftest"
)

// irqParams are the parameters of the interrupts and of the selftests.
func irqParams() []*Param {
	return []*Param{
		{Name: "int_mode", Type: "choice", Expect: "msix, msi, inta or poll", Origin: originDriver,
			Help: "interrupts; without enough vectors msix falls back to msi, then inta. poll: none, the driver looks once per iteration",
			get: func(c *Config) string {
				if c.Interrupts.Mode == "" {
					return irq.MSIX.String()
				}
				return c.Interrupts.Mode
			},
			set: func(c *Config, v string) error {
				m, err := irq.ParseMode(v)
				c.Interrupts.Mode = m.String()
				return err
			}},
		number(Param{Name: "msix_vectors", Origin: originTapir, Help: "MSI-X vectors that the machine grants; 0 for as many as are wanted"},
			func(c *Config) *int { return &c.Interrupts.Vectors }, 0, 0, irq.MaxVectors),
		usecs("rx_usecs", "how long received frames and completions wait for others before they interrupt",
			func(c *Config) *int { return &c.Interrupts.RxUsecs }),
		usecs("tx_usecs", "how long sent frames wait for others before they interrupt",
			func(c *Config) *int { return &c.Interrupts.TxUsecs }),
		bits(Param{Name: "selftest_fault", Origin: originTapir, Runtime: true, Help: "selftests that meet a fault, and have to fail"},
			func(c *Config) *selftest.Fault { return &c.SelftestFault }, 0, true,
			named[selftest.Fault]{"loopback", 1 << selftest.Loopback}, named[selftest.Fault]{"interrupt", 1 << selftest.Interrupt},
			named[selftest.Fault]{"memory", 1 << selftest.Memory}, named[selftest.Fault]{"register", 1 << selftest.Registers},
			named[selftest.Fault]{"clock", 1 << selftest.Clock}, named[selftest.Fault]{"nvram", 1 << selftest.NVM}),
	}
}

func usecs(name, help string, field func(*Config) *int) *Param {
	return number(Param{Name: name, Origin: originDriver, Runtime: true, Expect: "microseconds from 0 to 511",
		Help: help + ", in microseconds; 0: not at all"}, field, 0, 0, irq.MaxCoalesce)
}
