"""`tellback hook EVENT`: one short-lived process for each event of an agent that runs hook commands.

JSON on standard input, JSON on standard output, and never any trouble: whatever goes wrong, the exit code is 0 and
nothing is printed. The standard library alone, and little of it: each of an agent's tool calls pays for what is
imported here.
"""
