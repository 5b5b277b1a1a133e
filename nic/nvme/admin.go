package nvme

import (
	"slices"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// prepareAdmin tells how much data an admin command moves, or why it cannot be done.
func (c *controller) prepareAdmin(cmd *wire.Command) (int, transfer, wire.Status) {
	bad := wire.InvalidField | wire.DNR
	switch cmd.Opcode() {
	case wire.Identify:
		return wire.IdentifyLen, toHost, wire.Success
	case wire.GetLogPage:
		id, octets, off := cmd.LogPage()
		switch {
		case octets > maxTransfer || off%4 != 0:
			return 0, none, bad
		case c.logPage(id) == nil:
			return 0, none, wire.InvalidLogPage | wire.DNR
		}
		return octets, toHost, wire.Success
	case wire.GetFeatures, wire.SetFeatures:
		if cmd.DWord(10)&0xff == wire.FeatureHostID {
			if cmd.Opcode() == wire.SetFeatures {
				return 0, none, wire.SequenceError | wire.DNR // it came with Connect
			}
			return 16, toHost, wire.Success
		}
		return 0, none, wire.Success
	case wire.AsyncEvent:
		if len(c.requests) >= maxRequests {
			return 0, none, wire.TooManyEvents | wire.DNR
		}
		return 0, none, wire.Success
	case wire.KeepAlive:
		return 0, none, wire.Success
	case wire.Abort:
		return 0, none, wire.Success
	}
	return 0, none, wire.InvalidOpcode | wire.DNR
}

// executeAdmin does an admin command.
func (c *controller) executeAdmin(s *slot, now frame.Time) {
	st := wire.Status(wire.Success)
	switch s.cmd.Opcode() {
	case wire.Identify:
		st = c.identify(s)
	case wire.GetLogPage:
		id, _, off := s.cmd.LogPage()
		page := c.logPage(id)
		clear(s.data)
		if off <= uint64(len(page)) {
			copy(s.data, page[off:])
		}
		if id == wire.LogErrors && !s.cmd.RetainEvent() {
			c.masked = false
			defer c.tell(now)
		}
	case wire.SetFeatures:
		st = c.setFeature(s, now)
	case wire.GetFeatures:
		st = c.getFeature(s)
	case wire.AsyncEvent:
		c.requests = append(c.requests, s)
		c.tell(now)
		return
	case wire.KeepAlive:
		c.t.stats[KeepAlives]++
	case wire.Abort:
		s.result = 1 // not aborted
		c.abort(s, now)
	}
	s.end(st, now)
}

// abort ends a request for an event; other commands end by themselves.
func (c *controller) abort(s *slot, now frame.Time) {
	d := s.cmd.DWord(10)
	i := slices.IndexFunc(c.requests, func(o *slot) bool { return uint32(o.cmd.ID()) == d>>16 })
	if uint16(d) != 0 || i < 0 {
		return
	}
	o := c.requests[i]
	c.requests = slices.Delete(c.requests, i, i+1)
	s.result = 0
	o.end(wire.AbortedByRequest, now)
}

// identify answers Identify.
func (c *controller) identify(s *slot) wire.Status {
	list, id := c.t.cfg.Namespaces, s.cmd.NSID()
	if c.discovery {
		list = nil
	}
	here := id >= 1 && uint64(id) <= uint64(len(list))
	page := s.data[:0]
	switch s.cmd.DWord(10) & 0xff {
	case wire.CNSController:
		info := c.info()
		info.Append(page)
	case wire.CNSNamespaces:
		if id >= 0xfffffffe {
			return wire.InvalidNamespace | wire.DNR
		}
		wire.AppendNamespaces(page, id, uint32(len(list)))
	case wire.CNSNamespace, wire.CNSDescriptors:
		switch {
		case id == 0 || id == 0xffffffff || !here && uint64(id) > uint64(len(list)):
			return wire.InvalidNamespace | wire.DNR
		case s.cmd.DWord(10)&0xff == wire.CNSDescriptors:
			wire.AppendDescriptors(page, list[id-1].NGUID)
		default:
			info := list[id-1].info()
			info.Append(page)
		}
	default:
		return wire.InvalidField | wire.DNR
	}
	return wire.Success
}

// info is the identify structure of the controller.
func (c *controller) info() wire.ControllerInfo {
	i := wire.ControllerInfo{Serial: c.t.cfg.Serial, Model: "Tapir", Firmware: "1", SubNQN: c.nqn,
		Discovery: c.discovery, CntlID: c.id, Version: version, MDTS: 8, EventRequests: maxRequests,
		ErrorEntries: maxFailures, MaxCommand: maxEntries, CapsuleLen: wire.SQELen}
	if !c.discovery {
		i.Namespaces = uint32(len(c.t.cfg.Namespaces))
		i.Commands, i.VolatileCache = wire.HasCompare|wire.HasDSM|wire.HasWriteZeroes, true
		i.CapsuleLen += ioData
	}
	return i
}

// logPage makes a log page; nil: there is none of that number.
func (c *controller) logPage(id uint8) []byte {
	t := c.t
	switch {
	case id == wire.LogDiscovery && c.discovery:
		e := wire.Entry{Addr: c.admin.id.Local(), NQN: t.cfg.NQN, PortID: 1, Provider: wire.ProviderIWARP}
		if c.admin.p.dev.Attr().Personality == verbs.RoCE {
			e.Provider = wire.ProviderRoCEv2
		}
		return wire.AppendDiscovery(nil, 1, []wire.Entry{e})
	case c.discovery:
		return nil
	case id == wire.LogErrors:
		b := []byte{}
		for _, e := range t.failures {
			b = e.Append(b)
		}
		return append(b, make([]byte, 64*(maxFailures-len(t.failures)))...)
	case id == wire.LogHealth:
		units := func(octets uint64) uint64 { return (octets + 511999) / 512000 }
		h := wire.Health{ReadUnits: units(t.stats[OctetsRead]), WriteUnits: units(t.stats[OctetsWritten]),
			ReadCommands: t.stats[ReadCommands], WriteCommands: t.stats[WriteCommands],
			MediaErrors: t.stats[MediaErrors], Errors: t.failed}
		return h.Append(nil)
	case id == wire.LogFirmware:
		b := make([]byte, 512)
		b[0] = 1
		copy(b[8:16], "1       ")
		return b
	}
	return nil
}

// setFeature does Set Features; nothing can be saved.
func (c *controller) setFeature(s *slot, now frame.Time) wire.Status {
	id, v := s.cmd.DWord(10)&0xff, s.cmd.DWord(11)
	if s.cmd.DWord(10)>>31 != 0 {
		return wire.FeatureNotSaveable | wire.DNR
	}
	switch {
	case id == wire.FeatureKeepAlive:
		if v != 0 && v < keepAliveMin {
			return wire.KeepAliveInvalid | wire.DNR
		}
		c.kato = time.Duration(v) * time.Millisecond
		if !c.watching {
			c.watch(now)
		}
	case id == wire.FeatureEvents:
		c.events = v
	case c.discovery:
		return wire.InvalidField | wire.DNR
	case id == wire.FeatureCache:
		c.through = v&1 == 0
	case id == wire.FeatureQueues:
		sq, cq := v&0xffff, v>>16
		if sq == 0xffff || cq == 0xffff {
			return wire.InvalidField | wire.DNR
		}
		c.wanted = int(min(sq, cq, maxQueues-1)) + 1
		s.result = c.queueCount()
	default:
		return wire.InvalidField | wire.DNR
	}
	return wire.Success
}

// queueCount is the number of queues as the feature has it.
func (c *controller) queueCount() uint64 { return uint64(c.wanted-1) | uint64(c.wanted-1)<<16 }

// getFeature does Get Features: the current values.
func (c *controller) getFeature(s *slot) wire.Status {
	id := s.cmd.DWord(10) & 0xff
	switch {
	case s.cmd.DWord(10)>>8&7 != 0:
		return wire.InvalidField | wire.DNR
	case id == wire.FeatureHostID:
		copy(s.data, c.hostID[:])
	case id == wire.FeatureKeepAlive:
		s.result = uint64(c.kato.Milliseconds())
	case id == wire.FeatureEvents:
		s.result = uint64(c.events)
	case c.discovery:
		return wire.InvalidField | wire.DNR
	case id == wire.FeatureCache:
		if !c.through {
			s.result = 1
		}
	case id == wire.FeatureQueues:
		s.result = c.queueCount()
	default:
		return wire.InvalidField | wire.DNR
	}
	return wire.Success
}
