"""Labels of stretches of the coding transcripts, made by reading; `RULES.md` says how."""
