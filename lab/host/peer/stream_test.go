package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"tapir/lab/check/testenv"
)

// What enters QEMU by one of a guest's streams leaves it by the others: they are one LAN.
func TestStreamsAreOneLAN(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i := range 3 {
		paths = append(paths, filepath.Join(dir, fmt.Sprint("wire", i)))
	}
	qemu := exec.Command("qemu-system-x86_64", append([]string{"-machine", "none", "-nodefaults", "-display", "none"},
		streamArguments(paths)...)...)
	testenv.Must(t, qemu.Start())
	t.Cleanup(func() {
		qemu.Process.Kill()
		qemu.Wait()
	})
	var ends []net.Conn
	for _, path := range paths {
		testenv.Until(t, "QEMU listens at "+path, func() bool {
			c, err := net.Dial("unix", path)
			if err == nil {
				ends = append(ends, c)
			}
			return err == nil
		})
	}
	for i, from := range ends {
		record := binary.BigEndian.AppendUint32(nil, 60)
		record = append(record, bytes.Repeat([]byte{byte(i + 1)}, 60)...)
		_, err := from.Write(record)
		testenv.Must(t, err)
		for j, to := range ends {
			if i == j {
				continue
			}
			got := make([]byte, len(record))
			if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, record) {
				t.Fatalf("from %d to %d: %v, %x", i, j, err, got)
			}
		}
	}
}
