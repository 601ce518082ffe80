"""Records: validated and filtered when emitted; on disk completely or not at all; read once, and only when settled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from pydantic import BaseModel

from longshore.errors import InputFileError
from longshore.job import Job, State
from longshore.scrape.records import (
    Emission,
    Emitted,
    RecordError,
    RecordReader,
    RecordSink,
    RecordWriter,
    SegmentSink,
    next_revision,
)
from longshore.scrape.records import writer as writer_module
from longshore.scrape.records.removal import remove_records
from longshore.stored import DEEPEST


class Item(BaseModel):
    title: str
    price: float


def job(number: int = 1, *, epoch: int = 1, run: str = "monday", job_id: str | None = None) -> Job:
    return Job(
        id=job_id or str(number), run=run, kind="page", key=f"k{number}", payload={}, state=State.CLAIMED, epoch=epoch
    )


def emitted(*titles: str) -> Emitted:
    emission = Emission()
    for title in titles:
        emission.emit({"title": title}, "item")
    found = emission.emitted()
    assert found is not None
    return found


def data(survey: RecordReader) -> list[Any]:
    return [record.data["title"] for record in survey.records()]


def write(folder: Path, entries: Sequence[tuple[Job, Emitted]], *, mark: bool = True, worker: str = "w/1") -> None:
    writer = RecordWriter(folder, worker)
    for each, found in entries:
        writer.put(each, found)
        writer.flush()
        if mark:
            writer.settled(each.id, each.epoch)
    writer.close()


# Emission


def test_a_record_is_taken_as_it_is_at_that_moment() -> None:
    emission = Emission()
    record = {"title": "now"}
    assert emission.emit(record)
    record["title"] = "later"
    found = emission.emitted()
    assert found is not None
    assert [(each.kind, msgspec.json.decode(each.data)) for each in found.records] == [("record", {"title": "now"})]


def test_an_attempt_that_emits_nothing_leaves_nothing() -> None:
    assert Emission().emitted() is None


def test_models_dataclasses_and_dicts_are_records() -> None:
    @dataclass
    class Plain:
        title: str

    emission = Emission()
    for record in (Item(title="a", price=1), Plain("b"), {"title": "c"}):
        emission.emit(record)
    found = emission.emitted()
    assert found is not None
    assert [msgspec.json.decode(each.data)["title"] for each in found.records] == ["a", "b", "c"]


def test_what_the_schema_makes_of_a_record_is_what_is_kept() -> None:
    emission = Emission({"item": Item})
    emission.emit({"title": "a", "price": "1.5"}, "item")
    found = emission.emitted()
    assert found is not None
    assert msgspec.json.decode(found.records[0].data) == {"title": "a", "price": 1.5}


def test_a_record_against_its_schema_is_refused_with_everything_that_is_wrong() -> None:
    with pytest.raises(RecordError, match=r"kind 'item' does not match Item: title: field required; price: input") as e:
        Emission({"item": Item}).emit({"price": "much"}, "item")
    assert not e.value.retryable


def test_a_kind_that_is_not_declared_is_refused_where_others_are() -> None:
    with pytest.raises(RecordError, match="'offer' are not declared"):
        Emission({"item": Item}).emit({}, "offer")


def _deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(DEEPEST + 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize("record", [object(), "text", 7, None, [1], Item, {"a": object()}, {"a": "\ud800"}, _deep()])
def test_what_json_cannot_say_or_is_no_record_is_refused(record: Any) -> None:
    emission = Emission()
    with pytest.raises(RecordError, match="A record cannot be"):
        emission.emit(record)
    assert emission.emitted() is None


def test_a_number_that_nobody_can_read_is_refused_by_schemas_too() -> None:
    class Counted(BaseModel):
        number: int

    emission = Emission({"record": Counted})
    assert emission.emit({"number": 2**100})
    with pytest.raises(RecordError, match="A record cannot be stored"):
        emission.emit({"number": 10**4200 - 1 << 2000})


@pytest.mark.parametrize("kind", [None, 7, "", " ", "a\0b", "\ud800", "two\nlines"])
def test_a_kind_that_is_no_name_is_refused(kind: Any) -> None:
    with pytest.raises(RecordError, match="cannot be of the kind"):
        Emission().emit({}, kind)


def test_a_kind_may_be_of_several_words_in_any_language() -> None:
    assert Emission().emit({}, "größere Artikel")


def test_the_filter_keeps_or_rejects_and_its_reasons_are_counted() -> None:
    """B13."""

    def keep(item: Item, kind: str) -> bool | str | None:
        assert kind == "item"
        if item.price > 100:
            return "too dear"
        return item.title != "" or False

    emission = Emission({"item": Item}, keep)
    verdicts = [emission.emit({"title": t, "price": p}, "item") for t, p in [("a", 1), ("b", 101), ("", 1), ("d", 200)]]
    assert verdicts == [True, False, False, False]
    found = emission.emitted()
    assert found is not None
    assert len(found.records) == 1
    assert {(each.kind, each.reason): each.count for each in found.rejected} == {
        ("item", "too dear"): 2,
        ("item", "rejected"): 1,
    }


def test_any_text_is_a_reason() -> None:
    emission = Emission(keep=lambda record, _kind: record["why"])
    for why in ("", "\ud800", "x" * 1000):
        emission.emit({"why": why})
    found = emission.emitted()
    assert found is not None
    assert msgspec.json.decode(msgspec.json.encode(found), type=Emitted) == found
    assert {each.reason for each in found.rejected} == {"rejected", "\\ud800", "x" * 200}


def test_a_filter_that_returns_something_else_is_told_so() -> None:
    with pytest.raises(RecordError, match="returned 0"):
        Emission(keep=lambda _record, _kind: 0).emit({})  # type: ignore[arg-type,return-value]


def test_an_attempt_cannot_emit_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.scrape.records.emission.MOST_BYTES", 100)
    emission = Emission()
    emission.emit({"text": "x" * 50})
    with pytest.raises(RecordError, match="more than 100 bytes"):
        emission.emit({"text": "x" * 50})


def test_what_was_emitted_travels_between_processes_as_json() -> None:
    found = emitted("a", "b")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Emitted) == found


# On disk


def test_records_of_settled_attempts_are_seen_in_order(tmp_path: Path) -> None:
    write(tmp_path, [(job(1), emitted("a", "b")), (job(2), emitted("c"))])
    records = list(RecordReader(tmp_path).records())
    assert [(r.run, r.job_kind, r.key, r.n, r.kind, r.data["title"]) for r in records] == [
        ("monday", "page", "k1", 0, "item", "a"),
        ("monday", "page", "k1", 1, "item", "b"),
        ("monday", "page", "k2", 0, "item", "c"),
    ]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert list(RecordReader(tmp_path / "none").records()) == []


def test_a_writer_that_has_nothing_to_write_makes_nothing(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "records", "w/1")
    writer.flush()
    writer.close()
    writer.close()
    assert not (tmp_path / "records").exists()


def test_one_run_and_one_kind_can_be_read_alone(tmp_path: Path) -> None:
    emission = Emission()
    emission.emit({"title": "o"}, "offer")
    emission.emit({"title": "i"}, "item")
    found = emission.emitted()
    assert found is not None
    write(tmp_path, [(job(1), found), (job(2, run="tuesday"), emitted("t"))])
    assert data(RecordReader(tmp_path, run="tuesday")) == ["t"]
    assert [r.data["title"] for r in RecordReader(tmp_path).records("offer")] == ["o"]


def test_an_attempt_without_a_mark_is_for_the_queue_to_decide(tmp_path: Path) -> None:
    write(tmp_path, [(job(1), emitted("a")), (job(2), emitted("b"))], mark=False)
    assert data(RecordReader(tmp_path)) == []
    assert [each.job for each in RecordReader(tmp_path).unmarked] == ["1", "2"]
    survey = RecordReader(tmp_path, queue_decides=True)
    assert data(survey) == []
    survey.count([job(2)])
    assert data(survey) == ["b"]


def test_an_attempt_that_lost_its_lease_changes_nothing(tmp_path: Path) -> None:
    """F2: the later attempt was settled; the records of the first are not read, in any order on disk."""
    write(tmp_path, [(job(1, epoch=1), emitted("stale"))], mark=False, worker="zombie/1")
    write(tmp_path, [(job(1, epoch=2), emitted("fresh"))], worker="alive/1")
    survey = RecordReader(tmp_path)
    assert data(survey) == ["fresh"]
    assert [each.epoch for each in survey.unmarked] == [1]


def test_marks_speak_of_their_own_writers_attempts_alone(tmp_path: Path) -> None:
    """Two queues may give the same id to different jobs."""
    write(tmp_path, [(job(1, job_id="7"), emitted("settled"))], worker="a/1")
    write(tmp_path, [(job(2, job_id="7"), emitted("not settled"))], mark=False, worker="b/1")
    assert data(RecordReader(tmp_path)) == ["settled"]


def test_a_segment_torn_anywhere_shows_whole_attempts_or_nothing(tmp_path: Path) -> None:
    """A file cut at any byte never yields part of an attempt, nor an attempt twice."""
    write(tmp_path, [(job(n), emitted(f"{n}a", f"{n}b", f"{n}c")) for n in range(1, 5)])
    (segment,) = tmp_path.iterdir()
    whole = segment.read_bytes()
    allowed = [[f"{n}{x}" for n in range(1, upto + 1) for x in "abc"] for upto in range(5)]
    seen = []
    for length in range(len(whole)):
        segment.write_bytes(whole[:length])
        assert data(RecordReader(tmp_path)) in allowed
        survey = RecordReader(tmp_path, queue_decides=True)
        survey.count(job(n) for n in range(1, 5))
        found = data(survey)
        assert found in allowed
        assert sum(survey.torn.values()) + _whole_length(whole, survey) == length
        seen.append(len(found))
    assert seen == sorted(seen)
    assert set(seen) == {0, 3, 6, 9, 12}


def _whole_length(whole: bytes, survey: RecordReader) -> int:
    """Return the size of the complete frames of a segment, up to its torn end."""
    (segment,) = survey.torn or [None]
    if segment is None:
        return len(survey.segments[0].read_bytes()) if survey.segments else 0
    return segment.stat().st_size - survey.torn[segment]


def test_what_is_no_segment_is_noted_and_passed_over(tmp_path: Path) -> None:
    write(tmp_path, [(job(1), emitted("a"))])
    broken = tmp_path / "broken-000000000000.0000.jsonl.zst"
    broken.write_bytes(b"not zstd at all")
    survey = RecordReader(tmp_path)
    assert data(survey) == ["a"]
    assert survey.torn == {broken: 15}


def test_a_line_of_a_later_version_is_told_and_not_passed_over(tmp_path: Path) -> None:
    line = b'{"line": "something new"}\n'
    (tmp_path / "w-000000000000.0000.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(line))
    with pytest.raises(InputFileError, match="If a newer one wrote it"):
        RecordReader(tmp_path)


async def test_the_sink_of_segments_writes_beside_the_event_loop(tmp_path: Path) -> None:
    sink: RecordSink = SegmentSink(RecordWriter(tmp_path, "w/1"))
    await sink.flush()
    sink.put(job(1), emitted("a"))
    await sink.flush()
    assert [each.job for each in RecordReader(tmp_path).unmarked] == ["1"]
    sink.settled("1", 1)
    await sink.close()
    assert data(RecordReader(tmp_path)) == ["a"]


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordWriter(tmp_path, "w/1")
    writer.put(job(1), emitted("a"))
    writer.flush()
    real = os.write

    def full(file: int, content: Any) -> int:
        real(file, bytes(content)[:20])
        raise OSError(28, "No space left on device")

    writer.put(job(2), emitted("b"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for _ in range(5):
            with pytest.raises(OSError, match="No space left"):
                writer.flush()
    assert len(list(tmp_path.iterdir())) == 1, "a try that failed leaves no segment"
    writer.flush()
    for number in ("1", "2"):
        writer.settled(number, 1)
    writer.close()
    survey = RecordReader(tmp_path)
    assert data(survey) == ["a", "b"]
    assert not survey.torn, "what was written of it takes up no room"


def test_a_frame_that_was_written_though_its_flush_failed_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordWriter(tmp_path, "w/1")
    writer.put(job(1), emitted("a"))

    def unsure(_file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", unsure)
        with pytest.raises(OSError, match="Input/output"):
            writer.flush()
    writer.flush()
    writer.settled("1", 1)
    writer.close()
    assert data(RecordReader(tmp_path)) == ["a"]


def test_segments_are_left_at_their_size_and_nothing_is_lost_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "SEGMENT_BYTES", 300)
    write(tmp_path, [(job(n), emitted(f"{n}")) for n in range(10)])
    assert len(list(tmp_path.iterdir())) > 2
    assert sorted(data(RecordReader(tmp_path))) == [str(n) for n in range(10)]


def test_two_incarnations_of_one_worker_write_to_files_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, [(job(1), emitted("a"))], worker="same label, and / more/1")
    write(tmp_path, [(job(2), emitted("b"))], worker="same label, and / more/2")
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(data(RecordReader(tmp_path))) == ["a", "b"]


def test_a_later_parse_takes_the_place_of_what_the_attempt_found(tmp_path: Path) -> None:
    """F8."""
    write(tmp_path, [(job(1), emitted("wrong", "wrong too")), (job(2), emitted("kept"))])
    for titles in (["better"], []):
        writer = RecordWriter(tmp_path, "w/2", revision=next_revision(tmp_path))
        writer.put(job(1), emitted(*titles) if titles else Emitted())
        writer.settled("1", 1)
        writer.close()
        assert sorted(data(RecordReader(tmp_path))) == sorted([*titles, "kept"])
    assert next_revision(tmp_path) == 3


def test_a_job_that_was_removed_and_submitted_again_has_the_records_of_its_later_life(tmp_path: Path) -> None:
    write(tmp_path, [(job(1, epoch=9, job_id="1"), emitted("before"))], worker="a/1")
    write(tmp_path, [(job(1, epoch=1, job_id="2"), emitted("after"))], worker="b/1")
    assert data(RecordReader(tmp_path)) == ["after"]


def test_what_is_kept_and_rejected_is_counted_over_what_is_settled(tmp_path: Path) -> None:
    """B13."""
    emission = Emission(keep=lambda record, _kind: "odd" if record["n"] % 2 else None)
    for n in range(5):
        emission.emit({"n": n}, "item")
    found = emission.emitted()
    assert found is not None
    write(tmp_path, [(job(1), found), (job(2), found)])
    write(tmp_path, [(job(3), found)], mark=False, worker="lost/1")
    tally = RecordReader(tmp_path).tally()
    assert tally.kept == {"item": 6}
    assert tally.rejected == {"item": {"odd": 4}}


def test_what_is_written_during_a_reading_is_not_seen_by_it(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, "w/1")
    writer.put(job(1), emitted("a"))
    writer.flush()
    writer.settled("1", 1)
    writer.put(job(2), emitted("b"))
    writer.flush()
    survey = RecordReader(tmp_path)
    writer.settled("2", 1)
    writer.close()
    assert data(survey) == ["a"]
    assert data(RecordReader(tmp_path)) == ["a", "b"]


def test_a_prune_leaves_an_open_segment_alone_although_the_clock_is_ahead(tmp_path: Path) -> None:
    """An hour ahead, every segment looks as if its writer had long begun another one."""
    writer = RecordWriter(tmp_path, "w/1")
    writer.put(job(1), emitted("a"))
    writer.flush()
    (segment,) = tmp_path.glob("*")
    os.utime(segment, (1, 1))
    gone = {("monday", "page", "k1", "", "1")}
    assert remove_records(tmp_path, gone) == 0
    writer.put(job(2), emitted("b"))
    writer.close()
    assert [each.job for each in RecordReader(tmp_path).attempts()] == ["1", "2"]
    os.utime(segment, (1, 1))
    assert remove_records(tmp_path, gone) == 1


def test_records_do_not_go_to_a_segment_that_was_removed(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, "w/1")
    writer.put(job(1), emitted("a"))
    writer.flush()
    (segment,) = tmp_path.glob("*")
    segment.unlink()
    writer.put(job(2), emitted("b"))
    writer.close()
    assert [each.job for each in RecordReader(tmp_path).attempts()] == ["2"]
