"""Plots: the same rows give the same bytes, from several threads too; what is drawn is what the rows say."""

import re
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import polars as pl
import pytest
from scipy import stats

from results.collect import collect
from results.layout import history_rows
from results.plots import PLOTS, cohen_d, curves, fisher_check, gains, norms, train_score_matrix
from results.plots.drawn import drawn_plots
from results.plots.files import FILES, svg
from results.plots.plot import NothingToDrawError, PlotSource, drawings
from results.plots.style import look_of
from results.plots.training import training_curves
from results.predictions import PREDICTORS
from results.rows import write_rows
from results.schemas import SCHEMAS
from results.store import open_store
from results.tables.built import build_tables
from results.tables.table import Table, TableOptions
from search_spaces.catalogue.similarities import SIMILARITIES
from tests.results.builders import (
    SweepFolder,
    evaluation,
    small_sweep,
    trained,
    two_queries,
    untrained,
    untrained_queries,
)


def history(similarity, num_steps=50, trial_id=None):
    return pl.DataFrame(
        {
            "trial_id": [trial_id or similarity] * num_steps,
            "similarity": [similarity] * num_steps,
            "step": range(1, num_steps + 1),
            "loss": [1 / step for step in range(1, num_steps + 1)],
            "gamma_q": [0.5 + step / 1000 for step in range(1, num_steps + 1)],
            "gamma_d": [0.5 - step / 1000 for step in range(1, num_steps + 1)],
        }
    )


def training(num_steps=50):
    means = {f"{side}_norm_mean": pl.col("loss") * times for side, times in (("query", 1), ("document", 2))}
    scores = pl.when(pl.col("step") % 10 == 0).then("loss")
    return history("qnorm", num_steps).with_columns(**means, validation_score=scores)


def gain_rows(similarities=("dot", "qnorm"), num_seeds=3):
    rows = [
        ("minilm", "finetune", "fixed(20)", name, place / 100, place / 100 - 0.01, place / 100 + 0.02, num_seeds)
        for place, name in enumerate(similarities)
    ]
    names = ["model", "init_regime", "scale", "similarity", "gain", "gain_low", "gain_high", "num_seeds"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(baseline=pl.lit("cosine"))


def matrix_rows():
    rows = [("out", "cosine", "cosine", 0.5), ("out", "cosine", "dot", 0.4), ("out", "untrained", "dot", 0.1)]
    return pl.DataFrame(rows, schema=["group", "trained", "score_similarity", "score"], orient="row")


def fisher_rows():
    found = {"model": "m", "init_regime": "finetune", "scale": "fixed(20)", "seed": None, "statistic": "log10 kappa"}
    found |= {"predictor": "fisher_condition"}
    evidence = {"difference_min": -0.2, "difference_max": -0.1, "low": -0.3, "high": -0.05, "call": "qnorm"}
    observed = {"qnorm_score": 0.36, "dnorm_score": 0.32, "gain_low": 0.01, "gain_high": 0.07}
    return pl.DataFrame([{**found, **evidence, "qnorm_min": 1.0, **observed}])


def norm_rows():
    rows = [("a", "cosine", "unjudged", 5.0, 4.0, 0.7, 0.0), ("a", "qnorm", "unjudged", 6.0, 3.0, 0.9, 0.02)]
    names = ["data_set", "similarity", "irrelevant", "relevant_norm", "irrelevant_norm", "cohen_d", "gain"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(groups=pl.lit("out"), baseline=pl.lit("dot"))


FIGURES = {
    "losses": lambda: curves.draw_losses(pl.concat([history("cosine"), history("qnorm")]), "losses"),
    "gammas": lambda: curves.draw_gammas(history("learnable"), "gammas"),
    "training": lambda: training_curves(training(), "one training"),
    "gains": lambda: gains.draw(gain_rows(), "gains"),
    "train_score_matrix": lambda: train_score_matrix.draw(matrix_rows(), "matrix"),
    "fisher_check": lambda: fisher_check.draw(fisher_rows(), "fisher"),
    "norms": lambda: norms.draw(norm_rows(), "norms"),
    "cohen_d": lambda: cohen_d.draw(norm_rows(), "d"),
}


def texts_of(figure):
    return [element.text for element in ElementTree.fromstring(svg(figure)).iter() if element.tag.endswith("text")]


def marks_of(axes):
    """Marker -> place, of every lone mark."""
    lone = [line for line in axes.lines if line.get_linestyle() == "None" and len(line.get_xdata()) == 1]
    return {line.get_marker(): (line.get_xdata()[0], line.get_ydata()[0]) for line in lone}


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_rows_give_the_same_file(name):
    first = svg(FIGURES[name]())
    with ThreadPoolExecutor(3) as threads:
        assert set(threads.map(lambda _: svg(FIGURES[name]()), range(3))) == {first}
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert b"dc:date" not in first


def test_every_format_has_the_same_bytes_each_time_and_no_date():
    first, second = ({name: write(FIGURES["gains"]()) for name, write in FILES.items()} for _ in range(2))
    assert first == second
    assert first["pdf"].startswith(b"%PDF")
    assert b"CreationDate" not in first["pdf"]
    assert b"/FontFile2" in first["pdf"], "letters lie in the file"
    assert first["png"].startswith(b"\x89PNG")


def test_print_is_readable():
    """Drawn at the size of print: no letter below 6 points, no wider than a page."""
    for name, make in FIGURES.items():
        figure = make()
        sizes = [float(size) for size in re.findall(rb"font(?:-size)?: ?(?:\w+ )*?([\d.]+)px", svg(figure))]
        assert min(sizes) >= 6, name
        assert figure.get_figwidth() <= 6.9 or name == "training"


def test_every_similarity_looks_unlike_every_other():
    looks = [look_of(name) for name in SIMILARITIES]
    for one in ("colour", "marker", "dashes"):
        assert len({getattr(look, one) for look in looks}) == len(SIMILARITIES)


def test_curves_are_the_losses_of_each_trial():
    figure = curves.draw_losses(pl.concat([history("cosine", trial_id="a"), history("cosine", trial_id="b")]), "t")
    [axes] = figure.axes
    assert len(axes.lines) == 2
    assert list(axes.lines[0].get_ydata()) == [1 / step for step in range(1, 51)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cosine"]


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    [axes] = curves.draw_losses(history("cosine", 10_000), "t").axes
    steps = list(axes.lines[0].get_xdata())
    assert len(steps) <= 402
    assert (steps[0], steps[-1]) == (1, 10_000)


def test_gammas_are_those_of_both_sides():
    [axes] = curves.draw_gammas(history("learnable", 3), "t").axes
    curves_of = [line for line in axes.lines if line.get_linewidth() > 1]
    assert [list(line.get_ydata()) for line in curves_of] == [[0.501, 0.502, 0.503], [0.499, 0.498, 0.497]]


def test_a_training_shows_what_it_has():
    assert [axes.get_title() for axes in training_curves(training(), "t").axes] == [
        "loss",
        "mean norm of embeddings",
        "validation score",
    ]
    without = training().with_columns(validation_score=pl.lit(None, dtype=pl.Float64))
    assert len(training_curves(without, "t").axes) == 2


def test_gains_stand_in_points_with_their_intervals():
    [axes] = gains.draw(gain_rows(("dot", "qnorm", "dnorm")), "t").axes
    assert {marker: x for marker, (x, _) in marks_of(axes).items()} == {
        look_of(name).marker: place for place, name in enumerate(("dot", "qnorm", "dnorm"))
    }
    bars = [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "|"]
    assert bars == [pytest.approx([place - 1, place + 2]) for place in range(3)]


@pytest.mark.parametrize(("num_seeds", "is_hollow"), [(1, True), (3, False)])
def test_a_gain_of_one_seed_is_hollow(num_seeds, is_hollow):
    [axes] = gains.draw(gain_rows(num_seeds=num_seeds), "t").axes
    faces = {line.get_markerfacecolor() for line in axes.lines if line.get_marker() in ("s", "^")}
    assert (faces == {"white"}) is is_hollow


def test_a_matrix_shows_scores_times_100_and_hatches_what_was_not_scored():
    [axes] = train_score_matrix.draw(matrix_rows(), "t").axes
    assert [text.get_text() for text in axes.texts] == ["50.0", "40.0", "10.0"]
    assert [patch.get_xy() for patch in axes.patches if patch.get_hatch()] == [(-0.5, 0.5)]  # untrained, cosine


def test_fisher_marks_stand_at_both_differences():
    [axes] = fisher_check.draw(fisher_rows(), "t").axes
    assert marks_of(axes)["o"] == pytest.approx((-0.15, 4.0))


def test_fisher_marks_have_the_intervals_of_both_differences():
    [axes] = fisher_check.draw(fisher_rows(), "t").axes
    bars = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if len(line.get_xdata()) == 2]
    along, upright = bars[:2]
    assert along == (pytest.approx([-0.3, -0.05]), pytest.approx([4.0, 4.0]))
    assert upright == (pytest.approx([-0.15, -0.15]), pytest.approx([1.0, 7.0]))


@pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=lambda predictor: predictor.name)
def test_every_predictors_axis_fits_its_column_and_names_what_it_shows(predictor):
    rows = fisher_rows().with_columns(predictor=pl.lit(predictor.name), statistic=pl.lit(predictor.statistic))
    sides = {"qnorm minus dnorm": rows, "before training": rows.with_columns(qnorm_min=pl.lit(None))}
    for told, drawn in sides.items():
        figure = fisher_check.draw(drawn, "t")
        figure.draw_without_rendering()
        [axes] = figure.axes
        box = axes.xaxis.get_label().get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert told in axes.get_xlabel()
    assert "qnorm" not in axes.get_xlabel()  # Cohen's d, say, is no difference of sides


@pytest.mark.parametrize(("predictor", "right"), [("fisher_condition", "dnorm"), ("cohen_d", "qnorm")])
def test_quadrants_name_the_side_that_a_difference_above_0_calls(predictor, right):
    [axes] = fisher_check.draw(fisher_rows().with_columns(predictor=pl.lit(predictor)), "t").axes
    left = {"qnorm": "dnorm", "dnorm": "qnorm"}[right]
    told = {text.get_position(): text.get_text() for text in axes.texts}
    assert told[0.98, 0.98] == f"{'hit' if right == 'qnorm' else 'miss'}: calls {right}"
    assert told[0.98, 0.02] == f"{'hit' if right == 'dnorm' else 'miss'}: calls {right}"
    assert told[0.02, 0.98] == f"{'hit' if left == 'qnorm' else 'miss'}: calls {left}"


def test_norms_and_distances_stand_where_the_rows_say():
    [axes] = norms.draw(norm_rows(), "t").axes
    joined = [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-"]
    assert joined == [[4.0, 5.0], [3.0, 6.0]]
    first, second = cohen_d.draw(norm_rows(), "t").axes
    assert marks_of(first)["o"] == pytest.approx((0.7, 0.0))
    assert marks_of(second)["o"] == pytest.approx((0.9, 2.0))


def test_names_are_drawn_as_they_are():
    """A dollar sign begins no formula, and markup is text."""
    rows = gain_rows().with_columns(model=pl.lit("$b^2$ <b>&lt;\\"))
    assert "$b^2$ <b>&lt;\\ finetune" in texts_of(gains.draw(rows, "100 % of $x$"))


def test_long_names_keep_beginning_and_end():
    rows = gain_rows().with_columns(model=pl.lit("organisation/a-model-of-7b"))
    assert "organisation/a-m…inetune" in texts_of(gains.draw(rows, "t"))


def source_of(folder, **options):
    collected = collect(folder.store, folder.record())
    chosen = TableOptions(**options)
    return PlotSource(collected=collected, built=build_tables(collected, chosen), options=chosen)


@pytest.fixture(scope="module")
def source(small):
    return PlotSource(collected=small, built=build_tables(small, TableOptions()), options=TableOptions())


def test_intervals_are_those_of_a_paired_t_test(tmp_path):
    """One seed, one data set in the group: the two-way model's interval is that of Student's paired t over queries."""
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "in_domain"),))
    scores = {"cosine": [0.1, 0.5, 0.4, 0.9], "qnorm": [0.3, 0.4, 0.8, 0.95]}
    for similarity, values in scores.items():
        folder.add_trial(trained(similarity), lambda _, __, values=values: values)
    source = source_of(folder)
    found = stats.ttest_rel(scores["qnorm"], scores["cosine"]).confidence_interval(0.95)
    for name in ("gains", "gains_by_dataset"):
        [figure] = drawings(PLOTS[name], source)
        [axes] = figure.draw().axes
        [bar] = [line for line in axes.lines if line.get_marker() == "|"]
        assert list(bar.get_xdata()) == pytest.approx([100 * found.low, 100 * found.high])


def test_parts_of_a_data_set_are_one_strip_with_all_its_groups(tmp_path):
    parts = [evaluation(f"forum{n}", "beir", "both", part_of="forums") for n in range(2)]
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(*parts, evaluation("attack", "both")))
    level = {"forum0": 0.2, "forum1": 0.4, "attack": 0.5}
    for similarity, more in (("cosine", 0.0), ("dot", 0.1)):
        folder.add_trial(trained(similarity), lambda name, _, more=more: [level[name] + more, level[name] - more])
    [figure] = drawings(PLOTS["gains_by_dataset"], source_of(folder))
    [axes] = figure.draw().axes
    assert {label.get_text() for label in axes.get_yticklabels()} == {"forums\n(beir, both)", "attack\n(both)"}


def test_every_plot_draws_the_sweep_or_says_why_not(source):
    drawn = {plot.plot.name: plot for plot in drawn_plots(source)}
    assert list(drawn) == list(PLOTS)
    assert {name for name, plot in drawn.items() if plot.figures} >= {"gains", "gains_by_dataset", "fisher_check"}
    assert "score_similarities: all" in drawn["train_score_matrix"].reason
    for plot in drawn.values():
        assert bool(plot.figures) != bool(plot.reason)
        assert len({figure.file_name for figure in plot.figures}) == len(plot.figures)
        for figure in plot.figures:
            assert re.fullmatch(r"[\w.-]+", figure.file_name)
            assert f"{plot.plot.title}: {figure.label}".removesuffix(": ").encode() in figure.svg


def test_the_whole_matrix_of_a_sweep_that_scores_with_all(tmp_path):
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", "out"),))
    values = {"cosine": 0.5, "dot": 0.4, "qnorm": 0.3, "dnorm": 0.2, "half": 0.1}
    key = folder.add_trial(trained("cosine"), two_queries((0.5, 0.5)))
    for name in ("dot", "qnorm"):
        folder.write_evaluation(key, folder.evaluations[0], name, [values[name]] * 2)
    folder.add_trial(untrained(), untrained_queries((0.4, 0.4)))
    # Scores beyond a checkpoint's own are asked for by the evaluations beside its spec.
    folder.plan_evaluations(key, score_similarities="all")
    source = source_of(folder)
    [figure] = drawings(PLOTS["train_score_matrix"], source)
    [axes] = figure.draw().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cosine", "untrained"]
    assert [text.get_text() for text in axes.texts][:3] == ["50.0", "40.0", "30.0"]


def test_histories_become_curves(tmp_path):
    folder = small_sweep(open_store(str(tmp_path)))
    for trial in folder.trials[:5]:
        numbers = dict.fromkeys(SCHEMAS["history"].names, 0.5)
        rows = [numbers | {"trial_id": trial.trial_id, "step": step, "peak_memory_bytes": 1} for step in (1, 2)]
        write_rows(folder.store, history_rows(trial.trial_id), "history", rows)
    drawn = {plot.plot.name: plot for plot in drawn_plots(source_of(folder), [curves.LOSSES, curves.GAMMAS])}
    assert [figure.label for figure in drawn["losses"].figures] == ["minilm-3l finetune"]
    assert [figure.file_name for figure in drawn["gammas"].figures] == ["gammas_minilm-3l_finetune"]


def test_groups_of_like_names_have_files_of_their_own(tmp_path):
    groups = ("a b", "a/b", "A_b")
    folder = SweepFolder(store=open_store(str(tmp_path)), evaluations=(evaluation("attack", *groups),))
    for similarity in ("cosine", "dot"):
        folder.add_trial(trained(similarity), two_queries((0.5, 0.5)))
    names = [figure.file_name for figure in drawings(PLOTS["gains"], source_of(folder))]
    assert names == ["gains_a_b", "gains_a_b-2", "gains_A_b-3"]


def test_a_refused_table_says_why(source):
    refused = replace(source, built=replace(source.built, tables={}, refused={"gains": "choose one"}))
    with pytest.raises(NothingToDrawError, match="table 'gains', and choose one"):
        drawings(PLOTS["gains"], refused)


def test_norms_and_distances_are_those_of_their_table_beside_the_gains(source):
    gained = source.built.tables["gains_by_dataset"].rows.filter(pl.col("kind") == "train")
    cells = gained.select("task", "training_data", "scale", "family", "layers", "init_regime", "kind", "similarity")
    rows = cells.with_columns(
        data_set=gained["group"], split=pl.lit("test"), irrelevant=pl.lit("unjudged"), cohen_d=gained["gain"] * 10
    ).with_columns(relevant_norm=pl.lit(5.0), irrelevant_norm=pl.lit(4.0))
    table = Table(name="cohen_d", title="d", columns=(), rows=rows)
    built = replace(source.built, tables={**source.built.tables, "cohen_d": table})
    figures = {figure.label: figure for figure in drawings(PLOTS["cohen_d"], replace(source, built=built))}
    assert list(figures) == ["minilm-3l finetune", "minilm-3l random", "smollm2-2l from_base"]
    [axes] = figures["smollm2-2l from_base"].draw().axes
    for distance, gain in marks_of(axes).values():
        assert gain == pytest.approx(10 * distance)
    labels = [figure.label for figure in drawings(PLOTS["norms"], replace(source, built=built))]
    assert labels == list(figures)


def test_norms_of_trainings_on_other_data_have_figures_of_their_own(source):
    """Marks of two checkpoints in one strip would look like one checkpoint's."""
    columns = {"kind": "train", "family": "minilm", "layers": 3, "init_regime": "finetune", "scale": "fixed(20)"}
    rows = pl.concat([norm_rows().with_columns(training_data=pl.lit(name)) for name in ("code", "claims")])
    table = Table(
        name="cohen_d", title="d", columns=(), rows=rows.with_columns(**{k: pl.lit(v) for k, v in columns.items()})
    )
    built = replace(source.built, tables={**source.built.tables, "cohen_d": table})
    labels = [figure.label for figure in drawings(PLOTS["norms"], replace(source, built=built))]
    assert labels == ["minilm-3l finetune code", "minilm-3l finetune claims"]


def test_a_mean_over_training_data_is_not_set_against_one_checkpoints_distance(small):
    pooled = TableOptions(pool=True)
    with pytest.raises(NothingToDrawError, match="--where training_data"):
        drawings(PLOTS["cohen_d"], PlotSource(collected=small, built=build_tables(small, pooled), options=pooled))
