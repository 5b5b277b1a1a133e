// Package licenses has the licences of the modules that are linked into tapir,
// as `tapir version --licenses` prints them. notices.txt is made by the test of
// this package: go test ./lab/tool/licenses -update.
package licenses

import _ "embed"

// Notices names each module with its version, and the text of its licence.
//
//go:embed notices.txt
var Notices string
