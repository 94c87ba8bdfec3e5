"""Porter's stemmer of English (Program 14, 1980), as Lucene has it: what published BM25 figures were indexed with."""

from functools import lru_cache

_STEP_2 = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al"},
    **{"entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al"},
    **{"iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble"},
    **{"logi": "log"},
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate"),
    *("iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=1 << 20)
def stem(word: str) -> str:
    """The stem of a word in lower case; one of two letters or fewer stays."""
    if len(word) < 3:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(_replaced(word, _STEP_2), _STEP_3)
    return _ending(_without_suffix(word))


def _pattern(text: str) -> str:
    """Consonants as c, vowels as v; y is a vowel after a consonant."""
    found = ""
    for letter in text:
        is_vowel = letter in "aeiou" or (letter == "y" and found[-1:] == "c")
        found += "v" if is_vowel else "c"
    return found


def _measure(text: str) -> int:
    """How many times a consonant follows a vowel: Porter's m."""
    return _pattern(text).count("vc")


def _has_vowel(text: str) -> bool:
    return "v" in _pattern(text)


def _ends_double(text: str) -> bool:
    return len(text) > 1 and text[-1] == text[-2] and _pattern(text)[-1] == "c"


def _ends_cvc(text: str) -> bool:
    return _pattern(text)[-3:] == "cvc" and text[-1] not in "wxy"


def _plural(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            return _repaired(word[: -len(suffix)]) if _has_vowel(word[: -len(suffix)]) else word
    return word


def _repaired(root: str) -> str:
    """A root whose suffix took something of it along."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _ends_double(root) and root[-1] not in "lsz":
        return root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_cvc(root) else root


def _replaced(word: str, endings: dict[str, str]) -> str:
    """The longest ending that the word has decides, whether it is replaced or not."""
    for suffix in sorted(endings, key=len, reverse=True):
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + endings[suffix] if _measure(root) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    for suffix in sorted(_STEP_4, key=len, reverse=True):
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            fits = _measure(root) > 1 and (suffix != "ion" or root[-1:] in ("s", "t"))
            return root if fits else word
    return word


def _ending(word: str) -> str:
    if word.endswith("e"):
        root, measure = word[:-1], _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_cvc(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
