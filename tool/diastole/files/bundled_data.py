"""Return data sets that scikit-learn's package has, by name."""

from typing import Any

import numpy as np

from diastole import install
from diastole.errors import BadInput
from diastole.files.data_tables import DataTable

BUNDLED = ("diabetes", "wine", "breast-cancer", "digits")
"""Names of the data sets: 442 samples of 10 features, 178 of 13, 569 of 30, and 1797 of 64."""
NUMBERS = ("diabetes",)
"""Data sets whose targets are numbers to learn."""


def bundled_table(name: str, *, labels: bool) -> DataTable:
    """Return a data set. BadInput if the targets are of another kind than the loss needs.
    ToolMissing without scikit-learn."""
    if labels == (name in NUMBERS):
        kind = "numbers" if labels else "classes"
        loss = "mse" if labels else "cross-entropy"
        raise BadInput(f"the targets of {name} are {kind}: give --loss {loss}")
    install.require(*(tool for tool in install.OPTIONAL if tool.package == "scikit-learn"))
    # Import only for this data, since the import is slow.
    from sklearn import datasets  # pyright: ignore[reportMissingTypeStubs]

    data: Any = getattr(datasets, f"load_{name.replace('-', '_')}")()
    features = tuple(str(each) for each in data.feature_names)
    inputs = np.ascontiguousarray(data.data, np.float32)
    if not labels:
        targets = data.target.astype(np.float32)[:, None]
        return DataTable(inputs=inputs, targets=targets, features=features, outputs=("target",))
    return DataTable(
        inputs=inputs,
        targets=data.target.astype(np.int64),
        features=features,
        outputs=("target",),
        classes=tuple(str(each) for each in data.target_names),
    )
