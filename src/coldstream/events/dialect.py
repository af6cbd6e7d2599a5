"""Dialects of CSV files: column separator and encoding."""

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from coldstream.errors import InvalidInput, MisreadFile, shown

SEPARATORS = (",", ";", "\t", "|")
_WORDS = {"tab": "\t", "\\t": "\t"}
_BOMS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_LONGEST_HEADER = 1_000_000


class Dialect(NamedTuple):
    """Separator and encoding of CSV files. None means to detect it from the beginning of each file."""

    separator: str | None = None
    encoding: str | None = None

    @classmethod
    def checked(cls, separator: object, encoding: object) -> "Dialect":
        """Return the dialect that a caller asks for. Raise `InvalidInput` if the separator or the encoding is invalid."""
        if separator is not None:
            given = _WORDS.get(separator, separator) if isinstance(separator, str) else separator
            if not isinstance(given, str) or len(given) != 1 or given in '"\r\n':
                raise InvalidInput(f"separator must be one character, or the word tab, got {shown(separator)}")
            separator = given
        if encoding is not None:
            try:
                codecs.lookup(encoding)  # type: ignore[arg-type]  # a value that is no string raises TypeError
            except (LookupError, TypeError):
                raise InvalidInput(
                    f"encoding must be one that Python knows, got {shown(encoding)}; common ones are utf-8, cp1252, utf-16"
                ) from None
        return cls(separator, encoding)  # type: ignore[arg-type]  # both are strings or None here

    def of(self, path: Path) -> tuple[str, str]:
        """Return the separator and the encoding of one file, detecting what is not given."""
        encoding = self.encoding or _encoding_of(path)
        return self.separator or _separator_of(path, encoding), encoding


def require_utf8(path: Path) -> None:
    """Raise `MisreadFile` if a file is not UTF-8, with the row of the first wrong byte and the option to set."""
    with open(path, "rb") as file:
        for row, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                problem = f"{path}, row {row}: not in UTF-8, got the byte 0x{line[error.start]:02x}"
                advice = "say how it is encoded (cp1252 is what Excel writes on Western Windows)"
                raise MisreadFile(problem, advice, "encoding", "cp1252") from None


def unquoted_header(path: Path, encoding: str) -> str:
    """Return the first line of a file, without its quoted parts."""
    with open(path, encoding=encoding, errors="replace", newline="") as file:
        return _QUOTED.sub("", file.readline(_LONGEST_HEADER))


def other_separator(names: list[str], separator: str) -> str | None:
    """Return the separator that occurs most often within column names, probably the right one, or None."""
    found = {other: sum(name.count(other) for name in names) for other in SEPARATORS if other != separator}
    best = max(found, key=lambda other: found[other])
    return best if found[best] else None


def with_decimal_commas(column: list[object]) -> list[object]:
    """Convert a column of strings to numbers if all of them are numbers and any has a decimal comma."""
    texts = [value for value in column if isinstance(value, str) and value]
    if not any("," in text for text in texts) or not all(map(_DECIMAL_COMMA.fullmatch, texts)):
        return column
    return [float(value.replace(",", ".")) if isinstance(value, str) and value else None for value in column]


def _encoding_of(path: Path) -> str:
    with open(path, "rb") as file:
        beginning = file.read(2)
    return _BOMS.get(beginning, "utf-8")


def _separator_of(path: Path, encoding: str) -> str:
    """Return the default separator for the file's extension if the header has it, else the most frequent one."""
    usual, header = "\t" if path.suffix.lower() == ".tsv" else ",", unquoted_header(path, encoding)
    found = {separator: header.count(separator) for separator in SEPARATORS}
    return usual if found[usual] or not any(found.values()) else max(found, key=lambda separator: found[separator])
