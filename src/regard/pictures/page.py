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
from regard.pictures.packing import Layout, fitting, packed, rooted

THUMBNAIL = 40
"""The most pixels on the side of a thumbnail."""
SCRIPTS = (
    "data.js", "canvas.js", "grid.js", "search.js", "text.js", "strip.js", "links.js",
    "matrix.js", "kept.js", "main.js",
)  # fmt: skip
"""What the page's script is joined from; each file may use those before it."""

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
    "page.exact-coarse", "page.not-kept", "page.none-strong", "page.received-most", "page.search",
    "page.search-hint", "page.search-back", "page.search-on", "page.found-none",
    "page.found-all", "page.found-at", "page.links", "page.links-axes", "page.links-label",
    "page.links-told", "page.links-none", "page.linked-near", "page.linked-found", "page.least",
    "page.sinkless", "page.kept", "page.kept-all", "page.kept-image", "page.kept-strongest",
    "page.kept-floor", "page.kept-strongest-chosen", "page.kept-chosen", "page.kept-received",
    "page.kept-received-bins", "page.kept-fine", "page.kept-coarse", "page.kept-rest",
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
    layout, blocks = fitting(overview)
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
    yield _block("thumbnails", "application/octet-stream", packed(thumbnails))
    # The script runs here, so the grid is drawn while the browser still reads the layers.
    yield f"<script>{script}</script>\n".encode()
    for number, numbers in enumerate(blocks):
        yield _block(f"layer-{number}", "application/octet-stream", numbers)
        if progress:
            progress(number + 1, len(overview.layers))
    yield after.encode()


def _thumbnail(image: NDArray[np.float32]) -> bytes:
    return rooted(_small(image)).tobytes()


def _small(image: NDArray[np.float32]) -> NDArray[np.float32]:
    return shrink(image, -(-max(image.shape) // THUMBNAIL))


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
        "fine": layout.fine,
        "floor": layout.floor,
        "strongest": layout.strongest,
        "bin": layout.bin,
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
        "received": float(np.nan_to_num(view.received).max(initial=0.0)),
    }
