package sysfs

import "fmt"

// HFI is an Omni-Path host fabric interface: a device of InfiniBand with management
// datagrams, of which verbs tell what it is and no more.
type HFI struct {
	Index int // N of hfi1_N
	File  int // N of umadN and uverbsN
	// Attr is called from any goroutine when a program opens a file; its errors are
	// errnos.
	Attr func() (HFIAttr, error)
}

// HFIAttr is what an HFI's files say.
type HFIAttr struct {
	GUID       uint64
	Name       string
	LID, SMLID uint32
	SMSL       uint8
	State      uint8    // as the kernel numbers it: 4 is active
	PKeys      []uint16 // the first entries of the table
}

// rvtABI is the version of the interface of rdmavt, of which the hfi1 driver is one.
const rvtABI = 2

// modalias is the PCI device by which libibverbs finds the provider of HFIs.
const modalias = "pci:v00008086d000024F0sv00008086sd000024F0bc02sc08i00"

// HFIPKeys is the number of entries of an HFI's P_Key table that are shown.
const HFIPKeys = 16

// Name is the device's name.
func (d *HFI) Name() string { return fmt.Sprintf("hfi1_%d", d.Index) }

// Of a port without link: polling.
const (
	physPolling = 2
	physLinkUp  = 5
	stateDown   = 1
)

// HFIPhys is the physical state of a port in this logical one.
func HFIPhys(state uint8) uint8 {
	if state == stateDown {
		return physPolling
	}
	return physLinkUp
}

func (b *builder) hfi(d *HFI) {
	b.files(fmt.Sprintf("%s/umad%d/", madDir, d.File), [][2]any{{"ibdev", d.Name()}, {"port", 1},
		{"dev", number(UMADNumber(d.File))}})
	b.files(fmt.Sprintf("%s/uverbs%d/", verbsDir, d.File), [][2]any{{"ibdev", d.Name()},
		{"dev", number(UVerbsNumber(d.File))}, {"abi_version", rvtABI}})
	b.files("", [][2]any{{UMAD(d.File), ""}, {UVerbs(d.File), ""}})
	dir := classDir + "/" + d.Name() + "/"
	b.files(dir, [][2]any{{"node_type", "1: CA"}, {"hca_type", "HFI"}, {"device/modalias", modalias},
		{"hw_rev", 0}, {"fw_ver", "1.0"}, {"board_id", "Tapir HFI"},
		{"ports/1/lid_mask_count", 0}, {"ports/1/cap_mask", "0x00004000"}, // extended speeds
		{"ports/1/rate", "100 Gb/sec (4X EDR)"}, {"ports/1/link_layer", "InfiniBand"}})
	attr := func(path string, line func(a *HFIAttr) string) {
		b.live(dir+path, func() (string, error) {
			a, err := d.Attr()
			if err != nil {
				return "", err
			}
			return line(&a) + "\n", nil
		})
	}
	guid := func(a *HFIAttr) string {
		g := a.GUID
		return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
	}
	attr("node_guid", guid)
	attr("sys_image_guid", guid)
	attr("node_desc", func(a *HFIAttr) string { return a.Name })
	attr("ports/1/lid", func(a *HFIAttr) string { return fmt.Sprintf("0x%x", a.LID) })
	attr("ports/1/sm_lid", func(a *HFIAttr) string { return fmt.Sprintf("0x%x", a.SMLID) })
	attr("ports/1/sm_sl", func(a *HFIAttr) string { return fmt.Sprint(a.SMSL) })
	attr("ports/1/state", func(a *HFIAttr) string { return numberName(portStates, a.State) })
	attr("ports/1/phys_state", func(a *HFIAttr) string {
		return numberName(physStates, HFIPhys(a.State))
	})
	attr("ports/1/gids/0", func(a *HFIAttr) string { return "fe80:0000:0000:0000:" + guid(a) })
	for i := range HFIPKeys {
		attr(fmt.Sprintf("ports/1/pkeys/%d", i), func(a *HFIAttr) string {
			if i < len(a.PKeys) {
				return fmt.Sprintf("0x%04x", a.PKeys[i])
			}
			return "0x0000"
		})
	}
}

// numberName is the line of a state by its number.
func numberName(states []stateName, n uint8) string {
	for _, s := range states {
		if s.number == int(n) {
			return fmt.Sprintf("%d: %s", n, s.written)
		}
	}
	return "0: NOP"
}
