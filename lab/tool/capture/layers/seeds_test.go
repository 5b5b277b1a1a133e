package layers_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tapir/ddp"
	"tapir/rdmap"
)

var writeSeeds = flag.Bool("seeds", false, "write the fuzz seeds of mpa, ddp and rdmap from the golden captures")

// seeds keeps the first example of each shape.
type seeds map[string][]byte

func (s seeds) add(b []byte, shape ...any) {
	key := fmt.Sprint(shape...)
	if _, ok := s[key]; !ok && len(b) <= 400 {
		s[key] = bytes.Clone(b)
	}
}

// lines renders the seeds sorted, one in hex per line.
func (s seeds) lines() []byte {
	var out []string
	for _, b := range s {
		out = append(out, hex.EncodeToString(b))
	}
	slices.Sort(out)
	var b []byte
	for _, l := range slices.Compact(out) {
		b = append(append(b, l...), '\n')
	}
	return b
}

// TestSeedsAreThoseOfTheGoldenCaptures keeps the seed files in step with the
// captures.
func TestSeedsAreThoseOfTheGoldenCaptures(t *testing.T) {
	starts, fpdus, segments, terminates, reads := seeds{}, seeds{}, seeds{}, seeds{}, seeds{}
	for _, file := range goldenFiles(t) {
		_, order := checkGolden(t, file, func(u []byte) {
			h, payload, err := ddp.Parse(u)
			if err != nil {
				return // private data that PD_Length disowns
			}
			op := rdmap.ParseControl(h.ULP).Opcode
			segments.add(u, op, h.Last, len(payload) == 0)
			switch op {
			case rdmap.TerminateOp:
				terminates.add(payload, payload[:3])
			case rdmap.ReadRequestOp:
				reads.add(payload, len(reads)%8)
			}
		})
		for _, s := range order {
			n := s.start.Len()
			if len(s.encoded) < n || !bytes.HasPrefix(s.encoded, []byte("MPA ID")) {
				continue
			}
			f := s.start
			starts.add(s.encoded[:n], f.Kind, f.CRC, f.Reject, f.Enhanced, f.Rev, len(f.PrivateData))
			if rest := s.encoded[n:]; len(rest) > 0 {
				fpdus.add(rest[:min(len(rest), 400)], f.CRC, min(len(rest), 400)/16)
			}
		}
	}
	for file, s := range map[string]seeds{
		"mpa/testdata/start.hex":       starts,
		"mpa/testdata/stream.hex":      fpdus,
		"ddp/testdata/segment.hex":     segments,
		"rdmap/testdata/terminate.hex": terminates,
		"rdmap/testdata/read.hex":      reads,
	} {
		path := filepath.Join("../../../..", file)
		if *writeSeeds {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, s.lines(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(have, s.lines()) {
			t.Errorf("%s is out of date (%v); go test ./lab/tool/capture/layers -seeds writes it", file, err)
		}
	}
}
