"""The logic of guidance, pure: providers see a context and return feedback; neither Redis nor Celery is known here."""
