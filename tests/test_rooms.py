"""The rooms that the app hands to exchanges are what `Rooms` says."""

import inspect
import typing

from proxy.rooms import Rooms
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.script import OK


def test_every_room_can_be_called_as_it_is_said() -> None:
    async def main(loop: VirtualLoop) -> Rooms:
        return House(loop, OK).app._rooms

    rooms = run(main)
    for name, kind in typing.get_type_hints(Rooms).items():
        said, _ = typing.get_args(kind)
        inspect.signature(getattr(rooms, name)).bind(*said)
