"""Calls in the tests fit what they call: those of heavy tests too, which seldom run."""

import ast
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
OURS = ("search_spaces", "results", "trainers", "orchestrator", "tests")
FILES = sorted(TESTS.rglob("*.py"))


def faults(source: str, beside: Iterable[str] = ()) -> list[str]:
    """Each call of a function or class of this project, by the name it is imported as, that its signature refuses.

    `beside` are modules of its folder, which are imported by their bare names.
    """
    tree = ast.parse(source)
    ours = {*OURS, *beside}
    hidden = _bound_otherwise(tree)
    names = {name: value for name, value in _imported(tree, ours).items() if name not in hidden}
    found = []
    for call in _calls(tree):
        target = _target(call.func, names, ours)
        if target is not None and (fault := _fault(call, target)):
            found.append(f"line {call.lineno}: {ast.unparse(call.func)}: {fault}")
    return found


def _imported(tree: ast.AST, ours: Set[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in ours:
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
                found[name.asname or name.name] = getattr(module, name.name)
    return found


def _bound_otherwise(tree: ast.AST) -> set[str]:
    """Names that are bound in the file beside by an import: arguments, variables, definitions."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls but those that are to be refused."""
    if isinstance(tree, ast.With) and any("raises(TypeError" in ast.unparse(item) for item in tree.items):
        return
    if isinstance(tree, ast.Call):
        yield tree
    for child in ast.iter_child_nodes(tree):
        yield from _calls(child)


def _target(function: ast.expr, names: dict[str, object], ours: Set[str]) -> Callable | None:
    """What is called: NAME, MODULE.NAME or CLASS.METHOD, the latter only where it is bound to the class."""
    if isinstance(function, ast.Name):
        target = names.get(function.id)
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = names.get(function.value.id)
        target = getattr(owner, function.attr, None)
        if not inspect.ismodule(owner) and not (inspect.isclass(owner) and inspect.ismethod(target)):
            return None
    else:
        return None
    is_ours = (getattr(target, "__module__", None) or "").partition(".")[0] in ours
    return target if callable(target) and is_ours else None


def _fault(call: ast.Call, target: Callable) -> str | None:
    """Why the signature refuses the call; those with * or ** are held against what they name alone."""
    positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
    named = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    is_whole = len(positional) == len(call.args) and len(named) == len(call.keywords)
    try:
        signature = inspect.signature(target)
        (signature.bind if is_whole else signature.bind_partial)(*positional, **named)
    except ValueError:  # it has no signature, as what is written in C
        return None
    except TypeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TESTS)))
def test_calls_fit_what_they_call(file, monkeypatch):
    monkeypatch.syspath_prepend(str(file.parent))
    assert faults(file.read_text(), {path.stem for path in file.parent.glob("*.py")}) == []


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("Driver(listener=print)", "missing a required argument: 'interrupt'"),
        ("Driver(**known)", None),
        ("Driver(**known, unknown=1)", "got an unexpected keyword argument 'unknown'"),
        ("LocalStore.open()", "missing a required argument: 'root'"),
        ("LocalStore.read('key')", None),
        ("place(work)", "missing a required argument: 'driver'"),
        ("placing.place(work)", "missing a required argument: 'driver'"),
    ],
)
def test_a_call_that_fits_no_more_is_found(call, fault):
    imports = "from orchestrator import placing\nfrom orchestrator.placing import Driver, place\n"
    found = faults(f"{imports}from results.local_store import LocalStore\n{call}\n")
    assert [line.partition(": ")[2].partition(": ")[2] for line in found] == ([fault] if fault else [])
