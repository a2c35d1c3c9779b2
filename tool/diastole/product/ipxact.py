"""Describe the registers of a machine as IP-XACT (IEEE 1685-2014), for tools that collect
components."""

from pathlib import Path
from tempfile import TemporaryDirectory

import diastole
from diastole.product.cores import LIBRARY, VENDOR
from diastole.product.facts import ProductFacts
from diastole_sim.spec.systemrdl import systemrdl

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def ipxact(facts: ProductFacts) -> str:
    """Return a component with the memory map of the machine. PeakRDL makes the component from the
    SystemRDL.

    Every word of 32 bits is a separate register of the component. The bus reads at most a word at a
    time, and IP-XACT has a single width for all registers.
    """
    # Imported late: the imports take a third of a second, and only generation needs the modules.
    from peakrdl_ipxact import IPXACTExporter  # pyright: ignore[reportMissingTypeStubs]
    from systemrdl.compiler import RDLCompiler

    with TemporaryDirectory() as folder:
        source, written = Path(folder) / "map.rdl", Path(folder) / "component.xml"
        source.write_text(systemrdl(facts.name, facts.machines, by_words=True), encoding="utf-8")
        compiler = RDLCompiler()
        compiler.compile_file(str(source))
        root = compiler.elaborate()  # pyright: ignore[reportUnknownMemberType]
        exporter = IPXACTExporter(vendor=VENDOR, library=LIBRARY, version=diastole.__version__)
        exporter.export(root, str(written), component_name=facts.name)
        text = written.read_text(encoding="utf-8")
    assert text.startswith(_DECLARATION)
    return _DECLARATION + facts.heading("<!--", " -->") + text.removeprefix(_DECLARATION)
