import pytest

from proxy.crowds import crowd


@pytest.mark.parametrize(
    ("text", "found"), [(b"", 0), (b'{"a": [{}, 1]}', 3), (b"[1, 2, 3, 4]", 1), (b"[1, 2, 3, 4, 5]", 2)]
)
def test_objects_lists_and_every_fourth_plain_value_count(text: bytes, found: int) -> None:
    assert crowd(text, 4) == found
