"""The overview as one HTML file that needs no network, no server and no other file.

The file opens fast because the thumbnails stand first and alone; each layer's numbers stand in a
block of their own (deflate, base64) that the page unpacks when the layer is chosen.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._words import LANGUAGES, Language, catalogue, say
from regard.pictures.atomic import write_whole
from regard.pictures.colours import ramp, shrink
from regard.pictures.marks import MARKS, shown
from regard.pictures.notable import clearest, narrowed, notable
from regard.pictures.overview import HeadView, Overview

THUMBNAIL, IMAGE = 40, 256
"""The most pixels on the side of a thumbnail and of a head's image."""
SCRIPTS = ("data.js", "grid.js", "links.js", "canvas.js", "matrix.js", "main.js")

KEYS = (
    "page.title", "page.size", "page.heads", "page.how-to-read", "page.filter", "page.worth",
    "page.layer", "page.head", "page.place", "page.head-option", "page.cell", "page.score",
    "page.entropy", "page.text", "page.direction", "page.looks-at", "page.looked-at",
    "page.text-hint", "page.text-label", "page.most-at", "page.most-by", "page.nothing",
    "page.nobody", "page.received", "page.received-value", "page.pair", "page.exact",
    "page.block-mean",
    "page.matrix", "page.matrix-label", "page.shown-part", "page.whole", "page.chosen",
    "page.axes", "page.zoom", "page.zoom-in", "page.zoom-out", "page.zoom-all", "page.scale",
    "page.scale-mean", "page.scale-zoomed", "page.loading", "page.language", "page.made",
    "page.old-browser",
)  # fmt: skip
"""What the page says; the roles' names come with their marks."""


def save_page(
    overview: Overview,
    path: Path,
    lang: Language,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Writes ``overview`` into ``path`` as one HTML file that opens in ``lang``.

    ``progress`` is called with (layers written, layers in all) as the file grows.
    """
    write_whole(path, _parts(overview, lang, progress))


def _parts(
    overview: Overview, lang: Language, progress: Callable[[int, int], None] | None
) -> Iterator[bytes]:
    layout = Layout(overview)
    style, script = _asset("page.css"), _script()
    blanks = {
        "lang": lang,
        "csp": html.escape(_policy(style, script)),
        "no-script": " ".join(html.escape(say("page.no-script", each)) for each in LANGUAGES),
        "title": html.escape(_clean(say("page.title", lang, model=overview.model))),
        "style": style,
    }
    before, after = _asset("page.html").split("@blocks@")
    # One pass, so that a model called "@style@" is only a name.
    yield re.sub(r"@([a-z-]+)@", lambda found: blanks[found[1]], before).encode()
    yield _block("meta", "application/json", _json(_meta(overview, layout, lang)))
    thumbnails = b"".join(_thumbnail(view.image) for view in overview.heads())
    yield _block("thumbnails", "application/octet-stream", _packed(thumbnails))
    # The script runs here, so the grid is drawn while the browser still reads the layers.
    yield f"<script>{script}</script>\n".encode()
    for number, heads in enumerate(overview.layers):
        packed = _packed(b"".join(layout.packed(view) for view in heads))
        yield _block(f"layer-{number}", "application/octet-stream", packed)
        if progress:
            progress(number + 1, len(overview.layers))
    yield after.encode()


STRONGEST = 8
"""Keys of each query that the page has room for; statistics of a long text tell fewer."""


class Layout:
    """How the numbers of a head lie in its layer's block; ``data.js`` reads the same."""

    def __init__(self, overview: Overview) -> None:
        tokens = len(overview.tokens)
        side = max((max(view.image.shape) for view in overview.heads()), default=1)
        self.dense = overview.block == 1 and side <= IMAGE
        """Whether the whole matrix is stored exactly, and therefore no image beside it."""
        self.step = 1 if self.dense else -(-side // IMAGE)
        self.block = overview.block * self.step
        self.index = np.dtype("<u2" if tokens < 1 << 16 else "<u4")
        # The last pixel may stand for fewer entries, and must weigh less in a mean of pixels.
        self.entries = np.full(-(-tokens // overview.block), overview.block)
        self.entries[-1] = tokens - overview.block * (len(self.entries) - 1)

    def packed(self, view: HeadView) -> bytes:
        """The head's numbers, array after array, each split into planes of bytes."""
        return b"".join(_planes(array) for array in self._arrays(view))

    def _arrays(self, view: HeadView) -> Iterator[NDArray[Any]]:
        # 12 bits of fraction are more than a heat strip can show; zeros pack well.
        yield (np.nan_to_num(view.received).astype("<f4").view("<u4") + 0x400) & 0xFFFFF800
        # Relative to the query, keys repeat from one query to the next.  0 would be key −1.
        missing = ((0, 0), (0, STRONGEST - view.top_keys.shape[1]))
        keys = np.pad(view.top_keys.astype(np.int64) + 1, missing)
        ahead = np.arange(len(keys), dtype=np.int64)[:, None] + 1 - keys
        yield (ahead % (1 << 8 * self.index.itemsize)).astype(self.index).T
        yield _levels(np.pad(view.top_weights, missing)).T
        if self.dense:
            yield _levels(view.image)
        else:
            yield _rooted(self.image(view))
            yield _levels(view.exact)

    def image(self, view: HeadView) -> NDArray[np.float32]:
        """The head's block means at the resolution that the page stores."""
        return shrink(view.image, self.step, self.entries)


def _levels(weights: NDArray[np.float32]) -> NDArray[np.uint16]:
    levels = np.round(np.clip(np.nan_to_num(weights), 0, 1) * 65535)
    return levels.astype(np.dtype("<u2"))


def _rooted(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """0..255 for the root of value ÷ maximum: small means keep their digits, and their colour."""
    most = float(image.max(initial=0.0)) or 1.0
    levels = np.round(np.sqrt(np.clip(image / most, 0, 1)) * 255)
    return np.asarray(levels, dtype=np.uint8)


def _planes(array: NDArray[Any]) -> bytes:
    """All first bytes, then all second bytes: like stands by like, and deflate finds it."""
    flat = np.ascontiguousarray(array)
    return flat.reshape(-1).view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()


def _thumbnail(image: NDArray[np.float32]) -> bytes:
    return _rooted(_small(image)).tobytes()


def _small(image: NDArray[np.float32]) -> NDArray[np.float32]:
    return shrink(image, -(-max(image.shape) // THUMBNAIL))


def _packed(data: bytes) -> str:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()


def _block(name: str, kind: str, text: str) -> bytes:
    return f'<script type="{kind}" id="{name}">{text}</script>\n'.encode()


def _json(value: Any) -> str:
    # ASCII alone, and no "<": whatever a token holds, it cannot end the block it stands in.
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _asset(name: str) -> str:
    return (files("regard.pictures") / "assets" / name).read_text(encoding="utf-8")


def _script() -> str:
    body = "\n".join(_asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}\n}})();'


def _policy(style: str, script: str) -> str:
    """Nothing from anywhere, and only this script and this style, known by their hashes."""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _gap(token: str) -> int:
    """What stands before a token in the flowing text: nothing, a space; after it, a line end."""
    return 2 if "\n" in token else 1 if token[:1].isspace() else 0


def _meta(overview: Overview, layout: Layout, lang: Language) -> dict[str, Any]:
    heads = list(overview.heads())
    sample = heads[0].image
    best = notable(overview, each=1)
    links = clearest(overview, best[0], 1)
    words = catalogue()
    keys = [*KEYS, *(key for mark in MARKS.values() for key in (mark.name, mark.about))]
    return {
        "model": _clean(overview.model),
        "lang": lang,
        "tokens": [shown(token) for token in overview.tokens],
        "gaps": [_gap(token) for token in overview.tokens],
        "chosen": overview.chosen.tolist(),
        # The token that the page opens on: the one asked for, or the one with the clearest link.
        "token": overview.queries[0] if narrowed(overview) or not links else links[0][0],
        "held": narrowed(overview),
        "dense": layout.dense,
        "block": layout.block,
        "bytes": layout.index.itemsize,
        "image": list(sample.shape if layout.dense else layout.image(heads[0]).shape),
        "thumbnail": list(_small(sample).shape),
        "layers": [[_head(view, layout) for view in layer] for layer in overview.layers],
        "notable": [[view.layer, view.head] for view in best],
        "roles": {
            role: {"colour": mark.colour, "name": mark.name, "about": mark.about}
            for role, mark in MARKS.items()
        },
        "ramps": [base64.b64encode(ramp(dark).tobytes()).decode() for dark in (False, True)],
        "words": {each: {key: words[key][each] for key in keys} for each in LANGUAGES},
    }


def _head(view: HeadView, layout: Layout) -> dict[str, Any]:
    image = view.image if layout.dense else layout.image(view)
    most = float(np.nan_to_num(image).max(initial=0.0))
    return {
        "layer": view.layer,
        "head": view.head,
        "role": view.role,
        "score": round(float(np.nan_to_num(view.scores.get(view.role, 0.0))), 4),
        "entropy": round(float(np.nan_to_num(view.entropy)), 4),
        "most": most,
    }
