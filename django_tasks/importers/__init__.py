"""Coming over from the forerunner, from APScheduler and from Celery beat."""
