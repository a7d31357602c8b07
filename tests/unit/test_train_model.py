from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from niskin.errors import UsageError
from niskin.train.model import OceanNet, pad_sphere
from niskin.train.rollout import channel_errors, masked_loss, roll_out, usual_change


class Step(NamedTuple):
    prognostic: torch.Tensor
    boundary: torch.Tensor
    label: torch.Tensor


class Context(NamedTuple):
    label_mask: torch.Tensor


class FakeBatch:
    """Steps of one channel on a 1 x 2 grid."""

    def __init__(self, steps: list[Step], mask: torch.Tensor) -> None:
        self.steps = steps
        self.context = Context(mask)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.steps)

    def __getitem__(self, step: int) -> Step:
        return self.steps[step]


def field(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).reshape(1, 1, 1, -1)


def trained(net: OceanNet) -> OceanNet:
    """The model with weights that say something: a fresh one is silent."""
    torch.manual_seed(0)
    torch.nn.init.normal_(net.head.weight)
    torch.nn.init.normal_(net.linear.weight)
    return net


def test_padding_goes_round_the_globe_and_repeats_the_outer_latitudes() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).reshape(1, 1, 2, 3)
    assert pad_sphere(x)[0, 0].tolist() == [
        [3, 1, 2, 3, 1],
        [3, 1, 2, 3, 1],
        [6, 4, 5, 6, 4],
        [6, 4, 5, 6, 4],
    ]


@pytest.mark.parametrize(("lat", "lon"), [(8, 12), (9, 15), (5, 6)])
@pytest.mark.parametrize("hist", [0, 1, 2])
def test_the_model_keeps_the_grid_and_gives_every_state(lat: int, lon: int, hist: int) -> None:
    net = OceanNet(prognostic=3, boundary=2, hist=hist, widths=(4, 6, 8))
    states = hist + 1
    x, q = torch.randn(2, states * 3, lat, lon), torch.randn(2, states * 2, lat, lon)
    assert net(x, q, torch.ones(states * 3, lat, lon, dtype=torch.bool)).shape == x.shape


def test_a_fresh_model_is_persistence_of_the_last_state() -> None:
    net = OceanNet(prognostic=2, boundary=1, hist=1, widths=(4, 4))
    x = torch.randn(1, 4, 4, 8)
    out = net(x, torch.randn(1, 2, 4, 8), torch.ones(4, 4, 8, dtype=torch.bool))
    assert torch.equal(out, torch.cat((x[:, 2:], x[:, 2:]), dim=1))


def test_the_answer_is_counted_in_usual_changes_from_the_last_state() -> None:
    net = OceanNet(prognostic=1, boundary=1, hist=1, widths=(2,))
    net.set_change(torch.tensor([0.5, 2.0]))
    torch.nn.init.ones_(net.linear.bias)
    x = torch.tensor([3.0, 4.0]).reshape(1, 2, 1, 1).expand(1, 2, 2, 2)
    out = net(x, torch.zeros(1, 2, 2, 2), torch.ones(2, 2, 2, dtype=torch.bool))
    assert out[0, :, 0, 0].tolist() == [4.5, 6.0]


def test_patches_keep_the_grid_and_must_divide_it() -> None:
    net = trained(OceanNet(prognostic=2, boundary=1, hist=0, widths=(4, 6), patch=2))
    x, q = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 8)
    mask = torch.ones(2, 4, 8, dtype=torch.bool)
    out = net(x, q, mask)
    torch.testing.assert_close(net(x.roll(4, -1), q.roll(4, -1), mask), out.roll(4, -1))
    with pytest.raises(UsageError, match="divisor of 3 and 8"):
        net(x[:, :, :3], q[:, :, :3], mask[:, :3])


def test_turning_the_globe_turns_the_answer() -> None:
    net = trained(OceanNet(prognostic=2, boundary=1, hist=0, widths=(4, 6)))
    x, q = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 8)
    mask = torch.rand(2, 4, 8) > 0.3
    out = net(x, q, mask)
    turned = net(x.roll(4, -1), q.roll(4, -1), mask.roll(4, -1))
    torch.testing.assert_close(turned, out.roll(4, -1))


def test_dry_cells_keep_their_fill_value() -> None:
    net = trained(OceanNet(prognostic=1, boundary=1, hist=0, widths=(4,)))
    x = torch.full((1, 1, 4, 4), -7.0)
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, 0, 0] = True
    out = net(x, torch.randn(1, 1, 4, 4), mask)
    assert torch.equal(out[:, ~mask], x[:, ~mask])
    assert out[0, 0, 0, 0] != -7.0


def test_later_steps_are_fed_the_models_own_output_and_their_boundary() -> None:
    def add_boundary(x: torch.Tensor, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x + q

    steps = [
        Step(field(1, 1), field(10, 10), field(0, 0)),
        Step(field(99, 99), field(100, 100), field(0, 0)),
    ]
    states = list(roll_out(add_boundary, steps, torch.ones(1, 1, 2, dtype=torch.bool)))
    assert [s.flatten().tolist() for s in states] == [[11, 11], [111, 111]]


def test_errors_count_wet_cells_only() -> None:
    mask = torch.tensor([[[True, False]], [[False, False]], [[True, True]]])
    prediction = torch.tensor([3.0, 50.0, 1.0, 1.0, 1.0, 3.0]).reshape(1, 3, 1, 2)
    assert channel_errors(prediction, torch.zeros(1, 3, 1, 2), mask).tolist() == [9.0, 0.0, 5.0]


def test_a_difference_on_land_does_not_reach_the_loss_or_its_gradient() -> None:
    mask = torch.tensor([[[True, False]]])
    prediction = field(3.0, 1.0).requires_grad_()
    error = channel_errors(prediction, field(1.0, 9.0), mask).mean()
    error.backward()  # type: ignore[no-untyped-call]
    assert error == 4.0
    assert prediction.grad is not None
    assert prediction.grad.flatten().tolist() == [4.0, 0.0]


def test_the_loss_is_the_mean_over_steps() -> None:
    def keep(x: torch.Tensor, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x

    mask = torch.ones(1, 1, 2, dtype=torch.bool)
    steps = [
        Step(field(0, 0), field(0, 0), field(1, 1)),
        Step(field(9, 9), field(0, 0), field(3, 3)),
    ]
    assert float(masked_loss(keep, FakeBatch(steps, mask))) == (1 + 9) / 2


def test_the_loss_leaves_dry_channels_out_and_counts_in_usual_changes() -> None:
    def keep(x: torch.Tensor, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x

    zero, label = torch.zeros(1, 2, 1, 2), torch.full((1, 2, 1, 2), 6.0)
    mask = torch.tensor([[[True, True]], [[False, False]]])
    batch = FakeBatch([Step(zero, zero, label)], mask)
    assert float(masked_loss(keep, batch)) == 36.0
    assert float(masked_loss(keep, batch, torch.tensor([3.0, 1.0]).reshape(2, 1, 1))) == 4.0


def test_usual_changes_are_counted_from_the_last_input_state() -> None:
    states = torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1).expand(1, 2, 1, 2)
    label = torch.tensor([5.0, 2.0]).reshape(1, 2, 1, 1).expand(1, 2, 1, 2)
    batch = FakeBatch([Step(states, states, label)], torch.ones(2, 1, 2, dtype=torch.bool))
    assert usual_change([batch, batch], channels=1).tolist() == [3.0, 1.0]
