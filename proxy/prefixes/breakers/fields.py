"""Values that stand in a row: the lines of a record, or the fields of one line, as JSON and its like write them."""

import re
from collections.abc import Sequence

from proxy.prefixes.breakers.documents import agreement
from proxy.prefixes.breakers.writing import begins_value, ends_value

_NEXT = re.compile(r"""\n|[|;]|["']?,\s*(?=["'])|["']?\s(?=[\w.-]{1,32}=)""")
"""What parts two fields: a line's end, a bar, a semicolon; a comma before a quoted key; a blank before `key=`."""


def fields(texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Columns of the fields that all texts have, each from the first text to the last."""
    rows = ([field.strip() for field in _NEXT.split(text.strip())] for text in texts)
    return list(zip(*rows, strict=False))


def shared_ends(texts: Sequence[str]) -> tuple[int, int]:
    """Characters of whole words that all texts begin, and end, with: they are no part of the value."""
    one, other = min(texts, default=""), max(texts, default="")
    if one == other:
        return 0, 0
    begin = next((at for at in range(agreement(one, other), 0, -1) if begins_value(one, at)), 0)
    turned = [text[begin:][::-1] for text in texts]
    end = agreement(min(turned), max(turned))
    return begin, next((last for last in range(end, 0, -1) if ends_value(one, len(one) - last)), 0)
