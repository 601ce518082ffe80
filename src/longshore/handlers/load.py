"""Load a handler file: import it by path and collect its handlers."""

from __future__ import annotations

import hashlib
import linecache
import sys
import traceback
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NoReturn

from longshore.errors import HandlerFileError
from longshore.handlers.class_handler import class_handlers
from longshore.handlers.handler import Handler
from longshore.handlers.worker_class import Worker

_MARK = "__longshore_handlers__"
"""The name, in a loaded module, of the content of its file."""
_VERSION_DIGITS = 12
_importing: ContextVar[Path | None] = ContextVar("longshore_importing", default=None)
file_being_imported = _importing.get
"""Return the handler file that is being imported now, or None."""
_SMALLEST = """
    from longshore import handler

    @handler("page")
    async def page(job, kit):
        return {"length": len(job.payload["url"])}
"""


def load_handlers(path: Path, content: bytes | None = None) -> dict[str, Handler]:
    """Import a handler file and return its handlers by kind: decorated functions, and `Worker` classes with `kinds`.

    The file is run again by each call, as a module with the file's name. Its folder is added to `sys.path`, so that it
    can import other files of the folder. With `content`, that is run instead of the present content of the file. Raises
    `HandlerFileError` with the file and the line if it has a fault.
    """
    module = import_file(path, content)
    handlers: dict[str, Handler] = {}
    without_kinds = []
    for value in list(vars(module).values()):
        if isinstance(value, Handler):
            _add(path, handlers, value)
        elif isinstance(value, type) and issubclass(value, Worker) and value is not Worker:
            if value.kinds is None:
                without_kinds.append(value.__name__)
            for made in class_handlers(value).values():
                _add(path, handlers, made)
    if not handlers:
        if without_kinds:
            raise HandlerFileError(
                f"The class {without_kinds[0]} in {path} does not say which kinds of job it handles. "
                'Add the attribute kinds, such as kinds = ("page",).'
            )
        raise HandlerFileError(f"There are no handlers in {path}. The smallest one:\n{_SMALLEST}")
    identities = {kind: each.identity for kind, each in handlers.items() if each.identity is not None}
    for each in handlers.values():
        each.identities = identities
    return handlers


def loaded_content(path: Path) -> bytes | None:
    """Return the content of the handler file when this process loaded it last; None if it has not."""
    origin = str(path.resolve())
    found = (vars(module).get(_MARK) for module in list(sys.modules.values()) if _file_of(module) == origin)
    return next((content for content in found if content is not None), None)


def handler_version(path: Path) -> str:
    """Return a short fingerprint of the content that this process loaded last; empty if it has loaded none.

    `sha256sum FILE` begins with it.
    """
    content = loaded_content(path)
    return "" if content is None else hashlib.sha256(content).hexdigest()[:_VERSION_DIGITS]


def _file_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)


def _add(path: Path, handlers: dict[str, Handler], new: Handler) -> None:
    old = handlers.setdefault(new.kind, new)
    if old is not new:
        raise HandlerFileError(
            f"The kind '{new.kind}' has two handlers in {path}: {_name(old)} and {_name(new)}. Keep one of them."
        )
    try:
        new.prepare()
    except HandlerFileError as error:
        raise HandlerFileError(f"{path}: {error}") from error


def _name(handler: Handler) -> str:
    return str(getattr(handler, "__qualname__", handler.function))


def import_file(path: Path, content: bytes | None = None) -> ModuleType:
    """Run a Python file as a module with its name. Raises `HandlerFileError` with the line that failed."""
    if content is None:
        content = _read(path)
    path = path.resolve()
    code = _compile(path, content)
    name = _module_name(path)
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None  # noqa: S101 (a file loader always yields one)
    module = module_from_spec(spec)
    vars(module)[_MARK] = content
    _show_lines_of(path, content)
    _make_neighbours_importable(path)
    before = sys.modules.get(name)
    sys.modules[name] = module
    importing = _importing.set(path)
    try:
        exec(code, module.__dict__)  # noqa: S102 (running the user's file is the purpose)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever the file raises is reported with its place)
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        _refuse_import(path, error)
    finally:
        _importing.reset(importing)
    return module


def _read(path: Path) -> bytes:
    if not path.exists():
        raise HandlerFileError(f"There is no handler file {path}. Name a Python file that exists.")
    if path.suffix != ".py" or not path.is_file():
        raise HandlerFileError(f"{path} is not a Python file. A handler file ends in .py.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise HandlerFileError(f"The handler file {path} cannot be read: {error.strerror}.") from error


def _show_lines_of(path: Path, content: bytes) -> None:
    """Let tracebacks show the lines that run, whatever the file contains by then."""
    lines = decode_source(content).splitlines(keepends=True)
    # Without a time of change, the entry is never compared with the file.
    linecache.cache[str(path)] = (len(content), None, lines, str(path))


def _compile(path: Path, content: bytes) -> CodeType:
    # Compiled from the source, not from a cached file, which may be outdated if the source changed within one second.
    try:
        return compile(content, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise HandlerFileError(f"{path}:{error.lineno}: {error.msg}\n    {line}") from error
    except ValueError as error:
        raise HandlerFileError(f"The handler file {path} is not Python source: {error}.") from error


def _refuse_import(path: Path, error: BaseException) -> NoReturn:
    every = traceback.extract_tb(error.__traceback__)
    first = next((number for number, frame in enumerate(every) if Path(frame.filename) == path), len(every))
    # The frames from the handler file on; the ones before are Longshore's own.
    frames = every[first:]
    line = frames[0].lineno if frames else None
    place = f"{path}:{line}" if line else str(path)
    if isinstance(error, HandlerFileError):
        raise HandlerFileError(f"{place}: {error}") from error
    lines = [*traceback.format_list(frames[-3:]), *traceback.format_exception_only(error)]
    shown = "".join(f"    {part}" for text in lines for part in text.splitlines(keepends=True)).rstrip()
    raise HandlerFileError(f"{place}: the handler file cannot be imported.\n{shown}") from error


def _module_name(path: Path) -> str:
    """Return the file's own name, so that pickle finds its objects, unless another module has that name."""
    loaded = sys.modules.get(path.stem)
    taken = loaded is not None and not hasattr(loaded, _MARK)
    return f"longshore_handlers_{path.stem}" if taken or path.stem in sys.stdlib_module_names else path.stem


def _make_neighbours_importable(path: Path) -> None:
    folder = str(path.parent)
    if folder in sys.path:
        return
    # First, as for a script; but last if the file has the name of a standard module, which other code needs.
    sys.path.insert(len(sys.path) if path.stem in sys.stdlib_module_names else 0, folder)
