"""The code of a ``biz_code``: its base class, the registry, and the task that it is handed."""
