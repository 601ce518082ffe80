"""The reference of the API as a page, made from the OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Controller, Response, get

from longshore.server.api.request import ApiCall
from longshore.server.openapi import document
from longshore.server.pages.render import respond
from longshore.server.pages.stream import READ


class ReferenceRoutes(Controller):
    """The route of the reference."""

    include_in_schema = False
    opt = READ

    @get("/reference")
    async def reference(self, request: ApiCall) -> Response[bytes]:
        """Return all routes of the API, by subject."""
        whole = document(request.app)
        groups: dict[str, list[dict[str, Any]]] = {}
        for path, operations in whole["paths"].items():
            for method, operation in operations.items():
                groups.setdefault(operation["tags"][0], []).append(_shown(path, method, operation))
        schemas = {name: _text(schema) for name, schema in whole["components"]["schemas"].items()}
        return respond(request, "reference.html", {"groups": groups, "schemas": schemas})


def _shown(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {})
    answers = {
        status: answer["content"]
        for status, answer in operation["responses"].items()
        if status.startswith("2") and "content" in answer
    }
    return {
        "name": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": operation["description"],
        "parameters": [each for each in operation["parameters"] if each["in"] != "header"],
        "body": [_schema_name(each) for each in body.values()],
        "answers": {status: [_schema_name(each) for each in content.values()] for status, content in answers.items()},
    }


def _schema_name(media: dict[str, Any]) -> str:
    """Return the name of a schema; empty if it has none."""
    return str(media.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _text(schema: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
