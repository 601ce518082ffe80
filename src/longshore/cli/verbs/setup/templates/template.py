"""A template of `longshore init`: the files of its own, and those that every template has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from longshore.cli.reference_pages import dotenv_example
from longshore.settings.table import DEFAULT_QUEUE

_PYTEST = """[pytest]
# run_handler runs async handlers by itself. Take this away to write async tests with pytest-asyncio.
addopts = -p no:asyncio
"""

_DOTENV = f"""# The settings of this machine; .env.example lists all.
LONGSHORE_QUEUE={DEFAULT_QUEUE}
"""

_GITIGNORE = """.env
.longshore/
results*.jsonl
__pycache__/
.pytest_cache/
"""

_README = """# A Longshore project

{about}

    python -m pip install pytest                          once, for the next line
    python -m pytest                                      test the handlers
{commands}
    longshore status                                      how far each run is
    longshore jobs --state failed                         what failed, and why

If `longshore` is not on the path, `python -m longshore` is the same.

{more}

To work on several machines, let them share a queue: set LONGSHORE_QUEUE in `.env` on each. Then

    {submit:<52}  once
    {work:<52}  on every machine, as often as you like
"""


@dataclass(frozen=True)
class InitTemplate:
    """The handlers of a template, their test, their input and the page of help."""

    handlers: str
    work: str
    """The description of the handlers in the list of files."""
    test: str
    inputs: Mapping[str, str]
    """The files that the jobs come from."""
    input_words: str
    """The description of the first of them in the list of files."""
    commands: Mapping[str, str]
    """The commands that do the work, in their order, with their purpose."""
    submit: str
    """The command that submits the jobs for workers elsewhere."""
    about: str
    more: str
    """Paragraphs of the README: on the files, and on how to go on."""

    def files(self) -> dict[str, str]:
        """Return every file by its name."""
        return {
            "handlers.py": self.handlers,
            "test_handlers.py": self.test,
            "pytest.ini": _PYTEST,
            **self.inputs,
            ".env": _DOTENV,
            ".env.example": dotenv_example(),
            ".gitignore": _GITIGNORE,
            "README.md": self._readme(),
        }

    def purposes(self) -> dict[str, str]:
        """Return the purpose of each file."""
        first, *others = self.inputs
        return {
            "handlers.py": self.work,
            "test_handlers.py": "a test of it that passes",
            "pytest.ini": "how the test is run",
            first: self.input_words,
            **dict.fromkeys(others, "another"),
            ".env": "the settings of this machine: where the queue is",
            ".env.example": "every setting, to copy from",
            ".gitignore": "what should not be committed",
            "README.md": "how to go on",
        }

    def _readme(self) -> str:
        lines = [f"    {f'longshore {command}':<52}  {purpose}" for command, purpose in self.commands.items()]
        return _README.format(
            about=self.about,
            commands="\n".join(lines),
            more=self.more,
            submit=f"longshore {self.submit}",
            work="longshore work handlers.py",
        )
