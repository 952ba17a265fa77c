"""`tellback hook EVENT`: one short-lived process for each event of an agent that runs hook commands.

It reads JSON from standard input and writes JSON to standard output. Whatever goes wrong, the exit code is 0 and
nothing is printed: a hook must never break its agent. Imports are limited to a small part of the standard library,
since every tool call of the agent pays for them.
"""
