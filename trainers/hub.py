"""Whether the Hugging Face hub can be reached: asked once a minute, briefly. Its own client would try that long."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

TIMEOUT_S = 5.0
_ASKED_FOR_S = 60.0
_cache_alone: ContextVar[bool] = ContextVar("cache_alone", default=False)


@contextmanager
def nothing_fetched() -> Iterator[None]:
    """While the block runs, the hub counts as out of reach: only what the local cache has is there."""
    before = _cache_alone.set(True)
    try:
        yield
    finally:
        _cache_alone.reset(before)


def is_reachable() -> bool:
    """Whether the hub answers; where it does not, its client is told to look only into the local cache."""
    return not _cache_alone.get() and _answers(int(time.monotonic() / _ASKED_FOR_S))


@lru_cache(maxsize=1)
def _answers(minute: int) -> bool:
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=TIMEOUT_S)
    except Exception:  # noqa: BLE001 - whatever a proxy, a resolver or a server does, the hub is not there
        return False
    return True
