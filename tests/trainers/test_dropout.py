import math

import pytest
import torch
from torch import nn

from trainers.encoders.dropout import FastDropout, dropout, use_fast_dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_many_are_dropped_as_asked_and_the_rest_is_scaled(p, dtype):
    torch.manual_seed(0)
    x = torch.ones(1000, 333, dtype=dtype)
    found = dropout(x, p)
    assert found.dtype == dtype
    values = sorted(set(found.flatten().tolist()))
    assert values == [0, torch.tensor(1.0, dtype=dtype).mul_(1 / (1 - p)).item()]
    share = (found == 0).double().mean().item()
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / x.numel())
    rows, columns = (found == 0).double().mean(dim=1), (found == 0).double().mean(dim=0)
    assert rows.std().item() == pytest.approx(math.sqrt(p * (1 - p) / 333), rel=0.15)  # independent draws
    assert columns.std().item() == pytest.approx(math.sqrt(p * (1 - p) / 1000), rel=0.2)


def test_neighbours_of_one_random_word_are_independent():
    torch.manual_seed(1)
    zero = (dropout(torch.ones(400_000), 0.5) == 0).double().view(-1, 4)
    for a in range(4):
        for b in range(a):
            assert abs(torch.corrcoef(zero[:, [a, b]].T)[0, 1]) < 4 / math.sqrt(100_000)


def test_the_gradient_has_the_mask_of_the_output():
    torch.manual_seed(2)
    x = torch.randn(7, 13, requires_grad=True)
    found = dropout(x, 0.4)
    found.backward(torch.full_like(found, 3.0))
    expected = torch.where(found == 0, 0.0, 3 / 0.6)
    torch.testing.assert_close(x.grad, expected)


def test_the_seed_decides_and_odd_sizes_work():
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(dropout(torch.ones(101), 0.5))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert dropout(torch.ones(0), 0.5).numel() == 0
    x = torch.ones(5)
    assert dropout(x, 0.0) is x


def test_modules_are_replaced_in_place_and_only_drop_in_training():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ModuleDict({"inner": nn.Dropout(0.2)})["inner"])
    names = list(model.state_dict())
    use_fast_dropout(model)
    assert list(model.state_dict()) == names
    assert [type(model[1]), type(model[2])] == [FastDropout, FastDropout]
    assert (model[1].p, model[2].p) == (0.5, 0.2)
    x = torch.ones(100, 4)
    assert (model[1](x) == 0).any()
    assert torch.equal(model.eval()[1](x), x)
