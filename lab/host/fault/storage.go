package fault

import (
	"encoding/binary"
	"slices"
	"strings"

	"tapir/wire/crc"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/ib"
	"tapir/wire/nvme"
)

// fcoeHead is what stands before a frame of Fibre Channel in octets, fcoeTail what stands behind it: CRC, end of
// frame and reserved octets (FC-BB-6 clause 7.7).
const fcoeHead, fcoeTail = 14, 8

// lookFCoE takes the payload of an Ethernet frame from n on.
func (t *thing) lookFCoE(b []byte, n int) {
	if len(b)-n >= fcoeHead+fc.HeaderLen+fcoeTail {
		t.class, t.at, t.fc = ofFCoE, n, fc.RCtl(b[n+fcoeHead])
	}
}

// lookFIP takes the payload of an Ethernet frame from n on.
func (t *thing) lookFIP(b []byte, n int) {
	if len(b)-n >= fip.HeaderLen {
		t.class, t.at, t.fip = ofFIP, n, fip.Op(binary.BigEndian.Uint16(b[n+2:]))<<8|fip.Op(b[n+5])
	}
}

// storageKinds are frames of FCoE and FIP, and messages of NVMe over RDMA.
func storageKinds() (all []kind) {
	all = append(all, kind{"fcoe", ofFCoE, func(*thing) bool { return true }, "any FCoE frame"})
	for _, k := range []struct {
		what What
		rctl fc.RCtl
		text string
	}{
		{"fc-command", fc.UnsolicitedCmd, "an FCP_CMND"}, {"fc-data", fc.SolicitedData, "an FCP_DATA frame"},
		{"fc-xfer-ready", fc.DataDescriptor, "an FCP_XFER_RDY"}, {"fc-response", fc.CommandStatus, "an FCP_RSP"},
		{"fc-els", fc.ELSRequest, "a request of the extended link services"},
		{"fc-els-reply", fc.ELSReply, "a reply of the extended link services"},
		{"fc-abort", fc.Abort, "an ABTS"}, {"fc-ct", fc.UnsolicitedCtl, "a request to the directory server"},
		{"fc-ct-reply", fc.SolicitedCtl, "a reply of the directory server"},
	} {
		all = append(all, kind{k.what, ofFCoE, func(t *thing) bool { return t.fc == k.rctl }, k.text})
	}
	all = append(all, kind{"fip", ofFIP, func(*thing) bool { return true }, "any FIP frame"})
	for _, k := range []struct {
		what What
		op   fip.Op
		text string
	}{
		{"fip-solicitation", fip.Solicitation, "a FIP Discovery Solicitation"},
		{"fip-advertisement", fip.Advertisement, "a FIP Discovery Advertisement"},
		{"fip-request", fip.Request, "a FIP login or logout request"},
		{"fip-reply", fip.Reply, "the answer to a FIP login or logout"},
		{"fip-keep-alive", fip.KeepAlive, "a FIP Keep Alive"},
		{"fip-clear", fip.ClearLinks, "a FIP Clear Virtual Links"},
		{"fip-vlan-request", fip.VLANRequest, "a FIP VLAN Request"},
		{"fip-vlan-notification", fip.VLANNotify, "a FIP VLAN Notification"},
		{"fip-probe", fip.ProbeRequest, "a FIP N_Port_ID Probe Request"},
		{"fip-probe-reply", fip.ProbeReply, "a FIP N_Port_ID Probe Reply"},
		{"fip-claim", fip.ClaimNotify, "a FIP N_Port_ID Claim Notification"},
		{"fip-claim-response", fip.ClaimReply, "a FIP N_Port_ID Claim Response"},
		{"fip-beacon", fip.Beacon, "a FIP N_Port_ID Beacon"},
	} {
		all = append(all, kind{k.what, ofFIP, func(t *thing) bool { return t.fip == k.op }, k.text})
	}
	return append(all,
		kind{"nvme-command", ofMessage, func(t *thing) bool { return t.sends() && t.dst.Port() == nvme.Port },
			"a command capsule of NVMe, a Send to port 4420"},
		kind{"nvme-completion", ofMessage, func(t *thing) bool { return t.sends() && t.src.Port() == nvme.Port },
			"a completion of NVMe, a Send from port 4420"},
		kind{"roce-nvme-command", ofRoCE, func(t *thing) bool { return t.roce.begins(nvme.SQELen, isCommand) },
			"a command capsule of NVMe, on RoCE"},
		kind{"roce-nvme-completion", ofRoCE, func(t *thing) bool {
			return t.roce.begins(cqeLen, func(b []byte) bool { return len(b) == cqeLen })
		}, "a completion of NVMe, a Send of 16 octets, on RoCE"})
}

const cqeLen = 16

// sends tells of an item of an RDMAP message that it is of a Send.
func (t *thing) sends() bool { return t.item != nil && t.item.opcode.Valid() && t.item.opcode.IsSend() }

// begins tells whether a Send begins in the packet with n octets or more that are good.
func (p *packet) begins(n int, good func([]byte) bool) bool {
	return p.carries(func(_ ib.Opcode, o *ib.Operation) bool {
		return strings.HasPrefix(o.Name, "SEND First") || strings.HasPrefix(o.Name, "SEND Only")
	}) && len(p.Payload) >= n && good(p.Payload)
}

// isCommand tells of the first octets of a Send that they are a command over fabrics: its data pointer is a
// scatter gather list (NVM Express base specification 2.0 section 3.3.3.1).
func isCommand(b []byte) bool { return b[1]&0xc0 == 0x40 }

// fcoeFields are those of FCoE frames (FC-BB-6 clause 7.7, FC-FS-3 section 9).
var fcoeFields = []headerField{
	{"sof", 104, 8}, {"r-ctl", 112, 8}, {"d-id", 120, 24}, {"cs-ctl", 144, 8}, {"s-id", 152, 24}, {"type", 176, 8},
	{"f-ctl", 184, 24}, {"seq-id", 208, 8}, {"df-ctl", 216, 8}, {"seq-cnt", 224, 16}, {"ox-id", 240, 16},
	{"rx-id", 256, 16}, {"parameter", 272, 32}, {payloadField, 8 * (fcoeHead + fc.HeaderLen), 0},
	{fcCRCField, -8 * fcoeTail, 32}, {"eof", -32, 8},
}

const fcCRCField = "crc"

// fipFields are those of FIP frames (FC-BB-6 clause 7.9.2), and then those of descriptors.
var fipFields = []headerField{
	{"version", 0, 4}, {"operation", 16, 16}, {"subcode", 40, 8}, {"length", 48, 16}, {"fp", 64, 1}, {"sp", 65, 1},
	{"available", 77, 1}, {"solicited", 78, 1}, {"f", 79, 1}, {"descriptors", 8 * fip.HeaderLen, 0},
	{"priority", 24, 8}, {"mac", 16, 48}, {"fc-map", 40, 24}, {"name", 32, 64}, {"fabric-id", 16, 16},
	{"fabric-name", 64, 64}, {"max-size", 16, 16}, {"vn-mac", 16, 48}, {"vn-id", 72, 24}, {"vn-name", 96, 64},
	{"period", 32, 32}, {"vlan", 20, 12}, {"flogi", 32, 0}, {"fdisc", 32, 0}, {"logo", 32, 0},
}

// descriptorOf is the descriptor that a field of FIP lies in, and counts from.
var descriptorOf = map[string]fip.Kind{
	"priority": fip.Priority, "mac": fip.MAC, "fc-map": fip.FCMap, "name": fip.Name, "fabric-id": fip.Fabric,
	"fabric-name": fip.Fabric, "max-size": fip.MaxSize, "vn-mac": fip.VNPort, "vn-id": fip.VNPort,
	"vn-name": fip.VNPort, "period": fip.Period, "vlan": fip.VLAN, "flogi": fip.FLOGI, "fdisc": fip.FDISC,
	"logo": fip.LOGO,
}

// descriptor is where in a FIP frame at at the first descriptor of a kind lies; false: there is none.
func descriptor(b []byte, at int, k fip.Kind) (from, to int, ok bool) {
	end := min(len(b), at+fip.HeaderLen+4*int(binary.BigEndian.Uint16(b[at+6:])))
	for from = at + fip.HeaderLen; from+2 <= end; from = to {
		if to = from + 4*int(b[from+1]); to == from || to > end {
			return 0, 0, false
		}
		if fip.Kind(b[from]) == k {
			return from, to, true
		}
	}
	return 0, 0, false
}

// extent is where in the frame in hand the bits of field f are counted from, and where the octets end that it may
// lie in; false if the frame has no such field.
func (j *judgement) extent(k *kind, f *headerField) (from, end int, ok bool) {
	t, end := j.t, len(j.frame)
	switch {
	case k.class == ofFIP && descriptorOf[f.name] != 0:
		return descriptor(j.frame, t.at, descriptorOf[f.name])
	case k.class == ofFIP:
		return t.at, min(end, t.at+fip.HeaderLen+4*int(binary.BigEndian.Uint16(j.frame[t.at+6:]))), true
	}
	return t.at, end, true
}

// nvmeFields are those of command capsules and completions (NVM Express base specification 2.0, figures 86 and 90),
// octets from the beginning of the FPDU. They are little-endian.
var nvmeFields = map[bool][]field{
	false: {
		{"opcode", untaggedAt, 1, begins}, {"flags", untaggedAt + 1, 1, begins}, {"cid", untaggedAt + 2, 2, begins},
		{"nsid", untaggedAt + 4, 4, begins}, {"sgl-address", untaggedAt + 24, 8, begins},
		{"sgl-length", untaggedAt + 32, 3, begins}, {"sgl-key", untaggedAt + 35, 4, begins},
		{"sgl-type", untaggedAt + 39, 1, begins}, {"slba", untaggedAt + 40, 8, begins},
		{"nlb", untaggedAt + 48, 2, begins}, {"data", untaggedAt + nvme.SQELen, 0, begins},
	},
	true: {
		{"result", untaggedAt, 8, begins}, {"sq-head", untaggedAt + 8, 2, begins},
		{"sq-id", untaggedAt + 10, 2, begins}, {"cid", untaggedAt + 12, 2, begins},
		{"status", untaggedAt + 14, 2, begins},
	},
}

func begins(i *item) bool { return i.segment == 1 }

// isNVMe tells whether things of that kind are NVMe's.
func (k *kind) isNVMe() bool { return strings.Contains(string(k.what), "nvme-") }

// fieldsOfNVMe are those of a kind of NVMe, none of others.
func fieldsOfNVMe(k *kind) []field {
	if !k.isNVMe() {
		return nil
	}
	return nvmeFields[strings.HasSuffix(string(k.what), "completion")]
}

// placeNVMe is what a rule flips in the RoCE packet in hand; false if it has no such field.
func (r *rule) placeNVMe(p *packet, f *field) (octet int, mask byte, ok bool) {
	at, size, whole := p.bth+p.HeaderLen()+f.at-untaggedAt, f.size, f.size > 0
	if !whole {
		size = len(p.Payload) - (f.at - untaggedAt)
	}
	octet, mask, ok = r.pick(at, size, whole, r.rng.IntN)
	return f.little(at, octet, r.AnyOctet), mask, ok
}

// little turns an octet that was chosen by its significance, which begins at at, to where it lies in a little-endian
// field.
func (f *field) little(at, octet int, bySignificance bool) int {
	if f.size == 0 || !bySignificance {
		return octet
	}
	return at + f.size - 1 - (octet - at)
}

// nvmeField is the field of that name of a kind of NVMe, nil if it has none.
func nvmeField(k *kind, name string) *field {
	all := fieldsOfNVMe(k)
	if i := slices.IndexFunc(all, func(f field) bool { return f.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// mendFC makes the CRC right of the FCoE frame in b that begins at at.
func mendFC(b []byte, at int) {
	end := len(b) - fcoeTail
	binary.LittleEndian.PutUint32(b[end:], crc.IEEE(0, b[at+fcoeHead:end]))
}
