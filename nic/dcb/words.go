package dcb

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrWords is a text that EachPair does not understand.
var ErrWords = errors.New("dcb: expected words KEY:VALUE with commas")

// EachPair reads words KEY:VALUE, between commas or spaces, as iproute2's dcb takes them. A
// KEY is a number below most, or all, which stands for each of them.
func EachPair(text string, most int, set func(at int, value string) error) error {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(words) == 0 {
		return ErrWords
	}
	for _, w := range words {
		key, value, ok := strings.Cut(w, ":")
		from, to := 0, most
		if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < most {
			from, to = n, n+1
		} else if key != "all" {
			ok = false
		}
		if !ok {
			return ErrWords
		}
		for at := from; at < to; at++ {
			if err := set(at, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetPFC reads which priorities have PFC: 3:on, or all:off.
func (c *Config) SetPFC(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		switch value {
		case "on":
			c.PFC |= 1 << at
		case "off":
			c.PFC &^= 1 << at
		default:
			return ErrWords
		}
		return nil
	})
}

// PFCWords is what SetPFC reads.
func (c *Config) PFCWords() string {
	return words("all:off", func(prio int) string { return word(c.PFC>>prio&1 != 0, "on") })
}

// SetShares reads the share of classes in percent: 0:30,1:70.
func (c *Config) SetShares(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		n, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
		if err != nil || n < 0 || n > 100 {
			return ErrWords
		}
		c.Weight[at] = uint8(n)
		return nil
	})
}

// ShareWords is what SetShares reads.
func (c *Config) ShareWords() string {
	return words("all:0", func(tc int) string { return word(c.Weight[tc] > 0, strconv.Itoa(int(c.Weight[tc]))) })
}

// SetMap reads the class of priorities: all:0,3:1.
func (c *Config) SetMap(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		n, err := strconv.ParseUint(value, 10, 3)
		if err != nil {
			return ErrWords
		}
		c.PrioTC[at] = uint8(n)
		return nil
	})
}

// MapWords is what SetMap reads.
func (c *Config) MapWords() string {
	return words("all:0", func(prio int) string { return word(c.PrioTC[prio] > 0, strconv.Itoa(int(c.PrioTC[prio]))) })
}

// SetTSA reads how classes are selected: 0:ets,1:strict.
func (c *Config) SetTSA(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		switch value {
		case Strict.String():
			c.TSA[at] = Strict
		case ETS.String():
			c.TSA[at] = ETS
		default:
			return ErrWords
		}
		return nil
	})
}

// TSAWords is what SetTSA reads.
func (c *Config) TSAWords() string {
	return words("all:strict", func(tc int) string { return word(c.TSA[tc] != Strict, c.TSA[tc].String()) })
}

// SetRates reads the most that classes send: 1:2.5G,2:100M,3:64K, in bits per second; 0 is no
// limit.
func (p *Port) SetRates(text string) error {
	return EachPair(text, Classes, func(at int, value string) error {
		digits, unit := value, 0.0
		for i, factor := range []float64{1, 1e3, 1e6} {
			if cut, ok := strings.CutSuffix(value, "KMG"[i:i+1]); ok {
				digits, unit = cut, factor
			}
		}
		n, err := strconv.ParseFloat(digits, 64)
		rate := n * unit
		if err != nil || n != 0 && unit == 0 || rate != 0 && !(rate >= 1 && rate <= math.MaxUint32) {
			return ErrWords
		}
		p.MaxRate[at] = uint32(math.Round(rate))
		return nil
	})
}

// RateWords is what SetRates reads.
func (p *Port) RateWords() string {
	return words("all:0", func(tc int) string { return word(p.MaxRate[tc] > 0, rateWord(p.MaxRate[tc])) })
}

func rateWord(kbps uint32) string {
	switch {
	case kbps%1e6 == 0:
		return fmt.Sprintf("%dG", kbps/1e6)
	case kbps%1e3 == 0:
		return fmt.Sprintf("%dM", kbps/1e3)
	}
	return fmt.Sprintf("%dK", kbps)
}

// SetDSCPs reads the priority of DSCPs, 26:3,46:5; the others have priority 0. None stands for
// no table.
func (p *Port) SetDSCPs(text string) error {
	if p.DSCP = nil; text == "none" {
		return nil
	}
	var table DSCPTable
	err := EachPair(text, DSCPs, func(at int, value string) error {
		n, err := strconv.ParseUint(value, 10, 3)
		if err != nil {
			return ErrWords
		}
		table.Map(uint8(at), uint8(n))
		return nil
	})
	p.DSCP = &table
	return err
}

// DSCPWords is what SetDSCPs reads.
func (p *Port) DSCPWords() string {
	if p.DSCP == nil {
		return "none"
	}
	var list []string
	for dscp := range uint8(DSCPs) {
		if prio, mapped := p.DSCP.Priority(dscp); mapped {
			list = append(list, fmt.Sprintf("%d:%d", dscp, prio))
		}
	}
	return strings.Join(list, ",")
}

// word is a value that is not the default one, which is empty.
func word(is bool, value string) string {
	if is {
		return value
	}
	return ""
}

// words are the words KEY:VALUE of values, without empty ones; none stands for no word.
func words(none string, value func(at int) string) string {
	var list []string
	for at := range Classes {
		if v := value(at); v != "" {
			list = append(list, fmt.Sprintf("%d:%s", at, v))
		}
	}
	if list == nil {
		return none
	}
	return strings.Join(list, ",")
}
