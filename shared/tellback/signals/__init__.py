"""The pure rules of signals: scores, ranking, matching and placing. Nothing here imports Redis or loads a model."""
