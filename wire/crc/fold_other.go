//go:build !amd64

package crc

const (
	foldMin = 0
	folds   = false
)

func fold(crc uint32, p []byte) uint32 { panic("crc: no carry-less multiplication") }
