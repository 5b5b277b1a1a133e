// Package relay carries system calls on the device files of RDMA from the
// supervisor of a program, which knows the names, to the process that runs the
// NICs, which has the objects: one SOCK_SEQPACKET connection for each run of a
// program.
//
//	program ── open(2), write(2) ──> supervisor (nic/uapi/trap)
//	supervisor: Client, and the device files         client.go, device.go
//	   │ messages, of which some carry a descriptor  message.go
//	NIC's process: Server, one session per Client    server.go, session.go
//	   open, command -> on the NIC's thread          caller.go: the abi.Caller
//	   its memory                                    space.go
//	   numbers of a container's threads              pidns.go
//
// When the program opens its first file, the NIC's thread takes the seccomp
// listener over (intake.go): it receives the program's calls between its
// frames, so that a command is served without a change of threads, and gives
// back to the supervisor what is not for one of its files. With the preloaded
// library, each call is a message.
//
// The program's memory is reached by files of /proc that its supervisor has
// opened and passed on: the NIC lends nobody its own rights. A thread of a NIC
// touches no page for which it would have to wait: those of files that another
// process or machine serves, or of a userfaultfd(2), fail the access.
//
// A file ends when its last descriptor and its last mapping are gone in every
// process. If the NIC's process ends, the program's calls on its files fail
// with ENODEV; if the supervisor ends, all files of its programs are closed.
package relay

import (
	"encoding/json"
	"fmt"
	"net"
)

// Version of what is spoken on the socket. Both sides must have the same.
const Version = 9

// Ask is what a supervisor says first.
type Ask struct {
	Version int      `json:"version"`
	NICs    []string `json:"nics"`          // whose devices its program is to see, in this order
	Via     string   `json:"via,omitempty"` // auto, trap or preload: for display
	// IPGIDs has the devices' GID tables hold those of IP addresses alone; Netdevs
	// are the indices of the devices' network interfaces, in the order of NICs.
	IPGIDs  bool     `json:"ip_gids,omitempty"`
	Netdevs []uint32 `json:"netdevs,omitempty"`
	// KillAfterPosts has the program killed as soon as the NICs have taken that
	// many of its posts to send queues; 0: it is not.
	KillAfterPosts int `json:"kill_after_posts,omitempty"`
	// Messages says that the program itself asks, and from now on writes its
	// commands as messages of nic/umode/proxy.
	Messages bool `json:"messages,omitempty"`
}

// Hello is the answer, or why there is no other one.
type Hello struct {
	Version int      `json:"version"`
	Devices []string `json:"devices"` // what Client.Add can show
	// Below says that the supervisor is in a PID namespace below that of the
	// NIC's process: a pidfd goes along where a message names a thread.
	Below   bool     `json:"below,omitempty"`
	Refused *Refused `json:"refused,omitempty"`
}

// Refused says why a NIC's process does not serve a supervisor, and what to do.
type Refused struct {
	What   string `json:"error"`
	Remedy string `json:"remedy"`
}

func (e *Refused) Error() string { return e.What + ": " + e.Remedy }

// maxGreeting is the longest Ask or Hello in octets.
const maxGreeting = 64 << 10

func say(c net.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

func hear(c net.Conn, v any) error {
	b := make([]byte, maxGreeting)
	n, err := c.Read(b)
	if err != nil {
		return err
	}
	return json.Unmarshal(b[:n], v)
}

// checkVersion compares what the two sides speak.
func checkVersion(nic, supervisor int) *Refused {
	if nic == supervisor {
		return nil
	}
	return &Refused{What: fmt.Sprintf(
		"the NIC's process speaks version %d of the relay protocol, the supervisor version %d", nic, supervisor),
		Remedy: "use the tapir binary that started the NIC, or start the NIC again with yours"}
}
