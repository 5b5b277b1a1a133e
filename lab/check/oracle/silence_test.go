package oracle

import (
	"context"
	"errors"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"tapir/lab/check/interop"
)

// patience bounds a cell; it only ends one that is stuck.
const patience = 12 * time.Minute

// silence is far more than netstack takes to send again what is not
// acknowledged.
const silence = time.Minute

// errSilent: after losses and reordering netstack now and then counts no segment
// as outstanding and stops its timers with its last octets and FIN not
// acknowledged (postXmit), or gives the connection up and its reset is lost.
// Nobody else can end such a connection.
var errSilent = errors.New("netstack does not send again what was not acknowledged")

// runCell runs a cell, and ends it when netstack falls silent.
func runCell(ctx context.Context, c interop.Cell, seed uint64) (interop.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := func(w *interop.World) (interop.Peer, error) {
		p, err := attach(w)
		if err == nil {
			go p.(*netstack).watch(ctx, stop)
		}
		return p, err
	}
	r, err := interop.Run(ctx, c, c.Octets(), seed, watched)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return r, err
}

// watch stops the cell when netstack owes a segment and sends none.
func (n *netstack) watch(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last uint64
	had := false
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		owes, any := n.connections()
		had = had || any
		if sent := n.stack.Stats().TCP.SegmentsSent.Value(); sent != last || !owes && (any || !had) {
			last, since = sent, time.Now()
		}
		if time.Since(since) > silence {
			stop(errSilent)
			return
		}
	}
}

// connections tells whether there is a connection that has sent a FIN which is not
// acknowledged, and whether there is any.
func (n *netstack) connections() (owes, any bool) {
	for _, e := range n.stack.RegisteredEndpoints() {
		if e, ok := e.(*tcp.Endpoint); ok {
			switch tcp.EndpointState(e.State()) {
			case tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck:
				owes, any = true, true
			case tcp.StateListen, tcp.StateClose, tcp.StateError:
			default:
				any = true
			}
		}
	}
	return owes, any
}

// TestGVisor holds the NIC's TCP against gVisor's netstack.
func TestGVisor(t *testing.T) {
	for i, c := range interop.Of("gvisor", interop.Pairwise()) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			r, err := runCell(t.Context(), c, uint64(i))
			for again := 0; errors.Is(err, errSilent) && again < 4; again++ {
				t.Logf("once more: %v", err)
				r, err = runCell(t.Context(), c, uint64(i))
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
		})
	}
}
