from typing import ClassVar

from django.db import models


class Effect(models.Model):
    """The effect of a handler on the business: one row per run."""

    code = models.CharField(max_length=50)
    num = models.CharField(max_length=100)
    nonce = models.CharField(max_length=40)
    hop = models.IntegerField()
    task_id = models.BigIntegerField()
    version = models.IntegerField()

    # Written out: the settings that types are checked with do not have this application.
    objects: ClassVar[models.Manager["Effect"]] = models.Manager()

    class Meta:
        db_table = "faults_effect"

    def __str__(self) -> str:
        return f"{self.code}/{self.num} {self.nonce}"
