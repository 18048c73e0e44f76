"""The module that huey's consumer imports."""

from benchmarks.contenders.huey import make

huey, task = make()
