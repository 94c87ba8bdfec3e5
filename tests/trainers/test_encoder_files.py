"""What the files of a model say against an encoder, held against what reading it says."""

import json
import shutil
from dataclasses import replace

import pytest
from transformers import AutoTokenizer, T5Config, T5Model

from search_spaces.problems import InputError
from trainers.init_regimes import start_encoder
from trainers.weights.encoder_files import encoder_faults


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tiny_bert, tmp_path):
    return shutil.copytree(tiny_bert, tmp_path / "model")


@pytest.fixture
def spec_of(make_spec):
    def make(folder, **changes):
        return make_spec(folder, **{"pooling": "mean", "append_eos": False, **changes})

    return make


def changed(file, *removed, **values):
    content = {key: value for key, value in json.loads(file.read_text()).items() if key not in removed}
    file.write_text(json.dumps(content | values))


def test_nothing_is_said_of_what_can_be_used(any_spec):
    assert list(encoder_faults(any_spec, "hash")) == []
    start_encoder(any_spec, None)


@pytest.mark.parametrize("side", ["query", "document"])
@pytest.mark.parametrize(("model", "appended"), [("tiny_bert", False), ("tiny_llama", True), ("tiny_llama", False)])
def test_four_tokens_of_a_text_are_the_fewest(spec_of, request, model, appended, side):
    """At planning and at the start of a trial alike; the prompt is counted by the tokenizer as it is used there."""
    folder, prompt = request.getfixturevalue(model), "retrieve passages that answer the query: "
    tokenizer = AutoTokenizer.from_pretrained(folder)
    special = tokenizer.num_special_tokens_to_add() + appended
    least = special + len(tokenizer.tokenize(prompt)) + 4
    spec = spec_of(folder, append_eos=appended, **{f"{side}_prompt": prompt, f"max_{side}_length": least})
    assert list(encoder_faults(spec, "hash")) == []
    text_ids, prompt_ids = (start_encoder(spec, None).tokenise([text], side)[0] for text in ("accounts " * 50, ""))
    assert len(text_ids) - len(prompt_ids) == 4
    [fault] = encoder_faults(replace(spec, **{f"max_{side}_length": least - 1}), "hash")
    assert fault == (
        f"max_{side}_length is {least - 1}, of which special tokens take {special} and its {side}_prompt "
        f"{least - 4 - special}: 3 are left of a text (write {least} or more)"
    )
    with pytest.raises(InputError, match=f"max_{side}_length is {least - 1}; it must be {least} "):
        start_encoder(replace(spec, **{f"max_{side}_length": least - 1}), None)


@pytest.mark.parametrize(
    ("removed", "values", "said"),
    [
        (("model_type",), {}, "its config.json names no model_type"),
        ((), {"model_type": "berd"}, "'berd' is not a model_type of the installed transformers (did you mean 'bert'?)"),
        ((), {"vocab_size": 100}, "and it has embeddings of 100 tokens: the tokenizer is another model's"),
        ((), {"vocab_size": "many"}, "its vocab_size is 'many', and not a number"),
    ],
)
def test_a_config_that_no_trial_can_read(folder, spec_of, removed, values, said):
    changed(folder / "config.json", *removed, **values)
    [fault] = encoder_faults(spec_of(folder), "hash")
    assert said in fault
    with pytest.raises(InputError):
        start_encoder(spec_of(folder), None)


def test_an_encoder_with_a_decoder(folder, spec_of):
    T5Model(T5Config(vocab_size=300, d_model=8, num_layers=1, num_heads=2, d_ff=8, d_kv=4)).save_pretrained(folder)
    [fault] = encoder_faults(spec_of(folder), "hash")
    assert fault == "it is an encoder with a decoder ('t5'), and an encoder here is one or the other alone"


@pytest.mark.parametrize("appended", [True, False])
def test_a_tokenizer_that_can_neither_pad_nor_end(folder, spec_of, appended):
    changed(folder / "tokenizer_config.json", "pad_token", "eos_token")
    [fault] = encoder_faults(spec_of(folder, append_eos=appended), "hash")
    assert ("append_eos is true" if appended else "neither a pad token nor an end-of-sequence token") in fault
    with pytest.raises(InputError, match="no end-of-sequence token"):
        start_encoder(spec_of(folder, append_eos=appended), None)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_file_of_the_tokenizer_that_was_cut_off(folder, spec_of, name):
    (folder / name).write_text('{"version": "1.0", ')
    [fault] = encoder_faults(spec_of(folder), "hash")
    assert fault.startswith(f"{name} cannot be read: ")
    assert fault.endswith("copy or download it again)")


def test_what_was_read_once_is_remembered_by_content_and_prompt(folder, spec_of):
    assert list(encoder_faults(spec_of(folder), "hash")) == []
    (folder / "tokenizer.json").write_text("{")
    assert list(encoder_faults(spec_of(folder), "hash")) == []
    assert len(list(encoder_faults(spec_of(folder), "other"))) == 1
    assert len(list(encoder_faults(spec_of(folder, query_prompt="q: "), "hash"))) == 1
