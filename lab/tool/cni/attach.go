package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
)

const (
	// startWithin bounds the start of a NIC, endWithin its end.
	startWithin = 20 * time.Second
	endWithin   = 15 * time.Second
)

// sockets is the directory of the NIC's control socket: tapir(1) finds it there with
// XDG_RUNTIME_DIR set to a.dir.
func (a *attachment) sockets() string { return filepath.Join(a.dir, "tapir") }

// running is a connection to the pod's NIC, nil if none answers.
func (a *attachment) running() *ctl.Client {
	c, err := ctl.DialIn(a.sockets(), a.IfName)
	if err != nil {
		return nil
	}
	return c
}

// attach makes the links and the NIC, and completes the result.
func (a *attachment) attach(program string, result *current.Result) error {
	ns, err := netns.Open(a.Netns)
	if err != nil {
		return fmt.Errorf("CNI_NETNS: %w", err)
	}
	defer ns.Close()
	pod, err := link.In(ns)
	if err != nil {
		return err
	}
	defer pod.Close()
	mtu, vnet := a.wire()
	if err := errors.Join(a.joinHost(pod, mtu), a.joinPod(pod, mtu, vnet)); err != nil {
		return err
	}
	if err := a.start(ns, program, result); err != nil {
		return err
	}
	if err := pod.Up(a.IfName); err != nil {
		return err
	}
	for _, r := range result.Routes {
		dst, _ := prefix(r.Dst)
		via, _ := netip.AddrFromSlice(r.GW)
		if err := pod.AddRoute(a.IfName, dst, via.Unmap()); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	result.Interfaces = []*current.Interface{
		{Name: a.hostVeth(), Mtu: mtu},
		{Name: a.IfName, Mac: a.mac().String(), Mtu: mtu, Sandbox: a.Netns},
	}
	for _, ip := range result.IPs {
		ip.Interface = current.Int(1)
	}
	return nil
}

// joinHost makes the veth pair, and its end here a port of the bridge.
func (a *attachment) joinHost(pod *link.Net, mtu int) error {
	here, err := netns.Current()
	if err != nil {
		return err
	}
	defer here.Close()
	host, err := link.In(here)
	if err != nil {
		return err
	}
	defer host.Close()
	if !host.Exists(a.Bridge) {
		if err := host.AddBridge(a.Bridge); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return inOrder(
		func() error { return host.AddVeth(a.hostVeth(), pod, a.IfName+vethSuffix) },
		func() error { return host.SetMTU(a.hostVeth(), mtu) },
		func() error { return host.Join(a.hostVeth(), a.Bridge) },
		func() error { return host.Up(a.hostVeth()) })
}

// joinPod makes the wire TAP, and joins it with the veth.
func (a *attachment) joinPod(pod *link.Net, mtu int, vnet bool) error {
	bridge := a.IfName + bridgeSuffix
	steps := []func() error{
		func() error { return pod.AddBridge(bridge) },
		func() error { return pod.AddTAP(a.IfName+wireSuffix, vnet) },
	}
	for _, port := range []string{a.IfName + vethSuffix, a.IfName + wireSuffix} {
		steps = append(steps,
			func() error { return pod.SetMTU(port, mtu) },
			func() error { return pod.Join(port, bridge) },
			func() error { return pod.Up(port) })
	}
	return inOrder(steps...)
}

func inOrder(steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// start runs the NIC in the pod's namespace, apart from this process, and waits until it
// answers.
func (a *attachment) start(ns *netns.NS, program string, result *current.Result) error {
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(a.dir, "nic.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	argv := []string{"nic", "--name", a.IfName, "--tap", a.IfName + wireSuffix, "--host-tap", a.IfName,
		"--mac", a.mac().String()}
	for _, ip := range result.IPs {
		p, err := prefix(ip.Address)
		if err != nil {
			return err
		}
		flag := "--ip"
		if p.Addr().Is6() {
			flag = "--ip6"
		}
		argv = append(argv, flag, p.String())
		if via, ok := netip.AddrFromSlice(ip.Gateway); ok {
			argv = append(argv, "--gw", via.Unmap().String())
		}
	}
	settings, err := a.settings()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append(argv, settings...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+a.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := ns.Start(cmd); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	err = process.Until(ctx, func() (bool, error) {
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			return false, fmt.Errorf("the NIC has ended: %v: %s", err, bytes.TrimSpace(said))
		default:
		}
		c := a.running()
		if c != nil {
			c.Close()
		}
		return c != nil, nil
	})
	if err != nil && ctx.Err() != nil {
		_ = cmd.Process.Kill() // it did not answer
		<-ended
	}
	return err
}

// detach ends the NIC and removes what attach has made; what is not there is no error.
func (a *attachment) detach() (err error) {
	if c := a.running(); c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		pid, perr := c.PID(ctx)
		err = errors.Join(perr, c.Stop(ctx))
		c.Close()
		if err == nil {
			err = process.Until(ctx, func() (bool, error) {
				return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid), nil
			})
		}
		if err != nil && pid > 0 {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	here, herr := netns.Current()
	if herr != nil {
		return errors.Join(err, herr)
	}
	defer here.Close()
	err = errors.Join(err, remove(here, a.hostVeth()))
	if ns, nerr := netns.Open(a.Netns); nerr == nil {
		defer ns.Close()
		err = errors.Join(err, remove(ns, a.IfName+wireSuffix, a.IfName+bridgeSuffix, a.IfName+vethSuffix))
	}
	return errors.Join(err, os.RemoveAll(a.dir))
}

// zombie tells whether a process has ended, but its parent has not noticed.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && bytes.HasPrefix(state, []byte("Z"))
}

// remove removes the interfaces that are there.
func remove(ns *netns.NS, names ...string) (err error) {
	n, err := link.In(ns)
	if err != nil {
		return err
	}
	defer n.Close()
	for _, name := range names {
		if n.Exists(name) {
			if derr := n.Delete(name); n.Exists(name) { // a peer may have taken it along
				err = errors.Join(err, derr)
			}
		}
	}
	return err
}

// holds tells whether the pod's interface has the addresses of the result.
func (a *attachment) holds(result *current.Result) error {
	ns, err := netns.Open(a.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	pod, err := link.In(ns)
	if err != nil {
		return err
	}
	defer pod.Close()
	have, err := pod.Addrs(a.IfName)
	if err != nil {
		return err
	}
	for _, ip := range result.IPs {
		if ip.Interface == nil || *ip.Interface >= len(result.Interfaces) ||
			result.Interfaces[*ip.Interface].Name != a.IfName {
			continue // another plug-in's
		}
		if p, err := prefix(ip.Address); err != nil || !slices.Contains(have, p) {
			return fmt.Errorf("%s lacks the address %s", a.IfName, ip.Address.String())
		}
	}
	return nil
}

// prefix is a network address with its host part.
func prefix(n net.IPNet) (netip.Prefix, error) {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}, fmt.Errorf("%v is no address", n)
	}
	return netip.PrefixFrom(addr.Unmap(), ones), nil
}

// ipam calls the IPAM plug-in with this call's configuration, and keeps what it prints in
// out, unless that is nil. Without one it does nothing.
func (a *attachment) ipam(verb string, out *[]byte) error {
	if a.IPAM.Type == "" {
		return nil
	}
	fail := func(why string) error { return types.NewError(codeFailed, "ipam "+a.IPAM.Type, why) }
	if a.IPAM.Type != filepath.Base(a.IPAM.Type) {
		return fail("its type is no name of a program")
	}
	for _, dir := range filepath.SplitList(a.Path) {
		program := filepath.Join(dir, a.IPAM.Type)
		if fi, err := os.Stat(program); err != nil || fi.IsDir() {
			continue
		}
		cmd := exec.Command(program)
		var said, wrong bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(a.StdinData), &said, &wrong
		cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb)
		if err := cmd.Run(); err != nil {
			why := strings.Join(strings.Fields(said.String()+" "+wrong.String()), " ")
			return fail(fmt.Sprintf("%s: %v: %s", verb, err, why))
		}
		if out != nil {
			*out = said.Bytes()
		}
		return nil
	}
	return fail("not found in CNI_PATH " + a.Path)
}
