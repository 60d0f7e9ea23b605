from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.pieces import LOOK, PIECE, RUN, pieces, spans
from proxy.tokens.vocabularies import load

PARTS = st.lists(
    st.one_of(
        st.text(max_size=50),
        st.builds(lambda c, n: c * n, st.characters(), st.integers(1, 3 * RUN)),
        st.builds(lambda w, n: (w + " ") * n, st.text(min_size=1, max_size=8), st.integers(1, 4000)),
        st.builds(lambda n: "QUJDREVGRw" * n, st.integers(1, 4000)),
    ),
    max_size=6,
).map("".join)


@given(PARTS)
def test_pieces_joined_are_the_text_and_none_is_too_long(text: str) -> None:
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= PIECE for piece in cut)


@given(PARTS, st.text(max_size=20))
def test_a_text_that_grows_keeps_its_early_pieces(text: str, more: str) -> None:
    before, after = list(pieces(text)), list(pieces(text + more))
    kept = len("".join(before[:-2]))
    assert "".join(after).startswith(text)
    assert after[: max(0, len(before) - 2)] == before[:-2] or kept == 0


@given(st.characters(), st.integers(0, 5 * RUN), st.text(max_size=3 * RUN))
def test_no_piece_but_a_block_holds_a_run_of_two_blocks(char: str, n: int, before: str) -> None:
    assert all(char * 2 * RUN not in piece for piece in pieces(before + char * n))


def test_a_long_run_is_cut_into_equal_blocks() -> None:
    assert set(pieces(" " * 1_000_000)) == {" " * RUN, " " * (1_000_000 % RUN)}


def test_cuts_at_spaces_cost_no_token() -> None:
    encode = load("cl100k_base").encode_ordinary
    text = " ".join(f"line {n} of file {n * 7}," for n in range(20_000))
    cut = list(pieces(text))
    assert len(cut) > 20
    assert sum(len(encode(piece)) for piece in cut) == len(encode(text))


def test_text_without_spaces_is_cut_when_a_piece_is_full() -> None:
    assert [len(piece) for piece in pieces("QUJD" * PIECE)] == [PIECE] * 4


def test_a_cut_is_made_at_a_single_space_and_never_inside_white_space() -> None:
    cut = list(pieces("a word  \n  or  \t two" * 2_000))
    assert len(cut) > 2
    assert {piece[:2] for piece in cut[1:]} == {" w"}


@given(st.lists(PARTS, max_size=5))
def test_spans_are_the_pieces_in_order_and_none_is_much_work(texts: list[str]) -> None:
    made = list(spans(texts))
    assert [piece for span in made for piece in span] == [piece for text in texts for piece in pieces(text)]
    assert all(span and sum(map(len, span)) <= PIECE for span in made)


def test_a_crowd_of_tiny_texts_makes_spans_of_bounded_length() -> None:
    assert max(map(len, spans(["hi"] * 10_000))) <= PIECE // LOOK
