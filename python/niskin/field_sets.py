"""From datasets to the core's field sets: which plane of which open array each channel is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from niskin import _core
from niskin.errors import FormatError, UsageError, address

if TYPE_CHECKING:
    from niskin.bases import BasePlan
    from niskin.canonical import CanonicalDataset
    from niskin.shard import TrainingShard

__all__ = ["FieldSets"]


class FieldSets:
    """The field sets of a loader's bases, made once each; keeps the stores open while it lives."""

    def __init__(self) -> None:
        self._groups: dict[str, _core.Group] = {}
        self._arrays: dict[tuple[str, str], _core.Array] = {}
        self._sets: dict[tuple[int, tuple[str, ...], bool, float], _core.FieldSet] = {}
        self._sources: list[CanonicalDataset] = []  # keeps the ids above from being reused

    def of(self, shard: TrainingShard, plan: BasePlan) -> _core.FieldSet:
        """The field set of a base.

        Raises FormatError and StoreError naming store and array, UsageError for a replaced reader.
        """
        fill, order = shard.masked_fill_value, shard.normalize_before_mask
        key = (id(plan.source), plan.channels, order, fill)
        if key not in self._sets:
            self._sources.append(plan.source)
            self._sets[key] = self._make(plan.source, plan.channels, order, fill)
        return self._sets[key]

    def _make(
        self, source: CanonicalDataset, channels: tuple[str, ...], order: bool, fill: float
    ) -> _core.FieldSet:
        if source.reader_is_replaced:
            raise UsageError(
                f"{source.name}: got a dataset whose reader was replaced, expected one that is "
                "read from its store\n  hint:  CpuLoader reads through any reader"
            )
        arrays: list[_core.Array] = []
        numbers: dict[str, int] = {}
        masks: list[np.ndarray] = []
        mask_numbers: dict[int, int] = {}
        rows = []
        means, stds = (np.asarray(x, np.float32) for x in source.statistics(channels))
        for channel, mean, std in zip(channels, means.tolist(), stds.tolist(), strict=True):
            location = source.location(channel)
            if location.array not in numbers:
                numbers[location.array] = len(arrays)
                arrays.append(self._array(source.store_path, location.array))
            mask = source.masks[channel]
            if id(mask) not in mask_numbers:
                mask_numbers[id(mask)] = len(masks)
                masks.append(np.ascontiguousarray(mask).view(np.uint8))
            level = -1 if location.level is None else location.level
            rows.append(
                (channel, numbers[location.array], level, mask_numbers[id(mask)], mean, std)
            )
        fields = _core.FieldSet(
            arrays, rows, masks, missing_chunks=source.missing_chunks,
            bad_values=source.bad_values, normalize_before_mask=order, masked_fill_value=fill,
        )  # fmt: skip
        if source.rows.size and int(source.rows.max()) >= fields.rows:
            raise FormatError(
                address(
                    f"time: got {int(source.rows.max()) + 1} or more dates, expected as many as "
                    f"the {fields.rows} rows of {arrays[0].name}",
                    store=source.store_path,
                )
            )
        return fields

    def _array(self, store: str, name: str) -> _core.Array:
        if store not in self._groups:
            self._groups[store] = _core.Group.open(store)
        if (store, name) not in self._arrays:
            self._arrays[store, name] = self._groups[store].array(name)
        return self._arrays[store, name]
