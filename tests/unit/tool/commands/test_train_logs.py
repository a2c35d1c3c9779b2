"""Which logs `train` writes. The contents of logs are tested beside the logs."""

from argparse import Namespace
from pathlib import Path

import pytest

from diastole.commands.train_logs import check_logs, journals_of
from diastole.errors import BadInput
from diastole.learning.log import JsonLines
from diastole.learning.tensorboard import TensorBoard
from support.texts import exactly


def test_the_requested_logs():
    one, other = Path("log.jsonl"), Path("curves")
    for log, folder, kinds in (
        (None, None, []),
        (one, None, [JsonLines]),
        (None, other, [TensorBoard]),
        (one, other, [JsonLines, TensorBoard]),
    ):
        found = journals_of(Namespace(log=log, tensorboard=folder))
        assert [type(each) for each in found] == kinds


def test_a_log_of_another_ending():
    with pytest.raises(BadInput, match=exactly("--log must end in .jsonl, not log.txt")):
        check_logs(Namespace(log=Path("log.txt"), tensorboard=None))
