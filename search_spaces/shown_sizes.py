"""Numbers of bytes for people to read; `search_spaces.blocks` reads those that people write."""


def shown_size(num_bytes: float) -> str:
    """A number of bytes for people: '3.4 GiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"
