"""What a recording can be asked: each answer is a file of ``answers``, loaded when it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError

if TYPE_CHECKING:
    from regard.recording.answers.alignment import Word
    from regard.recording.answers.attribution import Attribution
    from regard.recording.answers.compare import Comparison
    from regard.recording.answers.flow import Flow
    from regard.recording.answers.heads import Head, Heads
    from regard.recording.answers.importance import Importance, Targets
    from regard.recording.answers.without import Without
    from regard.recording.recording import Recording


class Answers:
    """The questions to a recording as a whole; those to one layer are its ``weights``'."""

    @property
    def _own(self) -> Recording:
        return cast("Recording", self)

    def rollout(self, targets: Sequence[int], **options: Any) -> NDArray[np.float64]:
        """How much of each of N target tokens comes from each token, (N, T); each row sums to 1.

        Attention with its residual connections, multiplied through all layers, in memory that
        grows with T; :func:`regard.recording.answers.rollout.rollout` tells of the options.

        Source: Abnar and Zuidema 2020, section 3.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaModel(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12)[None])
        >>> seen.rollout([0, 11]).sum(axis=1).round(6).tolist()
        [1.0, 1.0]
        """
        from regard.recording.answers.held import layers_of
        from regard.recording.answers.rollout import rollout

        return rollout(layers_of(self._own), targets, **options)

    def flow(self, target: int, source: int, **options: Any) -> Flow:
        """How much of token ``source`` can reach token ``target`` at most, and a proof of it.

        The largest flow through all layers, whose pipes are as wide as what :meth:`rollout`
        multiplies; :func:`regard.recording.answers.flow.flow` tells of the options.

        Source: Abnar and Zuidema 2020, section 4.
        """
        from regard.recording.answers.flow import flow
        from regard.recording.answers.held import layers_of

        return flow(layers_of(self._own), target, source, **options)

    def compare(self, other: Recording, **options: Any) -> Comparison:
        """How far each head's weights are from those of ``other``: two prompts, two checkpoints.

        :func:`regard.recording.answers.compare.compare` gives the formula and the options.
        """
        from regard.recording.answers.compare import compare

        return compare(self._own, other, **options)

    def roles(self, **options: Any) -> Heads:
        """What every head does: its role, the scores that make it, and where its weight lies.

        :func:`regard.recording.answers.heads.roles` tells of the options; the rules stand in
        ``docs/answers.md``.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaModel(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12).repeat(2)[None])
        >>> len(seen.roles()), sorted(seen.roles()[0].scores)[:4]
        (8, ['broad', 'dead', 'duplicate', 'first'])
        """
        from regard.recording.answers.heads import roles

        return roles(self._own, **options)

    def find(self, role: str, n: int = 10, **options: Any) -> tuple[Head, ...]:
        """The n heads that score highest for ``role``, such as ``"induction"``, highest first.

        Options and errors as in :meth:`roles` and :meth:`Heads.find`.
        """
        return self.roles(**options).find(role, n)

    def without(
        self,
        heads: Sequence[tuple[int, int]] = (),
        *,
        layer: int | None = None,
        head: int | None = None,
        logits: Callable[[Any], Any] | None = None,
    ) -> Without:
        """Run the model again with a head off, or several, and see how its output changes.

        ``without(layer=13, head=8)`` is short for ``without([(13, 8)])``;
        :func:`regard.recording.answers.without.without` tells the rest.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaForCausalLM(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12)[None])
        >>> changed = seen.without(layer=1, head=2)
        >>> changed.divergence.shape, len(changed.likeliest(3)) >= 3
        ((1, 12), True)
        """
        from regard.recording.answers.without import without

        if (layer is None) != (head is None) or (layer is None and not heads):
            raise ValueRangeError(
                "without takes a layer and a head, as in without(layer=13, head=8), or several: "
                "without([(13, 8), (2, 0)])"
            )
        both = [*heads, *([] if layer is None or head is None else [(layer, head)])]
        return without(self._own, both, logits=logits)

    def importance(self, targets: Targets = (), **options: Any) -> tuple[Importance, ...]:
        """Weights times the length of what they carry, a layer at a time; runs the model again.

        :func:`regard.recording.answers.importance.importance` gives the formula and the options.

        Source: Kobayashi et al. 2020, section 3.
        """
        from regard.recording.answers.importance import importance

        return importance(self._own, targets, **options)

    def attribution(self, of: Any = None, targets: Targets = (), **options: Any) -> Attribution:
        """The gradient of one number of the output by each weight, times the weight.

        :func:`regard.recording.answers.attribution.attribution` gives the formula and the options.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaForCausalLM(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12)[None])
        >>> found = seen.attribution((11, 42), targets=[11])
        >>> found.layers[1].targets.shape, found.layers[1].received.shape
        ((4, 1, 12), (4, 12))
        """
        from regard.recording.answers.attribution import attribution

        return attribution(self._own, of, targets, **options)

    def align(self, pieces: Sequence[str], **options: Any) -> tuple[Word, ...]:
        """When each word of a transcript is said, from a speech model's cross attention.

        :func:`regard.recording.answers.alignment.align` gives the formula and the options.

        Source: Radford et al. 2022 (Whisper).
        """
        from regard.recording.answers.alignment import align

        return align(self._own, pieces, **options)
