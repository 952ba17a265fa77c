"""Guidance where an agent's framework takes it: hooks, callbacks, tool messages.

Each module names a framework and needs it only when it is used; none of them talks to Redis. `guide` is what
`tb.prompt(...)` returns, of `tellback` or of `tellback.aio`. Nothing here raises for want of Redis or of feedback, and
what goes wrong costs the advice and not the tool call.

Source: feedback-providers, "Adapter Integration".
"""
