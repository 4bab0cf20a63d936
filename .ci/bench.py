"""Measure mcpkit beside two yardsticks and, with --peers FOLDER, beside its peers, in one run.

    python .ci/bench.py [--peers FOLDER] [--only TEXT] [--rounds N] [--seconds S] [--json FILE]

The yardsticks send the same bytes whatever they are asked and check nothing: http.server, tuned, and
raw sockets with a thread a connection. Servers are pinned to the first core and the load, which
comes from wrk, to the second. Machines differ and are noisy, so all is measured in turns, round
after round, and printed as medians and as ratios; only the ratios of one run mean something.
"""
import argparse
import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_SECONDS = 30
LARGE = 1_000_000
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}


# ---- what is asked

def build_request(method, params, *headers, request_id=1):
    """Return the bytes of a POST for whatever port; without a request id, a notification."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    body = json.dumps({name: value for name, value in message.items() if value is not None})
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1:PORT", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", body]).encode()


def build_modern(name, arguments, *headers):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}}
    return build_request("tools/call", {"name": name, "arguments": arguments, "_meta": meta},
                         "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call",
                         f"Mcp-Name: {name}", *headers)


LEGACY = "MCP-Protocol-Version: 2025-11-25"
PONG = {"message": "ping"}
INITIALIZE = build_request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                          "clientInfo": {"name": "bench", "version": "0"}})
LEGACY_CALL = build_request("tools/call", {"name": "pong", "arguments": PONG}, LEGACY)


class Load(NamedTuple):
    """A request that is repeated over some connections, to servers in one mode."""

    mode: str
    connections: int
    request: bytes


LOADS = {
    "modern, 1 connection": Load("json", 1, build_modern("pong", PONG)),
    "modern, 16 connections": Load("json", 16, build_modern("pong", PONG)),
    "modern, 64 connections": Load("json", 64, build_modern("pong", PONG)),
    "modern, a connection each": Load("json", 16, build_modern("pong", PONG, "Connection: close")),
    "modern, 1 MB results": Load("json", 4, build_modern("large", {})),
    "modern, event streams": Load("stream", 16, build_modern("pong", PONG)),
    "legacy, no session": Load("json", 16, LEGACY_CALL),
}


# ---- who is asked: programs that serve at a port in a mode ("json", "stream" or "sessions")

START = "import sys\nport, mode = int(sys.argv[1]), sys.argv[2]\n"
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
MCPKIT = START + f"sys.path.insert(0, {str(ROOT)!r})" + '''
from mcpkit import Server
server = Server("bench", sessions=mode == "sessions",
                stream="always" if mode == "stream" else "auto")
''' + TOOLS.format(typing="typing", call="", define="def")
PYTHON_SDK = START + '''
import logging
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
''' + TOOLS.format(typing="typing_extensions", call="()", define="async def") + '''
logging.disable(logging.CRITICAL)
server.run("streamable-http", host="127.0.0.1", port=port, json_response=mode != "stream",
           stateless_http=mode != "sessions")
'''
FASTMCP = START + '''
import logging
from fastmcp import FastMCP
server = FastMCP("bench")
''' + TOOLS.format(typing="typing_extensions", call="", define="async def") + '''
logging.disable(logging.CRITICAL)
server.run("http", host="127.0.0.1", port=port, show_banner=False, log_level="error",
           json_response=mode != "stream", stateless_http=mode != "sessions")
'''
ZEROMCP = START + '''
import threading
from zeromcp import McpServer
server = McpServer("bench")
''' + TOOLS.format(typing="typing", call="", define="def") + '''
server.require_streamable_http_session = mode == "sessions"
server.serve("127.0.0.1", port)
threading.Event().wait()
'''
YARDSTICK = START + f"sys.path.insert(0, {str(ROOT / '.ci')!r})\nimport bench\n"


class Target(NamedTuple):
    """A server to measure: its program, the environment of its Python, and the loads it can take."""

    program: str
    environment: str
    loads: str = "."


TARGETS = {
    "mcpkit": Target(MCPKIT + "server.run(port=port)", "empty"),
    "http.server": Target(YARDSTICK + "bench.serve_plain(port)", "empty", r"connection"),
    "raw sockets": Target(YARDSTICK + "bench.serve_raw(port)", "empty", r"connection"),
    "python-sdk": Target(PYTHON_SDK, "sdk"),
    "FastMCP": Target(FASTMCP, "fastmcp"),
    "zeromcp": Target(ZEROMCP, "zeromcp", "legacy"),
}
CLIENT = '''
import sys, time
url, count = sys.argv[1], int(sys.argv[2])
{0}
    {1}client.list_tools()
    {1}client.call_tool("pong", {{"message": "ping"}})
    started = time.perf_counter()
    for _ in range(count):
        {1}client.call_tool("pong", {{"message": "ping"}})
    print(count / (time.perf_counter() - started))
'''
ASYNC = ("import asyncio\nfrom {} import Client\nasync def run():\n  async with Client(url) as client:",
         "await ")
CLIENTS = {
    "mcpkit": CLIENT.format(f"sys.path.insert(0, {str(ROOT)!r})\nfrom mcpkit import Client\n"
                            "with Client(url) as client:", ""),
    "python-sdk": CLIENT.format(ASYNC[0].format("mcp"), ASYNC[1]) + "asyncio.run(run())",
    "FastMCP": CLIENT.format(ASYNC[0].format("fastmcp"), ASYNC[1]) + "asyncio.run(run())",
}


# ---- the yardsticks

ANSWER = (b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\\"response\\":'
          b'\\"pong\\"}"}],"structuredContent":{"response":"pong"}}}')


class PlainHandler(http.server.BaseHTTPRequestHandler):
    """Reads a body, sends a fixed answer in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(ANSWER)
        self.wfile.flush()

    def log_request(self, *_):
        pass


class PlainServer(http.server.ThreadingHTTPServer):
    request_queue_size = 512

    def handle_error(self, *_):
        """The load's connections end abruptly; that is no error here."""


def serve_plain(port):
    PlainServer(("127.0.0.1", port), PlainHandler).serve_forever()


def serve_raw(port):
    """Look for the end of a request and answer: the least that a thread a connection can do."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d" % len(ANSWER)

    def serve(sock):
        with sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                data = sock.recv(65536)
                while data and not data.endswith(b"}"):
                    data += sock.recv(65536)
                if not data or b"Connection: close" in data:
                    return sock.sendall(head + b"\r\nConnection: close\r\n\r\n" + ANSWER)
                sock.sendall(head + b"\r\n\r\n" + ANSWER)

    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


# ---- one server: started, asked and measured

def ask(port, request):
    """Return the whole answer to a request; anything but a right one ends the run."""
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as sock:
        sock.sendall(request.replace(b":PORT", b":%d" % port, 1))
        answer = b""
        while not is_whole(answer):
            data = sock.recv(1 << 21)
            if not data:
                raise ConnectionError(f"the answer ends early: {answer[:500]!r}")
            answer += data
    if not answer.startswith(b"HTTP/1.1 200") or re.search(b'"error":|"isError":true', answer):
        raise SystemExit(f"a wrong answer: {answer[:500]!r}")
    return answer


def is_whole(answer):
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, flags=re.I)
    return bool(end) and (len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n"))


def pin(core, process=0):
    if hasattr(os, "sched_setaffinity") and os.cpu_count() > 1:
        os.sched_setaffinity(process, {core})


@contextlib.contextmanager
def serving(command, port, *words):
    """Run a server for a block, which begins when it has answered; gives the process."""
    child = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env=ENVIRONMENT, cwd=ROOT)
    pin(0, child.pid)
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                ask(port, INITIALIZE)
                break
            except OSError:
                if child.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"a server did not start: {command}") from None
                time.sleep(0.002)
        yield child
    finally:
        child.kill()
        child.wait()


def find_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def read_memory(child):
    """Return the resident memory of a process in MB."""
    fields = pathlib.Path(f"/proc/{child.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = [=[%s]=]
for name, value in string.gmatch([=[%s]=], "([^:\\n]+): ([^\\n]+)") do wrk.headers[name] = value end
function done(summary, latency)
  local e = summary.errors
  print(string.format("RESULT [%%d, %%d, %%d, %%d]", summary.duration, summary.requests,
        latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def run_wrk(port, load, seconds):
    """Return answers a second, and the milliseconds that all but a hundredth stay under."""
    ask(port, load.request)
    head, _, body = load.request.decode().partition("\r\n\r\n")
    lines = [line for line in head.split("\r\n")[2:] if not line.startswith("Content-Length")]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK_SCRIPT % (body, "\n".join(lines)))
        script.flush()
        out = subprocess.run(
            ["wrk", "-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "10s", "-s",
             script.name, f"http://127.0.0.1:{port}/mcp"],
            capture_output=True, text=True, check=True).stdout
    duration, answers, p99, errors = json.loads(out.partition("RESULT ")[2])
    if errors or not answers:
        raise SystemExit(f"wrong answers: {out}")
    ask(port, load.request)
    return answers / duration * 1e6, p99 / 1000


class Bench:
    """One run: what is measured of whom, and `figures`: (measurement, unit) to target to values."""

    def __init__(self, options):
        self.options, self.figures = options, {}
        self.pythons = {}
        for name, target in TARGETS.items():
            python = pathlib.Path(options.peers or "", target.environment, "bin", "python")
            if options.peers and python.exists():
                self.pythons[name] = str(python.absolute())
            elif target.environment == "empty":
                self.pythons[name] = sys.executable

    def note(self, name, unit, target, value):
        self.figures.setdefault((name, unit), {}).setdefault(target, []).append(value)

    def run(self):
        only, rounds = self.options.only, range(self.options.rounds)
        loads = {name: load for name, load in LOADS.items() if only in name}
        for _ in rounds:
            for name, load in loads.items():
                for target in self.pythons:
                    if re.search(TARGETS[target].loads, name):
                        self.measure_load(name, load, target)
            if only in "server start":
                self.measure_starts()
            if only in "client":
                self.measure_clients()

    def measure_load(self, name, load, target):
        port = find_port()
        command = [self.pythons[target], "-c", TARGETS[target].program]
        with serving(command, port, str(port), load.mode):
            rate, p99 = run_wrk(port, load, self.options.seconds)
        self.note(name, "calls/s", target, rate)
        self.note(name, "p99 ms", target, p99)

    def measure_starts(self):
        """Start each server as its users start it: mcpkit as a script, and as a module too."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "served.py")
            path.write_text(MCPKIT.replace(START, "import sys\nmode = 'json'\n"))
            for target, python in self.pythons.items():
                program = [python, "-c", TARGETS[target].program]
                self.measure_start("server start", target, program)
                as_users = [python, "mcpkit.py", "serve", str(path), "--port"]
                self.measure_start("server start, as a script", target,
                                   as_users if target == "mcpkit" else program)

    def measure_start(self, name, target, command):
        port, started = find_port(), time.perf_counter()
        with serving(command, port, str(port), *([] if "--port" in command else ["json"])) as child:
            self.note(name, "s", target, time.perf_counter() - started)
            self.note(name, "MB", target, read_memory(child))

    def measure_clients(self):
        port = find_port()
        command = [self.pythons["mcpkit"], "-c", TARGETS["mcpkit"].program]
        with serving(command, port, str(port), "json"):
            for target in self.pythons.keys() & CLIENTS.keys():
                client = [self.pythons[target], "-c", CLIENTS[target],
                          f"http://127.0.0.1:{port}/mcp"]
                started = time.perf_counter()
                subprocess.run([*client, "0"], check=True, stdout=subprocess.DEVNULL,
                               env=ENVIRONMENT)
                self.note("client, start to end", "s", target, time.perf_counter() - started)
                out = subprocess.run([*client, "500"], check=True, capture_output=True,
                                     env=ENVIRONMENT).stdout
                self.note("client, one after the other", "calls/s", target, float(out))

    def print(self):
        """Print medians with their spread, and what mcpkit's are of each other's."""
        names = list(self.pythons)
        print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, "
              f"{self.options.rounds} rounds\n")
        rows = [("", *names)]
        ratios = [("mcpkit divided by", *names[1:])]
        for (name, unit), figures in self.figures.items():
            medians = {target: statistics.median(values) for target, values in figures.items()}
            rows.append((f"{name}: {unit}", *(format_cell(figures.get(target)) for target in names)))
            ratios.append((f"{name}: {unit}", *(
                f"{medians['mcpkit'] / medians[target]:.2f}" if target in medians else ""
                for target in names[1:])))
        for table in (rows, ratios):
            for row in table:
                print(f"{row[0]:<36}" + "".join(f"{cell:>16}" for cell in row[1:]))
            print()


def format_cell(values):
    if not values:
        return ""
    median = statistics.median(values)
    spread = (max(values) - min(values)) / 2 / median * 100 if median else 0
    return f"{median:,.{0 if median >= 100 else 3}f} ±{spread:.0f}%"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", metavar="FOLDER", help="with environments sdk, fastmcp, zeromcp "
                        "and empty, as `make bench-peers` makes them")
    parser.add_argument("--only", default="", help="measure only what has this text in its name")
    parser.add_argument("--seconds", type=int, default=2, help="of load a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write all figures to this file")
    bench = Bench(parser.parse_args())
    pin(1)
    bench.run()
    bench.print()
    if bench.options.json:
        rows = [{"name": name, "unit": unit, "figures": figures}
                for (name, unit), figures in bench.figures.items()]
        pathlib.Path(bench.options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
