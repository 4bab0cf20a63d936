"""Have everything go wrong around mcpkit for a while, and see that nothing is lost or kept.

    python .ci/soak.py [--seconds 60] [--seed N] [STAGE ...]

Each stage starts servers of its own (this file is what they serve) and does to them what networks,
disks, handlers and operators do. All the while others ask as they should, each with a word that
nobody else has: the answer must have that word. In the end everything must be as it was before.
What is not is printed, a line each, and the exit code is 1.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import gc
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import mcpkit  # noqa: E402

WAIT = 20.0                            # seconds: nothing takes so long unless something is wrong
CLIENTS = 3                            # that behave, at a time
VANDALS = 5                            # that do not
ON_PURPOSE = "on purpose"              # what handlers say that fail because they are to
META = {mcpkit.META_PROTOCOL_VERSION: "2026-07-28",
        mcpkit.META_CLIENT_CAPABILITIES: mcpkit.TASKS_NEEDED}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
              "clientInfo": {"name": "soak", "version": "0"}}


# ---- what is served, when `mcpkit.py serve` loads this file

def build_server():
    """Return a server whose tools do all that a tool should not."""
    clock, real_time = [0.0], time.time
    time.time = lambda: real_time() + clock[0]       # before the server takes it as its own
    mcpkit.IDLE_THREAD_SECONDS = 1.0                 # or all would take its time to be level
    server = mcpkit.Server("soak", sessions=True)
    released = threading.Event()

    @server.tool
    def echo(word: str, size: int = 0) -> str:
        return word + "." * size

    @server.tool
    def count_up(word: str, ctx: mcpkit.Context, steps: int = 20) -> str:
        for step in range(steps):
            ctx.progress(step, steps, word)
        return word

    @server.tool
    def hang(ctx: mcpkit.Context, stubborn: bool = False) -> str:
        while not (released.wait(0.02) or ctx.cancelled and not stubborn):
            pass
        return "at last"

    @server.tool
    def release() -> str:
        released.set()
        released.clear()
        return ""

    @server.tool
    def fail(way: str) -> str:
        raise {"raise": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt,
               "memory": MemoryError, "generator": GeneratorExit}[way](ON_PURPOSE)

    @server.tool
    def shout(word: str) -> str:
        print("*" * 1000)
        print('{"jsonrpc":"2.0","id":1,"result":{}}', flush=True)
        os.write(1, b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
        return word

    @server.tool
    def ask(ctx: mcpkit.Context) -> str:
        return json.dumps(ctx.elicit("Well?", {"type": "object", "properties": {}}).content)

    @server.tool(task="optional")
    def work(word: str, size: int = 0) -> str:
        released.wait(random.random() / 50)
        return word + "." * size

    @server.tool
    def turn_clock(seconds: float) -> str:
        clock[0] = seconds
        return ""

    @server.tool
    def take_census() -> dict:
        gc.collect()
        return {"threads": threading.active_count(), "sessions": len(server.sessions),
                "listeners": len(server.listeners), "tasks": len(server.tasks._calls),
                "blocks": sys.getallocatedblocks()}

    return server


if __name__ == "mcpkit_target":
    server = build_server()


# ---- starting and ending servers

class Soak:
    """What has gone wrong so far, and what all stages share."""

    def __init__(self, seed):
        self.faults = collections.Counter()
        self.figures = collections.Counter()
        self.random = random.Random(seed)
        self._words = itertools.count(1)

    def expect(self, is_so, fault):
        """Note a fault unless something is so, and return whether it is."""
        if not is_so:
            self.faults[fault] += 1
        return is_so

    def new_word(self):
        """Return a word that nobody else has."""
        return f"word-{next(self._words)}"


class Served:
    """A server in a process of its own. Its output goes to files, so that it never waits for us."""

    def __init__(self, folder, *options, **more):
        self.errors = folder / f"stderr-{time.monotonic_ns()}"
        command = [sys.executable, "-W", "error", "-W", "ignore:This process", ROOT / "mcpkit.py",
                   "serve", __file__, *map(str, options)]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(command, start_new_session=True, stderr=errors,
                                            stdout=subprocess.PIPE, **more)
        self.address = ("127.0.0.1", 0)

    def greet(self):
        """Read where it serves; then have the rest of what it prints read away."""
        line = self.process.stdout.readline().decode()
        match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if match is None:
            raise RuntimeError(f"the server did not start: {line}{self.errors.read_text()}")
        self.address = ("127.0.0.1", int(match.group(1)))
        threading.Thread(target=self._drain, daemon=True).start()
        return self

    def _drain(self):
        """Read what it prints away, until nobody is left who could print."""
        with self.process.stdout as pipe:
            for _ in iter(lambda: pipe.read1(65536), b""):
                pass

    @property
    def url(self):
        return "http://{}:{}/mcp".format(*self.address)

    def kill(self, number=signal.SIGKILL):
        """Send it a signal, wait for its end, and return its exit code, None if there is no end."""
        self.process.send_signal(number)
        try:
            return self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def has_survivors(self):
        """Return whether processes are left of those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, 0)
            return True
        return False

    def find_tracebacks(self):
        """Return the last lines of tracebacks in its log that are not there on purpose."""
        text = self.errors.read_text(errors="replace")
        ends = re.findall(r"^Traceback .*\n(?:[ ].*\n|\n)*(\S.*)", text, re.MULTILINE)
        return [end for end in ends if ON_PURPOSE not in end]


@contextlib.contextmanager
def serve(soak, folder, *options, **more):
    """Run a server over HTTP for a block; then see that it leaves nothing behind."""
    served = Served(folder, "--port", 0, *options, **more).greet()
    try:
        yield served
    finally:
        if served.process.poll() is None:
            soak.expect(served.kill(signal.SIGTERM) == 0, "a server did not end as it should")
        check_remains(soak, served)


def check_remains(soak, served):
    """See that a server which has ended left no process, and no traceback that nobody wanted."""
    if not soak.expect(wait_until(lambda: not served.has_survivors()), "a process has survived"):
        os.killpg(served.process.pid, signal.SIGKILL)
    for line in served.find_tracebacks():
        soak.expect(False, f"a traceback in the log: {line}")


def wait_until(is_so):
    """Return whether something becomes so within WAIT seconds."""
    deadline = time.monotonic() + WAIT
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# ---- asking

def build_call(name, arguments=None, request_id=1, is_legacy=False, **meta):
    """Return a tools/call, modern unless it is to be legacy; `meta` is added to its `_meta`."""
    params = {"name": name, "arguments": arguments or {}}
    if not is_legacy:
        params["_meta"] = {**META, **meta}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def build_request(message, *headers):
    """Return the bytes of the POST of a message; headers are whole lines."""
    body = json.dumps(message).encode()
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", f"Content-Length: {len(body)}",
             *build_modern_headers(message), *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def build_modern_headers(message):
    """Return the lines that a modern message needs."""
    params = message.get("params", {})
    if "_meta" not in params:
        return []
    lines = ["MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {message['method']}"]
    name = params.get("name") or params.get("taskId")
    return lines + ([f"Mcp-Name: {name}"] if name else [])


def read_answers(sock, count=1):
    """Read JSON-RPC responses off a socket, JSON or event streams; return [(HTTP status, it)]."""
    with sock.makefile("rb") as file:
        return [read_answer(file) for _ in range(count)]


def read_answer(file):
    """Read one HTTP answer; return its status and the response in it."""
    response = http.client.HTTPResponse(FileSocket(file))
    response.begin()
    data = response.read()
    if "event-stream" in response.getheader("Content-Type", ""):
        events = mcpkit.SSEParser().feed(data)
        data = next((event.data for event in events if '"method"' not in event.data
                     and event.data), "null")
    return response.status, json.loads(data or b"null"), response.getheader("Mcp-Session-Id")


class FileSocket:
    """What http.client takes for a socket; several answers can be read off the one file."""

    def __init__(self, file):
        self._file = file

    def makefile(self, _):
        return self

    def __getattr__(self, name):
        return getattr(self._file, name)

    def close(self):
        """Leave it open: the next answer is in it."""

    def flush(self):
        """There is nothing to be flushed, also when the file has been closed."""


def ask(address, message, *headers):
    """Send one message on a connection of its own; return (status, response, session id)."""
    with socket.create_connection(address, timeout=WAIT) as sock:
        sock.sendall(build_request(message, *headers))
        return read_answers(sock)[0]


def call_tool(address, name, **arguments):
    """Return the text that a tool answers."""
    return find_text(ask(address, build_call(name, arguments))[1])


def find_text(response):
    """Return the text of a tool's result in a response, None where there is none."""
    result = (response or {}).get("result") or {}
    content = result.get("content") or [{}]
    return content[0].get("text")


def take_census(served):
    """Return what a server holds at the moment, by its own account and that of the system."""
    census = json.loads(call_tool(served.address, "take_census"))
    folder = pathlib.Path("/proc", str(served.process.pid))
    if folder.is_dir():
        census["descriptors"] = len(list((folder / "fd").iterdir()))
        census["children"] = len((folder / "task" / folder.name / "children").read_text().split())
    return census


# ---- those who behave

def be_a_client(soak, served):
    """Use a Client as it is meant to be used, in any era."""
    era = soak.random.choice(["legacy", "modern"])
    with mcpkit.Client(served.url, era=era, timeout=WAIT) as client:
        for _ in range(10):
            word, size = soak.new_word(), soak.random.choice([0, 10, 100_000])
            name = soak.random.choice(["echo", "count_up", "shout"])
            more = {"size": size} if name == "echo" else {}
            result = client.call_tool(name, {"word": word, **more})
            is_right = result["content"][0]["text"] == word + "." * more.get("size", 0)
            soak.expect(is_right, "a client got somebody else's answer")
            soak.figures["answers"] += 1


def be_a_pipeline(soak, served):
    """Send several requests before the first answer, and have the answers in their order."""
    words = [soak.new_word() for _ in range(soak.random.randrange(2, 6))]
    data = b"".join(build_request(build_call("echo", {"word": word}, word)) for word in words)
    with socket.create_connection(served.address, timeout=WAIT) as sock:
        sock.sendall(data)
        answers = read_answers(sock, len(words))
    soak.expect([(answer["id"], find_text(answer)) for _, answer, _ in answers]
                == [(word, word) for word in words], "pipelined answers were mixed up")
    soak.figures["answers"] += len(words)


def be_a_session(soak, served):
    """Open a session, use it, and end it as a client should."""
    session_id = open_session(served)
    line, word = f"Mcp-Session-Id: {session_id}", soak.new_word()
    _, answer, _ = ask(served.address, build_call("count_up", {"word": word}, word, True), line)
    soak.expect((answer["id"], find_text(answer)) == (word, word),
                "a session got somebody else's answer")
    with socket.create_connection(served.address, timeout=WAIT) as sock:
        sock.sendall(f"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{line}\r\n\r\n".encode())
        soak.expect(read_answers(sock)[0][0] == 200, "a session could not be ended")
    soak.figures["answers"] += 1


def open_session(served):
    """Return the id of a new session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    return ask(served.address, message)[2]


def be_a_task(soak, served):
    """Have a task begun, and look until it is done."""
    word, size = soak.new_word(), soak.random.choice([0, 1000])
    task_id = begin_task(served, word, size)
    soak.expect(find_text(find_end(soak, served, task_id)) == word + "." * size,
                "a task has not its own result")
    soak.figures["tasks"] += 1


def find_end(soak, served, task_id):
    """Return what a server says of a task when that has ended, None where it knows none."""
    looks = collections.deque(maxlen=1)
    soak.expect(wait_until(lambda: looks.append(find_task(served, task_id)) or
                           looks[0] is None or looks[0]["status"] != "working"),
                "a task did not end")
    return looks[0]


def begin_task(served, word, size=0):
    """Return the id of a new task."""
    message = build_call("work", {"word": word, "size": size}, word)
    return ask(served.address, message)[1]["result"]["taskId"]


def find_task(served, task_id):
    """Return what a server says of a task, None where it knows none."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get",
               "params": {"taskId": task_id, "_meta": META}}
    return ask(served.address, message)[1].get("result")


def be_a_victim(soak, served):
    """Call tools that fail in every way, and be told so."""
    way = soak.random.choice(["raise", "exit", "interrupt", "memory", "generator"])
    _, answer, _ = ask(served.address, build_call("fail", {"way": way}, 7))
    soak.expect(answer["id"] == 7 and answer["result"]["isError"] and ON_PURPOSE not in
                find_text(answer), "a failed tool did not say so, or said too much")
    soak.figures["answers"] += 1


PEOPLE = [be_a_client, be_a_pipeline, be_a_session, be_a_task, be_a_victim]


# ---- those who do not

def leave_early(soak, sock):
    """Vanish somewhere within a request."""
    data = build_request(build_call("echo", {"word": "x" * 5000}))
    sock.sendall(data[:soak.random.randrange(len(data))])


def leave_before_the_answer(soak, sock):
    """Send all of a request, and be gone."""
    sock.sendall(build_request(build_call(soak.random.choice(["echo", "count_up"]),
                                          {"word": "x"})))


def leave_a_call_that_hangs(soak, sock):
    """Vanish while the handler works, which is told so."""
    sock.sendall(build_request(build_call("hang")))
    time.sleep(soak.random.random() / 10)


def leave_within_the_answer(soak, sock):
    """Read the start of a long answer only."""
    sock.sendall(build_request(build_call("echo", {"word": "x", "size": 3_000_000})))
    sock.recv(1 + soak.random.randrange(100_000))


def leave_within_a_stream(soak, sock):
    """Read the start of an event stream only."""
    call = build_call("count_up", {"word": "x" * 100, "steps": 1000}, progressToken=1)
    sock.sendall(build_request(call))
    sock.recv(1000)


def leave_with_a_question_open(soak, sock, served):
    """Be asked something in a session, and never answer."""
    line = f"Mcp-Session-Id: {open_session(served)}"
    sock.sendall(build_request(build_call("ask", is_legacy=True), line))
    sock.recv(1000)


def leave_a_subscription(soak, sock):
    """Listen, and vanish after the acknowledgement."""
    sock.sendall(build_request({
        "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"_meta": META, "notifications": {"toolsListChanged": True}}}))
    sock.recv(1000)


def leave_a_session_that_listens(soak, sock, served):
    """Open the stream of a session, and vanish."""
    sock.sendall(f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
                 f"Mcp-Session-Id: {open_session(served)}\r\n\r\n".encode())
    sock.recv(1000)


def read_slowly(soak, sock):
    """Take a long answer in small pieces; it must be whole all the same."""
    word = soak.new_word()
    sock.sendall(build_request(build_call("echo", {"word": word, "size": 1_000_000}, word)))
    pieces = []
    for number in range(20):
        pieces.append(sock.recv(3000))
        time.sleep(0.01)
    while b"".join(pieces[-2:])[-4:].count(b"}") < 3:
        pieces.append(sock.recv(1 << 20))
        if not pieces[-1]:
            raise OSError("the answer ended in its middle")
    answer = json.loads(b"".join(pieces).partition(b"\r\n\r\n")[2])
    soak.expect((answer["id"], find_text(answer)) == (word, word + "." * 1_000_000),
                "a slow reader got something else")


def close_one_half(soak, sock):
    """Say that nothing more will come, and wait for the answer."""
    word = soak.new_word()
    sock.sendall(build_request(build_call("echo", {"word": word}, word)))
    sock.shutdown(socket.SHUT_WR)
    _, answer, _ = read_answers(sock)[0]
    soak.expect((answer["id"], find_text(answer)) == (word, word),
                "a half-closed connection got something else")


def send_garbage(soak, sock):
    """Send what is no HTTP, or nearly; what comes back is a refusal or nothing."""
    data = bytearray(build_request(build_call("echo", {"word": "x"})))
    for _ in range(soak.random.randrange(1, 20)):
        data[soak.random.randrange(len(data))] = soak.random.randrange(256)
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: sock.recv(65536), b""))
    soak.expect(b"Internal error" not in answer and b"Traceback" not in answer,
                "garbage had an internal error for an answer")


VANDALISM = [leave_early, leave_before_the_answer, leave_a_call_that_hangs,
             leave_within_the_answer, leave_within_a_stream, leave_with_a_question_open,
             leave_a_subscription, leave_a_session_that_listens, read_slowly, close_one_half,
             send_garbage]
NEED_A_SESSION = {leave_with_a_question_open, leave_a_session_that_listens}


def be_a_vandal(soak, served):
    """Do one of these on a connection of its own, and leave politely or with a reset."""
    act = soak.random.choice(VANDALISM)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        with socket.create_connection(served.address, timeout=WAIT) as sock:
            act(soak, sock, *([served] if act in NEED_A_SESSION else []))
            if soak.random.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    soak.figures["vandalism"] += 1


def turn_the_clock(soak, served):
    """Set the server's clock forward or back by up to a week."""
    call_tool(served.address, "turn_clock", seconds=soak.random.uniform(-6e5, 6e5))
    time.sleep(0.1)


@contextlib.contextmanager
def crowd(soak, served, *extras, may_break=False):
    """Have all kinds of callers at a server during a block; with `may_break` it may vanish."""
    ended = threading.Event()
    allowed = (OSError, http.client.HTTPException, mcpkit.MCPKitError, KeyError,
               json.JSONDecodeError) if may_break else ()

    def repeat(choices):
        while not ended.is_set():
            act = soak.random.choice(choices)
            try:
                act(soak, served)
            except allowed:
                ended.wait(0.01)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                soak.expect(False, f"{act.__name__}: {type(error).__name__}: {error} "
                            f"({pathlib.Path(place.filename).name}:{place.lineno})")
                ended.wait(0.1)

    jobs = [PEOPLE] * CLIENTS + [[be_a_vandal]] * VANDALS + [[extra] for extra in extras]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for choices in jobs:
            pool.submit(repeat, choices)
        try:
            yield
        finally:
            ended.set()


# ---- the stages

def run_traffic(soak, folder, deadline):
    """Everybody at once, handlers that fail, a clock that jumps: nothing may grow."""
    with serve(soak, folder, "--state", folder / "state", "--session-seconds", 1, "--ask-seconds",
               1, "--task-seconds", 1e7, "--max-tasks", 50) as served:
        seconds = max(2.0, (deadline - time.monotonic()) / 4)
        run_crowd(soak, served, seconds)       # to be warm
        before = settle(soak, served, None)
        run_crowd(soak, served, seconds)
        between = settle(soak, served, before)
        run_crowd(soak, served, seconds)
        after = settle(soak, served, before)
        growth = after["blocks"] - between["blocks"]
        soak.expect(growth < 0.05 * between["blocks"],
                    f"memory grew by {growth:,} blocks of {between['blocks']:,}")


def run_crowd(soak, served, seconds):
    """Have all callers at a server for a time."""
    with crowd(soak, served, turn_the_clock):
        time.sleep(seconds)


def settle(soak, served, before):
    """Wait until a server holds no more than before, note a fault if it never does; return that."""
    census = {}

    def is_level():
        time.sleep(1.5)                        # idle threads take turns: give them time to end
        call_tool(served.address, "release")
        open_session(served)                   # which has some of the expired ones go
        census.update(take_census(served))
        limits = {"sessions": 20, "listeners": 0, "tasks": 0, "children": 0,
                  **({"threads": before["threads"] + 3, "descriptors":
                      before.get("descriptors", 0) + 3} if before else {"threads": 12})}
        census["excess"] = {name: value for name, value in census.items()
                            if name in limits and value > limits[name]}
        return not census["excess"]

    soak.expect(wait_until(is_level), f"a server keeps what it should not: {census['excess']}")
    return census


def run_kill(soak, folder, deadline):
    """kill -9 under load, again and again: every task that was acknowledged is still there."""
    options = ["--state", folder / "state", "--max-tasks", 100_000, "--task-seconds", 1e7]
    known = {}                                 # task id: (word, whether it was seen to be done)
    while not known or time.monotonic() < deadline:
        served = Served(folder, "--port", 0, *options).greet()
        with crowd(soak, served, lambda *_: note_task(soak, served, known), may_break=True):
            time.sleep(soak.random.uniform(0.3, 1.5))
            served.kill()
        check_remains(soak, served)
        soak.figures["kills"] += 1
    with serve(soak, folder, *options) as served:
        for task_id, (word, is_done) in known.items():
            check_task(soak, find_end(soak, served, task_id), word, is_done)
    left = sorted(path.name for path in folder.glob("state*"))
    soak.expect(left == ["state"], f"beside the state file there is still {left}")


def note_task(soak, served, known):
    """Begin a task and look at it once; note what was acknowledged."""
    word = soak.new_word()
    task_id = begin_task(served, word)
    known[task_id] = (word, False)
    task = find_task(served, task_id)
    known[task_id] = (word, task["status"] == "completed")
    soak.figures["tasks"] += 1


def check_task(soak, task, word, is_done):
    """See that a task is there, with its own result, or was interrupted before it had one."""
    if soak.expect(task is not None, "an acknowledged task is lost"):
        is_interrupted = task["status"] == "failed" and "interrupted" in task["statusMessage"]
        soak.expect(find_text(task) == word or is_interrupted and not is_done,
                    "a task is not what it was")


def run_stop(soak, folder, deadline):
    """SIGTERM under load, with handlers that hang: it ends in time, and nobody gets nonsense."""
    options = ["--state", folder / "state", "--max-tasks", 100_000, "--task-seconds", 1e7]
    known = {}
    while not known or time.monotonic() < deadline:
        with serve(soak, folder, *options) as served:
            with crowd(soak, served, lambda *_: note_task(soak, served, known), may_break=True):
                time.sleep(soak.random.uniform(0.3, 1.0))
                sock = socket.create_connection(served.address, timeout=WAIT)
                with sock:
                    sock.sendall(build_request(build_call("hang", {"stubborn": True}, "h")))
                    time.sleep(0.3)
                    started = time.monotonic()
                    code = served.kill(signal.SIGTERM)
                    soak.expect(code == 0, f"told to stop, a server ended with {code}")
                    soak.expect(time.monotonic() - started < WAIT / 2, "a server stopped too late")
                    _, answer, _ = read_answers(sock)[0]
                    soak.expect(answer["id"] == "h" and "error" in answer,
                                "who waited when the server stopped was not told")
        soak.figures["stops"] += 1
    with serve(soak, folder, *options) as served:
        for task_id, (word, is_done) in known.items():
            check_task(soak, find_end(soak, served, task_id), word, is_done)


def run_workers(soak, folder, deadline):
    """kill -9 of workers, and of what looks after them: others take their place, or all end."""
    options = ["--state", folder / "state", "--no-sessions", "--workers", 2, "--max-tasks",
               100_000, "--task-seconds", 1e7]
    known = {}
    served = Served(folder, "--port", 0, *options).greet()
    children = pathlib.Path("/proc", str(served.process.pid), "task", str(served.process.pid),
                            "children")
    while children.exists() and (not known or time.monotonic() < deadline):
        former = children.read_text().split()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for _ in range(20):
                pool.submit(note_task, soak, served, known)        # some are cut off: let them
            os.kill(int(former[0]), signal.SIGKILL)
        soak.expect(wait_until(lambda: set(former[:1]).isdisjoint(children.read_text().split())
                               and len(children.read_text().split()) == 2),
                    "a worker that was killed was not replaced")
        soak.figures["kills"] += 1
    for task_id, (word, is_done) in known.items():
        check_task(soak, find_end(soak, served, task_id), word, is_done)
    served.kill()
    check_remains(soak, served)


def run_stdio(soak, folder, deadline):
    """A client over stdio that vanishes, or says nothing sensible: the server ends with it."""
    ways = [leave_stdio_early, leave_stdio_with_calls, fill_stdio, kill_stdio, use_stdio]
    for way in itertools.cycle(ways):
        way(soak, folder)
        soak.figures["stdio"] += 1
        if time.monotonic() > deadline and way is ways[-1]:
            return


@contextlib.contextmanager
def open_stdio(soak, folder, is_killed=False):
    """Run a server over stdio for a block, which closes its input; then it must end."""
    served = Served(folder, "--stdio", stdin=subprocess.PIPE)
    with served.process as process:
        yield process
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(WAIT)
        except subprocess.TimeoutExpired:
            soak.expect(False, "a server over stdio outlived its client")
            process.kill()
    check_remains(soak, served)


def send_lines(process, *messages):
    """Write messages to a process, a line each."""
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()


def leave_stdio_early(soak, folder):
    """Close everything in the middle of a line."""
    with open_stdio(soak, folder) as process:
        process.stdin.write(b'{"jsonrpc": "2.0", "id"')
        process.stdout.close()


def leave_stdio_with_calls(soak, folder):
    """Close the input while handlers hang."""
    with open_stdio(soak, folder) as process:
        send_lines(process, *(build_call("hang", {"stubborn": True}, number)
                              for number in range(20)))


def fill_stdio(soak, folder):
    """Ask for more than the pipe holds, and read nothing of it."""
    with open_stdio(soak, folder) as process:
        send_lines(process, *(build_call("echo", {"word": "x", "size": 100_000}, number)
                              for number in range(20)))
        time.sleep(0.2)
        process.stdout.close()


def kill_stdio(soak, folder):
    """SIGTERM, with handlers that hang."""
    with open_stdio(soak, folder) as process:
        send_lines(process, build_call("echo", {"word": "x"}), build_call("hang", {}, 2))
        process.stdout.readline()
        process.terminate()
        soak.expect(process.wait(WAIT) == 0, "a server over stdio did not stop as it should")


def use_stdio(soak, folder):
    """Ask as one should, between lines of garbage; each answer belongs to its question."""
    words = [soak.new_word() for _ in range(50)]
    choices = [("echo", {}), ("shout", {}), ("count_up", {})]
    calls = [build_call("fail", {"way": "exit"}, "fail")]
    for word in words:
        name, more = soak.random.choice(choices)
        calls.append(build_call(name, {"word": word, **more}, word))
    with open_stdio(soak, folder) as process:
        process.stdin.write(b"\xff\n\n[1,\n")
        send_lines(process, *calls)
        answers = [json.loads(process.stdout.readline()) for _ in range(2 + len(calls))]
        texts = {answer["id"]: find_text(answer) for answer in answers if "result" in answer}
        texts.pop("fail", None)
        soak.expect(texts == {word: word for word in words}, "answers over stdio were mixed up")
    soak.figures["answers"] += len(words)


def run_disk(soak, folder, deadline):
    """A full disk and a folder that nothing can be written to, under tasks and tokens."""
    with contextlib.ExitStack() as stack:
        for disk in (limit_file_size, mount_small_disk):
            with disk(folder) as (place, more, make_room):
                if place is None:
                    print("soak: no small disk was mounted (that takes root): left out")
                else:
                    fill_state(soak, folder, place, more, make_room)
                    fill_tokens(soak, place)
        place = stack.enter_context(open_read_only(folder))
        if place is None:
            print("soak: no folder is read-only for root: left out")
        else:
            refuse_state(soak, folder, place)
            refuse_tokens(soak, place)


@contextlib.contextmanager
def limit_file_size(folder):
    """Have no file of a server's grow beyond 2 MB."""
    import resource
    place = folder / "limited"
    place.mkdir()
    size = 2_000_000

    def make_room(served):
        if hasattr(resource, "prlimit"):
            resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (1 << 30, -1))
        return hasattr(resource, "prlimit")

    yield place, {"preexec_fn": lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))}, make_room


@contextlib.contextmanager
def mount_small_disk(folder):
    """Mount a disk of 8 MB, half of which is taken."""
    with mount(folder / "small", "size=8m") as place:
        if place is not None:
            (place / "filler").write_bytes(b"x" * 4_000_000)
        yield place, {}, lambda _: not (place / "filler").unlink()


@contextlib.contextmanager
def mount(place, options):
    """Mount a disk in memory for a block; None where that is not allowed."""
    place.mkdir()
    run = None
    if sys.platform == "linux" and shutil.which("mount"):
        run = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "mcpkit-soak", str(place)],
                             stderr=subprocess.DEVNULL)
    is_mounted = run is not None and run.returncode == 0
    try:
        yield place if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def open_read_only(folder):
    """Give a folder in which nothing can be written; None where there is no such thing."""
    place = folder / "read-only"
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        place.mkdir(mode=0o555)
        yield place
        return
    with mount(place, "ro") as mounted:
        yield mounted


def fill_state(soak, folder, place, more, make_room):
    """Begin tasks until the disk is full; it is said so, and nothing that was said is lost."""
    known, refusals = {}, []
    with serve(soak, folder, "--state", place / "state", "--max-tasks", 100_000, "--task-seconds",
               1e7, **more) as served:
        for _ in range(1000):
            word = soak.new_word()
            message = build_call("work", {"word": word, "size": 50_000}, word)
            status, answer, _ = ask(served.address, message)
            if "error" in answer:
                refusals.append((status, answer["error"]))
                break
            known[answer["result"]["taskId"]] = (word + "." * 50_000, False)
        if soak.expect(refusals, "the disk is never full"):
            soak.expect("no task can be kept" in refusals[0][1]["message"],
                        f"a full disk is not told: {refusals[0][1]['message']}")
        soak.expect(call_tool(served.address, "echo", word="w") == "w",
                    "with a full disk, nothing goes")
        check_tasks(soak, served, known)
        if make_room(served):
            soak.expect(wait_until(lambda: "result" in ask(
                served.address, build_call("work", {"word": "again"}))[1]),
                "with room again, no task begins")
            check_tasks(soak, served, known)
    with serve(soak, folder, "--state", place / "state", "--max-tasks", 100_000) as served:
        check_tasks(soak, served, known)


def check_tasks(soak, served, known):
    """See that each task is there."""
    for task_id, (word, is_done) in known.items():
        message = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get",
                   "params": {"taskId": task_id, "_meta": META}}
        _, answer, _ = ask(served.address, message)
        if soak.expect("result" in answer, f"a task cannot be read: {answer.get('error')}"):
            check_task(soak, answer["result"], word, is_done)


# Writes tokens until it no longer can, and says what it was told, and what there is then.
WRITE_TOKENS = """
import os, resource, sys, mcpkit
store, limit = mcpkit.TokenFile(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
identity, kept, error = mcpkit.ClientIdentity("c"), 0, None
while error is None:
    try:
        with store.locked() as tokens:
            tokens.put(mcpkit.TokenRecord("https://as", f"https://h/{kept}", identity, "x" * 9999))
        kept += 1
    except mcpkit.UsageError as told:
        error = told
print(error, len(store.read().to_json()["tokens"]) == kept,
      sorted(os.listdir(os.path.dirname(sys.argv[1]))), sep="\\n")
"""


def fill_tokens(soak, place):
    """Have no room for tokens: that is an error of one line, and the file is as it was."""
    folder = place / "tokens"
    run = subprocess.run([sys.executable, "-c", WRITE_TOKENS, folder / "tokens.json", "1000000"],
                         cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=WAIT)
    lines = run.stdout.splitlines()
    soak.expect(len(lines) == 3 and "cannot be written" in lines[0]
                and lines[1:] == ["True", "['tokens.json', 'tokens.json.lock']"],
                f"no room for tokens: {lines}")


def refuse_tokens(soak, place):
    """Keep no tokens where nothing can be written, and say so."""
    try:
        with mcpkit.TokenFile(str(place / "tokens.json")).locked():
            soak.expect(False, "tokens were kept in a read-only folder")
    except mcpkit.UsageError as error:
        soak.expect("cannot be written" in str(error), f"a read-only folder is told as: {error}")


def refuse_state(soak, folder, place):
    """Serve nothing with a state file that cannot be written, and say so in one line."""
    served = Served(folder, "--port", 0, "--state", place / "state")
    with served.process as process:
        code = process.wait(WAIT)
    text = served.errors.read_text()
    soak.expect(code == 2 and text.count("\n") == 1 and "cannot be used" in text,
                f"a read-only folder ends a server with {code}: {text.strip()}")


# Each with its share of the time.
STAGES = {"traffic": (run_traffic, 6), "kill": (run_kill, 3), "stop": (run_stop, 2),
          "workers": (run_workers, 1), "stdio": (run_stdio, 2), "disk": (run_disk, 1)}


def count_own():
    """Return what this process holds: threads and descriptors."""
    folder = pathlib.Path("/proc/self/fd")
    return threading.active_count(), len(list(folder.iterdir())) if folder.is_dir() else 0


def main(words=None):
    """Run stages; return 0 when all is well, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE",
                        help="what to do, of: " + ", ".join(STAGES) + " (default: all)")
    parser.add_argument("--seconds", type=float, default=60, help="in all (%(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10 ** 6)
    options = parser.parse_args(words)
    names = options.stages or list(STAGES)
    soak, shares = Soak(options.seed), sum(STAGES[name][1] for name in names)
    for name in names:
        run, share = STAGES[name]
        started, before = time.monotonic(), count_own()
        with tempfile.TemporaryDirectory(prefix="mcpkit-soak-") as folder:
            try:
                run(soak, pathlib.Path(folder), started + options.seconds * share / shares)
            except Exception as error:
                traceback.print_exc()
                soak.expect(False, f"{name} broke off: {type(error).__name__}: {error}")
        soak.expect(wait_until(lambda: count_own() <= before),
                    f"the clients of {name} left threads or descriptors: {count_own()}, {before}")
        print(f"soak: {name} took {time.monotonic() - started:.0f} s", flush=True)
    for fault, times in soak.faults.items():
        print(f"soak: {fault}" + (f" ({times} times)" if times > 1 else ""))
    figures = ", ".join(f"{count:,} {name}" for name, count in sorted(soak.figures.items()))
    print(f"soak: {len(soak.faults)} faults with seed {options.seed} ({figures})")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
