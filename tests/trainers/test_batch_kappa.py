"""log10 kappa of a batch: against numpy, and a training that logs it is the same training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_trials import data_spec, reproducible, train_here, trial_spec, write_collection

from search_spaces.identity import trial_id
from search_spaces.specs import SimilaritySpec
from trainers.fisher.information import Point
from trainers.training.batch_kappa import RANK, batch_log10_kappa
from trainers.training.history import from_history_row, history_row

LEARNABLE = SimilaritySpec(name="learnable", gamma_q=0.5, gamma_d=0.5, trained=True)


def brute(queries, documents, masked, gamma_q, gamma_d, scale):
    """Pair by pair in float64 numpy, in all of H, then on the batch's first principal directions."""
    queries, documents = np.float64(queries), np.float64(documents)
    both = np.concatenate([queries, documents])
    directions = np.linalg.svd(both - both.mean(axis=0))[2][:RANK]
    fisher = 0
    for q, excluded in zip(queries, masked, strict=True):
        n_q, n_d = np.linalg.norm(q), np.linalg.norm(documents, axis=1)
        logits = np.where(excluded, -np.inf, scale * documents @ q / (n_q**gamma_q * n_d**gamma_d))
        p = np.exp(logits - logits.max())
        p /= p.sum()
        by_query = [
            scale * (d / n**gamma_d - gamma_q * q * (q @ d) / n_q**2 / n**gamma_d) / n_q**gamma_q
            for d, n in zip(documents, n_d, strict=True)
        ]
        fisher = fisher + np.cov(np.array(by_query).T, aweights=p, bias=True)
        for d, n, share in zip(documents, n_d, p, strict=True):
            g = scale * (q - gamma_d * d * (q @ d) / n**2) / n_q**gamma_q / n**gamma_d
            fisher = fisher + share * (1 - share) * np.outer(g, g)
    values = np.linalg.eigvalsh(directions @ fisher @ directions.T)
    return np.log10(values[-1] / values[0])


@pytest.mark.parametrize("gammas", [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (1.0, 1.0)])
def test_it_is_that_of_the_brute_definition(gammas):
    generator = torch.Generator().manual_seed(3)
    queries = torch.randn(6, 20, generator=generator) + 0.3
    documents = torch.randn(9, 20, generator=generator) - 0.2  # three hard negatives
    masked = torch.zeros(6, 9, dtype=torch.bool)
    masked[0, 1] = masked[4, 8] = True
    found = batch_log10_kappa(queries, documents, masked, Point(gamma_q=gammas[0], gamma_d=gammas[1], scale=2.0))
    assert found.item() == pytest.approx(brute(queries, documents, masked.numpy(), *gammas, 2.0), abs=1e-5)


def test_embeddings_without_enough_directions_have_none():
    masked = torch.zeros(4, 4, dtype=torch.bool)
    point = Point(gamma_q=1.0, gamma_d=0.0, scale=2.0)
    same = torch.ones(4, 20)
    assert torch.isnan(batch_log10_kappa(same, same, masked, point))
    few = torch.randn(4, 20, generator=torch.Generator().manual_seed(0))
    assert torch.isnan(batch_log10_kappa(few, few, masked, point))


@pytest.mark.parametrize("similarity", [None, LEARNABLE])
def test_a_training_that_logs_it_is_the_same_training(tmp_path, monkeypatch, tiny_bert, make_spec, similarity):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    data = data_spec(write_collection(tmp_path / "data"), "train")
    silent = trial_spec(data, make_spec(tiny_bert), similarity=similarity)
    logging = replace(silent, log_kappa_every=2)
    assert trial_id(silent) == trial_id(logging)
    plain, plain_hash = train_here(silent, tmp_path / "plain")
    logged, logged_hash = train_here(logging, tmp_path / "logged")
    assert plain_hash == logged_hash
    kappas = [step.log10_kappa for step in logged.history]
    assert [kappa is not None for kappa in kappas] == [False, True, False, True, False, True]
    assert all(0 < kappa < 8 for kappa in kappas if kappa is not None)
    without = [{**row, "log10_kappa": None} for row in reproducible(logged.history)]
    assert without == reproducible(plain.history)
    assert [from_history_row(history_row("x", step)) for step in logged.history] == list(logged.history)
