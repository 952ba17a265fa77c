"""`tellback up`: Redis, workers, beat and Flower under one supervisor, which needs neither Celery nor torch itself."""
