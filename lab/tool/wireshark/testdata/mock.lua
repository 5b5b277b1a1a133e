-- As much of Wireshark's interface as the dissector uses, so that all of it
-- runs on a plain Lua. Arguments: the dissector, then packets as
-- TABLE:KEY:HEXADECIMAL. What it adds to the tree is printed.

local function range(s, at, n)
  if at < 0 or n < 0 or at + n > #s then error("range " .. at .. "+" .. n .. " of " .. #s) end
  local r = { s = s, at = at, n = n }
  function r:uint()
    local v = 0
    for i = 1, n do v = v * 256 + s:byte(at + i) end
    return v
  end
  function r:le_uint()
    local v = 0
    for i = n, 1, -1 do v = v * 256 + s:byte(at + i) end
    return v
  end
  function r:tvb() return Tvb(s:sub(at + 1, at + n)) end
  return r
end

function Tvb(s)
  local t = {}
  function t:captured_len() return #s end
  function t:reported_len() return #s end
  function t:raw(at, n)
    range(s, at, n)
    return s:sub(at + 1, at + n)
  end
  return setmetatable(t, { __call = function(_, at, n) return range(s, at or 0, n or #s - (at or 0)) end })
end

local function integer(v)
  if type(v) == "number" then assert(v == math.floor(v) and v >= 0, "not an unsigned integer: " .. v) end
  return v
end

local function node()
  local t = {}
  function t:add(what, where, value)
    if getmetatable(where) then where = where() end
    if value == nil and what.width then value = where:uint() end
    if what.abbr then print(what.abbr, type(value) == "number" and string.format("%d", integer(value)) or value or "") end
    return node()
  end
  function t:add_le(what, where) return t:add(what, where, where:le_uint()) end
  function t:append_text(text) assert(type(text) == "string") end
  function t:set_generated() end
  function t:add_proto_expert_info(e, text) print("expert", text or e.text) end
  return t
end

base = { HEX = 1, DEC = 2 }
expert = { group = {}, severity = {} }
wtap = { USER0 = 45 }
ProtoField = setmetatable({}, { __index = function(_, kind)
  return function(abbr) return { abbr = abbr, width = kind:find("^uint%d+$") and kind ~= "uint64" } end
end })
ProtoExpert = { new = function(_, text) return { text = text } end }
Pref = { bool = function(_, default) return default end }
local protos = {}
function Proto(name, text)
  local p = { name = name, text = text, prefs = {} }
  function p:call(...) return self.dissector(...) end
  protos[name] = p
  return p
end
local function stock(name)
  return { call = function(_, tvb) print("stock", name, tvb:captured_len()) return tvb:captured_len() end }
end
Dissector = { get = stock }
local tables = {}
DissectorTable = { get = function(name)
  tables[name] = tables[name] or {}
  local entries = tables[name]
  return {
    get_dissector = function(_, key) return entries[key] or stock(name .. "." .. key) end,
    add = function(_, key, p) entries[key] = p end,
  }
end }

local mad = nil
Field = { new = function(name)
  return function()
    if not mad then return end
    if name == "opa.mad.mgmtclass" then return { value = mad:byte(2) } end
    if name == "opa.mad.baseversion" then return { offset = 0, source = Tvb(mad) } end
    if name == "opa.fe.length" then return { value = #mad } end
  end
end }
local post
function register_postdissector(p) post = p end

dofile(arg[1])
for i = 2, #arg do
  local tab, key, hex = arg[i]:match("^([^:]*):([^:]*):(%x*)$")
  local s = hex:gsub("..", function(c) return string.char(tonumber(c, 16)) end)
  local pinfo = { cols = { info = { append = function(_, text) print("info", text) end } } }
  if tab == "mad" then
    mad = s
    post.dissector(nil, pinfo, node())
    mad = nil
  else
    tables[tab][tonumber(key)]:call(Tvb(s), pinfo, node())
  end
end
