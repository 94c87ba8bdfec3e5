"""What a checkpoint folder holds: where it lies, and name, size and SHA-256 of each of its files."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from results.layout import checkpoint_prefix, manifest_key
from results.store import Store


def checkpoint_manifest(store: Store, trial: Mapping[str, Any]) -> bytes | None:
    """The manifest of a trial's checkpoint, as JSON; None where it has none in the folder (an untrained one).

    `trial` is its row of the schema TRIALS. Files are read once: what was found lies in the sweep folder, until the
    trial has another checkpoint. The URI is that of the folder as it is opened now.
    """
    if trial["kind"] != "train":
        return None
    key, prefix = manifest_key(trial["trial_id"]), checkpoint_prefix(trial["trial_id"])
    known = json.loads(store.read(key)) if store.exists(key) else {}
    if known.get("checkpoint_hash") != trial["checkpoint_hash"]:
        files = _files(store, prefix)
        if not files:
            return None
        known = {"checkpoint_hash": trial["checkpoint_hash"], "files": files}
        store.write(key, _as_json(known))
    size = sum(file["size_bytes"] for file in known["files"])
    return _as_json({**known, "uri": f"{store.uri}/{prefix}", "size_bytes": size})


def _files(store: Store, prefix: str) -> list[dict[str, Any]]:
    """Name, size and hash of each file, read in pieces: weights are larger than memory may be."""
    try:
        with store.get_folder(prefix) as folder:
            found = []
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                name = path.relative_to(folder).as_posix()
                found.append({"path": name, "size_bytes": path.stat().st_size, "sha256": digest})
            return found
    except KeyError:
        return []


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
