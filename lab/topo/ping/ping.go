// Package ping reads the command line of ping(8).
package ping

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Options are those of ping(8) that there are here.
type Options struct {
	To       netip.Addr
	Count    int // -c; 0: until Deadline
	Size     int // -s: octets of data
	TTL      int // -t
	Interval time.Duration
	Linger   time.Duration // -W; 0: as ping does
	Deadline time.Duration // -w; 0: none
	Quiet    bool          // -q
}

// mostData is what an IPv4 packet has room for.
const mostData = 65535 - ip.HeaderLen4 - icmp.HeaderLen

// Parse reads the command line of a ping, argv[0] included.
func Parse(argv []string) (o Options, err error) {
	o = Options{Size: 56, TTL: 64, Interval: time.Second}
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		switch a {
		case "-q":
			o.Quiet = true
			continue
		case "-n":
			continue // there are no names
		}
		if !strings.HasPrefix(a, "-") {
			if o.To.IsValid() {
				return o, fmt.Errorf("ping: %s: one address is expected", a)
			}
			if o.To, err = netip.ParseAddr(a); err != nil {
				return o, fmt.Errorf("ping: %s: expected an address", a)
			}
			continue
		}
		if i++; i == len(argv) {
			return o, fmt.Errorf("ping: %s: its value is missing", a)
		}
		if err := o.set(a, argv[i]); err != nil {
			return o, err
		}
	}
	switch {
	case !o.To.IsValid():
		return o, fmt.Errorf("ping: an address is missing")
	case o.Count == 0 && o.Deadline == 0:
		return o, fmt.Errorf("ping: say how often, by -c, or how long, by -w")
	}
	return o, nil
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "-c":
		o.Count, err = number(value, 1, math.MaxUint16)
	case "-s":
		o.Size, err = number(value, 0, mostData)
	case "-t":
		o.TTL, err = number(value, 1, 255)
	case "-i":
		o.Interval, err = seconds(value)
	case "-w":
		o.Deadline, err = seconds(value)
	case "-W":
		o.Linger, err = seconds(value)
	case "-M":
		if value != "do" {
			err = fmt.Errorf("do")
		}
	default:
		return fmt.Errorf("ping: %s: of the options of ping there are -c, -i, -M do, -n, -q, -s, -t, -w and -W", name)
	}
	if err != nil {
		return fmt.Errorf("ping: %s %s: expected %w", name, value, err)
	}
	return nil
}

func number(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("a number from %d to %d", low, high)
	}
	return n, nil
}

func seconds(s string) (time.Duration, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0.001 && v <= 1e6) {
		return 0, fmt.Errorf("seconds from 0.001 to 1000000")
	}
	return time.Duration(math.Round(float64(v * 1e9))), nil
}
