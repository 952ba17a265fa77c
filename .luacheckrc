-- For `make lint`, which gives luacheck each script as Redis gets it: see ops/lint_lua.py.
std = "lua51"
read_globals = {"redis", "cjson", "cmsgpack", "struct", "KEYS", "ARGV"} -- what Redis gives a script, as far as we use it
max_line_length = 120 -- as in Python
self = false -- a method may ignore its object
