"""The encoder: texts to token ids, token ids to raw embeddings. It never normalises; the similarity does.

Shapes: B texts, T tokens, H embedding size.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from tokenizers import Encoding, processors
from torch import Tensor, nn

from search_spaces.catalogue.families import Pooling
from search_spaces.problems import InputError, Problem
from search_spaces.specs import EncoderSpec, Towers
from trainers.encoders.packing import pack_where_possible, packed_states
from trainers.weights.limits import num_positions
from trainers.weights.vocabulary import MIN_TEXT_TOKENS

Side = Literal["query", "document"]
Tower = Literal["shared", "query", "document"]
TOWERS: Mapping[Towers, tuple[Tower, ...]] = {"shared": ("shared",), "separate": ("query", "document")}


class Encoder(nn.Module):
    """Transformer backbones, one for each tower, with their tokenizer and pooling, as `spec` says.

    A shared tower embeds both sides; separate ones have one architecture and one tokenizer, and weights of their own.
    Dropout is the backbone's own and follows `train()` and `eval()`. The tokenizer is changed in place: pads go to
    the right, EOS is its pad token where it has none, and it appends EOS where the spec asks for that.
    """

    def __init__(self, backbones: Mapping[Tower, Any], tokenizer: Any, spec: EncoderSpec) -> None:
        """Raise InputError where backbones or tokenizer cannot do what `spec` asks.

        Args:
            backbones: one for each of `TOWERS[spec.towers]`.
            tokenizer: of both towers.
            spec: what they are.
        """
        super().__init__()
        assert tuple(backbones) == TOWERS[spec.towers], f"towers are {spec.towers}, backbones {tuple(backbones)}"
        self.backbones = nn.ModuleDict({str(tower): backbone for tower, backbone in backbones.items()})
        self.tokenizer = tokenizer
        self.spec = spec
        self._instruction: str | None = None
        _prepare_tokenizer(tokenizer, spec)
        for backbone in backbones.values():
            backbone.config.use_cache = False  # a decoder would keep keys and values of every layer
            _check_lengths(backbone.config, tokenizer, spec)
            if isinstance(pooler := getattr(backbone, "pooler", None), nn.Module):
                # BERT's own pooler feeds no embedding: without a gradient it must not be among the trained parameters.
                pooler.requires_grad_(False)
        self.is_packed = all(pack_where_possible(backbone) for backbone in backbones.values())

    @property
    def towers(self) -> tuple[Tower, ...]:
        """The names of the towers: one that is shared, or the query's and the document's."""
        return TOWERS[self.spec.towers]

    def tower_of(self, side: Side) -> Tower:
        """The tower that embeds a side: texts of both sides may go through a shared one together."""
        return "shared" if self.spec.towers == "shared" else side

    @property
    def config(self) -> Any:
        """The architecture's transformers config, which all towers have in common."""
        return self.backbones[self.towers[0]].config

    @property
    def hidden_size(self) -> int:
        """The embedding size H."""
        return int(self.config.hidden_size)

    def max_length(self, side: Side) -> int:
        """The longest text of a side in tokens, special ones and prompt counted."""
        return self.spec.max_query_length if side == "query" else self.spec.max_document_length

    def prompt(self, side: Side) -> str:
        """What stands before each text of a side now."""
        return self.spec.query_prompt_for(self._instruction) if side == "query" else self.spec.document_prompt

    def instruct(self, instruction: str | None) -> None:
        """From now on queries are those of a data set that says this of them, or nothing. Most encoders read none."""
        self._instruction = instruction

    @contextmanager
    def instructed(self, instruction: str | None) -> Iterator[None]:
        """`instruct`, for a while."""
        before, self._instruction = self._instruction, instruction
        try:
            yield
        finally:
            self._instruction = before

    def tokenise(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        """Token ids of each text with the side's prompt, cut to its maximum length; not padded.

        Special tokens (and EOS where the spec appends it) are never cut off. A text without any token becomes one
        pad token, so that it has an embedding.
        """
        return [encoding.ids or [self.tokenizer.pad_token_id] for encoding in self.encodings(texts, side)]

    def encodings(self, texts: Sequence[str], side: Side) -> list[Encoding]:
        """What the tokenizer gives for the texts of a side; `overflowing` of one holds what was cut off."""
        if not texts:
            return []
        prompt = self.prompt(side)
        encoded = self.tokenizer(
            [prompt + text for text in texts],
            truncation=True,
            max_length=self.max_length(side),
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        found: list[Encoding] = encoded.encodings
        return found

    def pad(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Right-padded (input_ids_BT, attention_mask_BT), int64 on the CPU."""
        return pad(ids, self.tokenizer.pad_token_id)

    def forward(self, input_ids_BT: Tensor, attention_mask_BT: Tensor, side: Side) -> Tensor:
        """Raw embeddings by the side's tower, float32 [B, H]; pads may stand left or right and change nothing."""
        backbone = self.backbones[self.tower_of(side)]
        if self.is_packed:
            states_BTH, is_real_BT = packed_states(backbone, input_ids_BT, attention_mask_BT)
            return pool(states_BTH, is_real_BT.long(), self.spec.pooling)
        input_ids_BT, attention_mask_BT = _pads_moved_right(input_ids_BT, attention_mask_BT)
        states_BTH = backbone(input_ids=input_ids_BT, attention_mask=attention_mask_BT).last_hidden_state
        return pool(states_BTH, attention_mask_BT, self.spec.pooling)

    def use_eager_attention(self) -> None:
        """Attention step by step: on a CPU the only kind with forward-mode derivatives (`torch.func.jvp`)."""
        self.is_packed = False
        backbone: Any
        for backbone in self.backbones.values():
            backbone.set_attn_implementation("eager")

    def compile_backbones(self) -> None:
        """Let torch compile the backbones, in place, for texts of any length; names of weights stay."""
        self.is_packed = False  # torch's compiler knows its own attention, and padded shapes
        backbone: Any
        for backbone in self.backbones.values():
            backbone.set_attn_implementation("sdpa")
            backbone.compile(dynamic=True)


def pad(ids: Sequence[Sequence[int]], pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Token ids of B texts as right-padded (input_ids_BT, attention_mask_BT), int64 on the CPU."""
    lengths_B1 = torch.tensor([len(text_ids) for text_ids in ids]).unsqueeze(1)
    num_tokens = int(lengths_B1.max())
    input_ids_BT = torch.tensor([[*text_ids, *[pad_token_id] * (num_tokens - len(text_ids))] for text_ids in ids])
    return input_ids_BT, (torch.arange(num_tokens).unsqueeze(0) < lengths_B1).long()


def pool(states_BTH: Tensor, attention_mask_BT: Tensor, pooling: Pooling) -> Tensor:
    """One float32 vector per text [B, H] from right-padded token states, unnormalised."""
    # bf16 sums over hundreds of tokens lose digits; a float64 encoder keeps its own.
    states_BTH = states_BTH.to(torch.promote_types(states_BTH.dtype, torch.float32))
    if pooling == "cls":
        return states_BTH[:, 0]
    if pooling == "last":
        last_B = attention_mask_BT.sum(dim=1) - 1
        return states_BTH[torch.arange(len(states_BTH), device=states_BTH.device), last_B]
    mask_BT1 = attention_mask_BT.unsqueeze(-1).to(states_BTH.dtype)
    return (states_BTH * mask_BT1).sum(dim=1) / mask_BT1.sum(dim=1)


def _pads_moved_right(input_ids_BT: Tensor, attention_mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """The same tokens with their pads on the right, where absolute positions count from the first real token."""
    order_BT = attention_mask_BT.argsort(dim=1, descending=True, stable=True)
    return input_ids_BT.gather(1, order_BT), attention_mask_BT.gather(1, order_BT)


def _prepare_tokenizer(tokenizer: Any, spec: EncoderSpec) -> None:
    if not getattr(tokenizer, "is_fast", False):
        raise _refused(spec, "its tokenizer has no tokenizer.json form, which is the only one read")
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "right"
    if tokenizer.eos_token_id is None and (spec.append_eos or tokenizer.pad_token_id is None):
        need = "append_eos is true" if spec.append_eos else "it has no pad token either"
        raise _refused(spec, f"its tokenizer has no end-of-sequence token, and {need}")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if spec.append_eos:
        _append_eos(tokenizer)


def _append_eos(tokenizer: Any) -> None:
    """Let the tokenizer itself append EOS: its truncation then leaves room for it, and saving it keeps it.

    A tokenizer that ends texts already stays as it is, whatever token it uses: Qwen3-Embedding's ends them with
    '<|endoftext|>', which is what it was trained to pool, and names '<|im_end|>' its EOS.
    """
    with_special = tokenizer("a")["input_ids"]
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    start = next(i for i in range(len(with_special)) if with_special[i : i + len(plain)] == plain)
    if with_special[start + len(plain) :]:
        return
    # One template with what the tokenizer adds already: of two in a row the second takes the first's pieces for a pair.
    before, after = with_special[:start], [tokenizer.eos_token_id]
    names = {token_id: tokenizer.convert_ids_to_tokens(token_id) for token_id in [*before, *after]}
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=[*(names[i] for i in before), "$A", *(names[i] for i in after)],
        special_tokens=[(token, token_id) for token_id, token in names.items()],
    )


def _check_lengths(config: Any, tokenizer: Any, spec: EncoderSpec) -> None:
    most = num_positions(config.to_dict())
    num_special = tokenizer.num_special_tokens_to_add()
    prompts = {"query": spec.query_prompt_for(None), "document": spec.document_prompt}
    for side in ("query", "document"):
        key, prompt = f"max_{side}_length", prompts[side]
        length, num_prompt = getattr(spec, key), len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        least = num_special + num_prompt + MIN_TEXT_TOKENS
        if not least <= length <= (most or length):
            at_most = f" to {most}" if most else " or more"
            why = f"{num_special} are special, {num_prompt} the prompt's, and {MIN_TEXT_TOKENS} the least of a text"
            raise _refused(spec, f"{key} is {length}; it must be {least}{at_most} tokens ({why})")


def _refused(spec: EncoderSpec, message: str) -> InputError:
    return InputError([Problem(where=f"family '{spec.family}' ({spec.weights.source})", key="", message=message)])
