"""Peers measured in environments of their own: how one is made, and scripts that know their peer alone."""
