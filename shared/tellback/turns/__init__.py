"""The pure parts of the turns loop: fallback texts, late policies and the pipeline; nothing here calls Redis."""
