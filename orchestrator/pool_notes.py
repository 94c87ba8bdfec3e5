"""What of a sweep's pools is not as it was: told before a run, since other pools mean evaluating again. Torch-free."""

from collections.abc import Iterable, Iterator

from results.layout import SWEEP_RECORD, PoolRecord, SweepRecord, from_bytes, pool_record
from results.store import Readable
from search_spaces.identity import pool_id
from search_spaces.specs import EvaluationSpec


def pool_notes(evaluations: Iterable[EvaluationSpec], store: Readable | None) -> Iterator[str]:
    """A line for each data set whose pool is another one than when the sweep was last run."""
    if store is None or not store.exists(SWEEP_RECORD):
        return
    before = {
        (e.data_set, e.data_hash, e.split): e.pool_id
        for e in from_bytes(SweepRecord, store.read(SWEEP_RECORD)).evaluations
        if e.pool_id
    }
    for evaluation in evaluations:
        data = evaluation.data
        old = before.get((data.name, data.content_hash or "", data.split))
        if evaluation.pool is None or old is None or old == pool_id(evaluation):
            continue
        yield (
            f"the pool of '{data.name}' is another one than in the last run{_what_changed(evaluation, old, store)}: "
            "every checkpoint is evaluated on it again, and rows on the old one are shown no more (to keep those, put "
            "what is new into a sweep file of its own)"
        )


def _what_changed(evaluation: EvaluationSpec, old: str, store: Readable) -> str:
    if evaluation.pool is None or not store.exists(pool_record(old)):
        return ""
    record = from_bytes(PoolRecord, store.read(pool_record(old)))
    encoders = [encoder.title for encoder in evaluation.pool.encoders]
    new = [name for name in encoders if name not in record.encoders]
    gone = [name for name in record.encoders if name not in encoders]
    parts = [
        *([f"{', '.join(new)} contributes too"] if new else []),
        *([f"{', '.join(gone)} contributes no more"] if gone else []),
        *(["its settings changed"] if record.settings != evaluation.pool.settings else []),
    ]
    return f" ({'; '.join(parts)})" if parts else ""
