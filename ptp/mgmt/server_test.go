package mgmt

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// node is a clock with its server. What its ports send reaches the peers.
type node struct {
	*ptp.Instance
	srv   *Server
	id    msg.ClockIdentity
	now   frame.Time
	peers map[int][]end
	sent  []ptp.Outgoing // management, bodies copied
	local map[string][][]byte
}

// end is a port of a node.
type end struct {
	n    *node
	port int
}

func (n *node) Send(port int, out ptp.Outgoing) {
	if msg.Type(out.Body[0]&15) != msg.Management {
		if out.ID != 0 {
			n.TxStamp(port, out.ID, frame.Stamp(n.now), nil, n.now)
		}
		return
	}
	out.Body = slices.Clone(out.Body)
	n.sent = append(n.sent, out)
	for _, p := range n.peers[port] {
		p.n.Receive(p.port, out.Body, ptp.Meta{Now: n.now})
	}
}

// client carries to local clients.
type client struct{ n *node }

func (c client) Send(name string, b []byte) {
	c.n.local[name] = append(c.n.local[name], slices.Clone(b))
}

// newNode makes a clock whose ports have become masters.
func newNode(t *testing.T, number byte, ports int, edit func(*ptp.Config, *Config)) *node {
	t.Helper()
	n := &node{id: msg.IdentityOf([6]byte{2, 0, 0, 0, 0, number}), peers: map[int][]end{}, local: map[string][][]byte{}}
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, own := ptp.NewConfig(ptp.DefaultE2E, n.id, ports), Config{Product: "Tapir;NIC;1", Revision: "1;2;3"}
	for i := range ports {
		own.Ports = append(own.Ports, PortInfo{Interface: fmt.Sprintf("nic%d", i), MAC: [6]byte{2, 0, 0, 0, 0, number}, Timestamping: msg.TimestampingHardware, PHCIndex: -1})
	}
	if edit != nil {
		edit(&cfg, &own)
	}
	if n.Instance, err = ptp.New(cfg, phc, n); err != nil {
		t.Fatal(err)
	}
	n.srv = New(own, n.Instance)
	n.srv.SetLocal(client{n})
	n.Manage(n.srv)
	n.Observe(n.srv)
	n.run(10 * time.Second)
	return n
}

func (n *node) run(d time.Duration) {
	for end := n.now.Add(d); n.now < end; {
		next := n.Poll(n.now)
		n.now = min(max(next, n.now+1), end)
	}
}

// join joins the ends by a wire.
func join(ends ...end) {
	for _, a := range ends {
		for _, b := range ends {
			if a != b {
				a.n.peers[a.port] = append(a.n.peers[a.port], b)
			}
		}
	}
}

var anybody = &Client{Identity: msg.PortIdentity{Port: 4711}}

// ask sends r by the local path and returns the answers.
func (n *node) ask(t *testing.T, r Request) (replies []Reply) {
	t.Helper()
	n.srv.Local("me", anybody.Append(nil, r, n.now), n.now)
	for _, b := range n.local["me"] {
		reply, ok := anybody.Receive(b)
		if !ok {
			t.Fatalf("no answer to a client: %x", b)
		}
		replies = append(replies, reply)
	}
	n.local["me"] = nil
	return replies
}

// get asks for an id that has one answer.
func (n *node) get(t *testing.T, id msg.ManagementID) Reply {
	t.Helper()
	replies := n.ask(t, Request{ID: id})
	if len(replies) != 1 {
		t.Fatalf("%v: %d answers", id, len(replies))
	}
	return replies[0]
}

// Every id is answered, by each port or once, with data that says so.
func TestGet(t *testing.T) {
	n := newNode(t, 1, 2, nil)
	for _, id := range msg.ManagementIDs() {
		replies := n.ask(t, Request{ID: id})
		want := 1
		if id.OfPort() {
			want = 2
		}
		if len(replies) != want {
			t.Fatalf("%v: %d answers, want %d", id, len(replies), want)
		}
		for i, r := range replies {
			number := uint16(0)
			if id.OfPort() {
				number = uint16(i + 1)
			}
			if r.From != (msg.PortIdentity{Clock: n.id, Port: number}) || r.Action != msg.Response || r.ID != id {
				t.Errorf("%v: %+v", id, r)
			}
			switch {
			case isCommand(id):
				if r.Error != msg.ErrorNotSupported {
					t.Errorf("GET of a command: %v", r.Error)
				}
			case r.Error != 0, r.Data == nil && id != msg.IDNullManagement:
				t.Errorf("%v: %v, %v", id, r.Error, r.Data)
			}
		}
	}
	p := n.ask(t, Request{ID: msg.IDPortProperties, Target: msg.PortIdentity{Clock: n.id, Port: 2}})
	want := &msg.PortProperties{Identity: msg.PortIdentity{Clock: n.id, Port: 2}, State: msg.StateMaster, Timestamping: msg.TimestampingHardware, Interface: "nic1"}
	if len(p) != 1 || !reflect.DeepEqual(p[0].Data, want) {
		t.Errorf("%+v", p)
	}
	d := n.ask(t, Request{ID: msg.IDClockDescription})[0].Data.(*msg.ClockDescription)
	if d.Type != msg.ClockBoundary || d.Product != "Tapir;NIC;1" || d.ProtocolAddress.Protocol != msg.NetworkEthernet {
		t.Errorf("%+v", d)
	}
}

func TestSet(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	for _, line := range []string{"SET PRIORITY1 100", "SET PRIORITY2 101", "SET DOMAIN 5", "SET SLAVE_ONLY 1", "SET SLAVE_ONLY 0", "SET LOG_ANNOUNCE_INTERVAL -1",
		"SET ANNOUNCE_RECEIPT_TIMEOUT 4", "SET LOG_SYNC_INTERVAL -3", "SET LOG_MIN_PDELAY_REQ_INTERVAL 1", "SET CLOCK_ACCURACY 0x21", "SET USER_DESCRIPTION lab;1",
		"SET GRANDMASTER_SETTINGS_NP clockClass 6 clockAccuracy 0x21 offsetScaledLogVariance 0x4e5d currentUtcOffset 36 leap61 0 leap59 0 currentUtcOffsetValid 1 " +
			"ptpTimescale 1 timeTraceable 1 frequencyTraceable 1 timeSource 0x20"} {
		r, err := ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		answer := n.ask(t, r)
		if len(answer) != 1 || answer[0].Error != 0 || !reflect.DeepEqual(answer[0].Data, r.Data) {
			t.Errorf("%s: %+v", line, answer)
		}
		if again := n.get(t, r.ID); !reflect.DeepEqual(again.Data, r.Data) {
			t.Errorf("%s: then %+v", line, again.Data)
		}
	}
	np := n.ask(t, Request{Action: msg.Set, ID: msg.IDPortDataSetNP, Data: &msg.PortDataSetNP{NeighborPropDelayThresh: 900}})
	if d, ok := np[0].Data.(*msg.PortDataSetNP); !ok || d.NeighborPropDelayThresh != 900 || d.AsCapable != 1 {
		t.Errorf("PORT_DATA_SET_NP: %+v", np)
	}
	if d := n.get(t, msg.IDDefaultDataSet).Data.(*msg.DefaultDataSet); d.Priority1 != 100 || d.Domain != 5 || d.Quality.Class != 6 {
		t.Errorf("%+v", d)
	}
}

func TestCommands(t *testing.T) {
	n := newNode(t, 1, 2, nil)
	target := msg.PortIdentity{Clock: n.id, Port: 2}
	for _, c := range []struct {
		id    msg.ManagementID
		state msg.PortState
	}{{msg.IDDisablePort, msg.StateDisabled}, {msg.IDEnablePort, msg.StateListening}} {
		r := n.ask(t, Request{Action: msg.Command, ID: c.id, Target: target})
		if len(r) != 1 || r[0].Error != 0 || r[0].Action != msg.Acknowledge || r[0].From != target {
			t.Errorf("%v: %+v", c.id, r)
		}
		if n.State(0) != msg.StateMaster || n.State(1) != c.state {
			t.Errorf("%v: ports %v and %v", c.id, n.State(0), n.State(1))
		}
	}
	if r := n.ask(t, Request{Action: msg.Command, ID: msg.IDNullManagement, Target: target}); len(r) != 1 || r[0].Action != msg.Acknowledge {
		t.Errorf("NULL_MANAGEMENT: %+v", r)
	}
}

func TestErrors(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	raw := func(action msg.Action, id msg.ManagementID, data any) Request {
		return Request{Action: action, ID: id, Data: data}
	}
	for _, c := range []struct {
		name string
		r    Request
		want msg.ManagementError
	}{
		{"GET of no id", raw(msg.Get, 0x1234, nil), msg.ErrorNoSuchID},
		{"GET of TIME", raw(msg.Get, 0x200f, nil), msg.ErrorNotSupported},
		{"SET of no id", raw(msg.Set, 0x1234, nil), msg.ErrorNoSuchID},
		{"SET of TIME", raw(msg.Set, 0x200f, nil), msg.ErrorNotSupported},
		{"SET of what is only read", raw(msg.Set, msg.IDCurrentDataSet, &msg.CurrentDataSet{}), msg.ErrorNotSetable},
		{"SET of what the host knows", raw(msg.Set, msg.IDPortProperties, &msg.PortProperties{}), msg.ErrorNotSetable},
		{"SET without data", raw(msg.Set, msg.IDPriority1, nil), msg.ErrorWrongLength},
		{"SET with too much", raw(msg.Set, msg.IDPriority1, &msg.CurrentDataSet{}), msg.ErrorWrongLength},
		{"SET of an impossible interval", raw(msg.Set, msg.IDLogSyncInterval, &msg.Octet{Value: 100}), msg.ErrorWrongValue},
		{"SET of a command", raw(msg.Set, msg.IDDisablePort, nil), msg.ErrorNotSupported},
		{"COMMAND of what is none", raw(msg.Command, msg.IDPriority1, nil), msg.ErrorNotSupported},
		{"COMMAND of no id", raw(msg.Command, 0x1234, nil), msg.ErrorNoSuchID},
		{"COMMAND with data", raw(msg.Command, msg.IDDisablePort, &msg.Octet{}), msg.ErrorWrongLength},
	} {
		r := n.ask(t, c.r)
		if len(r) != 1 || r[0].Error != c.want || r[0].ID != c.r.ID || r[0].Action != msg.Response {
			t.Errorf("%s: %+v, want %v", c.name, r, c.want)
		}
	}
	if st := n.srv.Stats(); st.Errors != 13 || st.Responses != 13 {
		t.Errorf("%+v", st)
	}
}

// wire sends r into a port as from somebody in the network.
func (n *node) wire(port int, m msg.Message) []msg.Message {
	n.sent = nil
	n.Receive(port, m.Append(nil), ptp.Meta{Src: transport.Addr{MAC: ether.Addr{2, 0, 0, 0, 0, 9}}, Now: n.now})
	n.Poll(n.now)
	var answers []msg.Message
	for _, out := range n.sent {
		var a msg.Message
		if a.Parse(out.Body) == nil {
			answers = append(answers, a)
		}
	}
	return answers
}

func query(action msg.Action, id msg.ManagementID, data any) msg.Message {
	return msg.Message{Header: msg.Header{Type: msg.Management, Source: msg.PortIdentity{Clock: msg.ClockIdentity{9}, Port: 1}, Sequence: 77},
		Port: msg.AllPorts, Action: action, StartingBoundaryHops: 4, BoundaryHops: 3, TLVs: msg.AppendManagement(nil, id, data)}
}

func TestWire(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	q := query(msg.Get, msg.IDPriority1, nil)
	a := n.wire(0, q)
	if len(a) != 1 {
		t.Fatalf("%d answers", len(a))
	}
	if r := a[0]; r.Port != q.Source || r.Sequence != 77 || r.StartingBoundaryHops != 1 || r.BoundaryHops != 1 || r.Source != (msg.PortIdentity{Clock: n.id, Port: 1}) ||
		r.Control != 4 || r.LogInterval != msg.IntervalUnspecified || r.MinorVersion != 0 {
		t.Errorf("%+v", r)
	}
	if n.sent[0].Dst != (transport.Addr{}) || n.sent[0].Event {
		t.Errorf("sent to %v", n.sent[0].Dst)
	}
	for _, other := range []func(m *msg.Message){func(m *msg.Message) { m.Domain = 1 }, func(m *msg.Message) { m.SdoID = 0x100 }} {
		m := q
		other(&m)
		if a := n.wire(0, m); len(a) != 0 {
			t.Errorf("answers somebody of another domain or sdoId: %+v", a)
		}
	}
	q.Flags = msg.FlagUnicast
	if a := n.wire(0, q); len(a) != 1 || n.sent[0].Dst.MAC[5] != 9 || !a[0].Flags.Has(msg.FlagUnicast) {
		t.Errorf("by unicast: %+v to %v", a, n.sent[0].Dst)
	}
}

// Nobody in the network changes anything, unless the configuration says so.
func TestSetFromWire(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		n := newNode(t, 1, 1, func(_ *ptp.Config, c *Config) { c.SetFromWire = allowed })
		for _, q := range []msg.Message{query(msg.Set, msg.IDPriority1, &msg.Octet{Value: 1}), query(msg.Command, msg.IDDisablePort, nil), query(msg.Set, msg.IDSubscribeEvents, &msg.SubscribeEvents{Duration: 9})} {
			a := n.wire(0, q)
			if len(a) != 1 {
				t.Fatalf("%d answers", len(a))
			}
			var r Reply
			if !r.parse(&a[0]) || (r.Error == msg.ErrorNotSupported) == allowed {
				t.Errorf("allowed %v: %+v", allowed, r)
			}
		}
	}
}

func TestDrops(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	get := query(msg.Get, msg.IDPriority1, nil)
	for _, c := range []struct {
		edit func(m *msg.Message)
		want Drop
	}{
		{func(m *msg.Message) { m.Source.Clock = n.id }, DropOwn},
		{func(m *msg.Message) { m.Action = 5 }, DropAction},
		{func(m *msg.Message) { m.TLVs = nil }, DropMalformed},
		{func(m *msg.Message) { m.TLVs = append(m.TLVs, m.TLVs...) }, DropMalformed},
		{func(m *msg.Message) { m.TLVs = msg.TLVs{0, 1, 0, 0} }, DropMalformed},
		{func(m *msg.Message) { m.TLVs = msg.AppendPad(nil, 6) }, DropMalformed},
		{func(m *msg.Message) { m.Port.Clock = msg.ClockIdentity{8} }, DropTarget},
		{func(m *msg.Message) { m.Action = msg.Response }, DropTarget},
	} {
		m, before := get, n.srv.Stats().Drops[c.want]
		c.edit(&m)
		if a := n.wire(0, m); len(a) != 0 {
			t.Errorf("%v: answered %+v", c.want, a)
		}
		if got := n.srv.Stats().Drops[c.want]; got != before+1 {
			t.Errorf("%v: %d drops", c.want, got-before)
		}
	}
	n.srv.Local("me", []byte{1, 2, 3}, n.now)
	if got := n.srv.Stats().Drops[DropMalformed]; got != 5 {
		t.Errorf("%d malformed", got)
	}
	st := n.srv.Stats()
	names := map[string]uint64{}
	for _, c := range st.Counters() {
		names[c.Name] = c.Value
	}
	if len(names) != 4+int(NumDrops)-1 || names["drop_malformed"] != 5 || names["drop_unknown"] != 0 {
		t.Errorf("%v", names)
	}
}

// A table of so many masters does not fit into a message.
func TestResponseTooBig(t *testing.T) {
	for masters, want := range map[int]msg.ManagementError{50: 0, 60: msg.ErrorResponseTooBig} {
		n := newNode(t, 1, 1, func(c *ptp.Config, _ *Config) {
			for i := range masters {
				c.Ports[0].Unicast.Masters = append(c.Ports[0].Unicast.Masters, transport.Addr{IP: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})})
			}
		})
		r := n.get(t, msg.IDUnicastMasterTable)
		if r.Error != want {
			t.Errorf("%d masters: %v", masters, r.Error)
		}
		if u, ok := r.Data.(*msg.UnicastMasterTable); want == 0 && (!ok || len(u.Masters) != masters) {
			t.Errorf("%d masters: %+v", masters, u)
		}
	}
}

// A message that asks for another port of this clock has no answer.
func TestTargetPort(t *testing.T) {
	n := newNode(t, 1, 2, nil)
	for port, want := range map[uint16]int{0: 0, 1: 1, 2: 1, 3: 0, 0xffff: 2} {
		if r := n.ask(t, Request{ID: msg.IDPortDataSet, Target: msg.PortIdentity{Clock: n.id, Port: port}}); len(r) != want {
			t.Errorf("port %d: %d answers", port, len(r))
		}
	}
}

// A local client reaches clocks behind two boundary clocks, as far as its hops
// let it, and has their answers.
func TestBoundaryHops(t *testing.T) {
	a, b, c := newNode(t, 1, 2, nil), newNode(t, 2, 2, nil), newNode(t, 3, 1, nil)
	join(end{a, 1}, end{b, 0})
	join(end{b, 1}, end{c, 0})
	for hops, want := range []int{1, 2, 3, 3} {
		cl := &Client{Identity: msg.PortIdentity{Port: 99}, Hops: uint8(hops)}
		a.srv.Local("far", cl.Append(nil, Request{ID: msg.IDDefaultDataSet}, a.now), a.now)
		for range 4 {
			for _, n := range []*node{a, b, c} {
				n.Poll(n.now)
			}
		}
		var from []msg.ClockIdentity
		for _, m := range a.local["far"] {
			r, ok := cl.Receive(m)
			if !ok || r.Error != 0 {
				t.Fatalf("%+v, %v", r, ok)
			}
			from = append(from, r.From.Clock)
		}
		a.local["far"] = nil
		if all := []msg.ClockIdentity{a.id, b.id, c.id}; !slices.Equal(from, all[:want]) {
			t.Errorf("%d hops: answers from %v", hops, from)
		}
	}
	// A port that does not take part passes nothing on.
	a.ask(t, Request{Action: msg.Command, ID: msg.IDDisablePort, Target: msg.PortIdentity{Clock: a.id, Port: 2}})
	before := a.srv.Stats().Forwarded
	q := query(msg.Get, msg.IDPriority1, nil)
	a.wire(0, q)
	if got := a.srv.Stats().Forwarded; got != before {
		t.Errorf("%d passed on", got-before)
	}
}

func TestNotifications(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	ask := func(line string) {
		t.Helper()
		r, err := ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		if a := n.ask(t, r); len(a) != 1 || a[0].Error != 0 {
			t.Fatalf("%s: %+v", line, a)
		}
	}
	ask("SET SUBSCRIBE_EVENTS_NP duration 60 NOTIFY_PORT_STATE on NOTIFY_PARENT_DATA_SET on")
	n.run(1500 * time.Millisecond)
	if d := n.get(t, msg.IDSubscribeEvents).Data.(*msg.SubscribeEvents); d.Duration != 59 || !d.Has(msg.EventPortState) || d.Has(msg.EventTimeSync) {
		t.Errorf("subscribed to %+v", d)
	}
	ask("CMD DISABLE_PORT")
	ask("SET PRIORITY1 7")
	n.run(time.Second)
	var got []Reply
	for _, b := range n.local["me"] {
		r, ok := anybody.Receive(b)
		if !ok {
			t.Fatalf("%x", b)
		}
		got = append(got, r)
	}
	n.local["me"] = nil
	if len(got) != 2 || got[0].ID != msg.IDPortDataSet || got[0].Data.(*msg.PortDataSet).State != msg.StateDisabled ||
		got[1].ID != msg.IDParentDataSet || got[1].Data.(*msg.ParentDataSet).GrandmasterPriority1 != 7 {
		t.Errorf("%+v", got)
	}
	// Over when its time is, or when the client says so.
	for _, end := range []func(){
		func() { n.run(61 * time.Second) },
		func() {
			ask("SET SUBSCRIBE_EVENTS_NP duration 60 NOTIFY_PORT_STATE on")
			ask("SET SUBSCRIBE_EVENTS_NP duration 0")
		},
	} {
		end()
		ask("CMD ENABLE_PORT")
		n.run(time.Second)
		if len(n.local["me"]) != 0 {
			t.Errorf("%d more", len(n.local["me"]))
		}
		ask("CMD DISABLE_PORT")
		if d := n.get(t, msg.IDSubscribeEvents).Data.(*msg.SubscribeEvents); *d != (msg.SubscribeEvents{}) {
			t.Errorf("subscribed to %+v", d)
		}
	}
	if got := n.srv.Stats().Notifications; got != 2 {
		t.Errorf("%d notifications", got)
	}
}

// Clients and subscribers beyond the limits.
func TestLimits(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	for i := range maxSubscribers + 1 {
		c := &Client{Identity: msg.PortIdentity{Port: uint16(i + 1)}}
		n.srv.Local("me", c.Append(nil, Request{Action: msg.Set, ID: msg.IDSubscribeEvents, Data: &msg.SubscribeEvents{Duration: 1}}, n.now), n.now)
		r, ok := c.Receive(n.local["me"][i])
		if !ok || (r.Error == msg.ErrorGeneral) != (i == maxSubscribers) {
			t.Fatalf("client %d: %+v", i, r)
		}
	}
	if len(n.srv.clients) != maxClients || n.srv.clients[maxClients-1].identity.Port != maxSubscribers+1 {
		t.Errorf("%d clients", len(n.srv.clients))
	}
}

func TestClient(t *testing.T) {
	n := newNode(t, 1, 1, nil)
	c := &Client{Identity: msg.PortIdentity{Port: 5}}
	if next := c.Poll(0); next != frame.Never {
		t.Errorf("waits until %v for nothing", next)
	}
	exchange := func(r Request) []byte {
		n.srv.Local("c", c.Append(nil, r, n.now), n.now)
		b := n.local["c"][0]
		n.local["c"] = nil
		return b
	}
	one := exchange(Request{ID: msg.IDPortDataSet, Target: msg.PortIdentity{Clock: n.id, Port: 1}})
	if next := c.Poll(n.now); next != n.now.Add(DefaultTimeout) {
		t.Errorf("waits until %v", next)
	}
	if r, ok := c.Receive(one); !ok || r.Notification || r.Sequence != 0 {
		t.Errorf("%+v, %v", r, ok)
	}
	if next := c.Poll(n.now); next != frame.Never {
		t.Errorf("waits until %v though the only answer is there", next)
	}
	all := exchange(Request{ID: msg.IDPortDataSet})
	if r, ok := c.Receive(all); !ok || r.Notification || r.Sequence != 1 {
		t.Errorf("%+v, %v", r, ok)
	}
	if next := c.Poll(n.now); next == frame.Never {
		t.Error("does not wait for more answers")
	}
	if next := c.Poll(n.now.Add(DefaultTimeout)); next != frame.Never {
		t.Errorf("waits until %v", next)
	}
	if r, ok := c.Receive(all); !ok || !r.Notification {
		t.Errorf("late: %+v, %v", r, ok)
	}
	for i, other := range []*Client{{Identity: msg.PortIdentity{Port: 6}}, {Identity: c.Identity, Domain: 1}, {Identity: c.Identity, SdoID: 0x100}} {
		if _, ok := other.Receive(all); ok {
			t.Errorf("client %d takes what is not for it", i)
		}
	}
	if _, ok := c.Receive(c.Append(nil, Request{Target: c.Identity}, 0)); ok {
		t.Error("a request is no answer")
	}
}

// Whatever reaches a server, by either way, ends well, and everything it sends
// can be parsed.
func FuzzServer(f *testing.F) {
	for _, id := range msg.ManagementIDs() {
		for _, action := range []msg.Action{msg.Get, msg.Set, msg.Command} {
			m := query(action, id, nil)
			f.Add(m.Append(nil), true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, local bool) {
		n := newNode(t, 1, 2, func(_ *ptp.Config, c *Config) { c.SetFromWire = true })
		n.sent = nil
		if local {
			n.srv.Local("me", b, n.now)
		} else {
			n.Receive(0, b, ptp.Meta{Now: n.now})
		}
		n.run(100 * time.Millisecond)
		for _, b := range n.local["me"] {
			n.sent = append(n.sent, ptp.Outgoing{Body: b})
		}
		for _, out := range n.sent {
			var m msg.Message
			if err := m.Parse(out.Body); err != nil {
				t.Fatalf("%x: %v", out.Body, err)
			}
		}
	})
}
