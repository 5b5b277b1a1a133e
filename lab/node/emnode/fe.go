package emnode

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"tapir/lab/node/hfinode"
	"tapir/nic/uapi/listen"
	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// frontEnd carries MADs between TCP clients and the fabric in the framing of a
// fabric manager's front end, where stock dissectors read their headers. A
// client's requests go to the port whose LID is in the class-specific field of
// the MAD header, 0 being the manager's own; answers come back with the
// client's transaction id. Traps that reach the port go to every client.
type frontEnd struct {
	l    net.Listener
	node *hfinode.Node
	wg   sync.WaitGroup

	mu      sync.Mutex
	clients map[*feClient]bool
	closed  bool

	// On the loop's thread.
	requests []feRequest
	waiting  map[uint64]feWaiting
	tid      uint32
}

type feClient struct {
	conn *listen.Conn
	out  chan []byte
}

type feRequest struct {
	from *feClient
	mad  []byte
}

type feWaiting struct {
	to    *feClient
	tid   uint64
	until frame.Time
}

// Bounds of the front end.
const (
	feTIDs    = uint64(0x4645) << 48 // the transactions of clients: "FE" above
	feTimeout = 5 * time.Second      // for an answer
	feQueue   = 256                  // messages that wait for a slow client, beyond which it is cut off
	feClients = 32                   // at once; one address has half
	feWhole   = 10 * time.Second     // for the rest of a request that has begun to come
)

func listenFE(addr string, logf func(format string, args ...any)) (*frontEnd, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("front end: %w", err)
	}
	l = listen.New(l, listen.Options{Name: "the front end", Total: feClients, PerPeer: feClients / 2, Logf: logf})
	return &frontEnd{l: l, clients: map[*feClient]bool{}, waiting: map[uint64]feWaiting{}}, nil
}

// addr is where it listens.
func (f *frontEnd) addr() string { return f.l.Addr().String() }

// serve accepts clients of the node that the front end is attached to.
func (f *frontEnd) serve(n *hfinode.Node) {
	if f == nil {
		return
	}
	f.node = n
	f.wg.Go(func() {
		for {
			conn, err := f.l.Accept()
			if err != nil {
				return // closed
			}
			c := &feClient{conn: conn.(*listen.Conn), out: make(chan []byte, feQueue)}
			f.mu.Lock()
			if f.closed {
				f.mu.Unlock()
				conn.Close()
				return
			}
			f.clients[c] = true
			f.mu.Unlock()
			f.wg.Go(func() { f.write(c) })
			f.wg.Go(func() { f.read(c) })
		}
	})
}

// close ends all connections.
func (f *frontEnd) close() {
	if f == nil {
		return
	}
	f.l.Close()
	f.mu.Lock()
	f.closed = true
	for c := range f.clients {
		c.conn.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// read takes requests until the client leaves or breaks the framing.
func (f *frontEnd) read(c *feClient) {
	defer f.forget(c)
	buf := make([]byte, 0, 2*(opa.FEHeaderLen+opa.MaxMAD))
	for {
		n, err := c.conn.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return
		}
		buf = buf[:len(buf)+n]
		for {
			b, used, err := opa.ParseFE(buf)
			if err != nil {
				return
			}
			if used == 0 {
				break
			}
			c.conn.SetBusy(true) // from now on, though it may only wait for traps
			r := feRequest{c, append([]byte(nil), b...)}
			f.node.Do(func(frame.Time) { f.requests = append(f.requests, r) })
			buf = buf[:copy(buf, buf[used:])]
		}
		var whole time.Time // a client may be silent, but not in the middle
		if len(buf) > 0 {
			whole = time.Now().Add(feWhole)
		}
		_ = c.conn.SetReadDeadline(whole) // fails if it is closed
	}
}

func (f *frontEnd) write(c *feClient) {
	for b := range c.out {
		if _, err := c.conn.Write(b); err != nil {
			c.conn.Close() // which ends read, too
		}
	}
}

// forget drops a client whose connection has ended.
func (f *frontEnd) forget(c *feClient) {
	c.conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients[c] {
		delete(f.clients, c)
		close(c.out)
	}
}

// tell sends a MAD to a client, who is cut off if it does not keep up.
func (f *frontEnd) tell(c *feClient, b []byte) {
	message := opa.AppendFE(nil, b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.clients[c] {
		return
	}
	select {
	case c.out <- message:
	default:
		c.conn.Close()
	}
}

// Receive looks for answers to the clients' requests, and for traps.
func (f *frontEnd) Receive(b []byte, _ mad.Address, _ frame.Time, _ mad.Send) {
	h, err := mad.Parse(b)
	if err != nil || h.Class != mad.ClassVEMA {
		return
	}
	if h.Method == mad.MethodTrap {
		f.mu.Lock()
		all := slices.Collect(maps.Keys(f.clients))
		f.mu.Unlock()
		for _, c := range all {
			f.tell(c, b)
		}
		return
	}
	w, ok := f.waiting[h.TID]
	if !ok || h.Method != mad.MethodGetResp {
		return
	}
	delete(f.waiting, h.TID)
	h.TID = w.tid
	answer := append([]byte(nil), b...)
	h.Put(answer)
	f.tell(w.to, answer)
}

// Poll sends the clients' requests. Of Ethernet management all but changes is
// open to them: those are the manager's alone.
func (f *frontEnd) Poll(now frame.Time, send mad.Send) frame.Time {
	for _, r := range f.requests {
		h, _, err := mad.ParseVEMA(r.mad)
		if err != nil {
			r.from.conn.Close()
			continue
		}
		to := mad.Address{LID: opa.LID(h.Specific), QP: opa.QPGeneral}
		if to.LID == 0 {
			to.LID = f.node.HFI().Port().LID()
		}
		tid := h.TID
		f.tid++
		h.TID = feTIDs | uint64(f.tid)
		h.Put(r.mad)
		if h.Method != mad.MethodGet || !send(to, r.mad) {
			h.Method, h.Status, h.TID = mad.MethodGetResp, mad.StatusBadAttribute, tid
			h.Put(r.mad)
			f.tell(r.from, r.mad)
			continue
		}
		f.waiting[h.TID] = feWaiting{r.from, tid, now.Add(feTimeout)}
	}
	f.requests = f.requests[:0]
	next := frame.Never
	for tid, w := range f.waiting {
		if now >= w.until {
			delete(f.waiting, tid)
			continue
		}
		next = min(next, w.until)
	}
	return next
}
