"""`python -m benchmarks capacity`: measures what a worker process and a Redis can do."""
