from django_tasks.api import TaskHandler

class Noop(TaskHandler):
    biz_code = "noop"
    def handle(self, task): return None

class Flaky(TaskHandler):
    biz_code = "flaky"
    backoff = [0.2, 0.2]
    max_attempts = 3
    def handle(self, task):
        if task.attempt < 3: raise ValueError("boom %d" % task.attempt)

class Always(TaskHandler):
    biz_code = "always"
    backoff = 0.1
    max_attempts = 3
    def handle(self, task): raise RuntimeError("never works \0")

class Async(TaskHandler):
    biz_code = "async"
    timeout = 0.2
    max_attempts=1
    async def handle(self, task):
        import asyncio
        await asyncio.sleep(task.biz_ext)
