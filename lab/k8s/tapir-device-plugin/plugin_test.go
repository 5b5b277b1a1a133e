package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is one that a test starts and ends: it does with its socket and those of
// plug-ins what the real one does.
type kubelet struct {
	api.UnimplementedRegistrationServer
	t    *testing.T
	dir  string
	said chan *api.RegisterRequest
	s    *grpc.Server
}

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	k.said <- r
	return &api.Empty{}, nil
}

func (k *kubelet) start() {
	k.t.Helper()
	all, _ := filepath.Glob(k.dir + "/*")
	for _, name := range all {
		os.Remove(name)
	}
	l, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.s = grpc.NewServer()
	api.RegisterRegistrationServer(k.s, k)
	go k.s.Serve(l)
}

// registered waits for a registration and returns the plug-in behind it.
func (k *kubelet) registered() api.DevicePluginClient {
	k.t.Helper()
	select {
	case r := <-k.said:
		if r.Version != "v1beta1" || r.ResourceName != "tapir.dev/nic" || r.Endpoint != endpoint {
			k.t.Fatal(r)
		}
		conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			k.t.Fatal(err)
		}
		k.t.Cleanup(func() { conn.Close() })
		return api.NewDevicePluginClient(conn)
	case <-time.After(30 * time.Second):
		k.t.Fatal("no registration")
		return nil
	}
}

// output is what a plug-in prints.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

func start(t *testing.T, dir string) (p *plugin, stop func()) {
	p = &plugin{resource: "tapir.dev/nic", nics: 3, kubelet: dir, runDir: t.TempDir(), every: 10 * time.Millisecond, log: new(output)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return p, stop
}

// devices is the next list of a stream, as the health of each.
func devices(t *testing.T, s grpc.ServerStreamingClient[api.ListAndWatchResponse]) map[string]string {
	t.Helper()
	r, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, d := range r.Devices {
		all[d.ID] = d.Health
	}
	return all
}

// The kubelet comes later than the plug-in, sees its devices, allocates one, sees a NIC
// die, starts again, and sees the plug-in end.
func TestKubelet(t *testing.T) {
	k := &kubelet{t: t, dir: t.TempDir(), said: make(chan *api.RegisterRequest, 8)}
	p, stop := start(t, k.dir)
	k.start()
	client := k.registered()
	list, err := client.ListAndWatch(t.Context(), &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if all := devices(t, list); len(all) != 3 || all["nic-0"] != api.Healthy {
		t.Error(all)
	}
	if o, err := client.GetDevicePluginOptions(t.Context(), &api.Empty{}); err != nil || o.PreStartRequired {
		t.Error(o, err)
	}
	request := func(ids ...string) *api.AllocateRequest {
		return &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}}
	}
	r, err := client.Allocate(t.Context(), request("nic-1"))
	if err != nil || len(r.ContainerResponses) != 1 {
		t.Fatal(r, err)
	}
	got, dir := r.ContainerResponses[0], filepath.Join(p.runDir, "nic-1")
	if got.Envs["XDG_RUNTIME_DIR"] != inside || len(got.Mounts) != 1 || got.Mounts[0].HostPath != dir ||
		got.Mounts[0].ContainerPath != inside || !got.Mounts[0].ReadOnly || len(got.Devices) != 0 {
		t.Error(got)
	}
	for _, bad := range []struct {
		ids  []string
		code codes.Code
	}{{[]string{"nic-3"}, codes.NotFound}, {[]string{"../x"}, codes.NotFound}, {[]string{"nic-0", "nic-1"}, codes.InvalidArgument},
		{nil, codes.InvalidArgument}} {
		if _, err := client.Allocate(t.Context(), request(bad.ids...)); status.Code(err) != bad.code {
			t.Errorf("%q: %v", bad.ids, err)
		}
	}

	// a NIC that lives, and then has died without a word
	if err := os.MkdirAll(filepath.Join(dir, "tapir"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "tapir", "net1.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if p.health("nic-1") != api.Healthy {
		t.Error("a NIC that lives")
	}
	l.Close()
	if all := devices(t, list); all["nic-1"] != api.Unhealthy || all["nic-0"] != api.Healthy {
		t.Error(all)
	}
	os.RemoveAll(filepath.Join(dir, "tapir")) // as DEL does
	if all := devices(t, list); all["nic-1"] != api.Healthy {
		t.Error(all)
	}

	k.s.Stop()
	k.start()
	client = k.registered()
	if list, err = client.ListAndWatch(t.Context(), &api.Empty{}); err != nil {
		t.Fatal(err)
	}
	if all := devices(t, list); len(all) != 3 {
		t.Error(all)
	}
	stop()
	if _, err := list.Recv(); err == nil {
		t.Error("the stream of a plug-in that has ended goes on")
	}
	if left, _ := filepath.Glob(filepath.Join(k.dir, endpoint)); left != nil {
		t.Errorf("left: %q", left)
	}

	// the next plug-in takes the place of one that was killed
	if _, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(k.dir, endpoint), Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	start(t, k.dir)
	if o, err := k.registered().GetDevicePluginOptions(t.Context(), &api.Empty{}); err != nil {
		t.Error(o, err)
	}
	k.s.Stop()
}
