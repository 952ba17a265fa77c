"""The state in Redis: keys, named scripts, and a typed store for each noun."""
