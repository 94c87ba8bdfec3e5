"""A reader: a language model that continues prompts greedily, in batches of like length. Nothing is sampled.

Shapes: B prompts of a batch, T tokens of the longest of them, G tokens generated.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig, StoppingCriteria

from search_spaces.problems import InputError, Problem
from search_spaces.specs import ReaderSpec
from trainers.encoders.backbones import load_config, load_tokenizer, own_random_state, quiet, readable
from trainers.encoders.encode import batches_by_length
from trainers.evaluation.reader_weights import reader_hash
from trainers.weights import content_hash, locate
from trainers.weights.gguf_conversion import converted_folder

# Prompt tokens of a batch, pads counted. They decide batches, and so the last bits: no setting.
_BATCH_TOKENS = {"cpu": 2048, "cuda": 16_384}
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Of a checkpoint's own generation settings these name tokens; penalties and sampling would not be greedy decoding.
_TOKEN_SETTINGS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


class Reader:
    """A loaded model with its tokenizer: `Tokens` for prompts, and answers to them."""

    def __init__(self, model: Any, tokenizer: Any, *, chat_template: bool = False) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._is_causal = not model.config.is_encoder_decoder
        self._generation = _token_settings(model, tokenizer)
        model.generation_config = GenerationConfig(**self._generation)  # else unset ones come from the checkpoint's

    def ids(self, prompt: str) -> list[int]:
        """The model's input for a prompt, with special tokens, or as a user's message in its form of a conversation."""
        if not self._chat_template:
            return list(self._tokenizer(prompt)["input_ids"])
        message = [{"role": "user", "content": prompt}]
        return list(
            self._tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=True, return_dict=False)
        )

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, without special ones."""
        return [len(ids) for ids in self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    def first(self, text: str, num_tokens: int) -> str:
        """The text up to the end of its first `num_tokens` tokens."""
        if num_tokens == 0:
            return ""
        found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in found["offset_mapping"][:num_tokens]]
        return text[: max(ends, default=0)]

    def answers(self, prompts: Sequence[list[int]], *, max_new_tokens: int) -> list[str]:
        """The first line that the model writes after each prompt, in their order, stripped; '' where it writes none.

        Batches depend on the prompts alone: the same call gives the same answers on equal threads and device.
        """
        found = [""] * len(prompts)
        with torch.inference_mode():
            for index_B in self._batches([len(ids) for ids in prompts]):
                texts = self._continued([prompts[index] for index in index_B], max_new_tokens)
                for index, text in zip(index_B, texts, strict=True):
                    found[index] = _first_line(text)
        return found

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        for index_B in batches_by_length(lengths, _BATCH_TOKENS[self._model.device.type]):
            yield index_B.tolist()

    def _continued(self, prompts: Sequence[list[int]], max_new_tokens: int) -> list[str]:
        input_ids_BT, mask_BT = self._padded(prompts)
        start = input_ids_BT.shape[1] if self._is_causal else 0
        settings = GenerationConfig(**self._generation, do_sample=False, num_beams=1, max_new_tokens=max_new_tokens)
        with quiet():
            output = self._model.generate(
                input_ids=input_ids_BT,
                attention_mask=mask_BT,
                generation_config=settings,
                stopping_criteria=[_AfterFirstLine(self._tokenizer, start)],
            )
        texts: list[str] = self._tokenizer.batch_decode(output[:, start:], skip_special_tokens=True)
        return texts

    def _padded(self, prompts: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask [B, T]; pads stand before a causal model's prompts, which are continued at their end."""
        device, longest = self._model.device, max(map(len, prompts))
        input_ids_BT = torch.full((len(prompts), longest), self._generation["pad_token_id"], dtype=torch.long)
        mask_BT = torch.zeros_like(input_ids_BT)
        for row, ids in enumerate(prompts):
            place = slice(longest - len(ids), None) if self._is_causal else slice(0, len(ids))
            input_ids_BT[row, place] = torch.tensor(ids)
            mask_BT[row, place] = 1
        return input_ids_BT.to(device), mask_BT.to(device)


class _AfterFirstLine(StoppingCriteria):
    """Ends a text where its first line has ended: what comes after is no answer."""

    def __init__(self, tokenizer: Any, start: int) -> None:
        self._tokenizer = tokenizer
        self._start = start

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        texts = self._tokenizer.batch_decode(input_ids[:, self._start :], skip_special_tokens=True)
        return torch.tensor(["\n" in text.lstrip() for text in texts], device=input_ids.device)


class Readers:
    """Readers by their spec, each loaded when it is first asked for, and then held: once per trial."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._loaded: dict[ReaderSpec, Reader] = {}

    def get(self, spec: ReaderSpec) -> Reader:
        """The reader, on the CPU where its spec says so and else on the trial's device. Raises as `load_reader`."""
        if spec not in self._loaded:
            self._loaded[spec] = load_reader(spec, "cpu" if spec.execution.device == "cpu" else self._device)
        return self._loaded[spec]


def load_reader(spec: ReaderSpec, device: str) -> Reader:
    """Load the model that the spec names; a GGUF file is converted on first use.

    Raises:
        InputError: it is not there, cannot be read safely, or cannot be used as a reader.
        ValueError: its content is not what was planned.
    """
    found = reader_hash(spec.weights)
    if found != spec.weights.content_hash:
        message = f"the reader {spec.name} changed: its content hash is {found}, and {spec.weights.content_hash} was"
        raise ValueError(f"{message} planned; run the sweep again")
    folder = _folder(spec)
    tokenizer = load_tokenizer(folder, remote_code=spec.weights.remote_code)
    _check_tokenizer(spec, tokenizer, folder)
    model = _load_model(folder, dtype=_DTYPES[spec.precision], remote_code=spec.weights.remote_code)
    return Reader(model.to(device), tokenizer, chat_template=spec.chat_template)


def _folder(spec: ReaderSpec) -> Path:
    located = locate(spec.weights)
    return converted_folder(located, content_hash(spec.weights), head=True) if located.is_file() else located


def _load_model(folder: Path, *, dtype: torch.dtype, remote_code: bool) -> Any:
    config = load_config(folder, layers=None, remote_code=remote_code)
    loader = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quiet(), own_random_state(0), readable(folder):
        model, info = loader.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=remote_code,
            output_loading_info=True,
        )
    if missing := sorted(info["missing_keys"]):
        raise _unusable(folder, f"its weights lack {len(missing)} that a reader needs, such as {missing[0]}")
    return model


def _check_tokenizer(spec: ReaderSpec, tokenizer: Any, folder: Path) -> None:
    if not tokenizer.is_fast:
        raise _unusable(
            folder, "its tokenizer does not say where a token stands in the text (it has no tokenizer.json)"
        )
    if not spec.chat_template:
        return
    template = tokenizer.chat_template
    if not template:
        raise _unusable(folder, "it has no chat template (write chat_template: false)")
    if "strftime_now" in str(template):
        message = "its chat template writes the day's date into prompts, so that answers change with it"
        raise _unusable(folder, f"{message} (write chat_template: false)")


def _token_settings(model: Any, tokenizer: Any) -> dict[str, Any]:
    own = model.generation_config
    found = {name: getattr(own, name, None) for name in _TOKEN_SETTINGS}
    end = found["eos_token_id"]
    last = end[0] if isinstance(end, list) else end
    pads = (tokenizer.pad_token_id, found["pad_token_id"], last, tokenizer.eos_token_id, 0)
    return {**found, "pad_token_id": next(pad for pad in pads if pad is not None)}


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else ""


def _unusable(folder: Path, message: str) -> InputError:
    return InputError([Problem(where=str(folder), key="", message=message)])
