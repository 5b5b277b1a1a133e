package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

// command is what only a device can do.
type command struct {
	part string // of FastLinQ hardware that it is about; empty: of none
	run  runner
}

// Answer and runner run a command: args and the answer are JSON.
type Answer = func(ctx context.Context, args json.RawMessage) (any, error)

// Job starts a job, as NIC.Perf does.
type Job = func(raw json.RawMessage, progress func(any), done func(any, error)) (cancel func(), err error)

type runner func(ctx context.Context, d *served, args json.RawMessage) (any, error)

// nothing stands for arguments, or an answer, that a command does not have.
type nothing = struct{}

// Command implements Commander.
func (d *served) Command(ctx context.Context, name string, args json.RawMessage) (any, error) {
	if c := deviceCommands[name]; c.run != nil {
		return c.run(ctx, d, args)
	}
	if answer := d.Commands[name]; answer != nil {
		return answer(ctx, args)
	}
	if answer, known, err := d.clock().Command(name, args); known {
		return answer, err
	}
	return nil, &Error{Status: http.StatusNotFound, What: fmt.Sprintf("%s has no command %s",
		d.Device.Config().Name, name)}
}

// arguments decodes those of a command.
func arguments[T any](raw json.RawMessage) (args T, err error) {
	if _, none := any(args).(nothing); none {
		return args, nil
	}
	if args, err = decodeStrictly[T](raw); err != nil {
		err = &Error{Status: http.StatusBadRequest, What: fmt.Sprintf("the arguments cannot be read: %v", err)}
	}
	return args, err
}

// lacks is the answer to a request for what only FastLinQ hardware has.
func (d *served) lacks(part string) error { return lacks(d.Device.Config().Hardware.Kind(), part) }

// lacks is the same for any kind of hardware.
func lacks(hardware, part string) error {
	return &Error{What: fmt.Sprintf("hardware %s has no %s", hardware, part)}
}

// onFastLinQ is a command about a part of FastLinQ hardware that start begins on
// the NIC's thread. It ends when start calls done, or when the client goes.
func onFastLinQ[A, T any](part string, start func(d *served, h *fastlinq.Device, args A, now frame.Time,
	done func(T, error))) command {
	type answer struct {
		v   T
		err error
	}
	return command{part, func(ctx context.Context, d *served, raw json.RawMessage) (any, error) {
		args, err := arguments[A](raw)
		if err != nil {
			return nil, err
		}
		answers := make(chan answer, 1)
		if err := d.on(func(now frame.Time) error {
			h := fastlinq.Of(d.Device.Hardware)
			if h == nil {
				return d.lacks(part)
			}
			start(d, h, args, now, func(v T, err error) { answers <- answer{v, err} })
			return nil
		}); err != nil {
			return nil, err
		}
		select {
		case a := <-answers:
			if a.err != nil {
				return nil, &Error{What: a.err.Error()}
			}
			return a.v, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}
