package clab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/topo"
)

// hostTAP is the operating system's side of a NIC. eth0 is containerlab's own.
const hostTAP = "host0"

// node is the container of a node: the commands that start it on the interfaces that
// containerlab has made.
func (x *exporter) node(n *topo.Node) (c node, err error) {
	defer func() {
		for _, line := range c.Exec {
			if strings.Contains(line, "$") { // containerlab takes it for a variable
				err = errors.Join(err, fmt.Errorf("%s: a dollar sign cannot be exported", line))
			}
		}
	}()
	c.Binds = []string{sockets + ":" + sockets}
	switch n.Kind {
	case topo.Host:
		return node{Exec: x.host(n)}, nil
	case topo.NIC:
		argv := append([]string{"nic", "--name", n.Name, "--wire", x.ports(n)[0], "--host-tap", hostTAP}, n.Flags...)
		if x.mtu != 0 && n.NIC.MTU == 0 {
			argv = append(argv, "--mtu="+strconv.Itoa(x.mtu))
		}
		c.Exec = x.start(n, argv)
		c.Exec = append(c.Exec, command("ip", "link", "set", hostTAP, "up"))
		if n.PTP != nil {
			file := n.Name + "-ptp.yaml"
			x.file(&c, file, n.PTP)
			c.Exec = append(c.Exec, background(n.Name+"-ptp", "ptp", "run", n.Name, "-c", settings+"/"+file))
		}
		return c, nil
	}
	verb := map[topo.Kind]string{topo.HFI: "vnic", topo.Manager: "em", topo.Switch: "sw"}[n.Kind]
	text, err := n.ConfigFile(x.ports(n)...)
	if err != nil {
		return c, err
	}
	x.file(&c, n.Name+".yaml", text)
	argv := []string{verb, "-c", settings + "/" + n.Name + ".yaml"}
	if n.Kind == topo.Manager && n.EM.Standby {
		argv = append(argv, "--standby")
	}
	c.Exec = x.start(n, argv)
	return c, nil
}

// file adds a file of settings to the export, and to those that the container gets.
func (x *exporter) file(c *node, name string, text []byte) {
	path := x.Lab.Name + "-files/" + name
	x.files = append(x.files, File{path, text})
	c.Binds = append(c.Binds, path+":"+settings+"/"+name+":ro")
}

// host gives the kernel's interfaces of a host their addresses.
func (x *exporter) host(n *topo.Node) (exec []string) {
	for _, k := range x.linksOf(n.Name) {
		name, addrs := x.iface(n.Name, k), n.IP
		if n.At != nil {
			addrs = n.At[k.Name]
		}
		for _, p := range addrs {
			exec = append(exec, command("ip", "addr", "add", p.String(), "dev", name))
		}
		if x.mtu != 0 {
			exec = append(exec, command("ip", "link", "set", name, "mtu", strconv.Itoa(x.mtu)))
		}
	}
	return exec
}

// ports are the wires of a node: the interfaces that containerlab gives it.
func (x *exporter) ports(n *topo.Node) (all []string) {
	for _, k := range x.linksOf(n.Name) {
		all = append(all, "dev:"+x.iface(n.Name, k))
	}
	return all
}

// start makes the interfaces of a node fit, starts it and waits until it is ready.
func (x *exporter) start(n *topo.Node, argv []string) (exec []string) {
	for _, k := range x.linksOf(n.Name) {
		words := []string{"ip", "link", "set", x.iface(n.Name, k)}
		if mtu := x.mtuOf(n, k); mtu != 0 {
			words = append(words, "mtu", strconv.Itoa(mtu))
		}
		exec = append(exec, command(append(words, "up")...))
	}
	return append(exec, background(n.Name, argv...), command("tapir", "wait", n.Name))
}

// mtuOf is the MTU of a node's interface at a link, as the ends need it; 0: as it is made.
func (x *exporter) mtuOf(n *topo.Node, k *topo.Link) int {
	most := k.MTU
	for _, name := range k.Ends {
		end := x.Lab.Node(name)
		switch {
		case k.Fabric && slices.Contains([]topo.Kind{topo.HFI, topo.Manager}, end.Kind):
			most = max(most, end.FabricMTU())
		case end.Kind == topo.NIC:
			most = max(most, end.NIC.WithDefaults().MTU)
		}
	}
	switch {
	case x.mtu != 0:
		return x.mtu
	case n.Kind == topo.NIC && most == 1500:
		return 0
	}
	return most
}

// background is a command that goes on when the exec that started it has ended. What it
// prints is in a file of the container.
func background(name string, argv ...string) string {
	line := command(append([]string{"setsid", "tapir"}, argv...)...)
	return command("sh", "-c", line+" >/var/log/"+name+".log 2>&1 </dev/null &")
}
