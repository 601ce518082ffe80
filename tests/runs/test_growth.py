"""How many jobs the jobs of a run lead to, going by counts alone."""

from __future__ import annotations

import pytest

from longshore.queue import Count
from longshore.runs.estimate.growth import Growth, GrowthWatch


def page(left: int, done: int) -> Count:
    return Count(kind="page", pending=left, completed=done)


def test_a_run_that_does_not_grow_leads_to_nothing() -> None:
    watch = GrowthWatch()
    for done in range(0, 100, 10):
        watch.add([page(100 - done, done)])
    assert watch.growth([page(10, 90)]) == Growth(more=0.0, doubt=0.0)


def test_what_is_there_at_the_first_look_is_no_growth() -> None:
    watch = GrowthWatch()
    watch.add([page(500, 500)])
    assert watch.growth([page(500, 500)]).more == 0.0


def test_each_of_two_leading_to_one_more_is_twice_as_many_in_the_end() -> None:
    """Half a job each, of which each has half a job again: ½ + ¼ + … = 1."""
    watch = GrowthWatch()
    for step in range(40):
        watch.add([page(1000 - 5 * step, 10 * step)])
    found = watch.growth([page(800, 400)])
    assert found.more == pytest.approx(1.0, rel=0.05)
    assert 0 < found.doubt < 0.5


def test_where_as_many_come_as_are_done_there_is_no_end_in_sight() -> None:
    watch = GrowthWatch()
    for step in range(10):
        watch.add([page(100 + 10 * step, 10 * step)])
    assert watch.growth([page(200, 100)]).more is None
    # Unless the run may have only so many: there are 300, and 100 more to come for the 200 that are left.
    found = watch.growth([page(200, 100)], max_jobs=400)
    assert (found.more, found.doubt) == (0.5, 0.0)
    assert watch.growth([page(200, 100)], max_jobs=300) == Growth(more=0.0, doubt=0.0)


def test_a_number_that_is_far_off_changes_nothing() -> None:
    watch = GrowthWatch()
    for step in range(40):
        watch.add([page(1000 - 5 * step, 10 * step)])
    assert watch.growth([page(800, 400)], max_jobs=10_000) == watch.growth([page(800, 400)])


def test_pages_that_lists_lead_to_lead_nowhere_themselves() -> None:
    """Twenty lists are left, of five pages each, and a hundred pages: only the lists add any."""
    watch = GrowthWatch()
    lists, pages, pages_done = 40, 0, 0
    for step in range(40):
        if step % 2:
            lists, pages = lists - 1, pages + 5
        elif pages:
            pages, pages_done = pages - 3, pages_done + 3
        lanes = [Count(kind="list", pending=lists, completed=40 - lists), page(pages, pages_done)]
        watch.add(lanes)
    found = watch.growth(lanes)
    assert found.more == pytest.approx(5 * lists / (lists + pages), rel=0.1)


def test_where_lists_and_pages_finish_side_by_side_the_lists_are_what_leads_to_pages() -> None:
    """Three of each between any two looks, which never tells the two apart; each list has a page."""
    watch = GrowthWatch()
    for step in range(20):
        lanes = [Count(kind="list", pending=100 - 3 * step, completed=3 * step), page(50, 3 * step)]
        watch.add(lanes)
    found = watch.growth(lanes)
    assert found.more == pytest.approx(43 / (43 + 50), rel=0.35)
    assert 1 <= found.generations <= 3


def test_a_kind_that_leads_to_itself_is_found_out_beside_one_that_leads_nowhere() -> None:
    watch = GrowthWatch()
    pages, done, leaves = 400, 0, 0
    for step in range(40):
        if step % 2:
            pages, done = pages - 2, done + 4
        else:
            leaves += 5
        lanes = [page(pages, done), Count(kind="leaf", pending=300 - leaves, completed=leaves)]
        watch.add(lanes)
    found = watch.growth(lanes)
    assert found.more == pytest.approx(pages / (pages + 300 - leaves), rel=0.1)


def test_jobs_that_are_tried_again_are_no_new_ones() -> None:
    """A person retried what had failed: they are unfinished again, and as many as before."""
    watch = GrowthWatch()
    watch.add([Count(kind="page", pending=10, completed=70, failed=20)])
    watch.add([Count(kind="page", pending=30, completed=70)])
    watch.add([Count(kind="page", pending=20, completed=80)])
    assert watch.growth([page(20, 80)]).more == 0.0


def test_what_came_lately_counts_more() -> None:
    """At first every job led to one more; for a long time now none has."""
    watch = GrowthWatch()
    for step in range(10):
        watch.add([page(500, 10 * step)])
    early = watch.growth([page(500, 90)]).more
    for step in range(40):
        watch.add([page(490 - 10 * step, 100 + 10 * step)])
    late = watch.growth([page(100, 490)]).more
    assert early is None
    assert late is not None
    assert late < 0.3


def test_however_often_one_looks_it_is_bounded_and_says_the_same() -> None:
    watch = GrowthWatch()
    for step in range(2000):
        watch.add([page(5000 - step, 2 * step)])
    found = watch.growth([page(3000, 4000)])
    assert len(watch._rows) <= 64
    assert found.more == pytest.approx(1.0, rel=0.05)
