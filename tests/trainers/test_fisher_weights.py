from dataclasses import replace

import pytest
import torch
from brute_fisher import fisher_of, logits
from torch.func import functional_call
from transformers import BertConfig, BertModel

from search_spaces.catalogue.similarities import SIMILARITIES
from trainers.fisher.information import Point
from trainers.fisher.lanczos import lanczos_spectrum, quadrature, signs
from trainers.fisher.weights import TextPool, Texts, WeightsFisher, weights_of, weights_spectrum
from trainers.init_regimes import start_encoder

POINTS = {name: Point(gamma_q=s.gamma_q, gamma_d=s.gamma_d, scale=3.0) for name, s in SIMILARITIES.items()}
QUERIES = ["scheduled tasks", "valid accounts on it", "a", "base64 traffic of the malware"]
DOCUMENTS = ["run a script at logon", "accounts", "what stands in the logs", "an hour until it looks for new orders"]


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory, tiny_bert, make_spec):
    """A 2-layer BERT of 8 states and a feed-forward layer of 8, in float64."""
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=80,
        initializer_range=0.4,
    )
    folder = tmp_path_factory.mktemp("two_layers")
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)

    def make(**changes):
        return start_encoder(make_spec(folder, **changes), 0).double()

    return make


def text_pool(encoder, start=0):
    order = [(start + i) % 4 for i in range(4)]
    masked = torch.zeros(4, 4, dtype=torch.bool)
    masked[0, 2] = True
    return TextPool(
        query=Texts(side="query", ids=encoder.tokenise([QUERIES[i] for i in order], "query")),
        document=Texts(side="document", ids=encoder.tokenise([DOCUMENTS[i] for i in reversed(order)], "document")),
        document_D=torch.arange(4),
        masked_QD=masked,
    )


def dense(encoder, pools, point, names, *, observed=False):
    """The matrix over the named weights by autograd through the encoder, one pool after the other."""
    weights = dict(encoder.named_parameters())
    flat = torch.cat([weights[name].detach().flatten() for name in names])
    encoder.eval()
    encoder.use_eager_attention()

    def embed(values, texts):
        parts = values.split([weights[name].numel() for name in names])
        named = {name: part.view_as(weights[name]) for name, part in zip(names, parts, strict=True)}
        return functional_call(encoder, named, (*encoder.pad(texts.ids), texts.side))

    return sum(
        fisher_of(
            lambda v, p=pool: logits(embed(v, p.query), embed(v, p.document), point),
            flat,
            pool.masked_QD,
            observed=observed,
        )
        for pool in pools
    ) / len(pools)


@pytest.mark.parametrize("name", ["qnorm", "dnorm", "half"])
@pytest.mark.parametrize("observed", [False, True])
def test_products_are_those_of_the_dense_matrix(two_layers, name, observed):
    encoder = two_layers()
    pools = [text_pool(encoder, start) for start in (0, 1)]
    fisher = WeightsFisher(encoder, pools, POINTS[name], layers=1, observed=observed, chunk_tokens=16)
    expected = dense(encoder, pools, POINTS[name], list(fisher.weights), observed=observed)
    assert fisher.num_parameters == len(expected)
    found = fisher(torch.eye(fisher.num_parameters, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8 * expected.abs().max().item())


def test_all_weights_and_towers_of_their_own(two_layers):
    encoder = two_layers(towers="separate")
    pool = text_pool(encoder)
    fisher = WeightsFisher(encoder, [pool], POINTS["qnorm"])
    assert set(fisher.weights) == {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    vectors = torch.randn(2, fisher.num_parameters, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    names = list(fisher.weights)
    weights = [fisher.weights[name] for name in names]
    # F v by a second way: the Gram form of the definition, J^T M (J v), with J by rows from reverse mode
    query, document = (encoder(*encoder.pad(t.ids), t.side) for t in (pool.query, pool.document))
    z = logits(query, document, POINTS["qnorm"])
    rows = []
    for value in z.flatten():
        gradients = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
        pairs = zip(gradients, weights, strict=True)
        rows.append(torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for g, w in pairs]))
    jacobian = torch.stack(rows).view(4, 4, -1)
    p = z.detach().masked_fill(pool.masked_QD, -torch.inf).softmax(dim=1)
    expected = sum(
        vectors @ jacobian[i].T @ (torch.diag(p[i]) - torch.outer(p[i], p[i])) @ jacobian[i] for i in range(4)
    )
    torch.testing.assert_close(fisher(vectors), expected / 4, rtol=1e-8, atol=1e-8 * expected.abs().max().item())


def test_the_last_layers_are_the_last(two_layers):
    encoder = two_layers()
    one, two, everything = (weights_of(encoder, layers) for layers in (1, 2, None))
    assert all(".layer.1." in name for name in one)
    assert set(one) < set(two) < set(everything)
    with pytest.raises(ValueError, match="last 3 layers was asked for, and there are 2"):
        weights_of(encoder, 3)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_qwen3"])
def test_decoders_have_last_layers_and_products_too(name, request, make_spec):
    """Symmetric and non-negative, as a covariance is."""
    encoder = start_encoder(make_spec(request.getfixturevalue(name), pooling="mean"), 0)
    fisher = WeightsFisher(encoder, [text_pool(encoder)], POINTS["cosine"], layers=1)
    assert all(".layers.2." in name for name in fisher.weights)
    one, other = signs(2, fisher.num_parameters, 0, torch.float32)
    images = fisher(torch.stack([one, other]))
    assert (one @ images[1]).item() == pytest.approx((other @ images[0]).item(), rel=1e-3)
    assert one @ images[0] > 0


def test_spectrum_is_that_of_the_dense_matrix(two_layers):
    encoder = two_layers()
    pools = [text_pool(encoder, start) for start in (0, 1)]
    fisher = WeightsFisher(encoder, pools, POINTS["dnorm"], layers=1)
    values = torch.linalg.eigvalsh(dense(encoder, pools, POINTS["dnorm"], list(fisher.weights))).clamp(min=0)
    found = weights_spectrum(fisher)
    assert found.lambda_max == pytest.approx(values.max().item(), rel=1e-6)
    assert found.trace.low <= values.sum().item() <= found.trace.high
    shares = values[values > 0] / values.sum()
    rank = (-(shares * shares.log()).sum()).exp().item()
    assert found.effective_rank.low <= rank <= found.effective_rank.high


def test_the_same_vectors_in_other_chunks_give_the_same_products(two_layers):
    encoder = two_layers()
    vectors = signs(3, sum(w.numel() for w in weights_of(encoder, 1).values()), 0)
    products = [
        WeightsFisher(encoder, [text_pool(encoder)], POINTS["cosine"], layers=1, chunk_tokens=tokens)(vectors)
        for tokens in (1, 16, 4096)
    ]
    torch.testing.assert_close(products[0], products[2], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(products[1], products[2], rtol=1e-9, atol=1e-12)


def test_products_are_those_of_curvlinops(two_layers):
    """The generalised Gauss-Newton matrix of a cross entropy is the Fisher information, by another program."""
    curvlinops = pytest.importorskip("curvlinops")
    encoder = two_layers()
    pool = replace(text_pool(encoder), masked_QD=torch.zeros(4, 4, dtype=torch.bool))
    fisher = WeightsFisher(encoder, [pool], POINTS["qnorm"], layers=1)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, _):
            sides = [encoder(*encoder.pad(texts.ids), texts.side) for texts in (pool.query, pool.document)]
            return logits(*sides, POINTS["qnorm"])

    model = Logits()
    weights = list(fisher.weights.values())
    data = [(torch.zeros(4, 1, dtype=torch.float64), torch.arange(4))]
    operator = curvlinops.GGNLinearOperator(
        model, torch.nn.CrossEntropyLoss(), weights, data, check_deterministic=False
    )
    vectors = signs(2, fisher.num_parameters, 3)
    torch.testing.assert_close(fisher(vectors), (operator @ vectors.T).T, rtol=1e-8, atol=1e-10)


# Stochastic Lanczos quadrature on matrices that are known


def known_matrix(eigenvalues, seed=0):
    size = len(eigenvalues)
    rotation = torch.linalg.qr(
        torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ).Q
    return rotation @ torch.diag(eigenvalues) @ rotation.T


def test_quadrature_is_exact_where_the_krylov_space_is_exhausted():
    """Three different eigenvalues: three steps know all there is, and further ones add nothing."""
    values = torch.tensor([4.0] * 5 + [1.0] * 10 + [0.0] * 25, dtype=torch.float64)
    matrix = known_matrix(values)
    found = quadrature(lambda v: v @ matrix, signs(4, 40, 0), 12)
    starts = signs(4, 40, 0)
    for power in (1, 2, 3):
        expected = (starts @ torch.linalg.matrix_power(matrix, power) * starts).sum(dim=1)
        torch.testing.assert_close(40 * (found.weight_KM * found.value_KM**power).sum(dim=1), expected)
    torch.testing.assert_close(found.weight_KM.sum(dim=1), torch.ones(4, dtype=torch.float64))


def test_density_integrates_to_the_share_of_eigenvalues_above_its_end():
    values = torch.cat([10.0 ** -torch.linspace(0, 3, 100, dtype=torch.float64), torch.zeros(300)]).double()
    matrix = known_matrix(values)
    found = lanczos_spectrum(quadrature(lambda v: v @ matrix, signs(8, 400, 0), 60))
    step = (found.log10_value_X[0] - found.log10_value_X[1]).item()
    assert step == pytest.approx(0.1)
    inside = found.log10_value_X > -5
    assert (found.density_X[inside].sum() * step).item() == pytest.approx(0.25, abs=0.03)
    assert found.lambda_max == pytest.approx(1, rel=1e-6)
    assert found.trace.low <= values.sum().item() <= found.trace.high


def test_vectors_that_are_not_kept_give_the_same_quadrature(monkeypatch):
    """Rounding repeats Ritz values then; sums over them stay."""
    values = 10.0 ** -torch.linspace(0, 6, 300, dtype=torch.float64)
    matrix = known_matrix(values)
    kept = lanczos_spectrum(quadrature(lambda v: v @ matrix, signs(8, 300, 0), 80))
    monkeypatch.setattr("trainers.fisher.lanczos.KEPT_BYTES", 0)
    plain = lanczos_spectrum(quadrature(lambda v: v @ matrix, signs(8, 300, 0), 80))
    assert plain.lambda_max == pytest.approx(kept.lambda_max, rel=1e-8)
    assert plain.trace.value == pytest.approx(kept.trace.value, rel=1e-10)
    assert plain.effective_rank.value == pytest.approx(kept.effective_rank.value, rel=1e-4)


def test_trace_intervals_cover_the_trace():
    """As many start vectors as a probe draws, 300 times; intervals promise 0.90."""
    values = 1 / torch.arange(1, 61, dtype=torch.float64) ** 2
    matrix = known_matrix(values)
    covered = []
    for seed in range(300):
        found = lanczos_spectrum(quadrature(lambda v: v @ matrix, signs(8, 60, seed), 4)).trace
        covered.append(found.low <= values.sum().item() <= found.high)
    assert sum(covered) / 300 > 0.9


def test_zero_has_no_effective_rank_and_no_density():
    found = lanczos_spectrum(quadrature(torch.zeros_like, signs(3, 10, 0), 4))
    assert (found.lambda_max, found.trace.value, found.effective_rank) == (0, 0, None)
    assert len(found.density_X) == 0
