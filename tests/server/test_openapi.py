"""The published OpenAPI document is the code's, and says what every route takes, answers and needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator
from tests.server.conftest import Api

from longshore.server.auth.keys import Scope
from longshore.server.auth.sessions import COOKIE
from longshore.server.openapi import encoded, example_application

PUBLISHED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encoded(example_application()))
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, each) for path, item in document["paths"].items() for method, each in item.items()]


def test_the_published_document_is_that_of_the_code() -> None:
    made = encoded(example_application())
    assert PUBLISHED.read_bytes() == made, "run: python -m longshore.server.openapi > docs/openapi.json"


def test_every_operation_has_a_name_of_its_own_a_summary_and_its_scopes(document: dict[str, Any]) -> None:
    names = [each["operationId"] for _, _, each in operations(document)]
    assert len(names) == len(set(names))
    for path, method, each in operations(document):
        assert each["summary"].endswith("."), (path, method)
        assert each["security"] or path.startswith(("/api/v1/health/", "/api/health")), path
        assert {"401", "422", "503"} <= each["responses"].keys()


def test_every_reference_leads_to_a_schema_that_is_one(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    text = json.dumps(document)
    for part in text.split('"$ref": "')[1:]:
        _, _, kind, name = part.partition('"')[0].split("/")
        assert name in document["components"][kind]


@pytest.mark.parametrize("scope", list(Scope))
async def test_the_document_is_read_with_a_key_of_any_scope(api: Api, scope: Scope) -> None:
    status, found = await api.send("GET", "/schema/openapi.json", key=api.make(scope))
    assert (status, found["openapi"]) == (200, "3.1.0")
    assert (await api.send("GET", "/schema/openapi.json", headers={"Authorization": ""}))[0] == 401


async def test_the_reference_is_a_page_of_our_own_for_people_who_are_logged_in(api: Api) -> None:
    key = api.served.keys.check(api.make(Scope.READ))
    assert key is not None
    site = api.url.removesuffix("/api/v1")
    cookies = {COOKIE: api.served.sessions.begin(key)}
    async with aiohttp.ClientSession() as browser, browser.get(f"{site}/reference", cookies=cookies) as answer:
        page = await answer.text()
    assert answer.status == 200
    assert "POST /api/v1/bulk-actions" in page
    assert "://" not in page.replace("http://127.0.0.1", ""), "it loads nothing from elsewhere"
