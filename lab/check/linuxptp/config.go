package linuxptp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options are lines of a configuration, by their names in ptp4l(8).
type Options map[string]string

func (o Options) appendTo(b *strings.Builder) {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		fmt.Fprintf(b, "%s %s\n", k, o[k])
	}
}

// Section is a part of a configuration under a name in brackets: an
// interface, or "unicast_master_table". Lines follow the options as they
// stand.
type Section struct {
	Name    string
	Options Options
	Lines   []string
}

// PTP4L is one ptp4l.
type PTP4L struct {
	Options  Options
	Sections []Section
	// HardwareStamps: the interface's own clock, with -H. Otherwise stamps are
	// the kernel's, and the clock is never touched: offsets are printed alone.
	HardwareStamps bool
	Under          []string // as in Command
}

// Daemon is a running ptp4l.
type Daemon struct {
	*Program
	host   *Host
	config string
	uds    string
}

// text is the configuration file with the sockets' names.
func (c PTP4L) text(uds string) string {
	all := Options{"uds_address": uds, "summary_interval": "-8", "tx_timestamp_timeout": "100"}
	if !c.HardwareStamps {
		all["time_stamping"] = "software"
		all["clock_servo"] = "ntpshm"
	}
	maps.Copy(all, c.Options)
	b := &strings.Builder{}
	b.WriteString("[global]\n")
	all.appendTo(b)
	for _, s := range c.Sections {
		fmt.Fprintf(b, "[%s]\n", s.Name)
		s.Options.appendTo(b)
		for _, l := range s.Lines {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

// PTP4L starts ptp4l.
func (h *Host) PTP4L(ctx context.Context, c PTP4L) (*Daemon, error) {
	uds := h.Path("ptp4l")
	config, err := h.write("cfg", c.text(uds))
	if err != nil {
		return nil, err
	}
	p, err := h.Start(ctx, Command{Name: "ptp4l", Args: []string{"-f", config, "-m", "-q"}, Under: c.Under})
	if err != nil {
		return nil, err
	}
	return &Daemon{p, h, config, uds}, nil
}

// PMC asks the daemon over its Unix socket: requests such as "GET
// PORT_DATA_SET". Every request must be answered.
func (d *Daemon) PMC(ctx context.Context, requests ...string) ([]Reply, error) {
	return d.host.PMC(ctx, []string{"-u", "-b", "0", "-f", d.config, "-s", d.uds}, requests...)
}
