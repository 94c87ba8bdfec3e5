"""The sweep file as a package that a cluster unpacks into the working directory of the job."""

import hashlib
import io
import zipfile

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same file gives the same package


def packed(name: str, content: bytes) -> tuple[str, bytes]:
    """Name and bytes of the package with this one file in it. The name is of its content: it is sent once."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        entry = zipfile.ZipInfo(name, _LONG_AGO)
        entry.external_attr = 0o644 << 16
        package.writestr(entry, content)
    made = buffer.getvalue()
    return f"_ray_pkg_{hashlib.sha256(made).hexdigest()[:32]}.zip", made
