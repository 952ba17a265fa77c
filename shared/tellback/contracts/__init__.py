"""Typed, frozen messages and values: what crosses a process border, and what a user gets back."""
