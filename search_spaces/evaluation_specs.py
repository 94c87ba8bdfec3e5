"""What a sweep file's evaluation block asks for, as specs: each data set once, with the groups that it counts in."""

from dataclasses import dataclass

from search_spaces.declared import Declared
from search_spaces.pools import pool_of, tier_of
from search_spaces.schema import RagBlock, SweepFile
from search_spaces.specs import DataSpec, EvaluationSpec, RagSpec, ReaderExecution, ReaderSpec, Tier, WeightsSpec

IN_DOMAIN = "in_domain"


@dataclass(frozen=True, kw_only=True)
class GroupedEvaluation:
    """A data set to evaluate on and the groups of the sweep file that it counts in."""

    spec: EvaluationSpec
    groups: tuple[str, ...]


def evaluations(sweep: SweepFile, declared: Declared) -> tuple[GroupedEvaluation, ...]:
    """Each data set that checkpoints are evaluated on, once for each of its tiers. Nobody contributes to pools yet."""
    groups_of: dict[tuple[DataSpec, Tier], list[str]] = {}
    for group, references in sweep.evaluation.groups.items():
        for reference in references:
            data = declared.data(reference, "test")
            groups_of.setdefault((data, tier_of(sweep.evaluation, group, data.entry)), []).append(group)
    rag = sweep.evaluation.rag
    read = tuple(declared.data(reference, "test") for reference in rag.data_sets) if rag else ()
    for data in read:
        if not any(evaluated == data for evaluated, _ in groups_of):
            # A data set may be there for its questions alone.
            groups_of[data, tier_of(sweep.evaluation, None, data.entry)] = []
    read_on = {data: next(tier for evaluated, tier in groups_of if evaluated == data) for data in read}
    return tuple(
        GroupedEvaluation(
            spec=EvaluationSpec(
                data=data,
                score_similarities=sweep.evaluation.score_similarities,
                tier=tier,
                rag=_rag(rag) if rag and read_on.get(data) == tier else None,
                keep_embeddings=sweep.evaluation.keep_embeddings,
                run_files=sweep.evaluation.run_files,
                memory_budget_bytes=sweep.evaluation.memory_budget,
                pool=pool_of(sweep.evaluation, tier),
            ),
            groups=tuple(dict.fromkeys(groups)),
        )
        for (data, tier), groups in groups_of.items()
    )


def primary_groups(sweep: SweepFile, declared: Declared) -> tuple[str, ...]:
    """As the file says; else the groups of retrieval collections that are not in-domain, or that one if it is alone."""
    if sweep.evaluation.primary_groups:
        return sweep.evaluation.primary_groups
    retrieval = tuple(
        group
        for group, references in sweep.evaluation.groups.items()
        if not any(declared.data(reference, "test").entry.is_scored for reference in references)
    )
    return tuple(group for group in retrieval if group != IN_DOMAIN) or retrieval


def _rag(block: RagBlock) -> RagSpec:
    reader = block.reader
    weights = WeightsSpec(source=reader.source, gguf_file=reader.gguf_file, remote_code=reader.remote_code)
    return RagSpec(
        reader=ReaderSpec(
            weights=weights,
            precision=reader.precision,
            chat_template=reader.chat_template,
            execution=ReaderExecution(device=reader.device),
        ),
        num_passages=block.num_passages,
        prompt=block.prompt,
        max_input_tokens=block.max_input_tokens,
        max_new_tokens=block.max_new_tokens,
    )
