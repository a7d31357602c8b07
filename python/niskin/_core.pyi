"""The C++ core of Niskin: stores, read plans, kernels, worker pool."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType

def interpreter_is_ending(deadline_s: float) -> bool:
    """
    Call at exit: then no thread lets go of the GIL here. False if one still waits.
    """

class Array:
    """An array of a store; metadata only until a batch needs a chunk."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def chunk_shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def codec(self) -> str: ...
    @property
    def dimension_names(self) -> list[str]: ...

class Group:
    """The arrays of an open store, by name."""

    @staticmethod
    def open(path: str) -> Group:
        """Open a directory; metadata is read once."""

    def array(self, name: str) -> Array:
        """The array of that name; StoreError names near ones."""

    @property
    def array_names(self) -> list[str]: ...

class FieldSet:
    """What a base holds along its channel axis, and how it is prepared."""

    def __init__(
        self,
        arrays: Sequence[Array],
        fields: Sequence[tuple[str, int, int, int, float, float]],
        masks: Sequence[
            Annotated[
                NDArray[numpy.uint8],
                dict(shape=(None, None), order="C", device="cpu", writable=False),
            ]
        ],
        *,
        missing_chunks: str,
        bad_values: str,
        normalize_before_mask: bool,
        masked_fill_value: float,
    ) -> None:
        """
        fields: (channel, array, level or -1, mask, mean, std); masks: uint8 (ny, nx), 0 is dry.
        """

    @property
    def rows(self) -> int: ...
    @property
    def ny(self) -> int: ...
    @property
    def nx(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...

class Pool:
    """Worker threads and memory, shared by batch streams."""

    def __init__(
        self, *, max_concurrent_reads: int, decode_threads: int, memory_limit: int
    ) -> None:
        """memory_limit in bytes."""

    def close(self, deadline_s: float) -> int:
        """End the threads; returns how many hung and were left."""

    def counts(self) -> dict[str, Any]:
        """Work done and memory held."""

    @property
    def memory_limit(self) -> int: ...
    def raise_memory_limit(self, at_least_bytes: int) -> None:
        """Never lowers the limit."""

    @property
    def read_buffer_bytes(self) -> int: ...

class BaseMemory:
    """A base of a batch: float32 (rows, channels, ny, nx) in host memory."""

    @property
    def shape(self) -> tuple[int, int, int, int]: ...
    def writable_array(
        self,
    ) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None))]:
        """
        The same memory for NumPy, which takes what comes by DLPack for read-only.
        """

    def __dlpack__(self, **options: Any) -> CapsuleType:
        """A capsule whose memory lives until its last view dies."""

    def __dlpack_device__(self) -> tuple[int, int]: ...

class FinishedBatch:
    """The bases of a batch and what they cost."""

    @property
    def bases(self) -> list[BaseMemory]: ...
    @property
    def work(self) -> dict[str, Any]: ...
    @property
    def bad_values(self) -> list[tuple[int, int, int, int, int, int]]:
        """
        (base, channel, count, first row of the store, count in that row, first cell in it) each.
        """

    @property
    def missing_chunks(self) -> list[tuple[str, str, str, int]]:
        """(store, array, first key, count) each."""

    @property
    def wait_s(self) -> float: ...

class BatchStream:
    """Batches in the order in which they were submitted."""

    def __init__(self, pool: Pool, prefetch_batches: int) -> None: ...
    def submit(
        self,
        bases: Sequence[
            tuple[
                FieldSet,
                Annotated[
                    NDArray[numpy.int64],
                    dict(shape=(None,), order="C", device="cpu", writable=False),
                ],
            ]
        ],
    ) -> bool:
        """
        Plan and start a batch: (fields, int64 rows of the store) for each base. False, and nothing done, if ring or memory have no room for it.
        """

    def next(self) -> FinishedBatch:
        """
        Wait for the oldest batch; raises the error of its earliest failing chunk.
        """

    @property
    def pending(self) -> int: ...
    def close(self, deadline_s: float) -> None:
        """Drop what is pending."""
