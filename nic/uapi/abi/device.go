package abi

import (
	"fmt"

	"tapir/nic/verbs"
)

// Bits of ibv_device_cap_flags.
const (
	capResizeMaxWR  = 1 << 0
	capBadPKey      = 1 << 1
	capBadQKey      = 1 << 2
	capPathMig      = 1 << 4
	capShutdownPort = 1 << 8
	capPortActive   = 1 << 10
	capSystemGUID   = 1 << 11
	capRNRNak       = 1 << 12
	capSRQResize    = 1 << 13
	capMemWindow    = 1 << 17
	capMemMgtExt    = 1 << 21
	capMemWindow2B  = 1 << 24
)

// CapFlags translates what the device says of itself into ibv_device_cap_flags.
func CapFlags(c verbs.Caps) (flags uint32) {
	for _, f := range []struct {
		have verbs.Caps
		flag uint32
	}{
		{verbs.CapResizeMaxWR, capResizeMaxWR}, {verbs.CapAutoPathMigration, capPathMig},
		{verbs.CapShutdownPort, capShutdownPort}, {verbs.CapPortActiveEvent, capPortActive},
		{verbs.CapSystemImageGUID, capSystemGUID}, {verbs.CapBadPKeyCounter, capBadPKey | capBadQKey},
		{verbs.CapRNRNak, capRNRNak},
		{verbs.CapBaseQueueExt, capSRQResize}, {verbs.CapBaseMemoryExt, capMemWindow | capMemMgtExt | capMemWindow2B},
	} {
		if c&f.have != 0 {
			flags |= f.flag
		}
	}
	return flags
}

// firmware packs "1.2.3" as the rxe provider unpacks it.
func firmware(version string) uint64 {
	var major, minor, sub uint16
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &sub) // what is no number stays 0
	return uint64(major)<<32 | uint64(minor)<<16 | uint64(sub)
}

const (
	atomicHCA = 1 // IB_ATOMIC_HCA: atomic among what the NIC does
	// mostReads is as many Reads at a time as a program can ask for: what
	// MODIFY_QP and the connection manager's commands carry is an octet, and
	// librdmacm keeps no more of what QUERY_DEVICE says.
	mostReads = 255
)

// DeviceAttrOf is what a device says of itself.
func DeviceAttrOf(a *verbs.DeviceAttr) DeviceAttr {
	atomics := uint32(0)
	if a.Caps&verbs.CapAtomics != 0 {
		atomics = atomicHCA
	}
	return DeviceAttr{
		Firmware: firmware(a.Firmware), NodeGUID: a.GUID, SystemImageGUID: a.SystemImageGUID,
		MaxMRSize: a.MaxMRSize, PageSizes: a.PageSizes,
		VendorID: a.VendorID, VendorPartID: a.VendorPartID, HWVersion: a.HWVersion,
		MaxQP: uint32(a.MaxQP), MaxQPWR: uint32(a.MaxQPWR), Caps: CapFlags(a.Caps),
		MaxSGE: uint32(a.MaxSGE), MaxSGERead: uint32(a.MaxSGERead),
		MaxCQ: uint32(a.MaxCQ), MaxCQE: uint32(a.MaxCQE), MaxMR: uint32(a.MaxMR), MaxPD: uint32(a.MaxPD),
		MaxIRD: uint32(min(a.MaxIRD, mostReads)), MaxDeviceIRD: uint32(a.MaxDeviceIRD),
		MaxORD: uint32(min(a.MaxORD, mostReads)), Atomics: atomics,
		MaxRDD: uint32(a.MaxRDD), MaxMW: uint32(a.MaxMW), MaxMcastGroups: uint32(a.MaxMcastGroups),
		MaxMcastQPs: uint32(a.MaxMcastQPs), MaxMcastTotal: uint32(a.MaxMcastGroups * a.MaxMcastQPs),
		MaxAH: uint32(a.MaxAH), MaxSRQ: uint32(a.MaxSRQ), MaxSRQWR: uint32(a.MaxSRQWR), MaxSRQSGE: uint32(a.MaxSGE),
		MaxPKeys: uint16(a.MaxPKeys), AckDelay: a.AckDelay, Ports: uint8(a.Ports),
	}
}
