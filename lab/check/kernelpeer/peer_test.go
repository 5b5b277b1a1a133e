// Package kernelpeer is an iWARP peer for tests: it speaks MPA, DDP and RDMAP
// over any byte stream, usually a kernel TCP socket, and so shares neither
// TCP nor queue pairs with the NIC under test. It knows Send, RDMA Write, RDMA
// Read and Terminate in both roles, registers memory as Go slices and takes
// Sends of any length without posted buffers. It is simple rather than fast.
package kernelpeer

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

// ErrClosed is the error of calls on a peer that was closed here.
var ErrClosed = errors.New("kernelpeer: closed")

// ErrNoReads is the error of Read where the agreed ORD is 0.
var ErrNoReads = errors.New("kernelpeer: the connection allows no RDMA Reads")

// Config is how a peer behaves. The zero value is not useful: start from
// DefaultConfig.
type Config struct {
	MPA mpa.Config
	// SegmentSize bounds FPDUs as a TCP payload of that many octets would.
	SegmentSize int
	// Accept is asked by Respond about the initiator's request and returns the
	// reply's private data and whether to reject. nil accepts.
	Accept func(request mpa.Result) (private []byte, reject bool)
}

// DefaultConfig is mpa.DefaultConfig with FPDUs that fit Ethernet segments.
func DefaultConfig() Config {
	return Config{MPA: mpa.DefaultConfig(), SegmentSize: 1448}
}

// Peer is one side of an established connection. Its methods may be called
// from any goroutine.
type Peer struct {
	rw     io.ReadWriter
	result mpa.Result
	size   int // of a segment

	mu        sync.Mutex
	changed   sync.Cond // anything below
	err       error     // what ended the stream; io.EOF for the peer's close
	mayWrite  bool      // a responder waits for the first FPDU
	closing   bool
	jobs      []*job
	memory    map[uint32]region
	nextSTag  uint32
	reads     []*read // outstanding, oldest first
	received  []Message
	firstSeen bool // the initiator's first message has come

	tx   sender
	in   *ddp.Receiver
	part [rdmap.NumQueues][]byte // of the message under way in each queue
	done sync.WaitGroup
}

// Message is a received Send.
type Message struct {
	Op         rdmap.Opcode
	Invalidate uint32 // with Invalidate: the STag, which is now invalid
	Data       []byte
}

// region is registered memory; its first octet has tagged offset base.
type region struct {
	base uint64
	data []byte
}

// Initiate starts a connection on rw as the MPA initiator. A rejection gives
// *mpa.Rejected.
func Initiate(rw io.ReadWriter, cfg Config) (*Peer, error) {
	i, err := mpa.NewInitiator(cfg.MPA)
	if err != nil {
		return nil, err
	}
	if _, err := rw.Write(i.AppendRequest(nil)); err != nil {
		return nil, fmt.Errorf("kernelpeer: MPA request: %w", err)
	}
	rest, err := startUp(rw, i.Receive)
	if err != nil {
		return nil, err
	}
	p := newPeer(rw, cfg, i.Result())
	p.mayWrite = true
	if p.result.PeerToPeer {
		p.queueRTR()
	}
	p.start(rest)
	return p, nil
}

// Respond waits on rw for an initiator and answers it.
func Respond(rw io.ReadWriter, cfg Config) (*Peer, error) {
	r := mpa.NewResponder(cfg.MPA)
	rest, err := startUp(rw, r.Receive)
	if err != nil {
		if len(r.Refusal()) > 0 {
			_, werr := rw.Write(r.Refusal())
			err = errors.Join(err, werr)
		}
		return nil, err
	}
	var private []byte
	if cfg.Accept != nil {
		var reject bool
		if private, reject = cfg.Accept(r.Request()); reject {
			_, err := rw.Write(r.AppendReject(nil, private))
			return nil, errors.Join(&mpa.Rejected{PrivateData: private}, err)
		}
	}
	reply, err := r.AppendAccept(nil, private)
	if err != nil {
		return nil, err
	}
	if _, err := rw.Write(reply); err != nil {
		return nil, fmt.Errorf("kernelpeer: MPA reply: %w", err)
	}
	p := newPeer(rw, cfg, r.Result())
	p.start(rest)
	return p, nil
}

// startUp feeds a negotiation until it is done and returns the octets behind
// its frame.
func startUp(r io.Reader, receive func([]byte) (int, bool, error)) (rest []byte, err error) {
	b := make([]byte, mpa.MaxFrameLen)
	for {
		n, rerr := r.Read(b)
		used, done, err := receive(b[:n])
		switch {
		case err != nil:
			return nil, err
		case done:
			return b[used:n], nil
		case rerr != nil:
			return nil, fmt.Errorf("kernelpeer: during MPA start-up: %w", rerr)
		}
	}
}

func newPeer(rw io.ReadWriter, cfg Config, result mpa.Result) *Peer {
	p := &Peer{rw: rw, result: result, size: cfg.SegmentSize, memory: map[uint32]region{}, nextSTag: 0x100}
	p.changed.L = &p.mu
	p.tx = sender{layout: result.Tx(), w: rw}
	p.in = ddp.NewReceiver(p, rdmap.NumQueues)
	return p
}

func (p *Peer) start(rest []byte) {
	p.done.Add(2)
	go p.readLoop(rest)
	go p.writeLoop()
}

// Result is what the start-up phase agreed on.
func (p *Peer) Result() mpa.Result { return p.result }

// Register makes data accessible to the other side and returns its STag and
// the tagged offset of its first octet.
func (p *Peer) Register(data []byte) (stag uint32, to uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextSTag += 0x101
	r := region{base: uint64(p.nextSTag) << 20, data: data}
	p.memory[p.nextSTag] = r
	return p.nextSTag, r.base
}

// Deregister ends the other side's access.
func (p *Peer) Deregister(stag uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.memory, stag)
}

// Recv returns the next received Send. After the other side's close it
// returns io.EOF, after an error of the stream that.
func (p *Peer) Recv() (Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.received) == 0 && p.err == nil {
		p.changed.Wait()
	}
	if len(p.received) == 0 {
		return Message{}, p.err
	}
	m := p.received[0]
	p.received = p.received[1:]
	return m, nil
}

// Err is what ended the stream: io.EOF when the other side closed it, an
// *rdmap.Error for a Terminate sent or received, nil while it lives.
func (p *Peer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Wait returns Err once the stream has ended.
func (p *Peer) Wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil {
		p.changed.Wait()
	}
	return p.err
}

// Close sends what is queued, closes the byte stream if it can be closed and
// waits until the peer's goroutines have ended. A byte stream that is no
// io.Closer must be ended by its owner first.
func (p *Peer) Close() error {
	p.mu.Lock()
	p.closing = true
	p.changed.Broadcast()
	for len(p.jobs) > 0 && p.err == nil && p.mayWrite {
		p.changed.Wait()
	}
	p.mu.Unlock()
	p.fail(ErrClosed)
	var err error
	if c, ok := p.rw.(io.Closer); ok {
		err = c.Close()
	}
	p.done.Wait()
	return err
}

// fail ends the stream with err unless it has ended already. Outstanding
// requests fail with it.
func (p *Peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.changed.Broadcast()
}
