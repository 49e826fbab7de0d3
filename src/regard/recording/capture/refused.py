"""Models that cannot be overheard, and why."""

from __future__ import annotations

from typing import Any

from regard._errors import KindError
from regard.recording.capture.tables import UNDERSTOOD, unknown


def check_model(model: Any) -> None:
    """Raises a KindError for what ``watch`` cannot record."""
    import torch

    if not isinstance(model, torch.nn.Module):
        raise KindError(f"watch takes a torch.nn.Module, but a {type(model).__name__} came")
    for name, module in model.named_modules():
        _check_module(name or "the model", module, torch)
    parameters = list(model.parameters())
    offloaded = any(hasattr(module, "_hf_hook") for module in model.modules())
    if parameters and all(p.is_meta for p in parameters) and not offloaded:
        raise KindError(
            "the model stands on 'meta', where tensors have no numbers, so there is no attention "
            "to record; load its weights first (from_pretrained, or model.to_empty(device='cpu') "
            "and load_state_dict)"
        )


def _check_module(name: str, module: Any, torch: Any) -> None:
    kind = type(module).__name__
    if isinstance(module, torch.nn.DataParallel):
        raise KindError(
            f"{name} is a DataParallel, which copies the model to each device at every call, and "
            "copies are not watched; watch its .module, or use DistributedDataParallel"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise KindError(
            f"{name} is a ScriptModule, which runs outside of Python, where nothing can be "
            "overheard; watch the module that it was made from"
        )
    if kind == "OptimizedModule" or module._compiled_call_impl is not None:
        remedy = "model._orig_mod" if kind == "OptimizedModule" else "the model before .compile()"
        raise KindError(
            f"{name} is compiled by torch.compile, whose kernels call no function that could be "
            f"overheard; watch {remedy}, whose weights are the same"
        )
    if hasattr(type(module).forward, "_torchdynamo_orig_callable"):
        raise KindError(
            f"the forward of {name} ({kind}) is compiled by torch.compile, whose kernels call no "
            "function that could be overheard; set torch.compiler.set_stance('force_eager') and "
            "take the decorator away, or watch a model without it"
        )
    named = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if isinstance(named, str) and named not in UNDERSTOOD:
        raise KindError(unknown(named))
