"""A model's own `tokenizer.json`, read from disk. The only file that imports `tokenizers` (extra `hf`).

The composition root imports this module only where a configuration names such a file.
"""

from tokenizers import Tokenizer


class LocalTokenizer:
    """A Hugging Face tokenizer as an `Encoder`. Raises what `tokenizers` raises for a file that it cannot read."""

    __slots__ = ("_tokenizer", "n_vocab")

    def __init__(self, path: str) -> None:
        self._tokenizer = Tokenizer.from_file(path)
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self.n_vocab: int = self._tokenizer.get_vocab_size(with_added_tokens=False)

    def encode_ordinary(self, text: str) -> list[int]:
        """Tokens of the text; special tokens are neither added nor recognised, lone surrogates become `?`."""
        readable = text.encode("utf-8", "replace").decode()
        return list(self._tokenizer.encode(readable, add_special_tokens=False).ids)
