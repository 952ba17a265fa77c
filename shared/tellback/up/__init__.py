"""`tellback up`: Redis, workers, beat and Flower under one supervisor, which imports neither Celery nor torch."""
