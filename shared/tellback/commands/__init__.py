"""Running one command and telling what it did: no Redis, no Celery."""
