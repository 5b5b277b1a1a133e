package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"tapir/lab/tool/schema"
)

var _ = schema.Add("doctor", 1, []Check{}, Runner{}) // the latter with --ci

// Path is a way to test RDMA or PTP code on a machine, and whether that allows it.
type Path struct {
	Job     string `json:"job"`
	Allowed bool   `json:"allowed"`
	Command string `json:"command,omitempty"` // what does it, if it is allowed
	Why     string `json:"why,omitempty"`     // what is missing, if it is not
}

// Runner is what a machine of a CI service allows.
type Runner struct {
	Service string  `json:"service"` // github, gitlab, other or none
	Paths   []Path  `json:"paths"`
	Checks  []Check `json:"checks"`
}

// CI checks this machine as Run does, and tells what a CI job may do on it.
func CI(ctx context.Context) Runner { return runner(os.Getenv, Run(ctx)) }

// services are known by an environment variable that each job has.
var services = []struct{ env, name string }{{"GITHUB_ACTIONS", "github"}, {"GITLAB_CI", "gitlab"}, {"CI", "other"}}

func runner(env func(string) string, checks []Check) Runner {
	r := Runner{Service: "none", Checks: checks}
	for _, s := range services {
		if env(s.env) != "" {
			r.Service = s.name
			break
		}
	}
	find := func(name string) Check {
		return checks[slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })]
	}
	needs := func(job, command string, names ...string) {
		p := Path{Job: job, Allowed: true, Command: command}
		for _, name := range names {
			// What does not matter to a NIC on a TAP does to one on this wire.
			here := func(c Check) bool {
				return c.State == OK || c.State == Info && !strings.HasPrefix(c.Name, "wire ")
			}
			if c := find(name); p.Allowed && !here(c) {
				p = Path{Job: job, Why: fmt.Sprintf("%s: %s", c.Name, c.Found)}
			}
		}
		r.Paths = append(r.Paths, p)
	}
	needs("labs in virtual time", "tapir lab test --clock virtual LAB.yaml")
	needs("NICs in shared memory", "tapir nic --wire shm:/tmp/cable0 --ip 10.0.0.1/24", "wire shm")
	needs("NICs on UDP sockets", "tapir nic --wire udp:127.0.0.1:7001,127.0.0.1:7002 --ip 10.0.0.1/24", "wire udp")
	needs("NICs on VXLAN", "tapir nic --wire vxlan:7,ADDRESS --ip 10.0.0.1/24", "wire vxlan")
	needs("NICs at QEMU guests", "tapir nic --wire stream:/tmp/vm0.sock --ip 10.0.0.1/24", "wire stream")
	needs("NICs on interfaces", "tapir nic --wire dev:eth1 --ip 10.0.0.1/24", "wire dev")
	needs("RDMA programs, unmodified", "tapir run -- PROGRAM", "rdma-core", "seccomp notify", "yama")
	needs("RDMA programs, dynamic, without seccomp", "tapir run --via preload -- PROGRAM", "rdma-core", "yama")
	needs("NICs on TAPs", "tapir nic --tap tap0 --ip 10.0.0.1/24", "tap")
	needs("labs in real time", "tapir lab test LAB.yaml", "tap", "user namespaces")
	needs("captures judged by tshark", "tapir lab test --out out LAB.yaml", "tshark")
	return r
}

// Format writes a line for each path: what does it, or why it is not allowed.
func (r Runner) Format(w io.Writer) error {
	width := 0
	for _, p := range r.Paths {
		width = max(width, len(p.Job))
	}
	if _, err := fmt.Fprintf(w, "CI service: %s\n", r.Service); err != nil {
		return err
	}
	for _, p := range r.Paths {
		word, text := "yes", p.Command
		if !p.Allowed {
			word, text = "no", p.Why
		}
		if _, err := fmt.Fprintf(w, "%-3s  %-*s  %s\n", word, width, p.Job, text); err != nil {
			return err
		}
	}
	return nil
}
