"""BatchContext: what all batches of a shard have in common on one device."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch

    from niskin.shard import TrainingShard

__all__ = ["BatchContext", "make_context"]

Array: TypeAlias = Any  # torch.Tensor, or a NumPy array in a batch of arrays


@dataclass(frozen=True, eq=False)
class BatchContext:
    """Label mask and coordinates. There is one object per shard and device.

    `label_mask`: bool ((h+1)*C, label lat, label lon) on the batch's device, True is wet.
    `input_coords`, `output_coords`: (lat, lon) of inputs and of labels, float64 1-D, always in host
    memory.
    """

    label_mask: Array
    input_coords: tuple[Array, Array]
    output_coords: tuple[Array, Array]
    # The same context on every device that asked for it, shared by all of them.
    _family: dict[str, BatchContext] = field(default_factory=dict, repr=False)

    def to(self, device: torch.device | str | int) -> BatchContext:
        """The context with its mask on `device`, the same object each time."""
        key = _key(device)
        found = self._family.get(key)
        if found is None:
            import torch

            with torch.inference_mode(False):
                mask = self.label_mask.to(device)
            found = BatchContext(mask, self.input_coords, self.output_coords, self._family)
            self._family[key] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchContext, (self.label_mask, self.input_coords, self.output_coords)


_contexts: weakref.WeakKeyDictionary[TrainingShard, dict[str, BatchContext]] = (
    weakref.WeakKeyDictionary()
)


def make_context(
    shard: TrainingShard, device: torch.device | str | int | None = "cpu"
) -> BatchContext:
    """The context of a shard's batches on `device`, or as NumPy arrays for None; made once."""
    family = _contexts.setdefault(shard, {})
    key = "numpy" if device is None else _key(device)
    if key not in family:
        source, labels = shard.source, shard.label_source
        masks = np.stack([labels.masks[channel] for channel in shard.prognostic])
        mask = np.concatenate([masks] * (shard.hist + 1))
        coords = [(d.lat.astype(np.float64), d.lon.astype(np.float64)) for d in (source, labels)]
        if device is None:
            for array in (mask, *coords[0], *coords[1]):
                array.flags.writeable = False
            family[key] = BatchContext(mask, coords[0], coords[1])
        else:
            family[key] = _on_device(mask, coords, device, family)
    return family[key]


def _on_device(
    mask: Array, coords: Any, device: torch.device | str | int, family: dict[str, BatchContext]
) -> BatchContext:
    import torch

    with torch.inference_mode(False):
        pairs = [(torch.from_numpy(lat), torch.from_numpy(lon)) for lat, lon in coords]
        return BatchContext(torch.from_numpy(mask).to(device), pairs[0], pairs[1], family)


def _key(device: torch.device | str | int) -> str:
    import torch

    found = torch.device(device)
    return f"cuda:{torch.cuda.current_device()}" if str(found) == "cuda" else str(found)
