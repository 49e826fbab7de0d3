"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from regard._errors import UserError


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Writes ``parts`` beside ``path`` and moves the file there when all of them are on disk.

    Raises ``UserError`` where the folder is missing or refuses the file; what stood at ``path``
    before is then untouched.
    """
    # A link is followed, so that the file it points to is replaced and the link stays.
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        # "xb" and not tempfile: a picture gets the reader's usual permissions, not 0600.
        with part.open("xb") as file:
            for piece in parts:
                file.write(piece)
        part.replace(target)
    except OSError as error:
        raise UserError(
            "picture.cannot-write", path=str(path), why=error.strerror or str(error)
        ) from error
    finally:
        part.unlink(missing_ok=True)
