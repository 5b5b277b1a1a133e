package phc

import (
	"errors"
	"strings"
	"testing"
)

// counted is a netdev with statistics.
type counted struct {
	*Mapped
	err error
}

func (c counted) Statistics() ([]string, []uint64, error) {
	return []string{"rx_ucast_bytes", "iscsi_fn_rx_pdus", strings.Repeat("long_", 8)}, []uint64{5, 1 << 40, 7}, c.err
}

// TestStatistics: stock ethtool -S prints the statistics of the NIC, and the kernel's where there are none.
func TestStatistics(t *testing.T) {
	w := newWorld(t, 0, 0)
	kernels := w.output(t, "ethtool", "-S", dutNetdev)
	w.device.Netdevs[dutNetdev] = counted{w.stamps, nil}
	w.handler = New(w.device)
	want := "NIC statistics:\n     rx_ucast_bytes: 5\n     iscsi_fn_rx_pdus: 1099511627776\n     " +
		strings.Repeat("long_", 8)[:31] + ": 7"
	if got := w.output(t, "ethtool", "-S", dutNetdev); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.device.Netdevs[dutNetdev] = counted{w.stamps, errors.New("silent")}
	w.handler = New(w.device)
	if got := w.output(t, "ethtool", "-S", dutNetdev); got != kernels || strings.Contains(got, "iscsi") {
		t.Errorf("%q, want %q", got, kernels)
	}
	if got := w.output(t, "ethtool", "-k", dutNetdev); !strings.Contains(got, "rx-checksumming") {
		t.Errorf("features: %q", got)
	}
}
