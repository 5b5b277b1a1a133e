package nvme

import "fmt"

var adminNames = map[Opcode]string{
	GetLogPage: "Get Log Page", Identify: "Identify", Abort: "Abort", SetFeatures: "Set Features",
	GetFeatures: "Get Features", AsyncEvent: "Asynchronous Event Request", KeepAlive: "Keep Alive",
}

var ioNames = map[Opcode]string{
	Flush: "Flush", Write: "Write", Read: "Read", Compare: "Compare", WriteZeroes: "Write Zeroes",
	DSM: "Dataset Management",
}

var fabricsNames = map[uint8]string{
	PropertySet: "Property Set", Connect: "Connect", PropertyGet: "Property Get", 5: "Authentication Send",
	6: "Authentication Receive", 8: "Disconnect",
}

// Name is the command's name, of the admin queue or of others.
func (c *Command) Name(admin bool) string {
	op, name := c.Opcode(), ""
	switch {
	case op == Fabrics:
		if name = fabricsNames[c.FabricsType()]; name == "" {
			name = fmt.Sprintf("Fabrics type %#02x", c.FabricsType())
		}
	case admin:
		name = adminNames[op]
	default:
		name = ioNames[op]
	}
	if name == "" {
		name = fmt.Sprintf("opcode %#02x", uint8(op))
	}
	return name
}

// Append appends the fields of a command as a line of text, without its name.
func (c *Command) Append(dst []byte, admin bool) []byte {
	dst = fmt.Appendf(dst, "CID %d", c.ID())
	op := c.Opcode()
	switch {
	case op == Fabrics && c.FabricsType() == Connect:
		f, _ := c.Connect()
		dst = fmt.Appendf(dst, " queue %d of %d entries", f.QID, int(f.SQSize)+1)
	case op == Fabrics && c.FabricsType() == PropertyGet:
		at, n, _ := c.Property()
		dst = fmt.Appendf(dst, " %d octets at %#x", n, at)
	case op == Fabrics && c.FabricsType() == PropertySet:
		at, n, v := c.Property()
		dst = fmt.Appendf(dst, " %d octets at %#x to %#x", n, at, v)
	case admin && op == Identify:
		dst = fmt.Appendf(dst, " CNS %d namespace %d", uint8(c.DWord(10)), c.NSID())
	case admin && op == GetLogPage:
		dst = fmt.Appendf(dst, " page %#x", uint8(c.DWord(10)))
	case admin && (op == SetFeatures || op == GetFeatures):
		dst = fmt.Appendf(dst, " feature %#x", uint8(c.DWord(10)))
	case !admin && (op == Read || op == Write || op == Compare || op == WriteZeroes):
		dst = fmt.Appendf(dst, " namespace %d, %d blocks at %d", c.NSID(), c.Blocks(), c.LBA())
	}
	return c.appendSGL(dst)
}

// DescribeCapsule appends the capsule that begins with b as text: of a queue that is the admin queue or
// not, a command of the host or a completion of the controller.
func DescribeCapsule(dst, b []byte, admin, command bool) []byte {
	if command && len(b) >= SQELen {
		c := Command(b)
		dst = append(append(append(dst, "NVMe "...), c.Name(admin)...), ' ')
		return c.Append(dst, admin)
	}
	if c, err := ParseCompletion(b); err == nil && !command {
		return c.Text(append(dst, "NVMe completion "...))
	}
	return append(dst, "NVMe capsule that is too short"...)
}

func (c *Command) appendSGL(dst []byte) []byte {
	s := c.SGL()
	switch {
	case s.Length == 0:
	case s.Kind == Keyed:
		dst = fmt.Appendf(dst, ", %d octets of key %#x at %#x", s.Length, s.Key, s.Address)
	case s.Kind == KeyedInvalidate:
		dst = fmt.Appendf(dst, ", %d octets of key %#x at %#x, to be invalidated", s.Length, s.Key, s.Address)
	case s.Kind == InCapsule:
		dst = fmt.Appendf(dst, ", %d octets in the capsule", s.Length)
	}
	return dst
}

// Text appends the fields of a completion as a line of text.
func (c *Completion) Text(dst []byte) []byte {
	dst = fmt.Appendf(dst, "CID %d SQHD %d %v", c.ID, c.SQHead, c.Status)
	if c.Result != 0 {
		dst = fmt.Appendf(dst, ", result %#x", c.Result)
	}
	return dst
}
