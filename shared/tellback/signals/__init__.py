"""The pure rules of signals: scores, ranking, matching and assignment. Nothing here imports Redis or loads a model."""
