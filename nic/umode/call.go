package umode

import (
	"errors"
	"fmt"
	"syscall"

	"tapir/nic/uapi/abi"
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
	AllocRDD
	RegMR
	RegPages
	RegShared
	ReregMR
	DeregMR
	AllocMW
	BindMW
	DeallocMW
	CreateCQ
	CreateCQOfPD
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

// rows are the verbs: the name, the command of a uverbs file that carries the
// verb, and the octets of its answer.
var rows = [NumVerbs]struct {
	name    string
	command uint32
	answer  int
}{
	OpenCA:            {"open CA", abi.CmdGetContext, 8},
	QueryCA:           {"query CA", abi.CmdQueryDevice, 176},
	QueryPort:         {"query port", abi.CmdQueryPort, 40},
	CloseCA:           {"close CA", 0, 0},
	CreateCompChannel: {"create completion channel", abi.CmdCreateCompChannel, 4},
	AllocPD:           {"allocate PD", abi.CmdAllocPD, 4},
	DeallocPD:         {"deallocate PD", abi.CmdDeallocPD, 0},
	RegMR:             {"register MR", abi.CmdRegMR, 12},
	AllocRDD:          {"allocate RD domain", abi.CmdAllocRDD, 4},
	RegPages:          {"register pages", abi.CmdRegPages, 12},
	RegShared:         {"register shared MR", abi.CmdRegShared, 12},
	ReregMR:           {"reregister MR", abi.CmdReregMR, 8},
	DeregMR:           {"deregister MR", abi.CmdDeregMR, 0},
	AllocMW:           {"allocate MW", abi.CmdAllocMW, 8},
	BindMW:            {"bind MW", 0, 0},
	DeallocMW:         {"deallocate MW", abi.CmdDeallocMW, 0},
	CreateCQ:          {"create CQ", abi.CmdCreateCQ, 8},
	CreateCQOfPD:      {"create CQ of a PD", abi.CmdCreateCQOfPD, 8},
	ResizeCQ:          {"resize CQ", abi.CmdResizeCQ, 8},
	ReqNotifyCQ:       {"request notification", abi.CmdReqNotifyCQ, 0},
	PollCQ:            {"poll CQ", abi.CmdPollCQ, 0},
	DestroyCQ:         {"destroy CQ", abi.CmdDestroyCQ, 8},
	CreateSRQ:         {"create SRQ", abi.CmdCreateSRQ, 16},
	ModifySRQ:         {"modify SRQ", abi.CmdModifySRQ, 0},
	QuerySRQ:          {"query SRQ", abi.CmdQuerySRQ, 16},
	PostSRQRecv:       {"post receive to SRQ", abi.CmdPostSRQRecv, 0},
	DestroySRQ:        {"destroy SRQ", abi.CmdDestroySRQ, 4},
	CreateQP:          {"create QP", abi.CmdCreateQP, 32},
	ModifyQP:          {"modify QP", abi.CmdModifyQP, 0},
	QueryQP:           {"query QP", abi.CmdQueryQP, 128},
	PostSend:          {"post send", abi.CmdPostSend, 0},
	PostRecv:          {"post receive", abi.CmdPostRecv, 0},
	DestroyQP:         {"destroy QP", abi.CmdDestroyQP, 4},
}

func (v Verb) String() string {
	if v < NumVerbs {
		return rows[v].name
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

// query takes a verb its way that sends a request about o, and returns the answer.
func query[T any](c *Context, v Verb, o any, request []byte) (answer T, err error) {
	call := &Call{Verb: v, Object: o}
	err = c.run(call, func() error {
		b, err := c.execute(call, request, 0)
		if err == nil {
			answer = abi.Get[T](b)
		}
		return err
	}, nil)
	return answer, err
}

// do is query where nobody looks at the answer.
func (c *Context) do(v Verb, o any, request []byte) error {
	_, err := query[struct{}](c, v, o, request)
	return err
}

// object is what every object of the NIC has.
type object struct {
	ctx    *Context
	handle uint32
	user   uint64 // by which events name it; 0: none do
	end    Verb   // that destroys it
}

// create takes the verb its way that makes o, which is part of self: the
// answer begins with the handle, and take gets all of it.
func (o *object) create(v Verb, self any, request []byte, take func(b []byte)) error {
	call := &Call{Verb: v, Object: self}
	err := o.ctx.run(call, func() error {
		b, err := o.ctx.execute(call, request, 0)
		if err == nil {
			o.handle = native.Uint32(b)
			take(b)
		}
		return err
	}, func() { _ = o.drop(&Call{Verb: o.end}) })
	if err != nil {
		o.ctx.leave(o.user)
	}
	return err
}

func (o *object) drop(call *Call) error {
	request := fields(o.handle)
	if rows[o.end].answer > 0 {
		request = fields(response, o.handle, uint32(0))
	}
	_, err := o.ctx.execute(call, request, 0)
	return err
}

// destroy takes the verb its way that ends o, unless busy says why not.
func (o *object) destroy(self any, busy error) error {
	call := &Call{Verb: o.end, Object: self}
	err := o.ctx.run(call, func() error {
		if busy != nil {
			return busy
		}
		return o.drop(call)
	}, nil)
	if err == nil {
		o.ctx.leave(o.user)
	}
	return err
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
