"""A stdio MCP server by hand, for what well-behaved ones do not do: `server.py [--2026] [--silent-probe]
[--die-on-probe] [--slow-start SECONDS] [--deaf]`. It knows JSON-RPC and nothing of any SDK. What it wants the test to
see it says on stderr."""

import json
import os
import signal
import sys
import threading
import time

flags = sys.argv[1:]
modern = "--2026" in flags
lock = threading.Lock()
answers = {}
answered = threading.Condition()
cancelled = set()
tools = ["echo", "die", "slow", "grow", "ask", "ask_twice", "ask_both", "log", "noise", "huge", "progress", "touch", "env", "fail"]
next_id = 0


def tell(words):
    print(words, file=sys.stderr, flush=True)


def write(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(**message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def ask_later(method, params):
    global next_id
    with lock:
        next_id += 1
        id = f"s{next_id}"
    send(id=id, method=method, params=params)
    return id


def wait(id):
    with answered:
        answered.wait_for(lambda: id in answers, 60)
    return answers.pop(id)


def ask(method, params):
    return wait(ask_later(method, params))


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}


def run(id, params):
    name, arguments, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    if name == "echo":
        return text(arguments.get("text", ""), structuredContent={"big": 9007199254740993})
    if name == "die":
        os._exit(3)
    if name == "slow":
        for _ in range(int(arguments["seconds"] * 20)):
            if id in cancelled:
                return None
            time.sleep(0.05)
        return text("awake")
    if name == "grow":
        tools.append(f"grown_{len(tools)}")
        send(method="notifications/tools/list_changed")
        return text("grown")
    if name == "ask" and modern:
        given = params.get("inputResponses")
        if given is None:
            request = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
            return {"resultType": "input_required", "inputRequests": {"k": request}, "requestState": "mine"}
        return text(json.dumps({"given": given, "state": params.get("requestState")}))
    if name == "ask":
        return text(json.dumps(ask("elicitation/create", FORM)))
    if name == "ask_twice":
        first = ask("sampling/createMessage", SAMPLE)
        return text(json.dumps([first, ask("roots/list", {})]))
    if name == "ask_both":
        first, second = ask_later("elicitation/create", FORM), ask_later("roots/list", {})
        return text(json.dumps([wait(first), wait(second)]))
    if name == "log":
        for level in ("debug", "info", "error"):
            send(method="notifications/message", params={"level": level, "data": level})
        return text("logged")
    if name == "noise":
        write("this is no JSON")
        write('{"jsonrpc":"2.0","id":')
        write("")
        return text("after the noise")
    if name == "huge":
        return text("x" * 5_000_000)
    if name == "progress":
        for step in (1, 2, 3):
            send(method="notifications/progress", params={"progressToken": meta.get("progressToken", "none"), "progress": step, "total": 3})
        return text(json.dumps(meta))
    if name == "touch":
        send(method="notifications/resources/updated", params={"uri": "test://one"})
        return text("touched")
    if name == "env":
        return text(json.dumps(sorted(name for name in os.environ if name.startswith("CLIENTMCP_"))))
    if name == "fail":
        send(id=id, error={"code": -32099, "message": "as asked", "data": {"a": [1]}})
        return None
    return text(f"no such tool: {name}", isError=True)


CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "logging": {}}
SERVER = {"name": "by-hand", "version": "1.5", "title": "By hand"}


def handle(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method is None:
        with answered:
            answers[id] = message.get("result", message.get("error"))
            answered.notify_all()
        return
    if method == "server/discover":
        if "--silent-probe" in flags:
            return
        if "--die-on-probe" in flags:
            os._exit(4)
        if modern:
            send(id=id, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES,
                                "_meta": {"io.modelcontextprotocol/serverInfo": SERVER}})
            return
    if method == "initialize" and not modern:
        tell(f"initialized by {params['clientInfo']['name']} for {sorted(params['capabilities'])}")
        send(id=id, result={"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "serverInfo": SERVER,
                            "instructions": "Handle with care."})
    elif method == "tools/list":
        start = int(params.get("cursor", 0))
        page = [{"name": name, "inputSchema": {"type": "object"}, "x-order": 1.50} for name in tools[start:start + 5]]
        more = {"nextCursor": str(start + 5)} if start + 5 < len(tools) else {}
        send(id=id, result={"tools": page, **more})
    elif method == "prompts/list":
        send(id=id, result={"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]})
    elif method == "resources/list":
        send(id=id, result={"resources": [{"uri": "test://one", "name": "one"}]})
    elif method == "resources/templates/list":
        send(id=id, result={"resourceTemplates": [{"uriTemplate": "test://any/{n}", "name": "any"}]})
    elif method == "tools/call":
        result = run(id, params)
        if result is not None:
            send(id=id, result=result)
    elif method == "prompts/get":
        words = f"Hello {params['arguments']['who']}"
        send(id=id, result={"messages": [{"role": "user", "content": {"type": "text", "text": words}}]})
    elif method == "resources/read":
        send(id=id, result={"contents": [{"uri": params["uri"], "text": "content"}]})
    elif method == "completion/complete":
        send(id=id, result={"completion": {"values": [params["argument"]["value"] + "!"]}})
    elif method == "notifications/cancelled":
        cancelled.add(params["requestId"])
        tell(f"cancelled because {params.get('reason')}")
    elif method in ("logging/setLevel", "resources/subscribe"):
        tell(f"{method} {params.get('level', params.get('uri'))}")
        send(id=id, result={})
    elif method == "subscriptions/listen":
        tell(f"listening for {json.dumps(params['notifications'])}")
    elif id is not None:
        send(id=id, error={"code": -32601, "message": f"Unknown method: {method}"})


if "--deaf" in flags:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(f"deaf with PID {os.getpid()}")
if "--slow-start" in flags:
    time.sleep(float(flags[flags.index("--slow-start") + 1]))
for line in sys.stdin:
    threading.Thread(target=handle, args=(json.loads(line),), daemon=True).start()
tell("stdin is closed")
while "--deaf" in flags:
    time.sleep(1)
