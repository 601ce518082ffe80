"""The parameters of each type of task. All that is wrong is named at once, and such a task is never retried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from longshore import ValidationError

VideoId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{11}$")]
P = TypeVar("P", bound=BaseModel)


class SearchParams(BaseModel):
    """Of `youtube.search`, and of its old name `youtube`."""

    model_config = ConfigDict(extra="forbid")
    search_query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    max_results: int = Field(10, ge=1, le=50)


class VideoParams(BaseModel):
    """Of `youtube.video`."""

    model_config = ConfigDict(extra="forbid")
    video_id: VideoId


class BatchParams(BaseModel):
    """Of `youtube.batch`. Any number of ids: 50 are asked for in one call."""

    model_config = ConfigDict(extra="forbid")
    video_ids: list[VideoId] = Field(min_length=1, max_length=5000)


def checked(model: type[P], params: Mapping[str, object]) -> P:
    """Return the parameters as a model. Raise `ValidationError` with every fault."""
    try:
        return model.model_validate(params)
    except pydantic.ValidationError as error:
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValidationError("; ".join(faults)) from error
