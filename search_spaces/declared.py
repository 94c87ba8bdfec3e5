"""The catalogue with what a sweep file declares, and what names of either resolve to."""

from dataclasses import dataclass
from typing import Literal

from search_spaces.blocks import FamilyChoice
from search_spaces.catalogue.data_sets import DATA_SETS, DataSet
from search_spaces.catalogue.families import FAMILIES, ROLES, Checkpoint, Family, Role
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.registry import Registry
from search_spaces.schema import SweepFile
from search_spaces.specs import DataSpec, EncoderSpec, WeightsSpec

Use = Literal["train", "dev", "test"]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Families and data sets by name."""

    families: Registry[Family]
    data_sets: Registry[DataSet]

    @classmethod
    def by(cls, sweep: SweepFile) -> "Declared":
        """The catalogue and the file's own; data sets are read from where the file says."""
        entries = [entry.read_from(sweep.data_sources.get(name)) for name, entry in DATA_SETS.items()]
        data_sets = Registry("data set", entries)
        return cls(families=FAMILIES.extended(sweep.families), data_sets=data_sets.extended(sweep.data_sets))

    def role(self, family: str, init_regime: str) -> Role | None:
        """Which checkpoint of a family a regime starts from; None where the family has none that it can."""
        reads = INIT_REGIMES[init_regime].reads
        roles = ROLES if reads == "any" else (reads,)
        return next((role for role in roles if self.families[family].checkpoint(role)), None)

    def checkpoint(self, family: str, init_regime: str) -> Checkpoint | None:
        """The checkpoint of that role."""
        role = self.role(family, init_regime)
        return self.families[family].checkpoint(role) if role else None

    def encoder(self, choice: FamilyChoice, init_regime: str) -> EncoderSpec:
        """A chosen family under a regime that it has a checkpoint for."""
        family = self.families[choice.name]
        checkpoint = self.checkpoint(choice.name, init_regime)
        assert checkpoint is not None, "cells without their checkpoint were left out before"
        settings = family.settings
        return EncoderSpec(
            family=family.name,
            init_regime=init_regime,
            weights=WeightsSpec(
                source=checkpoint.source, gguf_file=checkpoint.gguf_file, remote_code=checkpoint.remote_code
            ),
            layers=choice.layers,
            towers=choice.towers,
            pooling=settings.pooling,
            append_eos=settings.append_eos,
            query_prompt=settings.query_prompt,
            document_prompt=settings.document_prompt,
            max_query_length=choice.max_query_length or settings.max_query_length,
            max_document_length=choice.max_document_length or settings.max_document_length,
            instruction=settings.instruction,
        )

    def data(self, reference: str, use: Use) -> DataSpec:
        """NAME/SPLIT, or NAME with its split for this use, which is empty where it has none."""
        name, _, split = reference.partition("/")
        entry = self.data_sets[name]
        by_use = {"train": entry.train_split, "dev": entry.dev_split, "test": entry.test_split}
        return DataSpec(entry=entry, split=split or by_use[use] or "")
