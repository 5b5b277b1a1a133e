package mgmt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/ptp/msg"
)

// ParseCommand reads a command as pmc has it: "GET CURRENT_DATA_SET", "SET
// PRIORITY1 100", "SET GRANDMASTER_SETTINGS_NP clockClass 6 ...", "COMMAND
// ENABLE_PORT". Case does not matter, and words may be shortened as long as
// they are unique. The target is left zero.
func ParseCommand(line string) (Request, error) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return Request{}, fmt.Errorf("%q: expected GET, SET or COMMAND and the name of a management id", line)
	}
	action, err := unique(words[0], []string{"GET", "SET", "COMMAND", "CMD"}, "action")
	if err != nil {
		return Request{}, err
	}
	ids := msg.ManagementIDs()
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	n, err := unique(words[1], names, "management id")
	if err != nil {
		return Request{}, err
	}
	r := Request{Action: [...]msg.Action{msg.Get, msg.Set, msg.Command, msg.Command}[action], ID: ids[n]}
	args := words[2:]
	if r.Action != msg.Set {
		if len(args) > 0 {
			return Request{}, fmt.Errorf("%v: %q is too much", r.ID, args[0])
		}
		return r, nil
	}
	if r.ID == msg.IDUserDescription {
		_, text, _ := strings.Cut(strings.TrimSpace(line), words[1])
		r.Data = &msg.UserDescription{Text: strings.TrimSpace(text)}
		return r, nil
	}
	if r.Data, err = setting(r.ID, args); err != nil {
		return Request{}, fmt.Errorf("%v: %w", r.ID, err)
	}
	return r, nil
}

// unique finds the only name that begins with word, or is word.
func unique(word string, names []string, what string) (int, error) {
	var found []int
	for i, name := range names {
		if strings.EqualFold(name, word) {
			return i, nil
		}
		if len(word) <= len(name) && strings.EqualFold(name[:len(word)], word) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("%q is no %s; there are %s", word, what, strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	var matches []string
	for _, i := range found {
		matches = append(matches, names[i])
	}
	return 0, fmt.Errorf("%s %q is ambiguous: %s", what, word, strings.Join(matches, ", "))
}

// setting is the data that args describe: a value, or pairs of name and value.
func setting(id msg.ManagementID, args []string) (any, error) {
	switch id {
	case msg.IDGrandmasterSettings:
		var d msg.GrandmasterSettings
		fields := append([]field{
			{"clockClass", 0, 255, func(v int64) { d.Quality.Class = uint8(v) }},
			{"clockAccuracy", 0, 255, func(v int64) { d.Quality.Accuracy = uint8(v) }},
			{"offsetScaledLogVariance", 0, 65535, func(v int64) { d.Quality.Variance = uint16(v) }},
		}, timeFields(&d.UTCOffset, &d.TimeFlags, &d.Source)...)
		return &d, assign(fields, args)
	case msg.IDTimeProperties:
		var d msg.TimeProperties
		return &d, assign(timeFields(&d.UTCOffset, &d.Flags, &d.Source), args)
	case msg.IDTraceability:
		var d msg.Octet
		return &d, assign([]field{flagField("timeTraceable", &d.Value, msg.FlagTimeTraceable),
			flagField("frequencyTraceable", &d.Value, msg.FlagFrequencyTraceable)}, args)
	case msg.IDTimescale:
		var d msg.Octet
		return &d, assign([]field{flagField("ptpTimescale", &d.Value, msg.FlagPTPTimescale)}, args)
	case msg.IDPortDataSetNP:
		var d msg.PortDataSetNP
		return &d, assign([]field{
			{"neighborPropDelayThresh", 0, 1<<32 - 1, func(v int64) { d.NeighborPropDelayThresh = uint32(v) }},
			{"asCapable", 0, 1, func(v int64) { d.AsCapable = int32(v) }},
		}, args)
	case msg.IDSubscribeEvents:
		return subscription(args)
	}
	o, ok := octetNames[id]
	if !ok {
		return nil, fmt.Errorf("cannot be set")
	}
	low, high := int64(0), int64(255)
	if o.signed {
		low, high = -128, 127
	}
	if len(args) == 2 && strings.EqualFold(args[0], o.name) {
		args = args[1:]
	}
	if len(args) != 1 {
		return nil, fmt.Errorf("expected one value, %s", o.name)
	}
	v, err := number(args[0], low, high)
	return &msg.Octet{Value: uint8(v)}, err
}

// field is one that a SET needs.
type field struct {
	name      string
	low, high int64
	set       func(v int64)
}

func flagField(name string, flags *uint8, f msg.Flags) field {
	return field{name, 0, 1, func(v int64) { *flags |= uint8(f) * uint8(v) }}
}

func timeFields(offset *int16, flags *uint8, source *msg.TimeSource) []field {
	return []field{
		{"currentUtcOffset", -32768, 32767, func(v int64) { *offset = int16(v) }},
		flagField("leap61", flags, msg.FlagLeap61), flagField("leap59", flags, msg.FlagLeap59),
		flagField("currentUtcOffsetValid", flags, msg.FlagUTCOffsetValid),
		flagField("ptpTimescale", flags, msg.FlagPTPTimescale), flagField("timeTraceable", flags,
			msg.FlagTimeTraceable), flagField("frequencyTraceable", flags, msg.FlagFrequencyTraceable),
		{"timeSource", 0, 255, func(v int64) { *source = msg.TimeSource(v) }},
	}
}

// assign sets every field, once.
func assign(fields []field, args []string) error {
	for len(args) > 0 {
		i := slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.name, args[0]) })
		if i < 0 {
			return fmt.Errorf("%q is no field of it, or named twice", args[0])
		}
		if len(args) == 1 {
			return fmt.Errorf("%s needs a value", args[0])
		}
		v, err := number(args[1], fields[i].low, fields[i].high)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		fields[i].set(v)
		fields, args = slices.Delete(fields, i, i+1), args[2:]
	}
	if len(fields) > 0 {
		return fmt.Errorf("%s is missing", fields[0].name)
	}
	return nil
}

func number(s string, low, high int64) (int64, error) {
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil || v < low || v > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, low, high)
	}
	return v, nil
}

// subscription reads "duration 60 NOTIFY_PORT_STATE on". A duration of -1 is
// the longest; events that are left out are off.
func subscription(args []string) (*msg.SubscribeEvents, error) {
	var d msg.SubscribeEvents
	if len(args) < 2 || !strings.EqualFold(args[0], "duration") {
		return nil, fmt.Errorf("expected duration and a number of seconds first")
	}
	v, err := number(args[1], -1, 65535)
	if err != nil {
		return nil, fmt.Errorf("duration: %w", err)
	}
	d.Duration = uint16(v)
	for args = args[2:]; len(args) > 0; args = args[2:] {
		e, err := unique(args[0], eventNames[:], "event")
		if err != nil {
			return nil, err
		}
		on := len(args) > 1 && strings.EqualFold(args[1], "on")
		if !on && (len(args) == 1 || !strings.EqualFold(args[1], "off")) {
			return nil, fmt.Errorf("%s must be on or off", args[0])
		}
		if on {
			d.Add(msg.Event(e))
		}
	}
	return &d, nil
}
