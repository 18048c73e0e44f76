"""The handlers of that night: refunds fail, for the bank does not answer."""

from django_tasks.api import task_handler


@task_handler("refund", max_attempts=2, backoff=1)
def refund(task):
    if task.biz_num == "40":
        raise KeyError("iban")
    raise ConnectionError("payments.example.com: no route to host")


@task_handler("mail")
def mail(task): ...


@task_handler("report")
def report(task): ...
