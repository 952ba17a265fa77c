"""Adapters that put guidance where an agent's framework accepts it: hooks, callbacks or tool messages.

Each module serves one framework and needs it only when you use it. `guide` is a prompt from `tb.prompt(...)`, of
`tellback` or of `tellback.aio`. No adapter talks to Redis itself, and none raises when Redis or feedback is missing: a
failure costs the advice, never the tool call.

Requirements G-47 and G-49.
"""
