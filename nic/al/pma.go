package al

import "tapir/wire/ib"

// perf is the performance management agent of the port: what it has counted, for
// tools that look at one. Counters are not reset.
func (ca *CA) perf(h *ib.Header, in []byte) []byte {
	if h.Method != ib.MethodGet {
		return ib.Response(nil, in, ib.StatusBadMethod, nil)
	}
	port := ib.PortSelect(in)
	var data []byte
	switch h.Attr {
	case ib.AttrClassPortInfo:
		return ib.Response(nil, in, ib.StatusOK, ib.AppendClassPortInfo(nil, ib.PerfAllPorts|ib.PerfExtended))
	case ib.AttrPortCounters:
		c := ca.ci.Counters()
		data = c.Append(nil, port)
	case ib.AttrPortCountersExtended:
		c := ca.ci.Counters()
		data = c.AppendExtended(nil, port)
	default:
		return ib.Response(nil, in, ib.StatusBadAttr, nil)
	}
	if port != 1 && port != ib.AllPorts {
		return ib.Response(nil, in, ib.StatusBadField, nil)
	}
	return ib.Response(nil, in, ib.StatusOK, data)
}
