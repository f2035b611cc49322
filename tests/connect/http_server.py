"""A Streamable HTTP MCP server of 2025 by hand: `http_server.py PORT`. It does what few do: forgets sessions, cuts
streams, answers 500, asks two agents at once. It has no stream of notices (405)."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sessions = set()
answers = {}
answered = threading.Condition()
TOOLS = ["echo", "forget", "cut", "broken", "ask", "chunked", "long"]


def text(words):
    return {"content": [{"type": "text", "text": words}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, id, result, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        self.answer(200, body, Content_Type="application/json; charset=utf-8", **headers)

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, message, pieces=1):
        data = f": note\r\nid: 7\r\nevent: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            piece = data[at:at + size]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()

    def end_events(self):
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self):
        self.answer(405)

    def do_DELETE(self):
        sessions.discard(self.headers["Mcp-Session-Id"])
        print("deleted", flush=True)
        self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method == "initialize":
            session = f"s{len(sessions)}-{id}"
            sessions.add(session)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
            return self.json(id, result, Mcp_Session_Id=session)
        if self.headers["Mcp-Session-Id"] not in sessions:
            return self.answer(404)
        if self.headers["MCP-Protocol-Version"] != "2025-06-18":
            return self.answer(400)
        if method is None:
            with answered:
                answers[id] = message.get("result", message.get("error"))
                answered.notify_all()
        if id is None or method is None:
            return self.answer(202)
        if method == "tools/list":
            return self.json(id, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
        name, arguments = params["name"], params.get("arguments", {})
        if name == "forget":
            sessions.clear()
            return self.json(id, text("forgotten"))
        if name == "broken":
            return self.answer(500, b"oops")
        if name == "echo":
            return self.json(id, text(arguments.get("text", "")))
        self.begin_events()
        if name == "cut":
            self.close_connection = True
            return
        if name == "long":
            try:
                while True:
                    threading.Event().wait(0.1)
                    self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
            except OSError:
                print("hung up", flush=True)
            return
        if name == "ask":
            key = f"ask-{id}"
            params = {"message": arguments["who"], "requestedSchema": {"type": "object", "properties": {}}}
            self.event({"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": params})
            with answered:
                answered.wait_for(lambda: key in answers, 30)
            result = text(json.dumps([arguments["who"], answers.get(key)]))
        else:
            result = text("in pieces")
        self.event({"jsonrpc": "2.0", "id": id, "result": result}, pieces=9)
        self.end_events()


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
