package ethtool

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/nic/param"
)

// coalesceOptions show and change how long frames and completions wait for
// others before they interrupt.
var coalesceOptions = []Option{
	{Short: "c", Long: "show-coalesce", Example: "-c nic0", Usage: "interrupt coalescing", run: printCoalesce},
	{Short: "Q", Long: "per-queue", Example: "-Q nic0 queue_mask 0x3 --coalesce rx-usecs 16",
		Usage:    "the same of single queues: -Q DEVICE [queue_mask 0x3] --show-coalesce or --coalesce rx-usecs N",
		Operands: "queue_mask MASK", run: perQueue},
	{Short: "C", Long: "coalesce", Example: "-C nic0 rx-usecs 64 tx-usecs 200",
		Usage:    "change it: rx-usecs N tx-usecs N (0..511; 0: as it is)",
		Operands: "rx-usecs N tx-usecs N", run: changing("Cannot set device coalesce parameters", setCoalesce)},
}

func printCoalesce(c *call) error {
	values, err := c.coalesceParams()
	if err == nil {
		c.printf("Coalesce parameters for %s:\n"+coalesceText, c.Name, values["rx_usecs"], values["tx_usecs"])
	}
	return err
}

// coalesceParams are the settings of a NIC, whose interrupts wait; an HFI has no
// such.
func (c *call) coalesceParams() (map[string]string, error) {
	if c.fabric {
		return nil, errors.New("Cannot get device coalesce settings: Operation not supported")
	}
	return c.params()
}

const coalesceText = `Adaptive RX: n/a  TX: n/a
stats-block-usecs: n/a
sample-interval: n/a
pkt-rate-low: n/a
pkt-rate-high: n/a

rx-usecs: %v
rx-frames: n/a
rx-usecs-irq: n/a
rx-frames-irq: n/a

tx-usecs: %v
tx-frames: n/a
tx-usecs-irq: n/a
tx-frames-irq: n/a

rx-usecs-low: n/a
rx-frame-low: n/a
tx-usecs-low: n/a
tx-frame-low: n/a

rx-usecs-high: n/a
rx-frame-high: n/a
tx-usecs-high: n/a
tx-frame-high: n/a

CQE mode RX: n/a  TX: n/a

`

func setCoalesce(c *call) (list []ctl.Setting, err error) {
	t, err := coalesceTimes(c, "-C", c.operands)
	if t.rx != 0 {
		list = append(list, ctl.Setting{Name: "rx_usecs", Value: strconv.Itoa(t.rx)})
	}
	if t.tx != 0 {
		list = append(list, ctl.Setting{Name: "tx_usecs", Value: strconv.Itoa(t.tx)})
	}
	return list, err
}

// usecs are new times; 0 leaves a time as it is.
type usecs struct{ rx, tx int }

// coalesceTimes parses pairs of a name and microseconds.
func coalesceTimes(c *call, option string, operands []string) (t usecs, err error) {
	if len(operands) == 0 || len(operands)%2 != 0 {
		return t, usage.Errorf("%s needs pairs of a name and microseconds: tapir ethtool -C %s rx-usecs 64", option,
			c.Name)
	}
	return t, each(operands, func(name string, values []string) (int, error) {
		to := map[string]*int{"rx-usecs": &t.rx, "tx-usecs": &t.tx}[name]
		if to == nil {
			return 0, usage.Errorf("%q cannot be changed: choose rx-usecs or tx-usecs", name)
		}
		n, err := strconv.Atoi(values[0])
		if err != nil {
			return 0, usage.Errorf("%s: %q is no number of microseconds", name, values[0])
		}
		if n != 0 {
			*to = n
		}
		return 1, nil
	})
}

// perQueue shows or changes the times of the queues of a mask, or of all.
func perQueue(c *call) error {
	mask, operands := ^uint64(0), c.operands
	if len(operands) > 1 && operands[0] == "queue_mask" {
		var err error
		if mask, err = strconv.ParseUint(strings.TrimPrefix(operands[1], "0x"), 16, 64); err != nil || mask == 0 {
			return usage.Errorf("%q is no mask of queues: give bits in hexadecimal, such as 0x3 for queues 0 and 1",
				operands[1])
		}
		operands = operands[2:]
	}
	if len(operands) == 0 {
		return usage.Errorf("-Q needs --show-coalesce or --coalesce: "+
			"tapir ethtool -Q %s queue_mask 0x1 --coalesce rx-usecs 64", c.Name)
	}
	queues, err := queueTimes(c)
	if err != nil {
		return err
	}
	if high := mask >> len(queues); mask != ^uint64(0) && high != 0 {
		return fmt.Errorf("queue mask %#x: %s has queues 0 to %d", mask, c.Name, len(queues)-1)
	}
	switch operands[0] {
	case "-c", "--show-coalesce":
		for _, q := range queues {
			if mask>>q.Queue&1 != 0 {
				c.printf("Queue: %d\n"+coalesceText, q.Queue, q.Rx, q.Tx)
			}
		}
		return nil
	case "-C", "--coalesce":
		return setQueueTimes(c, queues, mask, operands[1:])
	}
	return usage.Errorf("%q is not per queue: choose --show-coalesce or --coalesce", operands[0])
}

// queueTimes are the times of all queues: a queue without times of its own has
// those of all.
func queueTimes(c *call) (queues []fastlinq.QueueUsecs, err error) {
	values, err := c.coalesceParams()
	if err != nil {
		return nil, err
	}
	var all fastlinq.Config
	rows := all.Params()
	for _, name := range []string{"rx_usecs", "tx_usecs", "queue_usecs"} {
		if err := param.Find(rows, name).Set(values[name]); err != nil {
			return nil, err
		}
	}
	for i := range c.nic.Channels.MaxCombined {
		queues = append(queues, fastlinq.QueueUsecs{Queue: i, Rx: all.Interrupts.RxUsecs, Tx: all.Interrupts.TxUsecs})
	}
	for _, q := range all.Interrupts.Queues {
		queues[q.Queue] = q
	}
	return queues, nil
}

func setQueueTimes(c *call, queues []fastlinq.QueueUsecs, mask uint64, operands []string) error {
	t, err := coalesceTimes(c, "--coalesce", operands)
	if err != nil || t == (usecs{}) {
		return err
	}
	var words []string
	for _, q := range queues {
		if mask>>q.Queue&1 != 0 {
			q.Rx, q.Tx = cmp.Or(t.rx, q.Rx), cmp.Or(t.tx, q.Tx)
		}
		words = append(words, fmt.Sprintf("%d:%d/%d", q.Queue, q.Rx, q.Tx))
	}
	return c.set("Cannot set device per queue parameters", ctl.Setting{Name: "queue_usecs",
		Value: strings.Join(words, ",")})
}
