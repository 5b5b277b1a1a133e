package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tapir/lab/run/real"
	"tapir/lab/tool/ctl"
)

// Act is what a page asks for.
type Act struct {
	Node string   `json:"node"` // its ID
	Verb string   `json:"verb"` // set, ptp-set, stop or write; of a lab fault, heal, link, kill, start or clock
	Set  []string `json:"set,omitempty"`
	// To is the node whose memory a write goes to, by its ID, or what a verb of a lab
	// strikes: the name of a link or a node.
	To   string `json:"to,omitempty"`
	Size int    `json:"size,omitempty"` // of write, in octets
	Dry  bool   `json:"dry,omitempty"`  // only the command line is wanted
}

// Acted is what came of it.
type Acted struct {
	Schema   int      `json:"schema"`
	Commands []string `json:"commands"` // which do the same in a shell
	Output   string   `json:"output,omitempty"`
	OK       bool     `json:"ok"` // not of a dry one
}

// Bounds of a command: its time, and what is kept of its output, in octets.
const (
	actWithin = 30 * time.Second
	maxOutput = 64 << 10
)

// maxWrite bounds a Write, in octets.
const maxWrite = 1 << 30

// setting is NAME=VALUE.
var setting = regexp.MustCompile(`^[a-z0-9_]+=[^\x00-\x1f]*$`)

// command is one command line and where it runs.
type command struct {
	lab, node string // in the namespace of that node of the lab; empty: here
	argv      []string
}

// String is the command line for a shell.
func (c *command) String() string {
	words := append([]string{"tapir"}, c.argv...)
	if c.lab != "" {
		words = append([]string{"tapir", "lab", "exec", c.lab, c.node, "--"}, words...)
	}
	for i, w := range words {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// plain are the characters that a shell leaves alone.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// act shows or runs a command line.
func (s *Server) act(r *http.Request) (any, error) {
	var a Act
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return nil, bad("the request cannot be read: %v", err)
	}
	if s.recorded() != "" {
		return nil, bad("a recorded lab does not change")
	}
	first, serve, err := a.commands(r.Context())
	if err != nil {
		return nil, err
	}
	done := Acted{Schema: schema}
	if serve != nil {
		done.Commands = append(done.Commands, serve.String()+" &")
	}
	done.Commands = append(done.Commands, first.String())
	if a.Dry {
		return done, nil
	}
	select {
	case s.acts <- struct{}{}:
		defer func() { <-s.acts }()
	default:
		return nil, problem{errors.New("other commands still run"), http.StatusServiceUnavailable}
	}
	ctx, cancel := context.WithTimeout(r.Context(), actWithin)
	defer cancel()
	if serve != nil {
		end, err := s.serve(ctx, serve)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	done.Output, err = s.run(ctx, first)
	if done.OK = err == nil; err != nil && done.Output == "" {
		done.Output = err.Error()
	}
	return done, nil
}

// commands are the command line of an action, and the server that it needs.
func (a *Act) commands(ctx context.Context) (c, serve *command, err error) {
	p, name, err := find(a.Node)
	if err != nil {
		return nil, nil, err
	}
	if err := ctl.CheckName(name); err != nil {
		return nil, nil, bad("%v", err)
	}
	c = &command{lab: p.lab, node: name}
	switch a.Verb {
	case "set", "ptp-set":
		if len(a.Set) == 0 {
			return nil, nil, bad("nothing to set: expected NAME=VALUE")
		}
		for _, v := range a.Set {
			if !setting.MatchString(v) {
				return nil, nil, bad("%q: expected NAME=VALUE", v)
			}
		}
		words := strings.Split(a.Verb, "-")
		c.argv = append(append(words, name), a.Set...)
	case "stop":
		c.argv = []string{"stop", name}
	case "write":
		return a.write(ctx, c)
	case "fault", "heal", "link", "kill", "start", "clock":
		c, err = a.strike(p.lab, name)
	default:
		return nil, nil, bad("verb %q: expected set, ptp-set, stop, write, fault, heal, link, kill, start or clock",
			a.Verb)
	}
	return c, nil, err
}

// strike is what happens to a link or node of a lab. A node without another target is its own.
func (a *Act) strike(lab, name string) (*command, error) {
	if lab == "" {
		lab = name
	} else if a.To == "" {
		a.To = name
	}
	if err := ctl.CheckName(a.To); err != nil {
		return nil, bad("%q is no name of a link or node", a.To)
	}
	c := &command{argv: []string{"lab", a.Verb, a.To}}
	for _, v := range a.Set {
		switch {
		case a.Verb == "link" && (v == "up" || v == "down"):
		case (a.Verb == "fault" || a.Verb == "clock") && setting.MatchString(v):
		default:
			return nil, bad("%q: expected up or down of a link, NAME=VALUE of a fault or a clock", v)
		}
		c.argv = append(c.argv, v)
	}
	if len(a.Set) == 0 && a.Verb != "heal" && a.Verb != "kill" && a.Verb != "start" {
		return nil, bad("%s %s: nothing is said to happen", a.Verb, a.To)
	}
	c.argv = append(c.argv, "--lab", lab)
	return c, nil
}

// write posts one RDMA Write to the memory of another node.
func (a *Act) write(ctx context.Context, c *command) (_, serve *command, err error) {
	if a.Size < 1 || a.Size > maxWrite {
		return nil, nil, bad("size %d: expected 1 to %d", a.Size, maxWrite)
	}
	p, name, err := find(a.To)
	if err != nil {
		return nil, nil, err
	}
	peer, err := dial(ctx, a.To)
	if err != nil {
		return nil, nil, err
	}
	defer peer.Close()
	var row struct{ Addrs []netip.Prefix }
	if err := peer.Show(ctx, ctl.Kinds[0], &row); err != nil {
		return nil, nil, err
	}
	for _, at := range row.Addrs {
		if at.Addr().IsLinkLocalUnicast() {
			continue
		}
		serve = &command{lab: p.lab, node: name, argv: []string{"perf", "write-bw", name}}
		size := strconv.Itoa(a.Size)
		c.argv = []string{"perf", "write-bw", c.node, at.Addr().String(), "-n", "1", "-s", size}
		return c, serve, nil
	}
	return nil, nil, bad("%s has no address: tapir nic --ip", a.To)
}

// start makes a command of this program, in its lab's namespace.
func (s *Server) start(ctx context.Context, c *command) (*exec.Cmd, func() error, error) {
	argv := append([]string{s.opt.Program}, c.argv...)
	if c.lab == "" {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		return cmd, cmd.Start, nil
	}
	lab, err := real.Find(c.lab)
	if err != nil {
		return nil, nil, err
	}
	return lab.Command(ctx, c.node, argv)
}

// clipped keeps the beginning of what is written.
type clipped struct{ bytes.Buffer }

func (c *clipped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), maxOutput-c.Len())])
	return len(p), nil
}

// run runs a command to its end.
func (s *Server) run(ctx context.Context, c *command) (output string, err error) {
	cmd, start, err := s.start(ctx, c)
	if err != nil {
		return "", err
	}
	var out clipped
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	if err := start(); err != nil {
		return "", err
	}
	err = cmd.Wait()
	return strings.ToValidUTF8(out.String(), "?"), err
}

// serve starts a command and returns when it says that it serves. end ends it.
func (s *Server) serve(ctx context.Context, c *command) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd, start, err := s.start(ctx, c)
	if err != nil {
		cancel()
		return nil, err
	}
	said := &announced{ready: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, said, time.Second
	if err := start(); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-said.ready:
		return func() { cancel(); <-ended }, nil
	case err = <-ended:
		cancel()
		return nil, fmt.Errorf("%s: %w: %s", c, err, strings.TrimSpace(said.text.String()))
	}
}

// announced waits for the word "serves".
type announced struct {
	text  clipped
	ready chan struct{}
	is    bool
}

func (a *announced) Write(p []byte) (int, error) {
	n, err := a.text.Write(p)
	if !a.is && strings.Contains(a.text.String(), " serves ") {
		a.is = true
		close(a.ready)
	}
	return n, err
}
