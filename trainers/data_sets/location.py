"""The local folder that a data set's source names."""

from pathlib import Path

from search_spaces.catalogue.data_sets import DataSet
from search_spaces.catalogue.sources import parse_source
from search_spaces.problems import InputError, Problem
from trainers.packages import package_folder


def locate(entry: DataSet) -> Path:
    """The folder of a `path:` or `package:` source. A package is found without being imported.

    Raises:
        InputError: there is no such folder, the package is not installed, or the source is of another kind.
    """
    source = parse_source(entry.source)
    if source.scheme == "path":
        folder = Path(source.location)
    elif source.scheme == "package":
        folder = _in_package(entry, source.location)
    else:
        message = f"reader '{entry.reader}' cannot read a '{source.scheme}:' source (write path: or package:)"
        raise _problem(entry, message)
    if not folder.is_dir():
        raise _problem(entry, _no_folder(entry, folder))
    return folder


def _no_folder(entry: DataSet, path: Path) -> str:
    if not path.exists():
        return f"there is no folder {path}"
    of = ", of corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv" if entry.reader == "beir" else ""
    return f"{path} is a file, and reader '{entry.reader}' reads a folder{of} (`reader: jsonl` reads a file of pairs)"


def locate_file_or_folder(entry: DataSet) -> Path:
    """The file or folder of a `path:` source, else as `locate`."""
    source = parse_source(entry.source)
    if source.scheme == "path" and Path(source.location).is_file():
        return Path(source.location)
    return locate(entry)


def stamp(file: Path) -> str:
    """The name, size and time of change of a file, which say whether it is still the one that was read."""
    status = file.stat()
    return f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"


def _in_package(entry: DataSet, location: str) -> Path:
    try:
        return package_folder(location)
    except ValueError as error:
        raise _problem(entry, str(error)) from error


def _problem(entry: DataSet, message: str) -> InputError:
    return InputError([Problem(where=entry.source, key=f"data set '{entry.name}'", message=message)])


def shown_source(entry: DataSet) -> str:
    """The source as messages name it: a local folder as it is, else the source with its scheme."""
    source = parse_source(entry.source)
    return source.location if source.scheme == "path" else entry.source
