"""Run benchmarks: `python -m tests.benchmarks [NAME ...]`. They print figures and judge nothing."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import (
    bench_bootstrap,
    bench_encode,
    bench_evaluation,
    bench_fisher,
    bench_pool,
    bench_search,
    bench_tables,
    coverage,
    data,
    fisher_coverage,
    gradcache,
    overhead,
    training,
    utilisation,
)
from tests.benchmarks.environment import environment
from tests.benchmarks.options import Options

BENCHMARKS: Mapping[str, Callable[[Options], Iterator[Any]]] = {
    "training": training.run,
    "gradcache": gradcache.run,
    "search": bench_search.run,
    "encode": bench_encode.run,
    "evaluation": bench_evaluation.run,
    "bootstrap": bench_bootstrap.run,
    "tables": bench_tables.run,
    "coverage": coverage.run,
    "overhead": overhead.run,
    "utilisation": utilisation.run,
    "pool": bench_pool.run,
    "fisher": bench_fisher.run,
    "fisher_coverage": fisher_coverage.run,
}


def main(arguments: list[str] | None = None) -> None:
    """Print the figures of each benchmark that was named, by default of all."""
    asked = _parser().parse_args(arguments)
    found: list[dict[str, Any]] = []
    # Collections and tokens are cached for all contestants, and the user's own cache is left alone.
    with tempfile.TemporaryDirectory(prefix="densesweep-bench-") as cache:
        os.environ["DENSESWEEP_CACHE"] = cache
        for name in asked.benchmark or BENCHMARKS:
            print(f"{name}: {_first_line(name)}\n  {environment()}", flush=True)
            for result in BENCHMARKS[name](_options(asked)):
                print(f"  {result}", flush=True)
                if is_dataclass(result) and not isinstance(result, type):
                    found.append({"benchmark": name, **asdict(result)})
            print(f"  load at the end {environment().load:.1f}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps({"environment": asdict(environment()), "results": found}, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("benchmark", nargs="*", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS))
    parser.add_argument("--data", nargs="+", default=list(data.NAMES), choices=data.NAMES)
    parser.add_argument("--batch", nargs="+", type=int, default=[32, 64], help="pairs in a step")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument(
        "--threads", nargs="+", type=int, default=[1, 2], help="but for 'encode' the first alone counts"
    )
    parser.add_argument("--rounds", type=int, default=5, help="blocks of each side")
    parser.add_argument("--steps", type=int, default=2, help="optimiser steps of a block")
    parser.add_argument(
        "--trials", nargs="+", type=int, default=[20, 200], help="of each sweep whose overhead is measured"
    )
    parser.add_argument("--replicates", type=int, default=200, help="of what 'fisher_coverage' simulates")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not compare the losses first")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    return parser


def _options(asked: argparse.Namespace) -> Options:
    return Options(
        data=tuple(asked.data),
        batches=tuple(asked.batch),
        precisions=tuple(asked.precision),
        threads=asked.threads[0],
        all_threads=tuple(asked.threads),
        rounds=asked.rounds,
        steps=asked.steps,
        check=asked.check,
        trials=tuple(asked.trials),
        replicates=asked.replicates,
    )


def _first_line(name: str) -> str:
    documentation = sys.modules[BENCHMARKS[name].__module__].__doc__
    assert documentation is not None
    return documentation.splitlines()[0]


if __name__ == "__main__":
    main()
