"""Tests of mcpkit, in the order of its sections, so that the two files can be read side by side.

Each name is a sentence that states an outcome. Tables of cases are dicts: the key says what the
case shows (with the number of a field report where there is one). Nothing sleeps, ports are picked
by the system, and every wait has a limit.
"""
import ast
import contextlib
import dataclasses
import enum
import http.client
import io
import json
import os
import pathlib
import queue
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import typing

import pytest

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import mcpkit  # noqa: E402
from mcpkit import Client, Context, MCPError, Server, ToolError, ToolResult  # noqa: E402

WAIT = 20              # seconds: no test waits this long unless it fails
JSON_BOTH = {"Content-Type": "application/json",
             "Accept": "application/json, text/event-stream"}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}}


def cases(table):
    """Parametrize a test with the values of a dict, its keys naming the cases."""
    values = list(table.values())
    return pytest.mark.parametrize("case", values, ids=list(table))


class Reply(typing.NamedTuple):
    """An HTTP answer: status, headers with lower-case names, body."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def messages(self):
        """The JSON-RPC messages of an event stream."""
        parser = mcpkit.SSEParser()
        return [json.loads(event.data) for event in parser.feed(self.body)]


def ask(service, body=b"", method="POST", path=None, **headers):
    """Send one request and return the Reply; header names are written with underscores."""
    connection = http.client.HTTPConnection(*service.server_address[:2], timeout=WAIT)
    sent = dict(JSON_BOTH) if method == "POST" else {}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    sent = {name: value for name, value in sent.items() if value is not None}
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    with contextlib.closing(connection):
        connection.request(method, path or service.policy.path, body or None, sent)
        response = connection.getresponse()
        return Reply(response.status, {name.lower(): value for name, value
                                       in response.getheaders()}, response.read())


def call(method, params=None, request_id=1):
    """Return a legacy request."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def ask_modern(service, method, params=None, request_id=1, **headers):
    """Send a modern request with all that it needs, unless `headers` say otherwise."""
    params = {"_meta": META, **(params or {})}
    name = params.get("name", params.get("uri"))
    given = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    if name is not None:
        given["Mcp_Name"] = name
    return ask(service, call(method, params, request_id), **{**given, **headers})


def send_raw(service, data, cuts=()):
    """Send bytes as they are, in pieces ending at `cuts`, and return all that comes back."""
    with socket.create_connection(service.server_address[:2], timeout=WAIT) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in zip((0, *cuts), (*cuts, len(data))):
            sock.sendall(data[start:end])
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def make_raw(body, *headers, target="/mcp", method="POST", version="1.1", length=True):
    """Return the bytes of a request; headers are whole lines."""
    lines = [f"{method} {target} HTTP/{version}", "Host: 127.0.0.1",
             "Content-Type: application/json", "Accept: application/json, text/event-stream",
             *([f"Content-Length: {len(body)}"] if length else []), *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def build_sample_server(**options):
    """Return a server with one of everything, and tools that go wrong in every way."""
    server = Server("sample", version="1.2.3", **options)

    @server.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def report(ctx: Context) -> str:
        """Say how far it is, and what it thinks."""
        ctx.progress(1, 2, "half")
        ctx.progress(1, 2, "again")
        ctx.log("info", "working")
        ctx.log("debug", "details")
        ctx.progress(2, 2)
        return "done"

    @server.tool
    def fail():
        raise ToolError("no \u2028 luck")

    @server.tool
    def crash():
        raise RuntimeError("secret of the house")

    @server.tool
    def leave():
        sys.exit(3)

    @server.tool
    def infinite():
        return {"value": float("inf")}

    @server.tool
    def lie() -> typing.List[int]:
        return ["no number"]

    @server.tool(mime_type="image/png")
    def picture():
        return b"\x89PNG"

    @server.tool
    def strange():
        return "a\u2028b\u0085c\r\nd"

    @server.resource("sample://text")
    def text():
        """A text."""
        return "hello"

    @server.resource("sample://bytes", mime_type="application/octet-stream")
    def data():
        return b"\x00\xff"

    @server.resource("sample://item/{number}")
    def item(number: int):
        return f"item {number + 1}"

    @server.prompt(title="Greet")
    def greet(name: typing.Annotated[str, "Whom."], polite: bool = True):
        """Greet somebody."""
        return [f"Greet {name}.", {"role": "assistant", "content": f"Politely: {polite}"}]

    @server.completion("greet", "name")
    def names(value: str):
        return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]

    return server


@pytest.fixture
def pong():
    with mcpkit.HTTPService(mcpkit.build_pong_server(), port=0) as service:
        yield service


@pytest.fixture
def sample():
    with mcpkit.HTTPService(build_sample_server(), port=0) as service:
        yield service


@pytest.fixture
def notes():
    with mcpkit.HTTPService(load_sample("notes.py"), port=0) as service:
        yield service


def load_sample(name):
    """Return a fresh Server of a file in samples/."""
    sys.modules.pop("mcpkit_target", None)
    return mcpkit.load_server(str(ROOT / "samples" / name))


@contextlib.contextmanager
def quiet_log(server):
    """Collect what a server logs instead of writing it to standard error."""
    lines = []
    server.runtime = server.runtime._replace(log=lines.append, log_exception=lines.append)
    yield lines


# =============================================================================================
# 9. SERVER
# =============================================================================================

def receive(server, value, headers=None, channel=None):
    """Return the JSON answer of a server to a JSON value, as over stdio."""
    answer = server.receive(value, headers, None, channel or mcpkit.Channel())
    return json.loads(answer.data) if answer.data else None


def tool_call(name, **arguments):
    return call("tools/call", {"name": name, "arguments": arguments})


TOOL_RESULTS = {
    "a number is structured content in the modern era only":
        (tool_call("add", a=2), {"content": [{"type": "text", "text": "3"}]}),
    "a text is content": (tool_call("report"), {"content": [{"type": "text", "text": "done"}]}),
    "a tool's failure is a result": (tool_call("fail"), {
        "content": [{"type": "text", "text": "no \u2028 luck"}], "isError": True}),
    "C98 arguments that break the schema are a result": (tool_call("add", a="x"), {
        "content": [{"type": "text", "text": "Invalid arguments for tool 'add': "
                     '/a: must be an integer, but is "x"'}], "isError": True}),
    "bytes of an image are an image": (tool_call("picture"), {
        "content": [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]}),
}


@cases(TOOL_RESULTS)
def test_a_tool_call_gives_the_result_that_its_return_value_means(case):
    request, result = case
    assert receive(build_sample_server(), request)["result"] == result


def test_a_number_is_structured_content_in_the_modern_era():
    request = call("tools/call", {"name": "add", "arguments": {"a": 2}, "_meta": META})
    result = receive(build_sample_server(), request)["result"]
    assert result["structuredContent"] == 3 and result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sample"


@pytest.mark.parametrize("name", ["crash", "leave", "infinite", "lie"])
def test_what_a_tool_does_wrong_is_logged_here_and_says_nothing_there(name):
    server = build_sample_server()
    with quiet_log(server) as lines:
        result = receive(server, tool_call(name))["result"]
    assert result == {"content": [{"type": "text", "text":
                                   f"Error calling tool {name!r}: internal error"}],
                      "isError": True}
    assert lines == [f"tool {name} failed"]


ERRORS = {
    "C98 an unknown tool": (tool_call("nope"), -32602, "Unknown tool: nope"),
    "C98 an unknown prompt": (call("prompts/get", {"name": "nope"}), -32602,
                              "Unknown prompt: nope"),
    "C98 an unknown resource": (call("resources/read", {"uri": "x://y"}), -32602,
                                "Resource not found"),
    "a template's part of the wrong type": (
        call("resources/read", {"uri": "sample://item/one"}), -32602, "Resource not found"),
    "a prompt without its argument": (
        call("prompts/get", {"name": "greet"}), -32602,
        "Invalid arguments for prompt 'greet': (root): must have the property \"name\", but is {}"),
    "an unknown method": (call("posts/list"), -32601, "Method not found"),
    "a bad cursor": (call("tools/list", {"cursor": "zzz"}), -32602,
                     "Invalid cursor: zzz (use the nextCursor of a list as it is)"),
    "a bad log level": (call("logging/setLevel", {"level": "loud"}), -32602,
                        "Invalid params: level must be one of debug, info, notice, warning, "
                        "error, critical, alert, emergency, but is loud"),
    "an unknown reference": (call("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
        -32602, 'Unknown reference: {"type": "ref/prompt", "name": "x"}'),
}


@cases(ERRORS)
def test_what_cannot_be_answered_is_an_error_that_says_why(case):
    request, code, message = case
    error = receive(build_sample_server(), request)["error"]
    assert (error["code"], error["message"]) == (code, message)


@pytest.mark.parametrize("version, answered", [
    ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
    ("2025-11-25", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("2099-01-01", "2025-11-25"),
    ("", "2025-11-25")])
def test_c45_initialize_agrees_on_a_legacy_revision_and_never_echoes_another(version, answered):
    result = receive(build_sample_server(), call("initialize", {"protocolVersion": version}))
    assert result["result"]["protocolVersion"] == answered


def test_c45_initialize_without_a_version_is_refused():
    assert receive(build_sample_server(), call("initialize", {}))["error"]["code"] == -32602


@pytest.mark.parametrize("params", [None, {}])
def test_c96_ping_is_answered_before_anything_else(params):
    assert receive(build_sample_server(), call("ping", params)) == {
        "jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "nope/nope",
                                    "resources/subscribe"])
def test_c95_the_modern_era_has_no_legacy_methods(method):
    request = call(method, {"_meta": META, "protocolVersion": "2025-11-25", "level": "info"})
    error = receive(build_sample_server(), request)["error"]
    assert error == {"code": -32601, "message": "Method not found", "data": method}


def test_c95_a_feature_that_a_server_does_not_have_is_no_method_of_it():
    server = Server("empty")
    assert receive(server, call("tools/list"))["error"]["code"] == -32601
    assert server.capabilities == {"logging": {}}


def test_discover_names_revisions_features_and_the_server():
    result = receive(build_sample_server(instructions="Be kind."),
                     call("server/discover", {"_meta": META}))["result"]
    assert result["supportedVersions"][0] == "2026-07-28"
    assert set(result["capabilities"]) == {"completions", "logging", "prompts", "resources",
                                           "tools"}
    assert result["instructions"] == "Be kind."
    assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (
        0, "public", "complete")


LISTS = {
    "tools": ("tools/list", "tools", "name", ["add", "report", "fail"]),
    "resources": ("resources/list", "resources", "uri", ["sample://text", "sample://bytes"]),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate",
                  ["sample://item/{number}"]),
    "prompts": ("prompts/list", "prompts", "name", ["greet"]),
}


@cases(LISTS)
def test_a_list_has_its_items_in_order_and_caching_hints_in_both_eras(case):
    method, member, key, names = case
    for params in ({}, {"_meta": META}):
        result = receive(build_sample_server(), call(method, params))["result"]
        assert [item[key] for item in result[member]][:len(names)] == names
        assert (result["ttlMs"], result["cacheScope"]) == (0, "public")


def test_pages_follow_each_other_to_the_end():
    server, names, cursor = build_sample_server(page_size=2), [], None
    for _ in range(20):
        params = {} if cursor is None else {"cursor": cursor}
        result = receive(server, call("tools/list", params))["result"]
        names += [tool["name"] for tool in result["tools"]]
        cursor = result.get("nextCursor")
        if cursor is None:
            break
    assert names == list(server.tools)


def test_resources_prompts_and_completions_are_answered():
    server = build_sample_server()
    read = receive(server, call("resources/read", {"uri": "sample://item/41"}))["result"]
    assert read["contents"] == [{"uri": "sample://item/41", "mimeType": "text/plain",
                                 "text": "item 42"}]
    blob = receive(server, call("resources/read", {"uri": "sample://bytes"}))["result"]
    assert blob["contents"][0]["blob"] == "AP8="
    prompt = receive(server, call("prompts/get", {"name": "greet", "arguments": {
        "name": "Ada", "polite": "false"}}))["result"]
    assert prompt["description"] == "Greet somebody."
    assert [message["content"]["text"] for message in prompt["messages"]] == [
        "Greet Ada.", "Politely: False"]
    completion = receive(server, call("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "name", "value": "A"}}))["result"]
    assert completion["completion"] == {"values": ["Ada", "Alan"], "total": 2, "hasMore": False}


class RecordingChannel(mcpkit.Channel):
    """A way back that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)


NOTIFICATIONS = {
    "modern without token and level": ({"_meta": META}, []),
    "modern with a token": ({"_meta": {**META, "progressToken": "t"}}, [1, 2]),
    "modern with a level": ({"_meta": {**META, "io.modelcontextprotocol/logLevel": "info"}},
                            ["working"]),
    "modern with a lower level": (
        {"_meta": {**META, "io.modelcontextprotocol/logLevel": "debug"}}, ["working", "details"]),
    "legacy without a token": ({}, ["working"]),
    "legacy with a token": ({"_meta": {"progressToken": 7}}, [1, "working", 2]),
}


@cases(NOTIFICATIONS)
def test_a_tool_tells_only_what_was_asked_for_and_progress_only_grows(case):
    params, told = case
    channel = RecordingChannel()
    receive(build_sample_server(), call("tools/call", {"name": "report", **params}),
            channel=channel)
    assert [message["params"].get("progress", message["params"].get("data"))
            for message in channel.sent] == told


def test_sessions_expire_make_room_and_are_kept_by_use():
    now = [0.0]
    ids = iter(f"s{number}" for number in range(100))
    runtime = mcpkit.system_runtime()._replace(now=lambda: now[0], new_id=lambda: next(ids))
    sessions = mcpkit.Sessions(runtime, mcpkit.Limits(max_sessions=2, session_seconds=10))
    first, second = (sessions.create("2025-11-25", {}, {}) for _ in range(2))
    now[0] = 5
    assert sessions.find(first.id) is first
    third = sessions.create("2025-11-25", {}, {})
    assert sessions.find(second.id) is None and sessions.find(third.id) is third
    now[0] = 14
    assert sessions.find(first.id) is first
    now[0] = 25
    assert sessions.find(first.id) is None and sessions.find(None) is None
    fourth = sessions.create("2025-11-25", {}, {})
    assert len(sessions) == 1
    assert sessions.delete(fourth.id) and not sessions.delete(fourth.id)


REGISTRATION_FAULTS = {
    "a tool twice": lambda server: server.tool(name="add")(lambda: None),
    "an unknown limit": lambda server: Server("x", max_sighs=3),
    "an unknown stream mode": lambda server: Server("x", stream="sometimes"),
    "a template that its function does not know":
        lambda server: server.resource("a://{b}")(lambda c: None),
    "a template of a higher level": lambda server: server.resource("a://{?b}")(lambda b: None),
    "a schema that is none": lambda server: server.tool(
        name="new", input_schema={"type": "strin"})(lambda: None),
}


@cases(REGISTRATION_FAULTS)
def test_a_registration_that_cannot_work_is_refused_at_once(case):
    with pytest.raises(mcpkit.MCPKitError):
        case(build_sample_server())


def test_a_batch_is_answered_as_one_in_2025_03_26_only():
    server, batch = build_sample_server(), [call("ping"), call("ping", request_id=2),
                                            {"jsonrpc": "2.0", "method": "notifications/x"}]
    answers = receive(server, batch, {"mcp-protocol-version": "2025-03-26"})
    assert [answer["id"] for answer in answers] == [1, 2]
    for version in ("2025-06-18", "2025-11-25"):
        assert receive(server, batch, {"mcp-protocol-version": version})["error"]["code"] == -32600


def test_the_whole_result_that_a_tool_returns_is_sent_as_it_is():
    server = Server("x")
    server.tool(name="t")(lambda: ToolResult(content=[], isError=False))
    assert receive(server, tool_call("t"))["result"] == {"content": [], "isError": False}


# =============================================================================================
# 10. SERVING
# =============================================================================================

def test_a_request_is_answered_with_one_json_object(pong):
    reply = ask(pong, call("initialize", {"protocolVersion": "2026-07-28"}))
    assert reply.status == 200 and reply.headers["content-type"] == "application/json"
    assert reply.json["result"]["protocolVersion"] == "2025-11-25"
    assert "mcp-session-id" not in reply.headers


def test_a_notification_is_accepted_without_a_body(pong):
    reply = ask(pong, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (reply.status, reply.body, reply.headers["content-length"]) == (202, b"", "0")
    reply = ask_modern(pong, "tools/list")
    assert reply.json["result"]["tools"][0]["name"] == "pong"


PONG = {"name": "pong", "arguments": {"message": "ping"}}
MODERN_REFUSALS = {
    "C91 no Mcp-Name": (PONG, {"Mcp_Name": None}, 400, -32020),
    "C91 another Mcp-Name": (PONG, {"Mcp_Name": "other"}, 400, -32020),
    "C91 no Mcp-Method": (PONG, {"Mcp_Method": None}, 400, -32020),
    "C91 another Mcp-Method": (PONG, {"Mcp_Method": "tools/list"}, 400, -32020),
    "C91 a body without a name": ({"arguments": {}}, {"Mcp_Name": "pong"}, 400, -32020),
    "C75 broken base64": (PONG, {"Mcp_Name": "=?base64?!?="}, 400, -32020),
    "C92 no _meta": ({**PONG, "_meta": None}, {}, 400, -32602),
    "C92 no capabilities": ({**PONG, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28"}}, {}, 400, -32602),
    "C92 capabilities null": ({**PONG, "_meta": {
        **META, "io.modelcontextprotocol/clientCapabilities": None}}, {}, 400, -32602),
    "C92 another version in the header": (PONG, {"MCP_Protocol_Version": "2025-11-25"},
                                          400, -32020),
    "C92 no version in the header": (PONG, {"MCP_Protocol_Version": None}, 400, -32020),
    "C94 a version of the future": ({**PONG, "_meta": {
        **META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}},
        {"MCP_Protocol_Version": "2031-01-01"}, 400, -32022),
    "an unknown tool": ({"name": "x"}, {}, 400, -32602),
}


@cases(MODERN_REFUSALS)
def test_a_modern_request_that_contradicts_itself_is_refused_with_its_id(pong, case):
    params, headers, status, code = case
    reply = ask_modern(pong, "tools/call", params, request_id="q", **headers)
    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (status, code, "q")


def test_c94_the_refusal_of_a_version_lists_those_that_are_spoken(pong):
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    reply = ask_modern(pong, "tools/list", {"_meta": meta}, MCP_Protocol_Version="2031-01-01")
    assert reply.json["error"]["data"] == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "requested": "2031-01-01"}


def test_c95_a_modern_method_that_is_unknown_is_404_and_a_legacy_one_200(pong):
    assert ask_modern(pong, "nope/nope").status == 404
    reply = ask(pong, call("nope/nope"))
    assert (reply.status, reply.json["error"]["code"]) == (200, -32601)


def test_c95_an_unknown_modern_notification_is_accepted(pong):
    reply = ask(pong, {"jsonrpc": "2.0", "method": "notifications/nope"},
                MCP_Protocol_Version="2026-07-28")
    assert (reply.status, reply.body) == (202, b"")


def test_c92_client_info_may_be_missing(pong):
    meta = {name: value for name, value in META.items() if not name.endswith("clientInfo")}
    assert ask_modern(pong, "tools/list", {"_meta": meta}).status == 200


def test_c75_a_name_in_base64_is_decoded_before_it_is_compared():
    server = Server("x")
    server.tool(name="\u65e5\u672c")(lambda: "ok")
    with mcpkit.HTTPService(server, port=0) as service:
        reply = ask_modern(service, "tools/call", {"name": "\u65e5\u672c"},
                           Mcp_Name="=?base64?5pel5pys?=")
    assert reply.json["result"]["content"][0]["text"] == "ok"


BODIES = {
    "C84 a batch": (json.dumps([call("ping")]).encode(), 400, -32600, None),
    "C84 an empty batch": (b"[]", 400, -32600, None),
    "C84 a scalar": (b'"x"', 400, -32600, None),
    "C84 half an object": (b"{", 400, -32700, None),
    "C84 another JSON-RPC": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600, 1),
    "C84 no JSON-RPC": (b'{"id":1,"method":"x"}', 400, -32600, 1),
    "C34 a float as id": (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', 400, -32600, None),
    "C34 a boolean as id": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600, None),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600, None),
    "C86 NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', 400, -32700, None),
    "a number out of range": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}',
                              400, -32700, None),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700, None),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 5000
                 + b"]" * 5000 + b"}}", 400, -32700, None),
    "nothing": (b" ", 400, -32700, None),
    "params that are a list": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400,
                               -32600, 1),
}


@cases(BODIES)
def test_a_body_that_is_no_message_is_refused_and_the_connection_goes_on(pong, case):
    body, status, code, request_id = case
    good = make_raw(json.dumps(call("ping")).encode())
    answer = send_raw(pong, make_raw(body) + good)
    first, second = split_answers(answer)
    assert first.status == status
    assert (first.json["error"]["code"], first.json["id"]) == (code, request_id)
    assert second.json["result"] == {}


def split_answers(data):
    """Return the replies in the bytes of a connection."""
    replies = []
    while data:
        source = io.BytesIO(data)
        response = http.client.HTTPResponse(FakeSocket(source))
        response.begin()
        body = response.read() if response.length is not None or response.chunked else b""
        replies.append(Reply(response.status, {name.lower(): value for name, value
                                               in response.getheaders()}, body))
        data = source.getvalue()[source.tell():]
    return replies


class FakeSocket:
    def __init__(self, source):
        self.source = source

    def makefile(self, *_):
        self.source.close = lambda: None
        return self.source


@pytest.mark.parametrize("request_id", ["1", 1, "", -5, 10 ** 30])
def test_c34_an_id_comes_back_as_it_was_sent(pong, request_id):
    assert ask(pong, call("ping", request_id=request_id)).json["id"] == request_id


PING = json.dumps(call("ping")).encode()
FRAMING = {
    "C81 both lengths": (make_raw(PING, "Transfer-Encoding: chunked"), 400),
    "two lengths": (make_raw(PING, f"Content-Length: {len(PING)}"), 400),
    "C87 a negative length": (make_raw(PING, "Content-Length: -1", length=False), 400),
    "C87 a length in words": (make_raw(PING, "Content-Length: abc", length=False), 400),
    "a signed length": (make_raw(PING, f"Content-Length: +{len(PING)}", length=False), 400),
    "a length with an underscore": (make_raw(PING, "Content-Length: 4_0", length=False), 400),
    "a length in other digits": (make_raw(PING, "Content-Length: \xb2", length=False), 400),
    "C87 an enormous length": (make_raw(b"", "Content-Length: 99999999999", length=False), 413),
    "C87 a length over the limit": (make_raw(b"", "Content-Length: 10000000", length=False), 413),
    "no length": (make_raw(b"", length=False), 411),
    "an unknown coding": (make_raw(PING, "Transfer-Encoding: gzip", length=False), 501),
    "a space before the colon": (make_raw(PING, "X-A : b"), 400),
    "a folded header": (make_raw(PING, "X-A: b", " c"), 400),
    "a bare CR in a header": (make_raw(PING, "X-A: b\rc"), 400),
    "a NUL in a header": (make_raw(PING, "X-A: b\0c"), 400),
    "a bare LF": (make_raw(PING).replace(b"\r\n", b"\n"), 400),
    "C81 a bad chunk size": (make_raw(b"xyz\r\n", "Transfer-Encoding: chunked", length=False), 400),
    "a chunk longer than it says": (
        make_raw(b"2\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=False), 400),
    "two hosts": (make_raw(PING, "Host: 127.0.0.1"), 421),
    "another host": (make_raw(PING).replace(b"Host: 127.0.0.1", b"Host: evil.example"), 421),
    "no host": (make_raw(PING).replace(b"Host: 127.0.0.1\r\n", b""), 400),
    "a path that is none": (make_raw(PING, target="/other"), 404),
    "a target without a slash": (make_raw(PING, target="*"), 404),
    "another version of HTTP": (make_raw(PING, version="2.0"), 505),
    "no HTTP at all": (b"SSH-2.0-OpenSSH_9\r\n\r\n", 400),
    "a TLS handshake": (b"\x16\x03\x01\x02\x00\x01\x00", 400),
    "headers without end": (make_raw(PING, "X: " + "a" * 70_000), 431),
    "too many headers": (make_raw(PING, *["X: y"] * 101), 431),
    "C83 a text": (make_raw(PING).replace(b"application/json\r\nA", b"text/plain\r\nA"), 415),
    "C83 no type": (make_raw(PING).replace(b"Content-Type: application/json\r\n", b""), 415),
    "a compressed body": (make_raw(PING, "Content-Encoding: gzip"), 415),
    "C80 only JSON": (make_raw(PING).replace(b", text/event-stream", b""), 406),
    "C90 PUT": (make_raw(PING, method="PUT"), 405),
    "C90 HEAD": (make_raw(b"", method="HEAD"), 405),
    "GET without sessions": (make_raw(b"", method="GET"), 405),
    "DELETE without sessions": (make_raw(b"", method="DELETE"), 405),
    "an expectation that is none": (make_raw(PING, "Expect: tea"), 417),
}


@cases(FRAMING)
def test_a_refused_request_has_a_status_of_its_own_and_is_never_read_as_the_next(pong, case):
    data, status = case
    answer = send_raw(pong, data + make_raw(PING))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in head.split(b"\r\n")
    error = json.loads(body)
    assert error["id"] is None and error["error"]["message"]


@cases({name: FRAMING[name] for name in FRAMING if "without end" not in name})
def test_a_refusal_does_not_depend_on_where_the_bytes_were_cut(pong, case):
    data, status = case
    step = max(1, len(data) // 6)
    assert send_raw(pong, data, range(step, len(data), step)).startswith(b"HTTP/1.1 %d " % status)


ACCEPTED = {
    "plain": make_raw(PING),
    "with a leading empty line": b"\r\n" + make_raw(PING),
    "C81 chunked with an extension and a trailer": make_raw(
        b"5;x=1\r\n" + PING[:5] + b"\r\n%x\r\n" % len(PING[5:]) + PING[5:]
        + b"\r\n0\r\nX-Trailer: 1\r\n\r\n", "Transfer-Encoding: chunked", length=False),
    "absolute form": make_raw(PING, target="http://127.0.0.1/mcp?x=1"),
    "C80 anything": make_raw(PING).replace(b"application/json, text/event-stream", b"*/*"),
    "C83 a charset": make_raw(PING).replace(b"application/json\r\nA",
                                            b"Application/JSON; charset=utf-8\r\nA"),
    "localhost with a port": make_raw(PING).replace(b"Host: 127.0.0.1", b"Host: LocalHost:99"),
    "the IPv6 loopback": make_raw(PING).replace(b"Host: 127.0.0.1", b"Host: [::1]:1"),
    "C106 a session id that means nothing here": make_raw(PING, "Mcp-Session-Id: x"),
}


@cases(ACCEPTED)
def test_an_acceptable_request_is_answered_wherever_its_bytes_are_cut(pong, case):
    for cuts in ((), range(1, len(case)), (len(case) // 2,)):
        replies = split_answers(send_raw(pong, case, cuts))
        assert [reply.json["result"] for reply in replies] == [{}]


def test_pipelined_requests_are_answered_in_order(pong):
    data = b"".join(make_raw(json.dumps(call("ping", request_id=number)).encode())
                    for number in range(20))
    assert [reply.json["id"] for reply in split_answers(send_raw(pong, data))] == list(range(20))


def test_c90_a_client_that_waits_for_100_continue_gets_it(pong):
    answer = send_raw(pong, make_raw(PING, "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_an_http_1_0_client_gets_its_answer_and_the_end(sample):
    answer = send_raw(sample, make_raw(PING, version="1.0"))
    assert b"\r\nConnection: close\r\n" in answer and answer.endswith(b'"result":{}}')
    report = json.dumps(call("tools/call", {"name": "report"})).encode()
    streamed = send_raw(sample, make_raw(report, version="1.0"))
    assert b"Transfer-Encoding" not in streamed and streamed.count(b"data: ") == 2


def test_a_request_that_does_not_arrive_in_time_is_408():
    with mcpkit.HTTPService(Server("x", read_seconds=0.05), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            sock.sendall(b"POST /mcp HTTP/1.1\r\nHost:")
            assert sock.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_is_silent_is_closed_quietly():
    with mcpkit.HTTPService(Server("x", idle_seconds=0.05), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            assert sock.recv(65536) == b""


def test_a_connection_too_many_is_told_so_and_the_others_go_on():
    with mcpkit.HTTPService(Server("x", max_connections=1), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as first:
            first.sendall(make_raw(PING))
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
            with socket.create_connection(service.server_address, timeout=WAIT) as second:
                refusal = second.recv(65536)
            assert refusal.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in refusal
            first.sendall(make_raw(PING))
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")


ORIGINS = {
    "C103 none": (None, 200), "C103 localhost": ("http://localhost:5173", 200),
    "C103 127.0.0.1": ("http://127.0.0.1:9", 200), "C103 ::1": ("http://[::1]:1", 200),
    "C103 another site": ("http://evil.example", 403), "C103 null": ("null", 403),
    "C103 a look-alike": ("http://localhost.evil.example", 403),
    "a user before the host": ("http://localhost@evil.example", 403),
    "one that is allowed": ("https://app.example", 200),
    "an allowed one with a port": ("https://app.example:1", 403),
}


@cases(ORIGINS)
def test_a_page_may_call_only_from_this_machine_or_an_allowed_origin(case):
    origin, status = case
    with mcpkit.HTTPService(mcpkit.build_pong_server(), port=0,
                            allow_origins=("https://app.example",)) as service:
        reply = ask(service, call("ping"), Origin=origin)
    assert reply.status == status
    assert reply.headers.get("access-control-allow-origin") == (
        origin if status == 200 else None)


def test_c103_the_origin_is_checked_before_everything_else(pong):
    data = make_raw(b"{", "Origin: http://evil.example", "Content-Encoding: gzip", target="/x")
    assert send_raw(pong, data).startswith(b"HTTP/1.1 403 ")


def test_c105_a_browser_that_asks_first_is_answered_without_a_token(pong):
    names = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name,mcp-param-region"
    reply = ask(pong, method="OPTIONS", Origin="http://localhost:5173",
                Access_Control_Request_Headers=names)
    allowed = set(reply.headers["access-control-allow-headers"].split(", "))
    assert reply.status == 204 and set(names.split(",")) <= allowed
    assert {"mcp-session-id", "last-event-id"} <= allowed
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert reply.headers["vary"] == "Origin"
    assert reply.headers["access-control-allow-origin"] == "http://localhost:5173"


REFUSED_TO_A_PAGE = {
    "400": dict(body=b"{"), "404": dict(body=call("ping"), path="/x"),
    "406": dict(body=call("ping"), Accept="text/html"),
}


@cases(REFUSED_TO_A_PAGE)
def test_c105_a_page_can_read_why_it_was_refused(pong, case):
    reply = ask(pong, Origin="http://localhost:1", **case)
    assert reply.status >= 400
    assert reply.headers["access-control-allow-origin"] == "http://localhost:1"
    assert reply.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"


def test_a_tool_that_has_something_to_say_answers_with_a_stream(sample):
    reply = ask(sample, call("tools/call", {"name": "report", "_meta": {"progressToken": 1}}))
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["cache-control"] == "no-cache, no-transform"
    assert reply.headers["x-accel-buffering"] == "no"
    assert [message.get("method") for message in reply.messages] == [
        "notifications/progress", "notifications/message", "notifications/progress", None]
    assert reply.messages[-1]["result"]["content"][0]["text"] == "done"


def test_a_server_that_never_streams_wants_no_stream_from_its_clients():
    with mcpkit.HTTPService(build_sample_server(stream="never"), port=0) as service:
        reply = ask(service, call("tools/call", {"name": "report"}), Accept="application/json")
    assert reply.json["result"]["content"][0]["text"] == "done"


def test_c20_text_with_odd_line_ends_is_one_data_line(sample):
    server = build_sample_server(stream="always")
    with mcpkit.HTTPService(server, port=0) as service:
        reply = ask(service, call("tools/call", {"name": "strange"}))
    assert reply.body.isascii() and reply.body.count(b"\ndata: ") == 1
    assert reply.messages[0]["result"]["content"][0]["text"] == "a\u2028b\u0085c\r\nd"


def build_waiting_server():
    """Return a server with a tool that waits to be released, and what it saw."""
    server, started, release, seen = Server("x"), threading.Event(), threading.Event(), []

    @server.tool
    def wait(ctx: Context):
        started.set()
        for _ in range(WAIT * 20):
            if release.wait(0.05) or ctx.cancelled:
                break
        seen.append(ctx.cancelled)
        return "waited"

    return server, started, release, seen


def test_c100_an_answer_that_takes_long_becomes_a_stream_with_keep_alives():
    server, _, release, _ = build_waiting_server()
    with mcpkit.HTTPService(server, port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            sock.sendall(make_raw(json.dumps(call("tools/call", {"name": "wait"})).encode()))
            first = sock.recv(65536)
            assert b"text/event-stream" in first and first.endswith(b": keep-alive\n\n\r\n")
            release.set()
            rest = b""
            while not rest.endswith(b"0\r\n\r\n"):
                rest += sock.recv(65536)
            assert b"waited" in rest


def test_c107_a_client_that_goes_away_cancels_its_call_and_the_server_goes_on(capfd):
    server, started, _, seen = build_waiting_server()
    with mcpkit.HTTPService(server, port=0) as service:
        sock = socket.create_connection(service.server_address, timeout=WAIT)
        sock.sendall(make_raw(json.dumps(call("tools/call", {"name": "wait"})).encode()))
        assert started.wait(WAIT)
        sock.close()
        deadline = time.monotonic() + WAIT
        while not seen and time.monotonic() < deadline:
            started.wait(0.01)
        assert seen == [True]
        assert ask(service, call("ping")).json["result"] == {}
    assert capfd.readouterr().err == ""


def open_session(service):
    """Return the id of a new legacy session."""
    reply = ask(service, call("initialize", {"protocolVersion": "2025-06-18"}))
    return reply.headers["mcp-session-id"]


SESSION_RULES = {
    "C106 none": ({}, 400), "C106 an unknown one": ({"Mcp_Session_Id": "x"}, 404),
    "C106 the living one": ({"Mcp_Session_Id": ...}, 200),
    "C47 with a version that is none": ({"Mcp_Session_Id": ..., "MCP_Protocol_Version": "nonsense"},
                                        400),
    "C47 with a version of the past": ({"Mcp_Session_Id": ...,
                                        "MCP_Protocol_Version": "1900-01-01"}, 400),
    "twice the same": ({"Mcp_Session_Id": "a, a"}, 404),
}


@cases(SESSION_RULES)
def test_a_server_with_sessions_wants_a_living_one(notes, case):
    headers, status = case
    session_id = open_session(notes)
    headers = {name: session_id if value is ... else value for name, value in headers.items()}
    reply = ask(notes, call("tools/list"), **headers)
    assert reply.status == status
    if "MCP_Protocol_Version" in headers:
        assert "2025-11-25" in reply.json["error"]["message"]


def test_a_session_ends_with_delete_and_closes_its_stream(notes):
    session_id = open_session(notes)
    connection = http.client.HTTPConnection(*notes.server_address, timeout=WAIT)
    connection.request("GET", "/mcp", headers={"Accept": "text/event-stream",
                                               "Mcp-Session-Id": session_id})
    stream = connection.getresponse()
    assert stream.status == 200 and stream.getheader("mcp-session-id") == session_id
    assert ask(notes, method="DELETE", Mcp_Session_Id=session_id).status == 200
    assert stream.read() == b""
    connection.close()
    assert ask(notes, call("ping"), Mcp_Session_Id=session_id).status == 404
    assert ask(notes, method="DELETE", Mcp_Session_Id=session_id).status == 404


def test_the_modern_era_ignores_sessions_and_needs_none(notes):
    reply = ask_modern(notes, "tools/list", Mcp_Session_Id="x")
    assert reply.status == 200 and "mcp-session-id" not in reply.headers


def test_a_log_level_is_kept_for_the_session():
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        session_id = open_session(service)
        ask(service, call("logging/setLevel", {"level": "debug"}), Mcp_Session_Id=session_id)
        reply = ask(service, call("tools/call", {"name": "report"}), Mcp_Session_Id=session_id)
    assert [message["params"]["data"] for message in reply.messages[:-1]] == ["working", "details"]


def run_stdio(server, data):
    """Return the messages that a stdio server writes in answer to input bytes."""
    output = io.BytesIO()
    mcpkit.StdioService(server, io.BytesIO(data), output, grace_seconds=WAIT).run()
    return [json.loads(line) for line in output.getvalue().split(b"\n") if line]


def test_stdio_answers_each_line_and_ends_with_the_input():
    lines = [call("initialize", {"protocolVersion": "2025-03-26"}), call("ping", request_id=2),
             {"jsonrpc": "2.0", "method": "notifications/initialized"},
             call("tools/call", {"name": "pong", "arguments": {"message": "\u0110 \u4e16 \U0001f600"}},
                  3)]
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    answers = run_stdio(mcpkit.build_pong_server(), b"\n" + data)
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3]


STDIO_LINES = {
    "C110 no UTF-8": (b"\xff\n", -32700), "no JSON": (b"hello\n", -32700),
    "a batch": (b"[]\n", -32600), "too long": (b" " * 5_000_000 + b"\n", -32600),
    "C94 an unknown version": (json.dumps(call("tools/list", {"_meta": {
        **META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}})).encode() + b"\n",
        -32022),
}


@cases(STDIO_LINES)
def test_a_bad_line_on_stdio_is_answered_and_the_next_one_too(case):
    line, code = case
    answers = run_stdio(mcpkit.build_pong_server(), line + PING + b"\n")
    assert [answer.get("error", {}).get("code") for answer in answers] == [code, None]


def test_a_call_cancelled_on_stdio_is_told_and_not_answered():
    server, started, _, seen = build_waiting_server()

    class Input:
        lines = iter([json.dumps(call("tools/call", {"name": "wait"})).encode() + b"\n",
                      json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                  "params": {"requestId": 1}}).encode() + b"\n", b""])

        def readline(self, _):
            line = next(self.lines)
            return line if b"wait" in line or started.wait(WAIT) else b""

    output = io.BytesIO()
    mcpkit.StdioService(server, Input(), output, grace_seconds=WAIT).run()
    assert seen == [True] and output.getvalue() == b""


STDIO_SERVER = """
from mcpkit import Server
server = Server("noisy")

@server.tool
def shout(text: str) -> str:
    print("noise")
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "print('more noise')"])
    return text
"""


def test_c110_a_stdio_server_speaks_utf8_and_keeps_prints_off_its_output(tmp_path):
    (tmp_path / "noisy.py").write_text(STDIO_SERVER)
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "LC_ALL": "C", "PYTHONUTF8": "0"}
    request = call("tools/call", {"name": "shout", "arguments": {"text": "\u0110 \u4e16 \U0001f600"}})
    child = subprocess.run(
        [sys.executable, str(ROOT / "mcpkit.py"), "serve", str(tmp_path / "noisy.py"), "--stdio"],
        input=json.dumps(request, ensure_ascii=False).encode() + b"\n", capture_output=True,
        env=environment, timeout=WAIT)
    answer = json.loads(child.stdout)
    assert answer["result"]["content"][0]["text"] == "\u0110 \u4e16 \U0001f600"
    assert b"noise" in child.stderr and child.returncode == 0


# =============================================================================================
# 12. CLIENT TRANSPORTS
# =============================================================================================

class Asked(typing.NamedTuple):
    """One request as a scripted peer got it."""

    method: str
    path: str
    headers: dict
    message: dict


class Peer:
    """A scripted HTTP server: `answer(asked)` gives the bytes, or an iterable of them, to send.

    Each connection carries one request. `asked` keeps them all.
    """

    def __init__(self, answer):
        self.answer, self.asked = answer, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with sock, contextlib.suppress(OSError):
            data = sock.makefile("rb")
            line = data.readline().decode().split()
            headers = {}
            for raw in iter(data.readline, b"\r\n"):
                name, _, value = raw.decode().strip().partition(": ")
                headers[name.lower()] = value
            body = data.read(int(headers.get("content-length", 0)))
            asked = Asked(line[0], line[1], headers, json.loads(body) if body else {})
            self.asked.append(asked)
            answer = self.answer(asked)
            for part in [answer] if isinstance(answer, bytes) else answer:
                sock.sendall(part)

    @property
    def methods(self):
        """The JSON-RPC methods that were asked, or the HTTP method where there was no message."""
        return [asked.message.get("method", asked.method) for asked in self.asked]


def http_answer(body=b"", status="200 OK", kind="application/json", *headers):
    """Return the bytes of an HTTP answer after which the connection ends."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}",
             "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def stream_answer(*events):
    """Return the head of an event stream and its parts, each sent by itself."""
    return [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
            *events]


def result(asked, value):
    return {"jsonrpc": "2.0", "id": asked.message.get("id"), "result": value}


def event(message):
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def legacy_peer(asked, session=None, **answers):
    """Answer as a legacy server does; `answers` by method with slashes as underscores."""
    method = asked.message.get("method", asked.method)
    if method == "initialize":
        extra = [f"Mcp-Session-Id: {session}"] if session else []
        return http_answer(result(asked, {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"}}), "200 OK", "application/json", *extra)
    if method.startswith("notifications/"):
        return http_answer(b"", "202 Accepted")
    answer = answers.get(method.replace("/", "_"))
    if answer is None:
        return http_answer(result(asked, {"tools": []}) if method == "tools/list" else b"",
                           "200 OK" if method == "tools/list" else "404 Not Found")
    return answer(asked)


def error_answer(code, status="200 OK", request_id=1, message="no", data=None):
    error = {"code": code, "message": message}
    return http_answer({"jsonrpc": "2.0", "id": request_id,
                        "error": error if data is None else {**error, "data": data}}, status)


LEGACY_SIGNS = {
    "C40 -32601": error_answer(-32601), "C40 -32602": error_answer(-32602),
    "C40 -32600": error_answer(-32600), "C40 -32000 without id": error_answer(
        -32000, "400 Bad Request", None, "Unsupported protocol version"),
    "C40 400 in plain text": http_answer(b"bad", "400 Bad Request", "text/plain"),
    "C40 400 empty": http_answer(b"", "400 Bad Request"),
    "C40 404": http_answer(b"", "404 Not Found"), "C40 405": http_answer(b"", "405 No"),
    "C40 an empty result": http_answer({"jsonrpc": "2.0", "id": 1, "result": {}}),
    "C49 only legacy versions": http_answer({"jsonrpc": "2.0", "id": 1, "result": {
        "supportedVersions": ["2025-11-25"], "capabilities": {}}}),
    "500": http_answer(b"oops", "500 Broken", "text/plain"),
}


@cases(LEGACY_SIGNS)
def test_whatever_is_not_plainly_modern_is_spoken_to_in_the_legacy_way(case):
    def answer(asked):
        return case if asked.message.get("method") == "server/discover" else legacy_peer(asked)

    with Peer(answer) as peer, Client(peer.url, timeout=WAIT) as client:
        assert client.era == "legacy" and client.protocol_version == "2025-06-18"
        assert client.list_tools() == []
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized",
                            "tools/list"]
    assert "mcp-protocol-version" not in peer.asked[1].headers
    assert peer.asked[3].headers["mcp-protocol-version"] == "2025-06-18"
    assert "_meta" not in peer.asked[3].message.get("params", {})


MODERN_SIGNS = {
    "C41 -32021": (error_answer(-32021, "400 Bad", data={"requiredCapabilities": {"roots": {}}}),
                   "roots"),
    "C41 -32020": (error_answer(-32020, "400 Bad", message="Header mismatch: Mcp-Method"),
                   "Mcp-Method"),
    "C41 no version in common": (error_answer(-32022, "400 Bad", data={
        "supported": ["2031-01-01"]}), "2031-01-01"),
    "our version, and yet unsupported": (error_answer(-32022, "400 Bad", data={
        "supported": ["2026-07-28"]}), "-32022"),
    "C49 an empty list": (http_answer({"jsonrpc": "2.0", "id": 1, "result": {
        "supportedVersions": [], "capabilities": {}}}), "supportedVersions"),
    "C49 no list": (http_answer({"jsonrpc": "2.0", "id": 1, "result": {"capabilities": {}}}),
                    "supportedVersions"),
    "C44 a refusal": (http_answer(b"", "401 Unauthorized", "text/plain",
                                  'WWW-Authenticate: Bearer realm="x"'), "Bearer"),
}


@cases(MODERN_SIGNS)
def test_c41_a_modern_server_is_never_sent_initialize(case):
    answer, words = case
    with Peer(lambda asked: answer) as peer:
        with pytest.raises(mcpkit.MCPKitError, match=re.escape(words)):
            Client(peer.url, timeout=WAIT).connect()
    assert set(peer.methods) == {"server/discover"}


def test_c44_with_credentials_a_refused_discover_is_followed_by_one_initialize():
    def answer(asked):
        if asked.message.get("method") == "server/discover":
            return http_answer(b"", "403 Forbidden")
        return legacy_peer(asked)

    with Peer(answer) as peer:
        with Client(peer.url, headers={"Authorization": "Bearer x"}, timeout=WAIT) as client:
            assert client.era == "legacy"
    assert all(asked.headers["authorization"] == "Bearer x" for asked in peer.asked)


def test_c53_the_session_and_the_version_go_with_everything_after_initialize():
    with Peer(lambda asked: legacy_peer(asked, session="s1")) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            client.list_tools()
    assert peer.methods == ["initialize", "notifications/initialized", "tools/list", "DELETE"]
    assert "mcp-session-id" not in peer.asked[0].headers
    for asked in peer.asked[1:]:
        assert asked.headers["mcp-session-id"] == "s1"
        assert asked.headers["mcp-protocol-version"] == "2025-06-18"


def test_c54_a_session_that_ended_is_answered_by_one_new_initialize():
    sessions = iter(["s1", "s2", "s3"])

    def answer(asked):
        if asked.message.get("method") == "initialize":
            return legacy_peer(asked, session=next(sessions))
        if asked.headers.get("mcp-session-id") == "s1" and "id" in asked.message:
            return http_answer(b"gone", "404 Not Found", "text/plain")
        return legacy_peer(asked)

    with Peer(answer) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        assert client.list_tools() == [] and client.session_id == "s2"
    assert peer.methods == ["initialize", "notifications/initialized", "tools/list", "initialize",
                            "notifications/initialized", "tools/list", "DELETE"]


def test_c54_a_second_404_is_an_error():
    def answer(asked):
        if asked.message.get("method") == "tools/list":
            return http_answer(b"", "404 Not Found")
        return legacy_peer(asked, session="s")

    with Peer(answer) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        with pytest.raises(mcpkit.ProtocolError, match="HTTP 404"):
            client.list_tools()
    assert peer.methods.count("initialize") == 2


OPEN_END = threading.Event()


def stay_open(*events):
    """A stream that stays open after its events."""
    yield from stream_answer(*events)
    OPEN_END.wait(WAIT)


ANSWERS = {
    "JSON": lambda asked: http_answer(result(asked, {"ok": 1})),
    "C31 a content type in capitals": lambda asked: http_answer(
        result(asked, {"ok": 1}), "200 OK", "Application/JSON; charset=utf-8"),
    "a batch of one": lambda asked: http_answer([result(asked, {"ok": 1})]),
    "C06 a stream without a space": lambda asked: stream_answer(
        b"data:" + json.dumps(result(asked, {"ok": 1})).encode() + b"\n\n"),
    "C08 C09 C11 pings, comments and a primer before it": lambda asked: stream_answer(
        b"id: 1\ndata:\n\n", b": hi\n\nevent: ping\ndata: ping\n\n", event(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}),
        event(result(asked, {"ok": 1}))),
    "C36 a stream that stays open": lambda asked: stay_open(event(result(asked, {"ok": 1}))),
    "an answer to somebody else before it": lambda asked: stream_answer(
        event({"jsonrpc": "2.0", "id": 999, "result": {}}), event(result(asked, {"ok": 1}))),
    "C14 characters cut inside": lambda asked: stream_answer(*[
        bytes([byte]) for byte in b"data: " + json.dumps(
            {**result(asked, {"ok": 1}), "x": "\u4e16\U0001f600"}, ensure_ascii=False).encode()
        + b"\r\n\r\n"]),
}


@cases(ANSWERS)
def test_an_answer_is_found_in_whatever_form_it_comes(case):
    with Peer(lambda asked: legacy_peer(asked, x_y=case)) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            assert client.request("x/y") == {"ok": 1}


BAD_ANSWERS = {
    "C27 a stream that ends": (lambda asked: stream_answer(event(
        {"jsonrpc": "2.0", "method": "notifications/progress"})),
        mcpkit.ProtocolError, "the stream ended before the response to request 2"),
    "C12 an unfinished event": (lambda asked: stream_answer(
        b"data: {}\n"), mcpkit.ProtocolError, "9 bytes of an unfinished event were discarded"),
    "C28 a web page": (lambda asked: http_answer(
        b"<html><title>Sign in</title>", "200 OK", "text/html"),
        mcpkit.ProtocolError, "HTTP 200, text/html: <html><title>Sign in"),
    "C29 an error in a 400": (lambda asked: error_answer(
        -32602, "400 Bad Request", 2, "bad cursor"),
        MCPError, r"error -32602 \(HTTP 400\): bad cursor"),
    "C29 an error in a 400 without id": (lambda asked: error_answer(
        -32602, "400 Bad Request", None, "bad cursor"), MCPError, "bad cursor"),
    "C38 half an object": (lambda asked: http_answer(b'{"jsonrpc":"2.0","id":1,"result":{'),
                           mcpkit.ProtocolError, "at character 34, near: "),
    "C34 the id as another type": (lambda asked: http_answer(
        {"jsonrpc": "2.0", "id": "2", "result": {}}), mcpkit.ProtocolError, "no MCP answer"),
    "C62 a redirect": (lambda asked: http_answer(b"", "302 Found", "text/plain",
                                                 "Location: http://evil.example/x"),
                       mcpkit.ProtocolError, "redirects to http://evil.example/x"),
    "a connection that is reset": (lambda asked: b"", mcpkit.TransportError,
                                   "closed the connection without an answer"),
    "an answer cut off": (lambda asked: http_answer(b"{}")[:-1].replace(
        b"Length: 2", b"Length: 9"), mcpkit.TransportError, "inside its answer"),
    "no HTTP": (lambda asked: b"SSH-2.0-x\r\n\r\n", mcpkit.TransportError,
                "does not answer in HTTP: SSH-2.0-x"),
    "too much": (lambda asked: http_answer(b" " * 300_000), mcpkit.ProtocolError,
                 "larger than 200,000 bytes"),
    "an unknown resultType": (lambda asked: http_answer(result(asked, {"resultType": "later"})),
                              mcpkit.ProtocolError, "unknown resultType: later"),
    "C51 a question": (lambda asked: http_answer(result(asked, {
        "resultType": "input_required", "inputRequests": {"q": {}}})),
        mcpkit.ProtocolError, r"wants input before it answers \(q\)"),
}


@cases(BAD_ANSWERS)
def test_a_bad_answer_is_an_error_that_says_what_was_seen(case):
    answer, kind, words = case
    with Peer(lambda asked: legacy_peer(asked, x_y=answer)) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT, max_bytes=200_000) as client:
            with pytest.raises(kind, match=words):
                client.request("x/y")


SILENT = {
    "before the head": (lambda: iter(()), "no answer for 0.2 s"),
    "C60 after the head": (lambda: stream_answer(), r"headers received \(HTTP 200\), then no data"),
}


@cases(SILENT)
def test_a_silent_server_ends_the_wait_with_what_was_seen(case):
    start, words = case

    def answer(asked):
        yield from start()
        OPEN_END.wait(WAIT)

    with Peer(lambda asked: legacy_peer(asked, x_y=answer)) as peer:
        with Client(peer.url, era="legacy", timeout=0.2) as client:
            with pytest.raises(mcpkit.TransportError, match=words):
                client.request("x/y")


def test_c09_comments_keep_a_slow_stream_alive_but_max_time_ends_it():
    tick = threading.Event()

    def slow(asked, comments):
        yield from stream_answer()
        for _ in range(comments):
            tick.wait(0.05)
            yield b": still here\n\n"
        yield event(result(asked, {"ok": 1}))

    with Peer(lambda asked: legacy_peer(asked, x_y=lambda asked: slow(asked, 12))) as peer:
        with Client(peer.url, era="legacy", timeout=0.4) as client:
            assert client.request("x/y") == {"ok": 1}
        with Client(peer.url, era="legacy", timeout=0.4, max_time=0.3) as client:
            with pytest.raises(mcpkit.TransportError, match="time limit|no data"):
                client.request("x/y")


def test_c72_a_cursor_that_comes_again_ends_the_list():
    def answer(asked):
        return http_answer(result(asked, {"tools": [{"name": "t"}], "nextCursor": "same"}))

    with Peer(lambda asked: legacy_peer(asked, tools_list=answer)) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            assert len(client.list_tools()) == 2


def test_an_empty_cursor_is_a_cursor():
    pages = iter([{"tools": [1], "nextCursor": ""}, {"tools": [2]}])
    with Peer(lambda asked: legacy_peer(asked, tools_list=lambda asked: http_answer(
            result(asked, next(pages))))) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            assert client.list_tools() == [1, 2]
    assert peer.asked[3].message["params"] == {"cursor": ""}


def test_a_legacy_server_that_pings_is_answered():
    def answer(asked):
        yield from stream_answer(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}),
                                 event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}))
        while not any(asked.message.get("id") == "q" for asked in peer.asked):
            OPEN_END.wait(0.01)
        yield event(result(asked, {"ok": 1}))

    def serve(asked):
        if "method" not in asked.message and asked.message:
            return http_answer(b"", "202 Accepted")
        return legacy_peer(asked, x_y=answer)

    with Peer(serve) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        assert client.request("x/y") == {"ok": 1}
    replies = {asked.message["id"]: asked.message for asked in peer.asked
               if "method" not in asked.message and asked.message}
    assert replies["p"]["result"] == {} and replies["q"]["error"]["code"] == -32601


@pytest.mark.parametrize("status, body", [("204 No Content", b""), ("200 OK", b""),
                                          ("200 OK", b"{}"), ("202 Accepted", b"Accepted")])
def test_c32_a_notification_may_be_answered_in_other_ways_than_202(status, body):
    def answer(asked):
        if asked.message.get("method", "").startswith("notifications/"):
            return http_answer(body, status)
        return legacy_peer(asked)

    with Peer(answer) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        assert client.list_tools() == []


def test_c65_loopback_is_never_proxied_and_no_proxy_is_honoured(pong, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Client(pong.url, timeout=WAIT) as client:
        assert client.era == "modern"
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(mcpkit.TransportError, match="refused|reached"):
        Client("http://mcp.invalid/mcp", timeout=WAIT).connect()


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    with Peer(lambda asked: legacy_peer(asked)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        with Client("http://mcp.invalid/mcp", era="legacy", timeout=WAIT) as client:
            assert client.server_info["name"] == "old"
    assert proxy.asked[0].path == "http://mcp.invalid/mcp"


def test_connections_are_kept_and_used_from_many_threads(sample):
    accepted = []
    process = sample.process_request
    sample.process_request = lambda *args: (accepted.append(1), process(*args))
    results, errors = queue.Queue(), queue.Queue()

    def work(client, number):
        try:
            results.put(client.call_tool("add", {"a": number})["structuredContent"])
        except Exception as error:
            errors.put(error)

    with Client(sample.url, timeout=WAIT) as client:
        for number in range(20):
            work(client, number)
        assert len(accepted) == 1
        threads = [threading.Thread(target=work, args=(client, number)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
    assert errors.empty()
    assert sorted(results.queue) == sorted([number + 1 for number in range(20)] * 2)


@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
@pytest.mark.parametrize("options", [{}, {"sessions": True}, {"stream": "always"}])
def test_every_feature_works_over_http_in_every_era(era, options):
    told = []
    with mcpkit.HTTPService(build_sample_server(**options), port=0) as service:
        with Client(service.url, era=era, timeout=WAIT,
                    on_notification=lambda method, params: told.append(method)) as client:
            use_everything(client, told)


@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
def test_every_feature_works_over_stdio_in_every_era(era, tmp_path):
    (tmp_path / "sample.py").write_text(
        "import sys, typing\nfrom mcpkit import *\n"
        + "\n".join(inspect_source(build_sample_server).splitlines())
        + "\nserver = build_sample_server()\n")
    told = []
    command = [sys.executable, str(ROOT / "mcpkit.py"), "serve", str(tmp_path / "sample.py"),
               "--stdio"]
    with Client(command, era=era, timeout=WAIT,
                on_notification=lambda method, params: told.append(method)) as client:
        use_everything(client, told)


def inspect_source(function):
    import inspect
    return inspect.getsource(function)


def use_everything(client, told):
    """Use each method of a client on the sample server."""
    assert client.server_info == {"name": "sample", "version": "1.2.3"}
    assert [tool["name"] for tool in client.list_tools()][0] == "add"
    assert client.call_tool("add", {"a": 1})["content"][0]["text"] == "2"
    assert client.call_tool("fail")["isError"] is True
    with pytest.raises(MCPError) as caught:
        client.call_tool("nope")
    assert caught.value.code == -32602
    client.request("tools/call", {"name": "report", "_meta": {"progressToken": "t"}})
    assert told.count("notifications/progress") == 2
    assert len(client.list_resources()) == 2 and len(client.list_resource_templates()) == 1
    assert client.read_resource("sample://text")["contents"][0]["text"] == "hello"
    assert client.get_prompt("greet", {"name": "Ada"})["messages"][0]["role"] == "user"
    assert client.list_prompts()[0]["arguments"][0]["required"] is True
    assert client.complete({"type": "ref/prompt", "name": "greet"}, "name", "G")["values"] == [
        "Grace"]


CHILDREN = {
    "C112 junk on its output": """
import json, sys
print("Server v1 started"); print("npm warn"); print('{"status":200}')
print('log: {"jsonrpc":"2.0","id":1,"result":{}}')
""",
    "C113 a flood of errors": """
import sys
sys.stderr.write("x" * 262144)
""",
    "C43 silence to what it does not know": "",
}
OLD_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "c"}}
    elif message["method"] == "ping":
        result = {}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@cases(CHILDREN)
def test_a_child_that_misbehaves_is_understood_all_the_same(case):
    command = [sys.executable, "-c", case + OLD_SERVER]
    with Client(command, timeout=WAIT, discover_timeout=0.5) as client:
        assert (client.era, client.protocol_version) == ("legacy", "2024-11-05")
        assert client.request("ping") == {}


DEAD_CHILDREN = {
    "not there": (["no-such-command-anywhere"], "command not found: no-such-command-anywhere"),
    "ends at once": ([sys.executable, "-c", "import sys; sys.exit('no licence')"],
                     "has exited with code 1; its last words: no licence"),
}


@cases(DEAD_CHILDREN)
def test_a_child_that_cannot_serve_is_an_error_with_its_last_words(case):
    command, words = case
    with pytest.raises(mcpkit.TransportError, match=words):
        Client(command, timeout=WAIT).connect()


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_c115_nothing_that_a_child_started_survives_it(tmp_path):
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import signal, subprocess, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n" + OLD_SERVER)
    with Client([sys.executable, str(script)], era="legacy", timeout=WAIT):
        pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + WAIT
    while is_running(pid) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert not is_running(pid)


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    except OSError:
        return False


HEADERS = {"a line end": {"X": "a\r\nY: b"}, "a name with a space": {"X Y": "a"},
           "no ASCII": {"X": "\u4e16"}, "a NUL": {"X": "\0"}}


@cases(HEADERS)
def test_a_header_that_could_break_the_request_is_refused(case):
    with pytest.raises(mcpkit.UsageError):
        Client("http://127.0.0.1:1/", headers=case)


@pytest.mark.parametrize("target", ["ftp://x/", "http:///x", "nonsense", ""])
def test_a_target_that_is_no_url_is_refused(target):
    with pytest.raises(mcpkit.UsageError, match="not an http or https URL"):
        Client(target).connect()


def test_nobody_there_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(mcpkit.TransportError, match=f"nothing listens at 127.0.0.1:{port}"):
        Client(f"http://127.0.0.1:{port}/mcp", timeout=WAIT).connect()


# =============================================================================================
# 13. PROBE
# =============================================================================================

def find_check(report, name):
    """Return the first check of a report whose id ends in a name."""
    return next(check for check in report["checks"] if check["id"].endswith(name))


def test_a_healthy_server_passes_in_both_eras_with_five_requests(sample):
    report = mcpkit.probe(sample.url)
    assert (report["verdict"], report["requests"]) == ("pass", 5)
    assert list(report) == ["target", "endpoint", "verdict", "eras", "checks", "requests",
                            "elapsedMs"]
    for era, version in (("legacy", "2025-11-25"), ("modern", "2026-07-28")):
        assert report["eras"][era]["verdict"] == "pass"
        assert report["eras"][era]["protocolVersion"] == version
        assert report["eras"][era]["serverInfo"]["name"] == "sample"
        assert "add" in report["eras"][era]["tools"]
    assert {check["status"] for check in report["checks"]} == {"ok"}
    assert set(report["checks"][0]) == {"id", "status", "message", "hint", "spec"}


def test_the_legacy_probe_sends_three_posts_and_never_runs_anything():
    with Peer(lambda asked: legacy_peer(asked)) as peer:
        report = mcpkit.probe(peer.url, era="legacy")
    assert peer.methods == ["initialize", "notifications/initialized", "tools/list"]
    assert report["verdict"] == "partial" and list(report["eras"]) == ["legacy"]
    assert find_check(report, "-tools")["status"] == "warning"
    assert all("authorization" not in asked.headers for asked in peer.asked)


def test_a_session_is_seen_and_ended(notes):
    report = mcpkit.probe(notes.url)
    assert report["eras"]["legacy"]["session"] is True and report["verdict"] == "pass"
    assert find_check(report, "legacy-answer-form")["message"].startswith(
        "initialize was answered with an event stream")
    assert len(notes.mcp.sessions) == 0


def test_a_server_of_one_era_passes_and_the_other_is_a_note():
    def answer(asked):
        return legacy_peer(asked, tools_list=lambda asked: http_answer(result(asked, {
            "tools": [{"name": "t", "inputSchema": {"type": "object"}}]})))

    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url)
    assert report["verdict"] == "pass" and report["eras"]["modern"]["verdict"] == "fail"
    assert all(check["status"] in ("ok", "note") for check in report["checks"])


FAILING = {
    "405 to everything": (lambda asked: http_answer(
        b"", "405 Method Not Allowed", "text/plain", "Allow: GET"), "fail", "method-not-allowed"),
    "404 to everything": (lambda asked: http_answer(b"", "404 Not Found"), "fail", "not-found"),
    "a version refused": (lambda asked: error_answer(
        -32600, "400 Bad Request", None, "Unsupported MCP-Protocol-Version"), "fail", "error"),
    "an error in a 200": (lambda asked: error_answer(-32601), "fail", "error"),
    "401 with resource_metadata": (lambda asked: http_answer(
        b"", "401 Unauthorized", "text/plain",
        'WWW-Authenticate: Bearer resource_metadata="https://x/prm"'), "partial", "authorization"),
    "401 with another challenge": (lambda asked: http_answer(
        b"", "401 Unauthorized", "text/plain", "WWW-Authenticate: Negotiate"), "partial",
        "authorization"),
    "401 with nothing": (lambda asked: http_answer(b"<p>no", "401 Unauthorized", "text/html"),
                         "fail", "authorization"),
    "C28 a login page": (lambda asked: http_answer(
        b"<html><title>Sign in\x1b[2J</title>", "200 OK", "text/html"), "fail", "content"),
    "C125 200 to everything": (lambda asked: http_answer(b"ok", "200 OK", "text/plain"), "fail",
                               "content"),
    "a redirect": (lambda asked: http_answer(b"", "301 Moved", "text/plain",
                                             "Location: https://x/mcp"), "fail", "redirect"),
    "502": (lambda asked: http_answer(b"", "502 Bad Gateway"), "fail", "gateway"),
    "C125 an SSH port": (lambda asked: b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable", "reach"),
    "a closed connection": (lambda asked: b"", "unreachable", "reach"),
    "C125 a stream without end": (lambda asked: stay_open(b": x\n\n"), "unreachable", "reach"),
    "C125 an answer without end": (lambda asked: [http_answer(b"x")[:-1].replace(
        b"Length: 1", b"Length: 99999999"), *[b"x" * 65536] * 40], "fail", "protocol"),
}


@cases(FAILING)
def test_a_server_that_does_not_work_gets_a_verdict_that_names_what_was_seen(case):
    answer, verdict, check = case
    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url, timeout=1.5, max_bytes=1_000_000)
    assert report["verdict"] == verdict
    seen = find_check(report, check)
    assert seen["message"] and seen["hint"] or check == "protocol"
    assert "\x1b" not in json.dumps(report, ensure_ascii=False)


def test_what_a_get_says_is_explained_where_no_post_works():
    with Peer(lambda asked: http_answer(b"", "405 No", "text/plain", "Allow: POST")) as peer:
        report = mcpkit.probe(peer.url)
    assert "405 (Allow: POST)" in find_check(report, "get")["message"]


def test_a_list_over_64_kib_is_noted_and_bad_tools_are_named():
    tools = [{"name": "big", "description": "x" * 70_000, "inputSchema": {"type": "object"}},
             {"name": "bad", "inputSchema": None}, {"inputSchema": {"type": "object"}}, "no"]

    with Peer(lambda asked: legacy_peer(asked, tools_list=lambda asked: http_answer(
            result(asked, {"tools": tools})))) as peer:
        report = mcpkit.probe(peer.url, era="legacy")
    assert report["eras"]["legacy"]["tools"] == ["big", "bad"]
    assert find_check(report, "answer-size")["status"] == "note"
    assert [check["message"] for check in report["checks"] if check["id"] == "legacy-tool"] == [
        'tool 1 (bad) needs an inputSchema of type "object", but it is null',
        "tool 2 (null) has no name", 'tool 3 (null) is no object: no']


def test_c123_headers_go_with_every_request_of_the_probe():
    with Peer(lambda asked: legacy_peer(asked, session="s")) as peer:
        mcpkit.probe(peer.url, headers={"X-Api-Key": "a:b"})
    assert len(peer.asked) >= 5
    assert all(asked.headers["x-api-key"] == "a:b" for asked in peer.asked)


def test_a_stdio_server_is_probed_too():
    command = [sys.executable, str(ROOT / "mcpkit.py"), "serve", "--stdio"]
    report = mcpkit.probe(command)
    assert report["verdict"] == "pass" and report["endpoint"] is None
    assert mcpkit.probe(["no-such-command-anywhere"])["verdict"] == "unreachable"


# =============================================================================================
# 14. COMMAND LINE
# =============================================================================================

class Ran(typing.NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(*words, data=None):
    """Run mcpkit.py with words and return what it did."""
    child = subprocess.run([sys.executable, "-W", "error", str(ROOT / "mcpkit.py"), *words],
                           input=data, capture_output=True, timeout=WAIT, cwd=ROOT)
    return Ran(child.returncode, child.stdout.decode(), child.stderr.decode())


STDIO = ["--", sys.executable, str(ROOT / "mcpkit.py"), "serve", "--stdio"]


@pytest.fixture(scope="module")
def target():
    with mcpkit.HTTPService(build_sample_server(), port=0) as service:
        yield service.url


def test_list_prints_what_is_offered_or_asked_for(target):
    everything = run("list", target, "--json").json
    assert list(everything) == ["tools", "resources", "resourceTemplates", "prompts"]
    assert list(run("list", target, "--json", "--prompts").json) == ["prompts"]
    assert list(run("list", "--json", *STDIO).json) == ["tools"]
    text = run("list", target).out
    assert text.startswith("sample 1.2.3 (2026-07-28)\n")
    assert "  add(a, b?)\n      Add two numbers.\n" in text


CALLS = {
    "text": (["add", "a=2"], 0, "3\n"),
    "JSON arguments": (["add", "--args", '{"a": 1, "b": 1}'], 0, "2\n"),
    "JSON by name": (["add", "a:=40", "b=2"], 0, "42\n"),
    "a tool's error": (["fail"], 5, "no \\u2028 luck\n"),
    "arguments that do not fit": (["add", "a=x"], 5, None),
    "an image": (["picture"], 0, "[image, image/png, 8 characters of base64: use --json]\n"),
}


@cases(CALLS)
def test_call_prints_the_result_and_says_by_its_code_how_it_went(target, case):
    words, code, out = case
    ran = run("call", target, *words)
    assert ran.code == code and out in (ran.out, None)


def test_call_reads_arguments_from_a_file_and_from_input(target, tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": 5}', encoding="utf-8")
    assert run("call", target, "add", "--args", f"@{tmp_path / 'a.json'}").out == "6\n"
    assert run("call", target, "add", "--args", "-", data=b'{"a": 6}').out == "7\n"


def test_call_works_over_stdio_with_the_command_at_the_end():
    ran = run("call", "pong", "message=ping", "--json", *STDIO)
    assert ran.json["structuredContent"] == {"response": "pong"}


def test_read_prompt_and_send_print_what_they_get(target):
    assert run("read", target, "sample://text").out == "hello\n"
    assert run("read", target, "sample://text", "--json").json["contents"][0]["text"] == "hello"
    assert run("prompt", target, "greet", "name=Ada", "polite=false").out == (
        "user: Greet Ada.\nassistant: Politely: False\n")
    assert run("send", target, "tools/list", "{}").json["tools"]
    assert run("probe", target).out.splitlines()[-1].startswith("verdict: pass (5 requests, ")


FAULTS = {
    "no command": ([], 2), "an unknown command": (["fly"], 2),
    "no target": (["list"], 2), "a target that is none": (["list", "nonsense"], 2),
    "nothing after --": (["list", "--"], 2),
    "a bad argument": (["call", "TARGET", "add", "a"], 2),
    "bad JSON": (["call", "TARGET", "add", "a:={"], 2),
    "a bad header": (["list", "TARGET", "--header", "nonsense"], 2),
    "a missing file": (["list", "TARGET", "--header", "@/no/such/file"], 2),
    "a server file that is not there": (["serve", "nowhere.py"], 2),
    "a bad port": (["serve", "--port", "x"], 2),
    "nobody there": (["list", "http://127.0.0.1:1/mcp"], 4),
    "a command that is not there": (["list", "--", "no-such-command-anywhere"], 4),
    "an unknown tool": (["call", "TARGET", "nope"], 1),
    "an unknown method": (["send", "TARGET", "no/such"], 1),
    "an unreadable stream": (["sse", "/no/such/file"], 2),
}


@cases(FAULTS)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(target, case):
    words, code = case
    words = [target if word == "TARGET" else word for word in words]
    ran = run(*words)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("mcpkit: ") and ran.err.count("\n") == 1


@cases({name: FAULTS[name] for name in ("nobody there", "an unknown tool", "bad JSON")})
def test_with_json_an_error_is_one_line_of_json(target, case):
    words, code = case
    command, *rest = [target if word == "TARGET" else word for word in words]
    ran = run(command, "--json", *rest)
    assert ran.code == code and ran.out == "" and ran.err.count("\n") == 1
    assert json.loads(ran.err)["error"]["exitCode"] == code


PROBE_CODES = {"fail": 1, "partial": 3, "unreachable": 4}


@pytest.mark.parametrize("verdict", PROBE_CODES)
def test_the_probe_says_its_verdict_by_its_exit_code(verdict):
    answers = {"fail": lambda asked: http_answer(b"", "404 Not Found"),
               "partial": lambda asked: legacy_peer(asked), "unreachable": lambda asked: b""}
    with Peer(answers[verdict]) as peer:
        ran = run("probe", peer.url, "--json", "--era", "legacy")
    assert ran.code == PROBE_CODES[verdict] and ran.json["verdict"] == verdict


def test_c122_text_of_a_peer_cannot_command_a_terminal():
    tools = [{"name": "a\x1b[2J", "description": "\x1b]8;;http://evil\x07 \u202e",
              "inputSchema": {"type": "object"}}]
    with Peer(lambda asked: legacy_peer(
            asked, tools_list=lambda asked: http_answer(result(asked, {"tools": tools})),
            tools_call=lambda asked: http_answer(result(asked, {"content": [
                {"type": "text", "text": "\x9b31m"}]})))) as peer:
        listed, called = run("list", peer.url), run("call", peer.url, "a")
        assert run("list", peer.url, "--json").json["tools"] == tools
    assert r"a\x1b[2J" in listed.out and r"\x1b]8;;http://evil\x07 \u202e" in listed.out
    assert called.out == "\\x9b31m\n"


def test_verbose_shows_each_exchange_and_hides_credentials(target):
    ran = run("list", target, "-v", "--tools", "--header", "Authorization: Bearer secret")
    assert "> POST http://127.0.0.1:" in ran.err and "< HTTP 200" in ran.err
    assert "> Authorization: ***" in ran.err and "secret" not in ran.err


def test_c79_values_are_read_by_the_schema_and_not_by_their_looks():
    server = Server("zip")

    @server.tool
    def look(zip: str, number: float, flag: bool, any, maybe: typing.Optional[int] = None):
        return [zip, number, flag, any, maybe]

    with mcpkit.HTTPService(server, port=0) as service:
        ran = run("call", service.url, "look", "zip=012", "number=1.5", "flag=true", "any=7",
                  "maybe=3", "--json")
    assert ran.json["structuredContent"] == ["012", 1.5, True, "7", 3]


def test_sse_prints_one_json_object_an_event(tmp_path):
    data = b"event: a\r\nid: 1\r\ndata: x\r\ndata: y\r\n\r\n: c\n\ndata:\n\ndata: cut"
    ran = run("sse", data=data)
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"event": "a", "data": "x\ny", "id": "1"}, {"event": "message", "data": "", "id": "1"}]
    assert "9 bytes discarded" in ran.err and ran.code == 0
    (tmp_path / "stream").write_bytes(data)
    assert run("sse", str(tmp_path / "stream")).out == ran.out


@contextlib.contextmanager
def serving(*words, cwd=ROOT):
    """Run `serve` with words in a process of its own and give its URL."""
    child = subprocess.Popen([sys.executable, "-W", "error", str(ROOT / "mcpkit.py"), "serve",
                              *words, "--port", "0"], stdout=subprocess.PIPE, cwd=cwd)
    try:
        line = child.stdout.readline().decode()
        yield re.search(r"http://\S+", line).group()
    finally:
        child.terminate()
        child.wait(WAIT)
        child.stdout.close()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_a_server_with_130_and_without_a_traceback():
    import signal
    child = subprocess.Popen([sys.executable, str(ROOT / "mcpkit.py"), "serve", "--port", "0"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=WAIT)
    assert (child.returncode, err) == (130, b"")


SERVER_FILES = {
    "one that breaks": ("1 / 0", "ZeroDivisionError: division by zero"),
    "one without a server": ("x = 1", "makes 0 servers"),
    "one with two": ("from mcpkit import Server\na = Server('a')\nb = Server('b')",
                     "makes 2 servers"),
    "one that is no Python": ("this is not", "SyntaxError"),
}


@cases(SERVER_FILES)
def test_a_server_file_that_cannot_be_served_is_one_line(tmp_path, case):
    code, words = case
    (tmp_path / "it.py").write_text(code)
    ran = run("serve", str(tmp_path / "it.py"), "--port", "0")
    assert ran.code == 2 and words in ran.err and ran.err.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(pong):
    ran = run("serve", "--port", str(pong.server_address[1]))
    assert ran.code == 4 and ran.err.startswith("mcpkit: cannot listen on 127.0.0.1:")


# ---- the documents that the product makes true

def read_transcript(path):
    """Return the exchanges of a transcript: (path, headers, message, status, headers, messages)."""
    exchanges = []
    for block in re.split(r"^### .*\n", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        request, _, rest = block.partition("\nHTTP/1.1 ")
        head, _, body = request.partition("\n\n")
        lines = head.splitlines()
        answer_head, _, answer = rest.partition("\n\n")
        status, *answer_lines = answer_head.splitlines()
        exchanges.append((lines[0].split()[1], dict(line.split(": ", 1) for line in lines[1:]),
                          json.loads(body), int(status.split()[0]),
                          dict(line.split(": ", 1) for line in answer_lines),
                          [json.loads(line[6:]) for line in answer.splitlines()
                           if line.startswith("data: ")]))
    return exchanges


def test_the_pong_transcript_replays_on_the_pong_server():
    exchanges = read_transcript(ROOT / "samples" / "pong.http")
    assert [message["method"] for _, _, message, *_ in exchanges] == [
        "initialize", "notifications/initialized", "tools/list", "tools/call"]
    with serving("--stream", "always") as url:
        host, port = re.search(r"//([^:]+):(\d+)/", url).groups()
        for path, headers, message, status, answer_headers, messages in exchanges:
            connection = http.client.HTTPConnection(host, int(port), timeout=WAIT)
            headers = {name: value for name, value in headers.items() if name != "Host"}
            connection.request("POST", path, json.dumps(message, indent=2), headers)
            response = connection.getresponse()
            body = response.read()
            connection.close()
            assert response.status == status
            for name, value in answer_headers.items():
                assert name == "Date" or response.getheader(name) == value
            assert [event.event for event in mcpkit.SSEParser().feed(body)] == [
                "message"] * len(messages)
            assert Reply(status, {}, body).messages == messages
            assert response.getheader("Mcp-Session-Id") is None


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def curl(url, message=None, *words, accept="application/json, text/event-stream"):
    """Run curl as the documents do and return its output."""
    command = ["curl", "-s", "-i", "--max-time", str(WAIT), url, *words]
    if message is not None:
        command += ["-X", "POST", "-H", "Content-Type: application/json", "-H",
                    f"Accept: {accept}", "-d", json.dumps(message)]
    output = subprocess.run(command, capture_output=True, timeout=WAIT).stdout
    head, _, body = output.replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = head.decode().splitlines()
    headers = {name.lower(): value for name, _, value in
               (line.partition(": ") for line in lines[1:])}
    return Reply(int(lines[0].split()[1]), headers, body)


@needs_curl
def test_the_tutorials_curl_commands_give_what_the_tutorial_shows():
    with serving("samples/notes.py") as url:
        health = curl(url)
        assert health.status == 400 and health.json == {"jsonrpc": "2.0", "id": None, "error": {
            "code": -32600, "message": "Bad Request: Missing session ID"}}
        opening = curl(url, call("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "curl", "version": "1.0"}}))
        assert opening.headers["content-type"] == "text/event-stream"
        assert opening.messages[0]["result"]["protocolVersion"] == "2025-06-18"
        session = ["-H", f"mcp-session-id: {opening.headers['mcp-session-id']}",
                   "-H", "MCP-Protocol-Version: 2025-06-18"]

        def post(method, params=None, request_id=1):
            return curl(url, call(method, params, request_id), *session).messages[0]

        accepted = curl(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *session)
        assert (accepted.status, accepted.body) == (202, b"")
        refused = curl(url, call("tools/list", None, 2), *session, accept="application/json")
        assert refused.status == 406 and refused.json["error"]["message"] == (
            "Not Acceptable: Client must accept both application/json and text/event-stream")
        lost = curl(url, call("tools/list", None, 3), *session[2:])
        assert lost.status == 400
        assert lost.json["error"]["message"] == "Bad Request: Missing session ID"
        check_tutorial_features(post)
        stream = subprocess.run(
            ["curl", "-s", "-N", "-i", "--max-time", "0.5", url, "-H",
             "Accept: text/event-stream", *session], capture_output=True, timeout=WAIT).stdout
        assert stream.startswith(b"HTTP/1.1 200 OK\r\n") and b"text/event-stream" in stream
        assert b"X-Accel-Buffering: no" in stream and b"Mcp-Session-Id: " in stream
        assert curl(url, None, "-X", "DELETE", *session).status == 200
        assert curl(url, call("tools/list", None, 4), *session).status == 404
        future = curl(url, call("initialize", {"protocolVersion": "2026-07-28"}, 20))
        assert future.messages[0]["result"]["protocolVersion"] == "2025-11-25"


def check_tutorial_features(post):
    """Hold tools, resources and prompts of the notes server against the tutorial."""
    tools = {tool["name"]: tool for tool in post("tools/list", None, 5)["result"]["tools"]}
    assert tools["add_note"] == {
        "name": "add_note", "title": "Add Note",
        "description": "Append a note to the shared notebook.",
        "inputSchema": {"type": "object", "properties": {
            "text": {"type": "string", "description": "The note body."},
            "tag": {"type": "string", "default": "general",
                    "description": "Short label grouping related notes."}},
            "required": ["text"], "additionalProperties": False},
        "outputSchema": {"type": "object", "additionalProperties": True}}
    assert tools["note_stats"] == {
        "name": "note_stats", "description": "Count notes per tag in the notebook.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False}}
    assert post("tools/call", {"name": "add_note", "arguments": {
        "text": "buy oat milk", "tag": "shopping"}}, 6)["result"] == {
        "content": [{"type": "text", "text": '{"saved": 1, "total": 1}'}],
        "structuredContent": {"saved": 1, "total": 1}, "isError": False}
    assert post("tools/call", {"name": "reject_note", "arguments": {
        "reason": "notebook is read-only"}}, 7)["result"] == {"content": [
            {"type": "text", "text": "Error calling tool 'reject_note': notebook is read-only"}],
        "isError": True}
    assert post("tools/call", {"name": "nope"})["error"]["code"] == -32602
    assert post("posts/list", None, 8)["error"] == {
        "code": -32601, "message": "Method not found", "data": "posts/list"}
    assert [(resource["uri"], resource["name"], resource["mimeType"])
            for resource in post("resources/list", None, 9)["result"]["resources"]] == [
        ("notes://all", "all_notes", "text/plain"),
        ("notes://stats", "note_stats_resource", "text/plain")]
    assert post("resources/read", {"uri": "notes://all"}, 10)["result"]["contents"] == [
        {"uri": "notes://all", "mimeType": "text/plain", "text": "#1 [shopping] buy oat milk"}]
    assert post("prompts/get", {"name": "review_notes", "arguments": {"tag": "shopping"}}, 11)[
        "result"]["messages"] == [{"role": "user", "content": {"type": "text", "text":
            "Read the notes resource notes://all, pick the notes tagged 'shopping', and suggest "
            "how to organize them into a checklist."}}]


def test_the_tutorials_stateless_rewrite_works_on_the_same_server(notes):
    tools = ask_modern(notes, "tools/list")
    assert tools.status == 200 and "mcp-session-id" not in tools.headers
    saved = ask_modern(notes, "tools/call", {
        "name": "add_note", "arguments": {"text": "buy oat milk", "tag": "shopping"}})
    assert saved.messages[0]["result"]["structuredContent"] == {"saved": 1, "total": 1}
    read = ask_modern(notes, "resources/read", {"uri": "notes://all"})
    assert read.messages[0]["result"]["contents"][0]["text"] == "#1 [shopping] buy oat milk"


@needs_curl
def test_the_testers_curl_commands_give_what_the_tester_shows():
    with serving() as url:
        opening = curl(url, call("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "curl-test", "version": "1.0"}}))
        assert opening.json["result"]["protocolVersion"] == "2025-11-25"
        assert "mcp-session-id" not in opening.headers
        legacy = ["-H", "MCP-Protocol-Version: 2025-11-25", "-H", "Mcp-Session-Id: "]
        assert curl(url, {"jsonrpc": "2.0", "method": "notifications/initialized"},
                    *legacy).status == 202
        listed = curl(url, call("tools/list", {}, 2), *legacy)
        assert [tool["name"] for tool in listed.json["result"]["tools"]] == ["pong"]
        visit = curl(url)
        assert (visit.status, visit.headers["allow"]) == (405, "POST")
        refused = curl(url, call("tools/list", {}, 2), "-H", "MCP-Protocol-Version: 2024-01-01")
        assert refused.status == 400 and "2025-11-25" in refused.json["error"]["message"]
        modern = ["-H", "MCP-Protocol-Version: 2026-07-28", "-H", "Mcp-Method: tools/list"]
        listed = curl(url, call("tools/list", {"_meta": META}), *modern)
        assert listed.json["result"]["resultType"] == "complete"
        wrong = curl(url, call("tools/list", {"_meta": META}), modern[0], modern[1], "-H",
                     "Mcp-Method: tools/call")
        assert (wrong.status, wrong.json["error"]["code"]) == (400, -32020)
