"""URLs: their canonical form, the key made of it, the host that rate limits apply to, and a form safe to show."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote_plus, urlsplit, urlunsplit

# Parameters that identify the visitor or the campaign, never the page.
_TRACKING = re.compile(
    r"^(utm_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|igshid|mc_cid|mc_eid|_ga|_gl)$"
)
# A URL like this is its own canonical form. Most URLs of a large file are, and full parsing costs 20 times as much.
# It has no `.` or `..` segment, which full parsing would resolve, and at most one parameter: several would be sorted.
_ALREADY_CANONICAL = re.compile(
    r"https?://(?P<host>[a-z0-9.-]+)(?=/)(?![^?]*/\.\.?(?:[/?]|\Z))/[A-Za-z0-9._~/-]*"
    r"(?:\?(?P<parameter>[A-Za-z0-9_-]+)=[A-Za-z0-9._-]*)?\Z"
)
_SCHEME = r"[a-z][a-z0-9+.-]+"  # two letters at least: a single one is a drive, or a user
_WHOLE = re.compile(rf"\s*(?P<scheme>{_SCHEME})://", re.IGNORECASE)
# A URL with a missing slash or colon: `postgresql:/`, `postgres//`.
_MISTYPED = re.compile(rf"\s*{_SCHEME}(:/|//)/*", re.IGNORECASE)
# The text before the first colon is shown as the user name, unless the text after it suggests a token.
_NAMED = re.compile(r"[^/?#@:\s]*:(?!(x-oauth-basic)?@|[/?#])")
# In these schemes, `user@host` (no colon) has a user name before the `@`; in other schemes it may be a token.
_LOGINS = {"postgresql", "postgres", "ssh", "git+ssh"}
_LONE = re.compile(r"[^/?#@:\s]+")
_IN_FILES = {"sqlite", "dir", "file", "git+file", "memory"}
_PAGES = {"http", "https"}
_REPOSITORY = re.compile(r"\.git/?\s*\Z", re.IGNORECASE)
# The beginning of a page's address: a host and an optional port, up to their end.
_HOST = re.compile(r"(\[[^\]\s]*\]|[^/?#@:\s]*)(:\d+)?(?=[/?#\s]|\Z)")
# A password may hold a space that was not encoded; after the host, a space ends the address of a page.
_PAGE_CREDENTIALS = re.compile(r"(?:[^/\n]*@)?(?:\S*@)?")
# A query as it was typed is divided by these. A page chooses the text, so masking it must take linear time.
_PIECE = re.compile(r"[^&\s]+")
_QUERY_BEGIN = re.compile(r"[?#]")
# Judged by parts of the name. In the value of such a parameter a `#` may be part of a password.
_SECRET_PARAMETER = re.compile(r"passw(?:or)?d|secret|token|api[_-]?key|auth(?!or)", re.IGNORECASE)
_SESSION_PARAMETER = re.compile(
    r"signature|credential|sess(?:ion)?[_-]?id|jwt|(?:\A|[?#])(?:sid|sig|pwd|pass)\Z", re.IGNORECASE
)
# Some sites put the session id in the path.
_SESSION_IN_PATH = re.compile(r";[a-z]*sess(?:ion)?id=(?P<secret>[^/?#;&\s]*)", re.IGNORECASE)
# Secrets recognized by their format, under any name: keys of our own server, of Google, GitHub, GitLab, Slack, Stripe,
# Amazon and of language models.
TOKEN = re.compile(
    r"(?<![\w-])(?:lsk_[0-9a-f]{8}_[\w-]{20,}"
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}|gh[pousr]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[\w-]{10,}|sk_(?:live|test)_\w{16,}|sk-(?:proj-|ant-)?[\w-]{32,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)"
    r"|hf_[A-Za-z0-9]{30,})"
)
_IN_TEXT = re.compile(rf"(?<![a-z0-9+.-]){_SCHEME}://(?:[^/@:\s]*:[^/\n]*@)?[^\s'\"<>]*", re.IGNORECASE)
# Letters that the older IDNA rules replaced by others (and two invisible ones, which they removed).
_DEVIATING = re.compile("[ßς\u200c\u200d]")
# A URL whose host needs no further parsing, which takes ten times as long.
_PLAIN_HOST = re.compile(r"(?P<scheme>https?)://(?P<name>[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?(?=[/?#]|\Z)")
_LONGEST_HOST = 1_000
"""Characters. A real name has at most 253; the encoders of international names take the square of the length."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Browsers drop these around a URL: the space and the control characters below it. U+00A0 and other white space beyond
# ASCII are part of the URL.
_AROUND = "".join(map(chr, range(0x21)))
# In a path, `%2B` is not `+`, which object stores read as a space. The library would decode it, so it is encoded twice.
_PLUS = re.compile("%(25|2B)", re.IGNORECASE)
_PLUS_AGAIN = re.compile("%25(25|2B)", re.IGNORECASE)
_INSIDE = dict.fromkeys(map(ord, "\t\n\r"))
_ENCODED = {ord(character): f"%{ord(character):02X}" for character in _AROUND}


def clean_url(url: str) -> str:
    """Return the URL that a browser reads in this text: no ASCII white space around it, no tab or line end in it.

    The key of a job and the request for its page both use this form, so that they always mean the same page.
    """
    if url.isprintable() and " " not in (url[:1], url[-1:]):
        return url
    return url.strip(_AROUND).translate(_INSIDE)


def canonical_url(url: str) -> str:
    """Return one spelling for all spellings of a URL that certainly name the same page.

    The fragment and tracking parameters are removed, the query is sorted, scheme and host are in lower case, and a
    default port is left out. The case of the path and all other parameters are kept. A URL of another scheme than http
    and https is only cleaned.
    """
    already = _ALREADY_CANONICAL.match(url)
    if already and not _TRACKING.match(already["parameter"] or ""):
        return url
    url = clean_url(url)
    try:
        return _canonical(url)
    except ValueError:
        return url  # not a valid URL (for example, its port is not a number): it has no other spelling


def _canonical(url: str) -> str:
    # Imported on use, because it loads half of the standard library's HTTP modules.
    from w3lib.url import canonicalize_url

    given = urlsplit(url)
    if given.scheme not in _PAGES:
        return url
    netloc, query = given.netloc, given.query
    if not netloc.isascii():
        user, at, host = netloc.rpartition("@")
        netloc = f"{user}{at}{ascii_host(host)}"
    # An empty query is part of the URL, and some sites answer it differently. `urlunsplit` would drop it.
    empty = not query and "?" in url.partition("#")[0]
    if query:
        # As it was written: decoding would turn two queries that are not UTF-8 into the same one.
        query = "&".join(piece for piece in query.split("&") if not _is_tracking(piece))
    # A space that ends the path must not be at the end of the URL, now that the query may be gone.
    path, query = given.path.translate(_ENCODED), query.translate(_ENCODED)
    plus = "%2B" in path or "%2b" in path
    if plus:
        path = _PLUS.sub(r"%25\1", path)
    parts = urlsplit(canonicalize_url(urlunsplit((given.scheme, netloc, path, query, ""))))
    if plus:
        parts = parts._replace(path=_PLUS_AGAIN.sub(lambda found: f"%{found[1].upper()}", parts.path))
    if not parts.netloc:
        raise ValueError("it names no host")
    netloc = parts.netloc.lower() if "@" not in parts.netloc else parts.netloc
    if parts.port is not None and parts.port == _DEFAULT_PORTS.get(parts.scheme):
        netloc = netloc.rpartition(":")[0]
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, "")) + ("?" if empty else "")


def requested_url(url: str) -> str:
    """Return the URL by which a page is requested: without its fragment and its tracking parameters.

    The rest stays as it was written, because sites differ in what they take for the same: some separate parameters by
    `;`, and some answer `?wsdl` but not `?wsdl=`.
    """
    page, mark, query = clean_url(url).partition("#")[0].partition("?")
    pieces = query.split("&")
    others = [piece for piece in pieces if not _is_tracking(piece)]
    if not others and pieces:
        return page
    return f"{page}{mark}{'&'.join(others)}"


def _is_tracking(piece: str) -> bool:
    return _TRACKING.match(unquote_plus(piece.partition("=")[0])) is not None


def ascii_host(host: str) -> str:
    """Return a host name in its ASCII form, so that both spellings are one host; unchanged if it has no such form.

    Letters such as ß are encoded here, because Python's codec would turn them into the name of another site: straße.de
    is not strasse.de.
    """
    if host.isascii() or len(host) > _LONGEST_HOST:
        return host
    import unicodedata

    labels = unicodedata.normalize("NFC", host.lower()).split(".")
    deviating = [f"xn--{label.encode('punycode').decode()}" if _DEVIATING.search(label) else label for label in labels]
    try:
        return ".".join(deviating).encode("idna").decode()
    except UnicodeError:
        return host


def url_key(url: str) -> str:
    """Return the key of a URL's job: the SHA-256 of its canonical form, in hexadecimal."""
    # A lone surrogate must not raise here: the job's own check refuses it.
    return hashlib.sha256(canonical_url(url).encode(errors="surrogatepass")).hexdigest()


def host_of(url: str) -> str:
    """Return the host that rate limits apply to: in lower case, with the port if it is not the default one."""
    if plain := _PLAIN_HOST.match(url):
        name, digits = plain["name"], plain["port"]
        if digits is None:
            return name
        if (number := int(digits)) < 65536:
            return name if number == _DEFAULT_PORTS[plain["scheme"]] else f"{name}:{number}"
    try:
        parts = urlsplit(url)
        found, port = parts.hostname, parts.port
    except ValueError:
        return ""
    if found is None:
        return ""
    name = ascii_host(found)
    return name if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f"{name}:{port}"


def key_and_host(url: str) -> tuple[str, str]:
    """Return what `url_key` and `host_of` return. Most URLs of a large file are recognized as canonical only once."""
    plain = _ALREADY_CANONICAL.match(url)
    if plain and not _TRACKING.match(plain["parameter"] or ""):
        return hashlib.sha256(url.encode()).hexdigest(), plain["host"]
    return url_key(url), host_of(url)


def mask_url(url: str) -> str:
    """Return the URL with its secrets replaced by `***`, for logs, errors and screens.

    Secrets are a password, parameters with a name like a password's, keys in a known format, and a user name without a
    password, because it may be a token (except for databases and ssh). The text may be misspelled: everything that may
    be part of a password is masked, up to the last `@`. In the address of a page, an `@` after the host is part of the
    path and masks nothing.
    """
    secrets = _secret_values(url) if "=" in url else []
    secrets += [found.span() for found in TOKEN.finditer(url)]
    if (credentials := _credentials(url)) is not None:
        secrets.append(credentials)
    shown, done = [], 0
    for begin, end in sorted(secrets):
        if begin >= done:
            shown += [url[done:begin], "***"]
        done = max(done, end)
    return "".join([*shown, url[done:]])


def mask_urls(text: str) -> str:
    """Return a text with the secrets in its URLs replaced by `***`."""
    return _IN_TEXT.sub(lambda found: mask_url(found[0]), text)


def _secret_values(url: str) -> list[tuple[int, int]]:
    """Return the begin and end of each value whose name is that of a secret."""
    secrets = [found.span("secret") for found in _SESSION_IN_PATH.finditer(url) if found["secret"]]
    for piece in _PIECE.finditer(url):
        begin, end = piece.span()
        named = url[begin - 1 : begin] == "&"
        while (equals := url.find("=", begin, end)) >= 0:
            query = _QUERY_BEGIN.search(url, begin, equals)
            begin, name = equals + 1, url[begin if named or query is None else query.end() : equals]
            if named or query is not None:
                if _SECRET_PARAMETER.search(name):
                    secrets.append((begin, end))
                    break
                if _SESSION_PARAMETER.search(name):
                    fragment = url.find("#", begin, end)
                    secrets.append((begin, end if fragment < 0 else fragment))
            named = False
    return [(begin, end) for begin, end in secrets if begin < end]


def _credentials(url: str) -> tuple[int, int] | None:
    """Return the begin and end of the password or token in a URL; None if there is none."""
    last = url.rfind("@")
    if last < 0:
        return None
    whole = _WHOLE.match(url)
    if whole is None:
        mistyped = _MISTYPED.match(url)
        if mistyped is not None and mistyped.end() <= last:
            return mistyped.end(), last
        # A path, `git@host:path`, or a user and a password without a scheme.
        return _after_name(url, 0, last) if ":" in url[:last] else None
    begin, scheme = whole.end(), whole["scheme"].lower()
    if scheme in _IN_FILES and "@" not in url[begin:].partition("/")[0]:
        colon = url.find(":", begin, last)
        return (colon + 1, last) if colon >= 0 else None
    if scheme in _PAGES and not _REPOSITORY.search(url):
        if _HOST.match(url, begin):
            return None
        found = _PAGE_CREDENTIALS.match(url, begin)
        if found is None or found.end() == begin:
            return None
        last = found.end() - 1
    if url[begin:last] == "git" or (scheme in _LOGINS and _LONE.fullmatch(url, begin, last)):
        return None
    return _after_name(url, begin, last)


def _after_name(url: str, begin: int, end: int) -> tuple[int, int]:
    named = _NAMED.match(url, begin, end + 1)
    return (begin if named is None else named.end(), end)
