"""Whether the Hugging Face hub can be reached: asked once a minute, briefly. Its own client would try that long."""

import time
from functools import lru_cache

TIMEOUT_S = 5.0
_ASKED_FOR_S = 60.0


def is_reachable() -> bool:
    """Whether the hub answers; where it does not, its client is told to look only into the local cache."""
    return _answers(int(time.monotonic() / _ASKED_FOR_S))


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
