"""A Tor for each worker: started, watched and ended with it; sessions that a site cannot tell are one visitor."""

from longshore.scrape.tor.control import Bootstrap, TorError
from longshore.scrape.tor.identity import Endpoint, SyncTor
from longshore.scrape.tor.process import Tor, TorMissingError, find_tor

__all__ = ["Bootstrap", "Endpoint", "SyncTor", "Tor", "TorError", "TorMissingError", "find_tor"]
