"""The processes of ``starttask``: started, watched, replaced and stopped."""
