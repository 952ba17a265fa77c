"""Redis state: keys, named scripts, and a typed store for each noun."""
