package dcb

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tapir/nic/dcb"
	"tapir/nic/uapi/dcbnl"
	"tapir/wire/lldp"
)

// params are those of a verb: each takes the words behind its name, and returns how many.
type params map[string]func(words []string) (int, error)

// read takes words.
func (p params) read(words []string) error {
	names := make([]string, 0, len(p))
	for name := range p {
		names = append(names, name)
	}
	slices.Sort(names)
	for len(words) > 0 {
		name := prefixed(words[0], names...)
		if name == "" {
			return fmt.Errorf("what is %q?", words[0])
		}
		n, err := p[name](words[1:])
		if err == nil && n == 0 {
			err = errors.New("a value is missing")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		words = words[1+n:]
	}
	return nil
}

// onOff is a parameter.
func onOff(to *uint8) func([]string) (int, error) {
	return func(words []string) (int, error) {
		if len(words) == 0 {
			return 0, nil
		}
		i := slices.Index([]string{"off", "on"}, words[0])
		if i < 0 {
			return 0, fmt.Errorf("expected on or off, not %q", words[0])
		}
		*to = uint8(i)
		return 1, nil
	}
}

// mapping is a parameter of words KEY:VALUE for classes or priorities.
func mapping(set func(at int, value string) error) func([]string) (int, error) {
	return func(words []string) (n int, err error) {
		for ; n < len(words) && strings.Contains(words[n], ":"); n++ {
			err := dcb.EachPair(words[n], dcb.Classes, set)
			if err == dcb.ErrWords {
				err = fmt.Errorf("expected KEY:VALUE with a key from 0 to %d, or all", dcb.Classes-1)
			}
			if err != nil {
				return 0, fmt.Errorf("%q: %w", words[n], err)
			}
		}
		return n, nil
	}
}

// octet is a mapping to numbers.
func octet(to *[dcb.Classes]uint8) func([]string) (int, error) {
	return mapping(func(at int, value string) error {
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return errors.New("expected a number from 0 to 255")
		}
		to[at] = uint8(n)
		return nil
	})
}

func setETS(c *dcbnl.Client, _ string, words []string) error {
	e, err := get(c, func(i dcbnl.IEEE) *dcbnl.ETS { return i.ETS })
	if err != nil {
		return err
	}
	tsa := func(to *[dcb.Classes]uint8) func([]string) (int, error) {
		return mapping(func(at int, value string) error {
			for _, t := range []dcb.TSA{dcb.Strict, dcb.CBS, dcb.ETS, dcb.Vendor} {
				if t.String() == value {
					to[at] = uint8(t)
					return nil
				}
			}
			return fmt.Errorf("expected strict, cbs, ets or vendor, not %q", value)
		})
	}
	if err := (params{"willing": onOff(&e.Willing), "tc-tsa": tsa(&e.TSA), "reco-tc-tsa": tsa(&e.RecoTSA),
		"tc-bw": octet(&e.TxBW), "pg-bw": octet(&e.RxBW), "reco-tc-bw": octet(&e.RecoBW), "prio-tc": octet(&e.PrioTC),
		"reco-prio-tc": octet(&e.RecoPrioTC)}).read(words); err != nil {
		return err
	}
	return c.Set(dcbnl.IEEE{ETS: e})
}

func setPFC(c *dcbnl.Client, _ string, words []string) error {
	p, err := get(c, func(i dcbnl.IEEE) *dcbnl.PFC { return i.PFC })
	if err != nil {
		return err
	}
	if err := (params{"macsec-bypass": onOff(&p.MBC), "delay": func(words []string) (int, error) {
		if len(words) == 0 {
			return 0, nil
		}
		n, err := strconv.ParseUint(words[0], 10, 16)
		if err != nil {
			return 0, errors.New("expected a number from 0 to 65535")
		}
		p.Delay = uint16(n)
		return 1, nil
	}, "prio-pfc": mapping(func(at int, value string) error {
		on := uint8(0)
		_, err := onOff(&on)([]string{value})
		p.Enabled = p.Enabled&^(1<<at) | on<<at
		return err
	})}).read(words); err != nil {
		return err
	}
	return c.Set(dcbnl.IEEE{PFC: p})
}

func setMaxRate(c *dcbnl.Client, _ string, words []string) error {
	m, err := get(c, func(i dcbnl.IEEE) *dcbnl.MaxRate { return i.MaxRate })
	if err != nil {
		return err
	}
	if err := (params{"tc-maxrate": mapping(func(at int, value string) (err error) {
		m[at], err = parseRate(value)
		return err
	})}).read(words); err != nil {
		return err
	}
	return c.Set(dcbnl.IEEE{MaxRate: m})
}

func setBuffers(c *dcbnl.Client, _ string, words []string) error {
	b, err := get(c, func(i dcbnl.IEEE) *dcbnl.Buffer { return i.Buffer })
	if err != nil {
		return err
	}
	if err := (params{"prio-buffer": octet(&b.Prio), "buffer-size": mapping(func(at int, value string) error {
		n, err := parseSize(value)
		b.Size[at] = n
		return err
	})}).read(words); err != nil {
		return err
	}
	return c.Set(dcbnl.IEEE{Buffer: b})
}

// parseSize reads octets as tc(8) does: with K, M, G, and b or bit behind.
func parseSize(s string) (octets uint32, err error) {
	text, bits := strings.ToLower(s), 8.0
	if cut, ok := strings.CutSuffix(text, "bit"); ok {
		text, bits = cut, 1
	} else {
		text = strings.TrimSuffix(text, "b")
	}
	factor := 1.0
	if n := len(text); n > 0 {
		if power := strings.IndexByte("kmg", text[n-1]) + 1; power > 0 {
			text, factor = text[:n-1], math.Pow(1024, float64(power))
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if size := n * factor * bits / 8; err == nil && size >= 0 && size <= math.MaxUint32 {
		return uint32(size), nil
	}
	return 0, fmt.Errorf("expected a size such as 64K or 1M, not %q", s)
}

// parseRate reads a rate as tc(8) does: with bit or bps, octets, and K, M, G, T or Ki, Mi, Gi, Ti
// before, in kb/s.
func parseRate(s string) (kbps uint64, err error) {
	expect := fmt.Errorf("expected a rate such as 100Mbit or 2.5Gbit, not %q", s)
	text, bits := strings.ToLower(s), 1.0
	if cut, ok := strings.CutSuffix(text, "bps"); ok {
		text, bits = cut, 8
	} else {
		text = strings.TrimSuffix(text, "bit")
	}
	kilo := 1000.0
	if cut, ok := strings.CutSuffix(text, "i"); ok {
		text, kilo = cut, 1024
	}
	power := 0
	if n := len(text); n > 0 {
		if power = strings.IndexByte("kmgt", text[n-1]) + 1; power > 0 {
			text = text[:n-1]
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	rate := n * bits * math.Pow(kilo, float64(power)) / 1000
	if err != nil || rate < 0 || rate > math.MaxInt64 || power == 0 && kilo == 1024 || rate > 0 && rate < 1 {
		return 0, expect
	}
	return uint64(rate), nil
}

func setMode(c *dcbnl.Client, _ string, words []string) error {
	mode := uint8(0)
	for _, w := range words {
		i := slices.Index(dcbnl.Modes[:], prefixed(w, dcbnl.Modes[:]...))
		if i < 0 {
			return fmt.Errorf("what is %q?", w)
		}
		mode |= 1 << i
	}
	return c.SetMode(mode)
}

// changeApps adds, deletes or replaces the applications of words, or flushes the tables.
func changeApps(c *dcbnl.Client, verb string, words []string) error {
	have, err := c.Get()
	if err != nil {
		return err
	}
	if verb == "flush" {
		return flush(c, have.Apps, words)
	}
	var list []dcbnl.App
	p := params{}
	for i := range tables {
		t := &tables[i]
		p[t.name] = func(words []string) (n int, err error) {
			for ; n < len(words) && t.begins(words[n]); n++ {
				apps, err := t.parse(words[n])
				if err != nil {
					return 0, err
				}
				list = append(list, apps...)
			}
			return n, nil
		}
	}
	if err := p.read(words); err != nil {
		return err
	}
	switch verb {
	case "add":
		return c.Set(dcbnl.IEEE{Apps: list})
	case "del":
		return c.Remove(list)
	}
	fresh := slices.DeleteFunc(slices.Clone(list), func(a dcbnl.App) bool { return slices.Contains(have.Apps, a) })
	old := slices.DeleteFunc(have.Apps, func(a dcbnl.App) bool {
		return slices.Contains(list, a) || !slices.ContainsFunc(list, func(b dcbnl.App) bool {
			return a.Selector == b.Selector && a.Protocol == b.Protocol
		})
	})
	if len(fresh) > 0 {
		if err := c.Set(dcbnl.IEEE{Apps: fresh}); err != nil {
			return err
		}
	}
	if len(old) > 0 {
		return c.Remove(old)
	}
	return nil
}

// flush removes the applications of the named tables, or all.
func flush(c *dcbnl.Client, apps []dcbnl.App, names []string) error {
	var of []*table
	for _, name := range names {
		i := slices.IndexFunc(tables, func(t table) bool { return strings.HasPrefix(t.name, name) })
		if i < 0 {
			return fmt.Errorf("what is %q?", name)
		}
		of = append(of, &tables[i])
	}
	if apps = slices.DeleteFunc(apps, func(a dcbnl.App) bool {
		return len(of) > 0 && !slices.ContainsFunc(of, func(t *table) bool { return t.has(a) })
	}); len(apps) == 0 {
		return nil
	}
	return c.Remove(apps)
}

// begins tells whether a word is a value, and not the next parameter.
func (t *table) begins(word string) bool {
	if t.isPrio {
		_, err := strconv.Atoi(word)
		return err == nil
	}
	return strings.Contains(word, ":")
}

// parse reads an application: PRIO, or KEY:PRIO with a key that may be all for DSCPs.
func (t *table) parse(word string) (list []dcbnl.App, err error) {
	key, value, _ := strings.Cut(word, ":")
	if t.isPrio {
		key, value = "0", word
	}
	prio, err := strconv.ParseUint(value, 10, 3)
	if err != nil {
		return nil, fmt.Errorf("%q: expected a priority from 0 to %d", word, dcb.Classes-1)
	}
	a := dcbnl.App{Selector: t.selector, Priority: uint8(prio)}
	if t.selector == lldp.SelDSCP {
		for dscp := range uint16(dcb.DSCPs) {
			if key == "all" || key == fmt.Sprint(dscp) || strings.EqualFold(key, t.text(dscp, Format{})) {
				a.Protocol = dscp
				list = append(list, a)
			}
		}
		if list == nil {
			return nil, fmt.Errorf("%q: expected a DSCP from 0 to %d, or its name", word, dcb.DSCPs-1)
		}
		return list, nil
	}
	n, err := strconv.ParseUint(key, 0, 16)
	switch lowest := uint64(0x600); {
	case t.isPrio:
	case t.selector != lldp.SelEtherType && (err != nil || n == 0):
		return nil, fmt.Errorf("%q: expected a port from 1 to 65535", word)
	case t.selector == lldp.SelEtherType && (err != nil || n < lowest):
		return nil, fmt.Errorf("%q: expected an EtherType from 0x600 to 0xffff", word)
	}
	a.Protocol = uint16(n)
	return []dcbnl.App{a}, nil
}
