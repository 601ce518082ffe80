"""Who gets in: one-time links, keys, sessions and their end, and pages of other sites."""

from __future__ import annotations

import re

from tests.server.page.conftest import Visitor

from longshore.server.auth.keys import Scope
from longshore.server.auth.sessions import CODE_SECONDS, COOKIE, SESSION_SECONDS, Sessions

PAGES = ("/", "/jobs", "/failures", "/hosts", "/workers", "/run?name=r", "/job?id=1", "/live?page=overview", "/confirm")


async def test_without_a_session_every_page_leads_to_the_login_form(visitor: Visitor) -> None:
    for path in PAGES:
        answer = await visitor.get(path)
        assert (answer.status, answer.headers["Location"].partition("?")[0]) == (303, "/login"), path


async def test_a_key_begins_a_session_whose_cookie_no_script_and_no_other_site_can_use(visitor: Visitor) -> None:
    answer = await visitor.post("/login", {"key": visitor.api.make(Scope.READ), "next": "/jobs"})
    cookie = answer.headers["Set-Cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
    assert "lsk_" not in answer.text + cookie
    assert 'url=/jobs"' in answer.text
    assert (await visitor.get("/")).status == 200


async def test_a_wrong_key_begins_no_session(visitor: Visitor) -> None:
    for key in ("", "lsk_0_0", "nonsense"):
        answer = await visitor.post("/login", {"key": key})
        assert answer.status == 401 and "Set-Cookie" not in answer.headers


async def test_after_many_wrong_keys_a_right_one_must_wait_a_minute(visitor: Visitor) -> None:
    for _ in range(20):
        await visitor.post("/login", {"key": "wrong"})
    right = visitor.api.make(Scope.READ)
    assert (await visitor.post("/login", {"key": right})).status == 429


async def test_a_key_that_may_not_look_gets_no_session(visitor: Visitor) -> None:
    answer = await visitor.post("/login", {"key": visitor.api.make(Scope.SUBMIT)})
    assert answer.status == 403 and "Set-Cookie" not in answer.headers


async def test_a_login_link_works_once(visitor: Visitor) -> None:
    code = visitor.api.served.sessions.make_code()
    assert (await visitor.get(f"/login?code={code}")).status == 200
    assert (await visitor.get("/")).status == 200
    visitor.session.cookie_jar.clear()
    assert (await visitor.get(f"/login?code={code}")).status == 401
    assert (await visitor.get("/")).status == 303


async def test_a_login_link_is_too_old_after_a_quarter_of_an_hour(visitor: Visitor) -> None:
    served = visitor.api.served
    code = served.sessions.make_code()
    served.clock.advance(CODE_SECONDS + 1)  # type: ignore[attr-defined]
    assert (await visitor.get(f"/login?code={code}")).status == 401


async def test_a_session_ends_when_its_key_is_revoked(visitor: Visitor) -> None:
    key = await visitor.log_in(Scope.READ)
    visitor.api.served.keys.revoke(key.split("_")[1], 0.0)
    assert (await visitor.get("/")).status == 303


async def test_a_session_ends_at_logout_for_good(visitor: Visitor) -> None:
    await visitor.log_in()
    (cookie,) = [each for each in visitor.session.cookie_jar if each.key == COOKIE]
    assert (await visitor.post("/logout")).status == 303
    answer = await visitor.get("/", Cookie=f"{COOKIE}={cookie.value}")
    assert answer.status == 303


async def test_a_session_outlives_a_restart_of_the_server_and_ends_after_a_month(visitor: Visitor) -> None:
    served = visitor.api.served
    key = served.keys.check(visitor.api.make(Scope.READ))
    assert key is not None
    token = served.sessions.begin(key)
    again = Sessions(served.keys.path.with_name("sessions.json"), served.keys, served.clock)
    assert again.key_of(token) == key
    served.clock.advance(SESSION_SECONDS + 1)  # type: ignore[attr-defined]
    assert again.key_of(token) is None
    assert token not in served.keys.path.with_name("sessions.json").read_text()


async def test_the_cookie_of_a_session_opens_no_route_of_the_api(visitor: Visitor) -> None:
    await visitor.log_in()
    assert (await visitor.get("/api/v1/stats")).status == 401


async def test_a_form_of_another_origin_is_refused(visitor: Visitor) -> None:
    await visitor.log_in()
    await visitor.api.submit("a")
    foreign: tuple[dict[str, str], ...] = (
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "", "Origin": "https://evil.test"},
        {"Sec_Fetch_Site": "", "Origin": "null"},
        {"Sec_Fetch_Site": ""},
    )
    for headers in foreign:
        for path in ("/act", "/login", "/logout", "/bulk/abort", "/submit"):
            answer = await visitor.post(path, {"verb": "cancel", "run": "r"}, **headers)
            assert answer.status == 403, (path, headers)
    assert (await visitor.api.send("GET", "/jobs?state=pending"))[1]["jobs"]


async def test_an_old_browser_that_names_its_own_origin_may_send_forms(visitor: Visitor) -> None:
    await visitor.log_in()
    answer = await visitor.post("/logout", Sec_Fetch_Site="", Origin=visitor.url)
    assert answer.status == 303


async def test_only_plain_forms_are_read(visitor: Visitor) -> None:
    await visitor.log_in()
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
        assert (await visitor.post("/act", b"{}", Content_Type=kind)).status == 415


async def test_every_page_allows_only_scripts_with_a_nonce_that_is_new_each_time(visitor: Visitor) -> None:
    await visitor.log_in()
    nonces = set()
    for _ in range(2):
        answer = await visitor.get("/")
        policy = answer.headers["Content-Security-Policy"]
        (nonce,) = re.findall(r"script-src 'nonce-([\w-]+)'", policy)
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        scripts = answer.page.css("script")
        assert scripts and all(each.attributes["nonce"] == nonce and each.attributes["src"] for each in scripts)
        assert not answer.page.css("[style], [onclick], style")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        nonces.add(nonce)
    assert len(nonces) == 2


async def test_the_login_leads_to_no_other_site(visitor: Visitor) -> None:
    for there in ("//evil.test/", "https://evil.test/", "/\\evil.test", "javascript:alert(1)", "jobs"):
        answer = await visitor.post("/login", {"key": visitor.api.make(Scope.READ), "next": there})
        assert "evil" not in answer.text and "javascript" not in answer.text and 'url=/"' in answer.text


async def test_a_key_for_looking_sees_and_cannot_act(visitor: Visitor) -> None:
    await visitor.api.submit("a")
    await visitor.log_in(Scope.READ)
    assert "r" in (await visitor.get("/run?name=r")).text
    assert not (await visitor.get("/run?name=r")).page.css("a[data-confirm]")
    for path in ("/confirm?verb=cancel&run=r", "/bulk?bulk=x"):
        assert (await visitor.get(path)).status == 403
    for verb in ("retry", "cancel", "release", "pause"):
        assert (await visitor.post("/act", {"verb": verb, "run": "r"})).status == 403


async def test_a_key_for_submitting_may_not_pause_and_release(visitor: Visitor) -> None:
    await visitor.api.submit("a")
    await visitor.log_in(Scope.READ, Scope.SUBMIT)
    for verb in ("release", "pause", "resume"):
        assert (await visitor.post("/act", {"verb": verb, "run": "r"})).status == 403
        assert (await visitor.get(f"/confirm?verb={verb}&run=r")).status == 403
    assert (await visitor.get("/confirm?verb=cancel&run=r")).status == 200


async def test_an_action_on_everything_by_an_empty_filter_is_refused(visitor: Visitor) -> None:
    await visitor.api.submit("a")
    await visitor.log_in()
    for verb in ("cancel", "retry"):
        assert (await visitor.post("/act", {"verb": verb})).status == 422
        assert (await visitor.get(f"/confirm?verb={verb}&all=1")).status == 422


async def test_a_limited_key_sees_only_its_runs_and_kinds(visitor: Visitor) -> None:
    await visitor.api.submit("a", run="ours")
    await visitor.api.submit("b", run="theirs")
    await visitor.api.submit("c", run="ours", kind="secret-kind")
    await visitor.log_in(Scope.READ, Scope.SUBMIT, runs=["ours", "ours-too"], kinds=["page"])
    for path in ("/", "/jobs", "/failures", "/hosts", "/workers", "/run?name=ours"):
        answer = await visitor.get(path)
        assert answer.status == 200, path
        assert "theirs" not in answer.text and "secret-kind" not in answer.text, path
    assert (await visitor.get("/run?name=theirs")).status == 404
    jobs = {job["key"]: job["id"] for job in (await visitor.api.send("GET", "/jobs"))[1]["jobs"]}
    assert (await visitor.get(f"/job?id={jobs['a']}")).status == 200
    for key in ("b", "c"):
        assert (await visitor.get(f"/job?id={jobs[key]}")).status == 404
        assert (await visitor.get(f"/job/file?id={jobs[key]}&name=bundle.json")).status == 404
    assert (await visitor.post("/act", {"verb": "cancel", "run": "theirs"})).status == 404
    assert "Cancel 0" in (await visitor.get(f"/confirm?verb=cancel&run=ours&id={jobs['c']}")).text
