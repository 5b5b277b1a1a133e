package ipc

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ledger is memory that both processes share: the ids of the calls that the
// NIC's process has received and not yet answered. If it dies, the supervisor
// answers them: the kernel does not name them again, and their threads would
// sleep for ever.
type Ledger struct {
	mem   []byte
	slots []atomic.Uint64
	free  []uint32 // of the NIC's process; not in order
}

// LedgerSlots is how many calls a ledger has room for.
const LedgerSlots = 8 << 10

// NewLedger makes one and the descriptor to pass on.
func NewLedger() (*Ledger, int, error) {
	mem, fd, err := NewMemory("tapir-calls", 8*LedgerSlots)
	if err != nil {
		return nil, -1, err
	}
	return ledgerIn(mem), fd, nil
}

// OpenLedger maps the other side's, whose descriptor stays the caller's.
func OpenLedger(fd int) (*Ledger, error) {
	mem, err := Map(fd, 8*LedgerSlots)
	if err != nil {
		return nil, err
	}
	return ledgerIn(mem), nil
}

func ledgerIn(mem []byte) *Ledger {
	l := &Ledger{mem: mem, slots: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[0])), LedgerSlots)}
	for i := range uint32(LedgerSlots) {
		l.free = append(l.free, LedgerSlots-1-i)
	}
	return l
}

// Close unmaps it.
func (l *Ledger) Close() { _ = unix.Munmap(l.mem) }

// Enter notes a call and returns its slot; false if all are taken.
func (l *Ledger) Enter(id uint64) (slot uint32, ok bool) {
	if len(l.free) == 0 {
		return 0, false
	}
	slot, l.free = l.free[len(l.free)-1], l.free[:len(l.free)-1]
	l.slots[slot].Store(id)
	return slot, true
}

// Leave forgets the call of a slot.
func (l *Ledger) Leave(slot uint32) {
	l.slots[slot].Store(0)
	l.free = append(l.free, slot)
}

// Unanswered returns the calls that are noted.
func (l *Ledger) Unanswered() (ids []uint64) {
	for i := range l.slots {
		if id := l.slots[i].Load(); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
