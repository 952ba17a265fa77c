"""The Celery side of Tellback: app, dispatcher, tasks."""
