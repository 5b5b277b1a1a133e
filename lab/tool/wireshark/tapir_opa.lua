-- Omni-Path packets in Wireshark: 16B packets with all their fields and the
-- ICRC verified, the Ethernet frame inside handed on; the ICRC of 9B packets;
-- the attributes of VNIC Ethernet management (VEMA). Packets are found in NSH,
-- behind EtherTypes 0x88b5 (16B) and 0x88b6 (9B), in Geneve, in captures of
-- link type USER0, and in ERF records of type 28.
--
-- Installed by: tapir wireshark install
--
-- The ICRC is Tapir's version 1: no public text defines that of Omni-Path, so
-- packets of real HFIs may be shown as bad. A preference turns the check off.
--
-- It runs on Lua 5.2 (Wireshark up to 4.2) and 5.4 (since 4.4). What comes
-- first knows nothing of Wireshark and is tested without it.

-- 1. Bits. Lua 5.2 has a library, 5.4 operators that 5.2 cannot even parse.

local bxor, rshift
do
  local lib = rawget(_G, "bit") or rawget(_G, "bit32")
  if lib then
    bxor, rshift = lib.bxor, lib.rshift
  else
    bxor, rshift = load("return function(a, b) return a ~ b end, function(a, n) return a >> n end")()
  end
end

-- bits takes n bits of v from bit at on; v is below 2^53.
local function bits(v, at, n)
  return math.floor(v / 2 ^ at) % 2 ^ n
end

local function le(s, at, n) -- at counts from 0
  local v = 0
  for i = at + n, at + 1, -1 do v = v * 256 + s:byte(i) end
  return v
end

-- 2. CRC-32 of Ethernet and InfiniBand, four octets at a time: tables[k] is
-- for an octet with k more behind it.

local tables = { [0] = {}, {}, {}, {} }
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do
    if c % 2 == 1 then c = bxor(rshift(c, 1), 0xedb88320) else c = rshift(c, 1) end
  end
  tables[0][i] = c
end
for k = 1, 3 do
  for i = 0, 255 do
    local c = tables[k - 1][i]
    tables[k][i] = bxor(rshift(c, 8), tables[0][c % 256])
  end
end

local function crc_update(c, s)
  local t0, t1, t2, t3 = tables[0], tables[1], tables[2], tables[3]
  local whole = #s - #s % 4
  for i = 1, whole, 4 do
    local a, b, d, e = s:byte(i, i + 3)
    -- The octets by arithmetic, which is faster than calls; % is right for
    -- numbers with a sign too.
    local w = bxor(c, a + b * 256 + d * 65536 + e * 16777216)
    a = w % 256
    w = (w - a) / 256
    b = w % 256
    w = (w - b) / 256
    d = w % 256
    e = (w - d) / 256 % 256
    c = bxor(bxor(t3[a], t2[b]), bxor(t1[d], t0[e]))
  end
  for i = whole + 1, #s do
    c = bxor(rshift(c, 8), t0[bxor(c, s:byte(i)) % 256])
  end
  return c
end

local function crc32(...)
  local c = 0xffffffff
  for _, s in ipairs({ ... }) do c = crc_update(c, s) end
  return bxor(c, 0xffffffff) % 4294967296 -- the library's numbers have a sign
end

local function ones(s, at, mask) -- the octet at, from 0, with the bits of mask set
  local b = s:byte(at + 1)
  for i = 0, 7 do
    if bits(mask, i, 1) == 1 and bits(b, i, 1) == 0 then b = b + 2 ^ i end
  end
  return string.char(math.floor(b))
end

-- icrc16b is version 1 of the ICRC of the whole packet s.
local function icrc16b(s)
  return crc32(s:sub(1, 3), ones(s, 3, 0x80), s:sub(5, 6), ones(s, 6, 0xf0), ones(s, 7, 0x91),
    s:sub(9, 14), "\255\255", s:sub(17, #s - 5))
end

-- icrc9b is the same of a 9B packet.
local function icrc9b(s)
  return crc32(ones(s, 0, 0xf0), s:sub(2, 12), "\255", s:sub(14, #s - 4))
end

-- 3. The header.

local function kind(lid)
  if lid == 0 then return "invalid" end
  if lid < 0xf00000 then return "unicast" end
  if lid < 0xf80000 then return "multicast" end
  if lid < 0xffffff then return "collective" end
  return "permissive"
end

-- decode reads the 20 octets of header in front of s.
local function decode(s)
  local a, b, c, d = le(s, 0, 4), le(s, 4, 4), le(s, 8, 4), le(s, 12, 4)
  return {
    slid = bits(a, 0, 20) + bits(c, 8, 4) * 2 ^ 20,
    len = bits(a, 20, 11),
    becn = bits(a, 31, 1),
    dlid = bits(b, 0, 20) + bits(c, 12, 4) * 2 ^ 20,
    sc = bits(b, 20, 5),
    rc = bits(b, 25, 3),
    fecn = bits(b, 28, 1),
    l2 = bits(b, 29, 2),
    lt = bits(b, 31, 1),
    l4 = bits(c, 0, 8),
    pkey = bits(c, 16, 16),
    entropy = bits(d, 0, 16),
    age = bits(d, 16, 8),
    reserved = bits(d, 24, 8) * 65536 + le(s, 16, 2),
    l4hdr = le(s, 18, 2),
    vesw = le(s, 18, 2) % 4096,
  }
end

-- nsh_start is where in an NSH the packet starts, from 0, or nil.
local function nsh_start(s)
  if #s >= 32 and s:byte(3) % 16 == 2 and s:byte(4) == 3 and s:byte(2) % 64 == 8 and s:sub(9, 12) == "\255\246\120\20" then return 12 end
end

-- geneve_start is where in a Geneve header the packet starts, and whether it is
-- of 9B, or nil.
local function geneve_start(s)
  if #s < 8 then return nil end
  local kind_of, options = s:sub(3, 4), s:byte(1) % 64
  if kind_of == "\101\88" and options == 6 and s:sub(9, 12) == "\255\246\120\5" then return 12, false end
  if kind_of == "\136\182" and options == 0 then return 8, true end
end

if not rawget(_G, "Proto") then -- not in Wireshark: for tests
  return { crc32 = crc32, icrc16b = icrc16b, icrc9b = icrc9b, decode = decode, kind = kind, nsh_start = nsh_start, geneve_start = geneve_start }
end

-- 4. 16B packets.

local opa16b = Proto("opa16b", "Omni-Path 16B")
local opa9b = Proto("opa9b", "Omni-Path 9B, ICRC")

local L2 = { [0] = "8B", "10B", "16B", "9B" }
local L4 = { [0] = "9B", [0x08] = "FM", [0x09] = "IB local", [0x0a] = "IB global", [0x78] = "Ethernet", [0x79] = "Ethernet (STLEEP_EP)" }
local RC = { [0] = "in order, minimal hops", "in order, non-minimal", "in order", "in order", "adaptive, minimal hops",
  "adaptive, non-minimal", "adaptive, biased", "adaptive, equal weight" }
local STATUS = { [0] = "Bad", "Good", "Unverified" }

local f = {
  slid = ProtoField.uint24("opa16b.slid", "Source LID", base.HEX),
  dlid = ProtoField.uint24("opa16b.dlid", "Destination LID", base.HEX),
  dlid_kind = ProtoField.string("opa16b.dlid.kind", "Destination"),
  len = ProtoField.uint16("opa16b.len", "Length in quadwords", base.DEC),
  len_bytes = ProtoField.uint16("opa16b.len_bytes", "Length in octets", base.DEC),
  becn = ProtoField.uint8("opa16b.becn", "BECN", base.DEC),
  fecn = ProtoField.uint8("opa16b.fecn", "FECN", base.DEC),
  sc = ProtoField.uint8("opa16b.sc", "Service class", base.DEC),
  rc = ProtoField.uint8("opa16b.rc", "Routing control", base.DEC, RC),
  l2 = ProtoField.uint8("opa16b.l2", "L2 type", base.DEC, L2),
  lt = ProtoField.uint8("opa16b.lt", "Link transfer", base.DEC),
  l4 = ProtoField.uint8("opa16b.l4", "L4 type", base.HEX, L4),
  pkey = ProtoField.uint16("opa16b.pkey", "P_Key", base.HEX),
  member = ProtoField.string("opa16b.pkey.member", "Membership"),
  entropy = ProtoField.uint16("opa16b.entropy", "Entropy", base.HEX),
  age = ProtoField.uint8("opa16b.age", "Age", base.DEC),
  reserved = ProtoField.uint24("opa16b.reserved", "Reserved", base.HEX),
  l4hdr = ProtoField.uint16("opa16b.l4hdr", "L4 header", base.HEX),
  vesw = ProtoField.uint16("opa16b.vesw", "Virtual Ethernet switch", base.DEC),
  padding = ProtoField.bytes("opa16b.padding", "Padding"),
  pad = ProtoField.uint8("opa16b.pad", "Octets of padding", base.DEC),
  icrc = ProtoField.uint32("opa16b.icrc", "ICRC", base.HEX),
  status = ProtoField.uint8("opa16b.icrc.status", "ICRC status", base.DEC, STATUS),
  tail = ProtoField.uint8("opa16b.tail", "Tail", base.HEX),
}
opa16b.fields = f

local e = {
  short = ProtoExpert.new("opa16b.short", "Too short for a 16B packet", expert.group.MALFORMED, expert.severity.ERROR),
  len = ProtoExpert.new("opa16b.len.wrong", "Length does not agree with the octets", expert.group.MALFORMED, expert.severity.ERROR),
  l2 = ProtoExpert.new("opa16b.l2.wrong", "Not a 16B packet", expert.group.PROTOCOL, expert.severity.ERROR),
  pad = ProtoExpert.new("opa16b.padding.nonzero", "Padding is not zero", expert.group.PROTOCOL, expert.severity.WARN),
  tail = ProtoExpert.new("opa16b.tail.wrong", "Impossible tail", expert.group.PROTOCOL, expert.severity.ERROR),
  icrc = ProtoExpert.new("opa16b.icrc.bad", "ICRC is bad", expert.group.CHECKSUM, expert.severity.ERROR),
  lid = ProtoExpert.new("opa16b.lid.wrong", "No LID that a packet can have here", expert.group.PROTOCOL, expert.severity.WARN),
}
opa16b.experts = e

opa16b.prefs.verify = Pref.bool("Verify the ICRC", true, "Version 1 as Tapir defines it; real HFIs may compute another")

local data = Dissector.get("data")
local ethernet = Dissector.get("eth_withoutfcs")

-- call hands tvb on; a dissector that finds it malformed says so itself.
local function call(dissector, tvb, pinfo, root)
  local ok, n = pcall(dissector.call, dissector, tvb, pinfo, root)
  return ok and n or tvb:captured_len()
end

-- trailer adds what stands behind the frame of the complete packet at tvb.
local function trailer(tvb, tree, n)
  local last = tvb(n - 1, 1)
  local pad = last:uint() % 8
  if pad > 0 then
    local item = tree:add(f.padding, tvb(n - 5 - pad, pad))
    if tvb:raw(n - 5 - pad, pad):find("[^\0]") then item:add_proto_expert_info(e.pad) end
  end
  local item = tree:add_le(f.icrc, tvb(n - 5, 4))
  local status = 2
  if opa16b.prefs.verify then
    local want = icrc16b(tvb:raw(0, n))
    status = 1
    if tvb(n - 5, 4):le_uint() ~= want then
      status = 0
      item:add_proto_expert_info(e.icrc, string.format("ICRC is bad, should be 0x%08x", want))
    end
    item:append_text(status == 1 and " [good]" or string.format(" [bad, should be 0x%08x]", want))
  end
  tree:add(f.status, tvb(n - 5, 4), status):set_generated()
  item = tree:add(f.tail, last)
  if last:uint() >= 0x80 or bits(last:uint(), 3, 3) ~= 0 then item:add_proto_expert_info(e.tail) end
  tree:add(f.pad, last, pad)
  return n - 5 - pad
end

-- header adds the fields of h, which starts tvb, the packet being of n octets.
local function header(tvb, tree, h, n)
  local item = tree:add(f.slid, tvb(0, 10), h.slid)
  if kind(h.slid) ~= "unicast" then item:add_proto_expert_info(e.lid) end
  item = tree:add(f.dlid, tvb(4, 6), h.dlid)
  local k = kind(h.dlid)
  if k == "invalid" or k == "collective" then item:add_proto_expert_info(e.lid) end
  item:append_text(" (" .. k .. ")")
  tree:add(f.dlid_kind, tvb(4, 6), k):set_generated()
  item = tree:add(f.len, tvb(2, 2), h.len)
  if h.len * 8 ~= n then item:add_proto_expert_info(e.len) end
  tree:add(f.len_bytes, tvb(2, 2), h.len * 8):set_generated()
  tree:add(f.becn, tvb(3, 1), h.becn)
  tree:add(f.sc, tvb(6, 2), h.sc)
  tree:add(f.rc, tvb(7, 1), h.rc)
  tree:add(f.fecn, tvb(7, 1), h.fecn)
  item = tree:add(f.l2, tvb(7, 1), h.l2)
  if h.l2 ~= 2 then item:add_proto_expert_info(e.l2) end
  tree:add(f.lt, tvb(7, 1), h.lt)
  tree:add(f.l4, tvb(8, 1), h.l4)
  tree:add(f.pkey, tvb(10, 2), h.pkey)
  tree:add(f.member, tvb(11, 1), h.pkey >= 0x8000 and "full" or "limited"):set_generated()
  tree:add(f.entropy, tvb(12, 2), h.entropy)
  tree:add(f.age, tvb(14, 1), h.age)
  if h.l4 == 0x78 then tree:add(f.reserved, tvb(15, 3), h.reserved) end
  if h.l4 == 0x78 then
    tree:add(f.l4hdr, tvb(18, 2), h.l4hdr)
    tree:add(f.vesw, tvb(18, 2), h.vesw)
  end
end

-- show adds the tree of the packet that is all of tvb and had n octets on the
-- wire, and returns where its Ethernet frame ends, if it is complete and has
-- one.
local function show(tvb, root, n)
  if n < 32 or tvb:captured_len() < 20 then
    root:add(opa16b, tvb()):add_proto_expert_info(e.short)
    return nil
  end
  local h = decode(tvb:raw(0, 20))
  local tree = root:add(opa16b, tvb())
  local what = h.l4 == 0x78 and string.format("vESW %d", h.vesw) or L4[h.l4] or "unknown L4"
  tree:append_text(string.format(", %s, 0x%06x -> 0x%06x, SC %d", what, h.slid, h.dlid, h.sc))
  header(tvb, tree, h, n)
  if tvb:captured_len() < n or h.len * 8 ~= n or h.l2 ~= 2 then return nil end
  local stop = trailer(tvb, tree, n)
  if h.l4 == 0x78 then return stop end
end

local function dissect(tvb, pinfo, root, n)
  pinfo.cols.protocol = "OPA 16B"
  local stop = show(tvb, root, n)
  if stop and stop > 20 then
    call(ethernet, tvb(20, stop - 20):tvb(), pinfo, root)
  elseif tvb:captured_len() > 20 then
    call(data, tvb(20):tvb(), pinfo, root)
  end
  return tvb:captured_len()
end

function opa16b.dissector(tvb, pinfo, root) return dissect(tvb, pinfo, root, tvb:reported_len()) end

-- 5. 9B packets: stock dissectors, and the ICRC.

local f9 = {
  icrc = ProtoField.uint32("opa9b.icrc", "ICRC", base.HEX),
  status = ProtoField.uint8("opa9b.icrc.status", "ICRC status", base.DEC, STATUS),
}
opa9b.fields = f9
local e9 = ProtoExpert.new("opa9b.icrc.bad", "ICRC is bad", expert.group.CHECKSUM, expert.severity.ERROR)
opa9b.experts = { e9 }

local stock9b = Dissector.get("opa")

function opa9b.dissector(tvb, pinfo, root)
  call(stock9b, tvb, pinfo, root)
  local n = tvb:captured_len()
  if n < 32 or n < tvb:reported_len() or not opa16b.prefs.verify then return n end
  local want, at = icrc9b(tvb:raw(0, n)), tvb(n - 4, 4)
  local good = at:le_uint() == want
  local tree = root:add(opa9b, at)
  local item = tree:add_le(f9.icrc, at)
  tree:add(f9.status, at, good and 1 or 0):set_generated()
  if not good then item:add_proto_expert_info(e9, string.format("ICRC is bad, should be 0x%08x", want)) end
  return n
end

-- 6. Where packets are found. A wrapper calls the stock dissector that was
-- there and adds to what it shows.

local function wrap(tab, key, name, text, more)
  local t = DissectorTable.get(tab)
  local stock = t:get_dissector(key)
  local p = Proto(name, text)
  function p.dissector(tvb, pinfo, root) return more(tvb, pinfo, root, stock) end
  t:add(key, p)
end

wrap("ethertype", 0x894f, "opa_nsh", "Omni-Path in NSH", function(tvb, pinfo, root, stock)
  local done = call(stock, tvb, pinfo, root)
  local at = nsh_start(tvb:raw(0, math.min(32, tvb:captured_len())))
  if at then show(tvb(at):tvb(), root, tvb:reported_len() - at) end
  return done
end)

wrap("udp.port", 6081, "opa_geneve", "Omni-Path in Geneve", function(tvb, pinfo, root, stock)
  local at, nine = geneve_start(tvb:raw(0, math.min(12, tvb:captured_len())))
  local done = call(stock, tvb, pinfo, root)
  if at and not nine then show(tvb(at):tvb(), root, tvb:reported_len() - at) end
  return done
end)

-- Bypass records hold 16B packets; the stock dissector has the others.
wrap("erf.types.type", 28, "opa_erf", "Omni-Path in ERF", function(tvb, pinfo, root, stock)
  if tvb:captured_len() < 16 then return call(stock, tvb, pinfo, root) end
  local direction, word = tvb(1, 1):uint(), tvb(8, 4):le_uint()
  local bypass = direction == 0 and bits(word, 28, 1) == 1 or direction == 1 and bits(word, 12, 3) == 4
  if not bypass then return call(stock, tvb, pinfo, root) end
  if tvb:captured_len() > 16 then dissect(tvb(16):tvb(), pinfo, root, tvb:reported_len() - 16) end
  return tvb:captured_len()
end)

DissectorTable.get("ethertype"):add(0x88b5, opa16b)
DissectorTable.get("ethertype"):add(0x88b6, opa9b)

-- USER0 is everybody's: only what looks like a 16B packet is ours.
wrap("wtap_encap", wtap.USER0, "opa_user0", "Omni-Path in USER0", function(tvb, pinfo, root, stock)
  if tvb:captured_len() >= 20 then
    local h = decode(tvb:raw(0, 20))
    if h.l2 == 2 and h.l4 == 0x78 then return opa16b.dissector(tvb, pinfo, root) end
  end
  return call(stock, tvb, pinfo, root)
end)

-- 7. VEMA. Stock dissectors end at the MAD header; the attribute is added
-- behind it.

local vema = Proto("opavema", "Omni-Path VNIC Ethernet Management")

local STATE = { "DROP_ALL", [3] = "FORWARDING" }
local LINK = { "up", "down" }
local TRAP = { "unicast MAC list changed", "multicast MAC list changed", "Ethernet link status changed" }
local GEN = { [0x08] = "informational" }

local fields = {} -- by filter name
local list = {}

-- field makes a field once; widths 1, 2, 4 and 8 are numbers, "mac", "lid" and
-- "bytes" are what they say.
local function field(name, text, width, format, values)
  local abbr = "opavema." .. name
  if not fields[abbr] then
    local hex = format == "hex" and base.HEX or base.DEC
    if width == "mac" then
      fields[abbr] = ProtoField.ether(abbr, text)
    elseif width == "bytes" then
      fields[abbr] = ProtoField.bytes(abbr, text)
    else
      fields[abbr] = ProtoField["uint" .. width * 8](abbr, text, hex, values)
    end
    list[#list + 1] = fields[abbr]
  end
  return fields[abbr]
end

-- An attribute is a list of { offset, width in octets, name, text, format,
-- values, count }.
local COUNTERS = { "packets", "bytes", "unicast", "mcastbcast", "untagged", "vlan", "64", "65_127", "128_255", "256_511",
  "512_1023", "1024_1518", "1519_max" }

local SUMMARY = {
  { 0, 2, "vp_instance", "Virtual port instance" }, { 2, 2, "vesw_id", "vESW id" }, { 4, 4, "veswport_num", "vESW port number" },
  { 8, 8, "tx_errors", "tx_errors" }, { 16, 8, "rx_errors", "rx_errors" },
  { 24, 8, "tx_packets", "tx_packets" }, { 32, 8, "rx_packets", "rx_packets" },
  { 40, 8, "tx_bytes", "tx_bytes" }, { 48, 8, "rx_bytes", "rx_bytes" },
}
for at, way in pairs({ [56] = "tx_", [144] = "rx_" }) do
  for i = 3, #COUNTERS do
    SUMMARY[#SUMMARY + 1] = { at + (i - 3) * 8, 8, way .. COUNTERS[i], way .. COUNTERS[i] }
  end
end
table.sort(SUMMARY, function(a, b) return a[1] < b[1] end)

local ERRORS = { SUMMARY[1], SUMMARY[2], SUMMARY[3], SUMMARY[4], SUMMARY[5] }
for at, name in pairs({ [32] = "tx_smac_filt", [64] = "tx_dlid_zero", [80] = "tx_logic", [96] = "tx_drop_state",
  [104] = "rx_bad_veswid", [120] = "rx_runt", [128] = "rx_oversize", [144] = "rx_eth_down", [152] = "rx_drop_state", [160] = "rx_logic" }) do
  ERRORS[#ERRORS + 1] = { at, 8, name, name }
end
table.sort(ERRORS, function(a, b) return a[1] < b[1] end)

local MACS = {
  { 0, 2, "start_idx", "First index" }, { 2, 2, "num_macs_in_msg", "MAC addresses in this message" },
  { 4, 2, "tot_macs_in_lst", "MAC addresses in the list" }, { 6, 2, "gen_count", "Generation count" },
}

local ATTRIBUTES = {
  [0x0001] = { "ClassPortInfo", {
    { 0, 1, "base_version", "Base version", "hex" }, { 1, 1, "class_version", "Class version", "hex" },
    { 2, 2, "cap_mask", "Capability mask", "hex" }, { 4, 4, "cap_mask2", "Capability mask 2 and response time", "hex" },
    { 8, "bytes", "redirect_gid", "Redirect GID", 16 }, { 24, 4, "redirect_tc_fl", "Redirect traffic class, flow label", "hex" },
    { 28, 4, "redirect_lid", "Redirect LID", "hex" }, { 32, 4, "redirect_sl_qp", "Redirect SL, QP", "hex" },
    { 36, 4, "redirect_qkey", "Redirect Q_Key", "hex" }, { 40, "bytes", "trap_gid", "Trap GID", 16 },
    { 56, 4, "trap_tc_fl", "Trap traffic class, flow label", "hex" }, { 60, 4, "trap_lid", "Trap LID", "hex" },
    { 64, 4, "trap_hl_qp", "Trap hop limit, QP", "hex" }, { 68, 4, "trap_qkey", "Trap Q_Key", "hex" },
    { 72, 2, "trap_pkey", "Trap P_Key", "hex" }, { 74, 2, "redirect_pkey", "Redirect P_Key", "hex" },
    { 76, 1, "trap_sl", "Trap SL (bits 7-3)", "hex" } } },
  [0x0002] = { "Notice", {
    { 0, 1, "gen_type", "Generic, type", "hex", GEN }, { 1, "bytes", "oui", "OUI", 3 }, { 4, 2, "trap_num", "Trap number" },
    { 6, 2, "toggle_count", "Toggle, count" }, { 8, 4, "issuer_lid", "Issuer LID", "hex" }, { 16, "bytes", "issuer_gid", "Issuer GID", 16 },
    { 32, 2, "fabric_id", "Fabric id", "hex" }, { 34, 2, "vesw_id", "vESW id" }, { 36, 4, "veswport_num", "vESW port number" },
    { 40, 2, "opaport_num", "OPA port number" }, { 42, 1, "vport", "Virtual port" }, { 43, 1, "opcode", "What happened", "dec", TRAP } } },
  [0x0011] = { "VESWPORT_INFO", {
    { 0, 2, "fabric_id", "Fabric id", "hex" }, { 2, 2, "vesw_id", "vESW id" }, { 10, 2, "def_port_mask", "Default port mask", "hex" },
    { 14, 2, "pkey", "P_Key", "hex" }, { 20, 4, "u_mcast_dlid", "Multicast DLID", "hex" },
    { 24, 4, "u_ucast_dlid", "Default port DLID", "hex", nil, 16 }, { 88, 4, "rc", "Routing control", "hex" }, { 148, 2, "eth_mtu", "Ethernet MTU" },
    { 152, 4, "veswport_num", "vESW port number" }, { 156, 1, "eth_link_status", "Ethernet link", "dec", LINK },
    { 160, "mac", "base_mac_addr", "Base MAC address" }, { 166, 1, "config_state", "Configured state", "dec", STATE },
    { 167, 1, "oper_state", "Operational state", "dec", STATE }, { 168, 2, "max_mac_tbl_ent", "MAC table entries at most" },
    { 170, 2, "max_smac_ent", "Source MAC entries at most" }, { 172, 4, "mac_tbl_digest", "MAC table digest", "hex" },
    { 180, 4, "encap_slid", "Source LID", "hex" }, { 184, 1, "pcp_to_sc_uc", "SC of unicast by PCP", "dec", nil, 8 },
    { 192, 1, "pcp_to_vl_uc", "VL of unicast by PCP", "dec", nil, 8 }, { 200, 1, "pcp_to_sc_mc", "SC of multicast by PCP", "dec", nil, 8 },
    { 208, 1, "pcp_to_vl_mc", "VL of multicast by PCP", "dec", nil, 8 }, { 216, 1, "non_vlan_sc_uc", "SC of untagged unicast" },
    { 217, 1, "non_vlan_vl_uc", "VL of untagged unicast" }, { 218, 1, "non_vlan_sc_mc", "SC of untagged multicast" },
    { 219, 1, "non_vlan_vl_mc", "VL of untagged multicast" }, { 268, 2, "uc_macs_gen_count", "Unicast list generation" },
    { 270, 2, "mc_macs_gen_count", "Multicast list generation" } } },
  [0x0012] = { "VESWPORT_MAC_ENTRIES", {
    { 0, 2, "offset", "First entry" }, { 2, 2, "num_entries", "Entries" }, { 4, 4, "mac_tbl_digest", "MAC table digest", "hex" } } },
  [0x0013] = { "IFACE_UCAST_MACS", MACS },
  [0x0014] = { "IFACE_MCAST_MACS", MACS },
  [0x0015] = { "DELETE_VESW", {} },
  [0x0020] = { "VESWPORT_SUMMARY_COUNTERS", SUMMARY },
  [0x0022] = { "VESWPORT_ERROR_COUNTERS", ERRORS },
}
local METHODS = { [0x01] = "Get", [0x02] = "Set", [0x05] = "Trap", [0x07] = "TrapRepress", [0x81] = "GetResp" }
local STATUSES = { [0] = "ok", [0x000c] = "unsupported method or attribute", [0x001c] = "invalid value" }

for _, a in pairs(ATTRIBUTES) do
  for _, d in ipairs(a[2]) do
    d.field = field(d[3], d[4], d[2], d[5], d[6])
    d.octets = d[2] == "bytes" and d[5] or d[2] == "mac" and 6 or d[2]
  end
end
local fm = {
  mac = field("mac", "MAC address", "mac"), mask = field("mask", "Mask", "mac"),
  dlid = field("dlid", "DLID", 3, "hex"), smac = field("smac", "Source MAC entry", 1),
  attribute = ProtoField.string("opavema.attribute", "Attribute"), method = ProtoField.string("opavema.method", "Method"),
  vport = field("vport", "Virtual port", 1), status = field("status", "Status", 2, "hex", STATUSES),
}
list[#list + 1], list[#list + 2] = fm.attribute, fm.method
vema.fields = list

-- plain adds the fields of an attribute that starts at tvb, as far as it goes:
-- what a sender has cut off at the end are zeros.
local function plain(tvb, tree, descriptions)
  for _, d in ipairs(descriptions) do
    for i = 0, (d[7] or 1) - 1 do
      local at = d[1] + i * d.octets
      if at + d.octets <= tvb:captured_len() then
        local item = tree:add(d.field, tvb(at, d.octets))
        if d[7] then item:append_text(" [" .. i .. "]") end
      end
    end
  end
end

local function entries(tvb, tree)
  if tvb:captured_len() < 8 then return end
  for i = 0, tvb(2, 2):uint() - 1 do
    local at = 8 + i * 16
    if at + 16 > tvb:captured_len() then return end
    local sub = tree:add(vema, tvb(at, 16), string.format("Entry %d", tvb(0, 2):uint() + i))
    sub:add(fm.mac, tvb(at, 6))
    sub:add(fm.mask, tvb(at + 6, 6))
    sub:add(fm.dlid, tvb(at + 12, 3), tvb(at + 12, 3):uint())
    sub:add(fm.smac, tvb(at + 15, 1), bits(tvb(at + 15, 1):uint(), 5, 1))
  end
end

local function addresses(tvb, tree)
  if tvb:captured_len() < 8 then return end
  for i = 0, tvb(2, 2):uint() - 1 do
    if 8 + i * 6 + 6 > tvb:captured_len() then return end
    tree:add(fm.mac, tvb(8 + i * 6, 6))
  end
end

-- attribute adds what the MAD that starts at tvb says.
local function attribute(tvb, pinfo, root)
  local id, method = tvb(16, 2):uint(), tvb(3, 1):uint()
  local a = ATTRIBUTES[id]
  local name, verb = a and a[1] or string.format("attribute 0x%04x", id), METHODS[method] or string.format("method 0x%02x", method)
  local tree = root:add(vema, tvb())
  tree:append_text(string.format(", %s(%s)", verb, name))
  tree:add(fm.method, tvb(3, 1), verb)
  tree:add(fm.status, tvb(4, 2))
  tree:add(fm.attribute, tvb(16, 2), name)
  tree:add(fm.vport, tvb(23, 1))
  pinfo.cols.info:append(string.format(" VEMA %s(%s) vport %d", verb, name, tvb(23, 1):uint()))
  if not a or tvb:captured_len() <= 40 then return end
  local body = tvb(40):tvb()
  plain(body, tree, a[2])
  if id == 0x0012 then entries(body, tree) end
  if id == 0x0013 or id == 0x0014 then addresses(body, tree) end
end

local class, version = Field.new("opa.mad.mgmtclass"), Field.new("opa.mad.baseversion")
local icrc, padding, fe_length = Field.new("opa.9b.icrc"), Field.new("opa.bth.padcnt"), Field.new("opa.fe.length")

-- mads_end is where the i-th MAD of a frame, which starts at at, ends: before
-- padding and ICRC of its packet, or where the front end's header says.
local function mads_end(i, at, limit)
  local crcs, pads, lengths = { icrc() }, { padding() }, { fe_length() }
  if crcs[i] then return math.min(limit, crcs[i].offset - (pads[i] and pads[i].value or 0)) end
  if lengths[i] then return math.min(limit, at + lengths[i].value) end
  return limit
end

function vema.dissector(_, pinfo, root)
  local c, v = { class() }, { version() }
  for i, class_of in ipairs(c) do
    if class_of.value == 0x34 and v[i] then
      local tvb, at = v[i].source, v[i].offset
      local n = mads_end(i, at, tvb:captured_len()) - at
      if n >= 40 then attribute(tvb(at, n):tvb(), pinfo, root) end
    end
  end
end
register_postdissector(vema)
