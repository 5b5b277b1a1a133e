package nvme

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/schema"
	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/nvme"
	"tapir/nic/view"
	"tapir/wire/frame"
)

var (
	_ = schema.Add("nvme show", 1, []report{})
	_ = schema.Add("nvme initiator", 1, disk.Outcome{})
	_ = schema.Add("show nvme", 1, []nvme.ControllerInfo{})
)

// Layer is the access layer of the NIC's world.
type Layer interface {
	// RegisterClient tells c of every device, and returns when c knows those that are there;
	// unregister returns when c has let go of them.
	RegisterClient(c al.Client, ids ...al.ID) (unregister func())
}

// NIC is a NIC that can serve subsystems, and use those of others.
type NIC struct {
	Device *nic.Device
	Thread ctl.Thread
	Layer  Layer
	Files  disk.Files
	// Later, unless nil, is virtual time's way to run what must not be called by a handler: there, nothing
	// waits for a thread.
	Later func(fn func())

	runs []*run     // belongs to the thread
	past nvme.Stats // of subsystems that have ended
}

// later runs what waits for the NIC's thread.
func (n *NIC) later(fn func()) {
	if n.Later != nil {
		n.Later(fn)
		return
	}
	go fn()
}

// Jobs are those of the NIC's control server.
func (n *NIC) Jobs() map[string]ctl.Job {
	return map[string]ctl.Job{TargetOp: n.serve, InitiatorOp: n.initiate}
}

// showCommand lists subsystems with their controllers.
const showCommand = "nvme"

// Commands are those of the NIC's control server.
func (n *NIC) Commands() map[string]ctl.Answer { return map[string]ctl.Answer{showCommand: n.show} }

// report is what is told of a subsystem.
type report struct {
	Port        uint16                `json:"port"`
	NQN         string                `json:"nqn"`
	LUNs        []disk.LUN            `json:"luns"`
	Controllers []nvme.ControllerInfo `json:"controllers"`
	Counters    []disk.Counter        `json:"counters"`
}

// run is a subsystem that is served.
type run struct {
	nic     *NIC
	job     Job
	target  *nvme.Target
	workers []*disk.Worker
}

// decode reads a job.
func decode(raw json.RawMessage, job any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(job); err != nil {
		return &ctl.Error{What: fmt.Sprintf("the job cannot be read: %v", err),
			Remedy: "use the tapir binary that started the NIC"}
	}
	return nil
}

// hasRDMA refuses a NIC that has no RDMA.
func (n *NIC) hasRDMA() error {
	if n.Device.Verbs.Started() {
		return nil
	}
	return &ctl.Error{What: n.Device.Config().Name + " has no RDMA",
		Remedy: "start it with --personality iwarp or roce"}
}

// serve starts a subsystem.
func (n *NIC) serve(raw json.RawMessage, _ func(any), _ func(any, error)) (cancel func(), err error) {
	var job Job
	if err := decode(raw, &job); err != nil {
		return nil, err
	}
	if job.NQN == "" {
		job.NQN = defaultName + n.Device.Config().Name
	}
	if err := job.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	if err := n.hasRDMA(); err != nil {
		return nil, err
	}
	r := &run{nic: n, job: job}
	cfg := nvme.Config{GUID: n.Device.Verbs.Identity().GUID, Port: job.Port, NQN: job.NQN, Serial: serial(job.NQN),
		Hosts: job.Hosts, FirstID: job.FirstID, Failed: func(e error) { err = e }}
	if cfg.Namespaces, err = r.namespaces(); err != nil {
		r.release()
		return nil, &ctl.Error{What: err.Error()}
	}
	r.target = nvme.NewTarget(cfg)
	unregister := n.Layer.RegisterClient(r.target)
	if err != nil {
		unregister()
		r.release()
		return nil, &ctl.Error{What: err.Error()}
	}
	if err := n.Thread.DoWait(func(frame.Time) { n.runs = append(n.runs, r) }); err != nil {
		unregister()
		r.release()
		return nil, err
	}
	return func() {
		n.Thread.Do(func(frame.Time) {
			n.runs = slices.DeleteFunc(n.runs, func(o *run) bool { return o == r })
			n.past.Add(r.target.Stats())
		})
		n.later(func() {
			unregister()
			r.release()
		})
	}, nil
}

// namespaces opens the LUNs.
func (r *run) namespaces() (list []*nvme.Namespace, err error) {
	for i := range r.job.LUNs {
		l := &r.job.LUNs[i]
		store, w, err := r.nic.Files.Open(l)
		if err != nil {
			return nil, err
		}
		id := derived(fmt.Sprintf("%s/%d", r.job.NQN, i+1))
		n := &nvme.Namespace{Store: store, Size: l.Size, Block: l.Block, ReadOnly: l.ReadOnly,
			Thin: l.Kind != targetconf.File, NGUID: [16]byte(id[:16])}
		if w != nil {
			r.workers = append(r.workers, w)
			n.Offload = func(work, done func()) {
				w.Do(func() {
					work()
					r.nic.Thread.Do(func(frame.Time) { done() })
				})
			}
		}
		list = append(list, n)
	}
	return list, nil
}

// release ends the workers, which close the files.
func (r *run) release() {
	for _, w := range r.workers {
		w.Stop()
	}
}

// Tables are those of the NIC's control server: the controllers.
func (n *NIC) Tables() map[string]func() any {
	return map[string]func() any{showCommand: func() any {
		list := []nvme.ControllerInfo{}
		for _, r := range n.runs {
			list = append(list, r.target.Controllers()...)
		}
		return list
	}}
}

// Counters are those of all subsystems together, those that have ended too. On the NIC's thread.
func (n *NIC) Counters() (list []view.Counter) {
	all := n.past
	for _, r := range n.runs {
		all.Add(r.target.Stats())
	}
	for i, v := range all {
		list = append(list, view.Counter{Name: "nvme_" + nvme.Counter(i).String(), Value: v})
	}
	return list
}

// show tells of all subsystems.
func (n *NIC) show(_ context.Context, _ json.RawMessage) (any, error) {
	list := []report{}
	lost := n.Thread.DoWait(func(frame.Time) {
		for _, r := range n.runs {
			list = append(list, r.report())
		}
	})
	return list, lost
}

func (r *run) report() report {
	rep := report{Port: r.job.Port, NQN: r.job.NQN, LUNs: r.job.LUNs, Controllers: r.target.Controllers()}
	for i, v := range r.target.Stats() {
		rep.Counters = append(rep.Counters, disk.Counter{Name: nvme.Counter(i).String(), Value: v})
	}
	return rep
}

// errInterrupted is why a job ends that is cancelled.
var errInterrupted = errors.New("the initiator was interrupted")
