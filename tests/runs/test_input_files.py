"""Files of URLs and jobs: what is read, and how a fault in them is named (D1)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from longshore.errors import InputFileError
from longshore.runs.submit.input_files import InputEntry, InputFile, InputFormat


def urls(tmp_path: Path, content: str | bytes) -> InputFile:
    path = tmp_path / "urls.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return InputFile(str(path), InputFormat.URLS)


def jobs(tmp_path: Path, content: str) -> InputFile:
    path = tmp_path / "jobs.jsonl"
    path.write_text(content, encoding="utf-8")
    return InputFile(str(path), InputFormat.JOBS)


def test_a_url_file_gives_one_job_a_line_without_blank_lines_and_comments(tmp_path: Path) -> None:
    source = urls(tmp_path, "# pages\n\nhttps://a.org/1\n   https://a.org/2  \n#https://a.org/3\n")
    assert list(source.entries()) == [
        InputEntry(payload={"url": "https://a.org/1"}),
        InputEntry(payload={"url": "https://a.org/2"}),
    ]


def test_a_byte_order_mark_windows_line_ends_and_a_missing_last_one_do_no_harm(tmp_path: Path) -> None:
    source = urls(tmp_path, b"\xef\xbb\xbfhttps://a.org/1\r\nhttps://a.org/2")
    assert [entry.payload["url"] for entry in source.entries()] == ["https://a.org/1", "https://a.org/2"]


@pytest.mark.parametrize(
    "line",
    [
        "hello world",
        "http://",
        "https:///path",
        "://a.org",
        "http://a b/",
        "mailto:x@y.z",
        "http://h:abc/",
        "http://[::1",
    ],
)
def test_a_line_that_is_no_url_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputFileError, match=r"urls\.txt, line 3: .* is not a URL"):
        urls(tmp_path, f"https://a.org/\n\n{line}\n").check()


def test_a_url_without_its_scheme_gets_a_hint(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"Did you mean https://example\.org/page"):
        urls(tmp_path, "example.org/page\n").check()


@pytest.mark.parametrize(
    "line", ["http://localhost:8000/x", "https://a.org/with space", "ftp://a.org", "HTTPS://A.org/?q=1"]
)
def test_a_line_that_is_a_url_is_taken_as_it_is(tmp_path: Path, line: str) -> None:
    assert [entry.payload["url"] for entry in urls(tmp_path, line).entries()] == [line]


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"line 2 is not UTF-8"):
        urls(tmp_path, b"https://a.org/\nhttps://a.org/\xe4\n").check()
    with pytest.raises(InputFileError, match="is UTF-16"):
        urls(tmp_path, "https://a.org/".encode("utf-16")).check()


def test_a_line_without_end_is_refused_rather_than_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.runs.submit.input_files.LONGEST_LINE", 100)
    with pytest.raises(InputFileError, match="line 1 is longer than 100 bytes"):
        urls(tmp_path, "x" * 101).check()


def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"none\.txt cannot be read: No such file"):
        InputFile(str(tmp_path / "none.txt"), InputFormat.URLS).check()
    with pytest.raises(InputFileError, match="cannot be read"):
        InputFile(str(tmp_path), InputFormat.URLS).check()


def test_a_jsonl_line_is_the_payload_itself_or_wraps_it(tmp_path: Path) -> None:
    source = jobs(
        tmp_path,
        '{"id": 1}\n\n'
        '{"payload": {"id": 2}}\n'
        '{"payload": {"id": 3}, "key": "k", "priority": -5, "partition": "CA", "not_before": 1900000000}\n'
        '{"payload": {"id": 4}, "not_before": "2030-01-31T08:00:00Z", "key": null}\n',
    )
    assert list(source.entries()) == [
        InputEntry(payload={"id": 1}),
        InputEntry(payload={"id": 2}),
        InputEntry(payload={"id": 3}, key="k", priority=-5, partition="CA", not_before=1_900_000_000.0),
        InputEntry(payload={"id": 4}, not_before=1_896_076_800.0),
    ]


def test_a_time_without_a_zone_is_utc(tmp_path: Path) -> None:
    source = jobs(tmp_path, '{"payload": {}, "not_before": "2030-01-31 08:00:00"}\n')
    assert next(source.entries()).not_before == 1_896_076_800.0


def test_an_object_that_has_a_payload_that_is_no_object_is_the_payload_itself(tmp_path: Path) -> None:
    source = jobs(tmp_path, '{"rocket": "Ariane", "payload": "a satellite"}\n')
    assert next(source.entries()).payload == {"rocket": "Ariane", "payload": "a satellite"}


def test_a_file_without_a_single_job_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"There are no jobs in .*urls\.txt\. Put one URL on each line"):
        urls(tmp_path, "# nothing yet\n\n").check()
    with pytest.raises(InputFileError, match=r"There are no jobs in .*jobs\.jsonl\. Put one JSON object"):
        jobs(tmp_path, "").check()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oops", 'not JSON: object keys must be strings (byte 1). The line is: "{oops".'),
        ("[1, 2]", 'a job is a JSON object, {…}. The line is: "[1, 2]".'),
        ('"text"', "a job is a JSON object"),
        ('{"payload": 5}', "payload must be an object, {…}, not 5."),
        ('{"payload": null}', "payload must be an object, {…}, not null."),
        ('{"payload": {}, "priority": "high"}', 'priority must be a whole number, not "high".'),
        ('{"payload": {}, "priority": 1.5}', "priority must be a whole number, not 1.5."),
        ('{"payload": {}, "priority": true}', "priority must be a whole number, not true."),
        ('{"payload": {}, "key": 5}', "key must be text, not 5."),
        ('{"payload": {}, "partition": ["CA"]}', 'partition must be text, not ["CA"].'),
        ('{"payload": {}, "key": ""}', "the key is empty"),
        ('{"payload": {}, "not_before": "soon"}', "not_before cannot be 'soon'"),
        ('{"payload": {"a": 1}, "keyy": "x"}', "unknown field 'keyy' beside 'payload'; did you mean 'key'?"),
        ('{"payload": {}, "priority": 1, "prtition": "CA"}', "did you mean 'partition'?"),
        ('{"type": "push", "payload": {"size": 1}}', 'wrap it as {"payload": …}'),
        ("[" * 100_000, "line 2"),
        ('{"payload": {}, "priority": 99999999999999999999}', "priority must be between"),
        ('{"payload": {}, "not_before": 1%s}' % ("0" * 400), "not_before cannot be"),
    ],
)
def test_a_malformed_line_is_named_by_its_number_and_its_fault(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputFileError) as refused:
        jobs(tmp_path, f'{{"id": 1}}\n{line}\n').check()
    assert "jobs.jsonl, line 2: " in str(refused.value)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 500


def test_memory_does_not_grow_with_the_file(tmp_path: Path, long: bool) -> None:
    # The lines alone, kept, would be twice as much as is allowed.
    count = 200_000 if long else 50_000
    path = tmp_path / "many.txt"
    with path.open("w") as file:
        file.writelines(f"https://a.org/{number}\n" for number in range(count))
    tracemalloc.start()
    try:
        assert InputFile(str(path), InputFormat.URLS).check() == count
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
