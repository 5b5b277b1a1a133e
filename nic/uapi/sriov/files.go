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

	"tapir/nic/uapi/rundir"
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
	remove func()
	pfs    []PF

	mu    sync.Mutex
	shown []int // VFs of each PF
}

// NewFiles makes the files of these PFs. Close removes them; those of a process that was
// killed are removed by the next one's NewFiles.
func NewFiles(pfs ...PF) (*Files, error) {
	dir, remove, err := rundir.Make("tapir-sriov-", "/dev/shm", os.TempDir()) // memory first
	if err != nil {
		return nil, err
	}
	m, err := mirror.New(dir)
	if err != nil {
		remove()
		return nil, err
	}
	f := &Files{Mirror: m, remove: remove, pfs: pfs, shown: make([]int, len(pfs))}
	for i := range pfs {
		if err := f.add(&pfs[i]); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	m.Before = f.refresh
	f.refresh()
	return f, nil
}

// Close removes the files.
func (f *Files) Close() error {
	err := f.Mirror.Close()
	f.remove()
	return err
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
	if netdev != "" {
		err = errors.Join(err, os.MkdirAll(f.Root()+own+"/net/"+netdev, 0o755))
	}
	f.Show(busDir + at)
	return err
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
		for ; f.shown[i] < len(c.Netdevs); f.shown[i]++ {
			n := f.shown[i]
			id := int(c.Offset) + n*int(c.Stride)
			if err := errors.Join(f.device(p, &c, id, c.VF, c.Netdevs[n]),
				f.link(p.dir()+"/"+p.address(id)+"/physfn", "../"+p.address(0)),
				f.link(fmt.Sprintf("%s/virtfn%d", own, n), "../"+p.address(id))); err != nil {
				return // the file system is full
			}
		}
		for ; f.shown[i] > len(c.Netdevs); f.shown[i]-- {
			n := f.shown[i] - 1
			at := p.vf(&c, n)
			_ = errors.Join(os.Remove(fmt.Sprintf("%s%s/virtfn%d", f.Root(), own, n)), os.Remove(f.Root()+busDir+at),
				os.RemoveAll(f.Root()+p.dir()+"/"+at)) // files of our own
		}
		_ = f.text(own+"/sriov_numvfs", f.shown[i])
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
