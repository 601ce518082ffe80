"""The OpenAPI document of the API, made from the routes and their types.

    python -m longshore.server.openapi > docs/openapi.json

The schemas are those of msgspec, which decodes requests and encodes answers by the same types, so that the document is
true. Paths and parameters come from the framework.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, Router
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.response import Stream
from litestar.routes import HTTPRoute

from longshore.errors import UsageError
from longshore.media.http.wire import JSON, PROBLEM, Problem
from longshore.server.auth.guard import OPEN, SCOPE
from longshore.server.auth.keys import Scope

PATH = "/api/v1/schema"
MEDIA_TYPE = "media_type"
"""The option of a route whose answer is not JSON."""
_ANY_SCOPE = {SCOPE: tuple(Scope)}
_REFERENCE = "#/components/schemas/{name}"
_PROBLEMS = {
    400: "The request cannot be read, or is for another host",
    401: "No valid key was sent",
    403: "The key does not allow this, or a page of another origin sent the request",
    404: "There is no such thing for this key",
    409: "The lease is lost, the job is in another state, or the same request is in flight",
    413: "The body is too large",
    415: "The body is not application/json",
    422: "The request is not valid; `errors` has every fault that was found",
    429: "Too many wrong keys came from this address",
    500: "The server failed; its log has the cause",
    503: "The queue does not answer now",
    507: "The disk under the queue is full",
}
_OF_BODIES = frozenset({413, 415})
_ABOUT = """Jobs, and the workers that do them. Bodies are JSON, durations are seconds, instants are seconds since 1970.
Requests have no fields but those listed; answers may gain fields, so ignore those that you do not know."""


def config() -> OpenAPIConfig:
    """Return the configuration of the framework: the document needs a key of any scope."""
    router = Router(PATH, route_handlers=[], include_in_schema=False, opt=_ANY_SCOPE)
    return OpenAPIConfig(title="Longshore", version="1", path=PATH, render_plugins=[_Document()], openapi_router=router)


class _Document(JsonRenderPlugin):
    """Serves the document."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        del openapi_schema
        return encoded(request.app)


@lru_cache(maxsize=8)
def encoded(app: Litestar) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.format(msgspec.json.encode(document(app)), indent=2) + b"\n"


@lru_cache(maxsize=8)
def _query_names(app: Litestar) -> dict[tuple[str, str], frozenset[str]]:
    """Return the names of the query parameters of each operation."""
    return {
        (path, method.upper()): frozenset(
            each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"
        )
        for path, operations in app.openapi_schema.to_schema()["paths"].items()
        for method, operation in operations.items()
    }


async def refuse_unknown_parameters(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Raise `UsageError` for a query parameter that the route does not have: a filter that is misspelt selects all.

    It is async although it waits for nothing: the framework would call a plain function in a thread, each time.
    """
    del handler
    if not connection.scope["query_string"]:
        return
    operation = (connection.scope["path_template"], str(connection.scope.get("method", "")))
    names = _query_names(connection.app).get(operation)
    if names is not None and (unknown := sorted(connection.query_params.keys() - names)):
        has = f"It has: {', '.join(sorted(names))}." if names else "It has none."
        raise UsageError(f"This route has no parameter {ascii(unknown[0])[:60]}. {has}")


def document(app: Litestar) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    handlers = list(_handlers(app))
    types = {Problem, *(each for _, _, handler in handlers for each in _types(handler))}
    ordered = sorted(types, key=str)
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    by_type = dict(zip(ordered, schemas, strict=True))
    made = app.openapi_schema.to_schema()["paths"]
    paths: dict[str, Any] = {}
    for path, method, handler in handlers:
        known = made[path][method.lower()]
        paths.setdefault(path, {})[method.lower()] = _operation(handler, method, known, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Longshore", "version": "1", "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": {path: dict(sorted(operations.items())) for path, operations in sorted(paths.items())},
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of this server."}},
            "responses": {
                str(status): {"description": description, "content": {PROBLEM: {"schema": by_type[Problem]}}}
                for status, description in _PROBLEMS.items()
            },
            "schemas": _without_unique(dict(sorted(components.items()))),
        },
    }


def _handlers(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path.startswith("/api"):
            for handler in route.route_handlers:
                if handler.resolve_include_in_schema():
                    for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                        yield route.path_format, method, handler


def _types(handler: HTTPRouteHandler) -> list[Any]:
    """Return the types of the body and the answers of a route."""
    body, answer = _body(handler), _answer(handler)
    others = [spec.data_container for spec in (handler.responses or {}).values() if spec.data_container is not None]
    return [each for each in (body, answer, *others) if each is not None]


def _body(handler: HTTPRouteHandler) -> Any:
    field = handler.parsed_data_field
    return None if field is None else field.annotation


def _answer(handler: HTTPRouteHandler) -> Any:
    """Return the type of the JSON that a route answers with; None if the answer is something else."""
    returned = handler.parsed_fn_signature.return_type
    if returned.is_subclass_of(Stream):
        return None
    if returned.is_subclass_of(Response):
        (inner,) = returned.inner_types
        return None if inner.annotation in {bytes, None, type(None)} else inner.annotation
    return returned.annotation


def _operation(handler: HTTPRouteHandler, method: str, known: dict[str, Any], by_type: dict[Any, Any]) -> Any:
    first, _, rest = (inspect.getdoc(handler.fn) or "").partition("\n")
    scopes = [] if handler.opt.get(OPEN) else [str(scope) for scope in handler.opt.get(SCOPE, (Scope.ADMIN,))]
    needs = f"Needs a key with the scope {_either([*scopes, 'admin'])}." if scopes else "Needs no key."
    operation: dict[str, Any] = {
        "tags": known.get("tags", []),
        "summary": first.strip(),
        "description": "\n\n".join(part for part in (rest.strip(), needs) if part),
        "operationId": _operation_id(handler),
        "security": [{"key": scopes}] if scopes else [],
        "parameters": [_parameter(each) for each in known.get("parameters", ())],
        "responses": _responses(handler, known, by_type),
    }
    if method != "GET":
        operation["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "Sent again with the same key, the request gets the first answer again.",
                "required": False,
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        )
        if (body := _body(handler)) is not None:
            operation["requestBody"] = {"content": {JSON: {"schema": by_type[body]}}, "required": True}
        else:
            # A page of another site could send any other content type unasked, so it must be JSON.
            operation["requestBody"] = {"content": {JSON: {"schema": {}}}, "description": "Not read: send {}."}
    return operation


def _responses(handler: HTTPRouteHandler, known: dict[str, Any], by_type: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in _PROBLEMS
        if status not in _OF_BODIES or handler.http_methods != {"GET"}
    }
    for status, spec in (handler.responses or {}).items():
        content: dict[str, Any] = {PROBLEM: {"schema": by_type[Problem]}} if status in _PROBLEMS else {}
        if spec.data_container is not None:
            content[JSON] = {"schema": by_type[spec.data_container]}
        about = {"description": known["responses"][str(status)]["description"]}
        responses[str(status)] = {**about, "content": content} if content else about
    if (answer := _answer(handler)) is not None:
        content = {JSON: {"schema": by_type[answer]}}
    else:
        content = {str(handler.opt.get(MEDIA_TYPE, "*/*")): {}}
    responses[str(handler.status_code)] = {"description": "Done", "content": content}
    return dict(sorted(responses.items()))


def _parameter(known: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": known["name"],
        "in": known["in"],
        "required": known["in"] == "path" or known.get("required", False),
        "schema": _given(known["schema"]),
    }


def _without_unique(schema: Any) -> Any:
    """Return a schema without `uniqueItems`: a value that is given twice counts once, and is not refused."""
    if isinstance(schema, dict):
        return {name: _without_unique(value) for name, value in schema.items() if name != "uniqueItems"}
    return [_without_unique(each) for each in schema] if isinstance(schema, list) else schema


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null: who means null leaves the parameter out."""
    choices = [each for each in schema.get("oneOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {**choices[0], **{name: value for name, value in schema.items() if name != "oneOf"}}


def _operation_id(handler: HTTPRouteHandler) -> str:
    owner, _, name = handler.fn.__qualname__.rpartition(".")
    resource = re.sub(r"(?<!^)(?=[A-Z])", "_", owner.removesuffix("Routes")).lower()
    return f"{resource}_{name}"


def _either(names: list[str]) -> str:
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} or {last}" if others else last


def example_application() -> Litestar:
    """Return the application on an empty queue, to read its routes."""
    from longshore.clock import SystemClock
    from longshore.media.memory import MemoryQueue
    from longshore.server.app import application
    from longshore.server.auth.keys import KeyStore
    from longshore.server.served import Served

    with tempfile.TemporaryDirectory() as folder:
        keys = KeyStore(Path(folder) / "keys.json")
        keys.add("example", [Scope.ADMIN], 0.0)
        return application(Served.of(MemoryQueue(), keys, SystemClock()))


if __name__ == "__main__":
    sys.stdout.buffer.write(encoded(example_application()))
