"""Encoders: backbones with tokenizer and pooling, how they run fast, and the folders they are saved in."""
