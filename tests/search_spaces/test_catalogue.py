"""Conformance of every catalogue entry, so that a new one is tested the moment it exists."""

import re

import pytest

from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.catalogue.families import FAMILIES, Family
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.registry import Registry, UnknownNameError
from search_spaces.catalogue.similarities import SIMILARITIES, Similarity
from search_spaces.catalogue.sources import parse_source

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
        assert source.revision or source.scheme == "package"
        assert checkpoint.licence
        assert checkpoint.trained_on


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
    ],
)
def test_sources_without_scheme_or_revision_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_source(text)


def test_sources_are_printed_as_they_are_read():
    for text in ("path:/data/x", "package:module/file", f"hf:org/name@{'a1' * 20}"):
        assert str(parse_source(text)) == text


def test_a_family_without_checkpoint_is_refused():
    with pytest.raises(ValueError, match="neither a retriever nor a base"):
        Family(name="empty", pooling="mean", max_query_length=8, max_document_length=8)
