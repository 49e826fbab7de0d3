"""A WAV file as the samples that a speech model reads."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard._errors import UserError
from regard.recording.shelf import reason


def samples_of(path: Path, rate: int) -> NDArray[np.float32]:
    """The sound of a PCM WAV file, its channels mixed, at ``rate`` samples a second, in −1 … 1.

    Raises ``UserError`` for a file that is missing, empty or no such file.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, own = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except FileNotFoundError as error:
        raise UserError("look.no-such-file", file=path) from error
    except (OSError, EOFError, wave.Error, ValueError) as error:
        raise UserError("look.no-sound", file=path, why=reason(error)) from error
    data = data[: len(data) // (channels * width) * channels * width]
    if not data:
        raise UserError("look.no-sound", file=path, why="0 s")
    whole = _numbers(data, width).reshape(-1, channels).mean(1)
    return _resampled(whole, own, rate).astype(np.float32)


def _numbers(data: bytes, width: int) -> NDArray[np.float64]:
    if width == 1:  # the only width that is unsigned
        return np.frombuffer(data, np.uint8) / 128.0 - 1
    # Each sample's bytes as the highest of four, so that the sign is where it belongs.
    bytes_ = np.zeros((len(data) // width, 4), np.uint8)
    bytes_[:, 4 - width :] = np.frombuffer(data, np.uint8).reshape(-1, width)
    return np.asarray(bytes_.view("<i4")[:, 0] / 2.0**31)


def _resampled(samples: NDArray[np.float64], own: int, rate: int) -> NDArray[np.float64]:
    """The same sound at another rate: its spectrum cut or filled up."""
    if own == rate:
        return samples
    count = max(1, round(len(samples) * rate / own))
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.asarray(np.fft.irfft(spectrum, count) * (count / len(samples)))
