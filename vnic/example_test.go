package vnic_test

import (
	"fmt"

	"tapir/nic/buf"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// wire is a link that hands what it gets to a function.
type wire func(f *frame.Frame)

func (w wire) Room() int               { return 64 }
func (w wire) Transmit(f *frame.Frame) { w(f) }

// Two HFIs on one cable, each with a vport of vESW 2, and a frame from host to
// host.
func Example() {
	pool := buf.NewPool(64, 0)
	var ports [2]*hfi.Port
	var vports [2]*vnic.Port
	for i := range ports {
		cable := wire(func(f *frame.Frame) {
			fmt.Printf("fabric: %d octets to %v\n", f.Len(), ether.Addr(f.Bytes()))
			ports[1-i].Receive([]*frame.Frame{f}, 0)
		})
		ports[i], _ = hfi.New(hfi.Config{LID: opa.LID(i + 5)}, hfi.Env{Pool: pool, Wire: cable})
		ports[i].LinkUp(0)
		vports[i] = vnic.NewPort(ports[i], pool)

		n, _ := vports[i].Create(1, vnic.DefaultPolicy())
		cfg := vnic.PowerOn()
		cfg.FabricID, cfg.VESWID, cfg.PKey = 0x301, 2, 0x8001
		cfg.McastDLID, cfg.ConfigState = opa.FirstMulticast+1, vnic.Forwarding
		cfg.BaseMAC = opa.LMAC{Fabric: cfg.FabricID, VESW: cfg.VESWID, LID: ports[i].LID()}.Addr()
		if err := n.Configure(cfg); err != nil {
			fmt.Println(err)
		}
		n.SetHost(wire(func(f *frame.Frame) {
			fmt.Printf("host of %v: %d octets, %q\n", n.MAC(), f.Len(), f.Bytes()[14:19])
			f.Release()
		}))
		n.Open()
	}

	from, to := vports[0].Netdev(1), vports[1].Netdev(1)
	f := pool.Get(60)
	f.Append(ether.Header{Dst: to.MAC(), Src: from.MAC(), Type: 0x88b7}.AppendTo(nil))
	f.Append([]byte("hello"))
	from.Transmit([]*frame.Frame{f}, 0)
	ports[0].Poll(0)
	vports[1].Poll(0)
	tx := from.Stats()
	for _, c := range tx.Counters()[:4] {
		fmt.Println(c.Name, c.Value)
	}
	// Output:
	// fabric: 114 octets to 02:00:00:00:00:06
	// host of 06:2c:00:06:00:00: 60 octets, "hello"
	// rx_packets 0
	// tx_packets 1
	// rx_bytes 0
	// tx_bytes 64
}
