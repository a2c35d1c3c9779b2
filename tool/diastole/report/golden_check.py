"""The record of a long training that is judged by two shorter means than comparing every step."""

from typing import Any

from diastole_sim.train import TrainResult


def checked_record(
    result: TrainResult, *, compared: TrainResult, golden: TrainResult
) -> dict[str, Any]:
    """Return the keys of ``train --json`` of ``result``, with what is known of its correctness.

    ``compared``: the first steps of the same training, every number of which was compared with the
    golden model; ``golden``: the whole training on the golden model. ``verified`` is true where
    those numbers and the final weights are the golden model's; ``compared`` and ``mismatches``
    count the former; ``verification`` says which steps and which hashes.
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
