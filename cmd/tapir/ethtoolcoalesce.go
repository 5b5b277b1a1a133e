package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/nic"
)

// coalesceOptions show and change how long frames and completions wait for
// others before they interrupt.
func coalesceOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "c", long: "show-coalesce", example: "-c nic0", usage: "interrupt coalescing", run: printCoalesce},
		{short: "Q", long: "per-queue", example: "-Q nic0 queue_mask 0x3 --coalesce rx-usecs 16", usage: "the same of single queues: -Q DEVICE [queue_mask 0x3] --show-coalesce or --coalesce rx-usecs N", operands: "queue_mask MASK", run: perQueue},
		{short: "C", long: "coalesce", example: "-C nic0 rx-usecs 64 tx-usecs 200", usage: "change it: rx-usecs N tx-usecs N (0..511; 0: as it is)", operands: "rx-usecs N tx-usecs N", run: setCoalesce},
	}
}

// coalesceNames are what may be changed, and the NIC's settings of that.
var coalesceNames = map[string]string{"rx-usecs": "rx_usecs", "tx-usecs": "tx_usecs"}

func printCoalesce(cmd *cobra.Command, d *netdev, _ []string) error {
	var list []nic.ParamInfo
	if err := d.client.Show(cmd.Context(), "params", &list); err != nil {
		return err
	}
	values := map[string]string{}
	for _, p := range list {
		values[p.Name] = p.Value
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Coalesce parameters for %s:\n"+coalesceText, d.name, values["rx_usecs"], values["tx_usecs"])
	return err
}

const coalesceText = `Adaptive RX: n/a  TX: n/a
stats-block-usecs: n/a
sample-interval: n/a
pkt-rate-low: n/a
pkt-rate-high: n/a

rx-usecs: %s
rx-frames: n/a
rx-usecs-irq: n/a
rx-frames-irq: n/a

tx-usecs: %s
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

func setCoalesce(cmd *cobra.Command, d *netdev, operands []string) error {
	times, err := coalesceTimes(d, "-C", operands)
	if err != nil || times == nil {
		return err
	}
	var settings []ctl.Setting
	for _, name := range []string{"rx-usecs", "tx-usecs"} {
		if n, ok := times[name]; ok {
			settings = append(settings, ctl.Setting{Name: coalesceNames[name], Value: strconv.Itoa(n)})
		}
	}
	return d.set(cmd, "Cannot set device coalesce parameters", settings...)
}

// coalesceTimes reads pairs of a name and microseconds; 0, which leaves a time as
// it is, is left out.
func coalesceTimes(d *netdev, option string, operands []string) (times map[string]int, err error) {
	if len(operands) == 0 || len(operands)%2 != 0 {
		return nil, usagef("%s needs pairs of a name and microseconds: tapir ethtool -C %s rx-usecs 64", option, d.name)
	}
	for i := 0; i < len(operands); i += 2 {
		if coalesceNames[operands[i]] == "" {
			return nil, usagef("%q cannot be changed: choose rx-usecs or tx-usecs", operands[i])
		}
		n, err := strconv.Atoi(operands[i+1])
		if err != nil {
			return nil, usagef("%s: %q is no number of microseconds", operands[i], operands[i+1])
		}
		if n != 0 {
			if times == nil {
				times = map[string]int{}
			}
			times[operands[i]] = n
		}
	}
	return times, nil
}

// perQueue shows or changes the times of the queues of a mask, or of all.
func perQueue(cmd *cobra.Command, d *netdev, operands []string) error {
	mask := ^uint64(0)
	if len(operands) > 1 && operands[0] == "queue_mask" {
		var err error
		if mask, err = strconv.ParseUint(strings.TrimPrefix(operands[1], "0x"), 16, 64); err != nil || mask == 0 {
			return usagef("%q is no mask of queues: give bits in hexadecimal, such as 0x3 for queues 0 and 1", operands[1])
		}
		operands = operands[2:]
	}
	if len(operands) == 0 {
		return usagef("-Q needs --show-coalesce or --coalesce: tapir ethtool -Q %s queue_mask 0x1 --coalesce rx-usecs 64", d.name)
	}
	queues, err := queueTimes(cmd, d)
	if err != nil {
		return err
	}
	if high := mask >> len(queues); mask != ^uint64(0) && high != 0 {
		return fmt.Errorf("queue mask %#x: %s has queues 0 to %d", mask, d.name, len(queues)-1)
	}
	switch operands[0] {
	case "-c", "--show-coalesce":
		return printQueueTimes(cmd, queues, mask)
	case "-C", "--coalesce":
		return setQueueTimes(cmd, d, queues, mask, operands[1:])
	}
	return usagef("%q is not per queue: choose --show-coalesce or --coalesce", operands[0])
}

// queueTimes are the times of all queues: a queue without times of its own has
// those of all.
func queueTimes(cmd *cobra.Command, d *netdev) (queues []nic.QueueUsecs, err error) {
	var list []nic.ParamInfo
	if err := d.client.Show(cmd.Context(), "params", &list); err != nil {
		return nil, err
	}
	var all nic.Config
	for _, p := range list {
		if slices.Contains([]string{"rx_usecs", "tx_usecs", "queue_usecs"}, p.Name) {
			if err := nic.FindParam(p.Name).Set(&all, p.Value); err != nil {
				return nil, err
			}
		}
	}
	for i := range d.nic.Channels.MaxCombined {
		queues = append(queues, nic.QueueUsecs{Queue: i, Rx: all.Interrupts.RxUsecs, Tx: all.Interrupts.TxUsecs})
	}
	for _, q := range all.Interrupts.Queues {
		queues[q.Queue] = q
	}
	return queues, nil
}

func printQueueTimes(cmd *cobra.Command, queues []nic.QueueUsecs, mask uint64) error {
	for _, q := range queues {
		if mask>>q.Queue&1 == 0 {
			continue
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "Queue: %d\n"+coalesceText, q.Queue, strconv.Itoa(q.Rx), strconv.Itoa(q.Tx)); err != nil {
			return err
		}
	}
	return nil
}

func setQueueTimes(cmd *cobra.Command, d *netdev, queues []nic.QueueUsecs, mask uint64, operands []string) error {
	times, err := coalesceTimes(d, "--coalesce", operands)
	if err != nil || times == nil {
		return err
	}
	var words []string
	for _, q := range queues {
		if mask>>q.Queue&1 != 0 {
			if n, ok := times["rx-usecs"]; ok {
				q.Rx = n
			}
			if n, ok := times["tx-usecs"]; ok {
				q.Tx = n
			}
		}
		words = append(words, fmt.Sprintf("%d:%d/%d", q.Queue, q.Rx, q.Tx))
	}
	return d.set(cmd, "Cannot set device per queue parameters", ctl.Setting{Name: "queue_usecs", Value: strings.Join(words, ",")})
}
