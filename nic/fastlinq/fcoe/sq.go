package fcoe

import "tapir/nic/fastlinq/storage"

// page is one of a send queue.
type page [storage.PerPage]uint64

// Queue is a send queue: pages, the list of their addresses (PBL), and those of the page that
// the firmware reads and the next, which is the first again in a queue of one page.
type Queue struct {
	List, Curr, Next uint64 // addresses
	Size             int
	Prod, Cons       uint32 // free-running
	Peak             int    // the most elements that there were at a time
	Turns            int    // pages that the firmware has left behind
	memory           *storage.Memory
	pages            []uint64
}

// newQueue makes a queue in the memory.
func newQueue(m *storage.Memory, pages int) *Queue {
	q := &Queue{Size: pages * storage.PerPage, memory: m}
	for range pages {
		q.pages = append(q.pages, m.Put(new(page)))
	}
	q.List = m.Put(q.pages)
	q.Curr, q.Next = q.pages[0], q.pages[1%pages]
	return q
}

// free gives the memory back.
func (q *Queue) free() {
	for _, a := range q.pages {
		q.memory.Free(a)
	}
	q.memory.Free(q.List)
}

// Used is how many elements wait.
func (q *Queue) Used() int { return int(q.Prod - q.Cons) }

// produce adds an element, as the driver does; false: there is no room.
func (q *Queue) produce(v uint64) bool {
	if q.Used() >= q.Size {
		return false
	}
	at := int(q.Prod) % q.Size
	storage.At[*page](q.memory, q.pages[at/storage.PerPage])[at%storage.PerPage] = v
	q.Prod++
	q.Peak = max(q.Peak, q.Used())
	return true
}

// fetch takes the oldest element, as the firmware does: out of the page that it reads. It goes
// on to the next one behind the last element of it.
func (q *Queue) fetch() (v uint64, ok bool) {
	if q.Used() == 0 {
		return 0, false
	}
	at := int(q.Cons) % storage.PerPage
	v = storage.At[*page](q.memory, q.Curr)[at]
	if q.Cons++; at == storage.PerPage-1 {
		list := q.memory.List(q.List)
		q.Turns++
		q.Curr, q.Next = q.Next, list[(q.Turns+1)%len(list)]
	}
	return v, true
}

// fits tells whether addresses are those of a queue with this number of pages, read from the first on.
func fits(m *storage.Memory, d *Offload, pages int) bool {
	list := m.List(d.SQ)
	if len(list) != pages || d.SQCurr != list[0] || d.SQNext != list[1%pages] {
		return false
	}
	for _, a := range list {
		if storage.At[*page](m, a) == nil {
			return false
		}
	}
	return true
}
