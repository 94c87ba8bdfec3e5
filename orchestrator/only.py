"""A part of a sweep, to plan or to run: `--only family=contriever,similarity=qnorm`, or its probes alone."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.missing_inputs import Needed
from search_spaces.axes import AXES
from search_spaces.blocks import parse_scale
from search_spaces.expand import Expansion
from search_spaces.hyperparameters import HINTS
from search_spaces.problems import InputError, Problem, unknown_name
from search_spaces.specs import DataSpec, EncoderSpec, ProbeSpec, TrialSpec
from search_spaces.tuning import TunedCell

PROBE, PILOT = "probe", "pilot"
_WHERE = "--only"
Spec = TrialSpec | ProbeSpec


@dataclass(frozen=True, kw_only=True)
class Only:
    """By axis or hyperparameter the values that are wanted, as texts; without any, all cells are.

    `kinds`: of what is run of them, PROBE or kinds of trials; None is everything.
    """

    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kinds: frozenset[str] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing of the sweep is left away."""
        return not self.wanted and self.kinds is None

    @property
    def takes_checkpoints(self) -> bool:
        """Whether there are trials in the part whose checkpoints are evaluated, and not only what comes before them."""
        return self.kinds is None or not self.kinds <= {PROBE, PILOT}

    def takes(self, spec: Spec) -> bool:
        """Whether a trial or probe is of the part.

        What it does not have does not exclude it: an untrained checkpoint has no similarity, and is of every one.
        """
        if self.kinds is not None and _kind(spec) not in self.kinds:
            return False
        return all(not (found := _values(spec, name)) or found & values for name, values in self.wanted.items())

    def takes_study(self, cell: TunedCell) -> bool:
        """Whether the trials that a study leads to are of the part, or some of them."""
        return any(self.takes(trial) for trial in cell.reporting)

    def __str__(self) -> str:
        return ",".join(f"{name}={_shown(value)}" for name, values in self.wanted.items() for value in sorted(values))


def _kind(spec: Spec) -> str:
    return PROBE if isinstance(spec, ProbeSpec) else spec.kind


def parse_only(text: str | None, expansion: Expansion, kinds: frozenset[str] | None = None) -> Only:
    """Read NAME=VALUE, ...; a name that stands twice wants either value. `kinds` are those of `Only`.

    Raises:
        InputError: no such axis or hyperparameter, or no cell of the sweep has that value; all of them together.
    """
    wanted: dict[str, set[str]] = {}
    problems: list[Problem] = []
    for part in text.split(",") if text else ():
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if fault := _fault(name, separator, value, expansion):
            problems.append(Problem(where=_WHERE, key=part.strip(), message=fault))
        else:
            wanted.setdefault(name, set()).add(_canonical(name, value))
    if problems:
        raise InputError(problems)
    only = Only(wanted={name: frozenset(values) for name, values in wanted.items()})
    if not any(map(only.takes, _specs(expansion))):
        message = "no cell of the sweep has all of these values together"
        raise InputError([Problem(where=_WHERE, key=str(only), message=message)])
    return replace(only, kinds=kinds)


def needed_by(only: Only, expansion: Expansion) -> Needed:
    """What the part reads; every checkpoint is evaluated on all data sets, and all encoders contribute to a pool.

    Where it has none, or pilots alone, nothing is evaluated.
    """
    studies = [cell for cell in expansion.tuned if only.takes_study(cell)]
    samples = [cell.tuning for cell in studies]
    trials = [*samples, *filter(only.takes, (*expansion.trials, *(t for cell in studies for t in cell.reporting)))]
    probes = list(filter(only.takes, expansion.probes))
    training = [*(t.training_data for t in trials), *(p.training_data for p in probes)]
    validated = [t.validation.data for t in trials if t.validation]
    is_evaluated = any(trial.kind != PILOT for trial in trials)
    evaluations = [evaluation.spec for evaluation in expansion.evaluations] if is_evaluated else []
    evaluated = [evaluation.data for evaluation in evaluations]
    pools = [evaluation.pool for evaluation in evaluations if evaluation.pool]
    contributing = [contributor.encoder for pool in pools for contributor in pool.encoders]
    encoders = [*(t.encoder for t in trials), *(p.encoder for p in probes), *contributing]
    return Needed(
        weights=frozenset(encoder.weights.source for encoder in encoders),
        data=frozenset(data.name for data in (*training, *validated, *evaluated) if data),
        reader=is_evaluated,
    )


def _fault(name: str, separator: str, value: str, expansion: Expansion) -> str | None:
    if not separator or not name or not value:
        return "is not a choice (write NAME=VALUE,NAME=VALUE)"
    if name not in AXES and name not in HINTS:
        return unknown_name("axis or hyperparameter", name, [*AXES, *HINTS])
    if any(name in dict(cell.tune.spaces) for cell in expansion.tuned):
        return "is searched, and what value it will have is not known before (choose by an axis)"
    known = sorted({found for spec in _specs(expansion) for found in _values(spec, name)})
    if _canonical(name, value) not in known:
        return unknown_name(f"{name} of this sweep", value, [_shown(text) for text in known])
    return None


def _specs(expansion: Expansion) -> Iterable[TrialSpec]:
    """The trials that are trained, also those that a study leads to."""
    yield from (trial for trial in expansion.trials if trial.kind == "train")
    yield from (trial for cell in expansion.tuned for trial in cell.reporting)


def _canonical(name: str, value: str) -> str:
    """A value as `_values` writes it: '1e-4' and '0.0001' are one, and so are 'matched' and 'matched(20)'."""
    try:
        if name == "scale":
            return str(parse_scale(value))
        return _text(float(value)) if name in HINTS or name == "seed" else value
    except ValueError:
        return {"null": "none", "~": "none"}.get(value, value) if name in HINTS else value


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | int) else "none" if value is None else str(value)


def _shown(text: str) -> str:
    """A whole number as people write it."""
    return text.removesuffix(".0")


def _data_names(data: DataSpec) -> tuple[str, ...]:
    """As a sweep file may name it, with its split or without."""
    return data.name, f"{data.name}/{data.split}"


def _family_names(encoder: EncoderSpec) -> tuple[str, ...]:
    """By its name alone, and as titles tell its first layers from the whole."""
    return (encoder.family, *([f"{encoder.family}-{encoder.layers}l"] if encoder.layers else []))


_OF_SPEC: Mapping[str, Callable[[Any], Iterable[Any]]] = {
    "task": lambda spec: [spec.task],
    "training_data": lambda spec: _data_names(spec.training_data) if spec.training_data else (),
    "family": lambda spec: _family_names(spec.encoder),
    "similarity": lambda spec: [similarity.name] if (similarity := getattr(spec, "similarity", None)) else (),
    "init_regime": lambda spec: [spec.encoder.init_regime],
    "seed": lambda spec: () if spec.seed is None else [spec.seed],
    "scale": lambda spec: [spec.scale] if spec.scale else (),
}


def _values(spec: Spec, name: str) -> frozenset[str]:
    """The texts that an axis or hyperparameter has its value by, none where the spec does not have it."""
    if name in _OF_SPEC:
        return frozenset(map(_text, _OF_SPEC[name](spec)))
    settings = spec.training if isinstance(spec, TrialSpec) else None
    return frozenset([_text(getattr(settings, name))]) if settings else frozenset()
