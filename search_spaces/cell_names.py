"""What a cell is, once for all: what the file's page, plans, searches, registered models and MLflow mean by it.

A cell is a task, training data, a model (family, layers, towers) in an init regime, a similarity and a scale. Under one
seed and with concrete hyperparameters (and lengths of texts) it is a trial.
"""

from search_spaces.specs import TrialSpec


def cell_name(spec: TrialSpec) -> str:
    """The cell of a trained trial, of letters, digits, '.', '-' and '_': 'attack.minilm-3l.finetune.qnorm.fixed-20'.

    Task, split and towers stand in it where they are not the usual ones. Trials of equal names are of one cell.
    """
    assert spec.training_data is not None, "a trained cell has training data"
    assert spec.similarity is not None, "and a similarity"
    assert spec.scale is not None, "and a scale"
    data, encoder = spec.training_data, spec.encoder
    parts = [
        data.name + ("" if data.split == (data.entry.train_split or "train") else f"-{data.split}"),
        encoder.family + (f"-{encoder.layers}l" if encoder.layers else ""),
        encoder.init_regime,
        spec.similarity.name,
        f"{spec.scale.mode}-{spec.scale.value:g}",
        *(["sts"] if spec.task == "sts" else []),
        *(["two-towers"] if encoder.towers == "separate" else []),
    ]
    return ".".join(part.replace("/", "-").replace(":", "-") for part in parts)
