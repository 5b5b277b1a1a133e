// Package licenses has the licences of the modules that are linked into tapir,
// as `tapir version --licenses` prints them. notices.txt is made by the test of
// this package: go test ./lab/tool/licenses -update.
package licenses

import "tapir"

// Notices names each module with its version, and the text of its licence.
func Notices() (string, error) {
	files, err := tapir.Files()
	return string(files["lab/tool/licenses/notices.txt"]), err
}
