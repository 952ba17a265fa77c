"""`python -m benchmarks fleet`: how long events wait, by the number of agents and of worker processes."""
