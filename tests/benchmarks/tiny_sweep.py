"""A sweep whose trials cost next to nothing: a BERT of two narrow layers on a collection of 48 documents."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ANIMALS = ("ant", "bear", "cat", "dog", "eel", "fox", "goat", "hen", "ibex", "jay", "koala", "lion")
PLACES = ("in the wood", "by the sea", "on the hill", "at night")


def write_tiny_sweep(home: Path, *, num_seeds: int, **blocks: Any) -> Path:
    """The sweep file, with weights and data beside it: one trained trial for each seed, and one untrained."""
    texts = _write_collection(home / "data")
    _save_bert(home / "bert", texts)
    content: Mapping[str, Any] = {
        "name": "tiny",
        "storage": str(home / "sweep"),
        "families": [
            {
                "name": "tiny",
                "retriever": {"source": "path:bert"},
                "pooling": "mean",
                "max_query_length": 16,
                "max_document_length": 16,
            }
        ],
        "data_sets": [{"name": "zoo", "source": "path:data", "train_split": "train"}],
        "axes": {
            "task": "contrastive",
            "training_data": "zoo",
            "family": "tiny",
            "similarity": "cosine",
            "init_regime": "finetune",
            "seed": list(range(num_seeds)),
            "scale": "fixed(20)",
        },
        "training": {"steps": 1, "global_batch": 8, "learning_rate": 1e-4},
        "evaluation": {"groups": {"in_domain": "zoo"}},
        "probe": {"num_queries": 32, "candidates_per_query": 8},
        "resources": {"cpus": 1},
        **blocks,
    }
    file = home / "sweep.yaml"
    file.write_text(yaml.safe_dump(dict(content), sort_keys=False))
    return file


def _write_collection(folder: Path) -> list[str]:
    (folder / "qrels").mkdir(parents=True)
    documents = [
        {"_id": f"d{animal}-{place}", "text": f"The {animal} lives {place}."} for animal in ANIMALS for place in PLACES
    ]
    queries = [
        {"_id": f"q{n}", "text": document["text"].replace("The", "which").replace("lives", "was seen")}
        for n, document in enumerate(documents)
    ]
    judged = [f"q{n}\t{document['_id']}\t1\n" for n, document in enumerate(documents)]
    for name, lines in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for split, lines_of in (("train", judged), ("test", judged[::4])):
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines_of))
    return [line["text"] for line in (*documents, *queries)]


def _save_bert(folder: Path, texts: list[str]) -> None:
    import torch
    from transformers import BertConfig, BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=200, max_position_embeddings=64, **sizes)).save_pretrained(folder)
    _tokenizer(texts).save_pretrained(folder)


def _tokenizer(texts: list[str]) -> Any:
    """A token for each word of the texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = sorted({word.strip(".").lower() for text in texts for word in text.split()})
    vocabulary = {token: place for place, token in enumerate([*special, ".", *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **dict(zip(names, special, strict=True)))
