"""Text as LaTeX sets it: what is special escaped, letters beyond ASCII by commands that every engine knows."""

import re
import unicodedata
from collections.abc import Mapping

ESCAPES: Mapping[str, str] = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "_": r"\_",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # In the default font encoding these are other signs.
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\textasciigrave{}",
    # After the end of a row, '[' and '*' would be read as its options.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}
_LETTERS: Mapping[str, str] = {
    **{"ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}"},
    **{"ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}"},
    **{"–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}", "\u00a0": "~"},
    **{"§": r"\S{}", "†": r"\dag{}", "‡": r"\ddag{}", "£": r"\pounds{}"},
}
_SIGNS: Mapping[str, str] = {  # set in mathematics
    **{"×": r"\times", "±": r"\pm", "−": "-", "·": r"\cdot", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx"},
    **{
        "→": r"\rightarrow",
        "←": r"\leftarrow",
        "∞": r"\infty",
        "°": r"^{\circ}",
        "²": "^{2}",
        "³": "^{3}",
        "µ": r"\mu",
    },
    **{"∈": r"\in", "∑": r"\sum", "√": r"\surd", "÷": r"\div", "¬": r"\neg", "∂": r"\partial", "∇": r"\nabla"},
}
_ACCENTS: Mapping[str, str] = {  # combining marks, as commands that take their letter
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0307": ".", "\u0308": '"'},
    **{"\u0306": "u", "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c", "\u0323": "d", "\u0331": "b"},
}
_GREEK = re.compile(r"GREEK (SMALL|CAPITAL) LETTER (FINAL )?([A-Z]+)")
# Of the Greek letters these have no command of their own: they look like Latin ones.
_LIKE_LATIN: Mapping[str, str] = {
    **{"Alpha": "A", "Beta": "B", "Epsilon": "E", "Zeta": "Z", "Eta": "H", "Iota": "I", "Kappa": "K", "Mu": "M"},
    **{"Nu": "N", "Omicron": "O", "Rho": "P", "Tau": "T", "Chi": "X", "omicron": "o"},
}
_OTHER_NAMES: Mapping[str, str] = {"lamda": "lambda", "Lamda": "Lambda"}  # Unicode spells it so
_TWO_HYPHENS = re.compile(r"-(?=-)")  # they would become one long dash
# What the CJK package has of East Asian fonts, by the character set that they cover: the first that has all of a word.
CJK_FONTS: Mapping[str, str] = {"gb2312": "gbsn", "euc_jp": "min", "big5": "bsmi", "euc_kr": "mj"}
_EAST_ASIAN = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uffef]+")


def escape(text: str) -> str:
    """Text that LaTeX sets as itself, on one line; characters that no font has as their number, [U+1F600]."""
    line = unicodedata.normalize("NFC", " ".join(text.split()))
    line = "".join(character for character in line if unicodedata.category(character) not in ("Cc", "Cf"))
    parts = _EAST_ASIAN.split(line)
    words = [_east_asian(word) for word in _EAST_ASIAN.findall(line)]
    plain = [_plain(part) for part in parts]
    return "".join(part + word for part, word in zip(plain, [*words, ""], strict=True))


def has_cjk(latex: str) -> bool:
    """Whether text that was escaped needs the CJK package."""
    return r"\cjktext{" in latex


def _plain(text: str) -> str:
    hyphens = _TWO_HYPHENS.sub("\0", text)
    return "".join("-{}" if character == "\0" else _character(character) for character in hyphens)


def _character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isascii():
        return character
    if character in _LETTERS:
        return _LETTERS[character]
    if character in _SIGNS:
        return f"${_SIGNS[character]}$"
    return _greek(character) or _accented(character) or _number(character)


def _greek(character: str) -> str | None:
    found = _GREEK.fullmatch(unicodedata.name(character, ""))
    if found is None:
        return None
    size, final, name = found.groups()
    name = name.lower() if size == "SMALL" else name.capitalize()
    name = _OTHER_NAMES.get(name, name)
    if name in _LIKE_LATIN:
        return rf"$\mathrm{{{_LIKE_LATIN[name]}}}$" if size == "CAPITAL" else f"${_LIKE_LATIN[name]}$"
    return rf"$\{'var' if final else ''}{name}$"


def _accented(character: str) -> str | None:
    """A letter with its accents, each a command around it; None where one of them has none."""
    decomposed = unicodedata.normalize("NFD", character)
    letter, marks = decomposed[0], list(decomposed[1:])
    if marks == ["\u0301"] and (greek := _greek(letter)):
        return rf"$\acute{{{greek.strip('$')}}}$"
    if not (letter.isascii() and letter.isalpha() and marks and all(mark in _ACCENTS for mark in marks)):
        return None
    latex = letter
    for mark in marks:
        latex = rf"\{_ACCENTS[mark]}{{{latex}}}"
    return latex


def _east_asian(word: str) -> str:
    for encoding, font in CJK_FONTS.items():
        try:
            word.encode(encoding)
        except UnicodeEncodeError:
            continue
        return rf"\cjktext{{{font}}}{{{word}}}"
    return "".join(_number(character) for character in word)


def _number(character: str) -> str:
    return f"{{[}}U+{ord(character):04X}{{]}}"
