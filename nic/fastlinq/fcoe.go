package fastlinq

import (
	"errors"

	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fcoe"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"

	fastfcoe "tapir/nic/fastlinq/fcoe"
	wire "tapir/wire/fcoe"
)

// fcoeFunction is the FCoE function on the leading hwfn: frames of FIP and FCoE come by a light
// L2 connection, and those of FIP and of Fibre Channel's services leave by it.
type fcoeFunction struct {
	fcoe.Sessions // of the driver
	d             *Device
	conn          *ll2.Conn // nil: the function is not loaded
	arrived       []ll2.Rx  // frames that the NIC has not been given
	fw            fastfcoe.Firmware
	driver        *fastfcoe.Function // nil: it is not started
	inside        bool               // the firmware executes a ramrod
}

// Sizes of its connection.
const (
	fcoeRx  = 128
	fcoeTx  = 128
	fcoeMTU = fc.MaxPayload + wire.Overhead
)

// FCoE implements hardware.Function.
func (d driver) FCoE() fcoe.Hardware {
	if d.cfg.RDMA != verbs.FCoE {
		return nil
	}
	return &d.fcoe
}

// start opens the connection of a function that has been loaded.
func (f *fcoeFunction) start() (err error) {
	f.conn, err = f.d.light.startRx(ll2.Params{Type: ll2.FCoE, MTU: fcoeMTU, RxDescs: fcoeRx, TxDescs: fcoeTx,
		RemoveVLAN: true}, f.received)
	return err
}

// received keeps a frame for the next Poll: what the NIC does about it may need ramrods, which
// the slowpath's interrupt, that it comes in, would wait for.
func (f *fcoeFunction) received(rx ll2.Rx) {
	if f.arrived = append(f.arrived, rx); len(f.arrived) == 1 {
		f.d.nic.Schedule(f.d.now(), f.deliver)
	}
}

// deliver gives the NIC the frames that have come, and their buffers back.
func (f *fcoeFunction) deliver(frame.Time) {
	for i := 0; i < len(f.arrived); i++ { // some may come meanwhile
		rx := f.arrived[i]
		h, n, err := ether.Parse(rx.Buf[:rx.Len])
		if err == nil {
			f.d.nic.FCoE(h, rx.Buf[n:rx.Len])
		}
		if f.conn != nil {
			err = errors.Join(err, f.conn.PostRx(rx.Buf, rx.Cookie, true))
		}
		f.d.management.note(err)
	}
	f.arrived = f.arrived[:0]
}

// Room implements fcoe.Hardware.
func (f *fcoeFunction) Room() int {
	if f.conn == nil {
		return 0
	}
	return fcoeTx - f.conn.TxUse().Owned
}

// Send implements fcoe.Hardware.
func (f *fcoeFunction) Send(h ether.Header, body []byte) {
	if f.conn == nil {
		return
	}
	tx := ll2.Tx{Cookie: f, BDs: 1, Tagged: h.NTags > 0, TCI: h.Tags[0].TCI}
	h.NTags = 0
	tx.First = append(h.AppendTo(make([]byte, 0, ether.HeaderLen+len(body))), body...)
	f.d.management.note(f.conn.PrepareTx(tx))
}
