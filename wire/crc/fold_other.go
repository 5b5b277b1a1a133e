//go:build !amd64

package crc

const (
	foldMin = 0
	folds   = false
)

func fold(uint32, []byte) uint32                  { panic("crc: no carry-less multiplication") }
func foldCopy(uint32, []byte, int, []byte) uint32 { panic("crc: no carry-less multiplication") }
func foldIEEE(uint32, []byte) (lower, upper uint64) {
	panic("crc: no carry-less multiplication")
}
func foldIEEECopy(uint32, []byte, []byte) (lower, upper uint64) {
	panic("crc: no carry-less multiplication")
}
