package umode

import (
	"errors"
	"fmt"
	"syscall"

	"tapir/nic/verbs"
)

// Verb names a verb that goes to the NIC.
type Verb uint8

// The verbs. OpenCA and CloseCA belong to Open and Context.Close.
const (
	OpenCA Verb = iota
	QueryCA
	QueryPort
	CloseCA
	CreateCompChannel
	AllocPD
	DeallocPD
	RegMR
	ReregMR
	DeregMR
	AllocMW
	BindMW
	DeallocMW
	CreateCQ
	ResizeCQ
	ReqNotifyCQ
	PollCQ
	DestroyCQ
	CreateSRQ
	ModifySRQ
	QuerySRQ
	PostSRQRecv
	DestroySRQ
	CreateQP
	ModifyQP
	QueryQP
	PostSend
	PostRecv
	DestroyQP
	NumVerbs
)

var verbNames = [NumVerbs]string{
	"open CA", "query CA", "query port", "close CA", "create completion channel", "allocate PD", "deallocate PD",
	"register MR", "reregister MR", "deregister MR", "allocate MW", "bind MW", "deallocate MW", "create CQ",
	"resize CQ", "request notification", "poll CQ", "destroy CQ", "create SRQ", "modify SRQ", "query SRQ",
	"post receive to SRQ", "destroy SRQ", "create QP", "modify QP", "query QP", "post send", "post receive", "destroy QP",
}

func (v Verb) String() string {
	if v < NumVerbs {
		return verbNames[v]
	}
	return fmt.Sprintf("verb %d", uint8(v))
}

// Call is a verb under way, as the library's triggers see it.
type Call struct {
	Verb Verb
	// Object is what the verb makes or is about: *Context, *CompChannel, *PD,
	// *MR, *MW, *CQ, *SRQ or *QP.
	Object any
	// Private goes to the driver behind the command; its length is a multiple
	// of 4. Pre sets it.
	Private []byte
	// Answer is what the driver has to say to the library. Pre makes it as
	// long as that can be, a multiple of 4; Post finds it filled.
	Answer []byte
	// Err tells Post why the verb has failed.
	Err error
}

// Trigger is what a vendor's library does before and after a verb; both may
// be nil.
//
// A Pre that fails ends the verb: the NIC never hears of it. Otherwise Post
// runs with the answer or, after a failure, with Call.Err. If then Post fails,
// what the verb has made is destroyed again.
type Trigger struct {
	Pre, Post func(*Call) error
}

// Triggers is the contract of a vendor's user-mode support library: a pair for
// each verb. Such a library never talks to its driver itself.
type Triggers [NumVerbs]Trigger

// Step is a step of the kit's list "Allocating CQ memory in user mode", which
// every verb follows.
type Step uint8

// The steps on this side; those between happen in the NIC's process.
const (
	StepCall   Step = 1  // the application calls
	StepPre    Step = 2  // the library's pre trigger runs
	StepProxy  Step = 3  // the command goes to the proxy, with the private buffer
	StepPost   Step = 9  // the library's post trigger runs
	StepReturn Step = 10 // the application gets the outcome
)

// run takes a verb its way: command does it at the NIC, undo, which may be
// nil, takes it back.
func (c *Context) run(call *Call, command func() error, undo func()) error {
	t := &c.triggers[call.Verb]
	c.trace(call.Verb, StepCall)
	if t.Pre != nil {
		c.trace(call.Verb, StepPre)
		if err := t.Pre(call); err != nil {
			return fmt.Errorf("%v: %w", call.Verb, err)
		}
	}
	c.trace(call.Verb, StepProxy)
	if err := command(); err != nil {
		call.Err = fmt.Errorf("%v: %w", call.Verb, explain(err))
	}
	if t.Post != nil {
		c.trace(call.Verb, StepPost)
		if err := t.Post(call); err != nil && call.Err == nil {
			call.Err = fmt.Errorf("%v: %w", call.Verb, err)
			if undo != nil {
				undo()
			}
		}
	}
	c.trace(call.Verb, StepReturn)
	return call.Err
}

func (c *Context) trace(v Verb, s Step) {
	if c.options.Trace != nil {
		c.options.Trace(v, s)
	}
}

// errnos are the errors of nic/verbs that stand behind an errno.
var errnos = map[syscall.Errno]error{
	syscall.EINVAL: verbs.ErrInvalid, syscall.EFAULT: verbs.ErrInvalid, syscall.EBUSY: verbs.ErrBusy,
	syscall.ENOMEM: verbs.ErrLimit, syscall.EMFILE: verbs.ErrLimit, syscall.EOPNOTSUPP: verbs.ErrUnsupported,
	syscall.ENOSYS: verbs.ErrUnsupported, syscall.ENODEV: verbs.ErrRemoved, syscall.EIO: verbs.ErrRemoved,
	syscall.ENXIO: verbs.ErrRemoved, syscall.ENOENT: verbs.ErrDestroyed,
}

// explain adds the error of nic/verbs to an errno.
func explain(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && !errors.Is(err, verbs.ErrRemoved) {
		if known := errnos[errno]; known != nil {
			return fmt.Errorf("%w (%w)", known, err)
		}
	}
	return err
}
