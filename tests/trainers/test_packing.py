"""Packed states against the backbone's own, text by text without any pad."""

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel, MistralConfig, MistralModel, RobertaConfig, RobertaModel

from trainers.encoders.backbones import load_backbone
from trainers.encoders.packing import NAME, pack_where_possible, packed_states

LENGTHS = (3, 17, 1, 9, 17)


def ids_of(backbone, lengths=LENGTHS):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(5, backbone.config.vocab_size, (length,), generator=generator) for length in lengths]


def padded(ids, side="right"):
    pad = torch.nn.utils.rnn.pad_sequence
    return (pad(x, batch_first=True, padding_side=side) for x in (ids, [torch.ones_like(i) for i in ids]))


@pytest.fixture(params=["tiny_bert", "tiny_llama", "tiny_qwen3"])
def backbone(request):
    return load_backbone(request.getfixturevalue(request.param)).eval()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4, 4), (6,)])
def test_states_are_those_of_each_text_alone(backbone, side, lengths):
    ids = ids_of(backbone, lengths)
    with torch.no_grad():
        expected = [backbone(input_ids=x[None]).last_hidden_state[0] for x in ids]
        assert pack_where_possible(backbone)
        states, mask = packed_states(backbone, *padded(ids, side))
    assert mask.sum(dim=1).tolist() == list(lengths)
    for found, text, real in zip(states, expected, mask, strict=True):
        torch.testing.assert_close(found[real], text, rtol=1e-4, atol=1e-4)
        assert (found[~real] == 0).all()


def test_gradients_are_those_of_each_text_alone(backbone):
    ids, gradients = ids_of(backbone), []
    weight = torch.randn(17, backbone.config.hidden_size, generator=torch.Generator().manual_seed(1))
    sum((backbone(input_ids=x[None]).last_hidden_state[0] * weight[: len(x)]).sum() for x in ids).backward()
    gradients.append({n: w.grad.clone() for n, w in backbone.named_parameters() if w.grad is not None})
    backbone.zero_grad()
    assert pack_where_possible(backbone)
    states, _ = packed_states(backbone, *padded(ids))
    (states * weight).sum().backward()
    gradients.append({n: w.grad.clone() for n, w in backbone.named_parameters() if w.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    largest = max(g.norm() for g in gradients[0].values())
    for name, expected in gradients[0].items():
        assert torch.dist(gradients[1][name], expected) < 1e-5 * largest, name


def test_with_dropout_the_mean_of_many_runs_is_the_state_without(tiny_bert):
    """Attention's own dropout path: it must neither scale nor shift."""
    backbone = load_backbone(tiny_bert)
    assert pack_where_possible(backbone)
    for module in backbone.modules():
        if isinstance(module, torch.nn.Dropout) and "attention" not in str(type(module)):
            module.p = 0.0
    backbone.eval()
    ids = ids_of(backbone, (12, 7))
    attention = backbone.encoder.layer[0].attention.self
    embedded = backbone.embeddings(
        torch.cat(ids)[None], position_ids=torch.cat([torch.arange(12), torch.arange(7)])[None]
    )
    seen = {}

    def run(seed):
        torch.manual_seed(seed)
        from trainers.encoders.packing import Packing, _active

        real = torch.arange(12)[None] < torch.tensor([[12], [7]])
        with torch.no_grad(), _active(Packing(real.flatten().nonzero().squeeze(1), 2, 12, real)):
            return attention(embedded)[0]

    expected = run(0)
    attention.train()
    attention.dropout.p = 0.1
    if hasattr(attention, "attention_dropout"):
        attention.attention_dropout = 0.1
    runs = torch.stack([run(seed) for seed in range(600)])
    seen["spread"] = runs.std(dim=0).mean()
    assert seen["spread"] > 0.01 * expected.abs().mean()
    error = (runs.mean(dim=0) - expected) / (runs.std(dim=0) / 600**0.5 + 1e-6)
    assert error.pow(2).mean() == pytest.approx(1.0, abs=0.35)  # z-scores of an unbiased mean


def test_padded_calls_stay_right_on_a_packed_backbone(backbone):
    ids = ids_of(backbone)
    with torch.no_grad():
        expected = [backbone(input_ids=x[None]).last_hidden_state[0] for x in ids]
        assert pack_where_possible(backbone)
        input_ids, mask = padded(ids)
        states = backbone(input_ids=input_ids, attention_mask=mask).last_hidden_state
    for found, text in zip(states, expected, strict=True):
        torch.testing.assert_close(found[: len(text)], text, rtol=1e-4, atol=1e-4)


def small(config_class, **changes):
    return config_class(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
        **changes,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: MistralModel(small(MistralConfig, num_key_value_heads=2, sliding_window=4)),  # attention in windows
        lambda: RobertaModel(small(RobertaConfig)),  # positions that do not start at 0
        lambda: BertModel(small(BertConfig, is_decoder=False)),
    ],
    ids=["windows", "shifted-positions", "plain"],
)
def test_an_architecture_is_packed_only_where_that_changes_nothing(make):
    torch.manual_seed(0)
    backbone = make().eval()
    ids = ids_of(backbone)
    with torch.no_grad():
        expected = [backbone(input_ids=x[None]).last_hidden_state[0] for x in ids]
        if pack_where_possible(backbone):
            states, _ = packed_states(backbone, *padded(ids))
        else:
            assert backbone.config._attn_implementation != NAME
            input_ids, mask = padded(ids)
            states = backbone(input_ids=input_ids, attention_mask=mask).last_hidden_state
    for found, text in zip(states, expected, strict=True):
        torch.testing.assert_close(found[: len(text)], text, rtol=1e-3, atol=1e-3)


def test_a_saved_backbone_does_not_know_of_it(tiny_bert, tmp_path):
    backbone = load_backbone(tiny_bert)
    assert pack_where_possible(backbone)
    backbone.save_pretrained(tmp_path)
    assert NAME not in (tmp_path / "config.json").read_text()
    AutoModel.from_pretrained(tmp_path)
