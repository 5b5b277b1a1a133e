package node

import (
	"strconv"
	"time"

	"tapir/nic/toe"
)

// tcpKeys are the settings of the TCP engine. Names with an underscore are
// those of the FastLinQ driver core and of siw.
var tcpKeys = []key{
	{name: "iwarp_rcv_wnd_size", expect: "a receive window of 65536 to 1073741824 octets",
		set: func(c *Config, v string) error { return setInt(&c.TCP.RcvWnd, v, 64<<10, 1<<30) }},
	{name: "congestion", expect: "cubic or reno", set: setCongestion},
	{name: "ecn", expect: "accept, ask or off", set: setECN},
	{name: "tos", expect: "a type of service from 0 to 255 (DSCP times 4)", set: setTOS},
	{name: "tcp_nodelay", expect: "true or false", set: setNoDelay},
	{name: "user_timeout", expect: "a time such as 30s", set: setTime(func(c *Config) *time.Duration { return &c.TCP.UserTimeout })},
	{name: "keepalive", expect: "an idle time such as 2m", set: setTime(func(c *Config) *time.Duration { return &c.TCP.KeepAlive })},
	{name: "ka_max_probe_cnt", expect: "a number of probes from 1 to 255",
		set: func(c *Config, v string) error { return setInt(&c.TCP.KeepAliveProbes, v, 1, 255) }},
	{name: "max_fin_rt", expect: "a number of retransmissions from 1 to 255",
		set: func(c *Config, v string) error { return setInt(&c.TCP.FinRetries, v, 1, 255) }},
	{name: "time_wait", expect: "a time such as 60s", set: setTime(func(c *Config) *time.Duration { return &c.TCP.TimeWait })},
}

func setCongestion(c *Config, v string) error {
	return choose(&c.TCP.Congestion, v, map[string]toe.Congestion{"cubic": toe.Cubic, "reno": toe.Reno})
}

func setECN(c *Config, v string) error {
	return choose(&c.TCP.ECN, v, map[string]toe.ECN{"accept": toe.ECNAccept, "ask": toe.ECNAsk, "off": toe.ECNOff})
}

func choose[T any](p *T, v string, from map[string]T) error {
	choice, ok := from[v]
	if !ok {
		return errValue
	}
	*p = choice
	return nil
}

func setTOS(c *Config, v string) error {
	n, err := strconv.ParseUint(v, 0, 8)
	if err != nil {
		return errValue
	}
	c.TCP.TOS = uint8(n)
	return nil
}

func setNoDelay(c *Config, v string) error {
	on, err := strconv.ParseBool(v)
	if err != nil {
		return errValue
	}
	c.TCP.Nagle = !on
	return nil
}

// setTime sets a time between a millisecond and a day.
func setTime(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Millisecond || d > 24*time.Hour {
			return errValue
		}
		*field(c) = d
		return nil
	}
}
