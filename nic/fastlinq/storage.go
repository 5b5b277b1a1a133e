package fastlinq

import (
	"fmt"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/storage"
	"tapir/nic/view"
)

// storageCore is the driver core for a storage function with ramrods C.
func storageCore[C interface {
	~uint8
	fmt.Stringer
}](d *Device, p ecore.Protocol) storage.Core[C] {
	h := d.core.dev.Lead()
	request := func(cid int, c C, data any) spq.Request {
		return spq.Request{CID: cid, Cmd: uint8(c), Protocol: p, Data: data}
	}
	return storage.Core[C]{
		Vectors: storageVectors(d), FunctionCID: h.SlowpathCID(),
		AcquireCID: func() (int, error) {
			cid, err := h.Contexts().Acquire(p)
			if err == nil {
				_, err = h.Contexts().CIDInfo(cid)
			}
			return cid, err
		},
		ReleaseCID: func(cid int) error { return h.Contexts().Release(cid) },
		Post: func(cid int, c C, data any) error {
			_, err := d.contexts.ramrods.post(request(cid, c, data), c)
			return err
		},
		Send: func(cid int, c C, data any, failed func(error)) {
			d.contexts.ramrods.send(request(cid, c, data), c, func(_ uint64, err error) {
				if err != nil {
					d.management.note(err)
					failed(err)
				}
			})
		},
	}
}

// told has the firmware tell of a storage connection by the event queue; inside: as it executes
// a ramrod.
func (d driver) told(p ecore.Protocol, opcode, code uint8, cid int, inside bool) {
	d.management.note(d.core.chip.Engines[0].Async(d.pf, spq.Event{Protocol: p, Opcode: opcode, Code: code,
		VF: spq.NoVF, Data: uint64(cid)}))
	if !inside {
		d.contexts.work(d.now())
	}
}

// ringRows describe the queues of a storage function.
func ringRows(prefix string, list []storage.Named) (rows []view.DeviceRow) {
	for _, q := range list {
		rows = append(rows, useRow(prefix+q.Name, q.Ring.Used(), q.Ring.Size, q.Ring.Peak))
	}
	return rows
}

// countRows are the counters that are not 0, by their names.
func countRows(name string, list []uint64, what func(i int) string) (rows []view.DeviceRow) {
	for i, n := range list {
		if n > 0 {
			rows = append(rows, countRow(name, what(i), n))
		}
	}
	return rows
}
