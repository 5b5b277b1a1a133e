package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"tapir/lab/ctl"
	"tapir/nic"
)

// coalesceOptions show and change how long frames and completions wait for
// others before they interrupt.
func coalesceOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "c", long: "show-coalesce", usage: "interrupt coalescing", run: printCoalesce},
		{short: "C", long: "coalesce", usage: "change it: rx-usecs N tx-usecs N (0..511; 0: as it is)", operands: "rx-usecs N tx-usecs N", run: setCoalesce},
	}
}

// coalesceNames are what may be changed, and the NIC's settings of that.
var coalesceNames = map[string]string{"rx-usecs": "rx_usecs", "tx-usecs": "tx_usecs"}

func printCoalesce(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	var list []nic.ParamInfo
	if err := d.client.Show(cmd.Context(), "params", &list); err != nil {
		return err
	}
	values := map[string]string{}
	for _, p := range list {
		values[p.Name] = p.Value
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), coalesceText, d.name, values["rx_usecs"], values["tx_usecs"])
	return err
}

const coalesceText = `Coalesce parameters for %s:
Adaptive RX: n/a  TX: n/a
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
	if err := d.notVNIC(); err != nil {
		return err
	}
	if len(operands) == 0 || len(operands)%2 != 0 {
		return usagef("-C needs pairs of a name and microseconds: tapir ethtool -C %s rx-usecs 64", d.name)
	}
	var settings []ctl.Setting
	for i := 0; i < len(operands); i += 2 {
		name, ok := coalesceNames[operands[i]]
		if !ok {
			return usagef("%q cannot be changed: choose rx-usecs or tx-usecs", operands[i])
		}
		n, err := strconv.Atoi(operands[i+1])
		if err != nil {
			return usagef("%s: %q is no number of microseconds", operands[i], operands[i+1])
		}
		if n != 0 { // leaves it as it is
			settings = append(settings, ctl.Setting{Name: name, Value: strconv.Itoa(n)})
		}
	}
	if settings == nil {
		return nil
	}
	var params []nic.ParamInfo
	return d.client.Set(cmd.Context(), settings, &params)
}
