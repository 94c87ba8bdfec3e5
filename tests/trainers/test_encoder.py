import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoModel, AutoTokenizer

from search_spaces.problems import InputError
from trainers.encoders.encoder import Encoder, pad
from trainers.init_regimes import start_encoder


def embed(encoder, texts, side="query"):
    with torch.inference_mode():
        return encoder(*encoder.pad(encoder.tokenise(texts, side)), side).numpy()


def test_a_text_has_one_embedding_alone_in_a_batch_and_padded_left_or_right(any_spec, texts):
    encoder = start_encoder(any_spec, None)
    ids = encoder.tokenise(texts, "document")
    right_ids_BT, right_mask_BT = encoder.pad(ids)
    left_ids_BT, left_mask_BT = (
        torch.stack([row.roll(int((1 - mask).sum())) for row, mask in zip(rows_BT, right_mask_BT, strict=True)])
        for rows_BT in (right_ids_BT, right_mask_BT)
    )
    assert left_mask_BT[:, -1].all()
    assert not left_mask_BT[:, 0].all()
    with torch.inference_mode():
        alone = torch.cat([encoder(*encoder.pad([text_ids]), "document") for text_ids in ids])
        right = encoder(right_ids_BT, right_mask_BT, "document")
        left = encoder(left_ids_BT, left_mask_BT, "document")
    torch.testing.assert_close(right, alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(left, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "pooling"), [("bert", "mean"), ("bert", "cls"), ("llama", "last"), ("qwen3", "last")])
def test_an_embedding_is_the_pooled_last_hidden_state_of_the_text(name, pooling, texts, make_spec, request):
    folder = request.getfixturevalue(f"tiny_{name}")
    encoder = start_encoder(make_spec(folder, pooling=pooling, append_eos=pooling == "last"), None)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    backbone = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    for text in texts[:3]:  # the last would be cut
        ids = tokenizer(text)["input_ids"] + ([tokenizer.eos_token_id] if pooling == "last" else [])
        with torch.inference_mode():
            states_TH = backbone(torch.tensor([ids])).last_hidden_state[0]
        expected = {"mean": states_TH.mean(dim=0), "cls": states_TH[0], "last": states_TH[-1]}[pooling]
        np.testing.assert_allclose(embed(encoder, [text])[0], expected.numpy(), rtol=1e-4, atol=1e-5)


def test_embeddings_are_raw(minilm, texts):
    """MiniLM's folder has a Normalize module; with it every norm would be 1."""
    norms = np.linalg.norm(embed(start_encoder(minilm, None), texts), axis=1)
    assert norms.min() > 2


def test_embeddings_are_float32_under_autocast(minilm, texts):
    encoder = start_encoder(minilm, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert embed(encoder, texts).dtype == np.float32


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_eos_is_appended_once_and_never_cut_off(name, make_spec, request):
    folder = request.getfixturevalue(f"tiny_{name}")
    spec = make_spec(folder, pooling="last", append_eos=True, max_document_length=10)
    encoder = start_encoder(spec, None)
    eos = encoder.tokenizer.eos_token_id
    short, long, empty = encoder.tokenise(["ab", "a long text " * 20, ""], "document")
    again = Encoder(dict(encoder.backbones), encoder.tokenizer, spec)  # prepares the same tokenizer a second time
    assert short.count(eos) == 1
    assert len(long) == 10
    assert [ids[-1] for ids in (short, long, empty)] == [eos] * 3
    assert again.tokenise(["ab"], "document") == [short]


def test_a_tokenizer_that_ends_texts_itself_keeps_its_own_end(tiny_qwen3, make_spec, tmp_path):
    """Qwen3-Embedding's: its post-processor ends texts with '<|endoftext|>', and '<|im_end|>' is what it calls EOS."""
    folder = shutil.copytree(tiny_qwen3, tmp_path / "embedding")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", end)]
    )
    tokenizer.save_pretrained(folder)
    encoder = start_encoder(make_spec(folder, pooling="last", append_eos=True, max_document_length=10), None)
    assert encoder.tokenizer.eos_token == "<|im_end|>"
    short, long = encoder.tokenise(["ab", "a long text " * 20], "document")
    assert [ids[-1] for ids in (short, long)] == [end, end]
    assert len(long) == 10
    assert encoder.tokenizer.eos_token_id not in short


def test_a_tokenizer_with_neither_pad_nor_end_is_refused(tiny_llama, make_spec, tmp_path):
    folder = shutil.copytree(tiny_llama, tmp_path / "bare")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("eos_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="no end-of-sequence token, and it has no pad token either"):
        start_encoder(make_spec(folder, pooling="mean", append_eos=False), None)


def test_a_tokenizer_without_a_fast_form_is_refused(tiny_bert, make_spec):
    class Slow:
        is_fast = False

    backbones = start_encoder(make_spec(tiny_bert, pooling="mean", append_eos=False), None).backbones
    with pytest.raises(InputError, match=r"its tokenizer has no tokenizer\.json form, which is the only one read"):
        Encoder(dict(backbones.items()), Slow(), make_spec(tiny_bert, pooling="mean", append_eos=False))


def test_prompts_and_lengths_belong_to_their_side(tiny_bert, make_spec, texts):
    spec = make_spec(
        tiny_bert,
        pooling="mean",
        append_eos=False,
        query_prompt="Valid: ",
        document_prompt="script ",
        max_query_length=9,
        max_document_length=12,
    )
    encoder = start_encoder(spec, None)
    plain = start_encoder(make_spec(tiny_bert, pooling="mean", append_eos=False), None)
    assert encoder.tokenise(["run"], "query") == plain.tokenise(["Valid: run"], "query")
    assert encoder.tokenise(["run"], "document") == plain.tokenise(["script run"], "document")
    longest = texts[-1:]
    (query,), (document,) = encoder.tokenise(longest, "query"), encoder.tokenise(longest, "document")
    assert (len(query), len(document)) == (9, 12)
    sep = encoder.tokenizer.sep_token_id
    assert (query[-1], document[-1]) == (sep, sep)


def test_a_text_without_tokens_has_a_finite_embedding(minilm, tiny_qwen3, make_spec):
    for spec in (minilm, make_spec(tiny_qwen3, pooling="mean", append_eos=False)):
        encoder = start_encoder(spec, None)
        assert np.isfinite(embed(encoder, ["", "a text"])).all()
        assert encoder.tokenise([], "query") == []


def test_a_tokenizer_without_pad_token_pads_with_eos(tiny_llama, make_spec):
    encoder = start_encoder(make_spec(tiny_llama, pooling="last", append_eos=False), None)
    assert encoder.tokenizer.pad_token_id == encoder.tokenizer.eos_token_id == 1


def test_pad_fills_on_the_right():
    input_ids_BT, mask_BT = pad([[5], [6, 7, 8]], 9)
    assert input_ids_BT.tolist() == [[5, 9, 9], [6, 7, 8]]
    assert mask_BT.tolist() == [[1, 0, 0], [1, 1, 1]]


def test_what_is_trained_has_a_gradient(any_spec, texts):
    """A parameter without one (BERT's own pooler) would stop training on several devices."""
    encoder = start_encoder(any_spec, None)
    encoder(*encoder.pad(encoder.tokenise(texts, "query")), "query").sum().backward()
    lost = [name for name, p in encoder.named_parameters() if p.requires_grad and p.grad is None]
    assert lost == []


def test_dropout_follows_train_and_eval(minilm, texts):
    encoder = start_encoder(minilm, None)
    assert np.array_equal(embed(encoder, texts), embed(encoder, texts))
    encoder.train()
    assert not np.array_equal(embed(encoder, texts), embed(encoder, texts))


@pytest.mark.parametrize("length", [2, 129])
def test_a_length_the_model_cannot_do_is_refused_with_what_it_can(tiny_bert, make_spec, length):
    spec = replace(make_spec(tiny_bert, pooling="mean", append_eos=False), max_query_length=length)
    with pytest.raises(InputError, match=f"max_query_length is {length}; it must be 6 to 128 tokens"):
        start_encoder(spec, None)


def test_eos_that_does_not_exist_is_refused(tiny_bert, make_spec):
    with pytest.raises(InputError, match="no end-of-sequence token, and append_eos is true"):
        start_encoder(make_spec(tiny_bert, pooling="last", append_eos=True), None)


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_qwen3"])
def test_with_eager_attention_forward_mode_derivatives_are_finite_differences(name, request, make_spec):
    """What curvature products need; the default attention has none on a CPU."""
    encoder = start_encoder(make_spec(request.getfixturevalue(name)), 0).double()
    ids, mask = encoder.pad(encoder.tokenise(["a short text", "and one that is a little longer"], "query"))
    with torch.no_grad():
        before = encoder(ids, mask, "query")
        encoder.use_eager_attention()
        torch.testing.assert_close(encoder(ids, mask, "query"), before, rtol=1e-4, atol=1e-5)
    weights = {n: w.detach() for n, w in encoder.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    tangent = {n: torch.randn(w.shape, generator=generator, dtype=w.dtype) for n, w in weights.items()}

    def embed(values):
        return torch.func.functional_call(encoder, values, (ids, mask, "query"))

    _, found = torch.func.jvp(embed, (weights,), (tangent,))
    step = 1e-4
    up, down = ({n: w + sign * step * tangent[n] for n, w in weights.items()} for sign in (1, -1))
    with torch.no_grad():
        expected = (embed(up) - embed(down)) / (2 * step)
    # Embeddings are float32 whatever the weights, which bounds what differences can show.
    torch.testing.assert_close(found.float(), expected.float(), rtol=0.05, atol=0.05 * expected.abs().max().item())
