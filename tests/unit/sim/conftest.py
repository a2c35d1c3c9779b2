"""What the tests of the model share."""

from pathlib import Path

import pytest

from support.copier import write_product


@pytest.fixture
def copier(tmp_path):
    """``copier(data_width=64)``: the folder of a product that copies memory."""

    def folder(data_width: int = 64) -> Path:
        path = tmp_path / f"copier{data_width}"
        return path if path.exists() else write_product(path, data_width)

    return folder
