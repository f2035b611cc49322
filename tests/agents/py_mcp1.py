"""The Python SDK of the 2025 era: `py_mcp1.py URL [--progress]`, CLIENTMCP_TOKEN set.

Goes through the steps of `story.mjs` and prints the same line of JSON. This SDK has no way to cancel a call short of
closing the session, so the cancel step sends the notification itself, as programs built on it do.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack

import httpx
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared._httpx_utils import create_mcp_http_client

ECHO = 'hé✓ "quoted" \\ \U0001f600 \u2028 end'
BIG_BYTES = 1536 * 1024

url, flags = sys.argv[1], sys.argv[2:]
headers = {"Authorization": f"Bearer {os.environ['CLIENTMCP_TOKEN']}"}
content_types: dict[str, str] = {}
list_changes: asyncio.Queue[None] = asyncio.Queue()
steps: dict[str, dict] = {}


async def main() -> None:
    async with AsyncExitStack() as stack:
        # The SDK's streams must be closed by the task that opened them, so no step may be a task of its own.
        sessions: list[ClientSession] = []
        await step("connect", 10, connect(stack, sessions))
        for session in sessions:
            await tell(stack, session)
    print(json.dumps({"steps": steps}))


async def tell(stack: AsyncExitStack, session: ClientSession) -> None:
    await step("list", 10, names(session))
    await step("echo", 10, echo(session, ECHO))
    await step("slow", 15, slow(session))
    await step("cancel", 10, cancel(session))
    await step("list_changed", 15, list_changed(session))
    await step("fail", 10, fail(session))
    await step("unknown", 10, unknown(session))
    await step("big", 30, big(session))
    if "--progress" in flags:
        await step("progress", 20, progress(session))
    await step("close", 10, stack.aclose())


async def step(name: str, limit_seconds: float, run) -> None:
    try:
        async with asyncio.timeout(limit_seconds):
            steps[name] = {"ok": True, "value": await run}
    except Exception as error:
        steps[name] = {"ok": False, "detail": f"{type(error).__name__}: {error}"}


async def connect(stack: AsyncExitStack, sessions: list[ClientSession]) -> dict:
    read, write, session_id = await stack.enter_async_context(
        streamablehttp_client(url, headers=headers, httpx_client_factory=watched_http)
    )
    session = await stack.enter_async_context(ClientSession(read, write, message_handler=on_message))
    initialized = await session.initialize()
    sessions.append(session)
    return {"protocol": initialized.protocolVersion, "session": session_id() is not None}


async def names(session: ClientSession) -> list[str]:
    return [tool.name for tool in (await session.list_tools()).tools]


async def echo(session: ClientSession, text: str) -> str:
    back = only_text(await session.call_tool("echo", {"text": text}))
    check(back == text, f"sent {len(text)} characters, got {len(back)} other ones back")
    return back


async def slow(session: ClientSession) -> dict:
    text = only_text(await session.call_tool("slow", {"seconds": 2}))
    return {"text": text, "contentType": content_types["slow"]}


async def cancel(session: ClientSession) -> dict:
    request_id = session._request_id  # the next request's: the SDK does not tell it otherwise
    call = asyncio.create_task(session.call_tool("slow", {"seconds": 20}))
    await asyncio.sleep(1.5)  # past the first second, so that the stream has begun
    params = types.CancelledNotificationParams(requestId=request_id, reason="no longer wanted")
    gave_up_at_ms = int(time.time() * 1000)
    await session.send_notification(
        types.ClientNotification(types.CancelledNotification(method="notifications/cancelled", params=params))
    )
    await asyncio.sleep(0.2)
    check(not call.done(), "a cancelled call was answered")
    call.cancel()
    return {"gaveUpAtMs": gave_up_at_ms}


async def list_changed(session: ClientSession) -> str:
    before = set(await names(session))
    while not list_changes.empty():
        list_changes.get_nowait()
    await session.call_tool("mutate", {})
    await list_changes.get()
    added = [name for name in await names(session) if name not in before]
    check(len(added) == 1, f"expected one new tool, got {added}")
    return added[0]


async def fail(session: ClientSession) -> str:
    result = await session.call_tool("fail", {})
    check(result.isError is True, f"expected isError, got {result}")
    return only_text(result)


async def unknown(session: ClientSession) -> str:
    try:
        result = await session.call_tool("no_such_tool", {})
    except McpError as error:
        check(error.error.code == -32602, f"expected code -32602, got {error.error}")
        return error.error.message
    raise AssertionError(f"expected an error, got {result}")


async def big(session: ClientSession) -> int:
    return len(await echo(session, "é" * (BIG_BYTES // 2)))


async def progress(session: ClientSession) -> list[float]:
    seen: list[float] = []

    async def on_progress(value: float, _total: float | None, _message: str | None) -> None:
        seen.append(value)

    await session.call_tool("progress", {"seconds": 1}, progress_callback=on_progress)
    check(len(seen) > 0, "expected progress, none came")
    check(seen == sorted(set(seen)), f"expected rising progress, got {seen}")
    return seen


async def on_message(message) -> None:
    if isinstance(message, types.ServerNotification) and isinstance(
        message.root, types.ToolListChangedNotification
    ):
        list_changes.put_nowait(None)


def watched_http(**options) -> httpx.AsyncClient:
    """The SDK's own HTTP client, remembering by tool the content type each call was answered with."""

    async def remember(response: httpx.Response) -> None:
        if response.request.method == "POST":
            params = json.loads(response.request.content).get("params") or {}
            content_types[params.get("name")] = response.headers.get("content-type", "").split(";")[0]

    client = create_mcp_http_client(**options)
    client.event_hooks["response"].append(remember)
    return client


def only_text(result: types.CallToolResult) -> str:
    check(len(result.content) == 1, f"expected one content block, got {result.content}")
    return result.content[0].text


def check(truth: bool, complaint: str) -> None:
    if not truth:
        raise AssertionError(complaint)


asyncio.run(main())
