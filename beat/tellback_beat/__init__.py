"""The beat process of Tellback: a Celery app with a schedule and no tasks."""
