"""Running one command and recording what it did, without Redis or Celery."""
