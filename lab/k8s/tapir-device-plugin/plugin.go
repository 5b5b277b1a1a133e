package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// endpoint is the plug-in's socket in the kubelet's directory.
	endpoint = "tapir.sock"
	// inside is where a container finds the sockets of its NIC.
	inside = "/run/tapir-nic"
	// registerWithin bounds one registration.
	registerWithin = 10 * time.Second
)

// plugin is the server of the plug-in's calls.
type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	nics     int
	kubelet  string        // directory of the kubelet's sockets
	runDir   string        // has a directory for each NIC
	every    time.Duration // between two looks at the kubelet's socket and at the NICs
	log      io.Writer
}

// run serves the kubelet until ctx ends. When the kubelet starts again, which removes all
// sockets of plug-ins, it serves and registers anew; while there is none, it waits.
func (p *plugin) run(ctx context.Context) error {
	for {
		err := p.serve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintln(p.log, "tapir-device-plugin:", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.every):
		}
	}
}

// serve listens, registers, and returns when ctx ends or the kubelet has another socket.
func (p *plugin) serve(ctx context.Context) error {
	before := inode(filepath.Join(p.kubelet, "kubelet.sock"))
	if before == 0 {
		return fmt.Errorf("no kubelet in %s", p.kubelet)
	}
	path := filepath.Join(p.kubelet, endpoint)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	own := inode(path)
	s := grpc.NewServer()
	api.RegisterDevicePluginServer(s, p)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	defer func() {
		s.Stop()
		<-ended
	}()
	if err := p.register(ctx); err != nil {
		return err
	}
	fmt.Fprintf(p.log, "ready %s nics=%d\n", p.resource, p.nics)
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if inode(filepath.Join(p.kubelet, "kubelet.sock")) != before || inode(path) != own {
			return nil
		}
	}
}

// inode tells a socket from one that takes its place, 0 if there is none.
func inode(path string) uint64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Sys().(*syscall.Stat_t).Ino
}

func (p *plugin) register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.kubelet, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, registerWithin)
	defer cancel()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{Version: api.Version,
		Endpoint: endpoint, ResourceName: p.resource, Options: &api.DevicePluginOptions{}})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// GetDevicePluginOptions implements the plug-in's service: there are none.
func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch implements the plug-in's service: it sends the list at once and whenever
// it changes.
func (p *plugin) ListAndWatch(_ *api.Empty, to grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	var last []string
	ticks := time.NewTicker(p.every)
	defer ticks.Stop()
	for {
		var all []*api.Device
		var health []string
		for i := range p.nics {
			id := deviceID(i)
			all, health = append(all, &api.Device{ID: id, Health: p.health(id)}), append(health, p.health(id))
		}
		if !slices.Equal(health, last) {
			if err := to.Send(&api.ListAndWatchResponse{Devices: all}); err != nil {
				return err
			}
			last = health
		}
		select {
		case <-to.Context().Done():
			return nil
		case <-ticks.C:
		}
	}
}

func deviceID(i int) string { return fmt.Sprint("nic-", i) }

// health is that of a device: it is bad while its directory has the socket of a NIC that
// does not answer, which was killed. DEL of the CNI plug-in removes that.
func (p *plugin) health(id string) string {
	sockets, _ := filepath.Glob(filepath.Join(p.runDir, id, "tapir", "*.sock"))
	for _, path := range sockets {
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return api.Unhealthy
		}
		if err == nil {
			c.Close()
		}
	}
	return api.Healthy
}

// Allocate implements the plug-in's service: a container gets the directory of its NIC's
// sockets. The CNI plug-in, to which Multus hands the same device, puts them there.
func (p *plugin) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	var all api.AllocateResponse
	for _, c := range r.ContainerRequests {
		if len(c.DevicesIds) != 1 {
			return nil, status.Errorf(codes.InvalidArgument, "%d NICs: a container has one", len(c.DevicesIds))
		}
		id := c.DevicesIds[0]
		known := false
		for i := range p.nics {
			known = known || id == deviceID(i)
		}
		if !known {
			return nil, status.Errorf(codes.NotFound, "there is no device %q", id)
		}
		dir := filepath.Join(p.runDir, id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		all.ContainerResponses = append(all.ContainerResponses, &api.ContainerAllocateResponse{
			Envs:   map[string]string{"XDG_RUNTIME_DIR": inside},
			Mounts: []*api.Mount{{ContainerPath: inside, HostPath: dir, ReadOnly: true}},
		})
	}
	return &all, nil
}
