"""Whom a desk asks where no engine is to be asked."""

from proxy.tokens.exact import Question


async def nobody(question: Question) -> bytes | None:
    raise AssertionError("nobody is to be asked")
