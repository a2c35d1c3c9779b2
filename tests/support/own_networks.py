"""Networks and data of a user, in a folder."""

import csv
from pathlib import Path

import numpy as np

NETS = """
from diastole import nn
from diastole.nn import functional as F

numbers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
classes = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
wide = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
fails = 1 / 0 if False else None


class Gated(nn.Module):
    def __init__(self):
        self.up, self.gate, self.down = nn.Linear(3, 6), nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.down(self.up(x) * F.sigmoid(self.gate(x)))


gated = Gated()


def broken(x):
    return x + 1
"""


def write_table(path, header, rows):
    with Path(path).open("w") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def read_table(path):
    """The rows of a CSV file, by column."""
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def write_networks(folder):
    """nets.py with networks, n.csv with numbers to learn, c.csv with classes, and x.csv with inputs
    alone, in another order and beside another column."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((80, 3))
    targets = np.stack([x[:, 0] - x[:, 1], 10 + 3 * x[:, 2]], axis=1)
    both = np.concatenate([x, targets], axis=1).tolist()
    write_table(folder / "n.csv", ["a", "b", "c", "u", "v"], both)
    names = np.array(["red", "green", "blue"])[np.argmax(x, axis=1)]
    colours = [[*row, name] for row, name in zip(x, names, strict=True)]
    write_table(folder / "c.csv", ["a", "b", "c", "colour"], colours)
    mixed = [[row[2], "?", row[1], row[0]] for row in x]
    write_table(folder / "x.csv", ["c", "more", "b", "a"], mixed)
    (folder / "nets.py").write_text(NETS)


TRAIN = ("train", "nano.toml", "--set", "vector.enable=true", "--backend", "golden")
NUMBERS = (*TRAIN, "--graph", "nets.py:numbers", "--data", "n.csv", "--loss", "mse", "--target",
           "u,v", "--epochs", "4", "--batch", "16", "--optimizer", "adam")  # fmt: skip
"""Commands of trainings."""
CLASSES = (*TRAIN, "--graph", "nets.py:classes", "--data", "c.csv", "--loss", "cross-entropy",
           "--epochs", "6", "--batch", "16", "--rate", "0.1")  # fmt: skip
