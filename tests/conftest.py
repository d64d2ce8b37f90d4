"""What holds in every test: no network, and the same examples every time in continuous runs."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest
from hypothesis import settings

# Before anything imports the libraries that read these.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see trieline.cli.main

# No deadline: a busy machine is slow now and then, and that is nobody's bug.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for the network fails, wherever it runs."""
    connect = socket.socket.connect

    def only_here(self: socket.socket, address: Any) -> None:
        at_home = self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost")
        if not at_home:
            raise AssertionError(f"a test tried to reach {address}: tests need no network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)
