"""Record a long training that is judged by two shorter means instead of comparing every step."""

from typing import Any

from diastole_sim.train import TrainResult


def checked_record(
    result: TrainResult, *, compared: TrainResult, golden: TrainResult
) -> dict[str, Any]:
    """Return the keys of ``train --json`` for ``result``, with the evidence for correctness.

    ``compared``: the first steps of the training, compared number by number with the golden model.
    ``golden``: the whole training on the golden model. ``verified`` is true if the compared numbers
    and the final weights equal the golden model's. The keys ``compared`` and ``mismatches`` count
    the compared numbers. ``verification`` gives the numbers of steps and the hash.
    """
    equal = result.weights_sha256 == golden.weights_sha256
    return result.to_json() | {
        "verified": compared.verified and equal,
        "compared": compared.compared,
        "mismatches": compared.mismatches,
        "first_mismatch": compared.to_json()["first_mismatch"],
        "reports_differ": compared.reports_differ,
        "verification": {
            "steps_compared": compared.steps,
            "steps": result.steps,
            "golden_weights_sha256": golden.weights_sha256,
            "weights_are_those_of_golden": equal,
        },
    }
