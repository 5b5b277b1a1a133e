package fastlinq

import (
	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/mfw/nvm"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hostfn"
)

// Kinds of packets that RSS spreads, and the sizes of its key and table.
const (
	HashIPv4    = l2.HashIPv4
	HashIPv6    = l2.HashIPv6
	HashIPv4TCP = l2.HashIPv4TCP
	HashIPv6TCP = l2.HashIPv6TCP
	HashIPv4UDP = l2.HashIPv4UDP
	HashIPv6UDP = l2.HashIPv6UDP
	KeyLen      = l2.KeyLen
	TableLen    = l2.TableLen
)

// RxRegular is the receive mode with filters.
const RxRegular = settings.RxRegular

// Sources of storm firmware.
const (
	LoadDriver = settings.LoadDriver // the one that is built in
	LoadDisk   = settings.LoadDisk   // Firmware.File
)

// NVMType is the type of an image in the flash.
type NVMType = nvm.Type

// Types of images that files are written into.
const (
	NVMTypeMFW    = nvm.TypeMFW
	NVMTypeMBI    = nvm.TypeMBI
	NVMTypeInitHW = nvm.TypeInitHW
)

// ParseLL2Dest reads the name of a destination of light L2.
func ParseLL2Dest(s string) (ll2.Dest, error) { return ll2.ParseDest(s) }

// ParseRule reads a rule in the words of ethtool -N, its location first: 0 tcp4
// dst-port 80 action 1.
func ParseRule(s string) (hostfn.Rule, error) { return settings.ParseRule(s) }

// FormatRule is a rule as ParseRule reads it.
func FormatRule(r hostfn.Rule) string { return settings.FormatRule(r) }

// StormFirmware is a file of storm firmware, StormForm its form.
type (
	StormFirmware = fw.Image
	StormForm     = fw.Form
)

// Storm is the firmware that the driver wants, ZippedBinary the form of files for
// drivers.
var Storm = fw.Wanted

// ZippedBinary is the form of the files that drivers load.
const ZippedBinary = fw.ZippedBinary

// BuiltinStorm is the firmware that is built in.
func BuiltinStorm() *StormFirmware { return fw.Builtin() }

// DecodeStorm reads firmware of any form.
func DecodeStorm(b []byte) (*StormFirmware, error) { return fw.Decode(b) }

// CheckStorm tells whether the chip can run the firmware.
func CheckStorm(im *StormFirmware) error { return im.Check(fw.AH) }

// ParseStormForm reads the name of a form, StormForms lists them.
func ParseStormForm(s string) (StormForm, error) { return fw.ParseForm(s) }

// StormForms lists the names of the forms.
func StormForms() []string { return fw.FormNames() }

// StormFile is the name of the file that drivers look for.
func StormFile(f StormForm) string { return fw.FileName(fw.Wanted, f) }

// EngineOf is the engine that has a queue of the host TAP.
func EngineOf(queue int) int { return cmt.Hwfn(queue) }

// SelftestReport is the outcome of selftests.
type SelftestReport = selftest.Report

// Selftests are all of them.
const Selftests = selftest.NumTests
