"""Dropout has the properties of torch's dropout."""

import numpy as np
import pytest
import torch

from gpcanet.nn.dropout import LEVELS, Dropout, random_bits


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_share_of_dropped_entries_and_scale_of_the_others(p):
    torch.manual_seed(0)
    out = Dropout(p)(torch.ones(1000, 200))
    share = float((out == 0).double().mean())
    assert abs(share - p) < 4 * (p * (1 - p) / 200_000) ** 0.5 + 2**-16
    assert out[out != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=1e-6)
    assert float(out.double().mean()) == pytest.approx(1.0, abs=0.03)


def test_entries_are_dropped_independently():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(4000, 50)) > 0).double()
    assert float((torch.corrcoef(kept.T) - torch.eye(50)).abs().max()) < 5 * 4000**-0.5
    assert float((kept.mean(1) - 0.5).abs().max()) < 5 * (0.25 / 50) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_are_scaled_or_zero_and_dtype_is_preserved(dtype):
    torch.manual_seed(1)
    x = torch.randn(50, 20, dtype=dtype)
    before = x.clone()
    out = Dropout(0.5)(x)
    assert out.dtype == dtype
    assert torch.equal(out, torch.where(out == 0, 0, 2 * x))
    assert torch.equal(x, before)


def test_nothing_is_dropped_in_evaluation_or_with_p_0():
    x = torch.randn(30, 5)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    state = torch.get_rng_state()
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(torch.get_rng_state(), state)  # no random number is drawn


def test_everything_is_dropped_with_p_1():
    assert not Dropout(1.0)(torch.ones(10, 3)).any()


def test_torch_seed_makes_it_reproducible():
    x, dropout = torch.ones(100, 10), Dropout(0.5)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)
    torch.manual_seed(4)
    assert not torch.equal(dropout(x), first)


def test_gradient_equals_mask():
    torch.manual_seed(0)
    x = torch.rand(40, 30).add(0.5).requires_grad_()
    out = Dropout(0.3)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out / x).detach())
    assert x.grad.unique().tolist() == pytest.approx([0, 1 / 0.7])


def test_inplace():
    x = torch.ones(40, 30)
    assert Dropout(0.5, inplace=True)(x) is x
    assert x.unique().tolist() == [0, 2]


def test_expectation_equals_input():
    torch.manual_seed(0)
    x, dropout = torch.linspace(-2, 2, 50), Dropout(0.5)
    mean = torch.stack([dropout(x) for _ in range(4000)]).mean(0)
    # The standard deviation of one sample is |x|.
    assert float(((mean - x).abs() / x.abs()).max()) < 5 * 4000**-0.5


def test_invalid_probability_is_an_error():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Dropout(1.5)


def test_random_bits_are_those_of_numpys_generator():
    """The same seed gives the same mask in every version."""
    for shape in ((1,), (7, 3), (40, 30)):
        torch.manual_seed(2)
        found = random_bits(shape)
        torch.manual_seed(2)
        seed = int(torch.randint(2**63 - 1, ()))
        expected = np.random.Generator(np.random.SFC64(seed)).integers(0, LEVELS, shape, np.uint16)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of torch.compile
def test_compiled_dropout_has_the_same_entries():
    x = torch.ones(50, 20)
    for training in (True, False):
        layer = Dropout(0.3).train(training)
        compiled = torch.compile(layer, backend="eager", fullgraph=not training)
        results = []
        for one in (layer, compiled):
            torch.manual_seed(0)
            results.append(one(x))
        assert torch.equal(*results)
