"""The init regimes: names, and which checkpoint of a family each one reads."""

from dataclasses import dataclass
from typing import Literal

from search_spaces.catalogue.registry import Registry


@dataclass(frozen=True, kw_only=True)
class InitRegime:
    """Where a trial's weights come from.

    `reads` names the family checkpoint that must exist ('any': only its architecture is read); `seeded` says
    whether the starting weights depend on the seed. The function is in `trainers/init_regimes.py`.
    """

    name: str
    reads: Literal["retriever", "base", "any"]
    seeded: bool


INIT_REGIMES = Registry(
    "init regime",
    [
        InitRegime(name="finetune", reads="retriever", seeded=False),
        InitRegime(name="from_base", reads="base", seeded=False),
        InitRegime(name="random", reads="any", seeded=True),
    ],
)
