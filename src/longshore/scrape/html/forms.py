"""The forms of a page: their fields as a browser would send them, filled in and ready for a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec

from longshore.errors import ProcessingError
from longshore.scrape.html.links import absolute
from longshore.scrape.html.parse import Element

_NOT_SENT = frozenset({"submit", "button", "image", "reset", "file"})


class Form(msgspec.Struct, frozen=True):
    """A form, ready to be sent: `await kit.http.request(form.method, form.url, params=form.params, data=form.data)`."""

    method: str
    url: str
    fields: dict[str, list[str]]
    """The values of each field, in the order of the page."""

    @property
    def params(self) -> dict[str, list[str]] | None:
        """The query of a form that is sent with GET."""
        return self.fields if self.method == "GET" else None

    @property
    def data(self) -> dict[str, list[str]] | None:
        """The body of a form that is sent with POST."""
        return self.fields if self.method == "POST" else None


def form_of(element: Element, base: str, values: Mapping[str, str | list[str]]) -> Form:
    """Return a form with these values filled in. Raise `ProcessingError` if it has no field of such a name."""
    attributes = element.attributes
    method = "POST" if (attributes.get("method") or "").strip().lower() == "post" else "GET"
    url = absolute(base, attributes.get("action") or base)
    if url is None:
        raise ProcessingError("The form is sent to no web page.", retryable=False)
    if method == "GET":
        url = urlunsplit(urlsplit(url)._replace(query="", fragment=""))
    fields: dict[str, list[str]] = {}
    for name, value in _entries(element):
        fields.setdefault(name, []).append(value)
    names = {control.attributes.get("name") or "" for control in element.css("[name]")}
    if unknown := values.keys() - names:
        raise ProcessingError(
            f"The form has no field {', '.join(sorted(unknown))}. It has: {', '.join(sorted(names)) or 'none'}.",
            retryable=False,
        )
    for field, filled in values.items():
        fields[field] = [filled] if isinstance(filled, str) else list(filled)
    return Form(method, url, fields)


def _entries(form: Element) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each field that a browser would send without a click on a button."""
    for control in form.css("input[name], select[name], textarea[name]"):
        attributes = control.attributes
        name = attributes.get("name") or ""
        if not name or "disabled" in attributes:
            continue
        if control.tag == "select":
            yield from ((name, value) for value in _selected(control))
        elif control.tag == "textarea":
            yield name, control.text()
        else:
            kind = (attributes.get("type") or "text").lower()
            if kind in _NOT_SENT or (kind in ("checkbox", "radio") and "checked" not in attributes):
                continue
            yield name, attributes.get("value") or ("on" if kind in ("checkbox", "radio") else "")


def _selected(control: Element) -> list[str]:
    options = [option for option in control.css("option") if "disabled" not in option.attributes]
    chosen = [option for option in options if "selected" in option.attributes]
    if "multiple" not in control.attributes:
        chosen = chosen[-1:] or options[:1]
    values = (option.attributes.get("value") for option in chosen)
    return [option.text(strip=True) if value is None else value for option, value in zip(chosen, values, strict=True)]
