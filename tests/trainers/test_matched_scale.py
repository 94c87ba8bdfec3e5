import numpy as np
import pytest
from tiny_trials import data_spec, train_here, trial_spec, write_collection

from results.layout import checkpoint_prefix
from results.store import open_store
from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.identity import trial_id
from search_spaces.specs import ScaleSpec, SimilaritySpec
from trainers.encoders.checkpoints import read_record
from trainers.encoders.encode import encode
from trainers.init_regimes import start_encoder
from trainers.threads import set_threads
from trainers.training.pairs import load_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENSESWEEP_CACHE", str(folder / "cache"))
        set_threads(1)
        yield data_spec(write_collection(folder / "collection"), "train")


def spec_of(data, encoder, name, scale):
    found = SIMILARITIES[name]
    similarity = SimilaritySpec(name=name, gamma_q=found.gamma_q, gamma_d=found.gamma_d, trained=found.trained)
    trial = trial_spec(data, encoder, similarity=similarity, steps=2)
    return trial.__class__(**{**vars(trial), "scale": scale})


@pytest.mark.parametrize(
    "name",
    [name if name in ("qnorm", "learnable") else pytest.param(name, marks=pytest.mark.slow) for name in SIMILARITIES],
)
def test_the_divisor_is_the_starting_encoders_norms_and_stands_in_the_checkpoint(data, minilm, name, tmp_path):
    trial = spec_of(data, minilm, name, ScaleSpec(mode="matched", value=20.0))
    result, _ = train_here(trial, tmp_path)
    pairs = load_pairs(data)  # fewer texts than are sampled, so all of them count
    encoder = start_encoder(trial.encoder, None)
    q, d = (
        np.linalg.norm(encode(encoder, texts, side).astype(np.float64), axis=1)
        for texts, side in ((pairs.query_texts, "query"), (pairs.document_texts, "document"))
    )
    found = SIMILARITIES[name]
    expected = (q ** (1 - found.gamma_q)).mean() * (d ** (1 - found.gamma_d)).mean()
    assert result.scale_divisor == pytest.approx(expected, rel=1e-6)
    with open_store(str(tmp_path)).get_folder(checkpoint_prefix(trial_id(trial))) as folder:
        stored = read_record(folder).scale
    assert (stored.mode, stored.value, stored.divisor) == ("matched", 20.0, result.scale_divisor)


@pytest.mark.slow
def test_logits_start_alike_under_a_matched_scale_and_far_apart_under_a_fixed_one(data, minilm, tmp_path):
    deviations = {}
    for mode in ("fixed", "matched"):
        for name in ("cosine", "dot", "qnorm", "dnorm", "half"):
            trial = spec_of(data, minilm, name, ScaleSpec(mode=mode, value=20.0))
            result, _ = train_here(trial, tmp_path / mode / name)
            deviations[mode, name] = result.start.logit_std
    fixed, matched = ([v for (mode, _), v in deviations.items() if mode == which] for which in ("fixed", "matched"))
    assert max(matched) < 1.35 * min(matched)
    assert max(fixed) > 10 * min(fixed)


def test_under_cosine_matched_is_fixed(data, minilm, tmp_path):
    histories = []
    for mode in ("fixed", "matched"):
        trial = spec_of(data, minilm, "cosine", ScaleSpec(mode=mode, value=20.0))
        result, _ = train_here(trial, tmp_path / mode)
        histories.append([step.loss for step in result.history])
    assert histories[0] == histories[1]
    assert result.scale_divisor == 1
