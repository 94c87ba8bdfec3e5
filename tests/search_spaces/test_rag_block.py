"""The block `evaluation.rag`: its defaults, what it expands to, and what it refuses."""

import pytest

from search_spaces.expand import expand
from search_spaces.problems import InputError
from search_spaces.schema import FLAN_T5_LARGE
from search_spaces.specs import EvaluationSpec, from_json, to_json


def _specs(parse, raw, **rag):
    raw["evaluation"]["rag"] = rag
    return {e.spec.data.name: e for e in expand(parse(raw), where="sweep.yaml").evaluations}


def test_a_file_without_it_asks_for_no_answers(parse, raw):
    assert all(e.spec.rag is None for e in expand(parse(raw), where="sweep.yaml").evaluations)


def test_the_default_is_the_studys_reader_and_five_passages(parse, raw):
    found = _specs(parse, raw, data_sets="attack")
    rag = found["attack"].spec.rag
    assert (rag.reader.weights.source, rag.reader.name, rag.num_passages) == (FLAN_T5_LARGE, "google/flan-t5-large", 5)
    assert (rag.reader.precision, rag.reader.chat_template, rag.reader.execution.device) == ("fp32", False, "trial")
    assert found["pydoc_small"].spec.rag is None
    assert found["attack"].groups == ("in_domain",)


def test_a_data_set_may_be_there_for_its_questions_alone_with_a_split_of_its_own(parse, raw):
    raw["data_sets"] = [{"name": "mine", "source": "path:."}]
    found = _specs(parse, raw, data_sets=["mine/nq", "attack"])
    assert (found["mine"].groups, found["mine"].spec.data.split) == ((), "nq")
    assert found["mine"].spec.rag == found["attack"].spec.rag


def test_every_setting_reaches_the_spec_and_survives_json(parse, raw):
    reader = {"source": "path:.", "precision": "bf16", "chat_template": True, "device": "cpu", "remote_code": True}
    settings = {"num_passages": 3, "prompt": "{question} {passages}", "max_input_tokens": 64, "max_new_tokens": 8}
    spec = _specs(parse, raw, data_sets="attack", reader=reader, **settings)["attack"].spec
    assert {name: getattr(spec.rag, name) for name in settings} == settings
    found = spec.rag.reader
    assert (found.precision, found.chat_template, found.execution.device) == ("bf16", True, "cpu")
    assert found.weights.remote_code
    assert from_json(EvaluationSpec, to_json(spec)) == spec


def test_a_readers_relative_path_starts_from_the_files_folder(parse, raw, tmp_path):
    (tmp_path / "reader").mkdir()
    found = _specs(parse, raw, data_sets="attack", reader={"source": "path:reader"})
    assert found["attack"].spec.rag.reader.weights.source == f"path:{tmp_path.resolve() / 'reader'}"


@pytest.mark.parametrize(
    ("rag", "key", "message"),
    [
        ({"data_sets": "atack"}, "evaluation.rag.data_sets", "'atack' is not a data set (did you mean 'attack'?)"),
        ({"data_sets": "stsb"}, "evaluation.rag.data_sets[0]", "holds scored pairs of texts, and no questions"),
        ({"data_sets": "attack", "prompt": "{question}"}, "evaluation.rag.prompt", "{passages} is missing"),
        ({"data_sets": "attack", "prompt": "{question}{question}{passages}"}, "evaluation.rag.prompt", "twice or more"),
        ({"data_sets": "attack", "num_passages": 0}, "evaluation.rag.num_passages", "greater than 0"),
        ({"data_sets": "attack", "num_passages": 101}, "evaluation.rag.num_passages", "less than or equal to 100"),
        ({"data_sets": "attack", "k": 5}, "evaluation.rag.k", "is not a key"),
        ({"data_sets": "attack", "reader": {"source": "hf:google/flan-t5-large"}}, "evaluation.rag.reader.source",
         "no pinned revision"),
        ({"data_sets": "attack", "reader": {"source": "path:nowhere"}}, "evaluation.rag.reader.source", "there is no"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_key(parse, raw, rag, key, message):
    with pytest.raises(InputError) as caught:
        _specs(parse, raw, **rag)
    [problem] = caught.value.problems
    assert problem.key.startswith(key)
    assert message in problem.message


def test_a_default_group_may_name_the_questions(parse, raw):
    found = _specs(parse, raw, data_sets=["qa", "attack"])
    assert {name for name, evaluation in found.items() if evaluation.spec.rag} == {
        "nq",
        "hotpotqa",
        "triviaqa",
        "attack",
    }
    assert found["triviaqa"].groups == ()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            {"qa": "all"},
            r"evaluation.groups.qa: .*'triviaqa' has .* no judgements.*\(write qa: \[hotpotqa, nq\] here\)",
        ),
        ({"mine": "triviaqa"}, r"evaluation.groups.mine: .*name it under evaluation.rag.data_sets alone$"),
    ],
)
def test_questions_that_nobody_judged_stand_in_no_group(parse, raw, groups, message):
    raw["evaluation"]["groups"] = {"in_domain": ["attack"], **groups}
    with pytest.raises(InputError, match=message) as raised:
        _specs(parse, raw, data_sets="triviaqa")
    assert len(raised.value.problems) == 1


def test_a_judged_copy_of_them_may_stand_in_one(parse, raw, tmp_path):
    (tmp_path / "trivia").mkdir()
    raw["data_sources"] = {"triviaqa": "path:trivia"}
    raw["evaluation"]["groups"] = {"qa": "all"}
    assert {e.spec.data.name for e in expand(parse(raw), where="sweep.yaml").evaluations} == {
        "nq",
        "hotpotqa",
        "triviaqa",
    }
