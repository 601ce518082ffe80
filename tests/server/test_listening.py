"""The socket of the server process."""

from __future__ import annotations

import socket

from longshore.server.process import Listening, listen


def test_no_part_of_an_answer_waits_for_an_acknowledgement() -> None:
    with (
        listen(Listening(port=0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
