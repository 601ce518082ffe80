"""A client of Ollama's API: is the model there, pull it, ask it for JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from longshore import ConnectionFailedError, ProcessingError, TimedOutError

_LONGEST_ANSWER = 4 << 20
_CONNECT_SECONDS = 10.0
Progress = Callable[[str, int, int], None]
"""Is called with what is done, and how many bytes of how many."""


class Ollama:
    """A server of Ollama. Errors of the connection are `ConnectionFailedError`; others are `ProcessingError`."""

    def __init__(self, url: str, *, seconds: float = 300) -> None:
        """`seconds` is how long an answer may take."""
        self.url = url
        self._seconds = seconds

    async def models(self) -> list[str]:
        """Return the names of the models that are there."""
        async with self._asked("GET", "/api/tags", None, _CONNECT_SECONDS) as answer:
            found = await self._json(answer)
        models = found.get("models")
        named = models if isinstance(models, list) else []
        return [str(each.get("name") or each.get("model") or "") for each in named if isinstance(each, dict)]

    async def has(self, model: str) -> bool:
        """Return whether a model is there. A name without a tag is that of `latest`."""
        return (model if ":" in model else f"{model}:latest") in await self.models()

    async def pull(self, model: str, progress: Progress) -> None:
        """Load a model. It may take many minutes; each step calls `progress`."""
        succeeded = False
        async with self._asked("POST", "/api/pull", {"model": model, "stream": True}, None) as answer:
            async for line in answer.content:
                step = self._parsed(line)
                if "error" in step:
                    raise ProcessingError(f"Ollama at {self.url} cannot load {model}: {step['error']}", retryable=False)
                status = str(step.get("status", ""))
                progress(status, _whole(step.get("completed")), _whole(step.get("total")))
                succeeded = succeeded or status == "success"
        if not succeeded:
            raise ConnectionFailedError(f"Ollama at {self.url} broke off while it loaded {model}")

    async def ask(self, model: str, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        """Return the answer to a question, as JSON by this schema; the model decides what is in it."""
        body = {
            "model": model,
            "messages": list(messages),
            "stream": False,
            "format": dict(schema),
            "options": {"temperature": 0, "seed": 1},
        }
        async with self._asked("POST", "/api/chat", body, self._seconds) as answer:
            found = await self._json(answer)
        message = found.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise ProcessingError(f"Ollama at {self.url} answered without a message")
        return content

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 20) as session,
                session.request(method, self.url + path, json=body) as answer,
            ):
                if answer.status != 200:
                    raise await self._refused(answer)
                yield answer
        except TimeoutError as error:
            raise TimedOutError(f"Ollama at {self.url} did not answer within {seconds:g} seconds") from error
        except aiohttp.InvalidURL as error:
            raise ProcessingError(f"OLLAMA_BASE_URL cannot be '{self.url}'", retryable=False) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ConnectionFailedError(
                f"Ollama at {self.url} does not answer: {error}. Fix: start it (ollama serve), set OLLAMA_BASE_URL, or "
                "do without it (USE_AI_EXTRACTION=false)"
            ) from error

    async def _refused(self, answer: aiohttp.ClientResponse) -> ProcessingError:
        text = (await answer.content.read(2000)).decode(errors="replace")
        try:
            why = str(json.loads(text)["error"])
        except (ValueError, KeyError, TypeError):
            why = text[:200]
        # A model that is missing does not come by itself; a server that is full does.
        return ProcessingError(f"Ollama at {self.url} answered {answer.status}: {why}", retryable=answer.status >= 429)

    async def _json(self, answer: aiohttp.ClientResponse) -> dict[str, Any]:
        body = b""
        async for part in answer.content.iter_chunked(1 << 16):
            body += part
            if len(body) > _LONGEST_ANSWER:
                raise ProcessingError(f"Ollama at {self.url} answered with more than {_LONGEST_ANSWER:,} bytes")
        return self._parsed(body)

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ProcessingError(f"{self.url} is no Ollama: it answered {text[:60]!r}") from error
        if not isinstance(found, dict):
            raise ProcessingError(f"{self.url} is no Ollama: it answered {text[:60]!r}")
        return found


def ensure(url: str, model: str, say: Callable[[str], None]) -> None:
    """Load the model if it is not there, and say how far it is, at each tenth of it."""
    asyncio.run(_ensure(Ollama(url), model, say))


async def _ensure(ollama: Ollama, model: str, say: Callable[[str], None]) -> None:
    if await ollama.has(model):
        return
    say(f"The model {model} is not in Ollama at {ollama.url} yet; it is loaded now.")
    said = ""

    def progress(status: str, done: int, total: int) -> None:
        nonlocal said
        line = f"  {status}"
        if total:
            tenth = min(done * 10 // total, 10)
            line += f": {tenth * 10} % of {total / 1e6:,.0f} MB"
        if line != said:
            said = line
            say(line)

    await ollama.pull(model, progress)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
