// Package cxt is the context manager of a hardware function (ecore_cxt): the
// connection ids of each protocol, and the ILT, the table of host pages that
// holds what the chip remembers of connections and tasks.
package cxt

import (
	"math/bits"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Protocol is a kind of connection, as the firmware numbers them.
type Protocol uint8

// The protocols.
const (
	ISCSI Protocol = iota
	FCoE
	RoCE
	Core
	Eth
	IWARP
	TOE
	PreRoCE
	Common
	NumProtocols
)

var protocolNames = [...]string{"ISCSI", "FCOE", "ROCE", "CORE", "ETH", "IWARP", "TOE", "PREROCE", "COMMON"}

// String is the protocol's name.
func (p Protocol) String() string {
	return enum.Name(protocolNames[:], p, "Protocol(%d)")
}

// Counts are the connections and tasks of one protocol.
type Counts struct {
	CIDs   int // of the PF; ranges begin at multiples of 16, as doorbells decode them
	VFCIDs int // of each of its VFs
	Tasks  int
}

// Config sizes a Manager.
type Config struct {
	Protocols [NumProtocols]Counts
	RDMA      Protocol // whose tasks may be reduced; Common: none
	VFs       int
	PQs       int // physical queues of the PF's connections
	VFPQs     int
	SRQs      int
	Filters   int // n-tuple filters
	FirstLine int // of the function's ILT lines in the engine
	MaxLines  int // its share of them
	// Map gives a line a page, when a connection of RDMA first uses it; nil:
	// they have one.
	Map func(line int) error
}

// cidRange is the granularity of ranges of connection ids.
const cidRange = 16

// ids is one contiguous range of connection ids.
type ids struct {
	start, count int
	acquired     []uint64
	used         int
	contexts     [][]byte // of those that were asked for; by place, up to the highest
}

// Manager has the contexts of one hardware function. It is not safe for
// concurrent use.
type Manager struct {
	cfg      Config
	pf       [NumProtocols]ids
	vfs      [][NumProtocols]ids
	lines    [NumClients]Lines
	used     int
	reduced  int
	resident int // contexts in memory
	srqs     ids
	srqMem   map[int][]byte
	backed   map[int]bool // lines that were given a page
	refused  uint64
	faults   uint64
}

// New lays the contexts out. INVAL: they do not fit the function's ILT lines,
// even with fewer RDMA tasks.
func New(cfg Config) (*Manager, error) {
	m, asked := &Manager{cfg: cfg, vfs: make([][NumProtocols]ids, cfg.VFs)}, cfg.Protocols
	for p := range m.cfg.Protocols {
		c := &m.cfg.Protocols[p]
		if c.CIDs < 0 || c.VFCIDs < 0 || c.Tasks < 0 || c.CIDs > 1<<22 || c.VFCIDs > 1<<16 || c.Tasks > 1<<22 {
			return nil, status.Inval.Errorf("%v with %d connections, %d per VF and %d tasks", Protocol(p), c.CIDs,
				c.VFCIDs, c.Tasks)
		}
		c.CIDs, c.VFCIDs = roundUp(c.CIDs, cidRange), roundUp(c.VFCIDs, cidRange)
	}
	if err := m.fit(); err != nil {
		return nil, err
	}
	m.srqs = newIDs(0, m.cfg.SRQs)
	start, vfStart := 0, 0
	for p, c := range m.cfg.Protocols {
		m.pf[p] = newIDs(start, asked[p].CIDs)
		start += c.CIDs
		for v := range m.vfs {
			m.vfs[v][p] = newIDs(vfStart, asked[p].VFCIDs)
		}
		vfStart += c.VFCIDs
	}
	return m, nil
}

func newIDs(start, count int) ids {
	return ids{start: start, count: count, acquired: make([]uint64, (count+63)/64)}
}

// table is the range of a protocol: of the PF with vf -1.
func (m *Manager) table(p Protocol, vf int) (*ids, error) {
	switch {
	case p >= NumProtocols:
		return nil, status.Inval.Errorf("protocol %d of connections", p)
	case vf < -1 || vf >= len(m.vfs):
		return nil, status.Inval.Errorf("VF %d of %d", vf, len(m.vfs))
	case vf >= 0:
		return &m.vfs[vf][p], nil
	}
	return &m.pf[p], nil
}

// Acquire takes the lowest free connection id of the PF. NORESOURCES: none is
// free.
func (m *Manager) Acquire(p Protocol) (cid int, err error) { return m.AcquireVF(p, -1) }

// AcquireVF is Acquire for a VF, numbered within the PF.
func (m *Manager) AcquireVF(p Protocol, vf int) (cid int, err error) {
	t, err := m.table(p, vf)
	if err != nil {
		return 0, err
	}
	if cid, ok := t.take(); ok {
		return cid, nil
	}
	m.refused++
	return 0, status.NoResources.Errorf("no free connection id of %v: all %d are in use", p, t.count)
}

// take acquires the lowest free id.
func (t *ids) take() (id int, ok bool) {
	for w, word := range t.acquired {
		i := w*64 + bits.TrailingZeros64(^word)
		if word != ^uint64(0) && i < t.count {
			t.acquired[w] |= 1 << (i % 64)
			t.used++
			return t.start + i, true
		}
	}
	return 0, false
}

// give releases the id of a place.
func (t *ids) give(i int) {
	t.acquired[i/64] &^= 1 << (i % 64)
	t.used--
}

// Release gives a connection id of the PF back. INVAL, and counted: it was not
// acquired.
func (m *Manager) Release(cid int) error { return m.ReleaseVF(cid, -1) }

// ReleaseVF is Release for a VF.
func (m *Manager) ReleaseVF(cid, vf int) error {
	_, t, i, err := m.find(cid, vf)
	if err != nil {
		m.faults++
		return err
	}
	t.give(i)
	if i < len(t.contexts) && t.contexts[i] != nil {
		t.contexts[i] = nil
		m.resident--
	}
	return nil
}

// find is the range that an acquired id belongs to, and its place in it.
func (m *Manager) find(cid, vf int) (Protocol, *ids, int, error) {
	if _, err := m.table(0, vf); err != nil {
		return 0, nil, 0, err
	}
	all := &m.pf
	if vf >= 0 {
		all = &m.vfs[vf]
	}
	for p := range NumProtocols {
		t := &all[p]
		if i := cid - t.start; i >= 0 && i < t.count {
			if t.acquired[i/64]>>(i%64)&1 == 0 {
				return 0, nil, 0, status.Inval.Errorf("connection id %#x of %v is not acquired", cid, p)
			}
			return p, t, i, nil
		}
	}
	return 0, nil, 0, status.Inval.Errorf("connection id %#x belongs to no protocol", cid)
}

// Info is what CIDInfo tells of a connection id.
type Info struct {
	Protocol Protocol
	Line     int    // of the ILT, counted in the engine
	Context  []byte // the first ContextSize octets of its memory, borrowed until it is released
}

// CIDInfo finds the context of an acquired connection id of the PF. INVAL: it
// is not acquired; what Map says: its line has no page.
func (m *Manager) CIDInfo(cid int) (Info, error) {
	p, t, i, err := m.find(cid, -1)
	if err != nil {
		return Info{}, err
	}
	line := cid / (PageSize / ConnSize)
	if err := m.back(CDUC, line); err != nil {
		return Info{}, err
	}
	for i >= len(t.contexts) {
		t.contexts = append(t.contexts, nil)
	}
	if t.contexts[i] == nil {
		t.contexts[i] = make([]byte, ContextSize)
		m.resident++
	}
	return Info{p, m.lines[CDUC].First + line, t.contexts[i]}, nil
}

// Context is the memory of a connection that CIDInfo has found, borrowed; nil: it
// was not asked for.
func (m *Manager) Context(cid int) []byte {
	for p := range m.pf {
		if t := &m.pf[p]; uint(cid-t.start) < uint(len(t.contexts)) {
			return t.contexts[cid-t.start]
		}
	}
	return nil
}

// AcquireSRQ takes the lowest free id of a shared receive queue, with memory of
// SRQSize octets. NORESOURCES: none is free; what Map says: its line has no page.
func (m *Manager) AcquireSRQ() (id int, err error) {
	id, ok := m.srqs.take()
	if !ok {
		m.refused++
		return 0, status.NoResources.Errorf("no free shared receive queue: all %d are in use", m.srqs.count)
	}
	if err := m.back(TSDM, id/(PageSize/SRQSize)); err != nil {
		m.srqs.give(id)
		return 0, err
	}
	if m.srqMem == nil {
		m.srqMem = map[int][]byte{}
	}
	m.srqMem[id] = make([]byte, SRQSize)
	return id, nil
}

// ReleaseSRQ gives an id back. INVAL, and counted: it was not acquired.
func (m *Manager) ReleaseSRQ(id int) error {
	if m.srqMem[id] == nil {
		m.faults++
		return status.Inval.Errorf("shared receive queue %d is not acquired", id)
	}
	m.srqs.give(id)
	delete(m.srqMem, id)
	return nil
}

// SRQ is the memory of a shared receive queue, borrowed; nil: it is not acquired.
func (m *Manager) SRQ(id int) []byte { return m.srqMem[id] }

// SRQs tells how many shared receive queues there are, of how many.
func (m *Manager) SRQs() (used, limit int) { return m.srqs.used, m.srqs.count }

// Use is the state of a range of connection ids.
type Use struct {
	Protocol    Protocol
	Start       int
	Used, Count int
}

// CIDs lists the protocols that have connection ids, of the PF with vf -1.
func (m *Manager) CIDs(vf int) (list []Use) {
	for p := range NumProtocols {
		if t, err := m.table(p, vf); err == nil && t.count > 0 {
			list = append(list, Use{p, t.start, t.used, t.count})
		}
	}
	return list
}

// Leaked is the number of connection ids of PF and VFs, and of shared receive
// queues, that are still acquired.
func (m *Manager) Leaked() (n int) {
	n = m.srqs.used
	for p := range m.pf {
		n += m.pf[p].used
		for v := range m.vfs {
			n += m.vfs[v][p].used
		}
	}
	return n
}

// Tasks is how many tasks a protocol has, after they were reduced, and by how
// many the RDMA protocol's were.
func (m *Manager) Tasks(p Protocol) (tasks, reduced int) {
	if p == m.cfg.RDMA {
		reduced = m.reduced
	}
	return m.cfg.Protocols[p].Tasks, reduced
}

// Lines are the ILT lines of a client.
func (m *Manager) Lines(c Client) Lines { return m.lines[c] }

// ILT tells how many lines are laid out, of how many, how many of them were given
// a page when they were first used, and how many contexts are in memory.
func (m *Manager) ILT() (used, limit, mapped, resident int) {
	return m.used, m.cfg.MaxLines, len(m.backed), m.resident + len(m.srqMem)
}

// Faults are the releases of what was not acquired, Refused the ids that
// nobody got.
func (m *Manager) Faults() (faults, refused uint64) { return m.faults, m.refused }
