"""Definitions: what a number measures, as code that can be repeated and in plain English."""

from __future__ import annotations

from typing import Any, Protocol, Self

from .lenses import Lens


class Described(Protocol):
    """A choice that can describe itself: a lens, partition, distance, selection or calibrator."""

    def words(self) -> str: ...


class Definition(str):
    """What a number measures. As text it shows the choices as code, so that the same number can be
    computed again; `words` describes them in plain English.

    parts : pieces of text, choices and other definitions, joined by commas.

    >>> from probaudit.choices.lenses import TopLabel
    >>> from probaudit.choices.partitions import EqualMass
    >>> ece = Definition("calibration error", TopLabel(), EqualMass(15)) + ", debiased"
    >>> print(ece)
    calibration error, TopLabel(), EqualMass(bins=15), debiased
    >>> ece.words()
    'calibration error, most probable class, 15 equal-mass bins, debiased'
    >>> ece.words(pairs=True)
    'calibration error, confidence, 15 equal-mass bins, debiased'
    """

    _words: str
    _pair_words: str

    def __new__(cls, *parts: str | Described) -> Self:
        return cls._of(
            ", ".join(part if isinstance(part, str) else repr(part) for part in parts),
            ", ".join(_words_of(part, pairs=False) for part in parts),
            ", ".join(_words_of(part, pairs=True) for part in parts),
        )

    @classmethod
    def _of(cls, code: str, words: str, pair_words: str) -> Self:
        self = super().__new__(cls, code)
        self._words, self._pair_words = words, pair_words
        return self

    @classmethod
    def of_name(cls, name: str, words: str) -> Self:
        """A choice that definitions call by a name, such as the class of a calibrator."""
        return cls._of(name, words, words)

    def words(self, *, pairs: bool = False) -> str:
        """The definition without code. With `pairs`, for rows that have a stated confidence in
        place of class probabilities."""
        return self._pair_words if pairs else self._words

    def __add__(self, other: str) -> Definition:
        return self._of(
            str(self) + str(other),
            self._words + _words_of(other, pairs=False),
            self._pair_words + _words_of(other, pairs=True),
        )

    def __radd__(self, other: str) -> Definition:
        return self._of(other + str(self), other + self._words, other + self._pair_words)


def _words_of(part: str | Described, *, pairs: bool) -> str:
    if isinstance(part, (Definition, Lens)):
        return part.words(pairs=pairs)
    return part if isinstance(part, str) else part.words()


def in_words(value: Any, *, pairs: bool = False) -> str:
    """A definition in plain English; any other value as text.

    >>> in_words(0.1)
    '0.1'
    """
    return _words_of(value, pairs=pairs) if isinstance(value, str) else str(value)
