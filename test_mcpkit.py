"""Tests of mcpkit, in the order of its sections, so that the two files can be read side by side.

Each name is a sentence that states an outcome. Tables of cases are dicts: the key says what the
case shows (with the number of a field report where there is one). Nothing sleeps, ports are picked
by the system, and every wait has a limit.
"""
import __future__
import ast
import asyncio
import base64
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import decimal
import dis
import enum
import functools
import gc
import gzip
import hashlib
import hmac
import http.client
import http.server
import importlib.util
import io
import ipaddress
import itertools
import json
import math
import os
import pathlib
import queue
import random
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import types
import typing
import urllib.parse
import uuid
from typing import (
    Annotated, Any, Dict, FrozenSet, Iterable, List, Literal, Mapping, NamedTuple, NewType,
    Optional, Sequence, Set, Tuple, TypedDict, Union,
)

import pytest

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import mcpkit  # noqa: E402
from mcpkit import (  # noqa: E402
    Client, Context, HTTPError, MCPError, MCPKitError, ProtocolError, Server,
    SSEEvent, SSEParser, ToolError, ToolResult, TransportError, UsageError, build_signature,
    to_json_value,
)

# What runs mcpkit.py in a process of its own, wherever that starts: as a module, of which Python
# keeps the compiled form. As a script it takes four times as long to start; some tests are of that.
MODULE = ["-m", "mcpkit"]
PROGRAM = [sys.executable, "-W", "error", *MODULE]
os.environ["PYTHONPATH"] = str(ROOT)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

needs_signals = pytest.mark.skipif(os.name != "posix", reason="signals")
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
    name = params.get("name", params.get("uri", params.get("taskId")))
    given = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    if name is not None:
        given["Mcp_Name"] = name
    return ask(service, call(method, params, request_id), **{**given, **headers})


class LiveStream:
    """An answer that is read event by event while it is still open."""

    def __init__(self, service, message=None, **headers):
        self.connection = http.client.HTTPConnection(*service.server_address[:2], timeout=WAIT)
        sent = {**JSON_BOTH, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if message is None:
            self.connection.request("GET", service.policy.path, None, sent)
        else:
            self.connection.request("POST", service.policy.path, json.dumps(message), sent)
        self.response = self.connection.getresponse()
        self._parser, self._events = mcpkit.SSEParser(), collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.response.close()

    def next_event(self):
        """Return the next event, None at the end of the stream."""
        while not self._events:
            data = self.response.read1(65536)
            if not data:
                return None
            self._events.extend(self._parser.feed(data))
        return self._events.popleft()

    def next_message(self):
        """Return the next JSON-RPC message, None at the end."""
        event = self.next_event()
        while event is not None and not event.data:
            event = self.next_event()
        return event and json.loads(event.data)


def listen(service, notifications, request_id=5, **headers):
    """Return the LiveStream of a modern subscription."""
    message = call("subscriptions/listen", {"_meta": META, "notifications": notifications},
                   request_id)
    return LiveStream(service, message, MCP_Protocol_Version="2026-07-28",
                      Mcp_Method="subscriptions/listen", **headers)


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


def table(names, cases):
    """Parametrize a test over the values of a dict; its keys describe the cases."""
    return pytest.mark.parametrize(names, list(cases.values()), ids=list(cases))


def by_outcome(groups):
    """Return cases {description: (outcome, value)} from {outcome: {description: value}}."""
    return {name: (outcome, value) for outcome, cases in groups.items()
            for name, value in cases.items()}


def find_error(function, *arguments):
    """Return the error of a kind that mcpkit documents which a call raises, else its result."""
    try:
        return function(*arguments)
    except (ValueError, mcpkit.MCPKitError) as error:
        return error


def find_refusal(function, *arguments):
    """Return the JSON-RPC code or HTTP status with which a call is refused, else None."""
    error = find_error(function, *arguments)
    return error.code if isinstance(error, MCPError) else getattr(error, "status", None)


def build_garbage(seed, pieces, count, longest=12):
    """Yield seeded random joins of pieces (all str, or all bytes)."""
    choose = random.Random(seed)
    for _ in range(count):
        yield pieces[0][:0].join(choose.choices(pieces, k=choose.randrange(longest)))


def is_linear(function, build, size):
    """Return whether 8 times the size takes less than 24 times the time; squared it takes 64."""
    def measure(value, count):
        times = []
        for _ in range(count):
            start = time.thread_time()         # of the processor, so a busy machine does not count
            function(value)
            times.append(time.thread_time() - start)
        return min(times)
    gc.disable()                               # it would look at all else that is alive
    try:
        return measure(build(8 * size), 3) < 24 * max(measure(build(size), 5), 5e-5)
    finally:
        gc.enable()


def build_nested(depth):
    """Return a list in a list, and so on, `depth` lists in all."""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


# =============================================================================================
# LAYOUT
# =============================================================================================
# `make layout` runs this section. What the issue of the redesign asks of both files is in FIGURES.
SOURCE = pathlib.Path(mcpkit.__file__).read_text(encoding="utf-8")
LINES = SOURCE.splitlines()
TREE = ast.parse(SOURCE)
TESTS = pathlib.Path(__file__).read_text(encoding="utf-8")
# What the contents list says: {title: (whether it is pure, the numbers of what it needs)}.
CONTENTS = {title: (bool(pure), re.findall(r"\d+", needs or "")) for title, pure, needs in re.findall(
    r"^ +(\d+\. [A-Z0-9+ -]+?)  +(pure)?.*?(?:\(needs ([\d, ]+)\))?$", mcpkit.__doc__, re.MULTILINE)}
BANNER = re.compile(r"^# =+\n# (\d+\. [A-Z0-9+ -]+)\n# =+$", re.MULTILINE)
IMPURE = set("socket http urllib threading time os sys open print random secrets".split())


def split_sections():
    """Return {title: the indexes of its lines} of mcpkit.py, the banner included."""
    starts = [(match.group(1), SOURCE.count("\n", 0, match.start()))
              for match in BANNER.finditer(SOURCE)]
    ends = [start for _, start in starts[1:]] + [
        SOURCE.count("\n", 0, SOURCE.index("\nif __name__ ==")) + 1]
    return {title: range(start, end) for (title, start), end in zip(starts, ends)}


SECTIONS = split_sections()
CORE_END = next((number for number, line in enumerate(LINES) if line.startswith("# EXTRAS")),
                len(LINES))


def find_nodes(*kinds):
    """Return the nodes of the file's syntax that are of some kinds."""
    return [node for node in ast.walk(TREE) if isinstance(node, kinds)]


def find_definitions(tree):
    """Yield the name and line of all that a file or class defines at its top level."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node.lineno
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in getattr(node, "targets", None) or [node.target]:
                yield from ((part.id, node.lineno) for part in ast.walk(target)
                            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def find_names(node):
    """Yield the name and line of what code refers to; annotations are never evaluated here."""
    if isinstance(node, ast.Name):
        yield node.id, node.lineno
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (getattr(node, "module", None) or alias.name).split(".")[0], node.lineno
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in ("annotation", "returns"):
                yield from find_names(child)


def find_private_names():
    """Return the names of mcpkit that these tests use, and that it does not export."""
    names = {node.attr for node in ast.walk(ast.parse(TESTS)) if isinstance(node, ast.Attribute)
             and isinstance(node.value, ast.Name) and node.value.id == "mcpkit"}
    names.update(alias.name for node in ast.walk(ast.parse(TESTS))
                 if isinstance(node, ast.ImportFrom) and node.module == "mcpkit"
                 for alias in node.names)
    return sorted(name for name in names - set(mcpkit.__all__) if not name.startswith("__"))


def test_the_layout_of_both_files_is_that_of_the_contents_list():
    assert list(CONTENTS) == list(SECTIONS)
    numbers = [int(title.split(".")[0]) for title in CONTENTS]
    assert numbers == sorted(set(numbers))
    assert [title for title in BANNER.findall(TESTS) if title in CONTENTS] == [
        title for title in CONTENTS if title in BANNER.findall(TESTS)]


def test_the_pure_sections_of_the_layout_name_nothing_that_does_io():
    pure = {index for title, lines in SECTIONS.items() if CONTENTS[title][0] for index in lines}
    assert [(name, line) for name, line in find_names(TREE)
            if name in IMPURE and line - 1 in pure] == []


@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.stdlib_module_names came with 3.10")
def test_the_layout_imports_the_standard_library_only():
    roots = {name for node in find_nodes(ast.Import, ast.ImportFrom)
             for name, _ in find_names(node)}
    assert roots - set(sys.stdlib_module_names) == set()


def find_nesting(statements):
    """Return how deep the blocks in statements go; functions within count by themselves."""
    deepest = 0
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        parts = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
        blocks = [block for part in parts for name in ("body", "orelse", "finalbody")
                  for block in [getattr(part, name, None)] if isinstance(block, list) and block]
        for block in blocks:
            is_elif = isinstance(node, ast.If) and block is node.orelse and (
                len(block) == 1 and isinstance(block[0], ast.If))
            deepest = max(deepest, find_nesting(block) + (not is_elif))
    return deepest


def test_no_name_of_the_layout_is_given_twice():
    for source in (SOURCE, TESTS):
        names = collections.Counter(name for name, _ in find_definitions(ast.parse(source)))
        assert [name for name, count in names.items() if count > 1] == []


def test_each_public_name_of_the_layout_exists_and_is_documented():
    documented = {node.name for node in find_nodes(ast.FunctionDef, ast.ClassDef)
                  if ast.get_docstring(node)}
    assert [name for name in mcpkit.__all__
            if name not in documented or not hasattr(mcpkit, name)] == []


def run_python(folder, *arguments):
    """Run Python on a file in a folder; return its exit code, standard output and error."""
    run = subprocess.run([sys.executable, "-W", "error", "-B", *arguments], cwd=folder, timeout=30,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return run.returncode, run.stdout.decode(), run.stderr.decode()


def test_importing_the_layout_prints_nothing_and_starts_nothing(tmp_path):
    code = ("import sys, threading; sys.path.insert(0, sys.argv[1]); import mcpkit; "
            "sys.exit(threading.active_count() - 1)")
    folder = str(pathlib.Path(mcpkit.__file__).parent)
    assert run_python(tmp_path, "-c", code, folder) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_the_layout_is_one_file_that_runs_under_any_name(tmp_path):
    shutil.copy(mcpkit.__file__, str(tmp_path / "renamed.py"))
    status, output, errors = run_python(tmp_path, "renamed.py", "--version")
    assert (status, mcpkit.__version__ in output, errors) == (0, True, "")


def find_globals(code):
    """Yield each name that compiled code looks up beyond its own functions."""
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield one.argval
        elif isinstance(one.argval, types.CodeType):
            yield from find_globals(one.argval)


# {the index of a line on which a statement of the top level begins: the names that it looks up}
USES = {node.lineno - 1: set(find_globals(compile(
    ast.Module([node], []), "mcpkit.py", "exec", __future__.annotations.compiler_flag)))
    for node in TREE.body}


def test_no_name_of_an_extra_is_in_the_core_of_the_layout():
    extras = {name for name, line in find_definitions(TREE) if line > CORE_END}
    assert [(line, names & extras) for line, names in USES.items()
            if line < CORE_END and names & extras] == []
    core = set(re.findall(r"\w+", "\n".join(LINES[SECTIONS["1. PROTOCOL FACTS"].start:CORE_END])))
    # Of words in comments, strings and annotations, only those that are no plain English.
    assert [name for name in extras & core if re.search("[a-z]_|[a-z][A-Z]", name)] == []


# What the contents list says of each extra: {number: the indexes of its lines}, and what it needs.
EXTRAS = {title.split(".")[0]: lines for title, lines in SECTIONS.items() if lines.start > CORE_END}
NEEDS = {title.split(".")[0]: set(needs) for title, (_, needs) in CONTENTS.items()}
for needed in NEEDS.values():                 # those that they need come before them
    needed.update(*[NEEDS[number] for number in needed])


def test_an_extra_of_the_layout_names_no_other_than_those_that_it_needs():
    defined = {number: {name for name, line in find_definitions(TREE) if line - 1 in lines}
               for number, lines in EXTRAS.items()}
    assert [(number, other, names & defined[other]) for number, lines in EXTRAS.items()
            for line, names in USES.items() if line in lines for other in EXTRAS
            if names & defined[other] and other not in {number, *NEEDS[number]}] == []


# What is left without an extra serves and calls pong over both transports, and probes it.
SMOKE = """
import contextlib, io, sys
from mcpkit import *
import mcpkit
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
    main(["--help"])
stdio = ["--", sys.executable, "mcpkit.py", "serve", "--stdio"]
server = Server("smoke")
server.add_tool(lambda message: "pong", name="pong")
with HTTPService(server, port=0) as service, contextlib.redirect_stdout(out):
    codes = [main(words) for words in (
        ["list", service.url], ["call", service.url, "pong", "message=x"], ["probe", service.url],
        ["call", "pong", "message=x", *stdio], ["probe", *stdio])]
sys.exit(f"{codes} {out.getvalue()}" if any(codes) or "pong" not in out.getvalue() else 0)
"""


@pytest.mark.skipif(not EXTRAS, reason="the extras are cut off already")
@table("numbers", {"nothing": "", **{number: [number] for number in EXTRAS}, "all": EXTRAS})
def test_the_layout_works_without_the_extra_and_those_that_need_it(numbers, tmp_path):
    gone = {index for number, lines in EXTRAS.items() for index in lines
            if {number, *NEEDS[number]}.intersection(numbers)}
    (tmp_path / "mcpkit.py").write_text("".join(
        line + "\n" for index, line in enumerate(LINES) if index not in gone), encoding="utf-8")
    (tmp_path / "smoke.py").write_text(SMOKE)
    assert run_python(tmp_path, "smoke.py") == (0, "", "")


# What is measured: the most that it may come to today, and the most that the redesign wants of it.
FIGURES = {
    "lines of mcpkit.py": (lambda: len(LINES), 17_180, 10_500),
    "bytes of mcpkit.py": (lambda: len(SOURCE.encode("utf-8")), 845_000, 485_000),
    "syntax nodes": (lambda: sum(1 for _ in ast.walk(TREE)), 132_800, 84_000),
    "functions": (lambda: len(find_nodes(ast.FunctionDef)), 1_190, 1_000),
    "lines of the longest function": (lambda: max(
        node.end_lineno - node.lineno + 1 for node in find_nodes(ast.FunctionDef)), 60, 60),
    "deepest nesting of blocks": (lambda: max(
        find_nesting(node.body) for node in find_nodes(ast.FunctionDef)), 4, 4),
    "characters of the longest line": (lambda: max(map(len, LINES)), 100, 100),
    "characters of the average line": (lambda: len(SOURCE) / len(LINES), 49.2, 47),
    "lines of the core": (lambda: CORE_END, 10_520, 6_900),
    "lines of the tests": (lambda: TESTS.count("\n"), 15_600, 9_800),
    "private names in the tests": (lambda: len(find_private_names()), 40, 40),
}


def test_the_layout_keeps_within_its_figures():
    found = {name: measure() for name, (measure, _, _) in FIGURES.items()}
    for name, value in found.items():
        _, most, wanted = FIGURES[name]
        print(f"  {name:<32}{value:>10,.6g}  of at most {most:>9,}; wanted {wanted:>9,}")
    assert [name for name, value in found.items() if value > FIGURES[name][1]] == []


# =============================================================================================
# 1. PROTOCOL FACTS
# =============================================================================================
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


@table("revisions, method", by_outcome({
    REVISIONS[:4]: {"initialize": "initialize", "ping": "ping", "log": "logging/setLevel"},
    REVISIONS[4:]: {"discover": "server/discover"},
    REVISIONS: {"call": "tools/call", "list": "prompts/list"}, (): {"nothing": "nope/nope"}}))
def test_a_method_is_found_in_the_revisions_that_have_it(gateway, revisions, method):
    known = []
    for version in REVISIONS:
        meta = {**META, VERSION: version} if version in REVISIONS[4:] else None
        message, headers = modern(method, {"name": "add"}, meta, MCP_Protocol_Version=version)
        known += [version] if find_code(ask(gateway, message, **headers)) != -32601 else []
    assert tuple(known) == revisions


def test_the_revisions_are_listed_newest_first():
    answer, = run_stdio(Server("x"), json.dumps(modern("server/discover")[0]).encode())
    assert answer["result"]["supportedVersions"] == [*REVISIONS[::-1]]


# =============================================================================================
# 2. ERRORS
# =============================================================================================
LOOP = []
LOOP.append(LOOP)


@table("value, shown", {"C122 clear screen": ("a\x1b[2J", "a\\x1b[2J"),
    "C122 a link": ("\x1b]8;;http://evil\x07", "\\x1b]8;;http://evil\\x07"),
    "C122 right to left": ("\u202eabc", "\\u202eabc"),
    "C122 an eight-bit escape": ("\x9b31m", "\\x9b31m"),
    "line ends": ("a\r\nb\u2028c\x85", "a\\r\\nb\\u2028c\\x85"),
    "no width": ("\u200b\ufeff", "\\u200b\\ufeff"), "a lone surrogate": ("\ud800", "\\ud800"),
    "words": ("世 😀 é 'q' \\", "世 😀 é 'q' \\"), "bytes": (b"a\xff\x00", "a\ufffd\\x00"),
    "JSON": ({"a": [1, None]}, '{"a": [1, null]}'), "no JSON": ({1j}, '"{1j}"'),
    "the limit": ("x" * 200, "x" * 200), "one more": ("x" * 201, "x" * 200 + "..."),
    "too long by its escapes": ("\x1b" * 60, "\\x1b" * 50 + "...")})
def test_an_error_shows_its_data_as_one_line_that_no_terminal_obeys(value, shown):
    assert str(MCPError(-32602, "bad", value)) == f"error -32602: bad {shown}"


@table("value", {"100,000 levels": build_nested(100_000), "a loop": LOOP,
    "5,001 digits": 10 ** 5000, "keys that are no strings": {(1, 2): 3}})
def test_an_error_can_show_any_data(value):
    assert str(MCPError(1, "m", value)).isprintable()


def test_each_error_knows_its_wire_form():
    assert MCPError(-32602, "bad").to_wire() == {"code": -32602, "message": "bad"}
    assert MCPError(1, "m", {"a": 0}).to_wire() == {"code": 1, "message": "m", "data": {"a": 0}}
    refusal = HTTPError(405, "no", (("Allow", "POST"),), data=[1])
    assert refusal.error.to_wire() == {"code": -32600, "message": "no", "data": [1]}
    failed = TransportError("no route", layer="tcp", hint="is it up?")
    assert (failed.timed_out, failed.layer, failed.hint) == (False, "tcp", "is it up?")
    family = (MCPError, HTTPError, ProtocolError, TransportError, ToolError, mcpkit.SchemaError,
              UsageError)
    assert all(issubclass(error, MCPKitError) for error in family)
    assert len({error.kind for error in family}) == len(family)


# =============================================================================================
# 3. JSON-RPC MESSAGES
# =============================================================================================
@table("words, data", {"C84 an open brace": (" 1,", b"{"),
    "C38 cut short": (' 34, near: 0","id":1,"result":{', b'{"jsonrpc":"2.0","id":1,"result":{'),
    "C38 both sides": ('{"a":1 "b":2}', b'{"a":1 "b":2}'),
    "C38 an offset after spaces": (" 4,", b"\r\n {x"),
    "C38 an offset in bytes": (" 10,", '{"日本":x'.encode()), "C86 NaN": ("NaN", b'{"x":NaN}'),
    "C86 Infinity": ("Infinity", b"[-Infinity]"),
    "a float out of range": ("out of range", b"[1e999]"),
    "too many digits": ("5000 digits", b"9" * 5000),
    "too many digits below zero": ("4301 digits", b"[-" + b"9" * 4301 + b"]"),
    "too many digits after a point": ("4302 digits", b"1." + b"1" * 4300 + b"e1"),
    "C110 no UTF-8": ("byte 6 (0xff)", b'{"a":"\xff"}'),
    "an overlong form": ("byte 1", b'"\xc0\xaf"'),
    "a surrogate in UTF-8": ("byte 1", b'"\xed\xa0\x80"'), "nothing": (" 0", b""),
    "two values": ("Extra data", b"{} {}"), "a byte order mark": ("\\ufeff", b"\xef\xbb\xbf{}"),
    "a control character": ("control", b'"a\x0bb"'),
    "101 arrays": ("deeper than 100 levels", b"[" * 101 + b"]" * 101),
    "102 objects": ("deeper than 100 levels", b'{"a":' * 102 + b"1" + b"}" * 102),
    "a million brackets": ("deeper", b"[" * 1_000_000)})
def test_bytes_that_are_no_json_are_refused_with_the_reason(words, data):
    error = find_error(mcpkit.parse_json, data)
    assert isinstance(error, ValueError) and words in str(error) and len(str(error)) < 300


@table("value, data", {"spaces around": ({}, b" \t\r\n{}\n"),
    "100 levels": (build_nested(100), b"[" * 100 + b"]" * 100),
    "C110 text": ("Đ 世 😀", '"Đ 世 😀"'.encode()),
    "C05 separators": ("\u2028\u2029\u0085", '"\u2028\u2029\u0085"'.encode()),
    "many digits in a text": ('"' + "1" * 5000, b'"\\"' + b"1" * 5000 + b'"'),
    "the most digits of a number": ([-int("9" * 4300), 2], b"[-" + b"9" * 4300 + b",2]"),
    "many shallow brackets": ([[]] * 500, b"[" + b",".join([b"[]"] * 500) + b"]")})
def test_json_becomes_its_value(value, data):
    assert mcpkit.parse_json(data) == value


def test_random_bytes_give_the_value_of_a_strict_reader_or_a_value_error():
    pieces = [b"{", b"}", b"[", b"]", b":", b",", b'"', b'"a"', b"\\", b"\\u12", b"1", b"-", b"e9",
              b".5", b"true", b"nul", b" ", b"\xff", b"\xe4\xb8\x96", b"\x00", b'{"a":', b"1}"]
    for data in build_garbage(1, pieces, 3000, 8):
        value = find_error(mcpkit.parse_json, data)
        if isinstance(value, ValueError):
            assert type(value) is ValueError and str(value).isprintable()
        else:
            assert value == json.loads(data.decode())


@table("start, piece", {"a string": (b'["', b"x"), "arrays": (b"[", b"[],"),
    "open": (b"[", b"["), "digits": (b"[", b"1"),
    "digits beside quotes without an end": (b"[" + b"1" * 5000 + b',"', b'\\"')})
def test_parsing_json_costs_no_more_than_its_length(start, piece):
    assert is_linear(lambda data: find_error(mcpkit.parse_json, data),
                     lambda size: start + piece * size, 10_000)


def test_long_numbers_cost_no_more_than_as_many_bytes_of_short_ones():
    def measure(number):
        data = b"[" + b",".join([number] * (400_000 // len(number))) + b"]"
        start = time.thread_time()             # as above
        mcpkit.parse_json(data)
        return time.thread_time() - start
    long, short = (min(measure(number) for _ in range(3)) for number in (b"1" * 4300, b"1.5"))
    assert long < 10 * short


CALL = {"jsonrpc": "2.0", "id": 1, "method": "x"}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}


@table("value", {"C84 a batch": [CALL], "C84 no messages": [], "C84 text": "x", "null": None,
    "C84 another version": {**CALL, "jsonrpc": "1.0"}, "C84 no version": {"id": 1, "method": "x"},
    "a number as version": {**CALL, "jsonrpc": 2.0}, "nothing in it": {"jsonrpc": "2.0", "id": 1},
    "C34 a float id": {**CALL, "id": 1.0}, "C34 a boolean id": {**CALL, "id": True},
    "a null id": {**CALL, "id": None}, "an id in a list": {**CALL, "id": [1]},
    "a number as method": {**CALL, "method": 1}, "params in a list": {**CALL, "params": []},
    "a result in a list": {**RESULT, "result": []}, "an answer to a float": {**RESULT, "id": 1.5}})
def test_what_is_no_message_is_an_invalid_request(gateway, value):
    reply = ask(gateway, value)
    assert (reply.status, find_code(reply)) == (400, -32600) and b"Invalid Request: " in reply.body


@table("request_id, value", {"C34 a number": (7, call("ping", None, 7)),
    "C34 a string id stays one": ("7", call("ping", None, "7")),
    "C96 params null": (1, {**call("ping"), "params": None}),
    "unknown members": (1, {**call("ping"), "z": 1, "params": {"a": 1}})})
def test_a_request_is_answered_by_its_id(gateway, request_id, value):
    assert ask(gateway, value).json == {"jsonrpc": "2.0", "id": request_id, "result": {}}


def test_any_json_value_is_a_message_or_an_invalid_request():
    choose, values = random.Random(2), [None, True, 1, 1.5, "2.0", "x", [], [1], {}, {"code": 1}]
    lines = [{"jsonrpc": "2.0", **{name: choose.choice(values) for name in choose.sample(
        ["jsonrpc", "id", "method", "params", "result", "error"], choose.randrange(7))}}
        for _ in range(2000)]
    answers = run_stdio(Server("x"), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert {answer["error"]["code"] for answer in answers} == {-32600, -32601}


def test_a_message_is_one_line_of_ascii_that_holds_what_it_was_built_of(gateway):
    reply = ask(gateway, call("tools/call", {"name": "strange"}, "1"))                 # C20, C34
    assert reply.body.isascii() and len(reply.body.splitlines()) == 1
    assert (reply.json["id"], find_text(reply.json)) == ("1", "a\u2028b\u0085c\r\nd")


# =============================================================================================
# 4. SERVER-SENT EVENTS
# =============================================================================================
def cut_everywhere(data):
    """Yield the pieces of bytes: whole, byte by byte, and cut in two at each place."""
    yield [data]
    yield [data[place:place + 1] for place in range(len(data))]
    for place in range(1, len(data)):
        yield [data[:place], b"", data[place:]]


def read_stream(data, **options):
    """Return what a stream holds, the same however it is cut.

    That is (events, retry, last id, what is unfinished, whether the limit was passed).
    """
    answers = []
    for pieces in cut_everywhere(data):
        parser, events, is_refused = SSEParser(**options), [], False
        try:
            for event in (event for piece in [*pieces, b""] for event in parser.feed(piece)):
                events.append(event)
        except ProtocolError:
            is_refused = True
        answers.append((events, parser.retry, parser.last_event_id,
                        b"" if is_refused else parser.close(), is_refused))
        assert answers[-1] == answers[0], pieces
    return answers[0]


MESSAGE = json.dumps(RESULT)


@table("data, events", {
    "C01 CRLF": (f"event: message\r\ndata: {MESSAGE}\r\n\r\n", [("message", MESSAGE)]),
    "C03 a cut CRLF": ("data: A\r\ndata: B\r\ndata: C\r\n\r\n", [("message", "A\nB\nC")]),
    "CR only": ("data: A\rdata: B\r\rdata: C\r\r", [("message", "A\nB"), ("message", "C")]),
    "C05 separators": ("data: a\u2028\u2029\u0085\x0b\x0c\x1cg\n\n",
                       [("message", "a\u2028\u2029\u0085\x0b\x0c\x1cg")]),
    "C06 no space": (f"data:{MESSAGE}\n\n", [("message", MESSAGE)]),
    "C06 one space goes": ("data:  x \n\n", [("message", " x ")]),
    "C07 three lines": ('data: {"id":\ndata: 1\ndata: }\n\n', [("message", '{"id":\n1\n}')]),
    "C08 a ping": ("event: ping\ndata: x\n\ndata: 1\n\n", [("ping", "x"), ("message", "1")]),
    "C09 comments": (": keep-alive\n\n:\r\n\r\n:x\ndata: 1\n\n", [("message", "1")]),
    "C11 empty data": ("data:\n\n", [("message", "")]),
    "C11 no colon": ("data\n\n", [("message", "")]),
    "C14 wide characters": ('data: "世😀"\n\n', [("message", '"世😀"')]),
    "C21 an endpoint": ("event: endpoint\ndata: /m?s=a%20b\n\n", [("endpoint", "/m?s=a%20b")]),
    "no data": ("event: x\nid: 1\n\n", []), "blank lines": ("\n\r\r\n\n", []),
    "a byte order mark": ("\ufeffdata: 1\n\n\ufeffdata: 2\n\n", [("message", "1")]),
    "names of other fields": ("Data: 1\n data: 3\ndata : 4\n\n", []),
    "the last type": ("event: a\nevent: b\ndata: 1\n\ndata\n\n", [("b", "1"), ("message", "")])})
def test_a_stream_means_the_same_however_it_is_cut(data, events):
    assert [event[:2] for event in read_stream(data.encode())[0]] == events


def test_a_crlf_cut_between_blocks_ends_one_line_only():
    blocks = (b"data: A\r", b"\ndata: B\r", b"\ndata: C\r\n", b"\r\n")    # C03
    parser = SSEParser()
    assert [event for block in blocks for event in parser.feed(block)] == [
        SSEEvent("message", "A\nB\nC", "")]


@table("data, retry, last_id", {"C11 a primer": ("id: 1\ndata:\n\n", None, "1"),
    "C56 a retry": ("id: e1\nretry: 50\ndata:\n\n", 50, "e1"),
    "an id taken back": ("id: 7\n\nid\n\n", None, ""),
    "an id with NUL": ("id: 7\n\nid: a\0b\n\n", None, "7"),
    "an unfinished event": ("id: 7\n", None, ""), "letters": ("retry: 5x\n\n", None, ""),
    "a sign": ("retry: -5\n\n", None, ""), "other digits": ("retry: ٣\n\n", None, ""),
    "the last retry": ("retry: 5\nretry:6\n\n", 6, "")})
def test_a_stream_says_when_and_where_to_reconnect(data, retry, last_id):
    assert read_stream(data.encode())[1:3] == (retry, last_id)


@table("data, unfinished", {"C12 no blank line": (b"data: 1\n", b"data: 1\n"),
    "C12 no line end": (b"data: 1", b"data: 1"),
    "C12 CRLF": (b"id: 1\r\ndata: 1\r\n", b"id: 1\ndata: 1\n"), "nothing": (b"data: 1\n\n", b"")})
def test_an_unfinished_event_is_no_event_but_is_shown(data, unfinished):
    assert read_stream(b"data: 0\n\n" + data)[3] == unfinished
    assert (read_stream(data)[0] == []) is bool(unfinished)


def interpret_stream(data):
    """Follow the standard word by word. Spec: WHATWG HTML, 9.2.6."""
    text = data.decode("utf-8", "replace")
    *lines, _ = re.split("\r\n|\n|\r", text[1:] if text[:1] == "\ufeff" else text)
    events, values, event_type, last_id, retry, known_id = [], [], "", "", None, ""
    for line in lines:
        name, colon, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if line == "":
            known_id = last_id
            if values:
                events.append(SSEEvent(event_type or "message", "\n".join(values), last_id))
            values, event_type = [], ""
        elif name == "data":
            values.append(value)
        elif name == "event":
            event_type = value
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and re.fullmatch("[0-9]+", value):
            retry = int(value)
    return events, retry, known_id


def test_random_streams_are_read_as_the_standard_reads_them():
    pieces = [b"data", b"event", b"id", b"retry", b":", b": ", b" ", b"\n", b"\r", b"\r\n", b"\n\n",
              b"\0", b"7", b"x", b"data: a\n", b"id: b\n", b"\xe4\xb8\x96", b"\xe2\x80", b"\xa8",
              b"\xef\xbb\xbf", b"\xff", b"\x0b", b":c\n"]
    for data in build_garbage(3, pieces, 500, 16):
        assert read_stream(data)[:3] == interpret_stream(data), data


@table("is_refused, events, data", {"C15 a long line": (True, 1, b"data: 1\n\ndata: " + b"x" * 30),
    "many lines": (True, 1, b"data: 1\n\n" + b"data: x\n" * 4),
    "many events": (False, 10, b"data: x\n\n" * 10),
    "a line of the limit": (False, 1, b"data: " + b"x" * 13 + b"\n\n"),
    "a mark before it": (None, None, b"\xef\xbb\xbfdata: " + b"x" * 13 + b"\r\n\r\n"),
    "a comment of the limit": (False, 1, b":" + b"x" * 19 + b"\ndata: x\n\n"),
    "a longer comment": (None, 0, b":" + b"x" * 30 + b"\n")})
def test_only_what_is_beyond_the_limit_is_refused_however_it_is_cut(is_refused, events, data):
    answer = read_stream(data, max_event_bytes=20)
    assert events in (None, len(answer[0])) and is_refused in (None, answer[4])


def test_an_event_beyond_the_limit_names_it():
    with pytest.raises(ProtocolError, match="more than 20 bytes .max_event_bytes"):
        list(SSEParser(max_event_bytes=20).feed(b"data: " + b"x" * 30))


@table("line", {"one long line": b"x", "short lines": b"data: x\n", "events": b"data: x\n\n",
    "comments": b":\n", "carriage returns": b"\r"})
@table("block", {"in blocks": 1000, "byte by byte": 1})
def test_reading_a_stream_costs_no_more_than_its_length(line, block):
    def read(data):
        parser = SSEParser()
        for place in range(0, len(data), block):
            list(parser.feed(data[place:place + block]))
    assert is_linear(read, lambda size: line * (size // len(line)), 2000 * min(block, 10))


def test_a_line_of_5_mib_is_delivered():
    parser, data = SSEParser(), b"data: " + b"x" * (5 << 20) + b"\n\n"    # C15
    events = [event for place in range(0, len(data), 1 << 16)
              for event in parser.feed(data[place:place + (1 << 16)])]
    assert [len(event.data) for event in events] == [5 << 20]


# =============================================================================================
# 5. HTTP RULES
# =============================================================================================
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
OTHERS = b"\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n" + (
    b'{"jsonrpc":"2.0","method":"x"}')


@table("status, data", by_outcome({
    400: {"nothing": b"\r\n\r\n", "no version": b"GET /", "two spaces": b"GET  / HTTP/1.1",
        "HTTP 1.2": b"GET / HTTP/1.2", "C125 SSH": b"SSH-2.0-OpenSSH",
        "C125 TLS": b"\x16\x03\x01\x02\x00\x01", "a control in the target": b"GET /\x0b HTTP/1.1",
        "a raw target": b"GET /\xff HTTP/1.1", "a space in a name": HEAD + b"A B: 1",
        "a space before the colon": HEAD + b"A : 1", "no colon": HEAD + b"A",
        "no name": HEAD + b": 1", "a folded line": HEAD + b"A: 1\r\n 2",
        "a bare LF": HEAD + b"A: 1\nB: 2", "a bare CR": HEAD + b"A: 1\rB: 2",
        "NUL": HEAD + b"A: \0", "C81 chunks in 1.0": b"POST /mcp HTTP/1.0\r\nContent-Type: "
            b"application/json\r\nTransfer-Encoding: chunked",
        "a sign": HEAD + b"Content-Type: application/json\r\nContent-Length: +5",
        "two lengths": HEAD + b"Content-Length: 30"},
    404: {"another scheme": b"POST ftp://localhost/mcp HTTP/1.1\r\nHost: localhost",
        "two slashes": b"POST //localhost/mcp HTTP/1.1\r\nHost: localhost",
        "a proxy's root": b"POST http://localhost?/mcp HTTP/1.1\r\nHost: localhost",
        "a star": b"POST * HTTP/1.1\r\nHost: localhost"},
    413: {"4,000 digits": HEAD + b"Content-Type: application/json\r\nContent-Length: " + b"9" * 4000},
    501: {"another coding": HEAD + b"Content-Type: application/json\r\n"
                            b"Transfer-Encoding: gzip, chunked"},
    505: {"HTTP 2": b"PRI * HTTP/2.0"},
    431: {"101 headers": HEAD + b"\r\n".join([b"A: 1"] * 98)},
    202: {"100 headers": HEAD + b"\r\n".join([b"A: 1"] * 97), "names in capitals": HEAD + b"ACCEPT:\t */* ",
        "nothing in a value": HEAD + b"Empty:", "a query": HEAD.replace(b"/mcp", b"/mcp?a=/b?c") + b"A: 1",
        "a proxy's": HEAD.replace(b"/mcp", b"HTTP://localhost/mcp?x") + b"A: 1"}}))
def test_a_head_that_could_be_read_in_two_ways_is_refused(gateway, status, data):
    has_length = b"Content-Length" in data and b": 30" not in data or b"Transfer-Encoding" in data
    answer = send_raw(gateway, data + (b"\r\n\r\n" if has_length else OTHERS))
    assert re.match(rb"HTTP/1.1 (\d+)", answer).group(1) == b"%d" % status


NOTIFICATION = OTHERS[-30:]
CHUNKED = {                       # what is fed: 202, or the words of what is wrong with it
    "one chunk": (b"1e\r\n" + NOTIFICATION + b"\r\n0\r\n\r\n", None),
    "two chunks": (b"A\r\n%b\r\n14\r\n%b\r\n0\r\n\r\n" % (NOTIFICATION[:10], NOTIFICATION[10:]), None),
    "line ends in a chunk": (b"22\r\n\r\n\r\n" + NOTIFICATION + b"\r\n0\r\n\r\n", None),
    "extensions": (b"1E;a=b ;c\r\n" + NOTIFICATION + b"\r\n0;d\r\n\r\n", None),
    "spaces after the size": (b"1e \t\r\n" + NOTIFICATION + b"\r\n0\r\n\r\n", None),
    "trailers": (b"1e\r\n" + NOTIFICATION + b"\r\n0\r\nX: 1\r\nY: 2\r\n\r\n", None),
    "zeros before the size": (b"0001e\r\n" + NOTIFICATION + b"\r\n000\r\n\r\n", None),
    "no size": (b"\r\n", "a chunk size is malformed"), "a sign": (b"+1\r\na\r\n", "size is malformed"),
    "an underscore": (b"1_0\r\n" + b"a" * 16, "size is malformed"),
    "0x": (b"0x1\r\na\r\n", "size is malformed"), "negative": (b"-1\r\n", "size is malformed"),
    "a size of 16 digits": (b"1" * 16 + b"\r\n", "size is malformed"),
    "other digits": ("\u0661\r\n".encode(), "size is malformed"),
    "a bare LF": (b"1\na\r\n0\r\n\r\n", "does not end with CRLF"),
    "a bare CR": (b"1\r\r\na", "does not end with CRLF"),
    "longer than it says": (b"2\r\nabc\r\n0\r\n\r\n", "longer than its size says"),
    "shorter than it says": (b"3\r\nab\r\n0\r\n\r\n", "longer than its size says"),
    "an endless line": (b"1;" + b"a" * 4096, "longer than 4,096 bytes"),
    "an extension with NUL": (b"1;\0\r\na\r\n0\r\n\r\n", "size is malformed"),
    "a trailer that is none": (b"0\r\nGET / HTTP/1.1\r\n\r\n", "a trailer is malformed"),
    "a trailer that is folded": (b"0\r\nX: 1\r\n 2\r\n\r\n", "a trailer is malformed"),
    "a space before the colon": (b"0\r\nX : 1\r\n\r\n", "a trailer is malformed"),
    "trailers without end": (b"0\r\n" + b"X: 1\r\n" * 101, "too many trailers"),
}


@table("data, words", CHUNKED)
def test_a_chunked_body_is_the_same_however_it_is_cut(gateway, data, words):
    head = HEAD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for cuts in ((), range(len(head), min(len(head + data), len(head) + 90)), (len(head) + 1,)):
        answer = send_raw(gateway, head + data, cuts)
        assert answer.startswith(b"HTTP/1.1 400 " if words else b"HTTP/1.1 202 "), answer
        assert (words or "").encode() in answer


@table("status, accept", {
    "C80 anything": (200, "*/*"), "C80 both families": (200, "application/*, text/*"),
    "upper case": (200, "Application/JSON,TEXT/*;Q=0.5"),
    "C80 weights": (200, "application/json;q=0.9, text/event-stream;q=0.1"),
    "C80 JSON only": (406, "application/json"),
    "C80 look-alikes": (406, "application/jsonx, text/event-streams"),
    "C80 q=0 excludes": (406, "application/json;q=0, text/event-stream"),
    "the closest range decides": (406, "*/*;q=0, application/json, application/*;q=0.0"),
    "a broken weight": (406, "application/json;q=x, */*"),
    "a comma in quotes": (406, 'text/x;a="b,*/*", application/json'),
    "a semicolon in quotes": (200, 'application/json;a="b;q=0", */*')})
def test_an_accept_header_admits_what_it_names(gateway, status, accept):
    assert ask(gateway, call("ping"), Accept=accept).status == status


@table("value, header", {"C75 wide": ("日本", "=?base64?5pel5pys?="),
    "C75 padded": (" pad ", "=?base64?IHBhZCA=?="),
    "C75 encoded twice": ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    "C75 a header in it": ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
    "spec: non-ASCII": ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    "spec: plain": ("us-west1", "us-west1"),
    "spec: literal": ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    "start and end overlap": ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="), "nothing": ("", ""),
    "spaces inside": ("a  b", "a  b"), "DEL": ("\x7f", "=?base64?fw==?="),
    "other case": ("=?BASE64?eA==?=", "=?BASE64?eA==?=")})
def test_a_string_survives_as_a_header_value(value, header):
    assert mcpkit.format_header_value(value) == header
    assert mcpkit.parse_header_value(header) == value


@table("header", {"no padding": "=?base64?eA?=", "not canonical": "=?base64?eB==?=",
    "a space": "=?base64?e A==?=", "no UTF-8": "=?base64?/w==?=", "more": "=?base64?eA==eA==?=",
    "raw": "caf\xe9", "raw in base64": "=?base64?\xe9\xe9\xe9\xe9?="})
def test_a_header_value_that_is_broken_has_no_meaning(header):
    assert mcpkit.parse_header_value(header) is None


def test_random_strings_survive_as_header_values_and_random_values_never_raise():
    pieces = ["=?base64?", "?=", "eA==", "a", " ", "\t", "\n", "\0", "é", "世", "\ud800", "=", "?"]
    for value in build_garbage(5, pieces, 2000, 7):
        header = mcpkit.format_header_value(value)
        assert re.fullmatch("[ -~]*", header) and header == header.strip()
        assert mcpkit.parse_header_value(header) == value
        assert isinstance(mcpkit.parse_header_value(value), (str, type(None)))


@table("value, challenges", {
    "C117 an address": ('Bearer resource_metadata="https://h/x/prm"', [
        ("bearer", {"resource_metadata": "https://h/x/prm"})]),
    "C118 spaces": ('Bearer resource_metadata = "https://h/a"', [
        ("bearer", {"resource_metadata": "https://h/a"})]),
    "C118 a challenge in quotes": (
        'Basic realm="x, Bearer y", Bearer error="e", resource_metadata="https://h/b"', [
            ("basic", {"realm": "x, Bearer y"}),
            ("bearer", {"error": "e", "resource_metadata": "https://h/b"})]),
    "C118 a bare scheme": ('Negotiate, Bearer resource_metadata="https://h/c"', [
        ("negotiate", {}), ("bearer", {"resource_metadata": "https://h/c"})]),
    "C118 escapes": (r'Bearer realm="q\"q", s=","', [("bearer", {"realm": 'q"q', "s": ","})]),
    "C118 two lines": ('Basic a=b, Bearer c="d"', [("basic", {"a": "b"}), ("bearer", {"c": "d"})]),
    "C118 a parameter twice": ("Bearer a=1, A=2", [("bearer", {"a": "1"})]),
    "a token68": ("Negotiate oRQwEq, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
    "with padding": ("Negotiate YII=, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
    "padded twice": ("Negotiate YI==, Bearer a=b", [("negotiate", {}), ("bearer", {"a": "b"})]),
    "empty members": (' ,, Bearer ,a=b,, c="" ,', [("bearer", {"a": "b", "c": ""})]),
    "no scheme": ('realm="x"', []),
    "an open quote": ('Bearer a=b, realm="x', [("bearer", {"a": "b"})])})
def test_challenges_are_told_apart(value, challenges):
    assert [tuple(challenge) for challenge in mcpkit.parse_challenges(value)] == challenges


HEADER_PIECES = ["Bearer", "Basic ", "realm", "=", '"', "\\", '\\"', ",", ", ", " ", "a", "q=0",
                 ";", "*/*", "@", "\xa0", "\xe9", "application/json", 'x="y"', "\t", "=="]


def test_random_challenges_never_raise_and_cost_no_more_than_their_length():
    for value in build_garbage(6, HEADER_PIECES, 3000):
        for scheme, params in mcpkit.parse_challenges(value):
            assert scheme == scheme.lower() and "".join(params).isascii()
    for start in ("", 'Bearer a="'):
        assert [piece for piece in HEADER_PIECES if not is_linear(
            mcpkit.parse_challenges, lambda size: start + piece * (size // len(piece)), 1500)] == []


# =============================================================================================
# 6. JSON SCHEMA
# =============================================================================================
DEFS = {"$defs": {"n": {"type": ["integer", "null"]}, "loop": {"$ref": "#/$defs/loop"},
                  "many": {"anyOf": [{"$ref": "#/$defs/many"}] * 60}}}


@table("text, schema, value", {"C79 zeros in front": ("012", {"type": "string"}, "012"),
    "C79 a version": ("1.0", {"type": "string"}, "1.0"),
    "C79 true as text": ("true", {"type": "string"}, "true"), "C79 no schema": ("1", None, "1"),
    "open": ("1", {}, "1"), "true": ("1", True, "1"), "a number": ("1.5", {"type": "number"}, 1.5),
    "a boolean": ("true", {"type": "boolean"}, True), "an array": ("[1]", {"type": "array"}, [1]),
    "null or text": ("null", {"type": ["null", "string"]}, "null"),
    "no number": ("012", {"type": "integer"}, "012"),
    "in quotes": ('"1"', {"type": "integer"}, '"1"'), "NaN": ("NaN", {"type": "number"}, "NaN"),
    "surrogates": ("\udcff\ud800", {"type": "number"}, "\udcff\ud800"),
    "a constant": ("5", {"const": 5}, 5), "a choice with text": ("5", {"enum": [5, "5"]}, "5"),
    "a choice": ("5", {"enum": [5, None]}, 5),
    "any of": ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
    "one of": ("5", {"oneOf": [{"type": "string"}]}, "5"),
    "a reference": ("5", {"$ref": "#/$defs/n"}, 5), "a dead one": ("5", {"$ref": "#/$defs/x"}, "5"),
    "a loop": ("5", {"$ref": "#/$defs/loop"}, "5"),
    "sixty loops": ("5", {"$ref": "#/$defs/many"}, "5"),
    "broken: a type that is a number": ("5", {"type": 5}, "5"),
    "broken: a type of objects": ("5", {"type": [{}]}, "5"),
    "broken: anyOf that is no list": ("5", {"anyOf": 5}, "5"),
    "broken: oneOf null": ("5", {"oneOf": None}, "5"),
    "broken: enum that is no list": ("5", {"enum": 5}, "5"),
    "C102 one to elsewhere": ("5", {"$ref": "http://127.0.0.1:9/x"}, "5")})
def test_text_becomes_what_the_schema_says_and_not_what_it_looks_like(text, schema, value):
    result = mcpkit.coerce_texts({"a": text, "b": [1]}, {"properties": {"a": schema}, **DEFS})
    assert result == {"a": value, "b": [1]} and type(result["a"]) is type(value)


SCHEMA_FAULTS = {
    "a type": ({"type": "string"}, 7, ["(root): must be a string, but is 7"]),
    "a boolean is no number": ({"type": "integer"}, True,
                               ["(root): must be an integer, but is true"]),
    "a missing member": ({"required": ["a"]}, {}, [
        '(root): must have the property "a", but is {}']),
    "a member too many": ({"properties": {"a": {}, "c": {}}, "additionalProperties": False},
                          {"b": 1}, ["/b: must be absent (known here: a, c), but is 1"]),
    "a member if none is known": ({"additionalProperties": False}, {"b": 1}, [
        "/b: must be absent (known here: none), but is 1"]),
    "deep inside": ({"properties": {"a": {"items": {"minimum": 3}}}}, {"a": [3, 2]}, [
        "/a/1: must be at least 3, but is 2"]),
    "a pointer that needs escapes": ({"additionalProperties": {"type": "null"}}, {"a/b~c": 1}, [
        "/a~1b~0c: must be null, but is 1"]),
    "a reference": ({"$ref": "#/$defs/n", "$defs": {"n": {"const": 1}}}, 2, 1),
    "a dynamic reference": ({"$id": "a:b", "$dynamicAnchor": "n", "properties": {
        "c": {"$dynamicRef": "#n"}}, "type": "object"}, {"c": {"c": 3}}, 1),
    "what nothing evaluated": ({"allOf": [{"properties": {"a": {}}}],
                                "unevaluatedProperties": False}, {"a": 1, "b": 2}, 1),
    "draft-07 items": ({"$schema": "http://json-schema.org/draft-07/schema#",
                        "items": [{"type": "null"}], "additionalItems": False}, [None, 1], 1),
    "a float that is whole": ({"type": "integer"}, 3.0, []),
    "a multiple of a tenth": ({"multipleOf": 0.1}, 0.3, []),
    "an equal number": ({"enum": [1]}, 1.0, []),
    "a pattern of ECMAScript": ({"pattern": r"^\d\u0041$"}, "1A", []),
    "at most twenty": ({"items": False}, list(range(100)), 20),
}


@table("schema, value, faults", SCHEMA_FAULTS)
def test_the_errors_of_a_value_say_where_it_fails_a_schema(schema, value, faults):
    found = mcpkit.schema_errors(value, schema)
    assert len(found) == faults if isinstance(faults, int) else found == faults


DRAFT_07 = {"$schema": "http://json-schema.org/draft-07/schema#"}

# By keyword: a schema, values that it takes, and values that it does not.
KEYWORDS = {
    "$ref": ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}}, [None], [0]),
    "$dynamicRef": ({"$dynamicRef": "#n", "$defs": {"n": {
        "$dynamicAnchor": "n", "type": "null"}}}, [None], [0]),
    "type": ({"type": ["null", "integer"]}, [None, 1, 1.0], [True, 1.5, "1"]),
    "enum": ({"enum": [1, [2], "a"]}, [1, 1.0, [2], "a"], [True, [1], "b"]),
    "const": ({"const": {"a": [0]}}, [{"a": [0]}, {"a": [0.0]}], [{"a": [False]}, {}]),
    "multipleOf": ({"multipleOf": 0.01}, [0.07, 3, "x"], [0.075]),
    "pattern": ({"pattern": "^a+$"}, ["aa", 5], ["ab", "a\n"]),
    "uniqueItems": ({"uniqueItems": True}, [[1, True], [], "aa"], [[1, 1.0], [{}, {}]]),
    "minimum": ({"minimum": 2}, [2, "x"], [1.9]),
    "maximum": ({"maximum": 2}, [2, "x"], [2.1]),
    "exclusiveMinimum": ({"exclusiveMinimum": 2}, [2.1], [2]),
    "exclusiveMaximum": ({"exclusiveMaximum": 2}, [1.9], [2]),
    "minLength": ({"minLength": 2}, ["\U0001f600a", []], ["\U0001f600"]),
    "maxLength": ({"maxLength": 1}, ["\U0001f600", [1, 2]], ["ab"]),
    "minItems": ({"minItems": 1}, [[0], ""], [[]]),
    "maxItems": ({"maxItems": 1}, [[0], "ab"], [[0, 0]]),
    "minProperties": ({"minProperties": 1}, [{"a": 0}, ""], [{}]),
    "maxProperties": ({"maxProperties": 1}, [{"a": 0}, "ab"], [{"a": 0, "b": 0}]),
    "contains": ({"contains": {"type": "null"}}, [[1, None], "x"], [[], [1]]),
    "minContains": ({"contains": {"const": 1}, "minContains": 2}, [[1, 1]], [[1]]),
    "maxContains": ({"contains": {"const": 1}, "maxContains": 1}, [[1, 2]], [[1, 1]]),
    "required": ({"required": ["a"]}, [{"a": None}, []], [{}]),
    "properties": ({"properties": {"a": {"type": "null"}}}, [{"a": None}, {"b": 1}], [{"a": 1}]),
    "patternProperties": ({"patternProperties": {"^a": False}}, [{"b": 1}], [{"ab": 1}]),
    "additionalProperties": ({"properties": {"a": {}}, "patternProperties": {"^b": {}},
                              "additionalProperties": False}, [{"a": 1, "bb": 2}], [{"c": 1}]),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, [{"a": 1}], [{"ab": 1}]),
    "allOf": ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    "anyOf": ({"anyOf": [{"minimum": 3}, {"maximum": 1}]}, [0, 4], [2]),
    "oneOf": ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [1, 2]),
    "not": ({"not": {"type": "null"}}, [0], [None]),
    "if": ({"if": {"minimum": 5}, "then": {"multipleOf": 2}}, [3, 6], [7]),
    "then": ({"if": True, "then": False}, [], [0]),
    "else": ({"if": {"minimum": 5}, "else": {"multipleOf": 2}}, [2, 7], [3]),
    "prefixItems": ({"prefixItems": [{"type": "null"}]}, [[], [None, 1]], [[1]]),
    "items": ({"prefixItems": [True], "items": {"type": "null"}}, [[1], [1, None]], [[1, 2]]),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 2}, {}], [{"a": 1}]),
    "dependentSchemas": ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {
        "b": 1, "c": 2}], [{"a": 1, "b": 2}]),
    "unevaluatedItems": ({"anyOf": [{"prefixItems": [{"const": 1}]}, True],
                          "unevaluatedItems": False}, [[], [1]], [[2], [1, 2]]),
    "unevaluatedProperties": ({"if": {"required": ["a"]}, "then": {"properties": {"a": True}},
                               "unevaluatedProperties": {"type": "null"}},
                              [{"a": 1}, {"b": None}], [{"b": 1}, {"a": 1, "b": 2}]),
    "draft-07 items": ({**DRAFT_07, "items": [{"type": "null"}]}, [[None, 1]], [[1]]),
    "draft-07 additionalItems": ({**DRAFT_07, "items": [True], "additionalItems": False},
                                 [[1]], [[1, 2]]),
    "draft-07 dependencies": ({**DRAFT_07, "dependencies": {"a": ["b"], "c": {"minProperties": 2}}},
                              [{"a": 1, "b": 2}, {}], [{"a": 1}, {"c": 1}]),
    "draft-07 $ref, which hides its neighbours": (
        {**DRAFT_07, "properties": {"a": {"$ref": "#/definitions/n", "type": "string"}},
         "definitions": {"n": {"type": "null"}}}, [{"a": None}], [{"a": "x"}]),
}


@table("schema, valid, invalid", KEYWORDS)
def test_a_keyword_takes_what_the_standard_says_and_nothing_else(schema, valid, invalid):
    assert [value for value in valid if mcpkit.schema_errors(value, schema)] == []
    assert [value for value in invalid if not mcpkit.schema_errors(value, schema)] == []


@table("schema", {
    "an unknown dialect": {"$schema": "https://json-schema.org/draft/2019-09/schema"},
    "a reference to the network": {"$ref": "http://127.0.0.1:9/x.json"},
    "a reference to nothing": {"$ref": "#/$defs/none"},
    "an unknown type": {"type": "strin"},
    "properties that are none": {"properties": 5},
    "required that is no list": {"required": "x"},
    "a pattern that is none": {"pattern": "("},
    "a pattern that is too long": {"pattern": "a" * 100_001}})
def test_a_schema_that_cannot_be_used_is_refused(schema):
    with pytest.raises(mcpkit.SchemaError):
        mcpkit.schema_errors(1, schema)


def nest(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@table("schema, value", {
    "a loop": ({"$ref": "#"}, {}),
    "two that call each other": ({"$ref": "#/$defs/a", "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
    "nested very deeply": (nest(5000), {}),
    "a value nested very deeply": ({"items": {"$ref": "#"}}, build_nested(500))})
def test_a_hostile_schema_ends_with_messages_or_an_error(schema, value):
    with contextlib.suppress(mcpkit.SchemaError):
        assert 1 <= len(mcpkit.schema_errors(value, schema)) <= 20


@table("pattern, text", {
    "repeats in repeats": ("^(a+)+$", "a" * 40 + "!"), "a choice in a repeat": ("^(a|aa)+$",
        "a" * 60),
    "a bounded one": ("^(a?){30}a{30}$", "a" * 30), "many in a row": ("x*x*x*x*y", "x" * 5000),
    "a long text": ("a+b", "a" * 1_000_000), "a reference back": (r"^(a*)*\1$", "a" * 40 + "!")})
def test_a_pattern_of_a_peer_that_would_take_for_ever_is_not_tried(pattern, text):
    schema = {"patternProperties": {pattern: True}, "additionalProperties": {"pattern": pattern},
              "pattern": pattern}
    compiled = mcpkit.compile_schema(schema, is_foreign=True)
    assert compiled.errors(text) == [] and compiled.errors({text: text}) == []
    with mcpkit.HTTPService(Server("x"), port=0) as service:       # and nothing else is held up
        assert ask(service, call("ping")).status == 200


@table("pattern, text", {
    "a choice": ("^(?:ab|c?)d$", "x"), "a date": (r"^\d{4}-\d{2}$", "x"),
    "a UUID": ("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "x" * 36),
    "an address": (r"^[^@]+@[^@]+\.[^@]+$", "a.b.c@d"), "a class": (r"^[*+\]]{2}$", "*a"),
    "a version": (r"^(0|[1-9]\d*)\.(0|[1-9]\d*)$", "1.x"), "an escape": (r"^\(\*\)*$", "x")})
def test_a_pattern_of_a_peer_that_ends_soon_is_tried(pattern, text):
    assert len(mcpkit.compile_schema({"pattern": pattern}, is_foreign=True).errors(text)) == 1


def test_a_pattern_of_a_peer_is_held_to_the_steps_of_a_run():
    compiled = mcpkit.compile_schema({"items": {"pattern": "a*b"}}, is_foreign=True)
    assert "must be checkable in" in compiled.errors(["a" * 1000] * 10)[-1]
    assert compiled.errors(["aab", "ac"]) == ['/1: must match the pattern "a*b", but is "ac"']


def read_schema_suite(folder):
    """Yield (draft, description, schema, test) of a JSON Schema Test Suite's required cases."""
    for draft in ("draft2020-12", "draft7"):
        for path in sorted((pathlib.Path(folder) / draft).glob("*.json")):
            for group in json.loads(path.read_text(encoding="utf-8")):
                schema = group["schema"]
                if "localhost:1234" in json.dumps(schema):
                    continue                         # needs a document from the network
                if draft == "draft7" and isinstance(schema, dict):
                    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
                for test in group["tests"]:
                    yield draft, f"{path.stem}: {group['description']}", schema, test


@pytest.mark.skipif(not os.environ.get("MCPKIT_SCHEMA_SUITE"),
                    reason="make schema-suite SUITE=... names the suite")
def test_every_case_of_the_json_schema_test_suite_is_right():
    wrong, count = [], collections.Counter()
    for draft, name, schema, test in read_schema_suite(os.environ["MCPKIT_SCHEMA_SUITE"]):
        count[draft] += 1
        if (mcpkit.schema_errors(test["data"], schema) == []) != test["valid"]:
            wrong.append((draft, name, test["description"]))
    assert wrong == [] and min(count.values()) > 500 and len(count) == 2


# =============================================================================================
# 7. TYPES AND SIGNATURES
# =============================================================================================
def build(function, content_types=()):
    return build_signature(function, Context, content_types)


def function_of(annotation, *default):
    """Return a function with one parameter `x`, required unless a default is given."""
    def call(x):
        return x
    call.__defaults__ = default or None
    call.__annotations__["x"] = annotation
    return call


def returning(annotation):
    def call():
        raise NotImplementedError
    call.__annotations__["return"] = annotation
    return call


def properties_of(function):
    return build(function).input_schema["properties"]


def bind_one(annotation, value):
    return build(function_of(annotation)).bind({"x": value})["x"]


@pytest.fixture
def users_module(tmp_path):
    """Load a module of the given source, its annotations being strings if postponed."""
    def load(source, postponed=True, name="users_module"):
        path = tmp_path / f"{name}.py"
        future = "from __future__ import annotations\n" if postponed else ""
        path.write_text(future + source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    sys.modules.pop("users_module", None)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    PAIR = (1, 2)


class Options(TypedDict, total=False):
    depth: int
    color: Color


class Place(NamedTuple):
    latitude: float
    longitude: Annotated[float, "degrees east"] = 0.0


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0
    tags: List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    color: Color = Color.RED


@dataclasses.dataclass
class Node:
    name: str
    children: List["Node"] = dataclasses.field(default_factory=list)
    parent: Optional["Node"] = None


@dataclasses.dataclass
class Forest:
    root: "Tree"


@dataclasses.dataclass
class Tree:
    forests: List[Forest]


@dataclasses.dataclass
class Square:
    side: float
    area: float = dataclasses.field(init=False)

    def __post_init__(self):
        if self.side < 0:
            raise ValueError("side is negative")
        self.area = self.side ** 2


def array_of(**items):
    return {"type": "array", "items": items}


def text_of(form):
    return {"type": "string", "format": form}


def object_of(required=(), **properties):
    return {"type": "object", "properties": properties,
            **({"required": list(required)} if required else {}), "additionalProperties": False}


INT, TEXT, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
RED_BLUE = {"type": "string", "enum": ["red", "blue"]}
POINT = object_of(["x"], x=INT, y={**INT, "default": 0}, tags=array_of(type="string"))
PLACE = object_of(["latitude"], latitude={"type": "number"}, longitude={
    "type": "number", "default": 0.0, "description": "degrees east"})
UserId = NewType("UserId", int)
UTC = datetime.timezone.utc

# Annotations: the schema, JSON that fits it, and what the function gets of it.
TYPES = {
    "str": (str, TEXT, "a", "a"), "int": (int, INT, 3, 3), "an int sent as 3.0": (int, INT, 3.0, 3),
    "float": (float, {"type": "number"}, 2.5, 2.5), "bool": (bool, {"type": "boolean"}, True, True),
    "None": (None, NULL, None, None), "Any": (Any, {}, {"a": [1]}, {"a": [1]}),
    **{f"any array: {kind}": (kind, {"type": "array"}, [1, "a"], [1, "a"]) for kind in (
        list, List[Any], collections.abc.Sequence, typing.MutableSequence, typing.Collection)},
    **{f"any set: {kind}": (kind, {"type": "array", "uniqueItems": True}, [1], {1}) for kind in (
        set, typing.AbstractSet, typing.MutableSet)},
    **{f"any object: {kind}": (kind, {"type": "object", "additionalProperties": True}, {"a": 1},
                               {"a": 1}) for kind in (dict, Dict, typing.MutableMapping,
                                                      Mapping[str, Any])},
    "List": (List[str], array_of(type="string"), ["a"], ["a"]),
    "ints sent as floats": (list[int], array_of(type="integer"), [1.0, 2], [1, 2]),
    "Iterable": (Iterable[int], array_of(type="integer"), [1], [1]),
    "nested lists": (List[List[Color]], array_of(**array_of(**RED_BLUE)), [["red"]], [[Color.RED]]),
    "items described": (List[Annotated[str, "a tag"]], array_of(
        type="string", description="a tag"), ["a"], ["a"]),
    "bare tuple": (tuple, {"type": "array"}, [1, "a"], (1, "a")),
    "fixed tuple": (Tuple[int, Color], {"type": "array", "prefixItems": [INT, RED_BLUE],
                                        "minItems": 2, "maxItems": 2}, [1, "red"], (1, Color.RED)),
    "tuple of any length": (Tuple[int, ...], array_of(type="integer"), [1, 2], (1, 2)),
    "Set": (Set[int], {**array_of(type="integer"), "uniqueItems": True}, [1, 2], {1, 2}),
    "FrozenSet": (FrozenSet[Color], {**array_of(**RED_BLUE), "uniqueItems": True}, ["red"],
                  frozenset({Color.RED})),
    "Dict": (Dict[str, Color], {"type": "object", "additionalProperties": RED_BLUE},
             {"a": "red"}, {"a": Color.RED}),
    "keys from an Enum": (Dict[Color, int], {"type": "object", "propertyNames": RED_BLUE,
                                             "additionalProperties": INT},
                          {"red": 1}, {Color.RED: 1}),
    "days as keys": (Dict[datetime.date, int], {"type": "object", "propertyNames": text_of("date"),
                                                "additionalProperties": INT},
                     {"2024-01-02": 3}, {datetime.date(2024, 1, 2): 3}),
    "Optional": (Optional[str], {"type": ["string", "null"]}, None, None),
    "Union of arrays": (Union[list, tuple], {"type": ["array"]}, [1], [1]),
    "Union of lists": (Union[List[int], Set[str]], {"anyOf": [array_of(type="integer"), {
        **array_of(type="string"), "uniqueItems": True}]}, ["a"], {"a"}),
    "Optional of a described type": (Optional[Annotated[str, "why"]], {
        "anyOf": [{**TEXT, "description": "why"}, NULL]}, "a", "a"),
    "an int that is no str": (Union[str, Level], {"anyOf": [TEXT, {**INT, "enum": [1, 2]}]},
                              2, Level.HIGH),
    "the first that fits": (Union[int, Color], {"anyOf": [INT, RED_BLUE]}, "red", Color.RED),
    "the class with such members": (Union[Place, Point], {"anyOf": [PLACE, POINT]}, {"x": 1},
                                    Point(1)),
    "true is no int": (Union[int, bool], {"type": ["integer", "boolean"]}, True, True),
    "a day or a word": (Union[datetime.date, str], {"anyOf": [text_of("date"), TEXT]},
                        "soon", "soon"),
    "Literal": (Literal["a", "b"], {**TEXT, "enum": ["a", "b"]}, "b", "b"),
    "Literal of several kinds": (Literal["a", 1, None], {"enum": ["a", 1, None]}, 1, 1),
    "true is not one": (Literal[1, True, Color.RED], {"enum": [1, True, "red"]}, True, True),
    "one is not true": (Literal[True, 1, Color.RED], {"enum": [True, 1, "red"]}, 1, 1),
    "Literal of a member": (Literal[Color.RED], {**TEXT, "enum": ["red"]}, "red", Color.RED),
    "Enum": (Color, RED_BLUE, "red", Color.RED),
    "Enum of tuples": (Mixed, {"enum": [1, [1, 2]]}, [1, 2], Mixed.PAIR),
    "NewType": (UserId, INT, 7.0, 7),
    "Optional NewType": (Optional[UserId], {"type": ["integer", "null"]}, None, None),
    "Final": (dataclasses.make_dataclass("Fixed", [("a", typing.Final[int])]),
              object_of(["a"], a=INT), None, None),
    "a moment": (datetime.datetime, text_of("date-time"), "2024-01-02T03:04:05Z",
                 datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "a moment elsewhere": (
        datetime.datetime, text_of("date-time"), "2024-01-02T03:04:05+02:00", datetime.datetime(
            2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
    "a moment of nine digits": (datetime.datetime, text_of("date-time"),
                                "2024-01-02T03:04:05.123456789",
                                datetime.datetime(2024, 1, 2, 3, 4, 5, 123456)),
    "a day": (datetime.date, text_of("date"), "2024-02-29", datetime.date(2024, 2, 29)),
    "a time of the day": (datetime.time, text_of("time"), "03:04:05.5z",
                          datetime.time(3, 4, 5, 500_000, tzinfo=UTC)),
    "a duration": (datetime.timedelta, text_of("duration"), "P1DT2H3M4.5S",
                   datetime.timedelta(1, 7384, 500_000)),
    "a duration in weeks": (datetime.timedelta, text_of("duration"), "P2W", datetime.timedelta(14)),
    "a duration backwards": (datetime.timedelta, text_of("duration"), "-PT90M",
                             -datetime.timedelta(minutes=90)),
    "UUID": (uuid.UUID, text_of("uuid"), str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    "Decimal": (decimal.Decimal, text_of("decimal"), "1.10", decimal.Decimal("1.10")),
    "Path": (pathlib.Path, text_of("path"), "a/b", pathlib.Path("a/b")),
    "IPv4Address": (ipaddress.IPv4Address, text_of("ipv4"), "127.0.0.1",
                    ipaddress.IPv4Address("127.0.0.1")),
    "IPv6Interface": (ipaddress.IPv6Interface, text_of("ipv6interface"), "::1/64",
                      ipaddress.IPv6Interface("::1/64")),
    "keywords": (Annotated[int, {"minimum": 0}, "how many"], {
        **INT, "minimum": 0, "description": "how many"}, 1, 1),
    "other metadata": (Annotated[int, 5, object()], INT, 1, 1),
    "the outer of two descriptions": (Annotated[Annotated[int, "inner"], "outer"], {
        **INT, "description": "outer"}, 1, 1),
    "NamedTuple": (Place, PLACE, {"latitude": 1.5}, Place(1.5)),
    "namedtuple": (collections.namedtuple("Pair", "a b", defaults=[1]),
                   object_of(["a"], a={}, b={"default": 1}), None, None),
    "dataclass": (Point, POINT, {"x": 1}, Point(1, 0, [])),
    "TypedDict that is not total": (Options, object_of(depth=INT, color=RED_BLUE),
                                    {"color": "red"}, {"color": Color.RED}),
    "a class used once stays in place": (List[Place], array_of(**PLACE), [{"latitude": 1}],
                                         [Place(1)]),
    "a described class": (Annotated[Place, "where"], {**PLACE, "description": "where"},
                          {"latitude": 1}, Place(1)),
    "a string in a generic": (list["Place"], array_of(**PLACE), [], []),
    "a field that __init__ does not take": (Square, object_of(["side"], side={"type": "number"}),
                                            {"side": 2}, Square(2)),
}


@table("annotation, schema, sent, value", TYPES)
def test_a_type_has_a_schema_and_its_values_come_and_go_as_json(annotation, schema, sent, value):
    assert properties_of(function_of(annotation))["x"] == schema
    if sent is not None or value is not None:
        bound = bind_one(annotation, sent)
        assert bound == value and type(bound) is type(value)
        if annotation is not Square:                 # which gives back more than it takes
            back = json.loads(json.dumps(to_json_value(bound), allow_nan=False))
            assert bind_one(annotation, back) == bound


def test_the_pong_example_gives_exactly_the_schemas_of_its_transcript():
    class Pong(TypedDict):
        response: Annotated[str, "the response from the agent"]

    def pong(message: Annotated[str, "the message to send to the agent"]) -> Pong:
        """Answers every message with the word pong."""

    assert build(pong)[:4] == (
        object_of(["message"], message={**TEXT, "description": "the message to send to the agent"}),
        object_of(["response"], response={**TEXT, "description": "the response from the agent"}),
        "Answers every message with the word pong.", None)


DEFAULTS = {
    "a plain value": (str, "general", {**TEXT, "default": "general"}),
    "a member": (Color, Color.RED, {**RED_BLUE, "default": "red"}),
    "a tuple": (Tuple[int, ...], (1, 2), {**array_of(type="integer"), "default": [1, 2]}),
    "an int for a float": (float, 1, {"type": "number", "default": 1}),
    "a day": (datetime.date, datetime.date(2024, 1, 2), {
        **text_of("date"), "default": "2024-01-02"}),
    "None if null is accepted": (Optional[str], None, {
        "type": ["string", "null"], "default": None}),
    "None if null is not accepted": (str, None, TEXT),
    "a sentinel without JSON form": (str, object(), TEXT),
    "a value of another type": (int, "auto", INT), "true for an int": (int, True, INT),
    "not a number": (float, math.nan, {"type": "number"}), "infinity": (Any, math.inf, {}),
    "an Ellipsis": (str, ..., TEXT),
    "before the description": (Annotated[str, "why", {"minLength": 1}], "a", {
        **TEXT, "minLength": 1, "default": "a", "description": "why"}),
}


@table("annotation, default, schema", DEFAULTS)
def test_a_default_is_shown_if_its_schema_accepts_it_and_always_makes_optional(
        annotation, default, schema):
    whole = build(function_of(annotation, default)).input_schema
    assert whole == object_of(x=schema) and list(whole["properties"]["x"]) == list(schema)


class Notes:
    def add(self, text: str) -> int:
        """Add a note."""

    @classmethod
    def count(cls, tag: str): ...

    @staticmethod
    def clear(tag: str): ...

    def __call__(self, tag: str):
        """List the notes."""


def decorated(function):
    return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))


@decorated
async def answer_later(x: int):
    """Answer later."""


def color_all(*, limit: int = 10, **rest: Color): ...


CALLABLES = {
    "no parameters": (lambda: 0, object_of(), ""),
    "parameters without annotations": (
        lambda x, y=1: 0, object_of(["x"], x={}, y={"default": 1}), ""),
    "further keywords": (color_all, {**object_of(limit={**INT, "default": 10}),
                                     "additionalProperties": RED_BLUE}, ""),
    "further keywords of any kind": (lambda **rest: 0, {
        **object_of(), "additionalProperties": True}, ""),
    "a bound method": (Notes().add, object_of(["text"], text=TEXT), "Add a note."),
    "a class method": (Notes.count, object_of(["tag"], tag=TEXT), ""),
    "a static method": (Notes.clear, object_of(["tag"], tag=TEXT), ""),
    "a callable object": (Notes(), object_of(["tag"], tag=TEXT), "List the notes."),
    "decorated twice": (decorated(decorated(Notes().add)), object_of(["text"], text=TEXT),
                        "Add a note."),
    "cached": (functools.lru_cache(Notes().add), object_of(["text"], text=TEXT), "Add a note."),
    "a coroutine function made a plain one": (answer_later, object_of(["x"], x=INT),
                                              "Answer later."),
    "a partial of a partial": (functools.partial(functools.partial(Notes.add, Notes())),
                               object_of(["text"], text=TEXT), "Add a note."),
    "a partial that fixes a keyword": (
        functools.partial(function_of(Color), x=Color.RED),
        object_of(x={**RED_BLUE, "default": "red"}), ""),
    "a class": (dataclasses.make_dataclass("Made", [("a", int)]), object_of(["a"], a=INT), None),
}


@table("function, schema, description", CALLABLES)
def test_whatever_can_be_called_by_name_has_a_signature(function, schema, description):
    signature = build(function)
    assert signature.input_schema == schema and description in (None, signature.description)


def test_a_class_used_twice_is_defined_once_and_referred_to():
    other = dataclasses.make_dataclass("Point", [("z", int)])

    def draw(line: Line, at: Annotated[Optional[Point], "where"] = None, *, c: other, d: other): ...

    schema = build(draw).input_schema
    assert list(schema)[-1] == "$defs" and list(schema["$defs"]) == ["Point", "Point_"]
    assert schema["$defs"]["Point"] == POINT
    assert schema["properties"]["line"]["properties"]["start"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["d"] == {"$ref": "#/$defs/Point_"}
    assert schema["properties"]["at"] == {"anyOf": [{"$ref": "#/$defs/Point"}, NULL],
                                          "default": None, "description": "where"}


def test_a_recursive_class_refers_to_itself_and_an_output_schema_shows_its_root():
    reference = {"$ref": "#/$defs/Node"}
    node = object_of(["name"], name=TEXT, children=array_of(**reference), parent={
        "anyOf": [reference, NULL], "default": None})
    given = build(function_of(Node))
    assert given.input_schema == {**object_of(["x"], x=reference), "$defs": {"Node": node}}
    assert build(returning(Node)).output_schema == {**node, "$defs": {"Node": node}}
    json.dumps(build(returning(Node)).output_schema)         # and does not contain itself
    assert given.bind({"x": {"name": "a", "children": [{"name": "b"}]}})["x"] == (
        Node("a", [Node("b")]))
    forests = build(function_of(Forest))
    assert list(forests.input_schema["$defs"]) == ["Forest"]
    value = {"root": {"forests": [{"root": {"forests": []}}]}}
    assert forests.bind({"x": value})["x"] == Forest(Tree([Forest(Tree([]))]))


# From which Python on, a module that defines `call`, and the properties of its `x`.
MODULES = {
    "postponed annotations": (9, """
import dataclasses, enum, typing
class Hue(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Shape:
    hue: Hue
    parts: typing.List[Shape] = dataclasses.field(default_factory=list)
class Box(typing.TypedDict):
    shape: typing.Annotated[Shape, "why"]
def call(x: Box): ...
""", {"shape": {"$ref": "#/$defs/Shape", "description": "why"}}),
    "classes inside a function": (9, """
import dataclasses, typing
def make():
    class Leaf(typing.NamedTuple):
        size: int
    class Branch(typing.TypedDict):
        leaf: Leaf
    def call(x: Branch) -> Leaf:
        return Branch, Leaf, call
    return call
call = make()
""", {"leaf": object_of(["size"], size=INT)}),
    "a class of a module that is gone": (9, """
import sys, typing
class P(typing.NamedTuple):
    a: int
def call(x: P): ...
del sys.modules["users_module"]
""", {"a": INT}),
    "NotRequired": (11, """
from typing import Annotated, NotRequired, Required, TypedDict
class Partial(TypedDict, total=False):
    a: Required[int]
    b: NotRequired[Annotated[int, "maybe"]]
    c: Annotated[NotRequired[int], "maybe"]
def call(x: Partial): ...
""", {"a": INT, "b": {**INT, "description": "maybe"}, "c": {**INT, "description": "maybe"}}),
    "a bar": (10, """
from typing import TypedDict
class Either(TypedDict):
    a: int | None
    b: list[int | str]
def call(x: Either): ...
""", {"a": {"type": ["integer", "null"]}, "b": array_of(type=["integer", "string"])}),
    "an alias": (12, """
from typing import Annotated, TypedDict
type Name = Annotated[str, "a name"]
class Named(TypedDict):
    a: Name
def call(x: Named): ...
""", {"a": {**TEXT, "description": "a name"}}),
}


@table("since, source, properties", MODULES)
def test_annotations_are_read_as_their_module_and_function_see_them(
        since, source, properties, users_module):
    if sys.version_info < (3, since):
        pytest.skip(f"since Python 3.{since}")
    for postponed in (True, "Shape" in source):              # which names itself
        function = users_module(source, postponed).call
        for call in (function, decorated(function), functools.partial(function)):
            described = properties_of(call)["x"]
            assert described["properties"] == properties
            assert described["required"] == [name for name in properties if name not in ("b", "c")
                                             or "NotRequired" not in source]


def test_what_this_python_cannot_evaluate_is_refused_with_what_to_write(users_module):
    if sys.version_info >= (3, 12):
        source, message = "type J = list[J] | str\ndef call(x: J): ...", "x: .*recursion"
    elif sys.version_info < (3, 10):
        source = "def call(x: int | None = None): ..."
        message = r"x: int \| None cannot be evaluated.*; write Optional\[int\]"
    else:
        pytest.skip("Python 3.10 and 3.11 evaluate what there is")
    with pytest.raises(MCPKitError, match=r"call\(\): " + message):
        build(users_module(source).call)


Unknown = type("Unknown", (), {})


def take_contexts(a: Context, b: Context): ...
def take_complex(**rest: complex): ...
async def run_later(x: int): ...
async def stream_later(x: int): yield x


REFUSALS = {
    "bytes": (function_of(bytes),
              "call(): x: bytes has no form in JSON; take base64 text in a str"),
    "optional bytes": (function_of(Optional[bytes]), "call(): x: bytes has no form in JSON"),
    "another class": (function_of(Unknown), "call(): x: Unknown has no form in JSON"),
    "nested": (function_of(Dict[str, List[complex]]), "call(): x: complex has no form in JSON"),
    "a field": (function_of(dataclasses.make_dataclass("P", [("z", complex)])),
                "call(): x: z: complex has no form in JSON"),
    "keys that are numbers": (function_of(Dict[int, str]),
                              "call(): x: Dict[int, str] has keys that are no strings"),
    "a type variable": (function_of(typing.TypeVar("T")), "call(): x: ~T has no form in JSON"),
    "a callable": (function_of(typing.Callable[[int], int]), "call(): x: Callable"),
    "a value in place of a type": (function_of(5), "call(): x: 5 has no form in JSON"),
    "a list in place of a type": (function_of([int]), "call(): x: [<class 'int'>] has no form"),
    "an Enum of objects": (function_of(enum.Enum("E", {"A": object()})),
                           "call(): x: object has no form in JSON"),
    "an unknown name": (
        function_of("Nowhere"), "call(): x: Nowhere cannot be evaluated, name 'Nowhere' is not "
                                "defined; define it where the whole module sees it"),
    "a sentence": (function_of("the message"), "call(): x: the message cannot be evaluated"),
    "a return of another class": (returning(Unknown),
                                  "call(): return: Unknown has no form in JSON"),
    "a return field": (returning(dataclasses.make_dataclass("P", [("z", complex)])),
                       "call(): return: z: complex has no form in JSON"),
    "positional arguments": (lambda *args: 0,
                             "<lambda>(): args: *args takes its value by position"),
    "positional-only parameters": (lambda x, /: 0, "<lambda>(): x: x takes its value by position"),
    "a builtin that hides its parameters": (max, "max(): no signature found"),
    "not a callable": (5, "5(): 5 is not a callable object"),
    "further keywords": (take_complex, "take_complex(): rest: complex has no form in JSON"),
    "two Contexts": (take_contexts, "take_contexts(): b: a has the Context already"),
    "a coroutine function": (run_later, "run_later(): this is a coroutine function, and mcpkit "
                                        "calls functions in threads: write def, with"),
    "an asynchronous generator": (stream_later, "stream_later(): this is a coroutine function"),
    "a partial of one": (functools.partial(run_later, 1), "run_later(): this is a coroutine"),
    "an object that is one": (type("A", (), {"__call__": run_later})(), "run_later(): this is a"),
}


@table("function, message", REFUSALS)
def test_what_json_cannot_express_is_refused_by_function_parameter_and_annotation(
        function, message):
    with pytest.raises(MCPKitError) as caught:
        Server("x").add_tool(function)
    assert str(caught.value).startswith(message) and isinstance(caught.value, TypeError)


@table("annotation", {"itself": Context, "optional": Optional[Context], "a string": "Context",
                      "described": Annotated[Context, "never shown"],
                      "a subclass": type("Special", (Context,), {})})
def test_the_context_is_named_and_never_in_the_schema(annotation):
    def call(x: int, ctx=None): ...

    call.__annotations__["ctx"] = annotation
    signature = build(call)
    assert signature.context_parameter == "ctx"
    assert signature.input_schema == object_of(["x"], x=INT)
    assert signature.bind({"x": 1}) == {"x": 1}


Image = dataclasses.make_dataclass("Image", [("data", str)])
Picture = dataclasses.make_dataclass("Picture", [], bases=(Image,))


@table("annotation, schema", {
    "dict": (dict, {"type": "object", "additionalProperties": True}),
    "list of text": (List[str], array_of(type="string")), "int": (int, INT),
    "a day": (datetime.date, text_of("date")),
    "optional data": (Optional[int], {"type": ["integer", "null"]}),
    "described": (Annotated[Point, "where"], {**POINT, "description": "where"}),
    "a field that __init__ does not take": (Square, object_of(
        ["side", "area"], side={"type": "number"}, area={"type": "number"})),
    **{f"none, {number}": (kind, None) for number, kind in enumerate((
        str, Annotated[str, "what"], NewType("Name", str), bytes, None, Any, object, Optional[str],
        Union[str, Point], Image, Picture, List[Image], Union[Image, Point], List[bytes]))}})
def test_a_return_annotation_becomes_an_output_schema_if_it_promises_data(annotation, schema):
    assert build(returning(annotation), (Image,)).output_schema == schema


def test_arguments_that_stay_as_they_are_cost_nothing():
    def call(a: str, b: float, c: List[str], d: Dict[str, Any], f: bool = True): ...
    def paint(color: Color, rows: List[str], name: str = "a"): ...

    arguments = {"a": "x", "b": 1, "c": ["y"], "d": {}}
    assert build(call).bind(arguments) is arguments
    arguments = {"color": "red", "rows": ["a"]}
    bound = build(paint).bind(arguments)
    assert bound == {"color": Color.RED, "rows": ["a"]} and bound["rows"] is arguments["rows"]
    assert arguments["color"] == "red"


# The hash of a number is what it leaves over by this prime, so that of a multiple is nothing.
HASHED_ALIKE = [number * (2 ** 61 - 1) for number in range(1, 102)]


def test_a_set_takes_some_items_that_hash_alike_and_a_list_any_number():
    assert bind_one(Set[int], HASHED_ALIKE[1:]) == set(HASHED_ALIKE[1:])
    assert bind_one(List[int], HASHED_ALIKE) == HASHED_ALIKE


REFUSED_ARGUMENTS = {
    "a set whose items all hash alike": (Set[int], HASHED_ALIKE,
                                         "more than 100 of the items have the same hash"),
    "a set of such UUIDs": (FrozenSet[uuid.UUID], [str(uuid.UUID(int=n)) for n in HASHED_ALIKE],
                            "more than 100 of the items have the same hash"),
    "a class that refuses its fields": (Square, {"side": -1}, "side is negative"),
    **{f"no {form}: {text}": (kind, text, f'must have the format {form}, but is "{text}"')
       for kind, form, *texts in (
           (datetime.datetime, "date-time", "soon"), (datetime.date, "date", "2023-02-29"),
           (datetime.time, "time", "24:60"), (uuid.UUID, "uuid", "1"),
           (datetime.timedelta, "duration", "P1Y", "P9999999999D", "PT"),
           (decimal.Decimal, "decimal", "NaN", "ten"), (ipaddress.IPv4Address, "ipv4", "::1"),
           (Optional[datetime.date], "date", "x")) for text in texts},
    "one of several": (List[datetime.date], ["2024-01-02", "x"],
                       'must have the format date, but is "x"'),
    "none of several": (Union[datetime.date, List[uuid.UUID]], ["x"],
                        'must have the format uuid, but is "x"'),
}


@table("annotation, value, message", REFUSED_ARGUMENTS)
def test_what_a_type_refuses_is_an_error_that_names_the_argument(annotation, value, message):
    with pytest.raises(MCPError) as caught:
        bind_one(annotation, value)
    assert caught.value.code == -32602 and caught.value.message == f"/x: {message}"


@dataclasses.dataclass
class Never:
    number: int
    refused = []

    def __post_init__(self):
        self.refused.append(self.number)
        raise ValueError(f"{self.number} is never right")


@dataclasses.dataclass
class Twin:
    child: Union["Twin", "Double", Never]
    kind: Literal["twin", "any"]


@dataclasses.dataclass
class Double:
    child: Union["Twin", "Double", Never, None]
    kind: Literal["double", "any"]


@table("kind, leaf, most", {"that fits": ("double", None, 0),
                            "that nothing fits": ("any", {"number": 7}, 2000)})
def test_a_deep_union_does_not_try_every_combination(kind, leaf, most):
    value, Never.refused = leaf, []
    for _ in range(60):
        value = {"child": value, "kind": kind}
    if leaf is None:
        assert type(bind_one(Union[Twin, Double], value).child.child) is Double
    else:
        with pytest.raises(MCPError, match="/x: 7 is never right$"):
            bind_one(Union[Twin, Double], value)
    assert len(Never.refused) <= most


GOOGLE = """Search the notes.

    Only titles are looked at,
    not bodies.

    Args:
        query: What to look for,
            in any case.

            A second paragraph.
        limit (int, optional): At most: this many.
        *rest: Ignored.

    Returns:
        The notes.

    Raises:
        ToolError: If there are none.

    Example:
        search("a")
    """
SPHINX = GOOGLE.partition("    Args:")[0] + """
    :param query: What to look for,
        in any case. A second paragraph.
    :type query: str
    :param int limit: At most: this many.
    :returns: The notes.
    :raises ToolError: If there are none.
    """


@table("docstring", {"Google": GOOGLE, "Sphinx": SPHINX})
def test_a_docstring_describes_the_parameters_and_the_rest_is_the_description(docstring):
    def search(query: str, limit: Annotated[int, {"minimum": 1}] = 10): ...

    search.__doc__ = docstring
    signature = build(search)
    assert signature.input_schema["properties"] == {
        "query": {**TEXT, "description": "What to look for, in any case. A second paragraph."},
        "limit": {**INT, "minimum": 1, "default": 10, "description": "At most: this many."}}
    prose, _, example = signature.description.partition("\n\nExample")
    assert prose == "Search the notes.\n\nOnly titles are looked at,\nnot bodies."
    assert ('search("a")' in example) is (docstring is GOOGLE)


@table("docstring, description, of_x", {
    "none": (None, "", None), "one line": ("Do it.", "Do it.", None),
    "nothing but arguments": ("\nArgs:\n    x: The x.\n", "", "The x."),
    "arguments at once": ("Do it.\nArgs:\n    x: The x.", "Do it.", "The x."),
    "prose after a section": ("Do.\n\nArgs:\n    x: The x.\n\nMore.", "Do.\n\nMore.", "The x."),
    "several names": ("Do.\n\nArgs:\n    x, y: Both.", "Do.", "Both."),
    "a continuation that looks like an entry": (
        "Do.\n\nArgs:\n    x: One\n        y: two.", "Do.", "One y: two."),
    "a type with brackets": ("Do.\n\nArgs:\n    x (Dict[str, int]): It.", "Do.", "It."),
    "an empty section": ("Do.\n\nReturns:\n\nMore.", "Do.\n\nMore.", None),
    "a title within prose": ("Arguments: none.", "Arguments: none.", None),
    "keywords": ("Do.\n\nKeyword Args:\n    x: The x.", "Do.", "The x."),
    "another name": ("Do.\n\nArgs:\n    z: The z.", "Do.", None),
    "tabs": ("Do.\n\n\tArgs:\n\t\tx: The x.", "Do.", "The x.")})
def test_an_unusual_docstring_is_read_sensibly_and_annotated_prevails(docstring, description, of_x):
    for annotation, expected in ((str, of_x), (Annotated[str, "by annotation"], "by annotation")):
        function = function_of(annotation)
        function.__doc__ = docstring
        signature = build(function)
        assert signature.description == description
        assert signature.input_schema["properties"]["x"].get("description") == expected


Text, Ratio = type("Text", (str,), {}), type("Ratio", (float,), {})


@table("value, expected", {
    "a string": ("a", "a"), "a number": (1.5, 1.5), "None": (None, None), "true": (True, True),
    "a list": ([1, "a"], [1, "a"]), "a dict": ({"a": 1, "b": None}, {"a": 1, "b": None}),
    "a subclass of str": (Text("a"), "a"), "a subclass of float": (Ratio(0.5), 0.5),
    "an IntEnum member": (Level.LOW, 1), "a member whose value is a tuple": (Mixed.PAIR, [1, 2]),
    "a tuple": ((1, (2, 3)), [1, [2, 3]]), "a set": ({1}, [1]),
    "a frozenset": (frozenset("a"), ["a"]), "keys of a dict": ({"a": 1}.keys(), ["a"]),
    "a dataclass": (Line(Point(1), Point(2)), {
        "start": {"x": 1, "y": 0, "tags": []}, "end": {"x": 2, "y": 0, "tags": []},
        "color": "red"}),
    "a NamedTuple in a list": ([Place(1.0)], [{"latitude": 1.0, "longitude": 0.0}]),
    "keys and values that are members": ({Color.RED: Color.RED}, {"red": "red"}),
    "keys that are numbers": ({2: "a", True: "b", None: "c"}, {"2": "a", "true": "b", "null": "c"}),
    "another mapping": (collections.ChainMap({"a": (1,)}), {"a": [1]}),
    "an OrderedDict": (collections.OrderedDict(a=1), {"a": 1})})
def test_a_value_becomes_plain_json(value, expected):
    plain = to_json_value(value)
    assert plain == expected and json.loads(json.dumps(plain, allow_nan=False)) == expected


@table("value", {
    "bytes": b"a", "an object": object(), "a class": Point, "an object inside": {"a": [object()]},
    "keys that are tuples": {(1, 2): "a"}, "keys that are NamedTuples": {Place(1.0): "a"},
    "a NaN of another class": Ratio("nan"), "not a number": math.nan,
    "infinity, nested": {"a": [math.inf]}, "a generator": (number for number in ())})
def test_a_value_without_json_form_is_refused(value):
    with pytest.raises((TypeError, ValueError), match="JSON"):
        to_json_value(value)


# Modules of the standard library that are slow to load, or large; hmac and secrets bring _hashlib.
# http.server is what the file is built on; it brings email, http.client and ssl.
SLOW = ("_hashlib argparse asyncio dataclasses encodings.idna inspect logging sqlite3 subprocess "
        "urllib.request").split()
ANSWERING = """
import socket
with mcpkit.HTTPService(mcpkit.Server("x", sessions=True), port=0) as service:
    with socket.socket() as sock:
        sock.connect(service.server_address)
        sock.sendall(b"POST /mcp HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: %d\\r\\n"
            b"Accept: application/json, text/event-stream\\r\\nContent-Type: application/json"
            b"\\r\\n\\r\\n%s" % (len(sys.argv[2]), sys.argv[2].encode()))
        answer = sock.recv(10000)
    assert b"200 OK" in answer and b"Date: " in answer and b"Mcp-Session-Id: " in answer, answer
"""


@pytest.mark.parametrize("code", ["", ANSWERING], ids=["imports it", "has a server answer"])
def test_a_program_that_imports_the_module_loads_nothing_that_is_slow(code, tmp_path):
    code = (f"import sys; sys.path.insert(0, sys.argv[1]); import mcpkit\n{code}\n"
            f"print(*{{*{SLOW}}} & {{*sys.modules}})")
    body = json.dumps(call("initialize", {"protocolVersion": "2025-06-18"}))
    assert run_python(tmp_path, "-c", code, str(ROOT), body) == (0, "\n", "")


# ==== URI templates ====

def build_finder(template):
    """Return what gives, of a URI, the texts that the function of a template gets, or None."""
    server = Server("x")
    names = re.findall(r"\{\+?(\w+)}", template)
    server.add_resource(eval(f"lambda {', '.join(names)}: 0"), uri="a:" + template)

    def find(uri):
        found = server.find_resource("a:" + uri)
        return found and found[1]

    return find


@table("template, uri, texts", {
    "what a URI gives a meaning": ("//{b}", "//%2Fc%3F%23%25%20", {"b": "/c?#% "}),
    "other letters": ("//{b}", "//%E4%B8%96-x", {"b": "\u4e16-x"}),
    "slashes": ("//{+b}/end", "//c/d/end/end", {"b": "c/d/end"}),
    "reserved characters": ("//{+b}", "//c?d=e&f#g", {"b": "c?d=e&f#g"}),
    "a folder and a name": ("//{+folder}/{name}", "//b/c/d", {"folder": "b/c", "name": "d"}),
    "a name and its type": ("//{name}.{type}", "//b.tar.gz", {"name": "b.tar", "type": "gz"}),
    "side by side": ("//{b}{c}", "//xyz", {"b": "xy", "c": "z"}),
    "text after the last part": ("//{b}/raw", "//c/raw", {"b": "c"}),
    "another text after it": ("//{b}/raw", "//c/RAW", None),
    "one that is as long": ("//{+b}", "//" + "c" * 100_000, None)})
def test_a_template_finds_its_parts_in_a_uri(template, uri, texts):
    assert build_finder(template)(uri) == texts


def test_a_client_makes_a_uri_of_a_template_and_the_texts_that_it_wants(sample):
    with Client(sample.url, timeout=WAIT) as client:
        read = client.read_resource("sample://item/{number}", {"number": "41"})
        assert "item 42" in json.dumps(read)
        for wrong in ({}, {"number": "1", "x": "2"}):
            with pytest.raises(UsageError, match="wants number, but gets"):
                client.read_resource("sample://item/{number}", wrong)


def test_random_uris_match_as_a_search_of_all_places_would_find():
    templates = ["{a}", "{+a}", "x{a}x", "{a}-{b}", "{+a}-{b}", "{a}{b}", "{+a}/{b}", "{a}/{+b}",
                 "{a}-{+b}-{c}", "{+a}--{b}/-"]
    finders = [build_finder(template) for template in templates]
    for index, uri in enumerate(build_garbage(7, "x-/", 2000, 8)):
        pattern = re.sub(r"\{\+(.)}", r"(?P<\1>.+)", templates[index % len(templates)])
        pattern = re.sub(r"\{(.)}", r"(?P<\1>[^/]+)", pattern)
        match = re.fullmatch(pattern, uri)
        assert finders[index % len(templates)](uri) == (match and match.groupdict()), (pattern, uri)


@pytest.mark.parametrize("template", ["{a}-{b}", "{+a}-{+b}-{+c}/", "{a}{b}{c}"])
def test_reading_a_uri_costs_no_more_than_its_length(template):
    assert is_linear(build_finder(template), lambda size: "-" * size + "/x", 2000)


# =============================================================================================
# 8. REQUEST CHECKS
# =============================================================================================
CLIENT = {"name": "t", "version": "0"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def gateway():
    """Yield a server with one of everything, on loopback, that has a name of its own."""
    with mcpkit.HTTPService(build_sample_server(), port=0, allow_hosts=["my.example"],
                            allow_origins=["https://app.example"]) as service:
        yield service


def post(method="POST", target="/mcp", version="1.1", body=b'{"jsonrpc":"2.0","method":"x"}',
         **changes):
    """Return the bytes of a request that passes, but for the changes; None leaves a header out."""
    headers = {"host": "localhost", "content_type": "application/json", "content_length": len(body),
               "accept": JSON_BOTH["Accept"], **changes}
    lines = [f"{method} {target} HTTP/{version}", *(
        f"{name.replace('_', '-')}: {value}" for name, value in headers.items()
        if value is not None)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def get(target, method="GET", **changes):
    return post(method, target, body=b"", **changes)


# A "before" case fails two neighbours at once, and the first of them answers.
HEADS = by_outcome({
    202: {"C103 no origin": post(),
        "C103 a local page": post(origin="http://[::1]:1", host="[::1]:1"),
        "a page that is listed": post(origin="https://App.example"),
        "this machine": post(host="LocalHost:80"), "its name": post(host="My.example:9"),
        "C80 absent": post(accept=None), "a query": post(target="/mcp?x"),
        "C83 a charset": post(content_type="application/json; charset=utf-8"),
        "the target of a proxy": post(target="http://my.example/mcp"),
        "no host in 1.0": post(version="1.0", host=None),
        "no expectation in 1.0": post(version="1.0", expect="x")},
    204: {"C105 a page that asks first": get("/mcp", "OPTIONS", content_type=None, accept=None,
                                             origin="http://localhost:1"),
        "of a document": get("/healthz", "OPTIONS", origin="null")},
    200: {"a document": get("/healthz"), "its head": get("/healthz?x", "HEAD"),
        "for a page of any site": get("/healthz", origin="http://evil.example"),
        "of no type that is known": get("/healthz", accept="image/png")},
    400: {"no host": post(host=None), "two hosts": post(host="localhost, localhost"),
        "a broken host": post(host="a b"), "C87 negative": post(content_length="-1"),
        "C81 both": post(transfer_encoding="chunked"),
        "a document without a host": get("/healthz", host=None),
        "before: length, expectation": post(content_length="-1", expect="x")},
    403: {"C103 a stranger's page": post(origin="http://evil.example"),
        "C103 null": post(origin="null"), "before: origin, path": post(target="/x", origin="null")},
    404: {"another path": post(target="/other"), "below a document": get("/healthz/x"),
        "a path written otherwise": get("/HEALTHZ"), "before: path, method": post("PUT", "/other")},
    405: {"C90 HEAD": get("/mcp", "HEAD"), "GET without sessions": get("/mcp"),
        "a POST to a document": post(target="/healthz"), "its DELETE": get("/healthz", "DELETE")},
    406: {"C80 JSON only": post(accept="application/json"),
        "before: accept, length": post(accept="text/html", content_length="-1")},
    411: {"no length": post(content_length=None, body=b"")},
    413: {"C87 too large": post(content_length="99999999999")},
    415: {"C83 plain text": post(content_type="text/plain"), "C83 no type": post(content_type=None),
        "C100 compressed": post(content_encoding="gzip"),
        "before: type, accept": post(content_type="text/plain", accept="text/html")},
    417: {"C90 another expectation": post(expect="200-maybe")},
    421: {"a re-bound name": post(host="evil.example"),
        "a look-alike": post(host="127.0.0.1.evil.example:80"),
        "another target": post(target="http://evil.example/mcp"),
        "of a document": get("/healthz", "PUT", host="evil.example"),
        "before: host, origin": post(host="evil.example", origin="null")}})


@table("status, data", HEADS)
def test_a_head_is_admitted_or_refused_before_the_body(gateway, status, data):
    assert send_raw(gateway, data).startswith(b"HTTP/1.1 %d " % status)


@table("word, data", {
    "C80": (b"application/json and text/event-stream", post(accept="application/json")),
    "C80 missing": (b'"missing":["text/event-stream"]', post(accept="application/json")),
    "C90": (b"\r\nAllow: POST\r\n", get("/mcp", "HEAD")),
    "a document": (b"\r\nAllow: GET, HEAD\r\n", post(target="/healthz")),
    "a name": (b"--allow-host", post(host="evil.example")),
    "a page": (b"--allow-origin", post(origin="http://evil.example"))})
def test_a_refused_head_is_told_what_would_be_accepted(gateway, word, data):
    assert word in send_raw(gateway, data)


@table("count, data", {"a body": (2, post()), "closing": (1, post(connection="keep-alive, Close")),
    "C81 chunked": (2, post(content_length=None, transfer_encoding="chunked",
                            body=b"7\r\n{\"id\":1\r\n1\r\n}\r\n0\r\n\r\n")),
    "1.0": (1, post(version="1.0")), "1.0 kept": (2, post(version="1.0", connection="Keep-Alive")),
    "an expectation in 1.0": (1, post(version="1.0", expect="100-continue")),
    "C90 a body that is not read": (1, post("OPTIONS")), "no body": (2, get("/mcp", "OPTIONS"))})
def test_a_connection_goes_on_where_the_next_request_can_be_found(gateway, count, data):
    assert send_raw(gateway, data * 2).count(b"HTTP/1.1 ") == count


VERSION, CAPABILITIES, LOG_LEVEL = ("io.modelcontextprotocol/" + name for name in (
    "protocolVersion", "clientCapabilities", "logLevel"))
LATER = {**META, VERSION: "2031-01-01"}


def modern(method, params=None, meta=META, request_id=1, **headers):
    """Return a modern request as (message, headers); a header that is None is left out."""
    params = {**(params or {}), **({} if meta is None else {"_meta": meta})}
    message = {"jsonrpc": "2.0", "method": method, "params": params, "id": request_id}
    if request_id is None:
        del message["id"]
    name = params.get("name", params.get("uri", params.get("taskId")))
    return message, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
                     "Mcp-Name": name if isinstance(name, str) else None,
                     **{key.replace("_", "-"): value for key, value in headers.items()}}


def add(**headers):
    return modern("tools/call", {"name": "add", "arguments": {"a": 1}}, **headers)


def legacy(method, params=None, version=None, session=None, request_id=1):
    return modern(method, params, None, request_id, MCP_Protocol_Version=version, Mcp_Method=None,
                  Mcp_Name=None, Mcp_Session_Id=session)


# What each message meets: None (it is served), or the code of its error. As for HEADS of "before".
MODERN = by_outcome({
    None: {"a call": add(), "C75 an encoded name": add(Mcp_Name="=?base64?YWRk?="),
        "C92 no clientInfo": modern("tools/list", meta={VERSION: "2026-07-28", CAPABILITIES: {}}),
        "C95 an unknown notification": modern("notifications/nope", request_id=None),
        "null arguments": modern("tools/call", {"name": "strange", "arguments": None}),
        "C106 a session is ignored": modern("tools/list", Mcp_Session_Id="x")},
    -32020: {"C91 no name": add(Mcp_Name=None), "C91 another name": add(Mcp_Name="other"),
        "C91 none in the body": modern("tools/call", Mcp_Name="a"),
        "no name at all": modern("tools/call"), "C91 no method": add(Mcp_Method=None),
        "C91 another method": add(Mcp_Method="tools/list"),
        "another case": add(Mcp_Method="Tools/Call"),
        "another address": modern("resources/read", {"uri": "u:a"}, Mcp_Name="u:b"),
        "no header for an empty name": modern("tools/call", {"name": ""}, Mcp_Name=None),
        "C75 broken base64": add(Mcp_Name="=?base64?YQ?="),
        "a raw byte in a name": modern("tools/call", {"name": "\xe9"}),
        "two names": add(Mcp_Name="add, add"),
        "C92 another version": add(MCP_Protocol_Version="2025-11-25"),
        "C92 no version header": add(MCP_Protocol_Version=None),
        "before: equal, supported": modern("tools/list", meta=LATER)},
    -32602: {"C92 no _meta": modern("tools/list", meta=None),
        "_meta in a list": modern("tools/list", meta=[1]),
        "C92 no capabilities": modern("tools/list", meta={VERSION: "2026-07-28"}),
        "C92 null capabilities": modern("tools/list", meta={**META, CAPABILITIES: None}),
        "a number as version": modern("tools/list", meta={**META, VERSION: 5}),
        "a wrong log level": modern("tools/list", meta={**META, LOG_LEVEL: "loud"}),
        "a number as cursor": modern("tools/list", {"cursor": 5}),
        "arguments in a list": modern("tools/call", {"name": "a", "arguments": []}),
        "before: complete, equal": modern("tools/list", meta={VERSION: "2026-07-28"},
                                          Mcp_Method="x")},
    -32022: {"C94 a later version": modern("tools/list", meta=LATER,
                                           MCP_Protocol_Version="2031-01-01"),
        "a later notification": modern("x", meta=LATER, request_id=None,
                                       MCP_Protocol_Version="2031-01-01"),
        "before: supported, known": modern("nope/nope", meta=LATER,
                                           MCP_Protocol_Version="2031-01-01")},
    -32601: {"C95 initialize": modern("initialize", {"protocolVersion": "2025-11-25"}),
        "C95 ping": modern("ping"), "C95 logging": modern("logging/setLevel", {"level": "info"}),
        "C95 subscribe": modern("resources/subscribe", {"uri": "u"}),
        "before: known, params": modern("nope/nope", {"cursor": 5})}})
LEGACY = by_outcome({
    None: {"C96 ping": legacy("ping"), "C47 no version header": legacy("tools/list"),
        "C45 a blank version": legacy("initialize", {"protocolVersion": ""}),
        "C45 a modern version": legacy("initialize", {"protocolVersion": "2026-07-28"})},
    -32602: {"C45 no version to agree on": legacy("initialize")},
    -32601: {"discover": legacy("server/discover"), "before: known, params": legacy("nope/nope")},
    -32022: {"C47 an old version": legacy("tools/list", version="1900-01-01"),
        "C47 nonsense": legacy("tools/list", version="nonsense"),
        "before: version, known": legacy("nope/nope", version="1900-01-01")}})


def find_code(reply):
    return json.loads(reply.body)["error"]["code"] if b'"error"' in reply.body else None


@table("code, sent", MODERN)
def test_a_modern_message_is_routed_or_refused_by_the_first_check(gateway, code, sent):
    reply = ask(gateway, sent[0], **sent[1])
    assert find_code(reply) == code
    assert reply.status == {None: 202 if "id" not in sent[0] else 200, -32601: 404}.get(code, 400)
    if code == -32022:
        error = reply.json["error"]["data"]
        assert error == {"requested": "2031-01-01", "supported": [*REVISIONS[::-1]]}


@table("code, sent", LEGACY)
def test_a_legacy_message_is_routed_or_refused_by_the_first_check(gateway, code, sent):
    reply = ask(gateway, sent[0], **sent[1])
    assert find_code(reply) == code
    assert reply.status == (400 if code == -32022 else 200)


@table("status, sent", by_outcome({
    400: {"C106 no session": legacy("tools/list"),
        "a notification": legacy("notifications/x", request_id=None),
        "before: session, version": legacy("x", version="1900-01-01")},
    404: {"C106 an ended session": legacy("ping", session="x")},
    200: {"no session yet": legacy("initialize", {"protocolVersion": "x"}),
        "C106 the modern era needs none": modern("tools/list")}}))
def test_a_server_that_keeps_sessions_wants_one_of_legacy_clients(status, sent):
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        assert ask(service, sent[0], **sent[1]).status == status


def test_on_stdio_no_header_is_missed_and_a_server_without_tools_has_no_such_method():
    lines = [add()[0], modern("tools/list", meta=LATER)[0],
             modern("x", meta={**META, VERSION: "2025-11-25"})[0]]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    codes = [answer.get("error", {}).get("code") for answer in run_stdio(build_sample_server(), data)]
    assert codes == [None, -32022, -32022]
    bare = [modern("tools/list")[0], modern("completion/complete")[0]]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in bare)
    assert [answer["error"]["code"] for answer in run_stdio(Server("x"), data)] == [-32601, -32601]


def test_the_log_names_what_was_asked_for_in_short_and_nothing_of_its_contents(capfd):
    long = "\x1b[2J\n" + "x" * 1_000_000
    with mcpkit.HTTPService(Server("x"), port=0, log="json") as service:
        for value in (tool_call(long, secret="secret"), call("x" * 1_000_000), ["secret"], "secret",
                      call("resources/read", {"uri": "a://u:secret@h/b?secret=1#secret"}),
                      call("tools/call", {"name": ["secret"]}), call({"secret": 1})):
            ask(service, value, Authorization="Bearer secret", Cookie="secret",
                traceparent="00-nonsense-01")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
    assert "secret" not in json.dumps(lines) and max(map(len, map(json.dumps, lines))) < 350
    assert sorted((line["method"], line.get("name", "")[:20]) for line in lines) == [
        ("POST", ""), ("POST", ""), ("POST", ""), ("resources/read", "a://h/b"), ("tools/call", ""),
        ("tools/call", "\\x1b[2J\\nxxxxxxxxxxx"), ("x" * 100 + "...", "")]


# =============================================================================================
# 9. SESSIONS AND STREAMS
# =============================================================================================
def change_lists(server, *features):
    """Change the list of each of these features once."""
    for feature in features:
        if feature == "tools":
            server.add_tool(lambda: None, name=f"t{len(server.tools)}")
        else:
            server.add_prompt(lambda: "", name=f"p{len(server.prompts)}")


@contextlib.contextmanager
def serve_listener(**limits):
    """Give a server with sessions, and what opens the stream of one session after an event id."""
    server = build_sample_server(sessions=True, **limits)
    with mcpkit.HTTPService(server, port=0) as service:
        headers = {"Mcp_Session_Id": open_session(service)}
        yield server, lambda event_id=None: LiveStream(service, None, **headers, **(
            {"Last_Event_ID": event_id} if event_id else {}))


def read_lists(stream, count):
    return [json.loads(stream.next_event().data)["method"].split("/")[1] for _ in range(count)]


def test_what_is_told_twice_before_it_is_read_is_told_once_and_in_order():
    with serve_listener() as (server, open_stream):
        change_lists(server, "tools", "tools", "prompts", "tools")
        with open_stream() as stream:
            assert read_lists(stream, 3) == ["tools", "prompts", "tools"]
            change_lists(server, "tools")
            assert read_lists(stream, 1) == ["tools"]


@table("limits", {"in number": {"max_events": 3}, "in bytes": {"max_event_bytes": 200}})
def test_a_stream_keeps_the_newest_only_and_goes_on_after_the_event_that_is_named(limits):
    with serve_listener(**limits) as (server, open_stream):
        change_lists(server, *["tools", "prompts"] * 50)
        with open_stream() as stream:
            ids = [stream.next_event().id]
            change_lists(server, "tools")
            while ids[-1] != "0-101":
                ids.append(stream.next_event().id)
        assert 3 <= len(ids) <= 4
        for event_id, found in (("0-100", "0-101"), (ids[0], ids[1])):
            with open_stream(event_id) as stream:
                assert stream.next_event().id == found
        with open_stream("0-2") as stream:
            assert stream.response.status == 400


@pytest.mark.parametrize("event_id", ["x", "1", "9-1", "0-9", "1-1-1", "-1-1", "1" * 5000 + "-1"])
def test_an_event_id_of_nothing_is_refused_with_the_way_out(event_id):
    with serve_listener() as (_, open_stream), open_stream(event_id) as stream:
        error = json.loads(stream.response.read())["error"]["message"]
        assert stream.response.status == 400 and "listen again, without Last-Event-ID" in error


@table("limits, kept", {"in number": ({"max_events": 8}, 4), "in bytes": ({"max_event_bytes": 900}, 4)})
def test_what_a_session_keeps_of_its_calls_is_bounded_and_the_oldest_goes_first(limits, kept):
    server = build_sample_server(sessions=True, **limits)
    message = call("tools/call", {"name": "report", "_meta": {"progressToken": 1}})
    with mcpkit.HTTPService(server, port=0) as service:
        headers = {"Mcp_Session_Id": open_session(service, version="2025-11-25")}
        ids = []
        for _ in range(20):
            with LiveStream(service, message, **headers) as stream:
                ids.append(list(iter(stream.next_event, None))[0].id)
        found = [ask(service, b"", "GET", **headers, Last_Event_ID=event_id).status
                 for event_id in ids]
    assert found == sorted(found, reverse=True) and 1 <= found.count(200) <= kept


def test_what_a_client_says_of_itself_is_bounded_for_a_session_keeps_it():
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        for member in ("clientInfo", "capabilities"):
            reply = ask(service, call("initialize", {
                "protocolVersion": "2025-06-18", member: {"name": "x" * 70_000}}))
            assert reply.json["error"]["code"] == -32602 and "mcp-session-id" not in reply.headers
            assert "longer than 65,536 characters" in reply.json["error"]["message"]
        headers = {"Mcp_Session_Id": open_session(service)}
        codes = [ask(service, call("resources/subscribe", {"uri": f"sample://item/{digits}"}),
                     **headers).json.get("error", {}).get("code")
                 for digits in ("1" * 4000 + str(number) for number in range(20))]
        assert codes == [None] * 16 + [-32602] * 4


@table("notifications, request_id, meta", {
    "its resources": ({"resourceSubscriptions": [f"a://{n}/" + "x" * 100 for n in range(700)]}, 1, {}),
    "ids of others": ({"taskIds": ["x" * 70_000]}, 1, {}), "its id": ({}, "x" * 70_000, {}),
    "what it does not ask for": ({"x": "x" * 70_000}, 1, {}),
    "what it says of itself": ({}, 1, {"x": "x" * 70_000})})
def test_what_a_listener_says_is_bounded_for_it_is_kept_and_sent_back(notifications, request_id,
                                                                     meta):
    server = build_sample_server()
    request = call("subscriptions/listen", {"notifications": notifications,
                                            "_meta": {**META, **meta}}, request_id)
    error = receive(server, request)["error"]
    assert error["code"] == -32602 and "longer than 65,536 characters" in error["message"]
    assert not server.listeners


def test_a_stdio_client_that_read_too_slowly_is_notified_again():
    server, reading, lines = build_sample_server(max_events=2), threading.Event(), queue.Queue()
    output = types.SimpleNamespace(write=lambda data: (
        lines.put(json.loads(data)), b"list_changed" in data and reading.wait(WAIT)),
        flush=lambda: None)
    source = types.SimpleNamespace(lines=queue.Queue())
    source.readline = lambda limit: source.lines.get(timeout=WAIT)
    source.lines.put(json.dumps(call("initialize", {"protocolVersion": "2025-11-25"})).encode())
    thread = threading.Thread(target=mcpkit.StdioService(server, source, output).run)
    thread.start()
    assert lines.get(timeout=WAIT)["id"] == 1
    change_lists(server, "tools")
    methods = [lines.get(timeout=WAIT)["method"]]        # and its client reads no further
    change_lists(server, *["prompts", "tools"] * 4)
    reading.set()
    while methods[-1] != "notifications/resources/list_changed":
        if len(methods) == 2:
            server.add_resource(lambda: "", uri="new:")
        methods.append(lines.get(timeout=WAIT)["method"])
    source.lines.put(b"")
    thread.join(WAIT)
    assert len(methods) <= 5


@table("is_batch", {"in a batch": (True, False), "of a call in a batch": (False, True),
                    "of another id": (None, True)})
def test_c108_a_cancellation_in_2025_03_26_ends_its_call_and_no_other(is_batch):
    cancels_in_batch, calls_in_batch = is_batch
    server, ends, started = Server("x", sessions=True), [], threading.Event()

    @server.tool
    def hang(ctx: Context, rounds: int = 500) -> str:
        started.set()
        for _ in range(rounds):
            if ctx.cancelled:
                break
            threading.Event().wait(0.01)
        ends.append(ctx.cancelled)
        return "ended"

    call_it = call("tools/call", {"name": "hang", "arguments": {
        "rounds": 10 if cancels_in_batch is None else 500}}, 7)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
        "requestId": 8 if cancels_in_batch is None else 7}}
    with mcpkit.HTTPService(server, port=0) as service, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        headers = {"Mcp_Session_Id": open_session(service, version="2025-03-26")}
        answer = pool.submit(ask, service, [call_it, call("ping")] if calls_in_batch else call_it,
                             **headers)
        assert started.wait(WAIT)
        ask(service, [cancel, call("ping")] if cancels_in_batch else cancel, **headers)
        assert b"ended" in answer.result(WAIT).body
    assert ends == [cancels_in_batch is not None]


# =============================================================================================
# 10. INPUT REQUESTS
# =============================================================================================
def receive(server, value, headers=None, channel=None):
    """Return the JSON answer of a server to a JSON value, as over stdio."""
    answer = server.receive(value, headers, None, channel or mcpkit.Channel())
    return json.loads(answer.data) if answer.data else None


def tool_call(name, **arguments):
    return call("tools/call", {"name": name, "arguments": arguments})


class RecordingChannel(mcpkit.Channel):
    """A way back that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)


CAN_ANSWER = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Shade(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Order:
    item: str
    color: Shade = Shade.RED
    count: typing.Annotated[int, "How many."] = 1
    extras: typing.List[typing.Literal["bag", "bow"]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Stay:
    arrival: datetime.date
    key: uuid.UUID = uuid.UUID(int=0)


ADA = {"action": "accept", "content": {
    "name": "Ada", "item": "pen", "color": "blue", "arrival": "2024-02-29"}}
ANSWERS = {
    "elicitation/create": ADA,
    "sampling/createMessage": {"role": "assistant", "model": "m",
                               "content": {"type": "text", "text": "Paris"}},
    "roots/list": {"roots": [{"uri": "file:///work", "name": "work"}]},
}


def forgive(ctx):
    try:
        return ctx.elicit("Your name?", NAME_FORM).action
    except Exception:
        return "the question was swallowed"


def ask_twice(ctx):
    first = ctx.elicit("First?", NAME_FORM).content["name"]
    return first + ctx.elicit(f"Second, after {first}?", NAME_FORM).content["name"]


def ask_thrice(ctx):
    answers = [ctx.ask({"again": mcpkit.Elicitation(f"{word}?", NAME_FORM)})["again"]
               for word in ("First", "Second")]
    answers.append(ctx.elicit("Third?", NAME_FORM))
    return "".join(answer.content["name"] for answer in answers)


ASKING = {
    "greet": lambda ctx: "{0.action} {0.content}".format(
        ctx.elicit("Your name?", NAME_FORM, key="user_name")),
    "forgive": forgive, "twice": ask_twice, "thrice": ask_thrice,
    "order": lambda ctx: dataclasses.asdict(ctx.elicit("What shall it be?", Order).content),
    "confirm": lambda ctx: ctx.elicit("Sure?").action,
    "book": lambda ctx: f"{ctx.elicit('When?', Stay).content.arrival:%A}",
    "visit": lambda ctx: ctx.elicit("Please log in", url="https://example.com/login").action,
    "capital": lambda ctx: ctx.sample("Capital of France?", max_tokens=5, system_prompt="Be brief")[
        "content"]["text"],
    "folders": lambda ctx: [root["uri"] for root in ctx.roots()],
    "everything": lambda ctx: [len(answer) for answer in ctx.ask({
        "name": mcpkit.Elicitation("Name?", NAME_FORM), "city": mcpkit.Sampling("Capital?"),
        "folders": mcpkit.Roots()}).values()],
    "letter": lambda ctx: f"Write to {ctx.elicit('To whom?', NAME_FORM).content['name']}.",
    "profile": lambda ctx: ctx.elicit("Who are you?", NAME_FORM).content["name"],
}


def build_asking_server(runs=None, **options):
    """Return a server whose handlers ask; the name of each that runs is appended to `runs`."""
    server = Server("asking", sessions=True, **options)

    def add(name, decorate):
        def run(ctx: Context):
            if runs is not None:
                runs.append(name)
            return ASKING[name](ctx)
        decorate(run)
    for name in ASKING:
        add(name, server.prompt(name=name) if name == "letter" else server.resource(
            "asking://profile") if name == "profile" else server.tool(name=name))
    return server


class LegacyPeer:
    """A legacy client on the lines of a stdio server: it answers at once what it is asked."""

    def __init__(self, answers, first_lines):
        self.answers, self.sent, self._lines = answers, [], queue.Queue()
        self.put(*first_lines)

    def put(self, *messages):
        for message in messages:
            self._lines.put(message and json.dumps(message).encode() + b"\n")

    def readline(self, _):
        return self._lines.get(timeout=WAIT)

    def write(self, data):
        self.sent.append(json.loads(data))
        request_id, method = map(self.sent[-1].get, ("id", "method"))
        if request_id == "the call":
            self.put(b"")
        elif method in self.answers:
            answer = self.answers[method]
            self.put({"jsonrpc": "2.0", "id": request_id, **(
                answer if "error" in answer else {"result": answer})})

    def flush(self):
        """Nothing is kept back."""


def call_legacy(server, message, answers=ANSWERS, capabilities=CAN_ANSWER, version="2025-11-25"):
    """Return the answer to a legacy request over stdio, and the messages that came before it."""
    opening = call("initialize", {"protocolVersion": version, "capabilities": capabilities}, 0)
    peer = LegacyPeer(answers, [opening, {**message, "id": "the call"}])
    mcpkit.StdioService(server, peer, peer).run()
    return peer.sent[-1], peer.sent[1:-1]


def call_modern(server, message, answers=ANSWERS, capabilities=CAN_ANSWER, rounds=5):
    """Return the last answer to a request and the rounds before it, answering what is asked."""
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    params, asked = message["params"], []
    while True:
        answer = receive(server, call(message["method"], {**params, "_meta": meta}))
        result = answer.get("result", {})
        if result.get("resultType") != "input_required" or len(asked) == rounds:
            return answer, asked
        asked.append(result)
        params = {**message["params"], "requestState": result["requestState"],
                  "inputResponses": {key: answers[request["method"]] for key, request
                                     in result["inputRequests"].items()}}


def call_both(message, answers=ANSWERS, **options):
    """Return the answers to a request of both eras, and what each was asked."""
    return [ask_in_era(build_asking_server(), message, answers, **options) 
            for ask_in_era in (call_legacy, call_modern)]


def find_text(answer):
    """Return the text in the result of a call, a prompt or a read."""
    result = answer["result"]
    messages = result.get("messages", [{}])[0].get("content")
    return (messages or (result.get("content") or result["contents"])[0])["text"]


def form(message, schema=NAME_FORM):
    return "elicitation/create", {"message": message, "requestedSchema": schema}


@cases({                                   # what is called, what it gives, and what it asks first
    "a form": (tool_call("greet"), "accept {'name': 'Ada'}", form("Your name?")),
    "a form of a class": (
        tool_call("order"), '{"item":"pen","color":"blue","count":1,"extras":[]}',
        form("What shall it be?", {"type": "object", "required": ["item"], "properties": {
            "item": {"type": "string"},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "count": {"type": "integer", "default": 1, "description": "How many."},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["bag", "bow"]}}}})),
    "a form with a day, and with what forms have no format for": (
        tool_call("book"), "Thursday", form("When?", {
            "type": "object", "required": ["arrival"], "properties": {
                "arrival": {"type": "string", "format": "date"},
                "key": {"type": "string", "default": "00000000-0000-0000-0000-000000000000"}}})),
    "a form without members": (tool_call("confirm"), "accept",
                               form("Sure?", {"type": "object", "properties": {}})),
    "a form, forgiving every Exception": (tool_call("forgive"), "accept", form("Your name?")),
    "the model": (tool_call("capital"), "Paris", ("sampling/createMessage", {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
        "maxTokens": 5, "systemPrompt": "Be brief"})),
    "the folders": (tool_call("folders"), '["file:///work"]', ("roots/list", {})),
    "several at once": (tool_call("everything"), "[2,3,1]", form("Name?")),
    "one after another": (tool_call("twice"), "AdaAda", form("First?")),
    "different things under one key": (tool_call("thrice"), "AdaAdaAda", form("First?")),
    "from a prompt": (call("prompts/get", {"name": "letter"}), "Write to Ada.", form("To whom?")),
    "from a resource": (call("resources/read", {"uri": "asking://profile"}), "Ada",
                        form("Who are you?")),
})
def test_a_handler_asks_the_same_in_both_eras(case):
    message, text, (method, params) = case
    (legacy, sent), (modern, asked) = call_both(message)
    assert find_text(legacy) == find_text(modern) == text
    assert (sent[0]["method"], sent[0]["params"]) == (method, params)
    assert next(iter(asked[0]["inputRequests"].values())) == {"method": method, "params": params}
    assert not any("ttlMs" in result for result in asked)


@pytest.mark.parametrize("version, has_id", [("2025-11-25", True), ("2025-06-18", False)])
def test_a_page_to_visit_has_an_id_in_the_one_revision_that_wants_it(version, has_id):
    answer, (asked,) = call_legacy(build_asking_server(), tool_call("visit"), version=version)
    assert ("elicitationId" in asked["params"], asked["params"]["mode"]) == (has_id, "url")
    assert find_text(answer) == find_text(call_modern(build_asking_server(), tool_call("visit"))[0])


@cases({
    "nothing declared": ("greet", {}, {"elicitation": {"form": {}}}),
    "sampling instead of elicitation": ("greet", {"sampling": {}}, {"elicitation": {"form": {}}}),
    "pages but no forms": ("greet", {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
    "forms but no pages": ("visit", {"elicitation": {}}, {"elicitation": {"url": {}}}),
    "no sampling": ("capital", {"elicitation": {}}, {"sampling": {}}),
    "no roots": ("folders", {"elicitation": {}}, {"roots": {}}),
    "a capability that is no object": ("folders", {"roots": True}, {"roots": {}}),
})
def test_only_what_the_client_declared_is_asked(case):
    tool, capabilities, missing = case
    for answer, asked in call_both(tool_call(tool), capabilities=capabilities):
        assert (asked, answer["error"]["code"]) == ([], -32021)
        assert answer["error"]["data"] == {"requiredCapabilities": missing}
        name, inner = next(iter(missing.items()))
        assert answer["error"]["message"] == "Missing required client capability: " + "/".join(
            (name, *inner))


def test_a_legacy_request_outside_of_a_session_declares_nothing_whatever_it_says():
    for meta in ({}, {"io.modelcontextprotocol/clientCapabilities": CAN_ANSWER}):
        request = call("tools/call", {"name": "folders", "_meta": meta})
        error = receive(build_asking_server(), request)["error"]
        assert error["code"] == -32021 and "a session, but this is in none" in error["message"]


def test_an_empty_elicitation_capability_means_forms_and_a_decline_is_an_answer():
    for answers, text in ((ANSWERS, "accept {'name': 'Ada'}"),
                          ({"elicitation/create": {"action": "decline"}}, "decline None")):
        for answer, _ in call_both(tool_call("greet"), answers, capabilities={"elicitation": {}}):
            assert find_text(answer) == text


BLOCK = {"type": "text", "text": "x"}


@cases({
    "no action": ("greet", {"content": {"name": "Ada"}}),
    "an unknown action": ("greet", {"action": "maybe"}),
    "no content": ("greet", {"action": "accept"}),
    "content of the wrong type": ("greet", {"action": "accept", "content": {"name": 3}}),
    "content without a required member": ("greet", {"action": "accept", "content": {}}),
    "content that is a list": ("greet", {"action": "accept", "content": ["Ada"]}),
    "an action that is a list": ("greet", {"action": ["accept"]}),
    "a model's answer without a role": ("capital", {"content": BLOCK}),
    "a model's answer without content": ("capital", {"role": "assistant"}),
    "a text that is no block": ("capital", {"role": "assistant", "content": "x"}),
    "a type that is a list": ("capital", {"role": "assistant", "content": {"type": ["text"]}}),
    "a text without text": ("capital", {"role": "assistant", "content": [{"type": "text"}]}),
    "a tool used without a name": ("capital", {"role": "assistant", "content": {
        "type": "tool_use", "id": "1", "input": {}}}),
    "roots that are none": ("folders", {"roots": [{"name": "x"}]}),
})
def test_an_answer_that_breaks_the_rules_is_refused_in_both_eras(case):
    tool, answer = case
    key = {"greet": "user_name", "capital": "sampling", "folders": "roots"}[tool]
    for refused, _ in call_both(tool_call(tool), dict.fromkeys(ANSWERS, answer)):
        assert refused["error"]["code"] == -32602
        assert f"Invalid answer to {key}: " in refused["error"]["message"]


def test_a_legacy_client_that_refuses_gives_the_call_its_error():
    refusal = {"code": -1, "message": "User rejected sampling"}
    answer, _ = call_legacy(build_asking_server(), tool_call("capital"),
                            {"sampling/createMessage": {"error": refusal}})
    assert answer["error"] == refusal


def test_a_legacy_client_that_does_not_answer_is_told_that_it_need_not_any_more():
    answer, sent = call_legacy(build_asking_server(ask_seconds=0), tool_call("folders"), {})
    assert answer["result"]["isError"]
    assert "did not answer roots/list within 0 s" in find_text(answer)
    assert [message["method"] for message in sent] == ["roots/list", "notifications/cancelled"]
    assert sent[1]["params"]["requestId"] == sent[0]["id"]


def test_a_question_that_cannot_be_asked_keeps_the_others_from_being_asked():
    server = Server("x")

    @server.tool
    def ask_both(ctx: Context):
        ctx.ask({"good": mcpkit.Roots(), "bad": mcpkit.Elicitation("?", {"type": "string"})})

    with quiet_log(server):
        answer, sent = call_legacy(server, tool_call("ask_both"))
    assert answer["result"]["isError"] and sent == []


def test_a_legacy_client_answers_by_another_post_and_other_responses_are_dropped():
    with mcpkit.HTTPService(build_asking_server(), port=0) as service:
        headers, messages = {"Mcp_Session_Id": open_session(service, CAN_ANSWER)}, []

        def answer(request_id):
            response = {"jsonrpc": "2.0", "id": request_id, "result": ADA}
            assert ask(service, response, **headers).status == 202

        with LiveStream(service, tool_call("twice"), **headers) as stream:
            while not messages or "result" not in messages[-1]:
                messages.append(stream.next_message())
                if "method" in messages[-1]:
                    for stray in (99, str(messages[-1]["id"]), 10 ** 400, -1, "", None):
                        answer(stray)
                    answer(messages[-1]["id"])
    assert [message.get("method") for message in messages] == ["elicitation/create"] * 2 + [None]
    assert find_text(messages[-1]) == "AdaAda"


def test_a_session_that_ends_ends_the_wait_for_what_its_client_was_asked():
    with mcpkit.HTTPService(build_asking_server(), port=0) as service:
        session_id = open_session(service, CAN_ANSWER)
        with LiveStream(service, tool_call("folders"), Mcp_Session_Id=session_id) as stream:
            assert stream.next_message()["method"] == "roots/list"
            assert ask(service, method="DELETE", Mcp_Session_Id=session_id).status == 200
            messages = list(iter(stream.next_message, None))
    assert "the client cancelled the call" in find_text(messages[-1])


def test_over_http_a_missing_capability_is_400_and_without_streams_only_the_modern_are_asked():
    server = build_asking_server(stream="never")
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": CAN_ANSWER}
    with mcpkit.HTTPService(server, port=0) as service, quiet_log(server) as lines:
        answer = ask_modern(service, "tools/call", {"name": "greet"})
        assert (answer.status, answer.json["error"]["code"]) == (400, -32021)
        session_id = open_session(service, CAN_ANSWER)
        reply = ask(service, tool_call("folders"), Mcp_Session_Id=session_id)
        assert reply.json["result"]["isError"] and lines == ["tool folders failed"]
        assert "inputRequests" in ask_modern(service, "tools/call", {
            "name": "folders", "_meta": meta}).json["result"]


# ---- rounds

def start_round(server, message, capabilities=CAN_ANSWER, channel=None):
    """Return the input_required result of a request, and what repeats it with more params."""
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}

    def repeat(message=message, channel=channel, **more):
        return receive(server, call(message["method"], {
            **message["params"], "_meta": meta, **more}), channel=channel)
    return repeat()["result"], repeat


def test_a_modern_handler_runs_again_and_earlier_answers_come_back():
    runs = []
    answer, asked = call_modern(build_asking_server(runs), tool_call("twice"))
    assert find_text(answer) == "AdaAda" and runs == ["twice"] * 3
    assert [list(result["inputRequests"]) for result in asked] == [
        ["elicitation"], ["elicitation-2"]]
    assert asked[0]["requestState"] != asked[1]["requestState"]


def test_answers_are_taken_without_a_state_and_unknown_ones_are_ignored():
    _, repeat = start_round(build_asking_server(), tool_call("greet"))
    assert find_text(repeat(inputResponses={"user_name": ADA, "other": 1})) == "accept {'name': 'Ada'}"
    assert repeat(inputResponses={"other": ADA})["result"]["resultType"] == "input_required"
    assert repeat(inputResponses=None)["result"]["resultType"] == "input_required"
    assert repeat(inputResponses={"user_name": 12345})["error"]["code"] == -32602
    assert repeat(inputResponses=[])["error"]["code"] == -32602


def test_an_answer_that_was_not_asked_for_is_ignored_if_we_know_what_was():
    result, repeat = start_round(build_asking_server(), tool_call("twice"))
    early = {"elicitation": ADA, "elicitation-2": {"action": "accept", "content": {"name": "Eve"}}}
    again = repeat(inputResponses=early, requestState=result["requestState"])["result"]
    assert list(again["inputRequests"]) == ["elicitation-2"]
    done = repeat(inputResponses={"elicitation-2": ADA}, requestState=again["requestState"])
    assert find_text(done) == "AdaAda"


def test_what_was_read_with_the_answers_of_a_user_is_not_cacheable():
    message = call("resources/read", {"uri": "asking://profile"})
    result, repeat = start_round(build_asking_server(ttl_ms=5000), message)
    assert "ttlMs" not in result and "cacheScope" not in result
    result = repeat(requestState=result["requestState"], inputResponses={"elicitation": ADA})
    assert (result["result"]["ttlMs"], result["result"]["cacheScope"]) == (0, "private")


def test_answers_too_long_to_be_brought_back_are_a_fault_of_the_server():
    server = build_asking_server(max_body=4000)
    result, repeat = start_round(server, tool_call("twice"))
    answer = {"action": "accept", "content": {"name": "A" * 3000}}
    with quiet_log(server) as lines:
        assert repeat(requestState=result["requestState"],
                      inputResponses={"elicitation": answer})["result"]["isError"]
    assert lines == ["tool twice failed"]


@cases({
    "an answer nested deeply": {"user_name": build_nested(90)},
    "many answers": {str(number): ADA for number in range(10_000)},
    "an answer under an odd name": {"\ud800\u0000": ADA, "": None},
    "numbers": {"user_name": 10 ** 400},
    "a name of three megabytes": {"user_name": {"action": "accept", "content": {
        "name": "A" * 3_000_000}}},
})
def test_odd_answers_are_refused_or_asked_for_again_and_never_an_internal_error(case):
    _, repeat = start_round(build_asking_server(), tool_call("greet"))
    answer = repeat(inputResponses=case)
    assert answer.get("error", {}).get("code") in (None, -32602)
    assert "isError" not in answer.get("result", {})


def test_an_answer_to_another_question_is_not_taken_for_this_one():
    topics = iter(["a pen", "a bank"])
    server = Server("changing")

    @server.tool
    def buy(ctx: Context) -> str:
        return ctx.elicit(f"Buy {next(topics)}?", NAME_FORM, key="buy").action

    result, repeat = start_round(server, tool_call("buy"))
    again = repeat(inputResponses={"buy": ADA}, requestState=result["requestState"])
    assert again["result"]["inputRequests"]["buy"]["params"]["message"] == "Buy a bank?"


def apply(state, place):
    """Return a state with the character at a place changed."""
    place %= len(state)
    return state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1:]


@cases({
    "something appended": lambda state: state + "-TAMPERED",
    "one character of the data changed": lambda state: apply(state, 5),
    "one character of the signature changed": lambda state: apply(state, -9),
    "the signature alone": lambda state: "." + state.partition(".")[2],
    "the data alone": lambda state: state.partition(".")[0],
    "an empty one": lambda state: "", "not base64": lambda state: "\u00e9.\u00e9",
    "no string": lambda state: {"state": state},
    "spaces within": lambda state: state[:8] + " " + state[8:],
    "three megabytes": lambda state: "A" * 3_000_000 + state,
    "three megabytes of dots": lambda state: "." * 3_000_000,
    "a lone surrogate": lambda state: "\ud800." + state,
})
def test_a_state_that_was_tampered_with_is_refused_whatever_else_is_sent(case):
    result, repeat = start_round(build_asking_server(), tool_call("greet"))
    for responses in ({}, {"user_name": ADA}):
        answer = repeat(requestState=case(result["requestState"]), inputResponses=responses)
        assert answer["error"]["code"] == -32602 and "requestState" in answer["error"]["message"]
    other = receive(build_sample_server(), call("tools/call", {      # which asks nothing
        **tool_call("add", a=1, b=2)["params"], "_meta": META,
        "requestState": case(result["requestState"])}))
    assert other["error"]["code"] == -32602


def test_a_state_is_good_for_its_own_request_and_caller_and_server_only(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", "one secret for all of us")
    ada, same, bob = mcpkit.Channel(), mcpkit.Channel(), mcpkit.Channel()
    for channel, name in ((ada, "ada"), (same, "ada"), (bob, "bob")):
        channel.principal = types.SimpleNamespace(subject=name)
    result, repeat = start_round(build_asking_server(), tool_call("greet"), channel=ada)
    good = {"requestState": result["requestState"], "inputResponses": {"user_name": ADA}}
    assert find_text(repeat(**good)) == "accept {'name': 'Ada'}"
    assert find_text(repeat(channel=same, **good)) == "accept {'name': 'Ada'}"
    renamed = build_asking_server()
    renamed.info["name"] = "another"
    monkeypatch.setenv("MCPKIT_SECRET", "another secret for some")
    foreign = build_asking_server()
    refused = [repeat(tool_call("twice"), **good), repeat(tool_call("greet", more=1), **good),
               repeat(channel=bob, **good),
               *(start_round(server, tool_call("greet"), channel=ada)[1](**good)
                 for server in (renamed, foreign))]
    assert all("was not given for this request" in answer["error"]["message"]
               for answer in refused)
    monkeypatch.setenv("MCPKIT_SECRET", "short")
    with pytest.raises(UsageError, match="16 bytes"):
        build_asking_server()


def test_a_stale_state_is_refused_and_servers_with_one_secret_take_each_others(monkeypatch):
    monkeypatch.setenv("MCPKIT_SECRET", "one secret for all of us")
    now = [1000.0]
    options = {"state_seconds": 60, "runtime": Server("x").runtime._replace(
        wall_now=lambda: now[0])}
    result, _ = start_round(build_asking_server(**options), tool_call("twice"))
    _, repeat = start_round(build_asking_server(**options), tool_call("twice"))
    given = {"requestState": result["requestState"], "inputResponses": {"elicitation": ADA}}
    now[0] += 59
    assert list(repeat(**given)["result"]["inputRequests"]) == ["elicitation-2"]
    now[0] += 2
    assert "expired" in repeat(**given)["error"]["message"]


# ---- what can be asked

@cases({
    "each kind of choice": (None, {
        "single": {"type": "string", "enum": ["a"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "named": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        "titled several": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}}),
    "an object within": (UsageError, {"any": {"type": "object"}}),
    "a list of anything": (UsageError, {"any": {"type": "array", "items": {"type": "string"}}}),
    "a list of what is true": (UsageError, {"any": {"type": "array", "items": True}}),
    "no type": (UsageError, {"any": {}}), "true": (UsageError, {"any": True}),
    "several types": (UsageError, {"any": {"type": ["string", "null"]}}),
    "a choice of numbers": (UsageError, {"any": {"type": "integer", "enum": [1, 2]}}),
    "a list of a choice of numbers": (UsageError, {"any": {"type": "array",
                                                           "items": {"enum": [1]}}}),
    "a list of nothing": (UsageError, {"any": {"type": "array", "items": {"enum": []}}}),
    "a pattern that is none": (mcpkit.SchemaError, {"any": {"type": "string", "pattern": "("}}),
})
def test_a_form_has_only_what_a_form_can_show(case):
    fault, members = case
    question = mcpkit.Elicitation("?", {"type": "object", "properties": members})
    if fault is None:
        assert question.build_params("", str)["requestedSchema"] is question.schema
    else:
        with pytest.raises(fault, match="a form cannot ask for any" if fault is UsageError else "pattern"):
            question.build_params("", str)


@cases({
    "no URL": (None, "login"), "a path": (None, "/login"), "an empty one": (None, ""),
    "with a space": (None, "http://a b"), "a form and a page": (NAME_FORM, "https://example.com"),
    "no object": ({"type": "string"}, None), "no schema": ({}, None), "a text": (str, None)})
def test_a_question_is_a_form_of_an_object_or_a_page_with_a_whole_url(case):
    schema, url = case
    message = "describes an object" if url is None else "a schema or the whole URL of a page"
    with pytest.raises(UsageError, match=message):
        mcpkit.Elicitation("?", schema, url).build_params("2025-11-25", str)


@cases({
    "a text": ("x", ["user"]),
    "a block": ({"type": "image", "data": "AA==", "mimeType": "image/png"}, ["user"]),
    "texts and messages": (["x", {"role": "assistant", "content": "y"}, BLOCK],
                           ["user", "assistant", "user"])})
def test_the_model_is_sent_messages_with_blocks(case):
    messages, roles = case
    sent = mcpkit.Sampling(messages).build_params("2025-11-25", str)["messages"]
    assert [message["role"] for message in sent] == roles
    assert all(isinstance(message["content"], dict) for message in sent)


def test_a_completion_may_ask_nothing():
    server = Server("x")
    server.prompt(name="letter")(lambda to: to)

    @server.completion("letter", "to")
    def complete_to(value: str, ctx: Context) -> list:
        return [ctx.roots()]

    message = call("completion/complete", {"ref": {"type": "ref/prompt", "name": "letter"},
                                           "argument": {"name": "to", "value": ""}})
    with quiet_log(server) as lines:
        assert receive(server, message)["error"]["code"] == -32603
    assert lines == ["completion/complete failed"]


# =============================================================================================
# 11. SERVER
# =============================================================================================
def build_choosing_server():
    """Return a server with arguments to be completed, most of which nobody decorated."""
    server = Server("choosing")

    @server.prompt
    def paint(color: Shade, level: Level, glossy: bool, side: Optional[Literal["In", "Out"]],
              note: str, town: str): ...

    @server.resource("choosing://{color}/{shade}")
    def shade(color: Shade, shade: str): ...

    @server.completion("paint", "town")
    def complete_town(value: str, arguments: Dict[str, str]):
        towns = {"red": ["Redhill", "Redruth"], "blue": ["Bluefield"]}
        return (town for town in towns[arguments.get("color", "blue")] if value in town)

    @server.completion("choosing://{color}/{shade}", "shade")
    def complete_shade(value: str):
        return range(150)

    return server


def build_calendar_server():
    """Return a server that wants a day in each way there is, and gives back the one after."""
    server = Server("calendar")

    @dataclasses.dataclass
    class Stay:
        nights: int

        def __post_init__(self):
            if self.nights < 1:
                raise ValueError("a stay has a night")

    @server.tool
    def follow(day: datetime.date, stay: Optional[Stay] = None) -> datetime.date:
        return day + datetime.timedelta(stay.nights if stay else 1)

    @server.prompt
    def plan(day: datetime.date):
        return f"Plan {day:%A}."

    @server.resource("calendar://{day}")
    def page(day: datetime.date):
        return f"{day:%A}"

    return server


def build_files_server():
    """Return a server of files of any path, of which one is not there."""
    server = Server("files")
    server.resource("file:///{+path}")(lambda path: None if path == "gone" else path)
    server.tool(name="whole")(lambda: ToolResult(content=[], isError=False))
    return server


def read(uri):
    return call("resources/read", {"uri": uri})


def fill(prompt, **arguments):
    return call("prompts/get", {"name": prompt, "arguments": arguments})


def complete(reference, name, value="", **more):
    return call("completion/complete", {
        "ref": reference, "argument": {"name": name, "value": value}, **more})


PAINT, SHADE, GREET = ({"type": "ref/prompt", "name": "paint"},
                       {"type": "ref/resource", "uri": "choosing://{color}/{shade}"},
                       {"type": "ref/prompt", "name": "greet"})
NOT_FOUND = (-32602, "Resource not found")
# By what builds the server: a request, and what its result has, or the code and words of its error.
ANSWERED = {
    build_sample_server: {
        "a number is structured content in the modern era only": (
            tool_call("add", a=2), {"content": [{"type": "text", "text": "3"}],
                                    "structuredContent": None}),
        "a text is content": (tool_call("report"), "done"),
        "a tool's failure is a result": (tool_call("fail"), {
            "content": [{"type": "text", "text": "no \u2028 luck"}], "isError": True}),
        "C98 arguments that break the schema are a result": (tool_call("add", a="x"), {
            "content": [{"type": "text", "text": "Invalid arguments for tool 'add': "
                         '/a: must be an integer, but is "x"'}], "isError": True}),
        "bytes of an image are an image": (tool_call("picture"), {
            "content": [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]}),
        "a template": (read("sample://item/41"), {"contents": [
            {"uri": "sample://item/41", "mimeType": "text/plain", "text": "item 42"}]}),
        "bytes are a blob": (read("sample://bytes"), {"contents": [{
            "uri": "sample://bytes", "mimeType": "application/octet-stream", "blob": "AP8="}]}),
        "a prompt": (fill("greet", name="Ada", polite="false"), {
            "description": "Greet somebody.", "messages": [
                {"role": role, "content": {"type": "text", "text": text}} for role, text in (
                    ("user", "Greet Ada."), ("assistant", "Politely: False"))]}),
        "a completion": (complete(GREET, "name", "A"), {
            "completion": {"values": ["Ada", "Alan"], "total": 2, "hasMore": False}}),
        "C98 an unknown tool": (tool_call("nope"), (-32602, "Unknown tool: nope")),
        "C98 an unknown prompt": (fill("nope"), (-32602, "Unknown prompt: nope")),
        "C98 an unknown resource": (read("x://y"), NOT_FOUND),
        "a template's part of the wrong type": (read("sample://item/one"), NOT_FOUND),
        "a prompt without its argument": (fill("greet"), (
            -32602, "Invalid arguments for prompt 'greet': (root): must have the property "
            '"name", but is {}')),
        "an unknown method": (call("posts/list"), (-32601, "Method not found")),
        "a bad cursor": (call("tools/list", {"cursor": "zzz"}), (
            -32602, "Invalid cursor: zzz (use the nextCursor of a list as it is, or start ")),
        "a bad log level": (call("logging/setLevel", {"level": "loud"}), (
            -32602, "Invalid params: level must be one of debug, info, notice, warning, "
            "error, critical, alert, emergency, but is loud")),
        "an unknown reference": (complete({"type": "ref/prompt", "name": "x"}, "a"), (
            -32602, 'Unknown reference: {"type": "ref/prompt", "name": "x"}')),
    },
    build_calendar_server: {
        "a day for a tool": (tool_call("follow", day="2024-02-28"), "2024-02-29"),
        "what is no day for a tool": (tool_call("follow", day="today"), (
            "Invalid arguments for tool 'follow': /day: must have the format date, but is "
            '"today"')),
        "an object that its class refuses": (
            tool_call("follow", day="2024-02-28", stay={"nights": 0}),
            "Invalid arguments for tool 'follow': /stay: a stay has a night"),
        "a day for a prompt": (fill("plan", day="2024-02-29"), "Plan Thursday."),
        "what is no day for a prompt": (fill("plan", day="today"), (
            -32602, "Invalid arguments for prompt 'plan': /day: must have the format date, but")),
        "a day for a resource": (read("calendar://2024-02-29"), "Thursday"),
        "what is no day for a resource": (read("calendar://today"), NOT_FOUND),
    },
    build_files_server: {
        "a whole result": (tool_call("whole"), {"content": [], "isError": False}),
        "dots that do not climb": (read("file:///a/b..c/...d"), "a/b..c/...d"),
        "a resource that gives None": (read("file:///gone"), NOT_FOUND),
        **{f"a path that climbs: {path}": (read(f"file:///{path}"), NOT_FOUND)
           for path in ("..%2Fetc", "..", "a%2f..%2f..%2fb", "a%5C..%5Cb")},
    },
    build_choosing_server: {
        "an unknown argument of a prompt": (complete(PAINT, "colour"), (
            -32602, "Unknown argument: colour (there are: color, level, glossy, side, note, ")),
        "an unknown argument of a template": (complete(SHADE, "x"), (
            -32602, "Unknown argument: x (there are: color, shade)")),
        "another kind of reference": (complete({**PAINT, "type": "ref/resource"}, "color"), (
            -32602, "Unknown reference: ")),
        "a prompt that is none": (complete({**PAINT, "name": ["paint"]}, "color"), (
            -32602, "Unknown reference: ")),
    },
}


@table("build, case", by_outcome(ANSWERED))
def test_a_request_is_answered_as_its_handler_means_it_or_by_an_error_that_says_why(build, case):
    request, wanted = case
    server = build()
    with quiet_log(server) as lines:
        answer = receive(server, request)
    if isinstance(wanted, tuple):
        assert answer["error"]["code"] == wanted[0]
        assert answer["error"]["message"].startswith(wanted[1])
    elif isinstance(wanted, str):
        assert find_text(answer) == wanted
    else:
        assert {name: answer["result"].get(name) for name in wanted} == wanted
    assert lines == []


@pytest.mark.parametrize("name", ["crash", "leave", "infinite", "lie"])
def test_what_a_tool_does_wrong_is_logged_here_and_says_nothing_there(name):
    server = build_sample_server()
    with quiet_log(server) as lines:
        result = receive(server, tool_call(name))["result"]
    assert result == {"content": [{"type": "text", "text":
                                   f"Error calling tool {name!r}: internal error"}],
                      "isError": True}
    assert lines == [f"tool {name} failed"]


HANDLERS = {
    "a tool": tool_call("t"),
    "a resource": call("resources/read", {"uri": "a://b"}),
    "a template": call("resources/read", {"uri": "a://c/d"}),
    "a prompt": call("prompts/get", {"name": "p", "arguments": {"a": ""}}),
    "a completion": call("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
}


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("the secret of the house")


def fail_with(error):
    """Return a function that raises an error, whatever it is called with."""
    def fail(*_):
        raise error
    return fail


HANDLER_FAULTS = {
    "an exception": fail_with(ValueError("the secret of the house")),
    "an exception without words": fail_with(Unspeakable()),
    "an error of ours that is no JSON": fail_with(MCPError(-32000, "so", object())),
    "a result that is no JSON": object,
    "a result without end": lambda: (lambda loop: loop.append(loop) or loop)([]),
}


@cases(HANDLERS)
@pytest.mark.parametrize("fault", HANDLER_FAULTS.values(), ids=list(HANDLER_FAULTS))
def test_what_a_handler_does_wrong_is_a_traceback_here_and_a_bare_error_there(
        case, fault, capfd):
    server = Server("x")
    server.tool(name="t")(lambda: fault())
    server.resource("a://b")(lambda: fault())
    server.resource("a://c/{d}")(lambda d: fault())
    server.prompt(name="p")(lambda a: fault())
    server.completion("p", "a")(lambda value: fault())
    answer = receive(server, case)
    if "result" in answer:
        assert answer["result"] == {"isError": True, "content": [
            {"type": "text", "text": "Error calling tool 't': internal error"}]}
    else:
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
    assert "Traceback (most recent call last):" in capfd.readouterr().err


@pytest.mark.parametrize("version, answered", [
    ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
    ("2025-11-25", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("2099-01-01", "2025-11-25"),
    ("", "2025-11-25")])
def test_c45_initialize_agrees_on_a_legacy_revision_and_never_echoes_another(version, answered):
    result = receive(build_sample_server(), call("initialize", {"protocolVersion": version}))
    assert result["result"]["protocolVersion"] == answered


def test_discover_names_revisions_features_and_the_server():
    result = receive(build_sample_server(instructions="Be kind."),
                     call("server/discover", {"_meta": META}))["result"]
    assert result["supportedVersions"][0] == "2026-07-28"
    assert set(result["capabilities"]) == {"completions", "logging", "prompts", "resources",
                                           "tools"}
    assert result["instructions"] == "Be kind."
    assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (
        0, "public", "complete")


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


def test_pages_stay_where_they_are_while_items_come_and_go():
    server = build_sample_server(page_size=2)
    first = receive(server, call("tools/list"))["result"]
    del server.tools["add"]
    server.tool(name="new")(lambda: None)
    second = receive(server, call("tools/list", {"cursor": first["nextCursor"]}))["result"]
    assert [tool["name"] for tool in first["tools"] + second["tools"]] == [
        "add", "report", "fail", "crash"]
    del server.tools["report"]
    answer = receive(server, call("tools/list", {"cursor": first["nextCursor"]}))
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("cursor", ["", "=", "zzz", "\u4e16", "YWRk ", "YWRk\n", "bm9uZQ==",
                                    "YWRk" * 9])
def test_a_cursor_that_was_not_given_is_refused(cursor):
    server = build_sample_server(page_size=1)
    assert receive(server, call("tools/list"))["result"]["nextCursor"] == "YWRk"
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        assert receive(server, call(method, {"cursor": cursor}))["error"]["code"] == -32602


def build_described_server():
    """Return a server that says of everything all that can be said."""
    icons = [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]
    said = dict(title="Title", description="What it is.", icons=icons, meta={"example.com/a": 1})
    server = Server("described", "1", title="Title", description="What it is.", icons=icons,
                    website_url="https://example.com", ttl_ms=5000)
    server.tool(name="t", annotations={"readOnlyHint": True}, **said)(lambda: None)
    hints = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
    server.resource("a://b", name="r", annotations=hints, size=1, ttl_ms=60_000,
                    cache_scope="private", **said)(lambda: "x")
    server.resource("a://c/{d}", name="m", annotations=hints, **said)(lambda d: d)

    @server.prompt(name="p", **said)
    def prompt(a: Annotated[str, "An argument.", {"title": "Argument"}]): ...

    return server


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


@pytest.mark.parametrize("name", ["", "a.b", "a b", "\u00e4", "a" * 33, "a\n", "a/b", 5])
def test_a_name_of_an_instance_that_no_proxy_could_match_is_a_mistake_that_is_told(name):
    with pytest.raises(UsageError, match="1 to 32 letters, digits, _ or -"):
        Server("x", instance=name)


def test_sessions_expire_make_room_and_are_kept_by_use():
    now = [0.0]
    runtime = Server("x").runtime._replace(now=lambda: now[0])
    server = Server("x", sessions=True, max_sessions=2, session_seconds=10, instance="eu-1",
                    runtime=runtime)
    with mcpkit.HTTPService(server, port=0) as service:
        def is_alive(session_id):
            return ask(service, call("ping"), Mcp_Session_Id=session_id).status == 200

        first, second = open_session(service), open_session(service)
        assert first != second and re.fullmatch("eu-1[.][!-~]{20,}", first)
        now[0] = 5
        assert is_alive(first)
        third = open_session(service)
        assert (is_alive(second), is_alive(third)) == (False, True)
        with LiveStream(service, None, Mcp_Session_Id=third):     # who listens is not idle
            now[0] = 14
            assert is_alive(first)
            now[0] = 30
            assert (is_alive(first), is_alive(third)) == (False, True)


REGISTRATION_FAULTS = {
    "a tool twice": lambda server: server.tool(name="add")(lambda: None),
    "a resource without a URI": lambda server: server.resource(lambda: None),
    "a completion of nothing": lambda server: server.completion("nope", "name")(lambda value: []),
    "a completion of no argument": lambda server: server.completion("greet", "x")(
        lambda value: []),
    "a completion without value": lambda server: server.completion("greet", "polite")(
        lambda v: []),
    "an unknown limit": lambda server: Server("x", max_sighs=3),
    "an unknown stream mode": lambda server: Server("x", stream="sometimes"),
    "a template that its function does not know":
        lambda server: server.resource("a://{b}")(lambda c: None),
    "a template of a higher level": lambda server: server.resource("a://{?b}")(lambda b: None),
    "a template with one part twice": lambda server: server.resource("a://{b}/{b}")(
        lambda b: None),
    "a negative time to live": lambda server: Server("x", ttl_ms=-1),
    "a time to live that is no whole number": lambda server: server.resource(
        "a://b", ttl_ms=0.5)(lambda: ""),
    "an unknown cache scope": lambda server: server.resource(
        "a://b", cache_scope="shared")(lambda: ""),
    "a page without items": lambda server: Server("x", page_size=0),
    "a schema that is none": lambda server: server.tool(
        name="new", input_schema={"type": "strin"})(lambda: None),
}


@cases(REGISTRATION_FAULTS)
def test_a_registration_that_cannot_work_is_refused_at_once(case):
    with pytest.raises(mcpkit.MCPKitError):
        case(build_sample_server())


def test_a_batch_is_bounded_for_its_answers_are_many_times_as_large_as_it_is():
    server, answers = build_sample_server(), {}
    for count in (100, 101):
        batch = [call("tools/list", request_id=number) for number in range(count)]
        answers[count] = receive(server, batch, {"mcp-protocol-version": "2025-03-26"})
        on_stdio = run_stdio(server, b"".join(json.dumps(line).encode() + b"\n" for line in (
            call("initialize", {"protocolVersion": "2025-03-26"}), batch)))
        assert on_stdio[1] == answers[count]
    assert len(answers[100]) == 100 and answers[101]["error"]["code"] == -32600
    assert "holds 100 messages at most" in answers[101]["error"]["message"]


# ---- listening

def change_everything(server):
    """Change each list, and two resources."""
    server.add_tool(lambda: None, name="new")
    server.remove_tool("new")
    server.add_prompt(lambda: "", name="new")
    server.add_resource(lambda: "", uri="new:")
    server.add_resource(lambda x: "", uri="new:{x}")
    server.resource_updated("wanted:")
    server.resource_updated("unwanted:")
    server.remove_prompt("new")
    server.remove_resource("new:{x}")


EVERY_LIST = {f"{name}ListChanged": True for name in ("tools", "prompts", "resources")}
LISTENED = {                             # what is wanted, what of it is honoured, what comes
    "nothing": ({}, {}, []),
    "all lists": (EVERY_LIST, EVERY_LIST, ["tools/list_changed", "prompts/list_changed",
                                           "resources/list_changed"]),
    "one declined": ({**EVERY_LIST, "promptsListChanged": False, "resourcesListChanged": 1},
                     {"toolsListChanged": True}, ["tools/list_changed"]),
    "resources": ({"resourceSubscriptions": ["wanted:", "a:", "a:"]},
                  {"resourceSubscriptions": ["a:", "wanted:"]}, ["resources/updated"]),
    "what is unknown": ({"moonChanged": True, "resourceSubscriptions": []}, {}, []),
}


@cases(LISTENED)
def test_c101_a_listener_is_notified_of_what_it_named_and_nothing_else(case):
    wanted, honoured, methods = case
    server = build_sample_server()
    service = mcpkit.HTTPService(server, port=0)
    with service, listen(service, wanted) as stream:
        first = stream.next_message()
        change_everything(server)
        service.stop()
        *told, end = iter(stream.next_message, None)
    assert (first["method"], first["params"]["notifications"]) == (
        "notifications/subscriptions/acknowledged", honoured)
    assert (end["id"], end["result"]["resultType"]) == (5, "complete")
    assert {message["method"] for message in told} == {"notifications/" + name for name in methods}
    for message in (first, *told):
        assert message["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 5}
        assert message["params"].get("uri", "wanted:") == "wanted:"
    assert server.listeners == set()


@cases({"missing": {}, "a list": {"notifications": []},
        "uris that are no list": {"notifications": {"resourceSubscriptions": "a:"}},
        "uris that are no strings": {"notifications": {"resourceSubscriptions": [1]}},
        "too many": {"notifications": {"resourceSubscriptions": [f"a:{n}" for n in range(1001)]}}})
def test_a_filter_that_is_not_valid_is_refused(case):
    answer = receive(build_sample_server(), call("subscriptions/listen", {"_meta": META, **case}))
    assert answer["error"]["code"] == -32602


def test_a_legacy_session_is_told_of_lists_and_of_what_it_subscribed_to():
    server = build_sample_server(sessions=True)
    server.add_resource(lambda: "", uri="wanted:")
    with mcpkit.HTTPService(server, port=0) as service:
        headers = {"Mcp_Session_Id": open_session(service)}
        for method, uri, code in (("subscribe", "wanted:", None), ("subscribe", "nowhere:", -32602),
                                  ("unsubscribe", "never:", None)):
            answer = ask(service, call(f"resources/{method}", {"uri": uri}), **headers).json
            assert answer.get("error", {}).get("code") == code
        change_everything(server)
        with LiveStream(service, None, **headers) as stream:
            told = [stream.next_message() for _ in range(6)]
    assert [(message["method"], message.get("params", {}).get("uri")) for message in told] == [
        ("notifications/tools/list_changed", None), ("notifications/prompts/list_changed", None),
        ("notifications/resources/list_changed", None),
        ("notifications/resources/updated", "wanted:"),
        ("notifications/prompts/list_changed", None),
        ("notifications/resources/list_changed", None)]


def test_without_a_session_nothing_can_be_subscribed_to_and_initialize_says_so():
    server = build_sample_server()
    answer = receive(server, call("resources/subscribe", {"uri": "x:"}))
    assert answer["error"]["code"] == -32601
    result = receive(server, call("initialize", {"protocolVersion": "2025-11-25"}))["result"]
    assert result["capabilities"]["resources"] == {"listChanged": True}
    assert server.capabilities["resources"] == {"listChanged": True, "subscribe": True}


def test_what_was_removed_is_listed_and_served_no_more():
    server = build_sample_server()
    server.add_tool(lambda: "here", name="new")
    assert receive(server, tool_call("new"))["result"]["content"][0]["text"] == "here"
    server.remove_tool("new")
    assert receive(server, tool_call("new"))["error"]["code"] == -32602
    tools = receive(server, call("tools/list"))["result"]["tools"]
    assert "new" not in [tool["name"] for tool in tools]


SAID = {"title": "Title", "description": "What it is.", "_meta": {"example.com/a": 1}, "icons": [
    {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]}
HINTS = {"annotations": {"audience": ["user"], "priority": 0.5,
                         "lastModified": "2025-01-12T15:00:58Z"}, "mimeType": "text/plain"}
NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
DESCRIBED = {
    "a tool": ("tools/list", "tools", {
        **SAID, "name": "t", "annotations": {"readOnlyHint": True}, "inputSchema": NO_ARGUMENTS}),
    "a resource": ("resources/list", "resources", {
        **SAID, **HINTS, "name": "r", "uri": "a://b", "size": 1}),
    "a template": ("resources/templates/list", "resourceTemplates", {
        **SAID, **HINTS, "name": "m", "uriTemplate": "a://c/{d}"}),
    "a prompt": ("prompts/list", "prompts", {**SAID, "name": "p", "arguments": [
        {"name": "a", "title": "Argument", "description": "An argument.", "required": True}]}),
}


@cases(DESCRIBED)
def test_a_list_shows_all_that_was_said_of_an_item(case):
    method, member, item = case
    for params in ({}, {"_meta": META}):
        result = receive(build_described_server(), call(method, params))["result"]
        assert result[member] == [item]
        assert (result["ttlMs"], result["cacheScope"]) == (5000, "public")


def test_a_server_shows_all_that_was_said_of_it():
    server = build_described_server()
    info = receive(server, call("initialize", {"protocolVersion": "2025-11-25"}))["result"][
        "serverInfo"]
    assert info == {"name": "described", "version": "1", "websiteUrl": "https://example.com",
                    **{name: SAID[name] for name in ("title", "description", "icons")}}
    meta = receive(server, call("tools/list", {"_meta": META}))["result"]["_meta"]
    assert meta == {"io.modelcontextprotocol/serverInfo": info}


def test_what_is_read_has_the_caching_hints_of_its_resource_or_else_of_the_server():
    def hints(uri):
        result = receive(build_described_server(), call("resources/read", {"uri": uri}))["result"]
        return result["ttlMs"], result["cacheScope"]
    assert (hints("a://b"), hints("a://c/d")) == ((60_000, "private"), (5000, "public"))


SUGGESTED = {
    "an Enum": (PAINT, "color", "", None, ["red", "blue"]),
    "an Enum, begun in capitals": (PAINT, "color", "B", None, ["blue"]),
    "an IntEnum": (PAINT, "level", "", None, ["1", "2"]),
    "a bool": (PAINT, "glossy", "t", None, ["true"]),
    "an optional Literal": (PAINT, "side", "", None, ["In", "Out"]),
    "any text": (PAINT, "note", "", None, []),
    "a part of a template": (SHADE, "color", "re", None, ["red"]),
    "what its completion says": (PAINT, "town", "field", None, ["Bluefield"]),
    "what it says with regard to other arguments": (
        PAINT, "town", "Red", {"arguments": {"color": "red"}}, ["Redhill", "Redruth"]),
    "a hundred of what it says": (SHADE, "shade", "", None, [str(n) for n in range(100)]),
}


@cases(SUGGESTED)
def test_an_argument_is_completed_by_its_completion_or_else_by_its_annotation(case):
    reference, name, value, context, values = case
    context = {} if context is None else {"context": context}
    request = complete(reference, name, value, **context)
    result = receive(build_choosing_server(), request)["result"]
    total = 150 if len(values) == 100 else len(values)
    assert result["completion"] == {"values": values, "total": total, "hasMore": total > 100}


def test_completing_a_long_value_costs_about_the_same_with_many_choices_as_with_few():
    def measure(count):
        server = Server("choices")

        @server.prompt
        def pick(one: Literal[tuple(map(str, range(count)))]): ...

        request = call("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "pick"},
            "argument": {"name": "one", "value": "\u0130" * 100_000}})
        start = time.thread_time()             # of the processor, so a busy machine does not count
        assert receive(server, request)["result"]["completion"]["values"] == []
        return time.thread_time() - start
    assert measure(300) < 30 * min(measure(3) for _ in range(3))


def test_what_can_be_completed_without_a_decorator_is_declared():
    server = Server("x")
    server.tool(name="t")(build_choosing_server().prompts["paint"].function)
    server.prompt(name="plain")(lambda text: text)
    assert "completions" not in server.capabilities
    server.prompt(name="chosen")(build_choosing_server().prompts["paint"].function)
    assert "completions" in server.capabilities


# =============================================================================================
# 12. HTTP SERVER
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


VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
PONG = {"name": "pong", "arguments": {"message": "ping"}}


BODIES = {
    "C84 a batch": (json.dumps([call("ping")]).encode(), 400, -32600, None),
    "C84 half an object": (b"{", 400, -32700, None),
    "C84 no JSON-RPC": (b'{"id":1,"method":"x"}', 400, -32600, 1),
    "C86 NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', 400, -32700, None),
    "too deep": (b"[" * 5000 + b"]" * 5000, 400, -32700, None), "nothing": (b" ", 400, -32700, None),
}


@cases(BODIES)
def test_a_body_that_is_no_message_is_c90_refused_and_the_connection_goes_on(pong, case):
    body, status, code, request_id = case
    good = make_raw(json.dumps(call("ping")).encode())
    answer = send_raw(pong, make_raw(body) + good)
    first, second = split_answers(answer)
    assert first.status == status
    assert (first.json["error"]["code"], first.json["id"]) == (code, request_id)
    assert second.json["result"] == {}


def test_c84_a_batch_is_answered_as_an_array_in_2025_03_26():
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        headers = {"MCP_Protocol_Version": "2025-03-26",
                   "Mcp_Session_Id": open_session(service, version="2025-03-26")}
        reply = ask(service, [call("ping"), call("nope", request_id=2)], **headers)
        assert reply.status == 200
        assert [(part["id"], "error" in part) for part in reply.json] == [(1, False), (2, True)]
        told = ask(service, [{"jsonrpc": "2.0", "method": "notifications/initialized"}], **headers)
        assert (told.status, told.body) == (202, b"")
        for body in ([], "x"):
            reply = ask(service, body, **headers)
            assert (reply.status, reply.json["error"]["code"]) == (400, -32600)


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


PING = json.dumps(call("ping")).encode()


def make_coded(body, *headers, coding="chunked", **options):
    """Return the bytes of a request with a Transfer-Encoding."""
    return make_raw(body, f"Transfer-Encoding: {coding}", *headers, length=False, **options)


def make_lengthy(length, body=PING, **options):
    """Return the bytes of a request whose Content-Length is whatever text."""
    return make_raw(body, f"Content-Length: {length}", length=False, **options)


ONE_CHUNK = b"%x\r\n%b\r\n" % (len(PING), PING)
FRAMING = {
    **{f"a length of {length!r}": (make_lengthy(length), 400) for length in (
        "", "4 0", "+40", "40,40", "40, 41", "0x28", "4e1", "40;", "\t-0", "40.0", "'40'", "\u00b9")},
    **{f"a coding of {coding!r}": (make_coded(ONE_CHUNK + b"0\r\n\r\n", coding=coding), 501)
       for coding in ("", "gzip", "identity", "xchunked", "chunked, chunked", "chunked;q=1", '"chunked"',
                      "chunked, identity", "gzip, chunked", "chu nked", ", chunked",
                      "chunked\xa0")},
    "a coding after a control character": (make_coded(b"", coding="\x0bchunked"), 400),
    "a coding before a bare CR": (make_coded(b"", coding="chunked\rX: y"), 400),
    "a coding of HTTP/1.0": (make_coded(ONE_CHUNK + b"0\r\n\r\n", version="1.0"), 400),
    "a coding that is folded": (make_raw(PING, "Transfer-Encoding:", " chunked"), 400),
    "a length and a coding below": (make_coded(ONE_CHUNK, "Content-Length: 4"), 400),
    **{f"a chunk size of {size!r}": (make_coded(size + b"\r\n" + PING + b"\r\n0\r\n\r\n"), 400)
       for size in (b"", b" 28", b"+28", b"-1", b"0x28", b"2_8", b"28 ;\0", b"28\r", b"28 x",
                    b"2 8",
                    b"g", b"1" * 16, "\u0662\u0668".encode(), b"28;a\rb", b'28;a="\r')},
    "a chunk size that ends with LF": (make_coded(b"28\n" + PING + b"\r\n0\r\n\r\n"), 400),
    "a chunk that ends with LF": (make_coded(ONE_CHUNK[:-2] + b"\n0\r\n\r\n"), 400),
    "a trailer without a colon": (make_coded(ONE_CHUNK + b"0\r\nGET /mcp HTTP/1.1\r\n\r\n"), 400),
    "trailers without end": (make_coded(ONE_CHUNK + b"0\r\n" + b"X: y\r\n" * 101 + b"\r\n"), 400),
    "a chunk size without end": (make_coded(b"1;" + b"x" * 5000), 400),
    "C87 a chunk over the limit": (make_coded(b"fffffff\r\n"), 413),
    "C87 chunks over the limit": (make_coded((b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 4
                                             + b"1\r\n \r\n0\r\n\r\n"), 413),
    "a line of nothing but a name": (make_raw(PING, "X-A"), 400),
    "a header without a name": (make_raw(PING, ": x"), 400),
    "a NUL in a name": (make_raw(PING, "X\0: y"), 400),
    "C81 a space after a name": (make_raw(PING, "X-A : b"), 400),
    "a NUL in a value": (make_raw(PING, "X-A: b\0c"), 400),
    "a DEL in a value": (make_raw(PING, "X: \x7f"), 400),
    "two spaces in the request line": (make_raw(PING).replace(b" /mcp", b"  /mcp"), 400),
    "a request line in small letters": (make_raw(PING).replace(b"HTTP/1.1", b"http/1.1"), 400),
    "no version": (make_raw(PING).replace(b" HTTP/1.1", b""), 400),
    "a space before the request line": (b" " + make_raw(PING), 400),
    "an empty line of LF": (b"\n" + make_raw(PING), 400),
    "a space after an empty line": (b"\r\n " + make_raw(PING), 400),
    "absolute form, another host": (make_raw(PING, target="http://evil.example/mcp"), 421),
    "absolute form, a user": (make_raw(PING, target="http://127.0.0.1@evil.example/mcp"), 400),
    "absolute form, another scheme": (make_raw(PING, target="ftp://127.0.0.1/mcp"), 404),
    "a target of two slashes": (make_raw(PING, target="//evil.example/mcp"), 404),
    "a target that climbs": (make_raw(PING, target="/x/../mcp"), 404),
    "CONNECT": (make_raw(PING, target="127.0.0.1:80", method="CONNECT"), 404),
    "HTTP/2 to begin with": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a host with a path": (make_raw(PING).replace(b"Host: 127.0.0.1", b"Host: 127.0.0.1/x"), 400),
    "an empty host": (make_raw(PING).replace(b"Host: 127.0.0.1", b"Host: "), 421),
    "C81 both lengths": (make_raw(PING, "Transfer-Encoding: chunked"), 400),
    "two lengths": (make_raw(PING, f"Content-Length: {len(PING)}"), 400),
    "C87 an enormous length": (make_raw(b"", "Content-Length: 99999999999", length=False), 413),
    "C87 a length over the limit": (make_raw(b"", "Content-Length: 10000000", length=False), 413),
    "no length": (make_raw(b"", length=False), 411),
    "a folded header": (make_raw(PING, "X-A: b", " c"), 400),
    "a bare CR in a header": (make_raw(PING, "X-A: b\rc"), 400),
    "a bare LF": (make_raw(PING).replace(b"\r\n", b"\n"), 400),
    "a chunk longer than it says": (
        make_raw(b"2\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=False), 400),
    "two hosts": (make_raw(PING, "Host: 127.0.0.1"), 400),
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


def test_c87_a_client_that_sends_ten_megabytes_all_the_same_can_read_why_not(pong):
    with socket.create_connection(pong.server_address, timeout=WAIT) as sock:
        sock.sendall(make_raw(b"", "Content-Length: 10000000", length=False))
        sender = threading.Thread(target=send_all, args=(sock, b"x" * 10_000_000), daemon=True)
        sender.start()
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    sender.join(WAIT)
    assert answer.startswith(b"HTTP/1.1 413 ") and answer.endswith(b'bytes"}}')


def send_all(sock, data):
    """Send bytes to somebody who may not want them."""
    with contextlib.suppress(OSError):
        sock.sendall(data)


JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"
ACCEPTS = {                              # and which types are missing there
    "C80 anything": ("*/*", []),
    "C80 anything of two kinds": ("application/*, text/*", []),
    "C80 nothing said": (None, []),
    "C80 with qualities": ("application/json;q=0.9, text/event-stream;q=0.1", []),
    "C80 only JSON": ("application/json", [STREAM_TYPE]),
    "C80 look-alikes": ("application/jsonx, text/event-streams", [JSON_TYPE, STREAM_TYPE]),
    "C80 JSON excluded": ("application/json;q=0, text/event-stream", [JSON_TYPE]),
}


@cases(ACCEPTS)
def test_an_accept_header_admits_both_types_or_is_told_what_is_missing(pong, case):
    accept, missing = case
    reply = ask(pong, call("ping"), Accept=accept)
    assert reply.status == (406 if missing else 200)
    if missing:
        assert f"{JSON_TYPE} and {STREAM_TYPE}" in reply.json["error"]["message"]
        assert reply.json["error"]["data"]["missing"] == missing


def test_c80_a_server_that_never_streams_takes_clients_that_accept_json_only():
    with mcpkit.HTTPService(build_sample_server(stream="never"), port=0) as service:
        assert ask(service, call("ping"), Accept="application/json").status == 200
        assert ask(service, call("ping"), Accept="application/json;q=0, */*").status == 406


ACCEPTED = {
    "plain": make_raw(PING),
    "with a leading empty line": b"\r\n" + make_raw(PING),
    "with leading empty lines": b"\r\n\r\n\r\n" + make_raw(PING),
    "a length with zeros before it": make_lengthy(f"000{len(PING)}"),
    "a length between blanks": make_lengthy(f"\t {len(PING)} \t"),
    "a length by another name": make_raw(PING, "Content_Length: 4", "X-Content-Length: 4"),
    "a coding by another name": make_raw(PING, "Transfer_Encoding: chunked"),
    "a coding in capitals": make_coded(ONE_CHUNK + b"0\r\n\r\n", coding="\tCHUNKED "),
    "a chunk for each byte": make_coded(b"".join(b"1\r\n%c\r\n" % byte for byte in PING)
                                        + b"0\r\n\r\n"),
    "a chunk size with zeros and blanks": make_coded(b"000" + ONE_CHUNK.replace(b"\r\n",
        b" \t\r\n", 1)
                                                     + b"0000\r\n\r\n"),
    "extensions in quotes": make_coded(ONE_CHUNK.replace(b"\r\n", b';a="b;c" ; d\r\n', 1)
                                       + b"0;e\r\n\r\n"),
    "trailers that look like framing": make_coded(
        ONE_CHUNK + b"0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "letters that are no ASCII in a value": make_raw(PING, "X: \xe9\xff"),
    "an empty value": make_raw(PING, "X:"),
    "absolute form in capitals": make_raw(PING, target="HTTP://LOCALHOST:99/mcp"),
    "an upgrade that is not taken up": make_raw(PING, "Connection: Upgrade", "Upgrade: h2c"),
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
    replies = split_answers(send_raw(pong, case + make_raw(b"{}") + case))
    assert [reply.status for reply in replies] == [200, 400, 200]


@cases({name: FRAMING[name] for name in FRAMING if len(FRAMING[name][0]) < 1000})
def test_a_refusal_does_not_depend_on_where_the_bytes_were_cut(pong, case):
    data, status = case
    for cuts in (range(1, len(data)), range(7, len(data), max(1, len(data) // 6))):
        assert send_raw(pong, data, cuts).startswith(b"HTTP/1.1 %d " % status)


@cases(ACCEPTED)
def test_a_request_that_is_cut_short_is_never_taken_for_a_whole_one(pong, case):
    for end in range(0, len(case), 9):
        assert not [reply for reply in split_answers(send_raw(pong, case[:end]))
                    if reply.status == 200]


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("name", ["plain", "C81 chunked with an extension and a trailer"])
def test_a_client_may_go_away_at_every_point_of_an_exchange(pong, name, is_reset, capfd):
    data = ACCEPTED[name]
    for end in range(len(data) + 1):
        with socket.create_connection(pong.server_address, timeout=WAIT) as sock:
            if is_reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(data[:end])
    assert ask(pong, PING).status == 200
    assert wait_until(lambda: not pong.connections)
    assert capfd.readouterr().err == ""


SLOW_SOURCE = {"a request line": b"POST /mc", "a head": make_raw(PING).partition(b"\r\n\r\n")[0],
        "an empty line": b"\r\n", "a body": make_raw(PING)[:-1],
        "a chunk size": make_coded(b"28"), "a chunk": make_coded(ONE_CHUNK[:-5]),
        "the end of a chunk": make_coded(ONE_CHUNK[:-1]), "the last chunk": make_coded(ONE_CHUNK),
        "a trailer": make_coded(ONE_CHUNK + b"0\r\nX: y"),
        "the last line": make_coded(ONE_CHUNK + b"0\r\n")}


@cases(SLOW_SOURCE)
def test_whatever_part_of_a_request_does_not_come_is_waited_for_so_long_only(case):
    with mcpkit.HTTPService(Server("x", read_seconds=0.05), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            sock.sendall(make_raw(PING) + case)          # the time begins anew for each request
            answers = split_answers(b"".join(iter(lambda: sock.recv(65536), b"")))
    assert [answer.status for answer in answers] == [200, 408]
    assert answers[1].headers["connection"] == "close"


# Whether a connection goes on after an answer: where the end of the request was read, it does.
KEPT = {
    "no JSON": (make_raw(b"{"), 400, True), "no message": (make_raw(b"[]"), 400, True),
    "a notification": (make_raw(b'{"jsonrpc":"2.0","method":"notifications/x"}',
                                "MCP-Protocol-Version: 2026-07-28"), 202, True),
    "no session": (make_raw(PING), 400, True),
    "an ended session": (make_raw(PING, "Mcp-Session-Id: x"), 404, True),
    "a preflight": (make_raw(b"", method="OPTIONS", length=False), 204, True),
    "a document": (make_raw(b"", target="/healthz", method="GET", length=False), 200, True),
    "a document with a body": (make_raw(PING, target="/healthz", method="GET"), 200, False),
    "a document with a coding": (make_coded(b"", target="/healthz", method="GET"), 200, False),
    "a client that wants it closed": (make_raw(b"{", "Connection: close"), 400, False),
    "an ended session's stream": (make_raw(b"", "Mcp-Session-Id: x", method="GET", length=False),
                                  404, False),
    **{name: (*FRAMING[name], False) for name in (
        "two lengths", "no length", "C83 a text", "C80 only JSON", "C90 PUT", "another host",
        "a path that is none", "an expectation that is none", "C87 a length over the limit")},
}


@cases(KEPT)
def test_a_connection_goes_on_after_an_answer_or_says_that_it_ends(case):
    data, status, is_kept = case
    with mcpkit.HTTPService(Server("x", sessions=True), port=0) as service:
        answers = split_answers(send_raw(service, data + make_raw(b'{"jsonrpc":"2.0"}')))
    assert [answer.status for answer in answers] == [status] + [400] * is_kept
    assert (answers[0].headers.get("connection") == "close") is not is_kept


MAX_CALLS = 42                           # of the file's own functions, on the way of one call


def test_a_warm_call_passes_few_functions(pong):
    names, data = [], make_raw(json.dumps(call("tools/call", {**PONG, "_meta": META})).encode(),
                               "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call",
                               "Mcp-Name: pong")

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename == mcpkit.__file__:
            names.append(frame.f_code.co_name)

    threading.setprofile(note)
    try:
        send_raw(pong, data * 20)
    finally:
        threading.setprofile(None)
    cycles = "\n".join(names).split("handle_one_request\n")[5:-2]
    assert min(cycle.count("\n") for cycle in cycles) + 1 <= MAX_CALLS, cycles[-1]


def test_c90_pipelined_requests_are_answered_in_order_and_a_wait_for_100_continue_too(pong):
    data = b"".join(make_raw(json.dumps(call("ping", request_id=number)).encode())
                    for number in range(20))
    assert [reply.json["id"] for reply in split_answers(send_raw(pong, data))] == list(range(20))
    answer = send_raw(pong, make_raw(PING, "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_a_connection_that_is_silent_is_closed_quietly():
    with mcpkit.HTTPService(Server("x", idle_seconds=0.05), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            assert sock.recv(65536) == b""


def test_a_client_too_many_that_has_sent_its_request_reads_why_it_is_refused():
    with mcpkit.HTTPService(Server("x", max_connections=1), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as first:
            first.sendall(make_raw(PING))
            first.recv(65536)
            for body in (b"{}", b"x" * 50_000):
                for _ in range(100):         # closed at once, nearly each would be reset
                    assert send_raw(service, make_raw(body)).startswith(b"HTTP/1.1 503 ")
            first.sendall(make_raw(PING))
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_sips_its_answer_is_cut_off_in_time():
    server = Server("x", read_seconds=0.1)
    server.tool(name="flood")(lambda: "x" * 30_000_000)
    with mcpkit.HTTPService(server, port=0) as service, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(WAIT)
        sock.connect(service.server_address)
        sock.sendall(make_raw(json.dumps(tool_call("flood")).encode()))
        pause, count = threading.Event(), 0
        while count == 0 or service.connections:        # a little before each send would give up
            assert sock.recv(2048) and count < WAIT / 0.02
            count += 1
            pause.wait(0.02)
        assert count < 10_000                            # which is not all of it


def test_c103_the_origin_is_checked_before_everything_else(pong):
    data = make_raw(b"{", "Origin: http://evil.example", "Content-Encoding: gzip", target="/x")
    assert send_raw(pong, data).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("sessions, methods", [(False, "POST, OPTIONS"),
                                               (True, "GET, POST, DELETE, OPTIONS")])
def test_c105_a_browser_that_asks_first_is_answered_without_a_token(sessions, methods):
    names = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name,mcp-param-region"
    with mcpkit.HTTPService(Server("x", sessions=sessions), port=0) as service:
        reply = ask(service, method="OPTIONS", Origin="http://localhost:5173",
                    Access_Control_Request_Headers=names)
    allowed = set(reply.headers["access-control-allow-headers"].split(", "))
    assert reply.status == 204 and set(names.split(",")) <= allowed
    assert {"mcp-session-id", "last-event-id"} <= allowed
    assert reply.headers["access-control-allow-methods"] == methods
    assert reply.headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"
    assert reply.headers["vary"] == "Origin"
    # The very origin, never "*", and no credentials: a page sends a token, not a cookie.
    assert reply.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert "access-control-allow-credentials" not in reply.headers


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


def test_c20_text_with_odd_line_ends_is_one_data_line(sample):
    server = build_sample_server(stream="always")
    with mcpkit.HTTPService(server, port=0) as service:
        reply = ask(service, call("tools/call", {"name": "strange"}))
    assert reply.body.isascii() and reply.body.count(b"\ndata: ") == 1
    assert reply.messages[0]["result"]["content"][0]["text"] == "a\u2028b\u0085c\r\nd"


def build_waiting_server(**options):
    """Return a server with a tool that waits to be released, and what it saw."""
    server, started, release = Server("x", **options), threading.Event(), threading.Event()
    seen = []

    @server.tool
    def wait(ctx: Context):
        started.set()
        for _ in range(WAIT * 20):
            if release.wait(0.05) or ctx.cancelled:
                break
        seen.append(ctx.cancelled)
        return "waited"

    return server, started, release, seen


def test_c100_an_answer_that_takes_long_becomes_a_stream_with_keep_alives(monkeypatch):
    monkeypatch.setattr(mcpkit, "KEEP_ALIVE_SECONDS", 0.1)
    server, _, release, _ = build_waiting_server()
    with mcpkit.HTTPService(server, port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as sock:
            sock.sendall(make_raw(json.dumps(call("tools/call", {"name": "wait"})).encode()))
            first = sock.recv(65536)
            assert b"text/event-stream" in first and first.endswith(b": keep-alive\n\n\r\n")
            assert b"\r\nX-Accel-Buffering: no\r\n" in first and b"Encoding: gzip" not in first
            assert b"\r\nCache-Control: no-cache, no-transform\r\n" in first
            assert sock.recv(65536).endswith(b": keep-alive\n\n\r\n")
            release.set()
            rest = b""
            while not rest.endswith(b"0\r\n\r\n"):
                rest += sock.recv(65536)
            assert b"waited" in rest


@pytest.mark.parametrize("stream", ["auto", "never"])
def test_c107_a_client_that_goes_away_cancels_its_call_and_the_server_goes_on(stream, capfd):
    server, started, _, seen = build_waiting_server(stream=stream)
    with mcpkit.HTTPService(server, port=0) as service:
        sock = socket.create_connection(service.server_address, timeout=WAIT)
        sock.sendall(make_raw(json.dumps(call("tools/call", {"name": "wait"})).encode()))
        assert started.wait(WAIT)
        sock.close()
        assert wait_until(lambda: seen == [True])
        assert ask(service, call("ping")).json["result"] == {}
    assert capfd.readouterr().err == ""


def open_session(service, capabilities=None, version="2025-06-18"):
    """Return the id of a new legacy session."""
    reply = ask(service, call("initialize", {"protocolVersion": version,
                                             "capabilities": capabilities or {}}))
    return reply.headers["mcp-session-id"]


def test_c106_a_session_ends_with_delete_and_closes_its_stream(notes):
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


def open_listener(service, session_id):
    """Return the standing stream of a session, as an open HTTPResponse."""
    connection = http.client.HTTPConnection(*service.server_address[:2], timeout=WAIT)
    connection.request("GET", service.policy.path, headers={
        "Accept": "text/event-stream", "Mcp-Session-Id": session_id, "Connection": "close"})
    return connection.getresponse()


def build_lingering_server():
    """Return a server with a tool that runs until it is told to end or, obstinate, released."""
    server, started, release = Server("x", sessions=True), threading.Event(), threading.Event()

    @server.tool
    def linger(ctx: Context, heeds: bool = True):
        ctx.progress(1)
        started.set()
        while not (heeds and ctx.cancelled or release.wait(0.01)):
            pass
        return "as far as it got"

    return server, started, release


STOPPED = "the server was stopped before this was done"
LINGERING = {
    "a handler that heeds answers": (True, "result", "as far as it got"),
    "for one that does not an error does": (False, "error", STOPPED),
}


@pytest.mark.parametrize("token", [{"_meta": {"progressToken": 1}}, {}], ids=["stream", "JSON"])
@cases(LINGERING)
def test_a_server_that_is_stopped_ends_its_streams_and_calls_with_an_answer(case, token):
    heeds, kind, words = case
    server, started, release = build_lingering_server()
    with mcpkit.HTTPService(server, port=0) as service:
        session_id = open_session(service)
        stream, request = open_listener(service, session_id), tool_call("linger", heeds=heeds)
        request["params"].update(token)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = pool.submit(ask, service, request, Mcp_Session_Id=session_id)
            assert started.wait(WAIT)
            service.stop(WAIT if heeds else 0.01)
            reply = asked.result(WAIT)
            release.set()
        assert stream.read() == b""            # http.client raises where the last chunk is missing
        message = reply.messages[-1] if token else reply.json
        assert (message["id"], list(message)[2]) == (1, kind) and words in json.dumps(message)
        assert token or reply.headers["connection"] == "close"


@table("is_idle", {"that sent nothing so far": False, "that is kept alive": True})
def test_a_connection_is_served_once_more_by_a_server_that_stops(pong, monkeypatch, is_idle):
    monkeypatch.setattr(mcpkit, "DRAIN_SECONDS", WAIT)
    with socket.create_connection(pong.server_address, timeout=WAIT) as late:
        for _ in range(is_idle):
            late.sendall(make_raw(PING))
            assert b"Connection: close" not in late.recv(65536)
        assert ask(pong, PING).status == 200           # accepted after it, so it is accepted too
        stopper = threading.Thread(target=pong.stop)
        stopper.start()
        assert wait_until(lambda: pong.socket.fileno() == -1)
        late.sendall(make_raw(PING))
        answer = late.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"Connection: close" in answer
        assert late.recv(65536) == b""
        stopper.join(WAIT)


START_WITH_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.executable, [sys.executable, "-W", "error", *sys.argv[3:]])
"""


def start_with_socket(listener, *command, count=1):
    """Return the words and options that start a command as systemd does, with a socket."""
    return (["-c", START_WITH_SOCKET, listener.fileno(), count, *command],
            {"pass_fds": [listener.fileno()]})


@needs_signals
def test_a_server_takes_the_socket_that_it_is_started_with_and_leaves_it_open(*words):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command, options = start_with_socket(listener, *MODULE, "serve", *words)
        for _ in range(2):
            with starting(command, **options) as (_, url):
                assert url == f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
                assert run("call", url, "pong", "message=x").code == 0
        socket.create_connection(listener.getsockname(), timeout=WAIT).close()


@table("options, words", {
    **{url: ({"public_url": url}, "the public URL is where clients reach the endpoint")
       for url in ("example.com", "ftp://h/", "http://h/?x", "http://h/ x", "")},
    "a form of the log": ({"log": "xml"}, "log is json or text, but is xml")})
def test_an_option_of_a_service_that_is_none_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        mcpkit.HTTPService(Server("x"), port=0, **options)


def test_healthz_says_ok_until_the_server_stops():
    with mcpkit.HTTPService(Server("x"), port=0, path="/healthz/mcp") as service:
        reply = ask(service, method="GET", path="/healthz", Origin="http://evil.example")
        assert (reply.status, reply.json) == (200, {"status": "ok"})
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers
        head = ask(service, method="HEAD", path="/healthz")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "15")
        assert ask(service, method="GET", path="/healthz", Host="evil.example").status == 421
        assert ask(service, PING, path="/healthz").headers["allow"] == "GET, HEAD"
        service.is_stopping = True
        for path in ("/healthz", "/healthz/mcp"):
            refused = ask(service, PING, method="POST" if "mcp" in path else "GET", path=path)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")


@contextlib.contextmanager
def logging_service(form="json", **options):
    """Serve the sample server, and give its service and the entries of its log."""
    server, entries = build_sample_server(**options), []
    with quiet_log(server) as lines:
        with mcpkit.HTTPService(server, port=0, log=form) as service:
            yield service, entries
        entries += [json.loads(line) for line in lines]        # all requests have ended now


def without_times(entries):
    return [{name: value for name, value in entry.items() if name not in ("time", "ms")}
            for entry in entries]


def assert_same(entries, expected):
    """Assert that two logs have the same lines; a line follows its answer in its own time."""
    assert sorted(map(repr, entries)) == sorted(map(repr, expected))


def test_each_request_is_one_line_of_the_log_when_it_has_ended():
    with logging_service(sessions=True) as (service, entries):
        session_id = open_session(service)
        stream = open_listener(service, session_id)
        ask(service, {"jsonrpc": "2.0", "method": "notifications/initialized"},
            Mcp_Session_Id=session_id, traceparent=TRACEPARENT)
        ask_modern(service, "tools/call", {"name": "report"})
        ask(service, method="OPTIONS")
        ask(service, method="DELETE", Mcp_Session_Id=session_id)
        assert stream.read() == b""
        ask(service, method="GET", path="/healthz")
    session = {"session": session_id[:8]}
    assert {tuple(entry)[0] for entry in entries} == {"time"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"]) and entry["ms"] >= 0
               for entry in entries)
    assert_same(without_times(entries), [
        {"method": "initialize", "status": 200, **session},
        {"method": "notifications/initialized", "status": 202, **session, "traceId": TRACE},
        {"method": "tools/call", "name": "report", "status": 200},
        {"method": "OPTIONS", "status": 204},
        {"method": "DELETE", "status": 200, **session},
        {"method": "GET", "status": 200, **session}])


LOGGED_REFUSALS = {
    "another host": (dict(Host="evil.example"), {"method": "POST", "status": 421}),
    "another path": (dict(path="/secret", traceparent=TRACEPARENT),
                     {"method": "POST", "status": 404, "traceId": TRACE}),
    "another type": (dict(Content_Type="text/plain"), {"method": "POST", "status": 415}),
    "no JSON": (dict(body=b"{secret"), {"method": "POST", "status": 400}),
    "another verb": (dict(method="BREW"), {"method": "BREW", "status": 405}),
    "an unknown tool": (dict(body=call("tools/call", {"name": "secret?"})),
                        {"method": "tools/call", "name": "secret", "status": 200}),
    "a method that is none": (dict(body=call(5)), {"method": "POST", "status": 400}),
}


@cases(LOGGED_REFUSALS)
def test_a_request_that_is_refused_is_logged_too(case):
    request, expected = case
    with logging_service() as (service, entries):
        ask(service, **{"body": PING, "Authorization": "Bearer secret", **request})
    assert without_times(entries) == [expected]


# ---- streams that stay open


def wait_until(is_true):
    """Wait for something that happens in another thread and tells nobody."""
    patience = threading.Event()
    for _ in range(int(WAIT / 0.02)):
        if is_true():
            return True
        patience.wait(0.02)
    return False


def build_polled_server(release):
    """Return a server whose tools stream, and then wait for `release`."""
    server = Server("polled", sessions=True)
    ends = []

    @server.tool
    def work(ctx: Context, hang_up: bool = False) -> str:
        ctx.progress(1, message="before")
        if hang_up:
            ctx.close_stream(retry_seconds=0.25)
        while not release.wait(0.02) and not ctx.cancelled:
            pass
        ends.append("cancelled" if ctx.cancelled else "done")
        ctx.progress(2, message="after")
        return "the answer"

    return server, ends


WORK = call("tools/call", {"name": "work", "_meta": {"progressToken": 1}})


def test_a_stream_begins_with_an_event_id_where_the_client_knows_such_events():
    release = threading.Event()
    release.set()
    server, _ = build_polled_server(release)
    with mcpkit.HTTPService(server, port=0) as service:
        for version, data in (("2025-11-25", ["", "{", "{", "{"]), ("2025-06-18", ["{"] * 3)):
            session_id = open_session(service, version=version)
            body = ask(service, WORK, Mcp_Session_Id=session_id).body
            events = list(mcpkit.SSEParser().feed(body))
            assert [event.data[:1] for event in events] == data
            assert len({event.id for event in events}) == (len(events) if data[0] == "" else 1)


def test_a_call_that_hangs_up_is_polled_for_and_answers_after_what_was_missed():
    release = threading.Event()
    server, ends = build_polled_server(release)
    message = {**WORK, "params": {**WORK["params"], "arguments": {"hang_up": True}}}
    with mcpkit.HTTPService(server, port=0) as service:
        session_id = open_session(service, version="2025-11-25")
        with LiveStream(service, message, Mcp_Session_Id=session_id) as stream:
            events = []
            while not events or events[-1] is not None:
                events.append(stream.next_event())
        assert [event.data[:1] for event in events[:-1]] == ["", "{", ""]
        assert events[2].id == events[1].id             # where the client goes on from
        assert stream._parser.retry == 250
        with LiveStream(service, None, Mcp_Session_Id=session_id,
                        Last_Event_ID=events[0].id) as stream:
            first = stream.next_message()
            release.set()
            rest = [stream.next_message() for _ in range(3)]
        with LiveStream(service, None, Mcp_Session_Id=session_id,     # lost again, asked again
                        Last_Event_ID=events[1].id) as stream:
            again = [stream.next_message() for _ in range(3)]
    assert first["params"]["message"] == "before" and ends == ["done"]
    assert rest[0]["params"]["message"] == "after" and rest[2] is None
    assert rest[1]["result"]["content"][0]["text"] == "the answer"
    assert again == rest


def test_a_lost_connection_does_not_end_a_call_that_can_be_resumed():
    release = threading.Event()
    server, ends = build_polled_server(release)
    with mcpkit.HTTPService(server, port=0) as service:
        session_id = open_session(service, version="2025-11-25")
        with LiveStream(service, WORK, Mcp_Session_Id=session_id) as stream:
            event = stream.next_event()
        session = server.sessions.find(session_id)
        kept = session.streams[1]
        assert wait_until(lambda: kept.reader is None)
        release.set()
        with LiveStream(service, None, Mcp_Session_Id=session_id,
                        Last_Event_ID=event.id) as stream:
            messages = [stream.next_message() for _ in range(4)]
    assert ends == ["done"] and messages[3] is None
    assert messages[2]["result"]["content"][0]["text"] == "the answer"


@pytest.mark.parametrize("is_modern", [False, True])
def test_c107_a_lost_connection_cancels_a_call_that_cannot_be_resumed(is_modern):
    release = threading.Event()
    server, ends = build_polled_server(release)
    server.keeps_sessions = False
    headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call",
               "Mcp_Name": "work"} if is_modern else {}
    meta = {**META, "progressToken": 1} if is_modern else {"progressToken": 1}
    with mcpkit.HTTPService(server, port=0) as service:
        with LiveStream(service, call("tools/call", {"name": "work", "_meta": meta}),
                        **headers) as stream:
            stream.next_event()
        assert wait_until(lambda: ends)
    assert ends == ["cancelled"]


def test_the_end_of_a_session_ends_its_streams_and_cancels_its_calls():
    server, ends = build_polled_server(threading.Event())
    with mcpkit.HTTPService(server, port=0) as service:
        session_id = open_session(service, version="2025-11-25")
        with LiveStream(service, None, Mcp_Session_Id=session_id) as listening, \
                LiveStream(service, WORK, Mcp_Session_Id=session_id) as working:
            working.next_event()
            assert ask(service, b"", "DELETE", Mcp_Session_Id=session_id).status == 200
            assert listening.next_event() is None
            assert wait_until(lambda: ends == ["cancelled"])


def test_a_legacy_listener_is_told_of_changes_and_of_those_it_missed():
    server = build_sample_server(sessions=True)
    with mcpkit.HTTPService(server, port=0) as service:
        session_id = open_session(service)
        server.add_prompt(lambda: "", name="before")
        with LiveStream(service, None, Mcp_Session_Id=session_id) as stream:
            events = [stream.next_event()]
            server.add_tool(lambda: None, name="meanwhile")
            events.append(stream.next_event())
            with LiveStream(service, None, Mcp_Session_Id=session_id,
                            Last_Event_ID=events[0].id) as another:
                assert another.next_event() == events[1]
                assert stream.next_event() is None            # one stream has each message
    assert [json.loads(event.data)["method"] for event in events] == [
        "notifications/prompts/list_changed", "notifications/tools/list_changed"]


def test_c109_sessions_that_come_and_go_leave_no_thread_and_no_connection_behind():
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        def visit():
            session_id = open_session(service)
            with LiveStream(service, None, Mcp_Session_Id=session_id):
                assert ask(service, call("ping"), Mcp_Session_Id=session_id).status == 200
            ask(service, b"", "DELETE", Mcp_Session_Id=session_id)
            assert wait_until(lambda: not service.connections)

        before = threading.active_count()
        for _ in range(30):
            visit()
        # A visit makes five connections, and the next visit begins when none is left of them.
        assert threading.active_count() <= before + 5 and not list(service.mcp.sessions)


def test_an_event_id_that_is_not_known_is_400_and_ends_no_session():
    with mcpkit.HTTPService(build_sample_server(sessions=True), port=0) as service:
        session_id = open_session(service)
        reply = ask(service, b"", "GET", Accept="text/event-stream", Mcp_Session_Id=session_id,
                    Last_Event_ID="9-9")
        assert reply.status == 400 and "listen again" in reply.json["error"]["message"]
        assert ask(service, call("ping"), Mcp_Session_Id=session_id).status == 200


def test_a_server_that_never_streams_offers_no_subscriptions_and_no_questions():
    server = build_asking_server(stream="never")
    with mcpkit.HTTPService(server, port=0) as service, quiet_log(server) as lines:
        reply = ask_modern(service, "subscriptions/listen", {"notifications": {}})
        assert (reply.status, reply.json["error"]["code"]) == (404, -32601)
        session_id = open_session(service, CAN_ANSWER)
        assert ask(service, tool_call("greet"),
                   Mcp_Session_Id=session_id).json["result"]["isError"]
    assert lines == ["tool greet failed"]


# =============================================================================================
# 13. STDIO SERVER
# =============================================================================================
def run_stdio(server, data, **options):
    """Return the messages that a stdio server writes in answer to input bytes."""
    output = io.BytesIO()
    mcpkit.StdioService(server, io.BytesIO(data), output, grace_seconds=WAIT, **options).run()
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
    if code == -32022:
        assert answers[0]["error"]["data"] == {"supported": VERSIONS, "requested": "2031-01-01"}


def replace_each(value, odd):
    """Yield a JSON value with one of its parts after the other replaced, itself first."""
    yield odd
    for key in value if isinstance(value, dict) else ():
        for changed in replace_each(value[key], odd):
            yield {**value, key: changed}


ODD_HEADER_VALUES = [None, True, 1.5, "x", ["x"], {"x": "x"}]


STRANGE = {"a": {"x": "x"}, "name": "x", "uri": "x:", "level": "x", "cursor": "x", "taskId": "x",
           "arguments": {"x": "x"}, "argument": {"name": "x", "value": "x"}, "_meta": META,
           "ref": {"type": "ref/prompt", "name": "greet"}, "notifications": {"tasks": ["x"]},
           "inputResponses": {"x": {"x": "x"}}, "requestState": "x", "context": {"arguments": "x"}}


@pytest.mark.parametrize("odd", ODD_HEADER_VALUES, ids=json.dumps)
def test_whatever_kind_a_part_of_a_message_is_of_it_is_no_internal_error(odd, capfd):
    opening = call("initialize", {"protocolVersion": "2025-03-26", "capabilities": {},
                                  "clientInfo": {"name": "x"}})
    messages = [changed for message in (
        opening, call("tools/call", {"name": "add"}),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        *(call(method, STRANGE) for method in (
            "tools/call", "tools/list", "resources/read", "prompts/get", "completion/complete",
            "logging/setLevel", "resources/subscribe", "server/discover", "tasks/get")))
        for changed in replace_each(message, odd)]
    lines = [opening, *messages, *([message] for message in messages), call("ping", {}, "last")]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    answers = run_stdio(build_sample_server(), data)
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in answers
    assert "-32603" not in json.dumps(answers)
    assert "Traceback" not in capfd.readouterr().err


def test_a_call_cancelled_on_stdio_is_told_and_not_answered():
    server, started, _, seen = build_waiting_server()
    client = StdioClient(server)
    client.send(call("tools/call", {"name": "wait"}))
    assert started.wait(WAIT)
    client.send([{"jsonrpc": "2.0", "method": "notifications/cancelled",
                  "params": {"requestId": 1}}])              # in a batch as well
    assert wait_until(lambda: seen == [True])
    assert [answer["id"] for answer in client.close()] == [None]


@cases(LINGERING)
def test_a_stdio_server_that_is_stopped_answers_what_runs(case):
    heeds, kind, words = case
    server, started, release = build_lingering_server()
    request = json.dumps(tool_call("linger", heeds=heeds)).encode() + b"\n"
    lines = queue.Queue()

    class Input:
        readline = staticmethod(lambda _: lines.get(timeout=WAIT))

    output = io.BytesIO()
    service = mcpkit.StdioService(server, Input(), output, grace_seconds=WAIT)
    thread = threading.Thread(target=service.run)
    thread.start()
    lines.put(request)
    assert started.wait(WAIT)
    service.stop(WAIT if heeds else 0.01)
    lines.put(request)                         # what comes now is not read any more
    release.set()
    thread.join(WAIT)
    answers = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [list(answer)[2] for answer in answers] == [kind] and words in json.dumps(answers)


def test_messages_on_stdio_are_logged_in_the_same_way():
    server = build_sample_server()
    lines = [call("tools/call", {"name": "add", "arguments": {"a": 5}, "_meta": {
        "traceparent": TRACEPARENT}}), {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with quiet_log(server) as log:
        run_stdio(server, data + b"{\n", log="json")
    entries = sorted(without_times(map(json.loads, log)), key=lambda entry: entry["status"])
    assert entries == [
        {"method": "tools/call", "name": "add", "status": 200, "traceId": TRACE},
        {"method": "notifications/initialized", "status": 202}, {"status": 400}]


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
    request = tool_call("shout", text="\u0110 \u4e16 \U0001f600")
    lines = [json.dumps(request, ensure_ascii=False).encode(), b"\xff", PING]
    child = subprocess.run(
        [*PROGRAM, "serve", str(tmp_path / "noisy.py"), "--stdio"],
        input=b"\n".join(lines) + b"\n", capture_output=True, env=environment, timeout=WAIT)
    answers = [json.loads(line) for line in child.stdout.splitlines()]
    texts = [find_text(answer) for answer in answers if "content" in answer.get("result", ())]
    assert texts == ["\u0110 \u4e16 \U0001f600"] and len(answers) == 3
    assert [answer["id"] for answer in answers if "error" in answer] == [None]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32700]
    assert b"noise" in child.stderr and child.returncode == 0


STUCK_SERVER = """
import threading
from mcpkit import Server
server = Server("stuck")

@server.tool
def wait():
    threading.Event().wait(600)
"""


def test_c115_a_server_ends_with_its_input_also_while_a_call_runs(tmp_path):
    (tmp_path / "stuck.py").write_text(STUCK_SERVER)
    child = subprocess.run(
        [*PROGRAM, "serve", str(tmp_path / "stuck.py"), "--stdio"],
        input=json.dumps(tool_call("wait")).encode() + b"\n" + PING + b"\n",
        capture_output=True, timeout=WAIT)       # which is less than the tool takes
    assert child.returncode == 0 and json.loads(child.stdout)["result"] == {}


class StdioClient:
    """A client at the other end of a StdioService, which runs in a thread."""

    def __init__(self, server):
        ours, theirs = socket.socketpair()
        ours.settimeout(WAIT)
        self._files = [ours.makefile("rb"), ours.makefile("wb", 0), theirs.makefile("rb"),
                       theirs.makefile("wb", 0)]
        self._sockets = [ours, theirs]
        self._thread = threading.Thread(
            target=mcpkit.StdioService(server, self._files[2], self._files[3]).run, daemon=True)
        self._thread.start()

    def send(self, message):
        self._files[1].write(json.dumps(message).encode() + b"\n")

    def receive(self):
        return json.loads(self._files[0].readline())

    def close(self):
        """End the input, and return what still comes."""
        self._sockets[0].shutdown(socket.SHUT_WR)
        self._thread.join(WAIT)
        self._sockets[1].shutdown(socket.SHUT_WR)
        rest = [json.loads(line) for line in self._files[0]]
        for stream in self._files + self._sockets:
            stream.close()
        return rest


def test_subscriptions_on_stdio_are_told_apart_cancelled_and_ended_with_a_result():
    server = build_sample_server()
    client = StdioClient(server)
    for request_id in ("a", "b"):
        client.send(call("subscriptions/listen", {
            "_meta": META, "notifications": {"toolsListChanged": True}}, request_id))
        assert client.receive()["params"]["_meta"] == {
            "io.modelcontextprotocol/subscriptionId": request_id}
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                 "params": {"requestId": "a"}})
    assert wait_until(lambda: len(server.listeners) == 1)
    server.add_tool(lambda: None, name="new")
    told = client.receive()
    rest = client.close()
    assert told["method"] == "notifications/tools/list_changed"
    assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "b"
    assert [(message["id"], message["result"]["resultType"]) for message in rest] == [
        ("b", "complete")]


def test_a_legacy_client_on_stdio_is_told_of_changes_and_asked():
    server = build_asking_server()
    client = StdioClient(server)
    client.send(call("initialize", {"protocolVersion": "2025-11-25",
                                    "capabilities": CAN_ANSWER}))
    assert client.receive()["result"]["capabilities"]["resources"]["subscribe"] is True
    client.send(call("resources/subscribe", {"uri": "asking://profile"}, 2))
    assert client.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    server.resource_updated("asking://profile")
    assert client.receive()["params"] == {"uri": "asking://profile"}
    client.send(call("tools/call", {"name": "greet"}, 3))
    question = client.receive()
    client.send({"jsonrpc": "2.0", "id": question["id"], "result": ADA})
    assert find_text(client.receive()) == "accept {'name': 'Ada'}"
    assert client.close() == [] and server.listeners == set()


# =============================================================================================
# 14. CLIENT MESSAGES
# =============================================================================================
FORM = {"method": "elicitation/create", "params": {"message": "Name?\x1b", "requestedSchema": {
    "type": "object", "properties": {"n": {"type": "string"}, "d": {"type": "integer",
                                                                    "default": 5}}}}}
PAGE = {"method": "elicitation/create", "params": {"mode": "url", "message": "Log in",
                                                   "url": "https://example.com/"}}
MODEL = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
FOLDERS = {"method": "roots/list"}


def put_question(era, question, **handlers):
    """Return what a client says of a server's question, and the messages that it sent."""
    answered = queue.Queue()

    def serve(asked):
        if asked.message and "method" not in asked.message:
            answered.put(asked.message)
            return http_answer(b"", "202 Accepted")
        if era == "legacy":
            return legacy_peer(asked, x_y=ask_on_the_stream)
        return modern_peer(asked, x_y=lambda asked: http_answer(result(
            asked, {} if "inputResponses" in asked.message["params"] else {
                "resultType": "input_required", "inputRequests": {"q": question},
                "requestState": "opaque=="})))

    def ask_on_the_stream(asked):
        yield from stream_answer(event({"jsonrpc": "2.0", "id": 7, **question}))
        answered.put(answered.get(timeout=WAIT))
        yield event(result(asked, {}))

    with Peer(serve) as peer, Client(peer.url, era=era, timeout=WAIT, **handlers) as client:
        assert client.request("x/y") == {}
    if era == "legacy":
        return answered.get(timeout=WAIT), peer.asked
    return peer.asked[-1].message["params"]["inputResponses"]["q"], peer.asked


@table("handlers, question, answer", {
    "a form": ({"on_elicit": lambda params: {"n": "x"}}, FORM,
               {"action": "accept", "content": {"n": "x", "d": 5}}),
    "a form, its default overruled": ({"on_elicit": lambda params: {"d": 6}}, FORM,
                                      {"action": "accept", "content": {"d": 6}}),
    "a form declined": ({"on_elicit": lambda params: None}, FORM, {"action": "decline"}),
    "a form cancelled": ({"on_elicit": lambda params: mcpkit.Elicited("cancel")}, FORM,
                         {"action": "cancel"}),
    "a page": ({"on_elicit": lambda params: params["url"].startswith("https:")}, PAGE,
               {"action": "accept"}),
    "a model's text": ({"on_sample": lambda params: "Paris"}, MODEL, {
        "role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "unknown",
        "stopReason": "endTurn"}),
    "a model's message": ({"on_sample": lambda params: {"role": "assistant"}}, MODEL,
                          {"role": "assistant"}),
    "folders": ({"on_roots": lambda: ["file:///a", {"uri": "file:///b", "name": "b"}]}, FOLDERS,
                {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}),
})
def test_a_question_is_answered_alike_in_both_eras(handlers, question, answer):
    reply, _ = put_question("legacy", question, **handlers)
    assert reply == {"jsonrpc": "2.0", "id": 7, "result": answer}
    reply, asked = put_question("modern", question, **handlers)
    assert reply == answer
    first, again = asked[-2].message, asked[-1].message                                  # C51
    assert again["params"].pop("requestState") == "opaque==" and again["id"] != first["id"]
    del again["params"]["inputResponses"]
    assert again["params"] == first["params"]


def raise_it(error):
    raise error


@table("question, handlers, code, words", {
    "no handler": (FOLDERS, {}, -32601, "not found"),
    "an error": (MODEL, {"on_sample": lambda params: raise_it(MCPError(-1, "No!"))}, -1, "No!"),
    "a mistake": (MODEL, {"on_sample": lambda params: raise_it(KeyError("x"))}, -32603, "KeyError"),
})
def test_a_legacy_server_hears_what_became_of_its_question(question, handlers, code, words):
    reply, _ = put_question("legacy", question, **handlers)
    assert reply["error"]["code"] == code and words in reply["error"]["message"]


def test_the_key_of_a_question_is_never_of_a_legacy_servers_choice():
    question = {**MODEL, "params": {**MODEL["params"], "key": ["any"]}}
    reply, _ = put_question("legacy", question, on_sample=lambda params: str(sorted(params)))
    assert reply["result"]["content"]["text"] == "['maxTokens', 'messages']"


@table("kind, words, requests", {
    "C51 a question without a handler": (
        mcpkit.QuestionError, "q: elicitation/create: Name?\\x1b", {"inputRequests": {"q": FORM}}),
    "a question of no kind": (mcpkit.QuestionError, "q\\x1b: 5", {"inputRequests": {"q\x1b": 5}}),
    "an odd method": (mcpkit.QuestionError, "q: {}", {"inputRequests": {"q": {"method": {}}}}),
    "no object": (ProtocolError, "must be an object, but is 5", {"inputRequests": 5}),
    "nothing at all": (ProtocolError, "neither inputRequests nor requestState", {})})
def test_a_round_that_cannot_be_answered_says_what_was_asked(kind, words, requests):
    with Peer(lambda asked: modern_peer(asked, x_y=lambda asked: http_answer(result(
            asked, {"resultType": "input_required", **requests})))) as peer:
        with Client(peer.url, timeout=WAIT) as client, pytest.raises(kind) as caught:
            client.request("x/y")
    assert words in str(caught.value) and peer.methods == ["server/discover", "x/y"]


@table("era, path", {"legacy": ("legacy", ["params"]), "modern": ("modern", [
    "params", "_meta", "io.modelcontextprotocol/clientCapabilities"])})
def test_what_has_a_handler_is_declared(era, path):
    handlers = {"on_sample": len, "on_roots": list}
    serve = legacy_peer if era == "legacy" else modern_peer
    with Peer(lambda asked: serve(asked)) as peer:
        with Client(peer.url, era=era, timeout=WAIT, **handlers):
            declared = functools.reduce(dict.get, path, peer.asked[0].message)
    declared = declared["capabilities"] if era == "legacy" else declared
    assert declared == {"sampling": {"tools": {}}, "roots": {}}


def test_a_modern_request_carries_its_metadata_in_body_and_headers():
    with Peer(lambda asked: modern_peer(asked, tools_call=lambda asked: http_answer(
            result(asked, {})))) as peer:
        with Client(peer.url, timeout=WAIT, client_info=CLIENT) as client:
            client.request("tools/call", {"name": "日本", "_meta": {"progressToken": 1}})
    discover, call_ = peer.asked
    assert call_.message["params"] == {"name": "日本", "_meta": {**META, "progressToken": 1}}
    assert call_.headers["mcp-name"] == "=?base64?5pel5pys?="                            # C75
    assert call_.headers["mcp-method"] == "tools/call" and "mcp-name" not in discover.headers
    for name, value in {**JSON_BOTH, "MCP-Protocol-Version": "2026-07-28"}.items():
        assert discover.headers[name.lower()] == call_.headers[name.lower()] == value


@table("version", {"C45 a modern one": "2026-07-28", "unknown": "2099-01-01", "none": None})
def test_a_handshake_on_a_version_without_one_is_refused(version):
    with Peer(lambda asked: http_answer(result(asked, {"protocolVersion": version}))) as peer:
        with pytest.raises(ProtocolError, match="protocolVersion"):
            Client(peer.url, era="legacy", timeout=WAIT).connect()


@table("meta, info", {"named": ({"io.modelcontextprotocol/serverInfo": {"name": "s"}},
                                {"name": "s"}), "C49 nameless": (5, {})})
def test_a_modern_server_is_known_by_the_metadata_of_its_result(meta, info):
    with Peer(lambda asked: http_answer(result(asked, {
            "supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": 5, "_meta": meta,
            "serverInfo": {"name": "not here"}, "instructions": "Do."}))) as peer:
        with Client(peer.url, timeout=WAIT) as client:
            assert (client.era, client.server_info, client.capabilities, client.instructions) == (
                "modern", info, {}, "Do.")


def test_what_a_client_reads_again_is_its_own_and_as_old_as_the_server_allows():
    reads, ttl = {"a:": 0, "b:": 0, "c:": 0, "d:": 0}, {"a:": 10 ** 400, "b:": 1, "c:": True}

    def read(asked):
        uri = asked.message["params"]["uri"]
        reads[uri] += 1
        return http_answer(result(asked, {"contents": [reads[uri]], "ttlMs": ttl.get(uri)}))

    with Peer(lambda asked: modern_peer(asked, resources_read=read)) as peer:
        with Client(peer.url, timeout=WAIT) as client:
            for uri in reads:
                client.read_resource(uri)["contents"].append("mine")
            assert [client.read_resource(uri)["contents"] for uri in ("a:", "c:", "d:")] == [
                [1], [2], [2]]
            assert wait_until(lambda: client.read_resource("b:")["contents"] != [1])


def test_a_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(mcpkit, "MAX_CACHED", 2)
    with Peer(lambda asked: modern_peer(asked, resources_read=lambda asked: http_answer(
            result(asked, {"contents": [], "ttlMs": 60_000})))) as peer:
        with Client(peer.url, timeout=WAIT) as client:
            for uri in ("a:", "b:", "c:", "b:", "c:", "a:"):
                client.read_resource(uri)
    assert [asked.message["params"]["uri"] for asked in peer.asked[1:]] == ["a:", "b:", "c:", "a:"]


CHANGED = {"tools": ["tools/list"], "prompts": ["prompts/list"],
           "resources": ["resources/list", "resources/templates/list"]}


@cases({feature: feature for feature in CHANGED})
def test_a_cached_list_is_asked_for_again_when_it_has_changed(case):
    notice = {"jsonrpc": "2.0", "method": f"notifications/{case}/list_changed"}

    def serve(asked):
        method = asked.message["method"]
        if method == "server/discover":
            return modern_peer(asked)
        member = {"resources/templates/list": "resourceTemplates"}.get(
            method, method.partition("/")[0])
        return stream_answer(*[event(notice)] * (method == "x/y"),
                             event(result(asked, {member: [], "ttlMs": 60_000})))

    with Peer(serve) as peer, Client(peer.url, timeout=WAIT) as client:
        for _ in range(2):
            for read in (client.list_tools, client.list_prompts, client.list_resources,
                         client.list_resource_templates):
                assert read() == read() == []
            client.request("x/y")
    asked_twice = [method for method, count in collections.Counter(peer.methods).items()
                   if count == 2 and method != "x/y"]
    assert asked_twice == CHANGED[case]


def test_c73_bad_tools_are_listed_beside_good_ones_and_named_by_the_probe():
    schemas = [None, {}, {"type": "string"}, "x", {"type": "object"}]
    tools = [{"name": f"tool{index}", "inputSchema": schema}
             for index, schema in enumerate(schemas)] + [{"inputSchema": {"type": "object"}}, 5]
    with Peer(lambda asked: legacy_peer(asked, tools_list=lambda asked: http_answer(
            result(asked, {"tools": tools})))) as peer:
        listed = run("list", peer.url, "--era", "legacy")
        report = mcpkit.probe(peer.url, era="legacy", timeout=WAIT)
    assert listed.code == 0 and [f"tool{index}" in listed.out for index in range(5)] == [True] * 5
    faults = [check["message"] for check in report["checks"] if check["id"] == "legacy-tool"]
    assert [text.partition(" (")[0] for text in faults] == [
        f"tool {index}" for index in (0, 1, 2, 3, 5, 6)]
    assert "has no name" in faults[4] and "is not an object: 5" in faults[5]


@table("words, header", by_outcome({
    None: {"C123 a colon": ("X-Api-Key", "a:b"), "nothing": ("X", "")},
    "not a header": {"C75 a line end": ("X", "a\r\nX-Evil: 1"), "a bare LF": ("X", "a\nb"),
        "NUL": ("X", "\0"), "beyond ASCII": ("X", "é"), "no name": ("", "x"),
        "a line end in the name": ("X\r\nY", "x"), "a space in the name": ("X Y", "x"),
        "a colon in the name": ("X: a", "x")},
    "the client's own": {"a length": ("Content-Length", "5"), "a host": ("Host", "x"),
        "a coding": ("transfer-encoding", "5"), "a connection": ("Connection", "close")},
    "a name and a text": {"no text": ("X", 1)}}))
def test_only_what_is_a_header_is_sent_as_one(words, header):
    error = find_error(lambda: Client("http://127.0.0.1:1/", headers=dict([header])))
    assert words in str(error) and type(error) is UsageError if words else (
        type(error) is Client)


def test_random_answers_give_documented_errors_only():
    choose = random.Random(8)
    values = [None, 5, "x", "2026-07-28", ["2026-07-28"], ["2025-11-25", 5], [{}], {}, True, [None]]

    def serve(asked):
        members = {name: choose.choice(values) for name in choose.sample(
            ["supportedVersions", "capabilities", "_meta", "resultType", "inputRequests",
             "protocolVersion", "serverInfo", "tools", "nextCursor", "ttlMs"], 4)}
        return choose.choice([
            lambda: http_answer(result(asked, members)),
            lambda: error_answer(choose.choice([-32020, -32021, -32022, -32000]), "400 Bad",
                                 data={"supported": choose.choice(values)}),
            lambda: http_answer(members, choose.choice(["200 OK", "404 No", "401 No", "500 No"])),
            lambda: legacy_peer(asked, tools_list=lambda asked: http_answer(
                result(asked, members)))])()

    with Peer(serve) as peer:
        for _ in range(150):
            with contextlib.suppress(MCPKitError), Client(peer.url, timeout=WAIT) as client:
                client.list_tools()


# =============================================================================================
# 15. HTTP CLIENT
# =============================================================================================
class MockRequest(typing.NamedTuple):
    """One request as a scripted peer got it."""

    method: str
    path: str
    headers: dict
    message: dict


RESET = object()           # among the parts of an answer: reset the connection
CLOSE = object()           # the same: the connection ends here


class Peer:
    """A scripted HTTP server: `answer(asked)` gives the bytes, or an iterable of them, to send.

    Each connection carries one request, unless it `keeps` them. `asked` has all requests. With
    `tls`, an ssl.SSLContext, it is an https server; with `tunnel` a proxy that answers itself in
    the tunnels that it opens.
    """

    def __init__(self, answer, tls=None, tunnel=None, keeps=False):
        self.answer, self.asked, self.tls, self.tunnel = answer, [], tls, tunnel
        self.keeps, self.connections = keeps, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.url = f"{self.origin}/mcp"
        self._is_open = True
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # A thread that waits in accept() when its socket is closed may take what comes for the
        # next one with the same descriptor: it goes first.
        self._is_open = False
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=WAIT).close()
        self._acceptor.join(WAIT)
        self._listener.close()

    @property
    def methods(self):
        """The JSON-RPC methods that were asked, or the HTTP method where there was no message."""
        return [asked.message.get("method", asked.method) for asked in self.asked]

    def _accept(self):
        while True:
            sock, _ = self._listener.accept()
            if not self._is_open:
                sock.close()
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock, self.tls), daemon=True).start()

    def _serve(self, sock, tls):
        # A request that is cut short belongs to a client that gave up, which the test knows.
        with contextlib.suppress(OSError, ValueError), (
                tls.wrap_socket(sock, server_side=True) if tls else sock) as sock:
            with sock.makefile("rb") as data:
                while self._answer_one(sock, data) and self.keeps:
                    pass
            if self.tunnel and not isinstance(sock, ssl.SSLSocket):
                self._serve(sock, self.tunnel)

    def _answer_one(self, sock, data):
        line = data.readline().decode().split()
        if not line:
            return False                     # a client that went before it asked
        headers = {}
        for raw in iter(lambda: data.readline() or b"\r\n", b"\r\n"):
            name, _, value = raw.decode().strip().partition(": ")
            headers[name.lower()] = value
        body = data.read(int(headers.get("content-length", 0)))
        is_form = headers.get("content-type") == "application/x-www-form-urlencoded"
        message = dict(urllib.parse.parse_qsl(body.decode())) if is_form else (
            json.loads(body or b"{}"))
        self.asked.append(MockRequest(line[0], line[1], headers, message))
        answer = self.answer(self.asked[-1])
        for part in [answer] if isinstance(answer, bytes) else answer:
            if part is RESET:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if part in (RESET, CLOSE):
                return False
            sock.sendall(part)
        return True


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


def redirect(status, location):
    return http_answer(b"", status, "text/plain", *([f"Location: {location}"] if location else []))


def list_once(url, **options):
    """Connect to a legacy server, list its tools, and leave."""
    with Client(url, era="legacy", timeout=WAIT, **options) as client:
        assert client.list_tools() == []


@table("statuses, paths", {
    "307": ([307], ["/mcp", "/1"] * 3), "308, for good": ([308], ["/mcp", "/1", "/1", "/1"]),
    "a 308 after a 307 is not for good": ([307, 308], ["/mcp", "/1", "/2"] * 3),
    "a 307 after a 308": ([308, 307], ["/mcp", "/1", "/2", "/1", "/2", "/1", "/2"]),
})
def test_c62_a_post_is_sent_on_unchanged_if_the_status_allows_it(statuses, paths):
    hops = {path: redirect(f"{status} Moved", f"/{number}") for number, (path, status)
            in enumerate(zip(("/mcp", "/1"), statuses), 1)}
    with Peer(lambda asked: hops.get(asked.path) or legacy_peer(asked)) as peer:
        list_once(peer.url, headers={"X-Key": "k"})
    assert [asked.path for asked in peer.asked] == paths
    assert peer.asked[0].message == peer.asked[1].message
    assert {(asked.method, asked.headers["x-key"]) for asked in peer.asked} == {("POST", "k")}


@table("status, location, words", {
    **{f"C62 {status}": (f"{status} Moved", "/mcp/", f"HTTP {status} redirects to ORIGIN/mcp/: ")
       for status in (301, 302, 303, 300)},
    "C63 another host": ("308 Moved", "http://evil.example/m",
                         "HTTP 308 redirects to http://evil.example/m, which is another origin"),
    "C63 another port": ("307 Moved", "http://127.0.0.1:9/m",
                         "redirects to http://127.0.0.1:9/m, which is another origin"),
    "another host by its name alone": ("308 Moved", "//evil.example/m", "http://evil.example/m"),
    "https on another host": ("308 Moved", "https://evil.example/m", "another origin"),
    "a file": ("308 Moved", "file:///etc/passwd", "redirects to file:///etc/passwd: "),
    "a name in front of the host": ("308 Moved", "http://a@127.0.0.1/m", "http://a@127.0.0.1/m:"),
    "a control character": ("308 Moved", "/m\x0bx", r"redirects to /m\x0bx: "),
    "nowhere": ("308 Moved", None, "HTTP 308 redirects to nowhere"),
    "not modified": ("304 Not Modified", None, "HTTP 304 redirects to nowhere"),
    "C63 round and round": ("308 Moved", "/mcp", "more than 5 redirects, the last one to ORIGIN"),
})
def test_c63_what_a_request_carries_is_never_sent_where_it_may_not_go(status, location, words):
    with Peer(lambda asked: redirect(status, location)) as peer:
        with pytest.raises(ProtocolError) as caught:
            list_once(peer.url, headers={"Authorization": "Bearer x"})
    assert words.replace("ORIGIN", peer.origin) in str(caught.value)
    assert peer.methods == ["initialize"] * (6 if location == "/mcp" else 1)


def test_c63_a_session_does_not_cross_an_origin_but_http_may_become_https(certificates):
    with Peer(legacy_peer) as other, Peer(lambda asked: (
            redirect("308 Moved", other.url) if "mcp-session-id" in asked.headers
            else legacy_peer(asked, session="s"))) as peer:
        with pytest.raises(ProtocolError, match=f"redirects to {other.url}, which is another"):
            list_once(peer.url)
    with Peer(legacy_peer, tls=certificates.server()) as secure, Peer(
            lambda asked: redirect("308 Moved", secure.url)) as peer:
        list_once(peer.url, headers={"X-Key": "k"},
                  network=mcpkit.Network(cacert=certificates.path("ca.pem")))
    assert len(peer.asked) == 1 and len(secure.asked) == 3
    assert secure.asked[0].headers["x-key"] == "k"


def test_the_probe_tells_of_a_redirect_that_it_followed():
    def answer(asked):
        return redirect("308 Moved", "/new") if asked.path == "/mcp" else legacy_peer(asked)

    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url, era="legacy")
    assert [check["message"] for check in report["checks"] if check["id"] == "legacy-step"] == [
        "initialize was answered with HTTP 308, Location: /new"]
    layer = find_layer(report, "http")
    assert (layer["status"], layer["message"]) == ("note", "HTTP 308 to a POST, on to /new")
    assert layer["hint"].startswith("give clients the URL that it leads to")


def find_layer(report, name):
    """Return the one layer of that name in a probe's report."""
    (layer,) = [layer for layer in report["layers"] if layer["name"] == name]
    return layer


# ---- connections

CONTENT = b'{"jsonrpc":"2.0","id":2,"result":{"ok":1}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SIZED = OK + b"Content-Length: %d\r\n" % len(CONTENT)
CHUNKED_ANSWER = OK + b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"5\r\n" + CONTENT[:5] + b"\r\n%x;x=1\r\n" % len(CONTENT[5:]) + CONTENT[5:] + b"\r\n0\r\n"
IN_HTTP = "does not answer in HTTP: "

ANSWERS_ON_THE_WIRE = {          # whether the connection is used again, or what the error says
    "a length": (True, SIZED + b"\r\n" + CONTENT),
    "a length twice": (True, SIZED + SIZED[len(OK):] + b"\r\n" + CONTENT),
    "lines that end with LF": (True, SIZED.replace(b"\r", b"") + b"\n" + CONTENT),
    "a folded line": (True, SIZED + b"X: a\r\n b\r\n\r\n" + CONTENT),
    "chunks, extensions, trailers": (True, CHUNKED_ANSWER + b"\r\n" + CHUNKS + b"X: 1\r\n\r\n"),
    "no length": (False, OK + b"\r\n" + CONTENT, CLOSE),
    "close": (False, SIZED + b"Connection: close\r\n\r\n" + CONTENT),
    "HTTP 1.0": (False, SIZED.replace(b"1.1", b"1.0") + b"\r\n" + CONTENT),
    "HTTP 1.0, kept": (True, SIZED.replace(b"1.1", b"1.0") + b"Connection: Keep-Alive\r\n\r\n"
                       + CONTENT),
    "chunks of HTTP 1.0": (False, CHUNKED_ANSWER.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n\r\n"
                           + CHUNKS + b"\r\n"),
    "chunks and a length": (False, CHUNKED_ANSWER + b"Content-Length: 3\r\n\r\n" + CHUNKS + b"\r\n"),
    "heads that only announce": (True, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n"
                                 b"Link: x\r\n\r\n" + SIZED + b"\r\n" + CONTENT),
    "a body after 204": ("HTTP 204", b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n"),
    "a body after 304": ("HTTP 304", b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a protocol that is switched": ("HTTP 101", b"HTTP/1.1 101 Switching\r\n\r\nab"),
    "nothing": ("closed the connection without an answer", b"", CLOSE),
    "a head that is cut": (IN_HTTP + "the head of its answer does not end", SIZED, CLOSE),
    "a body that is cut": ("closed the connection inside its answer",
                           SIZED + b"\r\n" + CONTENT[:-1], CLOSE),
    "chunks that are cut": ("closed the connection inside its answer",
                            CHUNKED_ANSWER + b"\r\n" + CHUNKS[:-3], CLOSE),
    "a bad chunk": (IN_HTTP + "a chunk size is malformed", CHUNKED_ANSWER + b"\r\nzz\r\n"),
    "lengths that differ": (IN_HTTP + "its Content-Length is", SIZED + b"Content-Length: 3\r\n\r\n"
                            + CONTENT),
    **{f"a length of {length}": (IN_HTTP + "its Content-Length is", OK + (
        f"Content-Length: {length}\r\n\r\nab").encode("latin-1"))
       for length in ("+2", "-2", "2_0", "0x2", "2;", "\xb2", "2 2", "9" * 19)},
    "an unknown coding": (IN_HTTP + "its Transfer-Encoding is gzip",
                          OK + b"Transfer-Encoding: gzip\r\n\r\n"),
    "a coding twice": (IN_HTTP + "its Transfer-Encoding is chunked, chunked",
                       CHUNKED_ANSWER + CHUNKED_ANSWER[len(OK):] + b"\r\n" + CHUNKS),
    "a space before a colon": (IN_HTTP + "a header line is malformed",
                               OK + b"Content-Length : 2\r\n\r\nab"),
    "a NUL in a value": (IN_HTTP + "a header line is malformed", SIZED + b"X: \0\r\n\r\n" + CONTENT),
    "another protocol": (IN_HTTP + "SSH-2.0-x", b"SSH-2.0-x\r\n"),
    "another version": (IN_HTTP, b"HTTP/2 200\r\n\r\n"),
    "an empty line before": (IN_HTTP, b"\r\n" + SIZED + b"\r\n" + CONTENT),
    "a head without end": (IN_HTTP, OK + b"A: " + b"1" * 300_000),
    "promises without end": (IN_HTTP + "the head of its answer does not end",
                             b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000),
    "too much": ("larger than 9,000 bytes", OK + b"\r\n" + b" " * 9_001, CLOSE),
    "too much, in chunks": ("larger than 9,000 bytes", CHUNKED_ANSWER + b"\r\n" + b"1\r\n \r\n" * 9_001),
}


@cases(ANSWERS_ON_THE_WIRE)
def test_an_answer_is_the_same_however_it_is_cut(case):
    outcome, data, *end = case
    pieces = [[data], [data[at:at + 1] for at in range(len(data))], [data[:40], data[40:]]]
    for parts in pieces if len(data) < 500 else pieces[::2]:
        with Peer(lambda asked: legacy_peer(asked, x_y=lambda asked: [*parts, *end]),
                  keeps=True) as peer:
            with Client(peer.url, era="legacy", timeout=WAIT, max_bytes=9000) as client:
                if isinstance(outcome, str):
                    with pytest.raises(MCPKitError, match=re.escape(outcome)) as caught:
                        client.request("x/y")
                    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
                else:
                    assert client.request("x/y") == {"ok": 1}
                    assert client.list_tools() == []
                    assert peer.connections == (3 if outcome else 4)


@pytest.mark.parametrize("method, error", [("tools/list", None), ("tools/call", "without an answer")])
def test_only_what_may_be_repeated_is_sent_again_when_a_kept_connection_turns_out_dead(method, error):
    def answer(asked):
        if asked.message.get("method") == method and next(count) == 1:
            return [CLOSE]                       # after the request came, and before any answer
        return [OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in [json.dumps(
            result(asked, {"tools": [], "content": []})).encode()]]

    count = itertools.count()
    with Peer(lambda asked: legacy_peer(asked, tools_list=answer, tools_call=answer),
              keeps=True) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        client.request(method)
        with (contextlib.nullcontext() if error is None else
              pytest.raises(TransportError, match=error)):
            client.request(method)
    assert peer.methods.count(method) == (3 if error is None else 2)


def test_who_answers_before_it_has_read_everything_is_heard():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(http_answer(b"no", "413 Too Large", "text/plain"))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ProtocolError, match="HTTP 413, text/plain: no"):
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}/", era="legacy", timeout=WAIT,
                   client_info={"name": "x" * 5_000_000, "version": "1"}).connect()


# ---- proxies

@pytest.fixture
def closed_port():
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return port


def as_addresses(*addresses):
    """Return a getaddrinfo for which each name has these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]

    def look_up(host, port, *rest, **options):
        if options.get("flags"):
            raise socket.gaierror("no number")
        return found
    return look_up


@table("url, no_proxy, expected", {
    "C65 loopback": ("http://127.0.0.1:1/mcp", "", "proxy bypassed: loopback"),
    "C65 loopback by name": ("http://localhost/mcp", "", "proxy bypassed: loopback"),
    "C65 loopback of IPv6": ("http://[::1]:8000/mcp", "", "proxy bypassed: loopback"),
    "C65 a host": ("http://a.example/mcp", "b.example,a.example", "proxy bypassed: NO_PROXY"),
    "C65 a suffix": ("http://x.a.example/mcp", ".a.example", "proxy bypassed: NO_PROXY"),
    "C65 everything": ("http://a.example/mcp", "*", "proxy bypassed: NO_PROXY"),
    "C65 host and port": ("http://a.example:81/mcp", "a.example:81", "proxy bypassed: NO_PROXY"),
    "the port of the scheme": ("http://a.example/mcp", "a.example:80", "proxy bypassed: NO_PROXY"),
    "C65 another port": ("http://a.example:82/mcp", "a.example:81", "through proxy.example:3128"),
    "a name that ends alike": ("http://xa.example/", "a.example", "through proxy.example:3128"),
    "nothing": ("http://a.example/mcp", "", "through proxy.example:3128"),
    "another scheme": ("https://a.example/mcp", "", "none is set"),
})
def test_the_environment_says_which_hosts_are_reached_through_a_proxy(
        url, no_proxy, expected, monkeypatch, pong):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    monkeypatch.setattr(socket, "getaddrinfo", as_addresses(pong.server_address[:2]))
    assert find_layer(mcpkit.probe(url), "proxy")["message"] == expected
    if url.startswith("http:"):
        given = mcpkit.probe(url, network=mcpkit.Network(proxy="p:1"))
        assert find_layer(given, "proxy")["message"] == "through p:1"
    none = mcpkit.probe(url, network=mcpkit.Network(proxy=""))
    assert find_layer(none, "proxy")["message"] == "none is set"


@pytest.mark.parametrize("proxy", ["socks5://user:secret@h:1", "https://h:secret", "http://", "[::1"])
def test_a_proxy_that_cannot_be_one_is_refused_without_its_password(proxy):
    with pytest.raises(UsageError, match="a proxy must be http://") as caught:
        list_once("http://h/", network=mcpkit.Network(proxy=proxy))
    assert "secret" not in str(caught.value)


def test_c65_a_proxy_that_is_named_is_used_for_loopback_too():
    with Peer(legacy_peer) as proxy:
        list_once("http://127.0.0.1:1/mcp?a=b",
                  network=mcpkit.Network(proxy=f"http://ada:a%20b@127.0.0.1:{proxy.port}"))
    assert {(asked.path, asked.headers["host"], asked.headers["proxy-authorization"])
            for asked in proxy.asked} == {
        ("http://127.0.0.1:1/mcp?a=b", "127.0.0.1:1", "Basic YWRhOmEgYg==")}


@table("url, status, headers, words", {
    f"C67 {url} {status}": (url, status, headers, words) for url, status, headers, words in (
        ("https://mcp.invalid/mcp", "407 No", ["Proxy-Authenticate: Basic realm=x"],
         "proxy: the proxy wants credentials (HTTP 407, Basic realm=x)"),
        ("http://mcp.invalid/mcp", "407 No", [],
         "proxy: the proxy wants credentials (HTTP 407, without saying how)"),
        ("https://mcp.invalid/mcp", "403 Forbidden", [],
         "proxy: the proxy refuses mcp.invalid:443 (HTTP 403 Forbidden)"))
})
def test_c67_a_proxy_that_refuses_says_so_in_its_own_words(url, status, headers, words):
    with Peer(lambda asked: http_answer(b"", status, "text/plain", *headers)) as proxy:
        with pytest.raises(TransportError, match=re.escape(words)):
            list_once(url, network=mcpkit.Network(proxy=proxy.origin),
                      headers={"Authorization": "Bearer x"})
    if url.startswith("https"):
        assert (proxy.asked[0].method, proxy.asked[0].path) == ("CONNECT", "mcp.invalid:443")
        assert "authorization" not in proxy.asked[0].headers


@pytest.mark.parametrize("signed", [True, False])
def test_c67_a_proxy_that_inspects_tls_is_told_from_a_server(certificates, signed):
    def answer(asked):
        return b"HTTP/1.1 200 Connected\r\n\r\n" if asked.method == "CONNECT" else (
            legacy_peer(asked))

    inside = certificates.server("other" if signed else "alone")
    issuer = "CN=Test CA, O=Tests" if signed else "CN=alone"
    with Peer(answer, tunnel=inside) as proxy:
        network = mcpkit.Network(proxy=proxy.origin)
        with pytest.raises(TransportError, match=(
                f"was issued by {issuer}, which is not in the trust store; a TLS-inspecting "
                "proxy. Pass its authority with --cacert")):
            list_once("https://other.example/mcp", network=network)
        assert {asked.method for asked in proxy.asked} == {"CONNECT"}
        if signed:
            network = network._replace(cacert=certificates.path("ca.pem"))
            list_once("https://other.example/mcp", network=network)
            assert proxy.asked[-1].path == "/mcp"
            with pytest.raises(ProtocolError, match="HTTP 404"):      # the server's, not the proxy's
                with Client("https://other.example/mcp", era="legacy", network=network) as client:
                    client.request("x/y")


def test_a_proxy_that_is_not_there_is_not_taken_for_the_server(closed_port):
    with pytest.raises(TransportError, match="proxy: connect: nothing listens at 127.0.0.1:"):
        list_once("http://mcp.invalid/",
                  network=mcpkit.Network(proxy=f"http://127.0.0.1:{closed_port}"))


# ---- TLS

class Certificates:
    """A test's own authority, and what it signed: ca, good, other, expired; alone is self-signed."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "ca.cnf").write_text(
            "[ca]\ndefault_ca=x\n[x]\ndatabase=index.txt\nnew_certs_dir=.\ndefault_md=sha256\n"
            "rand_serial=yes\npolicy=p\n[p]\ncommonName=supplied\n")
        (folder / "index.txt").touch()
        self.run("req", "-x509", *self.new_key("ca"), "-subj", "/CN=Test CA/O=Tests", "-days", "30")
        self.sign("good", "IP:127.0.0.1,DNS:localhost")
        self.sign("other", "DNS:other.example,DNS:more.example")
        self.sign("expired", "IP:127.0.0.1", "20200101000000Z", "20200201000000Z")
        self.sign("client", "DNS:client")
        self.run("req", "-x509", *self.new_key("alone"), "-subj", "/CN=alone", "-days", "30",
                 "-addext", "subjectAltName=IP:127.0.0.1,DNS:other.example")

    def run(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True,
                       timeout=WAIT)

    def new_key(self, name, kind="pem"):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                f"{name}.key", "-out", f"{name}.{kind}")

    def sign(self, name, names, *days):
        """Make a key and have the authority sign it, for the coming month or between two times."""
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        self.run("req", "-new", *self.new_key(name, "csr"), "-subj", f"/CN={name}")
        limits = ["-startdate", days[0], "-enddate", days[1]] if days else ["-days", "30"]
        self.run("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key",
                 "-notext", "-in", f"{name}.csr", "-out", f"{name}.pem",
                 "-extfile", f"{name}.ext", *limits)

    def path(self, name):
        return str(self.folder / name)

    def server(self, name="good", wants_client=False):
        """Return the context of a server with one of the certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ca.pem"))
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl program to make certificates with")
    return Certificates(tmp_path_factory.mktemp("tls"))


TODAY = r"\d{4}-\d\d-\d\d"


@table("served, trusted, words", {
    "C68 self-signed": ("alone", "ca.pem", "is self-signed by CN=alone: pass it with --cacert "
                        rf".*\(subject CN=alone, issuer CN=alone, {TODAY} to {TODAY}\)"),
    "C68 expired": ("expired", "ca.pem", rf"the certificate of 127.0.0.1 has expired on {TODAY} "
                    r"\(subject CN=expired, issuer CN=Test CA, O=Tests,"),
    "C68 another name": ("other", "ca.pem", "the certificate is for other.example, "
                         r"more.example, not for 127.0.0.1 \(subject CN=other, issuer CN=Test CA"),
    "C68 an unknown authority": ("good", None, "was issued by CN=Test CA, O=Tests, which is not "
                                 "in the trust store"),
})
def test_c68_a_certificate_that_is_not_trusted_is_described(certificates, served, trusted, words):
    network = mcpkit.Network(cacert=trusted and certificates.path(trusted))
    with Peer(legacy_peer, tls=certificates.server(served)) as peer:
        with pytest.raises(TransportError, match=f"^tls: .*{words}"):
            list_once(peer.url, network=network)
        report = mcpkit.probe(peer.url, network=network)
        assert peer.asked == []
        list_once(peer.url, network=mcpkit.Network(insecure=True))
    assert (report["verdict"], report["headline"]["layer"]) == ("unreachable", "tls")
    assert report["headline"]["hint"]


def test_c68_plain_http_and_tls_are_told_apart_if_they_are_mixed_up(certificates, pong):
    with pytest.raises(TransportError, match="speaks plain HTTP, not TLS: use http://"):
        list_once(pong.url.replace("http:", "https:"))
    with Peer(legacy_peer, tls=certificates.server()) as secure:
        with pytest.raises(TransportError, match="speaks TLS, not plain HTTP: use https://"):
            list_once(secure.url.replace("https:", "http:"))
    with Peer(lambda asked: b"\x15\x03\x01\x00\x02\x02\x46") as alert:
        with pytest.raises(TransportError, match="speaks TLS, not plain HTTP: use https://"):
            list_once(alert.url)
    assert secure.asked == []


@pytest.mark.parametrize("how", ["--cacert", "SSL_CERT_FILE", "self-signed"])
def test_c68_an_authority_is_trusted_when_it_is_named(certificates, how, monkeypatch):
    served, trusted = ("alone", "alone.pem") if how == "self-signed" else ("good", "ca.pem")
    network = mcpkit.Network(cacert=certificates.path(trusted))
    if how == "SSL_CERT_FILE":
        monkeypatch.setenv(how, certificates.path(trusted))
        network = mcpkit.Network()
    with Peer(legacy_peer, tls=certificates.server(served)) as peer:
        list_once(peer.url, network=network)
    assert peer.asked[0].headers["host"] == f"127.0.0.1:{peer.port}"


def test_c68_a_server_that_asks_for_our_certificate_gets_it(certificates):
    network = mcpkit.Network(cacert=certificates.path("ca.pem"))
    with Peer(legacy_peer, tls=certificates.server(wants_client=True)) as peer:
        list_once(peer.url, network=network._replace(
            client_cert=certificates.path("client.pem"),
            client_key=certificates.path("client.key")))
        with pytest.raises(TransportError):              # which one depends on who is faster
            list_once(peer.url, network=network)


@table("files, words", {
    "no such file": ({"cacert": "nowhere.pem"}, "nowhere.pem cannot be used for TLS: No such file"),
    "no certificate": ({"cacert": "ca.key"}, "ca.key cannot be used for TLS"),
    "a certificate without its key": ({"client_cert": "client.pem"}, "client.pem cannot be used"),
    "the key of another": ({"client_cert": "client.pem", "client_key": "good.key"},
                           "client.pem cannot be used for TLS"),
    "a key alone": ({"client_key": "good.key"}, "of no use without the client certificate"),
    "an encrypted key": ({"client_cert": "client.pem", "client_key": "locked.key"},
                         "locked.key is encrypted"),
})
def test_a_file_that_tls_cannot_use_is_the_callers_mistake(certificates, files, words):
    certificates.run("ec", "-in", "client.key", "-aes256", "-passout", "pass:secret", "-out",
                     "locked.key")
    network = mcpkit.Network(**{name: certificates.path(file) for name, file in files.items()})
    with pytest.raises(UsageError, match=words):
        list_once("https://127.0.0.1:1/", network=network)


def test_a_certificate_with_an_odd_name_is_described_all_the_same(certificates):
    certificates.sign("odd", "DER:30:0c:87:05:01:02:03:04:05:82:03:61:2e:62")
    with Peer(legacy_peer, tls=certificates.server("odd")) as peer:
        report = mcpkit.probe(peer.url, network=mcpkit.Network(insecure=True))
    layer = find_layer(report, "tls")
    assert layer["status"] == "note" and ", issued by CN=Test CA" in layer["message"]


# ---- addresses, and the limits of every wait

def test_c69_every_address_of_a_host_is_tried(pong, closed_port, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", as_addresses(
        ("127.0.0.1", closed_port), pong.server_address[:2]))
    layer = find_layer(mcpkit.probe("http://localhost:1/mcp"), "tcp")
    assert layer["message"] == "127.0.0.1 refused, 127.0.0.1 ok"
    assert "one address only" in layer["hint"]
    monkeypatch.setattr(socket, "getaddrinfo", as_addresses(*[("127.0.0.1", closed_port)] * 2))
    with pytest.raises(TransportError, match=r"connect: nothing answers at localhost:1 \(127.0.0.1 "
                                             r"refused, 127.0.0.1 refused\)"):
        list_once("http://localhost:1/mcp")


def test_a_name_service_that_is_silent_ends_the_wait(monkeypatch):
    def look_up(*_, **options):
        if options.get("flags"):
            raise socket.gaierror("no number")
        OPEN_END.wait(WAIT)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(TransportError, match="name: the name service says nothing of a.example") as e:
        Client("http://a.example/mcp", timeout=0.2).connect()
    assert e.value.timed_out and e.value.layer == "name"


@pytest.mark.parametrize("what", ["TLS", "CONNECT", "TLS in a tunnel"])
def test_a_silent_handshake_keeps_the_time_limit(what):
    def answer(asked):
        if what == "TLS in a tunnel":
            yield b"HTTP/1.1 200 Connected\r\n\r\n"
        OPEN_END.wait(WAIT)

    with Peer(answer) as peer, socket.create_server(("127.0.0.1", 0)) as deaf:
        network = mcpkit.Network(proxy="" if what == "TLS" else peer.origin)
        url = f"https://127.0.0.1:{deaf.getsockname()[1]}/" if what == "TLS" else (
            "https://mcp.invalid/")
        with pytest.raises(TransportError, match="no answer for 0.2 s"):
            Client(url, timeout=0.2, network=network).connect()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", ["gzip", "BR"])
def test_c125_a_compressed_answer_which_was_not_asked_for_is_not_read(kind, coding):
    answer = http_answer(b"?", "200 OK", kind, f"Content-Encoding: {coding}")
    with open_scripted(x_y=lambda asked: answer) as (peer, client):
        with pytest.raises(ProtocolError, match=f"in the coding {coding}, which was not asked for"):
            client.request("x/y")
    assert {asked.headers["accept-encoding"] for asked in peer.asked} == {"identity"}


# =============================================================================================
# 16. CLIENT TRANSPORTS
# =============================================================================================
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
    "C44 403, to one with credentials": http_answer(b"", "403 Forbidden"),
}


@cases(LEGACY_SIGNS)
def test_whatever_is_not_plainly_modern_is_spoken_to_in_the_legacy_way(case):
    def answer(asked):
        return case if asked.message.get("method") == "server/discover" else (
            legacy_peer(asked, session="s1"))

    with Peer(answer) as peer, Client(peer.url, timeout=WAIT, headers={
            "Authorization": "Bearer x"}) as client:
        assert client.era == "legacy" and client.protocol_version == "2025-06-18"
        assert client.list_tools() == []
    assert peer.methods == ["server/discover", "initialize", "notifications/initialized",
                            "tools/list", "DELETE"]
    assert {asked.headers["authorization"] for asked in peer.asked} == {"Bearer x"}
    names = {"mcp-protocol-version", "mcp-session-id"}
    assert not names & set(peer.asked[1].headers)
    for asked in peer.asked[2:]:                 # C53: after initialize they go with everything
        assert [asked.headers[name] for name in sorted(names)] == ["2025-06-18", "s1"]
        assert "_meta" not in asked.message.get("params", {})


MODERN_SIGNS = {
    "C41 -32021": (error_answer(-32021, "400 Bad", data={"requiredCapabilities": {"roots": {}}}),
                   "roots"),
    "C41 -32020": (error_answer(-32020, "400 Bad", message="Header mismatch: Mcp-Method"),
                   "Mcp-Method"),
    "C41 no version in common": (error_answer(-32022, "400 Bad", data={
        "supported": ["2031-01-01"]}), "2031-01-01"),
    "our version, and yet unsupported": (error_answer(-32022, "400 Bad", None, data={
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
        with pytest.raises(MCPKitError, match=re.escape(words)):
            Client(peer.url, timeout=WAIT).connect()
    assert set(peer.methods) == {"server/discover"}


def test_a_modern_server_that_refuses_our_version_and_names_it_is_asked_once_more():
    refusals = iter([error_answer(-32022, "400 Bad", data={"supported": ["2026-07-28"]})])
    with Peer(lambda asked: next(refusals, None) or modern_peer(asked)) as peer:
        with Client(peer.url, timeout=WAIT) as client:
            assert client.era == "modern"
    assert peer.methods == ["server/discover"] * 2


@pytest.mark.parametrize("body, kind", [
    (b"gone", "text/plain"), (b"", "application/json"),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
     "application/json")])
def test_c54_a_session_that_ended_is_answered_by_one_new_initialize(body, kind):
    sessions, ended = iter(["s1", "s2", "s3"]), {"s1"}

    def answer(asked):
        if asked.message.get("method") == "initialize":
            return legacy_peer(asked, session=next(sessions))
        if asked.headers.get("mcp-session-id") in ended and "id" in asked.message:
            return http_answer(body, "404 Not Found", kind)
        return legacy_peer(asked)

    with Peer(answer) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        assert client.list_tools() == [] and client.session_id == "s2"
        assert "mcp-session-id" not in peer.asked[3].headers
        assert peer.asked[5].headers["mcp-session-id"] == "s2"
        start = ["initialize", "notifications/initialized", "tools/list"]
        assert peer.methods == start * 2
        ended.update({"s2", "s3"})               # a second 404 is an error
        with pytest.raises(MCPKitError, match="404"):
            client.list_tools()
        assert peer.methods == [*start * 2, "tools/list", *start]


OPEN_END = threading.Event()


def stay_open(*events):
    """A stream that stays open after its events."""
    yield from stream_answer(*events)
    OPEN_END.wait(WAIT)


def stay_open_in_chunks(data):
    """A stream in chunks that stays open after the first one."""
    yield (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
           b"\r\n%x\r\n%s\r\n" % (len(data), data))
    OPEN_END.wait(WAIT)


NOTICE = event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
READ_ANSWERS = {
    "JSON": lambda answer: http_answer(answer),
    "C31 a content type in capitals": lambda answer: http_answer(
        answer, "200 OK", "Application/JSON; charset=utf-8"),
    "a batch of one": lambda answer: http_answer([answer]),
    "C06 a stream without a space": lambda answer: stream_answer(
        b"data:" + json.dumps(answer).encode() + b"\n\n"),
    "C08 C09 C11 pings, comments and a primer before it": lambda answer: stream_answer(
        b"id: 1\ndata:\n\n", b": hi\n\nevent: ping\ndata: ping\n\n", NOTICE, event(answer)),
    "C31 a stream's type with its characters": lambda answer: [
        part.replace(b"text/event-stream", b"Text/Event-Stream;charset=UTF-8")
        for part in stream_answer(event(answer))],
    "C36 one small event in chunks": lambda answer: stay_open_in_chunks(event(answer)),
    "C36 a stream that stays open": lambda answer: stay_open(event(answer)),
    "an answer to another id before it": lambda answer: stream_answer(
        event({"jsonrpc": "2.0", "id": 999, "result": {}}), event(answer)),
    "C14 characters cut inside": lambda answer: stream_answer(*[
        bytes([byte]) for byte in b"data: " + json.dumps(
            {**answer, "x": "\u4e16\U0001f600"}, ensure_ascii=False).encode() + b"\r\n\r\n"]),
}


@cases(READ_ANSWERS)
def test_an_answer_is_found_in_whatever_form_it_comes(case):
    with open_scripted(x_y=lambda asked: case(result(asked, {"ok": 1}))) as (_, client):
        assert client.request("x/y") == {"ok": 1}


@table("kind, words, answer", {
    "C27 a stream that ends": (
        ProtocolError, "the stream ended before the response to request 2", stream_answer(NOTICE)),
    "C29 an error in a 500": (MCPError, r"error -32603 \(HTTP 500\): oh no",
                              error_answer(-32603, "500 Broken", 2, "oh no")),
    "C12 an unfinished event": (ProtocolError, "9 bytes of an unfinished event were discarded",
                                stream_answer(b"data: {}\n")),
    "C28 a web page": (ProtocolError, "HTTP 200, text/html: <html><title>Sign in",
                       http_answer(b"<html><title>Sign in</title>", "200 OK", "text/html")),
    "C29 an error in a 400": (MCPError, r"error -32602 \(HTTP 400\): bad cursor",
                              error_answer(-32602, "400 Bad Request", 2, "bad cursor")),
    "C29 an error in a 400 without id": (MCPError, "bad cursor", error_answer(
        -32602, "400 Bad Request", None, "bad cursor")),
    "an error of another protocol": (ProtocolError, "HTTP 400, application/json", http_answer(
        {"error": "invalid_request"}, "400 Bad Request")),
    "C38 half an object": (ProtocolError, "at byte 34, near: ",
                           http_answer(b'{"jsonrpc":"2.0","id":1,"result":{')),
    "C34 the id as another type": (ProtocolError, "no MCP answer", http_answer(
        {"jsonrpc": "2.0", "id": "2", "result": {}})),
    "too much": (ProtocolError, "larger than 200,000 bytes", http_answer(b" " * 300_000)),
    "an unknown resultType": (ProtocolError, "unknown resultType: later", http_answer(
        {"jsonrpc": "2.0", "id": 2, "result": {"resultType": "later"}})),
    "C51 a question": (mcpkit.QuestionError, "asks something before it answers", http_answer(
        {"jsonrpc": "2.0", "id": 2, "result": {
            "resultType": "input_required", "inputRequests": {"q": {}}}})),
    **{f"an event id that no header can carry: {name!r}": (
        ProtocolError, "ended before the response", stream_answer(
            b"id: " + name.encode() + b"\ndata:\n\n")) for name in ("\xe9", "a\x0bb", " x", "\x1b[2J")},
})
def test_a_bad_answer_is_an_error_that_says_what_was_seen(kind, words, answer):
    with open_scripted(x_y=lambda asked: answer, max_bytes=200_000) as (peer, client):
        with pytest.raises(kind, match=words):
            client.request("x/y")
    assert "GET" not in peer.methods


@pytest.mark.parametrize("session", ["a\x01b", "\xe9", "s\x7f", "a\tb"])
def test_a_session_id_that_no_header_can_carry_is_the_servers_fault(session):
    with Peer(lambda asked: legacy_peer(asked, session=session)) as peer:
        with pytest.raises(ProtocolError,
                           match="no header can carry the session id that the server"):
            Client(peer.url, era="legacy", timeout=WAIT).connect()
        report = mcpkit.probe(peer.url)
    assert peer.methods[0] == "initialize" and report["verdict"] in ("fail", "partial")


def test_c27_a_connection_that_is_reset_inside_a_stream_is_an_error_that_names_the_request():
    got_first = threading.Event()

    def answer(asked):
        yield from stream_answer(NOTICE)
        got_first.wait(WAIT)
        yield RESET

    with open_scripted(x_y=answer, on_notification=lambda *_: got_first.set()) as (_, client):
        with pytest.raises(TransportError, match="reset the connection, before the response to "
                                                 "request 2"):
            client.request("x/y")


@table("parts, words", {
    "before the head": ([], "no answer for 0.2 s"),
    "C60 after the head": (stream_answer(), r"headers received \(HTTP 200\), then no data")})
def test_a_silent_server_ends_the_wait_with_what_was_seen(parts, words):
    def answer(asked):
        yield from parts
        OPEN_END.wait(WAIT)

    with open_scripted(x_y=answer, timeout=0.2) as (_, client):
        with pytest.raises(TransportError, match=words):
            client.request("x/y")


def test_c09_comments_keep_a_slow_stream_alive_but_max_time_ends_it():
    def answer(asked):
        yield from stream_answer()
        for _ in range(12):
            OPEN_END.wait(0.05)
            yield b": still here\n\n"
        yield event(result(asked, {"ok": 1}))

    with open_scripted(x_y=answer, timeout=0.4) as (_, client):
        assert client.request("x/y") == {"ok": 1}
    with open_scripted(x_y=answer, timeout=0.4, max_time=0.3) as (_, client):
        with pytest.raises(TransportError, match="time limit|without an answer"):
            client.request("x/y")


# =============================================================================================
# 17. CLIENT
# =============================================================================================
def modern_peer(asked, **answers):
    """Answer as a modern server does; `answers` by method with slashes as underscores."""
    method = asked.message.get("method", asked.method)
    if method == "server/discover":
        return http_answer(result(asked, {"supportedVersions": ["2026-07-28"],
                                          "capabilities": {"tools": {}}}))
    return answers[method.replace("/", "_")](asked)


def answer_with(value):
    """Return what answers each request of a scripted peer with a result."""
    return lambda asked: http_answer(result(asked, value))


@contextlib.contextmanager
def open_scripted(era="legacy", serve=None, timeout=WAIT, **options):
    """Yield a scripted peer of an era and a Client of it; `options` of both."""
    answers = {name: options.pop(name) for name in list(options) if callable(options[name])
               and not name.startswith("on_")}
    answer = legacy_peer if era == "legacy" else modern_peer
    with Peer(serve or (lambda asked: answer(asked, **answers))) as peer:
        with Client(peer.url, era=era, timeout=timeout, **options) as client:
            yield peer, client


# ---- everything, in each era and on each carrier

def inspect_source(function):
    import inspect
    return inspect.getsource(function)


CARRIERS = {"HTTP": {}, "HTTP with sessions": {"sessions": True},
            "HTTP with streams only": {"stream": "always"}, "stdio": None}


@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
@cases(CARRIERS)
def test_every_feature_works_in_every_era_on_every_carrier(era, case, tmp_path):
    told = []
    with contextlib.ExitStack() as stack:
        if case is not None:
            target = stack.enter_context(mcpkit.HTTPService(build_sample_server(**case), port=0)).url
        else:
            (tmp_path / "sample.py").write_text(
                "import sys, typing\nfrom mcpkit import *\n" + inspect_source(build_sample_server)
                + "\nserver = build_sample_server()\n")
            target = [*PROGRAM, "serve", str(tmp_path / "sample.py"), "--stdio"]
        client = stack.enter_context(Client(
            target, era=era, timeout=WAIT,
            on_notification=lambda method, params: told.append(method)))
        assert client.server_info == {"name": "sample", "version": "1.2.3"}
        assert client.list_tools()[0]["name"] == "add"
        assert client.call_tool("add", {"a": 1})["content"][0]["text"] == "2"
        assert client.call_tool("fail")["isError"] is True
        assert find_refusal(client.call_tool, "nope") == -32602
        client.request("tools/call", {"name": "report", "_meta": {"progressToken": "t"}})
        assert told.count("notifications/progress") == 2
        assert len(client.list_resources()) == 2 and len(client.list_resource_templates()) == 1
        assert client.read_resource("sample://text")["contents"][0]["text"] == "hello"
        item = client.read_resource("sample://item/{number}", {"number": 41})["contents"][0]
        assert (item["uri"], item["text"]) == ("sample://item/41", "item 42")
        assert client.get_prompt("greet", {"name": "Ada"})["messages"][0]["role"] == "user"
        assert client.list_prompts()[0]["arguments"][0]["required"] is True
        ref = {"type": "ref/prompt", "name": "greet"}
        assert client.complete(ref, "name", "G")["values"] == ["Grace"]
        client.ping()
    assert find_refusal(client.complete, ref, "name", "G") is None or client.era is None


TALKING_SERVER = '''
from mcpkit import Context, Server

server = Server("talking", sessions=True)

@server.tool
def ask(ctx: Context) -> str:
    ctx.log("debug", "not wanted")
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    parts = [ctx.elicit("Name?", form).content["name"], ctx.sample("Say it")["content"]["text"],
             ctx.roots()[0]["uri"]]
    ctx.log("info", "asked")
    ctx.progress(1, 2, "half")
    return ", ".join(parts)

@server.tool
def change() -> None:
    server.add_tool(lambda: None, name="new")
    server.remove_tool("new")
    server.resource_updated("talk:state")

@server.resource("talk:state")
def state():
    return "x"
'''


@contextlib.contextmanager
def run_server(*command):
    """Run a server whose first line names its URL; yield the URL, then end the child."""
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
    watchdog = threading.Timer(3 * WAIT, child.kill)
    watchdog.start()
    try:
        match = re.search(r"http://\S+", child.stdout.readline())
        watchdog.cancel()
        assert match, f"{command} did not start"
        yield match.group()
    finally:
        watchdog.cancel()
        child.terminate()
        try:
            child.wait(10.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10.0)
        child.stdout.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("carrier", ["HTTP", "stdio"])
def test_a_client_answers_listens_and_is_told_alike_everywhere(era, carrier, tmp_path):
    (tmp_path / "server.py").write_text(TALKING_SERVER)
    command = [*PROGRAM, "serve", str(tmp_path / "server.py")]
    logged, progress = [], []
    with contextlib.ExitStack() as stack:
        target = [*command, "--stdio"] if carrier == "stdio" else stack.enter_context(
            run_server(*command, "--port", "0"))
        client = stack.enter_context(Client(
            target, era=era, timeout=WAIT, on_elicit=lambda form: {"name": "Ada"},
            on_sample=lambda request: "hello", on_roots=lambda: ["file:///w"],
            on_log=lambda *entry: logged.append(entry)))
        changes = stack.enter_context(contextlib.closing(
            client.listen(tools=True, uris=["talk:state"])))
        told = set()

        def listen_for_both():
            while len(told) < 2:
                told.add(next(changes)[0])

        thread = threading.Thread(target=listen_for_both)
        thread.start()
        while thread.is_alive():                   # until the server knows that we listen
            assert client.list_tools()[0]["name"] == "ask"
            client.call_tool("change")
            thread.join(0.05)
        answer = client.call_tool("ask", on_progress=lambda *report: progress.append(report))
    assert answer["content"][0]["text"] == "Ada, hello, file:///w"
    assert told == {"notifications/tools/list_changed", "notifications/resources/updated"}
    assert logged == [("info", "asked", None)] and progress == [(1, 2, "half")]


# ---- lists and results

@table("pages, items, warning", {
    "an empty cursor is a cursor": ([([1], ""), ([2], None)], [1, 2], None),
    "C72 a cursor comes again": ([([1], "x"), ([2], "x")], [1, 2], "came a second time"),
    "no end": ([([number], str(number)) for number in range(9)], [0, 1, 2],
               "only the first 3 pages were read"),
    "an odd cursor": ([([1], 5)], [1], None)})
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_list_is_read_to_its_end_or_a_limit_with_a_warning(era, pages, items, warning,
                                                             monkeypatch):
    monkeypatch.setattr(mcpkit, "MAX_PAGES", 3)
    sent = iter(pages)

    def answer(asked):
        prompts, cursor = next(sent)
        return http_answer(result(asked, {"prompts": prompts, "nextCursor": cursor}))

    with open_scripted(era, prompts_list=answer) as (peer, client):
        assert client.list_prompts() == items
    assert [warning in text for text in client.warnings] == [True] * (warning is not None)
    sent_cursors = [asked.message["params"].get("cursor") for asked in peer.asked
                    if asked.message.get("method") == "prompts/list" and "params" in asked.message]
    assert sent_cursors[-1:] == [pages[len(items) - 2][1]] * (len(items) > 1) or era == "modern"


@table("value, warning", {
    "C77 an error without structured content": ({"content": [], "isError": True}, None),
    "C77 the wrong type": ({"content": [], "structuredContent": {"n": "x"}}, "/n"),
    "C77 none at all": ({"content": []}, "structuredContent is missing"),
    "a right one": ({"content": [], "structuredContent": {"n": 1}}, None)})
def test_c77_a_result_that_breaks_its_schema_is_returned_with_a_warning(value, warning):
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {
        "type": "object", "properties": {"n": {"type": "integer"}}}}
    with open_scripted("modern", tools_list=answer_with({"tools": [tool]}),
                       tools_call=answer_with(value)) as (_, client):
        client.list_tools()
        assert client.call_tool("t") == value
    assert [warning in text for text in client.warnings] == [True] * bool(warning)


@table("properties", {
    "C76 on a number": {"n": {"type": "number", "x-mcp-header": "N"}},
    "C76 two that differ in case only": {"a": {"type": "string", "x-mcp-header": "A"},
                                         "b": {"type": "string", "x-mcp-header": "a"}},
    "C76 inside items": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    "C76 a name with a space": {"a": {"type": "string", "x-mcp-header": "A B"}},
    "an empty name": {"a": {"type": "string", "x-mcp-header": ""}},
    "behind a choice": {"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}})
def test_a_tool_with_a_bad_header_rule_is_left_out_and_refused_at_registration(properties):
    schema = {"type": "object", "properties": properties}
    tools = [{"name": "bad", "inputSchema": schema},
             {"name": "good", "inputSchema": {"type": "object"}}]
    with open_scripted("modern", tools_list=answer_with({"tools": tools})) as (_, client):
        assert [tool["name"] for tool in client.list_tools()] == ["good"]
        assert client.warnings[0].startswith("tool bad is left out: x-mcp-header ")
    with pytest.raises(mcpkit.SchemaError, match="x-mcp-header"):
        Server("x").tool(name="bad", input_schema=schema)(lambda: None)


@table("arguments, mirrored", {
    "a text": ({"region": "eu", "deep": {}}, {"mcp-param-region": "eu"}),
    "C76 a boolean inside": ({"region": "\u4e16", "deep": {"flag": True}},
                             {"mcp-param-region": "=?base64?5LiW?=", "mcp-param-flag": "true"}),
    "C76 an integer": ({"count": 42}, {"mcp-param-count": "42"}), "nothing": ({}, {}),
    "C76 an integer beyond 53 bits": ({"count": 2 ** 53}, None)})
def test_c76_arguments_that_headers_repeat_are_sent_and_checked(arguments, mirrored):
    server, seen = Server("x"), []

    @server.tool(input_schema={"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "deep": {"type": "object", "properties": {
            "flag": {"type": "boolean", "x-mcp-header": "Flag"}}}}})
    def look(ctx: Context, **arguments):
        seen.append({name: value for name, value in ctx.headers.items()
                     if name.startswith("mcp-param-")})

    with mcpkit.HTTPService(server, port=0) as service, Client(service.url, timeout=WAIT) as client:
        client.list_tools()
        if mirrored is None:
            with pytest.raises(UsageError, match="53-bit"):
                client.call_tool("look", arguments)
            return
        assert "isError" not in client.call_tool("look", arguments)
        refused = ask_modern(service, "tools/call", {"name": "look", "arguments": arguments},
                             Mcp_Param_Region="elsewhere")
    assert seen == [mirrored]
    assert (refused.status, refused.json["error"]["code"]) == (400, -32020)


@contextlib.contextmanager
def untouched_port():
    """Yield a port, and assert at the end that nobody has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_c102_a_reference_to_the_network_is_never_followed_but_found():
    with untouched_port() as port:
        schema = {"type": "object", "properties": {
            "a": {"$ref": f"http://127.0.0.1:{port}/x.json"}}}
        tools = [{"name": "far", "inputSchema": schema, "outputSchema": schema}]
        with open_scripted(
                tools_list=answer_with({"tools": tools}),
                tools_call=answer_with({"content": [], "structuredContent": {"a": 1}})
                ) as (peer, client):
            assert client.list_tools() == tools
            assert client.call_tool("far", {"a": 1})["structuredContent"] == {"a": 1}
            checks = mcpkit.probe(peer.url, era="legacy", timeout=WAIT)["checks"]
            assert run("call", peer.url, "far", "a=1", "--era", "legacy").code == 0
        with pytest.raises(mcpkit.SchemaError, match="no other document is read"):
            Server("x").tool(name="far", input_schema=schema)(lambda a: a)
    faults = [check["message"] for check in checks if check["id"] == "legacy-tool"]
    assert len(faults) == 1 and "inputSchema that cannot be used" in faults[0]


@table("code, method, use", {
    "C96 no ping": (-32601, "ping", Client.ping),
    "C98 not there": (-32602, "resources/read", lambda client: client.read_resource("a://b")),
    "C98 not there, of old": (-32002, "resources/read", lambda client: client.read_resource("a://b"))})
def test_an_error_of_the_server_is_the_callers_but_for_a_ping(code, method, use):
    def refuse(asked):
        return error_answer(code, request_id=asked.message["id"], message="not there")

    with open_scripted(**{method.replace("/", "_"): refuse}) as (peer, client):
        assert find_refusal(use, client) == (None if method == "ping" else code)
        if method != "ping":
            assert run("read", peer.url, "a://b", "--era", "legacy").code == 1


# ---- notifications, questions, and who is called back

@table("status, body", {"204": ("204 No Content", b""), "200": ("200 OK", b""),
                        "an object": ("200 OK", b"{}"), "202": ("202 Accepted", b"Accepted")})
def test_c32_a_notification_may_be_answered_in_other_ways_than_202(status, body):
    def answer(asked):
        if asked.message.get("method", "").startswith("notifications/"):
            return http_answer(body, status)
        return legacy_peer(asked)

    with open_scripted(serve=answer) as (peer, client):
        assert client.list_tools() == []
        noted = [check for check in mcpkit.probe(peer.url, era="legacy")["checks"]
                 if check["id"].endswith("notification-status")]
    assert [f"HTTP {status[:3]}" in check["message"] and "should be 202" in check["hint"]
            for check in noted] == [True] * (status[:3] != "202")


SERVER_PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


@pytest.mark.parametrize("refusal", [None, b"", http_answer(b"{"), http_answer(b"", "500 Broken")])
def test_a_legacy_server_that_pings_is_answered_and_its_refusal_costs_nothing(refusal):
    replies = queue.Queue()

    def serve(asked):
        if asked.message and "method" not in asked.message:
            replies.put(asked.message)
            return http_answer(b"", "202 Accepted") if refusal is None else refusal
        return legacy_peer(asked, x_y=lambda asked: stream_answer(
            event(SERVER_PING), event(result(asked, {"ok": 1}))))

    with open_scripted(serve=serve) as (_, client):
        assert client.request("x/y") == {"ok": 1}
    assert replies.get(timeout=WAIT) == {"jsonrpc": "2.0", "id": "p", "result": {}}


def test_a_request_of_a_modern_server_is_ignored_since_it_may_send_none():
    with open_scripted("modern", x_y=lambda asked: stream_answer(
            event(SERVER_PING), event(result(asked, {"ok": 1})))) as (peer, client):
        assert client.request("x/y") == {"ok": 1}
    assert peer.methods == ["server/discover", "x/y"]


def test_a_legacy_server_may_ask_on_the_stream_that_belongs_to_no_call():
    called, replies = threading.Event(), queue.Queue()

    def ask_later(asked):
        yield from stream_answer()
        if called.wait(WAIT):
            yield event({"jsonrpc": "2.0", "id": 7, **FORM})
        OPEN_END.wait(WAIT)

    def serve(asked):
        if asked.message and "method" not in asked.message:
            replies.put(asked.message)
            return http_answer(b"", "202 Accepted")
        if asked.message.get("method") == "x/y":
            called.set()
        return legacy_peer(asked, GET=ask_later, x_y=lambda asked: http_answer(
            result(asked, {"got": replies.get(timeout=WAIT)["result"]})))

    with open_scripted(serve=serve, on_elicit=lambda params: {}) as (peer, client):
        assert client.request("x/y")["got"] == {"action": "accept", "content": {"d": 5}}
    assert peer.methods[:3] == ["initialize", "notifications/initialized", "GET"]


def test_a_server_without_such_a_stream_is_used_all_the_same():
    with open_scripted(on_roots=list) as (peer, client):
        assert client.list_tools() == []
    assert peer.methods == ["initialize", "notifications/initialized", "GET", "tools/list"]


def test_a_server_that_asks_for_ever_is_left_after_some_rounds(monkeypatch):
    monkeypatch.setattr(mcpkit, "MAX_ROUNDS", 3)
    with open_scripted("modern", on_roots=list, tools_call=answer_with({
            "resultType": "input_required", "inputRequests": {"q": FOLDERS}})) as (peer, client):
        with pytest.raises(ProtocolError, match="asked 3 times, and gave no result"):
            client.call_tool("t")
    assert peer.methods.count("tools/call") == 3


PROGRESS_SERVER = """
import json, sys, threading
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    elif message["method"] == "work":
        for number in range(8):
            threading.Event().wait(0.1)
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": message["params"]["_meta"]["progressToken"],
                "progress": number}}), flush=True)
        answer["result"] = {"ok": 1}
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize("carrier", ["HTTP", "stdio"])
def test_what_a_callback_raises_is_logged_and_ends_nothing_on_any_carrier(carrier, capfd):
    def report(asked):
        token = asked.message["params"]["_meta"]["progressToken"]
        notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": token, "progress": 1}}
        return stream_answer(event(notice), event(result(asked, {"ok": 1})))

    with Peer(lambda asked: legacy_peer(asked, work=report)) as peer:
        target = peer.url if carrier == "HTTP" else [sys.executable, "-c", PROGRESS_SERVER]
        with Client(target, era="legacy", timeout=WAIT,
                    on_notification=lambda *_: raise_it(KeyError("of on_notification"))) as client:
            assert client.request("work", {}, on_progress=lambda *_: raise_it(
                KeyError("of on_progress"))) == {"ok": 1}
    logged = capfd.readouterr().err
    assert "of on_progress" in logged and "of on_notification" in logged


# ---- streams: what breaks off, what is listened to

def test_c56_a_legacy_stream_that_breaks_off_is_gone_on_with_after_its_retry():
    def resume(asked):
        return stream_answer(b"id: e2\n" + event({"jsonrpc": "2.0", "id": 2, "result": {"ok": 1}}))

    with Peer(lambda asked: legacy_peer(asked, session="s", GET=resume, x_y=lambda asked: (
            stream_answer(b"id: e1\nretry: 50\ndata:\n\n")))) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            started = time.monotonic()
            assert client.request("x/y") == {"ok": 1}
            assert time.monotonic() - started >= 0.05       # the one time that is a rule
    get = next(asked for asked in peer.asked if asked.method == "GET")
    assert get.headers["last-event-id"] == "e1" and get.headers["mcp-session-id"] == "s"
    assert get.headers["accept"] == "text/event-stream"


@table("answer, times, words", {
    "C55 refused": (lambda asked: http_answer(b"", "405 Method Not Allowed"), 1, "HTTP 405"),
    "C55 not there": (lambda asked: http_answer(b"", "404 Not Found"), 1, "HTTP 404"),
    "C55 no stream": (lambda asked: http_answer(b"hello", "200 OK", "text/plain"), 1,
                      "text/plain: hello"),
    "C55 an end at once, every time": (lambda asked: stream_answer(), 5, "ended before"),
    "an answer cut off, every time": (lambda asked: stream_answer()[:1], 5, "ended before"),
    "C56 a modern stream": (None, 0, "ended before the response to request 2")})
def test_c55_a_stream_is_asked_for_again_so_many_times_only(answer, times, words, monkeypatch):
    monkeypatch.setattr(mcpkit, "RESUME_LEAST_SECONDS", 0.001)
    with open_scripted("legacy" if answer else "modern", GET=answer or len, x_y=lambda asked: (
            stream_answer(b"id: e1\nretry: 0\ndata:\n\n"))) as (peer, client):
        with pytest.raises(MCPKitError, match=re.escape(words)):
            client.request("x/y")
    assert peer.methods.count("GET") == times


def test_a_call_that_gets_no_answer_in_time_is_cancelled():
    with open_scripted(x_y=lambda asked: stay_open(), timeout=0.2) as (peer, client):
        with pytest.raises(TransportError, match="headers received") as error:
            client.request("x/y")
    assert error.value.timed_out
    notice = peer.asked[-1].message
    assert (notice["method"], notice["params"]["requestId"]) == ("notifications/cancelled", 2)


def test_c59_progress_resets_the_limit_of_silence_on_stdio_but_not_the_one_in_all():
    heard, command = [], [sys.executable, "-c", PROGRESS_SERVER]
    with Client(command, era="legacy", timeout=0.5) as client:
        assert client.request("work", {}, on_progress=lambda *report: heard.append(
            report[0])) == {"ok": 1}
        assert heard == list(range(8))
    with Client(command, era="legacy", timeout=0.5, max_time=0.6) as client:
        with pytest.raises(TransportError):
            client.request("work", {}, on_progress=lambda *report: None)


def updated(uri):
    return event({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                  "params": {"uri": uri}})


def test_a_legacy_listener_opens_its_stream_then_subscribes_and_leaves_as_it_came():
    subscribed = threading.Event()

    def notify(asked):
        yield from stream_answer()
        if subscribed.wait(WAIT):                  # odd notices are none that are waited for
            yield from map(updated, ([], {}, None, 5, "b:", "a:"))
        OPEN_END.wait(WAIT)

    def subscribe(asked):
        subscribed.set()
        return http_answer(result(asked, {}))

    with open_scripted(GET=notify, resources_subscribe=subscribe,
                       resources_unsubscribe=answer_with({})) as (peer, client):
        with contextlib.closing(client.listen(uris=["a:"])) as changes:
            assert next(changes) == ("notifications/resources/updated", {"uri": "a:"})
        assert client.list_tools() == []
    assert peer.methods == ["initialize", "notifications/initialized", "GET", "resources/subscribe",
                            "resources/unsubscribe", "tools/list"]


def test_a_legacy_server_without_a_stream_cannot_be_listened_to():
    with open_scripted() as (_, client), pytest.raises(ProtocolError, match="HTTP 404"):
        next(client.listen(tools=True))


def test_what_a_server_will_not_tell_is_a_warning():
    def answer(asked):
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}}
        acknowledged = {"jsonrpc": "2.0", "params": {"notifications": {}, **meta},
                        "method": "notifications/subscriptions/acknowledged"}
        return stream_answer(event(acknowledged), event(result(asked, meta)))

    with open_scripted("modern", subscriptions_listen=answer) as (_, client):
        assert list(client.listen(tools=True, uris=["a:"])) == []
        assert client.warnings == ["the server will not tell of toolsListChanged",
                                   "the server will not tell of resourceSubscriptions"]


def test_a_change_that_is_listened_to_drops_what_was_cached():
    server, reads = Server("cached", ttl_ms=60_000), []

    @server.resource("cached:now")
    def now():
        reads.append(1)
        return str(len(reads))

    with mcpkit.HTTPService(server, port=0) as service, Client(service.url, timeout=WAIT) as client:
        def read():
            return client.read_resource("cached:now")["contents"][0]["text"]

        assert [read(), read()] == ["1", "1"]
        with contextlib.closing(client.listen(uris=["cached:now"])) as changes:
            thread = threading.Thread(target=next, args=(changes,))
            thread.start()
            while thread.is_alive():               # until the server knows that we listen
                server.resource_updated("cached:now")
                thread.join(0.02)
        assert read() == "2"


# ---- what is not there, and what ends

@pytest.mark.parametrize("target", [
    "ftp://x/", "http:///x", "nonsense", "", "http://127.0.0.1:99999/", "http://127.0.0.1:abc/",
    "http://127.0.0.1:-1/", "http://[::1/", "http://127.0.0.1:0/", "http://a..b/",
    f"http://{'a' * 64}.example/", "http://u:p@127.0.0.1/", "http://a b/", "http://a\0b/",
    "http://127.0.0.1/\x1b[2J"])
def test_a_url_that_leads_nowhere_is_refused_as_one(target):
    with pytest.raises(UsageError, match="not an http or https URL"):
        Client(target).connect()


def test_nobody_there_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TransportError, match=f"nothing listens at 127.0.0.1:{port}"):
        Client(f"http://127.0.0.1:{port}/mcp", timeout=WAIT).connect()


def test_c65_the_proxy_of_the_environment_is_used_but_never_for_loopback(pong, monkeypatch):
    with Peer(legacy_peer) as proxy:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with Client(pong.url, timeout=WAIT) as client:
            assert client.era == "modern" and proxy.asked == []
        monkeypatch.setenv("no_proxy", "")
        with Client("http://mcp.invalid/mcp", era="legacy", timeout=WAIT) as client:
            assert client.server_info["name"] == "old"
    assert proxy.asked[0].path == "http://mcp.invalid/mcp"


@table("method, params, error", {
    "_meta that is none": ("tools/list", {"_meta": 5}, MCPError),
    "a name that is none": ("tools/call", {"name": []}, MCPError),
    "a set": ("tools/call", {"name": "add", "arguments": {"a": {1}}}, UsageError),
    "NaN": ("tools/call", {"name": "add", "arguments": {"a": float("nan")}}, UsageError)})
def test_what_is_no_json_is_the_callers_mistake_and_the_server_judges_the_rest(
        sample, method, params, error):
    with Client(sample.url, timeout=WAIT) as client:
        found = find_error(client.request, method, params)
    assert isinstance(found, error) or isinstance(found, dict) and error is MCPError


def test_connections_are_kept_and_used_from_many_threads(sample):
    accepted, process = [], sample.process_request
    sample.process_request = lambda *args: (accepted.append(1), process(*args))
    with Client(sample.url, timeout=WAIT) as client:
        def add_to(number):
            return client.call_tool("add", {"a": number})["structuredContent"]

        results = list(map(add_to, range(20)))
        assert len(accepted) == 1
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            assert list(pool.map(add_to, range(20))) == results
    assert results == [number + 1 for number in range(20)]


def drip(data, pause):
    tick = threading.Event()
    for number in range(len(data)):
        yield data[number:number + 1]
        tick.wait(pause)


@table("start", {
    "the status line": b"HTTP/1.1 200 OK", "a header": b"HTTP/1.1 200 OK\r\nX: ",
    "a chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"})
def test_an_answer_that_drips_keeps_to_the_time_limit(start):
    def answer(asked):
        yield start
        yield from drip(b"x" * 1000, 0.05)

    with Peer(answer) as peer:
        with pytest.raises(TransportError):
            Client(peer.url, timeout=WAIT, until=time.monotonic() + 0.5).connect()
        report = mcpkit.probe(peer.url, timeout=0.5)
    assert report["verdict"] == "unreachable" and report["requests"] == 1


SILENT_CHILD = "import sys; sys.stdin.read()"


@table("target, wait", {
    "connect() to a stdio server": ([sys.executable, "-c", SILENT_CHILD], lambda client: None),
    "connect() over HTTP": (lambda asked: stay_open(), lambda client: None),
    "connect() that gets no head": (lambda asked: iter(lambda: b"" * OPEN_END.wait(WAIT), b""),
                                    lambda client: None),
    "request() over HTTP": (lambda asked: legacy_peer(asked, x_y=lambda asked: stay_open()),
                            lambda client: client.request("x/y"))})
def test_close_from_another_thread_ends_what_waits(target, wait):
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(target)) if callable(target) else None
        asked = (lambda: peer.methods[-1:] in (["initialize"], ["x/y"])) if peer else (lambda: True)
        client = Client(peer.url if peer else target, era="legacy", timeout=WAIT)
        errors = queue.Queue()

        def use():
            errors.put(find_error(lambda: (client.connect(), wait(client))))

        thread = threading.Thread(target=use)
        thread.start()
        while thread.is_alive():
            if asked():
                client.close()
            thread.join(0.05)
        error = errors.get(timeout=WAIT)
    assert type(error) is TransportError and "closed" in str(error) and not error.timed_out


# ---- child processes

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
    with Client([sys.executable, "-c", case + OLD_SERVER], timeout=WAIT,
                discover_timeout=0.5) as client:
        assert (client.era, client.protocol_version) == ("legacy", "2024-11-05")
        assert client.request("ping") == {} and client.child_exit is None
    assert (client.child_exit.signal, client.child_exit.left_something) == ("", False)


@table("words, code", {
    "C113 ends after a flood of errors": (
        "code 3; its last words: x+its last words$",
        "import sys; sys.stderr.write('x' * 262144 + 'its last words'); sys.exit(3)"),
    "ends at once": ("has exited with code 1; its last words: no licence",
                     "import sys; sys.exit('no licence')"),
    "an error without an id": (
        "error -32700: what\\?", "import sys; sys.stdin.readline(); print("
        '\'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}\', flush=True); '
        "sys.stdin.read()")})
def test_a_child_that_cannot_serve_is_an_error_that_says_why(words, code):
    with pytest.raises(MCPKitError, match=words):
        Client([sys.executable, "-c", code], timeout=WAIT, max_bytes=1000, era="legacy").connect()


def test_a_line_of_a_child_has_a_limit():
    code = "import sys; sys.stdin.readline(); print('x' * 2000, flush=True); sys.stdin.read()"
    with pytest.raises(TransportError, match="sent a line of more than 1,000 bytes"):
        Client([sys.executable, "-c", code], timeout=WAIT, max_bytes=1000).connect()


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(TransportError, match="command not found: no-such-command-anywhere"):
        Client(["no-such-command-anywhere"], timeout=WAIT).connect()


def test_c110_a_child_is_told_to_speak_utf8():
    script = OLD_SERVER.replace('"name": "c"', '"name": __import__("os").environ["PYTHONUTF8"]')
    with Client([sys.executable, "-c", script], era="legacy", timeout=WAIT) as client:
        assert client.server_info["name"] == "1"


@pytest.mark.parametrize("era", ["auto", "modern"])
def test_a_modern_child_that_starts_slowly_is_understood_as_modern(era):
    code = """
import json, sys, time
time.sleep(0.5)
for line in sys.stdin:
    message = json.loads(line)
    reply = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize":
        reply["error"] = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
    else:
        reply["result"] = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
    print(json.dumps(reply), flush=True)
"""
    with Client([sys.executable, "-c", code], era=era, timeout=WAIT,
                discover_timeout=0.1) as client:
        assert client.era == "modern"


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    except OSError:
        return False


STUBBORN = ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal("
            "signal.SIGHUP, signal.SIG_IGN)\n")
LEAVE_A_CHILD = ("import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import "
                 "time; time.sleep(300)']{more})\nopen({pid!r}, 'w').write(str(child.pid))\n")


@pytest.mark.skipif(os.name != "posix", reason="process groups")
@pytest.mark.parametrize("way", ["shell", "stubborn", "elsewhere"])
def test_c115_nothing_of_a_child_survives_it_but_what_left_its_group(way, tmp_path, monkeypatch):
    monkeypatch.setattr(mcpkit, "CHILD_END_SECONDS", 0.5)
    pid, script = tmp_path / "pid", tmp_path / "server.py"
    more = ", start_new_session=True" if way == "elsewhere" else ""
    script.write_text({
        "shell": "", "stubborn": STUBBORN}.get(way, "") + (
            "" if way == "shell" else LEAVE_A_CHILD.format(more=more, pid=str(pid))) + OLD_SERVER)
    command = [sys.executable, str(script)] if way != "shell" else [
        "sh", "-c", f"sleep 300 & echo $! > {pid}; {sys.executable} {script}"]
    with Client(command, era="legacy", timeout=WAIT):
        left = int(pid.read_text())
    if way == "elsewhere":                         # it holds a pipe, and holds up nobody
        os.kill(left, 9)
    assert wait_until(lambda: not is_running(left))


def test_a_child_that_stops_reading_ends_the_wait_and_is_ended(monkeypatch):
    monkeypatch.setattr(mcpkit, "CHILD_END_SECONDS", 0.5)
    deaf = OLD_SERVER.replace("continue", "__import__('time').sleep(300)")
    with Client([sys.executable, "-c", deaf], era="legacy", timeout=0.3) as client:
        with pytest.raises(TransportError, match="no answer for 0.3 s"):
            client.request("x/y", {"large": "x" * 1_000_000})
    assert client.child_exit.signal == "TERM"


# =============================================================================================
# 18. PROBE
# =============================================================================================
def find_check(report, name):
    """Return the first check of a report whose id ends in a name."""
    return next(check for check in report["checks"] if check["id"].endswith(name))


def test_a_healthy_server_passes_in_both_eras_with_five_requests(sample):
    report = mcpkit.probe(sample.url)
    assert (report["verdict"], report["requests"]) == ("pass", 5)
    assert list(report) == ["target", "endpoint", "verdict", "eras", "checks", "requests",
                            "elapsedMs", "headline", "layers", "trail"]
    assert report["trail"] == []
    assert report["headline"] == {"layer": None, "hint": "", "message":
                                  "sample 1.2.3 speaks 2025-11-25 and 2026-07-28"}
    assert [layer["name"] for layer in report["layers"]] == [
        "target", "name", "proxy", "tcp", "tls", "http", "content", "era", "handshake", "session",
        "authorization", "tools"]
    assert {layer["status"] for layer in report["layers"]} == {"ok"}
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


def test_what_a_server_asks_while_it_is_probed_is_answered_and_no_finding():
    def answer(asked):
        return stream_answer(event({**CALL, "id": "p", "method": "ping"}),
                             event(result(asked, {"tools": []})))

    with Peer(lambda asked: legacy_peer(asked, tools_list=answer)) as peer:
        report = mcpkit.probe(peer.url, era="legacy")
    assert peer.asked[-1].message == {**RESULT, "id": "p"} and report["verdict"] == "partial"


def test_a_session_is_seen_and_ended(notes):
    report = mcpkit.probe(notes.url)
    assert report["eras"]["legacy"]["session"] is True and report["verdict"] == "pass"
    assert len(notes.mcp.sessions) == 0


def test_a_server_of_one_era_passes_and_the_other_is_a_note():
    def answer(asked):
        return legacy_peer(asked, tools_list=lambda asked: http_answer(result(asked, {
            "tools": [{"name": "t", "inputSchema": {"type": "object"}}]})))

    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url)
    assert report["verdict"] == "pass" and report["eras"]["modern"]["verdict"] == "fail"
    assert all(check["status"] in ("ok", "note") for check in report["checks"])


CHALLENGE = 'WWW-Authenticate: Bearer resource_metadata="http://127.0.0.1:1/prm"'
def refusal(status, body=b"", *headers):
    return http_answer(body, status, "text/plain", *headers)


FAILING = {     # what is answered to all: the verdict, the layer, words of the headline and its hint
    "405 to everything": (refusal("405 Method Not Allowed", b"", "Allow: GET"), "fail", "http",
                          "takes no POST, so it is no MCP endpoint (Allow: GET)", "/mcp"),
    "404 to everything": (refusal("404 Not Found"), "fail", "http", "nothing at this path", "/mcp"),
    "a version refused": (error_answer(-32600, "400 Bad Request", None, "Unsupported "
                                       "MCP-Protocol-Version"), "fail", "handshake", "Unsupported",
                          "revisions"),
    "an error in a 200": (error_answer(-32601), "fail", "handshake", "inside a 200", "its log"),
    "401 with resource_metadata": (refusal("401 Unauthorized", b"", CHALLENGE), "partial",
                                   "authorization", "the server is there and wants", "Bearer"),
    "401 with a challenge and a JSON-RPC error": (http_answer(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no token"}},
        "401 Unauthorized", "application/json", CHALLENGE),
        "partial", "authorization", "the server is there and wants a token", "Bearer"),
    "401 with another challenge": (
        refusal("401 Unauthorized", b"", "WWW-Authenticate: Negotiate"), "partial", "authorization",
        "but names no resource_metadata (www-authenticate: Negotiate)", "--header"),
    "401 with nothing": (http_answer(b"<p>no", "401 Unauthorized", "text/html"), "fail",
                         "authorization", "does not say how to be let in", "ask whoever runs it"),
    "C28 a login page": (http_answer(b"<html><title>Sign in\x1b[2J</title>", "200 OK", "text/html"),
                         "fail", "content", r"titled 'Sign in\x1b[2J', not MCP",
                         "a login page, a captive portal, or the wrong path"),
    "C125 200 to everything": (http_answer(b"ok", "200 OK", "text/plain"), "fail", "content",
                               "text/plain, but no JSON-RPC answer: ok", "an MCP endpoint?"),
    "a captive portal": (http_answer(b"", "511 Network Authentication Required", "text/html"),
                         "fail", "http", "the network wants you to log in first", "browser"),
    "a captive portal's redirect": (
        refusal("302 Found", b"", "Location: https://portal.example/login?to=x"), "fail", "http",
        "a login page stands in front of the server (Location: https://portal", "single sign-on"),
    "a redirect": (refusal("301 Moved", b"", "Location: https://x/mcp"), "fail", "http",
                   "the endpoint has moved (location: https://x/mcp)", "Location"),
    "502": (refusal("502 Bad Gateway", b"", "Server: nginx"), "fail", "http",
            "nginx is there, but cannot reach the server behind it", "start the server"),
    "C125 an SSH port": (b"SSH-2.0-OpenSSH_9.2\r\n", "unreachable", "http", "an SSH server",
                         "another program"),
    "a TLS alert": (b"\x15\x03\x03\x00\x02\x02\x46", "unreachable", "tls",
                    "speaks TLS, not plain HTTP", "https://"),
    "a closed connection": (b"", "unreachable", "http", "closed the connection without an answer",
                            "log"),
    "C125 a stream without end": (stay_open(b": x\n\n"), "unreachable", "content", "headers received "
                                  "(HTTP 200), then 5 bytes without an answer", "--timeout"),
    "C125 an endless stream": ([*stream_answer(), *[b"data: " + b"x" * 65536 + b"\n"] * 40], "fail",
                               "content", "larger than 1,000,000 bytes", "--max-bytes"),
    "C125 an answer without end": ([http_answer(b"x")[:-1].replace(
        b"Length: 1", b"Length: 99999999"), *[b"x" * 65536] * 40],
        "fail", "content", "larger than 1,000,000 bytes", "--max-bytes"),
    "an answer one byte over the limit": (http_answer(b"x" * 1_000_001), "fail", "content",
                                          "larger than 1,000,000 bytes", "--max-bytes"),
    "C125 a gzip bomb": (http_answer(gzip.compress(b" " * 20_000_000, 1), "200 OK",
                                     "application/json", "Content-Encoding: gzip"),
                         "fail", "content", "", ""),
    "a session lost": (refusal("404 No", b"Session not found"), "fail", "session",
                       "does not know the session", "same one"),
    "a session missing": (refusal("400 No", b"Bad Request: Missing session ID"), "fail", "session",
                          "wants a session", "always"),
    "TLS at nginx": (refusal("400 No", b"The plain HTTP request was sent to HTTPS port"), "fail",
                     "tls", "TLS", "https://"),
    "Cloudflare's doubts": (
        refusal("403 No", b"<title>Just a moment...</title>", "cf-mitigated: challenge"), "fail",
        "http", "Cloudflare wants proof of a person (Just a moment...)", "bot rules"),
    "a scope": (refusal("403 No", b"", 'WWW-Authenticate: Bearer error="insufficient_scope"'), "fail",
                "http", "lacks a scope", "log in again"),
    "an Origin": (refusal("403 No", b"Invalid Origin header"), "fail", "http", "the Origin",
                  "allow it"),
    "a Host": (refusal("421 No", b"Invalid Host header"), "fail", "http",
               "does not answer to this host name", "allow"),
    "Express": (refusal("404 No", b"<pre>Cannot POST /x</pre>"), "fail", "http", "no route", "/mcp"),
    "patience": (refusal("429 No", b"", "Retry-After: 30"), "fail", "http",
                 "too many requests (retry-after: 30)", "after 30 (its Retry-After"),
    "JSON of their own": (refusal("418 No", b'{"error": {"message": "tea only"}}'), "fail", "http",
                          "no success (tea only)", "words"),
    "an unknown 5xx": (refusal("599 No"), "fail", "http", "the server failed", "log"),
    "413": (refusal("413 No"), "fail", "http", "size", "nginx"),
    "406": (refusal("406 No"), "fail", "http", "Accept", "proxy"),
}


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
        "tool 2 (null) has no name", 'tool 3 (null) is not an object: no']


def test_c123_headers_go_with_every_request_of_the_probe():
    with Peer(lambda asked: legacy_peer(asked, session="s")) as peer:
        mcpkit.probe(peer.url, headers={"X-Api-Key": "a:b"})
    assert len(peer.asked) >= 5
    assert all(asked.headers["x-api-key"] == "a:b" for asked in peer.asked)


def test_c112_the_probe_names_each_line_that_is_no_mcp_on_standard_output():
    junk = CHILDREN["C112 junk on its output"].replace("npm warn", "npm \\x1b[31mwarn")
    script = junk + OLD_SERVER.replace('"ping"', '"tools/list"').replace("{}", '{"tools": []}')
    report = mcpkit.probe([sys.executable, "-c", script], era="legacy", timeout=WAIT)
    assert [check["message"] for check in report["checks"] if check["id"] == "legacy-stdout"] == [
        "not MCP on stdout, line 1: Server v1 started",
        "not MCP on stdout, line 2: npm \\x1b[31mwarn",
        'not MCP on stdout, line 3: {"status":200}',
        'not MCP on stdout, line 4: log: {"jsonrpc":"2.0","id":1,"result":{}}']


def test_a_stdio_server_is_probed_too():
    report = mcpkit.probe([*PROGRAM, "serve", "--stdio"])
    assert report["verdict"] == "pass" and report["endpoint"] is None
    assert mcpkit.probe(["no-such-command-anywhere"])["verdict"] == "unreachable"


@cases(FAILING)
def test_a_server_that_does_not_work_gets_a_headline_that_names_what_was_seen(case):
    answer, verdict, layer, words, hint = case
    with Peer(lambda asked: answer) as peer:
        report = mcpkit.probe(peer.url, timeout=1.5, max_bytes=1_000_000)
    headline, last = report["headline"], report["layers"][-1]
    assert (report["verdict"], headline["layer"]) == (verdict, layer)
    assert words.lower() in headline["message"].lower()
    assert headline["hint"] and hint in headline["hint"]
    assert (last["name"], last["message"]) == (layer, headline["message"])
    assert [seen["status"] for seen in report["layers"][:-1]] == ["ok"] * (
        len(report["layers"]) - 1)
    assert headline["message"] in [check["message"] for check in report["checks"]]
    assert "\x1b" not in json.dumps(report, ensure_ascii=False)


@contextlib.contextmanager
def tarpit():
    """Yield the URL of a listener that accepts every connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


@pytest.mark.parametrize("scheme, layer", [("http", "http"), ("https", "tls")])
def test_c125_a_tarpit_is_left_in_time_and_named(scheme, layer):
    with tarpit() as url:
        report = mcpkit.probe(url.replace("http", scheme, 1), timeout=0.6)
    assert (report["verdict"], report["headline"]["layer"]) == ("unreachable", layer)
    assert "no answer" in report["headline"]["message"] and report["elapsedMs"] < WAIT * 1000


def test_nothing_is_asked_of_a_port_at_which_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    report = mcpkit.probe(f"http://127.0.0.1:{port}/mcp")
    assert (report["verdict"], report["requests"]) == ("unreachable", 0)
    assert report["headline"]["message"] == (
        f"nothing listens at 127.0.0.1:{port} (refused)")
    assert report["eras"]["legacy"]["verdict"] == "unreachable"
    assert find_check(report, "tcp")["message"] == report["headline"]["message"]


def test_c69_each_address_of_a_host_is_tried_and_those_that_refuse_are_named(monkeypatch):
    with Peer(legacy_peer) as peer:
        entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, peer.port))
                   for host in ("127.0.0.9", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **options: entries)
        layers = mcpkit.probe(peer.url.replace("127.0.0.1", "two.test"), era="legacy")["layers"]
    (tcp,) = [layer for layer in layers if layer["name"] == "tcp"]
    assert (tcp["status"], tcp["message"]) == ("note", "127.0.0.9 refused, 127.0.0.1 ok")
    assert "one that works in the URL" in tcp["hint"]


def test_a_name_that_is_none_is_the_headline(monkeypatch):
    def fail(host, port, flags=0, **_):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    report = mcpkit.probe("http://nowhere.test/mcp")
    assert (report["verdict"], report["headline"]["layer"]) == ("unreachable", "name")
    assert report["headline"]["message"] == "the name nowhere.test cannot be resolved"


PROXIES = {                         # environment, host: the layer, what it says
    "C65 loopback": ({"http_proxy": "http://127.0.0.1:1"}, "127.0.0.1", "ok",
                     "proxy bypassed: loopback"),
    "C65 an exception": ({"http_proxy": "http://127.0.0.1:1", "no_proxy": "two.test"}, "two.test",
                         "ok", "proxy bypassed: NO_PROXY"),
    "a proxy": ({"http_proxy": "http://127.0.0.1:1"}, "two.test", "fail",
                "connect: nothing listens at 127.0.0.1:1 (refused)"),
    "none": ({}, "two.test", "ok", "none is set"),
}


@cases(PROXIES)
def test_the_decision_on_a_proxy_is_told(case, monkeypatch):
    environment, host, status, message = case
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **options: [entry])
    layers = mcpkit.probe(f"http://{host}:1/mcp", era="legacy", timeout=WAIT)["layers"]
    (proxy,) = [layer for layer in layers if layer["name"] == "proxy"]
    assert (proxy["status"], proxy["message"]) == (status, message)
    assert layers[-1]["name"] in ("tcp", "proxy") and layers[-1]["status"] == "fail"


CERTIFICATES = {       # certificate, authority that is trusted: the status of the layer, its words
    "C68 self-signed": ("alone", None, "fail", "is self-signed by CN=alone"),
    "C68 an unknown authority": ("good", None, "fail",
                                 "issued by CN=Test CA, O=Tests, which is not in"),
    "C68 expired": ("expired", "ca", "fail", "has expired on 2020-02-01"),
    "C68 another name": ("other", "ca", "fail",
                         "is for other.example, more.example, not for 127.0.0.1"),
    "one that is trusted": ("good", "ca", "ok", ", for 127.0.0.1, localhost, issued by CN=Test CA, "
                            "O=Tests, until 20"),
    "one that is not checked": ("alone", "any", "note", "; not checked"),
}


@cases(CERTIFICATES)
def test_the_certificate_is_described_and_the_headline_if_it_is_not_trusted(
        certificates, case, monkeypatch):
    name, trusted, status, message = case
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if trusted == "ca":
        monkeypatch.setenv("SSL_CERT_FILE", certificates.path("ca.pem"))
    with Peer(legacy_peer, tls=certificates.server(name)) as peer:
        report = mcpkit.probe(peer.url, era="legacy", timeout=WAIT,
                              network=mcpkit.Network(insecure=trusted == "any"))
    (tls,) = [layer for layer in report["layers"] if layer["name"] == "tls"]
    assert tls["status"] == status and message in tls["message"]
    is_refused = status == "fail"
    assert report["verdict"] == ("unreachable" if is_refused else "partial")
    assert report["headline"]["layer"] == ("tls" if is_refused else "tools")
    assert report["headline"]["hint"] and len(peer.asked) == (0 if is_refused else 3)


def test_c68_tls_and_its_absence_are_told_apart(certificates, pong):
    with Peer(legacy_peer, tls=certificates.server()) as peer:
        secure = mcpkit.probe(peer.url.replace("https", "http"), timeout=WAIT)["headline"]
    plain = mcpkit.probe(pong.url.replace("http", "https"), timeout=WAIT)["headline"]
    assert (secure["layer"], plain["layer"]) == ("tls", "tls")
    assert "speaks TLS, not plain HTTP" in secure["message"] and "https://" in secure["hint"]
    assert "it is a server of plain HTTP (HTTP/1.1 404 Not Found)" in plain["message"]
    assert "http://" in plain["hint"]


def test_c125_an_ssh_port_is_named_also_when_tls_is_expected():
    heard = []

    def greet(listener):
        with contextlib.suppress(OSError):
            while True:
                heard.append(listener.accept()[0])
                heard[-1].sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        threading.Thread(target=greet, args=(listener,), daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
        headline = mcpkit.probe(url, timeout=5)["headline"]
        stack.callback(lambda: [sock.close() for sock in heard])
    assert (headline["layer"], "it is an SSH server" in headline["message"]) == ("tls", True)


PROXY_ANSWERS = {                   # C67
    "407 Proxy Authentication Required": "the proxy wants credentials (HTTP 407, Basic)",
    "403 Forbidden": "the proxy refuses two.test:443 (HTTP 403 Forbidden)",
}


@pytest.mark.parametrize("status", PROXY_ANSWERS)
def test_c67_a_proxy_that_will_not_connect_us_is_the_headline(status, monkeypatch):
    with Peer(lambda asked: http_answer(b"", status, "text/html",
                                        "Proxy-Authenticate: Basic")) as proxy:
        monkeypatch.setenv("https_proxy", proxy.origin)
        headline = mcpkit.probe("https://two.test/mcp", timeout=WAIT)["headline"]
    assert headline["layer"] == "proxy" and headline["message"].startswith(PROXY_ANSWERS[status])


TOOL_SERVER = OLD_SERVER.replace('"ping"', '"tools/list"').replace(
    "{}\n    else", '{"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}\n    else')
STDIO_SERVERS = {    # script: the verdict, the headline's layer and words, (layer, status) seen
    "it works": (TOOL_SERVER, "pass", None, "c speaks 2024-11-05", ("exit", "ok")),
    "it ends at once": ("import sys; sys.exit('no licence')", "unreachable", "start",
                        "exited with code 1; its last words: no licence", ("start", "fail")),
    "it prints beside messages": ("print('hello')\n" + TOOL_SERVER, "pass", None, "c speaks",
                                  ("output", "warning")),
    "it prints Latin-1": ("import sys; sys.stdout.buffer.write(b'caf\\xe9\\n')\n"
                          + TOOL_SERVER, "pass", None, "c speaks", ("output", "warning")),
    "it outlives its input": (TOOL_SERVER + "import time; time.sleep(60)\n", "pass", None,
                              "c speaks", ("exit", "warning")),
    "it leaves a child behind": (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; "
        "time.sleep(60)'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, "
        "stderr=subprocess.DEVNULL)\n" + TOOL_SERVER, "pass", None, "c speaks",
        ("exit", "warning")),
}


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
@cases(STDIO_SERVERS)
def test_a_stdio_server_is_diagnosed_from_its_start_to_its_end(case):
    script, verdict, layer, words, seen = case
    report = mcpkit.probe([sys.executable, "-c", script], era="legacy", timeout=WAIT)
    assert (report["verdict"], report["headline"]["layer"]) == (verdict, layer)
    assert words in report["headline"]["message"]
    assert seen in [(seen["name"], seen["status"]) for seen in report["layers"]]


def test_c43_silence_to_server_discover_is_a_note_where_the_handshake_works(monkeypatch):
    monkeypatch.setattr(mcpkit, "DISCOVER_SECONDS", 0.5)
    report = mcpkit.probe([sys.executable, "-c", TOOL_SERVER], timeout=WAIT)
    assert report["verdict"] == "pass" and report["eras"]["modern"]["verdict"] == "fail"
    check = find_check(report, "modern-handshake")
    assert check["status"] == "note" and "did not answer server/discover" in check["message"]


# =============================================================================================
# 19. COMMAND LINE
# =============================================================================================
class Ran(typing.NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def run(*words, data=None, cwd=ROOT, **variables):
    """Run mcpkit.py with words, and variables in its environment; return what it did."""
    child = subprocess.run([*PROGRAM, *words], input=data, capture_output=True, timeout=WAIT,
                           cwd=cwd, env={**os.environ, **variables})
    return Ran(child.returncode, child.stdout.decode(), child.stderr.decode())


STDIO = ["--", *PROGRAM, "serve", "--stdio"]


@pytest.fixture(scope="module")
def target():
    with mcpkit.HTTPService(build_sample_server(), port=0) as service:
        yield service.url


@table("words, code, out", {
    "a call": ("call TARGET add a=2", 0, "3\n"), "JSON by name": ("call TARGET add a:=40 b=2", 0, "42\n"),
    "JSON for all arguments": ('call TARGET add --args {"a":1,"b":1}', 0, "2\n"),
    "arguments in a file": ("call TARGET add --args @FILE", 0, "6\n"),
    "arguments from standard input": ("call TARGET add --args -", 0, "7\n"),
    "a tool's error": ("call TARGET fail", 5, "no \\u2028 luck\n"),
    "arguments that do not fit": ("call TARGET add a=x", 5, None),
    "options between the words": ("call TARGET add --timeout 9 a=2 -v b=3", 0, "5\n"),
    "an image": ("call TARGET picture", 0, "[image, image/png, 4 bytes: --output FILE saves it]\n"),
    "a resource": ("read TARGET sample://text", 0, "hello\n"),
    "bytes": ("read TARGET sample://bytes", 0, "[sample://bytes, application/octet-stream, 2 bytes: "
              "--output FILE saves it]\n"),
    "a template": ("read TARGET sample://item/{number} number=41", 0, "item 42\n"),
    "a prompt": ("prompt TARGET greet name=Ada polite=false", 0,
                 "user: Greet Ada.\nassistant: Politely: False\n"),
    "completion": ("complete TARGET prompt greet name A", 0, "Ada\nAlan\n"),
    "completion in JSON": ("complete TARGET prompt greet name G polite=true --json", 0, json.dumps(
        {"values": ["Grace"], "total": 1, "hasMore": False}, indent=2) + "\n"),
    "completion of nothing": ("complete TARGET resource sample://item/{number} number", 0, ""),
    "any request, in its era": ("send TARGET ping --era legacy", 0, "{}\n"),
    "and not in the other": ("send TARGET ping --era modern", 1, ""),
    "a list that is not there": ("list PONG --resources --json", 0, '{\n  "resources": []\n}\n'),
})
def test_a_command_prints_what_it_gets_and_says_by_its_code_how_it_went(
        words, code, out, target, pong, tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"a": 5}', encoding="utf-8")
    words = words.replace("TARGET", target).replace("PONG", pong.url).split(" ")
    words = [word.replace("FILE", str(tmp_path / "a.json")) for word in words]
    ran = run(*words, *([""] if words[-1] == "number" else []), data=b'{"a": 6}')
    assert ran.code == code and out in (ran.out, None)


def test_lists_are_for_people_or_in_json_and_stdio_servers_have_them_too(target):
    text = run("list", target).out
    assert text.startswith("sample 1.2.3 (2026-07-28)\n")
    assert "  add(a: integer, b?: integer)\n      Add two numbers.\n" in text
    assert list(run("list", target, "--json").json) == [
        "tools", "resources", "resourceTemplates", "prompts"]
    assert list(run("list", target, "--json", "--prompts").json) == ["prompts"]
    assert list(run("list", "--json", *STDIO).json) == ["tools"]
    ran = run("call", "pong", "message=ping", "--json", *STDIO)
    assert ran.json["structuredContent"] == {"response": "pong"}
    assert run("probe", target).out.splitlines()[-1].startswith("verdict: pass (5 requests, ")


MISTAKES = {
    "no command": ("", 2, "arguments are required"), "an unknown command": ("fly", 2, "invalid choice"),
    "no target": ("list", 2, "TARGET"), "a target that is none": ("list nonsense", 2, "TARGET is a URL"),
    "nothing after --": ("list --", 2, "after -- comes the command"),
    "a word too many": ("list TARGET more", 2, "unknown words: more"),
    "an unknown option": ("call TARGET add --fly", 2, "unknown words: --fly"),
    "a bad argument": ("call TARGET add a", 2, "name=value or name:=json"),
    "bad JSON": ("call TARGET add a:={", 2, "a is no JSON"),
    "bad JSON before anything is sent": ("send http://127.0.0.1:1/ a/b {", 2, "params is no JSON"),
    "a bad header": ("list TARGET --header nonsense", 2, "this one has no colon"),
    "a missing file": ("list TARGET --header @/no/such/file", 2, "cannot be read"),
    "a server file that is not there": ("serve nowhere.py", 2, "there is no file nowhere.py"),
    "a bad port": ("serve --port x", 2, "argument --port"),
    "a proxy that is none": ("list TARGET --proxy socks5://x", 2, "proxy"),
    "a proxy and none": ("list TARGET --proxy http://x --no-proxy", 2, "not allowed with"),
    "a host without a scheme": ("list 127.0.0.1:8001/mcp", 2, "did you mean http://127.0.0.1:8001/mcp"),
    "a command without --": ("list python3 kit.py serve", 2, "comes after --"),
    "a URL and a command": ("call http://127.0.0.1:1/ pong -- python3", 2, "both a URL and -- COMMAND"),
    "a port of letters": ("list http://127.0.0.1:80a01/mcp", 2, "not an http or https URL"),
    "a password in the URL": ("probe http://me:s3cret@h/", 2, "http://***@h/; credentials go into"),
    "nobody there": ("list http://127.0.0.1:1/mcp", 4, "127.0.0.1"),
    "a command that is not there": ("list -- no-such-command-anywhere", 4, "command not found"),
    "an unknown tool": ("call TARGET nope", 1, "nope"),
    "an unknown method": ("send TARGET no/such", 1, "no/such"),
    "an unreadable stream": ("sse /no/such/file", 2, "cannot be read"),
    "a file that has no place": ("read TARGET sample://text --output /no/such", 2, "cannot be written"),
    "no time": ("list --timeout nan TARGET", 2, "argument --timeout"),
    "endless": ("serve --read-seconds inf", 2, "argument --read-seconds"),
    "nothing": ("serve --idle-seconds 0", 2, "argument --idle-seconds"),
    "negative": ("serve --max-body -1", 2, "argument --max-body"),
    "a port too high": ("serve --port 99999", 2, "argument --port"),
}


@table("words, code, advice", MISTAKES)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(target, words, code, advice):
    ran = run(*words.replace("TARGET", target).split())
    assert (ran.code, ran.out) == (code, "") and advice in ran.err
    assert ran.err.startswith("mcpkit: ") and ran.err.count("\n") == 1


@pytest.mark.parametrize("name", ("nobody there", "an unknown tool", "bad JSON"))
def test_with_json_an_error_is_one_line_of_json(target, name):
    words, code, _ = MISTAKES[name]
    ran = run(*words.replace("TARGET", target).split(), "--json")
    assert ran.code == code and ran.out == "" and ran.err.count("\n") == 1
    assert json.loads(ran.err)["error"]["exitCode"] == code


@table("answer, code", {"fail": (lambda asked: http_answer(b"", "404 Not Found"), 1),
                        "partial": (legacy_peer, 3), "unreachable": (lambda asked: b"", 4)})
def test_the_probe_says_its_verdict_by_its_exit_code(answer, code, request):
    with Peer(lambda asked: answer(asked)) as peer:
        ran = run("probe", peer.url, "--json", "--era", "legacy")
    assert ran.code == code and f"[{ran.json['verdict']}]" in request.node.name


def answer_call(content, tools=(), **members):
    """Return what answers as a legacy server whose tools have this result."""
    return lambda asked: legacy_peer(
        asked, tools_list=lambda asked: http_answer(result(asked, {"tools": list(tools)})),
        tools_call=lambda asked: http_answer(result(asked, {"content": content, **members})))


def test_c122_text_of_a_peer_cannot_command_a_terminal():
    tools = [{"name": "a\x1b[2J", "description": "\x1b]8;;http://evil\x07 \u202e",
              "inputSchema": {"type": "object"}}]
    with Peer(answer_call([{"type": "text", "text": "\x9b31m"}], tools)) as peer:
        listed, called = run("list", peer.url), run("call", peer.url, "a")
        assert run("list", peer.url, "--json").json["tools"] == tools
    assert r"a\x1b[2J" in listed.out and r"\x1b]8;;http://evil\x07 \u202e" in listed.out
    assert called.out == "\\x9b31m\n"


def test_a_result_that_breaks_its_output_schema_is_a_warning_on_standard_error():
    tool = {"name": "a", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "required": ["n"]}}
    with Peer(answer_call([], [tool], structuredContent={})) as peer:
        ran = run("call", peer.url, "a", "b=1")
    assert ran.code == 0 and ran.err.startswith("mcpkit: the result of a breaks its outputSchema")


COMMAND_WORDS = {"list": [], "call": ["add", "a=1"], "read": ["sample://text"],
                 "prompt": ["greet", "name=x"], "send": ["tools/list"], "probe": [],
                 "complete": ["prompt", "greet", "name", "A"], "listen": ["--tools"]}


@pytest.mark.parametrize("command", [name for name in COMMAND_WORDS if name != "listen"])
def test_every_command_goes_the_way_that_the_options_say(certificates, command):
    words = [*COMMAND_WORDS[command], "--era", "legacy", "--no-proxy"]
    with Peer(legacy_peer) as proxy, Peer(legacy_peer, tls=certificates.server(
            wants_client=True)) as secure:
        secured = [command, secure.url, *words, "--client-cert", certificates.path("client.pem"),
                   "--client-key", certificates.path("client.key")]
        trusting = run(*secured, "--cacert", certificates.path("ca.pem"))
        insecure = run(*secured, "--insecure")
        run(command, "http://127.0.0.1:1/mcp", *words[:-1], "--proxy", proxy.origin)
    assert "warning" not in trusting.err
    assert insecure.err.startswith("mcpkit: warning: --insecure: no certificate is checked")
    assert (trusting.code, trusting.out.count("\n")) == (insecure.code, insecure.out.count("\n"))
    methods = secure.methods
    assert methods[:len(methods) // 2] == methods[len(methods) // 2:] and "initialize" in methods
    assert {asked.path for asked in proxy.asked} == {"http://127.0.0.1:1/mcp"}


def test_c79_values_are_read_by_the_schema_and_not_by_their_looks():
    server = Server("zip")

    @server.tool
    def look(zip: str, number: float, flag: bool, any, maybe: typing.Optional[int] = None):
        return [zip, number, flag, any, maybe]

    with mcpkit.HTTPService(server, port=0) as service:
        ran = run("call", service.url, "look", "zip=012", "number=1.5", "flag=true", "any=7",
                  "maybe=3", "--json")
    assert ran.json["structuredContent"] == ["012", 1.5, True, "7", 3]


@contextlib.contextmanager
def telling(server):
    """Have a server tell of a resource and a list, again and again, during a block."""
    done = threading.Event()

    def tell():
        while not done.wait(0.02):
            server.resource_updated("sample://text")
            server.add_tool(lambda: None, name="more")
            server.remove_tool("more")
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(WAIT)


@needs_signals
@pytest.mark.parametrize("era", ("legacy", "modern"))
@table("words, method, uri", {
    "no words": ([], "tools/list_changed", None),
    "lists": (["--tools"], "tools/list_changed", None),
    "a resource": (["--uri", "sample://text"], "resources/updated", "sample://text")})
def test_listen_prints_a_line_a_change_until_it_is_interrupted(words, method, uri, era):
    import signal
    server = build_sample_server(sessions=True)
    with mcpkit.HTTPService(server, port=0) as service, telling(server), subprocess.Popen(
            [*PROGRAM, "listen", service.url, "--era", era, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        lines = [json.loads(child.stdout.readline()) for _ in range(3)]
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=WAIT)
    assert [(line["method"], (line["params"] or {}).get("uri")) for line in lines] == [
        ("notifications/" + method, uri)] * 3
    assert (child.returncode, err) == (130, b"")


def test_listen_says_what_it_will_not_be_told_and_keeps_its_time_limit():
    with mcpkit.HTTPService(Server("quiet"), port=0) as service:
        ran = run("listen", service.url, "--uri", "no://such", "--max-time", "0.5")
    assert ran.code == 4 and ran.err.splitlines()[0].startswith("mcpkit: the server will not tell")


# ---- answers to what a server asks

@dataclasses.dataclass
class Booking:
    name: Annotated[str, "Who travels."]
    seat: Literal["window", "aisle"] = "aisle"
    bags: int = 1
    meal: bool = False


@pytest.fixture(scope="module")
def booking():
    """The URL of a server that asks all kinds of questions, and says what it heard."""
    server = Server("booking", sessions=True)

    @server.tool
    def book(ctx: Context) -> str:
        answer = ctx.elicit("Who travels?", Booking, key="who")
        return f"{answer.action} {answer.content and dataclasses.astuple(answer.content)}"

    @server.tool
    def confirm(ctx: Context) -> str:
        return ctx.elicit("Sure?", {"type": "object", "properties": {}}).action

    @server.tool
    def visit(ctx: Context) -> str:
        return ctx.elicit("Log in", url="https://example.com/\u202e").action

    @server.tool
    def think(ctx: Context) -> str:
        return ctx.sample("What?", max_tokens=5)["content"]["text"]

    @server.tool
    def look(ctx: Context) -> str:
        return " ".join(root["name"] for root in ctx.roots())

    with mcpkit.HTTPService(server, port=0) as service:
        yield service.url


each_era = pytest.mark.parametrize("era", ("legacy", "modern"))


@each_era
@table("words, code, out", {
    "fields of a form": (["book", "name=Ada", "seat=window", "bags=2", "meal=yes"], 0,
                         "accept ('Ada', 'window', 2, True)"),
    "defaults": (["book", "name=Ada"], 0, "accept ('Ada', 'aisle', 1, False)"),
    "JSON for a field": (["book", 'name:="Ada"', "bags:=3"], 0, "accept ('Ada', 'aisle', 3, False)"),
    "a whole form": (["book", 'elicitation={"name": "Ada"}'], 0, "accept ('Ada', 'aisle', 1, False)"),
    "a form declined": (["book", "elicitation=decline"], 0, "decline None"),
    "a form cancelled": (["book", "elicitation=cancel"], 0, "cancel None"),
    "a file": (["book", "--answers", "FILE"], 0, "accept ('Eve', 'aisle', 1, False)"),
    "a file, and better": (["book", "name=Ada", "--answers", "FILE"], 0,
                           "accept ('Ada', 'aisle', 1, False)"),
    "a confirmation": (["confirm", "elicitation=accept"], 0, "accept"),
    "a page": (["visit", "elicitation=accept"], 0, "accept"),
    "a model's words": (["think", "sampling=Paris"], 0, "Paris"),
    "folders": (["look", "--root", "samples", "--root", ".ci"], 0, "samples .ci"),
    "a value that does not fit": (["book", "name=x", "seat=roof"], 2, ""),
    "a required field without an answer": (["book", "seat=window"], 3, ""),
    "an answer to something else": (["confirm", "name=x"], 3, ""),
})
def test_a_question_is_answered_from_the_command_line(booking, tmp_path, words, code, out, era):
    (tmp_path / "answers.json").write_text('{"name": "Eve"}')
    options = [str(tmp_path / "answers.json") if word == "FILE" else option for word in words
               for option in (["--answer", word] if "=" in word else [word])]
    ran = run("call", booking, *options, "--era", era)
    assert (ran.code, ran.out.strip()) == (code, out), ran.err


@table("words, lines", {
    "a form": (["book"], ["  --answer name=...   name (Who travels.)",
                          "  --answer seat=...   seat {window, aisle} [aisle]",
                          "  --answer bags=...   bags [1]", "  --answer meal=...   meal [false]"]),
    "a page": (["visit"], ["  --answer elicitation=...   accept or decline"]),
    "a form, half answered": (["book", "--answer", "bags=2"], None),
})
def test_questions_that_nobody_answers_are_printed_with_what_would(booking, words, lines):
    ran = run("call", booking, *words)
    first, *rest = ran.err.splitlines()
    assert (ran.code, ran.out) == (3, "") and rest == (rest if lines is None else lines)
    assert first.startswith("mcpkit: the server asks something before it answers: ")
    ran = run("call", booking, *words, "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.code, ran.out, error["exitCode"], error["kind"]) == (3, "", 3, "question")
    assert [question["method"] for question in error["questions"].values()] == ["elicitation/create"]


def test_a_question_has_a_key_too_and_a_legacy_server_is_not_told_of_what_nobody_answers(booking):
    ran = run("call", booking, "book", "--answer", 'who={"name": "Ada"}')
    assert ran.out == "accept ('Ada', 'aisle', 1, False)\n", ran.err
    ran = run("call", booking, "book", "--era", "legacy")
    assert ran.code == 1 and "Missing required client capability: elicitation" in ran.err


def test_a_legacy_server_may_ask_outside_of_the_call_that_needs_the_answer():
    answered = threading.Event()

    def answer(asked):
        if asked.method == "GET":
            return open_stream()
        if "result" in asked.message:
            answered.set()
            return http_answer(b"", "202 Accepted")
        return legacy_peer(asked, "s1", tools_call=lambda asked: http_answer(result(asked, {
            "content": [{"type": "text", "text": f"{answered.wait(WAIT)}"}]})))

    def open_stream():
        yield from stream_answer(event({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}))
        answered.wait(WAIT)

    with Peer(answer) as peer:
        ran = run("call", peer.url, "x", "--root", "samples")
    assert (ran.code, ran.out) == (0, "True\n"), ran.err
    assert [asked.message["result"]["roots"][0]["name"] for asked in peer.asked
            if "result" in asked.message] == ["samples"]


# ---- terminals

class Terminal:
    """Runs a command whose input and errors are a terminal; `typed` is there already."""

    def __init__(self, words, typed=b"", **variables):
        import pty
        import termios
        master, slave = pty.openpty()
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        os.write(master, typed)
        stdout = subprocess.PIPE if variables.pop("piped", True) else slave
        with subprocess.Popen([*PROGRAM, *words], cwd=ROOT, stdin=slave, stdout=stdout,
                              stderr=slave, env={**os.environ, "TERM": "xterm", **variables}) as child:
            os.close(slave)
            self.shown = self._read(master)
            self.out = child.stdout.read().decode() if child.stdout else ""
            self.code = child.wait(WAIT)

    @staticmethod
    def _read(master):
        data = b""
        with contextlib.suppress(OSError), open(master, "rb", buffering=0) as file:
            for part in iter(lambda: file.read(4096), b""):
                data += part
        return data.decode().replace("\r\n", "\n")


@needs_signals
@each_era
@table("words, typed, out, shown", {
    "a form": (["book"], b"\nAda\nroof\nwindow\n2\ny\n", "accept ('Ada', 'window', 2, True)\n",
               "the server asks: Who travels? (Ctrl-D declines)\n  name (Who travels.):   it cannot "
               "be left out\n  name (Who travels.):   seat {window, aisle} [aisle]:   must be one of "
               '"window", "aisle", but is "roof"\n  seat {window, aisle} [aisle]:   bags [1]:   meal '
               "[false]: "),
    "what is not answered yet": (["book", "--answer", "meal=true"], b"Ada\n\n\n",
                                 "accept ('Ada', 'aisle', 1, True)\n", "bags [1]: "),
    "nothing, where all is answered": (["book", "--answer", "name=Ada"], b"",
                                       "accept ('Ada', 'aisle', 1, False)\n", ""),
    "the end of input": (["book"], b"\x04", "decline None\n", "name (Who travels.): \n"),
    "yes": (["confirm"], b"yes\n", "accept\n", "accept? (y/n) "),
    "no": (["confirm"], b"no\n", "decline\n", "accept? (y/n) "),
    "a page": (["visit"], b"y\n", "accept\n", "visit https://example.com/\\u202e, and then: done?"),
})
def test_who_sits_at_a_terminal_is_asked_on_standard_error(booking, words, typed, out, shown, era):
    ran = Terminal(["call", booking, *words, "--era", era], typed)
    assert (ran.code, ran.out) == (0, out) and shown in ran.shown


@needs_signals
def test_progress_is_a_bar_on_a_terminal_and_nothing_in_a_pipe(target):
    shown = Terminal(["call", target, "report"]).shown
    assert "\r[###############...............]  50% half" in shown and shown.endswith(" \r")
    assert run("call", target, "report").err == ""


@needs_signals
def test_progress_that_is_no_number_of_this_world_is_not_shown():
    odd = [10 ** 400, -10 ** 400, 1e300, True, "1", [], None]

    def report(asked):
        token = asked.message["params"]["_meta"]["progressToken"]
        yield from stream_answer(*(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": token, "progress": number, "total": total, "message": "m"}})
            for value in odd for number, total in ((value, 5), (1.5, value))))
        yield event(result(asked, {"content": []}))

    with Peer(lambda asked: legacy_peer(asked, tools_call=report)) as peer:
        ran = Terminal(["call", peer.url, "a"])
    assert ran.code == 0 and set(re.findall(r"[^\r]+", ran.shown.replace(" ", ""))) <= {"m", "1.5m"}


@needs_signals
@table("variables, painted", {"a terminal": ({}, True), "NO_COLOR": ({"NO_COLOR": "1"}, False),
                              "a terminal that cannot": ({"TERM": "dumb"}, False),
                              "a pipe": ({"piped": True}, False)})
def test_colours_are_for_terminals_that_want_them(target, variables, painted):
    ran = Terminal(["list", target], **{"piped": False, **variables})
    assert ("\x1b[1msample 1.2.3" in ran.shown) == painted and "\x1b" not in ran.out


# ---- what else is shown, and what is kept

def test_verbose_shows_exchanges_logs_and_what_a_child_writes_and_hides_credentials(target, tmp_path):
    ran = run("call", target, "report", "-v", "--header", "Authorization: Bearer secret")
    assert "> POST http://127.0.0.1:" in ran.err and "< HTTP 200" in ran.err
    assert "> Authorization: ***" in ran.err and "secret" not in ran.err
    assert "info server: working\ndebug server: details" in ran.err
    (tmp_path / "noisy.py").write_text("import sys\nprint('hello', flush=True)\nprint('\\x9b31m', "
                                       "file=sys.stderr, flush=True)\nsys.path.insert(0, sys.argv[1])"
                                       "\nimport mcpkit\nmcpkit.main(['serve', '--stdio'])")
    command = ["--", sys.executable, str(tmp_path / "noisy.py"), str(ROOT)]
    err = run("list", "-v", *command).err
    assert "not a message: hello\n" in err and "stderr: \\x9b31m\n" in err
    assert run("list", *command).err == ""


@pytest.mark.parametrize("name", COMMAND_WORDS)
def test_c123_each_command_of_the_client_takes_all_its_options(name, tmp_path):
    (tmp_path / "headers").write_text("X-Api-Key: a:b\n")
    (tmp_path / "answers").write_text("{}")
    server = build_sample_server(sessions=True)
    with mcpkit.HTTPService(server, port=0) as service, telling(server):
        words = ["--header", f"@{tmp_path / 'headers'}", "--header", "X-More: c", "--timeout", "9",
                 "--max-time", "2", "--era", "legacy", "--json", "-v"]
        if name != "probe":                   # which answers no questions
            words += ["--answer", "a=b", "--root", str(tmp_path), "--answers",
                      str(tmp_path / "answers")]
        ran = run(name, service.url, *COMMAND_WORDS[name], *words)
    assert ran.code == (4 if name == "listen" else 0), ran.err
    requests = re.findall(r"^> (?:POST|GET|DELETE) .*\n((?:> .*\n)+)", ran.err, flags=re.M)
    assert len(requests) >= 3
    assert all("> X-Api-Key: ***\n> X-More: ***\n" in request for request in requests)
    assert "a:b" not in ran.err


@table("words, data", {"an image": (["call", "picture"], b"\x89PNG"),
                       "bytes": (["read", "sample://bytes"], b"\x00\xff"),
                       "a text": (["read", "sample://text"], b"hello")})
def test_output_takes_the_one_part_that_is_not_for_the_eye(target, tmp_path, words, data):
    ran = run(words[0], target, words[1], "--output", str(tmp_path / "out"))
    assert (ran.code, ran.out, (tmp_path / "out").read_bytes()) == (0, "", data)


@table("blocks", {"two": [{"type": "image", "data": "AAAA"}, {"type": "audio", "data": "AAAA"}],
                  "none": [], "two texts": [{"type": "text", "text": text} for text in "ab"],
                  "unreadable": [{"type": "image", "data": "!"}, {"type": "image"}, 5]})
def test_output_takes_nothing_where_there_is_no_telling_which(blocks, tmp_path):
    with Peer(answer_call(blocks)) as peer:
        ran = run("call", peer.url, "a", "--output", str(tmp_path / "out"))
    assert (ran.code, ran.out) == (2, "") and "--output takes one binary part" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_nearly_right_is_told_which_one_was_meant(target):
    assert run("call", target, "ad", "a=1").err.splitlines()[0] == (
        "mcpkit: there is no ad; did you mean add?")
    assert "did you mean greet?" in run("prompt", target, "great").err
    assert "the form is call TARGET TOOL name=value" in run("call", target, "a=1").err
    assert run("call", target, "ad", "--json").err.count("\n") == 1


def test_help_names_each_command_and_each_of_them_has_examples(capsys):
    shown = run("--help").out
    assert " -- python3 server.py" in shown and "  143  terminated" in shown
    for name in re.findall(r"^    ([a-z]+) ", shown, re.M):
        with pytest.raises(SystemExit, match="^0$"):
            mcpkit.main([name, "--help"])
        assert f"\n  mcpkit.py {name}" in capsys.readouterr().out


def test_sse_prints_one_json_object_an_event(tmp_path):
    data = b"event: a\r\nid: 1\r\ndata: x\r\ndata: y\r\n\r\n: c\n\ndata:\n\ndata: cut"
    ran = run("sse", data=data)
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"event": "a", "data": "x\ny", "id": "1"}, {"event": "message", "data": "", "id": "1"}]
    assert "9 bytes discarded" in ran.err and ran.code == 0
    (tmp_path / "stream").write_bytes(data)
    assert run("sse", str(tmp_path / "stream")).out == ran.out


# ---- serve

@contextlib.contextmanager
def starting(command, folder=ROOT, **options):
    """Run a server in a process of its own and give the process and its URL."""
    child = subprocess.Popen([sys.executable, "-W", "error", *map(str, command)], cwd=folder,
                             stdout=subprocess.PIPE, **options)
    try:
        yield child, re.search(r"http://\S+", child.stdout.readline().decode()).group()
    finally:
        child.terminate()
        child.communicate(timeout=WAIT)


@contextlib.contextmanager
def serving(*words):
    """Run `serve` with words in a process of its own and give its URL."""
    with starting([*MODULE, "serve", *words, "--port", "0"]) as (_, url):
        yield url


def test_a_copy_under_another_name_serves_files_that_name_it_so(tmp_path):
    shutil.copy(ROOT / "mcpkit.py", tmp_path / "kit.py")
    (tmp_path / "mine.py").write_text("from kit import Server\nserver = Server('mine')\n")
    child = subprocess.run([sys.executable, "kit.py", "serve", "mine.py", "--stdio"], cwd=tmp_path,
                           input=PING + b"\n", capture_output=True, timeout=WAIT,
                           env={**os.environ, "PYTHONPATH": ""})
    assert json.loads(child.stdout)["result"] == {}, child.stderr


def test_a_path_without_its_slash_is_given_one():
    with serving("--path", "tools") as url:
        assert url.endswith("/tools")
        assert run("call", url, "pong", "message=x").code == 0


LINGERING_SERVER = """
import concurrent.futures, sys, threading
from mcpkit import Context, Server
server = Server("lingering", sessions=True)

@server.tool
def linger(ctx: Context, heeds: bool = True):
    ctx.progress(1)
    while not (heeds and ctx.cancelled):
        threading.Event().wait(0.01)
    return "as far as it got"

@server.tool
def leave_running():
    threading.Thread(target=threading.Event().wait, daemon=False).start()

if __name__ == "__main__":
    server.run(port=0, stdio="--stdio" in sys.argv)
"""


@pytest.fixture
def lingering(tmp_path):
    """The command that serves a file with a tool that lingers."""
    (tmp_path / "it.py").write_text(LINGERING_SERVER)
    return [*MODULE, "serve", tmp_path / "it.py"]


def start_call(url, **arguments):
    """Start a call of `linger` and return its stream, once it runs."""
    address = re.match(r"http://(.*):(\d+)", url)
    connection = http.client.HTTPConnection(*address.groups(), timeout=WAIT)
    request = tool_call("linger", **arguments)
    request["params"]["_meta"] = {**META, "progressToken": 1}
    connection.request("POST", "/mcp", json.dumps(request), {
        **JSON_BOTH, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
        "Mcp-Name": "linger", "Connection": "close"})
    response = connection.getresponse()
    assert response.readline() == b"event: message\n"
    return response


@needs_signals
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@cases(LINGERING)
def test_a_server_that_is_told_to_stop_ends_its_streams_and_exits_with_0(lingering, case, name):
    import signal
    heeds, _, words = case
    if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so does what they start")
    with starting([*lingering, "--port", "0"], stderr=subprocess.PIPE) as (child, url):
        stream = start_call(url, heeds=heeds)
        child.send_signal(getattr(signal, name))
        assert words.encode() in stream.read()         # raises where the last chunk is missing
        _, err = child.communicate(timeout=WAIT)
        assert (child.returncode, err) == (0, b"")


def is_listening(host, port):
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), timeout=WAIT).close()
        return True
    return False


@needs_signals
@table("name, code", {"SIGTERM": ("SIGTERM", 143), "Ctrl-C": ("SIGINT", 130)})
def test_a_second_signal_ends_a_server_at_once(lingering, name, code):
    import signal
    with starting([*lingering, "--port", "0"], stderr=subprocess.PIPE) as (child, url):
        start_call(url, heeds=False)
        host, port = re.match(r"http://(.*):(\d+)", url).groups()
        child.send_signal(signal.SIGTERM)
        assert wait_until(lambda: not is_listening(host, int(port)))     # it has seen the first
        child.send_signal(getattr(signal, name))
        _, err = child.communicate(timeout=WAIT)
        assert (child.returncode, err) == (code, b"")


@needs_signals
def test_a_signal_that_another_thread_receives_stops_a_server_too(tmp_path):
    (tmp_path / "it.py").write_text(
        "import signal, threading\nfrom mcpkit import Server\nserver = Server('it')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})     # in this thread only\n")
    with starting([*MODULE, "serve", str(tmp_path / "it.py"), "--port", "0"]) as (child, _):
        child.terminate()
        assert child.wait(WAIT) == 0


@needs_signals
def test_threads_that_a_file_left_running_do_not_keep_its_server(lingering):
    with starting([*lingering, "--port", "0"]) as (child, url):
        assert run("call", url, "leave_running").code == 0
        child.terminate()
        assert child.wait(WAIT) == 0
    request = json.dumps(tool_call("leave_running")).encode() + b"\n"
    child = subprocess.run([sys.executable, *map(str, lingering), "--stdio"], input=request,
                           stdout=subprocess.PIPE, timeout=WAIT)
    assert child.returncode == 0 and json.loads(child.stdout)["id"] == 1


@needs_signals
def test_a_stdio_server_that_is_told_to_stop_answers_and_exits_with_0(lingering):
    request = tool_call("linger")
    request["params"]["_meta"] = {"progressToken": 1}
    with subprocess.Popen([sys.executable, *map(str, lingering), "--stdio"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        assert b"notifications/progress" in child.stdout.readline()
        child.terminate()
        out, err = child.communicate(timeout=WAIT)
    assert b"as far as it got" in out and (child.returncode, err) == (0, b"")


@needs_signals
@table("form, pattern", {
    "JSON": ("json", '{"time":"[^"]+","method":"tools/call","name":"pong","status":200,"ms":[0-9.]+}'),
    "text": ("text", r"\S+Z tools/call pong 200 [0-9.]+ ms")})
def test_serve_logs_requests_on_standard_error(form, pattern):
    with starting([*MODULE, "serve", "--port", "0", "--log", form],
                  stderr=subprocess.PIPE) as (child, url):
        assert run("call", url, "pong", "message=s3cr3t", "--era", "legacy").code == 0
        child.terminate()
        _, err = child.communicate(timeout=WAIT)
    assert re.fullmatch(pattern, err.decode().splitlines()[-1]) and b"s3cr3t" not in err


@needs_signals
@table("name, lives", {"nohup": ("SIGHUP", True), "a shell's &": ("SIGINT", False)})
def test_a_server_started_with_a_signal_ignored_is_as_its_user_means_it(name, lives):
    import signal
    with starting(["-c", f"import signal, mcpkit; signal.signal(signal.{name}, signal.SIG_IGN); "
                   "mcpkit.main(['serve', '--port', '0'])"]) as (child, url):
        child.send_signal(getattr(signal, name))
        if lives:
            assert run("send", url, "ping", "--era", "legacy").code == 0
            assert child.poll() is None
        else:
            assert child.wait(WAIT) == 0


def test_a_file_that_runs_its_server_is_a_program(lingering, tmp_path):
    with starting(["it.py"], tmp_path) as (child, url):
        assert run("list", url).out.startswith("lingering 0.0.0 ")
    assert child.returncode == 0 or os.name != "posix"
    child = subprocess.run([sys.executable, "it.py", "--stdio"], cwd=tmp_path,
                           input=PING + b"\n", capture_output=True, timeout=WAIT)
    assert json.loads(child.stdout)["result"] == {} and child.stderr == b""


@table("code, words", {
    "one that breaks": ("1 / 0", "ZeroDivisionError: division by zero"),
    "one without a server": ("x = 1", "has no mcpkit.Server at its top level"),
    "one that breaks further down": ("def f():\n    return {}['key']\n\nf()",
                                     "line 2: KeyError: 'key'"),
    "one whose function cannot be expressed": (
        "from mcpkit import Server\nserver = Server('a')\n@server.tool\ndef f(x: complex): pass",
        "complex has no form in JSON"),
    "one with a resource without URI": (
        "from mcpkit import Server\nserver = Server('a')\n@server.resource\ndef f(): pass",
        "a resource needs a URI"),
    "one with two": ("from mcpkit import Server\na = Server('a')\nb = Server('b')",
                     "makes 2 servers"),
    "one that is no Python": ("this is not", "SyntaxError"),
})
def test_a_server_file_that_cannot_be_served_is_one_line(tmp_path, code, words):
    (tmp_path / "it.py").write_text(code)
    ran = run("serve", str(tmp_path / "it.py"), "--port", "0")
    assert ran.code == 2 and words in ran.err and ran.err.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(pong):
    ran = run("serve", "--port", str(pong.server_address[1]))
    assert ran.code == 4 and ran.err.startswith("mcpkit: cannot listen on 127.0.0.1:")


# ---- what goes wrong around a command

GARBAGE = [5, "x", None, [], {}, [5], {"a": 5}, True]


def make_garbage(choose, depth=0):
    """Return a JSON object in whose every usual member anything may stand."""
    names = ["name", "title", "description", "inputSchema", "outputSchema", "uri", "uriTemplate",
             "arguments", "properties", "required", "type", "text", "content", "resource",
             "contents", "messages", "role", "tools", "prompts", "resources", "nextCursor",
             "capabilities", "serverInfo", "protocolVersion", "isError", "x-mcp-header"]
    made = {}
    for name in choose.sample(names, 9):
        kind = choose.randrange(3) if depth < 3 else 0
        made[name] = (choose.choice(GARBAGE) if kind == 0 else make_garbage(choose, depth + 1)
                      if kind == 1 else [make_garbage(choose, depth + 1)])
    return made


def test_garbage_in_every_field_never_ends_in_a_traceback(capsys):
    choose = random.Random(5)

    def answer(asked):
        made = make_garbage(choose)
        if asked.message.get("method") == "initialize" and choose.randrange(4):
            made = {"protocolVersion": "2025-11-25", "capabilities": choose.choice(
                [{"tools": {}, "prompts": {}, "resources": {}}, *GARBAGE])}
        elif choose.randrange(3):
            made.update({member: choose.choice([[make_garbage(choose, 2)], *GARBAGE]) for member
                         in ("tools", "resources", "resourceTemplates", "prompts", "content",
                             "contents", "messages")})
            made.pop("nextCursor", None)
        return http_answer(result(asked, made))

    commands = [["list"], ["call", "x", "a=1"], ["read", "x://y"], ["prompt", "x"], ["probe"],
                ["send", "a/b"], ["complete", "prompt", "x", "a", ""],
                ["call", "x", "--answer", "name=Ada", "--answer", "elicitation:=5"]]
    with Peer(answer) as peer:
        for number in range(240):
            command, *rest = commands[number % len(commands)]
            words = [command, peer.url, *rest, *(["--json"] if choose.randrange(2) else [])]
            assert mcpkit.main(words) in (0, 1, 2, 3, 4, 5)
            shown = capsys.readouterr()
            assert all(character.isprintable() or character in "\n\t" for character in shown.out)
            if "--json" in words and shown.out:
                json.loads(shown.out)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full")
@table("words, code", {
    "serving without input": ("serve --stdio <&-", 2), "serving without output": (
        "serve --stdio >&-", 2),
    "an output that is full": ("list URL >/dev/full", 1), "no output": ("list URL >&-", 0),
    "a reader that has gone": ("list URL | :", 0),
    "no input": ("sse <&-", 2), "no errors": ("list nonsense 2>&-", 2),
    "errors that are full": ("list nonsense --json 2>/dev/full", 2),
})
def test_streams_that_are_closed_or_full_are_no_traceback(target, words, code):
    command = f"{' '.join(PROGRAM)} {words.replace('URL', target)}"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=WAIT, text=True)
    assert ran.returncode == code and ran.stderr.count("\n") <= 1, ran.stderr


@needs_signals
def test_a_command_that_is_terminated_ends_its_child_too(tmp_path):
    import signal
    code = (f"import os, time; open({str(tmp_path / 'pid.')!r} + str(os.getpid()), 'w').close(); "
            "time.sleep(300)")
    with subprocess.Popen([*PROGRAM, "list", "--", sys.executable, "-c", code],
                          stdout=subprocess.DEVNULL) as child:
        assert wait_until(lambda: list(tmp_path.iterdir()))
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT) == 128 + signal.SIGTERM
    pid, = (int(path.suffix[1:]) for path in tmp_path.iterdir())
    assert wait_until(lambda: not is_running(pid))


# EXTRAS: what follows tests the sections below the same line of mcpkit.py.
from mcpkit import Auth, Principal  # noqa: E402


# =============================================================================================
# 20. ACCESS
# =============================================================================================
ISSUER = "https://login.example"
OTHER = "https://other.example/mcp"
PRINCIPALS = {
    "reader": Principal("ada", ["notes:read"]), "reader.2": Principal("ada", ["notes:read"]),
    "writer": Principal("bob", ["notes:write"]), "admin": Principal("eve", {"notes:admin"}),
    "nobody": Principal("joe"), "root": Principal("root", None),
    "late": Principal("ada", ["notes:read"], {"exp": 1}),
    "abroad": Principal("ada", ["notes:read"], {"aud": [OTHER]}),
}
IMPLIED = {"notes:admin": ["notes:write"], "notes:write": ["notes:read"]}
WRITE = {"scopes": ["notes:write"]}
METADATA_PATH = "/.well-known/oauth-protected-resource"


def build_vault(verify=PRINCIPALS.get, issuers=(ISSUER,), resource=None, **options):
    """Return a server that asks for tokens, with one of everything for readers, one for writers."""
    server = Server("vault", auth=Auth(
        verify, authorization_servers=issuers, scopes=["notes:read"], resource=resource,
        implied_scopes=IMPLIED), **options)

    @server.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal and ctx.principal.subject)

    @server.tool(**WRITE)
    def erase() -> str:
        return "erased"

    @server.tool
    def look() -> str:
        return "seen"

    server.resource("vault://open", name="open")(lambda: "open")
    server.resource("vault://closed", name="closed", **WRITE)(lambda: "closed")
    server.resource("vault://open/{a}", name="open")(lambda a: a)
    server.resource("vault://closed/{a}", name="closed", **WRITE)(lambda a: a)
    server.prompt(name="open")(lambda a: a)
    server.prompt(name="closed", **WRITE)(lambda a: a)
    server.completion("closed", "a")(lambda value: ["secret"])
    return server


@pytest.fixture
def vault():
    with mcpkit.HTTPService(build_vault(), port=0) as service:
        yield service


def find_challenge(reply):
    """Return the parameters of a reply's one Bearer challenge, None where there is none."""
    value = reply.headers.get("www-authenticate")
    if value is None:
        return None
    (scheme, params), = mcpkit.parse_challenges(value)
    assert scheme == "bearer"
    return params


AUTHORIZATIONS = {
    "none": (None, 401, None), "another scheme": ("Basic YTpi", 401, None),
    "the scheme alone": ("Bearer", 401, None),
    "bad characters": ('Bearer "reader"', 401, "invalid_token"),
    "two tokens in one": ("Bearer reader, Bearer reader", 401, "invalid_token"),
    "a wrong token": ("Bearer readers", 401, "invalid_token"),
    "a wrong case": ("Bearer Reader", 401, "invalid_token"),
    "an expired token": ("Bearer late", 401, "invalid_token"),
    "a token for others": ("Bearer abroad", 401, "invalid_token"),
    "a token that may nothing": ("Bearer nobody", 403, "insufficient_scope"),
    "a token": ("Bearer reader", 200, None),
    "a lower-case scheme": ("bearer reader", 200, None),
    "one whose scope implies": ("Bearer admin", 200, None),
    "one that may everything": ("Bearer root", 200, None),
}


@cases(AUTHORIZATIONS)
def test_only_a_good_token_is_let_in_and_any_other_is_told_where_to_get_one(vault, case):
    authorization, status, error = case
    reply = ask(vault, call("ping"), Authorization=authorization)
    challenge = find_challenge(reply)
    assert reply.status == status
    if status == 200:
        assert challenge is None
        return
    port = vault.server_address[1]
    assert challenge.pop("error_description", None) == (
        reply.json["error"]["message"] if error else None)
    assert challenge == {**({"error": error} if error else {}), "scope": "notes:read",
                         "resource_metadata": f"http://127.0.0.1:{port}{METADATA_PATH}/mcp"}


BEARER = "Authorization: Bearer "
# What is wrong with a request, whether it has a token or not, and which of its faults answers.
GATES = {
    "another host, no token": (make_raw(b"").replace(b"127.0.0.1", b"evil.example"), 421),
    "another origin, no token": (make_raw(b"", "Origin: http://evil.example"), 403),
    "another origin, a token": (make_raw(b"", "Origin: null", BEARER + "reader"), 403),
    "another path, no token": (make_raw(b"", target="/other"), 404),
    "another path, a wrong token": (make_raw(b"", BEARER + "x", target="/other"), 404),
    **{f"{method}, no token": (make_raw(b"", method=method), 401)
       for method in ("GET", "HEAD", "DELETE", "PUT")},
    "GET, a token": (make_raw(b"", BEARER + "reader", method="GET"), 405),
    "no type, no token": (make_raw(b"{}").replace(b"application/json\r\nA", b"text/xml\r\nA"), 401),
    "no type, a wrong token": (
        make_raw(b"{}", BEARER + "x").replace(b"application/json\r\nA", b"text/xml\r\nA"), 401),
    "no type, a token": (
        make_raw(b"{}", BEARER + "reader").replace(b"application/json\r\nA", b"text/xml\r\nA"),
        415),
    "too long a body, no token": (make_raw(b"", "Content-Length: 99999999999", length=False), 401),
    "a body to wait for, no token": (make_raw(b"", "Content-Length: 50", length=False), 401),
    "a body that waits, a wrong token": (make_raw(
        b"", BEARER + "x", "Expect: 100-continue", "Content-Length: 50", length=False), 401),
    "the same token twice": (make_raw(b"{}", BEARER + "reader", BEARER + "reader"), 401),
    "a control character in a token": (make_raw(b"{}", BEARER + "rea\x01der"), 400),
    "a line end in a token": (make_raw(b"{}", BEARER + "rea\rder"), 400),
    "a letter that no token has": (make_raw(b"{}", BEARER + "\xe9"), 401),
    "a token of 60 KB": (make_raw(b"{}", BEARER + "a" * 60_000), 401),
    "a token of 64 KiB": (make_raw(b"{}", BEARER + "a" * 65_536), 431),
}


@cases(GATES)
def test_a_token_is_asked_for_after_host_origin_and_path_and_before_all_else(vault, case):
    data, status = case
    answer = send_raw(vault, data)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (b"\r\nWWW-Authenticate: Bearer " in answer) == (status == 401)
    assert b"Connection: close" in answer.split(b"\r\n")


def test_a_browser_that_asks_first_needs_no_token_and_reads_the_challenge(vault):
    page = {"Origin": "http://localhost:5173"}
    assert ask(vault, method="OPTIONS", **page).status == 204
    reply = ask(vault, call("ping"), **page)
    assert reply.status == 401 and find_challenge(reply)["scope"] == "notes:read"
    assert reply.headers["access-control-allow-origin"] == page["Origin"]
    assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]


def test_a_verdict_is_not_remembered_with_the_head_that_it_was_about():
    principals = dict(PRINCIPALS)
    with mcpkit.HTTPService(build_vault(principals.get), port=0) as service:
        data = make_raw(PING, BEARER + "reader")
        statuses = [send_raw(service, data)[9:12] for _ in range(2)]
        del principals["reader"]
        statuses.append(send_raw(service, data)[9:12])
    assert statuses == [b"200", b"200", b"401"]


# ---- what is published

METADATA = {"authorization_servers": [ISSUER], "scopes_supported": ["notes:read"],
            "bearer_methods_supported": ["header"], "resource_name": "vault"}


@pytest.mark.parametrize("sessions", [False, True])
def test_the_metadata_is_at_both_places_for_everybody(sessions):
    with mcpkit.HTTPService(build_vault(sessions=sessions), port=0) as service:
        for path in (METADATA_PATH, METADATA_PATH + "/mcp", METADATA_PATH + "/mcp?x=1"):
            reply = ask(service, method="GET", path=path, Origin="http://localhost:1",
                        MCP_Protocol_Version="2026-07-28", Accept="application/json")
            assert (reply.status, reply.json) == (200, {"resource": service.url, **METADATA})
            assert reply.headers["content-type"] == "application/json"
            assert reply.headers["access-control-allow-origin"] == "*"
            assert ask(service, method="GET", path=path, Authorization="Bearer x").status == 200
            assert ask(service, method="HEAD", path=path)[::2] == (200, b"")
            allow = ask(service, method="OPTIONS", path=path, Origin="http://localhost:1")
            assert allow.headers["access-control-allow-methods"] == "GET"
            posted = ask(service, call("ping"), path=path)
            assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")
            # It is public, so pages of any site may read it; what it tells of they may not use.
            for origin in ("http://elsewhere.example", "null"):
                assert ask(service, method="GET", path=path, Origin=origin).status == 200
                assert ask(service, call("ping"), Origin=origin).status == 403
        assert ask(service, method="GET", path=METADATA_PATH + "/other").status == 404


def test_behind_a_proxy_the_metadata_speaks_of_the_resource_that_clients_know():
    resource = "https://MCP.example.com/tools/mcp"
    server = build_vault(resource=resource, title="The Vault")
    with mcpkit.HTTPService(server, port=0) as service:
        for path in ("", "/mcp", "/tools/mcp"):
            reply = ask(service, method="GET", path=METADATA_PATH + path)
            assert reply.json == {"resource": resource, **METADATA, "resource_name": "The Vault"}
        assert find_challenge(ask(service, call("ping")))["resource_metadata"] == (
            f"https://mcp.example.com{METADATA_PATH}/tools/mcp")


def test_without_an_issuer_nothing_is_published_and_the_challenge_is_bare():
    with mcpkit.HTTPService(Server("x", auth=Auth.bearer(["secret"])), port=0) as service:
        assert find_challenge(ask(service, call("ping"))) == {"realm": "mcp"}
        assert ask(service, method="GET", path=METADATA_PATH).status == 404
        assert ask(service, call("ping"), Authorization="Bearer secret").status == 200


# ---- scopes of items

ITEMS = {
    "a tool": ("tools/call", {"name": "erase"}, {"name": "look"}),
    "a resource": ("resources/read", {"uri": "vault://closed"}, {"uri": "vault://open"}),
    "a template": ("resources/read", {"uri": "vault://closed/x"}, {"uri": "vault://open/x"}),
    "a prompt": ("prompts/get", {"name": "closed", "arguments": {"a": "b"}},
                 {"name": "open", "arguments": {"a": "b"}}),
    "a completion": ("completion/complete", {
        "ref": {"type": "ref/prompt", "name": "closed"}, "argument": {"name": "a", "value": ""}}, {
        "ref": {"type": "ref/prompt", "name": "open"}, "argument": {"name": "a", "value": ""}}),
}


def ask_in(era, service, method, params, token):
    headers = {"Authorization": f"Bearer {token}"}
    if era == "modern":
        return ask_modern(service, method, params, **headers)
    return ask(service, call(method, params), **headers)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@cases(ITEMS)
def test_an_item_with_scopes_is_for_tokens_that_have_them(vault, case, era):
    method, closed, free = case
    for token in ("writer", "admin", "root"):
        assert "result" in ask_in(era, vault, method, closed, token).json
    assert "result" in ask_in(era, vault, method, free, "reader").json
    reply = ask_in(era, vault, method, closed, "reader")
    assert (reply.status, reply.json["id"]) == (403, 1)
    assert reply.json["error"]["message"] == "the token lacks notes:write"
    challenge = find_challenge(reply)
    assert (challenge["error"], challenge["scope"]) == (
        "insufficient_scope", "notes:read notes:write")
    assert challenge["resource_metadata"].endswith(METADATA_PATH + "/mcp")


LISTED = {"tools/list": ("tools", ["whoami", "look"], ["whoami", "erase", "look"]),
          "resources/list": ("resources", ["open"], ["open", "closed"]),
          "resources/templates/list": ("resourceTemplates", ["open"], ["open", "closed"]),
          "prompts/list": ("prompts", ["open"], ["open", "closed"])}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_a_list_shows_what_the_caller_may_reach_on_pages_of_equal_size(era, page_size):
    def list_all(method, member, token):
        names, params = [], {}
        while params is not None:
            result = ask_in(era, service, method, params, token).json["result"]
            assert result["cacheScope"] == "private"
            names.append([item["name"] for item in result[member]])
            params = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
        assert {len(page) for page in names[:-1]} <= {page_size} and names[-1]
        return sum(names, [])

    with mcpkit.HTTPService(build_vault(page_size=page_size), port=0) as service:
        for method, (member, for_readers, for_writers) in LISTED.items():
            assert list_all(method, member, "reader") == for_readers
            assert list_all(method, member, "writer") == for_writers
            assert list_all(method, member, "root") == for_writers


def test_on_stdio_nobody_is_asked_and_everything_is_there():
    server = build_vault()
    tools = receive(server, call("tools/list"))["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["whoami", "erase", "look"]
    for name, text in (("erase", "erased"), ("whoami", "None")):
        assert receive(server, tool_call(name))["result"]["content"][0]["text"] == text


def test_a_handler_knows_who_calls(vault):
    for token, subject in (("reader.2", "ada"), ("admin", "eve")):
        reply = ask_in("modern", vault, "tools/call", {"name": "whoami"}, token)
        assert reply.json["result"]["content"][0]["text"] == subject


def test_a_session_is_there_for_who_opened_it_and_nobody_else():
    with mcpkit.HTTPService(build_vault(sessions=True), port=0) as service:
        def send(token, body=b"", method="POST"):
            return ask(service, body, method, Authorization=f"Bearer {token}", Mcp_Session_Id=opened,
                       **({"Accept": "text/event-stream"} if method == "GET" else {})).status

        opened = None
        reply = ask(service, call("initialize", {"protocolVersion": "2025-06-18"}),
                    Authorization="Bearer reader")
        opened = reply.headers["mcp-session-id"]
        assert [send(token, call("ping")) for token in ("reader", "writer", "root")] == [
            200, 404, 404]
        assert [send("writer", method=method) for method in ("GET", "DELETE")] == [404, 404]
        # Another token of the same subject, say a refreshed one, is as good.
        assert send("reader.2", call("ping")) == 200
        assert send("reader.2", method="DELETE") == 200
        assert send("reader", call("ping")) == 404


@pytest.mark.parametrize("change", ["revoked", "expired", "another scope", "cannot be asked"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_stream_that_stands_open_ends_with_its_token(monkeypatch, era, change):
    monkeypatch.setattr(mcpkit, "KEEP_ALIVE_SECONDS", 0.05)
    principals = {"reader": PRINCIPALS["reader"]}

    def verify(token):
        if principals[token] == "cannot be asked":
            raise TransportError("no answer")
        return principals[token]

    server, token = build_vault(verify, sessions=True), {"Authorization": "Bearer reader"}
    with mcpkit.HTTPService(server, port=0) as service, quiet_log(server):
        if era == "modern":
            stream = listen(service, {"toolsListChanged": True}, **token)
        else:
            reply = ask(service, call("initialize", {"protocolVersion": "2025-06-18"}), **token)
            stream = LiveStream(service, None, Accept="text/event-stream", **token,
                                Mcp_Session_Id=reply.headers["mcp-session-id"])
        with stream:
            server.add_tool(lambda: None, name="before")
            while "list_changed" not in stream.next_message()["method"]:
                pass
            principals["reader"] = {
                "revoked": None, "expired": PRINCIPALS["late"],
                "cannot be asked": "cannot be asked",
                "another scope": Principal("ada", ["notes:write"])}[change]
            rest, deadline = b"", time.monotonic() + WAIT      # beyond which comments might go on
            for data in iter(lambda: stream.response.read1(65536), b""):
                rest += data
                assert time.monotonic() < deadline
        ends = [json.loads(event.data) for event in SSEParser().feed(rest) if event.data]
        assert [end["result"]["resultType"] for end in ends] == ["complete"] * (era == "modern")


def test_a_stream_whose_token_stays_good_stays_open(monkeypatch):
    monkeypatch.setattr(mcpkit, "KEEP_ALIVE_SECONDS", 0.02)
    asked = []
    server = build_vault(lambda token: asked.append(token) or PRINCIPALS[token])
    with mcpkit.HTTPService(server, port=0) as service:
        with listen(service, {"toolsListChanged": True}, Authorization="Bearer reader") as stream:
            stream.next_message()
            assert wait_until(lambda: len(asked) > 3)
            server.add_tool(lambda: None, name="later")
            assert stream.next_message()["method"] == "notifications/tools/list_changed"


# ---- verifying


VERIFY_FAULTS = {
    "one that breaks": (fail_with(RuntimeError("secret of the house")), 500),
    "one that exits": (fail_with(SystemExit(3)), 500),
    "one that returns a name": (lambda token: "ada", 500),
    "one whose scopes are a text": (lambda token: Principal("ada", "notes:read"), 500),
    "one whose subject is none": (lambda token: Principal(None), 500),
    "one that cannot tell": (fail_with(TransportError("the table is locked")), 503),
}


@cases(VERIFY_FAULTS)
def test_a_verify_that_fails_lets_nobody_in_and_says_why_in_the_log_only(case):
    verify, status = case
    server = build_vault(verify)
    with quiet_log(server) as lines, mcpkit.HTTPService(server, port=0) as service:
        reply = ask(service, call("ping"), Authorization="Bearer secret-token")
    assert reply.status == status and find_challenge(reply) is None
    assert ("retry-after" in reply.headers) == (status == 503)
    assert len(lines) == 1 and b"house" not in reply.body and b"locked" not in reply.body
    assert "secret-token" not in lines[0]


# Claims by what is said of a token with them; `exp` and `nbf` count from now.
CLAIMS = by_outcome({
    None: {"none": {}, "in time": {"exp": 1000, "nbf": 0}, "a fraction": {"exp": 1000.5},
           "a clock ahead of ours": {"nbf": 20}, "us": {"aud": "https://mcp.example/mcp"},
           "us among others": {"aud": [OTHER, "an-id"]},
           "us in capitals": {"aud": "HTTPS://MCP.example/mcp/"},
           "the end of days": {"exp": 10 ** 400}},
    "this token has expired": {"now": {"exp": 0}, "long ago": {"exp": -10 ** 9}, "a text": {
        "exp": "2000"}, "true": {"exp": True}},
    "this token is not valid yet": {"later": {"nbf": 1031}, "never": {"nbf": "1"}},
    "this token was issued for another audience": {
        "others": {"aud": [OTHER]}, "nobody": {"aud": []}, "null": {"aud": None}, "a number": {
            "aud": 5}, "no texts": {"aud": [5, None]}, "an object": {"aud": {"an-id": 1}},
        "the endpoint, which has other names": {"aud": "http://127.0.0.1/mcp"},
        "another path": {"aud": "https://mcp.example/mcp2"},
        "another case of an id": {"aud": "An-Id"}, "no issue of scheme": {
            "aud": "http://mcp.example/mcp"}}})


@table("fault, claims", CLAIMS)
def test_the_claims_of_a_token_are_held_against_clock_and_audience(fault, claims):
    claims = {name: value + int(time.time()) if type(value) in (int, float) and name != "aud"
              else value for name, value in claims.items()}
    auth = Auth(lambda token: Principal("ada", (), claims),
                audience=["https://mcp.example/mcp", "an-id"])
    with mcpkit.HTTPService(Server("x", auth=auth), port=0) as service:
        reply = ask(service, call("ping"), Authorization="Bearer t")
    assert reply.status == (401 if fault else 200)
    assert fault is None or reply.json["error"]["message"] == fault


def test_scopes_imply_others_at_any_remove_and_in_circles():
    server = Server("x", auth=Auth(lambda token: Principal("ada", [token]), implied_scopes={
        "a": ["b", "c"], "b": ["a"], "c": ["d"]}))

    @server.tool
    def scopes(ctx: Context) -> str:
        return " ".join(sorted(ctx.principal.scopes))

    with mcpkit.HTTPService(server, port=0) as service:
        for token, text in (("a", "a b c d"), ("d", "d"), ("x", "x")):
            reply = ask(service, tool_call("scopes"), Authorization=f"Bearer {token}")
            assert reply.json["result"]["content"][0]["text"] == text


def test_fixed_tokens_are_all_compared_wherever_one_fits(monkeypatch):
    verify, compared = Auth.bearer(["one", "two", "three"]).verify, []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest",
                        lambda *both: compared.append(both) or compare(*both))
    for token, number in (("one", 1), ("two", 2), ("three", 3), ("two ", None), ("", None)):
        assert verify(token) == (number and Principal(f"token {number}", None))
    assert len(compared) == 15 and {len(part) for both in compared for part in both} == {32}


AUTH_FAULTS = {
    "no function": (lambda: Auth("secret"), "a function that takes a token"),
    "a token for a list": (lambda: Auth.bearer("secret"), "must be a list"),
    "no tokens": (lambda: Auth.bearer([]), "no caller could be let in"),
    "a token with a blank": (lambda: Auth.bearer(["a", "b c"]), "token 2 cannot stand"),
    "a token with a line end": (lambda: Auth.bearer(["a\n"]), "token 1 cannot stand"),
    "a text for scopes": (lambda: Auth(len, scopes="a b"), "scopes must be a list"),
    "two scopes in one": (lambda: Auth(len, scopes=["a b"]), "has no spaces"),
    "an issuer without TLS": (
        lambda: Auth(len, authorization_servers=["http://login.example"]), "must be at an https"),
    "an issuer for a list": (
        lambda: Auth(len, authorization_servers=ISSUER), "must be a list"),
    "a resource without scheme": (lambda: Auth(len, resource="mcp.example"), "a resource is"),
    "a resource with a fragment": (lambda: Auth(len, resource=OTHER + "#a"), "a resource is"),
    "a resource with a quote": (lambda: Auth(len, resource=OTHER + '"'), "a resource is"),
    "a resource with a line end": (lambda: Auth(len, resource=OTHER + "\n"), "a resource is"),
    "an endpoint without TLS": (
        lambda: Auth.introspection("http://login.example/", "a", "b"), "must be at an https"),
    "a user in an endpoint": (
        lambda: Auth.introspection("http://localhost@login.example/", "a", "b"), "must be at"),
    "an auth that is none": (lambda: Server("x", auth=len), "auth must be an object"),
    "scopes that nobody has": (
        lambda: Server("x").tool(scopes=["a"])(lambda: None), "would not be checked"),
    "scopes of a tool in a text": (
        lambda: build_vault().tool(name="t", scopes="a")(lambda: None), "must be a list"),
    "all addresses and no resource": (
        lambda: mcpkit.HTTPService(build_vault(), "0.0.0.0", 0), "as resource="),
}


@cases(AUTH_FAULTS)
def test_an_auth_that_cannot_work_is_refused_at_once(case):
    make, words = case
    with pytest.raises(UsageError, match=re.escape(words)):
        make()


def test_issuers_and_endpoints_on_this_machine_need_no_tls():
    for host in ("127.0.0.1:9", "localhost", "[::1]:9"):
        assert Auth.introspection(f"http://{host}/a?b", "a", "b",
                                  authorization_servers=[f"http://{host}"])


# ---- introspection. Spec: RFC 7662.

ACTIVE = {"active": True, "sub": "ada", "scope": "notes:read  notes:write", "aud": OTHER}


@contextlib.contextmanager
def open_verify(answer, **options):
    """Yield the `verify` of an introspection whose endpoint gives an answer, and the endpoint."""
    status, body = answer if isinstance(answer, tuple) else ("200 OK", answer)
    with Peer(lambda asked: http_answer(body, status)) as peer:
        yield Auth.introspection(peer.url, "id", "secret", **options).verify, peer


INTROSPECTED = {
    "active": (ACTIVE, ("ada", {"notes:read", "notes:write"}, OTHER)),
    "a client of its own": ({"active": True, "client_id": "robot"}, ("robot", set(), ())),
    "a subject that is none": ({"active": True, "sub": 5, "client_id": ""}, (..., set(), ())),
    "scopes in a list": ({**ACTIVE, "scope": ["a"]}, ("ada", set(), OTHER)),
    "an end beyond all numbers": ({**ACTIVE, "exp": 10 ** 400, "scope": ""}, ("ada", set(), OTHER)),
    "active false": ({"active": False, "sub": "ada"}, None),
    "no active": ({"sub": "ada"}, ProtocolError),
    "active in a text": ({"active": "true"}, ProtocolError), "no object": ([], ProtocolError),
    "no JSON": (b"<html>", ProtocolError), "nothing": (b"", ProtocolError),
    "a server error": (("500 No", ACTIVE), ProtocolError),
    "a redirect": (("302 Found", ACTIVE), ProtocolError),
    "credentials refused": (("401 No", {"error": "invalid_client"}), ProtocolError),
    "deep nesting": (b"[" * 100_000, ProtocolError),
}


@cases(INTROSPECTED)
def test_an_introspection_answer_becomes_a_principal_nobody_or_an_error(case):
    answer, outcome = case
    with open_verify(answer) as (verify, peer):
        found = find_error(verify, "t")
        find_error(verify, "t")
    if outcome is None or isinstance(outcome, type):
        assert found is None if outcome is None else type(found) is outcome
        assert len(peer.asked) == (1 if outcome is None else 2)    # a failure is not remembered
        return
    subject, scopes, audience = outcome
    assert subject in (found.subject, ...) and len(found.subject) > 2
    assert (found.scopes, found.claims["aud"], len(peer.asked)) == (scopes, audience, 1)
    with pytest.raises(TypeError):
        found.claims["sub"] = "eve"


@table("claims, cache_seconds, count", {
    "a token without end": ({}, 60, 1), "one that ends later": ({"exp": 10 ** 11}, 60, 1),
    "one that has ended": ({"exp": 1}, 60, 2), "no memory": ({}, 0, 2)})
def test_an_answer_is_remembered_for_a_while_and_never_beyond_the_end_of_its_token(
        claims, cache_seconds, count):
    with open_verify({**ACTIVE, **claims}, cache_seconds=cache_seconds) as (verify, peer):
        assert [verify("t").subject, verify("t").subject] == ["ada", "ada"]
    assert len(peer.asked) == count


def test_the_memory_of_tokens_is_bounded_and_holds_no_token(monkeypatch):
    monkeypatch.setattr(mcpkit, "MAX_KNOWN_TOKENS", 3)
    with open_verify(ACTIVE) as (verify, peer):
        for token in ("one", "two", "three", "one", "four", "four", "one"):     # one made room
            verify(token)
    assert [asked.message["token"] for asked in peer.asked] == [
        "one", "two", "three", "four", "one"]
    assert not any(token in repr(vars(verify)) for token in ("two", "three", "four"))


@contextlib.contextmanager
def introspected(answer, **options):
    """Serve a vault whose tokens a scripted endpoint judges; give the service and the endpoint."""
    with Peer(answer) as peer:
        server = build_vault()
        server.auth = Auth.introspection(peer.url, "my id", "s:ecret", scopes=["notes:read"],
                                         authorization_servers=[peer.url], **options)
        with quiet_log(server) as peer.log, mcpkit.HTTPService(server, port=0) as service:
            yield service, peer


def test_an_endpoint_is_asked_once_a_token_with_our_own_credentials():
    def judge(asked):
        answer = {"active": asked.message["token"] == "good", "sub": "ada",
                  "scope": "notes:read", "aud": ["x", service.url]}
        return http_answer(answer)

    with introspected(judge) as (service, peer):
        statuses = [ask(service, call("ping"), Authorization=f"Bearer {token}").status
                    for token in ("good", "good", "bad", "bad", "good")]
    assert statuses == [200, 200, 401, 401, 200]
    assert [asked.message for asked in peer.asked] == [
        {"token": token, "token_type_hint": "access_token"} for token in ("good", "bad")]
    asked = peer.asked[0]
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.headers["authorization"] == "Basic bXkraWQ6cyUzQWVjcmV0"    # my+id:s%3Aecret


def judging(**claims):
    answer = {"active": True, "sub": "ada", "scope": "notes:read", **claims}
    return lambda asked: http_answer(answer)


JUDGED = {
    "one for another audience": (judging(aud=OTHER), 401, "another audience"),
    "one that names no audience": (judging(), 401, "another audience"),
    "one that has expired": (judging(exp=1, aud=OTHER), 401, "has expired"),
    "one that is revoked": (lambda asked: http_answer({"active": False}), 401, "revoked"),
    "an endpoint that knows us not": (lambda asked: http_answer(b"", "401 No"), 503, None),
    "an endpoint that says nothing": (lambda asked: b"", 503, None),
    "an endpoint that says too much": (lambda asked: http_answer(b" " * 300_000), 503, None),
}


@cases(JUDGED)
def test_a_token_that_an_endpoint_refuses_is_401_and_an_endpoint_that_fails_is_503(case):
    judge, status, words = case
    with introspected(judge) as (service, peer):
        reply = ask(service, call("ping"), Authorization="Bearer secret-token")
    assert reply.status == status and (words or "try again soon") in reply.json["error"]["message"]
    assert len(peer.log) == (status == 503) and "secret-token" not in "".join(peer.log)
    assert ("retry-after" in reply.headers) == (status == 503)


def test_an_endpoint_that_is_silent_or_gone_is_503_within_the_time_limit():
    release = threading.Event()

    def wait(asked):
        release.wait(WAIT)
        return b""

    with introspected(wait, timeout=0.05) as (service, peer):
        assert ask(service, call("ping"), Authorization="Bearer t").status == 503
        release.set()
        peer.__exit__()
        assert ask(service, call("ping"), Authorization="Bearer t").status == 503
        assert "no answer for 0.05 s" in peer.log[0] and len(peer.log) == 2


def test_a_caller_is_not_told_of_resources_that_it_may_not_read():
    server = Server("guarded", auth=Auth(lambda token: Principal("ada", ["notes:read"])))
    server.add_resource(lambda: "", uri="open:")
    server.add_resource(lambda: "", uri="secret:", scopes=["admin"])
    wanted = {"resourceSubscriptions": ["open:", "secret:"]}
    with mcpkit.HTTPService(server, port=0) as service:
        with listen(service, wanted, Authorization="Bearer t") as stream:
            granted = stream.next_message()["params"]["notifications"]
    assert granted == {"resourceSubscriptions": ["open:"]}


def test_serve_lets_in_who_has_a_token_of_the_file_or_the_variable(tmp_path, monkeypatch):
    (tmp_path / "tokens").write_text("\ufeff# of the team\n\n  one-token  \r\ntwo.token==", "utf-8")
    monkeypatch.setenv("TEAM_TOKEN", "three-token\n")
    with serving("--token-file", str(tmp_path / "tokens"), "--token-env", "TEAM_TOKEN") as url:
        def code(token):
            return run("call", url, "pong", "message=x", "--header", f"Authorization: {token}").code
        assert [code(f"Bearer {token}") for token in ("one-token", "two.token==", "three-token")] == [
            0, 0, 0]
        assert [code(words) for words in ("Bearer # of the team", "Bearer four", "Basic x")] == [
            1, 1, 1]


TOKEN_FAULTS = {
    "a variable that is not set": (["--token-env", "NO_SUCH_TOKEN"],
                                   "the variable NO_SUCH_TOKEN holds no token: put one"),
    "an empty variable": (["--token-env", "EMPTY_TOKEN"], "the variable EMPTY_TOKEN holds no"),
    "a file that is not there": (["--token-file", "no/such/file"], "cannot be read"),
    "an empty file": (["--token-file", os.devnull], "holds no token: put one"),
    "a token that no header can carry": (["--token-env", "ODD_TOKEN"], "token 1 cannot stand in"),
    "a token for stdio": (["--stdio", "--token-env", "GOOD_TOKEN"], "--stdio asks for no token"),
}


@cases(TOKEN_FAULTS)
def test_tokens_that_cannot_be_asked_for_are_a_mistake_that_is_told(case, monkeypatch):
    words, advice = case
    for name, value in {"EMPTY": " \n", "ODD": "sec ret-token", "GOOD": "good-token"}.items():
        monkeypatch.setenv(f"{name}_TOKEN", value)
    ran = run("serve", "--port", "0", *words)
    assert ran.code == 2 and advice in ran.err and ran.err.count("\n") == 1
    assert "ret-token" not in ran.err and "good-token" not in ran.err


# =============================================================================================
# 21. TASKS
# =============================================================================================
TASKS = "io.modelcontextprotocol/tasks"
CAN_TASKS = {**CAN_ANSWER, "extensions": {TASKS: {}}}
AGREED = {"action": "accept", "content": {"name": "Ada", "confirm": True}}
ENDED = ("completed", "failed", "cancelled")


def send_modern(server, method, params, capabilities=CAN_TASKS, principal=None):
    """Return the result of a modern request, or the MCPError that it is instead."""
    channel = mcpkit.Channel()
    channel.principal = principal
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    answer = receive(server, call(method, {**params, "_meta": meta}), channel=channel)
    if "error" in answer:
        error = answer["error"]
        return MCPError(error["code"], error["message"], error.get("data"))
    return answer["result"]


def call_task(server, name, capabilities=CAN_TASKS, **arguments):
    return send_modern(server, "tools/call", {"name": name, "arguments": arguments}, capabilities)


def get_task(server, task, method="tasks/get", principal=None, **params):
    """Return what a request about a task gives, without what every result has."""
    answer = send_modern(server, method, {"taskId": task["taskId"], **params},
                         principal=principal)
    if isinstance(answer, dict):
        assert answer.pop("resultType") == "complete"
        assert list(answer.pop("_meta")) == ["io.modelcontextprotocol/serverInfo"]
    return answer


def give(server, task, **answers):
    return get_task(server, task, "tasks/update", inputResponses=answers)


def wait_for(is_so):
    """Wait until something is so of which nothing tells."""
    deadline, pause = time.monotonic() + WAIT, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline
        pause.wait(0.01)


def until(server, task, *statuses):
    """Return what `tasks/get` says once the task is in one of these states, or has ended."""
    looks = []
    wait_for(lambda: looks.append(get_task(server, task)) or looks[-1]["status"] in (
        *statuses, *ENDED))
    return looks[-1]


def run_task(server, name, **arguments):
    """Return the end of a task that asks nothing."""
    return until(server, call_task(server, name, **arguments))


def find_end(task):
    return task["result"]["content"][0]["text"]


def build_task_server(offset=(0,), **options):
    """Return a server whose tools run as tasks; `server.gate` lets `wait` go on.

    Its clock is ahead by what `offset` holds; what happened is in `server.seen`.
    """
    options.setdefault("runtime", Server("x").runtime._replace(
        now=lambda: time.monotonic() + offset[0], wall_now=lambda: time.time() + offset[0]))
    server = Server("jobs", sessions=True, **options)
    server.gate, server.seen = threading.Event(), []

    @server.tool(task="optional")
    def add(a: int, b: int = 1) -> int:
        return a + b

    def wait(ctx):
        ctx.progress(1, 2, "waiting")
        ctx.progress(1, 2, "this is no progress")
        ctx.progress(2, 2)
        ctx.log("error", "this is sent to none")
        server.gate.wait(WAIT)
        server.seen.append(ctx.cancelled)
        return "waited"

    def until_cancelled(ctx):
        wait_for(lambda: ctx.cancelled)
        server.seen.append("cancelled")

    def confirm(ctx):
        server.seen.append("confirm")
        try:
            return ctx.elicit("Your name?", NAME_FORM).content["name"]
        finally:
            server.seen.append("confirmed")

    def both(ctx):
        answers = ctx.ask({"name": mcpkit.Elicitation("Name?", NAME_FORM),
                           "order": mcpkit.Elicitation("What?", Order)})
        again = ctx.ask({"name": mcpkit.Elicitation("Name, again?", NAME_FORM)})
        return f"{answers['order'].content.color.name} {again['name'].content['name']}"

    def prepare(ctx):
        server.seen.append("prepare")
        names = [ctx.elicit(f"{word}?", NAME_FORM, key=word).content["name"]
                 for word in ("First", "Second")]
        ctx.start_task()
        server.gate.wait(WAIT)
        return "".join(names) + ctx.sample("Third?")["model"]

    def add_tool(handler, name=None, **options):
        def run(ctx: Context):
            return handler(ctx)
        server.add_tool(run, name=name or handler.__name__, **{"task": "optional", **options})
    add_tool(lambda ctx: server.seen.append("must"), "must", task="required")
    add_tool(fail_with(ToolError("no luck")), "fail")
    add_tool(fail_with(MCPError(-32050, "not today", {"try": "tomorrow"})), "refuse")
    add_tool(fail_with(RuntimeError("secret of the house")), "crash")
    add_tool(lambda ctx: ToolResult(content=[object()]), "unsendable")
    add_tool(wait, task_seconds=50, poll_seconds=0.25)
    add_tool(prepare, task="required", asks="before")
    add_tool(lambda ctx: ctx.elicit("Name?", NAME_FORM).content["name"], "ask_and_end",
             asks="before")
    add_tool(fail_with(MCPError(-32050, "not today")), "fail_before", asks="before")
    for handler in (until_cancelled, confirm, both):
        add_tool(handler)
    return server


def test_a_call_that_becomes_a_task_is_answered_with_its_handle_and_nothing_else():
    server = build_task_server(runtime=Server("x").runtime._replace(wall_now=lambda: 1e9 + 0.25))
    handle = call_task(server, "wait")
    assert re.fullmatch("[0-9a-f]{32}", handle.pop("taskId"))
    del handle["_meta"]
    assert handle == {"resultType": "task", "status": "working", "ttlMs": 50_000,
                      "pollIntervalMs": 250, "createdAt": "2001-09-09T01:46:40.250Z",
                      "lastUpdatedAt": "2001-09-09T01:46:40.250Z"}
    server.gate.set()


@cases({"a result": ("add", {"a": 2}), "a tool's failure is a result": ("fail", {}),
        "a tool that crashes has a result that says nothing of it": ("crash", {}),
        "an error of the method is the end of the task": ("refuse", {}),
        "what cannot be sent is an internal error": ("unsendable", {})})
def test_a_task_ends_with_what_the_call_would_have_given(case):
    name, arguments = case
    server = build_task_server()
    with quiet_log(server):
        direct = call_task(server, name, META, **arguments)
        task = run_task(server, name, **arguments)
    if isinstance(direct, MCPError):
        assert (task["status"], task["error"]) == ("failed", direct.to_wire())
        assert task["statusMessage"] == direct.message
    else:
        assert (task["status"], task["result"]) == ("completed", direct)
    assert ("error" in task) != ("result" in task)


@cases({"nothing declared": {}, "another extension": {"extensions": {"com.example/x": {}}},
        "something that is no object": {"extensions": {TASKS: True}},
        "the capability of 2025-11-25": {"tasks": {"requests": {"tools": {"call": {}}}}}})
def test_a_client_without_the_extension_never_gets_a_task(case):
    server = build_task_server()
    assert call_task(server, "add", case, a=2)["structuredContent"] == 3
    stray = send_modern(server, "tools/call", {"name": "add", "arguments": {"a": 1},
                                               "task": {"ttl": 5}}, case)
    assert stray["structuredContent"] == 2
    refusal = call_task(server, "must", case)
    assert (refusal.code, refusal.data) == (-32021, {"requiredCapabilities": {
        "extensions": {TASKS: {}}}})
    assert server.seen == []


def test_a_legacy_client_never_gets_a_task_whatever_it_declares():
    server = build_task_server()
    told = [call_legacy(server, tool_call(name, **arguments), capabilities=CAN_TASKS)[0]
            for name, arguments in (("add", {"a": 2}), ("confirm", {}), ("ask_and_end", {}),
                                    ("must", {}))]
    assert list(map(find_text, told[:3])) == ["3", "Ada", "Ada"]
    assert told[3]["error"]["code"] == -32021


TASK_METHODS = {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}


@pytest.mark.parametrize("method", TASK_METHODS)
def test_a_request_about_a_task_needs_the_extension_before_a_task_and_a_task_after(method):
    server, params = build_task_server(), {"taskId": "nope", **TASK_METHODS[method]}
    for wrong in (params, {**params, "taskId": 7}):
        assert send_modern(server, method, wrong, {}).code == -32021
        assert send_modern(server, method, wrong).code == -32602
    assert send_modern(server, method, params).message == (
        "Unknown task: nope has expired, or never was")
    assert send_modern(build_asking_server(), method, params).code == -32601
    assert receive(server, call(method, params))["error"]["code"] == -32601


@cases({"an update without answers": ("tasks/update", CAN_TASKS, -32602),
        "a result": ("tasks/result", CAN_TASKS, -32601), "a list": ("tasks/list", CAN_TASKS, -32601),
        "listening without the extension": ("subscriptions/listen", {}, -32021)})
def test_what_the_extension_does_not_have_is_refused(case):
    method, capabilities, code = case
    assert send_modern(build_task_server(), method, {
        "taskId": "x", "notifications": {"taskIds": ["x"]}}, capabilities).code == code


def test_the_extension_is_declared_if_a_tool_may_be_a_task_and_to_modern_clients_only():
    server = build_task_server()
    discovered = send_modern(server, "server/discover", {}, {})["capabilities"]
    assert discovered["extensions"] == {TASKS: {}} and "tasks" not in discovered
    opened = receive(server, call("initialize", {"protocolVersion": "2025-11-25"}))["result"]
    assert set(opened["capabilities"]) == {"logging", "tools"}
    plain = send_modern(build_asking_server(), "server/discover", {}, {})["capabilities"]
    assert "extensions" not in plain


def test_over_http_a_task_has_its_id_in_a_header_and_who_listens_sees_each_change_of_it():
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": CAN_TASKS}
    with mcpkit.HTTPService(build_task_server(), port=0) as service:
        tasks = [ask_modern(service, "tools/call", {"name": name, "arguments": {}, "_meta": meta},
                            ).json["result"]["taskId"] for name in ("confirm", "both")]
        about = {"taskId": tasks[0], "_meta": meta}
        assert ask_modern(service, "tasks/get", about).json["result"]["taskId"] == tasks[0]
        wrong = ask_modern(service, "tasks/get", about, Mcp_Name="another")
        assert (wrong.status, wrong.json["error"]["code"]) == (400, -32020)
        refused = ask_modern(service, "tasks/get", {"taskId": tasks[0]})
        assert (refused.status, refused.json["error"]["code"]) == (400, -32021)
        message = call("subscriptions/listen", {"_meta": meta, "notifications": {
            "taskIds": [tasks[0], "unknown"]}}, 5)
        wait_for(lambda: ask_modern(service, "tasks/get", about).json["result"]["status"]
                 == "input_required")
        with LiveStream(service, message, MCP_Protocol_Version="2026-07-28",
                        Mcp_Method="subscriptions/listen") as stream:
            first = stream.next_message()["params"]
            for task in reversed(tasks):
                ask_modern(service, "tasks/cancel" if task == tasks[1] else "tasks/update", {
                    "taskId": task, "_meta": meta, "inputResponses": {"elicitation": AGREED}})
            told = [stream.next_message() for _ in range(2)]
    mark = {"_meta": {"io.modelcontextprotocol/subscriptionId": 5}}
    assert first == {"notifications": {"taskIds": [tasks[0]]}, **mark}
    assert [(message["method"], message["params"]["taskId"], message["params"]["status"])
            for message in told] == [("notifications/tasks", tasks[0], "working"),
                                     ("notifications/tasks", tasks[0], "completed")]
    assert told[0]["params"].items() >= mark.items()


def test_a_task_shows_the_messages_of_its_progress_and_drops_its_logs():
    server = build_task_server()
    task = call_task(server, "wait")
    wait_for(lambda: get_task(server, task).get("statusMessage") == "waiting")
    server.gate.set()
    done = until(server, task)
    assert done["status"] == "completed" and "statusMessage" not in done


def test_a_cancelled_task_is_over_at_once_and_stays_so():
    server = build_task_server()
    task = call_task(server, "wait")
    assert get_task(server, task, "tasks/cancel") == {}
    seen = get_task(server, task)
    assert (seen["status"], seen["statusMessage"]) == ("cancelled", "cancelled by the client")
    assert set(seen) == {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt",
                         "ttlMs", "pollIntervalMs"}
    server.gate.set()
    wait_for(lambda: server.seen == [True])
    for method, params in TASK_METHODS.items():
        assert get_task(server, task, method, **params) in ({}, seen)
    assert get_task(server, task) == seen


def test_a_task_asks_and_goes_on_with_the_answer_where_it_was():
    server = build_task_server()
    task = call_task(server, "confirm")
    seen = until(server, task, "input_required")
    assert seen["inputRequests"] == {"elicitation": {
        "method": "elicitation/create",
        "params": {"message": "Your name?", "requestedSchema": NAME_FORM}}}
    assert give(server, task, stranger=AGREED, another=7) == {}
    assert get_task(server, task) == seen
    for wrong in (7, {}, {"action": "accept", "content": {"name": 7}}):
        refused = give(server, task, elicitation=wrong)
        assert refused.code == -32602 and "Invalid answer to elicitation: " in refused.message
        assert get_task(server, task) == seen
    assert give(server, task, elicitation=AGREED) == {}
    assert find_end(until(server, task)) == "Ada"
    assert server.seen == ["confirm", "confirmed"]
    assert give(server, task, elicitation=AGREED) == {}              # without effect


def test_what_a_task_asks_at_once_is_answered_one_by_one_and_never_under_the_same_key_again():
    server = build_task_server()
    task = call_task(server, "both")
    assert set(until(server, task, "input_required")["inputRequests"]) == {"name", "order"}
    give(server, task, name=AGREED)
    seen = get_task(server, task)
    assert (seen["status"], set(seen["inputRequests"])) == ("input_required", {"order"})
    give(server, task, name=AGREED, order={"action": "accept", "content": {
        "item": "pen", "color": "blue"}})
    assert set(until(server, task, "input_required")["inputRequests"]) == {"name-2"}
    give(server, task, **{"name-2": AGREED})
    assert find_end(until(server, task)) == "BLUE Ada"


def test_a_task_asks_only_what_its_client_declared_and_not_after_it_was_cancelled():
    server = build_task_server()
    refused = until(server, call_task(server, "confirm", {"extensions": {TASKS: {}}}))
    assert (refused["status"], refused["error"]["code"]) == ("failed", -32021)
    task = call_task(server, "confirm")
    until(server, task, "input_required")
    get_task(server, task, "tasks/cancel")
    wait_for(lambda: server.seen == ["confirm", "confirmed"] * 2)
    assert get_task(server, task)["status"] == "cancelled"


def call_rounds(server, name, rounds, **arguments):
    """Return the results of a call whose questions are answered round by round."""
    params, results = {"name": name, "arguments": arguments}, []
    for _ in range(rounds):
        result = send_modern(server, "tools/call", params)
        results.append(result)
        if result["resultType"] == "input_required":
            params = {**params, "requestState": result["requestState"],
                      "inputResponses": dict.fromkeys(result["inputRequests"], AGREED)}
    return results


def test_a_tool_that_asks_before_becomes_a_task_after_its_last_question():
    server = build_task_server()
    first, second, task = call_rounds(server, "prepare", 3)
    assert [result["resultType"] for result in (first, second, task)] == [
        "input_required", "input_required", "task"]
    assert "taskId" not in {**first, **second}
    assert not {"requestState", "inputRequests"} & set(task)
    assert server.seen == ["prepare"] * 3
    assert get_task(server, task)["status"] == "working"
    server.gate.set()                    # what is asked after the start is asked within the task
    assert set(until(server, task, "input_required")["inputRequests"]) == {"sampling"}
    give(server, task, sampling=ANSWERS["sampling/createMessage"])
    assert find_end(until(server, task)) == "AdaAdam"


def test_a_tool_that_asks_before_and_just_ends_is_a_task_at_its_end():
    server = build_task_server()
    first, task = call_rounds(server, "ask_and_end", 2)
    assert (first["resultType"], task["resultType"]) == ("input_required", "task")
    assert find_end(until(server, task)) == "Ada"


def test_what_fails_before_there_is_a_task_is_the_error_of_the_call():
    server = build_task_server(max_running_tasks=1)
    first, = call_rounds(server, "ask_and_end", 1)
    asked = []
    for name, capabilities, params, code in (
            ("fail_before", CAN_TASKS, {}, -32050),
            ("prepare", {"extensions": {TASKS: {}}}, {}, -32021),
            ("prepare", CAN_TASKS, {"requestState": first["requestState"],
                                    "inputResponses": {"elicitation": AGREED}}, -32602)):
        wait_for(lambda: asked.append(send_modern(server, "tools/call", {
            "name": name, **params}, capabilities)) or asked[-1].code != -32603)
        assert asked[-1].code == code
    broken = call_task(server, "add", a="x")
    assert broken["isError"] and broken["resultType"] == "complete"


def test_start_task_changes_nothing_if_a_call_is_no_task():
    server = build_asking_server()

    @server.tool
    def plain(ctx: Context) -> str:
        ctx.start_task()
        return ctx.elicit("Name?", NAME_FORM).content["name"]

    for ask_in_era in (call_legacy, call_modern):
        assert find_text(ask_in_era(server, tool_call("plain"), capabilities=CAN_TASKS)[0]) == "Ada"


# ---- limits

def test_only_so_many_tasks_run_and_an_end_makes_room():
    server = build_task_server(max_running_tasks=2)
    tasks = [call_task(server, "wait") for _ in range(2)]
    refused = call_task(server, "add", a=1)
    assert (refused.code, refused.message) == (
        -32603, "Too many tasks: no more than 2 run here at a time; try again later")
    get_task(server, tasks[0], "tasks/cancel")
    assert call_task(server, "add", a=1).code == -32603       # its thread still runs
    server.gate.set()
    assert until(server, tasks[1])["status"] == "completed"
    wait_for(lambda: isinstance(call_task(server, "add", a=1), dict))


def test_a_call_is_refused_if_no_thread_is_to_be_had_and_leaves_nothing_behind():
    faults = [RuntimeError("can't start new thread")] * 3
    real = Server("x").runtime

    def start_thread(run):
        if faults:
            raise faults.pop()
        return real.start_thread(run)
    server = build_task_server(runtime=real._replace(start_thread=start_thread), max_tasks=1,
                               max_running_tasks=1)
    assert [call_task(server, "add", a=1).code for _ in range(3)] == [-32603] * 3
    assert run_task(server, "add", a=1)["status"] == "completed"


@pytest.mark.parametrize("state", [None, "state"])
def test_only_so_many_tasks_are_kept_and_those_that_ended_first_make_room(tmp_path, state):
    server = build_task_server(max_tasks=2, state=state and tmp_path / state)
    first, second, third = (run_task(server, "add", a=number) for number in range(3))
    assert get_task(server, first).code == -32602
    assert [get_task(server, task)["status"] for task in (second, third)] == ["completed"] * 2
    waiting = [call_task(server, "wait") for _ in range(2)]
    refused = call_task(server, "add", a=1)
    assert refused.message == ("Too many tasks: 2 are kept here and none has ended; "
                               "try again later")
    assert [get_task(server, task)["status"] for task in waiting] == ["working"] * 2
    server.gate.set()
    server.close()


@pytest.mark.parametrize("state", [None, "state"])
def test_a_task_is_forgotten_when_its_time_is_over_and_its_handler_sees_that(tmp_path, state):
    offset = [0.0]
    server = build_task_server(offset, task_seconds=60, state=state and tmp_path / state)
    done, waiting = run_task(server, "add", a=1), call_task(server, "until_cancelled")
    assert (done["ttlMs"], waiting["ttlMs"]) == (60_000, 60_000)
    offset[0] = 50
    assert get_task(server, done)["status"] == "completed"
    assert get_task(server, waiting)["status"] == "working"
    offset[0] = 60
    assert get_task(server, done).code == get_task(server, waiting).code == -32602
    wait_for(lambda: server.seen == ["cancelled"])
    server.close()


def test_a_task_may_be_kept_for_ever_and_its_ttl_is_a_number_all_the_same():
    server = Server("x", task_seconds=float("inf"))
    server.tool(name="t", task="required", poll_seconds=1e-9)(lambda: "x")
    handle = call_task(server, "t")
    assert (handle["ttlMs"], handle["pollIntervalMs"]) == (10 ** 12, 1)


@cases({"that must not be": dict(task="never"),
        "that asks afterwards": dict(task="optional", asks="after"),
        "that is kept for no time": dict(task="optional", task_seconds=0),
        "to be looked at all the time": dict(task="optional", poll_seconds=float("nan"))})
def test_a_tool_that_could_be_no_task_is_refused_at_once(case):
    with pytest.raises(MCPKitError):
        Server("x").tool(**case)(lambda: None)


def test_a_task_is_known_only_to_who_started_it():
    server, ada, bob = build_task_server(), Principal("ada", None), Principal("bob", None)
    task = send_modern(server, "tools/call", {"name": "add", "arguments": {"a": 1}},
                       principal=ada)
    for method, params in TASK_METHODS.items():
        for other in (bob, None):
            refused = get_task(server, task, method, other, **params)
            assert (refused.code, refused.message) == (
                -32602, f"Unknown task: {task['taskId']} has expired, or never was")
    assert get_task(server, task, principal=ada)["taskId"] == task["taskId"]


def test_garbage_about_a_task_is_never_an_internal_error():
    server = build_task_server()
    task = call_task(server, "both")
    until(server, task, "input_required")
    odd_values = [None, 0, "", "x", [], {}, {"x": 1}, [1], True, "\ud800", "x" * 5000, 1e300]
    choose = random.Random(11)
    for _ in range(300):
        odd = choose.choice(odd_values)
        params = {"taskId": choose.choice([task["taskId"], odd]),
                  "inputResponses": choose.choice([
                      odd, {choose.choice(["name", "order", "x"]): choose.choice([
                          odd, {"action": odd}, {"action": "accept", "content": odd}])}])}
        answer = send_modern(server, choose.choice(["tasks/get", "tasks/update"]), params)
        assert isinstance(answer, dict) or answer.code == -32602, params
    get_task(server, task, "tasks/cancel")


@table("state", {"memory": None, "a file": "state"})
def test_any_text_for_an_id_is_not_found_and_no_fault(tmp_path, state):
    server = build_task_server(state=state and tmp_path / state)
    for text in ("\ud800", "a\0b", "a\udc00", "\u65e5", "' OR 1 --", "", "x" * 20_000):
        assert send_modern(server, "tasks/get", {"taskId": text}).code == -32602
        assert "_meta" in send_modern(server, "subscriptions/listen", {"notifications": {
            "taskIds": [text], "resourceSubscriptions": [text]}})
    server.close()


# ---- in a file

def list_files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("state", [None, "state"])
def test_a_server_that_was_closed_begins_no_task_and_those_that_ran_are_cancelled(tmp_path, state):
    server = build_task_server(state=state and tmp_path / state)
    done, waiting = run_task(server, "add", a=1), call_task(server, "until_cancelled")
    server.close()
    wait_for(lambda: server.seen == ["cancelled"])
    assert call_task(server, "add", a=1).message.startswith("This server is stopping")
    for method, params in TASK_METHODS.items():
        assert get_task(server, done, method, **params).code == -32603
    server.close()


def test_after_a_restart_what_had_ended_is_there_and_what_was_running_has_failed(tmp_path):
    server = build_task_server(state=tmp_path / "state")
    ended = [run_task(server, "add", a=1), run_task(server, "refuse")]
    waiting, asking = call_task(server, "wait"), call_task(server, "confirm")
    until(server, asking, "input_required")
    server.close()
    assert list_files(tmp_path) == ["state"]
    again = build_task_server(state=tmp_path / "state")
    assert [get_task(again, task) for task in ended] == ended
    failed = [get_task(again, task) for task in (waiting, asking)]
    server.gate.set()
    wait_for(lambda: server.seen == ["confirm", "confirmed", True])
    assert [get_task(again, task) for task in (waiting, asking)] == failed
    for seen in failed:
        assert (seen["status"], seen["error"]["code"]) == ("failed", -32603)
        assert seen["statusMessage"] == seen["error"]["message"] == (
            "the task was interrupted: what ran it has ended without an outcome; call again")
        assert "inputRequests" not in seen
    again.close()


def test_two_servers_on_one_file_are_as_one(tmp_path):
    one, two = (build_task_server(state=str(tmp_path / "state"), max_tasks=2) for _ in range(2))
    asking, waiting = call_task(one, "confirm"), call_task(one, "until_cancelled")
    until(one, asking, "input_required")
    assert get_task(two, asking) == get_task(one, asking)
    assert get_task(two, waiting)["status"] == "working"
    assert call_task(two, "add", a=1).code == -32603
    assert give(two, asking, elicitation=AGREED) == {}
    done = until(one, asking)
    assert find_end(done) == "Ada" and get_task(two, asking) == done
    assert get_task(two, waiting, "tasks/cancel") == {}
    assert get_task(one, waiting)["status"] == "cancelled"
    wait_for(lambda: one.seen[-1] == "cancelled")
    one.close()
    assert get_task(two, done) == done
    two.close()
    assert list_files(tmp_path) == ["state"]


def make_database(path, *statements):
    import sqlite3
    with contextlib.closing(sqlite3.connect(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_file_that_cannot_be_used_is_reported_to_client_and_operator_and_loses_no_task(tmp_path):
    lines, path = [], str(tmp_path / "state")
    server = build_task_server(state=path)
    server.runtime = server.runtime._replace(log=lines.append, log_exception=lines.append)
    done, waiting = run_task(server, "add", a=1), call_task(server, "wait")
    asking = call_task(server, "confirm")
    until(server, asking, "input_required")
    make_database(path, "ALTER TABLE task RENAME TO away")
    for refused in (call_task(server, "add", a=1), get_task(server, done),
                    give(server, asking, elicitation=AGREED)):
        assert (refused.code, "no task can be kept" in refused.message) == (-32603, True)
        assert path not in refused.message
    server.gate.set()
    wait_for(lambda: server.seen == ["confirm", False])
    assert set(lines) == {f"the state file {path} cannot be used: no such table: task"}
    make_database(path, "ALTER TABLE away RENAME TO task")
    assert get_task(server, done) == done
    assert "interrupted" in get_task(server, waiting)["statusMessage"]
    assert give(server, asking, elicitation=AGREED) == {}
    assert find_end(until(server, asking)) == "Ada"
    server.close()


@pytest.mark.skipif(os.name != "posix", reason="file modes")
@pytest.mark.parametrize("name", ["data/state", "link"])
def test_a_state_file_is_its_owners_only(tmp_path, name):
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder / "state")           # which is not there yet
    server = build_task_server(state=str(tmp_path / name))
    run_task(server, "add", a=1)
    assert list_files(tmp_path) == ["data", "link"]
    assert {name: (folder / name).stat().st_mode & 0o777 for name in list_files(folder)
            } == dict.fromkeys(["state", "state-shm", "state-wal"], 0o600)
    server.close()


NOT_OURS = "is an SQLite file, but not the state file of this version of mcpkit: name another"
BROKEN_STATES = {
    "a folder": (lambda path: path.mkdir(), "unable to open database file"),
    "in a folder that is not there": (lambda path: None, "No such file or directory"),
    "some text": (lambda path: path.write_text("hello " * 100), "file is not a database"),
    "another database": (lambda path: make_database(path, "CREATE TABLE task (x)"), NOT_OURS),
    "a file of a later version": (lambda path: make_database(
        path, "CREATE TABLE task (x)", "PRAGMA user_version = 0x6d637003"), NOT_OURS),
}


@cases(BROKEN_STATES)
def test_a_state_file_that_cannot_be_used_is_one_line_and_stays_as_it_is(tmp_path, case):
    make, message = case
    path = tmp_path / ("nowhere/state" if message.startswith("No such") else "state")
    make(path)
    before = path.read_bytes() if path.is_file() else list_files(tmp_path)
    with pytest.raises(UsageError, match=re.escape(message)):
        Server("x", state=str(path))
    ran = run("serve", "--state", str(path), "--port", "0")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and message in ran.err
    assert before == (path.read_bytes() if path.is_file() else list_files(tmp_path))


def test_without_a_state_file_nothing_of_sqlite_is_loaded(tmp_path):
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import mcpkit; "
            "mcpkit.Server('x').tool(task='optional', name='t')(lambda: 0); sys.exit('sqlite3' in sys.modules)")
    assert run_python(tmp_path, "-c", code, str(ROOT)) == (0, "", "")


JOBS_FILE = """
import threading
from mcpkit import Server

server = Server("jobs", state="own.db")

@server.tool(task="required")
def done() -> str:
    return "done"

@server.tool(task="required")
def hang() -> str:
    threading.Event().wait()
"""


@contextlib.contextmanager
def serve_jobs(folder):
    """Give a process that serves JOBS_FILE with its tasks in `state`, and a client of it."""
    (folder / "jobs.py").write_text(JOBS_FILE)
    with subprocess.Popen([*PROGRAM, "serve", "jobs.py", "--state", "state", "--port", "0"],
                          cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            url = re.search(r"http://\S+", process.stdout.readline().decode()).group()
            with Client(url, capabilities={"extensions": {TASKS: {}}}) as client:
                yield process, client
        finally:
            process.kill()


@needs_signals
def test_a_server_that_is_killed_loses_only_what_it_was_doing_and_ctrl_c_ends_it(tmp_path):
    import signal
    offset = [0.0]
    with serve_jobs(tmp_path) as (process, client):
        witness = build_task_server(offset, state=tmp_path / "state")
        done, hanging = client.call_tool("done"), client.call_tool("hang")
        assert done["resultType"] == hanging["resultType"] == "task"
        assert find_end(until(witness, done)) == "done"
        assert get_task(witness, hanging)["status"] == "working"
        process.kill()
        process.wait(WAIT)
    assert get_task(witness, hanging)["status"] == "working"       # for as long as it may be slow
    offset[0] = 11                       # what ran it has not been heard of for so long
    seen = get_task(witness, hanging)
    assert (seen["status"], seen["error"]["code"]) == ("failed", -32603)
    assert seen["statusMessage"] == ("the task was interrupted: what ran it has ended without an "
                                     "outcome; call again")
    with serve_jobs(tmp_path) as (process, client):
        for task, known in ((done, get_task(witness, done)), (hanging, seen)):
            assert client.request("tasks/get", {"taskId": task["taskId"]}).items() >= known.items()
        client.call_tool("hang")
        process.send_signal(signal.SIGINT)
        assert (process.wait(WAIT), process.stderr.read()) == (0, b"")
    witness.close()
    assert {"state"} == {name for name in list_files(tmp_path) if name.startswith("state")}


# =============================================================================================
# 22. WORKERS
# =============================================================================================
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")

CREW_SERVER = """
import os, threading
from mcpkit import Context, Server
server = Server("crew", title=str(os.getpid()), state="state.db")
server.tool(name="age")(lambda: "old")

@server.tool
def pid() -> int:
    return os.getpid()

@server.tool
def ask_name(ctx: Context) -> str:
    return ctx.elicit("Your name?", {"type": "object", "properties": {}}).action

@server.tool
def linger(ctx: Context, heeds: bool = True):
    ctx.progress(1)
    while not (heeds and ctx.cancelled):
        threading.Event().wait(0.01)
    return "as far as it got"

@server.tool(task="required")
def work() -> str:
    return "done"

if __name__ == "__main__":
    server.run(port=0, workers=2)
"""


class Far:
    """A server elsewhere, to be asked as a service is."""

    policy = types.SimpleNamespace(path="/mcp")

    def __init__(self, url):
        self.url = url
        host, port = re.match(r"http://(.*):(\d+)", url).groups()
        self.server_address = host, int(port)

    def call(self, method, capabilities=CAN_TASKS, **params):
        """Return the result of a modern request, each over a connection of its own."""
        meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
        reply = ask_modern(self, method, {"_meta": meta, **params})
        assert reply.status == 200, reply
        return reply.json["result"]

    def find(self, name):
        """Return what a tool without arguments has found."""
        result = self.call("tools/call", name=name)
        return result.get("structuredContent", result["content"][0]["text"])

    def is_gone(self):
        """Return whether nothing listens any more."""
        try:
            socket.create_connection(self.server_address, timeout=WAIT).close()
            return False
        except OSError:
            return True

    def answers_elsewhere(self):
        """Have a question answered; return whether another process took the answer up."""
        params = {"capabilities": CAN_ANSWER, "name": "ask_name"}
        asked = self.call("tools/call", **params)
        done = self.call("tools/call", **params, requestState=asked["requestState"],
                         inputResponses={"elicitation": ADA})
        assert done["content"][0]["text"] == "accept"
        titles = {result["_meta"]["io.modelcontextprotocol/serverInfo"]["title"]
                  for result in (asked, done)}
        return len(titles) == 2


class Crew(Far):
    """A server with workers, in a process of its own, and what it says on standard error."""

    def __init__(self, child, url):
        super().__init__(url)
        self.child = child

    def meet(self, count=2):
        """Return the ids of so many workers, asking until all have answered."""
        pids = set()
        assert wait_until(lambda: pids.add(self.find("pid")) or len(pids) == count)
        return pids

    def read_line(self):
        return self.child.stderr.readline().decode().strip()


@contextlib.contextmanager
def start_crew(folder, *words, **options):
    """Run the crew's server with two workers; its file is the program if there are no words."""
    (folder / "crew.py").write_text(CREW_SERVER)
    command = [*MODULE, "serve", *words, "--workers", "2", "--port", "0"]
    with starting(command if words else ["crew.py"], folder, stderr=subprocess.PIPE,
                  **options) as (child, url):
        yield Crew(child, url)


@pytest.fixture(params=["loaded", "program"])
def crew(request, tmp_path):
    """Two workers: each has loaded the file, or all are forks of a program."""
    with start_crew(tmp_path, *(["crew.py"] if request.param == "loaded" else [])) as crew:
        yield crew


@needs_fork
def test_workers_stay_on_a_core_share_their_tasks_and_one_that_is_killed_is_replaced(crew):
    lost, other = crew.meet()
    if hasattr(os, "sched_getaffinity"):
        assert {len(os.sched_getaffinity(pid)) for pid in (lost, other)} == {1}
    task = crew.call("tools/call", name="work")["taskId"]
    assert wait_until(lambda: crew.call("tasks/get", taskId=task)["status"] == "completed")
    os.kill(lost, 9)
    assert crew.read_line() == f"worker {lost} was ended by signal 9: another takes its place"
    assert {crew.find("age") for _ in range(50)} == {"old"}          # no other request is lost
    assert wait_until(lambda: crew.find("pid") not in (lost, other))
    assert {crew.call("tasks/get", taskId=task)["status"] for _ in range(9)} == {"completed"}
    crew.child.terminate()
    assert crew.child.wait(WAIT) == 0 and crew.child.stderr.read() == b""


@needs_fork
@table("heeds, words", {"one that heeds it": (True, b"as far as it got"),
                        "one that does not": (False, b"the server was stopped")})
def test_workers_that_must_stop_end_their_streams_and_all_exit(crew, heeds, words):
    stream = start_call(crew.url, heeds=heeds)
    crew.child.terminate()
    assert words in stream.read()              # raises if the last chunk is missing
    _, err = crew.child.communicate(timeout=WAIT)
    assert (crew.child.returncode, err) == (0, b"") and crew.is_gone()


@needs_fork
@table("kills", {"a second signal": False, "the end of their parent": True})
def test_what_ends_workers_at_once(tmp_path, kills):
    import signal
    with start_crew(tmp_path, "crew.py") as crew:
        if kills:
            crew.child.kill()
            assert wait_until(crew.is_gone)
            return
        start_call(crew.url, heeds=False)
        crew.child.terminate()
        assert wait_until(crew.is_gone)        # so the first has been seen
        crew.child.send_signal(signal.SIGINT)
        assert crew.child.wait(WAIT) == 130


@needs_fork
def test_a_reload_serves_what_the_file_has_become_and_loses_no_request(tmp_path):
    import signal
    with start_crew(tmp_path, "crew.py") as crew, Client(crew.url) as client:
        before, done = crew.meet(), threading.Event()

        def ask_until_done(find):
            return {find() for _ in iter(done.is_set, True)}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen = [pool.submit(ask_until_done, find) for find in (
                lambda: crew.find("age"),
                lambda: client.call_tool("age")["content"][0]["text"])]
            (tmp_path / "crew.py").write_text(CREW_SERVER.replace('"old"', '"young"'))
            crew.child.send_signal(signal.SIGHUP)
            assert crew.read_line() == "reloaded"
            assert wait_until(lambda: not any(map(is_running, before)))
            done.set()
            assert all(ages.result(WAIT) <= {"old", "young"} for ages in seen)
        assert crew.find("age") == "young" and wait_until(crew.answers_elsewhere)


@needs_fork
def test_a_broken_file_is_not_reloaded_and_fills_no_place_until_it_is_mended(tmp_path):
    import signal
    with start_crew(tmp_path, "crew.py") as crew:
        lost, other = before = crew.meet()
        (tmp_path / "crew.py").write_text("1 / 0")
        crew.child.send_signal(signal.SIGHUP)
        assert re.fullmatch("not reloaded: crew.py cannot be loaded: .*ZeroDivisionError.*",
                            crew.read_line())
        assert crew.meet() == before
        os.kill(lost, 9)
        lines = [crew.read_line() for _ in range(4)]
        assert "was ended by signal 9" in lines[0]
        assert [line.rpartition(": ")[2] for line in lines] == ["another takes its place"] + [
            f"another takes its place in {seconds} s" for seconds in ("0.25", "0.5", "1")]
        assert crew.find("pid") == other
        (tmp_path / "crew.py").write_text(CREW_SERVER)
        assert wait_until(lambda: crew.find("pid") not in (lost, other))


@needs_fork
def test_a_worker_that_does_not_come_to_serve_is_given_up(tmp_path):
    (tmp_path / "slow.py").write_text("import threading\nthreading.Event().wait()")
    words = ["serve", "slow.py", "--workers", "2", "--port", "0"]
    code = f"import sys, mcpkit; mcpkit.WORKER_SECONDS = 0.1; sys.exit(mcpkit.main({words}))"
    child = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
                           timeout=WAIT)
    assert (child.returncode, child.stderr) == (
        2, "mcpkit: a worker did not come to serve within 0.1 s\n")


@needs_fork
@table("closes", {"closed": True, "open": False})
def test_a_hangup_stops_workers_only_if_it_means_that_their_terminal_was_closed(tmp_path, closes):
    import fcntl
    import signal
    import termios
    terminal, end = os.openpty()
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so does what they start")
    with start_crew(tmp_path, "crew.py", start_new_session=True,
                    preexec_fn=lambda: fcntl.ioctl(end, termios.TIOCSCTTY, 0)) as crew:
        os.close(end)
        if not closes:
            crew.child.send_signal(signal.SIGHUP)
            assert crew.read_line() == "reloaded"
        os.close(terminal)
        assert crew.child.wait(WAIT) == 0 and crew.is_gone()


@needs_fork
@cases({
    "sessions": (["--sessions"], "do not know each other's sessions: serve without them (--no-sess"),
    "sessions of a file": (["jobs.py"], "serve without them (--no-sessions), or start several"),
    "tasks in memory": (["jobs.py", "--no-sessions"], "in a file: name one with --state"),
    "standard input": (["--stdio"], "one process: leave out --workers"),
    "a file that is not there": (["no.py"], "there is no file no.py"),
    "a file that ends": (["ends.py"], "a worker ended with exit code 7 before it served"),
    "no number": (["--workers", "0"], "argument --workers"),
})
def test_workers_that_cannot_be_are_refused_in_one_line_that_names_the_way_out(case, tmp_path):
    words, advice = case
    (tmp_path / "jobs.py").write_text(
        "from mcpkit import Server\nserver = Server('jobs', sessions=True)\n"
        "@server.tool(task='optional')\ndef work(): pass\n")
    (tmp_path / "ends.py").write_text("import os\nos._exit(7)")
    ran = run("serve", "--port", "0", "--workers", "2", *words, cwd=tmp_path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1) and advice in ran.err


@needs_fork
def test_a_program_that_cannot_have_workers_is_refused_them(monkeypatch):
    def refuse(advice, workers=2):
        with pytest.raises(UsageError, match=advice):
            Server("x").run(workers=workers, port=0)
    for number in (0, -1, True, "2", 1.5):
        refuse("workers must be a number of processes", number)
    done = threading.Event()
    thread = threading.Thread(target=done.wait, args=(WAIT,))
    thread.start()
    refuse("which a program with threads cannot")
    done.set()
    thread.join(WAIT)
    monkeypatch.delattr(os, "fork", raising=False)
    refuse("forks, which this system cannot: start several servers")


@needs_signals
def test_workers_take_the_socket_that_they_are_started_with_and_leave_it_open():
    test_a_server_takes_the_socket_that_it_is_started_with_and_leaves_it_open("--workers", "2")


# =============================================================================================
# 23. HTTP+SSE
# =============================================================================================
class OldPeer(Peer):
    """A scripted server of the old transport: a GET opens the stream on which POSTs are answered.

    `answers` by method, with slashes as underscores; other requests get an empty list of tools.
    An answer that is a function gets the request, and returns the parts to send; None is the end.
    """

    ENTRY = "/a/sse?x=1"

    def __init__(self, first="event: endpoint\ndata: /m?sid=a%20b&x=1\n\n",
                 refusal="405 Method Not Allowed", taken=b"Accepted", kind="text/plain", **answers):
        self.stream, self.first, self.refusal = queue.Queue(), first, refusal
        self.taken, self.answers = http_answer(taken, "202 Accepted", kind), answers
        super().__init__(self.respond)
        self.url = self.origin + self.ENTRY

    def __exit__(self, *_):
        self.stream.put(None)
        super().__exit__()

    def respond(self, asked):
        if asked.method == "GET":
            return self.flow()
        if asked.path == self.ENTRY:
            return http_answer(b"", self.refusal)
        method = asked.message.get("method", "")
        value = self.answers.get(method.replace("/", "_"), {"tools": []})
        if method == "initialize":
            value = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                     "serverInfo": {"name": "old", "version": "1"}}
        if "id" in asked.message and method:
            for part in value(asked) if callable(value) else [event(result(asked, value))]:
                self.stream.put(part)
        return self.taken

    def flow(self):
        yield from stream_answer(self.first.format(port=self.port).encode())
        with contextlib.suppress(queue.Empty):
            yield from iter(lambda: self.stream.get(timeout=WAIT), None)


@table("more", {"C26 405": {}, "C26 404": {"refusal": "404 Not Found"},
                "C26 400": {"refusal": "400 Bad Request"}, "C24 nothing taken": {"taken": b""},
                "C24 taken as JSON": {"kind": "application/json"}})
def test_c24_c26_a_server_of_the_old_transport_is_found_and_spoken_to(more):
    with OldPeer(**more) as peer, Client(peer.url, headers={"X-Key": "k"}, timeout=WAIT) as client:
        assert (client.transport, client.era, client.is_http) == ("HTTP+SSE", "legacy", True)
        assert client.protocol_version == "2024-11-05" and client.list_tools() == []
    assert peer.methods == ["server/discover", "initialize", "GET", "initialize",
                            "notifications/initialized", "tools/list"]
    assert [asked.path for asked in peer.asked] == [peer.ENTRY] * 3 + ["/m?sid=a%20b&x=1"] * 3
    assert peer.asked[2].headers["accept"] == "text/event-stream"
    assert peer.asked[3].message["params"]["protocolVersion"] == "2024-11-05"
    assert all(asked.headers["x-key"] == "k" for asked in peer.asked)
    for asked in peer.asked[2:]:
        assert not {"mcp-protocol-version", "mcp-session-id", "mcp-method"} & set(asked.headers)


@table("data, path", {
    "C21 a path": ("/messages?sid=a%20b&x=1", "/messages?sid=a%20b&x=1"),
    "beside it": ("m?s=1", "/a/m?s=1"), "a query": ("?s=1", "/a/sse?s=1"), "up": ("../m/", "/m/"),
    "a host": ("//127.0.0.1:{port}/m", "/m"), "odd characters": (
        "/m?a=\u4e16 b", "/m?a=%E4%B8%96%20b"),
    "a whole URL": ("http://127.0.0.1:{port}/m?a=/?%2f&b", "/m?a=/?%2f&b")})
def test_c21_the_endpoint_is_a_reference_that_is_resolved(data, path):
    with OldPeer(f"event: endpoint\ndata: {data}\n\n") as peer:
        with Client(peer.url, era="legacy", timeout=WAIT) as client:
            assert client.list_tools() == []
    assert peer.asked[-1].path == path


@table("words, first", by_outcome({
    "which is another origin": {name: f"event: endpoint\ndata: {url}\n\n" for name, url in {
        "C23 another host": "http://evil.example/m", "C23 another port": "http://127.0.0.1:1/m",
        "C23 another scheme": "https://127.0.0.1:{port}/m",
        "another host by its name alone": "//evil.example/m"}.items()},
    "holds no URL": {name: f"event: endpoint\ndata: {url}\n\n" for name, url in {
        "another host behind a name": "http://127.0.0.1:1@evil.example/m", "a file": "file:///m",
        "a line end": "/m\ndata: /n", "nothing": " "}.items()},
    "its first event is message, not endpoint": {"C26 another event": "data: /m\n\n"},
    "its first event is ping": {"C26 a ping": "event: ping\n\nevent: ping\ndata: 1\n\n"},
    "no data for 0.3 s": {"C26 silence": ""},
    "6 bytes without an answer for 0.3 s": {"C26 comments": ": hi\n\n"}}))
def test_c23_c26_a_stream_without_an_endpoint_of_its_own_is_no_mcp(words, first):
    with OldPeer(first) as peer:
        with pytest.raises(ProtocolError) as caught:
            Client(peer.url, headers={"Authorization": "Bearer x"}, timeout=WAIT,
                   discover_timeout=0.3).connect()
    assert str(caught.value).startswith("no MCP answer: HTTP 405, ")
    assert words in str(caught.value) and str(caught.value).endswith(": this is not MCP")
    assert peer.methods == ["server/discover", "initialize", "GET"]


@table("methods, words, answer", {
    "an end before the endpoint": (["initialize", "GET"], "ended without the event endpoint",
        lambda asked: stream_answer(b": hi\n\n") if asked.method == "GET" else (
            http_answer(b"", "404 Not Found"))),
    "no stream": (["initialize", "GET"], "HTTP 404", lambda asked: http_answer(b"", "404 No")),
    "a page": (["initialize", "GET"], "HTTP 405", lambda asked: http_answer(
        b"<p>", *(("200 OK", "text/html") if asked.method == "GET" else ("405 No", "a/b")))),
    "an old error": (["initialize", "GET"], "what?",
                     lambda asked: error_answer(-32600, "400 Bad", 1, "what?")),
    "C41 a modern error": (["initialize"], "-32020", lambda asked: error_answer(-32020, "400 No")),
    "401": (["initialize"], "HTTP 401", lambda asked: http_answer(b"", "401 Unauthorized")),
    "500": (["initialize"], "HTTP 500", lambda asked: http_answer(b"", "500 Broken"))})
def test_c26_only_where_a_post_is_refused_is_there_a_get(methods, words, answer):
    with Peer(answer) as peer:
        with pytest.raises(MCPKitError, match=re.escape(words)):
            Client(peer.url, era="legacy", timeout=WAIT).connect()
        with pytest.raises(MCPKitError):
            Client(peer.url, era="modern", timeout=WAIT).connect()
    assert peer.methods == [*methods, "server/discover"]


def test_what_an_old_server_asks_and_tells_arrives_while_a_call_waits():
    told, replies, calls = [], {}, []

    def call_back(asked):
        calls.append(asked)
        return [event({"jsonrpc": "2.0", "method": method, **more}) for method, more in (
            ("notifications/message", {"params": {"level": "info", "data": "hi"}}),
            ("ping", {"id": "p"}), ("roots/list", {"id": "r"}), ("x/y", {"id": "q"}))]

    def respond(asked):
        answer = OldPeer.respond(peer, asked)
        replies.update({asked.message.get("id"): asked.message})
        if {"p", "r", "q"} <= set(replies) and calls:
            peer.stream.put(event(result(calls.pop(), {"ok": 1})))
        return answer

    with OldPeer(tools_call=call_back) as peer:
        peer.answer = respond
        with Client(peer.url, era="legacy", timeout=WAIT, on_roots=lambda: ["file:///a"],
                    on_log=lambda *message: told.append(message)) as client:
            assert client.call_tool("x") == {"ok": 1}
    assert told == [("info", "hi", None)]
    assert replies["p"]["result"] == {} and replies["q"]["error"]["code"] == -32601
    assert replies["r"]["result"] == {"roots": [{"uri": "file:///a"}]}


def test_an_old_server_tells_of_changes_on_its_one_stream():
    change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    with OldPeer(resources_subscribe=lambda asked: [event(result(asked, {})), event(change)]
                 ) as peer, Client(peer.url, era="legacy", timeout=WAIT) as client:
        changes = client.listen(tools=True, uris=["a:b"])
        assert next(changes) == ("notifications/tools/list_changed", {})
        changes.close()
        assert client.list_tools() == []         # the stream goes on


@table("kind, words, parts", {
    "an end": (TransportError, "the server ended the event stream", [b": bye\n\n", None]),
    "an end inside an event": (TransportError, "9 bytes of an unfinished", [b"data: {}\n", None]),
    "no JSON": (TransportError, "an event of the stream is not JSON", [b"data: {\n\n"]),
    "an event that is too large": (TransportError, "200,000|larger|longer", [b":" * 300_000]),
    "a wrong id": (TransportError, "no answer for 0.5 s", [
        event({"jsonrpc": "2.0", "id": "x", "result": {}})]),
    "silence": (TransportError, "no answer for 0.5 s", []),
    "an error": (MCPError, "-32602.*: no", [
        event({"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "no"}})]),
    "a refused POST": (ProtocolError, "HTTP 404, text/plain: no such session", "refused")})
def test_a_call_on_the_old_transport_ends_whatever_comes(kind, words, parts):
    def reply(asked):
        if parts != "refused":
            return parts
        peer.taken = http_answer(b"no such session", "404 Not Found", "text/plain")
        return []

    with OldPeer(x_y=reply) as peer:
        with Client(peer.url, era="legacy", timeout=0.5, max_bytes=200_000) as client:
            with pytest.raises(kind, match=words):
                client.request("x/y")


def test_comments_keep_an_old_stream_alive_and_its_limit_of_bytes_is_that_of_an_event():
    def answer_slowly(asked):
        for _ in range(12):
            peer.stream.put(b": still here" + b"x" * 50_000 + b"\n\n")
            OPEN_END.wait(0.05)
        peer.stream.put(event(result(asked, {"ok": 1})))

    def answer(asked):
        threading.Thread(target=answer_slowly, args=(asked,), daemon=True).start()
        return []

    with OldPeer(x_y=answer) as peer:
        with Client(peer.url, era="legacy", timeout=0.4, max_bytes=200_000) as client:
            assert client.request("x/y") == {"ok": 1}


def test_c26_the_probe_shows_both_steps_of_the_fall_back():
    tools = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    reports = []
    for deep in ({}, {"deep": True}):
        with OldPeer(tools_list=tools) as peer:
            reports.append(mcpkit.probe(peer.url, **deep))
    report, deep = reports
    with OldPeer(tools_list=tools) as peer:
        ran = run("probe", peer.url)
    assert report["verdict"] == "pass" and report["requests"] == 6
    assert "initialize was answered with HTTP 405" in find_check(report, "legacy-step")["message"]
    assert find_check(report, "transport")["message"].startswith("the POST was refused")
    assert report["eras"]["legacy"]["transport"] == "HTTP+SSE"
    assert find_check(deep, "deep")["message"].startswith("no rule was tried")
    assert ran.code == 0 and "older transport" in ran.out


# =============================================================================================
# 24. LOGIN
# =============================================================================================
def decode_base64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def hash_base64url(text):
    """Return what PKCE and DPoP make of a secret. Spec: RFC 7636, 4.2, RFC 9449, 4.2."""
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def read_query(url):
    return dict(urllib.parse.parse_qsl(url.partition("?")[2]))


# ---- against documents: what is believed, and what is sent

ENDPOINT = "https://h/a/mcp"
RESOURCE = {"resource": ENDPOINT, "authorization_servers": ["https://as"]}
AS_DOCUMENT = {
    "issuer": "https://as", "token_endpoint": "https://as/token",
    "authorization_endpoint": "https://as/authorize", "registration_endpoint": "https://as/register",
    "code_challenge_methods_supported": ["S256"]}
TOKEN = {"access_token": "t", "token_type": "Bearer"}
REGISTERED = {"client_id": "c"}


class Documents:
    """What an OAuth sends its requests to: a document for each URL. `asked` has the requests."""

    def __init__(self, resource=RESOURCE, issuer=AS_DOCUMENT, token=TOKEN, registered=REGISTERED):
        self.asked = []
        self.documents = {
            "https://h/.well-known/oauth-protected-resource/a/mcp": resource,
            "https://as/.well-known/oauth-authorization-server": issuer,
            "https://as/token": token, "https://as/register": registered}

    def send(self, method, url, body, headers, seconds):
        self.asked.append((url, headers, dict(urllib.parse.parse_qsl((body or b"").decode()))))
        if url not in self.documents:
            return 404, {}, b""
        return 200, {"content-type": "application/json"}, json.dumps(self.documents[url]).encode()

    def log_in(self, change=dict, url=ENDPOINT, **options):
        """Return the token that comes of a login, or the error; `change` is of the way back."""
        def authorize(page):
            self.page = read_query(page)
            back = {"code": "a b", "state": self.page["state"], **change()}
            return "http://127.0.0.1:1/?" + urllib.parse.urlencode(
                {name: value for name, value in back.items() if value is not None}, True)

        auth = mcpkit.OAuth(**{"authorize": authorize, "send": self.send, **options})
        return find_error(auth.log_in, url)

    @property
    def urls(self):
        return [url for url, _, _ in self.asked]


RESOURCE_FAULTS = {
    "of another host": ({"resource": "https://evil/a/mcp"}, "would be meant for another server"),
    "of another path": ({"resource": "https://h/b"}, "not of https://h/a/mcp"),
    "of a path that begins alike": ({"resource": "https://h/a/mc"}, "not of https://h/a/mcp"),
    "of another scheme": ({"resource": "http://h/a/mcp"}, "not of https://h/a/mcp"),
    "spelled in another way": ({"resource": "https://H/a/mcp"}, "not of https://h/a/mcp"),
    "of nothing": ({"resource": None}, "the resource null"),
    "of a list": ({"resource": ["https://h/a/mcp"]}, "not of"),
    "without issuers": ({"authorization_servers": []}, "names no authorization_servers"),
    "with issuers that are no list": ({"authorization_servers": "https://as"}, "names no"),
    "with an issuer over http": ({"authorization_servers": ["http://as"]}, "https URL"),
    "with an issuer on this machine": ({"authorization_servers": ["http://localhost:6379"]},
                                       "on this machine, says a server that is elsewhere"),
    "with an issuer that has a query": ({"authorization_servers": ["https://as?x"]}, "no query"),
    "with an issuer that is no text": ({"authorization_servers": [5]}, "https URL"),
}
ISSUER_FAULTS = {
    "of another issuer": ({"issuer": "https://evil"}, "says that it is of https://evil"),
    "with one slash more": ({"issuer": "https://as/"}, "they must be equal"),
    "in other letters": ({"issuer": "https://AS"}, "they must be equal"),
    "with a port that means the same": ({"issuer": "https://as:443"}, "they must be equal"),
    "without an issuer": ({"issuer": None}, "they must be equal"),
    "without a token endpoint": ({"token_endpoint": None}, "has no token_endpoint"),
    "with a token endpoint over http": ({"token_endpoint": "http://as/token"}, "https URL"),
    "with a token endpoint that is none": ({"token_endpoint": {}}, "https URL"),
    "with a token endpoint on this machine": ({"token_endpoint": "http://127.0.0.1:6379/"},
                                              "on this machine, says a server that is elsewhere"),
    "with a page that is a file": ({"authorization_endpoint": "file:///etc/passwd"}, "https URL"),
    "with a page that is a script": ({"authorization_endpoint": "javascript:x()"}, "https URL"),
    "with registration elsewhere": ({"registration_endpoint": "ftp://as"}, "https URL"),
    "without registration": ({"registration_endpoint": None}, "registers no clients by itself"),
    "without a page": ({"authorization_endpoint": None}, "no person can log in"),
    "without PKCE": ({"code_challenge_methods_supported": None}, "PKCE with S256"),
    "with weak PKCE": ({"code_challenge_methods_supported": ["plain"]}, "PKCE with S256"),
    "with PKCE that is no list": ({"code_challenge_methods_supported": "S256"}, "PKCE with S256"),
}


@table("side, changes, words", {
    f"{side} metadata {name}": (side, *case) for side, cases in (
        ("resource", RESOURCE_FAULTS), ("issuer", ISSUER_FAULTS)) for name, case in cases.items()})
def test_faulty_metadata_is_refused_before_anything_is_sent(side, changes, words):
    documents = Documents(**{side: {**(RESOURCE if side == "resource" else AS_DOCUMENT), **changes}})
    found = documents.log_in()
    assert isinstance(found, ProtocolError) and words in str(found)
    assert documents.urls == list(documents.documents)[:1 if side == "resource" else 2]


@pytest.mark.parametrize("name", ["https://h/a/mcp", "https://h/a/mcp/", "https://h/a",
                                  "https://h", "https://h/"])
def test_a_resource_may_be_named_after_what_holds_it_and_keeps_its_spelling(name):
    documents = Documents({**RESOURCE, "resource": name, "scopes_supported": ["a", "b", "a", 5]})
    assert documents.log_in(url="https://h/a/mcp?x=y").resource == name
    assert (documents.page["resource"], documents.page["scope"]) == (name, "a b")
    assert documents.asked[-1][2]["resource"] == name


@table("scopes, given, proposed, offered", {
    "what the resource proposes": ("p q", (), ["p", "q"], []),
    "what the caller wants comes first": ("g", ("g",), ["p", "q"], []),
    "offline_access if the issuer has it": ("p offline_access", (), ["p"], ["a", "offline_access"]),
    "nothing": (None, (), [], [])})
def test_scopes_are_chosen_in_the_order_of_the_specification(scopes, given, proposed, offered):
    documents = Documents({**RESOURCE, "scopes_supported": proposed},
                          {**AS_DOCUMENT, "scopes_supported": offered})
    documents.log_in(scopes=given)
    assert documents.page.get("scope") == scopes


@table("methods, sent", {
    "the default of the metadata": (None, "basic"),
    "basic before post": (["client_secret_post", "client_secret_basic"], "basic"),
    "post alone": (["client_secret_post"], "post"),
    "a secret that is not wanted": (["none"], "none")})
def test_a_client_authenticates_as_the_metadata_says(methods, sent):
    documents = Documents(issuer={**AS_DOCUMENT, "token_endpoint_auth_methods_supported": methods})
    documents.log_in(client_id="a:b", client_secret="p%q \xe9")
    _, headers, form = documents.asked[-1]
    pair = base64.b64decode(headers.get("Authorization", "").partition(" ")[2]).decode()
    assert [urllib.parse.unquote_plus(part) for part in pair.split(":")] == (
        ["a:b", "p%q \xe9"] if sent == "basic" else [""])
    assert form.get("client_secret") == ("p%q \xe9" if sent == "post" else None)
    assert form["code_verifier"] and hash_base64url(form["code_verifier"]) == (
        documents.page["code_challenge"])


@table("change, words", {
    "another state": ({"state": "x"}, "does not belong to this login"),
    "no state": ({"state": None}, "does not belong to this login"),
    "two states": ({"code": ["a", "b"]}, "code more than once"),
    "no issuer": ({"iss": None}, "does not name its issuer"),
    "another issuer": ({"iss": "https://evil"}, "comes from https://evil"),
    "an issuer with a slash": ({"iss": "https://as/"}, "comes from https://as/"),
    "an issuer in other letters": ({"iss": "https://AS"}, "comes from https://AS"),
    "an error of another issuer": ({"error": "made_up", "iss": "https://evil"},
                                   "nothing of it was used"),
    "an error": ({"error": "access_denied", "error_description": "No way"},
                 "https://as refused: access_denied (No way)"),
    "no code": ({"code": None}, "has no code")})
def test_a_redirect_that_is_not_the_answer_of_this_login_is_refused(change, words):
    documents = Documents(issuer={**AS_DOCUMENT, "authorization_response_iss_parameter_supported": True})
    found = documents.log_in(lambda: {"iss": "https://as", **change})
    assert isinstance(found, ProtocolError) and words in str(found) and "made_up" not in str(found)
    assert documents.urls[-1] == "https://as/register"


def test_a_redirect_without_issuer_is_taken_from_a_server_that_never_said_it_sends_one():
    documents = Documents()
    assert documents.log_in().access_token == "t" and documents.asked[-1][2]["code"] == "a b"
    assert "comes from https://evil" in str(documents.log_in(lambda: {"iss": "https://evil"}))


TOKEN_ANSWERS = {
    "all of it": ({**TOKEN, "expires_in": 60, "scope": "a", "refresh_token": "n"},
                  (("a",), "n", True)),
    "as little as can be": (TOKEN, (("p",), None, False)),
    "odd members": ({**TOKEN, "expires_in": "60", "scope": 5, "refresh_token": 5},
                    (("p",), None, False)),
    "of an unknown kind": ({**TOKEN, "token_type": "mac"}, "no token that can"),
    "that cannot stand in a header": ({**TOKEN, "access_token": "a\r\nb"}, "no token that can"),
    "nothing": ({}, "no token that can be used"), "a list": ([], "no token that can be used"),
    "a refusal in a 200": ({"error": "invalid_grant"}, "https://as refused: invalid_grant"),
}


@table("answer, outcome", TOKEN_ANSWERS)
def test_the_answer_of_a_token_endpoint_is_taken_or_refused(answer, outcome):
    documents = Documents({**RESOURCE, "scopes_supported": ["p"]}, token=answer)
    found = documents.log_in()
    if isinstance(outcome, str):
        assert isinstance(found, ProtocolError) and outcome in str(found)
    else:
        assert found.access_token == "t" and outcome == (
            found.granted, found.refresh_token, found.expires_at is not None)


ODD_VALUES = [None, True, 5, -1e300, 10 ** 400, "", "x", "https://as", "https://as/token", "S256",
              "https://as:99999/", "https://as/\u0130", "https://as/a b\r\n", "https://[::1", [],
              ["S256", None], [[]], {}, {"a": []}, "\ud800", "none", "DPoP", "https://h/a/mcp"]
MEMBERS = [*RESOURCE, *AS_DOCUMENT, *TOKEN, "scopes_supported", "expires_in", "client_id",
           "token_endpoint_auth_methods_supported", "token_endpoint_auth_method", "refresh_token",
           "client_secret", "error", "error_description", "scope"]


def test_odd_documents_are_read_or_refused_and_never_crash():
    choose = random.Random(11)
    whole = {"resource": RESOURCE, "issuer": AS_DOCUMENT, "token": TOKEN, "registered": REGISTERED}
    for name, document in list(whole.items()) * 500:
        odd = {member: choose.choice(ODD_VALUES) for member in choose.sample(MEMBERS, 3)}
        found = Documents(**{**whole, name: {**document, **odd}}).log_in()
        assert not isinstance(found, (ValueError, UsageError))


# ---- against an issuer and a server

def without_none(members):
    return {name: value for name, value in members.items() if value is not None}


def list_issuer_places(origin, path):
    """Return where the metadata of an issuer may be, in order. Spec: RFC 8414, OpenID Discovery."""
    places = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
    return [*(origin + place + path for place in places),
            *([origin + path + places[1]] if path else [])]


class Issuer(Peer):
    """An authorization server that knows one person, and checks every word of the clients.

    `metadata` is what it publishes, `redirects` what its redirects say in place of what they
    should, `scopes` what each token that is alive may do.
    """

    def __init__(self, path="", tls=None, **changes):
        super().__init__(self.serve, tls)
        self.name = self.origin + path
        self.metadata = {
            "issuer": self.name, "authorization_endpoint": self.name + "/authorize?by=name",
            "token_endpoint": self.name + "/token",
            "registration_endpoint": self.name + "/register",
            "scopes_supported": ["read", "write", "offline_access"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            "code_challenge_methods_supported": ["S256"], **changes}
        self.metadata_urls = list_issuer_places(self.origin, path)[:1]
        self.clients, self.logins, self.scopes, self.refresh_tokens = {}, {}, {}, {}
        self.redirects, self.expires_in, self.nonce = {}, 3600, None
        self.keys = (f"{self.port}-{number}" for number in itertools.count(1))

    def serve(self, asked):
        path, _, query = asked.path.partition("?")
        base = urllib.parse.urlsplit(self.name).path
        if self.origin + path in self.metadata_urls:
            return http_answer(without_none(self.metadata))
        serve = {base + "/authorize": self.serve_page, base + "/register": self.serve_register,
                 base + "/token": self.serve_token}.get(path)
        return http_answer(b"<p>no", "404 Not Found", "text/html") if serve is None else serve(
            asked, dict(urllib.parse.parse_qsl(query)))

    def serve_register(self, asked, _):
        if asked.message.get("application_type") != "native":
            return http_answer({"error": "invalid_redirect_uri"}, "400 Bad Request")
        key = next(self.keys)
        self.clients[f"client-{key}"] = f"secret-{key}", asked.message["redirect_uris"]
        return http_answer({"client_id": f"client-{key}", "client_secret": f"secret-{key}"},
                           "201 Created")

    def serve_page(self, asked, query):
        assert query["by"] == "name" and query["code_challenge_method"] == "S256"
        assert query["redirect_uri"] in (self.clients[query["client_id"]][1] or [query["redirect_uri"]])
        code = "code " + next(self.keys)
        self.logins[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.name, **self.redirects}
        location = query["redirect_uri"] + "?" + urllib.parse.urlencode(
            without_none(answer))
        return http_answer(b"", "302 Found", "text/plain", f"Location: {location}")

    def serve_token(self, asked, _):
        form, proof = asked.message, asked.headers.get("dpop")
        if self.nonce and self.nonce not in read_jwt(proof)[1].values():
            return http_answer({"error": "use_dpop_nonce"}, "400 Bad Request", "application/json",
                               f"DPoP-Nonce: {self.nonce}")
        serve = {"authorization_code": self.redeem, "refresh_token": self.refresh}.get(
            form["grant_type"], self.give_directly)
        scope = serve(form, self.find_client(asked))
        if scope is None:
            return http_answer({"error": "invalid_grant"}, "400 Bad Request")
        token, key = f"token-{next(self.keys)}", f"refresh-{next(self.keys)}"
        self.scopes[token], self.refresh_tokens[key] = scope.split(), (scope, form["resource"])
        return http_answer({"access_token": token, "token_type": "DPoP" if proof else "Bearer",
                            "expires_in": self.expires_in, "refresh_token": key, "scope": scope})

    def find_client(self, asked):
        scheme, _, pair = asked.headers.get("authorization", "").partition(" ")
        assert scheme == "Basic" and "client_secret" not in asked.message
        client_id, secret = base64.b64decode(pair).decode().split(":")
        assert self.clients[client_id][0] == secret
        return client_id

    def redeem(self, form, client_id):
        login = self.logins.pop(form["code"])
        assert [form["redirect_uri"], form["resource"]] == [login["redirect_uri"],
                                                            login["resource"]]
        assert client_id == login["client_id"]
        assert hash_base64url(form["code_verifier"]) == login["code_challenge"]
        return login.get("scope", "")

    def refresh(self, form, _):
        scope, resource = self.refresh_tokens.pop(form["refresh_token"], (None, None))
        assert resource in (None, form["resource"])
        return scope

    def give_directly(self, form, _):
        return form.get("scope", "")

    @property
    def log(self):
        """What was asked, in short: paths, and the grants at the token endpoint."""
        return [asked.message.get("grant_type") or asked.path.partition("?")[0].rpartition("/")[2]
                for asked in self.asked]


class Vault(Peer):
    """An MCP server that wants tokens of an Issuer: `read` for all, `write` for calls."""

    def __init__(self, issuer):
        super().__init__(self.serve, issuer.tls)
        self.issuer, self.nonce = issuer, None
        self.metadata = {"resource": self.url, "authorization_servers": [issuer.name]}
        self.metadata_path = "/.well-known/oauth-protected-resource/mcp"

    def serve(self, asked):
        if asked.path == self.metadata_path:
            return http_answer(self.metadata)
        if asked.method == "GET":
            return http_answer(b"<p>no", "404 Not Found", "text/html")
        token = asked.headers.get("authorization", " ").split(" ")[1]
        if token not in self.issuer.scopes:
            return self.refuse("401 Unauthorized", scope="read")
        if self.nonce and read_jwt(asked.headers["dpop"])[1].get("nonce") != self.nonce:
            return self.refuse("401 Unauthorized", f"DPoP-Nonce: {self.nonce}",
                               error="use_dpop_nonce")
        wanted = "write" if asked.message.get("method") == "tools/call" else "read"
        if wanted not in self.issuer.scopes[token]:
            return self.refuse("403 Forbidden", error="insufficient_scope", scope=wanted)
        return modern_peer(asked, x_y=lambda asked: http_answer(result(asked, {"ok": 1})),
                           tools_list=lambda asked: http_answer(result(asked, {"tools": []})),
                           tools_call=lambda asked: http_answer(result(asked, {"content": []})))

    def refuse(self, status, *headers, **params):
        params["resource_metadata"] = self.url.replace("/mcp", self.metadata_path)
        challenge = "Bearer " + ", ".join(f'{name}="{text}"' for name, text in params.items())
        return http_answer(b"<p>Log in!", status, "text/html", f"WWW-Authenticate: {challenge}",
                           *headers)


def read_jwt(text):
    """Return the header and the claims of a signed token."""
    return [json.loads(decode_base64url(part)) for part in text.split(".")[:2]]


def browse(url):
    """Go to a URL as a browser does, and return where that leads."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT)
    with contextlib.closing(connection):
        connection.request("GET", f"{parts.path}?{parts.query}")
        with connection.getresponse() as response:
            return response.headers["Location"]


@contextlib.contextmanager
def guarded(path="", **changes):
    """Yield an Issuer and a Vault; `changes` are of the issuer's metadata."""
    with Issuer(path, **changes) as issuer, Vault(issuer) as server:
        yield issuer, server


def log_in(server, auth=None, **options):
    """Return a Client that logs in by itself."""
    return Client(server.url, auth=auth or mcpkit.OAuth(authorize=browse, timeout=WAIT, **options),
                  timeout=WAIT)


def list_leaks(issuer, server):
    """Return what either side was told that only the other should know."""
    told = {side: str([(asked.path, asked.headers, asked.message) for asked in side.asked])
            for side in (issuer, server)}
    secrets = [*issuer.refresh_tokens, *(secret for secret, _ in issuer.clients.values()), "code "]
    return [text for text in secrets if text in told[server]] + [
        token for token in issuer.scopes if token in told[issuer]]


FULL_LOGIN = ["oauth-authorization-server", "register", "authorize", "authorization_code"]


def test_a_person_logs_in_once_and_the_token_serves_all_requests():
    with guarded() as (issuer, server), log_in(server) as client:
        assert client.list_tools() == [] and client.request("x/y") == {"ok": 1}
        assert client.era == "modern"
    assert issuer.log == FULL_LOGIN
    assert server.methods == ["server/discover", "GET", "server/discover", "tools/list", "x/y"]
    asked = issuer.asked[1].message
    assert asked["grant_types"] == ["authorization_code", "refresh_token"]
    query = read_query(issuer.asked[2].path)
    assert (query["scope"], query["resource"]) == ("read offline_access", server.url)
    assert list_leaks(issuer, server) == []


@table("makes_end, log, refreshes", {
    "and its successor after it": (lambda issuer: issuer.scopes.clear(),
                                   ["oauth-authorization-server", "refresh_token"] * 2, 1),
    "or, if that is refused, by another login": (
        lambda issuer: (issuer.scopes.clear(), issuer.refresh_tokens.clear()),
        ["oauth-authorization-server", "refresh_token", "authorize", "authorization_code"] * 2, 1)})
def test_a_token_that_has_ended_is_refreshed_once(makes_end, log, refreshes):
    with guarded() as (issuer, server), log_in(server) as client:
        for _ in range(2):
            makes_end(issuer)
            assert client.request("x/y") == {"ok": 1}
    assert issuer.log == FULL_LOGIN + log
    assert len(issuer.refresh_tokens) == refreshes and list_leaks(issuer, server) == []


def test_a_token_that_is_about_to_end_is_refreshed_before_it_is_used():
    with guarded() as (issuer, server):
        issuer.expires_in = 1
        with log_in(server) as client:
            issuer.expires_in = 3600
            client.request("x/y")
            client.request("x/y")
    assert issuer.log.count("refresh_token") == 2        # at once, as it was so short, and no more
    assert [asked for asked in server.asked if asked.method == "GET"] == server.asked[1:2]


def test_a_call_that_needs_more_scopes_logs_in_for_all_that_were_ever_wanted():
    with guarded() as (issuer, server), log_in(server) as client:
        assert client.call_tool("x") == {"content": []}
        assert client.request("x/y") == {"ok": 1}
    query = read_query(issuer.asked[-2].path)
    assert set(query["scope"].split()) == {"read", "write", "offline_access"}
    assert issuer.log.count("authorize") == 2


def test_the_command_that_logs_in_is_one_that_a_shell_takes_as_it_is(tmp_path):
    store = mcpkit.TokenFile(str(tmp_path / "tokens.json"))
    with guarded() as (issuer, server), log_in(server, store=store):
        server.refuse = lambda *_, **__: want_scope(server, "a;$(b)")
        with pytest.raises(ProtocolError, match=r" --scope 'a;\$\(b\)'$"):
            log_in(server, mcpkit.OAuth(grant="stored", store=store)).call_tool("x")


def want_scope(server, scope):
    return Vault.refuse(server, "403 Forbidden", error="insufficient_scope", scope=scope)


@table("refuse, words, logins", {
    "for scopes that the token has": (
        lambda server, _: want_scope(server, "read"), "another login would give no more", 1),
    "for more and more": (lambda server, number: want_scope(server, f"s{number}"), "HTTP 403", 4),
    "for something else": (lambda *_: http_answer(b"", "403 Forbidden", "text/plain"),
                           "no MCP answer: HTTP 403", 1)})
def test_a_403_leads_to_a_login_only_if_that_can_help(refuse, words, logins):
    with guarded() as (issuer, server), log_in(server) as client:
        numbers = itertools.count()
        server.refuse = lambda *_, **__: refuse(server, next(numbers))
        with pytest.raises(ProtocolError, match=words):
            client.call_tool("x")
    assert issuer.log.count("authorize") == logins


def test_a_token_that_is_refused_as_soon_as_it_was_given_ends_it():
    with guarded() as (issuer, server):
        issuer.redeem = lambda *_: issuer.scopes.clear() or "read"
        server.issuer = type("Nobody", (), {"scopes": {}})
        with pytest.raises(ProtocolError, match="refuses .* the token that .* has just given"):
            log_in(server).connect()
    assert issuer.log.count("authorize") == 1


def test_every_place_of_metadata_is_tried_in_order_and_named_with_its_status():
    with Issuer("/t1") as issuer, Vault(issuer) as server:
        server.metadata_path, issuer.metadata_urls = "/elsewhere", []
        server.refuse = lambda *_, **__: http_answer(b"", "401 Unauthorized", "text/plain")
        with pytest.raises(ProtocolError) as caught:
            log_in(server).connect()
        wanted = [f"http://127.0.0.1:{server.port}{path} gave HTTP 404, text/html" for path in (
            "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")]
        assert str(caught.value).partition("was found: ")[2].split("; ") == wanted
        server.metadata_path = "/.well-known/oauth-protected-resource"
        with pytest.raises(ProtocolError) as caught:
            log_in(server).connect()
        assert [asked.path for asked in issuer.asked] == [
            "/.well-known/oauth-authorization-server/t1", "/.well-known/openid-configuration/t1",
            "/t1/.well-known/openid-configuration"]


@pytest.mark.parametrize("place", range(3))
def test_each_of_the_three_places_of_issuer_metadata_is_good(place):
    with guarded("/t1") as (issuer, server):
        issuer.metadata_urls = list_issuer_places(issuer.origin, "/t1")[place:place + 1]
        with log_in(server) as client:
            assert client.list_tools() == []


def test_a_server_that_fails_ends_the_search_for_metadata():
    with guarded() as (issuer, server):
        asked = []
        issuer.answer = lambda request: asked.append(request.path) or http_answer(
            b"", "503 Busy", "text/plain")
        with pytest.raises(ProtocolError, match="fails: .*oauth-authorization-server gave HTTP 503"):
            log_in(server).connect()
    assert asked == ["/.well-known/oauth-authorization-server"]


def test_a_server_without_resource_metadata_is_its_own_issuer():
    with Issuer() as issuer:
        server = Vault(issuer)
        server.metadata_path = "/nowhere"
        issuer.serve, serve = server.serve, issuer.serve
        issuer.answer = lambda asked: (server.serve if asked.path == "/mcp" else serve)(asked)
        server.refuse = lambda *_, **__: http_answer(b"", "401 Unauthorized", "text/plain")
        issuer.scopes = collections.defaultdict(lambda: ["read"], issuer.scopes)
        with log_in(issuer, scopes=["read"]) as client:
            assert client.list_tools() == []
        server.__exit__()


def test_a_new_issuer_gets_a_new_registration_and_nothing_of_the_old_one():
    with guarded() as (old, server), Issuer() as new, log_in(server) as client:
        server.metadata["authorization_servers"] = [new.name]
        server.issuer = new
        assert client.request("x/y") == {"ok": 1}
    assert new.log == FULL_LOGIN and old.log == FULL_LOGIN
    told = str([(asked.path, asked.headers, asked.message) for asked in new.asked])
    assert not any(text in told for text in (*old.scopes, *old.clients, *old.refresh_tokens))


def test_a_client_that_was_registered_by_hand_is_used_with_its_own_issuer_only():
    with guarded(registration_endpoint=None) as (issuer, server), Issuer() as new:
        issuer.clients["mine"] = "my%3Asecret", None
        with log_in(server, client_id="mine", client_secret="my:secret") as client:
            server.metadata["authorization_servers"] = [new.name]
            issuer.scopes.clear()
            with pytest.raises(ProtocolError, match="known to .* nothing was sent"):
                client.request("x/y")
    assert "register" not in issuer.log and new.asked == []


def test_a_client_that_describes_itself_is_not_registered():
    url = "https://app.example/client.json"
    with guarded(client_id_metadata_document_supported=True) as (issuer, server):
        issuer.clients[url] = None, None
        issuer.find_client = lambda asked: asked.message["client_id"]
        with log_in(server, client_metadata_url=url) as client:
            assert client.list_tools() == []
    assert "register" not in issuer.log
    with pytest.raises(UsageError, match="https URL with a path"):
        mcpkit.OAuth(client_metadata_url="https://app.example")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_our_own_server_sends_our_client_to_the_issuer_in_both_eras(era):
    with Issuer() as issuer:
        def verify(token):
            return Principal("ada", issuer.scopes[token]) if token in issuer.scopes else None

        server = Server("vault", sessions=True, auth=Auth(
            verify, authorization_servers=[issuer.name], scopes=["read"]))
        @server.tool(scopes=["write"])
        def whoami(ctx: Context) -> str:
            return ctx.principal.subject

        auth = mcpkit.OAuth(authorize=browse, timeout=WAIT)
        with mcpkit.HTTPService(server, port=0) as service, Client(
                service.url, era=era, auth=auth, timeout=WAIT) as client:
            assert client.list_tools() == []
            issuer.scopes.clear()
            assert client.call_tool("whoami")["content"][0]["text"] == "ada"
            assert [tool["name"] for tool in client.list_tools()] == ["whoami"]
            assert (client.session_id is None) == (era == "modern")
    assert issuer.log[4:] == ["oauth-authorization-server", "refresh_token",
                              "oauth-authorization-server", "authorize", "authorization_code"]


def test_nobody_logs_in_only_to_end_a_session():
    with guarded() as (issuer, server):
        serve = server.serve
        server.answer = lambda asked: (
            serve(asked) if asked.method == "GET" or "authorization" not in asked.headers
            else legacy_peer(asked, session="s") if issuer.scopes else server.refuse("401 No"))
        with log_in(server) as client:
            assert client.session_id == "s"
            issuer.scopes.clear()
    assert issuer.log == FULL_LOGIN and server.methods[-1] == "DELETE"


def test_a_401_without_a_token_to_try_is_the_end_of_it_in_both_eras():
    with Peer(lambda asked: http_answer(b"", "401 Unauthorized", "text/plain")) as peer:
        auth = mcpkit.OAuth(grant="stored")
        with pytest.raises(ProtocolError, match="wants authorization"):
            Client(peer.url, auth=auth, timeout=WAIT).connect()
    assert peer.methods == ["server/discover", "GET", "GET"]


def test_a_token_that_discover_does_not_take_may_be_one_for_the_handshake():
    with guarded() as (issuer, server):
        server.answer = lambda asked: (
            server.serve(asked) if "authorization" not in asked.headers
            else legacy_peer(asked) if asked.message["method"] != "server/discover"
            else http_answer(b"", "403 Forbidden", "text/plain"))
        with log_in(server) as client:
            assert client.era == "legacy"


def test_a_token_that_the_caller_gives_leaves_the_login_alone():
    with guarded() as (issuer, server):
        client = Client(server.url, auth=mcpkit.OAuth(authorize=browse), timeout=WAIT,
                        headers={"authorization": "Bearer mine"})
        with pytest.raises(ProtocolError, match="wants authorization"):
            client.connect()
    assert issuer.asked == []


def test_many_threads_whose_token_has_ended_refresh_it_once():
    with guarded() as (issuer, server), log_in(server) as client:
        issuer.scopes.clear()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda _: client.request("x/y"), range(12))) == [{"ok": 1}] * 12
    assert issuer.log.count("refresh_token") == 1 and issuer.log.count("authorize") == 1


def test_two_clients_with_one_file_share_a_login_and_its_refresh(tmp_path):
    path = str(tmp_path / "deep" / "tokens.json")
    with guarded() as (issuer, server):
        make = functools.partial(log_in, server)
        with make(store=mcpkit.TokenFile(path)) as first, make(
                store=mcpkit.TokenFile(path)) as second:
            issuer.scopes.clear()
            for client in (first, second):
                assert client.request("x/y") == {"ok": 1}
    assert issuer.log.count("authorize") == issuer.log.count("refresh_token") == 1
    if os.name == "posix":
        assert {file.stat().st_mode & 0o777 for file in (tmp_path / "deep").iterdir()} == {0o600}
        assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "deep").glob("*.new"))


def test_a_login_is_forgotten_for_the_endpoint_that_it_was_for(tmp_path):
    path = str(tmp_path / "tokens.json")
    with guarded() as (issuer, server):
        auth = mcpkit.OAuth(authorize=browse, store=mcpkit.TokenFile(path))
        with log_in(server, auth):
            assert auth.log_in(server.url).resource == server.url
        assert auth.log_out(server.url + "/other") == 0 and auth.log_out(server.url) == 1
        with pytest.raises(ProtocolError, match=f"run: mcpkit.py login {server.url}"):
            log_in(server, mcpkit.OAuth(grant="stored", store=mcpkit.TokenFile(path))).connect()
    assert issuer.log == FULL_LOGIN


def test_a_token_file_that_is_damaged_counts_as_empty_and_is_replaced(tmp_path):
    path = tmp_path / "tokens.json"
    store, documents = mcpkit.TokenFile(str(path)), Documents()
    path.write_bytes(b"\xff{")
    record = documents.log_in(store=store)
    assert store.read().find_endpoint(ENDPOINT) == record
    assert store.read().find_endpoint(ENDPOINT + "2") is None
    whole = json.loads(path.read_bytes())
    for entries in (5, [5], [[], None]):
        path.write_text(json.dumps({**whole, "tokens": entries}))
        assert store.read().find_endpoint(ENDPOINT) is None


@cases({
    "no object": 5, "no client": {"client": None}, "a member too many": {"x": 1},
    "a token that is none": {"access_token": None}, "no token": {"access_token": ""},
    "a time that is none": {"expires_at": "soon"}, "scopes that are none": {"scopes": 5},
    "an unknown kind": {"token_type": "mac"}, "a client that is none": {"client": []},
    "a token that no header takes": {"access_token": "a\nb"},
    "a kind that is none": {"token_type": []}, "a refresh that is none": {"refresh_token": 5},
    "a secret that is none": {"client": {"client_id": "c", "client_secret": 5}},
    "a method that is none": {"client": {"client_id": "c", "auth_method": []}},
    "an endpoint that is none": {"endpoints": [{}]}})
def test_a_damaged_record_is_left_out_and_the_others_are_read(case, tmp_path):
    path = tmp_path / "tokens.json"
    store = mcpkit.TokenFile(str(path))
    record = Documents().log_in(store=store)
    (entry,) = json.loads(path.read_bytes())["tokens"]
    damaged = {**entry, "endpoints": ["https://h/x"], **case} if isinstance(case, dict) else case
    path.write_text(json.dumps({"version": 1, "tokens": [damaged, entry]}))
    assert store.read().find_endpoint(ENDPOINT) == record
    assert store.read().find_endpoint("https://h/x") is None


def test_a_token_file_is_replaced_as_a_whole_or_stays_as_it_is(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "tokens.json"
    store = mcpkit.TokenFile(str(path))
    Documents().log_in(store=store)
    with open(path, "rb") as reader:                # one who is in the middle of it
        former = reader.read(1)
        assert mcpkit.OAuth(store=store).log_out(ENDPOINT) == 1
        Documents(token={**TOKEN, "access_token": "new"}).log_in(store=store)
        assert b'"t"' in former + reader.read()
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(UsageError, match="written: No space"):
                mcpkit.OAuth(store=store).log_out(ENDPOINT)
    assert store.read().find_endpoint(ENDPOINT).access_token == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_tokens_that_have_no_place_are_an_error_only_when_they_are_to_be_kept(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path, tmp_path / "file" / "mcpkit" / "tokens.json"):
        store = mcpkit.TokenFile(str(path))
        assert store.read().find_endpoint(ENDPOINT) is None
        assert "cannot be written" in str(Documents().log_in(store=store))


def test_a_lock_that_is_not_let_go_is_an_error_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(mcpkit, "LOCK_SECONDS", 0.01)
    store = mcpkit.TokenFile(str(tmp_path / "tokens.json"))
    with store.locked(), pytest.raises(TransportError, match="kept .* locked"):
        with store.locked():
            pass
    with pytest.raises(ConnectionResetError):       # an error of the network stays one
        with store.locked():
            raise ConnectionResetError


@pytest.mark.skipif(os.name != "posix", reason="the folder of this system")
@table("config, home, folder", {
    "XDG_CONFIG_HOME": ("x", "h", "x/mcpkit"), "else HOME": ("", "h", "h/.config/mcpkit")})
def test_tokens_lie_in_the_users_configuration_folder(config, home, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / config) if config else "relative")
    monkeypatch.setenv("HOME", str(tmp_path / home))
    Documents().log_in(store=mcpkit.TokenFile())
    assert (tmp_path / folder / "tokens.json").exists()


HOSTILE = {
    "with an endless document": (lambda asked: itertools.chain(
        [b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" " * 65536)), "larger than"),
    "with half a document": (lambda asked: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
                             "inside its answer"),
    "that speaks no HTTP": (lambda asked: b"\x16\x03\x01\0\r\n\r\n", "does not answer in HTTP"),
    "that redirects": (lambda asked: http_answer(
        b"", "302 Found", "text/plain", "Location: http://127.0.0.1:1/"), "gave HTTP 302"),
    "with a page (C120)": (lambda asked: http_answer(b"<html>", kind="text/html"),
                           "gave HTTP 200, text/html"),
    "with a list": (lambda asked: http_answer([]), "gave HTTP 200, application/json"),
}


@cases(HOSTILE)
def test_a_hostile_issuer_ends_the_login_in_one_line(case):
    answer, words = case
    with guarded() as (issuer, server):
        issuer.answer = answer
        with pytest.raises(MCPKitError, match=words) as caught:
            log_in(server).connect()
    assert "\n" not in str(caught.value)


def test_an_issuer_that_never_answers_ends_the_login_in_time():
    released = threading.Event()
    with guarded() as (issuer, server):
        issuer.answer = lambda asked: b"" if released.wait(WAIT) else b""
        auth = mcpkit.OAuth(authorize=browse, timeout=0.1)
        with pytest.raises(TransportError, match=f"no answer for 0.1 s from .*:{issuer.port}"):
            log_in(server, auth).connect()
        released.set()


# ---- the browser

def get_page(url):
    """Get a page, whatever it is."""
    parts = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=WAIT)) as one:
        one.request("GET", f"{parts.path}?{parts.query}")
        with one.getresponse() as response:
            return response.read()


def test_the_browser_comes_back_to_a_listener_of_this_machine(monkeypatch, capsys):
    import webbrowser
    pages = queue.Queue()

    def visit(url):
        def run():
            back = browse(url)
            for said in (b"", b"GET /callback?x HTTP/1.1\r\nHo"):      # one that hangs up
                address = urllib.parse.urlsplit(back)
                with socket.create_connection((address.hostname, address.port), timeout=WAIT) as sock:
                    sock.sendall(said)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            browse(back.replace("/callback", "/favicon.ico"))
            pages.put(get_page(back))
        threading.Thread(target=run, daemon=True).start()
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    with guarded() as (issuer, server):
        with Client(server.url, auth=mcpkit.OAuth(timeout=WAIT), timeout=WAIT) as client:
            assert client.list_tools() == []
            assert b"You can close this page" in pages.get(timeout=WAIT)
            assert client.call_tool("x") == {"content": []}
    assert issuer.log.count("register") == 1          # the second login used the same address
    shown = capsys.readouterr().err
    assert "log in with your browser: http://127.0.0.1" in shown and "Traceback" not in shown


def test_a_login_that_nobody_finishes_ends_in_time(monkeypatch):
    import webbrowser
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    monkeypatch.setattr(mcpkit, "LOGIN_SECONDS", 0.05)
    with guarded() as (_, server), pytest.raises(TransportError, match="no login was finished"):
        Client(server.url, auth=mcpkit.OAuth(), timeout=WAIT).connect()


# ---- without a person

def test_client_credentials_need_no_person_and_are_declared():
    with guarded(authorization_endpoint=None) as (issuer, server):
        issuer.clients["robot"] = "robots-secret", []
        auth = mcpkit.OAuth(grant="client_credentials", client_id="robot", client_secret="robots-secret")
        with log_in(server, auth) as client:
            assert client.list_tools() == []
            issuer.scopes.clear()
            issuer.refresh_tokens.clear()
            assert client.call_tool("x") == {"content": []}
        meta = server.asked[0].message["params"]["_meta"]
        extensions = meta["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        assert extensions == {"io.modelcontextprotocol/oauth-client-credentials": {}}
    form = next(asked.message for asked in issuer.asked if "grant_type" in asked.message)
    assert form == {"grant_type": "client_credentials", "resource": server.url, "scope": "read"}


def test_a_token_of_an_identity_provider_is_exchanged_for_one_of_the_issuer():
    exchanged = []

    def exchange(asked):
        exchanged.append(asked.message)
        return http_answer({"access_token": "jag", "token_type": "N_A"})

    with guarded() as (issuer, server), Peer(exchange) as provider:
        issuer.clients["robot"] = "robots-secret", []
        assertion = mcpkit.TokenExchange(provider.url, "id-token", "app")
        auth = mcpkit.OAuth(grant="jwt_bearer", client_id="robot", client_secret="robots-secret",
                            assertion=assertion)
        with log_in(server, auth) as client:
            assert client.list_tools() == []
    kind = "urn:ietf:params:oauth:token-type:"
    assert exchanged == [{
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": "id-token", "subject_token_type": kind + "id_token",
        "requested_token_type": kind + "id-jag", "audience": issuer.name,
        "resource": server.url, "client_id": "app"}]
    assert issuer.asked[-1].message["assertion"] == "jag"
    assert list_leaks(issuer, server) == []


@pytest.mark.parametrize("answer", [http_answer({"error": "invalid_scope"}, "400 Bad Request"),
                                    http_answer(b"", "500 Broken", "text/plain")])
def test_an_assertion_that_is_refused_is_tried_once(answer):
    with guarded() as (issuer, server):
        issuer.serve_token = lambda *_: answer
        issuer.clients["robot"] = "robots-secret", []
        auth = mcpkit.OAuth(grant="jwt_bearer", client_id="robot", assertion="a.b.c")
        with pytest.raises(ProtocolError, match="invalid_scope|HTTP 500"):
            log_in(server, auth).connect()
    assert issuer.log == ["oauth-authorization-server",
                          "urn:ietf:params:oauth:grant-type:jwt-bearer"]


def test_a_login_goes_by_the_way_that_the_network_says(certificates):
    with Issuer(tls=certificates.server()) as issuer, Vault(issuer) as server:
        issuer.clients["robot"] = "robots-secret", []
        options = {"grant": "client_credentials", "client_id": "robot",
                   "client_secret": "robots-secret"}
        network = mcpkit.Network(cacert=certificates.path("ca.pem"))
        with pytest.raises(TransportError, match="tls: .*--cacert"):
            Client(server.url, network=network, auth=mcpkit.OAuth(**options),
                   timeout=WAIT).connect()
        with Client(server.url, network=network, timeout=WAIT,
                    auth=mcpkit.OAuth(**options, send=functools.partial(
                        mcpkit.send_once, network=network))) as client:
            assert client.list_tools() == []


def test_a_token_follows_a_redirect_on_the_origin_that_it_is_for():
    with guarded() as (issuer, server):
        serve = server.serve
        server.answer = lambda asked: (
            http_answer(b"", "308 Moved", "text/plain", "Location: /new")
            if asked.path == "/mcp" else serve(asked))
        with log_in(server) as client:
            assert client.list_tools() == [] and client.request("x/y") == {"ok": 1}
    assert issuer.log == FULL_LOGIN


SENSELESS = {
    "an unknown grant": {"grant": "password"},
    "no client_id": {"grant": "client_credentials"},
    "no assertion": {"grant": "jwt_bearer", "client_id": "c"},
    "an assertion that nobody takes": {"assertion": "a"},
    "scopes in one text": {"scopes": "read write"},
    "no key file": {"key_file": "/nowhere/key.pem"},
}


@cases(SENSELESS)
def test_a_login_that_makes_no_sense_is_refused_where_it_is_made(case):
    with pytest.raises(UsageError):
        mcpkit.OAuth(**case)


# ---- signatures

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def run_openssl(*words, data=b""):
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def write_key(path, curve="prime256v1"):
    path.write_bytes(run_openssl("ecparam", "-name", curve, "-genkey", "-noout"))
    path.chmod(0o600)
    return str(path)


P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")     # before a point


def is_signed(token, point, folder):
    """Return whether openssl finds the signature good, by the 65 bytes of a public key."""
    text, _, signature = token.rpartition(".")
    raw = decode_base64url(signature)
    numbers = [raw[start:start + 32].lstrip(b"\0") for start in (0, 32)]
    numbers = [b"\0" + number if number[0] > 127 else number for number in numbers]
    body = b"".join(b"\x02" + bytes([len(number)]) + number for number in numbers)
    (folder / "signature").write_bytes(b"\x30" + bytes([len(body)]) + body)
    (folder / "public").write_bytes(run_openssl("ec", "-pubin", "-inform", "DER", data=P256 + point))
    return b"Verified OK" in run_openssl("dgst", "-sha256", "-verify", str(folder / "public"),
                                         "-signature", str(folder / "signature"),
                                         data=text.encode())


@needs_openssl
def test_a_client_proves_itself_with_a_signed_assertion(tmp_path):
    key = write_key(tmp_path / "key.pem")
    with guarded(token_endpoint_auth_methods_supported=["private_key_jwt"]) as (issuer, server):
        issuer.find_client = lambda asked: asked.message["client_id"]
        auth = mcpkit.OAuth(grant="client_credentials", client_id="robot", key_file=key)
        with log_in(server, auth) as client:
            assert client.list_tools() == []
    form = issuer.asked[-1].message
    header, claims = read_jwt(form["client_assertion"])
    assert form["client_assertion_type"] == (
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer") and header["alg"] == "ES256"
    assert [claims[name] for name in ("iss", "sub", "aud")] == ["robot", "robot", issuer.name]
    assert 0 < claims["exp"] - claims["iat"] <= 300 and claims["jti"]
    public = run_openssl("ec", "-in", key, "-pubout", "-outform", "DER")
    assert is_signed(form["client_assertion"], public[-65:], tmp_path)


@needs_openssl
def test_a_bound_token_goes_with_a_new_proof_for_each_request(tmp_path):
    store = mcpkit.TokenFile(str(tmp_path / "tokens.json"))
    with guarded() as (issuer, server):
        issuer.nonce, server.nonce = "issuers-nonce", "servers-nonce"
        serve = server.serve
        server.answer = lambda asked: (             # each proof names where its request goes
            http_answer(b"", "308 Moved", "text/plain", "Location: /new")
            if asked.path == "/mcp" else serve(asked))
        with log_in(server, dpop=True, store=store) as client:
            assert client.list_tools() == []
            issuer.scopes.clear()
            assert client.request("x/y") == {"ok": 1}
    assert issuer.log.count("refresh_token") == 1 and "/new" in [a.path for a in server.asked]
    proofs = [(side, asked) for side in (issuer, server) for asked in side.asked
              if "dpop" in asked.headers]
    read = [read_jwt(asked.headers["dpop"]) for _, asked in proofs]
    assert len({claims["jti"] for _, claims in read}) == len(proofs) > 5
    for (side, asked), (header, claims) in zip(proofs, read):
        assert header["typ"] == "dpop+jwt" and set(header["jwk"]) == {"kty", "crv", "x", "y"}
        assert (claims["htm"], claims["htu"]) == ("POST", f"http://127.0.0.1:{side.port}{asked.path}")
        token = asked.headers["authorization"].partition("DPoP ")[2]
        assert claims.get("ath") == (hash_base64url(token) if token else None)
        point = b"\4" + b"".join(decode_base64url(header["jwk"][name]) for name in "xy")
        assert is_signed(asked.headers["dpop"], point, tmp_path)
    assert (tmp_path / "dpop.pem").stat().st_mode & 0o777 in (0o600, 0o666)


KEY_FAULTS = {
    "another curve": (lambda path: write_key(path, "secp384r1"), "P-256"),
    "no key": (lambda path: path.write_text("x") and path.chmod(0o600) or str(path), "openssl ec"),
    "others can read it": (lambda path: write_key(path) and path.chmod(0o644) or str(path),
                           "chmod 600"),
    "a passphrase": (lambda path: run_openssl(
        "ec", "-in", write_key(path), "-aes128", "-passout", "pass:x", "-out", str(path))
        and None or str(path), "openssl ec"),
}


@needs_openssl
@needs_signals
@cases(KEY_FAULTS)
def test_a_key_that_cannot_sign_is_refused_in_one_line(case, tmp_path):
    make, words = case
    with pytest.raises(UsageError, match=words) as caught:
        mcpkit.OAuth(key_file=make(tmp_path / "key.pem"))
    assert "\n" not in str(caught.value)


def test_without_the_openssl_program_a_signature_is_a_plain_error(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="made by the openssl program, which is not found"):
        mcpkit.OAuth(key_file="key.pem")


@needs_signals
@needs_openssl
def test_a_key_that_openssl_does_not_make_leaves_no_file_behind(tmp_path, monkeypatch):
    store = mcpkit.TokenFile(str(tmp_path / "tokens.json"))
    (tmp_path / "openssl").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "openssl").chmod(0o755)
    documents = Documents(token={**TOKEN, "token_type": "DPoP"})
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        found = documents.log_in(store=store, dpop=True)
        assert isinstance(found, UsageError) and "openssl ecparam failed" in str(found)
    assert documents.log_in(store=store, dpop=True).token_type == "DPoP"
    documents.documents["https://as/token"] = TOKEN
    assert "not bound to our key" in str(documents.log_in(dpop=True))


# =============================================================================================
# 25. CONFIGURATION FILES
# =============================================================================================
VARIABLES = {"TOKEN": "t0p-secret", "EMPTY": "", "N": "5"}


def resolve(entry):
    return mcpkit.resolve_server("it", entry, "mcp.json", VARIABLES.get)


def read_servers(text):
    data = text if isinstance(text, bytes) else text.encode()
    return mcpkit.parse_config(data, "mcp.json", "/work")


IT = '{"url": "http://h//x"}'


@table("text", {
    "mcpServers": '{"mcpServers": {"it": %s}}' % IT, "servers": '{"servers": {"it": %s}}' % IT,
    "C121 a BOM": '\ufeff{"servers": {"it": %s}}' % IT,
    "C121 line comments": '// a "\n{"servers": {"it": %s // }\n}}// b' % IT,
    "C121 block comments": '{/* { " \n */"servers"/**/: {"it": %s}}' % IT,
    "C121 trailing commas": '{"servers": {"it": %s, }, /* , */ }' % IT,
    "UTF-16, as some editors on Windows write it": ('{"servers": {"it": %s}}' % IT).encode("utf-16"),
    "settings of an editor": '{"a": [1,], "mcp": {"servers": {"it": %s}}}' % IT,
    "the servers of one project": '{"projects": {"/work": {"mcpServers": {"it": %s}}, "/": {}},'
                                  ' "mcpServers": {"it": {"url": "http://other/"}}}' % IT,
})
def test_c121_the_servers_of_each_dialect_are_found(text):
    assert read_servers(text) == {"it": {"url": "http://h//x"}}


@table("text", {"an object without servers": "{}", "a list": "[]", "servers that are none":
                '{"servers": 5, "mcp": [], "projects": null}'})
def test_a_file_without_servers_has_none(text):
    assert read_servers(text) == {}


@table("text, place", {
    "a missing colon": ('{"servers":\n  {"it" {}}}', "mcp.json:2:9: "),
    "a comma in a comment": ('{"a": 1 /* , */ "b": 2}', "mcp.json:1:17: "),
    "what only looks like a comment": ('{"a": "// /* ,}", "b" 1}', "mcp.json:1:23: "),
    "an endless comment": ('{"a": 1, /*', "mcp.json:1:"), "an endless string": ('{"a', "mcp.json:1:2"),
    "nothing": ("", "mcp.json:1:1: "), "bytes that are no text": (b"{\xff}", "mcp.json cannot be read"),
    "endless nesting": ("[" * 100000, "mcp.json"),
})
def test_c121_a_syntax_error_says_line_and_column(text, place):
    error = find_error(read_servers, text)
    assert type(error) is UsageError and str(error).startswith(place)


def test_reading_a_configuration_takes_time_in_proportion_to_its_length():
    for part in ("/*", "//\n", '"', ",  ", '"\\'):
        assert is_linear(lambda text: find_error(read_servers, text), lambda size: part * size, 2000)
    assert is_linear(lambda text: resolve({"command": text}), lambda size: "${" * size, 2000)


INTERPRETER = ["python3", "s.py"]


@table("entry, wanted", {
    "a command": ({"command": "python3", "args": ["s.py"]}, (INTERPRETER,)),
    "a command in one list": ({"type": "local", "command": INTERPRETER}, (INTERPRETER,)),
    "its folder and variables": (
        {"command": "python3", "args": ["s.py"], "cwd": "/a", "env": {"A": "b", "N": 5, "T": True,
                                                                     "Z": None}},
        (INTERPRETER, {}, {"A": "b", "N": "5", "T": "true"}, "/a")),
    **{f"C121 type {kind}": ({"type": kind, "url": "http://h//x"}, ("http://h//x",)) for kind in (
        "http", "streamable-http", "streamableHttp", "sse", "HTTP", "remote")},
    "C121 no type": ({"url": "http://h//x"}, ("http://h//x",)),
    "a url under other names": ({"serverUrl": "https://h/"}, ("https://h/",)),
    "headers": ({"httpUrl": "https://h/", "headers": {"X-Key": "a:b"}},
                ("https://h/", {"X-Key": "a:b"})),
    "C121 variables": ({"url": "http://h/${env:TOKEN}/${N}", "headers": {
        "A": "${NO:-d}${EMPTY:-e}${N:-f}${EMPTY}"}}, ("http://h/t0p-secret/5", {"A": "de5"})),
    "variables in a command": ({"command": "x", "args": ["${N}"], "env": {"A": "${TOKEN}"}},
                               (["x", "5"], {}, {"A": "t0p-secret"})),
    "what is not known": ({"url": "http://h/", "disabled": True, "timeout": "${NO}"}, ("http://h/",)),
})
def test_c121_a_server_is_reached_as_its_entry_says(entry, wanted):
    assert resolve(entry)[:4] == (*wanted, *("", {}, {}, None)[len(wanted):])


@table("entry, words", {
    "C121 a missing variable": ({"url": "http://h/${NO_SUCH}"},
                                "needs the variable NO_SUCH, which is not set"),
    "half a character": ({"url": "http://h/${\ud800}"}, r"needs the variable \ud800, which"),
    "C121 missing variables": ({"url": "http://h/${A}", "headers": {"H": "${env:B} ${A} ${C:-c}"},
                               "other": "${D}"}, "needs the variables B and A, which are not set"),
    "no object": (5, "is no object"), "nothing": ({}, "has neither command nor url"),
    "an unknown type": ({"type": "pigeon", "url": "http://h"}, "is of an unknown type, pigeon"),
    "a type without its member": ({"type": "stdio", "url": "http://h"}, "but has no command"),
    "another type without": ({"type": "sse", "command": "x"}, "but has no url"),
    "an empty command": ({"command": ""}, "has an empty command"),
    "an empty list": ({"command": []}, "has an empty command"),
    "a url that is none": ({"url": "ftp://s3cret"}, "has a url that is no http or https URL"),
    "arguments that are none": ({"command": "x", "args": "s3cret"}, "args that is not a list"),
    "an argument that is none": ({"command": "x", "args": [["s3cret"]]}, "args that is not a text"),
    "variables that are none": ({"command": "x", "env": ["s3cret"]}, "env that is not an object"),
    "a header that is none": ({"url": "http://h", "headers": {"A": "s3cret\n"}}, "not a header: A"),
})
def test_c121_an_entry_that_cannot_be_used_is_an_error_without_its_values(entry, words):
    error = find_error(resolve, entry)
    assert type(error) is UsageError and words in str(error) and "s3cret" not in str(error)
    assert str(error).startswith("mcp.json: the server it ")


def test_c121_nothing_of_an_entry_that_may_be_secret_is_left_in_a_text():
    http = resolve({"url": "http://h/in-the-url", "headers": {"A": "in-a-header"}})
    stdio = resolve({"command": "x", "args": ["in-an-argument", "${TOKEN}"],
                     "env": {"A": "in-the-env", "B": "1"}})
    seen = {"a": ["at http://h/in-the-url: in-a-header"], "b": "x in-an-argument t0p-secret ended 1"}
    assert mcpkit.hide_secrets(seen, {**http.hidden, **stdio.hidden}) == {
        "a": ["at it: ***"], "b": "it ended 1"}
    assert mcpkit.hide_secrets("t0p-secret is wrong", stdio.hidden) == "${TOKEN} is wrong"


@pytest.mark.parametrize("size", [5, 6, 60, 200, 299])
def test_of_a_secret_that_was_cut_off_no_beginning_is_left(size):
    secret = "".join(str(number) for number in range(100, 200))
    seen = f"unknown token: {secret[:size]}... (ask for another)"
    shown = mcpkit.hide_secrets(seen, {secret: "${TOKEN}"})
    assert shown == (seen if size < 6 else "unknown token: ${TOKEN}... (ask for another)")
    assert mcpkit.hide_secrets("100101x... 100101102", {secret: "!"}) == "100101x... 100101102"


CONFIG = {"mcpServers": {"pong": {
    "command": "${PY}", "args": [*MODULE, "serve", "--stdio"], "env": {"KEY": "s3cret-of-file"}}}}


@table("words, file", {
    "a name": (["list", "pong"], ".mcp.json"), "another file": (["list", "pong"], "mcp.json"),
    "an editor's file": (["list", "pong"], ".vscode/mcp.json"),
    "the user's file": (["list", "pong"], "home/.cursor/mcp.json"),
    "the user's settings": (["list", "pong"], "home/.config/Code/User/mcp.json"),
    "a file that is named": (["list", "pong", "--config", "my.json"], "my.json"),
    "an option instead of TARGET": (["list", "--config", "my.json", "--server", "pong"], "my.json"),
    "before more words": (["call", "--server=pong", "pong", "message=x"], ".mcp.json"),
    "the probe": (["probe", "pong"], ".mcp.json")})
def test_a_server_of_a_configuration_file_goes_by_its_name(words, file, tmp_path):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(json.dumps(CONFIG))
    ran = run(*words, cwd=tmp_path, HOME=str(tmp_path / "home"), XDG_CONFIG_HOME=str(
        tmp_path / "home" / ".config"), PY=sys.executable)
    assert (ran.code, ran.err) == (0, "") and "pong" in ran.out


def test_the_probe_of_a_file_names_each_server_that_works_and_each_that_does_not(target, tmp_path):
    host = target.partition("://")[2].partition("/")[0]
    (tmp_path / "my.json").write_text(json.dumps({"servers": {
        **CONFIG["mcpServers"], "gone": {"command": "no-such-command-anywhere"},
        "bare": {"url": "http://h.test/", "headers": {"A": "${NO_A} ${PY}", "B": "${NO_B:-b}",
                                                      "C": "${NO_C}"}},
        "web": {"url": target + "?k=s3cret-of-url", "headers": {"X-Key": "s3cret-of-header"}}}}))
    files = [word for name in ("junit", "html", "transcript")
             for word in (f"--{name}", str(tmp_path / name))]
    ran = run("probe", "--config", "my.json", "--deep", "--curl", *files, "-v", cwd=tmp_path,
              PY=sys.executable)
    assert ran.code == 4 and [line.strip() for line in ran.out.splitlines()[:7]] == [
        "probe of 4 servers in my.json",
        "pass        pong: mcpkit pong 0.2.0 speaks 2025-11-25 and 2026-07-28",
        "unreachable gone: at start: command not found: no-such-command-anywhere",
        "-> check its spelling and the PATH",
        "fail        bare: at configuration: the server bare needs the variables NO_A and NO_C, "
        "which are not set", "-> fix its entry, or set what it needs",
        "pass        web: sample 1.2.3 speaks 2025-11-25 and 2026-07-28"]
    written = [(tmp_path / name).read_text() for name in ("junit", "html", "transcript")]
    assert "web: modern" in written[0] and ">web</a>" in written[1]
    assert f"Host: {host}" in written[2] and "2025-11-25" in written[2]
    assert "s3cret" not in "".join([ran.out, ran.err, *written])


def test_the_probe_of_a_file_is_one_json_document_and_says_where_there_is_no_server(tmp_path):
    (tmp_path / "my.json").write_text(json.dumps(CONFIG))
    ran = run("probe", "--config", "my.json", "--json", "--era", "modern", cwd=tmp_path,
              PY=sys.executable)
    assert ran.code == 0 and list(ran.json["servers"]) == ["pong"]
    assert ran.json["servers"]["pong"]["eras"]["modern"]["tools"] == ["pong"]
    assert ran.json["verdict"] == "pass" and ran.json["target"] == "my.json"
    (tmp_path / "my.json").write_text("{}")
    assert "my.json names no servers" in run("probe", "--config", "my.json", cwd=tmp_path).err
    assert "but is missing" in run("probe", cwd=tmp_path).err


@needs_signals
def test_a_signal_ends_the_probe_of_a_file_and_all_servers_that_it_has_started(tmp_path):
    script = (f"import os, time; open({str(tmp_path / 'pid')!r} + str(os.getpid()), 'w'); "
              "print('[]', flush=True); time.sleep(600)")
    (tmp_path / "my.json").write_text(json.dumps({"servers": {
        name: {"command": sys.executable, "args": ["-c", script]} for name in "ab"}}))
    child = subprocess.Popen([*PROGRAM, "probe", "--config", "my.json", "--timeout", "500"],
                             cwd=tmp_path)
    wait_for(lambda: len(list(tmp_path.glob("pid*"))) == 2)
    child.terminate()
    assert child.wait(WAIT) == 143
    for path in tmp_path.glob("pid*"):
        wait_for(lambda: not is_running(int(path.name[3:])))


def test_a_child_has_the_variables_and_the_folder_of_its_entry(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "show.py").write_text(
        "import os\nfrom mcpkit import Server\nserver = Server('show')\n@server.tool\n"
        "def show() -> str:\n    return os.environ['A'] + ' ' + os.path.basename(os.getcwd())")
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": {"show": {
        "command": sys.executable, "args": [*MODULE, "serve", "show.py", "--stdio"],
        "env": {"A": "one"}, "cwd": "there"}}}))
    assert run("call", "show", "show", cwd=tmp_path).out == "one there\n"
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": {"show": {
        "command": sys.executable, "cwd": "nowhere"}}}))
    ran = run("list", "show", cwd=tmp_path)
    assert ran.code == 4 and "in nowhere: No such file" in ran.err


def test_servers_lists_what_the_files_name_and_no_secret(tmp_path):
    (tmp_path / ".mcp.json").write_text("{")
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": {
        "a": {"command": "/opt/bin/tool --key s3cret", "args": ["s3cret"], "env": {"K": "s3cret"}},
        "b": {"url": "https://u:s3cret@h.example/s3cret?k=s3cret", "headers": {"K": "s3cret"}},
        "c\x1b": {"type": "pigeon"}}}))
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    ran = run("servers", cwd=tmp_path, **home)
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == ["a", "b", "c\\x1b"]
    assert ran.err.startswith("mcpkit: .mcp.json:1:2: ") and "s3cret" not in ran.out + ran.err
    assert run("servers", "--json", cwd=tmp_path, **home).json["servers"][:2] == [
        {"name": "a", "kind": "stdio", "where": "tool", "source": "mcp.json"},
        {"name": "b", "kind": "http", "where": "h.example", "source": "mcp.json"}]
    assert run("servers", "--config", ".mcp.json", cwd=tmp_path, **home).code == 2


CONFIG_FAULTS = {
    "an unknown name": (["list", "pang"], 2, "did you mean pong?"),
    "an unknown name of a file": (["list", "pang", "--config", "mcp.json"], 2, "no server pang in"),
    "no such file": (["list", "pong", "--config", "no.json"], 2, "no.json cannot be read"),
    "a variable that is missing": (["list", "pong"], 2, "needs the variable PY, which is not set"),
    "a file and a URL": (["list", "http://127.0.0.1:1/", "--config", "mcp.json"], 2, "--config goes"),
    "two servers": (["list", "--server", "pong", "--", "python3"], 2, "both --server and -- COMMAND"),
    "a name and a URL": (["call", "http://h/", "pong", "--server", "pong"], 2, "both a URL and"),
    "a child that is not there": (["list", "gone"], 4, "its last words: key ***"),
}


@cases(CONFIG_FAULTS)
def test_a_server_that_no_file_has_is_one_line_without_secrets(case, tmp_path):
    words, code, advice = case
    config = {**CONFIG["mcpServers"], "gone": {
        "command": sys.executable, "env": {"KEY": "s3cret-of-file"},
        "args": ["-c", "import os, sys; sys.exit('key ' + os.environ['KEY'])"]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": config}))
    ran = run(*words, cwd=tmp_path, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert (ran.code, ran.out) == (code, "") and advice in ran.err and ran.err.count("\n") == 1
    assert "s3cret" not in ran.err


# =============================================================================================
# 26. PROBE RULES
# =============================================================================================
class Raw(typing.NamedTuple):
    """A request or an answer on its way through a spoiled server."""

    line: typing.Any                 # the method of a request, the status of an answer
    headers: tuple                   # (name, value) pairs as they were sent
    body: bytes = b""
    ends: bool = True                # an answer after which the connection is closed

    def find(self, name):
        """Return the first value of a header, None where it is missing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def with_header(self, name, value):
        """Return this with a header replaced, or (None) left out."""
        rest = tuple(pair for pair in self.headers if pair[0].lower() != name.lower())
        return self._replace(headers=rest if value is None else (*rest, (name, value)))

    @property
    def message(self):
        """The JSON object of the body, {} where there is none."""
        with contextlib.suppress(ValueError):
            value = json.loads(self.body.partition(b"data: ")[2] or self.body)
            return value if isinstance(value, dict) else {}
        return {}

    @property
    def method(self):
        """The method of a request of the deep checks, whose ids are texts; else None."""
        is_deep = isinstance(self.message.get("id", ""), str)
        return self.message.get("method") if is_deep else None

    def edit(self, change):
        """Return this with its message changed in place."""
        message = self.message
        change(message)
        head, mark, _ = self.body.partition(b"data: ")
        body = json.dumps(message).encode()
        return self._replace(body=head + mark + body + b"\n\n" if mark else body)


def forward_to(service, asked):
    """Return what a server of ours answers to a request."""
    host, port = service.server_address[:2]
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=WAIT)) as connection:
        connection.putrequest(asked.line, "/mcp", skip_host=True, skip_accept_encoding=True)
        is_own = asked.find("Host").startswith("127.0.0.1")
        kept = [pair for pair in asked.headers if pair[0].lower() not in ("host", "content-length")]
        for name, value in (*kept, ("Content-Length", str(len(asked.body))), (
                "Host", f"127.0.0.1:{port}" if is_own else asked.find("Host"))):
            connection.putheader(name, value)
        connection.endheaders(asked.body)
        response = connection.getresponse()
        headers = tuple(pair for pair in response.getheaders() if pair[0].lower() not in (
            "connection", "content-length", "transfer-encoding", "date", "server"))
        is_open = "event-stream" in response.getheader("Content-Type", "") and (
            asked.line == "GET" or asked.message.get("method") == "subscriptions/listen")
        body = response.read() if not is_open else response.read1(65536) if asked.body else b""
        return Raw(response.status, headers, body, not is_open)


@contextlib.contextmanager
def spoiled(service, apply):
    """Yield the URL of a server with one thing wrong: `spoil(asked, forward)` gives each answer."""
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = WAIT

        def do_POST(self):
            size = int(self.headers.get("Content-Length") or 0)
            answer = apply(Raw(self.command, tuple(self.headers.items()), self.rfile.read(size)),
                           functools.partial(forward_to, service))
            self.send_response(answer.line)
            for pair in answer.headers:
                self.send_header(*pair)
            self.end_headers()
            self.wfile.write(answer.body)
            if not answer.ends:
                self.rfile.read(1)                   # until the other side has had enough

        do_GET = do_DELETE = do_OPTIONS = do_POST

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None        # the probe leaves streams in the middle
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


def wrong(when, sent=None, edit=None, answer=None, status=None, header=None, data=b"", ends=None):
    """Spoil what is asked `when(asked)`: the request (`sent`), or what of the answer is given."""
    def run(asked, forward):
        if not when(asked):
            return forward(asked)
        if answer is not None:
            return answer
        got = forward(asked if sent is None else sent(asked))
        got = got.edit(edit) if edit is not None and got.message else got
        got = got if header is None else got.with_header(*header)
        return got._replace(line=status or got.line, body=got.body + data,
                            ends=got.ends if ends is None else ends)
    return run


def forgiving(name, is_wrong, right):
    """A server that reads a right header where a wrong one is."""
    return wrong(lambda asked: asked.body and is_wrong(asked.find(name), asked),
                 lambda asked: asked.with_header(name, right(asked)))


def editing_result(method, change):
    """A server that answers one method with other results than it should."""
    def edit(message):
        if "result" in message:
            change(message["result"])
    return wrong(on(method), edit=edit)


def editing_tool(change):
    """A server that lists its first tool in another way."""
    return editing_result("tools/list", lambda result: change(result["tools"]))


def on(method):
    return lambda asked: asked.method == method


def with_id(request_id):
    return lambda asked: asked.message.get("id", "none") == request_id


def meta_of(message):
    return message.get("params", {}).get("_meta", {})


def version_in(asked):
    return meta_of(asked.message).get("io.modelcontextprotocol/protocolVersion", "2025-11-25")


def method_in(asked):
    return asked.message["method"]


def list_versions(asked):
    return [value for key, value in asked.headers if key.lower() == "mcp-protocol-version"]


def is_unknown(asked):
    return version_in(asked) == "1900-01-01"


def serve_null_ids(asked, forward):
    """Take null for an id."""
    if asked.message.get("id", 0) is not None:
        return forward(asked)
    return forward(asked.edit(lambda message: message.update(id="x"))).edit(
        lambda message: message.update(id=None))


def serve_odd_session(asked, forward):
    """Give a session ID with a space in it."""
    answer = forward(asked.with_header("Mcp-Session-Id", (asked.find("Mcp-Session-Id") or "")
                                       .replace("odd ", "") or None))
    given = answer.find("Mcp-Session-Id")
    return answer if given is None else answer.with_header("Mcp-Session-Id", "odd " + given)


def serve_ended_sessions(asked, forward):
    """Forget that 404 tells a client to begin again."""
    answer = forward(asked)
    is_ended = answer.line == 404 and asked.find("Mcp-Session-Id") != "no-such-session"
    return answer._replace(line=400) if is_ended else answer


def serve_pages(asked, forward):
    """List the tools on two pages, of which only one is for all."""
    is_second = asked.message.get("params", {}).get("cursor") == "2"
    answer = forward(asked.edit(lambda message: message["params"].pop("cursor")) if is_second
                     else asked)
    if asked.method != "tools/list":
        return answer
    changes = {"cacheScope": "private", "tools": []} if is_second else {"nextCursor": "2"}
    return answer.edit(lambda message: message.get("result", {}).update(changes))


def reversing():
    """List the tools now in this order, now in that."""
    count = itertools.count()
    return editing_tool(lambda tools: tools.reverse() if next(count) % 2 else None)


def after(when, **changes):
    """Spoil what is answered `when(answer)`."""
    def run(asked, forward):
        answer = forward(asked)
        return wrong(lambda _: when(answer), **changes)(asked, lambda _: answer)
    return run


def add_to_streams(data):
    return after(lambda answer: not answer.ends, data=data)


def answering(status=400, body=b"", kind="text/plain"):
    return Raw(status, (("Content-Type", kind),), body)


NO_SESSION = (lambda asked: asked.line == "POST" and asked.find("Mcp-Session-Id") is None
              and asked.message.get("method") != "initialize")
NOTIFIED = (lambda asked: asked.message.get("method") == "notifications/probe")
JSON_KIND = "application/json"

# By the rule that is broken, with its era where the two break it in other ways.
SPOILED = {
    "discover": wrong(with_id("probe-1"), edit=lambda message: message["result"].update(
        supportedVersions=["2031-01-01"])),
    "server-info": editing_result("server/discover", lambda result: result.pop("_meta")),
    "initialize": wrong(with_id("probe-1"), edit=lambda message: message["result"].update(
        protocolVersion="1")),
    "initialize-unknown": wrong(lambda asked: b"1900-01-01" in asked.body, edit=lambda message: (
        message["result"].update(protocolVersion="1900-01-01"))),
    "ping": editing_result("ping", lambda result: result.update(ok=True)),
    "lists-answer": editing_result("prompts/list", lambda result: result.pop("prompts")),
    "version-missing": forgiving("MCP-Protocol-Version", lambda value, _: not value, version_in),
    "version-mismatch": forgiving("MCP-Protocol-Version", lambda _, asked: list_versions(
        asked) == ["2025-11-25"], version_in),
    "version-repeated": forgiving("MCP-Protocol-Version", lambda _, asked: len(list_versions(
        asked)) == 2, version_in),
    "version-unknown": wrong(is_unknown, status=200),
    "version-list": wrong(is_unknown, edit=lambda message: message["error"].pop("data")),
    "version-header": forgiving("MCP-Protocol-Version", lambda value, _: value == "1900-01-01",
                                version_in),
    "version-assumed": wrong(lambda asked: asked.method == "ping" and not list_versions(asked),
                             answer=answering()),
    "method-missing": forgiving("Mcp-Method", lambda value, asked: value is None and asked.method,
                                method_in),
    "method-mismatch": forgiving("Mcp-Method", lambda value, _: value == "tools/list", method_in),
    "method-case": forgiving("Mcp-Method", lambda value, _: value == "SERVER/DISCOVER", method_in),
    "header-names": wrong(lambda asked: "mcp-method" in dict(asked.headers), answer=answering()),
    "meta-missing": wrong(with_id("bare"), answer=answering(200, json.dumps(
        {"jsonrpc": "2.0", "id": "bare", "result": {"resultType": "complete"}}).encode(),
        JSON_KIND)),
    "capabilities-missing": wrong(lambda asked: asked.method and meta_of(asked.message), (
        lambda asked: asked.edit(lambda message: meta_of(message).update(
            {"io.modelcontextprotocol/clientCapabilities": {}})))),
    "session-ignored": wrong(lambda asked: asked.find("Mcp-Session-Id"), answer=answering(404)),
    "id-echo": wrong(with_id(0), edit=lambda message: message.update(id="0")),
    "id-null": serve_null_ids,
    "legacy-method-unknown": wrong(on("probe/unknown"), edit=lambda message: message[
        "error"].update(code=-32600)),
    "modern-method-unknown": wrong(on("probe/unknown"), status=200),
    "error-id": wrong(with_id("mine"), edit=lambda message: message.update(id=None)),
    "error-escaping": wrong(on("<b>probe</b>"), answer=answering(
        404, b"no <b>probe</b>", "text/html")),
    "bad-json": wrong(lambda asked: asked.body[-2:] == b", ", edit=lambda message: message[
        "error"].update(code=-32600)),
    "batch": wrong(lambda asked: asked.body[:1] == b"[", lambda asked: asked._replace(
        body=json.dumps(json.loads(asked.body)[0]).encode())),
    "notification": wrong(NOTIFIED, status=200),
    "response": wrong(with_id("no-such-request"), answer=answering(200, b"{}", JSON_KIND)),
    "accept-case": wrong(lambda asked: "JSON" in (asked.find("Accept") or ""),
                         answer=answering(406)),
    "content-type-charset": wrong(lambda asked: "charset" in (asked.find("Content-Type") or ""),
                                  answer=answering(415)),
    "origin": forgiving("Origin", lambda value, _: value, lambda asked: None),
    "preflight": wrong(lambda asked: asked.line == "OPTIONS",
                       header=("Access-Control-Allow-Origin", "*")),
    "host": forgiving("Host", lambda value, _: True, lambda asked: "127.0.0.1"),
    "get": wrong(lambda asked: asked.line == "GET", answer=answering(404)),
    "get-refused": lambda asked, forward: answering() if asked.line == "GET" else editing_result(
        "server/discover", lambda result: result.update(supportedVersions=["2026-07-28"]))(
            asked, forward),
    "get-responses": wrong(lambda asked: asked.line == "GET",
                           data=event({"jsonrpc": "2.0", "id": 9, "result": {}}), ends=True),
    "last-event-id": wrong(lambda asked: asked.find("Last-Event-ID"), answer=answering()),
    "session-id": serve_odd_session,
    "session-missing": wrong(NO_SESSION, answer=answering(403)),
    "session-unknown": wrong(lambda asked: asked.find("Mcp-Session-Id") == "no-such-session",
                             status=400),
    "session-ended": serve_ended_sessions,
    "listen": wrong(with_id("listen"), edit=lambda message: meta_of(message).update(
        {"io.modelcontextprotocol/subscriptionId": 1})),
    "listen-open": after(lambda answer: True, ends=True),
    "pages-end": editing_result("tools/list", lambda result: result.update(nextCursor="on")),
    "cursor-invalid": wrong(lambda asked: "cursor" in asked.message.get("params", {}), (
        lambda asked: asked.edit(lambda message: message["params"].pop("cursor")))),
    "cache-hints": editing_result("prompts/list", lambda result: result.pop("ttlMs")),
    "cache-scopes": serve_pages,
    "list-order": reversing(),
    "resources": editing_result("resources/list", lambda result: result["resources"][0].update(
        {"uri": "/etc/motd"})),
    "prompts": editing_result("prompts/list", lambda result: result["prompts"].append({})),
    "tool-names": editing_tool(lambda tools: tools[0].update(name="add it")),
    "tool-names-unique": editing_tool(lambda tools: tools.append(tools[0])),
    "tool-schemas": editing_tool(lambda tools: tools[0]["inputSchema"].update(required="a")),
    "header-parameters": editing_tool(lambda tools: tools[0]["inputSchema"]["properties"][
        "a"].update({"x-mcp-header": ""})),
    "schema-references": editing_tool(lambda tools: tools[0]["inputSchema"]["properties"].update(
        a={"$ref": "http://127.0.0.1:9/x.json"})),
    "stream-framing": add_to_streams(b'{"jsonrpc": "2.0"}\n\n'),
    "stream-retry": add_to_streams(b"retry: soon\n\n"),
    "event-ids": add_to_streams(b"id: 1\n\nid: 1\n\n"),
    "stream-messages": add_to_streams(b"data: hello\n\n"),
    "stream-requests": add_to_streams(event(call("roots/list"))),
    "stream-logs": add_to_streams(event({"jsonrpc": "2.0", "method": "notifications/message"})),
    "stream-ends": lambda asked, forward: forward(asked) if asked.message.get(
        "id") != "" else Raw(200, (("Content-Type", "text/event-stream"), (
            "X-Accel-Buffering", "no")), b"data: " + forward(asked).body + b"\n\n", False),
    "stream-buffering": after(lambda answer: True, header=("X-Accel-Buffering", None)),
    "answer-type": lambda asked, forward: after(
        lambda answer: answer.ends, header=("Content-Type", "text/plain"))(
            asked, forward) if asked.method else forward(asked),
    "result-type": editing_result("prompts/list", lambda result: result.pop("resultType")),
    "error-shape": wrong(with_id("mine"), edit=lambda message: message["error"].update(message=5)),
    "error-codes": wrong(NOTIFIED, answer=answering(400, json.dumps(
        {"jsonrpc": "2.0", "error": {"code": -32050, "message": ""}}).encode(), JSON_KIND)),
    "utf-8": wrong(NOTIFIED, answer=answering(400, b'"\xff"', JSON_KIND)),
}

RULES_OF_ERAS = [(era, rule.id) for era in ("legacy", "modern") for rule in mcpkit.RULES
                 if getattr(rule, era)]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(mcpkit, "PROBE_LISTEN_SECONDS", 0.05)


def probe_spoiled(change, era, **options):
    """Return what the deep checks find in a server that is spoiled."""
    server = build_sample_server(sessions=True)
    with quiet_log(server), mcpkit.HTTPService(server, port=0) as service, spoiled(
            service, change) as url:
        return mcpkit.probe(url, era=era, deep=True, timeout=WAIT, **options)


@pytest.mark.parametrize("era, rule", RULES_OF_ERAS, ids=map("-".join, RULES_OF_ERAS))
def test_a_server_that_breaks_one_rule_fails_that_check_and_no_other(era, rule, quick):
    report = probe_spoiled(SPOILED.get(f"{era}-{rule}") or SPOILED[rule], era)
    broken = [check for check in report["checks"] if check["status"] in ("fail", "warning")]
    assert [check["id"] for check in broken] == [f"{era}-{rule}"], broken
    level = broken[0]["spec"].partition(",")[0]
    assert report["eras"][era]["levels"][level]["broken"] == 1 and broken[0]["hint"]
    assert report["verdict"] == ("partial" if level == "MUST" else "pass")
    assert ("but breaks 1 MUST rule" in report["headline"]["message"]) == (level == "MUST")


def test_the_readme_says_how_many_rules_there_are():
    assert f"against {len(mcpkit.RULES)} rules of the specification" in README


def test_our_own_servers_keep_every_rule_of_both_eras(quick):
    servers = [load_sample(name) for name in ("everything_server.py", "notes.py")]
    for server in (*servers, build_sample_server(stream="always")):
        with mcpkit.HTTPService(server, port=0, publish=True) as service:
            report = mcpkit.probe(service.url, deep=True, timeout=WAIT)
        assert [check for check in report["checks"]
                if check["status"] not in ("ok", "skipped")] == []
        for era in ("legacy", "modern"):
            assert report["eras"][era]["levels"]["MUST"]["ok"] >= 20


def test_the_deep_checks_run_and_read_nothing_of_the_servers(sample):
    methods = set()
    mcpkit.probe(sample.url, deep=True, observe=lambda exchange: methods.update(re.findall(
        rb'"method":"([a-z/]+)"', exchange.request_body)))
    assert b"subscriptions/listen" in methods
    assert not methods & {b"tools/call", b"resources/read", b"prompts/get", b"completion/complete"}


def test_the_deep_checks_end_when_the_time_is_used_up():
    with Peer(lambda asked: stay_open() if asked.message.get("method") == "ping" else legacy_peer(
            asked)) as peer:
        report = mcpkit.probe(peer.url, era="legacy", deep=True, timeout=1.0)
    assert find_check(report, "legacy-ping")["status"] == "fail"
    assert "time is used up" in find_check(report, "legacy-id-echo")["message"]
    assert find_check(report, "legacy-deep")["message"].startswith("not every rule was tried")
    assert report["eras"]["legacy"]["levels"]["MUST"]["skipped"] > 10


STRANGE_ANSWERS = {
    "no HTTP": b"\x00\x01", "nothing": b"", "a body cut short": http_answer(b"{}")[:-1],
    "null": http_answer({"jsonrpc": "2.0", "id": None, "result": None}),
    "an error of odd types": http_answer({"id": [1], "error": {"code": [], "message": {}}}),
    "lists that are none": http_answer({"result": {
        "tools": {"a": 1}, "prompts": 5, "nextCursor": {"a": [1]}, "capabilities": []}}),
    "tools that are none": http_answer({"id": 1, "result": {"nextCursor": "", "tools": [
        None, {"name": ["x"], "inputSchema": {"type": "object", "properties": [], "$ref": 5,
                                              "x-mcp-header": []}}]}}),
    "a list": http_answer([1, [2], {"method": 5, "id": {}}]),
    "deep nesting": http_answer(b"[" * 5000 + b"]" * 5000),
    "a stream of odd events": b"".join(stream_answer(
        b'data: {"method": 1, "params": []}\n\n', b"id: \xff\ndata\n\n", b"data: \xff\n\n")),
    "an error with odd data": http_answer({"error": {"code": -32022, "data": [1]}}, "400 Bad"),
}


@cases(STRANGE_ANSWERS)
@pytest.mark.parametrize("era", ("legacy", "modern"))
def test_the_deep_checks_end_with_a_report_whatever_is_answered(case, era):
    def answer(asked):
        message = asked.message if isinstance(asked.message, dict) else {}
        method, is_early = message.get("method"), not isinstance(message.get("id"), str)
        if method == "server/discover" and is_early:
            return http_answer(result(asked, {
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}}))
        is_served = method in ("initialize", "notifications/initialized", "tools/list")
        return legacy_peer(asked) if is_served and is_early else case

    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url, era=era, deep=True, timeout=WAIT)
    assert report["eras"][era]["levels"]["MUST"]["broken"] >= 1


def old_peer(asked, **answers):
    """Answer as a server of 2025-03-26 does."""
    answers["ping"] = lambda asked: http_answer(result(asked, {}))
    return legacy_peer(asked, **answers).replace(b"2025-06-18", b"2025-03-26")


def test_a_server_of_an_older_revision_is_held_to_no_later_rule_and_its_pages_are_read_to_a_limit():
    def list_tools(asked):
        page = int(asked.message.get("params", {}).get("cursor", 0))
        return http_answer(result(asked, {"tools": [], "nextCursor": str(page + 1)}))

    with Peer(lambda asked: old_peer(asked, tools_list=list_tools)) as peer:
        report = mcpkit.probe(peer.url, era="legacy", deep=True, timeout=WAIT)
    assert {check["id"][7:] for check in report["checks"] if "(since 20" in check["message"]} == {
        "version-header", "version-assumed", "batch", "origin", "preflight", "tool-names",
        "tool-names-unique"}
    assert find_check(report, "legacy-pages-end")["status"] == "ok"
    assert 50 <= peer.methods.count("tools/list") < 60


def test_no_session_is_left_open_by_the_deep_checks(notes):
    mcpkit.probe(notes.url, deep=True, timeout=WAIT)
    assert len(notes.mcp.sessions) == 0


def test_headers_that_are_given_go_with_the_deep_checks_but_for_those_that_they_are_about(quick):
    asked = []
    report = probe_spoiled(lambda request, forward: asked.append(request) or forward(request),
                           "modern", headers={"X-Api-Key": "a:b", "Origin": "http://localhost"})
    assert report["verdict"] == "pass" and all(raw.find("X-Api-Key") == "a:b" for raw in asked)
    origins = [[value for name, value in raw.headers if name.lower() == "origin"] for raw in asked]
    assert ["http://localhost"] in origins and ["http://mcpkit-probe.invalid"] in origins
    assert all(len(values) == 1 for values in origins)


def test_the_deep_checks_are_of_the_url_that_redirects_lead_to(quick):
    def answer(asked):
        return redirect("307 Moved", "/mcp/") if asked.path == "/mcp" else old_peer(asked)

    with Peer(answer) as peer:
        mcpkit.probe(peer.url, era="legacy", deep=True, timeout=WAIT)
    deep = [asked for asked in peer.asked if isinstance(asked.message, dict)
            and str(asked.message.get("id", "")).startswith("probe-")]
    assert len(deep) > 5 and {asked.path for asked in deep} == {"/mcp/"}


def test_the_deep_checks_are_for_urls():
    with pytest.raises(UsageError, match="HTTP"):
        mcpkit.probe([*PROGRAM, "serve", "--stdio"], deep=True)


# =============================================================================================
# 27. PROBE DISCOVERY
# =============================================================================================
HTML = "text/html"
PRM = "/.well-known/oauth-protected-resource"
CARD = {"$schema": "x", "name": "a/b", "remotes": [
    {"type": "sse", "url": "/no"}, {"type": "streamable-http", "url": "{root}/deep/mcp",
                                    "variables": {"root": {"default": ""}}}]}
CATALOG = {"specVersion": "1.0", "entries": [
    {"type": "text/html", "url": "/no"},
    {"type": "application/mcp-server-card+json", "url": "/deep/card"}]}
SITES = {                 # what each path answers to a GET: where the endpoint is, and who names it
    "a catalog with a card": ({"/.well-known/ai-catalog.json": CATALOG, "/deep/card": CARD},
                              "/deep/mcp", "the card"),
    "a catalog of the older kind, the card in it": ({"/.well-known/ai-catalog.json": {
        "specVersion": "0.9", "entries": [{"mediaType": "application/mcp-server+json",
                                           "data": CARD}]}}, "/deep/mcp", "the card"),
    "a catalog in a catalog": ({
        "/.well-known/ai-catalog.json": {"entries": [
            {"type": "application/ai-catalog+json", "url": "/more"}]},
        "/more": CATALOG, "/deep/card": CARD}, "/deep/mcp", "the card"),
    "a catalog that the page links to": ({
        "/": b"<link href='/cat.json' rel=ai-catalog type='application/ai-catalog+json'>",
        "/cat.json": CATALOG, "/deep/card": CARD}, "/deep/mcp", "the card"),
    "metadata of a protected resource": ({"/.well-known/oauth-protected-resource": {
        "resource": "ORIGIN/deep/mcp"}}, "/deep/mcp", "RFC 9728"),
    "a link in the page": ({"/": b'<LINK REL="icon mcp-server" HREF="deep/mcp?a=1&amp;b=2">'},
                           "/deep/mcp?a=1&b=2", "link mcp-server"),
    "nothing but the usual path": ({}, "/mcp", "a usual path"),
    "E28 another usual path": ({}, "/api/mcp", "a usual path"),
    "E28 yet another": ({}, "/sse", "a usual path"),
}


def site(documents, endpoint):
    """Return a peer's answer that serves documents, and a legacy server at one path."""
    def answer(asked):
        if asked.method == "POST" and asked.path == endpoint:
            return legacy_peer(asked)
        document = documents.get(asked.path) if asked.method == "GET" else None
        if document is None:
            return http_answer(b"", "404 Not Found", HTML)
        if isinstance(document, bytes):
            return http_answer(document, "200 OK", HTML)
        return http_answer(json.dumps(document).replace(
            "ORIGIN", "http://" + asked.headers["host"]).encode())

    return answer


@cases(SITES)
def test_an_endpoint_is_found_from_a_bare_host_and_the_trail_says_how(case):
    documents, path, source = case
    with Peer(site(documents, path)) as peer:
        report = mcpkit.probe(f"127.0.0.1:{peer.port}", era="legacy", timeout=WAIT)
    assert (report["target"], report["endpoint"]) == (peer.origin, peer.origin + path)
    assert report["verdict"] == "partial" and report["eras"]["legacy"]["serverInfo"]["name"] == "old"
    assert {**report["trail"][-1], "outcome": ""} == {
        "source": source, "url": peer.origin + path, "outcome": ""}
    assert "a handshake agreed on 2025-06-18" in report["trail"][-1]["outcome"]
    assert ("discovery", "ok") in [(seen["name"], seen["status"]) for seen in report["layers"]]


def test_a_wrong_path_keeps_its_verdict_and_is_told_the_right_one():
    with Peer(site({}, "/mcp")) as peer:
        report = mcpkit.probe(peer.origin + "/wrong", era="legacy", timeout=WAIT)
    assert (report["verdict"], report["endpoint"]) == ("fail", peer.origin + "/wrong")
    assert report["headline"]["layer"] == "http"
    assert report["headline"]["hint"] == f"the endpoint is {peer.origin}/mcp: probe that"


@pytest.mark.parametrize("answer", [http_answer(b"<title>Home</title>", "200 OK", HTML),
                                    http_answer(b"", "404 Not Found"), http_answer({"url": 7}),
                                    http_answer(b"", "302 Found", HTML, "Location: /again")])
def test_a_site_without_an_endpoint_is_asked_twelve_times_at_most(answer):
    with Peer(lambda asked: answer) as peer:
        report = mcpkit.probe(peer.origin, timeout=WAIT)
        asked = len(peer.asked)
        assert mcpkit.probe(peer.origin, timeout=WAIT, guess=False)["trail"] == []
    assert report["verdict"] == "fail" and 4 <= len(report["trail"])
    assert "often at /mcp" not in report["headline"]["hint"]            # E28: it was tried
    assert asked == report["requests"] <= 3 + 12 and len(peer.asked) - asked in (2, 3)


def test_nothing_is_asked_of_another_site_and_no_credentials_leave_their_origin():
    with untouched_port() as port:
        far = f"http://127.0.0.1:{port}/mcp"
        page = f'<link rel="mcp" href="{far}"><link rel=ai-catalog href="//evil.test/c">'.encode()
        with Peer(site({"/": page, PRM: {"resource": far}}, "/mcp")) as peer:
            report = mcpkit.probe(peer.origin, headers={"Authorization": "Bearer s"}, timeout=WAIT)
    assert [lead["url"] for lead in report["trail"] if "another site" in lead["outcome"]] == [
        "http://evil.test/c", far]
    assert {asked.headers["authorization"] for asked in peer.asked} == {"Bearer s"}
    assert report["endpoint"] == peer.url


def test_no_credentials_go_to_a_subdomain_where_the_endpoint_is_found(monkeypatch):
    def answer(asked):
        page = f'<link rel="mcp" href="http://a.h.test:{peer.port}/mcp">'.encode()
        return http_answer(page, "200 OK", HTML) if asked.headers["host"][:2] == "h." else (
            old_peer(asked))

    with Peer(answer) as peer:
        entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", peer.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **options: [entry])
        report = mcpkit.probe(f"http://h.test:{peer.port}", era="legacy", deep=True, repeat=1,
                              headers={"Authorization": "Bearer s"}, timeout=WAIT)
    assert report["endpoint"] == f"http://a.h.test:{peer.port}/mcp"
    given = {name: {asked.headers.get("authorization") for asked in peer.asked
                    if asked.headers["host"].startswith(name)} for name in ("h.", "a.")}
    assert given == {"h.": {"Bearer s"}, "a.": {None}} and len(peer.asked) > 30


COMPLETE = {"example.com": "https://example.com", "localhost:8000/mcp": "http://localhost:8000/mcp",
            "127.0.0.1:1": "http://127.0.0.1:1", "[::1]:80/x": "http://[::1]:80/x",
            "intranet:8080": "https://intranet:8080", "http://a.b": "http://a.b",
            "nonsense": None, "ftp://a.b/c": None, "a.b c": None}


@pytest.mark.parametrize("target", COMPLETE)
def test_a_bare_host_gets_the_scheme_that_it_lacks(target, monkeypatch):
    def fail(*_, **options):
        raise socket.gaierror(-2, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with contextlib.nullcontext() if COMPLETE[target] else pytest.raises(UsageError):
        assert mcpkit.probe(target)["target"] == COMPLETE[target]


PROBED_HOSTILE = [
    {"/": b'<link rel=mcp href="//["><link rel=mcp href=""><link rel=mcp href="/\xc3\xa9 x">'},
    {PRM: {"resource": "http://[", "authorization_servers": "x"}}, {PRM: {"resource": 7}},
    {PRM: {"resource": "ORIGIN/\u00e9 \u0001"}}, {"/.well-known/ai-catalog.json": {"entries": 7}},
    {"/.well-known/ai-catalog.json": {"entries": [7, {}, {"type": CATALOG["entries"][1]["type"]}, {
        "type": CATALOG["entries"][1]["type"], "url": "//["}, {
        "type": CATALOG["entries"][1]["type"], "data": {"remotes": [7, {
            "type": "streamable-http", "url": "//[", "variables": [7]}]}}]}},
    {PRM: b"[" * 60_000}, {PRM: b"\xff\xfe{}"},
]


@pytest.mark.parametrize("documents", PROBED_HOSTILE)
def test_documents_that_make_no_sense_lead_nowhere_and_break_nothing(documents):
    with Peer(site(documents, None)) as peer:
        report = mcpkit.probe(peer.origin, era="legacy", timeout=WAIT)
    assert report["verdict"] == "fail" and report["endpoint"] == peer.origin
    assert 4 <= len(report["trail"])


CARDS = {                 # what a card says: what is wrong about it, none where nothing is
    "all that is true": ({"version": "1", "remotes": [{
        "type": "streamable-http", "url": "ORIGIN/mcp",
        "supportedProtocolVersions": ["2025-03-26", "2025-11-25"]}]}, None),
    "nothing": ({}, None), "no list of versions": ({"remotes": [{
        "type": "streamable-http", "url": "/mcp", "supportedProtocolVersions": 5}, 7]}, None),
    "an era that is not spoken": ({"remotes": [{"supportedProtocolVersions": [
        "2025-03-26", "2026-07-28"]}]}, "promises 2025-03-26, 2026-07-28, but the server speaks"),
    "another address": ({"remotes": [{"type": "streamable-http", "url": "https://far/mcp"}]},
                        'leads to ["https://far/mcp"]'),
    "another version": ({"version": "9"}, "says version 9, the server 1"),
}


@cases(CARDS)
def test_a_card_is_held_against_what_the_server_says(case, quick):
    card, words = case
    with Peer(lambda asked: old_peer(asked) if asked.method == "POST" else http_answer(
            json.dumps(card).replace("ORIGIN", peer.origin).encode())) as peer:
        report = mcpkit.probe(peer.url, deep=True, timeout=WAIT)
    checks = [check["message"] for check in report["checks"] if check["id"] == "card"]
    assert [words in message for message in checks] == ([] if words is None else [True])
    assert report["trail"] == [{"source": "server card", "url": peer.url + "/server-card",
                                "outcome": "HTTP 200"}]


def test_a_card_that_led_to_the_endpoint_is_held_against_it():
    card = {**CARD, "version": "9"}
    with Peer(site({"/.well-known/ai-catalog.json": CATALOG, "/deep/card": card},
                   "/deep/mcp")) as peer:
        report = mcpkit.probe(peer.origin, era="legacy", timeout=WAIT)
    assert find_check(report, "card")["message"] == "the server card says version 9, the server 1"


ISSUER_FOUND = {"issuer": "ORIGIN/t1", "authorization_endpoint": "ORIGIN/authorize",
                "token_endpoint": "ORIGIN/token", "code_challenge_methods_supported": ["S256"],
                "registration_endpoint": "ORIGIN/register"}
RESOURCE_FOUND = {"resource": "ORIGIN/mcp", "authorization_servers": ["ORIGIN/t1"],
                  "scopes_supported": ["read", "write"]}
PROBED_AS = "/.well-known/oauth-authorization-server/t1"
NEXT = "a client would log in after registering itself, at ORIGIN/authorize, for ORIGIN/mcp"
ADMISSIONS = {     # challenge, documents by path: (path, outcome) of what was asked, what is said
    "C117 the URL that is named comes first": (
        'Bearer resource_metadata="ORIGIN/x/prm", scope="a,,b"',
        {"/x/prm": RESOURCE_FOUND, PROBED_AS: ISSUER_FOUND},
        [("/x/prm", "HTTP 200"), (PROBED_AS, "HTTP 200")], [NEXT + ", with the scopes a b"]),
    "C117 then the path, then the root": (
        "Bearer", {PRM: RESOURCE_FOUND, PROBED_AS: ISSUER_FOUND},
        [(PRM + "/mcp", "HTTP 404"), (PRM, "HTTP 200"), (PROBED_AS, "HTTP 200")],
        [NEXT + ", with the scopes read write"]),
    "C117 a broken server stops it": (
        "Bearer", {PRM + "/mcp": 503, PRM: RESOURCE_FOUND}, [(PRM + "/mcp", "HTTP 503")],
        ["there is no protected resource metadata"]),
    "C118 another scheme before, and a parameter twice": (
        'Basic realm="x, Bearer y", Bearer error="invalid_token", resource_metadata = "ORIGIN/b", '
        'error="again"', {"/b": RESOURCE_FOUND, PROBED_AS: ISSUER_FOUND},
        [("/b", "HTTP 200"), (PROBED_AS, "HTTP 200")],
        ["the challenge has error more than once", NEXT]),
    "C118 several parameters twice": (
        "Bearer a=1, b=2, b=3, a=4", {},
        [(PRM + "/mcp", "HTTP 404"), (PRM, "HTTP 404")],
        ["the challenge has b, a more than once", "there is no protected resource metadata"]),
    "C120 the three places of an issuer": (
        "Bearer", {PRM + "/mcp": RESOURCE_FOUND, PROBED_AS: b"<p>home",
                   "/t1/.well-known/openid-configuration": ISSUER_FOUND},
        [(PRM + "/mcp", "HTTP 200"), (PROBED_AS, "HTTP 200 with text/html, no JSON object"),
         ("/.well-known/openid-configuration/t1", "HTTP 404"),
         ("/t1/.well-known/openid-configuration", "HTTP 200")], [NEXT]),
    "C120 an issuer that no client may use": (
        "Bearer", {PRM + "/mcp": {**RESOURCE_FOUND, "resource": "ORIGIN/mcp/"},
                   PROBED_AS: {"issuer": "ORIGIN/t1/"}},
        [(PRM + "/mcp", "HTTP 200"), (PROBED_AS, "HTTP 200")],
        ["the metadata is of ORIGIN/mcp/, and not, to the byte, of ORIGIN/mcp",
         "the metadata of the issuer ORIGIN/t1 says that it is of ORIGIN/t1/"]),
    "metadata that names nobody": (
        "Bearer", {PRM + "/mcp": {"resource": "ORIGIN/mcp", "authorization_servers": []}},
        [(PRM + "/mcp", "HTTP 200")], ["the resource metadata names no authorization"]),
    "a URL that is none": ('Bearer resource_metadata="file:///etc/passwd"', {}, [
        ("file:///etc/passwd", "no http URL"), (PRM + "/mcp", "HTTP 404"), (PRM, "HTTP 404")],
        ["there is no protected resource metadata"]),
}


@cases(ADMISSIONS)
def test_what_it_takes_to_be_let_in_is_told_without_logging_in(case):
    challenge, documents, asked_of, messages = case

    def answer(asked):
        if asked.method == "POST":
            return http_answer(b"no", "401 Unauthorized", "text/plain", "WWW-Authenticate: "
                               + challenge.replace("ORIGIN", peer.origin))
        document = documents.get(asked.path)
        return http_answer(b"", f"{document} Broken") if isinstance(document, int) else site(
            documents, None)(asked)

    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url, era="legacy", timeout=WAIT,
                              headers={"Authorization": "Bearer wrong"})
    assert report["verdict"] == "partial"
    assert [(lead["url"].replace(peer.origin, ""), lead["outcome"])
            for lead in report["trail"]] == asked_of
    seen = [check["message"].replace(peer.origin, "ORIGIN") for check in report["checks"]
            if check["id"].startswith("authorization-")]
    assert len(seen) == len(messages) and all(map(str.startswith, seen, messages)), seen
    assert not [asked for asked in peer.asked
                if asked.method == "GET" and "authorization" in asked.headers]


@table("name, url, expected", {
    "one of the right form": ("com.example/weather", "http://h/mcp", "com.example/weather"),
    "a plain one": ("weather", "https://api.example.com:8443/mcp", "com.example.api/weather"),
    "words": ("mcpkit pong!", "http://localhost:8000/mcp", "localhost/mcpkit-pong"),
    "an address": ("x", "http://[::1]:8000/mcp", "1/x"),
    "none": ("", "http://h/mcp", "h/server"), "two slashes": ("a/b/c", "http://h/mcp", "h/a-b-c"),
    "too long": ("x" * 300, "http://h/mcp", "h/" + "x" * 99)})
def test_a_card_says_who_a_server_is_and_how_to_reach_it_and_not_what_it_offers(
        name, url, expected):
    server = Server(name, "1.2.3", title="Sample", description="x" * 101, instructions="secret",
                    icons=[{"src": "a:b"}], website_url="https://example.com")
    with mcpkit.HTTPService(server, port=0, publish=True, public_url=url) as service:
        card = ask(service, method="GET", path="/mcp/server-card").json
        catalog = ask(service, method="GET", path="/.well-known/ai-catalog.json").json
    assert card == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": expected, "version": "1.2.3", "description": "x" * 97 + "...",
        "title": "Sample", "websiteUrl": "https://example.com", "icons": [{"src": "a:b"}],
        "remotes": [{"type": "streamable-http", "url": url,
                     "supportedProtocolVersions": VERSIONS}]}
    assert catalog["entries"][0]["url"] == url.rstrip("/") + "/server-card"
    assert catalog["entries"][0]["type"] == "application/mcp-server-card+json"


PUBLISHED = {"/.well-known/ai-catalog.json": "application/ai-catalog+json",
             "/mcp/server-card": "application/mcp-server-card+json"}


def test_what_a_server_publishes_can_be_read_by_every_page():
    with mcpkit.HTTPService(Server("x"), port=0, publish=True) as service:
        for path, kind in PUBLISHED.items():
            reply = ask(service, method="GET", path=path, Origin="http://evil.example")
            assert (reply.status, reply.headers["content-type"]) == (200, kind)
            assert service.url in reply.body.decode()
            assert {name: reply.headers[name] for name in reply.headers if name[0] == "a"} == {
                "access-control-allow-origin": "*", "access-control-allow-methods": "GET",
                "access-control-allow-headers": "Content-Type"}
            assert reply.headers["cache-control"] == "no-store"    # it names the host that was asked
            preflight = ask(service, method="OPTIONS", path=path, Origin="http://evil.example",
                            Access_Control_Request_Headers="content-type")
            assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, "*")
            assert ask(service, method="GET", path=path, Host="evil.example").status == 421
    with mcpkit.HTTPService(Server("x"), port=0) as service:
        assert {ask(service, method="GET", path=path).status for path in PUBLISHED} == {404}


def test_what_is_published_names_the_url_that_was_asked_or_the_public_one():
    with mcpkit.HTTPService(Server("x"), port=0, publish=True, path="/",
                            allow_hosts=["example.com"]) as service:
        host = f"example.com:{service.server_address[1]}"
        catalog = ask(service, method="GET", path=list(PUBLISHED)[0], Host=host).json
        assert catalog["entries"][0]["url"] == f"http://{host}/server-card"
        card = ask(service, method="GET", path="/server-card", Host=host).json
        assert (card["name"], card["remotes"][0]["url"]) == ("com.example/x", f"http://{host}/")
        old = send_raw(service, b"GET /server-card HTTP/1.0\r\n\r\n")
        assert service.url.encode() in old and b"\r\nConnection: close\r\n" in old
    with mcpkit.HTTPService(Server("x"), port=0, publish=True,
                            public_url="https://example.com/a/mcp") as service:
        reply = ask(service, method="GET", path=list(PUBLISHED)[0])
        assert reply.json["entries"][0]["url"] == "https://example.com/a/mcp/server-card"
        assert reply.headers["cache-control"] == "public, max-age=3600"


# =============================================================================================
# 28. REPORTS
# =============================================================================================
def build_report(**members):
    """Return a report with a finding in each state, from a peer that wants to be obeyed."""
    era = {"verdict": "partial", "protocolVersion": "2025-11-25", "session": True,
           "serverInfo": {"name": "<i>\x1b[2J", "version": "1"}, "tools": ["a\u202eb"],
           "levels": {"MUST": {"ok": 20, "broken": 1, "skipped": 3},
                      "SHOULD": {"ok": 9, "broken": 0, "skipped": 0}}}
    rows = [("legacy-handshake", "ok", "agreed", "", ""),
            ("legacy-ping", "fail", "ping <b>\x00", "answer it", "MUST, 2025-11-25 x"),
            ("modern-ping", "fail", "ping <b>\x00", "answer it", "MUST, 2026-07-28 x"),
            ("legacy-get", "ok", "a GET", "", "MUST, 2025-11-25 y"),
            ("legacy-host", "skipped", "far", "", "SHOULD, RFC 9110 7.4"),
            ("get", "note", "405", "", "")]
    layers = [{"name": "tcp", "status": "ok", "message": "open\x1b", "hint": "", "ms": 2.4},
              {"name": "tools", "status": "fail", "message": "none", "hint": "add", "ms": None}]
    return {"target": "http://h/mcp?a=1&b", "endpoint": "http://h/mcp", "verdict": "partial",
            "headline": {"layer": "tools", "message": "none\x1b", "hint": "add some"},
            "layers": layers, "trail": [{"source": "page", "url": "http://h/", "outcome": "no"}],
            "eras": {"legacy": era, "modern": {
                "verdict": "fail", "protocolVersion": None, "serverInfo": {}, "session": False,
                "tools": []}},
            "checks": [dict(zip(("id", "status", "message", "hint", "spec"), row)) for row in rows],
            "requests": 7, "elapsedMs": 1500, **members}


TWO_SERVERS = {"target": "mcp.json", "verdict": "fail", "requests": 7, "elapsedMs": 12, "servers": {
    "a": build_report(target="a"), "<b>": build_report(
        target="<b>", eras={}, checks=build_report()["checks"][-1:], layers=[], trail=[],
        headline={"layer": "configuration", "message": "is \x1b odd", "hint": "fix it"})}}


def test_the_text_report_groups_findings_and_counts_the_rules_that_are_kept():
    assert mcpkit.format_report(build_report()).split("\n") == [
        "probe of http://h/mcp?a=1&b",
        "partial at tools: none\\x1b",
        "           -> add some",
        "  ok       tcp           open\\x1b (2 ms)",
        "  fail     tools         see above",
        "  legacy   partial       2025-11-25, <i>\\x1b[2J 1, with a session, tools: a\\u202eb",
        "           20 of 21 MUST kept, 9 of 9 SHOULD kept, 3 not applicable",
        "  looked   http://h/ (page): no",
        "  fail     legacy-ping, modern-ping: ping <b>\\x00",
        "           -> answer it",
        "           (MUST, 2025-11-25 x)",
        "  note     get: 405",
        "verdict: partial (7 requests, 1500 ms)"]


def test_the_junit_report_is_xml_with_a_suite_an_era_and_a_case_a_check():
    from xml.etree import ElementTree
    suites = ElementTree.fromstring(mcpkit.format_junit(build_report()).encode())
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped"))
            for suite in suites] == [("legacy", "4", "1", "1"), ("modern", "1", "1", "0"),
                                     ("endpoint", "1", "0", "0")]
    failure = suites.find("testsuite/testcase/failure")
    assert failure.get("message") == "ping <b>\\x00"
    assert failure.text == "answer it\u2014MUST, 2025-11-25 x"
    assert suites.get("time") == "1.500"
    suites = ElementTree.fromstring(mcpkit.format_junit(TWO_SERVERS).encode())
    assert [suite.get("name") for suite in suites] == [
        "a: legacy", "a: modern", "a: endpoint", "<b>: endpoint"]


def test_the_html_report_is_one_page_without_scripts_that_shows_markup_as_text():
    import html.parser
    page = mcpkit.format_html(build_report(target=["run", "<script>alert(1)</script>"]))
    tags, opened = [], []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append(tag)
            if tag not in ("meta", "br"):
                opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Reader().feed(page)
    assert opened == [] and page.startswith("<!DOCTYPE html>") and "@media print" in page
    assert not {"script", "link", "img", "iframe", "b", "i"} & set(tags)
    assert "default-src 'none'" in page and "http:" not in page.partition("<main>")[0]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "\x1b" not in page
    assert re.findall("<h2>(.*)</h2>", page) == [
        "Layers", "Eras", "Where else was looked", "Findings", "Rules"]
    assert "<h2>Rules</h2>" not in mcpkit.format_html(build_report(checks=[]))
    assert 'class="partial">partial</span> at tools: none\\x1b</p>' in page
    assert "<p>What to do: add some.</p>" in page
    page = mcpkit.format_html(TWO_SERVERS)
    assert re.findall("<h1>(.*)</h1>", page) == [
        "Probe of mcp.json", "Probe of a", "Probe of &lt;b&gt;"]
    assert '<a href="#server-2">&lt;b&gt;</a>' in page and '<article id="server-2">' in page


def test_a_report_on_several_servers_begins_with_a_line_on_each_and_ends_with_the_worst_verdict():
    lines = mcpkit.format_report(TWO_SERVERS).split("\n")
    assert lines[:6] == [
        "probe of 2 servers in mcp.json",
        "  partial     a: at tools: none\\x1b", "           -> add some",
        "  partial     <b>: at configuration: is \\x1b odd", "           -> fix it", ""]
    assert lines[6] == "probe of a" and "probe of <b>" in lines
    assert lines[-1] == "verdict: fail (7 requests, 12 ms)"


@pytest.mark.skipif(shutil.which("curl") is None or os.name != "posix", reason="curl")
def test_a_curl_command_can_be_pasted_and_a_report_that_is_piped_has_no_colours(sample):
    ran = run("probe", sample.url, "--era", "modern", "--curl")
    command = "curl -sSi" + ran.out.rpartition("curl -sSi")[2]
    out = subprocess.run(["sh", "-c", command], capture_output=True, timeout=WAIT).stdout.decode()
    head, _, body = out.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200") and json.loads(body)["result"]["tools"]
    assert "\x1b" not in ran.out


def test_repeated_requests_are_timed_in_each_era(sample):
    report = mcpkit.probe(sample.url, repeat=3)
    timings = {name: {method: seen["count"] for method, seen in era["timings"].items()}
               for name, era in report["eras"].items()}
    assert timings == {"legacy": {"ping": 3, "tools/list": 3},
                       "modern": {"server/discover": 3, "tools/list": 3}}
    for era in report["eras"].values():
        assert all(0 < seen["median"] <= seen["p99"] for seen in era["timings"].values())
    assert "99th percentile" in mcpkit.format_report(report)


EVIL = "\x1b[2J\x9b31m\u202e\x07"


EVIL_RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": EVIL, "version": EVIL}},
    "tools/list": {"tools": [{"name": EVIL, "inputSchema": {"type": "object"}}, {"name": EVIL},
                             EVIL]}}


def evil_peer(asked):
    """Answer as a legacy server all of whose words a terminal would obey."""
    message = asked.message if isinstance(asked.message, dict) else {}
    if message.get("method") in EVIL_RESULTS:
        return http_answer(result(asked, EVIL_RESULTS[message["method"]]), "200 \x1b",
                           "application/json", "Server: \x1b[1m")
    return http_answer({"jsonrpc": "2.0", "id": EVIL, "error": {"code": EVIL, "message": EVIL}},
                       "400 \x1b", "application/json", "Mcp-Name: =?base64?GwcbBw==?=")


EVIL_PEERS = {"a server": evil_peer, "a page": lambda asked: http_answer(
    f"<title>{EVIL}</title><link rel=mcp href='/{EVIL}'>".encode(), "200 \x1b", "text/html\x1b"),
    "a refusal": lambda asked: http_answer(
        f"<title>{EVIL}</title>".encode(), "401 \x1b", "text/html", "Location: /\x1b",
        'WWW-Authenticate: Bearer resource_metadata="/\x1b", error="\x1b", error="\x07"')}


@cases(EVIL_PEERS)
def test_c122_nothing_of_a_peer_reaches_a_terminal_or_a_file_as_it_is(case, tmp_path):
    names = ("html", "junit", "transcript")
    with Peer(case) as peer:
        files = [word for name in names for word in (f"--{name}", str(tmp_path / name))]
        ran = run("probe", peer.origin, "--deep", "--curl", "-v", "--timeout", "9", *files)
    for text in (ran.out, ran.err, *((tmp_path / name).read_text() for name in names)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
        assert "Traceback" not in text
    assert "\\x1b" in ran.out


def test_the_probe_writes_the_reports_that_are_asked_for(target, tmp_path):
    names = ("junit", "html", "transcript")
    words = [word for name in names for word in (f"--{name}", str(tmp_path / name))]
    ran = run("probe", target, "--deep", "--era", "modern", "--curl", "--json", *words)
    assert ran.code == 0, ran.err
    starts = [(tmp_path / name).read_text(encoding="utf-8")[:30] for name in names]
    assert starts[0].startswith("<?xml ") and starts[1].startswith("<!DOCTYPE html>")
    assert starts[2].startswith("### 1 \u00b7 server/discover\n")
    assert len(ran.json["curl"]) == ran.json["requests"] > 30
    assert ran.json["eras"]["modern"]["levels"]["MUST"]["broken"] == 0
    text = run("probe", target, "--era", "modern", "--curl").out
    assert text.count("\ncurl -sSi ") == 2
    assert run("probe", target, "--html", str(tmp_path / "no" / "file")).code == 2


def test_no_file_that_the_probe_writes_has_a_secret(tmp_path):
    names = ("junit", "html", "transcript")
    words = [word for name in names for word in (f"--{name}", str(tmp_path / name))]

    def answer(asked):                   # a server that repeats what it is given
        return error_answer(-32600, "400 Bad Request", None, f"{asked.headers['x-api-key']} "
                            f"is not known at {asked.path}")

    with Peer(answer) as peer:
        ran = run("probe", peer.url + "?access_token=s3cret-in-url&x=1", "--header",
                  "X-Api-Key: s3cret-in-header", "--curl", *words)
    assert ran.code == 1 and "is not known" in ran.out
    for text in [(tmp_path / name).read_text(encoding="utf-8") for name in names]:
        assert "s3cret" not in text and "is not known" in text
    assert "s3cret" not in ran.out.partition("\ncurl ")[2]


# =============================================================================================
# 29. TRANSCRIPTS
# =============================================================================================
def build_exchange(message=None, answer=b"", status=200, headers=None, sent=None, **members):
    """Return an Exchange as an observer sees one."""
    answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    exchange = mcpkit.Exchange(
        "POST", "http://127.0.0.1:8081/mcp", sent or {"Content-Type": "application/json"},
        json.dumps(message).encode() if message is not None else b"", status,
        {"date": "Mon"} if headers is None else headers, answer, len(answer), False, 0.1, None)
    return exchange._replace(**members)


def build_streamed(*messages, message=None, **members):
    """Return an Exchange whose answer is a stream of messages."""
    return build_exchange(message or call("ping"), b"".join(
        f"event: message\ndata: {json.dumps(part)}\n\n".encode() for part in messages),
        headers={"content-type": "text/event-stream"}, is_stream=True, **members)


def build_line_exchange(message, *lines, **members):
    """Return an Exchange of stdio."""
    return build_exchange(message, b"\n".join(lines), None, {}, method="stdio", url="",
                          **{"request_headers": {}, **members})


def say(result, request_id=1):
    """Return a response."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def test_a_transcript_has_the_form_of_an_http_file():
    exchanges = [
        build_exchange(call("ping"), b'event: message\r\ndata: {"jsonrpc":"2.0"}\r\n\r\n',
                       headers={"content-type": "text/event-stream", "date": "Mon"}),
        build_exchange({"jsonrpc": "2.0", "method": "notifications/x"}, status=202),
        build_exchange(None, b"no", 405, method="GET"),
        build_exchange([1, 2], error="connection: closed", status=None, headers={}),
        build_exchange(None, b'{"a":{}}', request_body=b"{", status=400, title="half of it"),
        build_line_exchange(call("ping"), b"hello", b'{"id":1}'),
    ]
    assert mcpkit.format_transcript(exchanges) == """\
### 1 \u00b7 ping
POST /mcp HTTP/1.1
Host: 127.0.0.1:8081
Content-Type: application/json

{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "ping"
}

HTTP/1.1 200 OK
Content-Type: text/event-stream
Date: <http-date>

event: message
data: {"jsonrpc":"2.0"}

### 2 \u00b7 notifications/x
POST /mcp HTTP/1.1
Host: 127.0.0.1:8081
Content-Type: application/json

{
  "jsonrpc": "2.0",
  "method": "notifications/x"
}

HTTP/1.1 202 Accepted
Date: <http-date>



### 3 \u00b7 GET
GET /mcp HTTP/1.1
Host: 127.0.0.1:8081
Content-Type: application/json



HTTP/1.1 405 Method Not Allowed
Date: <http-date>

no

### 4 \u00b7 a batch of 2
POST /mcp HTTP/1.1
Host: 127.0.0.1:8081
Content-Type: application/json

[
  1,
  2
]

# no answer: connection: closed

### 5 \u00b7 half of it
POST /mcp HTTP/1.1
Host: 127.0.0.1:8081
Content-Type: application/json

{

HTTP/1.1 400 Bad Request
Date: <http-date>

{
  "a": {}
}

### 6 \u00b7 ping
> {"jsonrpc": "2.0", "id": 1, "method": "ping"}
< hello
< {"id":1}"""


SEED = (ROOT / "samples" / "pong.http").read_text(encoding="utf-8")


def test_what_is_read_from_a_transcript_is_written_as_the_same_bytes():
    assert re.findall("^### [0-9] \u00b7 (.*)$", SEED, re.MULTILINE) == [
        "initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert mcpkit.format_transcript(mcpkit.parse_transcript(SEED)) == SEED


# A stream keeps its blank line at the end, all other bodies are without line ends there.
KEPT_BODIES = {
    "nothing": b"", "JSON": b'{"a":[1,"\\u202e",{}]}', "a list": b"[]", "half of JSON": b'{"a":',
    "a page": b"<html>\n  <title>Sign in</title>\n\n</html>", "words": "Gr\u00fc\u00dfe".encode(),
    "a number": b"1", "an escape": b"a\x1b[2J", "a lone CR": b"a\rb", "a tab": b"a\tb",
    "what would begin an exchange": b"### 2 \xc2\xb7 x", "what would be an answer": b"HTTP/1.1 200",
    "what would be a comment": b"# x\n// y", "a backslash": b"\\x41\n\\", "bytes": b"\x89PNG\xff\0",
    "no character that ends a line": "a\u2028b\u0085c".encode(), "what stdio has": b"> a\n< b",
}


@pytest.mark.parametrize("body", KEPT_BODIES)
def test_a_body_is_read_as_it_was_written(body):
    body = KEPT_BODIES[body]
    exchanges = [
        build_exchange(None, body, headers={"content-type": "text/plain"}, request_body=body,
                       seconds=0.0),
        build_exchange(None, body + b"\n\n" if body else b"", is_stream=True, seconds=0.0,
                       headers={"content-type": "text/event-stream"}, request_body=b"x"),
        build_line_exchange(None, *body.split(b"\n"), request_body=body, seconds=0.0)]
    exchanges = [exchange._replace(size=len(exchange.answer))
                 for exchange in (exchanges if body else exchanges[:2])]
    text = mcpkit.format_transcript(exchanges)
    assert all(line.isprintable() for line in text.replace("\t", " ").split("\n"))
    assert mcpkit.parse_transcript(text) == exchanges
    assert mcpkit.parse_transcript(text.replace("\n", "\r\n")) == exchanges


def test_garbage_in_bodies_is_read_as_it_was_written():
    pieces = [b"#", b"\n", b" ", b"\\", b"HTTP/1.1 200", b"> ", b"// ", b"\x1b", b"\xff", b"{",
              b"data: ", "\u2028".encode(), b"u12", b"### 1 x", b"\r", b"a"]
    for body in build_garbage(8, pieces, 500):
        body = body.replace(b"\r\n", b"\n").strip(b"\n")
        kept = build_exchange(None, body, request_body=body, seconds=0.0, headers={})
        text = mcpkit.format_transcript([kept, kept])
        assert mcpkit.parse_transcript(text) == [kept, kept], text


@table("broken", {
    "within an event": b"data: 1\n\ndata: 2\n", "between two events": b"data: 1\n\n",
    "before the first": b""})
def test_a_stream_that_broke_off_does_so_again_when_it_is_read(broken):
    kept = build_streamed(error="connection: closed", seconds=0.0)
    kept = kept._replace(answer=broken, size=len(broken), request_body=b"x")
    assert mcpkit.parse_transcript(mcpkit.format_transcript([kept, kept])) == [kept, kept]


def test_an_answer_that_was_too_large_to_keep_says_so():
    kept = build_exchange(None, b"{" * 10, size=70_000, seconds=0.0, request_body=b"x")
    text = mcpkit.format_transcript([kept])
    assert text.endswith("{{{{{{{{{{\n# cut: 70,000 bytes in all")
    assert mcpkit.parse_transcript(text)[0].size == 70_000


BY_HAND = """\ufeff// Somebody wrote this.
POST /mcp
# It matters.
accept: application/json

{"jsonrpc": "2.0",
// the id is a string
 "id": "a", "method": "ping"}

### what came of it
GET http://h:1/x?y

###
"""


def test_a_transcript_by_hand_needs_no_version_no_number_and_no_answer():
    for text in (BY_HAND, BY_HAND.replace("\n", "\r\n")):
        first, second = mcpkit.parse_transcript(text)
        assert (first.method, first.url, first.title, first.status) == (
            "POST", "http://localhost/mcp", "", None)
        assert first.request_headers == {"accept": "application/json"}
        assert json.loads(first.request_body) == call("ping", None, "a")
        assert (second.method, second.url, second.title) == (
            "GET", "http://h:1/x?y", "what came of it")


def test_a_url_in_the_query_of_a_transcript_is_of_the_query():
    exchange, = mcpkit.parse_transcript("GET /x?u=http://y HTTP/1.1\nHost: h\n")
    assert exchange.url == "http://h/x?u=http://y"


@table("text, said", {
    "no request": ("### 1 \u00b7 x\n\nhello\n", "line 3 is no request"),
    "no header": ("POST /mcp HTTP/1.1\nHost: h\n{}\n", "line 3 is no header"),
    "no address": ("\nGET http://[::1 HTTP/1.1\n", "line 2 asks for what is no http URL"),
    "no host": ("GET /\nHost: a@b\n", "line 1 asks for what is no http URL: a@b/"),
    "a host that holds more": ("GET /c\nHost: a/b\n", "line 1 asks for what is no http URL: a/b/c"),
    "no path": ("GET c\nHost: a\n", "line 1 asks for what is no http URL: ac"),
    "neither of the marks": ("> {}\nhello\n", "line 2 of stdio begins with neither > nor <"),
    "no character": ("POST /\n\n\\\\ud800\n", "line 1 begins an exchange with an escape")})
def test_what_is_no_transcript_is_told_by_its_line(text, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        mcpkit.parse_transcript(text)


SECRETS = {"Authorization": "Bearer s3cr3t-one", "X-Api-Key": "s3cr3t-two",
           "Cookie": "a=s3cr3t-3", "Mcp-Session-Id": "s3cr3t-four", "X-Other": "'fine' $HOME"}


def build_secret_exchange():
    """Return an Exchange that is full of secrets."""
    return build_exchange(
        call("x", {"password": "s3cr3t-five", "note": "s3cr3t-one", "_meta": {
            "progressToken": "mine", "accessToken": "s3cr3t-9"}}), b"you are s3cr3t-two",
        sent=SECRETS, headers={"set-cookie": "b=s3cr3t-six; Path=/", "mcp-session-id": "s3cr3t-7"},
        url="http://h/mcp?access_token=s3cr3t-8&x=1")


def test_no_secret_is_in_a_transcript():
    exchange = build_secret_exchange()
    text = mcpkit.format_transcript([exchange, build_exchange({"method": "household"})],
                                    ["household"])
    assert "s3cr3t" not in text and "household" not in text
    for shown in ("Authorization: Bearer <secret-2>", "Cookie: <secret-4>", "X-Api-Key: <secret-3>",
                  "Mcp-Session-Id: <session-5>", "Set-Cookie: <secret-6>",
                  '"note": "<secret-2>"', "you are <secret-3>", "x=1", "Mcp-Session-Id: <session-7>",
                  '"progressToken": "mine"', "X-Other: 'fine' $HOME", '"method": "<secret-1>"'):
        assert shown in text
    assert len(set(re.findall("<(?:secret|session)-[0-9]+>", text))) == 10


def test_the_placeholders_of_a_transcript_are_kept_and_new_ones_go_on_from_them():
    text = mcpkit.format_transcript([build_secret_exchange()])
    exchanges = mcpkit.parse_transcript(text)
    assert mcpkit.format_transcript(exchanges) == text
    more = mcpkit.format_transcript([*exchanges, build_exchange(sent={"X-Token": "another"})])
    assert more.startswith(text) and "X-Token: <secret-10>" in more


def test_a_text_full_of_secrets_has_none_left_and_those_of_headers_nowhere():
    many = [{"token": f"s3cr3t-{number}"} for number in range(1000)]
    later = build_exchange(call("ping"), b"s3cr3t-of-a-header, s3cr3t-1, s3cr3t-1st",
                           sent={"X-Token": "s3cr3t-of-a-header"})
    text = mcpkit.format_transcript([build_exchange(call("x", many), say(many)), later])
    assert text.count("s3cr3t") == 0


@table("function, build", {
    "a body of line ends": (lambda data: mcpkit.format_transcript([build_exchange(None, data)]),
                            lambda size: b"\r" * size),
    "secrets": (lambda data: mcpkit.format_transcript([build_exchange(call("x"), data)] * 4),
                lambda size: json.dumps([{"token": f"{number:9}"} for number in range(size)]).encode()),
    "names in names": (lambda data: differ(*[build_exchange(call("x"), data)] * 2),
                       lambda size: json.dumps({"result": {"n" * size * 8: [*range(size)]}}).encode())})
def test_writing_and_comparing_answers_costs_no_more_than_their_length(function, build):
    assert is_linear(function, build, 1000)


@pytest.mark.parametrize("text", ["# cut: , bytes in all", f"# cut: {'9' * 5000} bytes in all",
                                  f"<secret-{'9' * 5000}>", f"<session-{'9' * 5000}>"])
def test_no_number_in_an_answer_or_a_transcript_is_too_long_for_a_transcript(text):
    written = mcpkit.format_transcript([build_exchange(call("ping"), text.encode(),
                                                       headers={"x-token": text})])
    assert mcpkit.format_transcript(mcpkit.parse_transcript(written)) == written
    assert len(mcpkit.parse_transcript(f"GET / HTTP/1.1\n\n{text}\n")) == 1


ANSWER = {"tools": [{"name": "a", "title": "A"}, {"name": "b"}], "n": 1, "_meta": {"x/y": "z"}}


def differ(was, now, *ignored):
    """Return where two answers differ, as it is printed."""
    return list(map(str, mcpkit.compare_answers(was, now, ignored)))


@table("change, said", {
    "nothing": ({}, []),
    "the order of what has names": ({"tools": ANSWER["tools"][::-1]}, []),
    "a value": ({"n": 2}, ["result.n: was 1, is 2"]),
    "a kind of value": ({"n": True}, ["result.n: was 1, is true"]),
    "a member more": ({"m": None}, ["result.m: was absent, is null"]),
    "an item that has gone": ({"tools": ANSWER["tools"][:1]}, [
        'result.tools[b]: was {"name": "b"}, is absent']),
    "a member far within": ({"tools": [{"name": "a", "title": "\x1b"}, {"name": "b"}]}, [
        'result.tools[a].title: was A, is \\x1b']),
    "a name with dots": ({"_meta": {}}, ["result._meta.x/y: was z, is absent"]),
    "what differs each time": ({"taskId": "7", "nextCursor": "8"}, [])})
def test_answers_are_compared_member_by_member(change, said):
    was = build_exchange(call("x"), say(ANSWER))
    now = build_streamed(say({**ANSWER, **change}))._replace(headers={})
    assert differ(was, now) == said
    assert differ(was, now, "result") == [] == differ(was, now, "result.*")


@table("patterns, left", {
    "a name, wherever it is": (["title"], ["result.tools[a].x"]),
    "a path": (["result.tools[a].x"], ["result.title", "result.tools[a].title"]),
    "any item of a list": (["result.tools[*]"], ["result.title"]),
    "what only begins so": (["result.tool", "tit"], [
        "result.title", "result.tools[a].title", "result.tools[a].x"])})
def test_what_is_ignored_is_named_by_a_path(patterns, left):
    was, now = (build_exchange(call("x"), say({"title": n, "tools": [
        {"name": "a", "title": n, "x": n}]})) for n in (1, 2))
    assert [line.partition(":")[0] for line in differ(was, now, *patterns)] == left


@table("was, now, said", {
    "a status": (build_exchange(status=200), build_exchange(status=404), [
        "status: was 200, is 404"]),
    "a date": (build_exchange(), build_exchange(headers={"date": "Tue", "server": "x"}), []),
    "a media type": (
        build_exchange(headers={"content-type": "Text/HTML; charset=x"}),
        build_exchange(headers={"content-type": "text/plain"}), [
            "headers.content-type: was Text/HTML; charset=x, is text/plain"]),
    "another session": (build_exchange(headers={"mcp-session-id": "<session-1>"}),
                        build_exchange(headers={"mcp-session-id": "7"}), []),
    "no session": (build_exchange(headers={"mcp-session-id": "<session-1>"}), build_exchange(), [
        "headers.mcp-session-id: was <session-1>, is absent"]),
    "a text": (build_exchange(None, b"a\n"), build_exchange(None, b"b"), ["body: was a, is b"]),
    "an error in the place of a result": (
        build_exchange(None, say({})), build_exchange(None, {"id": 1, "error": {"code": 5}}), [
            "result: was {}, is absent", 'error: was absent, is {"code": 5}']),
    "another id": (build_exchange(None, say({}, 1)), build_exchange(None, say({}, "1")), [
        "id: was 1, is 1"]),
    "no answer": (build_exchange(), build_exchange(status=None, error="connection: closed"), [
        "answer: was complete, is connection: closed"]),
    "another notification": (
        build_streamed({"method": "n", "params": {"x": 1}}, {"method": "n"}, say({})),
        build_streamed({"method": "n", "params": {"x": 2}}, {"method": "m"}, say({})), [
            "n[1].params.x: was 1, is 2"]),
    "other lines than messages": (build_line_exchange(call("x"), b"hello", b'{"id":1,"result":{}}'),
                                  build_line_exchange(call("x"), b'{"id":1,"result":{}}'), []),
    "stdio and HTTP": (build_line_exchange(call("x"), b'{"id":1,"result":{}}'),
                       build_exchange(call("x"), say({})), []),
})
def test_answers_are_compared_in_what_a_client_looks_at(was, now, said):
    assert differ(was, now) == said


# =============================================================================================
# 30. MOCK AND FAULTS
# =============================================================================================
AT_MCP = collections.namedtuple("Policy", "path")("/mcp")      # for `ask` and LiveStream


@contextlib.contextmanager
def mocking(*exchanges, **options):
    """Serve a mock of exchanges, or of pong; its `lines` are what it logs."""
    lines = []
    with mcpkit.open_mock(exchanges, log=lines.append, **options) as service:
        service.policy, service.lines = AT_MCP, lines
        yield service


def spoiling(*names, **options):
    """Serve pong with faults."""
    return mocking(faults=names, **options)


def test_a_mock_finds_the_answer_by_params_then_by_name_then_by_method_and_then_in_order():
    def use_tool(name, **arguments):
        return call("tools/call", {"name": name, "arguments": arguments, "_meta": {"x": 1}})

    with mocking(build_exchange(use_tool("a", n=1), say({"is": "a1"})),
                 build_exchange(use_tool("a", n=2), say({"is": "a2"})),
                 build_exchange(use_tool("b"), say({"is": "b"})),
                 *(build_exchange(call("x"), say({"is": n})) for n in range(3))) as mock:
        asked = [use_tool("a", n=2), use_tool("b", n=3), use_tool("a", n=1), use_tool("c"),
                 *[call("x")] * 5]
        assert [ask(mock, message).json["result"]["is"] for message in asked] == [
            "a2", "b", "a1", "a1", 0, 1, 2, 2, 2]
        assert ask(mock, call("tools/list")).json["error"]["code"] == -32601
    assert mock.lines == ["never recorded: tools/list {}"]


def test_a_mock_answers_with_the_ids_and_the_token_of_who_asks():
    progress = {"method": "notifications/progress", "params": {"progressToken": 5, "progress": 1}}
    notice = {"method": "notifications/message", "params": {"_meta": {
        "io.modelcontextprotocol/subscriptionId": 1}}}
    with mocking(build_streamed(progress, notice, say({}), message=call(
            "x", {"_meta": {"progressToken": 5}}))) as mock:
        first, second, answer = ask(
            mock, call("x", {"_meta": {"progressToken": "mine"}}, "me")).messages
    assert (first["params"]["progressToken"], answer["id"]) == ("mine", "me")
    assert second["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "me"}


def test_a_mock_gives_each_client_a_session_of_its_own():
    with mocking(build_exchange(call("initialize"), say({}), headers={
            "mcp-session-id": "<session-1>", "x-other": "1", "date": "<http-date>"})) as mock:
        replies = [ask(mock, call("initialize")) for _ in range(2)]
    assert len({reply.headers["mcp-session-id"] for reply in replies} - {"<session-1>"}) == 2
    assert {reply.headers["x-other"] for reply in replies} == {"1"}
    assert "<" not in replies[0].headers["date"]


@table("body, more, status, count", {
    "a modern request": (call("x", {"_meta": META}), {
        "MCP_Protocol_Version": "2026-07-28"}, 404, 1),
    "a legacy request": (call("x"), {}, 200, 1), "a notification": ({"method": "n"}, {}, 202, 1),
    "a response": (say({}), {}, 202, 0), "a GET": (b"", {"method": "GET"}, 405, 1),
    "a DELETE": (b"", {"method": "DELETE"}, 200, 1),
    "a document": (b"", {"method": "GET", "path": "/.well-known/x"}, 404, 1)})
def test_what_was_never_recorded_is_refused_and_logged(body, more, status, count):
    with mocking(build_exchange(call("y"), say({}))) as mock:
        assert ask(mock, body, **more).status == status
    assert len(mock.lines) == count


def test_a_mock_keeps_what_is_no_message_as_it_was():
    stream = build_streamed(say({}), message=call("z"), error="connection: closed")
    with mocking(
            build_exchange(call("x"), b"<html>", 401, {"content-type": "text/html"}),
            build_exchange(call("y"), status=None, headers={}, error="connection: closed"),
            stream._replace(answer=b": hi\n\nid: 7\n" + stream.answer + b"data: half"),
            build_exchange(None, b"{}", method="GET", url="http://h/.well-known/x")) as mock:
        page = ask(mock, call("x"))
        sent = [send_raw(mock, make_raw(json.dumps(call(name)).encode())) for name in "yz"]
        document = ask(mock, method="GET", path="/.well-known/x")
    assert (page.status, page.headers["content-type"], page.body) == (401, "text/html", b"<html>")
    assert sent[0] == b"" and document.json == {}
    for part in (b": hi\n\n", b"id: 7\nevent: message\ndata: {", b"data: half"):
        assert part in sent[1]
    assert not sent[1].endswith(b"0\r\n\r\n")


def test_a_transcript_of_one_transport_answers_over_the_other(tmp_path):
    exchanges = [
        build_exchange(call("x"), say({"n": 1})), build_exchange(call("w"), b"no", 403),
        build_line_exchange(call("y"), b"hello", json.dumps({
            "jsonrpc": "2.0", "method": "n", "params": {}}).encode(), json.dumps(
                say({"n": 2})).encode()),
        build_line_exchange({"method": "notifications/z"})]
    with mocking(*exchanges) as mock:
        streamed = ask(mock, call("y"))
        assert streamed.headers["content-type"] == "text/event-stream"
        assert [message.get("method") for message in streamed.messages] == ["n", None]
        assert ask(mock, {"method": "notifications/z"}).status == 202
    (tmp_path / "tape.http").write_text(mcpkit.format_transcript(exchanges) + "\n")
    ran = {name: run("mock", "--stdio", str(tmp_path / "tape.http"), data=json.dumps(
        call(name, None, 7)).encode() + b"\n").out for name in "xwy"}
    assert ran["x"] == '{"jsonrpc":"2.0","id":7,"result":{"n":1}}\n'
    assert "HTTP 403" in json.loads(ran["w"])["error"]["message"]
    hello, _, answer = ran["y"].splitlines()
    assert hello == "hello" and json.loads(answer) == {
        "jsonrpc": "2.0", "id": 7, "result": {"n": 2}}


def test_a_question_is_followed_by_the_wait_for_its_answer():
    question = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    lines = [json.dumps(part).encode() for part in (question, say({}))]
    with mocking(build_streamed(question, say({}), message=call("x")),
                 build_line_exchange(call("y"), *lines)) as mock:
        for name in "xy":
            with LiveStream(mock, call(name)) as stream:
                assert stream.next_message() == question
                assert ask(mock, say({}, "q")).status == 202
                assert stream.next_message()["result"] == {}


# What a client says of each fault of HTTP, and what the probe's report says. Where it is None, all
# works as if nothing was; a client's word may also be one of its warnings.
HTTP_FAULTS = {
    "crlf": (None, None), "cut-crlf": (None, None), "line-separators": (None, None),
    "no-space": (None, None), "many-data-lines": (None, None), "other-events": (None, None),
    "comments": (None, None), "priming-event": (None, None), "cut-characters": (None, None),
    "open-stream": (None, None), "slow": (None, None), "duplicate-answers": (None, None),
    "unfinished-event": ("bytes of an unfinished event were discarded",) * 2,
    "huge-event": (None, "the answer is larger than 4,194,304 bytes"),
    "lost-answer": ("the stream ended before the response to request 1",) * 2,
    "reset": ("reset the connection, before the response to request 1",) * 2,
    "silent-stream": ("headers received (HTTP 200), then no data",) * 2,
    "only-comments": ("bytes without an answer",) * 2,
    "endless-stream": ("the answer is larger than",) * 2,
    "broken-off": ("the stream ended before the response to request 1",) * 2,
    "foreign-id": ("has the id 987654321, which is not that of the request",) * 2,
    "id-as-string": ('has the id "', 'has the id "'),
    "batch": (None, None),
    "wrong-envelope": ('"jsonrpc" must be "2.0", but is 1.0',) * 2,
    "error-without-id": ("error -32602: bad cursor",) * 2,
    "not-a-number": ("NaN is not JSON",) * 2,
    "cut-json": ("of JSON) cannot be read",) * 2,
    "login-page": ("text/html: <html><title>Sign in", "a web page titled 'Sign in'"),
    "plain-text": ("HTTP 200, text/plain",) * 2,
    "error-in-400": ("error -32602 (HTTP 400): bad cursor",) * 2,
    "type-in-capitals": (None, None), "202-with-body": (None, None),
    "204-for-202": (None, "notifications/initialized was answered with HTTP 204"),
    "200-for-202": (None, "notifications/initialized was answered with HTTP 200"),
    "406": ("HTTP 406", "the server refuses Accept"),
    "no-answer": ("closed the connection without an answer",) * 2,
    "silence": ("no answer for",) * 2,
    "short-body": ("closed the connection inside its answer",) * 2,
    "discover-other-code": (None, "error -32602: Invalid params"),
    "discover-400": (None, "HTTP 400: the server read the request and refused it"),
    "discover-404": (None, "HTTP 404"), "discover-405": (None, "HTTP 405"),
    "discover-nothing": (None, "HTTP 200, application/json: {}"),
    "discover-401": ("the server wants authorization (HTTP 401)", "names no resource_metadata"),
    "legacy-versions": (None, "does not speak the modern era"),
    "no-versions": ("supportedVersions must be a list of versions, but is []",) * 2,
    "future-versions": ("2099-01-01",) * 2,
    "header-mismatch": ("error -32020",) * 2,
    "missing-capability": ("sampling",) * 2,
    "unknown-version": ("the server chose protocolVersion 2099-01-01",) * 2,
    "version-refused": ("HTTP 400, text/plain: Unsupported protocol version",
                        "the server does not speak this revision"),
    "session-lost": ("HTTP 404, text/plain: Session not found",
                     "the server does not know the session"),
    "session-lost-once": (None, None), "session-in-small-letters": (None, None),
    "get-404": (None, None), "get-text": (None, None), "get-empty": (None, None),
    "no-ping": (None, None),
    "no-endpoint": ("its first event is hello, not endpoint",) * 2,
    "endpoint-elsewhere": ("names http://evil.example/m, which is another origin",) * 2,
    "405": ("HTTP 405", "this path takes no POST"),
    "redirect-303": ("a POST is not sent on by itself", "HTTP 303"),
    "redirect-307": (None, "HTTP 307, Location: /mcp/"),
    "redirect-elsewhere": ("http://other.invalid/mcp, which is another origin",
                           "location: http://other.invalid/mcp"),
    "redirect-loop": ("more than 5 redirects", "HTTP 307: the endpoint has moved"),
    "asks-first": ("elicitation/create: Name?", None),
    "repeated-cursor": ("the cursor again came a second time", "tools/list has more pages"),
    "bad-tools": (None, "needs an inputSchema of type"),
    "bad-parameters": ("tool a-space is left out", None),
    "foreign-schema": (None, '"http://127.0.0.1:9/x.json" leads to nothing'),
    "terminal-codes": (None, None),
    "wrong-output": ("/response: must be a string, but is 5", None),
    "no-output": ("structuredContent is missing", None),
    "401": ("HTTP 401), without saying how", "does not say how to be let in"),
    "401-challenge": ("HTTP 401), challenge: Negotiate", "/.well-known/no"),
    "401-page": ("HTTP 401), without saying how", "to be let in (Sign in)"),
    "metadata-lies": ("HTTP 401), challenge: Bearer", "the metadata is of the resource https://other.invalid"),
    "metadata-page": ("HTTP 401), challenge: Bearer", "no protected resource metadata"),
    "metadata-500": ("HTTP 401), challenge: Bearer", "HTTP 500"),
    "ssh": ("does not answer in HTTP: SSH-2.0", "that is an SSH server"),
    "tarpit": ("no answer for",) * 2,
    "gzip-bomb": ("comes in the coding gzip, which was not asked",) * 2,
    "200-for-all": ("HTTP 200, application/json: {}",) * 2,
}


# The faults that use up a limit of time, which need not be long. It falls between two of the things
# that come each tenth of a second; all others have more time than they need.
SILENT_SERVER = ("silence", "silent-stream", "only-comments", "tarpit")


def use_all(client):
    """Do what a client does with pong; return the error or warnings, and the answer of the tool."""
    try:
        with client:
            client.list_tools()
            result = client.call_tool("pong", {"message": "x"})
            client.ping()
        return " ".join(client.warnings) or None, result
    except MCPKitError as error:
        return str(error), None


@pytest.mark.parametrize("name", HTTP_FAULTS)
def test_the_client_survives_or_names_each_fault_within_its_time(name):
    said, started = HTTP_FAULTS[name][0], time.monotonic()
    limits = {"timeout": 0.45, "max_time": 0.95} if name in SILENT_SERVER else {"timeout": WAIT}
    with spoiling(name) as service:
        error, result = use_all(Client(service.url, on_roots=list, max_bytes=8 * 1024 * 1024,
                                       **limits))
    assert time.monotonic() - started < WAIT
    if said is None:
        assert (error, result["content"][0]["text"]) == (None, '{"response":"pong"}')
    else:
        assert said in error


@pytest.mark.parametrize("name", HTTP_FAULTS)
def test_the_probe_survives_or_names_each_fault_within_its_time(name):
    said = HTTP_FAULTS[name][1]
    with spoiling(name) as service:
        report = mcpkit.probe(service.url, timeout=0.95 if name in SILENT_SERVER else WAIT, guess=False)
    assert report["elapsedMs"] < 1000 * WAIT
    if said is None:
        assert report["verdict"] == "pass"
    else:
        shown = [check["message"] for check in report["checks"]] + [mcpkit.format_report(report)]
        assert said in "\n".join(shown)


def test_each_fault_has_a_test_and_an_explanation():
    rows = run("mock", "--list-faults", "--json").json
    kinds = {where: {row["name"] for row in rows if row["where"] in (where, "both")}
             for where in ("HTTP", "stdio")}
    assert kinds == {"HTTP": set(HTTP_FAULTS), "stdio": set(STDIO_FAULTS)} and len(rows) >= 40
    assert [row["name"] for row in rows if row["meaning"].endswith(".")] == []
    listed = run("mock", "--list-faults").out.splitlines()
    assert [line.split()[0] for line in listed] == [row["name"] for row in rows]


# The same on stdio.
STDIO_FAULTS = {
    "crlf": (None, None), "cut-crlf": (None, None), "line-separators": (None, None),
    "cut-characters": (None, None), "duplicate-answers": (None, None), "batch": (None, None),
    "huge-event": (None, "the server sent a line of more than 4,194,304 bytes"),
    "foreign-id": ("an answer to the id 987654321 came, which was not asked",) * 2,
    "id-as-string": ('an answer to the id "2" came', 'an answer to the id "1" came'),
    "error-without-id": ("error -32602: bad cursor",) * 2,
    "not-a-number": ("no answer for", "not MCP on stdout, line 1: {"),
    "discover-other-code": (None, "error -32602: Invalid params"),
    "discover-silent": (None, "it did not answer server/discover"),
    "discover-late": (None, "it did not answer server/discover"),
    "legacy-versions": (None, "does not speak the modern era"),
    "no-versions": ("supportedVersions must be a list of versions, but is []",) * 2,
    "future-versions": ("2099-01-01",) * 2, "missing-capability": ("sampling",) * 2,
    "unknown-version": ("the server chose protocolVersion 2099-01-01",) * 2,
    "no-ping": (None, None), "asks-first": ("elicitation/create: Name?", None),
    "repeated-cursor": ("the cursor again came a second time", "tools/list has more pages"),
    "bad-tools": (None, "needs an inputSchema of type"), "bad-parameters": (None, None),
    "foreign-schema": (None, '"http://127.0.0.1:9/x.json" leads to nothing'),
    "terminal-codes": (None, None), "no-output": ("structuredContent is missing", None),
    "wrong-output": ("/response: must be a string, but is 5", None),
    "junk-lines": (None, "not MCP on stdout, line 1: Server v1 started"),
    "bad-bytes": (None, "not MCP on stdout, line 1"), "stderr-flood": (None, None),
    "exit": ("exited with code 3; its last words: fatal: no such tool",) * 2,
    "stays": (None, None),
}


def mock_command(*words):
    """Return the command of a mock over stdio."""
    return [*PROGRAM, "mock", "--stdio", *words]


# The seconds that those have whose answers are none; a child takes some time to start.
STDIO_SECONDS = dict.fromkeys(("foreign-id", "id-as-string", "not-a-number"), 1.5)


@pytest.fixture
def impatient(name, monkeypatch):
    """Wait for less than usual where a fault makes us wait in vain."""
    monkeypatch.setattr(mcpkit, "DISCOVER_SECONDS", 1.0)
    if name == "stays":
        monkeypatch.setattr(mcpkit, "CHILD_END_SECONDS", 0.5)


@needs_signals
@pytest.mark.parametrize("name", STDIO_FAULTS)
def test_the_client_survives_or_names_each_fault_of_stdio(name, impatient):
    said = STDIO_FAULTS[name][0]
    client = Client(mock_command("--fault", name), timeout=STDIO_SECONDS.get(name, WAIT),
                    discover_timeout=1.0)
    error, result = use_all(client)
    if said is None:
        assert (error, result["content"][0]["text"]) == (None, '{"response":"pong"}')
    else:
        assert said in error
    assert (["Server v1 started"] == [text for _, text in client.junk[:1]]) == (
        name == "junk-lines")


@needs_signals
@pytest.mark.parametrize("name", STDIO_FAULTS)
def test_the_probe_survives_or_names_each_fault_of_stdio(name, impatient):
    said = STDIO_FAULTS[name][1]
    report = mcpkit.probe(mock_command("--fault", name), timeout=STDIO_SECONDS.get(name, WAIT))
    if said is None:
        assert report["verdict"] == "pass"
    else:
        assert said in "\n".join([*(check["message"] for check in report["checks"]),
                                  mcpkit.format_report(report)])


SAMPLES = ("pong.http", "notes.http", "python-sdk.http", "fastmcp.http")


@table("faults", {"of JSON": ["id-as-string", "batch", "repeated-cursor", "wrong-output"],
                  "of streams": ["other-events", "no-space", "duplicate-answers", "crlf"],
                  "of lists": ["bad-tools", "no-output", "terminal-codes", "no-versions"],
                  "of HTTP": ["type-in-capitals", "202-with-body", "asks-first", "not-a-number"]})
@pytest.mark.parametrize("sample", SAMPLES)
def test_faults_spoil_whatever_was_recorded_and_what_other_faults_have_spoilt(faults, sample):
    exchanges = mcpkit.parse_transcript((ROOT / "samples" / sample).read_text(encoding="utf-8"))
    for spoilers in (faults, faults[::-1]):
        with mocking(*exchanges, faults=spoilers) as mock:
            for exchange in exchanges:
                if exchange.method == "POST" and exchange.request_body:
                    reply = ask(mock, exchange.request_body)
                    assert reply.status in (200, 202, 400, 404)


def test_faults_of_streams_can_be_combined():
    with spoiling("other-events", "no-space", "crlf") as service:
        reply = ask(service, call("tools/list"))
        assert reply.body.startswith(b"event:ping\r\ndata:ping\r\n\r\n")
        assert use_all(Client(service.url, timeout=5.0))[0] is None


def test_a_rate_and_a_seed_spoil_the_same_answers_each_time():
    def ask_often(seed):
        with spoiling("200-for-all", "406", rate=0.5, seed=seed) as service:
            return [ask(service, call("tools/list"), n=n).status for n in "12345678901234567890"]
    first = ask_often(7)
    assert first == ask_often(7) != ask_often(8)
    assert 2 < first.count(200) < 20 and first.count(406) > 0
    with spoiling("406", rate=0.0) as service:
        assert ask(service, call("tools/list")).status == 200


@table("words, said", {
    "a fault that there is not": (["--fault", "crlf,nothing"], "there is no fault nothing"),
    "one of HTTP on stdio": (["--fault", "405", "--stdio"], "the fault 405 is one of HTTP only"),
    "one of stdio over HTTP": (["--fault", "exit"], "the fault exit is one of stdio only"),
    "a rate above 1": (["--fault-rate", "1.5"], "invalid rate value"),
    "no transcript": (["Makefile"], "Makefile: line 4 is no request"),
    "no file": (["nowhere"], "nowhere cannot be read")})
def test_a_mock_that_cannot_be_says_why(words, said):
    ran = run("mock", *words)
    assert (ran.code, said in ran.err, ran.err.count("\n")) == (2, True, 1), ran.err


# =============================================================================================
# 31. RECORD AND REPLAY
# =============================================================================================
def replay(path, *words, **options):
    """Run `replay` of a file and return what came of it."""
    return run("replay", str(path), *words, **options)


def test_the_first_transcript_replays_but_for_the_name_of_its_server():
    with mcpkit.HTTPService(Server("other", stream="always"), port=0) as service:
        assert "3 · tools/list: different" in replay("samples/pong.http", service.url).out
    server = mcpkit.build_pong_server()
    server.stream, server.info["name"] = "always", "docker agent"
    with mcpkit.HTTPService(server, port=0) as service:
        ran = replay("samples/pong.http", service.url)
        assert (ran.code, ran.out) == (1, """\
1 \u00b7 initialize: different
  result.serverInfo.name: was mcpkit pong, is docker agent
2 \u00b7 notifications/initialized: the same
3 \u00b7 tools/list: the same
4 \u00b7 tools/call: the same
4 exchanges: 3 the same, 1 different
""")
        ran = replay("samples/pong.http", service.url, "--ignore", "serverInfo", "--json")
        assert ran.code == 0 and ran.json["same"]
        ran = replay("samples/pong.http", service.url, "--only", "4")
        assert (ran.code, ran.out) == (0, "4 \u00b7 tools/call: the same\n"
                                          "1 exchange: 1 the same\n")


def test_a_transcript_of_http_replays_over_stdio_and_one_of_stdio_over_http(tmp_path, pong):
    assert replay("samples/pong.http", *STDIO).out.endswith("\n4 exchanges: 4 the same\n")
    lines = [build_line_exchange(call("initialize", {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {
            "name": "t", "version": "0"}}), json.dumps(say({
                "protocolVersion": "2025-11-25", "serverInfo": {}, "capabilities": {}})).encode()),
        build_line_exchange({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        build_line_exchange(call("tools/call", {"name": "pong", "arguments": {"message": ""},
                                                "_meta": META}, 2))]
    (tmp_path / "lines").write_text(mcpkit.format_transcript(lines), encoding="utf-8")
    ran = replay(tmp_path / "lines", pong.url, "--json", "--ignore", "result.capabilities")
    assert [row["outcome"] for row in ran.json["exchanges"]] == [
        "different", "the same", "different"]
    changed = [row["path"] for row in ran.json["exchanges"][0]["differences"]]
    assert changed == ["result.serverInfo.name", "result.serverInfo.version"]
    assert ran.json["exchanges"][2]["differences"][1]["is"]["structuredContent"] == {
        "response": "pong"}


def test_an_update_puts_the_answers_of_now_into_the_file(tmp_path, notes):
    path = tmp_path / "notes.http"
    opened = build_exchange(call("initialize", {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {
            "name": "t", "version": "0"}}), sent=JSON_BOTH,
        headers={"mcp-session-id": "<session-1>"})
    session = {**JSON_BOTH, "Mcp-Session-Id": "<session-1>", "Authorization": "Bearer <secret-2>"}
    exchanges = [opened, build_exchange(call("tools/list", None, 2), sent=session,
                                        title="all of it")]
    text = mcpkit.format_transcript(exchanges).replace("all of it\n", "all of it\n# but no more\n")
    path.write_text(f"# of the notes\n\n{text}", encoding="utf-8")
    assert replay(path, notes.url).code == 1
    assert replay(path, notes.url, "--update").code == 1
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# of the notes\n\n### 1") and "all of it\n# but no more\nPOST" in text
    assert text.count("Mcp-Session-Id: <session-1>") == 2 and text.endswith("}\n")
    assert "### 2 \u00b7 all of it" in text and "Bearer <secret-2>" in text
    ran = replay(path, notes.url)
    assert (ran.code, ran.out.split("\n")[1]) == (0, "2 \u00b7 all of it: the same")


def test_a_replay_replaces_only_what_a_client_carries(tmp_path):
    listed = {"tools": [], "nextCursor": "10"}
    exchanges = [build_exchange(call("tools/list"), {"jsonrpc": "2.0", "id": 1, "result": listed}),
                 build_exchange(call("tools/call", {"name": "x", "arguments": {"zip": "10"}}, 2)),
                 build_exchange(call("tools/list", {"cursor": "10"}, 3))]
    (tmp_path / "pages").write_text(mcpkit.format_transcript(exchanges), encoding="utf-8")
    with Peer(lambda asked: http_answer(result(asked, {**listed, "nextCursor": "11"}))) as peer:
        replay(tmp_path / "pages", peer.url)
    sent = [asked.message["params"] for asked in peer.asked if "params" in asked.message]
    assert sent == [{"name": "x", "arguments": {"zip": "10"}}, {"cursor": "11"}]


@table("words, code, said", {
    "nobody there": (["samples/pong.http", "http://127.0.0.1:1/mcp"], 4, "connect"),
    "no file": (["nowhere", "http://127.0.0.1:1/mcp"], 2, "nowhere cannot be read"),
    "no transcript": (["Makefile", "http://127.0.0.1:1/mcp"], 2, "no request"),
    "no URL": (["samples/pong.http", "ftp://127.0.0.1/"], 2, "not an http or https URL"),
    "no such exchange": (["samples/pong.http", "http://127.0.0.1:1/", "--only", "5"], 2,
                         "there are 4 exchanges")})
def test_a_replay_that_cannot_be_says_why(words, code, said):
    ran = replay(*words)
    assert ran.code == code and said in ran.err and ran.err.count("\n") == 1


def test_a_server_that_stops_answering_is_a_difference(tmp_path):
    with Peer(lambda asked: http_answer(call("x")) if asked.message["id"] == 1 else b"") as peer:
        path = tmp_path / "two"
        path.write_text(mcpkit.format_transcript(
            [build_exchange(call("x", None, n), call("x")) for n in (1, 2)]), encoding="utf-8")
        ran = replay(path, peer.url)
    assert ran.code == 1 and "answer: was complete, is connection: 127.0.0.1" in ran.out


# ---- mock and record

@contextlib.contextmanager
def running(*words):
    """Run a service of mcpkit.py on any port, and stop it; yields its URL."""
    child = subprocess.Popen([*PROGRAM, *words, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://127.0.0.1:\d+\S*", child.stdout.readline()).group()
    finally:
        child.terminate()
        assert child.wait(WAIT) == 0
        child.stdout.close()


def test_a_mock_of_the_first_transcript_satisfies_the_client_and_the_probe():
    with running("mock", "samples/pong.http") as url:
        with Client(url, timeout=WAIT) as client:
            assert (client.protocol_version, client.server_info["name"]) == (
                "2025-11-25", "mcpkit pong")
            assert client.call_tool("pong", {"message": "other"})["structuredContent"] == {
                "response": "pong"}
        assert mcpkit.probe(url)["verdict"] == "pass"
    ran = run("call", "pong", "message=x", "--", *mock_command("samples/pong.http"))
    assert (ran.code, ran.out) == (0, '{"response":"pong"}\n')
    assert ran.err == ""


@contextlib.contextmanager
def recording(url, path):
    """Record what is said to a URL; the recorder is one that `ask` and LiveStream know."""
    with running("record", url, "--out", str(path)) as own:
        parts = urllib.parse.urlsplit(own)
        yield types.SimpleNamespace(url=own, server_address=(parts.hostname, parts.port),
                                    policy=AT_MCP)


def read_titles(path):
    """Return what the exchanges of a transcript are about."""
    return re.findall("^### [0-9]+ \u00b7 (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def read_exchanges(path):
    return mcpkit.parse_transcript(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_recorded_replays_and_answers_like_the_server(era, tmp_path, notes):
    path = tmp_path / "tape.http"
    with recording(notes.url, path) as service:
        with Client(service.url, era=era, timeout=WAIT, on_roots=list) as client:
            saved = client.call_tool("add_note", {"text": "milk"})["structuredContent"]
            with pytest.raises(MCPError):
                client.read_resource("notes://none")
    titles = read_titles(path)
    assert titles == (["initialize", "notifications/initialized", "GET", "tools/call",
                       "resources/read", "DELETE"] if era == "legacy" else [
                           "server/discover", "tools/call", "resources/read"])
    with mcpkit.HTTPService(load_sample("notes.py"), port=0) as fresh:
        ran = replay(path, fresh.url)
    assert ran.code == 0, ran.out
    with running("mock", str(path)) as url, Client(url, era=era, timeout=WAIT, on_roots=list
                                                   ) as client:
        assert client.call_tool("add_note", {"text": "milk"})["structuredContent"] == saved
        with pytest.raises(MCPError):
            client.read_resource("notes://none")


def build_curious_server():
    """Return a server whose tool asks, tells and then answers."""
    server = Server("curious", sessions=True)

    @server.tool
    def book(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.log("info", "asking")
        return ctx.elicit("Which day?", {"type": "object", "properties": {
            "day": {"type": "string"}}}).content["day"]
    return server


@pytest.mark.parametrize("transport", ["HTTP", "stdio"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_questions_of_a_server_are_recorded_replayed_and_asked_again(era, transport, tmp_path):
    path = tmp_path / "tape.http"
    (tmp_path / "curious.py").write_text(
        "from mcpkit import Context, Server\n" + inspect_source(build_curious_server)
        + "\nserver = build_curious_server()\n")
    command = [*PROGRAM, "serve", str(tmp_path / "curious.py"), "--stdio"]

    def book(target):
        with Client(target, era=era, timeout=WAIT, on_elicit=lambda params: {"day": "Monday"}
                    ) as client:
            return client.call_tool("book", on_progress=lambda *_: None)["content"][0]["text"]

    with contextlib.ExitStack() as stack:
        if transport == "stdio":
            assert book([*PROGRAM, "record", "--out", str(path), "--", *command]) == "Monday"
            target = ["--", *command]
        else:
            service = stack.enter_context(mcpkit.HTTPService(build_curious_server(), port=0))
            with recording(service.url, path) as recorder:
                assert book(recorder.url) == "Monday"
            target = [service.url]
        ran = replay(path, *target)
        assert ran.code == 0, ran.out
    assert book(mock_command(str(path))) == "Monday"
    with running("mock", str(path)) as url:
        assert book(url) == "Monday"


def test_a_recorded_stream_is_handed_on_as_it_comes(tmp_path):
    more = threading.Event()

    def answer(asked):
        yield (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Odd: 1\r\n"
               b"Connection: close\r\n\r\n" + event({"n": 1}))
        assert more.wait(WAIT)
        yield event({"n": 2})

    with Peer(answer) as peer, recording(peer.url, tmp_path / "tape") as service:
        with LiveStream(service, call("x")) as live:
            assert live.response.getheader("X-Odd") == "1"
            assert live.next_message() == {"n": 1}
            more.set()
            assert live.next_message() == {"n": 2} and live.next_event() is None
    exchange, = read_exchanges(tmp_path / "tape")
    assert (exchange.error, exchange.is_stream, exchange.answer.count(b"data: ")) == (None, True, 2)


def test_a_client_that_goes_away_ends_the_exchange_that_is_recorded(tmp_path, notes):
    with recording(notes.url, tmp_path / "tape") as service:
        with listen(service, {"toolsListChanged": True}) as live:
            assert live.next_message()["method"] == "notifications/subscriptions/acknowledged"
    exchange, = read_exchanges(tmp_path / "tape")
    assert exchange.error == "the client went away"
    wait_until(lambda: not notes.mcp.listeners)


def test_what_cannot_be_reached_is_a_502_and_on_record(tmp_path):
    with recording("http://127.0.0.1:1/mcp", tmp_path / "tape") as service:
        reply = ask(service, call("x"))
        assert reply.status == 502 and b"nothing listens at 127.0.0.1:1" in reply.body
    exchange, = read_exchanges(tmp_path / "tape")
    assert exchange.status is None and "nothing listens" in exchange.error


def test_a_page_of_another_name_is_not_let_in_by_a_recorder_or_a_mock(tmp_path, pong):
    with recording(pong.url, tmp_path / "tape") as recorder, spoiling() as mock:
        for service in (recorder, mock):
            assert ask(service, call("tools/list"), Host="evil.example").status == 403
            assert ask(service, call("tools/list")).status == 200
    assert read_titles(tmp_path / "tape") == ["tools/list"]


def test_a_tape_that_cannot_be_written_does_not_end_the_talk(tmp_path, pong, capfd):
    (tmp_path / "folder").mkdir()
    with recording(pong.url, tmp_path / "folder" / "tape") as service:
        shutil.rmtree(tmp_path / "folder")
        assert ask(service, call("tools/list")).status == 200
    assert "tape cannot be written: No such file" in capfd.readouterr().err


def test_a_recorder_takes_the_place_of_its_server_in_headers(tmp_path):
    def answer(asked):
        assert asked.headers["host"] == f"127.0.0.1:{peer.port}"
        return http_answer(b"", "307 Moved", "text/plain", f"Location: {peer.url}/", "X-A: 1",
                           "X-A: 2")
    with Peer(answer) as peer, recording(peer.url, tmp_path / "tape") as service:
        reply = ask(service, call("x"))
        assert reply.headers["location"] == service.url + "/"
        raw = send_raw(service, make_raw(json.dumps(call("x")).encode(), "Connection: close"))
        assert b"\r\nx-a: 1\r\nx-a: 2\r\n" in raw


def test_a_tape_is_in_the_order_in_which_exchanges_began(tmp_path):
    came, more = threading.Event(), threading.Event()

    def answer(asked):
        if asked.message["method"] == "m0":
            came.set()
            assert more.wait(WAIT)
        return http_answer(result(asked, {}))

    with Peer(answer) as peer, recording(peer.url, tmp_path / "tape") as service:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            first = pool.submit(ask, service, call("m0"))
            assert came.wait(WAIT)
            for name in ("m1", "m2"):
                assert ask(service, call(name)).status == 200
            assert read_titles(tmp_path / "tape") == ["m1", "m2"]
            more.set()
            assert first.result(WAIT).status == 200
    assert read_titles(tmp_path / "tape") == ["m0", "m1", "m2"]


TALKATIVE_CHILD = """
import json, sys
request = json.loads(sys.stdin.readline())
for number in range(100):
    print('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}')
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}), flush=True)
"""


def test_all_that_a_stdio_server_tells_is_on_tape_at_the_end(tmp_path):
    ran = run("record", "--out", str(tmp_path / "tape"), "--", sys.executable, "-c",
              TALKATIVE_CHILD, data=json.dumps(call("tools/call")).encode() + b"\n")
    exchange, = read_exchanges(tmp_path / "tape")
    assert exchange.answer.decode().splitlines() == ran.out.splitlines()
    assert exchange.answer.count(b'"progress":') == 100


@pytest.mark.parametrize("words", [
    ["list"], ["call", "pong", "message=x"], ["send", "tools/list"], ["probe"]], ids=str)
def test_every_command_of_the_client_writes_a_transcript(words, tmp_path, pong):
    path = str(tmp_path / "tape.http")
    target = [words[0], pong.url, *words[1:]]
    assert run(*target, "--transcript", path, "--header", "X-Token: 1234567").code == 0
    exchanges = read_exchanges(tmp_path / "tape.http")
    assert len(exchanges) > 1 and exchanges[0].request_headers["X-Token"] == "<secret-1>"
    assert replay(path, pong.url, "--header", "X-Token: 1").code == 0
    assert run(*words, "--transcript", path, *STDIO).code == 0
    assert {exchange.method for exchange in read_exchanges(tmp_path / "tape.http")} == {"stdio"}


@table("words, code, said", {
    "nothing to record": (["--out", "x"], 2, "the URL of a server, or --"),
    "no URL": (["pong", "--out", "x"], 2, "not an http or https URL"),
    "nowhere to write": (["http://127.0.0.1:1/", "--out", "/no/such/x"], 2, "cannot be written"),
    "no command": (["--out", "/dev/null", "--", "/no/such"], 4, "cannot start")})
def test_a_recording_that_cannot_be_says_why(words, code, said):
    ran = run("record", *words)
    assert (ran.code, said in ran.err, ran.err.count("\n")) == (code, True, 1), ran.err


# =============================================================================================
# DOCUMENTS
# =============================================================================================
# ---- the documents that the product makes true

def test_the_pong_transcript_replays_on_the_pong_server():
    exchanges = read_exchanges(ROOT / "samples" / "pong.http")
    with serving("--stream", "always") as url:
        for exchange in exchanges:
            connection = http.client.HTTPConnection(url.split("/")[2], timeout=WAIT)
            connection.request("POST", "/mcp", json.dumps(json.loads(exchange.request_body), indent=2),
                               exchange.request_headers)
            response = connection.getresponse()
            body = response.read()
            connection.close()
            assert response.status == exchange.status
            for name, value in exchange.headers.items():
                assert name == "date" or response.getheader(name) == value
            assert [event.event for event in SSEParser().feed(body)] == [
                "message"] * bool(exchange.answer)
            assert Reply(0, {}, body).messages == mcpkit.find_messages(exchange)
            assert response.getheader("Mcp-Session-Id") is None


TRANSCRIPTS = sorted(path.name for path in (ROOT / "samples").glob("*.http"))


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_each_transcript_of_the_samples_is_as_it_would_be_written_and_names_no_machine(name):
    text = (ROOT / "samples" / name).read_text(encoding="utf-8")
    written = mcpkit.format_transcript(mcpkit.parse_transcript(text))
    assert text in (written, written + "\n")
    assert re.findall(r"/tmp|/home|/root|[0-9a-f]{32}", text) == []
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", text)) <= {"8000", "8081"}


@table("name, words", {
    "the first one": ("pong.http", ["--stream", "always"]), "a modern one": ("pong-modern.http", []),
    "the session of the tutorial": ("notes.http", ["samples/notes.py"])})
def test_the_transcripts_of_our_own_servers_replay_on_them(name, words):
    with serving(*words) as url:
        ran = replay(f"samples/{name}", url)
    assert ran.code == 0, ran.out


@pytest.mark.parametrize("name", ["python-sdk.http", "fastmcp.http"])
def test_the_recorded_peers_answer_our_client(name):
    with running("mock", f"samples/{name}") as url, Client(url, timeout=WAIT) as client:
        assert client.era == ("legacy" if name == "python-sdk.http" else "modern")
        assert client.call_tool("add", {"a": 1})["structuredContent"] == {"result": 3}


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


# ---- logging in

@contextlib.contextmanager
def logging_in(server, folder, *words):
    """Yield the URL at which `login` wants somebody to log in, and a function that answers it."""
    command = [*PROGRAM, "login", server.url, "--no-browser", *words]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "APPDATA": str(folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, env=environment) as child:
        url = next(line for line in child.stderr if line.startswith("http")).strip()

        def answer(text):
            out, err = child.communicate(text + "\n", timeout=WAIT)
            return Ran(child.returncode, out, err)

        yield url, answer


def test_a_login_serves_the_other_commands_until_the_logout(tmp_path):
    where = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path)}
    with guarded() as (issuer, server):
        advice = f"mcpkit: the server wants a login (HTTP 401): run: mcpkit.py login {server.url}"
        assert run("list", server.url, **where) == Ran(1, "", advice + "\n")
        with logging_in(server, tmp_path) as (url, answer):
            ran = answer(browse(url))
        assert ran.code == 0 and ran.out == (f"logged in to {server.url} by {issuer.name}, "
                                             "scopes read offline_access\n")
        issuer.scopes.clear()
        assert run("send", server.url, "x/y", **where).json == {"ok": 1}
        assert run("send", server.url, "x/y", **where).json == {"ok": 1}
        assert issuer.log.count("refresh_token") == 1
        refused = run("send", server.url, "tools/call", '{"name": "x"}', **where)
        assert refused.err.endswith("(HTTP 403): run: mcpkit.py login "
                                    f"{server.url} --scope read --scope offline_access "
                                    "--scope write\n")
        assert run("logout", server.url, **where).out == "logged out\n"
        assert run("logout", server.url, **where).out == "nobody was logged in\n"
        assert run("list", server.url, **where).code == 1
    assert issuer.log.count("authorize") == 1


def test_a_login_by_a_secret_needs_no_person(tmp_path):
    where = {"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path)}
    with guarded(authorization_endpoint=None) as (issuer, server):
        issuer.clients["robot"] = "robots-secret", []
        ran = run("login", server.url, "--grant", "client_credentials", "--client-id", "robot",
                  "--client-secret-env", "SECRET", "--issuer", issuer.name, SECRET="robots-secret",
                  **where)
        assert (ran.code, ran.out) == (0, f"logged in to {server.url} by {issuer.name}, scopes "
                                          "read\n")
        assert run("send", server.url, "x/y", **where).json == {"ok": 1}
    assert "client_credentials" in issuer.log and "authorize" not in issuer.log


@pytest.mark.parametrize("words", [(), ("--exchange-client", "app", "--exchange-secret-env", "APP")])
def test_a_login_by_an_assertion_may_have_it_exchanged_first(words, tmp_path):
    exchanged = []

    def exchange(asked):
        exchanged.append(asked)
        return http_answer({"access_token": "jag", "token_type": "N_A"})

    (tmp_path / "id-token").write_text("from-the-provider\n")
    with guarded() as (issuer, server), Peer(exchange) as provider:
        issuer.clients["robot"] = "robots-secret", []
        ran = run("login", server.url, "--grant", "jwt_bearer", "--client-id", "robot",
                  "--client-secret-env", "SECRET", "--assertion-file", str(tmp_path / "id-token"),
                  "--exchange", provider.url, *words, SECRET="robots-secret", APP="s",
                  XDG_CONFIG_HOME=str(tmp_path), APPDATA=str(tmp_path))
    assert ran.code == 0, ran.err
    [asked] = exchanged
    assert asked.message["subject_token"] == "from-the-provider"
    assert asked.message.get("client_id", "app") == ("app" if words else "robot")
    assert ("authorization" in asked.headers) == bool(words)
    assert issuer.asked[-1].message["assertion"] == "jag"


@cases({"an exchange of nothing": (["--exchange", "https://idp/token"], "--assertion-file, which is"),
        "no assertion": (["--grant", "jwt_bearer", "--client-id", "x"], "an assertion is what"),
        "no client": (["--grant", "client_credentials"], "client_credentials needs the client_id"),
        "no such file": (["--assertion-file", "nowhere"], "nowhere")})
def test_a_login_without_a_person_says_what_it_needs(case, tmp_path):
    words, said = case
    ran = run("login", "http://127.0.0.1:9/mcp", *words, XDG_CONFIG_HOME=str(tmp_path),
              APPDATA=str(tmp_path))
    assert ran.code == 2 and said in ran.err and ran.err.count("\n") == 1


def test_a_login_may_use_a_client_that_is_registered_and_scopes_of_ones_own(tmp_path, monkeypatch):
    with guarded(registration_endpoint=None) as (issuer, server):
        issuer.clients["mine"] = "my-secret", [mcpkit.DEFAULT_REDIRECT]
        monkeypatch.setenv("MY_SECRET", "my-secret")
        with logging_in(server, tmp_path, "--client-id", "mine", "--client-secret-env",
                        "MY_SECRET", "--scope", "read", "--json") as (url, answer):
            ran = answer(browse(url))
        assert ran.json["issuer"] == issuer.name and "my-secret" not in ran.out + ran.err
        assert ran.json["scopes"] == ["read", "offline_access"]


WRONG_ANSWERS = {"nothing": ("", 2, "no URL was pasted"),
                 "a code alone": ("code-1", 1, "use the whole URL")}


@cases(WRONG_ANSWERS)
def test_a_login_that_is_answered_wrongly_ends_in_one_line(case, tmp_path):
    text, code, words = case
    with guarded() as (_, server), logging_in(server, tmp_path) as (_, answer):
        ran = answer(text)
    assert ran.code == code and words in ran.err.splitlines()[-1]


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["probe"], ["probe", "--json"],
                                   ["login"]], ids=" ".join)
def test_no_credentials_of_ours_that_a_server_repeats_are_printed(words, tmp_path):
    def repeat(asked):
        said = [asked.headers.get(name, "") for name in ("authorization", "x-api-key", "cookie")]
        return http_answer(", ".join(said).encode(), "403 Forbidden", "text/plain")

    with Peer(repeat) as peer:
        ran = run(words[0], peer.url, *words[1:], "--header", "Authorization: Bearer s3cr3t-1",
                  "--header", "X-Api-Key: s3cr3t-2", "--header", "Cookie: a=s3cr3t-3; b=c",
                  XDG_CONFIG_HOME=str(tmp_path), APPDATA=str(tmp_path))
    assert ran.code and "(X-Api-Key)" in ran.out + ran.err and "s3cr3t" not in ran.out + ran.err


def test_a_token_comes_from_a_variable_or_a_file(tmp_path):
    (tmp_path / "token").write_text("good-token\n")
    (tmp_path / "tokens").write_text("one two\n")
    server = build_sample_server(auth=Auth.bearer(["good-token"]))
    with mcpkit.HTTPService(server, port=0) as service:
        assert run("list", service.url, "--bearer-env", "MINE", MINE="good-token").code == 0
        assert run("list", service.url, "--bearer-file", str(tmp_path / "token")).code == 0
        ran = run("probe", service.url, "--bearer-env", "MINE", MINE="good-token")
        assert ran.code == 0 and "good-token" not in ran.out
        assert "is not set" in run("list", service.url, "--bearer-env", "NOT_THERE").err
        ran = run("list", service.url, "--bearer-file", str(tmp_path / "tokens"))
        assert ran.code == 2 and "one token" in ran.err and "one two" not in ran.err


def test_a_login_is_for_urls_only():
    for command in ("login", "logout"):
        assert "at an http or https URL" in run(command, *STDIO).err


# ---- the README: every command in it gives what it shows

README = (ROOT / "README.md").read_text(encoding="utf-8")


# The parts of the README by their titles; most are about a server or two of their own.
README_PARTS = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", README, flags=re.M))


def read_blocks(text):
    """Return [(language, block)] of a part of the README."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.M | re.S)


def split_commands(block):
    """Return [(command, what it prints)] of a console that the README shows."""
    return [part.partition("\n")[::2] for part in re.split(r"^\$ ", block, flags=re.M)[1:]]


def read_commands(text):
    """Return [(command, what it prints)] of a part of the README."""
    return [command for language, block in read_blocks(text) if language == "console"
            for command in split_commands(block)]


def is_serving(command):
    """Return whether a command of the README starts a server that stays."""
    return re.search(r" (serve|record|mock)\b(?!.*(--stdio|--list))", command) is not None


def find_port(command):
    """Return the port of a server that is started."""
    given = re.search(r" --port (\d+)", command)
    return given.group(1) if given else "8000"


def hide_times(text):
    """Return text in which all times are the same."""
    text = re.sub(r'"ms":[\d.]+', '"ms":0', re.sub(r"[\d.]+ ms", "N ms", text))
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "NOW", text)


class ReadmeShell:
    """Runs a part of the README in a folder, its servers on ports that the system picks."""

    def __init__(self, folder):
        self.folder, self.ports, self.children = folder, {}, []

    def write(self, block):
        """Write a Python file that the README shows, which begins with its name."""
        name = re.match(r"# (\w+\.py)\n", block).group(1)
        (self.folder / name).write_text(block, encoding="utf-8")

    def run(self, command):
        """Run a command and return what it prints, with the README's ports and no times."""
        for port in re.findall(r"127\.0\.0\.1:(8\d{3})/", command):
            if port not in self.ports:
                self.start_other(port)
        for shown, port in self.ports.items():
            command = command.replace(f":{shown}/", f":{port}/")
        if is_serving(command):
            return self.show(self.start(command))
        return self.show(self.shell(command).communicate(timeout=WAIT)[0])

    def show(self, out):
        """Return an output as the README shows it."""
        for shown, port in self.ports.items():
            out = out.replace(f":{port}", f":{shown}")
        return hide_times(out)

    def start_other(self, port):
        """Start a server of another part, after the commands there that write files."""
        part = next(part for part in README_PARTS.values() for command, _ in read_commands(part)
                    if is_serving(command) and find_port(command) == port)
        for command, _ in read_commands(part):
            if re.search(r"> \w+$", command):
                self.shell(command).communicate(timeout=WAIT)
            if is_serving(command) and find_port(command) == port:
                self.start(command)

    def start(self, command):
        """Start a server and return its first line."""
        shown = find_port(command)
        child = self.shell("exec " + command.replace(f" --port {shown}", "") + " --port 0")
        self.children.append(child)
        line = child.stdout.readline()
        self.ports[shown] = re.search(r":(\d+)/", line).group(1)
        return line

    def shell(self, command):
        environment = {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
                       "XDG_CONFIG_HOME": str(self.folder), "PYTHONPATH": ""}
        return subprocess.Popen(["sh", "-c", command], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.fixture
def readme_shell(tmp_path):
    shutil.copy(ROOT / "mcpkit.py", tmp_path)
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    (tmp_path / "python3").symlink_to(sys.executable)
    shell = ReadmeShell(tmp_path)
    for language, block in read_blocks(README):
        if language == "python":
            shell.write(block)
    yield shell
    for child in shell.children:
        child.terminate()
    for child in shell.children:
        child.wait(WAIT)
        child.stdout.close()


def test_the_readme_shows_files_consoles_and_transcripts_only_and_all_in_its_parts():
    assert {language for language, _ in read_blocks(README)} == {
        "python", "console", "http", "json"}
    assert len(read_commands(README)) == sum(map(len, map(read_commands, README_PARTS.values())))


@pytest.mark.skipif(os.name != "posix", reason="the README's commands are for a shell")
@pytest.mark.parametrize("title", [title for title, part in README_PARTS.items()
                                   if read_commands(part)])
def test_every_command_of_the_readme_prints_what_the_readme_shows(title, readme_shell):
    for language, block in read_blocks(README_PARTS[title]):
        if language == "python":             # perhaps what was wrong at first is right now
            readme_shell.write(block)
        elif language == "http":
            assert mcpkit.parse_transcript(block)[0].status == 200
        elif language == "json":
            assert [entry for name, entry in mcpkit.parse_config(block.encode(), "mcp.json").items()
                    if mcpkit.describe_server(name, entry, "")["kind"] == "unusable"] == []
        for command, shown in split_commands(block) if language == "console" else ():
            if not (command.startswith("curl ") and shutil.which("curl") is None):
                assert readme_shell.run(command) == hide_times(shown), command


def test_the_readme_names_every_exit_code_and_version():
    for code, meaning in mcpkit.EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in README
    for version in mcpkit.PROTOCOL_VERSIONS:
        era = "modern" if version in mcpkit.MODERN_VERSIONS else "legacy"
        assert f"\n| {version} | {era} |" in README


def test_the_readme_names_only_make_targets_that_there_are():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"`make ([a-z-]+)", README)) <= targets


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_the_bench_puts_each_figure_of_ours_beside_the_yardsticks(tmp_path):
    ran = subprocess.run([sys.executable, ".ci/bench.py", "--rounds", "1", "--seconds", "1", "--only",
                          "16 connections", "--json", str(tmp_path / "figures")],
                         capture_output=True, timeout=120, cwd=ROOT, text=True)
    assert ran.returncode == 0 and "mcpkit divided by" in ran.stdout, ran.stderr
    rate, p99 = json.loads((tmp_path / "figures").read_text())
    assert (rate["unit"], p99["unit"]) == ("calls/s", "p99 ms")
    assert set(rate["figures"]) == {"mcpkit", "http.server", "raw sockets"}


@table("answer", {
    "an error": http_answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"pong"}}'),
    "a tool's error": http_answer(b'{"id":1,"result":{"isError":true,"content":"pong"}}'),
    "another status": http_answer(b"pong", "500 Internal Server Error")})
def test_a_wrong_answer_ends_the_bench(answer, users_module):
    bench = users_module((ROOT / ".ci" / "bench.py").read_text(encoding="utf-8"), False)
    with Peer(lambda asked: answer) as peer:
        with pytest.raises(SystemExit, match="a wrong answer"):
            bench.ask(peer.port, bench.LEGACY_CALL)


# ---- the samples

@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@table("name, changes", {
    "one server": ("mcpkit", {}),
    "an instance": ("mcpkit@", {"127.0.0.1:8000": "127.0.0.1:800%i",
                                "--workers 2": "--sessions --instance %i"})})
def test_the_units_for_systemd_are_right_and_expose_little(tmp_path, name, changes):
    for kind in ("service", "socket"):
        unit = (ROOT / "samples" / f"mcpkit.{kind}").read_text()
        for old, new in changes.items():
            unit = unit.replace(old, new)
        # It verifies that there is such a program, which need not be on this machine.
        (tmp_path / f"{name}.{kind}").write_text(unit.replace("/usr/bin/python3", sys.executable))
    unit = str(tmp_path / f"{name}.service").replace("@", "@1")
    verified = subprocess.run(["systemd-analyze", "verify", unit, unit.replace("service", "socket")],
                              capture_output=True, timeout=WAIT, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
                            capture_output=True, timeout=WAIT, text=True)
    assert judged.returncode == 0 or "unrecognized option" in judged.stderr, judged.stdout


def test_the_service_for_systemd_starts_what_serve_understands():
    unit = (ROOT / "samples" / "mcpkit.service").read_text()
    words = re.search(r"^ExecStart=\S+ \S+ (.*)$", unit, flags=re.M).group(1).split()
    assert mcpkit.parse_command_line(words).workers == 2
    assert float(re.search(r"TimeoutStopSec=(\d+)", unit).group(1)) > mcpkit.STOP_SECONDS + 1


EVERYTHING_ARGUMENTS = {            # where a tool or prompt of the everything server needs some
    "test_structured_content": {"numbers": [1, 2.5]},
    "test_x_mcp_header": {"region": "north"},
    "json_schema_2020_12_tool": {"email": "ada@example.com"},
    "test_elicitation": {"message": "Who are you?"},
    "test_sampling": {"prompt": "Are you there?"},
    "greet": {"name": "Ada"},
    "slow_compute": {"seconds": 0.01},
    "confirm_delete": {"filename": "all.txt"},
    "test_prompt_with_arguments": {"arg1": "hello", "arg2": "world"},
    "test_prompt_with_embedded_resource": {"resourceUri": "test://static-text"},
}
ABLE_META = {**META, "io.modelcontextprotocol/clientCapabilities": {
    "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}}}}
FIELD_VALUES = {"string": "Ada", "integer": 1, "number": 1.5, "boolean": True, "array": []}


def answer_input(request):
    """Return what a willing client answers to an input request."""
    if request["method"] == "roots/list":
        return {"roots": [{"uri": "file:///work"}]}
    if request["method"] == "sampling/createMessage":
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}}
    form = request["params"].get("requestedSchema")
    return {"action": "accept"} if form is None else {"action": "accept", "content": {
        name: field.get("default", field.get("enum", [FIELD_VALUES[field["type"]]])[0])
        for name, field in form["properties"].items() if name in form.get("required", ())}}


def answer_inputs(result):
    return {key: answer_input(request) for key, request in result["inputRequests"].items()}


def talk_modern(service, method, **params):
    """Make a modern call, answer all that is asked back, and return the last result."""
    params["_meta"] = ABLE_META
    headers = {"Mcp_Param_Region": "north"} if params.get("name") == "test_x_mcp_header" else {}
    while True:
        reply = ask_modern(service, method, params, **headers)
        message = reply.messages[-1] if "event-stream" in reply.headers["content-type"] else (
            reply.json)
        result = message["result"]
        if result["resultType"] != "input_required":
            return result
        params = {**params, "inputResponses": answer_inputs(result),
                  "requestState": result["requestState"]}


def await_task(service, task):
    """Answer what a task asks and return it when it is done."""
    while task["status"] in ("working", "input_required"):
        if "inputRequests" in task:
            ask_modern(service, "tasks/update", {
                "_meta": ABLE_META, "taskId": task["taskId"],
                "inputResponses": answer_inputs(task)}, Mcp_Name=task["taskId"])
        threading.Event().wait(0.01)
        task = ask_modern(service, "tasks/get", {
            "_meta": ABLE_META, "taskId": task["taskId"]}, Mcp_Name=task["taskId"]).json["result"]
    return task


@pytest.fixture
def everything():
    with mcpkit.HTTPService(load_sample("everything_server.py"), port=0) as service:
        yield service


def test_every_tool_of_the_everything_server_ends_as_it_says(everything):
    tools = [tool["name"] for tool in talk_modern(everything, "tools/list")["tools"]]
    results = {name: talk_modern(everything, "tools/call", name=name,
                                 arguments=EVERYTHING_ARGUMENTS.get(name, {})) for name in tools}
    assert {name for name, result in results.items() if result["resultType"] == "task"} == {
        "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
        "test_tool_with_task"}
    tasks = {name: await_task(everything, result) for name, result in results.items()
             if result["resultType"] == "task"}
    assert {name for name, task in tasks.items() if task["status"] != "completed"} == {
        "protocol_error_job"}
    results.update((name, task.get("result", {})) for name, task in tasks.items())
    assert {name for name, result in results.items() if result.get("isError")} == {
        "test_error_handling", "failing_job"}
    assert results["test_structured_content"]["structuredContent"] == {"total": 3.5, "count": 2}
    assert results["test_input_required_result_multi_round"]["content"][0]["text"] == (
        "Ada likes Ada.")


def test_whatever_else_the_everything_server_lists_answers(everything):
    for prompt in talk_modern(everything, "prompts/list")["prompts"]:
        assert talk_modern(everything, "prompts/get", name=prompt["name"],
                           arguments=EVERYTHING_ARGUMENTS.get(prompt["name"], {}))["messages"]
    resources = talk_modern(everything, "resources/list")["resources"]
    for uri in [resource["uri"] for resource in resources] + ["test://template/123/data"]:
        assert talk_modern(everything, "resources/read", uri=uri)["contents"][0]["uri"] == uri


def run_everything_client(url):
    """Return the exit code, the words of each line, and the standard error of the sample."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "samples" / "everything_client.py"), url],
        capture_output=True, text=True, timeout=WAIT)
    return ran.returncode, [line.split() for line in ran.stdout.splitlines()], ran.stderr


def test_the_everything_client_uses_all_that_the_everything_server_offers(everything):
    with Client(everything.url, timeout=WAIT) as client:
        offered = [item[key] for items, key in (
            (client.list_tools(), "name"), (client.list_resources(), "uri"),
            (client.list_prompts(), "name")) for item in items]
    code, lines, stderr = run_everything_client(everything.url)
    assert (code, stderr) == (0, "") and set(offered) <= {words[0] for words in lines}
    # Those run as tasks only, which the sample does not declare.
    assert {words[0] for words in lines if words[1] == "error"} <= {
        "failing_job", "protocol_error_job", "test_tool_with_task"}


def test_the_everything_client_says_in_one_line_why_it_cannot():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
    code, lines, stderr = run_everything_client(url)
    assert (code, lines, stderr.count("\n")) == (1, [], 1)
    assert stderr.startswith("everything_client: connect: nothing listens")


# =============================================================================================
# INTEROPERABILITY
# =============================================================================================
# ---- the conformance gate: the suite's exit code forgives, so the checks files are judged

def load_script(name):
    """Return a script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, str(ROOT / ".ci" / f"{name}.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


# Stands in for the suite: for each side two scenarios, one of them unscored, and a folder for each
# one's checks. Clients are run one by one.
FAKE_SUITE = """
import json, pathlib, sys

def leave(name, status):
    folder = pathlib.Path(sys.argv[-1], f"{name}-2026-11-30T08-00-00-123Z")
    folder.mkdir(parents=True)
    (folder / "checks.json").write_text(json.dumps([
        {"id": "one", "status": status, "errorMessage": "because"}]))

if sys.argv[1] == "list":
    print("Required for x\\n\\nServer scenarios (y):\\n  - server-ping\\n\\n"
          "Client scenarios (y):\\n  - auth/basic\\n\\nRun, but never scored:\\n"
          "  pending (2):\\n    - extra [server]\\n    - auth/extra [client]")
elif sys.argv[1] == "server":
    assert sys.argv[2] == "--url" and sys.argv[3].startswith("http://127.0.0.1:")
    leave("server-server-ping", "SUCCESS")
    leave("server-extra", "EXTRA")
else:
    options = dict(zip(sys.argv, sys.argv[1:]))
    assert "everything_client.py" in options["--command"]
    name = options["--scenario"]
    leave(name, "SUCCESS" if name == "auth/basic" else "EXTRA")
"""


@pytest.mark.parametrize("side, name", [("server", "extra"), ("client", "auth/extra")])
@pytest.mark.parametrize("status, code", [("SUCCESS", 0), ("WARNING", 1), ("FAILURE", 1)])
def test_the_gate_judges_scored_and_unscored_scenarios_alike(side, name, status, code, tmp_path):
    (tmp_path / "suite.py").write_text(FAKE_SUITE.replace("EXTRA", status))
    found, output, errors = run_child(
        sys.executable, "-W", "error", str(ROOT / ".ci" / "conformance.py"), side,
        "--suite", f"'{sys.executable}' '{tmp_path / 'suite.py'}'", "--revision", "2026-07-28",
        "--output", str(tmp_path / "out"))
    assert (found, errors) == (code, "")
    assert (f"2026-07-28 {name}: {status} one: because" in output) == bool(code)
    assert output.splitlines()[-1].split() == [
        side, "2026-07-28", "1/1", "0/1" if code else "1/1"]


# ---- peers: python-sdk and FastMCP, each with a server and a client

PEERS = {"python-sdk": "sdk/bin/python", "FastMCP": "fastmcp/bin/python"}
PEERS_FOLDER = os.path.abspath(os.environ.get("MCPKIT_PEERS", "no folder"))
PEER_SECONDS = 60.0                    # no wait for a peer is longer
needs_peers = pytest.mark.skipif(
    not all(os.access(os.path.join(PEERS_FOLDER, path), os.X_OK) for path in PEERS.values()),
    reason="MCPKIT_PEERS names no folder with sdk/bin/python and fastmcp/bin/python")
each_peer = pytest.mark.parametrize("peer", PEERS)

# Each kind of character that JSON, lines, event streams or headers could stumble over.
ODD_TEXT = "Gr\u00fc\u00dfe \U0001f600 \u2028 \u0085 \r\n\t \x00 \" \\ data: {}"
ODD_NAME = "gr\u00f6\u00dfe \u4e16"
Eras = collections.namedtuple("Eras", "legacy modern")          # what is wanted in which era


def says(*words):
    """Return the content of a result that is nothing but texts."""
    return {"content": [{"type": "text", "text": part} for part in words]}


def pick(seen, wanted):
    """Return of a JSON value what a wanted one speaks of, so that comparing them tells."""
    if isinstance(seen, dict) and isinstance(wanted, dict):
        return {name: pick(seen.get(name), part) for name, part in wanted.items()}
    if isinstance(seen, list) and isinstance(wanted, list) and len(seen) == len(wanted):
        return [pick(*pair) for pair in zip(seen, wanted)]
    return seen


def check_links(wanted, found):
    """Assert that on each link, a transport and an era, what was seen is what is wanted."""
    mistakes = {}
    for link, seen in found.items():
        expected = wanted[link[1] != "legacy"] if isinstance(wanted, Eras) else wanted
        if pick(seen, expected) != expected:
            mistakes[link] = pick(seen, expected)
    assert not mistakes, mistakes


def run_child(*command):
    """Run a command to its end and return (exit code, standard output, standard error)."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PEER_SECONDS, encoding="utf-8", errors="replace")
    return done.returncode, done.stdout, done.stderr


class Peers:
    """The peers' scripts, their HTTP servers, and what came of each talk; made at first use."""

    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        for name, script in PEER_SCRIPTS.items():
            (folder / name).write_text(script, encoding="utf-8")

    def command(self, peer, script, *words):
        return [os.path.join(PEERS_FOLDER, PEERS[peer]), str(self.folder / script), *words]

    @functools.lru_cache(maxsize=None)
    def target(self, peer, transport):
        """Return the command or URL of a peer's server."""
        if transport == "stdio":
            return self.command(peer, "peer_server.py", "stdio")
        options = json.dumps(APP_OPTIONS.get(transport, transport))
        return self.stack.enter_context(run_server(*self.command(peer, "peer_server.py", options)))

    def talk_to(self, peer, mode, target, steps):
        """Return what a peer's client gets from a target, by step."""
        code, output, errors = run_child(
            *self.command(peer, "peer_client.py", json.dumps([mode, target, steps])))
        assert code == 0, errors[-3000:]
        return json.loads(output)

    @functools.lru_cache(maxsize=None)
    def talk(self, hold, peer, transport, era):
        """Return what came of a talk, by case; of one that failed, its error in each case."""
        try:
            return hold(self, peer, transport, era)
        except Exception as error:
            return collections.defaultdict(lambda reason=f"no talk: {error}": reason)


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Peers(tmp_path_factory.mktemp("interop"), stack)


# Does what it is told, in the words of the peer's own Client, and prints what came of it.
PEER_CLIENT = '''
import asyncio, json, sys
import mcp_types as types

FILLED_IN = {"item": "pen", "color": "blue", "day": "2024-02-29", "one": "b", "several": ["a"]}
ROOTS = [types.Root(uri="file:///work", name="work")]

async def on_log(params):
    facts["logs"].append([params.level, params.data])

async def on_progress(*report):
    facts["progress"].append(report)

async def on_elicit(params):
    facts["asked"].append(plain(params))
    if "decline" in params.message:
        return types.ElicitResult(action="decline")
    members = getattr(params, "requested_schema", {}).get("properties")
    return types.ElicitResult(action="accept", content=None if members is None else {
        name: FILLED_IN[name] for name in members if name in FILLED_IN})

async def on_sample(params):
    last = params.messages[-1].content
    last = last[0] if isinstance(last, list) else last
    if last.text == "refuse":
        return types.ErrorData(code=-1, message="User rejected sampling request")
    return types.CreateMessageResult(role="assistant", model="peer", content=types.TextContent(
        type="text", text="Paris"))

async def on_roots(context):
    return types.ListRootsResult(roots=ROOTS)

try:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport
    options = {"log_handler": on_log, "roots": ROOTS,
               "elicitation_handler": lambda message, kind, params, context: on_elicit(params),
               "sampling_handler": lambda messages, params, context: on_sample(params)}
    progress_name, seconds_name = "progress_handler", "timeout"
    def start(command):
        return StdioTransport(command[0], command[1:], keep_alive=False)
except ImportError:
    from mcp import Client, StdioServerParameters
    options = {"logging_callback": on_log, "log_level": "debug", "list_roots_callback": on_roots,
               "elicitation_callback": lambda context, params: on_elicit(params),
               "sampling_callback": lambda context, params: on_sample(params)}
    progress_name, seconds_name = "progress_callback", "read_timeout_seconds"
    def start(command):
        return StdioServerParameters(command=command[0], args=command[1:])

def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(
        value, "model_dump") else {}

async def take(client, method, *arguments):
    if method in facts:
        return json.loads(json.dumps(facts[method]))
    if method == "gather":
        return await asyncio.gather(*(take(client, *words) for words in arguments))
    options = {progress_name: on_progress} if method == "call_tool" else {}
    if len(arguments) > 2:
        *arguments, options[seconds_name] = arguments
    # FastMCP has the protocol's own results under the first of these names.
    names = (method + "_mcp", method, "send_" + method)
    call = next(getattr(client, name) for name in names if hasattr(client, name))
    try:
        found = page = plain(await call(*arguments, **options))
        while "nextCursor" in page:
            page = plain(await call(cursor=page["nextCursor"]))
            found["tools"] += page["tools"]
        return found
    except Exception as error:
        return {"code": getattr(error, "code", "none"), "error": str(error)}

async def talk(mode, target, steps):
    global facts
    target = target if isinstance(target, str) else start(target)
    async with Client(target, mode=mode, **options) as client:
        facts = {"version": client.protocol_version, "logs": [], "progress": [], "asked": []}
        return {case: await take(client, *words) for case, words in steps}

print(json.dumps(asyncio.run(talk(*json.loads(sys.argv[1])))))
'''

# ---- a peer's client and our server

WORKSHOP = '''
import dataclasses, datetime, enum, threading
from typing import List, TypedDict
from mcpkit import Context, Elicitation, Roots, Sampling, Server
server = Server("workshop", instructions="Work slowly.", sessions=True, page_size=3)
ended, ends = threading.Event(), []
Done = TypedDict("Done", {"done": int})
Shade = enum.Enum("Shade", {"RED": "red", "BLUE": "blue"})

@dataclasses.dataclass
class Order:
    item: str
    color: Shade = Shade.RED
    day: datetime.date = datetime.date(2024, 1, 1)

@server.tool
def work(steps: int, ctx: Context) -> Done:
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
        ctx.log("debug", "a detail")
        ctx.log("info", {"step": step})
    return {"done": steps}

@server.tool
def squares(count: int) -> List[int]:
    return [number * number for number in range(count)]

@server.tool(name="NAME", mime_type="image/png")
def picture(text: str = ""):
    return [text, b"png"]

@server.tool
def linger(ctx: Context):
    for _ in range(250):                     # of 20 ms, unless the call is cancelled
        if not ctx.cancelled:
            ended.wait(0.02)
    ends.append("cancelled" if ctx.cancelled else "undisturbed")
    ended.set()

@server.tool
def find_end():
    ended.wait(10.0)
    return ends[0]

@server.tool
def order(ctx: Context) -> dict:
    bought = ctx.elicit("What shall it be?", Order).content
    return {"order": bought, "weekday": f"{bought.day:%A}"}

@server.tool
def insist(ctx: Context) -> str:
    return ctx.elicit("Would you decline?", Order).action + ctx.elicit("Sure?").action + (
        ctx.elicit("Log in", url="https://example.com/login").action)

@server.tool
def capital(question: str, ctx: Context) -> str:
    return ctx.sample(question, max_tokens=9, system_prompt="Be brief")["content"]["text"]

@server.tool
def everything(ctx: Context) -> str:
    found = ctx.ask({"order": Elicitation("What?", Order), "city": Sampling("Where?"),
                     "folders": Roots()})
    return f"{found['order'].content.item}, {found['city']['model']}, {found['folders'][0]['name']}"

@server.tool
def haggle(ctx: Context) -> str:
    return "".join(ctx.elicit(f"Offer {round}", Order).content.item for round in range(3))

@server.resource("work://logo", mime_type="image/png")
def logo():
    return b"png"

@server.resource("work://{year}/{name}", mime_type="application/json")
def report(year: int, name: str, ctx: Context):
    return {"year": year, "name": name, "item": ctx.elicit("Which one?", Order).content.item}

@server.prompt
def plan(topic: str, steps: int = 3):
    return [{"role": "assistant", "content": "What next?"}, f"{steps} steps to {topic}"]

@server.completion("plan", "topic")
def topics(value):
    return [topic for topic in ("tea", "toast") if topic.startswith(value)]
'''.replace("NAME", ODD_NAME)

SERVED_LINKS = [(transport, mode) for transport in ("HTTP", "stdio")
                for mode in ("legacy", "auto", "2026-07-28")]

# What a peer's client gets: what is asked of our server (in this order), and the answer.
SERVED = {
    "the version that it asked for": (["version"], Eras("2025-11-25", "2026-07-28")),
    "all pages of a list": (["list_tools"], {"tools": [{"name": name} for name in (
        "work", "squares", ODD_NAME, "linger", "find_end", "order", "insist", "capital",
        "everything", "haggle")]}),
    "an answer to its ping, where there is ping": (["ping"], Eras({"code": None}, {})),
    "an error for an unknown tool": (["call_tool", "none", {}], {"code": -32602}),
    "isError for an argument of the wrong type": (["call_tool", "work", {"steps": "x"}], {
        "isError": True}),
    "the result of a call that reports": (["call_tool", "work", {"steps": 2}], {
        "structuredContent": {"done": 2}, "isError": False}),
    "its progress": (["progress"], [[1, 2, "step 1"], [2, 2, "step 2"]]),
    "its log messages of the level that is wanted": (["logs"], Eras(
        [["info", {"step": 1}], ["info", {"step": 2}]],
        [["debug", "a detail"], ["info", {"step": 1}], ["debug", "a detail"],
         ["info", {"step": 2}]])),
    "structured content that is no object, in the modern era": (
        ["call_tool", "squares", {"count": 3}], Eras(
            {**says("[0,1,4]"), "structuredContent": None},
            {**says("[0,1,4]"), "structuredContent": [0, 1, 4]})),
    "an image and any text, from a tool whose name is no ASCII": (
        ["call_tool", ODD_NAME, {"text": ODD_TEXT}], {"content": [{"text": ODD_TEXT}, {
            "type": "image", "mimeType": "image/png", "data": "cG5n"}]}),
    "the answers to eight calls at once, each its own": (
        ["gather", *(["call_tool", "work", {"steps": n}] for n in range(8))],
        [{"structuredContent": {"done": n}} for n in range(8)]),
    "the resource templates": (["list_resource_templates"], {"resourceTemplates": [
        {"uriTemplate": "work://{year}/{name}", "mimeType": "application/json"}]}),
    "the bytes of a resource": (["read_resource", "work://logo"], {
        "contents": [{"uri": "work://logo", "mimeType": "image/png", "blob": "cG5n"}]}),
    "a resource from a template, which asks": (["read_resource", "work://1999/t%C3%A9a"], {
        "contents": [{"text": '{"year":1999,"name":"t\\u00e9a","item":"pen"}'}]}),
    "an error for an unknown resource": (["read_resource", "none://"], {"code": -32602}),
    "the list of prompts": (["list_prompts"], {"prompts": [
        {"name": "plan", "arguments": [{"name": "topic", "required": True}, {"name": "steps"}]}]}),
    "a prompt, filled in": (["get_prompt", "plan", {"topic": "tea", "steps": "4"}], {
        "messages": [{"role": "assistant", "content": {"text": "What next?"}},
                     {"role": "user", "content": {"text": "4 steps to tea"}}]}),
    "an error for a prompt without its argument": (["get_prompt", "plan", {}], {"code": -32602}),
    "suggestions for an argument": ([
        "complete", {"type": "ref/prompt", "name": "plan"}, {"name": "topic", "value": "te"}], {
            "completion": {"values": ["tea"], "total": 1, "hasMore": False}}),
    "its own timeout, when it no longer waits": (["call_tool", "linger", {}, 0.5], {
        "code": -32001}),
    "the cancelling of that call": (["call_tool", "find_end", {}], says("cancelled")),
    "another log level, where it can be set": (
        ["set_logging_level", "error"], Eras({"code": None}, {})),
    "a form to fill in": (["call_tool", "order", {}], {"structuredContent": {
        "order": {"item": "pen", "color": "blue", "day": "2024-02-29"}, "weekday": "Thursday"}}),
    "forms and a page, one of them declined": (
        ["call_tool", "insist", {}], says("declineacceptaccept")),
    "a question for its model": (["call_tool", "capital", {"question": "Where?"}], says("Paris")),
    "a question that its user rejects": (["call_tool", "capital", {"question": "refuse"}], {
        "code": -1}),
    "three questions at once": (["call_tool", "everything", {}], says("pen, peer, work")),
    "questions of four calls at once, one after another": (
        ["gather", *[["call_tool", "haggle", {}]] * 4], [says("penpenpen")] * 4),
}


def hold_served_talk(peers, peer, transport, mode):
    """Have a peer's client talk to our server; return what it got in each case."""
    command = [*PROGRAM, "serve", str(peers.folder / "workshop.py")]
    with contextlib.ExitStack() as stack:
        target = [*command, "--stdio"] if transport == "stdio" else stack.enter_context(
            run_server(*command, "--port", "0"))
        return peers.talk_to(peer, mode, target, [[case, words] for case, (words, _)
                                                  in SERVED.items()])


@needs_peers
@each_peer
@pytest.mark.parametrize("case", SERVED)
def test_interop_a_peers_client_gets_from_our_server(case, peer, peers):
    found = {link: peers.talk(hold_served_talk, peer, *link)[case] for link in SERVED_LINKS}
    check_links(SERVED[case][1], found)


# Logs in where the server says, and calls what needs more than its first token allows.
PEER_LOGIN = '''
import asyncio, json, sys
from urllib.parse import parse_qsl, urlsplit
import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

class Storage:
    kept = {}
    def __getattr__(self, name):
        async def get_or_set(*value):
            self.kept.update({name[4:]: value[0]} if value else {})
            return self.kept.get(name[4:])
        return get_or_set

visits = []

async def visit(url):
    visits.append(dict(parse_qsl(urlsplit(url).query)))

async def come_back():
    return AuthorizationCodeResult(code=visits[-1]["scope"], state=visits[-1]["state"])

async def main(url, mode):
    oauth = OAuthClientProvider(
        server_url=url, storage=Storage(), redirect_handler=visit, callback_handler=come_back,
        client_metadata=OAuthClientMetadata(client_name="t", redirect_uris=["http://localhost:1/"]))
    async with httpx2.AsyncClient(auth=oauth) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            seen = [(await client.call_tool(name, {})).content[0].text
                    for name in ("whoami", "erase")]
    print(json.dumps([[[visit["scope"], visit["resource"]] for visit in visits], seen]))

asyncio.run(main(*sys.argv[1:]))
'''


@needs_peers
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_interop_a_peers_client_logs_in_where_our_metadata_says_and_steps_up(mode, peers):
    def verify(token):
        return Principal("ada", [scope.replace(".", ":") for scope in token.split("+")])

    def answer(asked):                             # an issuer whose tokens are their scopes
        if asked.path == "/register":
            return http_answer({**asked.message, "client_id": "t"}, "201 Created")
        if asked.path == "/token":
            return http_answer({"token_type": "Bearer", "access_token":
                                asked.message["code"].replace(" ", "+").replace(":", ".")})
        return http_answer({
            "issuer": issuer.origin, "authorization_endpoint": f"{issuer.origin}/authorize",
            "token_endpoint": f"{issuer.origin}/token", "response_types_supported": ["code"],
            "registration_endpoint": f"{issuer.origin}/register",
            "code_challenge_methods_supported": ["S256"]})

    with Peer(answer) as issuer:
        server = build_vault(verify, [issuer.origin], sessions=True)
        with mcpkit.HTTPService(server, port=0) as service:
            code, output, errors = run_child(
                *peers.command("python-sdk", "peer_login.py", service.url, mode))
    assert code == 0, errors[-3000:]
    assert json.loads(output) == [
        [["notes:read", service.url], ["notes:read notes:write", service.url]], ["ada", "erased"]]


# ---- our client and a peer's server

PEER_SERVER = '''
import json, socket, sys
from typing import Annotated
from pydantic import BaseModel, Field
try:
    from fastmcp import Context, FastMCP
    server = FastMCP("peer", version="9.8.7", instructions="Be kind.", list_page_size=2)
    make_app, run_options = server.http_app, {"show_banner": False}
    sse = {"make": server.http_app, "path": "/mcp", "transport": "sse"}
except ImportError:
    from mcp.server.mcpserver import Context, MCPServer
    server = MCPServer("peer", version="9.8.7", instructions="Be kind.")
    make_app, run_options = server.streamable_http_app, {}
    sse = {"make": server.sse_app, "sse_path": "/mcp"}

class Sum(BaseModel):
    total: int

@server.tool()
def add(a: int, b: int = 2) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)

@server.tool(name="NAME")
def echo(text: str) -> str:
    return text

@server.tool()
def fail(reason: str) -> str:
    raise ValueError(reason)

@server.tool()
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    await ctx.info("halfway")
    await ctx.report_progress(2, 2)
    return "done"

@server.tool()
async def ask(ctx: Context) -> str:
    try:
        answer = await ctx.elicit("How much?", Sum)
        return f"heard {answer.data.total}"
    except Exception as error:
        return f"refused: {error}"

@server.tool()
async def change(ctx: Context) -> str:
    await (ctx.notify_tools_changed() if hasattr(ctx, "notify_tools_changed") else
           ctx.session.send_tool_list_changed())
    return "changed"

@server.tool()
def find_region(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    return region

@server.resource("peer://motto", mime_type="text/plain")
def motto() -> str:
    return "Stra\u00dfe \U0001f600"

@server.resource("peer://dot", mime_type="image/png")
def dot() -> bytes:
    return b"png"

@server.resource("peer://NAME/{name}".replace(" ", ""))
def greeting(name: str) -> str:
    return f"hello {name}"

@server.prompt()
def plan(topic: str) -> str:
    return f"Plan {topic}"

if sys.argv[1] == "stdio":
    server.run("stdio", **run_options)
else:
    import uvicorn
    # Without the protocol's number asyncio would not set TCP_NODELAY: 40 ms for each stream.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"peer serves http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    options = json.loads(sys.argv[1])
    make_app = sse.pop("make") if options == "SSE" else make_app
    config = uvicorn.Config(make_app(**sse if options == "SSE" else options), log_level="warning",
                            timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
'''.replace("NAME", ODD_NAME)

PEER_SCRIPTS = {"peer_client.py": PEER_CLIENT, "peer_login.py": PEER_LOGIN,
                "peer_server.py": PEER_SERVER, "workshop.py": WORKSHOP}
APP_OPTIONS = {"HTTP": {}, "stateless HTTP": {"stateless_http": True, "json_response": True}}
ASKED_LINKS = [(transport, era) for transport in (*APP_OPTIONS, "stdio")
               for era in ("legacy", "modern", "auto")]

# What our client gets: the words that ask for it, and the answer.
ASKED_BY_PEER = {
    "the version that was asked for": (["protocol_version"], Eras("2025-11-25", "2026-07-28")),
    "the name of the server": (["server_info"], {"name": "peer", "version": "9.8.7"}),
    "all pages of a list": (["list_tools"], [
        {"name": "add", "description": "Add two numbers.", "inputSchema": {"required": ["a"]},
         "outputSchema": {"required": ["total"]}}, {"name": ODD_NAME}, {"name": "fail"},
        {"name": "work"}, {"name": "ask"}, {"name": "change"}, {"name": "find_region"}]),
    "structured content": (["call_tool", "add", {"a": 1}], {
        "structuredContent": {"total": 3}, "isError": False}),
    "isError for an argument of the wrong type": (["call_tool", "add", {"a": "x"}], {
        "isError": True}),
    "isError from a tool that fails": (["call_tool", "fail", {"reason": "so"}], {"isError": True}),
    "a long text, whatever is in it, from a tool whose name is no ASCII": (
        ["call_tool", ODD_NAME, {"text": ODD_TEXT * 5000}], says(ODD_TEXT * 5000)),
    "the result of a call with an argument that goes into a header too": (
        ["call_tool", "find_region", {"region": "eu"}], says("eu")),
    "the result of a call that reports": (["request", "tools/call", {
        "name": "work", "_meta": {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}}],
        says("done")),
    "the result of a tool that asks in vain": (["call_tool", "ask"], {"isError": False}),
    "the resource templates": (["list_resource_templates"], [{"name": "greeting"}]),
    "the text of a resource": (["read_resource", "peer://motto"], {"contents": [
        {"uri": "peer://motto", "mimeType": "text/plain", "text": "Stra\u00dfe \U0001f600"}]}),
    "the bytes of a resource": (["read_resource", "peer://dot"], {
        "contents": [{"mimeType": "image/png", "blob": "cG5n"}]}),
    "a resource from a template": (["read_resource", "peer://gr\u00f6\u00dfe\u4e16/Ann%20B"], {
        "contents": [{"text": "hello Ann B"}]}),
    "an error for an unknown resource": (["read_resource", "peer://none"], {"code": -32602}),
    "a prompt, filled in": (["get_prompt", "plan", {"topic": "tea"}], {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Plan tea"}}]}),
}


def ask_peer(client, name, *arguments):
    member = getattr(client, name)
    try:
        return member(*arguments) if callable(member) else member
    except MCPKitError as error:
        return {"code": getattr(error, "code", None), "error": str(error)}


def hold_asked_talk(peers, peer, transport, era):
    """Have our client talk to a peer's server; return what it got in each case, and was told."""
    told, exchanges = [], []
    with Client(peers.target(peer, transport), era=era, timeout=PEER_SECONDS / 3,
                discover_timeout=PEER_SECONDS / 3, observe=exchanges.append,
                on_notification=lambda *words: told.append(words)) as client:
        found = {case: ask_peer(client, *words) for case, (words, _) in ASKED_BY_PEER.items()}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sums = pool.map(lambda a: ask_peer(client, "call_tool", "add", {"a": a, "b": 0}),
                            range(24))
        session_id = client.session_id
    return {**found, "told": told, "sums": list(sums), "last": exchanges[-1], "id": session_id}


@needs_peers
@each_peer
@pytest.mark.parametrize("case", ASKED_BY_PEER)
def test_interop_our_client_gets_from_a_peers_server(case, peer, peers):
    found = {link: peers.talk(hold_asked_talk, peer, *link)[case] for link in ASKED_LINKS}
    check_links(ASKED_BY_PEER[case][1], found)


@needs_peers
@each_peer
@pytest.mark.parametrize("link", ASKED_LINKS)
def test_interop_our_client_hears_progress_asks_in_threads_and_ends_its_session(link, peer, peers):
    talk, has_session = peers.talk(hold_asked_talk, peer, *link), link == ("HTTP", "legacy")
    check_links([{"structuredContent": {"total": a}} for a in range(24)], {link: talk["sums"]})
    assert (talk["id"] is not None) == has_session
    assert ((talk["last"].method, talk["last"].status) == ("DELETE", 200)) == has_session
    if link[0] != "stateless HTTP":                  # whose answers are single JSON objects
        (first, one), (second, two), (third, three) = talk["told"]
        assert (first, second, third) == (
            "notifications/progress", "notifications/message", "notifications/progress")
        assert one == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        assert two["level"] == "info" and "halfway" in str(two["data"])
        assert three == {"progressToken": "p", "progress": 2, "total": 2}


@needs_peers
@each_peer
@pytest.mark.parametrize("era", ("modern", "auto"))
def test_interop_a_stdio_server_that_starts_slowly_is_met_in_the_modern_era(era, peer, peers):
    with Client(peers.target(peer, "stdio"), era=era, discover_timeout=0.01,
                timeout=PEER_SECONDS / 3) as client:
        assert (client.era, client.list_prompts()[0]["name"]) == ("modern", "plan")


@needs_peers
@each_peer
@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_interop_our_client_falls_back_to_the_old_transport_of_a_peers_server(era, peer, peers):
    talk = peers.talk(hold_asked_talk, peer, "SSE", era)
    report = mcpkit.probe(peers.target(peer, "SSE"), era="legacy")
    assert report["verdict"] == "pass" and find_check(report, "transport")["status"] == "note"
    assert talk["the version that was asked for"] == "2024-11-05", talk["no talk"]
    assert [tool["name"] for tool in talk["all pages of a list"]][:3] == ["add", ODD_NAME, "fail"]
    assert [json.loads(done["content"][0]["text"])["total"] for done in talk["sums"]] == [*range(24)]
    assert {method for method, _ in talk["told"]} >= {
        "notifications/progress", "notifications/message"}
    assert (talk["last"].method, talk["id"]) == ("GET", None)      # the stream, at its end


# ---- the probe, the command line, and what stands between peers

@needs_peers
@each_peer
@pytest.mark.parametrize("transport", (*APP_OPTIONS, "stdio"))
def test_interop_the_probe_finds_both_eras_of_a_peers_server_and_no_fault(transport, peer, peers):
    report = mcpkit.probe(peers.target(peer, transport), timeout=PEER_SECONDS)
    assert report["verdict"] == "pass"
    # FastMCP's server pages its list by two; the probe reads one page, and says so.
    pages = [check for check in report["checks"] if check["status"] != "ok"]
    assert {check["id"].partition("-")[2] for check in pages} <= {"pages"}
    tools = 2 if pages else 7
    eras = {name: (era["verdict"], era["protocolVersion"], len(era["tools"]), era["session"])
            for name, era in report["eras"].items()}
    assert eras == {"legacy": ("pass", "2025-11-25", tools, transport == "HTTP"),
                    "modern": ("pass", "2026-07-28", tools, False)}


# What the rules find in a peer's server, each held against the text of the specification by hand:
# it ignores cursors where there are no pages, takes pages of any origin, or reads the version of a
# request off its header alone. The name of one tool is ours.
FOUND = {"python-sdk": {"cursor-invalid", "tool-names", "version-mismatch"},
         "FastMCP": {"host", "origin", "tool-names", "version-mismatch"}}


@needs_peers
@each_peer
@pytest.mark.parametrize("transport", APP_OPTIONS)
def test_interop_the_rules_find_in_a_peers_server_what_they_should(transport, peer, peers):
    report = mcpkit.probe(peers.target(peer, transport), deep=True, timeout=PEER_SECONDS)
    found = {check["id"].partition("-")[2] for check in report["checks"]
             if check["status"] in ("fail", "warning")}
    assert found == FOUND[peer]


@needs_peers
@each_peer
@pytest.mark.parametrize("transport", ("HTTP", "stdio"))
@table("name, words, exit_code, wanted", {
    "a call": ("call", ["add", "a=40"], 0, {"structuredContent": {"total": 42}}),
    "a failure": ("call", ["fail", "reason=because"], 5, {"isError": True}),
    "an answer": ("call", ["ask", "--answer", "total=5", "--era", "legacy"], 0, says("heard 5")),
    "no answer": ("call", ["ask", "--answer", "a=b", "--era", "legacy"], 3, None)})
def test_interop_on_the_command_line_with_a_peers_server(
        name, words, exit_code, wanted, transport, peer, peers):
    target = peers.target(peer, transport)
    before, after = ([], ["--", *target]) if transport == "stdio" else ([target], [])
    code, output, errors = run_child(*PROGRAM, name, *before, *words, "--json", *after)
    assert code == exit_code, errors
    assert wanted is None or pick(json.loads(output), wanted) == wanted


@needs_peers
def test_interop_on_the_command_line_listening_to_a_peers_server(peers):
    url = peers.target("python-sdk", "HTTP")
    with subprocess.Popen([*PROGRAM, "listen", url, "--max-time", "60"],
                          stdout=subprocess.PIPE) as child, Client(url) as client:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            line = pool.submit(child.stdout.readline)
            while not line.done():
                client.call_tool("change")
                threading.Event().wait(0.05)
        child.terminate()
    assert json.loads(line.result())["method"] == "notifications/tools/list_changed"


PEER_STEPS = [
    ("version", ["version"]), ("tools", ["list_tools"]), ("sum", ["call_tool", "add", {"a": 1}]),
    ("failure", ["call_tool", "fail", {"reason": "no"}]), ("reported", ["call_tool", "work", {}]),
    ("question", ["call_tool", "ask", {}]), ("resource", ["read_resource", "peer://motto"]),
    ("nothing", ["read_resource", "peer://none"]),
    ("prompt", ["get_prompt", "plan", {"topic": "tea"}]), ("progress", ["progress"])]


@needs_peers
@each_peer
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", ["HTTP", "stdio"])
def test_interop_a_talk_of_peers_is_recorded_replays_to_the_server_and_answers_the_client(
        peer, mode, transport, peers, tmp_path):
    path = tmp_path / "tape.http"
    target = peers.target(peer, transport)
    if transport == "stdio":
        said = peers.talk_to(peer, mode, [
            *PROGRAM, "record", "--out", str(path), "--", *target], PEER_STEPS)
        ran = replay(path, "--", *target)
    else:
        with recording(target, path) as recorder:
            said = peers.talk_to(peer, mode, recorder.url, PEER_STEPS)
        ran = replay(path, target)
    assert said["sum"]["structuredContent"] == {"total": 3} and len(said["progress"]) == 2
    assert ran.code == 0, ran.out
    assert peers.talk_to(peer, mode, mock_command(str(path)), PEER_STEPS) == said
    with running("mock", str(path)) as url:
        assert peers.talk_to(peer, mode, url, PEER_STEPS) == said


# ---- the command line and the server of the protocol's own authors, for Node

NODE_SERVER = os.path.join(PEERS_FOLDER, "node_modules", "@modelcontextprotocol",
                           "server-everything", "dist", "index.js")
needs_node_server = pytest.mark.skipif(
    shutil.which("node") is None or not os.path.exists(NODE_SERVER),
    reason="MCPKIT_PEERS names no folder with server-everything, or there is no node")


@pytest.fixture(scope="module")
def node_targets():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with subprocess.Popen(["node", NODE_SERVER, "streamableHttp"], stderr=subprocess.PIPE,
                          env={**os.environ, "PORT": str(port)}) as child:
        watchdog = threading.Timer(PEER_SECONDS, child.kill)
        watchdog.start()
        while b"listening" not in child.stderr.readline():
            assert child.poll() is None, "server-everything did not start"
        watchdog.cancel()
        # Its errors are read on, or it would stop at a full pipe.
        threading.Thread(target=child.stderr.read, daemon=True).start()
        yield {"HTTP": ([f"http://127.0.0.1:{port}/mcp"], []),
               "stdio": ([], ["--", "node", NODE_SERVER, "stdio"])}
        child.kill()


@needs_node_server
@pytest.mark.parametrize("transport", ("HTTP", "stdio"))
@table("name, words, code, wanted", {
    "list": ("list", ["--prompts"], 0, ["simple-prompt", "args-prompt(city, state?)"]),
    "list with types": ("list", [], 0, ["echo(message: string)", "get-sum(a: number, b: number)"]),
    "call": ("call", ["get-sum", "a=2", "b=3.5"], 0, ["The sum of 2 and 3.5 is 5.5."]),
    "call with structured content": ("call", ["get-structured-content", "location=Chicago", "--json"],
                                     0, ['"structuredContent": {']),
    "call with an image": ("call", ["get-tiny-image"], 0, ["[image, image/png, 4,033 bytes: "]),
    "call that takes its time": ("call", ["trigger-long-running-operation", "duration=0.2", "steps=2",
                                          "--timeout", "10"], 0, ["completed"]),
    "call with a form": ("call", ["trigger-elicitation-request", "--answer", "name=Ada", "--answer",
                                  "titledSingleSelectEnum=Green Lantern"], 0,
                         ['"name": "Ada"', '"titledSingleSelectEnum": "hero-2"', '"integer": 42']),
    "call with an open form": ("call", ["trigger-elicitation-request", "--answer", "a=b"], 3,
                               ["--answer name=...   String (Your full, legal name)"]),
    "call with a page": ("call", ["trigger-url-elicitation", "url=https://example.com/", "--answer",
                                  "elicitation=accept"], 0, ['"action": "accept"']),
    "call with a model": ("call", ["trigger-sampling-request", "prompt=x", "--answer",
                                   "sampling=Paris"], 0, ['"text": "Paris"']),
    "call with roots": ("call", ["get-roots-list", "--root", "samples"], 0, ["1. samples"]),
    "read": ("read", ["demo://resource/dynamic/blob/1"], 0, ["[demo://resource/dynamic/blob/1, "]),
    "prompt": ("prompt", ["args-prompt", "city=Paris"], 0, ["user: What's weather in Paris?"]),
    "complete": ("complete", ["prompt", "completable-prompt", "name", "A", "department=Engineering"],
                 0, ["Alice"]),
    "complete a template": ("complete", ["resource", "demo://resource/dynamic/text/{resourceId}",
                                         "resourceId", "7"], 0, ["7"]),
    "listen": ("listen", ["--uri", "demo://resource/dynamic/text/1", "--max-time", "2"], 4, []),
    "send": ("send", ["ping"], 0, ["{}"]),
    "probe": ("probe", ["--timeout", "30"], 0, ["2025-11-25 (legacy)", "verdict: pass"]),
})
def test_interop_on_the_command_line_with_server_everything(node_targets, name, words, code, wanted,
                                                            transport):
    before, after = node_targets[transport]
    found, output, errors = run_child(*PROGRAM, name, *before, *words, *after)
    assert found == code, errors
    assert [part for part in wanted if part not in output + errors] == []


# ---- scale: three instances behind the proxies of samples/, which `make scale` brings

needs_proxies = pytest.mark.skipif(
    not os.environ.get("MCPKIT_PROXIES"), reason="MCPKIT_PROXIES is not set: `make scale` does so")
SCALED_SERVER = """
import os
from mcpkit import Context, Server
server = Server("scaled", title=os.environ["INSTANCE"])

@server.tool
def who() -> str:
    return f"{os.environ['INSTANCE']} {os.getpid()}"

@server.tool
def ask_name(ctx: Context) -> str:
    return ctx.elicit("Your name?", {"type": "object", "properties": {}}).action
"""


def start_proxy(name, folder, ports):
    """Start a proxy with its sample, in which only ports are others; return the process."""
    sample = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
    config = re.sub(r"\b80[08]\d\b", lambda port: str(ports[port.group()]),
                    (ROOT / "samples" / sample).read_text())
    (folder / sample).write_text(config)
    program = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    words = {"haproxy": ["-db", "-f", folder / sample], "nginx": [
        "-c", folder / sample, "-g", f"daemon off; pid {folder}/pid; error_log stderr crit;"
        + " user www-data;" * (os.getuid() == 0)]}
    return subprocess.Popen([program, *map(str, words[name])])


class Fleet:
    """Three instances on sockets that outlive them, and a proxy before them."""

    def __init__(self, proxy, folder, stack):
        self._folder, self._children = folder, {}
        (folder / "scaled.py").write_text(SCALED_SERVER)
        stack.callback(self.close)
        self._listeners = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                           for name in "123"}
        for name in self._listeners:
            self.start(name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.proxy = start_proxy(proxy, folder, {"8080": port, **{
            f"800{name}": listener.getsockname()[1]
            for name, listener in self._listeners.items()}})
        self.front = Far(f"http://127.0.0.1:{port}")
        assert wait_until(lambda: not self.front.is_gone())

    def start(self, name):
        """Start an instance as systemd would, and return what its tool `who` says."""
        command, options = start_with_socket(
            self._listeners[name], *MODULE, "serve", "scaled.py", "--sessions", "--instance", name)
        environment = {**os.environ, "INSTANCE": name, "MCPKIT_SECRET": "the same for all of them"}
        child = subprocess.Popen([sys.executable, *map(str, command)], cwd=self._folder,
                                 stdout=subprocess.PIPE, env=environment, **options)
        self._children[name] = child
        assert b"scaled serves" in child.stdout.readline()
        return f"{name} {child.pid}"

    def stop(self, name):
        """Have an instance end, which it does well."""
        child = self._children.pop(name)
        child.terminate()
        child.communicate(timeout=WAIT)
        assert child.returncode == 0

    def lose(self, name):
        """Have an instance end, and nobody listen in its place."""
        self.stop(name)
        self._listeners[name].close()

    def close(self):
        self.proxy.terminate()
        self.proxy.wait(WAIT)
        for name in list(self._children):
            self.stop(name)


@pytest.fixture(params=["nginx", "haproxy"])
def fleet(request, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Fleet(request.param, tmp_path, stack)


@needs_proxies
def test_scale_modern_traffic_is_spread_over_all_instances(fleet):
    served = collections.Counter(fleet.front.find("who")[0] for _ in range(30))
    assert sorted(served) == ["1", "2", "3"] and min(served.values()) >= 5


@needs_proxies
def test_scale_a_session_stays_with_the_instance_that_made_it(fleet):
    ids = [open_session(fleet.front) for _ in range(9)]
    assert {session_id[:2] for session_id in ids} == {"1.", "2.", "3."}
    for session_id in ids * 3:
        reply = ask(fleet.front, tool_call("who"), Mcp_Session_Id=session_id)
        assert reply.json["result"]["content"][0]["text"][0] == session_id[0]


@needs_proxies
def test_scale_the_sessions_of_an_instance_that_is_lost_are_404_and_begin_anew(fleet):
    with Client(fleet.front.url + "/mcp", era="legacy") as client:
        first = client.call_tool("who")["content"][0]["text"][0]
        session_id = next(session_id for session_id in iter(lambda: open_session(fleet.front), None)
                          if session_id[0] == first)
        fleet.lose(first)
        assert ask(fleet.front, call("ping"), Mcp_Session_Id=session_id).status == 404
        assert client.call_tool("who")["content"][0]["text"][0] != first


@needs_proxies
def test_scale_a_question_that_one_instance_asks_is_answered_at_another(fleet):
    assert wait_until(fleet.front.answers_elsewhere)


@needs_proxies
def test_scale_events_pass_a_proxy_while_their_stream_is_open(fleet):
    with listen(fleet.front, {"toolsListChanged": True}) as stream:
        assert stream.next_message()["method"] == "notifications/subscriptions/acknowledged"
    with LiveStream(fleet.front, Mcp_Session_Id=open_session(fleet.front)) as stream:
        assert stream.response.status == 200


@needs_proxies
def test_scale_a_rolling_restart_under_load_fails_no_modern_request(fleet):
    enough, answers = threading.Event(), []

    def load():
        while not enough.is_set():
            answers.append(fleet.front.find("who"))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load) for _ in range(4)]
        try:
            for name in "123":
                fleet.stop(name)
                fresh = fleet.start(name)
                assert wait_until(lambda: fresh in answers or any(map(lambda l: l.done(), loads)))
        finally:
            enough.set()
        assert [load.result(WAIT) for load in loads] == [None] * 4
    assert len(set(answers)) > 3


# =============================================================================================
# TRUST
# =============================================================================================
# What no one section can promise: that hostile bytes meet no internal error, that each limit binds
# on each path, that nobody gets in who may not, and that what is promised has its test.

def find_tests():
    """Return the tests of this file by name, each with the names of its cases."""
    def list_cases(test):
        given = [mark.kwargs.get("ids") for mark in getattr(test, "pytestmark", ())]
        return [str(case) for cases in given if isinstance(cases, list) for case in cases]

    return {name: " ".join([name, *list_cases(test)]) for name, test in globals().items()
            if name.startswith("test_")}


# ---- the field reports: cases that users met; a test names each

FIELD_REPORTS = """
    C01 C03 C05 C06 C07 C08 C09 C11 C12 C14 C15 C20 C21 C23 C24 C26 C27 C28 C29 C31 C32 C34 C36
    C38 C40 C41 C43 C44 C45 C47 C49 C51 C53 C54 C55 C56 C59 C60 C62 C63 C65 C67 C68 C69 C72 C73
    C75 C76 C77 C79 C80 C81 C83 C84 C86 C87 C90 C91 C92 C94 C95 C96 C98 C100 C101 C102 C103 C105
    C106 C107 C109 C110 C112 C113 C115 C117 C118 C120 C121 C122 C123 C125
"""


@pytest.mark.parametrize("report", FIELD_REPORTS.split())
def test_each_field_report_is_held_by_a_test_that_names_it(report):
    names = " ".join(find_tests().values()).replace("_", " ")
    assert re.search(rf"\b{report}\b", names, re.IGNORECASE) or f"# {report}" in TESTS


# ---- fuzzing: targets that take any bytes; `make fuzz` gives them to a coverage-guided fuzzer

class Draw:
    """Choices made of bytes: the same bytes make the same; where they end, the first is chosen."""

    def __init__(self, data):
        self._bytes = iter(data)

    def below(self, count):
        return next(self._bytes, 0) % count

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def value(self, names=("a", "b", ""), depth=3):
        """Return a JSON value."""
        kind = self.below(8 if depth else 6)
        if kind == 6:
            return [self.value(names, depth - 1) for _ in range(self.below(4))]
        if kind == 7:
            return self.members(names, depth)
        return [None, True, self.pick([0, 1, -1, 1.5, 2 ** 53, 10 ** 30, 1e300]), False,
                self.pick(DRAWN_TEXTS), self.pick(names)][kind]

    def members(self, names, depth=3):
        """Return a JSON object."""
        return {self.pick(names): self.value(names, depth - 1) for _ in range(self.below(7))}


DRAWN_TEXTS = ["", "a", "pong", "a\r\nX-Evil: 1", "\x1b[2J", "\u2028", "\ud800", "0-0", "\u4e16",
               "../x", "http://h/", "2026-07-28", "2025-11-25", "string", "object", "=?base64?!?=",
               "x" * 300]


def read_in_ways(read, data):
    """Return what reading bytes comes to: whole, byte by byte, and cut in two."""
    place = len(data) * 5 // 8
    return [read(pieces) for pieces in (
        [data], [data[at:at + 1] for at in range(len(data))], [data[:place], data[place:]])]


@functools.lru_cache(maxsize=None)
def start_fuzzed_service():
    return mcpkit.HTTPService(mcpkit.build_pong_server(), port=0, path="/mcp").__enter__()


def fuzz_json(data):
    data = data.replace(b"\n", b" ")
    value = find_error(lambda: json.loads(data.decode("utf-8"), parse_constant=int))
    for answer in run_stdio(build_fuzzed_server()[0], data + b"\n"):
        error = answer.get("error", {})
        assert error.get("code") in (-32700, -32600, -32601, -32602, None)
        is_odd = isinstance(value, ValueError) or isinstance(
            find_error(functools.partial(json.dumps, allow_nan=False), value), ValueError)
        assert error.get("code") != -32700 or is_odd or "deeper" in error["message"]


FUZZED_STATUS = {200, 202, 204, 400, 401, 403, 404, 405, 406, 411, 413, 415, 417, 421, 431, 501, 505}


def fuzz_requests(data):
    def read(pieces):
        cuts = list(itertools.accumulate(map(len, pieces)))[:-1]
        return [reply.status for reply in
                split_answers(send_raw(start_fuzzed_service(), data, cuts))]
    whole, *others = read_in_ways(read, data)
    assert FUZZED_STATUS >= {*whole}
    assert all(other == whole or other[-1] >= 400 for other in others)


def fuzz_headers(data):
    text = data.decode("utf-8", "replace").replace("\r", " ").replace("\n", " ")
    lines = [f"{name}: {text}".encode().decode("latin-1") for name in (
        "Origin", "Accept", "Mcp-Name", "Authorization", "MCP-Protocol-Version")]
    for line in lines:
        reply, = split_answers(send_raw(start_fuzzed_service(), make_raw(PING, line)))
        assert reply.status in FUZZED_STATUS


def fuzz_answers(data):
    def read(pieces):
        with Peer(lambda asked: [*pieces, CLOSE]) as peer:
            return type(find_error(Client(peer.url, era="legacy", timeout=WAIT).connect))

    assert read([data]) == read([data[at:at + 1] for at in range(len(data))])


def fuzz_stream(data):
    def read(pieces):
        parser = SSEParser()
        events = [event for piece in [*pieces, b""] for event in parser.feed(piece)]
        return events, parser.retry, parser.last_event_id

    assert all(found == interpret_stream(data) for found in read_in_ways(read, data))


SCHEMA_WORDS = (
    "$defs $id $anchor $ref $dynamicRef $schema a additionalProperties allOf anyOf const contains "
    "definitions dependentRequired dependentSchemas else enum exclusiveMaximum format if items "
    "maxItems maxLength minContains minimum multipleOf not oneOf pattern patternProperties "
    "prefixItems properties propertyNames required then type unevaluatedItems "
    "unevaluatedProperties uniqueItems").split()
SCHEMA_TEXTS = ["string", "integer", "object", "array", "null", "#", "#/$defs/a", "#a", "a*b", "(",
                "a"]


def draw_schema(draw, depth=3):
    """Return something like a schema."""
    schema = {}
    for _ in range(draw.below(4)):
        kind = draw.below(6) if depth else 5
        schema[draw.pick(SCHEMA_WORDS)] = (
            draw_schema(draw, depth - 1) if kind < 2 else
            {draw.pick(["a", "b", "^a"]): draw_schema(draw, depth - 1)} if kind == 2 else
            [draw_schema(draw, depth - 1) for _ in range(draw.below(3))] if kind == 3 else
            draw.pick(SCHEMA_TEXTS) if kind == 4 else draw.value(depth=1))
    return schema


def fuzz_schema(data):
    draw = Draw(data)
    schema, value = draw_schema(draw), draw.value()
    errors = find_error(mcpkit.schema_errors, value, schema)
    assert isinstance(errors, mcpkit.SchemaError) or len(errors) <= 20


PARAM_NAMES = ["name", "arguments", "_meta", "uri", "cursor", "ref", "argument", "value", "type",
               "level", "protocolVersion", "capabilities", "clientInfo", "taskId", "inputResponses",
               "a", "b", "requestState", "notifications", "resourceSubscriptions", "progressToken",
               "context", "requestId", *META]
PARAM_VALUES = {
    "name": ["greet", "folders", "order", "everything", "nothing"], "uri": ["asking://profile"],
    "level": ["debug", "x"], "protocolVersion": ["2025-11-25"], "arguments": [{}],
    "ref": [{"type": "ref/prompt", "name": "greet"}], "argument": [{"name": "name", "value": "A"}],
    "inputResponses": [{"user_name": {"action": "accept", "content": {"name": "Ada"}}}],
    "_meta": [{**META, "io.modelcontextprotocol/clientCapabilities": CAN_ANSWER}, META]}


@functools.lru_cache(maxsize=None)
def build_fuzzed_server():
    """Return a server that asks too, whose log nobody reads, and a session of its."""
    server = build_asking_server(ask_seconds=0, runtime=mcpkit.system_runtime()._replace(
        log=str, log_exception=str))
    return server, server.sessions.create("2025-11-25", {}, CAN_ANSWER)


def fuzz_messages(data):
    draw = Draw(data)
    params = draw.members(PARAM_NAMES)
    for name in [name for name in PARAM_VALUES if draw.below(2)]:
        params[name] = draw.pick(PARAM_VALUES[name])
    method = draw.pick([*mcpkit.METHODS, "notifications/cancelled", "x"])
    message = call(method, draw.value(PARAM_NAMES) if draw.below(9) == 8 else params)
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method,
               "mcp-name": str(params.get("name"))} if draw.below(2) else None
    server, session = build_fuzzed_server()
    message = draw.value(PARAM_NAMES) if draw.below(9) == 8 else message
    answer = server.receive(message, headers, draw.pick([None, session]), mcpkit.Channel())
    assert b'"Internal error"' not in answer.data, message


def fuzz_transcripts(data):
    found = find_error(mcpkit.parse_transcript, data.decode("utf-8", "replace"))
    assert isinstance(found, (list, UsageError))
    if isinstance(found, list) and found:
        text = mcpkit.format_transcript(found)
        assert mcpkit.format_transcript(mcpkit.parse_transcript(text)) == text


HEAD_PIECES = [make_raw(PING), make_coded(ONE_CHUNK + b"0\r\n\r\n"), b"POST /mcp HTTP/1.1\r\n",
               b"\r\n", b"Host: 127.0.0.1\r\n", b"Content-Length: 4\r\n",
               b"Transfer-Encoding: chunked\r\n", b"\n", b"Content-Type: application/json\r\n",
               b"\r", b" ", b":", b"4\r\nabcd\r\n", b"0\r\n\r\n", b"\0", b"\xff", b"X: y\r\n",
               b"abcd"]
JSON_PIECES = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"1", b"-", b"e9", b"null", b'"id":1,',
               b"\\u", b'"jsonrpc":"2.0"', b',"method":"a"', b"\xe4\xb8\x96", b"\xff", b'"a":',
               b" ", b"\\", b"NaN"]
# By target: what makes its bytes, of which `make test` tries so many.
FUZZ_TARGETS = {
    "json": (fuzz_json, 1500, JSON_PIECES), "requests": (fuzz_requests, 200, HEAD_PIECES),
    "answers": (fuzz_answers, 200, [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 2\r\n", b"\r\n", b"\n",
        b"2\r\nab\r\n", b"0\r\n\r\n", b"X: y\r\n", b" ", b"HTTP/1.1 100 Continue\r\n\r\n", b"\0",
        b"ab", b"Connection: close\r\n", b"Content-Encoding: gzip\r\n"]),
    "stream": (fuzz_stream, 800, [
        b"data", b"event", b"id", b"retry", b":", b": ", b"\n", b"\r", b"\r\n", b"7", b"data: a\n",
        b"\0", b"\xe4\xb8\x96", b"\xe2\x80", b"\xef\xbb\xbf", b"\xff", b"\n\n"]),
    "headers": (fuzz_headers, 60, [
        b"http", b"://", b"localhost", b"127.0.0.1", b"[::1]", b":", b"80", b"/", b"@",
        b"=?base64?", b"?=", b"eA==", b",", b";", b"q=0", b'"', b"\\", b"<", b">", b"2026-07-28",
        b"Bearer", b"\x1b", b" "]),
    "schema": (fuzz_schema, 2000, [bytes([byte]) for byte in range(256)]),
    "messages": (fuzz_messages, 3000, [bytes([byte]) for byte in range(256)]),
    "transcripts": (fuzz_transcripts, 1500, [
        b"### 1 ", "\xb7 title\n".encode(), b"### ", b"# a remark\n", b"\n", b"\r\n", b"\n\n", b"data: ",
        b"POST /mcp HTTP/1.1\n", b"GET /\n", b"HTTP/1.1 200 OK\n", b"HTTP/1.1 ", b"X: y\n", b"> ",
        b"< ", b'{"id":1}', b'"', b"<session-1>", b"Mcp-Session-Id: abcdefg\n", b"\xff", b"\\x00",
        b"Content-Type: text/event-stream\n", b"Content-Type: application/json\n", b"Host: h\n"]),
}

# What a fuzzer has found, and is right now: (target, bytes). `make fuzz` adds rows.
FINDINGS = {
    "UTF-32": ("json", b"1\0\0\0"),
    "a number out of range": ("json", b"1e311"),
    "a stream of nothing": ("stream", b""),
    "a carriage return for a message": ("transcripts", b"> \r"),
    "white space around JSON on stdio": ("transcripts", b"> 1\r \n> \t2"),
    "a remark on a message of nothing": ("transcripts", b"# broken off: x\n> "),
    "an escaped carriage return for a message": ("transcripts", b"> \\\\x0d"),
    "a host that cannot be seen": ("transcripts", b"GET \0#/\n"),
    "a status of two digits": ("transcripts", b"GET /\n\nHTTP/1.1 052 x"),
    "a host with a path": ("transcripts", b"GET /x\nHost: a/b c\n"),
    "a query without a path": ("transcripts", b"GET http://a?b=c\n"),
    "carriage returns at the end of a line": ("transcripts", b"GET /\n\nX\r\r\r\nY"),
}


@pytest.mark.parametrize("name", FUZZ_TARGETS)
def test_random_bytes_never_meet_an_internal_error(name):
    target, count, pieces = FUZZ_TARGETS[name]
    for data in build_garbage(len(name), pieces, count, 80 if len(pieces) == 256 else 12):
        target(data)


@cases(FINDINGS)
def test_what_a_fuzzer_found_is_right_now(case):
    name, data = case
    FUZZ_TARGETS[name][0](data)


def test_the_fuzzer_knows_each_target_and_makes_a_case_of_what_it_finds(tmp_path, monkeypatch):
    fuzzer = load_script("fuzz")
    assert fuzzer.list_targets() == list(FUZZ_TARGETS)
    monkeypatch.setattr(fuzzer, "TESTS", tmp_path / "tests.py")
    fuzzer.TESTS.write_text("\nFINDINGS = {\n}\n")
    for _ in range(2):
        fuzzer.keep("json", b"\xff'")
    kept = {}
    exec(fuzzer.TESTS.read_text(), kept)
    assert list(kept["FINDINGS"].values()) == [("json", b"\xff'")]


def test_each_mutant_breaks_one_place_of_the_file_and_names_a_test_that_there_is():
    mutants = load_script("mutants")
    assert mutants.find_faults(SOURCE) == []
    unknown = {mutant.test for mutant in mutants.MUTANTS.values()
               if f"test_{mutant.test}" not in globals()}
    assert unknown == set() and len(mutants.MUTANTS) >= 40


# ---- a second opinion on schemas, where there is one: `make differential` brings it

def draw_plain_schema(draw, depth=3):
    """Return a schema that breaks no rule, and means the same to every reader of the draft."""
    def inner():
        return draw_plain_schema(draw, depth - 1)

    names, number = ["a", "b", "ab"], draw.pick([0, 1, 2, 3])
    makers = {
        "type": lambda: draw.pick(["string", "integer", "number", "object", "array", "null",
                                   "boolean",
                                   ["null", "integer"]]),
        "const": lambda: draw.value(depth=1), "enum": lambda: [draw.value(depth=1),
            draw.value(depth=2)],
        "minimum": lambda: number, "exclusiveMaximum": lambda: number,
        "multipleOf": lambda: number + 1,
        "minLength": lambda: number, "maxLength": lambda: number,
        "pattern": lambda: draw.pick(["^a", "b$"]),
        "minItems": lambda: number, "maxItems": lambda: number, "uniqueItems": lambda: bool(number),
        "minProperties": lambda: number, "maxProperties": lambda: number,
        "required": lambda: names[:draw.below(3)], "dependentRequired": lambda: {"a": ["b"]},
        "properties": lambda: {name: inner() for name in names[:2]},
        "patternProperties": lambda: {"^a": inner()},
        "additionalProperties": inner, "propertyNames": inner, "items": inner, "contains": inner,
        "minContains": lambda: number, "maxContains": lambda: number,
        "prefixItems": lambda: [inner(), inner()],
        "allOf": lambda: [inner(), inner()], "anyOf": lambda: [inner(), inner()], "not": inner,
        "oneOf": lambda: [inner(), inner()], "if": inner, "then": inner, "else": inner,
        "dependentSchemas": lambda: {"b": inner()}, "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
        "$ref": lambda: draw.pick(["#/$defs/a", "#/$defs/b"]),
    }
    if not depth:
        return draw.pick([True, False, {"type": "string"}, {"minimum": 1}])
    words = [draw.pick(list(makers)) for _ in range(draw.below(4))]
    return {word: makers[word]() for word in words}


def test_differential_our_verdict_on_a_value_is_that_of_jsonschema():
    jsonschema = pytest.importorskip("jsonschema")
    choose, verdicts = random.Random(1), collections.Counter()
    for _ in range(4000):
        draw = Draw(choose.getrandbits(8) for _ in itertools.count())
        schema = {**draw_plain_schema(draw), "$defs": {"a": draw_plain_schema(draw, 1),
                                                       "b": {"type": "null"}}}
        if "#/$defs/a" in json.dumps(schema["$defs"]):
            continue                             # it would never end
        validator = jsonschema.Draft202012Validator(schema)
        for value in (draw.value(["a", "b", "ab"], 2) for _ in range(8)):
            if "multipleOf" in json.dumps(schema) and "1e+300" in json.dumps(value):
                continue                         # jsonschema divides as floats do, we as decimals
            is_valid = mcpkit.schema_errors(value, schema) == []
            assert is_valid == validator.is_valid(value), (schema, value)
            verdicts[is_valid] += 1
    assert min(verdicts.values()) > 5000


# ---- limits: each binds on each path, and says by a status of its own that it does

def nest_message(depth):
    """Return the bytes of a ping so many levels deep."""
    return json.dumps({**call("ping"), "params": {"a": build_nested(depth - 2)}}).encode()


OK_LINE = b"HTTP/1.1 200 OK\r\n"
CHUNKED_ZEROS = b"8\r\n[0,0,0,0\r\n" * 20
BOUND = {"max_head": 400, "max_headers": 9, "max_body": 200, "max_depth": 5}
# What goes over one of the limits in BOUND, and the status that it meets.
OVER_HTTP = {
    "max_head: one header": (make_raw(PING, "X: " + "a" * 400), 431),
    "max_head: a target": (make_raw(PING, target="/" + "a" * 400), 431),
    "max_head: no end": (b"POST /mcp HTTP/1.1\r\nX: " + b"a" * 400, 431),
    "max_head: no line end": (b"P" * 401, 431),
    "max_head: of a document": (
        make_raw(b"", "X: " + "a" * 400, target="/healthz", method="GET"), 431),
    "max_headers: of a request": (make_raw(PING, *["X: y"] * 9), 431),
    "max_headers: as trailers": (
        make_coded(ONE_CHUNK + b"0\r\n" + b"X: y\r\n" * 10 + b"\r\n"), 400),
    "max_body: by its length": (make_raw(b" " * 201), 413),
    "max_body: before it comes": (make_lengthy(201, b""), 413),
    "max_body: before 100": (
        make_raw(b"", "Content-Length: 201", "Expect: 100-continue", length=False), 413),
    "max_body: one chunk": (make_coded(b"c9\r\n"), 413),
    "max_body: many chunks": (make_coded(CHUNKED_ZEROS * 2), 413),
    "max_body: compressed": (make_raw(gzip.compress(b" " * 9999), "Content-Encoding: gzip"), 415),
    "max_body: a coding that is compressed": (
        make_coded(gzip.compress(b" " * 9999), coding="gzip, chunked"), 501),
    "max_depth: a message": (make_raw(nest_message(6)), 400),
    "max_depth: a batch": (make_raw(b"[" + nest_message(5) + b"]"), 400),
    "max_depth: only brackets": (make_raw(b"[" * 200), 400),
    "max_depth: only braces": (make_raw(b'{"":' * 50), 400),
}


@cases(OVER_HTTP)
def test_a_limit_binds_on_each_path_over_http_and_nobody_else_is_disturbed(case):
    data, status = case
    with mcpkit.HTTPService(Server("x", **BOUND), port=0) as service:
        with socket.create_connection(service.server_address, timeout=WAIT) as other:
            assert send_raw(service, data).startswith(b"HTTP/1.1 %d " % status)
            other.sendall(make_raw(nest_message(5)))
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")


OVER_STDIO = {
    "max_body: a line": (b" " * 201, -32600), "max_body: a long line": (b"x" * 99_999, -32600),
    "max_depth: a message": (nest_message(6), -32700), "max_depth: brackets": (b"[" * 199, -32700),
}


@cases(OVER_STDIO)
def test_a_limit_binds_on_stdio_and_the_next_line_is_read(case):
    line, code = case
    answers = run_stdio(Server("x", **BOUND), line + b"\n" + nest_message(5) + b"\n")
    assert [answer.get("error", {}).get("code") for answer in answers] == [code, None]


def test_a_line_without_end_on_stdio_is_read_over_and_answered_once():
    answers = run_stdio(Server("x", **BOUND), b"x" * 1_000_000)
    assert [answer["error"]["code"] for answer in answers] == [-32600]


def test_calls_on_stdio_are_bounded_and_what_is_no_call_is_still_answered():
    server, started, release, _ = build_waiting_server()
    server.limits = server.limits.replace(max_connections=2)
    client = StdioClient(server)
    for request_id in range(3):
        client.send(call("tools/call", {"name": "wait"}, request_id))
    refused = client.receive()
    client.send(call("ping", None, 9))
    assert client.receive() == {"jsonrpc": "2.0", "id": 9, "result": {}}
    release.set()
    assert sorted(answer["id"] for answer in client.close()) == [0, 1]
    assert refused["id"] == 2 and "2 run here already" in refused["error"]["message"]


def test_subscriptions_are_bounded_in_both_eras_and_on_stdio():
    server = build_sample_server(sessions=True, max_subscriptions=2)
    uris = [f"sample://item/{number}" for number in range(3)]
    with mcpkit.HTTPService(server, port=0) as service:
        session = {"Mcp_Session_Id": open_session(service)}
        legacy = [ask(service, call("resources/subscribe", {"uri": uri}), **session).json
                  for uri in uris]
        modern = [ask_modern(service, "subscriptions/listen", {"notifications": {name: uris}})
                  for name in ("resourceSubscriptions", "taskIds")]
    lines = [call("initialize", {"protocolVersion": "2025-06-18"}),
             *(call("resources/subscribe", {"uri": uri}) for uri in uris)]
    stdio = run_stdio(server, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert ["error" in answer for answer in legacy + stdio[1:]] == [False, False, True] * 2
    assert [answer.status for answer in modern] == [400, 400]


# What a rogue server answers to a request, and what its client says, whose answers are bounded.
OVER_CLIENT = {
    "max_bytes: by its length": (
        lambda asked: http_answer(b" " * 20_001), "larger than 20,000 bytes"),
    "max_bytes: chunks": (
        lambda asked: [OK_LINE + b"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n",
                       *[b"64\r\n" + b" " * 100 + b"\r\n"] * 300], "larger than 20,000 bytes"),
    "max_bytes: until it ends": (
        lambda asked: [OK_LINE + b"Content-Type: application/json\r\n\r\n", *[b" " * 1000] * 30],
        "larger than 20,000 bytes"),
    "max_bytes: an event": (
        lambda asked: stream_answer(b"data: ", *[b"x" * 1000] * 30), "than 20,000 bytes"),
    "max_bytes: a comment": (
        lambda asked: stream_answer(b":", *[b"x" * 1000] * 30), "than 20,000 bytes"),
    "max_bytes: of an error": (
        lambda asked: http_answer(b"<p>" * 9000, "500 No", "text/html"), "HTTP 500|20,000"),
    "MAX_ANSWER_DEPTH": (
        lambda asked: http_answer(result(asked, {"a": build_nested(500)})), "deeper than 400"),
    "MAX_NUMBER_DIGITS": (
        lambda asked: http_answer(b'{"jsonrpc":"2.0","id":1,"result":' + b"1" * 5000 + b"}"),
        "a number of 5000 digits"),
    "ANSWER_HEAD_BYTES": (
        lambda asked: [OK_LINE, *[b"X: " + b"y" * 8000 + b"\r\n"] * 40],
        "the head of its answer does not end"),
    "MAX_REDIRECTS": (
        lambda asked: redirect("307 There", f"{asked.path}x"), "more than 5 redirects"),
}


@table("answer, words", OVER_CLIENT)
def test_a_limit_binds_on_each_answer_that_a_client_gets(answer, words):
    with Peer(lambda asked: legacy_peer(asked, x_y=answer)) as peer:
        with Client(peer.url, era="legacy", timeout=WAIT, max_bytes=20_000) as client:
            with pytest.raises(MCPKitError, match=words):
                client.request("x/y")


@table("answer, words", OVER_CLIENT)
def test_no_limit_that_a_server_breaks_keeps_the_probe_from_its_verdict(answer, words):
    with Peer(answer) as peer:
        report = mcpkit.probe(peer.url, max_bytes=20_000, deep=True, timeout=5)
    assert report["verdict"] in ("fail", "unreachable") and report["headline"]["message"]


FLOODS = {"a line without end": "while True: sys.stdout.write('x' * 9999)",
          "lines that are none": "while True: print('x' * 99)",
          "an answer too long": "print('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":' + '1' * 99999)"}


@cases(FLOODS)
def test_a_child_that_floods_its_output_ends_in_an_error(case):
    command = [sys.executable, "-c",
               f"import sys, time\nsys.stdin.readline()\n{case}\ntime.sleep(60)"]
    with pytest.raises(MCPKitError) as caught:
        Client(command, era="legacy", timeout=0.5, max_time=0.5, max_bytes=20_000).connect()
    assert len(str(caught.value)) < 2000


ASKING_CHILD = """
import json, sys
def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
for method in ("initialize", "notifications/initialized", "tools/list"):
    request = json.loads(sys.stdin.readline())
    if method == "initialize":
        send(id=request["id"], result={"protocolVersion": "2025-11-25", "capabilities": {}})
for number in range(5000):
    send(id=f"ask-{number}", method=sys.argv[1])
send(id=request["id"], result={"tools": []})
"""


def test_a_child_that_asks_and_does_not_listen_keeps_nobody_waiting():
    with Client([sys.executable, "-c", ASKING_CHILD, "ping"], era="legacy", timeout=WAIT,
                max_time=WAIT) as client:
        assert client.list_tools() == []


def test_a_child_that_asks_without_end_has_few_questions_answered_at_a_time(monkeypatch):
    monkeypatch.setattr(mcpkit, "MAX_QUESTIONS", 7)
    released, asked = threading.Event(), []

    def think():
        asked.append(1)
        released.wait(WAIT)
        return []

    with Client([sys.executable, "-c", ASKING_CHILD, "roots/list"], era="legacy", timeout=WAIT,
                on_roots=think) as client:
        assert client.list_tools() == []           # which comes when all has been asked
        assert wait_until(lambda: len(asked) == 7)
        released.set()


def test_each_limit_is_an_option_that_help_names_with_its_meaning():
    shown = " ".join(run("serve", "--help").out.split())
    for name, (_, meaning) in mcpkit.LIMITS.items():
        assert "--" + name.replace("_", "-") in shown and meaning in shown


# ---- who gets in: the rules as a table, and the ways around them

HOSTS = {
    True: ["127.0.0.1", "localhost:1", "[::1]", "mcp.example", "MCP.EXAMPLE:443"],
    False: ["evil.example", "127.0.0.1.evil.example", "mcp.example.evil.example", "localhost.",
            "evil.example:127", "169.254.169.254", "0.0.0.0"]}
ORIGIN_RULES = {
    True: [None, "http://localhost:5173", "https://app.example", "HTTPS://APP.EXAMPLE"],
    False: ["null", "", "http://evil.example", "https://app.example.evil.example", "file://",
            "http://app.example", "https://app.example:8443", "http://localhost/../evil",
            "https://app.example, https://evil.example", "http://127.0.0.1@evil.example",
            "chrome-extension://localhost"]}
TOKENS = {None: None, "reader": {"read"}, "writer": {"read", "write"}, "admin": {"read", "write"},
          "nobody": set(), "late": None, "abroad": None, "x": None}
NEEDED = {"look": {"read"}, "erase": {"read", "write"}}


def expect_status(host, page, token, tool):
    """Say what a request must meet: the rules in a few words, apart from those who keep them."""
    if host in HOSTS[False]:
        return 421
    if page in ORIGIN_RULES[False]:
        return 403
    if TOKENS[token] is None:
        return 401
    return 200 if NEEDED[tool] <= TOKENS[token] else 403


@pytest.fixture(scope="module")
def gate():
    """A vault on loopback that has a name, and a page that may call it."""
    with mcpkit.HTTPService(build_vault(sessions=True), port=0, allow_hosts=["mcp.example"],
                            allow_origins=["https://app.example"]) as service:
        yield service


@pytest.mark.parametrize("host", HOSTS[True] + HOSTS[False])
def test_each_combination_of_host_page_token_and_scope_is_let_in_or_kept_out(gate, host):
    pages = ORIGIN_RULES[True] + ORIGIN_RULES[False]
    for page, token, tool in itertools.product(pages, TOKENS, NEEDED):
        reply = ask_modern(gate, "tools/call", {"name": tool}, Host=host, Origin=page,
                           Authorization=token and f"Bearer {token}")
        assert reply.status == expect_status(host, page, token, tool), (page, token, tool)
        is_readable = host in HOSTS[True] and page in ORIGIN_RULES[True]
        assert reply.headers.get("access-control-allow-origin") == (page if is_readable else None)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_session_cannot_be_entered_by_guessing_or_with_the_token_of_another(gate, method):
    own = ask(gate, call("initialize", {"protocolVersion": "2025-11-25"}),
              Authorization="Bearer writer").headers["mcp-session-id"]
    near = own[:-1] + ("0" if own[-1] != "0" else "1")
    guesses = [near, own + "x", own[:16], "", "*", "%", f"{own}, {own}", "0" * 32, "../" + own]
    accept = {"Accept": "text/event-stream"} if method == "GET" else {}
    tries = [*(("writer", guess) for guess in guesses), ("reader", own), ("admin", own)]
    for token, named in tries:
        reply = ask(gate, PING if method == "POST" else b"", method, Mcp_Session_Id=named,
                    Authorization=f"Bearer {token}", **accept)
        assert reply.status == 404, (token, named)
    assert ask(gate, PING, Mcp_Session_Id=own).status == 401
    assert ask(gate, PING, Mcp_Session_Id=own, Authorization="Bearer writer").status == 200


def test_session_ids_and_task_ids_have_128_bits_that_nobody_can_foresee():
    runtime = mcpkit.system_runtime()
    ids = {runtime.new_id() for _ in range(1000)}
    assert len(ids) == 1000 and all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert all(len(set(digits)) == 16 for digits in zip(*ids))


# ---- injection: what a stranger says stays what it is, in a log, a header, a terminal, a page

MISCHIEF = ("\r\nX-Evil: 1\n\x1b[2J\x9b31m\u202e\u2028<script>alert(1)</script>'\"&]]>\x00\x07"
            "\ufffe\ud800")


def find_controls(text):
    """Return what a terminal would obey in a text of lines."""
    return {character for character in text if not character.isprintable()
            and character not in "\n\t"}


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_stranger_can_forge_a_line_of_the_log(capfd, form):
    server = build_sample_server(sessions=True)
    forged = '\n{"time":"x","method":"forged","status":200}\nforged\r\n' + MISCHIEF

    @server.tool
    def explode(text: str):
        raise RuntimeError(text)

    with mcpkit.HTTPService(server, port=0, log=form, verbose=True) as service:
        ask(service, tool_call("explode", text=forged), Mcp_Session_Id=open_session(service))
        for message in (call(forged), tool_call(forged), forged, call("resources/read", {
                "uri": forged}), call("initialize", {"protocolVersion": forged})):
            ask(service, message)
        for path in ("/\xe9", "/%0aforged"):
            send_raw(service, make_raw(PING, "Origin: http://\xe9\x9b", "traceparent: \xe9",
                                       target=path))
        ask(service, PING, Mcp_Session_Id="\x9b31m\xe9")
        ask(service, PING, method="FORGED")
    lines = capfd.readouterr().err.split("\n")
    assert not find_controls("\n".join(lines)) and len(lines) > 20
    own = [line for line in lines if line and not line.startswith("  ")]
    for line in own:
        assert not line.startswith(("forged", "X-Evil", '{"time":"x"')), line
    assert any("explode failed" in line for line in own)


# Values that reach a header of the server, and how each is given.
SERVER_HEADERS = {
    "a scope": lambda text: Auth(PRINCIPALS.get, scopes=[text]),
    "a resource": lambda text: Auth(PRINCIPALS.get, resource="https://h/" + text),
    "an issuer": lambda text: Auth(PRINCIPALS.get, authorization_servers=["https://h/" + text],
                                   resource="http://h/"),
    "a token": lambda text: Auth.bearer([text]),
    "an instance": lambda text: Server("x", instance=text),
    "a public URL": lambda text: mcpkit.HTTPService(Server("x"), public_url="https://h/" + text),
}


@pytest.mark.parametrize("name", SERVER_HEADERS)
def test_no_value_of_an_author_makes_a_header_of_its_own(name):
    for text in ("a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rb", "a b\0"):
        with contextlib.suppress(UsageError):
            made = SERVER_HEADERS[name](text)
            assert name == "an issuer" and isinstance(made, Auth)      # which only a document names


REQUEST_HEADERS = ["Origin: http://localhost\x85X-Evil:1", "Host: 127.0.0.1\xa0x",
                   "Access-Control-Request-Headers: mcp-a\x85x-evil: 1, mcp-\xe9",
                   "Authorization: Bearer a\x85X-Evil: 1", "Mcp-Session-Id: a\xa0",
                   "If-None-Match: \x85X-Evil", "Expect: \x85X-Evil: 1"]


def test_no_value_of_a_request_makes_a_header_of_an_answer(gate):
    server = Server(MISCHIEF.replace("\ud800", ""), title=MISCHIEF, auth=Auth(PRINCIPALS.get))
    paths = ["/mcp", "/\x7fx", "/.well-known/ai-catalog.json", "/mcp/server-card"]
    with mcpkit.HTTPService(server, port=0, publish=True, allow_origins=["*"],
                            allow_hosts=["*"]) as open_gate:
        for service, line, method, path in itertools.product(
                (gate, open_gate), REQUEST_HEADERS, ("POST", "OPTIONS", "GET", "DELETE"), paths):
            answer = send_raw(service, make_raw(PING, line, method=method, target=path))
            head = answer.partition(b"\r\n\r\n")[0]
            assert not re.search(rb"^x-evil", head, re.IGNORECASE | re.MULTILINE)
            assert head.count(b"\n") == head.count(b"\r\n") == head.count(b"\r")


def test_no_value_of_a_call_or_of_a_server_makes_a_header_of_a_request():
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}

    def answer(asked):
        return modern_peer(
            asked, resources_read=lambda asked: error_answer(-32602), tools_call=lambda asked:
            http_answer(result(asked, {"content": []})), tools_list=lambda asked: http_answer(
                result(asked, {"tools": [{"name": MISCHIEF, "inputSchema": schema}]})))

    with Peer(answer) as peer:
        with Client(peer.url, timeout=WAIT) as client:
            client.list_tools()
            for text in (MISCHIEF, "a\r\nX-Evil: 1", "a\n", "\x7f", " a", "\xe9"):
                with contextlib.suppress(MCPKitError):
                    client.call_tool(MISCHIEF, {"a": text})
                with contextlib.suppress(MCPKitError):
                    client.read_resource(text)
        for name, value in {"X": MISCHIEF, MISCHIEF: "x", "X\r\nX-Evil": "1",
                            "X-A": "a\r\nX-Evil: 1"}.items():
            with pytest.raises(UsageError):
                Client(peer.url, headers={name: value}).connect()
    names = {name for asked in peer.asked for name in asked.headers}
    assert len(peer.asked) > 10 and "x-evil" not in names


def told(kind, **params):
    """Return a notification of a server."""
    return {"jsonrpc": "2.0", "method": f"notifications/{kind}", "params": params}


def answer_evil(asked):
    """Answer as a server of the legacy era that says MISCHIEF wherever it may say something."""
    if isinstance(asked.message, list):
        return http_answer(asked.message, "400 Bad")
    method, text = asked.message.get("method", asked.method), MISCHIEF
    names = ("name", "title", "description", "mimeType", "uri", "uriTemplate")
    item = {**dict.fromkeys(names, text),
            "inputSchema": {"type": "object", "properties": {text: {"type": text, "title": text}}},
            "arguments": [{"name": text, "description": text}]}
    if method.startswith("notifications/"):
        return http_answer(b"", "202 Accepted")
    if method == "initialize":
        features = ("tools", "prompts", "resources", "completions", "logging", text)
        return http_answer(result(asked, {
            "protocolVersion": "2025-11-25", "instructions": text, "serverInfo": item,
            "capabilities": {feature: {} for feature in features}}))
    if method.endswith("/list"):
        member = "resourceTemplates" if "templates" in method else method.partition("/")[0]
        return http_answer(result(asked, {member: [item, {**item, "name": text + "2"}]}))
    if method == "tools/call" and asked.message["params"]["name"] == "x":
        return stream_answer(*map(event, [
            told("message", level="error", logger=text, data=text),
            told("progress", progressToken=1, progress=1, message=text),
            result(asked, {"isError": True, "content": [
                {"type": "text", "text": text}, {"type": text}, {"type": "resource_link", **item},
                {"type": "image", "mimeType": text, "data": text}]})]))
    return error_answer(-32000, "400 Bad", asked.message.get("id"), MISCHIEF, {MISCHIEF: MISCHIEF})


EVIL_COMMANDS = [
    "list", "list -v", "list --json", "call x", "call x -v", "call x --json", "call y -v",
    "call y --json", "read a:b", "read {a} a=b", "prompt x a=b", "complete prompt x a b",
    "send a/b", "listen --max-time 0.2", "probe", "probe --curl", "login --no-browser",
]


@pytest.mark.parametrize("words", EVIL_COMMANDS)
def test_nothing_that_a_server_says_is_obeyed_by_a_terminal(words, capsys):
    command, *options = words.split()
    with Peer(answer_evil) as peer:
        code = mcpkit.main([command, peer.url, *options, "--timeout", "5"])
    shown = capsys.readouterr()
    assert code in mcpkit.EXIT_CODES and not find_controls(shown.out + shown.err)
    assert "\nX-Evil" not in shown.err
    if "--json" in options:
        json.loads(shown.out or shown.err)


LONG = "x" * 50_000
LONG_WINDED = {
    "a challenge": lambda asked: http_answer(
        b"", "401 No", "text/plain", f"WWW-Authenticate: {LONG}"),
    "challenges": lambda asked: http_answer(
        b"", "401 No", "text/plain", "WWW-Authenticate: " + ", ".join(
            f"Bearer{number} a=b" for number in range(5000))),
    "a reason": lambda asked: http_answer(b"", f"400 {LONG}"),
    "a type": lambda asked: http_answer(b"", "200 OK", LONG),
    "a title": lambda asked: http_answer(f"<title>{LONG}</title>".encode(), "200 OK", "text/html"),
    "a place": lambda asked: redirect("302 There", "/" + LONG),
    "an error": lambda asked: error_answer(-32000, "400 Bad", 1, LONG, {LONG: LONG}),
    "a version": lambda asked: http_answer(result(asked, {"protocolVersion": LONG})),
    "names": lambda asked: legacy_peer(asked, tools_list=lambda asked: http_answer(result(asked, {
        "tools": [{"name": LONG + str(number), "inputSchema": {"type": LONG}}
                  for number in range(20)]}))),
    "another protocol": lambda asked: LONG.encode(),
    "a header": lambda asked: OK_LINE + LONG.encode(),
}


@cases(LONG_WINDED)
def test_whatever_a_server_says_at_length_the_probe_says_shortly(case):
    with Peer(case) as peer:
        report = mcpkit.probe(peer.url, timeout=5)
    parts = [*report["checks"], *report["layers"], *report["trail"], report["headline"]]
    texts = [text for part in parts for text in part.values() if isinstance(text, str)]
    assert texts and max(map(len, texts)) <= mcpkit.MAX_REPORT_CHARS + 3


def test_nothing_that_a_server_says_is_markup_in_a_report(tmp_path, capsys):
    import xml.dom.minidom
    paths = {name: tmp_path / name for name in ("html", "junit", "transcript")}
    with Peer(answer_evil) as peer:
        mcpkit.main(["probe", peer.url, "--deep", *(word for name, path in paths.items()
                                                    for word in (f"--{name}", str(path)))])
    page = paths["html"].read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page and "<script" not in page and not find_controls(page)
    assert not re.search(r"<[^>]*alert\(1\)[^>]*>", page)              # nor within a tag
    assert xml.dom.minidom.parse(str(paths["junit"])) and not find_controls(
        paths["transcript"].read_text())
    capsys.readouterr()


EVIL_CHILD = """
import sys
sys.stderr.write({0!r}); sys.stderr.flush()
print({0!r}, flush=True)
sys.stdin.readline()
sys.exit({0!r})
"""


@pytest.mark.parametrize("words", ["list", "list -v", "probe"])
def test_nothing_that_a_child_writes_is_obeyed_by_a_terminal(words, capfd, tmp_path):
    (tmp_path / "child.py").write_text(EVIL_CHILD.format(MISCHIEF.replace("\ud800", "")),
                                       encoding="utf-8")
    assert mcpkit.main([*words.split(), "--timeout", "3", "--", sys.executable, "-X", "utf8",
                        str(tmp_path / "child.py")])
    shown = capfd.readouterr()
    assert not find_controls(shown.out + shown.err) and "Traceback" not in shown.err


# ---- what the README promises

# What the README promises without any option, by its first words, and the tests that would fail.
PROMISES = {
    "A server listens on 127.0.0.1. There": (
        "test_each_combination_of_host_page_token_and_scope_is_let_in_or_kept_out",
        "test_c103_the_origin_is_checked_before_everything_else"),
    "Where there are tokens, each request": (
        "test_a_token_is_asked_for_after_host_origin_and_path_and_before_all_else",
        "test_a_verdict_is_not_remembered_with_the_head_that_it_was_about",
        "test_fixed_tokens_are_all_compared_wherever_one_fits"),
    "A stream that stands open ends": (
        "test_a_stream_that_stands_open_ends_with_its_token",),
    "Scopes bind lists, calls, reads, completions": (
        "test_an_item_with_scopes_is_for_tokens_that_have_them",
        "test_a_list_shows_what_the_caller_may_reach_on_pages_of_equal_size",
        "test_a_caller_is_not_told_of_resources_that_it_may_not_read"),
    "A session and a task are": (
        "test_a_session_cannot_be_entered_by_guessing_or_with_the_token_of_another",
        "test_a_task_is_known_only_to_who_started_it",
        "test_session_ids_and_task_ids_have_128_bits_that_nobody_can_foresee"),
    "A `requestState` is signed, and good": (
        "test_a_state_is_good_for_its_own_request_and_caller_and_server_only",
        "test_a_stale_state_is_refused_and_servers_with_one_secret_take_each_others",
        "test_a_state_that_was_tampered_with_is_refused_whatever_else_is_sent"),
    "A request that two readers could": (
        "test_a_refused_request_has_a_status_of_its_own_and_is_never_read_as_the_next",
        "test_a_refusal_does_not_depend_on_where_the_bytes_were_cut"),
    "Each of the limits binds on": (
        "test_each_limit_is_an_option_that_help_names_with_its_meaning",
        "test_a_client_too_many_that_has_sent_its_request_reads_why_it_is_refused",
        "test_a_client_that_sips_its_answer_is_cut_off_in_time"),
    "No bytes of a client lead": (
        "test_random_bytes_never_meet_an_internal_error",
        "test_what_a_handler_does_wrong_is_a_traceback_here_and_a_bare_error_there"),
    "The log has no argument, result": (
        "test_the_log_names_what_was_asked_for_in_short_and_nothing_of_its_contents",
        "test_no_stranger_can_forge_a_line_of_the_log"),
    "What a stranger says makes no": (
        "test_no_value_of_a_request_makes_a_header_of_an_answer",
        "test_no_value_of_a_call_or_of_a_server_makes_a_header_of_a_request",
        "test_nothing_that_a_server_says_is_obeyed_by_a_terminal",
        "test_nothing_that_a_server_says_is_markup_in_a_report"),
    "A client sends nothing to another": (
        "test_c63_what_a_request_carries_is_never_sent_where_it_may_not_go",
        "test_c23_c26_a_stream_without_an_endpoint_of_its_own_is_no_mcp",
        "test_a_new_issuer_gets_a_new_registration_and_nothing_of_the_old_one"),
    "It checks certificates, unless `--insecure` says": (
        "test_c68_a_certificate_that_is_not_trusted_is_described",),
    "No server makes it wait, read": (
        "test_a_limit_binds_on_each_answer_that_a_client_gets",
        "test_c125_a_compressed_answer_which_was_not_asked_for_is_not_read",
        "test_a_server_that_asks_for_ever_is_left_after_some_rounds",
        "test_a_child_that_asks_without_end_has_few_questions_answered_at_a_time",
        "test_a_pattern_of_a_peer_that_would_take_for_ever_is_not_tried"),
    "No `$ref` of a schema is": (
        "test_c102_a_reference_to_the_network_is_never_followed_but_found",),
    "A login believes no issuer and": (
        "test_faulty_metadata_is_refused_before_anything_is_sent",
        "test_a_redirect_that_is_not_the_answer_of_this_login_is_refused"),
    "Tokens and tasks lie in files": (
        "test_two_clients_with_one_file_share_a_login_and_its_refresh",
        "test_a_state_file_is_its_owners_only",
        "test_no_file_that_the_probe_writes_has_a_secret",
        "test_c121_nothing_of_an_entry_that_may_be_secret_is_left_in_a_text",
        "test_of_a_secret_that_was_cut_off_no_beginning_is_left"),
    "The probe runs no tool, reads": (
        "test_the_legacy_probe_sends_three_posts_and_never_runs_anything",
        "test_the_deep_checks_run_and_read_nothing_of_the_servers",
        "test_nothing_is_asked_of_another_site_and_no_credentials_leave_their_origin"),
}


def test_each_promise_of_the_readme_is_held_by_tests():
    section = README.partition("\n## Security\n")[2].partition("Not promised")[0]
    promises = re.findall(r"^- (.*)$", section, re.MULTILINE)
    assert len(promises) == len(PROMISES)
    assert [text for text, start in zip(promises, PROMISES) if not text.startswith(start)] == []
    assert {name for names in PROMISES.values() for name in names} - set(find_tests()) == set()
