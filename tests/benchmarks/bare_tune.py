"""Bare Ray Tune: a function that imports the stack of a trial and reports once; `python -m tests.benchmarks.bare_tune`.

What a sweep costs without this project: each trial is a process of its own that imports torch and transformers.
"""

import json
import os
import sys
import tempfile
import time
from typing import Any


def trainable(config: dict[str, Any]) -> None:
    """Nothing but what every trial has to have."""
    from ray import tune

    import trainers.trial  # noqa: F401

    tune.report({"ended": time.time()})


def main(num_trials: int, num_cpus: int) -> None:
    """Print when each trial was over, in seconds since the first was asked for, as a JSON list."""
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    import ray
    from ray import tune

    ray.init(
        address="local",
        num_cpus=num_cpus,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=128 * 2**20,
    )
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        results = tune.Tuner(
            tune.with_resources(trainable, {"CPU": 1}),
            param_space={"number": tune.grid_search(list(range(num_trials)))},
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        ).fit()
    ends = sorted(result.metrics["ended"] - begun for result in results)
    ray.shutdown()
    print(json.dumps(ends))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
