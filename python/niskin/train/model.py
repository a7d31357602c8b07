"""A small U-Net for fields on a latitude-longitude grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from niskin.errors import UsageError, address

__all__ = ["OceanNet", "pad_sphere"]


def pad_sphere(x: Tensor, width: int = 1) -> Tensor:
    """Pads (…, lat, lon): around the globe in longitude, by the outermost row in latitude."""
    x = F.pad(x, (width, width, 0, 0), mode="circular")
    return F.pad(x, (0, 0, width, width), mode="replicate")


class _Convolution(nn.Module):
    """A 3 × 3 convolution of the padded sphere; keeps (lat, lon)."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.convolution(pad_sphere(x))
        return result


class _Block(nn.Sequential):
    """Two convolutions, each followed by a GELU."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(
            _Convolution(channels_in, channels_out),
            nn.GELU(),
            _Convolution(channels_out, channels_out),
            nn.GELU(),
        )


class OceanNet(nn.Module):
    """The next h+1 states of the ocean from the last h+1 and the forcing over them.

    Learns the change from the last input state, in units of the usual change (`change`), as a
    linear map of each cell plus what a U-Net makes of its surroundings. Land keeps its fill value,
    so that an output can be fed back. A fresh model changes nothing: it forecasts persistence.

    Args:
        prognostic: channels C of one state.
        boundary: channels Cb of one row of forcing.
        hist: history h, the number of states before the last one in an input.
        widths: channels at each resolution, finest first; each level halves latitude and longitude.
        patch: edge in cells of the squares that the finest level works on. Must divide the grid.
    """

    change: Tensor

    def __init__(
        self,
        *,
        prognostic: int,
        boundary: int,
        hist: int,
        widths: Sequence[int] = (32, 64, 96),
        patch: int = 1,
    ) -> None:
        super().__init__()
        self.prognostic = prognostic
        self.hist = hist
        self.patch = patch
        inputs, outputs = (hist + 1) * (prognostic + boundary), (hist + 1) * prognostic
        self.register_buffer("change", torch.ones(outputs, 1, 1))
        self.linear = nn.Conv2d(inputs, outputs, kernel_size=1)
        self.stem = _Convolution(inputs * patch**2, widths[0])
        self.down = nn.ModuleList(
            _Block(a, b) for a, b in zip((widths[0], *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(
            _Block(deep + skip, skip)
            for deep, skip in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(widths[0], outputs * patch**2, kernel_size=1)
        for parameter in (*self.linear.parameters(), *self.head.parameters()):
            nn.init.zeros_(parameter)

    def set_change(self, change: Tensor) -> None:
        """Sets the usual change per output channel, ((h+1)*C,), in normalized units and positive.

        The change of a state is counted from the last input state; states are time-major.
        """
        self.change.copy_(change.reshape(self.change.shape))

    def forward(self, prognostic: Tensor, boundary: Tensor, mask: Tensor) -> Tensor:
        """Normalized states after the given ones.

        Args:
            prognostic: float32 (B, (h+1)*C, lat, lon), time-major.
            boundary: float32 (B, (h+1)*Cb, lat, lon).
            mask: bool ((h+1)*C, lat, lon), True is wet.

        Returns:
            float32 (B, (h+1)*C, lat, lon); dry cells hold what the last state has there.

        Raises UsageError if `patch` does not divide the grid.
        """
        lat, lon = prognostic.shape[-2:]
        if lat % self.patch or lon % self.patch:
            raise UsageError(
                address(
                    f"model: patch: got {self.patch}, expected a divisor of {lat} and {lon}",
                    hint="model: {patch: 1}",
                )
            )
        channels = self.prognostic
        last = prognostic[:, -channels:]
        # What changes is far smaller than what is there; in units of its own size it is seen.
        unit = self.change[:channels].repeat(self.hist, 1, 1)
        trend = (prognostic[:, channels:] - prognostic[:, :-channels]) / unit
        x = torch.cat((last, trend, boundary), dim=1)
        change = self.linear(x) + F.pixel_shuffle(self._surroundings(x), self.patch)
        # Dry cells do not change. One fused pass: on the CPU this loop is bound by memory.
        states = (self.hist + 1, channels, lat, lon)
        moved = torch.addcmul(
            last.unsqueeze(1),
            change.reshape(-1, *states),
            (self.change * mask).reshape(states),
        )
        return moved.flatten(1, 2)

    def _surroundings(self, x: Tensor) -> Tensor:
        """The U-Net: (B, inputs, lat, lon) → (B, outputs·patch², lat/patch, lon/patch)."""
        x = self.stem(F.pixel_unshuffle(x, self.patch))
        skips: list[Tensor] = []
        for level, block in enumerate(self.down):
            x = block(F.avg_pool2d(x, 2, ceil_mode=True) if level else x)
            skips.append(x)
        skips.pop()
        for block in self.up:
            skip = skips.pop()
            lat, lon = skip.shape[-2:]
            # Doubled and cropped: cells stay where the pooling took them from, on odd sizes too.
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")[..., :lat, :lon]
            x = block(torch.cat((x, skip), dim=1))
        result: Tensor = self.head(x)
        return result
