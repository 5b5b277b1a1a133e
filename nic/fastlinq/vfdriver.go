package fastlinq

import (
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
)

// VFDriver is the driver of a VF outside of the NIC, VFSetup how it brings the VF up.
type (
	VFDriver = vfdrv.Driver
	VFSetup  = vfdrv.Setup
)

// Limits of a VF, and the version of the fastpath.
const (
	MaxVFQueues        = iov.MaxQueues
	MinVFMTU, MaxVFMTU = l2.MinMTU, l2.MaxMTU
	VFHSIMajor         = iov.HSIMajor
	VFHSIMinor         = iov.HSIMinor
)

// osUser is the os_type of a driver that is a program.
const osUser = 4

// NewVFDriver returns a driver that wants so many queue pairs and announces a version of
// the fastpath; log is told what it finds out.
func NewVFDriver(ch vfdrv.Channel, major, minor uint8, queues int, log func(string)) *VFDriver {
	return vfdrv.New(ch, vfdrv.Config{HSIMajor: major, HSIMinor: minor, OSType: osUser,
		Want: vfdrv.Pairs(queues), Log: log})
}

// VFBusy tells whether an error is that a VF is being reset: it can be had soon.
func VFBusy(err error) bool { return status.Of(err) == status.Again }
