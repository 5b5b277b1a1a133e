package mfw

import (
	"cmp"

	"tapir/nic/linkmode"
	"tapir/wire/enum"
)

// The words of a link that the firmware shares with others.
type (
	Speeds  = linkmode.Speeds
	EEECaps = linkmode.EEECaps
	Partner = linkmode.Ability
)

// speeds has, from slow to fast, each speed's other words: its code in the
// link status, and the bits by which the status and the link state tell that
// the partner has it.
var speeds = [...]struct {
	bit     Speeds
	code    uint32
	status  uint32
	partner PartnerSpeeds
}{
	{linkmode.Speed10M, 9, 0x20000, Partner10M},
	{linkmode.Speed100M, 10, 0x80000000, Partner100M},
	{linkmode.Speed1G, 2, 0x200, Partner1GFull},
	{linkmode.Speed10G, 3, 0x800, Partner10G},
	{linkmode.Speed20G, 4, 0x1000, Partner20G},
	{linkmode.Speed25G, 8, 0x10000, Partner25G},
	{linkmode.Speed40G, 5, 0x2000, Partner40G},
	{linkmode.Speed50G, 6, 0x4000, Partner50G},
	{linkmode.Speed100G, 7, 0x8000, Partner100G},
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
