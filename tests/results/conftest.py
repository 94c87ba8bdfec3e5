"""A small sweep of one seed and one of three, written once; tests that change a folder make their own."""

import pytest

from results.collect import collect
from results.store import open_store
from results.tables import TABLES, TableOptions
from tests.results.builders import (
    SweepFolder,
    evaluation,
    failed,
    probe,
    seeded_sweep,
    small_sweep,
    softmax_of,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "sweep"))


@pytest.fixture
def folder(store):
    evaluations = (evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain"))
    return SweepFolder(store=store, evaluations=evaluations)


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory):
    return small_sweep(open_store(str(tmp_path_factory.mktemp("small"))))


@pytest.fixture(scope="session")
def small(small_folder):
    """The small sweep, collected."""
    return collect(small_folder.store, small_folder.record())


@pytest.fixture(scope="session")
def seeded_folder(tmp_path_factory):
    return seeded_sweep(open_store(str(tmp_path_factory.mktemp("seeded"))))


@pytest.fixture(scope="session")
def seeded(seeded_folder):
    """The sweep of three seeds, collected."""
    return collect(seeded_folder.store, seeded_folder.record())


@pytest.fixture(scope="session")
def with_holes(tmp_path_factory):
    """The gain table of a sweep that lacks a trial."""
    folder = SweepFolder(
        store=open_store(str(tmp_path_factory.mktemp("holes"))),
        evaluations=(evaluation("attack", "in_domain"), evaluation("pydoc_small", "out_of_domain")),
    )
    folder.add_trial(trained("cosine"), two_queries((0.5, 0.3)))
    folder.plan_trial(trained("qnorm"), status=failed("loss is NaN at step 7"))
    folder.add_trial(untrained(), untrained_queries((0.4, 0.2)))
    return TABLES["gains"].build(collect(folder.store, folder.record()), TableOptions())


@pytest.fixture(scope="session")
def two_scales(tmp_path_factory):
    """A sweep of two scales, collected."""
    folder = SweepFolder(
        store=open_store(str(tmp_path_factory.mktemp("scales"))), evaluations=(evaluation("attack", "out_of_domain"),)
    )
    for mode, difference in (("fixed", -0.2), ("matched", -0.1)):
        for similarity in ("cosine", "qnorm", "dnorm"):
            spec = trained(similarity, scale_mode=mode, init_regime="random")
            folder.add_trial(spec, two_queries((0.5, 0.3)), **softmax_of(similarity))
        spec = probe(scale_mode=mode, init_regime="random", seed=0)
        folder.add_probe(spec, {16: difference, 32: 2 * difference}, softmax={"saturated_share": (0.5, 0.6)})
    folder.add_trial(untrained(init_regime="random", seed=0), untrained_queries((0.4, 0.2)))
    return collect(folder.store, folder.record())
