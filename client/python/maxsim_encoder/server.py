"""The HTTP server: one thread per connection, and one that runs the model."""

from __future__ import annotations

from maxsim_encoder.connections import Connections, ServerOptions
from maxsim_encoder.handler import Handler
from maxsim_encoder.service import Service


class Server(Connections):
    """Listens from its construction on; `run` answers until `stop`."""

    def __init__(self, options: ServerOptions, service: Service) -> None:
        super().__init__(options, service, Handler)
