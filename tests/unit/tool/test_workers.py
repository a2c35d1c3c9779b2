"""Workers: how many there may be; test_ending.py has their end."""

import os

from diastole import workers
from diastole.workers import usable_cores


def test_cores():
    assert 1 <= usable_cores() <= os.cpu_count()


def test_a_system_that_does_not_say_which_cores(monkeypatch):
    monkeypatch.delattr(workers.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: 3)
    assert usable_cores() == 3
