"""JSON of very many values, told before it is read: reading it would hold up everybody else."""


def crowd(text: bytes, plain: int) -> int:
    """Objects and lists in a JSON text, about, and as one of them so many `plain` values."""
    return text.count(b"{") + text.count(b"[") + text.count(b",") // plain
