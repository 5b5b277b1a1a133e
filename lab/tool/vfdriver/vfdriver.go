// Package vfdriver is the subcommand that is the driver of a virtual function in a
// process of its own.
package vfdriver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/schema"
	"tapir/lab/tool/usage"
	"tapir/lab/tool/vfsocket"
	"tapir/nic/fastlinq"
	"tapir/wire/ether"
)

// The driver prints an object for each thing that it tells.
var _ = schema.Add("vf-driver", 1, map[string]any{})

// options are the flags.
type options struct {
	mac, hsi    string
	mtu, queues int
	vxlan       uint16
	promisc     bool
	once, json  bool

	addr         ether.Addr
	major, minor uint8
}

// Command is the subcommand. with runs do with a connection to the NIC of that name;
// complete lists NICs.
func Command(with func(name, how string, do func(c *ctl.Client) error) error,
	complete cobra.CompletionFunc) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "vf-driver NIC VF",
		Short: "Drive a virtual function from another process",
		Long: "Vf-driver takes a virtual function from the driver inside the NIC, acquires it by the channel\n" +
			"between VF and PF, starts its vport, queues and filter, and prints what the PF's bulletin board\n" +
			"says each time that changes. When it ends it releases the VF; if it is killed, the VF is reset.\n" +
			"Meanwhile its queues serve the VF's host TAP. If the PF's driver is lost it acquires the VF again\n" +
			"once that has recovered.",
		Example: "  tapir vf-driver nic0 1\n  tapir vf-driver nic0 1 --hsi 4.0   # the PF refuses that version\n" +
			"  tapir vf-driver nic0 0 --queues 16 --once --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage.Errorf("expected a NIC and the number of a VF: see: %s --help", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: complete,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		vf, err := strconv.ParseUint(args[1], 10, 15)
		if err != nil {
			return usage.Errorf("VF %q: want a number such as 0", args[1])
		}
		if err := o.parse(); err != nil {
			return usage.Wrap(err)
		}
		return with(args[0], "its name: tapir vf-driver NIC VF", func(c *ctl.Client) error {
			client, err := c.VFChannel(cmd.Context(), int(vf))
			if err != nil {
				return err
			}
			defer client.Close()
			return o.run(cmd.Context(), cmd.OutOrStdout(), client)
		})
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.mac, "mac", "", "MAC address to use; without it the one that the PF sets, if it sets one")
	f.IntVar(&o.mtu, "mtu", 1500, "MTU of the vport in octets, 46 to 9600")
	f.IntVar(&o.queues, "queues", 1, "queue pairs to ask for, 1 to 16; the PF may grant fewer")
	f.BoolVar(&o.promisc, "promisc", false, "ask for all frames, which only a trusted VF gets")
	f.Uint16Var(&o.vxlan, "vxlan-port", 0,
		"UDP port of VXLAN to ask for, which takes vf_tunnels of the PF; 0 asks for none")
	f.StringVar(&o.hsi, "hsi",
		fmt.Sprintf("%d.%d", fastlinq.VFHSIMajor, fastlinq.VFHSIMinor), "version of the fastpath to announce")
	f.BoolVar(&o.once, "once", false, "print what the PF grants, release the VF and exit")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// parse reads what is text.
func (o *options) parse() (err error) {
	if _, err := fmt.Sscanf(o.hsi+"\n", "%d.%d\n", &o.major, &o.minor); err != nil || o.major == 0 {
		return fmt.Errorf("--hsi %s: want a version such as 3.11", o.hsi)
	}
	if o.mac != "" {
		if o.addr, err = ether.ParseAddr(o.mac); err != nil {
			return fmt.Errorf("--mac %s: %w", o.mac, err)
		}
	}
	if o.queues < 1 || o.queues > fastlinq.MaxVFQueues {
		return fmt.Errorf("--queues %d: want 1 to %d", o.queues, fastlinq.MaxVFQueues)
	}
	if o.mtu < fastlinq.MinVFMTU || o.mtu > fastlinq.MaxVFMTU {
		return fmt.Errorf("--mtu %d: want %d to %d", o.mtu, fastlinq.MinVFMTU, fastlinq.MaxVFMTU)
	}
	return nil
}

// run drives the VF until ctx ends.
func (o *options) run(ctx context.Context, w io.Writer, c *vfsocket.Client) error {
	d := fastlinq.NewVFDriver(c, o.major, o.minor, o.queues, func(text string) {
		if !o.json {
			fmt.Fprintln(w, text)
		}
	})
	c.Memory = d
	if err := d.Acquire(); err != nil {
		return err
	}
	if _, err := d.ReadBulletin(); err != nil {
		return err
	}
	if err := o.granted(w, d); err != nil || o.once {
		return closing(d, err)
	}
	if err := o.start(d); err != nil {
		return closing(d, err)
	}
	for changed := true; ctx.Err() == nil; {
		if changed && d.Acquired() {
			if err := o.told(w, d); err != nil {
				return closing(d, err)
			}
		}
		switch {
		case d.Closed() || !d.Acquired(): // the PF's driver has ended: once it is back, from the beginning
			if d.Acquire() == nil {
				if err := o.start(d); err != nil {
					return closing(d, err)
				}
				_, err := d.ReadBulletin()
				changed = err == nil
				continue
			}
		case changed:
			if err := d.UseMAC(o.addr); err != nil {
				return closing(d, err)
			}
		}
		if err := c.Poll(bulletinEvery); err != nil {
			return err
		}
		var err error
		if changed, err = d.ReadBulletin(); err != nil {
			changed = false // the PF is writing it
		}
	}
	if d.Closed() || !d.Acquired() {
		return nil
	}
	return d.Stop()
}

// start brings the VF up as the flags say.
func (o *options) start(d *fastlinq.VFDriver) error {
	return d.Start(fastlinq.VFSetup{MTU: o.mtu, Queues: o.queues, Promisc: o.promisc, VXLAN: o.vxlan})
}

// bulletinEvery is how long the driver waits for the next bulletin before it looks
// whether it is to end.
const bulletinEvery = 100 * time.Millisecond

// closing releases the VF, and returns err.
func closing(d *fastlinq.VFDriver, err error) error {
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// granted prints what the PF has granted.
func (o *options) granted(w io.Writer, d *fastlinq.VFDriver) error {
	r, p := d.Resources(), d.Device()
	if o.json {
		return json.NewEncoder(w).Encode(map[string]any{"rx_queues": r.RxQueues, "tx_queues": r.TxQueues,
			"status_blocks": r.Blocks, "mac_filters": r.MACs, "vlan_filters": r.VLANs, "port_mac": p.PortMAC,
			"fastpath": fmt.Sprintf("%d.%d", p.HSIMajor, p.HSIMinor)})
	}
	_, err := fmt.Fprintf(w, "acquired: %d+%d queues, %d status blocks, %d MAC and %d VLAN filters, fastpath %d.%d, "+
		"port %v\n", r.RxQueues, r.TxQueues, r.Blocks, r.MACs, r.VLANs, p.HSIMajor, p.HSIMinor, p.PortMAC)
	return err
}

// told prints what the bulletin board says.
func (o *options) told(w io.Writer, d *fastlinq.VFDriver) error {
	l, speed := d.LinkState()
	mac, forced := d.ForcedMAC()
	vxlan, geneve := d.UDPPorts()
	if o.json {
		return json.NewEncoder(w).Encode(map[string]any{"version": d.Bulletin().Version, "up": l.Up != 0,
			"speed": speed, "mac": mac, "forced_mac": forced, "vlan": d.ForcedVLAN(), "closed": d.Closed(),
			"autoneg": d.LinkParams().Autoneg != 0, "advertised": d.LinkParams().AdvSpeeds, "speeds": d.LinkCaps(),
			"vxlan_port": vxlan, "geneve_port": geneve})
	}
	state := "down"
	if l.Up != 0 {
		state = fmt.Sprintf("up at %d Mb/s", speed)
	}
	text := fmt.Sprintf("bulletin %d: link %s", d.Bulletin().Version, state)
	if !mac.IsZero() {
		text += fmt.Sprintf(", MAC %v", mac)
		if forced {
			text += " (forced)"
		}
	}
	if vlan := d.ForcedVLAN(); vlan != 0 {
		text += fmt.Sprintf(", VLAN %d (forced)", vlan)
	}
	if vxlan != 0 {
		text += fmt.Sprintf(", VXLAN port %d", vxlan)
	}
	if geneve != 0 {
		text += fmt.Sprintf(", Geneve port %d", geneve)
	}
	if d.Closed() {
		text += ", channel closed: the PF's driver has ended"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
