"""Checkpoints on data sets: encode once, search under every score similarity, measure, write rows.

Data sets that share passages share a pass over them (`corpus_pass.py`); a data set of scored pairs goes to
`evaluate_sts.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from results.layout import unfinished_prefix
from results.store import Store
from search_spaces.specs import EvaluationSpec, SimilaritySpec
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.encoders.encoder import Encoder
from trainers.evaluation.evaluate_sts import evaluate_sts
from trainers.evaluation.evaluated_group import EvaluatedGroup
from trainers.evaluation.evaluations import Wanted, lacks_only_answers
from trainers.evaluation.pools import load_searched, searched_hashes
from trainers.evaluation.reader import Readers
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.evaluation.shared_texts import sharing_groups


def evaluate(
    folder: Path,
    evaluation: EvaluationSpec,
    similarities: Sequence[SimilaritySpec],
    *,
    store: Store,
    encoder: Encoder | None = None,
    verify: Callable[[], None] = lambda: None,
) -> None:
    """`evaluate_all` of one data set."""
    evaluate_all(folder, {evaluation: similarities}, store=store, encoder=encoder, verify=verify)


def evaluate_all(
    folder: Path,
    wanted: Wanted,
    *,
    store: Store,
    encoder: Encoder | None = None,
    verify: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
    helpers: Helpers = NOBODY,
) -> None:
    """Encode data sets with the checkpoint in `folder`; write norms, then the rows of each score similarity.

    A passage that several of the data sets hold is encoded once, if there are more than a few such. An evaluation that
    was interrupted goes on where it was, and gives the same rows to the last bit on equal threads and device.

    Args:
        folder: the checkpoint.
        wanted: what to evaluate on, with content hashes, and for each what to score with, as `missing_evaluations`
            names them; without any, nothing is done.
        store: where rows are written.
        encoder: the checkpoint's encoder where the caller has it loaded, on the device that is to encode.
        verify: called before each write; raises LostLockError where nothing may be written any more.
        say: told in words what is evaluated, and now and then how far that is.
        helpers: who else may encode and search shards of the passages.

    Raises:
        InputError: a data set or the checkpoint cannot be read.
        ValueError: embeddings are not finite, or a data set's content is not what was planned.
    """
    wanted = {evaluation: similarities for evaluation, similarities in wanted.items() if similarities}
    if not wanted:
        return
    encoder = encoder or load_checkpoint(folder).encoder
    readers = Readers(next(encoder.parameters()).device.type)
    checkpoint = checkpoint_hash(folder)

    def evaluated(some: Wanted) -> EvaluatedGroup:
        return EvaluatedGroup(checkpoint, some, store=store, verify=verify, readers=readers, helpers=helpers)

    left = dict(wanted)
    for evaluation, lacking in wanted.items():
        alone = lacks_only_answers(checkpoint, lacking, evaluation, store)
        if alone and evaluated({evaluation: lacking}).answer_kept(say):
            del left[evaluation]
    for group in _groups(list(left), store):
        some = {evaluation: left[evaluation] for evaluation in group}
        name = f"evaluating {', '.join(dict.fromkeys(evaluation.data.name for evaluation in group))}"
        say(name)
        if group[0].data.entry.is_scored:
            evaluate_sts(
                folder,
                group[0],
                some[group[0]],
                store=store,
                encoder=encoder,
                checkpoint=checkpoint,
                verify=verify,
                say=say,
            )
        else:
            evaluated(some).run(encoder, name, say)
    verify()
    store.delete(unfinished_prefix(checkpoint))


def _groups(evaluations: Sequence[EvaluationSpec], store: Store) -> list[list[EvaluationSpec]]:
    """Those that are done together, in their order: retrieval data sets that share passages."""
    groups = [[evaluation] for evaluation in evaluations if evaluation.data.entry.is_scored]
    for precision in dict.fromkeys(evaluation.precision for evaluation in evaluations):
        some = [e for e in evaluations if e.precision == precision and not e.data.entry.is_scored]
        hashes = [searched_hashes(e, load_searched(e, store).corpus) for e in some]
        groups += [[some[index] for index in group] for group in sharing_groups(hashes)]
    return sorted(groups, key=lambda group: evaluations.index(group[0]))
