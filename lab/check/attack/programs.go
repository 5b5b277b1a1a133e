package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tapir/lab/host/process"
)

// self is this program's file.
var self, _ = os.Executable()

func programRows() []row {
	return []row{
		{name: "commands", what: "random commands and rings of two programs at a time, to verbs and connection manager",
			secs: 25, grows: 96, run: fuzzCommands},
		{name: "live",
			what: "random commands on the files, and octets in the rings, of an rping with requests in flight",
			secs: 25, grows: 96, missing: noRping, run: fuzzLive},
	}
}

// fuzzer starts a hostile program on a NIC, for some time.
func (b *bed) fuzzer(ctx context.Context, nic int, d time.Duration) (*process.Process, error) {
	return b.start(ctx, "run", "--nic", nicName(nic), "--", self, "fuzz", strconv.FormatUint(b.t.rng.Uint64(), 10),
		d.String())
}

// counted adds what a hostile program has done.
func (t *trial) counted(p *process.Process) error {
	t.unit = "commands"
	line := p.Line("commands: ")
	_, number, _ := strings.Cut(line, ": ")
	n, err := strconv.Atoi(number)
	t.count += n
	if err != nil {
		return fmt.Errorf("a hostile program has not ended well: %w: %s", p.Err(), p.Tail())
	}
	return nil
}

func fuzzCommands(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		var users [2]*process.Process
		for i := range users {
			var err error
			if users[i], err = b.fuzzer(ctx, 0, t.d); err != nil {
				return err
			}
			defer users[i].Kill()
		}
		for _, p := range users {
			if err := errors.Join(p.Wait(ctx), t.counted(p)); err != nil {
				return err
			}
		}
		return nil
	})
}

func noRping() string {
	if _, err := exec.LookPath("rping"); err != nil {
		return "rping of rdmacm-utils is missing"
	}
	return ""
}

// fuzzLive has a hostile program take the files of an rping on nic0, whose peer is
// at nic2.
func fuzzLive(ctx context.Context, t *trial) error {
	return t.onBed(ctx, func(b *bed) error {
		thief, err := b.start(ctx, "run", "--nic", nicName(0), "--", self, "steal",
			strconv.FormatUint(t.rng.Uint64(), 10), t.d.String(), "rping", "-s", "-P", "-S", "4096")
		if err != nil {
			return err
		}
		defer thief.Kill()
		for !thief.HasEnded() && ctx.Err() == nil {
			client, err := b.start(ctx, "run", "--nic", nicName(2), "--", "rping", "-c", "-a", nicIP(0), "-S", "4096")
			if err != nil {
				return err
			}
			select {
			case <-client.Ended():
			case <-thief.Ended():
			case <-time.After(time.Second): // rping waits for an answer without end
			}
			client.Kill()
		}
		return errors.Join(thief.Wait(ctx), t.counted(thief))
	})
}
