"""Missing fields are found as the SDK finds them."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types import GetTaskRequest, SendMessageRequest, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from hermes.surfaces.a2a.server.handler import check_required


def is_refused(check: Any, message: Any) -> bool:
    try:
        check(message)
    except InvalidParamsError:
        return True
    return False


PART: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"text": st.just("x"), "metadata": st.just({"a": [{"b": 1}]})}
)
MESSAGE: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "messageId": st.sampled_from(["", "m"]),
        "role": st.sampled_from(["ROLE_UNSPECIFIED", "ROLE_USER"]),
        "parts": st.lists(PART, max_size=2),
        "metadata": st.just({"a": {"b": 1}}),
        "extensions": st.just(["x"]),
    },
)
WEBHOOK: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"url": st.just("http://x"), "authentication": st.sampled_from([{}, {"scheme": "s"}])}
)
CONFIGURATION: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"taskPushNotificationConfig": WEBHOOK, "historyLength": st.just(1)}
)
REQUEST: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"message": MESSAGE, "configuration": CONFIGURATION}
)


@given(REQUEST)
def test_messages(document: dict[str, Any]) -> None:
    message = json_format.ParseDict(document, SendMessageRequest())
    assert is_refused(check_required, message) is is_refused(validate_proto_required_fields, message)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (GetTaskRequest(), True),
        (GetTaskRequest(id="x"), False),
        (TaskPushNotificationConfig(task_id="t"), True),
        (TaskPushNotificationConfig(task_id="t", url="http://x"), False),
    ],
)
def test_other_requests(message: Any, refused: bool) -> None:
    assert is_refused(check_required, message) is is_refused(validate_proto_required_fields, message) is refused
