"""Numbers as Kubernetes writes them: '2', '500m', '8Gi'."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>m|[kMGTPE]|[KMGTPE]i)?")
_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def bytes_quantity(num_bytes: int) -> str:
    """The size in the largest binary unit that divides it: '8Gi'."""
    unit = next((name for name in ("Ti", "Gi", "Mi", "Ki") if num_bytes % _BINARY[name] == 0), "")
    return f"{num_bytes // _BINARY.get(unit, 1)}{unit}"


def number_of(quantity: str | int | float) -> Decimal | None:
    """What a quantity amounts to; None where it is none."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    unit = match["unit"] or ""
    factor = Decimal(1) / 1000 if unit == "m" else Decimal(_BINARY.get(unit, _DECIMAL.get(unit, 1)))
    return Decimal(match["number"]) * factor
