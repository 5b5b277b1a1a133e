// Package topo reads the topology file of a lab: nodes, the links between
// them, and the steps of what happens. Package testbed makes it real.
package topo

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/perfconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/fault"
)

// Lab is what a topology file describes. Everything in it has been checked.
type Lab struct {
	File  string // that it was read from
	Name  string
	Clock string // Real or Virtual
	Seed  uint64 // of the faults
	Wire  string // kind of the wires of links that do not say; empty: TAP
	Nodes []Node
	Links []Link
	Steps []Step // those of that clock

	all    []Step // of any clock
	limits []limit
	rules  map[string]map[string]bool // the names of the rules of each link
}

// Kind says what a node is.
type Kind string

// The kinds of nodes.
const (
	NIC     Kind = "nic"     // a NIC with its operating system's side, in a namespace
	Host    Kind = "host"    // a namespace with the kernel's own network
	Switch  Kind = "switch"  // the fabric switch
	HFI     Kind = "hfi"     // an Omni-Path HFI whose virtual NICs are interfaces of a namespace
	Manager Kind = "manager" // the Ethernet Manager of HFIs
	Peer    Kind = "peer"    // a QEMU guest with the siw driver of Linux
	Card    Kind = "card"    // a device with several functions, each of which is a NIC by its own name
	Gateway Kind = "gateway" // an HFI whose virtual NICs are joined with Ethernet links
	Target  Kind = "target"  // in a file alone: a NIC that serves disks
)

// Node is a node of a lab.
type Node struct {
	Name   string
	Kind   Kind
	NIC    nicconf.Config // of a NIC; its name, TAPs and namespace are the lab's business
	Switch swconf.Config  // of a switch, but for its ports
	HFI    hficonf.Config // of an HFI or gateway, but for its TAP
	EM     hficonf.EMConfig
	Peer   Guest          // of a guest
	IP     []netip.Prefix // of a host or guest
	// At are the addresses of a host by link, if it has several; IP has all.
	At map[string][]netip.Prefix
	// PTP are the settings of the PTP instance of a NIC or HFI, in YAML; nil: it has
	// none.
	PTP []byte
	// Flags are the settings of a NIC as flags of `tapir nic`; for other nodes
	// there is ConfigFile.
	Flags []string

	settings yaml.MapSlice // as the file has them
	// Target is what a NIC serves; nil: nothing.
	Target *targetconf.Config
	// Card is the device that the NIC is a function of; empty: it has one of its own.
	Card string

	em    *hficonf.EMDraft
	card  *nicconf.Draft
	sw    *swconf.Draft
	count int // of NICs that the entry stands for; 0: the node itself
}

// Guest is how the guest of a peer is started.
type Guest struct {
	Siw    []string // parameters of the siw driver
	Memory int      // MiB; 0: the default
	KVM    bool     // it runs on the processor, not emulated
}

// Title is the node's kind as the file has it.
func (n *Node) Title() Kind {
	if n.Target != nil {
		return Target
	}
	return n.Kind
}

// Addrs are the addresses of a NIC, IPv4 first, of a host, or of an HFI's
// virtual NICs.
func (n *Node) Addrs() []netip.Prefix {
	switch n.Kind {
	case NIC:
		return n.NIC.Addrs()
	case HFI:
		var all []netip.Prefix
		for _, v := range n.HFI.VNICs {
			all = append(all, v.IP...)
		}
		return all
	}
	return n.IP
}

// Link joins two nodes.
type Link struct {
	Name string
	Ends [2]string // names of nodes
	// Fault is what happens to frames from either end.
	Fault [2]fault.Impairment
	// Rules strike exact things.
	Rules   []fault.Rule
	MTU     int    // octets of IP; 0: what the ends need
	Wire    string // kind of its wires; empty: that of the lab
	Capture bool
	Fabric  bool // it carries Omni-Path, not Ethernet for IP
	// Compensate: PTP event messages are told how late they leave the link.
	Compensate bool
}

// Verb says what a step does.
type Verb string

// The verbs of steps.
const (
	Run    Verb = "run"    // start a program
	Perf   Verb = "perf"   // run a workload between two NICs
	Fault  Verb = "fault"  // change what a link does to frames
	Plug   Verb = "link"   // take a link down or up
	Kill   Verb = "kill"   // end a node or a program as kill -9 does
	Start  Verb = "start"  // a node that was killed
	PHC    Verb = "phc"    // step a NIC's hardware clock, or let it drift
	Wait   Verb = "wait"   // for a time, for a program to end, for a condition
	Expect Verb = "expect" // a condition holds
)

// Step is one thing that happens.
type Step struct {
	Verb Verb
	Name string // of a program: for waits and reports
	Line int    // of the file
	// Clock is the only one by which there is this step; empty: any.
	Clock string
	Text  string // what it does, for people

	// Of run.
	Argv       []string
	On         string   // the node, also of kill, start and phc
	NICs       []string // the program finds their RDMA devices, under `tapir run`
	Background bool     // the next step does not wait for it
	Timeout    time.Duration
	KillAfter  int // so many posts to send queues; 0: it is not killed
	Exit       int // expected
	Output     *regexp.Regexp

	// Of perf.
	Job            perfconf.Job   // what each pair does, but for the server's address
	Server, Client string         // nodes, or entries with a count
	Pairs          []Pair         // side by side
	Fails          *regexp.Regexp // nil: it has to succeed
	Latency        perfconf.Latency

	// Of fault and link.
	Link  string
	Fault [2]fault.Impairment // of frames from either end
	Rules []fault.Rule        // in force from now on, in the place of those before
	Down  bool

	// Of kill, start and phc.
	Program string        // that is killed, instead of a NIC
	Shift   time.Duration // by which the clock steps; 0: it does not
	Drifts  bool          // PPB is the correction of its frequency from now on
	PPB     int64
	Later   bool // when For is over or Condition holds; the steps go on

	// Of wait and expect, and of what happens later.
	For       time.Duration // nothing else is waited for
	Condition Condition
}

// Outcome is what is wrong with a workload that ended with err.
func (s *Step) Outcome(err error) error {
	switch {
	case s.Fails == nil:
		return err
	case err == nil:
		return fmt.Errorf("it did not fail; expected an error that matches %q", s.Fails.String()[len("(?m)"):])
	case !s.Fails.MatchString(err.Error()):
		return fmt.Errorf("it failed otherwise than with %q: %w", s.Fails.String()[len("(?m)"):], err)
	}
	return nil
}

// Verdict is what is wrong with a program that has ended with an exit code and
// has said so much; ending and tail are both in words.
func (s *Step) Verdict(code int, ending, said, tail string) error {
	if tail = strings.TrimSpace(tail); tail != "" {
		tail = ": " + tail
	}
	if code != s.Exit {
		return fmt.Errorf("%s: %s, expected exit code %d%s", s.Name, ending, s.Exit, tail)
	}
	if s.Output != nil && !s.Output.MatchString(said) {
		return fmt.Errorf("%s: its output does not match %q%s", s.Name, Plain(s.Output), tail)
	}
	return nil
}

// Plain is a pattern as the file has it.
func Plain(r *regexp.Regexp) string { return strings.TrimPrefix(r.String(), "(?m)") }

// Condition is what a step waits for or expects. One of Step, Node and Link
// says whom it is about.
type Condition struct {
	Step    string // this program, started before
	Node    string
	Link    string
	Ended   bool           // the program has, as its own expectations say
	Output  *regexp.Regexp // the program has said this
	Counter string         // of the node or the link
	Filter  string         // a display filter of tshark: how many frames of the link's capture match
	Port    uint16         // the NIC listens on this TCP port
	VESW    uint16         // the counter is that of the HFI's vport in this vESW
	InSync  bool           // the manager is master, and its fabric as it says
	Role    string         // of the manager: master or standby
	PTP     string         // a port of the node's PTP instance is in this state
	// Offset bounds what a PTP instance measured last, TrueOffset how far the
	// node's clock is from the system's.
	Offset, TrueOffset Range
	// Throughout is how long it has to hold; 0: once. Percentile is the part of the samples that
	// has to be right (0: all), MTIE and TDEV bound the true offset's.
	Throughout time.Duration
	Percentile float64
	MTIE, TDEV Stability
	// Min and Max bound a counter or the number of frames.
	Min, Max uint64
}

// find returns the element of that name, or nil.
func find[T any](all []T, name func(*T) string, want string) *T {
	for i := range all {
		if name(&all[i]) == want {
			return &all[i]
		}
	}
	return nil
}

// texts are those of a list's elements.
func texts[T any](list []T, text func(T) string) []string {
	var all []string
	for _, v := range list {
		all = append(all, text(v))
	}
	return all
}

// join lists words, with commas between them.
func join[T ~string](words []T) string {
	return strings.Join(texts(words, func(w T) string { return string(w) }), ", ")
}

// Node returns the node called name, or nil.
func (l *Lab) Node(name string) *Node {
	return find(l.Nodes, func(n *Node) string { return n.Name }, name)
}

// FunctionsOf are the NICs of a card.
func (l *Lab) FunctionsOf(card string) (list []*Node) {
	for i := range l.Nodes {
		if l.Nodes[i].Card == card {
			list = append(list, &l.Nodes[i])
		}
	}
	return list
}

// Link returns the link called name, or nil.
func (l *Lab) Link(name string) *Link {
	return find(l.Links, func(k *Link) string { return k.Name }, name)
}

// Load reads a topology file. Mistakes are *conf.Error with their place.
func Load(path string) (*Lab, error) {
	return conf.Load(path, Parse)
}

// defaultName is the lab's name if the file does not say one: that of the file,
// or of its folder for lab.yaml.
func defaultName(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if full, err := filepath.Abs(path); err == nil && base == "lab" {
		base = filepath.Base(filepath.Dir(full))
	}
	base = regexp.MustCompile(`[^A-Za-z0-9_.-]`).ReplaceAllString(base, "-")
	if !conf.ValidName.MatchString(base) {
		return "lab"
	}
	return base
}

const nameExpect = "1 to 32 letters, digits, `-`, `_` and `.`, beginning with a letter or digit"

func checkName(s string) error {
	if !conf.ValidName.MatchString(s) {
		return fmt.Errorf("expected %s", nameExpect)
	}
	return nil
}
