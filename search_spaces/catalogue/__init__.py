"""Torch-free declarations of everything a sweep file can name."""
