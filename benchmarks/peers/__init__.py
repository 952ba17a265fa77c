"""Peers: how an environment of a peer's own is made and measured, and peers' rules of guidance, rebuilt."""
