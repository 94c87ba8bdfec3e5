"""What a probe measures beside Fisher information: Cohen's d of norms, and effective ranks of the embedding space."""

import json

import numpy as np
import pytest
import torch
from probing import embedded_pools, make_probe, run, value
from scipy import stats
from tiny_trials import data_spec, write_collection

from trainers.data_sets import load
from trainers.encoders.encode import encode
from trainers.fisher.information import Point, Pool
from trainers.fisher.norm_distance import NUM_IRRELEVANT, irrelevant_texts, norm_distance
from trainers.fisher.space import MIN_POOLS, compare_effective_ranks
from trainers.init_regimes import start_encoder
from trainers.training.pairs import training_pairs

POINTS = {
    "qnorm": Point(gamma_q=1.0, gamma_d=0.0, scale=20.0),
    "dnorm": Point(gamma_q=0.0, gamma_d=1.0, scale=20.0),
}


def pools_of(num_pools, *, seed=0, stretch=1.0, size=12):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(num_pools, 2, 6, size, generator=generator) * stretch + 0.5
    ids = torch.arange(6)
    mask = torch.zeros(6, 6, dtype=torch.bool)
    return [Pool(query_QH=q, document_DH=d, document_D=ids, masked_QD=mask) for q, d in drawn]


def log10_rank(vectors):
    """By singular values of what is centred, in numpy."""
    vectors = np.float64(vectors)
    variance = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    return stats.entropy(variance) / np.log(10)


def unit(vectors):
    return vectors / vectors.norm(dim=1, keepdim=True)


def brute_difference(pools):
    """log10 effective rank of qnorm less that of dnorm, and both."""
    queries, documents = (torch.cat([getattr(p, name) for p in pools]) for name in ("query_QH", "document_DH"))
    qnorm = (log10_rank(unit(queries)) + log10_rank(documents)) / 2
    dnorm = (log10_rank(queries) + log10_rank(unit(documents))) / 2
    return qnorm - dnorm, qnorm, dnorm


def test_effective_ranks_are_those_of_singular_values_and_the_jackknife_leaves_out_pools():
    stretch = torch.logspace(0, 1.5, 12)
    pools = pools_of(11, stretch=stretch)
    found = compare_effective_ranks(pools, POINTS)
    groups = np.array_split(np.arange(11), 8)
    whole = brute_difference(pools)
    without = np.array([brute_difference([p for i, p in enumerate(pools) if i not in group]) for group in groups])
    for estimate, value_of, left_out in zip(
        (found.difference, found.first, found.second), whole, without.T, strict=True
    ):
        pseudo = 8 * value_of - 7 * left_out
        half = stats.t.ppf(0.995, 7) * stats.sem(pseudo)
        assert estimate.value == pytest.approx(pseudo.mean(), abs=1e-6)
        assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=1e-5)


def test_too_few_pools_give_a_rank_without_interval_and_equal_vectors_none():
    found = compare_effective_ranks(pools_of(MIN_POOLS - 1), POINTS)
    assert found.difference.low is None
    same = pools_of(9, stretch=0.0)
    assert compare_effective_ranks(same, POINTS) is None


def test_a_side_whose_norms_vary_along_one_direction_sees_more_when_it_is_normalised():
    """Documents that differ in length most of all have a small effective rank until dnorm takes their length away."""
    pools = pools_of(16)
    lengths = torch.logspace(0, 2, 6)[:, None]
    longer = [Pool(**{**vars(p), "document_DH": (p.document_DH + 3) * lengths}) for p in pools]
    found = compare_effective_ranks(longer, POINTS)
    assert found.difference.high < 0


def test_the_interval_of_effective_ranks_covers_as_often_as_it_promises():
    """Drawn from directions that fall off, with norms of unlike spread; the truth is that of very many."""
    generator = torch.Generator().manual_seed(0)
    falling = torch.logspace(0, -1.5, 32)

    def drawn(num, size):
        sides = []
        for spread in (0.2, 0.5):
            vectors = (torch.randn(num, 32, generator=generator) + 0.5) * falling
            sides.append(vectors * torch.exp(spread * torch.randn(num, 1, generator=generator)))
        split = zip(*(side.split(size) for side in sides), strict=True)
        return [Pool(query_QH=q, document_DH=d, document_D=torch.arange(size), masked_QD=None) for q, d in split]

    true = compare_effective_ranks(drawn(200_000, 25_000), POINTS).difference.value
    found = [compare_effective_ranks(drawn(512, 64), POINTS).difference for _ in range(60)]
    assert sum(one.low <= true <= one.high for one in found) >= 54


def test_cohens_d_is_the_difference_of_means_in_pooled_deviations():
    draw = np.random.default_rng(1)
    relevant, irrelevant = draw.normal(5.5, 1.0, 320), draw.normal(5.0, 1.5, 160)
    found = norm_distance(relevant, irrelevant)
    t = stats.ttest_ind(relevant, irrelevant).statistic  # of equal variances: d over the root of 1/n + 1/m
    assert found.value == pytest.approx(t * (1 / 320 + 1 / 160) ** 0.5, abs=5e-3)
    assert found.low < found.value < found.high


def test_the_interval_of_cohens_d_covers_as_often_as_it_promises():
    draw = np.random.default_rng(2)
    true = 0.3 / ((1.0 + 1.5**2) / 2) ** 0.5  # of as many documents of a kind
    covered = 0
    for _ in range(200):
        found = norm_distance(5.3 + draw.standard_normal(128), 5.0 + 1.5 * draw.standard_normal(128))
        covered += found.low <= true <= found.high
    assert covered >= 180


def test_few_or_equal_norms_give_no_interval_or_no_distance():
    few, many = np.array([1.0, 2.0, 3.0]), np.linspace(1, 2, 40)
    assert norm_distance(few, many).low is None
    assert norm_distance(np.ones(9), np.ones(9)) is None
    assert norm_distance(few[:1], many) is None


def test_where_all_norms_are_the_same_no_predictor_reads_their_rounding():
    """Both similarities see the same space then, and no document is longer, whatever float32 leaves of it."""
    ends = [
        Pool(**{**vars(p), "query_QH": unit(p.query_QH).float(), "document_DH": unit(p.document_DH).float()})
        for p in pools_of(12)
    ]
    found = compare_effective_ranks(ends, POINTS)
    assert (found.difference.value, found.difference.low, found.difference.high) == (0, 0, 0)
    norms = np.sort(torch.cat([p.document_DH for p in ends]).double().norm(dim=1).numpy())
    assert norms.std() > 0  # or there is nothing to test
    assert norm_distance(norms[len(norms) // 2 :], norms[: len(norms) // 2]) is None


@pytest.fixture
def extended(tmp_path, monkeypatch):
    """The tiny collection with 30 documents that nobody asks for, a blank one, and a twin of a relevant one."""
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    folder = write_collection(tmp_path / "collection")
    others = [{"_id": f"x{i}", "title": "", "text": f"Nothing of number {i} matters."} for i in range(30)]
    twin = {"_id": "x-twin", "title": "mail", "text": "All about mail."}
    blank = {"_id": "x-blank", "title": "", "text": " "}
    with (folder / "corpus.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in (*others, twin, blank))
    return data_spec(folder, "train")


def irrelevant_texts_of(spec):
    collection = load(spec.training_data.entry)
    relevant = training_pairs(collection, "train", relevance_threshold=1).document_texts
    return irrelevant_texts(collection, "train", relevant, threshold=1)


def corrected_cohen_d(relevant, irrelevant, *, groups):
    """The jackknife's mean over `groups` that each lose every so-manieth of both kinds; d by way of Student's t."""

    def distance(*kinds):
        return stats.ttest_ind(*kinds).statistic * sum(1 / len(kind) for kind in kinds) ** 0.5

    whole = distance(relevant, irrelevant)
    without = [distance(*(np.delete(kind, np.s_[g::groups]) for kind in (relevant, irrelevant))) for g in range(groups)]
    return np.mean([groups * whole - (groups - 1) * left for left in without])


def test_irrelevant_documents_are_relevant_to_no_training_query(extended):
    collection = load(extended.entry)
    pairs = training_pairs(collection, "train", relevance_threshold=1)
    found = irrelevant_texts(collection, "train", pairs.document_texts, threshold=1)
    assert sorted(found) == sorted(f"Nothing of number {i} matters." for i in range(30))
    assert len(found) <= NUM_IRRELEVANT


def test_a_probe_writes_both_and_they_are_those_of_its_embeddings(extended, tiny_bert, make_spec, tmp_path):
    spec = make_probe(extended, make_spec(tiny_bert))
    _, rows = run(spec, tmp_path)
    pools, _ = embedded_pools(spec)
    encoder = start_encoder(spec.encoder, spec.seed)
    by_number = {
        number: vector for _, documents, numbers, _ in pools for number, vector in zip(numbers, documents, strict=True)
    }
    relevant = [by_number[number] for number in sorted(by_number)]
    others = encode(encoder, irrelevant_texts_of(spec), "document")
    norms = [np.linalg.norm(np.float64(vectors), axis=1) for vectors in (relevant, others)]
    assert value(rows, "norms", "cohen_d") == pytest.approx(corrected_cohen_d(*norms, groups=9), rel=1e-4, abs=1e-4)
    assert value(rows, "pools", "num_irrelevant") == 30
    torch_pools = [
        Pool(query_QH=torch.tensor(q), document_DH=torch.tensor(d), document_D=torch.tensor(n), masked_QD=None)
        for q, d, n, _ in pools
    ]
    found = compare_effective_ranks(torch_pools, POINTS)
    for similarity, estimate in (("qnorm-dnorm", found.difference), ("qnorm", found.first), ("dnorm", found.second)):
        stored = value(rows, "space", "log10_effective_rank", similarity)
        assert stored == pytest.approx(estimate.value, abs=1e-3)


def test_without_irrelevant_documents_there_is_no_distance(tmp_path, monkeypatch, tiny_bert, make_spec):
    monkeypatch.setenv("DENSESWEEP_CACHE", str(tmp_path / "cache"))
    spec = make_probe(data_spec(write_collection(tmp_path / "collection"), "train"), make_spec(tiny_bert))
    _, rows = run(spec, tmp_path)
    assert "cohen_d" not in rows["statistic"].to_list()
    assert value(rows, "pools", "num_irrelevant") == 0
