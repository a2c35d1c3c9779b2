"""End what an object holds at the end of a ``with`` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Object that a ``with`` block closes at its end."""

    @abstractmethod
    def close(self) -> None:
        """End the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()
