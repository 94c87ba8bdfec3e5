import math
from itertools import product

import numpy as np
import pytest
import torch

from search_spaces.catalogue.similarities import SIMILARITIES
from search_spaces.specs import SimilaritySpec
from trainers.init_regimes import start_encoder
from trainers.similarity import Gammas, query_vectors, scores, search_vectors

NAMES = list(SIMILARITIES)


def spec_of(name):
    entry = SIMILARITIES[name]
    return SimilaritySpec(name=name, gamma_q=entry.gamma_q, gamma_d=entry.gamma_d, trained=entry.trained)


def oracle(query_QH, document_DH, gamma_q, gamma_d):
    """The formula of arXiv 2602.09229, pair by pair, in float64."""
    queries, documents = query_QH.double().numpy(), document_DH.double().numpy()
    found = np.empty((len(queries), len(documents)))
    for i, j in product(range(len(queries)), range(len(documents))):
        norms = np.linalg.norm(queries[i]) ** gamma_q * np.linalg.norm(documents[j]) ** gamma_d
        found[i, j] = queries[i] @ documents[j] / norms
    return found


@pytest.fixture(scope="module")
def embeddings(minilm):
    """Real, unnormalised MiniLM embeddings of 12 queries and 40 documents."""
    encoder = start_encoder(minilm, None)
    verbs = ["steals", "encrypts", "scans", "sends", "hides", "deletes", "copies", "reads", "renames", "opens"]
    things = ["passwords", "files on the desktop of the user", "network shares and mail", "registry keys"]
    documents = [f"The malware {verb} {thing}." for verb, thing in product(verbs, things)]
    queries = [f"{verb} {thing}" for verb, thing in zip(verbs[:6], things * 2, strict=False)] + verbs[:6]
    with torch.no_grad():
        return tuple(
            encoder(*encoder.pad(encoder.tokenise(texts, side)), side)
            for texts, side in ((queries, "query"), (documents, "document"))
        )


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_formulas(name, embeddings):
    entry = SIMILARITIES[name]
    found = scores(*embeddings, entry.gamma_q, entry.gamma_d)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), oracle(*embeddings, entry.gamma_q, entry.gamma_d), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_training_scores_are_search_scores(name, embeddings):
    """What the loss computes from the gammas equals the inner products that an index of search vectors gives."""
    query_QH, document_DH = embeddings
    gammas = Gammas.from_spec(spec_of(name))
    training_QD = scores(query_QH, document_DH, *gammas.values()).detach()
    final = gammas.spec(spec_of(name))
    index_DH = search_vectors(document_DH, final.gamma_d).numpy()
    search_QD = query_vectors(query_QH, final.gamma_q).numpy() @ index_DH.T
    np.testing.assert_allclose(training_QD.numpy(), search_QD, rtol=1e-6, atol=1e-6)
    assert (training_QD.argsort(dim=1).numpy() == search_QD.argsort(axis=1)).all()


@pytest.mark.parametrize(("one", "other"), [("qnorm", "dot"), ("dnorm", "cosine")])
def test_ranking_depends_on_gamma_d_alone(one, other, embeddings):
    rankings = [
        scores(*embeddings, entry.gamma_q, entry.gamma_d).argsort(dim=1, descending=True)
        for entry in (SIMILARITIES[one], SIMILARITIES[other])
    ]
    assert torch.equal(*rankings)


def test_dot_and_cosine_rank_real_embeddings_differently(embeddings):
    dot, cosine = (scores(*embeddings, gamma, gamma).argsort(dim=1) for gamma in (0.0, 1.0))
    assert not torch.equal(dot, cosine)


def test_gamma_0_changes_no_bit_and_gamma_1_normalises_exactly():
    vectors_NH = torch.randn(500, 64, generator=torch.Generator().manual_seed(0)) * 7
    for gamma in (0.0, torch.tensor(0.0)):
        assert torch.equal(search_vectors(vectors_NH, gamma), vectors_NH)
    norm_N1 = torch.linalg.vector_norm(vectors_NH, dim=1, keepdim=True)
    for gamma in (1.0, torch.tensor(1.0)):
        assert torch.equal(query_vectors(vectors_NH, gamma), vectors_NH / norm_N1)


@pytest.mark.parametrize("name", NAMES)
def test_a_zero_vector_scores_0_with_a_small_finite_gradient(name):
    entry = SIMILARITIES[name]
    query_QH = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    document_DH = torch.tensor([[0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    found = scores(query_QH, document_DH, entry.gamma_q, entry.gamma_d)
    assert found[0].tolist() == [0, 0]
    assert found[:, 0].tolist() == [0, 0]
    found.sum().backward()
    for gradient in (query_QH.grad, document_DH.grad):
        assert gradient.isfinite().all()
        assert gradient.abs().max() < 100


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_float32_under_autocast(dtype):
    query_QH, document_DH = (torch.randn(4, 256, generator=torch.Generator().manual_seed(s)) * 300 for s in (0, 1))
    expected = scores(query_QH, document_DH, 0.0, 0.0)
    with torch.autocast("cpu", dtype=dtype):
        found = scores(query_QH, document_DH, 0.0, 0.0)
    assert torch.equal(found, expected)
    assert expected.abs().max() > 65504  # what fp16 could not hold


def test_trained_gammas_start_at_the_spec_and_have_the_gradient_of_finite_differences(embeddings):
    gammas = Gammas.from_spec(spec_of("learnable"))
    assert [gamma.item() for gamma in gammas.values()] == [0.5, 0.5]
    (parameter,) = gammas.parameters()
    scores(*embeddings, *gammas.values()).mean().backward()
    step = 1e-3
    for index in range(2):
        shifted = []
        for sign in (1, -1):
            logits = [0.0, 0.0]
            logits[index] = sign * step
            sigmoid = [1 / (1 + math.exp(-g)) for g in logits]
            shifted.append(oracle(*embeddings, *sigmoid).mean())
        assert parameter.grad[index].item() == pytest.approx((shifted[0] - shifted[1]) / (2 * step), rel=1e-3)


def test_fixed_gammas_have_nothing_to_train():
    assert list(Gammas.from_spec(spec_of("half")).parameters()) == []


def test_the_spec_of_moved_gammas_has_their_values():
    gammas = Gammas.from_spec(spec_of("learnable"))
    with torch.no_grad():
        gammas.logits.copy_(torch.tensor([1.0, -2.0]))
    final = gammas.spec(spec_of("learnable"))
    assert (final.gamma_q, final.gamma_d) == pytest.approx((1 / (1 + math.exp(-1)), 1 / (1 + math.exp(2))))
    again = [gamma.item() for gamma in Gammas.from_spec(final).values()]
    assert again == pytest.approx([final.gamma_q, final.gamma_d], abs=1e-7)


@pytest.mark.parametrize(("gamma", "trained"), [(1.5, False), (-0.1, False), (0.0, True), (1.0, True)])
def test_impossible_exponents_are_refused(gamma, trained):
    with pytest.raises(ValueError, match=f"gamma_d is {gamma}"):
        Gammas(0.5, gamma, trained=trained)
