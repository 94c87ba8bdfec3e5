"""Tiny real readers, saved as a hub would hold them: random T5 and Llama models with a byte-level tokenizer."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}<s>assistant:"
TEXTS = ["Where is the printer? It is on floor 3.", "What did the malware do, and when, and why did nobody stop it?"]


def save_t5(folder):
    """An encoder with a decoder."""
    torch.manual_seed(4)
    tokenizer = _tokenizer(starts=False)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=3.0,
    )
    return _save(folder, T5ForConditionalGeneration(config), tokenizer)


def save_llama(folder):
    """A causal model with a chat template and 128 positions."""
    torch.manual_seed(5)
    tokenizer = _tokenizer(starts=True)
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.3,
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    return _save(folder, LlamaForCausalLM(config), tokenizer)


def _tokenizer(*, starts):
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<pad>", "</s>", "<s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    backend.train_from_iterator(TEXTS, trainer)
    form = "<s> $A" if starts else "$A </s>"
    backend.post_processor = processors.TemplateProcessing(single=form, special_tokens=[("</s>", 1), ("<s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", bos_token="<s>")


def _save(folder, model, tokenizer):
    # What a checkpoint says of sampling must not reach greedy decoding.
    model.generation_config.do_sample = True
    model.generation_config.temperature = 5.0
    model.generation_config.repetition_penalty = 3.0
    model.generation_config.no_repeat_ngram_size = 1
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
