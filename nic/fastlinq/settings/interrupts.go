package settings

import (
	"cmp"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/hardware"
	"tapir/nic/param"
)

// interruptRows are the parameters of the interrupts and of the selftests.
func (c *Config) interruptRows() []*param.Row {
	return []*param.Row{
		param.Text(param.Row{Name: "int_mode", Type: "choice", Expect: "msix, msi, inta or poll",
			Origin: param.FastLinQ,
			Help: "interrupts; without enough vectors msix falls back to msi, then inta. poll: none, the driver " +
				"looks once per iteration"},
			func() string { return cmp.Or(c.Interrupts.Mode, irq.MSIX.String()) },
			func(v string) error {
				m, err := irq.ParseMode(v)
				c.Interrupts.Mode = m.String()
				return err
			}),
		param.Number(param.Row{Name: "msix_vectors", Origin: param.Tapir,
			Help: "MSI-X vectors that the machine grants; 0 for as many as are wanted"},
			&c.Interrupts.Vectors, 0, 0, irq.MaxVectors),
		c.usecs("rx_usecs",
			"how long received frames and completions wait for others before they interrupt, of all queues",
			&c.Interrupts.RxUsecs, func(q *QueueUsecs) *int { return &q.Rx }),
		c.usecs("tx_usecs", "how long sent frames wait for others before they interrupt, of all queues",
			&c.Interrupts.TxUsecs, func(q *QueueUsecs) *int { return &q.Tx }),
		param.List(param.Row{Name: "queue_usecs", Origin: param.FastLinQ, Runtime: true,
			Expect: "queues such as 0:64/200 with commas, microseconds from 0 to 511, or none",
			Help:   "rx_usecs and tx_usecs of single queues; a later rx_usecs or tx_usecs changes these too"},
			"none", &c.Interrupts.Queues, parseQueueUsecs, FormatQueueUsecs),
		param.Bits(param.Row{Name: "selftest_fault", Origin: param.Tapir, Runtime: true,
			Help: "selftests that meet a fault, and have to fail"},
			&c.SelftestFault, 0, true,
			param.Named("loopback", selftest.Fault(1<<selftest.Loopback)),
			param.Named("interrupt", selftest.Fault(1<<selftest.Interrupt)),
			param.Named("memory", selftest.Fault(1<<selftest.Memory)),
			param.Named("register", selftest.Fault(1<<selftest.Registers)),
			param.Named("clock", selftest.Fault(1<<selftest.Clock)),
			param.Named("nvram", selftest.Fault(1<<selftest.NVM))),
	}
}

// usecs makes a setting of the times of all queues.
func (c *Config) usecs(name, help string, field *int, queue func(*QueueUsecs) *int) *param.Row {
	r := param.Number(param.Row{Name: name, Origin: param.FastLinQ, Runtime: true, Expect: "microseconds from 0 to 511",
		Help: help + ", in microseconds; 0: not at all"}, field, 0, 0, irq.MaxCoalesce)
	return r.Wrap(func(get func() string) string { return get() }, func(v string, set func(string) error) error {
		if err := set(v); err != nil {
			return err
		}
		c.Interrupts.Queues = slices.Clone(c.Interrupts.Queues)
		for i := range c.Interrupts.Queues {
			*queue(&c.Interrupts.Queues[i]) = *field
		}
		return nil
	})
}

// parseQueueUsecs reads QUEUE:RX/TX.
func parseQueueUsecs(s string) (q QueueUsecs, err error) {
	if n, err := fmt.Sscanf(s, "%d:%d/%d", &q.Queue, &q.Rx, &q.Tx); err != nil || n != 3 || s != FormatQueueUsecs(q) {
		return q, param.ErrValue
	}
	if q.Queue < 0 || q.Queue >= hardware.MaxQueues || min(q.Rx, q.Tx) < 0 || max(q.Rx, q.Tx) > irq.MaxCoalesce {
		return q, param.ErrValue
	}
	return q, nil
}

// FormatQueueUsecs is q as queue_usecs has it.
func FormatQueueUsecs(q QueueUsecs) string { return fmt.Sprintf("%d:%d/%d", q.Queue, q.Rx, q.Tx) }

// Interrupts holds the choices of the NIC's interrupts.
type Interrupts struct {
	Mode    string // msix, msi, inta or poll; empty: msix
	Vectors int    // MSI-X vectors that the machine grants; 0: as many as are wanted
	// RxUsecs and TxUsecs are how long frames received, completions, and frames
	// sent wait for others before they interrupt, in microseconds; 0: not at
	// all.
	RxUsecs, TxUsecs int
	// Queues have times of their own.
	Queues []QueueUsecs
}

// QueueUsecs are the times of one queue pair, in microseconds; 0: not at all.
type QueueUsecs struct{ Queue, Rx, Tx int }

// Blocks is the interrupt configuration of a NIC whose status blocks have that
// number of users.
func (c *Config) Blocks(users int) (irq.Config, error) {
	i := &c.Interrupts
	mode, err := irq.ParseMode(cmp.Or(i.Mode, irq.MSIX.String()))
	return irq.Config{Hwfns: c.Engines, SBs: min(users, irq.MaxSBs-1), Mode: mode,
		Platform: irq.Platform{Vectors: cmp.Or(i.Vectors, irq.MaxVectors)}}, err
}
