"""A small ocean emulator and its trainer. Needs torch.

Typical use::

    from niskin.config_file import load_config
    from niskin.train import Trainer

    result = Trainer(load_config("examples/train.yaml")).run()
"""

from .model import OceanNet
from .observer import TrainingObserver
from .trainer import Trainer, TrainingResult

__all__ = ["OceanNet", "Trainer", "TrainingObserver", "TrainingResult"]
