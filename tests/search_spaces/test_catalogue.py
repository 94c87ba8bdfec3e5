"""Conformance of every catalogue entry, so that a new one is tested the moment it exists."""

import re
from typing import get_args

import pytest

from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.catalogue.families import FAMILIES, Checkpoint, Family, Pooling
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.registry import Registry, UnknownNameError
from search_spaces.catalogue.similarities import SIMILARITIES, Similarity
from search_spaces.catalogue.sources import parse_source
from search_spaces.expand import expand
from search_spaces.problems import InputError

# Catalogue entries whose commit is not known: planning pins what it finds, says so, and hashes its content.
UNPINNED = {("retromae", "Shitao/RetroMAE")}
REGISTRIES = [FAMILIES, DATA_SETS, SIMILARITIES, INIT_REGIMES]


@pytest.mark.parametrize(
    ("registry", "name"), [(r, name) for r in REGISTRIES for name in r], ids=lambda value: getattr(value, "kind", value)
)
def test_names_can_stand_in_paths_and_tables(registry, name):
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)
    assert registry[name].name == name


@pytest.mark.parametrize("similarity", SIMILARITIES.values(), ids=lambda s: s.name)
def test_exponents_lie_between_0_and_1(similarity):
    assert 0 <= similarity.gamma_q <= 1
    assert 0 <= similarity.gamma_d <= 1


def test_the_studys_similarities_have_the_studys_exponents():
    found = {name: (s.gamma_q, s.gamma_d, s.trained) for name, s in SIMILARITIES.items()}
    assert found == {
        "cosine": (1, 1, False),
        "dot": (0, 0, False),
        "qnorm": (1, 0, False),
        "dnorm": (0, 1, False),
        "learnable": (0.5, 0.5, True),
        "half": (0.5, 0.5, False),
    }
    assert {name for name, s in SIMILARITIES.items() if s.symmetric} == {"cosine", "dot", "half"}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
def test_families_pin_their_sources_and_licences(family):
    for checkpoint in filter(None, (family.retriever, family.base)):
        source = parse_source(checkpoint.source)
        assert source.revision or source.scheme == "package" or (family.name, source.location) in UNPINNED
        assert checkpoint.licence
        assert checkpoint.trained_on
        assert len(set(checkpoint.trained_on)) == len(checkpoint.trained_on)
        assert not checkpoint.remote_code


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
def test_families_say_all_that_a_trial_needs(family):
    settings = family.settings
    assert settings.pooling in get_args(Pooling)
    assert 0 < settings.max_query_length <= settings.max_document_length
    assert settings.append_eos == (settings.pooling == "last")  # else a text's last token is any word


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("regime", INIT_REGIMES)
def test_a_familys_regimes_are_those_whose_checkpoint_it_has(family, regime, parse, raw):
    raw["axes"] |= {"family": family.name, "init_regime": regime}
    raw["missing_checkpoints"] = "leave_out"
    reads = INIT_REGIMES[regime].reads
    has = {"retriever": family.retriever, "base": family.base, "any": family.retriever or family.base}[reads]
    if has is None:
        with pytest.raises(InputError, match="no cell is left to run"):
            expand(parse(raw), where="sweep.yaml")
        return
    for trial in expand(parse(raw), where="sweep.yaml").trials:
        assert trial.encoder.weights.source == has.source
        assert trial.encoder.weights.gguf_file == has.gguf_file


def test_the_studys_families_are_as_published():
    """Pooling and prefixes of the study's four; Qwen3's instruction as its model page has it."""
    found = {name: FAMILIES[name] for name in ("contriever", "retromae", "e5", "qwen3")}
    assert {name: family.pooling for name, family in found.items()} == {
        "contriever": "mean",
        "retromae": "cls",
        "e5": "mean",
        "qwen3": "last",
    }
    assert (found["e5"].settings.query_prompt, found["e5"].settings.document_prompt) == ("query: ", "passage: ")
    filled = found["qwen3"].settings.query_prompt.replace("{instruction}", found["qwen3"].settings.instruction)
    assert filled == "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    assert found["qwen3"].settings.document_prompt == ""
    for name in ("contriever", "retromae", "e5"):
        assert FAMILIES[name].base is not None
        assert FAMILIES[name].base.source.startswith("hf:google-bert/bert-base-uncased@")


def test_a_name_declared_twice_is_refused():
    entry = Similarity(name="cosine", gamma_q=0, gamma_d=0)
    with pytest.raises(ValueError, match="'cosine' is declared twice"):
        SIMILARITIES.extended([entry])
    with pytest.raises(ValueError, match="names are lower-case"):
        Registry("similarity", [Similarity(name="Cosine", gamma_q=0, gamma_d=0)])


def test_an_unknown_name_gets_the_nearest_match():
    with pytest.raises(UnknownNameError, match=re.escape("'cosin' is not a similarity (did you mean 'cosine'?)")):
        SIMILARITIES["cosin"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minilm", "is not a source"),
        ("s3:bucket", "is not a source"),
        ("path:", "is not a source"),
        ("hf:facebook/contriever", "no pinned revision"),
        ("hf:facebook/contriever@main", "no pinned revision"),
        ("trial:sweeps/demo", "names no trial"),
        ("trial:0123456789abcdef", "names no trial"),
        ("trial:sweeps/demo/minilm-finetune", "names no trial .write trial:SWEEP_FOLDER/TRIAL_ID"),
    ],
)
def test_sources_without_scheme_or_revision_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_source(text)


def test_sources_are_printed_as_they_are_read():
    trial = f"trial:/sweeps/demo/{'a1' * 8}"
    for text in ("path:/data/x", "package:module/file", f"hf:org/name@{'a1' * 20}", "hf:org/name@unpinned", trial):
        assert str(parse_source(text)) == text
    assert (parse_source(trial).location, parse_source(trial).trial_id) == ("/sweeps/demo", "a1" * 8)


@pytest.mark.parametrize(
    ("source", "message"),
    [("hf:org/name@unpinned", "is not pinned"), (f"trial:sweeps/demo/{'a1' * 8}", "a checkpoint, which holds no data")],
)
def test_data_of_a_sweep_file_is_pinned_and_no_checkpoint(source, message, parse, raw):
    raw["data_sets"] = [{"name": "x", "source": source}]
    with pytest.raises(InputError, match=message):
        parse(raw)


def test_a_family_without_checkpoint_is_refused():
    with pytest.raises(ValueError, match="neither a retriever nor a base"):
        Family(name="empty", pooling="mean", max_query_length=8, max_document_length=8)


def test_a_family_that_lacks_something_has_no_settings():
    family = Family(name="open", base=Checkpoint(source="path:/x"), pooling="mean", max_query_length=8)
    with pytest.raises(ValueError, match="'open' lacks its pooling or a length"):
        _ = family.settings


def test_a_gguf_file_brings_no_code():
    with pytest.raises(ValueError, match="a GGUF file brings none"):
        Checkpoint(source="path:/x", gguf_file="x.gguf", remote_code=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"query_prompt": "{instruction}: "}, "no `instruction` for data sets that have none of their own"),
        ({"query_prompt": "query: ", "instruction": "find it"}, "query_prompt has no {instruction} to put it"),
        ({"instruction": "find it"}, "query_prompt has no {instruction} to put it"),
        ({"document_prompt": "{instruction}: "}, "only queries are instructed"),
    ],
)
def test_an_instruction_has_a_place_and_a_place_an_instruction(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Family(name="mine", base={"source": "path:."}, pooling="mean", **settings)
