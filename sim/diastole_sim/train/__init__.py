"""Training jobs: tasks with data and networks, run on any device."""

from diastole_sim.train.job import TrainResult, run_task
from diastole_sim.train.tasks import TASKS

__all__ = ["TASKS", "TrainResult", "run_task"]
