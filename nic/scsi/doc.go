// Package scsi is a disk as SCSI has it: logical units (SAM-5) with the commands of
// SPC-4 and SBC-3 that initiators need, whichever protocol carries them.
//
// A command is prepared, which checks its CDB and tells how many octets it takes and
// gives, and then performed. Between the two its data arrives. What touches a unit's
// state runs on one thread; performing a command that Slow tells about touches the
// store alone, and may run on another thread.
package scsi
