"""Many texts as Arrow memory: a sequence of str that holds none of them as Python objects."""

from collections.abc import Iterator, Sequence
from typing import cast, overload

import pyarrow as pa

_TEXTS_AT_ONCE = 4096


class ArrowTexts(Sequence[str]):
    """Texts of an Arrow array without nulls, read where they lie."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return cast(list[str], self._texts[index].to_pylist())
        text: str = self._texts[index].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TEXTS_AT_ONCE):
            yield from cast(list[str], self._texts.slice(start, _TEXTS_AT_ONCE).to_pylist())
