// Command tapir-device-plugin offers the NICs of `tapir cni` to the kubelet of a node, as
// a device plug-in (v1beta1). A container that asks for one gets the directory of the
// NIC's sockets and the environment by which `tapir run` finds it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"tapir/lab/tool/cni"
)

// maxNICs is more than a node has pods.
const maxNICs = 1024

// resourceForm is an extended resource: a domain, a slash, a name.
var resourceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

func main() {
	p := plugin{every: time.Second, log: os.Stderr}
	flag.StringVar(&p.resource, "resource", "tapir.dev/nic", "`name` of the resource that pods ask for")
	flag.IntVar(&p.nics, "nics", 16, "`number` of NICs that the node offers, 1 to 1024")
	flag.StringVar(&p.kubelet, "kubelet", api.DevicePluginPath, "`directory` of the kubelet's sockets")
	flag.StringVar(&p.runDir, "run-dir", cni.DefaultRunDir, "`directory` of sockets, runDir of the CNI plug-in")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		usage("unexpected argument %q", flag.Arg(0))
	case p.nics < 1 || p.nics > maxNICs:
		usage("-nics %d: want 1 to %d", p.nics, maxNICs)
	case !resourceForm.MatchString(p.resource):
		usage("-resource %q: want a domain, a slash and a name, such as tapir.dev/nic", p.resource)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "tapir-device-plugin:", err)
		os.Exit(1)
	}
}

func usage(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "tapir-device-plugin: "+format+"\n", args...)
	os.Exit(2)
}
