"""The schedule of Tellback: a Celery app that holds no task."""
