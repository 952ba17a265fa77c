"""Typed, frozen messages and values: everything that crosses a process border or is returned to users."""
