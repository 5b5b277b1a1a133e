package main

import (
	"fmt"
	"strconv"
	"strings"

	"tapir/nic/msglog"
)

// msglvlLine is the message level as the settings show it, its topics below.
func msglvlLine(word uint32) string {
	var names []string
	for bit, name := range msglog.Modules {
		if name != "" && word&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("        Current message level: 0x%08x (%d)\n                               %s\n", word, word, strings.Join(names, " "))
}

// newMsglvl is old as operands change it: a number, a number with a mask of
// the bits that it is of, or names of topics with on or off.
func newMsglvl(old uint32, operands []string) (uint32, error) {
	if len(operands) == 1 {
		value, mask, masked := strings.Cut(operands[0], "/")
		word, err := strconv.ParseUint(value, 0, 32)
		bits := uint64(1<<32 - 1)
		if err == nil && masked {
			bits, err = strconv.ParseUint(mask, 0, 32)
		}
		if err != nil {
			return 0, usagef("message level %q: expected a number of 32 bits, one with a mask, or names with on or off", operands[0])
		}
		return old&^uint32(bits) | uint32(word&bits), nil
	}
	if len(operands)%2 != 0 {
		return 0, usagef("message level: %s lacks on or off", operands[len(operands)-1])
	}
	for i := 0; i < len(operands); i += 2 {
		topics, err := msglog.ParseTopics(operands[i])
		if err != nil {
			return 0, usageError{err}
		}
		switch operands[i+1] {
		case "on":
			old |= uint32(topics)
		case "off":
			old &^= uint32(topics)
		default:
			return 0, usagef("message level: %s %s: expected on or off", operands[i], operands[i+1])
		}
	}
	return old, nil
}
