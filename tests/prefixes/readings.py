"""Requests as caches know them, under a root of their own; a token is a letter."""

from proxy.prefixes.canon import render
from proxy.prefixes.ledger import Sight
from proxy.prefixes.reading import Reading
from proxy.records import PrefixVerdict, Prompt
from tests.prefixes.prompts import chat


def letters(text):
    return [ord(letter) for letter in text]


def reading(texts, text):
    segments = render(chat(("user", text)))
    chain = texts.chains(16).chain(1, segments)
    nothing = Sight(chain.tokens, 0, 0, 0, 0, 0)
    return Reading("1", "m", 1, chat(("user", text)), segments, (chain,), nothing, PrefixVerdict(16, chain.tokens))


def ids(texts, *tokens):
    prompt, chain = Prompt(ids=(tokens,)), texts.chains(16).of_ids(1, tokens)
    return Reading("1", "m", 1, prompt, (), (chain,), Sight(len(tokens), 0, 0, 0, 0, 0), PrefixVerdict(16, len(tokens)))
