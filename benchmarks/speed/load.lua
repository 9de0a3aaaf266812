-- The requests of a load, for wrk; benchmarks/speed/wrk.py writes them down and says how they are sent:
--
--   turn FILE               each request of the file, and then the first again
--   number FILE FIRST WRAP  the request of the file, with a number of its own in place of each @@@@@@@@
--   once FILE PADDING       each request of the file, with the bytes of PADDING after its own, and then the end
--
-- wrk makes one request more than it sends, to see whether there are several in it.
--
-- A line of FILE is: method, path, headers, body, with tabs between them, and \31 between headers.

local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds, microseconds; } moment; int gettimeofday(moment *, void *);")

local function now()
  local moment = ffi.new("moment")
  ffi.C.gettimeofday(moment, nil)
  return tonumber(moment.seconds) * 1000000 + tonumber(moment.microseconds)
end

local function lines(path)
  local found = {}
  for line in io.lines(path) do
    local method, target, headers, body = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local named = {}
    for name, value in headers:gmatch("([^:\31]+): ([^\31]*)") do
      named[name] = value
    end
    found[#found + 1] = { method = method, path = target, headers = named, body = body ~= "" and body or nil }
  end
  return found
end

local function written(each, body)
  return wrk.format(each.method, each.path, each.headers, body)
end

local ways = {}

function ways.turn(file)
  local ready, number = {}, 0
  for index, each in ipairs(lines(file)) do
    ready[index] = written(each, each.body)
  end
  return function()
    number = number % #ready + 1
    return ready[number]
  end
end

function ways.number(file, first, wrap)
  local each = lines(file)[1]
  -- The number has as many digits as its mark, so the length that is stated once stays right.
  local template = written(each, each.body)
  local number = tonumber(first) - 1
  return function()
    number = (number + 1) % tonumber(wrap)
    return (template:gsub("@@@@@@@@", string.format("%08x", number)))
  end
end

function ways.once(file, padding)
  local stream = assert(io.open(padding, "rb"))
  local all, tail, number, began = lines(file), stream:read("*a"), 0, nil
  stream:close()
  return function()
    number = number + 1
    began = began or now()
    if number >= #all then
      -- wrk itself waits on, and would count that time too. What connections ask for before they stop is the last again.
      spent = now() - began
      wrk.thread:stop()
    end
    local each = all[math.min(number, #all)]
    return written(each, (each.body or "") .. tail)
  end
end

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(arguments)
  request = ways[arguments[1]](arguments[2], arguments[3], arguments[4])
end

-- wrk looks whether there is one before it calls init.
function request() end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "refused": %d, "lost": %d, "microseconds": %d, "bytes": %d}\n',
    summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    threads[1]:get("spent") or summary.duration, summary.bytes
  ))
end
