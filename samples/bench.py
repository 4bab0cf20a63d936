"""Measure mcpkit's server beside a plain http.server, and how long commands take to start.

    python samples/bench.py [--seconds S] [--rounds N] [--json]

Both servers answer the same modern `tools/call` of pong over 16 keep-alive connections. The plain
one is http.server tuned as far as it goes (no Nagle, one write an answer, HTTP/1.1) with a fixed
answer and no checks. Server and load are pinned to a core each where the system can. The load
comes from wrk where it is installed, else from this file, whose own cost then flattens the ratio.
Machines differ and are noisy: only the ratio, taken in rounds of one run, means something.
"""
import argparse
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
import time

MCPKIT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mcpkit.py")
CONNECTIONS = 16

MESSAGE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "pong", "arguments": {"message": "ping"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}}}}).encode()
REQUEST = (b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
           b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
           b"Mcp-Method: tools/call\r\nMcp-Name: pong\r\nContent-Length: %d\r\n\r\n%b"
           % (len(MESSAGE), MESSAGE))


class PlainHandler(http.server.BaseHTTPRequestHandler):
    """The yardstick: reads a body, sends a fixed answer in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"pong"}]}}'

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.ANSWER)))
        self.end_headers()
        self.wfile.write(self.ANSWER)
        self.wfile.flush()

    def log_request(self, *_):
        pass


def serve_plain():
    class PlainServer(http.server.ThreadingHTTPServer):
        request_queue_size = 512

        def handle_error(self, *_):
            """The load's connections end abruptly; that is no error here."""

    server = PlainServer(("127.0.0.1", 0), PlainHandler)
    print(f"http://127.0.0.1:{server.server_address[1]}/mcp", flush=True)
    server.serve_forever()


def pin(core, process=0):
    """Keep a process (0: this one) on one core, where the system can."""
    if hasattr(os, "sched_setaffinity") and core < (os.cpu_count() or 1):
        os.sched_setaffinity(process, {core})


def start(command):
    """Start a server on the first core and return it with its port."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pin(0, child.pid)
    line = child.stdout.readline()
    return child, int(line.split("127.0.0.1:")[1].split("/")[0])


def read_answer(sock):
    """Return one whole answer; wrong ones end the run."""
    data = b""
    while True:
        data += sock.recv(65536)
        head, end, body = data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if end and len(body) >= int(length):
            break
    if b"pong" not in body or not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a wrong answer: {data[:500]!r}")
    return data


def load(port, seconds):
    """Return requests a second over CONNECTIONS connections.

    The first answer of each is read and checked; the others must be as long and end alike, so
    that checking them costs the load little.
    """
    selector, missing, size, tail = selectors.DefaultSelector(), {}, 0, b""
    for _ in range(CONNECTIONS):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(REQUEST)
        answer = read_answer(sock)
        size, tail = len(answer), answer[-20:]
        selector.register(sock, selectors.EVENT_READ)
        missing[sock] = size
        sock.sendall(REQUEST)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        for key, _ in selector.select(1):
            sock = key.fileobj
            data = sock.recv(65536)
            missing[sock] -= len(data)
            if missing[sock] > 0 and data:
                continue
            if missing[sock] or not data.endswith(tail):
                raise SystemExit(f"a wrong answer: {data[:500]!r}")
            done, missing[sock] = done + 1, size
            sock.sendall(REQUEST)
    rate = done / (time.perf_counter() - started)
    for sock in missing:
        sock.close()
    return rate


WRK_SCRIPT = """
wrk.method = "POST"
wrk.body = [=[%s]=]
for name, value in string.gmatch([=[%s]=], "([^:\\n]+): ([^\\n]+)") do wrk.headers[name] = value end
"""


def load_with_wrk(port, seconds):
    """Return requests a second as wrk measures them; one answer is checked before."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(REQUEST)
        read_answer(sock)
    lines = [line for line in REQUEST.decode().partition("\r\n\r\n")[0].split("\r\n")[2:]
             if not line.startswith("Content-Length")]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK_SCRIPT % (MESSAGE.decode(), "\n".join(lines)))
        script.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s", "-s",
                              script.name, f"http://127.0.0.1:{port}/mcp"],
                             capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out:
        raise SystemExit(f"wrong answers: {out}")
    return float(re.search(r"Requests/sec: +([0-9.]+)", out).group(1))


def measure_rates(seconds, rounds):
    """Return the requests a second of both servers, a list each, taken in turns."""
    servers = {"mcpkit": start([sys.executable, MCPKIT, "serve", "--port", "0"]),
               "plain http.server": start([sys.executable, __file__, "--plain"])}
    rates = {name: [] for name in servers}
    measure = load_with_wrk if shutil.which("wrk") else load
    try:
        for _ in range(rounds):
            for name, (_, port) in servers.items():
                rates[name].append(measure(port, seconds))
    finally:
        for child, _ in servers.values():
            child.terminate()
            child.wait()
    return rates


def measure_start(arguments):
    """Return the processor seconds of a whole command, the median of five."""
    def run():
        before = os.times()
        subprocess.run([sys.executable, MCPKIT, *arguments], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return (after.children_user - before.children_user
                + after.children_system - before.children_system)
    return statistics.median(run() for _ in range(5))


def measure_starts():
    """Return the start-up costs of `--help` and of a `call`."""
    child, port = start([sys.executable, MCPKIT, "serve", "--port", "0"])
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        return {"--help": measure_start(["--help"]),
                "call": measure_start(["call", url, "pong", "message=ping"])}
    finally:
        child.terminate()
        child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of load a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain:
        return serve_plain()
    pin(1)
    rates = measure_rates(options.seconds, options.rounds)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = medians["mcpkit"] / medians["plain http.server"]
    starts = measure_starts()
    if options.json:
        print(json.dumps({"requestsPerSecond": rates, "ratio": ratio, "cpuSeconds": starts}))
        return None
    print(f"tools/call of pong, {CONNECTIONS} keep-alive connections, Python "
          f"{sys.version.split()[0]}, {os.cpu_count()} cores, load from "
          + ("wrk" if shutil.which("wrk") else "this file"))
    for name, values in rates.items():
        print(f"  {name:<20} {medians[name]:8.0f} requests/s   (rounds: "
              f"{', '.join(f'{value:.0f}' for value in values)})")
    print(f"  ratio                {ratio:8.2f}")
    for name, seconds in starts.items():
        print(f"  start of {name:<11} {seconds:8.3f} s of processor time")
    return None


if __name__ == "__main__":
    main()
