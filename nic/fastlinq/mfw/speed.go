package mfw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tapir/wire/enum"
)

// Speeds is a set of link speeds, as drivers advertise and boards have them.
type Speeds uint32

// The speeds.
const (
	Speed1G Speeds = 1 << iota
	Speed10G
	Speed20G
	Speed25G
	Speed40G
	Speed50G
	Speed100G
	// Twisted pairs alone have the two slowest.
	Speed10M
	Speed100M
	AllSpeeds    Speeds = 1<<iota - 1
	ModuleSpeeds        = AllSpeeds &^ (Speed10M | Speed100M)
)

// speeds has, from slow to fast, each speed's other words: its code in the
// link status, and the bits by which the status and the link state tell that
// the partner has it.
var speeds = [...]struct {
	bit     Speeds
	mbps    uint32
	code    uint32
	status  uint32
	partner PartnerSpeeds
}{
	{Speed10M, 10, 9, 0x20000, Partner10M},
	{Speed100M, 100, 10, 0x80000000, Partner100M},
	{Speed1G, 1000, 2, 0x200, Partner1GFull},
	{Speed10G, 10000, 3, 0x800, Partner10G},
	{Speed20G, 20000, 4, 0x1000, Partner20G},
	{Speed25G, 25000, 8, 0x10000, Partner25G},
	{Speed40G, 40000, 5, 0x2000, Partner40G},
	{Speed50G, 50000, 6, 0x4000, Partner50G},
	{Speed100G, 100000, 7, 0x8000, Partner100G},
}

// PartnerSpeeds is the set of speeds that the link partner advertises, as the
// link state has it.
type PartnerSpeeds uint32

// The partner's speeds.
const (
	Partner1GHalf PartnerSpeeds = 1 << iota
	Partner1GFull
	Partner10G
	Partner20G
	Partner25G
	Partner40G
	Partner50G
	Partner100G
	Partner10M
	Partner100M
)

// Mbps is the speed in Mb/s, of a set the fastest; 0 for none.
func (s Speeds) Mbps() uint32 {
	for _, e := range slices.Backward(speeds[:]) {
		if s&e.bit != 0 {
			return e.mbps
		}
	}
	return 0
}

// SpeedOf is the speed of so many Mb/s; 0 if there is none.
func SpeedOf(mbps uint32) Speeds {
	for _, e := range speeds {
		if e.mbps == mbps {
			return e.bit
		}
	}
	return 0
}

// String lists the speeds: "1G,25G".
func (s Speeds) String() string {
	var names []string
	for _, e := range speeds {
		switch {
		case s&e.bit == 0:
		case e.mbps < 1000:
			names = append(names, fmt.Sprintf("%dM", e.mbps))
		default:
			names = append(names, fmt.Sprintf("%dG", e.mbps/1000))
		}
	}
	return cmp.Or(strings.Join(names, ","), "none")
}

// Media is what the port is made of.
type Media uint32

// The media types.
const (
	MediaUnspecified Media = 0x0
	MediaSFPP10G     Media = 0x1
	MediaXFP         Media = 0x2
	MediaDAC         Media = 0x3
	MediaBaseT       Media = 0x4
	MediaSFP1G       Media = 0x5
	MediaModule      Media = 0x6
	MediaKR          Media = 0xf0
	MediaNotPresent  Media = 0xff
)

var mediaNames = map[Media]string{MediaSFPP10G: "SFPP_10G_FIBER", MediaXFP: "XFP_FIBER", MediaDAC: "DA_TWINAX",
	MediaBaseT: "BASE_T", MediaSFP1G: "SFP_1G_FIBER", MediaModule: "MODULE_FIBER", MediaKR: "KR",
	MediaNotPresent: "NOT_PRESENT"}

func (m Media) String() string { return cmp.Or(mediaNames[m], "UNSPECIFIED") }

// Loopback is where a port turns its frames back.
type Loopback uint32

// The loopback modes; those from LoopbackCNIG0123 on are of the second chip.
const (
	LoopbackNone Loopback = iota
	LoopbackInternalPHY
	LoopbackExternalPHY
	LoopbackExternal
	LoopbackMAC
	LoopbackCNIG0123
	LoopbackCNIG2301
	LoopbackPCS
	LoopbackReverseMAC
	LoopbackInternalPHYFEA
	endLoopback
)

func (l Loopback) String() string {
	return enum.Name([]string{"none", "int_phy", "ext_phy", "ext",
		"mac", "cnig_0123", "cnig_2301", "pcs", "reverse_mac", "int_phy_fea"}, l, "unknown")
}

// Speeds are those that the partner has in full duplex.
func (s PartnerSpeeds) Speeds() (set Speeds) {
	for _, e := range speeds {
		if s&e.partner != 0 {
			set |= e.bit
		}
	}
	return set
}

// String lists the partner's speeds.
func (s PartnerSpeeds) String() string {
	if s&Partner1GHalf != 0 {
		return "1G half," + s.Speeds().String()
	}
	return s.Speeds().String()
}
