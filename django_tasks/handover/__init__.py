"""Due tasks are handed to another engine: to a function of ``django.tasks``, or to Celery."""
