"""The workers of Tellback: the Celery app, its tasks, the dispatcher and the loops that apply events."""
