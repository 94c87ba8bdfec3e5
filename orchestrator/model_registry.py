"""The best checkpoint of each cell as a version of a registered model, through a client that it is given."""

from dataclasses import dataclass
from typing import Any

from results.best import BestTrial

BEST = "best"  # the alias of the version to use: models:/NAME@best


@dataclass(frozen=True, kw_only=True)
class Registration:
    """What becomes a version: the best trial of a cell, its run, and where its checkpoint lies.

    `source` is the run's artifact folder `checkpoint`, with the manifest, and the files where they are uploaded.
    """

    best: BestTrial
    sweep: str
    run_id: str
    source: str
    checkpoint_uri: str

    @property
    def model(self) -> str:
        """The registered model's name: the sweep's and the cell's."""
        return f"{self.sweep}.{self.best.name}"


def register(client: Any, registration: Registration) -> None:
    """Make it the version `best` of its model, and a new one only where none is of this checkpoint.

    Written to by one thread of one driver: whoever else registers under the same sweep's name shares the model.
    """
    name = registration.model
    if not client.search_registered_models(f"name = '{name}'"):
        _create_model(client, registration)
    same = [v for v in client.search_model_versions(f"name = '{name}'") if _is_version(v, registration)]
    version = same[0] if same else _create_version(client, registration)
    aliases = client.get_registered_model(name).aliases
    if str(aliases.get(BEST)) != str(version.version):
        client.set_registered_model_alias(name, BEST, version.version)


def _is_version(version: Any, registration: Registration) -> bool:
    checkpoint = version.tags.get("checkpoint_hash")
    return checkpoint == registration.best.checkpoint_hash and version.run_id == registration.run_id


def _create_model(client: Any, registration: Registration) -> None:
    from mlflow import MlflowException

    described = f"Best trials of {registration.best.name} in sweep '{registration.sweep}'."
    try:
        client.create_registered_model(registration.model, description=described)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another sweep of that name was first
            raise


def _create_version(client: Any, registration: Registration) -> Any:
    best = registration.best
    score = {} if best.validation_score is None else {"validation_score": f"{best.validation_score:.6f}"}
    named = {"trial_id": best.trial_id, "checkpoint_hash": best.checkpoint_hash, "uri": registration.checkpoint_uri}
    chosen = f"best of {best.num_trials} by validation score" if best.num_trials > 1 else "the only trial of its cell"
    return client.create_model_version(
        registration.model,
        source=registration.source,
        run_id=registration.run_id,
        tags={**named, **score},
        description=f"Trial {best.trial_id}, {chosen}. Checkpoint: `{registration.checkpoint_uri}`",
    )
