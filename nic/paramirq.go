package nic

import (
	"fmt"
	"slices"

	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/selftest"
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
		usecs("rx_usecs", "how long received frames and completions wait for others before they interrupt, of all queues",
			func(c *Config) *int { return &c.Interrupts.RxUsecs }, func(q *QueueUsecs) *int { return &q.Rx }),
		usecs("tx_usecs", "how long sent frames wait for others before they interrupt, of all queues",
			func(c *Config) *int { return &c.Interrupts.TxUsecs }, func(q *QueueUsecs) *int { return &q.Tx }),
		list(Param{Name: "queue_usecs", Origin: originDriver, Runtime: true, Expect: "queues such as 0:64/200 with commas, microseconds from 0 to 511, or none",
			Help: "rx_usecs and tx_usecs of single queues; a later rx_usecs or tx_usecs changes these too"},
			"none", func(c *Config) *[]QueueUsecs { return &c.Interrupts.Queues }, parseQueueUsecs, formatQueueUsecs),
		bits(Param{Name: "selftest_fault", Origin: originTapir, Runtime: true, Help: "selftests that meet a fault, and have to fail"},
			func(c *Config) *selftest.Fault { return &c.SelftestFault }, 0, true,
			named[selftest.Fault]{"loopback", 1 << selftest.Loopback}, named[selftest.Fault]{"interrupt", 1 << selftest.Interrupt},
			named[selftest.Fault]{"memory", 1 << selftest.Memory}, named[selftest.Fault]{"register", 1 << selftest.Registers},
			named[selftest.Fault]{"clock", 1 << selftest.Clock}, named[selftest.Fault]{"nvram", 1 << selftest.NVM}),
	}
}

// usecs makes a setting of the times of all queues.
func usecs(name, help string, field func(*Config) *int, queue func(*QueueUsecs) *int) *Param {
	p := number(Param{Name: name, Origin: originDriver, Runtime: true, Expect: "microseconds from 0 to 511",
		Help: help + ", in microseconds; 0: not at all"}, field, 0, 0, irq.MaxCoalesce)
	all := p.set
	p.set = func(c *Config, v string) error {
		if err := all(c, v); err != nil {
			return err
		}
		c.Interrupts.Queues = slices.Clone(c.Interrupts.Queues)
		for i := range c.Interrupts.Queues {
			*queue(&c.Interrupts.Queues[i]) = *field(c)
		}
		return nil
	}
	return p
}

// parseQueueUsecs reads QUEUE:RX/TX.
func parseQueueUsecs(s string) (q QueueUsecs, err error) {
	if n, err := fmt.Sscanf(s, "%d:%d/%d", &q.Queue, &q.Rx, &q.Tx); err != nil || n != 3 || s != formatQueueUsecs(q) {
		return q, errValue
	}
	if q.Queue < 0 || q.Queue >= MaxQueues || min(q.Rx, q.Tx) < 0 || max(q.Rx, q.Tx) > irq.MaxCoalesce {
		return q, errValue
	}
	return q, nil
}

func formatQueueUsecs(q QueueUsecs) string { return fmt.Sprintf("%d:%d/%d", q.Queue, q.Rx, q.Tx) }
