package perfconf

import (
	"fmt"
	"time"

	"tapir/lab/conf"
)

// Latency bounds percentiles of half round trips; 0 bounds nothing.
type Latency struct{ P50, P99, P999, Max time.Duration }

// Fields are the bounds as a file has them.
func (l *Latency) Fields() (all []conf.Field) {
	for _, b := range l.bounds() {
		all = append(all, conf.Field{Name: b.name, Expect: "a time such as 100us",
			Set: conf.Time(b.most, 1, time.Minute)})
	}
	return all
}

// bound is one of them.
type bound struct {
	name string
	most *time.Duration
}

func (l *Latency) bounds() []bound {
	return []bound{{"p50", &l.P50}, {"p99", &l.P99}, {"p999", &l.P999}, {"max", &l.Max}}
}

// Check says which bound a distribution exceeds.
func (l *Latency) Check(is Latency) error {
	for i, b := range l.bounds() {
		if v := *is.bounds()[i].most; *b.most > 0 && v > *b.most {
			return fmt.Errorf("latency: %s is %v, expected at most %v", b.name, v, *b.most)
		}
	}
	return nil
}
