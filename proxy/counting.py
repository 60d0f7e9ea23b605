"""The desks of all engines: vocabularies loaded once, meters that all share, one thread for long prompts."""

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proxy.config import Tokens
from proxy.flaws import ConfigError, Flaw
from proxy.names import as_it_is
from proxy.records import RequestFacts, TokenCount, Usage
from proxy.tokens.cache import Cache
from proxy.tokens.desk import Ask, Desk, Spell, always, never, unheard
from proxy.tokens.meter import Meter, off_loop
from proxy.tokens.pieces import pieces
from proxy.tokens.shapes import Encoder
from proxy.tokens.vocabularies import VOCABULARIES, load
from proxy.wire import ids

CACHE_BYTES = 32 * 1024 * 1024
"""For the shapes of texts seen before: some 26,000 pieces, the histories of thousands of conversations."""


class NoDesk:
    """The desk of an engine whose prompts are not counted."""

    def serves(self, kind: str) -> None:
        """It makes no difference."""

    async def count(self, facts: RequestFacts, body: bytes = b"", spell: Spell = unheard) -> TokenCount | None:
        """Nothing is counted."""
        return None

    def learn(self, facts: RequestFacts, count: TokenCount | None, usage: Usage | None) -> None:
        """Nothing is learnt."""

    def snapshot(self) -> dict[str, Any]:
        """Nothing is known."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, kept: object) -> int:
        """Nothing is taken up, and nothing is odd."""
        return 0


class Desks:
    """Makes each engine's desk. Raises ConfigError for a vocabulary that cannot be read."""

    def __init__(self, settings: Tokens, *, spells: bool = False) -> None:
        """`spells`: engines that can are asked for a prompt's token ids, whether or not they are asked to count."""
        self._settings = settings
        self._asks = always if settings.ask_engine else ids.asks if spells else never
        # One thread: counting takes one core at most, and long prompts take turns.
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="phasegate-count")
        self._run = off_loop(self.executor)
        self._default_encoder = self._encoder(settings.vocabulary)
        self._default = self._meter(settings.vocabulary)
        self._meters = self._of_models(settings.models)

    def desk(self, ask: Ask, known: Callable[[str], str] = as_it_is) -> Desk | NoDesk:
        """A desk for one engine; `known` says which model a client means by a name."""
        if not self._settings.count:
            return NoDesk()
        return Desk(self._default, self._meters, ask, self._asks, known)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text by the default vocabulary, whatever the text is."""
        return [token for piece in pieces(text) for token in self._default_encoder.encode_ordinary(piece)]

    def _of_models(self, models: Mapping[str, str]) -> dict[str, Meter]:
        """A meter for each model. Raises ConfigError, which tells all vocabularies that cannot be read."""
        meters: dict[str, Meter] = {}
        flaws: list[Flaw] = []
        for model, name in models.items():
            try:
                meters[model] = self._meter(name)
            except ConfigError as error:
                flaws += error.flaws
        if flaws:
            raise ConfigError(*flaws)
        return meters

    def _meter(self, name: str) -> Meter:
        return Meter(name, self._encoder(name), Cache(CACHE_BYTES), self._run)

    def _encoder(self, name: str) -> Encoder:
        if name in VOCABULARIES:
            return load(name)
        try:
            encoder: Encoder = importlib.import_module("proxy.tokens.hf").LocalTokenizer(name)
        except ImportError:
            needs = f"{name} needs the extra `hf` (pip install 'phasegate[hf]')"
            raise ConfigError(Flaw("tokens.models", needs)) from None
        except Exception as error:  # `tokenizers` has no class of its own for a file that it cannot read
            raise ConfigError(Flaw("tokens.models", f"cannot read {name}: {error}")) from None
        return encoder
