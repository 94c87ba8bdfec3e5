"""What a sweep file's evaluation block asks for, as specs: each data set once, with the groups that it counts in."""

from dataclasses import dataclass

from search_spaces.declared import Declared
from search_spaces.schema import RagBlock, SweepFile
from search_spaces.sizes import parse_size
from search_spaces.specs import DataSpec, EvaluationSpec, RagSpec, ReaderExecution, ReaderSpec, WeightsSpec

IN_DOMAIN = "in_domain"


@dataclass(frozen=True, kw_only=True)
class GroupedEvaluation:
    """A data set to evaluate on and the groups of the sweep file that it counts in."""

    spec: EvaluationSpec
    groups: tuple[str, ...]


def evaluations(sweep: SweepFile, declared: Declared) -> tuple[GroupedEvaluation, ...]:
    """Each data set that checkpoints are evaluated on."""
    groups_of: dict[DataSpec, list[str]] = {}
    for group, references in sweep.evaluation.groups.items():
        for reference in references:
            groups_of.setdefault(declared.data(reference, "test"), []).append(group)
    rag = sweep.evaluation.rag
    read = tuple(declared.data(reference, "test") for reference in rag.data_sets) if rag else ()
    for data in read:
        groups_of.setdefault(data, [])  # a data set may be there for its questions alone
    return tuple(
        GroupedEvaluation(
            spec=EvaluationSpec(
                data=data,
                score_similarities=sweep.evaluation.score_similarities,
                rag=_rag(rag) if rag and data in read else None,
                keep_embeddings=sweep.evaluation.keep_embeddings,
                run_files=sweep.evaluation.run_files,
                memory_budget_bytes=parse_size(budget) if (budget := sweep.evaluation.memory_budget) else None,
            ),
            groups=tuple(dict.fromkeys(groups)),
        )
        for data, groups in groups_of.items()
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
