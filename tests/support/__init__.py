"""Small second implementations that tests share: typed, deterministic, no mock library.

`clock`    ManualClock, and VirtualLoop: an asyncio loop whose time jumps when nothing is left to do
`http1`    HTTP/1.1 messages cut out of a byte stream, for the two sides of a socket
`script`   what a scripted engine does: status, headers, timed reads, an ending
`engine`   the script played as an httpx transport in virtual time, or on a socket in real time
`client`   a scripted client: drives an ASGI app directly, or speaks raw bytes over a socket
`cancel`   an exchange run again and again, struck at the first, second, third ... await

On the same instant the order is: the engine's bytes, then a limit that fires, then a client that sends or leaves.
"""
