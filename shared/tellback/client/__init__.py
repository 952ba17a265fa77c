"""The client that an agent host calls: `connection` holds the entry point, and each loop has files of its own.

Nothing here imports Celery, torch or numpy, since agents import it at every start: requirement A-74.
"""
