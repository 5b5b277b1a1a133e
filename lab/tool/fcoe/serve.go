package fcoe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tapir/lab/conf/targetconf"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/disk"
	"tapir/nic"
	"tapir/nic/fcoe"
	"tapir/nic/scsi"
	"tapir/wire/frame"
)

// NIC is a NIC that can be an end node.
type NIC struct {
	Device *nic.Device
	Thread ctl.Thread
	Files  disk.Files

	run *run // the target that is served; belongs to the thread
}

// Jobs are those of the NIC's control server.
func (n *NIC) Jobs() map[string]ctl.Job {
	return map[string]ctl.Job{TargetOp: n.serve, InitiatorOp: n.initiate}
}

// showCommand describes the node.
const showCommand = "fcoe"

// Commands are those of the NIC's control server.
func (n *NIC) Commands() map[string]ctl.Answer {
	return map[string]ctl.Answer{showCommand: n.show, functionCommand: n.function}
}

// run is a target.
type run struct {
	nic     *NIC
	job     Job
	workers disk.Workers
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

// free refuses a NIC that cannot be another node. On the NIC's thread.
func (n *NIC) free() error {
	name := n.Device.Config().Name
	switch {
	case n.Device.FCoE == nil:
		return &ctl.Error{What: name + " has no FCoE", Remedy: "start it with --personality fcoe"}
	case n.Device.FCoE.Node() != nil:
		return &ctl.Error{What: name + " is an end node already", Remedy: "end the tapir fcoe command that uses it"}
	}
	return nil
}

// serve starts a target.
func (n *NIC) serve(raw json.RawMessage, _ func(any), _ func(any, error)) (cancel func(), err error) {
	var job Job
	if err := decode(raw, &job); err != nil {
		return nil, err
	}
	if err := job.validate(); err != nil {
		return nil, ctl.BadRequest(err)
	}
	r := &run{nic: n, job: job, workers: disk.Workers{}}
	cfg := fcoe.Config{VN2VN: job.VN2VN}
	if cfg.Ports, err = r.ports(); err != nil {
		r.release()
		return nil, &ctl.Error{What: err.Error()}
	}
	lost := n.Thread.DoWait(func(now frame.Time) {
		if err = n.free(); err == nil {
			n.Device.FCoE.Start(cfg, fcoe.Env{Offload: r.offload}, now)
			n.run = r
		}
	})
	if lost != nil {
		err = lost
	}
	if err != nil {
		r.release()
		return nil, err
	}
	return func() { n.Thread.Do(r.cancel) }, nil
}

// ports opens the LUNs of all ports.
func (r *run) ports() (list []fcoe.PortConfig, err error) {
	for i := range r.job.Ports {
		p := &r.job.Ports[i]
		port := fcoe.PortConfig{Port: p.Name, Hosts: p.Hosts}
		for k := range p.LUNs {
			l := &p.LUNs[k]
			store, w, err := r.nic.Files.Open(l)
			if err != nil {
				return nil, err
			}
			cfg := scsi.Config{Size: l.Size, Block: l.Block, Physical: l.Block, ReadOnly: l.ReadOnly,
				Thin: l.Kind != targetconf.File, Store: store,
				Serial: fmt.Sprintf("%s-%d-%d", r.nic.Device.Config().Name, i, k)}
			if l.Kind != targetconf.Mem {
				cfg.Physical = 4096
			}
			u, err := scsi.New(cfg)
			if err != nil {
				if w != nil {
					w.Stop()
				}
				return nil, err
			}
			if w != nil {
				r.workers[u] = w
			}
			port.Units = append(port.Units, u)
		}
		list = append(list, port)
	}
	return list, nil
}

// offload has a worker do what may block.
func (r *run) offload(u *scsi.Unit, work, done func()) {
	r.workers.Offload(u, work, func() { r.nic.Thread.Do(func(frame.Time) { done() }) }, done)
}

// cancel ends the target.
func (r *run) cancel(now frame.Time) {
	r.nic.run = nil
	r.nic.Device.FCoE.Stop(now)
	r.release()
}

// release ends the workers, which close the files.
func (r *run) release() { r.workers.Stop() }

// settled calls done when the node has sent its logouts. On the NIC's thread.
func (n *NIC) settled(done func(), now frame.Time) {
	n.Device.Schedule(now.Add(time.Millisecond), func(now frame.Time) {
		if !n.Device.FCoE.Idle() {
			n.settled(done, now)
			return
		}
		done()
	})
}

// report is what is told of a node.
type report struct {
	fcoe.Info
	Served   []Port    `json:"served,omitempty"`
	Counters []counter `json:"counters"`
}

type counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// show tells of the node; nil: there is none.
func (n *NIC) show(context.Context, json.RawMessage) (any, error) {
	var rep *report
	lost := n.Thread.DoWait(func(frame.Time) {
		node := n.Device.FCoE.Node()
		if node == nil {
			return
		}
		rep = &report{Info: node.Info()}
		if n.run != nil {
			rep.Served = n.run.job.Ports
		}
		for i, v := range node.Stats() {
			rep.Counters = append(rep.Counters, counter{fcoe.Counter(i).String(), v})
		}
	})
	return rep, lost
}

// Row is a line of the table of a node: a forwarder, a port of the node, another port that it
// knows, or an exchange.
type Row struct {
	Kind     string `json:"kind"`
	Port     string `json:"port"` // the node's; of an FCF its name
	ID       string `json:"id"`
	MAC      string `json:"mac"`
	State    string `json:"state"`
	Remote   string `json:"remote"`
	RemoteID string `json:"remote_id"`
	Commands int    `json:"commands"`
	Octets   int    `json:"octets"`
}

// Tables are those of the NIC's control server.
func (n *NIC) Tables() map[string]func() any {
	return map[string]func() any{showCommand: func() any {
		list := []Row{}
		node := n.Device.FCoE.Node()
		if node == nil {
			return list
		}
		i := node.Info()
		for _, f := range i.FCFs {
			state := "available"
			switch {
			case f.Selected:
				state = "selected"
			case !f.Available:
				state = "not available"
			}
			list = append(list, Row{Kind: "fcf", Port: f.Name.String(), MAC: f.MAC, State: state})
		}
		for _, p := range i.Ports {
			list = append(list, Row{Kind: "port", Port: p.Port.String(), ID: p.ID, MAC: p.MAC, State: p.State})
			for _, r := range p.Remotes {
				row := Row{Kind: "session", Port: p.Port.String(), ID: p.ID, MAC: r.MAC, State: r.State,
					Remote: r.Port.String(), RemoteID: r.ID, Commands: r.Commands}
				list = append(list, row)
			}
		}
		for _, x := range i.Exchanges {
			list = append(list, Row{Kind: "exchange", Port: x.Port.String(),
				ID: fmt.Sprintf("%04x/%04x", x.OXID, x.RXID), State: x.What, RemoteID: x.Remote, Octets: x.Octets})
		}
		return list
	}}
}
