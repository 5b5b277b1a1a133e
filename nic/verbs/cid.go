package verbs

import "fmt"

// NoCID is the connection id of a queue pair that has none.
const NoCID = -1

// Contexts lends connection ids to queue pairs, one each.
type Contexts interface {
	// AcquireCID returns a free id, or NoCID as long as there are no contexts
	// at all. The error is that of contexts that are all taken.
	AcquireCID() (cid int, err error)
	ReleaseCID(cid int)
}

// SetContexts has queue pairs take connection ids; without it they have none.
func (d *Device) SetContexts(c Contexts) { d.conns = c }

// CID is the queue pair's connection id, NoCID if it has none.
func (q *QP) CID() int { return q.cid }

// TakeCIDs gives a connection id to every queue pair that has none: contexts
// have come. ErrLimit: there are too few.
func (d *Device) TakeCIDs() (err error) {
	for _, q := range d.qps.All() {
		if q.cid != NoCID {
			continue
		}
		if q.cid, err = d.acquireCID(); err != nil {
			return fmt.Errorf("QP %d: %w", q.num, err)
		}
	}
	return nil
}

// DropCIDs gives all connection ids back: contexts go.
func (d *Device) DropCIDs() {
	for _, q := range d.qps.All() {
		q.releaseCID()
	}
}

func (d *Device) acquireCID() (int, error) {
	if d.conns == nil {
		return NoCID, nil
	}
	cid, err := d.conns.AcquireCID()
	if err != nil {
		return NoCID, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return cid, nil
}

func (q *QP) releaseCID() {
	if q.cid != NoCID {
		q.dev.conns.ReleaseCID(q.cid)
		q.cid = NoCID
	}
}
