"""Work on documents rather than pages: a plain function, parameters that are checked first, jobs from a JSONL file.

longshore run examples/documents.py --jobs-file examples/documents.jsonl
"""

import re
from collections import Counter
from typing import Any

from longshore import handler


@handler("document", timeout=20, retries=1)
def document(title: str, text: str, top: int = 3) -> dict[str, Any]:
    # A plain function runs in a process of its own, which is ended at the timeout whatever it is doing.
    words = re.findall(r"[a-z']+", text.lower())
    return {"title": title, "words": len(words), "most_common": Counter(words).most_common(top)}
