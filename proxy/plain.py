"""Text that came from outside, made fit to be shown. Names, versions and errors are chosen by clients and engines: a
terminal obeys the control characters in them, a spreadsheet their formulas, and a line feed begins a line that we did
not write. And times, written one way wherever people read them.
"""

import re

ELLIPSIS = "..."

_FORMULA = ("=", "+", "-", "@")
"""First characters at which a spreadsheet calculates (a tab and a carriage return, too, cannot be printed)."""

_MARKUP = re.compile(r"([\\`\[<|])")
"""What begins code, a link, a tag or a cell in Markdown."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|")


def printable(text: str, most: int | None = None) -> str:
    """The text on one line, without what would steer a terminal: control characters, directional marks, line ends.

    What is longer than `most` characters is cut.
    """
    shown = text if text.isprintable() else "".join(char for char in text if char.isprintable())
    return shown if most is None or len(shown) <= most else shown[: most - len(ELLIPSIS)] + ELLIPSIS


def fault(error: Exception) -> str:
    """What an exception says. The system's have a number and the file's name around it: whoever tells of a file has
    named it."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def paragraph(text: str) -> str:
    """The same for text of several lines, which are ours."""
    return text if text.isascii() and text.isprintable() else "\n".join(map(printable, text.split("\n")))


def json_text(json: str) -> str:
    """JSON that means the same and can be looked at: what cannot be printed is written `\\uXXXX`, line feeds stay.

    Only strings of valid JSON hold such characters.
    """
    return json if json.isprintable() else "".join(map(_escaped, json))


def cell(text: str) -> str:
    """Text for a field of CSV: a spreadsheet shows it, and calculates nothing."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def markdown(text: str) -> str:
    """Text for a page of Markdown: it is shown as it is."""
    return _MARKUP.sub(r"\\\1", printable(text))


def seconds(spent: float) -> str:
    """A time in seconds: to a hundredth, and below a tenth to a thousandth."""
    return f"{spent:.2f}" if spent >= 0.1 else f"{spent:.3f}"


def without_user(url: str) -> str:
    """An address without the name and the password that it may hold, however odd it is."""
    scheme = _SCHEME.match(url)
    return f"{scheme[0] if scheme else ''}{url.rpartition('@')[2]}" if "@" in url else url


def _escaped(char: str) -> str:
    if char.isprintable() or char == "\n":
        return char
    code = ord(char)
    if code > 0xFFFF:  # as a pair of surrogates (RFC 8259 7)
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
