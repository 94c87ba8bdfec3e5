"""Models that were published with pickled weights alone: they are converted by the user, once, and never here.

Reading a pickle can run any code that its author put there, so it is for the user to say whom to trust.
"""

from pathlib import Path

from search_spaces.catalogue.sources import Source
from trainers.cache import cache_folder


def converted_copy(source: Source) -> Path:
    """The folder where a copy in safetensors of a hub's revision is looked for; it may not exist."""
    name = f"{source.location.replace('/', '--')}@{source.revision}"
    return cache_folder() / "safetensors" / name


def conversion_command(source: Source) -> str:
    """What to run, where the weights are trusted, to have them in safetensors; one line."""
    if source.scheme == "hf":
        at = f"'{source.location}', revision='{source.revision}'"
        target, then = converted_copy(source), "it is found there"
    else:
        at, target = f"'{source.location}'", Path(f"{source.location}-safetensors")
        then = "name that folder as the source"
    code = (
        "from transformers import AutoModel as M, AutoTokenizer as T; "
        f"[c.from_pretrained({at}).save_pretrained('{target}') for c in (M, T)]"
    )
    return f'where you trust them, convert them with `python -c "{code}"`: {then}'
