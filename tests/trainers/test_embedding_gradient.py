import pytest
import torch
from torch import nn

from trainers.encoders.embedding_gradient import AddingEmbedding, use_adding_embeddings


@pytest.mark.parametrize("padding_idx", [None, 2])
def test_the_gradient_is_torchs_over_several_backward_passes(padding_idx):
    torch.manual_seed(0)
    plain = nn.Embedding(20, 6, padding_idx=padding_idx)
    adding = nn.Embedding(20, 6, padding_idx=padding_idx)
    adding.load_state_dict(plain.state_dict())
    weight = adding.weight
    use_adding_embeddings(model := nn.Sequential(adding))
    assert isinstance(model[0], AddingEmbedding)
    assert model[0].weight is weight
    for ids in (torch.tensor([[1, 2, 2, 7]]), torch.tensor([[7, 19], [0, 7]])):
        factor = torch.randn(*ids.shape, 6)
        for embedding in (plain, model[0]):
            (embedding(ids) * factor).sum().backward()
    torch.testing.assert_close(weight.grad, plain.weight.grad)
    assert (weight.grad[3] == 0).all()


def test_without_a_gradient_it_is_torchs_own():
    model = nn.Sequential(nn.Embedding(5, 3))
    use_adding_embeddings(model)
    with torch.no_grad():
        assert not model(torch.tensor([1])).requires_grad
    assert model.eval()(torch.tensor([1])).grad_fn.name() == "EmbeddingBackward0"
    model[0].weight.requires_grad_(False)
    assert not model.train()(torch.tensor([1])).requires_grad
