"""Transformers without its bars and warnings, which would stand between our own lines."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from importlib import import_module


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the bars and warnings of transformers off the screen, and restores them after."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # By name, for its functions carry no types.
        logging = import_module("transformers.utils.logging")
        verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
