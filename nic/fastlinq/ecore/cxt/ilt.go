package cxt

import "tapir/nic/fastlinq/status"

// Client is a block of the chip whose memory lies in host pages of the ILT.
type Client uint8

// The clients.
const (
	CDUC Client = iota // connection contexts
	CDUT               // task contexts
	QM                 // queues of the queue manager
	TM                 // timers
	SRC                // the searcher
	TSDM               // shared receive queues
	NumClients
)

var clientNames = [...]string{"CDUC", "CDUT", "QM", "TM", "SRC", "TSDM"}

// String is the client's name.
func (c Client) String() string { return clientNames[c] }

// Sizes in octets of what the clients keep in the ILT's pages.
const (
	PageSize = 0x1000 << 4 // ILT_DEFAULT_HW_P_SIZE 4
	ConnSize = 1024        // of a connection context of this model
	// ContextSize is the part of it that firmware uses here.
	ContextSize = 64
	TaskSize    = 256 // of a task context of this model
	SRQSize     = 64  // of a shared receive queue's

	searchSize  = 64
	timerSize   = 4
	pqEntry     = 4
	minSearch   = 256 // elements
	timerAlign  = 128 // timers are counted in such groups
	pqPage      = 0x1000
	otherQueues = 4 // of the queue manager, per PF
)

// Lines are the ILT lines of one client: the first one's number in the
// engine, and how many there are.
type Lines struct{ First, Count int }

func pages(octets int) int { return (octets + PageSize - 1) / PageSize }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func pow2(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// totals are what the tables of all protocols add up to.
type totals struct {
	cids, vfCIDs, tasks         int
	timerCIDs, timerTasks, srch int
}

func (m *Manager) totals() (t totals) {
	for p, c := range m.cfg.Protocols {
		t.cids += c.CIDs
		t.vfCIDs += c.VFCIDs
		t.tasks += c.Tasks
		switch Protocol(p) {
		case ISCSI, FCoE, IWARP, TOE:
			t.timerCIDs += c.CIDs
			t.timerTasks += c.Tasks
			t.srch += c.CIDs
		case RoCE:
			t.timerCIDs += c.CIDs
			t.timerTasks += c.Tasks
		}
	}
	t.srch += m.cfg.Filters
	return t
}

// sizes are the lines that each client needs.
func (m *Manager) sizes() (n [NumClients]int) {
	t := m.totals()
	n[CDUC] = pages(t.cids*ConnSize) + m.cfg.VFs*pages(t.vfCIDs*ConnSize)
	n[CDUT] = pages(t.tasks * TaskSize)
	queue := func(elems int) int {
		if elems == 0 {
			return 0
		}
		return roundUp((elems+1)*pqEntry, pqPage)
	}
	n[QM] = pages(queue(t.cids)*m.cfg.PQs + queue(t.vfCIDs*m.cfg.VFs)*m.cfg.VFPQs + queue(t.cids+t.tasks)*otherQueues)
	n[TM] = pages((roundUp(t.timerCIDs, timerAlign) + roundUp(t.timerTasks, timerAlign)) * timerSize)
	if t.srch > 0 {
		n[SRC] = pages(pow2(max(t.srch, minSearch)) * searchSize)
	}
	n[TSDM] = pages(m.cfg.SRQs * SRQSize)
	return n
}

// compute lays the clients out from the function's first line on and tells
// how many lines are used.
func (m *Manager) compute() (used int) {
	at := m.cfg.FirstLine
	for c, n := range m.sizes() {
		m.lines[c] = Lines{at, n}
		at += n
	}
	return at - m.cfg.FirstLine
}

// fit lays the clients out within the function's share. If they do not fit
// and there are RDMA tasks, it tries once with as many fewer as the lines
// that are missing hold, as the public driver does.
func (m *Manager) fit() error {
	asked := m.compute()
	if m.used = asked; asked <= m.cfg.MaxLines {
		return nil
	}
	if p := m.cfg.RDMA; p != Common && m.cfg.Protocols[p].Tasks > 0 {
		excess := (asked - m.cfg.MaxLines) * (PageSize / TaskSize)
		if t := &m.cfg.Protocols[p].Tasks; *t > excess {
			*t -= excess
			m.reduced = excess
			if m.used = m.compute(); m.used <= m.cfg.MaxLines {
				return nil
			}
		}
	}
	return status.Inval.Errorf(
		"contexts need %d ILT lines of %d KiB and the function has %d: ask for fewer connections or tasks",
		asked, PageSize/1024, m.cfg.MaxLines)
}

// Dynamic are those of a client's lines, counted from its first, that get a
// page when they are first used: those that hold nothing but RDMA.
func (m *Manager) Dynamic(c Client) (from, to int) {
	p := m.cfg.RDMA
	switch {
	case p == Common:
		return 0, 0
	case c == CDUC:
		const perPage = PageSize / ConnSize
		start := 0
		for _, before := range m.cfg.Protocols[:p] {
			start += before.CIDs
		}
		from, to = (start+perPage-1)/perPage, (start+m.cfg.Protocols[p].CIDs)/perPage
		return from, max(from, to)
	case c == CDUT, c == TSDM:
		return 0, m.lines[c].Count
	}
	return 0, 0
}

// back sees to it that a client's line, counted from its first, has a page.
func (m *Manager) back(c Client, line int) error {
	from, to := m.Dynamic(c)
	dynamic := line >= from && line < to
	if line += m.lines[c].First; !dynamic || m.backed[line] || m.cfg.Map == nil {
		return nil
	}
	if err := m.cfg.Map(line); err != nil {
		return err
	}
	if m.backed == nil {
		m.backed = map[int]bool{}
	}
	m.backed[line] = true
	return nil
}
