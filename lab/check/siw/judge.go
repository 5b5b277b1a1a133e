package siw

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tapir/lab/tool/tshark"
)

// Verdict is tshark's.
type Verdict = tshark.Verdict

// Judge has tshark look at the capture and adds what it finds to Err. Then
// the file is removed. When something is wrong and keep names a directory, a
// copy goes there, which Err names.
func (r *Result) Judge(ctx context.Context, keep string) {
	defer func() {
		if r.Err != nil && keep != "" {
			r.Err = errors.Join(r.Err, copyTo(keep, r.Capture))
		}
		os.Remove(r.Capture) // nothing may have come of it
	}()
	if r.Capture == "" {
		return
	}
	// The guesser for RPC over RDMA claims short Sends.
	v, err := Verdict{}, error(nil)
	if r.Cell.RoCE {
		v, err = judgeRoCE(ctx, r.Capture)
	} else {
		v, err = tshark.IWARP(ctx, r.Capture, tshark.Options{Disable: []string{"rpcordma"}})
	}
	r.Verdict = v
	r.Err = errors.Join(r.Err, err, r.Cell.weigh(&v))
}

// weigh says what is wrong with a capture.
func (c *Cell) weigh(v *Verdict) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf("tshark: "+format, args...)) }
	if len(v.Malformed) > 0 {
		complain("malformed frames %v", first(v.Malformed))
	}
	if len(v.Checksum) > 0 {
		complain("wrong checksums in frames %v", first(v.Checksum))
	}
	if v.BadCRC > 0 {
		complain("%d FPDUs with a bad CRC", v.BadCRC)
	}
	switch {
	case v.Frames == 0:
		complain("nothing captured")
	case c.None && v.FPDUs > 0:
		complain("%d FPDUs, want none", v.FPDUs)
	case c.None:
	case v.FPDUs == 0:
		complain("no FPDU found in %d frames", v.Frames)
	case c.CRC && v.GoodCRC != v.FPDUs:
		complain("%d of %d FPDUs have a good CRC", v.GoodCRC, v.FPDUs)
	case !c.CRC && v.GoodCRC > 0:
		complain("%d FPDUs have a CRC, want none", v.GoodCRC)
	}
	return errors.Join(errs...)
}

// copyTo copies a capture, if there is one, into a directory.
func copyTo(dir, file string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), b, 0o644)
	}
	if err == nil {
		err = fmt.Errorf("captured: %s", filepath.Join(dir, filepath.Base(file)))
	}
	return err
}

func first(list []string) []string { return list[:min(len(list), 5)] }
