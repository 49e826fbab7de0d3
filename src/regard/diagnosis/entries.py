"""The matrices that a subject holds, by path and role, however they are stored."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.diagnosis.reference import Norm
from regard.diagnosis.roles import weight_role
from regard.diagnosis.steps import Array


@dataclass(frozen=True)
class Entry:
    """One matrix or bias of the subject: its path, what it projects, and how it is stored."""

    path: str
    role: str | None
    w: Array
    b: Array = None
    exact: bool = False
    """Whether ``w`` is (in, out) for certain."""

    @property
    def index(self) -> tuple[int, ...]:
        """The numbers in the path, which order the heads."""
        return tuple(int(n) for n in re.findall(r"(?<=\.)\d+(?=\.|$)", self.path))


_NOT_ATTENTION = re.compile(
    r"(?:^|\.)(?:mlp|ffn?|feed_?forward|lm_head|embed\w*|wte|wpe|head_out)(?:\.|$)"
)


def is_keras(owner: Any) -> bool:
    """Whether it is a layer of Keras, which under its torch backend is a torch module too."""
    return type(owner).__module__.startswith("keras.")


def entries_of(owner: Any) -> tuple[list[Entry], list[Norm]]:
    """Every matrix that the owner holds, and its layer norms, in the order of definition."""
    if hasattr(owner, "variables") and is_keras(owner):
        return _of_keras(owner), []
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.nn.Module):
        return _of_module(owner)
    found: list[Entry] = []
    _of_object(owner, "", found, 0)
    return found, []


def _of_keras(layer: Any) -> list[Entry]:
    """The kernels (C, H, D) or (H, D, C) of a Keras layer, with their biases."""
    held = {
        v.path: np.asarray(v.value.detach() if hasattr(v.value, "detach") else v.value)
        for v in layer.variables
    }
    found = []
    for path, kernel in held.items():
        stem, _, kind = path.rpartition("/")
        if kind != "kernel" or kernel.ndim != 3:
            continue
        role = weight_role(stem.rpartition("/")[2].removeprefix("attention_"))
        shape = (-1, kernel.shape[-1]) if role == "o" else (kernel.shape[0], -1)
        bias = held.get(f"{stem}/bias")
        flat = None if bias is None else bias.reshape(-1)
        found.append(Entry(stem, role, kernel.reshape(shape), flat, exact=True))
    return found


def _of_module(owner: Any) -> tuple[list[Entry], list[Norm]]:
    torch = sys.modules["torch"]
    entries: list[Entry] = []
    norms: list[Norm] = []
    taken: set[int] = set()
    for path, module in owner.named_modules():
        own = dict(module.named_parameters(recurse=False))
        weight = own.get("weight")
        if _NOT_ATTENTION.search(path):
            taken.update(id(p) for p in own.values())
            continue
        kind = type(module).__name__
        if isinstance(module, torch.nn.LayerNorm) or "Norm" in kind:
            taken.update(id(p) for p in own.values())
            if weight is not None:
                norms.append(_norm(module, own, rms="rms" in kind.lower()))
            continue
        if weight is None or isinstance(module, torch.nn.Embedding):
            if weight is not None:
                taken.add(id(weight))
            continue
        w = weight.detach().cpu().numpy()
        if kind == "Conv1D" and w.ndim == 2:
            pass
        elif isinstance(module, torch.nn.Linear) or hasattr(module, "in_features"):
            w = w.T
        elif isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d) and w[0, 0].size == 1:
            w = w.reshape(w.shape[:2]).T
        else:
            continue
        bias = own.get("bias")
        entries.append(
            Entry(path, _role(path), w, None if bias is None else bias.detach().numpy(), exact=True)
        )
        taken.update(id(p) for p in own.values())
    for path, p in owner.named_parameters():
        if id(p) not in taken and p.is_floating_point():
            entries.append(_raw(path, p.detach().cpu().numpy()))
    return entries, norms


def _norm(module: Any, own: Mapping[str, Any], *, rms: bool) -> Norm:
    eps = getattr(module, "eps", None) or getattr(module, "variance_epsilon", None) or 1e-6
    bias = own.get("bias")
    return Norm(
        own["weight"].detach().numpy(),
        None if bias is None else bias.detach().numpy(),
        eps,
        rms,
        getattr(module, "num_groups", 0),
    )


def _raw(path: str, array: Array) -> Entry:
    if re.search(r"in_proj_(?:weight|bias)$", path):
        if array.ndim == 2:
            return Entry(path, "qkv", array.T, exact=True)
        return Entry(path, "qkv", array)
    return Entry(path, _role(path), array)


def _role(path: str) -> str | None:
    for part in reversed(path.split(".")):
        if part.isdigit() or part in ("weight", "bias", "linear"):
            if part == "linear" and "." not in path:
                return "o"
            continue
        return weight_role(part)
    return None


def _of_object(value: Any, path: str, found: list[Entry], depth: int) -> None:
    if isinstance(value, np.ndarray):
        if np.issubdtype(value.dtype, np.floating) and value.ndim >= 1:
            found.append(Entry(path, _role(path), value))
        return
    if depth > 4:
        return
    if isinstance(value, Mapping):
        items = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(i), v) for i, v in enumerate(value)]
    elif hasattr(value, "__dict__") and not callable(getattr(value, "__globals__", None)):
        items = list(vars(value).items())
    else:
        return
    for name, item in items:
        _of_object(item, f"{path}.{name}" if path else name, found, depth + 1)
