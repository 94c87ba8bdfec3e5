"""Checkpoints on data sets: encode once, search under every score similarity, measure, write rows.

Data sets that share passages share a pass over them (`corpus_pass.py`); a data set of scored pairs goes to
`evaluate_sts.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from results.layout import unfinished_prefix
from results.store import Store
from search_spaces.specs import EvaluationSpec
from trainers.encoders.checkpoints import checkpoint_hash, load_checkpoint
from trainers.encoders.encoder import Encoder
from trainers.evaluation.evaluate_sts import evaluate_sts
from trainers.evaluation.evaluated_group import EvaluatedGroup
from trainers.evaluation.evaluations import Wanted, lacks_only_answers
from trainers.evaluation.pools import load_searched, searched_hashes
from trainers.evaluation.reader import Readers
from trainers.evaluation.shard_queue import NOBODY, Helpers
from trainers.evaluation.shared_texts import sharing_groups


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
    checkpoint = checkpoint_hash(folder)
    readers = Readers(next(encoder.parameters()).device.type)
    opened = partial(EvaluatedGroup, checkpoint, store=store, verify=verify, readers=readers, helpers=helpers)
    scored = partial(evaluate_sts, folder, store=store, encoder=encoder, checkpoint=checkpoint, verify=verify, say=say)
    left = _not_answered(checkpoint, wanted, store, lambda some: opened(some).answer_kept(say))
    for group in _groups(list(left), store):
        name = f"evaluating {', '.join(dict.fromkeys(evaluation.data.name for evaluation in group))}"
        say(name)
        if group[0].data.entry.is_scored:
            scored(group[0], left[group[0]])
        else:
            opened({evaluation: left[evaluation] for evaluation in group}).run(encoder, name, say)
    verify()
    store.delete(unfinished_prefix(checkpoint))


def _not_answered(checkpoint: str, wanted: Wanted, store: Store, answer_kept: Callable[[Wanted], bool]) -> Wanted:
    """What is left when questions are answered from what an earlier pass has found, where nothing else is lacking."""
    return {
        evaluation: lacking
        for evaluation, lacking in wanted.items()
        if not (lacks_only_answers(checkpoint, lacking, evaluation, store) and answer_kept({evaluation: lacking}))
    }


def _groups(evaluations: Sequence[EvaluationSpec], store: Store) -> list[list[EvaluationSpec]]:
    """Those that are done together, in their order: retrieval data sets that share passages."""
    groups = [[evaluation] for evaluation in evaluations if evaluation.data.entry.is_scored]
    for precision in dict.fromkeys(evaluation.precision for evaluation in evaluations):
        some = [e for e in evaluations if e.precision == precision and not e.data.entry.is_scored]
        hashes = [searched_hashes(e, load_searched(e, store).corpus) for e in some]
        groups += [[some[index] for index in group] for group in sharing_groups(hashes)]
    return sorted(groups, key=lambda group: evaluations.index(group[0]))
