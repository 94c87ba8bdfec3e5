"""Reader of MITRE ATT&CK as retrieval: which technique does this procedure example describe?

query: what a group, campaign or software did. document: a technique, its name as title. The package cuts descriptions
after 200 to 300 characters and marks the cut with '...'.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.problems import InputError, Problem
from trainers.data_sets.collection import CORPUS, QRELS, QUERIES, Collection
from trainers.data_sets.faults import Faults
from trainers.data_sets.hashing import text_hash
from trainers.data_sets.location import locate, stamp

VERSION = 1
_MIN_WORDS, _MAX_WORDS = 5, 80
_SPLITS = ("train", "dev", "test")
_ANNOTATED, _SAME_FAMILY = 2, 1
# The package's cut may have gone through a citation, a link ('[APT28](ht...') or a tag.
_CITATION = re.compile(r"\(Citation[^)]*(?:\)|$)|\(C?i?t?a?t?i?o?n?\.\.\.$")
_LINK = re.compile(r"\[([^\[\]]*)\](?:\(https?:[^)]*(?:\)|$)|\(?h?t?t?p?s?:?/?/?\.\.\.$)")
_CUT_LINK = re.compile(r"\[([^\[\]]*\.\.\.)$")
_TAG = re.compile(r"</?(?:code|br|b|i)\s*/?>|</?[a-z]*\.\.\.$")

Object = dict[str, Any]  # as STIX has it: many keys, few of them read
Examples = dict[str, dict[str, set[str]]]  # split -> text -> ids of the techniques used


def inputs(entry: DataSet) -> list[str]:
    """The package's files that are read, with sizes and times of change."""
    return [stamp(_file(entry, kind)) for kind in ("attack-patterns", "relationships")]


def read(entry: DataSet, faults: Faults) -> Collection:
    """Build the collection; splits are by actor, so that no group or software is in two of them.

    In dev and test 2 is the annotated technique and 1 others of its family (parent, sub-techniques); in train only the
    annotated ones are given, as 1.

    Raises:
        InputError: the package is not installed, or does not hold the files.
    """
    techniques = [t for t in _objects(entry, "attack-patterns") if not (t["revoked"] or t["deprecated"])]
    ids = {technique["stix_id"]: technique["external_id"] for technique in techniques}
    examples = _without_leaks(_examples(_objects(entry, "relationships"), ids))
    families = _families(ids.values())
    corpus = [{"id": t["external_id"], "title": t["name"], "text": clean(t["description"] or "")} for t in techniques]
    queries = [
        {"id": _query_id(text), "text": text, "excluded_ids": []}
        for split in _SPLITS
        for text in sorted(examples[split])
    ]
    return Collection(
        name=entry.name,
        corpus=pa.Table.from_pylist(sorted(corpus, key=lambda document: document["id"]), CORPUS),
        queries=pa.Table.from_pylist(queries, QUERIES),
        qrels={split: _qrels(examples[split], families, graded=split != "train") for split in _SPLITS},
    )


def clean(text: str) -> str:
    """The text without citations, links (their words stay) and tags, in single spaces."""
    for pattern, left in ((_CITATION, ""), (_LINK, r"\1"), (_CUT_LINK, r"\1"), (_TAG, "")):
        text = pattern.sub(left, text)
    return " ".join(text.split())


def split_of(actor: str) -> str:
    """The split that an actor (a STIX id) belongs to: by its hash, one tenth each to test and dev."""
    tenth = int(hashlib.sha1(actor.encode(), usedforsecurity=False).hexdigest(), 16) % 10
    return {0: "test", 1: "dev"}.get(tenth, "train")


def _file(entry: DataSet, kind: str) -> Path:
    folder = locate(entry)
    found = sorted(folder.glob(f"{kind}-lookup-*.json"))
    if len(found) != 1:
        message = f"one file {kind}-lookup-*.json is expected, there are {len(found)}"
        raise InputError([Problem(where=str(folder), key=f"data set '{entry.name}'", message=message)])
    return found[0]


def _objects(entry: DataSet, kind: str) -> list[Object]:
    objects: list[Object] = json.loads(_file(entry, kind).read_bytes())[kind.replace("-", "_")]
    return objects


def _examples(relationships: list[Object], ids: dict[str, str]) -> Examples:
    leading = _leading_actor(relationships)
    examples: Examples = {split: defaultdict(set) for split in _SPLITS}
    for relationship in relationships:
        if relationship["relationship_type"] != "uses" or relationship["target_ref"] not in ids:
            continue
        text = clean(relationship["description"] or "")
        if _MIN_WORDS <= len(text.split()) <= _MAX_WORDS:
            split = split_of(leading(relationship["source_ref"]))
            examples[split][text].add(ids[relationship["target_ref"]])
    return examples


def _leading_actor(relationships: list[Object]) -> Callable[[str], str]:
    """One id for all actors that attributions link: a campaign must be in the split of the groups behind it."""
    linked: dict[str, str] = {}

    def leading(actor: str) -> str:
        while actor in linked:
            actor = linked[actor]
        return actor

    for relationship in relationships:
        if relationship["relationship_type"] == "attributed-to":
            campaign, group = leading(relationship["source_ref"]), leading(relationship["target_ref"])
            if campaign != group:
                linked[campaign] = group
    return leading


def _without_leaks(examples: Examples) -> Examples:
    """Of a text (in any case) that several splits have, only test keeps it, or dev before train."""
    kept: Examples = {}
    seen: set[str] = set()
    for split in reversed(_SPLITS):
        kept[split] = {text: used for text, used in examples[split].items() if text.casefold() not in seen}
        seen.update(text.casefold() for text in kept[split])
    return kept


def _families(external_ids: Iterable[str]) -> dict[str, set[str]]:
    """By a technique's id ('T1001.002') all of its family: its parent ('T1001') and the parent's sub-techniques."""
    members: dict[str, set[str]] = defaultdict(set)
    for external_id in external_ids:
        members[external_id.partition(".")[0]].add(external_id)
    return {external_id: family for family in members.values() for external_id in family}


def _qrels(examples: dict[str, set[str]], families: dict[str, set[str]], *, graded: bool) -> pa.Table:
    rows = []
    for text, used in sorted(examples.items()):
        grades = dict.fromkeys(used, 1)
        if graded:
            grades = dict.fromkeys(set().union(*(families[technique] for technique in used)), _SAME_FAMILY)
            grades |= dict.fromkeys(used, _ANNOTATED)
        rows += [
            {"query_id": _query_id(text), "document_id": document, "relevance": grade}
            for document, grade in sorted(grades.items())
        ]
    return pa.Table.from_pylist(rows, QRELS)


def _query_id(text: str) -> str:
    return text_hash(text)[:16]
