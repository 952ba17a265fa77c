"""The rules of signals, pure: scores, ranking, matching and placing. Nothing here knows Redis or a model."""
