"""Niskin feeds ocean-emulator training from OM4-shaped Zarr stores.

    source = niskin.open_om4(data, means, stds)
    shard = niskin.TrainingShard(source, hist=1, steps=4)
    sampler = niskin.BatchSampler([shard], batch_size=2)
    with niskin.NativeLoader([shard], sampler) as loader:
        for batch in loader: ...

torch is imported only by what uses it.
"""

from __future__ import annotations

from niskin.batch import Batch, BatchContext, Step
from niskin.canonical import CanonicalDataset, shared_rows
from niskin.cpu_loader import CpuLoader
from niskin.errors import DecodeError, FormatError, StoreError, UsageError
from niskin.native_loader import NativeLoader, numpy_batches
from niskin.om4 import open_om4
from niskin.pool import Pool
from niskin.sampling import BatchSampler, DistributedBatchSampler
from niskin.shard import TrainingShard

__all__ = [
    "Batch",
    "BatchContext",
    "BatchSampler",
    "CanonicalDataset",
    "CpuLoader",
    "DecodeError",
    "DistributedBatchSampler",
    "FormatError",
    "NativeLoader",
    "Pool",
    "Step",
    "StoreError",
    "TrainingShard",
    "UsageError",
    "numpy_batches",
    "open_om4",
    "shared_rows",
]

__version__ = "0.1.0"
