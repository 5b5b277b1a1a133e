package node

import (
	"sync"

	"tapir/nic/al"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Layer is the access layer of NICs that run, each on a thread of its own: it
// tells clients of every node that was given it, and its calls wait. Handlers
// and the methods of clients run on the threads of the NICs; none of the
// Layer's methods may be called there. All may be called from any other
// goroutine.
type Layer struct {
	mu sync.Mutex
	al *al.Layer
}

// NewLayer returns an access layer without devices.
func NewLayer() *Layer {
	l := &Layer{}
	l.al = al.New(func(fn func()) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fn()
	})
	return l
}

// Devices returns the devices of the nodes that run, in the order of their
// start.
func (l *Layer) Devices() []*al.CA { return l.al.Devices() }

// RegisterClient tells c of every device, or of those with one of the ids: when
// it returns, Add has returned for all that are present. unregister returns when
// c has let go of them and has been told so.
func (l *Layer) RegisterClient(c al.Client, ids ...al.ID) (unregister func()) {
	leave := l.al.RegisterClient(c, ids...)
	for _, ca := range l.al.Devices() {
		wait(ca.Do)
	}
	return func() {
		present, gone := l.al.Devices(), make(chan struct{})
		leave(func() { close(gone) })
		<-gone
		for _, ca := range present {
			wait(ca.Do) // for the done of the CloseAsync that was the last
		}
	}
}

// OpenCA opens a device by GUID; h and value are as in al.Layer.OpenCA. Use
// the context on the device's thread: CA.Do of the context's device.
func (l *Layer) OpenCA(g verbs.GUID, h al.EventHandler, value any) (*al.Context, error) {
	ca, err := l.al.Find(g)
	if err != nil {
		return nil, err
	}
	return open(ca, h, value)
}

// OpenName is OpenCA by name.
func (l *Layer) OpenName(name string, h al.EventHandler, value any) (*al.Context, error) {
	ca, err := l.al.FindName(name)
	if err != nil {
		return nil, err
	}
	return open(ca, h, value)
}

func open(ca *al.CA, h al.EventHandler, value any) (ctx *al.Context, err error) {
	wait(func(fn func(frame.Time)) {
		ca.Do(func(now frame.Time) {
			ctx, err = ca.Open(h, value)
			fn(now)
		})
	})
	return ctx, err
}

// CloseContext closes a context and returns when no handler of it can run any
// more.
func (l *Layer) CloseContext(ctx *al.Context) (err error) {
	wait(func(fn func(frame.Time)) {
		ctx.CA().Do(func(now frame.Time) {
			ctx.CloseAsync(func(e error) { err = e; fn(now) })
		})
	})
	return err
}

// wait returns when what do was given has run.
func wait(do func(fn func(frame.Time))) {
	ran := make(chan struct{})
	do(func(frame.Time) { close(ran) })
	<-ran
}

// Register makes a NIC's RDMA device one of the layer.
func (l *Layer) Register(ci al.CI) (*al.CA, error) { return l.al.RegisterCI(ci) }
