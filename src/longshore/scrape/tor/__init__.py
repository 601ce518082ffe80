"""A Tor process for each worker, started and ended with it, whose sessions a site cannot link to one visitor."""

from longshore.scrape.tor.control import Bootstrap, TorError
from longshore.scrape.tor.identity import Endpoint
from longshore.scrape.tor.process import Tor, TorMissingError, find_tor

__all__ = ["Bootstrap", "Endpoint", "Tor", "TorError", "TorMissingError", "find_tor"]
