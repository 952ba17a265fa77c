"""Deterministic simulation: clients, workers and transports on one thread, whose every switch is drawn from a seed.

The Python code and the Lua scripts are the real ones, and so is the redis-server, whose clock is a number in memory.
Only threads, clocks, random numbers, the broker and the network are simulated. Anchors: FoundationDB's simulation and
TigerBeetle's VOPR.
"""
