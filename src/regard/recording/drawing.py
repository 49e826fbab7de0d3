"""Pictures of a recording: its weights asked for what a picture needs, and the names of places.

Each picture is of the first sample of the only run.  It asks one pass over the layers that it shows
and keeps arrays of its own, so it outlives the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ValueRangeError
from regard.core.questions import Question, image, received
from regard.pictures import Picture, picture_of
from regard.pictures.axes import Axis, Numbers, Seconds, Words
from regard.pictures.distances import Distances
from regard.pictures.heads import Head, Heads
from regard.pictures.links import Links
from regard.pictures.matrix import Change, Matrix
from regard.pictures.notable import narrowed
from regard.pictures.overview import Overview
from regard.pictures.patches import Patches
from regard.pictures.phrases import Phrase
from regard.pictures.strip import Strip
from regard.recording import places
from regard.recording.numbered import number as _number
from regard.recording.numbered import numbers as _numbers
from regard.recording.reading import spoken
from regard.recording.recording import Layer, Recording
from regard.recording.roles import in_numpy, real_of
from regard.recording.summary import LayerStatistics, summarise

if TYPE_CHECKING:
    from regard.recording.answers.compare import Comparison

PIXELS = 512
"""The largest side of one head's picture; up to it every pixel is one weight."""
STRONGEST = 8
"""How many links of each query are drawn."""
PROFILES = 5
"""How many heads have their profile drawn where none were chosen."""


class Pictures:
    """The pictures of one recording: ``seen.pictures``.

    Heads are one number, several, or None for the mean of all heads of the layer.
    """

    def __init__(self, recording: Recording) -> None:
        self._seen = recording

    def heads(
        self,
        layers: Sequence[int] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Heads:
        """The grid of all heads, or of those of some layers; ``progress`` is told of each layer."""
        summed = self._seen.statistics
        numbers = _numbers("layer", layers, len(summed) or len(self._seen))
        told = progress or (lambda done, total: None)
        found = []
        for done, number in enumerate(numbers):
            told(done, len(numbers))
            one = summed[number] if summed else self._summed(number)
            square = one.kind != "cross" and one.shape[-1] == one.shape[-2]
            found += [
                Head(number, head, one.image[0, head], one.role(head) if square else "none")
                for head in range(one.heads)
            ]
        told(len(numbers), len(numbers))
        title = Phrase("picture.heads-of", layers=len(numbers), heads=len(found))
        return Heads(found, title)

    def head(
        self,
        layer: int,
        head: int | Sequence[int] | None = None,
        rows: slice = slice(None),
        keys: slice = slice(None),
    ) -> Matrix:
        """One head's matrix: exact up to 512 tokens, means over blocks beyond.

        ``rows`` and ``keys`` are the part of it that is drawn, such as the seconds of speech.
        """
        picture = self._ask(layer, head, image(PIXELS, PIXELS, rows=rows, keys=keys))
        T, S = (
            side.part(places) for side, places in zip(self._axes(layer), (rows, keys), strict=True)
        )
        blocks = -(-len(T) // PIXELS), -(-len(S) // PIXELS)
        return Matrix(picture, T, S, self._where(layer, head), blocks)

    def links(
        self,
        layer: int,
        head: int,
        query: int | Sequence[int] | None = None,
    ) -> Links:
        """What looks at what: the eight strongest links of each query, or of the chosen ones."""
        rows, columns = self._axes(layer)
        asked = _numbers("query", query, len(rows))
        strongest = self._weights(layer).topk(STRONGEST)
        head = _number("head", head, self._layer(layer).heads)
        keys, weights = (in_numpy(part)[0, head] for part in (strongest.keys, strongest.weights))
        links = [
            (q, int(key), float(weight))
            for q in asked
            for key, weight in zip(keys[q], weights[q], strict=True)
            if key >= 0
        ]
        which = Phrase("picture.links-strongest", count=STRONGEST)
        return Links(links, rows, columns, self._where(layer, head), which)

    def strip(
        self,
        layer: int | Sequence[int] | None = None,
        head: int | Sequence[int] | None = None,
        query: int | Sequence[int] | None = None,
    ) -> Strip:
        """Weights over the text: what it receives from each query on average, or from chosen ones.

        The mean over all layers and heads, or over the chosen ones.
        """
        layers = _numbers("layer", layer, len(self._seen.statistics) or len(self._seen))
        rows, columns = self._axes(layers[0])
        asked = _numbers("query", query, len(rows))
        by = np.zeros(len(rows))
        by[asked] = 1 / len(asked)
        mass = np.mean([self._ask(n, head, received(by)) for n in layers], axis=0)
        count = sum(len(_numbers("head", head, self._layer(n).heads)) for n in layers)
        where = Phrase("picture.all-heads", count=count, layers=len(layers))
        if len(layers) == 1:
            where = self._where(layers[0], head)
        if query is None:
            return Strip(names(columns), mass, Phrase("picture.got", where=where),
                         Phrase("picture.received"))  # fmt: skip
        token = " ".join(dict.fromkeys(rows.name(n) for n in asked))
        marked = asked if names(rows) == names(columns) else []
        title = Phrase("picture.looking", where=where, token=token)
        return Strip(names(columns), mass, title, marked=marked)

    def patches(
        self,
        image: Any,
        layer: int,
        head: int | Sequence[int] | None = None,
        query: int | tuple[int, int] = 0,
    ) -> Patches:
        """What one position of a ViT looks at, over the image.

        Args:
            image: what the patches cover, as of :class:`regard.pictures.Patches`; where the model's
                preparation crops, the cropped image.
            layer, head: which weights; the mean over the layer's heads unless given.
            query: a position (0 is the class token where there is one), or a patch by its row and
                column from 0.

        Raises:
            KindError: a layer whose keys are no patches.
        """
        place = self._seen.run.places.get(self._layer(layer).keys)
        if not isinstance(place, places.Patches):
            raise KindError(
                f"patches are drawn of a layer that looks at an image, but the keys of layer "
                f"{layer} are {self._layer(layer).keys}; use seen.pictures.head({layer}, …)"
            )
        before, patch = len(place.before), None
        if isinstance(query, tuple):
            patch = query
            if not (0 <= query[0] < place.rows and 0 <= query[1] < place.columns):
                raise ValueRangeError(
                    f"query must be a row of {place.rows} and a column of {place.columns}, from 0, "
                    f"but {query} came"
                )
            query = before + query[0] * place.columns + query[1]
        rows, _ = self._axes(layer)
        query = _number("query", query, len(rows))
        if patch is None and query >= before:
            patch = divmod(query - before, place.columns)
        by = np.zeros(len(rows))
        by[query] = 1
        mass = self._ask(layer, head, received(by))
        weights = mass[before:].reshape(place.rows, place.columns)
        title = Phrase("picture.looking", where=self._where(layer, head), token=rows.name(query))
        return Patches(image, weights, patch, title)

    def distances(self, layer: int, heads: int | Sequence[int] | None = None) -> Distances:
        """Which share of a head's weight lies at each distance; five heads from near to far."""
        if self._layer(layer).kind == "cross":
            raise KindError(
                f"layer {layer} looks from one text at another, so its weights have no distance"
            )
        found = self._weights(layer).by_distance()
        distance, weight = in_numpy(found.distance), in_numpy(found.weight)[0]
        distance = distance if distance.ndim == 1 else distance[0]
        share = weight / np.maximum(weight.sum(axis=-1, keepdims=True), 1e-30)
        if heads is None:
            order = np.argsort(share @ np.abs(distance), kind="stable")
            even = np.linspace(0, len(order) - 1, min(PROFILES, len(order))).round().astype(int)
            heads = order[even].tolist()
        chosen = _numbers("heads", heads, len(share))
        return Distances(
            distance,
            {Phrase("picture.head-alone", head=head): share[head] for head in chosen},
            Phrase("picture.layer-alone", layer=layer),
        )

    def change(
        self, change: Comparison, layer: int | None = None, head: int | None = None
    ) -> Matrix:
        """What ``seen.compare(other)`` found: how far each head moved, or one head's difference."""
        if (layer is None) != (head is None):
            raise ValueRangeError(
                "change takes a layer and a head, for one head's difference, or neither, but "
                f"layer={layer} and head={head} came"
            )
        if layer is None or head is None:
            L, H = change.distance.shape
            rows = Numbers(L, Phrase("picture.layer-number"))
            columns = Numbers(H, Phrase("picture.head-number"))
            return Matrix(change.distance, rows, columns, Phrase("picture.how-changed"),
                          measure=Phrase("picture.distance-of-heads"))  # fmt: skip
        picture = change.image(layer, head, PIXELS)
        axes, block = [], []
        for axis, shared in zip(self._axes(layer), change.places[layer], strict=True):
            whole = names(axis)
            axes.append(Words([whole[mine] for mine, _ in shared], axis.title))
            block.append(-(-len(shared) // PIXELS))
        T, S = axes
        return Change(picture, T, S, self._where(layer, head), (block[0], block[1]))

    # ------------------------------------------------------------------ what they are made from

    def _layer(self, number: int) -> Layer:
        if self._seen.statistics:
            raise KindError(
                "this recording holds statistics only, of which seen.pictures.heads() is drawn; "
                "for other pictures watch without keep=Statistics(…)"
            )
        return self._seen[number]

    def _summed(self, number: int) -> LayerStatistics:
        layer = self._seen[number]
        run = self._seen.run
        ids, real = run.texts.get(layer.queries), real_of(layer, run)
        return summarise(layer, strongest=0, pixels=128, ids=ids, real=real)

    def _weights(self, layer: int) -> Any:
        return self._layer(layer).weights

    def _ask(self, layer: int, head: Any, question: Question) -> NDArray[np.float64]:
        """The answer for one head of the first sample, or the mean of several."""
        answer = in_numpy(self._weights(layer).ask(question)[0])[0]
        heads = _numbers("head", head, len(answer))
        return np.asarray(answer[heads].astype(np.float64).mean(axis=0))

    def _where(self, layer: int, head: Any) -> Phrase:
        heads = _numbers("head", head, self._layer(layer).heads)
        if len(heads) == 1:
            return Phrase("picture.layer-head", layer=layer, head=heads[0])
        return Phrase("picture.layer-heads", layer=layer, count=len(heads))

    def _axes(self, number: int) -> tuple[Axis, Axis]:
        """The queries and the keys of a layer, by their names."""
        layer = self._layer(number)
        T, S = int(layer.q.shape[-2]), int(layer.k.shape[-2])
        return self._axis(layer.queries, T, "query"), self._axis(layer.keys, S, "key")

    def _axis(self, argument: str, count: int, side: str) -> Axis:
        place = self._seen.run.places.get(argument)
        if isinstance(place, places.Frames) and place.count == count:
            words = "picture.query-seconds" if side == "query" else "picture.key-seconds"
            return Seconds(count, place.seconds, Phrase(words))
        title = Phrase("picture.query" if side == "query" else "picture.key")
        found = self._tokens(argument, count)
        return Numbers(count, title) if found is None else Words(found, title)

    def _tokens(self, argument: str, count: int) -> Sequence[str] | None:
        """What the positions are called; None where nobody said."""
        seen, run = self._seen, self._seen.run
        if (place := run.places.get(argument)) is not None:
            found: Sequence[str] = place.names()
        elif seen.reading is not None and argument == "input_ids":
            found = seen.reading.tokens
        else:
            ids = run.texts.get(argument, run.ids if argument == "input_ids" else None)
            if ids is None:
                return None
            found = spoken(seen.tokenizer, ids[0].tolist())
        return found if len(found) == count else None


def best(overview: Overview, recording: Recording | None = None, image: Any = None) -> Picture:
    """The picture of what was asked for.

    What some queries look at is drawn over the text, or over the ``image``; without a query one
    head is drawn as its matrix, and several as a grid.  Where the recording holds statistics only,
    or is None, the overview is all there is.
    """
    heads = [view.head for view in overview.layers[0]]
    layers = [views[0].layer for views in overview.layers]
    asked = list(overview.queries) if narrowed(overview) else None
    if recording is None or not len(recording):
        return picture_of(overview)
    pictures = recording.pictures
    if image is not None and len(layers) == 1 and (asked or len(heads) == 1):
        return pictures.patches(image, layers[0], heads, asked[0] if asked else 0)
    if asked and image is None:
        return pictures.strip(layers, heads, asked)
    return picture_of(overview)


def names(axis: Axis) -> list[str]:
    """What the places of ``axis`` are called, spaces and line ends in them kept."""
    return list(axis.names) if isinstance(axis, Words) else [axis.name(n) for n in range(len(axis))]
