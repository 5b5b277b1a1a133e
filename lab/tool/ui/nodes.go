package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tapir/lab/run/real"
	"tapir/lab/run/result"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/lab/topo"
)

// schema is the version of the documents.
const schema = 1

// refreshEvery is how often a page is told what has changed.
const refreshEvery = time.Second

// atOnce is how many nodes are asked side by side.
const atOnce = 16

// Node is a node that runs.
type Node struct {
	ID      string   `json:"id"` // its name, after that of its lab and a slash
	Name    string   `json:"name"`
	Lab     string   `json:"lab,omitempty"`
	Kind    string   `json:"kind"` // nic, hfi, em, sw; of a lab also host, peer, target
	PID     int      `json:"pid,omitempty"`
	Version string   `json:"version,omitempty"`
	MAC     string   `json:"mac,omitempty"`
	Addrs   []string `json:"addrs,omitempty"`
	// What its port has counted.
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	Drops     uint64 `json:"drops"`
	QPs       int    `json:"qps"`
	Clock     *Clock `json:"clock,omitempty"`
	near      []string
}

// Clock is a node's clock. Offsets are in nanoseconds.
type Clock struct {
	True       int64   `json:"true_ns"` // from the system's clock
	Correction float64 `json:"correction_ppb"`
	result.View
}

// Link joins two nodes: a lab's link, or NICs that know each other as neighbors.
type Link struct {
	Name   string `json:"name,omitempty"`
	A      string `json:"a"` // IDs
	B      string `json:"b"`
	Lab    string `json:"lab,omitempty"`
	Fabric bool   `json:"fabric,omitempty"` // of Omni-Path
	// What a lab's link says of itself; nil: nobody does.
	*LinkState
}

// LinkState is what a link of a lab has done.
type LinkState struct {
	State   string  `json:"state"`  // up or down
	Fault   string  `json:"fault"`  // in force
	Octets  uint64  `json:"octets"` // that left
	Lost    uint64  `json:"lost"`   // or refused
	Struck  uint64  `json:"struck"` // corrupted, duplicated or reordered
	Late50  float64 `json:"late_us_p50"`
	Late99  float64 `json:"late_us_p99"`
	Late999 float64 `json:"late_us_p999"`
	Late    float64 `json:"late_us_max"`
}

// Overview is everything that runs.
type Overview struct {
	Schema int     `json:"schema"`
	At     int64   `json:"at_ms"` // milliseconds since the epoch
	Nodes  []*Node `json:"nodes"`
	Links  []Link  `json:"links"`
}

// place is where nodes have their sockets.
type place struct{ lab, dir string }

func places() []place {
	list := []place{{"", ctl.Dir()}}
	for _, r := range real.List() {
		list = append(list, place{r.Name, r.Sockets()})
	}
	return list
}

// id is what a page calls a node.
func (p place) id(name string) string {
	if p.lab == "" {
		return name
	}
	return p.lab + "/" + name
}

// find tells where the node of that ID has its socket.
func find(id string) (p place, name string, err error) {
	lab, name, ok := strings.Cut(id, "/")
	if !ok {
		return place{"", ctl.Dir()}, id, nil
	}
	for _, p := range places() {
		if p.lab == lab && lab != "" {
			return p, name, nil
		}
	}
	return p, name, problem{errors.New("lab " + lab + " is not up"), http.StatusNotFound}
}

// dial connects to the node of that ID.
func dial(ctx context.Context, id string) (*ctl.Client, error) {
	p, name, err := find(id)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, bad("the node's name is missing")
	}
	return ctl.DialIn(p.dir, name)
}

// overview sends what runs, again and again.
func (s *Server) overview(ctx context.Context, r *http.Request, send sender) error {
	clocks := r.URL.Query().Has("clocks")
	for {
		start := time.Now()
		if dir := s.recorded(); dir != "" { // the lab that was shown has ended
			send("record", dir)
			return nil
		}
		if !send("overview", look(ctx, clocks)) {
			return nil
		}
		// Many nodes are not kept busy with answers.
		pause := time.NewTimer(max(refreshEvery-time.Since(start), 3*time.Since(start)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// look asks everything that runs.
func look(ctx context.Context, clocks bool) Overview {
	o := Overview{Schema: schema, At: time.Now().UnixMilli(), Nodes: []*Node{}, Links: []Link{}}
	var asked sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, p := range places() {
		for _, name := range ctl.ListIn(p.dir) {
			n := &Node{ID: p.id(name), Name: name, Lab: p.lab}
			o.Nodes = append(o.Nodes, n)
			room <- struct{}{}
			asked.Go(func() {
				defer func() { <-room }()
				n.ask(ctx, p.dir, clocks)
			})
		}
	}
	asked.Wait()
	o.Nodes = slices.DeleteFunc(o.Nodes, func(n *Node) bool { return n.Kind == "" }) // ended meanwhile
	o.fromLabs(ctx)
	o.neighbors()
	return o
}

// ask fills in what the node tells.
func (n *Node) ask(ctx context.Context, dir string, clocks bool) {
	c, err := ctl.DialIn(dir, n.Name)
	if err != nil {
		return
	}
	defer c.Close()
	n.PID, n.Version = c.Hello.PID, c.Hello.Version
	name := n.Name
	if err := c.Show(ctx, ctl.Kinds[0], n); err != nil {
		return
	}
	n.Name, n.Kind = name, cmp.Or(n.Kind, "nic")
	var rows []struct{ MAC, State string }
	if n.Lab == "" && n.Kind == "nic" && c.Show(ctx, "neigh", &rows) == nil {
		for _, r := range rows {
			n.near = append(n.near, r.MAC)
		}
	}
	if clocks {
		n.Clock = clockOf(ctx, c)
	}
}

// clockOf is a node's clock; nil: it has none.
func clockOf(ctx context.Context, c *ctl.Client) *Clock {
	var st ptprun.Status
	if c.Command(ctx, "ptp.status", nil, &st) != nil {
		return nil
	}
	k := &Clock{True: st.Clock.TrueOffset, Correction: st.Clock.Correction}
	if i := st.Instance; i != nil {
		k.View = result.ViewOf(i)
	}
	return k
}

// fromLabs adds hosts and links of labs that are up.
func (o *Overview) fromLabs(ctx context.Context) {
	for _, r := range real.List() {
		p := place{lab: r.Name}
		for _, d := range r.Drawn {
			if i := slices.IndexFunc(o.Nodes, func(n *Node) bool { return n.ID == p.id(d.Name) }); i >= 0 {
				if d.Kind == string(topo.Target) { // a NIC says of itself that it is one
					o.Nodes[i].Kind = d.Kind
				}
			} else {
				o.Nodes = append(o.Nodes, &Node{ID: p.id(d.Name), Name: d.Name, Lab: r.Name, Kind: d.Kind,
					Addrs: d.Addrs})
			}
		}
		states := linkStates(ctx, r.Name)
		for _, l := range r.Links {
			o.Links = append(o.Links, Link{Name: l.Name, A: p.id(l.Ends[0]), B: p.id(l.Ends[1]), Lab: r.Name,
				Fabric: l.Fabric, LinkState: states[l.Name]})
		}
	}
}

// linkStates are those of a lab's links, by name; nothing if the lab does not tell.
func linkStates(ctx context.Context, lab string) map[string]*LinkState {
	all := map[string]*LinkState{}
	c, err := ctl.DialContext(ctx, lab)
	if err != nil {
		return all
	}
	defer c.Close()
	var rows []real.LinkRow
	if err := c.Show(ctx, "link", &rows); err != nil {
		return all
	}
	for _, r := range rows {
		all[r.Name] = &LinkState{State: r.State, Fault: r.Fault, Octets: r.Octets, Lost: r.Lost + r.Refused,
			Struck: r.Corrupted + r.Duplicated + r.Reordered, Late50: r.LateP50, Late99: r.LateP99, Late999: r.LateP999,
			Late: r.LateMax}
	}
	return all
}

// neighbors adds a link between NICs outside of labs that know each other.
func (o *Overview) neighbors() {
	for i, a := range o.Nodes {
		for _, b := range o.Nodes[i+1:] {
			if slices.Contains(a.near, b.MAC) || slices.Contains(b.near, a.MAC) {
				o.Links = append(o.Links, Link{A: a.ID, B: b.ID})
			}
		}
	}
}

// changed tells whether a table differs from what was sent before, and keeps it.
func changed(sent map[string]string, kind string, rows json.RawMessage) bool {
	if sent[kind] == string(rows) {
		return false
	}
	sent[kind] = string(rows)
	return true
}

// maxTable bounds a table that a page gets, in octets.
const maxTable = 1 << 20

// Table is a table of a node.
type Table struct {
	Kind string          `json:"kind"`
	Rows json.RawMessage `json:"rows"`
}

// node sends the tables of a node when they change, and its events and log.
func (s *Server) node(ctx context.Context, r *http.Request, send sender) error {
	id := r.URL.Query().Get("id")
	c, err := dial(ctx, id)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	news, ended := make(chan Table, 16), make(chan error, 2)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	if !send("hello", c.Hello) {
		return nil
	}
	for _, kind := range []string{"events", "log"} {
		following.Go(func() {
			ended <- c.Follow(ctx, kind, 0, func(rows json.RawMessage) {
				select {
				case news <- Table{kind, rows}:
				case <-ctx.Done():
				}
			})
		})
	}
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	kinds := slices.DeleteFunc(slices.Clone(ctl.Kinds), ctl.Followed)
	for sent := map[string]string{}; ; {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return !tell(ctx, c, kind, sent, send) })
		if len(kinds) == 0 {
			return errors.New(id + " has ended")
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case t := <-news:
				if !send(t.Kind, t.Rows) {
					return nil
				}
			case <-tick.C:
				waiting = false
			}
		}
	}
}

// tell sends a table if it has changed; false: the node has none of that kind.
func tell(ctx context.Context, c *ctl.Client, kind string, sent map[string]string, send sender) bool {
	var rows json.RawMessage
	if c.Show(ctx, kind, &rows) != nil {
		return false
	}
	if len(rows) > maxTable {
		rows = json.RawMessage(`"too long for a page: tapir show ` + c.Hello.Name + " " + kind + `"`)
	}
	return !changed(sent, kind, rows) || send("table", Table{kind, rows})
}
