"""Folders of weights as tests of them name and damage them."""

from search_spaces.specs import WeightsSpec


def local(folder):
    return WeightsSpec(source=f"path:{folder}")


def cut(file):
    file.write_bytes(file.read_bytes()[:-100])
