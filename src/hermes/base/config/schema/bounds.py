"""Types of settings that several sections share: numbers with bounds, names, free-form mappings."""

from typing import Annotated, Any

from msgspec import Meta

FreeForm = dict[str, Any]
Name = Annotated[str, Meta(min_length=1)]
Natural = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Chars = Annotated[int, Meta(ge=100)]
NotNegative = Annotated[float, Meta(ge=0)]
Part = Annotated[float, Meta(gt=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]
#: 0 means no limit.
SecondsOrNone = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
PollSeconds = Annotated[float, Meta(ge=0.05, le=60)]
HookSeconds = Annotated[float, Meta(gt=0, le=300)]
