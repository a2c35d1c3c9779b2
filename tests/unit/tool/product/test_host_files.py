"""Which files of a product are a host's, and the benches'."""

import pytest

from diastole.product.host_files import host_files
from support.host_machines import CONFIGS
from support.product_facts import facts_of


@pytest.mark.parametrize("name", ["squares", "choices"])
def test_files(name):
    config = CONFIGS[name]
    facts = facts_of(config)
    files = host_files(facts)
    name = config.name
    assert {path: kind for path, (kind, _) in files.items()} == {
        f"sw/{name}.h": "header",
        f"sw/{name}_driver.h": "driver",
        f"sw/{name}_vectors.h": "vectors",
        "sw/host.c": "host",
        "sw/board.cpp": "host",
        "sw/Makefile": "makefile",
        f"sw/{name}.py": "driver",
        f"tb/{name}_tb.v": "bench",
        f"tb/{name}_wrapper.v": "bench",
        f"tb/test_{name}.py": "bench",
        "tb/Makefile": "makefile",
        "tb/vectors/memory.hex": "vectors",
        "tb/vectors/expected.hex": "vectors",
        "tb/vectors/writes.hex": "vectors",
        "tb/vectors/reads.hex": "vectors",
    }
    for path, (kind, text) in files.items():
        assert text.endswith("\n"), path
        if not path.endswith(".hex"):
            assert "SPDX-License-Identifier: Apache-2.0" in text.splitlines()[0], path
            assert config.config_sha256 in text.splitlines()[1], path
        if kind != "vectors":
            assert "@" not in text.replace("@(", "").replace("@cocotb", "").replace(
                "@property", ""
            ).replace("@dataclass", ""), path
    assert files == host_files(facts)
