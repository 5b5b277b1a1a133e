package sriov

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap/mirror"
)

// Where the kernel has devices, and netdevs such as the host TAP of a PF.
const (
	busDir     = "/sys/bus/pci/devices/"
	classDir   = "/sys/class/net/"
	virtualDir = "/sys/devices/virtual/net/"
)

// Files is a trap.Handler that shows programs the devices of PFs and of their VFs. The
// list of all devices in /sys/bus/pci/devices stays the kernel's.
type Files struct {
	*mirror.Mirror
	pfs []PF

	mu    sync.Mutex
	shown [][]string // netdevs of the VFs of each PF
}

// NewFiles makes the files of these PFs. Close removes them; those of a process that was
// killed are removed by the next one's NewFiles.
func NewFiles(pfs ...PF) (*Files, error) {
	m, err := mirror.Make("tapir-sriov-")
	if err != nil {
		return nil, err
	}
	f := &Files{Mirror: m, pfs: pfs, shown: make([][]string, len(pfs))}
	for i := range pfs {
		if err := f.add(&pfs[i]); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	m.Before = f.refresh
	f.refresh()
	return f, nil
}

// dir is the directory of the bus of a PF.
func (p *PF) dir() string { return fmt.Sprintf("/sys/devices/pci%04x:%02x", domain, p.Bus) }

// add shows a PF.
func (f *Files) add(p *PF) error {
	c, err := p.Capability()
	if err != nil {
		return err
	}
	own := p.dir() + "/" + p.address(0)
	for _, netdev := range []string{classDir, virtualDir} {
		if err := f.link(netdev+p.Netdev+"/device", "../../.."+strings.Repeat("/..", strings.Count(netdev, "/")-4)+
			strings.TrimPrefix(own, "/sys")); err != nil {
			return err
		}
		f.Show(netdev + p.Netdev + "/device")
	}
	f.Show(p.dir())
	if err := f.device(p, &c, 0, c.PF, p.Netdev); err != nil {
		return err
	}
	if err := errors.Join(f.text(own+"/sriov_totalvfs", c.Total), f.text(own+"/sriov_offset", c.Offset),
		f.text(own+"/sriov_stride", c.Stride), f.text(own+"/sriov_vf_device", fmt.Sprintf("%x", c.VF)),
		f.text(own+"/sriov_drivers_autoprobe", 1), f.text(own+"/sriov_numvfs", 0),
		os.Chmod(f.Root()+own+"/sriov_numvfs", 0o644)); err != nil {
		return err
	}
	f.TakeOrRefuse(own+"/sriov_numvfs", func(text []byte) error {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 0, 16)
		if err != nil {
			return unix.EINVAL
		}
		defer f.refresh()
		return p.SetNumVFs(int(n))
	})
	return nil
}

// device makes the directory of a function of the bus, with its netdev.
func (f *Files) device(p *PF, c *Capability, id int, number uint16, netdev string) error {
	at := p.address(id)
	own := p.dir() + "/" + at
	err := errors.Join(f.text(own+"/vendor", fmt.Sprintf("0x%04x", c.Vendor)),
		f.text(own+"/device", fmt.Sprintf("0x%04x", number)), f.text(own+"/class", "0x020000"),
		f.link(busDir+at, "../../.."+strings.TrimPrefix(own, "/sys")))
	err = errors.Join(err, f.netdev(own, netdev))
	f.Show(busDir + at)
	return err
}

// netdev shows the netdev of a device; empty: it is in another namespace.
func (f *Files) netdev(device, name string) error {
	if name == "" {
		return nil
	}
	return os.MkdirAll(f.Root()+device+"/net/"+name, 0o755)
}

// refresh brings the files up to date with the NICs.
func (f *Files) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.pfs {
		p := &f.pfs[i]
		c, err := p.Capability()
		if err != nil {
			continue // it is gone
		}
		own := p.dir() + "/" + p.address(0)
		for n := len(f.shown[i]); n < len(c.Netdevs); n++ {
			id := int(c.Offset) + n*int(c.Stride)
			if err := errors.Join(f.device(p, &c, id, c.VF, c.Netdevs[n]),
				f.link(p.dir()+"/"+p.address(id)+"/physfn", "../"+p.address(0)),
				f.link(fmt.Sprintf("%s/virtfn%d", own, n), "../"+p.address(id))); err != nil {
				return // the file system is full
			}
			f.shown[i] = append(f.shown[i], c.Netdevs[n])
		}
		for n, was := range f.shown[i] {
			at := p.vf(&c, n)
			if dir := p.dir() + "/" + at; n >= len(c.Netdevs) {
				_ = errors.Join(os.Remove(fmt.Sprintf("%s%s/virtfn%d", f.Root(), own, n)),
					os.Remove(f.Root()+busDir+at), os.RemoveAll(f.Root()+dir)) // files of our own
			} else if is := c.Netdevs[n]; is != was {
				_ = errors.Join(os.RemoveAll(f.Root()+dir+"/net"), f.netdev(dir, is)) // likewise
				f.shown[i][n] = is
			}
		}
		f.shown[i] = f.shown[i][:len(c.Netdevs)]
		_ = f.text(own+"/sriov_numvfs", len(f.shown[i]))
	}
}

// text makes a file of one line.
func (f *Files) text(path string, line any) error {
	if err := os.MkdirAll(filepath.Dir(f.Root()+path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(f.Root()+path, fmt.Appendln(nil, line), 0o444)
}

// link makes a symbolic link.
func (f *Files) link(path, to string) error {
	if err := os.MkdirAll(filepath.Dir(f.Root()+path), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(to, f.Root()+path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
