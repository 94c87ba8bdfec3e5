"""Texts of different lengths as one row of real tokens: pads cost nothing but in attention itself.

A transformer treats tokens one by one everywhere else, so that part runs on [1, N] tokens with each text's own
positions; attention, swapped through transformers' attention interface, lays them out as [B, T] for its products.
Where a short test says that this changes an architecture's states, it is left as it is.

Shapes: B texts, T tokens of the longest, N real tokens of all, H state size, A attention heads, E size of one.
"""

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from trainers.encoders.dropout import dropout as fast_dropout

NAME = "densesweep_packed"
_CHECK_LENGTHS = (2, 5, 3)  # of the texts that are embedded both ways
_TOLERANCE = 1e-4  # of the largest state
_NOT_PACKED = ("sliding_window", "softcap", "s_aux")  # kinds of attention that are not written here


class Packing(NamedTuple):
    """Where the real tokens of a batch stand; `slot_N` is None where no text is shorter than another."""

    slot_N: Tensor | None  # int64, into B * T
    num_texts: int
    num_tokens: int
    is_key_BT: Tensor  # bool


_ACTIVE: ContextVar[Packing | None] = ContextVar("packing", default=None)


def packed_states(backbone: Any, input_ids_BT: Tensor, attention_mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Last states [B, T, H], right-padded with zeros, and their mask bool [B, T]. Pads may stand left or right."""
    real_BT = attention_mask_BT.bool()
    length_B1 = real_BT.sum(dim=1, keepdim=True)
    num_texts, num_tokens = len(length_B1), int(length_B1.max())
    is_key_BT = torch.arange(num_tokens, device=length_B1.device) < length_B1
    slot_N = is_key_BT.flatten().nonzero().squeeze(1)
    is_full = len(slot_N) == num_texts * num_tokens
    packing = Packing(None if is_full else slot_N, num_texts, num_tokens, is_key_BT)
    with _active(packing):
        states_1NH = backbone(
            input_ids=input_ids_BT[real_BT].unsqueeze(0), position_ids=(slot_N % num_tokens).unsqueeze(0)
        ).last_hidden_state
    return _laid_out(states_1NH.squeeze(0), packing).view(num_texts, num_tokens, -1), is_key_BT


def pack_where_possible(backbone: Any) -> bool:
    """Switch a backbone's attention to the packed one where its states stay as they are; says whether it did."""
    if "position_ids" not in inspect.signature(_plain(backbone).forward).parameters:
        return False
    if not getattr(_plain(backbone), "_supports_attention_backend", False) or _has_windows(backbone.config):
        return False
    before = backbone.config._attn_implementation
    expected = _states_one_by_one(backbone)
    try:
        backbone.set_attn_implementation(NAME)
        found = _states_packed(backbone)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        found = [torch.full_like(states, torch.nan) for states in expected]
    largest = max(states.abs().max().item() for states in expected)
    same = all(
        math.isfinite(gap := (a - b).abs().max().item()) and gap <= _TOLERANCE * largest
        for a, b in zip(found, expected, strict=True)
    )
    if not same:
        backbone.set_attn_implementation(before)
    return same


def _plain(backbone: Any) -> Any:
    return backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone


def _has_windows(config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(kinds - {"full_attention"}) or bool(getattr(config, "use_sliding_window", False))


@contextmanager
def _active(packing: Packing) -> Iterator[None]:
    token = _ACTIVE.set(packing)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within each text, [1, A, N, E] each; transformers' own where the call is not a packed one."""
    packing = _ACTIVE.get()
    if packing is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **kwargs)
    if odd := [name for name in _NOT_PACKED if kwargs.get(name) is not None]:
        raise ValueError(f"attention with {', '.join(odd)} is not packed")
    groups = getattr(module, "num_key_value_groups", 1)
    key, value = (x.repeat_interleave(groups, dim=1) if groups > 1 else x for x in (key, value))
    query, key, value = (_by_text(x, packing) for x in (query, key, value))
    is_causal = bool(kwargs.get("is_causal", getattr(module, "is_causal", False)))
    output_BATE = _attend(query, key, value, packing, is_causal, dropout, scaling or query.shape[-1] ** -0.5)
    output = output_BATE.transpose(1, 2).reshape(packing.num_texts * packing.num_tokens, -1)
    if packing.slot_N is not None:
        output = output.index_select(0, packing.slot_N)
    return output.view(1, len(output), *query.shape[1::2]), None


def _attend(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, is_causal: bool, dropout: float, scaling: float
) -> Tensor:
    mask = _mask(packing, is_causal)
    if query.device.type != "cpu" or not dropout:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling)
    # On a CPU, torch's own falls back to slow steps where there is dropout: these are the same without its checks.
    weights = torch.matmul(query * scaling, key.transpose(2, 3))
    if mask is not None:  # added, not filled in: that needs no pass over the weights to be differentiated
        weights = weights.add_(torch.zeros_like(mask, dtype=weights.dtype).masked_fill_(~mask, -torch.inf))
    return torch.matmul(fast_dropout(weights.softmax(dim=-1), dropout).to(value.dtype), value)


def _mask(packing: Packing, is_causal: bool) -> Tensor | None:
    """Which keys a query sees, bool [B, 1, T or 1, T]; None is all."""
    keys = None if packing.slot_N is None else packing.is_key_BT[:, None, None, :]
    if not is_causal:
        return keys
    earlier = packing.is_key_BT.new_ones(packing.num_tokens, packing.num_tokens).tril()
    return earlier if keys is None else earlier & keys


def _by_text(x_1ANE: Tensor, packing: Packing) -> Tensor:
    """[1, A, N, E] as [B, A, T, E]."""
    _, num_heads, num_real, size = x_1ANE.shape
    flat = x_1ANE.transpose(1, 2).reshape(num_real, num_heads * size)
    return _laid_out(flat, packing).view(packing.num_texts, packing.num_tokens, num_heads, size).transpose(1, 2)


def _laid_out(flat: Tensor, packing: Packing) -> Tensor:
    """Rows [N, ...] in their slots [B * T, ...], zeros elsewhere."""
    if packing.slot_N is None:
        return flat
    slots = flat.new_zeros(packing.num_texts * packing.num_tokens, *flat.shape[1:])
    return slots.index_copy_(0, packing.slot_N, flat)


def _mask_of_transformers(*args: Any, **kwargs: Any) -> Tensor | None:
    """The mask that transformers makes for padded calls; packed ones need none of [N, N]."""
    return None if _ACTIVE.get() is not None else sdpa_mask(*args, **kwargs)


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _mask_of_transformers)


def _check_ids(backbone: Any) -> list[Tensor]:
    """Token ids of a few short texts, from the middle of the vocabulary, where no special tokens are."""
    first = backbone.config.vocab_size // 2
    device = next(backbone.parameters()).device
    return [torch.arange(first, first + length, device=device) for length in _CHECK_LENGTHS]


@torch.no_grad()
def _states_one_by_one(backbone: Any) -> list[Tensor]:
    with _evaluating(backbone):
        return [backbone(input_ids=ids.unsqueeze(0)).last_hidden_state.squeeze(0) for ids in _check_ids(backbone)]


@torch.no_grad()
def _states_packed(backbone: Any) -> list[Tensor]:
    ids = _check_ids(backbone)
    padded_BT = nn.utils.rnn.pad_sequence(ids, batch_first=True)
    mask_BT = nn.utils.rnn.pad_sequence([torch.ones_like(x) for x in ids], batch_first=True)
    with _evaluating(backbone):
        states_BTH, _ = packed_states(backbone, padded_BT, mask_BT)
    return [states_TH[: len(x)] for states_TH, x in zip(states_BTH, ids, strict=True)]


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
