"""The Python SDK of the 2025 era, asked back: `rounds_py_mcp1.py URL`, CLIENTMCP_TOKEN set.

Goes through the steps of `rounds.mjs` and prints the same line of JSON. This SDK works on one question at a time, and
has no way to give up a call short of closing the session, so that step sends the notification itself.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

import httpx
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared._httpx_utils import create_mcp_http_client

url = sys.argv[1]
headers = {"Authorization": f"Bearer {os.environ['CLIENTMCP_TOKEN']}"}
steps: dict[str, dict] = {}
asked: list[dict] = []
posted: list[str] = []
hanging = asyncio.Event()
released = asyncio.Event()


async def main() -> None:
    capable = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": list_roots}
    async with AsyncExitStack() as stack:
        sessions: list[ClientSession] = []
        await step("connect", 10, connect(stack, sessions, capable))
        for session in sessions:
            for tool in "form url sample roots several twice state decline dismiss refuse".split():
                await step(tool, 20, outcome(session.call_tool(tool, {"n": 1.5})))
            await step("prompt", 20, outcome(session.get_prompt("form-prompt")))
            await step("hang", 20, gives_up(session))
            await step("after", 20, outcome(session.call_tool("form", {"n": 1.5})))
        await step("close", 10, stack.aclose())
    async with AsyncExitStack() as stack:
        sessions = []
        await step("connect incapable", 10, connect(stack, sessions, {}))
        for session in sessions:
            for tool in "form url sample roots several state".split():
                await step(f"incapable {tool}", 20, outcome(session.call_tool(tool, {"n": 1.5})))
        await step("close incapable", 10, stack.aclose())
    print(json.dumps({"steps": steps}))


async def step(name: str, limit_seconds: float, run) -> None:
    asked.clear()
    posted.clear()
    try:
        async with asyncio.timeout(limit_seconds):
            told = {"ok": True, "value": await run}
    except Exception as error:
        told = {"ok": False, "detail": f"{type(error).__name__}: {error}"}
    steps[name] = {**told, "asked": list(asked), "posted": list(posted)}


async def connect(stack: AsyncExitStack, sessions: list[ClientSession], callbacks: dict) -> str:
    read, write, _ = await stack.enter_async_context(
        streamablehttp_client(url, headers=headers, httpx_client_factory=watched_http)
    )
    session = await stack.enter_async_context(ClientSession(read, write, **callbacks))
    initialized = await session.initialize()
    sessions.append(session)
    return initialized.protocolVersion


async def elicit(_context, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
    asked.append({"method": "elicitation/create", "params": dumped(params)})
    wish = params.message.split(":")[0]
    if wish == "refuse":
        return types.ErrorData(code=-32603, message="no screen to show this on")
    if wish == "hang":
        hanging.set()
        await released.wait()
    if wish in ("decline", "cancel"):
        return types.ElicitResult(action=wish)
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    return types.ElicitResult(action="accept", content={"name": 'Zoë ✓ "quoted" \u2028', "age": 41})


async def sample(_context, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    asked.append({"method": "sampling/createMessage", "params": dumped(params)})
    content = types.TextContent(type="text", text=f"read: {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", model="a-model", stopReason="endTurn", content=content)


async def list_roots(_context) -> types.ListRootsResult:
    asked.append({"method": "roots/list"})
    return types.ListRootsResult(roots=[types.Root(uri="file:///w%C3%B6rk", name="wörk")])


async def outcome(run) -> dict:
    """A result, or what a JSON-RPC error said."""
    try:
        return {"result": dumped(await run)}
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message, "data": error.error.data}


async def gives_up(session: ClientSession) -> str:
    """Gives the call up while the person is being asked; the person answers all the same, too late."""
    request_id = session._request_id  # the next request's: the SDK does not tell it otherwise
    call = asyncio.create_task(session.call_tool("hang", {"n": 1.5}))
    await hanging.wait()
    params = types.CancelledNotificationParams(requestId=request_id, reason="no longer wanted")
    await session.send_notification(
        types.ClientNotification(types.CancelledNotification(method="notifications/cancelled", params=params))
    )
    await asyncio.sleep(0.2)
    released.set()
    await asyncio.sleep(0.7)  # long enough for a second call of the application, if one came of it
    if call.done():
        raise AssertionError(f"a call that was given up was answered: {call}")
    call.cancel()
    return "given up"


def watched_http(**options) -> httpx.AsyncClient:
    """The SDK's own HTTP client, remembering every body with an answer in it."""

    async def remember(request: httpx.Request) -> None:
        if request.method == "POST":
            body = request.content.decode()
            message = json.loads(body)
            if "result" in message or "error" in message:
                posted.append(body)

    client = create_mcp_http_client(**options)
    client.event_hooks["request"].append(remember)
    return client


def dumped(model) -> dict:
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True)


asyncio.run(main())
