"""What stands where an engine was looked for, and why it cannot be asked: one sentence that says what to do."""

from proxy.engine import Engine
from proxy.errors import ProxyError
from proxy.lookout import PROBE_S

OURS = b"phasegate"
"""How the root of an admin listener begins."""
LOCKED = (401, 403)
"""How an engine answers who has no key."""


async def silence(engine: Engine) -> str:
    """Of an engine that does not answer."""
    try:
        status, _, _ = await engine.relay.fetch(engine.url, "/", PROBE_S)
        why = f"status {status}"
    except ProxyError as error:
        why = str(error)
    url = engine.upstream.url
    return f"no engine answers at {url}: {why}; give the address at which it listens, as http://HOST:PORT"


async def modelless(engine: Engine) -> str:
    """Of something that answers, and lists no model."""
    url = engine.upstream.url
    root, listed = [await engine.fetch(target, PROBE_S) for target in ("/", "/v1/models")]
    if root is not None and root[2].startswith(OURS):
        return f"{url} is the admin listener of a phasegate; give the address of the engine"
    if listed is not None and listed[0] in LOCKED:
        return f"the engine at {url} wants a key (status {listed[0]}); give it as --api-key"
    return f"what answers at {url} lists no model; if it is an engine, name one with --model"
