"""Measure mcpkit beside two yardsticks and, where they are installed, beside its peers.

    python samples/bench.py [--peers FOLDER] [--only TEXT] [--json]      speed and size, in one run
    python samples/bench.py --scale [--json]                             costs that grow

The yardsticks answer the same bytes to whatever comes and check nothing: http.server tuned as far
as it goes (no Nagle, one write an answer, HTTP/1.1), and raw sockets with a thread a connection.
Servers are pinned to the first core and the load to the second, where the system can, and mcpkit
is told so, as by `serve --pin`; BENCH_UNPINNED=yes leaves all of them to the system. The load
comes from wrk where it is installed, else from this file; a figure that it could not push further
is marked `>`. Machines differ and are noisy: only ratios of one run mean something, so all is
measured in turns, round after round, and shown as a median with the spread around it.
"""
import argparse
import contextlib
import http.server
import json
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
START_SECONDS = 30                       # that a server has for its first answer
LARGE = 1_000_000                        # characters of a large result
HOST = "Host: 127.0.0.1:PORT"
SATURATED = 0.95                         # of a core: the load is the limit, not the server
IS_PINNED = hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1 and (
    not os.environ.get("BENCH_UNPINNED"))


# ---- what is asked

def build_request(method: str, params: dict, headers: Tuple[str, ...] = (),
                  request_id: Optional[int] = 1) -> bytes:
    """Return the bytes of a POST, whose Host `ask` fills in; a notification has no request id."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    if request_id is None:
        del message["id"]
    body = json.dumps(message).encode()
    lines = ("POST /mcp HTTP/1.1", HOST, "Content-Type: application/json",
             "Accept: application/json, text/event-stream", *headers,
             f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def build_modern(method: str, params: dict, *headers: str) -> bytes:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}}
    name = (f"Mcp-Name: {params['name']}",) if "name" in params else ()
    return build_request(method, {**params, "_meta": meta}, (
        "MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}", *name, *headers))


PONG = {"name": "pong", "arguments": {"message": "ping"}}
LEGACY_VERSION = "MCP-Protocol-Version: 2025-11-25"
MODERN_CALL = build_modern("tools/call", PONG)
CLOSING_CALL = build_modern("tools/call", PONG, "Connection: close")
LARGE_CALL = build_modern("tools/call", {"name": "large", "arguments": {}})
LEGACY_CALL = build_request("tools/call", PONG, (LEGACY_VERSION,))
INITIALIZE = build_request("initialize", {
    "protocolVersion": "2025-11-25", "capabilities": {},
    "clientInfo": {"name": "bench", "version": "0"}})


def call_in_session(port: int) -> bytes:
    """Return a call in a legacy session, which is opened here."""
    return build_request("tools/call", PONG, (LEGACY_VERSION, open_session(port)))


def open_session(port: int) -> str:
    """Return the header of a new legacy session; LookupError where there are none."""
    with connect(port) as sock:
        session = find_session(ask(sock, INITIALIZE))
        send(sock, build_request("notifications/initialized", {}, (LEGACY_VERSION, session),
                                 request_id=None))
        sock.recv(65536)
    return session


def find_session(answer: bytes) -> str:
    found = re.search(rb"\r\n(mcp-session-id: *[^\r]+)", answer, flags=re.I)
    if found is None:
        raise LookupError("the server keeps no sessions")
    return found.group(1).decode()


# ---- who is asked: each is a program that serves at a port in a mode ("json", "sessions", "stream")

TOOLS = '''
from {typing} import TypedDict

class Pong(TypedDict):
    response: str

@server.tool{call}
{define} pong(message: str) -> Pong:
    return {{"response": "pong"}}

@server.tool{call}
{define} large() -> str:
    return "x" * %d
''' % LARGE
ARGUMENTS = "import sys\nport, mode = int(sys.argv[1]), sys.argv[2]\n"

MCPKIT = ARGUMENTS + f"sys.path.insert(0, {ROOT!r})" + '''
from mcpkit import Server
server = Server("bench", sessions=mode == "sessions",
                stream="always" if mode == "stream" else "auto")
''' + TOOLS.format(typing="typing", call="", define="def") + "server.run(port=port)"

PYTHON_SDK = ARGUMENTS + '''
import logging
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
''' + TOOLS.format(typing="typing_extensions", call="()", define="async def") + '''
logging.disable(logging.CRITICAL)
server.run("streamable-http", host="127.0.0.1", port=port, json_response=mode != "stream",
           stateless_http=mode != "sessions")
'''

FASTMCP = ARGUMENTS + '''
import logging
from fastmcp import FastMCP
server = FastMCP("bench")
''' + TOOLS.format(typing="typing_extensions", call="", define="async def") + '''
logging.disable(logging.CRITICAL)
server.run("http", host="127.0.0.1", port=port, show_banner=False, log_level="error",
           json_response=mode != "stream", stateless_http=mode != "sessions")
'''

ZEROMCP = ARGUMENTS + '''
import threading
from zeromcp import McpServer
server = McpServer("bench")
''' + TOOLS.format(typing="typing", call="", define="def") + '''
server.require_streamable_http_session = mode == "sessions"
server.serve("127.0.0.1", port)
threading.Event().wait()
'''

YARDSTICK = f"import sys\nsys.path.insert(0, {os.path.join(ROOT, 'samples')!r})\nimport bench\n"


class Target(NamedTuple):
    """A server to be measured: the program, the Python that runs it, and what it can do."""

    program: str
    python: str = sys.executable
    works: str = "."                     # the works that it can do: a pattern of their names


YARDSTICKS = {
    "http.server": Target(YARDSTICK + "bench.serve_plain(int(sys.argv[1]))",
                          works="keep-alive|connection each"),
    "raw sockets": Target(YARDSTICK + "bench.serve_raw(int(sys.argv[1]))",
                          works="keep-alive|connection each"),
}
PEERS = {"python-sdk": ("sdk", PYTHON_SDK, "."), "FastMCP": ("fastmcp", FASTMCP, "."),
         "zeromcp": ("zeromcp", ZEROMCP, "legacy")}

# Programs that connect to a URL, list the tools, call one, and call it COUNT times more.
CLIENT_ARGUMENTS = "import sys, time\nurl, count = sys.argv[1], int(sys.argv[2])\n"
ASYNC_CLIENT = CLIENT_ARGUMENTS + '''
import asyncio
from {module} import Client

async def run():
    async with Client(url) as client:
        await client.list_tools()
        await client.call_tool("pong", {{"message": "ping"}})
        started = time.perf_counter()
        for _ in range(count):
            await client.call_tool("pong", {{"message": "ping"}})
        print(count / (time.perf_counter() - started))

asyncio.run(run())
'''
CLIENTS = {
    "mcpkit": CLIENT_ARGUMENTS + f"sys.path.insert(0, {ROOT!r})" + '''
from mcpkit import Client
with Client(url) as client:
    client.list_tools()
    client.call_tool("pong", {"message": "ping"})
    started = time.perf_counter()
    for _ in range(count):
        client.call_tool("pong", {"message": "ping"})
    print(count / (time.perf_counter() - started))
''',
    "python-sdk": ASYNC_CLIENT.format(module="mcp"),
    "FastMCP": ASYNC_CLIENT.format(module="fastmcp"),
}
# What is run as a command: Python reads all of a file that it runs, and keeps nothing of it.
COMMANDS = {"--help": ("--help",), "call": ("call", "URL", "pong", "message=ping")}


def find_targets(peers: Optional[str]) -> Dict[str, Target]:
    """Return what is measured, mcpkit first; the peers whose environments are in a folder too.

    Beside peers, mcpkit and the yardsticks have an environment to themselves as well: a machine's
    own Python may load more at its start than they do.
    """
    targets = {"mcpkit": Target(MCPKIT), **YARDSTICKS}
    empty = os.path.join(peers or "", "empty", "bin", "python")
    if os.path.exists(empty):
        targets = {name: target._replace(python=empty) for name, target in targets.items()}
    for name, (folder, program, works) in PEERS.items() if peers else ():
        python = os.path.join(peers, folder, "bin", "python")
        if os.path.exists(python):
            targets[name] = Target(program, python, works)
        else:
            print(f"{name} is left out: there is no {python}", file=sys.stderr)
    return targets


# ---- the yardsticks

ANSWER = (b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\\"response\\":'
          b'\\"pong\\"}"}],"structuredContent":{"response":"pong"}}}')


class PlainHandler(http.server.BaseHTTPRequestHandler):
    """Reads a body, sends a fixed answer in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(ANSWER)
        self.wfile.flush()

    def log_request(self, *_: Any) -> None:
        pass


class PlainServer(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """The load's connections end abruptly; that is no error here."""


def serve_plain(port: int) -> None:
    PlainServer(("127.0.0.1", port), PlainHandler).serve_forever()


def serve_raw(port: int) -> None:
    """Look for the end of a request and answer: the least that a thread a connection can do."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d" % len(ANSWER)
    answer = head + b"\r\n\r\n" + ANSWER
    last_answer = head + b"\r\nConnection: close\r\n\r\n" + ANSWER

    def serve(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                data = sock.recv(65536)
                while data and not data.endswith(b"}"):
                    data += sock.recv(65536)
                if not data or b"Connection: close" in data:
                    sock.sendall(last_answer)
                    return
                sock.sendall(answer)

    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


# ---- one server: started, asked and looked at

# As users have it: Python keeps what it has compiled of the modules that it imports.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name != "PYTHONDONTWRITEBYTECODE"}


def pin(core: int, process: int = 0) -> None:
    """Keep a process (0: this one) on one core, where the system can."""
    if IS_PINNED:
        os.sched_setaffinity(process, {core})


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), START_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def is_whole(data: bytes) -> bool:
    """Return whether these bytes are a whole answer, or the start of a stream that stays open."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return False
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, flags=re.I)
    if length is not None:
        return len(body) >= int(length.group(1))
    return body.endswith(b"0\r\n\r\n")


def send(sock: socket.socket, request: bytes) -> None:
    """Send a request, with the port in its Host header."""
    sock.sendall(request.replace(b":PORT", b":%d" % sock.getpeername()[1], 1))


def ask(sock: socket.socket, request: bytes) -> bytes:
    """Return the whole answer to a request, head and body; wrong ones end the run."""
    send(sock, request)
    parts: List[bytes] = []
    while not parts or not is_whole(b"".join(parts)):
        parts.append(sock.recv(1 << 21))
        if not parts[-1]:
            raise ConnectionError(f"the answer ends early: {b''.join(parts)[:500]!r}")
    answer = b"".join(parts)
    if not answer.startswith(b"HTTP/1.1 200") or b'"error":' in answer or (
            b'"isError":true' in answer):
        raise SystemExit(f"a wrong answer: {answer[:500]!r}")
    return answer


def check_call(port: int, request: bytes) -> bytes:
    """Return the whole answer to a call, which must hold what the tool gives."""
    with connect(port) as sock:
        answer = ask(sock, request)
    if (b"x" * LARGE if request is LARGE_CALL else b"pong") not in answer:
        raise SystemExit(f"a wrong answer: {answer[:500]!r}")
    return answer


@contextlib.contextmanager
def serving(target: Target, mode: str) -> Iterator[Tuple[subprocess.Popen, int]]:
    """Have a server run for a block: the process, and its port, which answers."""
    port = find_port()
    child = subprocess.Popen([target.python, "-c", target.program, str(port), mode],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    pin(0, child.pid)
    try:
        wait_for_answer(child, port)
        yield child, port
    finally:
        child.kill()
        child.wait()


def wait_for_answer(child: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with connect(port) as sock:
                ask(sock, INITIALIZE)
                return
        except OSError:
            if child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"a server did not start: {child.args}") from None
            time.sleep(0.002)


def read_memory(process: int) -> float:
    """Return the resident memory of a process in KB."""
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
    except OSError:
        return float(subprocess.run(["ps", "-o", "rss=", "-p", str(process)], check=True,
                                    capture_output=True, text=True).stdout)


def read_processor(process: int) -> Optional[float]:
    """Return the processor seconds that a process has used, None where the system tells none."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- the load

class Load(NamedTuple):
    """What came of a while of load: seconds, answers, latencies in ms, load's processor seconds."""

    seconds: float
    answers: int
    p50: float
    p99: float
    processor: float


WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = [=[%s]=]
for name, value in string.gmatch([=[%s]=], "([^:\\n]+): ([^\\n]+)") do wrk.headers[name] = value end
function done(summary, latency)
  local errors = summary.errors
  print(string.format("RESULT [%%d, %%d, %%d, %%d, %%d, %%d]", summary.duration, summary.requests,
        summary.bytes, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


def load_with_wrk(port: int, request: bytes, connections: int, seconds: float) -> Load:
    """Load with wrk; its answers must all be 200 and, as far as it counts, as long as the first."""
    size = len(check_call(port, request))
    head, _, body = request.decode().partition("\r\n\r\n")
    lines = [line for line in head.split("\r\n")[2:] if not line.startswith("Content-Length")]
    before = os.times()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK_SCRIPT % (body, "\n".join(lines)))
        script.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s",
                              "--timeout", "10s", "-s", script.name,
                              f"http://127.0.0.1:{port}/mcp"],
                             capture_output=True, text=True, check=True).stdout
    after = os.times()
    duration, count, read, p50, p99, errors = json.loads(out.partition("RESULT ")[2])
    if errors or count == 0 or not -1 <= read / size - count <= connections + 1:
        raise SystemExit(f"wrong answers: {out}")
    check_call(port, request)
    return Load(duration / 1e6, count, p50 / 1000, p99 / 1000,
                after.children_user + after.children_system
                - before.children_user - before.children_system)


def load_with_sockets(port: int, request: bytes, connections: int, seconds: float) -> Load:
    """Load from this file; each answer must be as long as the first, and end alike."""
    first = check_call(port, request)
    size, tail = len(first), first[-20:]
    request = request.replace(b":PORT", b":%d" % port, 1)
    selector, latencies = selectors.DefaultSelector(), []

    def ask_again(sock: socket.socket) -> None:
        sock.sendall(request)
        missing[sock], sent[sock] = size, time.perf_counter()

    def open_one() -> None:
        sock = connect(port)
        selector.register(sock, selectors.EVENT_READ)
        ask_again(sock)

    missing: Dict[socket.socket, int] = {}
    sent: Dict[socket.socket, float] = {}
    processor, started = time.process_time(), time.perf_counter()
    for _ in range(connections):
        open_one()
    while time.perf_counter() - started < seconds:
        for key, _ in selector.select(1):
            sock = key.fileobj
            data = sock.recv(1 << 20)
            missing[sock] -= len(data)
            if missing[sock] > 0 and data:
                continue
            if missing[sock] or not data.endswith(tail):
                raise SystemExit(f"a wrong answer: {data[:500]!r}")
            latencies.append((time.perf_counter() - sent[sock]) * 1000)
            if b"Connection: close" in request:
                selector.unregister(sock)
                sock.close()
                del missing[sock], sent[sock]
                open_one()
            else:
                ask_again(sock)
    took, processor = time.perf_counter() - started, time.process_time() - processor
    for sock in missing:
        sock.close()
    latencies = sorted(latencies) or [took * 1000]
    return Load(took, len(latencies), statistics.median(latencies),
                latencies[int(len(latencies) * 0.99)], processor)


# ---- what is measured

class Metric(NamedTuple):
    """A kind of figure, of which each measurement gives one or more."""

    unit: str
    form: str


RATE = Metric("answers/s", "{:,.0f}")
P50 = Metric("p50 ms", "{:.2f}")
P99 = Metric("p99 ms", "{:.2f}")
COST = Metric("us of processor", "{:.1f}")
EFFORT = Metric("load, % of a core", "{:.0f}")
SECONDS = Metric("s", "{:.3f}")
MEGABYTES = Metric("MB", "{:.1f}")
KILOBYTES = Metric("KB each", "{:.1f}")


class Work(NamedTuple):
    """A request that is repeated over some connections, to servers in one mode."""

    mode: str
    request: Any                         # bytes, or a function of the port that returns them
    connections: int


WORKS = {
    "modern, 1 keep-alive": Work("json", MODERN_CALL, 1),
    "modern, 16 keep-alive": Work("json", MODERN_CALL, 16),
    "modern, 64 keep-alive": Work("json", MODERN_CALL, 64),
    "modern, a connection each": Work("json", CLOSING_CALL, 16),
    "legacy, no session": Work("json", LEGACY_CALL, 16),
    "modern, 1 MB results": Work("json", LARGE_CALL, 4),
    "legacy, in a session": Work("sessions", call_in_session, 16),
    "modern, event streams": Work("stream", MODERN_CALL, 16),
}

Figures = Dict[Tuple[str, Metric], Dict[str, List[float]]]     # by measurement, then by target


class Bench:
    """One run: what is measured of whom, for how long, and what was found."""

    def __init__(self, options: argparse.Namespace):
        self.targets = find_targets(options.peers)
        self.peers = options.peers
        self.seconds, self.rounds = options.seconds, options.rounds
        self.sessions, self.streams, self.calls = options.sizes
        self.only = options.only
        self.load = load_with_wrk if options.load == "wrk" else load_with_sockets
        self.figures: Figures = {}
        self.limited: set = set()        # (measurement, target) that the load could not push on

    def is_wanted(self, name: str) -> bool:
        return self.only in name

    def note(self, name: str, metric: Metric, target: str, value: Optional[float]) -> None:
        if value is not None:
            self.figures.setdefault((name, metric), {}).setdefault(target, []).append(value)

    def run(self) -> None:
        for mode in dict.fromkeys(work.mode for work in WORKS.values()):
            works = {name: work for name, work in WORKS.items()
                     if work.mode == mode and self.is_wanted(name)}
            if works:
                self.measure_works(mode, works)
        if self.is_wanted("life of a server"):
            self.in_turns(self.targets, self.measure_life)
        if self.is_wanted("client"):
            with serving(self.targets["mcpkit"], "json") as (_, port):
                self.in_turns([name for name in self.targets if name in CLIENTS],
                              lambda name: self.measure_client(name, port))
                self.in_turns([port], self.measure_commands)

    def in_turns(self, subjects: Any, measure: Callable[[Any], None]) -> None:
        for _ in range(self.rounds):
            for subject in subjects:
                measure(subject)

    def measure_works(self, mode: str, works: Dict[str, Work]) -> None:
        """Load all servers in one mode with each work, in turns."""
        with contextlib.ExitStack() as stack:
            running = {name: stack.enter_context(serving(target, mode))
                       for name, target in self.targets.items()
                       if any(re.search(target.works, work) for work in works)}
            for _ in range(self.rounds):
                for work in works:
                    for name, (child, port) in running.items():
                        if re.search(self.targets[name].works, work):
                            self.measure_work(work, name, child.pid, port)

    def measure_work(self, work: str, name: str, process: int, port: int) -> None:
        request, connections = WORKS[work].request, WORKS[work].connections
        request = request if isinstance(request, bytes) else request(port)
        before = read_processor(process)
        load = self.load(port, request, connections, self.seconds)
        after = read_processor(process)
        self.note(work, RATE, name, load.answers / load.seconds)
        self.note(work, P50, name, load.p50)
        self.note(work, P99, name, load.p99)
        self.note(work, COST, name, None if after is None
                  else (after - before) / load.answers * 1e6)
        self.note(work, EFFORT, name, load.processor / load.seconds * 100)
        if load.processor > SATURATED * load.seconds:
            self.limited.add((work, name))

    def measure_life(self, name: str) -> None:
        """Start a server, give it sessions and open their streams; see what it takes."""
        started = time.perf_counter()
        with serving(self.targets[name], "sessions") as (child, port):
            self.note("server, cold start", SECONDS, name, time.perf_counter() - started)
            start = read_memory(child.pid)
            self.note("server, memory at start", MEGABYTES, name, start / 1024)
            if name in YARDSTICKS:
                return
            sessions = [open_session(port) for _ in range(self.sessions)]
            kept = read_memory(child.pid)
            self.note("server, a session", KILOBYTES, name, (kept - start) / self.sessions)
            with contextlib.ExitStack() as stack:
                if all(open_stream(stack, port, session) for session in sessions[:self.streams]):
                    self.note("server, an open stream", KILOBYTES, name,
                              (read_memory(child.pid) - kept) / self.streams)

    def measure_client(self, name: str, port: int) -> None:
        """Run a client that calls once, and one that calls many times, on the server's Python."""
        command = [self.targets[name].python, "-c", CLIENTS[name], f"http://127.0.0.1:{port}/mcp"]
        self.note("client, start to end", SECONDS, name, measure_run([*command, "0"]))
        out = subprocess.run([*command, str(self.calls)], check=True, capture_output=True,
                             env=ENVIRONMENT).stdout
        self.note("client, one after the other", RATE, name, float(out))

    def measure_commands(self, port: int) -> None:
        for name, words in COMMANDS.items():
            self.note(f"command {name}, start to end", SECONDS, "mcpkit", measure_run(
                [sys.executable, os.path.join(ROOT, "mcpkit.py"),
                 *(word.replace("URL", f"http://127.0.0.1:{port}/mcp") for word in words)]))

    # ---- what was found

    def to_json(self) -> dict:
        """Return all figures, and what there is to know of how they came about."""
        return {**describe_machine(), "load": self.load.__name__.rpartition("_")[2],
                "seconds": self.seconds, "rounds": self.rounds, "measurements": [
                    {"name": name, "unit": metric.unit, "figures": figures,
                     "medians": take_medians(figures),
                     "limitedByLoad": [target for target in figures
                                       if (name, target) in self.limited],
                     "mcpkitDividedBy": compare(figures)}
                    for (name, metric), figures in self.figures.items()]}

    def print(self) -> None:
        """Print a table of medians with their spread, and one of ratios."""
        print(", ".join(f"{name} {value}" for name, value in describe_machine().items()) + ", load "
              f"from {self.load.__name__.rpartition('_')[2]}, {self.rounds} rounds")
        rows = [[name, metric.unit, *(self.format(name, metric, figures.get(target))
                                      for target in self.targets)]
                for (name, metric), figures in self.figures.items()]
        print_table(["", "", *self.targets], rows)
        print("\nmcpkit's figure divided by that of")
        rows = [[name, metric.unit, *(f"{ratios[target]:.2f}" if target in ratios else "-"
                                      for target in self.targets if target != "mcpkit")]
                for (name, metric), figures in self.figures.items()
                for ratios in [compare(figures)]]
        print_table(["", "", *list(self.targets)[1:]], rows)

    def format(self, name: str, metric: Metric, values: Optional[List[float]]) -> str:
        if not values:
            return "-"
        median = statistics.median(values)
        spread = (max(values) - min(values)) / 2 / median * 100 if median else 0
        mark = ">" if metric == RATE and any(target for work, target in self.limited if work == name
                                             and self.figures[name, metric][target] is values
                                             ) else ""
        return mark + metric.form.format(median) + f" ±{spread:.0f}%"


def measure_run(command: List[str]) -> float:
    """Return the seconds that a command takes from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - started


def open_stream(stack: contextlib.ExitStack, port: int, session: str) -> bool:
    """Open a session's stream, for as long as a stack; return whether there is such a thing."""
    sock = stack.enter_context(connect(port))
    send(sock, "\r\n".join(("GET /mcp HTTP/1.1", HOST, "Accept: text/event-stream",
                            LEGACY_VERSION, session, "", "")).encode())
    return sock.recv(65536).startswith(b"HTTP/1.1 200")


def take_medians(figures: Dict[str, List[float]]) -> Dict[str, float]:
    return {target: statistics.median(values) for target, values in figures.items()}


def compare(figures: Dict[str, List[float]]) -> Dict[str, float]:
    """Return mcpkit's median divided by that of each other."""
    medians = take_medians(figures)
    return {target: medians["mcpkit"] / value for target, value in medians.items()
            if target != "mcpkit" and value and "mcpkit" in medians}


def describe_machine() -> dict:
    return {"python": sys.version.split()[0], "cores": os.cpu_count(),
            "pinned": "yes" if IS_PINNED else "no"}


def print_table(head: List[str], rows: List[List[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) if index < 2 else cell.rjust(width)
                        for index, (cell, width) in enumerate(zip(row, widths))).rstrip())


# ---- costs that grow: each is a size and what it takes, in this process

SINK: List[Any] = []


class Growth(NamedTuple):
    """A cost in microseconds by size; `prepare` takes mcpkit, a size and a stack and returns what
    is to be timed. Costs of what grows with the size are divided by it."""

    prepare: Callable[[Any, int, contextlib.ExitStack], Callable[[], Any]]
    sizes: Tuple[int, ...]
    is_divided: bool = False


def build_server(mcpkit: Any, tools: int, **options: Any) -> Any:
    server = mcpkit.Server("scale", **options)
    for index in range(tools):
        server.add_tool(lambda message="": {"response": "pong"}, name=f"tool{index}")
    server.add_tool(lambda size: "x" * size, name="large",
                    input_schema={"type": "object", "properties": {"size": {"type": "integer"}}})
    return server


def prepare_call(mcpkit: Any, tools: int, stack: contextlib.ExitStack) -> Callable:
    server = build_server(mcpkit, tools)
    head, _, body = build_modern("tools/call", {"name": f"tool{tools - 1}", "arguments": {}}
                                 ).partition(b"\r\n\r\n")
    headers, value = mcpkit.parse_head(head).headers, mcpkit.parse_json(body)
    return lambda: server.receive(value, headers, None, mcpkit.Channel())


def prepare_session_call(mcpkit: Any, sessions: int, stack: contextlib.ExitStack) -> Callable:
    server = build_server(mcpkit, 1, sessions=True)
    ids = [server.sessions.create("2025-11-25", {}, {}).id for _ in range(sessions)]
    head, _, body = build_request("tools/call", {"name": "tool0", "arguments": {}}, (
        LEGACY_VERSION,)).partition(b"\r\n\r\n")
    headers, value = mcpkit.parse_head(head).headers, mcpkit.parse_json(body)
    return lambda: server.receive(value, headers, server.sessions.find(ids[sessions // 2]),
                                  mcpkit.Channel(), True)


def prepare_notification(mcpkit: Any, listeners: int, stack: contextlib.ExitStack) -> Callable:
    """Listen over so many connections; the cost runs until each has been told."""
    server = mcpkit.Server("scale")
    server.add_resource(lambda: "text", uri="scale://one")
    service = stack.enter_context(mcpkit.HTTPService(server, port=0))
    port = service.server_address[1]
    request = build_modern("subscriptions/listen", {
        "notifications": {"resourceSubscriptions": ["scale://one"]}})
    socks = [stack.enter_context(connect(port)) for _ in range(listeners)]
    for sock in socks:
        send(sock, request)
        read_until(sock, b"acknowledged")

    def tell() -> None:
        server.resource_updated("scale://one")
        for sock in socks:
            read_until(sock, b"resources/updated")
    return tell


def read_until(sock: socket.socket, text: bytes) -> None:
    data = b""
    while text not in data:
        data += sock.recv(65536)


def prepare_client(mcpkit: Any, size: int, stack: contextlib.ExitStack) -> Callable:
    service = stack.enter_context(mcpkit.HTTPService(build_server(mcpkit, 1), port=0))
    client = stack.enter_context(mcpkit.Client(service.url))
    return lambda: client.call_tool("large", {"size": size})


def prepare_list(mcpkit: Any, tools: int, stack: contextlib.ExitStack) -> Callable:
    service = stack.enter_context(mcpkit.HTTPService(build_server(mcpkit, tools), port=0))
    client = stack.enter_context(mcpkit.Client(service.url))
    return client.list_tools


def prepare_events(mcpkit: Any, size: int, stack: contextlib.ExitStack) -> Callable:
    data = b"event: message\ndata: {\"jsonrpc\": \"2.0\"}\n\n" * (size // 43)

    def parse() -> None:
        parser = mcpkit.SSEParser()
        for start in range(0, len(data), 4096):
            parser.feed(data[start:start + 4096])
    return parse


def prepare_event(mcpkit: Any, size: int, stack: contextlib.ExitStack) -> Callable:
    """One long event, cut into small pieces."""
    data = b"data: " + b"x" * size + b"\n\n"

    def parse() -> None:
        parser = mcpkit.SSEParser()
        for start in range(0, len(data), 512):
            parser.feed(data[start:start + 512])
    return parse


def prepare_json(mcpkit: Any, size: int, stack: contextlib.ExitStack) -> Callable:
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {
        "items": [{"name": "x" * 20, "value": 1.5}] * (size // 54)}}).encode()
    return lambda: mcpkit.parse_message(mcpkit.parse_json(data))


def prepare_head(mcpkit: Any, headers: int, stack: contextlib.ExitStack) -> Callable:
    data = "\r\n".join(["POST /mcp HTTP/1.1", *(f"X-Name-{index}: value" for index in range(
        headers))]).encode()
    return lambda: mcpkit.parse_head(data)


BYTES = (1_000, 10_000, 100_000, 1_000_000)
GROWTHS = {
    "a call, of N tools": Growth(prepare_call, (10, 100, 1_000, 10_000)),
    "a call, in one of N sessions": Growth(prepare_session_call, (1, 100, 1_000, 10_000)),
    "a notification, each of N listeners": Growth(prepare_notification, (10, 50, 200), True),
    "client: a tool, of a list of N": Growth(prepare_list, (10, 100, 1_000, 10_000), True),
    "client: a character, of a result of N": Growth(prepare_client, BYTES, True),
    "SSE parser: a byte, of N in short events": Growth(prepare_events, BYTES, True),
    "SSE parser: a byte, of an event of N": Growth(prepare_event, BYTES, True),
    "JSON-RPC parser: a byte, of N": Growth(prepare_json, BYTES, True),
    "HTTP head parser: a header, of N": Growth(prepare_head, (1, 10, 100), True),
}


def measure_growth(growth: Growth, mcpkit: Any, is_quick: bool) -> Dict[int, float]:
    """Return microseconds by size: the least of some repetitions, as noise only adds."""
    costs = {}
    for size in growth.sizes[:2] if is_quick else growth.sizes:
        with contextlib.ExitStack() as stack:
            timer = timeit.Timer(growth.prepare(mcpkit, size, stack))
            timer.timeit(1)
            number = 1 if is_quick else max(1, int(0.05 / max(timer.timeit(1), 1e-7)))
            seconds = min(timer.repeat(1 if is_quick else 5, number)) / number
            costs[size] = seconds * 1e6 / (size if growth.is_divided else 1)
    return costs


def run_scale(options: argparse.Namespace) -> None:
    """Print each cost by size, and how much the largest size's is of the smallest's."""
    sys.path.insert(0, ROOT)
    import mcpkit
    costs = {name: measure_growth(growth, mcpkit, options.quick)
             for name, growth in GROWTHS.items() if options.only in name}
    if options.json:
        print(json.dumps({**describe_machine(), "microseconds": costs}))
        return
    print("microseconds by size; the last column divides the largest size's by the smallest's")
    for name, by_size in costs.items():
        sizes = list(by_size)
        print(f"{name:<42}" + "".join(f"{size:>11,}: {cost:<8.4g}" for size, cost in
                                      by_size.items())
              + f"  x{by_size[sizes[-1]] / by_size[sizes[0]]:.2f}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", metavar="FOLDER", help="with the peers' environments, as `make "
                        "bench-peers` makes them: sdk, fastmcp, zeromcp, empty")
    parser.add_argument("--only", metavar="TEXT", default="",
                        help="measure only what has this text in its name")
    parser.add_argument("--seconds", type=float, default=1.0, help="of load a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", choices=("wrk", "sockets"), help="where the load comes from")
    parser.add_argument("--scale", action="store_true", help="show costs that grow instead")
    parser.add_argument("--quick", action="store_true", help="see only that it works")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.load is None:
        options.load = "wrk" if shutil.which("wrk") and not options.quick else "sockets"
    options.sizes = (1_000, 200, 1_000)          # sessions, streams, calls
    if options.quick:
        options.seconds, options.rounds, options.sizes = 0.05, 1, (10, 5, 10)
    return options


def main() -> None:
    options = parse_options()
    pin(1)
    if options.scale:
        run_scale(options)
        return
    bench = Bench(options)
    bench.run()
    if options.json:
        print(json.dumps(bench.to_json()))
    else:
        bench.print()


if __name__ == "__main__":
    main()
