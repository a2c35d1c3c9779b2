"""Product directory, as described by its manifest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diastole_sim.host.errors import ProductError
from diastole_sim.reading import read_manifest

MANIFEST = "manifest.json"
VERILOG_SUFFIXES = (".v", ".sv")


@dataclass(frozen=True, kw_only=True)
class Product:
    """Facts about a product for a simulation; ``manifest`` has all facts.

    ``sources``: Verilog files, in the manifest's order. ``ports``: (name, direction, width) of the
    top's ports. ``data_width``: bits of a memory bus. ``memory_ports``: number of memory buses. The
    files are used as they are on disk, even if changed since the generation.
    """

    directory: Path
    name: str
    top: str
    sources: tuple[Path, ...]
    ports: tuple[tuple[str, str, int], ...]
    data_width: int
    memory_ports: int = 1
    manifest: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Configuration as used by the generator."""
        return self.manifest["parameters"]

    @property
    def cell_cycles(self) -> int:
        """Cycles from the cycle after a slot to the sums of the first cell; 2 if the manifest has
        no number."""
        return self.manifest.get("latencies", {}).get("cell_cycles", 2)

    @classmethod
    def load(cls, directory: Path | str) -> "Product":
        """Read the manifest. ProductError if the directory is no product or lacks a file."""
        directory = Path(directory)
        path = directory / MANIFEST
        try:
            manifest = read_manifest(path)
        except OSError as error:
            raise ProductError(
                f"{directory} is not a product: {MANIFEST} cannot be read"
            ) from error
        except ValueError as error:
            raise ProductError(f"{path} is not JSON: {error}") from error
        try:
            sources = tuple(
                directory / file["path"]
                for file in manifest["files"]
                if Path(file["path"]).suffix in VERILOG_SUFFIXES
                and file["kind"].partition("-")[0] in ("verilog", "memory")
            )
            product = cls(
                directory=directory,
                name=manifest["name"],
                top=manifest["top"],
                sources=sources,
                ports=tuple(
                    (port["name"], port["direction"], port["width"]) for port in manifest["ports"]
                ),
                data_width=manifest["parameters"]["data_width"],
                memory_ports=manifest["parameters"].get("ports", 1),
                manifest=manifest,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ProductError(f"{path} lacks or misspells a key: {error!r}") from error
        product._check()
        return product

    def _check(self) -> None:
        if not self.sources:
            raise ProductError(f"{self.directory / MANIFEST} lists no Verilog file")
        missing = [str(path) for path in self.sources if not path.is_file()]
        if missing:
            raise ProductError(f"{self.directory} lacks {', '.join(missing)}")
        if self.data_width not in (32, 64, 128, 256, 512):
            raise ProductError(
                f"data_width must be a power of two in 32..512, not {self.data_width}"
            )
        if self.memory_ports not in (1, 2):
            raise ProductError(f"ports must be 1 or 2, not {self.memory_ports}")
