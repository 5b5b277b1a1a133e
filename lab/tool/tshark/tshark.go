// Package tshark asks the stock dissectors for their verdict on a capture.
// They are the judge of what a Tapir NIC puts on the wire.
package tshark

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Options steer one run of tshark.
type Options struct {
	// Disable names protocols to switch off, such as rpcordma, whose RPC
	// guesser claims short RDMA Sends.
	Disable []string
	// Filter is a display filter.
	Filter string
	// Prefs are preferences, each as tshark's -o takes it.
	Prefs []string
	// Script is a Lua script to load.
	Script string
	// Input is what tshark reads if the file is the constant Input.
	Input io.Reader
	// Env is added to the environment: where personal plugins are, for one.
	Env []string
}

// Input, in place of a file, is the reader of that name in Options.
const Input = "-"

// strict makes tshark verify what it skips by default.
var strict = []string{"-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"}

// Available tells whether tshark can be run, and how to get it if not.
func Available() error {
	if _, err := exec.LookPath("tshark"); err != nil {
		return errors.New("tshark: not installed: apt-get install tshark")
	}
	return nil
}

func run(ctx context.Context, file string, o Options, args []string, line func(string) error) error {
	full := append([]string{"-n", "-r", file}, strict...)
	for _, p := range o.Disable {
		full = append(full, "--disable-protocol", p)
	}
	if o.Script != "" {
		full = append(full, "-X", "lua_script:"+o.Script)
	}
	for _, p := range o.Prefs {
		full = append(full, "-o", p)
	}
	if o.Filter != "" {
		full = append(full, "-Y", o.Filter)
	}
	cmd := exec.CommandContext(ctx, "tshark", append(full, args...)...)
	if len(o.Env) > 0 {
		cmd.Env = append(os.Environ(), o.Env...)
	}
	cmd.Stdin = o.Input
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("tshark: %w", err)
	}
	scanErr := scan(out, line)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("tshark -r %s: %w: %s", file, err, strings.TrimSpace(complaint.String()))
	}
	return scanErr
}

func scan(r io.Reader, line func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if err := line(s.Text()); err != nil {
			io.Copy(io.Discard, r)
			return err
		}
	}
	return s.Err()
}

// Fields returns one row per frame that passes the filter, with the values
// of the named fields; several values of one field are joined by commas.
func Fields(ctx context.Context, file string, o Options, fields ...string) (rows [][]string, err error) {
	args := []string{"-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	err = run(ctx, file, o, args, func(line string) error {
		rows = append(rows, strings.SplitN(line, "|", len(fields)))
		return nil
	})
	return rows, err
}

// Lines returns what tshark prints, a line each: one per frame, or with args
// such as -V the whole of it.
func Lines(ctx context.Context, file string, o Options, args ...string) (lines []string, err error) {
	err = run(ctx, file, o, args, func(line string) error {
		lines = append(lines, line)
		return nil
	})
	return lines, err
}

// Verdict is what tshark thinks of an iWARP capture.
type Verdict struct {
	Frames    int
	Malformed []string   // frames with a malformed packet
	Checksum  []string   // frames with a wrong IP or TCP checksum
	Analysis  []string   // frames with a TCP analysis flag, and which
	FPDUs     int        // found in the TCP streams
	GoodCRC   int        // FPDUs whose MPA CRC is right
	BadCRC    int        // FPDUs whose MPA CRC is wrong
	Messages  [16]uint64 // messages by RDMAP opcode: segments with the Last flag
	Payload   [16]uint64 // octets behind the DDP headers, by RDMAP opcode
}

// Octets is the payload of all opcodes together.
func (v *Verdict) Octets() (n uint64) {
	for _, p := range v.Payload {
		n += p
	}
	return n
}

// IWARP reads the capture and returns the verdict.
func IWARP(ctx context.Context, file string, o Options) (v Verdict, err error) {
	crcs := make(chan error)
	go func() { crcs <- v.readCRCs(ctx, file, o) }()
	err = v.readFrames(ctx, file, o)
	err = errors.Join(err, <-crcs)
	return v, err
}

// DDP header lengths behind the MPA length field (RFC 5041 section 4).
const taggedHeader, untaggedHeader = 14, 18

func (v *Verdict) readFrames(ctx context.Context, file string, o Options) error {
	rows, err := Fields(ctx, file, o, "frame.number", "_ws.malformed", "ip.checksum.status", "tcp.checksum.status",
		"tcp.analysis.flags", "iwarp_rdma.opcode", "iwarp_ddp.last_flag", "iwarp_ddp.tagged_flag",
		"iwarp_mpa.ulpdulength", "_ws.expert.message", "tcp.checksum.ffff")
	if err != nil {
		return err
	}
	for _, r := range rows {
		v.Frames++
		number := r[0]
		if r[1] != "" {
			v.Malformed = append(v.Malformed, number)
		}
		// Linux writes a TCP checksum of 0 as 0xffff, which is the same number
		// to a receiver (RFC 1624 section 3).
		if strings.Contains(r[2], "0") || strings.Contains(r[3], "0") && r[10] == "" {
			v.Checksum = append(v.Checksum, number)
		}
		if r[4] != "" {
			v.Analysis = append(v.Analysis, number+": "+r[9])
		}
		if err := v.addSegments(r[5:9]); err != nil {
			return fmt.Errorf("frame %s: %w", number, err)
		}
	}
	return nil
}

// addSegments counts the DDP segments of one frame.
func (v *Verdict) addSegments(r []string) error {
	if r[0] == "" {
		return nil
	}
	opcodes, last, tagged, length := strings.Split(r[0], ","), strings.Split(r[1], ","), strings.Split(r[2], ","),
		strings.Split(r[3], ",")
	if len(last) != len(opcodes) || len(tagged) != len(opcodes) || len(length) != len(opcodes) {
		return fmt.Errorf("%d opcodes but %d last flags, %d tagged flags, %d lengths", len(opcodes), len(last),
			len(tagged), len(length))
	}
	v.FPDUs += len(opcodes)
	for i := range opcodes {
		op, err := strconv.ParseUint(opcodes[i], 0, 4)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(length[i])
		if err != nil {
			return err
		}
		header := untaggedHeader
		if isTrue(tagged[i]) {
			header = taggedHeader
		}
		v.Payload[op] += uint64(n - header)
		if isTrue(last[i]) {
			v.Messages[op]++
		}
	}
	return nil
}

func isTrue(flag string) bool { return flag == "1" || flag == "True" }

func (v *Verdict) readCRCs(ctx context.Context, file string, o Options) error {
	return run(ctx, file, o, []string{"-V", "-O", "iwarp_mpa"}, func(line string) error {
		switch {
		case strings.Contains(line, "(Good CRC32)"):
			v.GoodCRC++
		case strings.Contains(line, "(Bad CRC32"):
			v.BadCRC++
		}
		return nil
	})
}
