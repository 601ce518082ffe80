"""The static files: scripts and styles, ours and others', each under an address that changes with its content."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from litestar import Controller, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from longshore.server.api.request import ApiCall
from longshore.server.auth.guard import OPEN

FOLDER = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


class Asset:
    """One static file, in memory, also compressed."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.content = path.read_bytes()
        self.compressed = gzip.compress(self.content, 9, mtime=0)
        self.type = _TYPES[path.suffix]
        self.address = f"/static/{hashlib.sha256(self.content).hexdigest()[:12]}/{path.name}"


class Assets:
    """All static files."""

    def __init__(self) -> None:
        found = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in _TYPES]
        self._by_name = {path.name: Asset(path) for path in found}

    def address(self, name: str) -> str:
        """Return the address of a file."""
        return self._by_name[name].address

    def find(self, address: str) -> Asset | None:
        """Return the file with this address, of this version."""
        found = self._by_name.get(address.rpartition("/")[2])
        return found if found is not None and found.address == address else None


ASSETS = Assets()


class AssetRoutes(Controller):
    """The route of static files. They hold nothing secret, and the login page needs them."""

    path = "/static"
    opt = {OPEN: True}  # noqa: RUF012 (Litestar declares it so)
    include_in_schema = False

    @get("/{version:str}/{name:str}")
    async def asset(self, request: ApiCall, version: FromPath[str], name: FromPath[str]) -> Response[bytes]:
        """Return a static file, which browsers may keep for ever."""
        found = ASSETS.find(f"/static/{version}/{name}")
        if found is None:
            raise NotFoundException
        headers = {"Cache-Control": _FOREVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return Response(found.compressed, media_type=found.type, headers=headers | {"Content-Encoding": "gzip"})
        return Response(found.content, media_type=found.type, headers=headers)
