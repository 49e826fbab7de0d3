"""The door through which transformers' models get our attention."""

from __future__ import annotations

from regard._errors import MissingError


def register() -> None:
    """Lets transformers' models be loaded with ``attn_implementation="regard"``.

    ::

        output = attend(q, k, v, mask, scale=…, softcap=…, sink=…, bias=…)     in every layer

    Windows, padding on either side, softcap, sinks and biases of position mean what they mean to
    the model; its weights stay as they are.

    Raises:
        MissingError: without transformers.

    Source: the attention interface of transformers.

    >>> import torch, regard
    >>> from transformers import LlamaConfig, LlamaModel
    >>> regard.register()
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> config = LlamaConfig(**sizes, intermediate_size=8, vocab_size=9)
    >>> model = LlamaModel._from_config(config, attn_implementation="regard")
    >>> model(torch.zeros(1, 3, dtype=torch.int64)).last_hidden_state.shape
    torch.Size([1, 3, 8])
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise MissingError("register() needs transformers: pip install 'regard[look]'") from error
    from regard.recording.interface import attention, mask

    AttentionInterface.register("regard", attention)
    AttentionMaskInterface.register("regard", mask)
