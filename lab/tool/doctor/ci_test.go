package doctor

import (
	"strings"
	"testing"
)

// What a runner allows follows from the checks, with the first reason against it.
func TestCI(t *testing.T) {
	state := map[string]State{"seccomp notify": Warn, "tap": Fail, "user namespaces": Info, "wire dev": Info,
		"wire vxlan": Warn}
	var checks []Check
	for _, name := range []string{"tap", "user namespaces", "seccomp notify", "yama", "rdma-core", "tshark", "wire shm",
		"wire stream", "wire udp", "wire vxlan", "wire dev"} {
		c := Check{Name: name, State: state[name]}
		if c.State == "" {
			c.State = OK
		}
		if c.State != OK {
			c.Found = "not here"
		}
		checks = append(checks, c)
	}
	r := runner(func(key string) string { return map[string]string{"GITLAB_CI": "true", "CI": "true"}[key] }, checks)
	var out strings.Builder
	if err := r.Format(&out); err != nil || r.Service != "gitlab" {
		t.Error(err, r.Service)
	}
	for _, want := range []string{
		"CI service: gitlab\n",
		"yes  labs in virtual time                     tapir lab test --clock virtual LAB.yaml\n",
		"yes  NICs in shared memory                    tapir nic --wire shm",
		"yes  NICs on UDP sockets                      tapir nic --wire udp",
		"no   NICs on VXLAN                            wire vxlan: not here\n",
		"no   NICs on interfaces                       wire dev: not here\n",
		"no   RDMA programs, unmodified                seccomp notify: not here\n",
		"yes  RDMA programs, dynamic, without seccomp  tapir run --via preload -- PROGRAM\n",
		"no   NICs on TAPs                             tap: not here\n",
		"no   labs in real time                        tap: not here\n",
		"yes  captures judged by tshark",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
}
