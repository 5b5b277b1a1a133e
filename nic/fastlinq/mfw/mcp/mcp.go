// Package mcp is the driver's side of the management firmware: the mailbox of
// one hardware function, the messages that come back, and the calls that the
// driver core makes through them, with the guide's names.
//
// An MCP is a pure state machine on one thread. Commands are queued and their
// completion is a callback; Poll takes answers in and lets time-outs happen.
package mcp

import (
	"cmp"
	"time"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Timeout is how long the firmware may take for an answer.
const Timeout = 5 * time.Second

// HWError is a kind of hardware error.
type HWError uint8

// The hardware errors, numbered as the guide's.
const (
	HWErrFanFail HWError = iota
	HWErrMFWRespFail
	HWErrHWAttn
	HWErrDMAEFail
	HWErrRamrodFail
	HWErrFWAssert
)

func (e HWError) String() string {
	return [...]string{"FAN_FAIL", "MFW_RESP_FAIL", "HW_ATTN", "DMAE_FAIL", "RAMROD_FAIL",
		"FW_ASSERT"}[min(e, HWErrFWAssert)]
}

// Hooks are what the client is told. Any may be nil. They run within Poll,
// HandleEvents or the call that causes them.
type Hooks struct {
	// Link: the link has changed, or may have: look at LinkState.
	Link func(now frame.Time)
	// TLVRequest: the firmware wants TLVs. Only schedule; ProcessTLVReq does it.
	TLVRequest func()
	// FillTLV fills the values of one group; those that it sets are told.
	FillTLV func(g tlv.Group, values *tlv.Values)
	// Recovery: the firmware kills the process: unload without it, load again.
	Recovery func(now frame.Time)
	// HWError: the hardware is in trouble.
	HWError func(kind HWError, now frame.Time)
	// Transceiver: the module's state or type has changed.
	Transceiver func(state mfw.TransceiverState, kind uint8)
	// Bandwidth: the function's share of the port has changed, in percent.
	Bandwidth func(low, high uint8)
	// Outer: the function's outer tag, or what decides on its priority, has changed.
	Outer func(now frame.Time)
	// DCB: what LLDP or DCBX have told has changed: read a MIB.
	DCB func(kind mfw.Message, now frame.Time)
	// Stats fills the statistics of a kind, mfw.StatsLAN and so on.
	Stats func(kind int, s *mfw.ProtocolStats)
}

// Stats are the driver's counters of its mailbox.
type Stats struct {
	Commands, Timeouts, Aborted, Retries uint64
	Messages, Spurious, Unimplemented    uint64
}

// MCP is one hardware function's way to the management firmware.
type MCP struct {
	shm   *mfw.SHMEM
	fn    int
	port  int
	hooks Hooks

	queue    []*command // the first is pending
	seq      uint16
	history  uint32
	deadline frame.Time

	shadow     [mfw.NumMessages]uint8
	blocked    bool
	recovering bool
	bypass     bool // while UNLOAD_REQ is on its way
	tlvWant    bool

	link     linkControl
	wol      mfw.WoL
	features mfw.Features
	dcbx     *DCBXSet // what was set; nil: nothing
	stats    Stats
}

// New opens the mailbox of function fn, on port port of the board.
func New(shm *mfw.SHMEM, fn, port int, hooks Hooks) *MCP {
	m := &MCP{shm: shm, fn: fn, port: port, hooks: hooks, wol: mfw.WoLMCP}
	m.Init()
	return m
}

// Init begins anew, as a driver does when it loads: blocked commands are
// allowed again, the sequence is the mailbox's, and what the firmware has said
// before is no news.
func (m *MCP) Init() {
	m.queue, m.blocked, m.recovering, m.bypass = nil, false, false, false
	m.dcbx = nil
	m.reread()
	m.ReadShadow()
	m.initLink()
}

// reread takes the sequence over from the mailbox.
func (m *MCP) reread() {
	m.history = m.shm.History
	m.seq = uint16(m.shm.DrvMB[m.fn].DrvHeader)
}

// Info is func_info.
func (m *MCP) Info() mfw.FuncInfo { return m.shm.Func[m.fn].Info() }

// Version is the firmware's: a.b.c.d, an octet each.
func (m *MCP) Version() uint32 { return m.shm.Global.MFWVersion }

// Stats are the mailbox's counters.
func (m *MCP) Stats() Stats { return m.stats }

// Blocked tells whether the firmware has failed to answer, so that every
// command is aborted until Init.
func (m *MCP) Blocked() bool { return m.blocked }

// Answer is what the firmware said to a command.
type Answer struct {
	Response mfw.Response
	Param    uint32
	Data     []byte // mfw.UnionLen octets, borrowed for the callback
}

// command waits, or is pending.
type command struct {
	cmd    mfw.Command
	param  uint32
	data   []byte
	avoid  bool // a time-out does not block what follows
	done   func(a Answer, err error, now frame.Time)
	issued bool
}

// Cmd queues a command with its parameter and data of at most mfw.UnionLen
// octets, which it takes. done is called once, perhaps before Cmd returns:
// with the answer, or with TIMEOUT (the firmware has not answered), ABORTED
// (it had not answered before, or there is a recovery) or INVAL.
func (m *MCP) Cmd(cmd mfw.Command, param uint32, data []byte, now frame.Time,
	done func(a Answer, err error, now frame.Time)) {
	m.submit(&command{cmd: cmd, param: param, data: data, done: done}, now)
}

func (m *MCP) submit(c *command, now frame.Time) {
	switch {
	case len(c.data) > mfw.UnionLen:
		c.finish(Answer{}, status.Inval.Errorf("%v: %d octets of data, %d are the most", c.cmd, len(c.data),
			mfw.UnionLen), now)
	case m.blocked:
		m.abort(wasSilent, now, c)
	case m.recovering:
		m.abort(recovers, now, c)
	default:
		m.queue = append(m.queue, c)
		m.issue(now)
	}
}

// Why commands are aborted.
const (
	wasSilent = "the MFW has failed to respond before"
	recovers  = "a recovery is in progress"
)

func (m *MCP) abort(why string, now frame.Time, list ...*command) {
	for _, c := range list {
		m.stats.Aborted++
		c.finish(Answer{}, status.Aborted.Errorf("%v: %s", c.cmd, why), now)
	}
}

func (c *command) finish(a Answer, err error, now frame.Time) {
	if c.done != nil {
		c.done(a, err, now)
	}
}

// issue writes the first command into the mailbox.
func (m *MCP) issue(now frame.Time) {
	if len(m.queue) == 0 || m.queue[0].issued {
		return
	}
	if m.shm.History != m.history {
		m.reread()
	}
	c := m.queue[0]
	c.issued = true
	m.stats.Commands++
	m.deadline = now.Add(Timeout)
	m.write(c)
}

func (m *MCP) write(c *command) {
	m.seq++
	mb := &m.shm.DrvMB[m.fn]
	mb.Union = [mfw.UnionLen]byte{}
	copy(mb.Union[:], c.data)
	mb.DrvParam = c.param
	mb.DrvHeader = uint32(c.cmd) | uint32(m.seq)
}

// Poll takes an answer in, or finds that it is too late for it, and returns
// when it wants to be called again. It need not be called again at once: what
// the firmware has to say is known when it has been polled.
func (m *MCP) Poll(now frame.Time) (next frame.Time) {
	for len(m.queue) > 0 {
		mb := &m.shm.DrvMB[m.fn]
		switch {
		case m.shm.History != m.history: // the MCP was reset: once more
			m.reread()
			m.stats.Retries++
			m.deadline = now.Add(Timeout)
			m.write(m.queue[0])
			return m.deadline
		case uint16(mb.FWHeader) == m.seq:
			m.complete(mb, now)
		case now >= m.deadline:
			m.timeout(now)
		default:
			return m.deadline
		}
	}
	return frame.Never
}

func (m *MCP) complete(mb *mfw.DrvMB, now frame.Time) {
	c := m.pop()
	data := mb.Union
	a := Answer{Response: mfw.Response(mb.FWHeader &^ 0xffff), Param: mb.FWParam, Data: data[:]}
	c.finish(a, nil, now)
	m.issue(now)
}

func (m *MCP) pop() *command {
	c := m.queue[0]
	if m.queue = m.queue[1:]; len(m.queue) == 0 {
		m.queue = nil // a NIC at rest keeps nothing
	}
	return c
}

// timeout ends the pending command, and unless it avoids that, all that wait
// and all to come.
func (m *MCP) timeout(now frame.Time) {
	c := m.pop()
	m.stats.Timeouts++
	waiting := m.queue
	if !c.avoid {
		m.blocked, m.queue = true, nil
	}
	c.finish(Answer{}, status.Timeout.Errorf("%v: the MFW failed to respond within %v", c.cmd, Timeout), now)
	m.hwError(HWErrMFWRespFail, now)
	if c.avoid {
		m.issue(now)
		return
	}
	m.abort(wasSilent, now, waiting...)
}

// Pending is how many commands wait, the one in the mailbox included.
func (m *MCP) Pending() int { return len(m.queue) }

// except are answers that have an error of their own with a command.
type except map[mfw.Response]error

// ask issues a command whose answer must be want: then gets it, fail the error of
// any other.
func (m *MCP) ask(cmd mfw.Command, param uint32, data []byte, want mfw.Response, own except, now frame.Time,
	fail func(error), then func(a Answer, now frame.Time)) {
	m.Cmd(cmd, param, data, now, func(a Answer, err error, now frame.Time) {
		if err == nil && a.Response != want {
			err = cmp.Or(own[a.Response], refusal(cmd, a.Response))
		}
		if err != nil {
			fail(err)
			return
		}
		then(a, now)
	})
}

// failing is done for an error alone.
func failing[T any](done func(T, error)) func(error) {
	return func(err error) {
		var none T
		done(none, err)
	}
}

// simple issues a command whose answer must be want, and which carries nothing
// back. Unsupported is a soft failure: NOTIMPL.
func (m *MCP) simple(cmd mfw.Command, param uint32, data []byte, want mfw.Response, now frame.Time, done func(error)) {
	end := func(err error) { tell(done, err) }
	m.ask(cmd, param, data, want, nil, now, end, func(Answer, frame.Time) { end(nil) })
}

// value issues a command whose answer is a number.
func (m *MCP) value(c mfw.Command, param uint32, now frame.Time, done func(uint32, error)) {
	m.ask(c, param, nil, mfw.OK, nil, now, failing(done), func(a Answer, _ frame.Time) { done(a.Param, nil) })
}

// read collects length octets, as many with each command as it carries; param is
// the parameter for n octets from at on.
func (m *MCP) read(c mfw.Command, length int, have []byte, want mfw.Response, param func(at, n int) (uint32, except),
	now frame.Time, done func([]byte, error)) {
	n := min(length-len(have), mfw.NVMChunk)
	if n == 0 {
		done(have, nil)
		return
	}
	p, own := param(len(have), n)
	m.ask(c, p, nil, want, own, now, failing(done), func(a Answer, now frame.Time) {
		m.read(c, length, append(have, a.Data[:n]...), want, param, now, done)
	})
}

// refusals are answers that mean the same with every command.
var refusals = map[mfw.Response]struct {
	code status.Code
	text string
}{
	mfw.Unsupported:     {status.NotImpl, "the MFW does not support it"},
	mfw.NVMInvalidDir:   {status.IO, "the directory of the NVM is damaged"},
	mfw.NVMFileNotFound: {status.NoEnt, "there is no such image in the NVM"},
	mfw.NVMBadSignature: {status.Inval, "the file is no firmware"},
}

// refusal is the error of an answer that is not the wanted one.
func refusal(cmd mfw.Command, got mfw.Response) error {
	if r, ok := refusals[got]; ok {
		return r.code.Errorf("%v: %s", cmd, r.text)
	}
	return status.Inval.Errorf("%v: the MFW answers %#08x", cmd, uint32(got))
}

func tell(done func(error), err error) {
	if done != nil {
		done(err)
	}
}
