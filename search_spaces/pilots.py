"""Pilots: short trainings of each side before the real ones, scored on development data; they report nothing.

A pilot is a kind of trial of its own, also where the file trains as many steps: what its rows are for is part of what
it is, so that no reader of trained trials can take one for a result, and its schedule is its own: a constant learning
rate, the cell's peak one, without warm-up. Of a cell that has several hyperparameters or (where weights are not drawn)
seeds, the first ones are taken.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from search_spaces.cells import axes_blocks
from search_spaces.declared import Declared
from search_spaces.problems import Problem
from search_spaces.schema import PilotBlock, SweepFile
from search_spaces.specs import DataSpec, TrialSpec, ValidationSpec
from search_spaces.trial_specs import seed_of_weights, similarity_spec

Key = tuple[object, ...]


def pilots(trained: Iterable[TrialSpec], sweep: SweepFile, declared: Declared) -> tuple[TrialSpec, ...]:
    """The pilots of trained trials: of each cell, whatever its similarity, one under each of the block's similarities.

    Only of contrastive ones: others are not probed, and pilots are held beside probes.
    """
    if sweep.pilot is None:
        return ()
    first: dict[Key, TrialSpec] = {}
    for trial in trained:
        if trial.task == "contrastive":
            first.setdefault((trial.training_data, trial.encoder, trial.scale, seed_of_weights(trial)), trial)
    return tuple(
        _pilot(trial, similarity, sweep.pilot, declared)
        for trial in first.values()
        for similarity in sweep.pilot.similarities
    )


def _pilot(trial: TrialSpec, similarity: str, block: PilotBlock, declared: Declared) -> TrialSpec:
    assert trial.training is not None, "trained trials have settings"
    assert trial.training_data is not None, "and training data"
    return replace(
        trial,
        kind="pilot",
        similarity=similarity_spec(similarity),
        training=replace(trial.training, steps=block.steps, schedule="constant", warmup_steps=0),
        validation=ValidationSpec(
            data=pilot_data(trial.training_data.name, block, declared),
            every_steps=block.steps,  # once, at its end
            num_queries=block.num_queries,
            num_documents=block.num_documents,
        ),
        log_kappa_every=None,
    )


def pilot_data(training_data: str, block: PilotBlock, declared: Declared) -> DataSpec:
    """What a pilot on that training data is scored on."""
    return declared.data(block.data or training_data.partition("/")[0], "dev")


def pilot_problems(sweep: SweepFile, declared: Declared, where: str) -> Iterator[Problem]:
    """Pilots in a file that searches, and those scored on no development data, or on what trials are evaluated on."""
    if sweep.pilot is None:
        return
    if sweep.tune:
        message = "pilots run before anything is searched, and need the hyperparameters (leave out pilot, or tune)"
        yield Problem(where=where, key="pilot", message=message)
    given = sweep.pilot.data
    references = [given] if given else [ref for block in axes_blocks(sweep) for ref in block.axes["training_data"]]
    evaluated = {declared.data(ref, "test") for group in sweep.evaluation.groups.values() for ref in group}
    for reference in dict.fromkeys(references):
        name = reference.partition("/")[0]
        entry = declared.data_sets[name]
        if entry.is_scored:
            if given:
                message = f"data set '{name}' has scored pairs, and a pilot is scored by ranking (name a collection)"
                yield Problem(where=where, key="pilot.data", message=message)
            continue
        data = pilot_data(reference, sweep.pilot, declared)
        if not data.split:
            message = f"data set '{name}' names no dev split (write data: NAME/SPLIT to score pilots on one of its own)"
            yield Problem(where=where, key="pilot.data", message=message)
        elif data in evaluated:
            message = (
                f"trials are evaluated on {name}/{data.split}: a pilot's call would have seen what it is held against"
            )
            yield Problem(where=where, key="pilot.data", message=f"{message} (name another split)")
