package umode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"tapir/nic/al"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/runtimedir"
	"tapir/nic/verbs"
)

// Errors of Open; test with errors.Is.
var (
	ErrNotRunning = errors.New("it is not running")
	ErrWhich      = errors.New("name one")
)

// Open opens the NIC called name, which runs in another process of the same
// user (tapir nic); without a name, the only one that runs. Errors:
// ErrNotRunning; ErrWhich, if several run; *relay.Refused, why the NIC's
// process will not serve this one; verbs.ErrUnsupported, if the NIC has no
// RDMA.
func Open(name string, options Options) (*Context, error) {
	if name == "" {
		running := runtimedir.Running()
		switch len(running) {
		case 0:
			return nil, fmt.Errorf("open a NIC: %w: there is none in %s; start one with: tapir nic", ErrNotRunning,
				runtimedir.Path())
		case 1:
			name = running[0]
		default:
			return nil, fmt.Errorf("open a NIC: %w: %s run", ErrWhich, strings.Join(running, ", "))
		}
	}
	path := runtimedir.Programs(name)
	if options.Dir != "" {
		path = filepath.Join(options.Dir, filepath.Base(path))
	}
	conn, hello, err := relay.Greet(context.Background(), path, relay.Ask{NICs: []string{name}, Messages: true})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("open NIC %s: %w (no socket %s); start it with: tapir nic --name %s", name,
			ErrNotRunning, path, name)
	case err != nil:
		return nil, fmt.Errorf("open NIC %s: %w", name, err)
	case len(hello.Devices) == 0:
		_ = conn.Close()
		return nil, fmt.Errorf("open NIC %s: it is plain Ethernet, without RDMA: %w", name, verbs.ErrUnsupported)
	}
	c, err := newContext(conn, relay.Uverbs(name), options)
	if err != nil {
		return nil, fmt.Errorf("open NIC %s: %w", name, err)
	}
	return c, nil
}

// OpenGUID opens the NIC with that GUID, which no other has, whatever its name.
// Error: al.ErrNoDevice.
func OpenGUID(g verbs.GUID, options Options) (*Context, error) {
	for _, name := range runtimedir.Running() {
		c, err := Open(name, Options{NoLibrary: true})
		if err != nil {
			continue // it is none, or ends just now
		}
		attr, err := c.Query()
		_ = c.Close()
		if err == nil && attr.GUID == g {
			return Open(name, options)
		}
	}
	return nil, fmt.Errorf("open a NIC by GUID: device %v: %w", g, al.ErrNoDevice)
}
