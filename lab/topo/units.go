package topo

import (
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// faults are the settings of a link that a fault step changes, too.
func faults(i *fault.Impairment) []conf.Field {
	return []conf.Field{
		{Name: "delay", Expect: "a time up to 1h such as 1ms, for every frame", Set: conf.Time(&i.Delay, 0, time.Hour)},
		{Name: "jitter",
			Expect: "a time up to 1h such as 200us: up to this much is added to the delay, the order stays",
			Set:    conf.Time(&i.Jitter, 0, time.Hour)},
		{Name: "rate", Expect: "bits per second, such as 100Mbit or 1Gbit",
			Set: conf.Parsed(&i.Rate, conf.Rate)},
		{Name: "queue", Expect: "octets that wait for their turn at that rate, such as 64KiB (default 256KiB)",
			Set: func(s string) error {
				n, err := conf.Octets(s)
				if i.Queue = int(n); n > 1<<30 {
					return conf.ErrValue
				}
				return err
			}},
		{Name: "loss", Expect: chance, Set: conf.Parsed(&i.Loss, conf.Chance)},
		{Name: "duplicate", Expect: chance, Set: conf.Parsed(&i.Duplicate, conf.Chance)},
		{Name: "reorder", Expect: chance, Set: conf.Parsed(&i.Reorder, conf.Chance)},
		{Name: "reorder_depth",
			Expect: "how many later frames may overtake a reordered one, from 1 to 1000 (default 1)",
			Set:    conf.Int(&i.Depth, 1, 1000)},
		{Name: "corrupt", Expect: chance + ", of TCP segments and RoCE packets",
			Set: conf.Parsed(&i.Corrupt, conf.Chance)},
	}
}

const chance = "a chance such as 1%, 0.01% or 50ppm"
