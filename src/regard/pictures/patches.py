"""Weights over an image: which patches a query looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import MissingError, ShapeError, UserError
from regard._words import Language, say
from regard.pictures.canvas import EDGE, SMALL, SOFT, TITLE, Scale, Sheet, measure, wrapped
from regard.pictures.letters import heading, note, shade
from regard.pictures.phrases import WEIGHT, Title, told
from regard.pictures.picture import TALL, Picture

if TYPE_CHECKING:
    from rich.text import Text

SIDE = 640
"""The most pixels on a side of an image that goes into a picture."""


@dataclass(frozen=True, eq=False, repr=False)
class Patches(Picture):
    """An image, and the same image in grey with the colour of each patch's weight upon it.

    Args:
        image: a file, a PIL image, an array (h, w, 3) of bytes or of numbers 0 … 1, or a model's
            ``pixel_values`` (3, h, w) or (1, 3, h, w).  The patches cover all of it.
        weights: (rows, columns), a number a patch.
        query: the row and column, from 0, of the patch that looks; None where it is no patch.
        title: what stands above.
        measure: what the numbers are.

    Raises:
        ShapeError: an array that is no such image; weights that are no matrix.
        UserError: a file that is no image.
        MissingError: a file, and no Pillow.

    >>> Patches(np.zeros((8, 8, 3)), np.eye(2), title="Mine")
    Patches('Mine')
    """

    image: Any
    weights: NDArray[Any]
    query: tuple[int, int] | None = None
    title: Title = ""
    measure: Title = WEIGHT

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", pixels(self.image))
        if np.ndim(self.weights) != 2 or 0 in np.shape(self.weights):
            raise ShapeError(
                "weights must be (rows, columns), one for each patch, but their shape is "
                f"{np.shape(self.weights)}"
            )

    @cached_property
    def _scale(self) -> Scale:
        return Scale.of(self.weights)

    def _note(self, lang: Language) -> str:
        rows, columns = np.shape(self.weights)
        return say("picture.patches-note", lang, rows=rows, columns=columns)

    def _words(self, lang: Language) -> list[str]:
        return [told(self.title, lang), told(self.measure, lang), self._note(lang)]

    @cached_property
    def laid(self) -> NDArray[np.uint8]:
        """(h, w, 3) the image in light grey under the colours of the weights."""
        h, w = self.image.shape[:2]
        rows, columns = np.shape(self.weights)
        down = np.minimum(np.arange(h) * rows // h, rows - 1)
        across = np.minimum(np.arange(w) * columns // w, columns - 1)
        values = np.asarray(self.weights)[np.ix_(down, across)]
        grey = self.image @ np.array([0.299, 0.587, 0.114])
        paper = np.repeat((0.45 + 0.55 * grey / 255)[..., None], 3, axis=2)
        colour = self._scale.colours(values) / 255.0
        # The paper of a patch without weight is the image itself; the more weight, the more colour.
        share = np.abs(2 * self._scale.places(values) - 1) if self._scale.signed else (
            self._scale.places(values)
        )  # fmt: skip
        alpha = (0.8 * share)[..., None]
        mixed = np.round(255 * ((1 - alpha) * paper + alpha * colour))
        return np.asarray(mixed, np.uint8)

    def _bar(self, wide: Any, words: str) -> float:
        """Inches that the scale of colours takes."""
        numbers = max(wide(text, SMALL) for _, text in self._scale.ticks())
        return float(max(0.24 + numbers, 0.1 + wide(words, SMALL)))

    def _draw(self, width: float, lang: Language) -> Sheet:
        from matplotlib.patches import Rectangle

        wide, title, words = measure(), told(self.title, lang), told(self.measure, lang)
        h, w = self.image.shape[:2]
        gap, bar = 0.1, self._bar(wide, words)
        notes = wrapped(self._note(lang), width - 2 * EDGE, SMALL)
        titles = wrapped(title, width - 2 * EDGE, TITLE) if title else []
        top = EDGE + 0.17 * len(titles) + 0.06
        below = EDGE + 0.115 * len(notes) + 0.06
        across = (width - 2 * EDGE - gap - bar) / 2
        high = min(across * h / w, TALL - top - below)
        across = min(across, high * w / h)
        sheet = Sheet(width, top + high + below)
        sheet.title(titles)
        for n, picture in enumerate((self.image, self.laid)):
            axes = sheet.axes(EDGE + n * (across + gap), top, across, high)
            axes.imshow(picture, extent=(0, w, h, 0), aspect="auto", gid=("image", "weights")[n])
            axes.set(xticks=[], yticks=[], xlim=(0, w), ylim=(h, 0))
            if self.query is not None:
                tall, side = h / np.shape(self.weights)[0], w / np.shape(self.weights)[1]
                for colour, points in (("white", 2.2), ("#c2571a", 1.2)):
                    axes.add_patch(
                        Rectangle((self.query[1] * side, self.query[0] * tall), side, tall,
                                  fill=False, edgecolor=colour, linewidth=points)
                    )  # fmt: skip
        left = EDGE + 2 * across + gap + 0.08
        tall_bar = min(1.3, high - 0.2)
        sheet.bar((left, top + 0.16, 0.08, tall_bar), self._scale, "")
        sheet.write(left, top + 0.06, words, SMALL, color=SOFT)
        sheet.notes(notes)
        return sheet

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        from rich.text import Text

        yield from heading(told(self.title, lang))
        for r, row in enumerate(np.asarray(self.weights)):
            line = Text()
            for c, value in enumerate(row):
                cell = shade(self._scale, float(value))
                line.append_text(Text("▣▣", style=cell.style) if (r, c) == self.query else cell)
            yield line
        yield note(f"{told(self.measure, lang)} · {self._note(lang)}")


def pixels(image: Any) -> NDArray[np.uint8]:
    """(h, w, 3) bytes of any of the images that :class:`Patches` takes."""
    if isinstance(image, str | Path):
        image = _opened(Path(image))
    if hasattr(image, "convert"):
        image = image.convert("RGB")
    array = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    array = array[0] if array.ndim == 4 and len(array) == 1 else array
    if array.ndim == 3 and array.shape[0] == 3 and array.shape[-1] != 3:
        # A model's own input was moved to a mean of 0; its colours are told apart by its range.
        array = np.moveaxis(array.astype(np.float64), 0, -1)
        array = (array - array.min()) / (np.ptp(array) or 1.0)
    if array.ndim != 3 or array.shape[-1] != 3 or 0 in array.shape:
        raise ShapeError(
            f"image must be (h, w, 3), or pixel_values (3, h, w), but its shape is {array.shape}"
        )
    if array.dtype != np.uint8:
        array = np.round(255 * np.clip(np.nan_to_num(array.astype(np.float64)), 0, 1))
    step = -(-max(array.shape) // SIDE)
    return np.ascontiguousarray(array[::step, ::step].astype(np.uint8))


def _opened(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingError('images need Pillow: pip install "regard[look]"') from error
    try:
        with Image.open(path) as opened:
            return opened.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError("picture.no-image", file=path, why=str(error)) from error
