"""Checkpoints: one file per epoch, complete or absent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

__all__ = ["save_checkpoint"]


def save_checkpoint(
    directory: Path, *, epoch: int, model: nn.Module, details: Mapping[str, Any]
) -> Path:
    """Writes `directory`/epoch-0001.pt and returns its path.

    The file holds `epoch`, `model` (the state dict) and `details` (plain values, so that
    `torch.load` with its default `weights_only` reads it). It appears under its name only once it
    is whole.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"epoch-{epoch:04d}.pt"
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        torch.save({"epoch": epoch, "model": model.state_dict(), **details}, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
