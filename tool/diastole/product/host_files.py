"""Collect the runnable files of a product: headers and drivers for a host, benches with data."""

from diastole.product.benches import cocotb_bench, cocotb_makefile, cocotb_wrapper, verilog_bench
from diastole.product.c_driver import c_board, c_driver, c_host, host_makefile
from diastole.product.facts import Files, ProductFacts
from diastole.product.host_view import HostView
from diastole.product.python_driver import python_driver
from diastole.product.vectors import c_vectors, make_vectors
from diastole_sim.spec.publish import c_header


def host_files(facts: ProductFacts) -> Files:
    """Return the files in ``sw`` and ``tb``."""
    view, ports = HostView.of(facts.config), facts.ports
    name, vectors = view.name, make_vectors(view)
    return {
        f"sw/{name}.h": ("header", c_header(view.published)),
        f"sw/{name}_driver.h": ("driver", c_driver(view)),
        f"sw/{name}_vectors.h": ("vectors", c_vectors(view, vectors)),
        "sw/host.c": ("host", c_host(view)),
        "sw/board.cpp": ("host", c_board(view)),
        "sw/Makefile": ("makefile", host_makefile(view)),
        f"sw/{name}.py": ("driver", python_driver(view)),
        f"tb/{name}_tb.v": ("bench", verilog_bench(view, vectors, ports)),
        f"tb/{name}_wrapper.v": ("bench", cocotb_wrapper(view, ports)),
        f"tb/test_{name}.py": ("bench", cocotb_bench(view)),
        "tb/Makefile": ("makefile", cocotb_makefile(view)),
        "tb/vectors/memory.hex": ("vectors", vectors.beats(vectors.inputs, view.beat_bytes)),
        "tb/vectors/expected.hex": ("vectors", vectors.beats(vectors.expected, view.beat_bytes)),
        "tb/vectors/writes.hex": ("vectors", vectors.words(vectors.writes)),
        "tb/vectors/reads.hex": ("vectors", vectors.words(vectors.reads)),
    }
