"""The calls of the Lua scripts, a module for each folder of `state/lua`, a typed function for each script."""
