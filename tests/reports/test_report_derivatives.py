"""Reports of derivatives that fast kernels lack: second, forward, and first ones on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")
F = torch.nn.functional

# Torch's forward mode loads its own rules through torch.jit, the first time it is asked.
JIT = "ignore:`torch.jit.script` is deprecated:DeprecationWarning"


def tensors(*shape: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=shape)) for _ in range(3)]


def differences(fn: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> Any:
    """The gradient of ``fn``, by central differences."""
    found = np.zeros_like(at)
    for index in np.ndindex(*at.shape):
        moved = np.zeros_like(at)
        moved[index] = step
        found[index] = (fn(at + moved) - fn(at - moved)) / (2 * step)
    return found


def penalty(attend: Callable[..., Any], q: Any, k: Any, v: Any) -> Any:
    """The report's gradient penalty: the mean square of what Σ output has as gradient of q."""
    output = attend(q, k, v)
    (slope,) = torch.autograd.grad(output, q, torch.ones_like(output), create_graph=True)
    return slope.square().sum(-1).mean()


def test_peer_pytorch_116350_the_fused_kernel_has_no_second_derivative() -> None:
    # Still so in torch 2.13; the kernel without fusion has one.
    q, k, v = (a.requires_grad_() for a in tensors(1, 2, 4, 3))
    with pytest.raises(RuntimeError, match=r"derivative for .*flash.*backward is not implemented"):
        penalty(F.scaled_dot_product_attention, q, k, v).backward()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        penalty(F.scaled_dot_product_attention, q, k, v).backward()
    assert q.grad.isfinite().all()


def test_pytorch_116350_a_gradient_penalty_is_trained(gradients: Any) -> None:
    arrays = tensors(1, 2, 4, 3)
    leaves = [a.clone().requires_grad_() for a in arrays]
    seen = np.tri(4, dtype=bool)
    found = penalty(lambda q, k, v: regard.attend(q, k, v, regard.causal()), *leaves)

    def by_formula(which: int) -> Callable[[np.ndarray], float]:
        def value(moved: np.ndarray) -> float:
            q, k, v = (moved if i == which else a.numpy() for i, a in enumerate(arrays))
            slope = gradients(q, k, v, np.ones_like(v), seen).q
            return float((slope**2).sum(-1).mean())

        return value

    np.testing.assert_allclose(found.item(), by_formula(0)(arrays[0].numpy()), rtol=1e-12)
    found.backward()
    for which, leaf in enumerate(leaves):
        want = differences(by_formula(which), arrays[which].numpy())
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-8)


@pytest.mark.parametrize(
    "mask", [None, regard.causal(), regard.window(2) & regard.lengths([3, 1])], ids=repr
)
def test_pytorch_116350_every_second_derivative_is_there(mask: Any) -> None:
    leaves = [a.requires_grad_() for a in tensors(2, 1, 3, 2)]
    assert torch.autograd.gradgradcheck(lambda q, k, v: regard.attend(q, k, v, mask), leaves)


@pytest.mark.filterwarnings(JIT)
def test_peer_pytorch_128971_the_fused_kernel_has_no_forward_mode() -> None:
    # Still so in torch 2.13.
    q, k, v = tensors(1, 2, 4, 3)
    with pytest.raises(NotImplementedError, match=r"forward AD with .*for_cpu"):
        torch.func.jvp(
            lambda q: F.scaled_dot_product_attention(q, k, v), (q,), (torch.ones_like(q),)
        )


@pytest.mark.filterwarnings(JIT)
def test_pytorch_128971_a_tangent_runs_forward(formula: Any) -> None:
    arrays, tangents = tensors(1, 2, 5, 3), [torch.cos(a * 3) for a in tensors(1, 2, 5, 3)]
    output, moved = torch.func.jvp(
        lambda q, k, v: regard.attend(q, k, v, regard.causal()), tuple(arrays), tuple(tangents)
    )
    truth = formula(*arrays, np.tri(5, dtype=bool))
    q, k, v, dq, dk, dv = (a.numpy() for a in (*arrays, *tangents))
    ds = (dq @ k.swapaxes(-1, -2) + q @ dk.swapaxes(-1, -2)) * 3**-0.5
    w = truth.weights
    dw = w * (ds - (w * ds).sum(-1, keepdims=True))
    np.testing.assert_allclose(double(output), truth.output, atol=1e-12)
    np.testing.assert_allclose(double(moved), dw @ v + w @ dv, atol=1e-12)


@pytest.mark.filterwarnings(JIT)
def test_pytorch_128971_forward_mode_agrees_with_differences() -> None:
    leaves = [a.requires_grad_() for a in tensors(1, 1, 4, 3)]
    assert torch.autograd.gradcheck(
        lambda q, k, v: regard.attend(q, k, v, regard.causal()), leaves, check_forward_ad=True
    )


def test_peer_pytorch_148752_compiled_flex_attention_does_not_train_on_a_cpu() -> None:
    # Still so in torch 2.13, with a sentence of its own where the report found an IndexError.
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = (a.requires_grad_() for a in tensors(1, 1, 8, 4))
    compiled = torch.compile(flex_attention, backend="eager")
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        compiled(q, k, v)


@pytest.mark.parametrize("lengths", [[7, 3], [1, 6]], ids=str)
def test_pytorch_148752_sequences_of_any_length_train_on_a_cpu(
    lengths: list[int], gradients: Any
) -> None:
    arrays = tensors(2, 2, 7, 4)
    leaves = [a.clone().requires_grad_() for a in arrays]
    output = regard.attend(*leaves, regard.lengths(lengths))
    upstream = torch.cos(output.detach() * 3)
    output.backward(upstream)
    seen = np.arange(7) < np.array(lengths)[:, None, None, None]
    for leaf, want in zip(leaves, gradients(*arrays, upstream, seen), strict=False):
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-12)


def test_peer_pytorch_169224_flex_attention_refuses_to_train_on_a_cpu() -> None:
    # Mended in part: the block mask now lies where the default device is, and the refusal is plain.
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128)
    assert mask.kv_indices.device.type == "cpu"
    q, k, v = (a.requires_grad_() for a in tensors(1, 1, 128, 4))
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q, k, v, block_mask=mask)


@pytest.mark.parametrize("engine", ["tiles", "sdpa"])
def test_pytorch_169224_a_mask_of_rules_trains_on_a_cpu(engine: str, gradients: Any) -> None:
    arrays = tensors(1, 2, 30, 4)
    i, j = np.indices((30, 30))
    packed = np.repeat([0, 1, 2], [5, 17, 8])
    seen = (j <= i) & (i - j < 6) & (packed[:, None] == packed)
    mask = regard.causal() & regard.window(6) & regard.documents(lengths=[5, 17, 8])
    leaves = [a.clone().requires_grad_() for a in arrays]
    output = regard.attend(*leaves, mask, engine=engine)
    upstream = torch.cos(output.detach() * 3)
    output.backward(upstream)
    for leaf, want in zip(leaves, gradients(*arrays, upstream, seen), strict=False):
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-12)
