#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""mcpkit: the Model Context Protocol in one file, with the standard library only.

A threaded server, a client, an event-stream parser and a probe, for every revision of the
protocol from 2024-11-05 to 2026-07-28. Copy this file anywhere and run it:

    python3 mcpkit.py serve                                   a server with one tool, pong
    python3 mcpkit.py probe http://127.0.0.1:8000/mcp         what works, and what is wrong
    python3 mcpkit.py call http://127.0.0.1:8000/mcp pong message=ping

or import it:

    from mcpkit import Client, Context, Server, ToolError

*Legacy* means the revisions that open with an `initialize` handshake (up to 2025-11-25), *modern*
those whose requests stand alone (2026-07-28 and later); both sides speak both.

The core comes first and works by itself. Its sections follow a request through the server, then
through the client; then come the probe and the command line. Each extra, from its banner to the
next, can be cut off together with those that need it: what is left has fewer commands and options.
Sections marked "pure" do no input or output and read no clock. Search for "# 8. " to go
to section 8.

Contents
     1. PROTOCOL FACTS        pure   revisions, methods, error codes, limits: one table of each
     2. ERRORS                pure   the exceptions that this file raises
     3. JSON-RPC MESSAGES     pure   bytes to a request, notification or response, and back
     4. SERVER-SENT EVENTS    pure   SSEParser: bytes of a stream to events
     5. HTTP RULES            pure   reading a head and its headers; comparing Host and Origin
     6. JSON SCHEMA           pure   checking a value against a schema (tools' schemas: 7)
     7. TYPES AND SIGNATURES  pure   a function's annotations to the schemas of a tool
     8. REQUEST CHECKS        pure   refusing a request: its Host, Origin, path, version, params
     9. SESSIONS AND STREAMS  pure   legacy sessions, and the messages kept for their readers
    10. INPUT REQUESTS        pure   a handler asks the client: elicit, sample, roots
    11. SERVER                pure   Server and Context: a message to the answer of its handler
    12. HTTP SERVER                  connections, threads, signals, the log
    13. STDIO SERVER                 messages as lines of standard input and output
    14. CLIENT MESSAGES       pure   what an answer means, and which era a server speaks
    15. HTTP CLIENT                  connections, proxies, certificates, redirects
    16. CLIENT TRANSPORTS            sending a message and finding its answer, over HTTP or stdio
    17. CLIENT                       Client: tools, resources, prompts, lists, input requests
    18. PROBE                        a server tried layer by layer; its verdict and headline
    19. COMMAND LINE                 commands, options, exit codes

Extras
    20. ACCESS                       callers of a server have tokens and scopes
    21. TASKS                        calls that go on after their answer
    22. WORKERS                      several processes serve one port
    23. HTTP+SSE                     the transport of 2024-11-05, for the client
    24. LOGIN                        OAuth for the client (needs 20)
    25. CONFIGURATION FILES          servers named in the files of other programs
    26. PROBE RULES                  the rules of the protocol, tried one by one
    27. PROBE DISCOVERY              what a host says of its servers, and ours of itself (needs 24)
    28. REPORTS               pure   the probe's report as JUnit or HTML (needs 29)
    29. TRANSCRIPTS           pure   exchanges in a .http file
    30. MOCK AND FAULTS              a server played from a transcript (needs 29)
    31. RECORD AND REPLAY            a transcript written, and played to a server (needs 29, 30)
"""
from __future__ import annotations

import base64
import binascii
import contextlib
import enum
import functools
import http.client
import http.server
import io
import json
import math
import operator
import os
import queue
import re
import select
import selectors
import socket
import socketserver
import string
import struct
import sys
import threading
import time
import types
import typing
import urllib.parse
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import (Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping,
                             MutableSequence, MutableSet, Sequence, Set)
from itertools import chain, count, cycle, islice
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union
from typing import get_args, get_origin, get_type_hints
from urllib.parse import urljoin

__version__ = "0.2.0"
__all__ = [
    "Channel", "Client", "Context", "Elicitation", "Elicited", "Exchange", "HTTPError",
    "HTTPService",
    "MCPError", "MCPKitError", "Network", "ProtocolError", "QuestionError", "Roots", "SSEEvent",
    "SSEParser", "Sampling", "SchemaError", "Server", "StdioService", "ToolError", "ToolResult",
    "TransportError", "UsageError", "format_report", "main", "probe", "schema_errors",
]


# =============================================================================================
# 1. PROTOCOL FACTS
# =============================================================================================
# Each fact of the protocol is one row of one table here; the rest of the file looks it up.
# Constants that one section uses alone are in that section.

JSONRPC_VERSION = "2.0"

# Oldest first. The order of revisions is the order of this tuple, never that of the strings.
PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
LEGACY_VERSIONS = PROTOCOL_VERSIONS[:4]
MODERN_VERSIONS = PROTOCOL_VERSIONS[4:]
LATEST_LEGACY_VERSION = LEGACY_VERSIONS[-1]
LATEST_MODERN_VERSION = MODERN_VERSIONS[-1]
SUPPORTED_VERSIONS = PROTOCOL_VERSIONS[::-1]     # newest first: as a server lists them
# Spec: 2025-11-25 transports, Protocol Version Header: what a request without one means.
ASSUMED_VERSION = "2025-03-26"

META_PREFIX = "io.modelcontextprotocol/"
META_PROTOCOL_VERSION = META_PREFIX + "protocolVersion"
META_CLIENT_INFO = META_PREFIX + "clientInfo"
META_CLIENT_CAPABILITIES = META_PREFIX + "clientCapabilities"
META_LOG_LEVEL = META_PREFIX + "logLevel"
META_SERVER_INFO = META_PREFIX + "serverInfo"
META_SUBSCRIPTION_ID = META_PREFIX + "subscriptionId"

HEADER_PROTOCOL_VERSION = "MCP-Protocol-Version"
HEADER_METHOD = "Mcp-Method"
HEADER_NAME = "Mcp-Name"
HEADER_SESSION_ID = "Mcp-Session-Id"

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream"
RPC_ACCEPT = JSON_TYPE + ", " + STREAM_TYPE

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND_LEGACY = -32002     # never sent; some legacy servers still answer with it

# The HTTP status of the answer with an error, in the legacy and in the modern era (any other code:
# 200). Legacy errors of a request that was accepted travel in a 200, as every legacy SDK expects.
ERROR_STATUS = {
    PARSE_ERROR: (400, 400), INVALID_REQUEST: (400, 400), METHOD_NOT_FOUND: (200, 404),
    INVALID_PARAMS: (200, 400), HEADER_MISMATCH: (400, 400), MISSING_CLIENT_CAPABILITY: (200, 400),
    UNSUPPORTED_VERSION: (400, 400), RESOURCE_NOT_FOUND_LEGACY: (200, 400),
}
# The codes that prove a modern server to a client that is looking for one.
# Spec: streamable-http, Backward Compatibility.
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION)

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# The notification that the list of a feature has changed. A modern client names it in its filter
# ("toolsListChanged"); a legacy client gets it whenever it listens.
LIST_CHANGES = {feature: f"notifications/{feature}/list_changed"
                for feature in ("tools", "prompts", "resources")}


class Method(NamedTuple):
    """What the protocol says of one method that a client sends.

    `versions` are the revisions that have it, `capability` the feature of the server that it is
    part of. `params` maps a member of `params` to its type and whether it is required;
    `name_param` is the member that the header `Mcp-Name` repeats. A handler of a method that
    `asks` may ask the client for input. `needs` are the capabilities that the client must have
    declared. A method that is `slow` runs the author's code, or listens.
    """

    versions: Tuple[str, ...] = PROTOCOL_VERSIONS
    capability: Optional[str] = None
    params: Dict[str, Tuple[type, bool]] = {}
    name_param: Optional[str] = None
    cacheable: bool = False
    asks: bool = False
    needs: dict = {}
    slow: bool = False


_CURSOR = {"cursor": (str, False)}
# Spec: basic/patterns/mrtr: what a call that was asked something brings back.
_ROUND = {"inputResponses": (dict, False), "requestState": (str, False)}
_NAME_AND_ARGUMENTS = {"name": (str, True), "arguments": (dict, False), **_ROUND}
_URI = {"uri": (str, True)}

METHODS = {
    "initialize": Method(LEGACY_VERSIONS, params={"protocolVersion": (str, True)}),
    "server/discover": Method(MODERN_VERSIONS, cacheable=True),
    "ping": Method(LEGACY_VERSIONS),
    "tools/list": Method(PROTOCOL_VERSIONS, "tools", _CURSOR, cacheable=True),
    "tools/call": Method(PROTOCOL_VERSIONS, "tools", _NAME_AND_ARGUMENTS, "name", asks=True,
                         slow=True),
    "resources/list": Method(PROTOCOL_VERSIONS, "resources", _CURSOR, cacheable=True),
    "resources/templates/list": Method(PROTOCOL_VERSIONS, "resources", _CURSOR, cacheable=True),
    "resources/subscribe": Method(LEGACY_VERSIONS, "resources", _URI),
    "resources/unsubscribe": Method(LEGACY_VERSIONS, "resources", _URI),
    "subscriptions/listen": Method(MODERN_VERSIONS, params={"notifications": (dict, True)},
                                   slow=True),
    "resources/read": Method(PROTOCOL_VERSIONS, "resources", {**_URI, **_ROUND}, "uri",
                             cacheable=True, asks=True, slow=True),
    "prompts/list": Method(PROTOCOL_VERSIONS, "prompts", _CURSOR, cacheable=True),
    "prompts/get": Method(PROTOCOL_VERSIONS, "prompts", _NAME_AND_ARGUMENTS, "name", asks=True,
                          slow=True),
    "completion/complete": Method(PROTOCOL_VERSIONS, "completions", {
        "ref": (dict, True), "argument": (dict, True), "context": (dict, False)}, slow=True),
    "logging/setLevel": Method(LEGACY_VERSIONS, "logging", {"level": (str, True)}),
}


# Every bound that a server keeps: its default, and what it means. Each is an option of `serve` and
# an argument of `Server`; a default that is a float is a number of seconds.
LIMITS = {
    "max_head": (64 * 1024, "bytes of a request line with its headers (431 beyond)"),
    "max_headers": (100, "headers of one request (431 beyond)"),
    "max_body": (4 * 1024 * 1024,
                 "bytes of a request's body, or of a line on stdio (413 beyond)"),
    "max_depth": (100, "levels of nesting in a JSON message (400 beyond)"),
    "max_connections": (
        1000, "connections at a time (503 beyond), or calls on stdio (an error beyond)"),
    "max_sessions": (
        10_000, "legacy sessions at a time (the one idle for longest makes room)"),
    "read_seconds": (30.0, "seconds that a head or a body may take to arrive (408 beyond), and "
                           "each MiB of an answer to be taken"),
    "idle_seconds": (60.0, "seconds that a kept-alive connection may be silent"),
    "session_seconds": (1800.0, "seconds after which an idle legacy session ends"),
    "ask_seconds": (300.0, "seconds that a call waits for what it asked of a legacy client"),
    "state_seconds": (600.0, "seconds that a modern client has to answer what a call asked"),
    "max_events": (
        1000, "messages kept for one listener, or for a session that resumes its streams"),
    "max_event_bytes": (4 * 1024 * 1024,
                        "bytes of those messages (the newest is kept whatever its size)"),
    "max_subscriptions": (1000, "resources that one client may subscribe to"),
}


class Limits:
    """The values of LIMITS that one server keeps, each as an attribute."""

    def __init__(self, **changes: float):
        vars(self).update({name: default for name, (default, _) in LIMITS.items()}, **changes)

    def replace(self, **changes: float) -> Limits:
        """Return the same limits with some changed."""
        return Limits(**{**vars(self), **changes})


MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_ANSWER_DEPTH = 400                 # well within what CPython's own encoder can nest
OPEN_SECONDS = 1.0                     # for the head of a stream: some servers send none so soon
LISTEN_SECONDS = 7 * 24 * 3600.0       # that a stream of changes may be silent
MAX_CLIENT_CHARS = 64 * 1024           # of what a client says of itself, or is subscribed to
KEEP_ALIVE_SECONDS = 15.0
STOP_LOOK_SECONDS = 0.01               # how often a service looks whether its block has ended
STOP_SECONDS = 2.0                     # in which running calls may answer a server that stops
DISCOVER_SECONDS = 5.0                 # a silent stdio server is legacy after this
MAX_TOKEN_CHARS = 16 * 1024


# =============================================================================================
# 2. ERRORS
# =============================================================================================
#   MCPKitError              everything that this file raises on purpose
#    ├── MCPError            a JSON-RPC error: to be sent, or received from the peer
#    ├── HTTPError           an HTTP request was refused with a status of its own
#    ├── ProtocolError       the peer broke a rule of HTTP, JSON-RPC or MCP
#    ├── TransportError      there was no answer: unreachable, cut off, or too late
#    ├── QuestionError       the server asks for input, and the client has no answer for it
#    ├── ToolError           raised by a tool: becomes a result with isError
#    ├── SchemaError         a JSON Schema or a function signature cannot be used
#    └── UsageError          the caller asked for something that is not valid


class MCPKitError(Exception):
    """Base of every error that mcpkit raises; its text is one sentence for a person."""

    kind = "error"


class MCPError(MCPKitError):
    """A JSON-RPC error with `code`, `message` and optional `data`.

    Raised by a handler it becomes the error response; raised by the client it is the peer's.
    `http_status` is the status that carried a received one, None without HTTP.
    """

    kind = "peer"

    def __init__(self, code: int, message: str, data: Any = None,
                 http_status: Optional[int] = None):
        super().__init__(message)
        self.code, self.message, self.data, self.http_status = code, message, data, http_status

    def __str__(self) -> str:
        status = f" (HTTP {self.http_status})" if self.http_status not in (None, 200) else ""
        data = "" if self.data is None else f" {shorten(self.data)}"
        return f"error {self.code}{status}: {self.message}{data}"

    def to_wire(self) -> dict:
        """Return the `error` member of a JSON-RPC error response."""
        error = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


class HTTPError(MCPKitError):
    """An HTTP request is answered with `status`, and goes no further.

    `headers` is a tuple of (name, value) pairs for the answer. Its body is the JSON-RPC error
    `error`, with `code` and `data`, without an id.
    """

    kind = "refused"

    def __init__(self, status: int, message: str, headers: tuple = (),
                 code: int = INVALID_REQUEST, data: Any = None):
        super().__init__(message)
        self.status, self.headers, self.error = status, headers, MCPError(code, message, data)


class ProtocolError(MCPKitError):
    """The peer sent something that the protocol does not allow; the text says what was seen."""

    kind = "protocol"


class TransportError(MCPKitError):
    """There was no answer: the peer could not be reached, vanished, or took too long.

    `timed_out` is true for the last of these. `layer` is what failed ("name", "tcp", "proxy",
    "tls", "http", "start"; "" if unknown), `hint` one sentence about what to try, or "".
    """

    kind = "transport"

    def __init__(self, text: str, timed_out: bool = False, layer: str = "", hint: str = ""):
        super().__init__(text)
        self.timed_out, self.layer, self.hint = timed_out, layer, hint


class QuestionError(MCPKitError):
    """The server asks for input before it answers, and this client has no answer for it.

    `questions` maps each key to {"method": ..., "params": ...}.
    """

    kind = "question"

    def __init__(self, questions: Dict[str, dict]):
        super().__init__("the server asks something before it answers: "
                         + "; ".join(f"{shorten(key, 40)}: {describe_question(question)}"
                                     for key, question in questions.items()))
        self.questions = questions


class ToolError(MCPKitError):
    """Raised by a tool to tell the model what went wrong: the result gets `isError: true`."""

    kind = "tool"


class SchemaError(MCPKitError):
    """A JSON Schema cannot be used: unknown dialect, broken, or pointing outside itself."""

    kind = "schema"


class UsageError(MCPKitError):
    """What the caller asked for is not valid; the text says what would be."""

    kind = "usage"


def escape_text(text: str, keep: str = "") -> str:
    """Return text in which every character that a terminal would obey is a visible escape.

    Unprintable are controls, escapes, bidirectional and zero-width marks, and lone surrogates.
    Characters in `keep` (for example a newline) stay. All text of a peer is shown like this.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in keep
                   else repr(character)[1:-1] for character in text)


def shorten(value: Any, limit: int = 200) -> str:
    """Return a value as one escaped line, cut after `limit` characters, for an error text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        try:
            value = json.dumps(value, default=repr)
        except (TypeError, ValueError, RecursionError):
            value = f"a {type(value).__name__} that cannot be shown"
    text = escape_text(value[:limit + 1])
    return text if len(text) <= limit else text[:limit] + "..."


def must_be(what: str, wanted: str, value: Any, limit: int = 200) -> str:
    """Return the text of an error about a value: what it is, what it must be, what was seen."""
    return f"{what} must be {wanted}, but is {shorten(value, limit)}"


# =============================================================================================
# 3. JSON-RPC MESSAGES
# =============================================================================================
# In: the bytes of one message (or, in 2025-03-26, of one batch). Out: frozen Request,
# Notification and Response tuples, and bytes again. Ids and envelopes are read strictly.
# They are named tuples, not dataclasses: two times faster to make, and cheaper to import.

MAX_NUMBER_DIGITS = 4300               # CPython's own bound from 3.11 on; older ones have none


class Request(NamedTuple):
    """A call that wants an answer; `id` is a string or an integer."""

    id: Union[str, int]
    method: str
    params: dict


class Notification(NamedTuple):
    """A message that is never answered."""

    method: str
    params: dict


class Response(NamedTuple):
    """The answer to the request with the same id: a result, or an error."""

    id: Union[str, int, None]
    result: Optional[dict]
    error: Optional[MCPError]


Message = Union[Request, Notification, Response]

# ASCII only, so that U+2028 and friends in a text never end a line for a sloppy reader.
# `JSONEncoder.encode` makes a new C encoder for each value: one for all is twice as fast.
_encode_parts = json.encoder.c_make_encoder(
    None, json.JSONEncoder().default, json.encoder.encode_basestring_ascii, None, ":", ",",
    False, False, False)


def encode_json(value: Any) -> str:
    """Return a JSON value as compact ASCII text; raises ValueError for NaN and Infinity."""
    return "".join(_encode_parts(value, 0))


def format_message(message: Any) -> bytes:
    """Return a JSON value as compact ASCII bytes; raises ValueError for NaN and Infinity."""
    return "".join(_encode_parts(message, 0)).encode("ascii")


_JSON_SPACE = " \t\r\n"


def _parse_number(make: type, text: str) -> Union[int, float]:
    """Return a number; ValueError if it is no JSON, or so long that reading it costs much."""
    digits = len(text) if len(text) <= MAX_NUMBER_DIGITS else sum(map(str.isdigit, text))
    if digits > MAX_NUMBER_DIGITS:
        raise ValueError(f"a number of {digits} digits (at most {MAX_NUMBER_DIGITS})")
    number = make(text)
    if make is float and not math.isfinite(number):
        raise ValueError(f"{text} is not JSON" if text.isalpha() or text == "-Infinity" else
                         f"the number {text[:40]} is out of range")
    return number


_parse_float = functools.partial(_parse_number, float)
# Short texts hold no long number, and the decoder's own integers are several times faster. No
# regular expression looks for long numbers: hostile digits or quotes keep one busy for hours.
_DECODER = json.JSONDecoder(parse_constant=_parse_float, parse_float=_parse_float)
_CAREFUL_DECODER = json.JSONDecoder(parse_constant=_parse_float, parse_float=_parse_float,
                                    parse_int=functools.partial(_parse_number, int))


def parse_json(data: bytes, max_depth: int = LIMITS["max_depth"][0]) -> Any:
    """Return the JSON value in UTF-8 bytes.

    Raises ValueError whose text says what was wrong and where: bytes that are not UTF-8, no
    JSON, NaN and Infinity, numbers out of range, nesting deeper than `max_depth`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8") from None
    decoder = _DECODER if len(text) <= MAX_NUMBER_DIGITS else _CAREFUL_DECODER
    try:
        value, end = decoder.raw_decode(text, len(text) - len(text.lstrip(_JSON_SPACE)))
        if end != len(text) and text[end:].strip(_JSON_SPACE):
            raise json.JSONDecodeError("Extra data", text, end)
    except json.JSONDecodeError as error:
        near = shorten(text[max(0, error.pos - 20):error.pos + 20])
        offset = len(text[:error.pos].encode("utf-8"))
        raise ValueError(f"{error.msg} at byte {offset}, near: {near}") from None
    except RecursionError:
        raise ValueError(f"nested deeper than {max_depth} levels") from None
    # Counting brackets is cheap, and nearly every message has fewer than the limit in all.
    if data.count(b"[") + data.count(b"{") > max_depth:
        level = [value]
        for _ in range(max_depth):
            level = [child for node in level if isinstance(node, (dict, list)) for child in
                     (node.values() if isinstance(node, dict) else node)]
        if any(isinstance(node, (dict, list)) for node in level):
            raise ValueError(f"nested deeper than {max_depth} levels")
    return value


def is_request_id(value: Any) -> bool:
    """Return whether a value may be a request's id: a string or an integer, not a boolean."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def find_request_id(value: Any) -> Union[str, int, None]:
    """Return the id that an answer to this JSON value should carry, None if it has none."""
    request_id = value.get("id") if isinstance(value, dict) else None
    return request_id if is_request_id(request_id) else None


def find_cancelled_id(value: Any) -> Union[str, int, None]:
    """Return the id of the request that a cancellation is about, None if it is none."""
    is_cancelled = isinstance(value, dict) and value.get("method") == "notifications/cancelled"
    params = value.get("params") if is_cancelled else None
    return find_request_id({"id": params.get("requestId")}) if isinstance(params, dict) else None


def is_request(value: Any) -> bool:
    """Return whether a JSON value is meant as a request, and can be answered by its id."""
    return find_request_id(value) is not None and isinstance(value.get("method"), str)


def is_notification(value: Any) -> bool:
    """Return whether a JSON value is meant as a notification, which is never answered."""
    return isinstance(value, dict) and isinstance(value.get("method"), str) and "id" not in value


def is_slow(value: Any) -> bool:
    """Return whether a JSON value is a call that may take its time, or a batch with such a call."""
    return any(is_request(part) and METHODS.get(part["method"], Method()).slow
               for part in (value if isinstance(value, list) else [value]))


def parse_message(value: Any) -> Message:
    """Return the message in a JSON value; raises MCPError (-32600) when it is none.

    A malformed error in a response is kept readable, not refused.
    """
    if not isinstance(value, dict):
        raise _invalid("a message", "a JSON object",
                       "a batch" if isinstance(value, list) else type(value).__name__)
    if value.get("jsonrpc") != JSONRPC_VERSION:
        raise _invalid('"jsonrpc"', '"2.0"', value.get("jsonrpc", "missing"))
    request_id = value.get("id")
    if not (type(request_id) in (str, int)         # a bool is an int, but no id
            or request_id is None and ("id" not in value or "method" not in value)):
        raise _invalid('"id"', "a string or an integer", request_id)
    if "method" not in value:
        return _parse_response(value)
    method, params = value["method"], value.get("params")
    if not isinstance(method, str):
        raise _invalid('"method"', "a string", method)
    if params is None:
        params = {}
    elif not isinstance(params, dict):
        raise _invalid('"params"', "an object", params)
    return Request(request_id, method, params) if "id" in value else Notification(method, params)


def _parse_response(value: dict) -> Response:
    if "error" in value:
        error = value["error"]
        if not isinstance(error, dict):
            error = {"message": f"an error that is no object: {shorten(error)}"}
        code = error.get("code")
        return Response(value.get("id"), None, MCPError(
            code if type(code) is int else INTERNAL_ERROR, str(error.get("message", "")),
            error.get("data")))
    if not isinstance(value.get("result"), dict):
        raise _invalid('"result"', "an object", value.get("result", "missing, as are "
                                                          '"method" and "error"'))
    return Response(value.get("id"), value["result"], None)


def _invalid(what: str, wanted: str, seen: Any) -> MCPError:
    return MCPError(INVALID_REQUEST, "Invalid Request: " + must_be(what, wanted, seen))


def without_none(members: dict) -> dict:
    """Return an object without the members that are None: optional ones are left out, not null."""
    return {name: value for name, value in members.items() if value is not None}


def find_list(value: Any) -> list:
    """Return a peer's value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def find_object(holder: Any, name: str) -> dict:
    """Return a member of a peer's value if both are objects, else an empty one."""
    member = holder.get(name) if isinstance(holder, dict) else None
    return member if isinstance(member, dict) else {}


def build_request(request_id: Union[str, int], method: str, params: Optional[dict]) -> dict:
    """Return a request as a JSON value; no `params` member when there are none."""
    message = {"jsonrpc": JSONRPC_VERSION, "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def build_notification(method: str, params: Optional[dict] = None) -> dict:
    """Return a notification as a JSON value."""
    message = {"jsonrpc": JSONRPC_VERSION, "method": method}
    return message if params is None else {**message, "params": params}


def build_result(request_id: Union[str, int], result: dict) -> dict:
    """Return a successful response as a JSON value."""
    return {"jsonrpc": JSONRPC_VERSION, "id": request_id, "result": result}


def build_error(request_id: Union[str, int, None], error: MCPError) -> dict:
    """Return an error response as a JSON value; id null when the request's could not be read."""
    return {"jsonrpc": JSONRPC_VERSION, "id": request_id, "error": error.to_wire()}


# =============================================================================================
# 4. SERVER-SENT EVENTS
# =============================================================================================
# In: the bytes of an event stream, cut anywhere. Out: events. And back: an event to bytes.
# Spec: the WHATWG HTML standard, "Interpreting an event stream". Where the bytes were cut never
# changes the events, and cost grows with the number of bytes only.

MAX_EVENT_BYTES = 64 * 1024 * 1024


class SSEEvent(NamedTuple):
    """One event: its type, its data, and the last event id in force when it was complete."""

    event: str
    data: str
    id: str


class SSEParser:
    """Turn the bytes of an event stream into events, however they are cut.

    `retry` is the reconnection time that the stream asked for, in milliseconds, or None;
    `last_event_id` the newest id seen at the end of an event.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES):
        self.retry: Optional[int] = None
        self.last_event_id = ""
        self._max_event_bytes = max_event_bytes
        self._lines: List[bytes] = []      # the complete lines of the unfinished event
        self._size = 0                     # bytes in them
        self._rest = bytearray()           # a line whose end has not come yet
        self._skip_newline = False         # the last block ended in \r: a \n now belongs to it
        self._fault: Optional[ProtocolError] = None      # to be raised once its events are out
        self._at_start = True              # a byte order mark may still come

    def feed(self, data: bytes) -> List[SSEEvent]:
        """Return the events that these bytes complete.

        Raises ProtocolError when one event grows beyond `max_event_bytes`; the events before it
        come first, and then every call raises.
        """
        if self._fault is not None:
            raise self._fault
        if self._skip_newline and data[:1] == b"\n":
            data = data[1:]
            self._skip_newline = False
        if not data:
            return []
        self._skip_newline = data.endswith(b"\r")
        events = []
        # bytes.splitlines knows \n, \r and \r\n only; that of str would also cut at U+2028,
        # U+0085 and six more, which are ordinary text inside a JSON string.
        for line in data.splitlines(keepends=True):
            self._rest += line.rstrip(b"\r\n")
            if self._size + len(self._rest) > self._max_event_bytes:
                self._fault = ProtocolError(f"an event of more than {self._max_event_bytes:,} "
                                            "bytes (max_event_bytes) in the stream")
                if events:
                    return events
                raise self._fault
            if line.endswith((b"\n", b"\r")):
                event = self._end_line(bytes(self._rest))
                self._rest.clear()
                if event is not None:
                    events.append(event)
        return events

    def close(self) -> bytes:
        """Return what the stream's end left unfinished; by the standard it is no event."""
        unfinished = b"".join(line + b"\n" for line in self._lines) + bytes(self._rest)
        self._lines, self._size = [], 0
        self._rest.clear()
        return unfinished

    def _end_line(self, line: bytes) -> Optional[SSEEvent]:
        if self._at_start:
            self._at_start = False
            if line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
        if not line:
            return self._end_event()
        if line.startswith(b":"):
            return None
        name, value = split_field(line)
        if name == b"retry" and value.isdigit():
            self.retry = int(value[:18])
        self._lines.append(line)
        self._size += len(line) + 1
        return None

    def _end_event(self) -> Optional[SSEEvent]:
        lines, self._lines, self._size = self._lines, [], 0
        event, data = "", []
        for name, value in map(split_field, lines):
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value.decode("utf-8", "replace")
            elif name == b"id" and b"\0" not in value:
                self.last_event_id = value.decode("utf-8", "replace")
        if not data:
            return None
        text = b"\n".join(data).decode("utf-8", "replace")
        return SSEEvent(event or "message", text, self.last_event_id)


def split_field(line: bytes) -> Tuple[bytes, bytes]:
    """Return the name and value of one line; exactly one space after the colon is dropped."""
    name, _, value = line.partition(b":")
    return name, value[1:] if value.startswith(b" ") else value


def format_event(data: str, event: Optional[str] = "message", event_id: Optional[str] = None,
                 retry: Optional[int] = None) -> bytes:
    """Return one event as bytes; data with line ends becomes several data lines."""
    fields = [("event", event), ("id", event_id), ("retry", retry)]
    lines = [f"{name}: {value}\n" for name, value in fields if value is not None]
    if "\n" in data or "\r" in data:
        lines += [f"data: {part}\n" for part in re.split("\r\n|\r|\n", data)]
    else:
        lines.append(f"data: {data}\n")
    return "".join(lines).encode("utf-8") + b"\n"


# =============================================================================================
# 5. HTTP RULES
# =============================================================================================
# In: header bytes and values. Out: what they mean. Shared by server, client and probe.
# Spec: RFC 9110 and 9112 read strictly: what two readers could understand differently is refused.

BODILESS = (204, 304)        # statuses whose answers have no body, and no length either
Headers = Dict[str, str]     # lower-case name to value; repeated ones joined by ", " (RFC 9110 5.3)

# Compiled at once is what every message meets; `re` compiles the other patterns of this file when
# they are first used, so that no start waits for them.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_REQUEST_LINE = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e]+) HTTP/1\.([01])")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_PLAIN_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]|::1", re.ASCII)
ABSOLUTE_TARGET = r"(?i)https?://([^/?#]+)(/[^?#]*)?(\?.*)?"


class Head(NamedTuple):
    """A request line and its headers. `target` is the path with the query as it was sent."""

    method: str
    target: str
    is_http_1_0: bool
    headers: Headers


def parse_head(data: bytes, max_headers: int = LIMITS["max_headers"][0]) -> Head:
    """Return the request head in bytes (without the blank line at its end).

    Raises HTTPError, 400, 431 or 505. Repeated headers are joined, so that a second Host,
    Content-Length or Mcp-Name makes a value that no check accepts.
    """
    first, *lines = data.decode("latin-1").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        if re.search(r" HTTP/[2-9]", first):
            raise HTTPError(505, f"this server speaks HTTP/1.1: {shorten(first, 80)}")
        raise HTTPError(400, f"the request line is malformed: {shorten(first, 80)}")
    if len(lines) > max_headers:
        raise HTTPError(431, f"{len(lines)} headers, but at most {max_headers} are read")
    try:
        headers = _parse_header_lines(lines, _HEADER_LINE)
    except ValueError as error:
        raise HTTPError(400, str(error)) from None
    method, target, minor = match.groups()
    return Head(method, target, minor == "0", headers)


def _parse_header_lines(lines: List[str], form: re.Pattern) -> Headers:
    headers: Headers = {}
    for line in lines:
        header = form.fullmatch(line)
        if header is None:
            raise ValueError(f"a header line is malformed: {shorten(line, 80)}")
        name, value = header.group(1).lower(), header.group(2).strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def parse_target(target: str) -> str:
    """Return the path of a request target, also of the absolute form that proxies send."""
    match = re.fullmatch(ABSOLUTE_TARGET, target)
    return match.group(2) or "/" if match else target.partition("?")[0]


def parse_content_length(head: Head, max_body: int) -> Optional[int]:
    """Return the length of a request's body, None when it is chunked.

    Raises HTTPError for what could be read in two ways (400), nothing (411), or too much (413).
    """
    coding, length = (head.headers.get(name) for name in ("transfer-encoding", "content-length"))
    if coding is not None:
        if head.is_http_1_0:                     # Spec: RFC 9112, 6.1
            raise HTTPError(400, "HTTP/1.0 has no Transfer-Encoding: send a Content-Length")
        if length is not None:
            raise HTTPError(400, "both Transfer-Encoding and Content-Length: send one of them")
        if coding.lower() != "chunked":
            raise HTTPError(501, must_be("Transfer-Encoding", "chunked", coding, 80))
        return None
    if length is None:
        raise HTTPError(411, "a POST needs a Content-Length or Transfer-Encoding: chunked")
    if not (length.isascii() and length.isdigit()):
        raise HTTPError(400, must_be("Content-Length", "a number", length, 80))
    if len(length) > 18 or int(length) > max_body:
        raise size_error(max_body)
    return int(length)


def size_error(max_body: int) -> HTTPError:
    """Return the refusal of a body that is over the limit."""
    return HTTPError(413, f"the body is larger than {max_body:,} bytes")


def is_kept_alive(head: Any) -> bool:
    """Return whether the sender of a head wants the connection kept after this exchange."""
    options = head.headers.get("connection", "").lower()
    return "close" not in options and (not head.is_http_1_0 or "keep-alive" in options)


@functools.lru_cache(maxsize=64)
def format_head(status: int, reason: str, headers: tuple, date: str, origin: Optional[str],
                close: bool) -> bytes:
    """Return a status line and headers, without the blank line: what all answers of a second share.

    `origin` is the page that may read the answer (CORS), None when no browser asks.
    """
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers),
             f"Date: {date}"]
    if origin is not None:
        lines += [f"Access-Control-Allow-Origin: {origin}", "Vary: Origin",
                  f"Access-Control-Expose-Headers: {HEADER_SESSION_ID}, WWW-Authenticate"]
    if close:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


def parse_media_type(value: Optional[str]) -> str:
    """Return the bare media type of a Content-Type value in lower case, "" when there is none."""
    return (value or "").partition(";")[0].strip().lower()


@functools.lru_cache(maxsize=64)
def is_acceptable(accept: Optional[str], media_type: str) -> bool:
    """Return whether an Accept header admits a media type. Spec: RFC 9110, 12.5.1.

    The most specific range that matches decides, and q=0 excludes; no header admits everything.
    """
    if accept is None:
        return True
    ranges = (media_type, media_type.partition("/")[0] + "/*", "*/*")
    best, quality = len(ranges), 0.0
    for item in split_list(accept.lower()):
        name, *parameters = split_list(item, ";") or [""]
        if name in ranges and ranges.index(name) < best:
            best = ranges.index(name)
            weights = [value for key, _, value in (part.partition("=") for part in parameters)
                       if key.strip() == "q"] or ["1"]
            try:
                quality = float(weights[0])
            except ValueError:
                quality = 0.0
    return quality > 0


def split_list(value: str, separator: str = ",") -> List[str]:
    """Return the members of a header value; a separator in quotes does not separate."""
    members = re.findall(rf'(?:[^{separator}"]|"(?:[^"\\]|\\.)*"?)+', value)
    return [member.strip() for member in members if member.strip()]


# ---- Origin and Host: who a browser says is asking, and whom it thinks it asks

def is_loopback(host: str) -> bool:
    """Return whether a host name (with or without brackets) is this machine's own."""
    return _LOOPBACK.fullmatch(host.lower()) is not None


def split_host(value: str) -> str:
    """Return the host of a "host[:port]" value in lower case, brackets kept; "" if malformed."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:/@\[\]\s,]+)(:\d{1,5})?", value, re.ASCII)
    return match.group(1).lower() if match else ""


@functools.lru_cache(maxsize=64)
def is_host_allowed(host: Optional[str], allowed: frozenset, loopback: bool) -> bool:
    """Return whether a Host header names this server.

    A server bound to loopback answers only to loopback names and those in `allowed`: a page
    whose name was re-bound to 127.0.0.1 still sends its own. Spec: streamable-http, Security.
    """
    if not (loopback or allowed):
        return True
    name = split_host(host or "")
    return bool(name) and (is_loopback(name) and loopback or not allowed.isdisjoint(
        {name, (host or "").lower(), "*"}))


@functools.lru_cache(maxsize=64)
def is_origin_allowed(origin: str, allowed: frozenset, loopback: bool) -> bool:
    """Return whether a browser page of this origin may call.

    Pages of this machine may call a server that is bound to it; any other only when listed.
    """
    if origin.lower() in allowed or "*" in allowed:
        return True
    scheme, separator, rest = origin.partition("://")
    return (loopback and bool(separator) and scheme.lower() in ("http", "https")
            and is_loopback(split_host(rest)))


# ---- Values of the Mcp-* headers. Spec: streamable-http, Value Encoding.

_ENCODED_START, _ENCODED_END = "=?base64?", "?="


def format_header_value(value: str) -> str:
    """Return a string as a header value: as it is, or in base64 if that would not survive."""
    if _PLAIN_VALUE.fullmatch(value) and not (
            value.startswith(_ENCODED_START) and value.endswith(_ENCODED_END)):
        return value
    # surrogatepass: JSON can hold a lone surrogate, and a header must not fail where a body works.
    data = base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
    return _ENCODED_START + data + _ENCODED_END


def parse_header_value(value: str) -> Optional[str]:
    """Return the string in a header value, None when it has bytes that no value may have."""
    if not (value.startswith(_ENCODED_START) and value.endswith(_ENCODED_END)):
        return value if value.isascii() else None
    text = value[len(_ENCODED_START):-len(_ENCODED_END)]
    try:
        data = base64.b64decode(text, validate=True)
        # Only the one canonical spelling: two headers that differ never mean the same name.
        if base64.b64encode(data).decode("ascii") == text:
            return data.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        pass
    return None


# ---- WWW-Authenticate. Spec: RFC 9110, 11.6.1: a list of challenges, each with a list of its own.

class Challenge(NamedTuple):
    """One challenge: the scheme in lower case, and its parameters with lower-case names."""

    scheme: str
    params: Dict[str, str]


_CHALLENGE_PART = r"""(?x)[\s,]*(?:
        (?P<name>[!\#$%&'*+\-.^_`|~0-9A-Za-z]+)\s*=\s*
            (?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"=]+))
        |(?P<scheme>[!\#$%&'*+\-.^_`|~0-9A-Za-z]+)
            (?:[ ]+[A-Za-z0-9\-._~+/]+=*(?=\s*(?:,|$)))?(?=[\s,]|$)     # a token68 is passed over
        |(?P<junk>[^,]+)
    )"""


def parse_challenges(value: str) -> List[Challenge]:
    """Return the challenges of a WWW-Authenticate value (several lines joined by commas).

    Of a parameter given twice the first counts; what cannot be read is passed over.
    """
    challenges: List[Challenge] = []
    for match in re.finditer(_CHALLENGE_PART, value.strip(" \t,")):
        if match["scheme"]:
            challenges.append(Challenge(match["scheme"].lower(), {}))
        elif match["name"] and challenges:
            text = match["bare"] if match["quoted"] is None else re.sub(
                r"\\(.)", r"\1", match["quoted"])
            challenges[-1].params.setdefault(match["name"].lower(), text)
    return challenges


def join_params(challenges: Iterable[Challenge]) -> Dict[str, str]:
    """Return the parameters of all challenges; of those of one name the first counts."""
    return {name: text for challenge in reversed(list(challenges))
            for name, text in challenge.params.items()}


def format_challenge(scheme: str, params: Dict[str, str]) -> str:
    """Return one challenge as a WWW-Authenticate value, each parameter a quoted string."""
    quoted = (re.sub(r'(["\\])', r"\\\1", text) for text in params.values())
    return f"{scheme} " + ", ".join(f'{name}="{text}"' for name, text in zip(params, quoted))


def parse_bearer(value: Optional[str]) -> Optional[str]:
    """Return the token of an Authorization header, None when it has none of the Bearer scheme.

    What follows `Bearer` but is no single token (two of them, characters that no token has, more
    than MAX_TOKEN_CHARS) gives "". Spec: RFC 6750, 2.1.
    """
    scheme, _, rest = (value or "").partition(" ")
    if scheme.lower() != "bearer" or not rest.strip():
        return None
    token = rest.lstrip(" ")
    is_token = len(token) <= MAX_TOKEN_CHARS and re.fullmatch(r"[A-Za-z0-9\-._~+/]+=*", token)
    return token if is_token else ""


def parse_percent(text: str) -> str:
    """Return text with its %XX escapes decoded as UTF-8. Spec: RFC 3986, 2.1."""
    data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match.group(1), 16)]),
                  text.encode("utf-8", "surrogatepass"))
    return data.decode("utf-8", "replace")


# =============================================================================================
# 6. JSON SCHEMA
# =============================================================================================
# A schema enters once; then values enter and messages leave, each "place: what is wanted, but is
# what was seen", the place a JSON pointer or "(root)". Drafts 2020-12 and 07; format and content*
# only annotate. A $ref that leaves its document is an error. Schemas and values may be hostile, so
# all that grows is bounded and nothing recurses uncounted.

MAX_SUBSCHEMAS = 10_000            # in one document
MAX_SCHEMA_DEPTH = 240             # schemas at work inside each other, at some 3 frames each
MAX_SCHEMA_STEPS = 3_000_000       # for one value; one to two seconds at worst
MAX_PATTERN_CHARS = 100_000        # of one pattern
MAX_SCHEMA_MESSAGES = 20
MAX_SHOWN_CHARS = 60               # of a value quoted in a message
MAX_POINTER_CHARS = 300

DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_07 = "http://json-schema.org/draft-07/schema"


class CompiledSchema:
    """A schema ready for use, by any number of threads at once."""

    __slots__ = ("_document", "is_plainly_valid")

    def __init__(self, document: _SchemaDocument):
        self._document = document
        self.is_plainly_valid = _find_plain_check(document.root)

    def errors(self, value: Any) -> List[str]:
        """Return a message for each way in which value fails the schema, none if it is valid."""
        if self.is_plainly_valid(value):
            return []
        run = _SchemaRun(self._document)
        try:
            run.check(self._document.root, value)
        except _ExhaustedError:
            bounds = f"{MAX_SCHEMA_STEPS} steps and {MAX_SCHEMA_DEPTH} levels of schemas"
            run.faults[MAX_SCHEMA_MESSAGES - 1:] = [((), f"must be checkable in {bounds}", value)]
        return [f"{_format_pointer(path) or '(root)'}: {wanted}, but is {_format_seen(seen)}"
                for path, wanted, seen in run.faults]


def compile_schema(schema: Any, is_foreign: bool = False) -> CompiledSchema:
    """Return a schema made ready for use; SchemaError if it is broken or leaves its document.

    In a foreign one, which a peer wrote, patterns that may take for ever count as matched.
    """
    draft = _find_draft(schema)
    check_schema(schema, draft)
    return CompiledSchema(_SchemaDocument(schema, draft, is_foreign))


def check_schema(schema: Any, draft: Optional[str] = None) -> None:
    """Raise SchemaError unless a schema has the form that its meta-schema asks for.

    References and patterns are checked by compile_schema.
    """
    faults = _compile_meta_schema(draft or _find_draft(schema))[1].errors(schema)
    if faults:
        raise SchemaError("the schema is broken: " + "; ".join(faults))


def schema_errors(value: Any, schema: Any) -> List[str]:
    """Return a message for each way in which value fails schema, none if it is valid.

    Both are as json.loads gives them. For more than one value, call compile_schema once.
    """
    return compile_schema(schema).errors(value)


# Of these a flat object's schema may consist; those of the second kind say nothing of the value.
_FLAT_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
_FLAT_MEMBER_KEYWORDS = {"type", "description", "title", "default", "format", "x-mcp-header"}
_FLAT_TYPES = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}


def _find_plain_check(schema: Any) -> Callable[[Any], bool]:
    """Return a check that passes most of the valid values of most tools' schemas at one look.

    Those schemas are flat: an object with scalar members. What does not pass is tested in full.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object" or not (
            _FLAT_KEYWORDS >= set(schema)) or schema.get("additionalProperties") is not False:
        return lambda value: False
    kinds = {}
    for name, member in schema.get("properties", {}).items():
        kind = member.get("type") if isinstance(member, dict) else None
        if not isinstance(kind, str) or kind not in _FLAT_TYPES or not (
                _FLAT_MEMBER_KEYWORDS >= set(member)):
            return lambda value: False
        kinds[name] = _FLAT_TYPES[kind]
    required = frozenset(schema.get("required", ()))

    def is_plainly_valid(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, member in value.items():
            if name not in kinds or type(member) not in kinds[name]:
                return False
        return True

    return is_plainly_valid


def _format_pointer(path: tuple) -> str:
    tokens = (str(key).replace("~", "~0").replace("/", "~1") for key in path)
    return shorten("".join("/" + token for token in tokens), MAX_POINTER_CHARS)


def _format_seen(value: Any) -> str:
    """Return value as JSON, cut short; a large or deep one is never written out in full."""
    encoder = json.JSONEncoder(ensure_ascii=False, default=lambda other: type(other).__name__)
    try:
        return shorten("".join(islice(encoder.iterencode(value), MAX_SHOWN_CHARS)),
                       MAX_SHOWN_CHARS)
    except (TypeError, ValueError):    # names that are no strings; integers too long for str()
        return f"a certain {type(value).__name__}"


# ---- a run: one value is tested

class _ExhaustedError(Exception):
    """The run met a bound before it had its answer."""


# The kinds of JSON values by class: bool comes before int, its base.
_KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "array",
          tuple: "array", dict: "object", type(None): "null"}


class _SchemaRun:
    """The place reached in a value, what was found wrong with it, and what has been spent."""

    def __init__(self, document: _SchemaDocument):
        self.document = document
        self.path: list = []
        self.scope: List[str] = []         # resources that were entered, outermost first
        self.faults: list = []             # (path, what is wanted, value)
        self.seen: Optional[set] = None    # names or indexes evaluated, if a keyword will ask
        self.depth = self.steps = 0

    def spend(self, steps: int) -> None:
        """Count steps, as many as a loop over a value has; raise _ExhaustedError beyond a bound."""
        self.steps += steps
        if self.steps > MAX_SCHEMA_STEPS or self.depth > MAX_SCHEMA_DEPTH:
            raise _ExhaustedError

    def report(self, wanted: str, value: Any) -> None:
        """Note a fault of the value at this place."""
        if len(self.faults) < MAX_SCHEMA_MESSAGES:
            self.faults.append((tuple(self.path), wanted, value))

    def check(self, schema: Any, value: Any) -> None:
        """Report each fault of a value."""
        if isinstance(schema, bool):
            self.spend(1)
            if not schema:
                self.report("must be absent", value)
            return
        self.depth += 1
        base, cost, is_asking, rows = self.document.rows[id(schema)]
        self.spend(cost)
        kind = _KINDS.get(value.__class__) or next(
            (name for cls, name in _KINDS.items() if isinstance(value, cls)), "other")
        if kind == "other":
            self.report("must be a JSON value", value)
        self.scope.append(base)
        seen = self.seen
        if is_asking:
            self.seen = set()
        for kinds, test, argument in rows:
            if kind in kinds:
                test(self, value, argument, schema)
        if is_asking and seen is not None:
            seen.update(self.seen)
        self.seen = seen
        self.scope.pop()
        self.depth -= 1

    def enter(self, key: Any, schema: Any, member: Any) -> None:
        """Check the member under a key, which is thereby evaluated."""
        seen, self.seen = self.seen, None
        if seen is not None:
            seen.add(key)
        self.path.append(key)
        self.check(schema, member)
        self.path.pop()
        self.seen = seen

    def attempt(self, schema: Any, value: Any) -> list:
        """Return the faults of a value, unreported; if it has any, what was seen does not count."""
        faults, seen = self.faults, self.seen
        self.faults, self.seen = [], None if seen is None else set()
        self.check(schema, value)
        if self.seen and not self.faults:
            seen.update(self.seen)
        found, self.faults, self.seen = self.faults, faults, seen
        return found

    def build_key(self, value: Any) -> Any:
        """Return a hashable stand-in for value: equal keys mean equal JSON.

        Numbers become text: that keeps 1 from True, joins it with 1.0, and no peer can send
        numbers that all hash alike.
        """
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, (int, float)):
            is_whole = isinstance(value, int) or value.is_integer()
            return (float, hex(int(value)) if is_whole else repr(value))
        if not isinstance(value, (dict, list, tuple)):
            return (object, id(value))             # no JSON, and equal to nothing
        self.depth += 1
        self.spend(len(value))
        key: Any = (frozenset([(name, self.build_key(member)) for name, member in value.items()])
                    if isinstance(value, dict) else (list, *map(self.build_key, value)))
        self.depth -= 1
        return key


# ---- what the keywords test: test(run, value, argument as prepared, the schema around it)

def _test_assertion(run: _SchemaRun, value: Any, argument: tuple, schema: dict) -> None:
    holds, wanted = argument
    if not holds(run, value):
        run.report(wanted, value)


_TYPES = {"null": "null", "boolean": "a boolean", "integer": "an integer", "number": "a number",
          "string": "a string", "array": "an array", "object": "an object"}


def _prepare_type(names: Any, document: _SchemaDocument, schema: dict) -> tuple:
    names = [names] if isinstance(names, str) else names
    classes = tuple(cls for cls, kind in _KINDS.items() if kind in names) + (
        (int,) if "integer" in names else ())

    def holds(run: _SchemaRun, value: Any) -> bool:
        if isinstance(value, classes):             # Python takes a bool for an int
            return bool in classes or not isinstance(value, bool)
        return int in classes and isinstance(value, float) and value.is_integer()

    return holds, "must be " + " or ".join(map(_TYPES.get, names))


def _prepare_enum(choices: list, document: _SchemaDocument, schema: dict) -> tuple:
    run = _SchemaRun(document)
    keys = {run.build_key(choice) for choice in choices}
    shown = ", ".join(map(_format_seen, choices[:10])) + ", ..." * (len(choices) > 10)
    wanted = f"must be one of {shown}" if len(choices) > 1 else f"must be {shown}"
    return lambda run, value: run.build_key(value) in keys, wanted


def _prepare_multiple_of(divisor: Any, document: _SchemaDocument, schema: dict) -> tuple:
    from fractions import Fraction                 # slow to import, and rarely wanted

    def parse(number: Any) -> Fraction:            # as it was written: the decimal 0.1
        return Fraction(number if isinstance(number, int) else repr(number))

    def holds(run: _SchemaRun, value: Any) -> bool:
        run.spend(8)                               # fractions are slow
        return value - value == 0 and parse(value) % step == 0      # infinity has no multiples

    step = parse(divisor)
    return holds, f"must be a multiple of {_format_seen(divisor)}"


def _prepare_unique_items(is_wanted: bool, document: _SchemaDocument, schema: dict) -> tuple:
    def holds(run: _SchemaRun, value: Any) -> bool:
        run.spend(len(value))
        return not is_wanted or len(set(map(run.build_key, value))) == len(value)

    return holds, "must not hold the same item twice"


def _prepare_dynamic_reference(reference: str, document: _SchemaDocument, schema: dict) -> tuple:
    target, uri, name = document.find(reference, document.bases[id(schema)])
    is_dynamic = document.dynamic_anchors.get(uri, {}).get(name) is target
    return target, name if is_dynamic else None


def _test_dynamic_reference(run: _SchemaRun, value: Any, argument: tuple, schema: dict) -> None:
    """Check by the schema that has the same dynamic anchor in the outermost resource."""
    target, name = argument
    anchors = (run.document.dynamic_anchors.get(uri, {}).get(name) for uri in run.scope)
    run.check(next(filter(None, anchors), target), value)


def _test_members(run: _SchemaRun, value: Any, argument: Any, schema: dict,
                  find: Callable) -> None:
    """Check the members that find(run, value, argument, schema) gives as (key, schema) pairs."""
    run.spend(len(value))
    for key, inner in find(run, value, argument, schema):
        run.enter(key, inner, value[key])


def _test_contains(run: _SchemaRun, value: Any, inner: Any, schema: dict) -> None:
    run.spend(len(value))
    seen, run.seen = run.seen, None                # what is seen in an item is not in the array
    found = [index for index, item in enumerate(value) if not run.attempt(inner, item)]
    run.seen = seen
    if seen is not None:
        seen.update(found)
    counts = run.document.draft == DRAFT_2020_12
    least = schema.get("minContains", 1) if counts else 1
    most = schema.get("maxContains", len(value)) if counts else len(value)
    if not least <= len(found) <= most:
        bound = f"at least {_format_seen(least)}" if len(found) < least else f"at most {most}"
        run.report(f"must hold {bound} items that match its contains, not {len(found)}", value)


def _test_required(run: _SchemaRun, value: Any, names: list, schema: dict) -> None:
    for name in names:
        if name not in value:
            run.report(f'must have the property "{shorten(name, MAX_SHOWN_CHARS)}"', value)


def _prepare_additional_properties(inner: Any, document: _SchemaDocument, schema: dict) -> tuple:
    searches = [document.compile_pattern(pattern)
                for pattern in schema.get("patternProperties", ())]
    known = ", ".join(schema.get("properties", ())) or "none"
    return inner, searches, shorten(f"must be absent (known here: {known}", MAX_POINTER_CHARS) + ")"


def _test_additional_properties(run: _SchemaRun, value: Any, argument: tuple, schema: dict) -> None:
    inner, searches, wanted = argument
    known = schema.get("properties", ())
    run.spend(len(value) * (1 + len(searches)))
    for name, member in value.items():
        if name in known or any(search(run, name) for search in searches):
            continue
        if inner is not False or searches:
            run.enter(name, inner, member)
        else:
            run.path.append(name)
            run.report(wanted, member)
            run.path.pop()


def _test_property_names(run: _SchemaRun, value: Any, inner: Any, schema: dict) -> None:
    run.spend(len(value))
    for name in value:
        for _, wanted, _ in run.attempt(inner, name):
            run.report(f"the name of each property {wanted}", name)


def _test_dependencies(run: _SchemaRun, value: Any, dependencies: dict, schema: dict) -> None:
    for name, dependency in dependencies.items():
        if name in value and isinstance(dependency, list):
            _test_required(run, value, dependency, schema)
        elif name in value:
            run.check(dependency, value)


def _test_all_of(run: _SchemaRun, value: Any, schemas: list, schema: dict) -> None:
    for inner in schemas:
        run.check(inner, value)


def _test_alternatives(run: _SchemaRun, value: Any, schemas: list, schema: dict,
                       is_any: bool) -> None:
    """Report what the first fault of each branch of an anyOf or oneOf wants, if none matches."""
    failures = []
    for inner in schemas:
        failures.append(run.attempt(inner, value))
        if is_any and not failures[-1] and run.seen is None:
            return
    matches = failures.count([])
    if matches == 0:
        wishes = [f"{_format_pointer(path[len(run.path):])} {wanted}".strip()
                  for path, wanted, _ in (faults[0] for faults in failures[:5])]
        run.report(shorten(", or ".join(dict.fromkeys(wishes)), MAX_POINTER_CHARS), value)
    elif matches > 1 and not is_any:
        run.report(f"must match one schema of its oneOf, not {matches}", value)


def _test_not(run: _SchemaRun, value: Any, inner: Any, schema: dict) -> None:
    if not run.attempt(inner, value):
        run.report("must not match the schema in its not", value)


# ---- the table of keywords; the meta-schemas and the places of subschemas are read off it too

class _Keyword(NamedTuple):
    form: dict                         # a schema for the argument
    kinds: Tuple[str, ...] = ()        # of the values that it tests
    test: Optional[Callable] = None    # without one, it annotates or serves the keyword beside it
    prepare: Optional[Callable] = None


def _bound(form: dict, kind: str, wanted: str, holds: Callable, measure: Callable) -> _Keyword:
    """Return the row of a keyword that asks whether holds(measure(value), argument)."""
    def prepare(argument: Any, document: _SchemaDocument, schema: dict) -> tuple:
        return (lambda run, value: holds(measure(value), argument),
                wanted.format(_format_seen(argument)))
    return _Keyword(form, (kind,), _test_assertion, prepare)


def _members(form: dict, kinds: tuple, find: Callable, **more: Any) -> _Keyword:
    return _Keyword(form, kinds, functools.partial(_test_members, find=find), **more)


_ANY = tuple(dict.fromkeys(_KINDS.values()))
_ARRAY, _OBJECT = ("array",), ("object",)
_A_SCHEMA = {"$ref": "#"}
_SCHEMAS = {"type": "array", "items": _A_SCHEMA, "minItems": 1}
_SCHEMA_OR_SCHEMAS = {"anyOf": [_A_SCHEMA, _SCHEMAS]}
_SCHEMA_BY_NAME = {"type": "object", "additionalProperties": _A_SCHEMA}
_A_BOOLEAN, _A_NUMBER, _A_STRING = {"type": "boolean"}, {"type": "number"}, {"type": "string"}
_A_SIZE = {"type": "integer", "minimum": 0}
_AN_ANCHOR = {"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"}
_NAMES = {"type": "array", "items": _A_STRING, "uniqueItems": True}
_NAMES_BY_NAME = {"type": "object", "additionalProperties": _NAMES}
_DEPENDENCIES = {"type": "object", "additionalProperties": {"anyOf": [_NAMES, _A_SCHEMA]}}
_A_TYPE = {"enum": list(_TYPES)}
_TYPE_OR_TYPES = {"anyOf": [_A_TYPE, {**_NAMES, "items": _A_TYPE, "minItems": 1}]}
_A_DIVISOR = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": math.inf}

_COMMON_KEYWORDS = {
    **dict.fromkeys(("$schema", "$comment", "title", "description", "format", "contentEncoding",
                     "contentMediaType"), _Keyword(_A_STRING)),
    **dict.fromkeys(("readOnly", "writeOnly"), _Keyword(_A_BOOLEAN)),
    "default": _Keyword({}),
    "examples": _Keyword({"type": "array"}),
    "definitions": _Keyword(_SCHEMA_BY_NAME),
    "$ref": _Keyword(_A_STRING, _ANY, _test_all_of, lambda reference, document, schema: [
        document.find(reference, document.bases[id(schema)])[0]]),
    "type": _Keyword(_TYPE_OR_TYPES, _ANY, _test_assertion, _prepare_type),
    "enum": _Keyword({"type": "array"}, _ANY, _test_assertion, _prepare_enum),
    "const": _Keyword({}, _ANY, _test_assertion, lambda value, *where: _prepare_enum(
        [value], *where)),
    "multipleOf": _Keyword(_A_DIVISOR, ("number",), _test_assertion, _prepare_multiple_of),
    "pattern": _Keyword(_A_STRING, ("string",), _test_assertion,
                        lambda pattern, document, schema: (
                            document.compile_pattern(pattern),
                            f"must match the pattern {_format_seen(pattern)}")),
    "uniqueItems": _Keyword(_A_BOOLEAN, _ARRAY, _test_assertion, _prepare_unique_items),
    **{word: _bound(_A_NUMBER, "number", f"must be {words} {{}}", holds, lambda value: value)
       for word, words, holds in (
           ("minimum", "at least", operator.ge), ("maximum", "at most", operator.le),
           ("exclusiveMinimum", "more than", operator.gt),
           ("exclusiveMaximum", "less than", operator.lt))},
    **{start + word: _bound(_A_SIZE, kind, f"must have {words} {{}} {things}", holds, len)
       for word, kind, things in (("Length", "string", "characters"), ("Items", "array", "items"),
                                  ("Properties", "object", "properties"))
       for start, words, holds in (("min", "at least", operator.ge),
                                   ("max", "at most", operator.le))},
    "contains": _Keyword(_A_SCHEMA, _ARRAY, _test_contains),
    "required": _Keyword(_NAMES, _OBJECT, _test_required),
    "properties": _members(_SCHEMA_BY_NAME, _OBJECT, lambda run, value, schemas, schema: [
        pair for pair in schemas.items() if pair[0] in value]),
    "patternProperties": _members(_SCHEMA_BY_NAME, _OBJECT, lambda run, value, rows, schema: (
        (name, inner) for name in value for search, inner in rows if search(run, name)),
        prepare=lambda schemas, document, schema: [
            (document.compile_pattern(pattern), inner) for pattern, inner in schemas.items()]),
    "additionalProperties": _Keyword(_A_SCHEMA, _OBJECT, _test_additional_properties,
                                     _prepare_additional_properties),
    "propertyNames": _Keyword(_A_SCHEMA, _OBJECT, _test_property_names),
    "allOf": _Keyword(_SCHEMAS, _ANY, _test_all_of),
    **{word: _Keyword(_SCHEMAS, _ANY, functools.partial(_test_alternatives, is_any=is_any))
       for word, is_any in (("anyOf", True), ("oneOf", False))},
    "not": _Keyword(_A_SCHEMA, _ANY, _test_not),
    "if": _Keyword(_A_SCHEMA, _ANY, lambda run, value, inner, schema: run.check(
        schema.get("else" if run.attempt(inner, value) else "then", True), value)),
    "then": _Keyword(_A_SCHEMA),
    "else": _Keyword(_A_SCHEMA),
}
_KEYWORDS = {
    DRAFT_2020_12: {
        **_COMMON_KEYWORDS,
        "$id": _Keyword({"type": "string", "pattern": "^[^#]*#?$"}),
        "$anchor": _Keyword(_AN_ANCHOR),
        "$dynamicAnchor": _Keyword(_AN_ANCHOR),
        "$vocabulary": _Keyword({"type": "object", "additionalProperties": _A_BOOLEAN}),
        "$defs": _Keyword(_SCHEMA_BY_NAME),
        "deprecated": _Keyword(_A_BOOLEAN),
        "contentSchema": _Keyword(_A_SCHEMA),
        "$dynamicRef": _Keyword(_A_STRING, _ANY, _test_dynamic_reference,
                                _prepare_dynamic_reference),
        "minContains": _Keyword(_A_SIZE),
        "maxContains": _Keyword(_A_SIZE),
        "prefixItems": _members(_SCHEMAS, _ARRAY, lambda run, value, schemas, schema: (
            enumerate(schemas[:len(value)]))),
        "items": _members(_A_SCHEMA, _ARRAY, lambda run, value, inner, schema: (
            (index, inner) for index in range(len(schema.get("prefixItems", ())), len(value)))),
        "dependentRequired": _Keyword(_NAMES_BY_NAME, _OBJECT, _test_dependencies),
        "dependentSchemas": _Keyword(_SCHEMA_BY_NAME, _OBJECT, _test_dependencies),
        # Last, as they ask what all others have seen.
        **{word: _members(_A_SCHEMA, kinds, lambda run, value, inner, schema: (
            (key, inner) for key in (value if isinstance(value, dict) else range(len(value)))
            if key not in run.seen))
           for word, kinds in (("unevaluatedItems", _ARRAY), ("unevaluatedProperties", _OBJECT))},
    },
    DRAFT_07: {
        **_COMMON_KEYWORDS,
        "$id": _Keyword(_A_STRING),
        "items": _members(_SCHEMA_OR_SCHEMAS, _ARRAY, lambda run, value, items, schema: (
            enumerate(items[:len(value)] if isinstance(items, list) else [items] * len(value)))),
        "additionalItems": _members(_A_SCHEMA, _ARRAY, lambda run, value, inner, schema: (
            (index, inner) for index in range(len(value))
            if isinstance(schema.get("items"), list) and index >= len(schema["items"]))),
        "dependencies": _Keyword(_DEPENDENCIES, _OBJECT, _test_dependencies),
    },
}


def _list_schemas(form: dict, argument: Any) -> list:
    """Return the schemas in the argument of a keyword of that form."""
    if form in (_SCHEMA_BY_NAME, _DEPENDENCIES):
        return [part for part in argument.values() if not isinstance(part, list)]
    if form in (_A_SCHEMA, _SCHEMAS, _SCHEMA_OR_SCHEMAS):
        return argument if isinstance(argument, list) else [argument]
    return []


@functools.lru_cache(maxsize=None)
def _compile_meta_schema(draft: str) -> Tuple[dict, CompiledSchema]:
    """Return the schema of the schemas of a draft, in one piece, twice: as it is and compiled."""
    forms = {word: keyword.form for word, keyword in _KEYWORDS[draft].items()}
    meta = {"$schema": draft, "$id": draft, "type": ["object", "boolean"], "properties": forms}
    return meta, CompiledSchema(_SchemaDocument(meta, draft))


def _find_draft(schema: Any) -> str:
    """Return the draft that $schema names, or the default; http, https and a "#" are all one."""
    named = schema.get("$schema", DRAFT_2020_12) if isinstance(schema, dict) else DRAFT_2020_12
    for draft in _KEYWORDS:
        if isinstance(named, str) and re.fullmatch(f"https?:{draft.partition(':')[2]}#?", named):
            return draft
    raise SchemaError(f"the dialect {_format_seen(named)} is not supported; "
                      f"{' and '.join(_KEYWORDS)} are")


# ---- documents: which schema a reference means, and the tests of each schema

class _SchemaDocument:
    """A schema with all inside it: what they are called, and the tests that each of them makes."""

    def __init__(self, root: Any, draft: str, is_foreign: bool = False):
        self.root, self.draft, self.is_foreign = root, draft, is_foreign
        self.resources = {"": root}              # by URI
        self.anchors: dict = {}                  # (URI, name) to schema
        self.dynamic_anchors: dict = {}          # URI to {name: schema}
        self.bases: Dict[int, str] = {}          # id of a schema to the resource it lies in
        # id of a schema: its base, what it costs, whether it asks what was seen, and its tests
        self.rows: Dict[int, Tuple[str, int, bool, list]] = {}
        self._pending: list = []                 # schemas without rows so far
        self.add(root, "")
        try:
            while self._pending:
                self._build_rows(self._pending.pop())
        except _ExhaustedError:
            raise SchemaError("the schema holds a constant too large to compare with") from None

    def add(self, schema: Any, base: str) -> None:
        """Take note of a schema, which lies under base, and of all inside it."""
        pending = [(schema, base)]
        while pending:                           # a deep schema would exhaust recursion
            schema, base = pending.pop()
            if not isinstance(schema, dict) or id(schema) in self.bases:
                continue
            if len(self.bases) >= MAX_SUBSCHEMAS:
                raise SchemaError(f"the schema holds more than {MAX_SUBSCHEMAS} schemas")
            base = self.bases[id(schema)] = self._add_names(schema, base)
            self._pending.append(schema)
            for word, keyword in _KEYWORDS[self.draft].items():
                if word in schema:
                    pending += [(part, base) for part in _list_schemas(keyword.form, schema[word])]

    def _add_names(self, schema: dict, base: str) -> str:
        """Take note of the names of a schema; return the URI of the resource it lies in."""
        if "$schema" in schema and _find_draft(schema) != self.draft:
            raise SchemaError("the schema mixes drafts")
        is_hidden = self.draft == DRAFT_07 and "$ref" in schema
        uri, _, fragment = _resolve(base, "" if is_hidden else schema.get("$id", "")).partition("#")
        if uri != base:
            self.resources[uri] = schema
        names = [fragment]                       # the place of draft-07's anchors
        if self.draft == DRAFT_2020_12:
            names += [schema.get("$anchor"), schema.get("$dynamicAnchor")]
            if names[-1]:
                self.dynamic_anchors.setdefault(uri, {})[names[-1]] = schema
        self.anchors.update({(uri, name): schema for name in names if name})
        return uri

    def _build_rows(self, schema: dict) -> None:
        """Prepare the keywords of a schema, in the order of the table."""
        is_alone = self.draft == DRAFT_07 and "$ref" in schema      # it hides its neighbours
        rows, cost, is_asking = [], 1, False
        for word, keyword in _KEYWORDS[self.draft].items():
            if word in schema and keyword.test and (word == "$ref" or not is_alone):
                argument = schema[word]
                cost += len(argument) if isinstance(argument, (dict, list)) else 0
                is_asking = is_asking or word.startswith("unevaluated")
                rows.append((keyword.kinds, keyword.test, keyword.prepare(argument, self, schema)
                             if keyword.prepare else argument))
        self.rows[id(schema)] = (self.bases[id(schema)], cost, is_asking, rows)

    def find(self, reference: str, base: str) -> Tuple[Any, str, str]:
        """Return the schema that a reference means under base, its resource, and its name there."""
        uri, _, fragment = _resolve(base, reference).partition("#")
        if uri == self.draft and uri not in self.resources:
            self.resources[uri] = _compile_meta_schema(uri)[0]     # the only other document
            self.add(self.resources[uri], uri)
        name = parse_percent(fragment)
        try:
            schema = (self._follow(uri, name.split("/")[1:]) if name[:1] in ("", "/")
                      else self.anchors[uri, name])
        except (LookupError, TypeError):
            raise SchemaError(f"the reference {_format_seen(reference)} leads to nothing in this "
                              "schema, and no other document is read") from None
        return schema, uri, name

    def _follow(self, uri: str, tokens: List[str]) -> Any:
        """Return the schema to which the tokens of a JSON pointer lead from the resource at uri."""
        schema, base = self.resources[uri], uri
        for token in tokens:
            base = self.bases.get(id(schema), base)
            is_index = isinstance(schema, list) and re.fullmatch("0|[1-9][0-9]{0,8}", token)
            schema = schema[int(token) if is_index else token.replace("~1", "/").replace("~0", "~")]
        if not isinstance(schema, bool) and id(schema) not in self.bases:
            check_schema(schema, self.draft)      # no keyword led here, so it is not checked yet
            self.add(schema, base)
        return schema

    def compile_pattern(self, pattern: str) -> Callable[[_SchemaRun, str], Any]:
        """Return what searches a string, during a run, for a regular expression.

        A search cannot be stopped, and holds up every thread: a foreign pattern that may take more
        steps than a run has is not begun, and counts as found.
        """
        try:
            if len(pattern) > MAX_PATTERN_CHARS:
                raise ValueError("it is too long")
            translated = _translate_pattern(pattern)
            find = re.compile(translated, re.ASCII).search
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            raise SchemaError(f"the pattern {_format_seen(pattern)} cannot be used: "
                              f"{error}") from None

        def search(run: _SchemaRun, text: str) -> Any:
            run.spend(len(translated) if self.is_foreign else 1)
            steps = _count_steps(translated, len(text)) if self.is_foreign else 0
            if steps > MAX_SCHEMA_STEPS:
                return True
            run.spend(int(steps))
            return find(text)

        return search


def _resolve(base: str, reference: str) -> str:
    """Return a reference made absolute against base, which has no fragment. Spec: RFC 3986, 5.2."""
    if reference[:1] in ("", "#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        raise SchemaError(f"{_format_seen(reference)} is no URI reference") from None


# ---- patterns: the regular expressions of ECMA-262, written as Python writes them

_SETS = r"\\[dDwWsS]|\\[pP]\{[^}\\]+\}"
_ESCAPES = (                           # the first is one character, written as two surrogates
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\c[A-Za-z]|\\k<[^>\\]+>|\\.")
_PATTERN_TOKEN = (
    rf"(?s){_SETS}|{_ESCAPES}|\[(?:[^\\\]]|\\.)*\]?|[$.]|\(\?<(?![=!])"
    r"|\(\?(?![:=!<])|\{,|(?:[*+?]|\{\d+(?:,\d*)?\})\+")     # to Python alone these mean something
_MEMBER_TOKEN = rf"(?s)(?:{_SETS})-?|{_ESCAPES}|^-|--|[\[&|~]"
_TRANSLATIONS = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", r"\B": r"(?!\b)", "(?<": "(?P<"}
_SPACES = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_NO_SPACES = (r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
              r"\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff")
# The only properties that are known, outside of brackets.
_LETTERS = {**dict.fromkeys((r"\p{L}", r"\p{Letter}"), r"(?u:[^\W\d_])"),
            **dict.fromkeys((r"\P{L}", r"\P{Letter}"), r"(?u:[\W\d_])")}


def _translate_pattern(pattern: str) -> str:
    """Return a pattern as re wants it, with re.ASCII; ValueError if that cannot be done."""
    def translate(match: re.Match) -> str:
        token = match[0]
        if token in _TRANSLATIONS or token in _LETTERS:
            return _TRANSLATIONS.get(token) or _LETTERS[token]
        if token[0] == "[":
            return _translate_class(token)
        if token[0] != "\\":
            raise ValueError(f"ECMA-262 has no {token}")
        return _translate_escape(token, "[{}]")
    return re.sub(_PATTERN_TOKEN, translate, pattern)


def _translate_class(token: str) -> str:
    """Return a class in brackets; Python warns of what may come to mean operations on sets."""
    def translate(match: re.Match) -> str:
        member = match[0]
        if member[0] != "\\":
            return member[:-1] + "\\" + member[-1]
        if member[-1] == "-" and len(member) > 2:      # after a whole set it begins no range
            return _translate_escape(member[:-1], "{}") + r"\-"
        return _translate_escape(member, "{}")

    opening = "[^" if token.startswith("[^") else "["
    if not token.endswith("]"):
        raise ValueError("a [ is not closed")
    members = token[len(opening):-1]
    if not members:                                    # Python would take the ] for one
        return "(?!)" if opening == "[" else r"[\x00-\U0010ffff]"
    return opening + re.sub(_MEMBER_TOKEN, translate, members) + "]"


def _translate_escape(token: str, form: str) -> str:
    """Return an escape; `form` has the place of the members that stand for a set."""
    kind, is_long = token[1], len(token) > 2
    if kind in "sS":
        return form.format(_SPACES if kind == "s" else _NO_SPACES)
    if kind in "ux" and is_long:
        is_pair = "\\" in token[2:]
        return re.escape(json.loads(f'"{token}"') if is_pair else
                         chr(int(token[2:].strip("{}"), 16)))
    if kind == "c" and is_long:
        return re.escape(chr(ord(token[2]) % 32))
    if kind == "k" and is_long:
        return f"(?P={token[3:-1]})"
    if kind.isascii() and kind.isalpha() and kind not in "dDwWbBtnvfr":
        raise ValueError(f"{token} is not known here")
    return r"\x00" if kind == "0" else token


# What multiplies the ways to try a pattern, after the escapes and classes in which it would not.
_REPEAT = r"(?s)\\.|\[(?:[^\\\]]|\\.)*\]|(\)?)(?:([*+]|\{\d+,\}|\{(?:\d+,)?(\d+)\})|[?|])"


def _count_steps(pattern: str, size: int) -> float:
    """Return a bound of the steps in which a pattern is searched in a text of `size` characters.

    It is what backtracking costs at worst, and infinite if a group is repeated.
    """
    steps: float = size + 1
    for match in re.finditer(_REPEAT, pattern):
        is_group, repeat, most = match.groups()
        if is_group and repeat:
            return math.inf
        if is_group is not None:             # and no escape or class; `?` and `|` have two ways
            steps *= min(size, int(most or size)) + 1 if repeat else 2
        if steps > MAX_SCHEMA_STEPS:
            return math.inf
    return steps


# =============================================================================================
# 7. TYPES AND SIGNATURES
# =============================================================================================
# In: a function of the author's. Out: the schemas of its arguments and result, and the way from
# JSON arguments to the Python values that it wants. Each kind of type has one adapter, with its
# schema and its conversion side by side. No function is called here but the types' own.

MAX_HASHED_ALIKE = 100             # items of a set
MAX_TRIES = 1000                   # of options of Unions, for a value that none of them takes


class Signature(NamedTuple):
    """What a function takes and returns, in the words of JSON."""

    input_schema: dict
    output_schema: Optional[dict]        # None if the return annotation promises no data
    description: str                     # the docstring without its sections on parameters
    context_parameter: Optional[str]     # the parameter that wants the Context
    bind: Callable[[dict], dict]         # valid JSON arguments to keyword arguments


class SignatureError(MCPKitError, TypeError):
    """A function that JSON cannot express; the message leads to the annotation and says why."""


class ArgumentError(MCPError, ValueError):
    """Arguments that a function does not take; the message names the place and what is wrong."""

    def __init__(self, message: str):
        super().__init__(INVALID_PARAMS, message)


@contextlib.contextmanager
def _within(name: str) -> Iterator[None]:
    """Raise an error of the block as a SignatureError that begins with `name`."""
    try:
        yield
    except (TypeError, ValueError, RecursionError) as error:
        raise SignatureError(f"{name}: {error}") from None


def build_signature(function: Callable, context_type: type,
                    content_types: tuple = ()) -> Signature:
    """Return the Signature of a callable, or raise SignatureError.

    Instances of `content_types` travel as content: a function returning them has no output schema.
    The `bind` of the Signature leaves out the Context, and what was not sent to its default. It may
    give back the arguments themselves. What a type refuses, be it a text that is no date or a class
    of the user's that raises ValueError for its fields, is an ArgumentError there.
    """
    import inspect
    definition, names = _find_definition(function)
    description, documented = _parse_docstring(getattr(definition, "__doc__", None) or "")
    with _within(f"{getattr(definition, '__name__', definition)}()"):
        # Not its definition: a decorator may have made a plain function of a coroutine function.
        for candidate in (function, getattr(function, "__call__", None)):
            if inspect.iscoroutinefunction(candidate) or inspect.isasyncgenfunction(candidate):
                raise SignatureError("this is a coroutine function, and mcpkit calls functions in "
                                     "threads: write def, with asyncio.run() around what it awaits")
        signature = inspect.signature(function)
        fields, rest, context_parameter = _list_parameters(signature, names, context_type)
        input_schema, bind = _adapt_arguments(names, fields, rest, documented)
        with _within("return"):
            annotation = _evaluate(signature.return_annotation, names)
            kinds, output_schema = _list_kinds(annotation), None
            if kinds and not any(kind in (str, Any, object) for kind in kinds):
                with contextlib.suppress(_IsContent):
                    output_schema = adapt(annotation, names, (bytes, *content_types)).schema
    return Signature(input_schema, output_schema, description, context_parameter, bind)


def _find_definition(function: Any) -> Tuple[Any, dict]:
    """Return the function under decorators, partials and callable objects, and the names it sees.

    Those are its globals and its closure: what a string annotation may refer to.
    """
    while True:
        inner = getattr(function, "__wrapped__", None)
        if isinstance(function, functools.partial):
            inner = function.func
        elif inner is None and callable(function) and not hasattr(function, "__name__"):
            inner = function.__call__
        if inner is None:
            break
        function = inner
    names = dict(getattr(function, "__globals__", ()))
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(free, getattr(function, "__closure__", None) or ()):
        with contextlib.suppress(ValueError):     # empty, as its own name while it is decorated
            names[name] = cell.cell_contents
    return function, names


class _Field(NamedTuple):
    """A member of an object: a parameter, or a field of a dataclass, TypedDict or NamedTuple."""

    name: str
    annotation: Any
    required: bool
    default: Any = ...                   # as good as none, since JSON has no Ellipsis to show


def _list_parameters(signature: Any, names: dict, context_type: type) -> tuple:
    """Return the fields, one more for **kwargs or None, and the name of the Context."""
    fields, rest, context_parameter = [], None, None
    for name, parameter in signature.parameters.items():
        with _within(name):
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise SignatureError(f"{parameter} takes its value by position, and JSON arguments "
                                     "have names: make it a keyword parameter")
            required = parameter.default is parameter.empty
            field = _Field(name, _evaluate(parameter.annotation, names), required,
                           ... if required else parameter.default)
            kinds = _list_kinds(field.annotation)
            if parameter.kind is parameter.VAR_KEYWORD:
                rest = field
            elif not kinds or not all(_is_class(kind) and issubclass(kind, context_type)
                                      for kind in kinds):
                fields.append(field)
            elif context_parameter is None:
                context_parameter = name
            else:
                raise SignatureError(f"{context_parameter} has the Context already")
    return fields, rest, context_parameter


def _adapt_arguments(names: dict, fields: List[_Field], rest: Optional[_Field],
                     documented: Dict[str, str]) -> tuple:
    """Return the schema of a function's arguments, and the function that binds them."""
    plan = _Plan(names)
    schema, members = _adapt_members(plan, fields, documented)
    others = plan.adapt(Any)
    if rest is not None:
        with _within(rest.name):
            others = plan.adapt(rest.annotation)
        schema["additionalProperties"] = others.schema or True
    plan.settle(schema)
    if others.plain and all(member.plain for member in members.values()):
        return schema, _give_back
    # The arguments are valid: what stays as it is needs no look.
    loads = {name: _give_back if member.plain else member.load for name, member in members.items()}

    def bind(arguments: dict) -> dict:
        bound, name = {}, ""
        try:
            for name, value in arguments.items():
                bound[name] = loads.get(name, others.load)(value)
        except ValueError as error:
            raise ArgumentError(f"{_format_pointer((name,))}: {error}") from None
        return bound

    return schema, bind


# ---- an annotation to its adapter: the schema, and beside it the way to Python

def _give_back(value: Any) -> Any:
    return value


class Adapter(NamedTuple):
    """The JSON Schema of an annotation, and the way from JSON to the values that it describes."""

    schema: dict                         # never shared: a description may still be added to it
    load: Callable[[Any], Any]           # TypeError or ValueError if a value does not fit
    plain: bool                          # load gives back what it is given


def adapt(annotation: Any, names: dict = {}, content_types: tuple = ()) -> Adapter:
    """Return the Adapter of an annotation; its schema stands by itself, with "$defs" if need be.

    `names` are what string annotations may refer to. `content_types` are empty for values that
    come in; for those that go out, they are the classes that have no schema.
    """
    plan = _Plan(names, content_types)
    adapter = plan.adapt(annotation)
    plan.settle(adapter.schema)
    return adapter


class _IsContent(Exception):
    """A return annotation without a schema, and no fault: its values travel as content."""


class _Plan:
    """A schema under construction; the classes in it are described once, apart from their uses."""

    def __init__(self, names: dict, content_types: tuple = ()):
        self.names = names
        self.content_types = content_types
        self.adapters: dict = {}             # by class
        self.uses: dict = {}                 # class: the {"$ref": ...} at each place of it

    def adapt(self, annotation: Any) -> Adapter:
        """Return the adapter of any annotation, with the metadata of Annotated in its schema."""
        if isinstance(annotation, str):      # before Python 3.11, list["Node"] keeps it as it is
            annotation = _evaluate(annotation, self.names)
        bare, metadata = _unwrap(annotation)
        if any(base in self.content_types for base in getattr(bare, "__mro__", ())):
            raise _IsContent
        build = _find_builder(bare)
        if build is None:
            advice = "; take base64 text in a str" if bare is bytes else ""
            raise SignatureError(f"{_format_annotation(bare)} has no form in JSON{advice}")
        adapter = build(self, bare)
        for word in metadata:
            if isinstance(word, (str, dict)):
                adapter.schema.update({"description": word} if isinstance(word, str) else word)
        return adapter

    def settle(self, root: dict) -> None:
        """Put the classes that are used once in their place, and the others in root's "$defs"."""
        definitions: dict = {}
        for cls, uses in self.uses.items():
            schema, name = self.adapters[cls].schema, cls.__name__
            while name in definitions:
                name += "_"
            if len(uses) > 1:                # as always for a recursive class: it refers to itself
                definitions[name] = schema
            for use in uses:
                # At the root, MCP wants to see "type".
                is_here = len(uses) == 1 or use is root
                del use["$ref"]
                described = dict(use)
                use.clear()
                use.update({**schema, **described} if is_here
                           else {"$ref": f"#/$defs/{name}", **described})
        if definitions:
            root["$defs"] = definitions


class _MismatchError(ValueError):
    """A value that an annotation does not mean; in a Union, another one may."""


def _expect(kind: type, value: Any) -> Any:
    """Return `value` if it is exactly of a kind; JSON's true is not the number 1."""
    if type(value) is not kind:
        raise _MismatchError(f"expected {kind.__name__}, not {type(value).__name__}")
    return value


def _adapt_scalar(plan: _Plan, kind: type) -> Adapter:
    def load(value: Any) -> Any:
        if kind is int and type(value) is float and value.is_integer():
            return int(value)                # 3.0 and 3 are one in JSON, but not for range()
        return value if kind is float and type(value) is int else _expect(kind, value)

    return Adapter({"type": _SCALARS[kind]}, load, kind is not int)


def _adapt_text(plan: _Plan, cls: type) -> Adapter:
    form, parse, _ = _find_text_type(cls)

    def load(value: Any) -> Any:
        error = _MismatchError
        if type(value) is str:
            error = ValueError
            with contextlib.suppress(ValueError, ArithmeticError):
                return parse(cls, value)
        raise error(f"must have the format {form}, but is {_format_seen(value)}")

    return Adapter({"type": "string", "format": form}, load, False)


def _adapt_choice(plan: _Plan, bare: Any) -> Adapter:
    """Return the adapter of a Literal, or of an Enum by its values."""
    choices = [(to_json_value(choice), choice) for choice in get_args(bare) or bare]
    kinds = {type(form) for form, _ in choices}
    schema = {"type": _SCALARS[kinds.pop()]} if len(kinds) == 1 and kinds <= _SCALARS.keys() else {}
    schema["enum"] = [form for form, _ in choices]

    def load(value: Any) -> Any:
        for form, choice in choices:
            if form == value and (form is value or bool not in (type(form), type(value))):
                return choice
        raise _MismatchError(f"expected one of {schema['enum']}")

    return Adapter(schema, load, all(form is choice for form, choice in choices))


def _adapt_union(plan: _Plan, bare: Any) -> Adapter:
    options = [plan.adapt(option) for option in get_args(bare)]
    schema: dict = {"anyOf": [option.schema for option in options]}
    if all(one.keys() == {"type"} and isinstance(one["type"], str) for one in schema["anyOf"]):
        schema = {"type": list(dict.fromkeys(one["type"] for one in schema["anyOf"]))}

    def load(value: Any) -> Any:
        refusal: Any = _MismatchError(f"expected {_format_annotation(bare)}")
        tries = 0
        for option in options:
            try:
                return option.load(value)
            except _MismatchError:
                continue
            except (TypeError, ValueError, LookupError) as error:
                tries += getattr(error, "tries", 1)
                if isinstance(refusal, _MismatchError):    # what a type says of a value of its
                    refusal = ValueError(str(error))       # kind tells most
            if tries > MAX_TRIES:            # options with Unions in them try all that these do
                break
        refusal.tries = tries
        raise refusal

    return Adapter(schema, load, all(option.plain for option in options))


def _adapt_array(plan: _Plan, bare: Any) -> Adapter:
    """Return the adapter of a list, set or tuple of any length, its items all of one kind."""
    make = _ARRAYS[get_origin(bare) or bare]
    is_set = make in (set, frozenset)
    item = plan.adapt((*get_args(bare), Any)[0])
    schema = {"type": "array", **({"items": item.schema} if item.schema else {}),
              **({"uniqueItems": True} if is_set else {})}

    def load(value: Any) -> Any:
        items = list(map(item.load, _expect(list, value)))
        # A set of n numbers with the same hash takes n * n steps.
        if is_set and max(Counter(map(hash, items)).values(), default=0) > MAX_HASHED_ALIKE:
            raise ValueError(f"more than {MAX_HASHED_ALIKE} of the items have the same hash")
        return make(items)

    return Adapter(schema, load, make is list and item.plain)


def _adapt_tuple(plan: _Plan, bare: Any) -> Adapter:
    kinds = get_args(bare)
    if not kinds or kinds[-1] is ...:
        return _adapt_array(plan, bare)
    items = [plan.adapt(kind) for kind in kinds]

    def load(value: Any) -> tuple:
        if len(_expect(list, value)) != len(items):
            raise _MismatchError(f"expected {len(items)} items, not {len(value)}")
        return tuple(item.load(member) for item, member in zip(items, value))

    return Adapter({"type": "array", "prefixItems": [item.schema for item in items],
                    "minItems": len(items), "maxItems": len(items)}, load, False)


def _adapt_mapping(plan: _Plan, bare: Any) -> Adapter:
    key, item = map(plan.adapt, get_args(bare) or (Any, Any))
    if key.schema.get("type", "string") != "string":
        raise SignatureError(f"{_format_annotation(bare)} has keys that are no strings")
    schema: dict = {"type": "object"}
    if key.schema not in ({}, {"type": "string"}):
        schema["propertyNames"] = key.schema
    schema["additionalProperties"] = item.schema or True

    def load(value: Any) -> dict:
        members = _expect(dict, value).items()
        return {key.load(name): item.load(member) for name, member in members}

    return Adapter(schema, load, key.plain and item.plain)


def _adapt_record(plan: _Plan, cls: Any) -> Adapter:
    """Return the adapter of a class with fields: a reference, until the plan is settled."""
    use = {"$ref": None}
    uses = plan.uses.setdefault(cls, [])
    uses.append(use)
    if len(uses) == 1:                       # once: its own fields may lead back here
        schema, members = _adapt_members(plan, _list_fields(plan, cls))
        make = dict if issubclass(cls, dict) else cls    # a TypedDict is a dict once it is made
        required = frozenset(schema.get("required", ()))
        # Scalars first: they distinguish the classes of a union before any nesting is looked into,
        # which would otherwise be searched again for each class at each depth.
        order = sorted(members, key=lambda name: (
            members[name].schema.get("type") not in _SCALARS.values()))

        def load(value: Any) -> Any:
            if not required <= _expect(dict, value).keys() <= members.keys():
                raise _MismatchError(f"expected the members of {cls.__name__}")
            return make(**{name: members[name].load(value[name])
                           for name in order if name in value})

        plain = make is dict and all(member.plain for member in members.values())
        plan.adapters[cls] = Adapter(schema, load, plain)
    plain = cls in plan.adapters and plan.adapters[cls].plain
    return Adapter(use, lambda value: plan.adapters[cls].load(value), plain)


def _adapt_members(plan: _Plan, fields: List[_Field],
                   documented: Dict[str, str] = {}) -> Tuple[dict, Dict[str, Adapter]]:
    """Return the schema of an object with these fields alone, and the adapter of each.

    A field shows a default that its own schema accepts. So `tag: str = None` may be left out but
    not be null; that takes an Optional[str].
    """
    members = {}
    for field in fields:
        with _within(field.name):
            member = members[field.name] = plan.adapt(field.annotation)
            description = member.schema.pop("description", documented.get(field.name))
            with contextlib.suppress(TypeError, ValueError, LookupError):
                default = to_json_value(field.default)
                member.load(default)
                member.schema.setdefault("default", default)
            if description:
                member.schema["description"] = description
    properties = {name: member.schema for name, member in members.items()}
    required = [field.name for field in fields if field.required]
    return {"type": "object", "properties": properties,
            **({"required": required} if required else {}), "additionalProperties": False}, members


def _list_fields(plan: _Plan, cls: Any) -> List[_Field]:
    """Return the fields of a TypedDict, NamedTuple or dataclass."""
    hints = _read_hints(cls, plan.names)
    if hasattr(cls, "__required_keys__"):
        fields = []
        for name, hint in hints.items():     # postponed qualifiers are not in __required_keys__
            forms = set(map(_name_form, _unwrap(hint)[1]))
            fields.append(_Field(name, hint, "Required" in forms or (
                name in cls.__required_keys__ and "NotRequired" not in forms)))
        return fields
    if hasattr(cls, "_field_defaults"):
        return [_Field(name, hints.get(name, Any), name not in cls._field_defaults,
                       cls._field_defaults.get(name, ...)) for name in cls._fields]
    import dataclasses
    return [_Field(field.name, hints[field.name],
                   field.default is field.default_factory,       # both are MISSING
                   ... if field.default is dataclasses.MISSING else field.default)
            for field in dataclasses.fields(cls)
            if field.init or plan.content_types]     # one that __init__ does not take only goes out


# ---- classes with values that travel as text

_DURATION = (r"(?a)([+-]?)P(?=.)(?:(\d+)W)?(?:(\d+)D)?"
             r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def _parse_time(cls: Any, text: str) -> Any:
    # Before Python 3.11 fromisoformat knows no Z, and fractions of 3 or 6 digits only.
    text = re.sub(r"\.(\d{1,6})\d*", lambda match: "." + match[1].ljust(6, "0"), text)
    return cls.fromisoformat(re.sub("[Zz]$", "+00:00", text))


def _parse_decimal(cls: Any, text: str) -> Any:
    number = cls(text)
    if not number.is_finite():
        raise ValueError(f"{number} is not finite")
    return number


def _parse_duration(cls: Any, text: str) -> Any:
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise ValueError("months and years have no fixed length, and all else is no duration")
    units = ("weeks", "days", "hours", "minutes", "seconds")
    duration = cls(**{unit: float(part) for unit, part in zip(units, match.groups()[1:]) if part})
    return -duration if match[1] == "-" else duration


def _format_duration(value: Any) -> str:
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds}{fraction}S"


# A class to the `format` of its values as text, and both ways. By module and name, since most
# programs never import these classes; a class that is annotated has been imported by its user.
_TEXT_TYPES: Dict[str, Tuple[str, Callable, Callable]] = {
    **{f"datetime.{name}": (form, _parse_time, lambda value: value.isoformat())
       for name, form in (("datetime", "date-time"), ("date", "date"), ("time", "time"))},
    "datetime.timedelta": ("duration", _parse_duration, _format_duration),
    "decimal.Decimal": ("decimal", _parse_decimal, str),
    **{name: (form, lambda cls, text: cls(text), str) for name, form in (
        ("uuid.UUID", "uuid"), ("pathlib.PurePath", "path"),
        *((f"ipaddress.IPv{version}{kind}", f"ipv{version}{kind.replace('Address', '').lower()}")
          for version in (4, 6) for kind in ("Address", "Interface", "Network")))},
}


def _find_text_type(cls: type) -> Optional[Tuple[str, Callable, Callable]]:
    """Return the row of the first class that `cls` is or extends, None if there is none."""
    # pathlib is a package in some versions of Python, and its classes live inside.
    rows = (_TEXT_TYPES.get(f"{base.__module__.partition('.')[0]}.{base.__qualname__}")
            for base in cls.__mro__)
    return next(filter(None, rows), None)


# ---- a Python value to its JSON value

def to_json_value(value: Any) -> Any:
    """Return `value` in JSON's own types, or raise TypeError or ValueError if it has no form.

    Dataclasses and NamedTuples become objects, tuples and sets arrays, Enum members their values.
    What is made of JSON's types already may come back as it is.
    """
    kind = type(value)
    dump = _DUMPS.get(kind) or _find_class(kind)[1]
    if dump is None:
        raise TypeError(f"{kind.__name__} has no form in JSON")
    return dump(value)


def _dump_number(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no form in JSON")
    return value


def _dump_array(items: Any) -> list:
    if type(items) is list and _ATOMS.issuperset(map(type, items)):
        return items
    return [to_json_value(item) for item in items]


def _dump_object(members: Any) -> dict:
    if {str}.issuperset(map(type, members)) and _ATOMS.issuperset(map(type, members.values())):
        return members if type(members) is dict else dict(members)
    dumped = {}
    for key, member in members.items():
        name = to_json_value(key)
        if isinstance(name, (list, dict)):
            raise TypeError(f"{key!r:.80} cannot name a member of a JSON object")
        # 1 is "1", None is "null"
        dumped[name if isinstance(name, str) else json.dumps(name)] = to_json_value(member)
    return dumped


def _dump_dataclass(value: Any) -> dict:
    import dataclasses
    return {field.name: to_json_value(getattr(value, field.name))
            for field in dataclasses.fields(value)}


_ATOMS = frozenset((str, int, bool, type(None)))
_DUMPS: Dict[type, Callable] = {
    **dict.fromkeys(_ATOMS, _give_back), float: _dump_number, dict: _dump_object,
    **dict.fromkeys((list, tuple, set, frozenset), _dump_array)}


# ---- which kind of type is adapted how

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_ARRAYS = {                              # what is annotated: what a JSON array becomes
    **dict.fromkeys((list, Iterable, Collection, Sequence, MutableSequence), list),
    **dict.fromkeys((set, Set, MutableSet), set), frozenset: frozenset, tuple: tuple}
_BUILDERS: Dict[Any, Callable] = {       # what is subscripted, or its name: the builder
    **dict.fromkeys((Any, object), lambda plan, bare: Adapter({}, _give_back, True)),
    **dict.fromkeys(_SCALARS, _adapt_scalar),
    "Literal": _adapt_choice,
    **dict.fromkeys(("Union", "UnionType"), _adapt_union),
    **dict.fromkeys(_ARRAYS, _adapt_array),
    tuple: _adapt_tuple,
    **dict.fromkeys((dict, Mapping, MutableMapping), _adapt_mapping)}
# The first row that a class fits, since an IntEnum is an Enum before it is an int: the builder of
# its adapter, and the way from its instances to JSON.
_CLASSES: Tuple[Tuple[Callable, Optional[Callable], Optional[Callable]], ...] = (
    (lambda cls: issubclass(cls, enum.Enum), _adapt_choice,
     lambda member: to_json_value(member.value)),
    (_find_text_type, _adapt_text, lambda value: _find_text_type(type(value))[2](value)),
    (lambda cls: hasattr(cls, "__dataclass_fields__"), _adapt_record, _dump_dataclass),
    (lambda cls: hasattr(cls, "_field_defaults"), _adapt_record,
     lambda value: _dump_object(value._asdict())),
    (lambda cls: hasattr(cls, "__required_keys__"), _adapt_record, None),
    (lambda cls: issubclass(cls, Mapping), None, _dump_object),
    (lambda cls: issubclass(cls, (list, tuple, Set)), None, _dump_array),
    (lambda cls: issubclass(cls, float), None, _dump_number),
    (lambda cls: issubclass(cls, (str, int)), None, _give_back),
    (lambda cls: True, None, None))


def _find_class(cls: type) -> tuple:
    return next(row[1:] for row in _CLASSES if row[0](cls))


def _find_builder(bare: Any) -> Optional[Callable]:
    """Return the function that builds the adapter of a bare annotation, or None."""
    origin = get_origin(bare)
    name = _name_form(origin)
    key = name if name in ("Literal", "Union", "UnionType") else origin or bare
    if isinstance(key, Hashable) and key in _BUILDERS:
        return _BUILDERS[key]
    return _find_class(bare)[0] if _is_class(bare) else None


# ---- annotations taken apart

def _is_class(annotation: Any) -> bool:
    return isinstance(annotation, type) and get_origin(annotation) is None   # not list[int]


def _name_form(origin: Any) -> Optional[str]:
    """Return the name of a special form; typing_extensions has its own, alike in name only."""
    return getattr(origin, "__name__", None) or getattr(origin, "_name", None)


def _unwrap(annotation: Any) -> Tuple[Any, list]:
    """Return what is inside Annotated, qualifiers, NewType and aliases, and their metadata."""
    metadata: list = []
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if _name_form(origin) in ("Annotated", "Required", "NotRequired", "ReadOnly", "Final"):
            metadata[:0] = origin, *arguments[1:]
            inner = arguments[0]
        else:                            # an alias is `type Name = ...`, since Python 3.12
            inner = getattr(annotation, "__supertype__", getattr(annotation, "__value__", None))
        if inner is None:
            return annotation, metadata
        annotation = inner


def _list_kinds(annotation: Any) -> list:
    """Return what an annotation allows besides None: the members of a Union, or itself alone."""
    bare, _ = _unwrap(annotation)
    options = get_args(bare) if _find_builder(bare) is _adapt_union else (bare,)
    return [_unwrap(option)[0] for option in options if option is not type(None)]


def _evaluate(annotation: Any, names: dict) -> Any:
    """Return an annotation with its strings evaluated; Any if there is none."""
    import inspect
    if annotation is inspect.Parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return _read_hints(holder, names)["it"]


def _read_hints(owner: Any, names: dict) -> dict:
    """Return the annotations of a class, by its own module or else by `names`, or of a holder.

    The SignatureError for one that cannot be evaluated says what to write.
    """
    wanted = owner
    if isinstance(owner, type):
        names = {**names, owner.__name__: owner}
        with contextlib.suppress(Exception):
            return get_type_hints(owner, include_extras=True)
    else:
        wanted = owner.__annotations__["it"]
    try:
        return get_type_hints(owner, names, names, include_extras=True)
    except Exception as error:           # a string annotation is code, and can raise anything
        advice = ""
        if isinstance(error, NameError):
            advice = "; define it where the whole module sees it, or drop the quotes"
        elif "|" in str(error):          # an operator that types have since Python 3.10
            optional = re.fullmatch(r"([^|]+?) *\| *None", str(wanted))
            advice = f"; write {f'Optional[{optional[1]}]' if optional else 'Optional or Union'}"
        raise SignatureError(f"{_format_annotation(wanted)} cannot be evaluated, {error}"
                             f"{advice}") from None


def _format_annotation(annotation: Any) -> str:
    """Return an annotation as its author wrote it, or nearly."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if _is_class(annotation) else repr(annotation).replace("typing.", "")


# ---- a docstring to its description, and to those of the parameters

_DOC_STYLES = (  # a section as (title, body), and an entry of a section as (names, description)
    (r"^(Args|Arguments|Keyword Args|Keyword Arguments|Parameters|Returns?|Yields?|Raises):[ \t]*\n"
     r"((?:[ \t]*\n|[ \t]+\S.*\n?)*)",
     r"^([\w*, ]+?)[ \t]*(?:\(.*?\))?:[ \t]*(.*(?:\n(?:[ \t].*)?$)*)"),
    (r"^:(param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b"
     r"(.*\n(?:[ \t]+\S.*\n)*)",
     r"^(?:[^:\n]*[ \t])?(\w+):([\s\S]*)"))


def _parse_docstring(text: str) -> Tuple[str, Dict[str, str]]:
    """Return the prose of a docstring, and the descriptions of parameters in its sections.

    Google and Sphinx styles are known; sections on results and exceptions are dropped.
    """
    import inspect
    text, described = inspect.cleandoc(text) + "\n", {}
    for section, entry in _DOC_STYLES:
        for title, body in re.findall(section, text, re.MULTILINE):
            if title.lower().startswith(("arg", "key", "param")):
                body = inspect.cleandoc("\n" + body)
                for names, description in re.findall(entry, body, re.MULTILINE):
                    words = " ".join(description.split())
                    described.update((name.strip(" *"), words) for name in names.split(","))
        text = re.sub(section, "\n", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip(), described


# ---- parameters that headers repeat. Spec: streamable-http, Custom Headers from Tool Parameters.

HeaderParameters = Dict[Tuple[str, ...], str]      # path of a parameter to its header's name
_DATA_KEYWORDS = frozenset({"default", "enum", "const", "examples"})    # hold values, not schemas
MAX_SAFE_INTEGER = 2 ** 53 - 1


def find_header_parameters(schema: Any) -> HeaderParameters:
    """Return which parameters of an input schema the `Mcp-Param-*` headers repeat.

    Raises SchemaError if an `x-mcp-header` is against the rules: it names a token that no other
    one uses, on a string, integer or boolean that only `properties` lead to.
    """
    found: HeaderParameters = {}
    waiting: List[Tuple[Optional[Tuple[str, ...]], Any]] = [((), schema)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, list):
            waiting += [(None, member) for member in part]
        if not isinstance(part, dict):
            continue
        name, kind = part.get("x-mcp-header", {}), part.get("type", "anything")
        if not isinstance(name, dict):
            fault = ""
            if not path:
                fault = "is not on a property that only `properties` lead to"
            elif not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
                fault = f"of {'.'.join(path)} is no header name"
            elif kind not in ("string", "integer", "boolean"):
                fault = (f"is on {'.'.join(path)}, which is no string, integer or boolean but "
                         + shorten(kind))
            elif name.lower() in map(str.lower, found.values()):
                fault = "is used twice"
            if fault:
                raise SchemaError(f"x-mcp-header {shorten(name)} {fault}")
            found[path] = name
        for keyword, member in part.items():
            if keyword == "properties" and isinstance(member, dict):
                waiting += [(None if path is None else (*path, name), property_schema)
                            for name, property_schema in member.items()]
            elif keyword not in _DATA_KEYWORDS:
                waiting.append((None, member))
    return found


def _find_parameter(arguments: Any, path: Tuple[str, ...]) -> Tuple[Any, Optional[str]]:
    """Return the argument at a path of properties and its header's text; None for what is not."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    if isinstance(arguments, bool):
        return arguments, "true" if arguments else "false"
    if isinstance(arguments, int):
        return arguments, str(arguments) if abs(arguments) <= MAX_SAFE_INTEGER else None
    return arguments, arguments if isinstance(arguments, str) else None


def build_parameter_headers(parameters: HeaderParameters, arguments: Any) -> Dict[str, str]:
    """Return the `Mcp-Param-*` headers of a call; raises UsageError for what none can carry."""
    headers = {}
    for path, name in parameters.items():
        value, text = _find_parameter(arguments, path)
        if text is not None:
            headers[f"Mcp-Param-{name}"] = format_header_value(text)
        elif value is not None:
            raise UsageError(must_be(f"{'.'.join(path)}, which goes into a header,", "a string, "
                                     "a boolean or a 53-bit integer", value))
    return headers


def check_parameter_headers(parameters: HeaderParameters, arguments: dict,
                            headers: Dict[str, str]) -> None:
    """Raise MCPError (-32020) unless the `Mcp-Param-*` headers say what the arguments say."""
    for path, name in parameters.items():
        header = headers.get(f"mcp-param-{name.lower()}")
        value, wanted = _find_parameter(arguments, path)
        text = None if header is None else parse_header_value(header)
        is_same = text is not None and text == wanted
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = re.fullmatch(r"(-?\d{1,16})(\.0+)?", text or "", re.ASCII)
            is_same = number is not None and int(number[1]) == value      # 42.0 is 42
        if header is not None and not is_same or (header is None) != (value is None):
            raise MCPError(HEADER_MISMATCH, f"Header mismatch: the Mcp-Param-{name} header "
                           + ("is missing" if header is None else f"says {shorten(header)}")
                           + f", the argument {'.'.join(path)} "
                           + ("is missing" if value is None else f"is {shorten(value)}"))


# ---- text to values: the words of a command line, and the parts of a URI

def coerce_text(text: str, schema: Any, root: Optional[dict] = None) -> Any:
    """Return text as the value that a schema wants: it decides, not the look of the text.

    If the schema takes a string the text stays as it is, so "012" stays "012". If it takes
    something else, the text is read as JSON; what does not fit stays text, for the check to find.
    """
    types = find_types(schema, schema if root is None else root)
    if not types or "string" in types:
        return text
    try:
        value = parse_json(text.encode("utf-8", "surrogateescape"))
    except ValueError:
        return text
    return text if isinstance(value, str) else value


def coerce_texts(texts: Dict[str, Any], schema: dict) -> dict:
    """Return arguments given as text as the values that an object schema wants."""
    properties = find_object(schema, "properties")
    return {name: coerce_text(text, properties.get(name), schema) if isinstance(text, str)
            else text for name, text in texts.items()}


def find_types(schema: Any, root: Any) -> set:
    """Return the names of the JSON types that a schema plainly takes, none if it is open.

    The schema may be a peer's: whatever is malformed counts as open, and nothing is visited twice.
    """
    found: set = set()
    waiting, seen = [schema], set()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            waiting.append(find_object(root, "$defs").get(reference.partition("#/$defs/")[2]))
        waiting += find_list(part.get("anyOf")) + find_list(part.get("oneOf"))
        names = part.get("type")
        if names is not None:
            found |= {name for name in find_list(names) or [names] if isinstance(name, str)}
        else:
            values = part.get("enum", [part["const"]] if "const" in part else [])
            found |= {"string" if isinstance(value, str) else "other" for value
                      in find_list(values)}
    return found


def list_choices(schema: dict) -> List[str]:
    """Return the texts of the values that a schema names one by one, such as those of an Enum.

    `coerce_text` makes the values of them again.
    """
    if schema.get("type") == "boolean":
        return ["true", "false"]
    choices = [value if isinstance(value, str) else encode_json(value)
               for value in schema.get("enum", ()) if value is not None]
    return choices + [choice for branch in schema.get("anyOf", ())
                      for choice in list_choices(branch)]


# =============================================================================================
# 8. REQUEST CHECKS
# =============================================================================================
# In: the head of an HTTP request, then one message with the headers that carried it (None on
# stdio). Out: what decides how it is served, or the refusal. Checks are made in a fixed order and
# the first that fails answers: a request with two faults gets the same answer from every server.


class Document(NamedTuple):
    """A small JSON document beside the endpoint, open to all: a row of `Policy.documents`.

    `build` takes the URL of the endpoint, as the client reaches it, and returns the JSON value.
    """

    build: Callable[[str], dict]
    media_type: str = JSON_TYPE
    headers: tuple = ()
    is_logged: bool = True

    @property
    def allow(self) -> str:
        """The HTTP methods of a document, as an Allow header names them."""
        return "GET, HEAD"


class Policy(NamedTuple):
    """What the HTTP side of a server accepts, fixed when it is bound."""

    path: str
    loopback: bool                       # bound to an address of this machine only
    allowed_hosts: frozenset
    allowed_origins: frozenset
    streams: bool                        # answers may be event streams, so clients must take them
    sessions: bool
    limits: Limits
    documents: Dict[str, Document] = {}  # by path; the endpoint's own path is never looked up
    access: Any = None                   # has authenticate(head) -> the caller; None: open to all

    @property
    def allow(self) -> str:
        """The HTTP methods of the endpoint, as an Allow header names them."""
        return "GET, POST, DELETE" if self.sessions else "POST"


class Features(NamedTuple):
    """What a server has on one of its transports, as far as the checks must know."""

    features: frozenset                  # "tools", "resources", ...
    needs_session: bool                  # legacy clients must name a session


class RequestContext(NamedTuple):
    """A message with all that decides how it is served: what the checks look at."""

    message: Message
    meta: dict                           # the message's _meta, empty when missing or no object
    headers: Optional[Headers]           # None on stdio
    session: Optional[Session]           # the living legacy session that it belongs to
    era: str
    version: str                         # the revision to serve it under; a check judges it
    principal: Any = None                # the caller, an object with a `subject`; None if unknown

    @property
    def subject(self) -> Optional[str]:
        """Who owns what is kept for this message, None if callers are not known."""
        return None if self.principal is None else self.principal.subject


# ---- Checks of the head, before the body is read.

def check_host(head: Head, policy: Policy) -> None:
    """A server on loopback answers only to its own names (no DNS rebinding)."""
    host, target = head.headers.get("host"), re.fullmatch(ABSOLUTE_TARGET, head.target)
    if host is None and not head.is_http_1_0:
        raise HTTPError(400, "the Host header is missing")
    # The target counts (RFC 9112, 3.2.2), but whoever stands between may go by the header.
    for name in (host, target and target.group(1)):
        if name and not split_host(name):
            raise HTTPError(400, f"the Host header names no one host: {shorten(name, 80)}")
        if name is not None and not is_host_allowed(name, policy.allowed_hosts, policy.loopback):
            raise HTTPError(421, f"this server is not {shorten(name, 80)}: "
                                 "allow that name with --allow-host")


def check_origin(head: Head, policy: Policy) -> None:
    """A browser page may call only from an allowed origin."""
    origin = head.headers.get("origin")
    if origin is not None and not is_origin_allowed(origin, policy.allowed_origins,
                                                    policy.loopback):
        raise HTTPError(403, f"pages of {shorten(origin, 80)} may not call this server: "
                             "allow that origin with --allow-origin")


def check_path(head: Head, policy: Policy) -> None:
    """Only the endpoint is served, besides the documents."""
    path = parse_target(head.target)
    if path != policy.path:
        raise HTTPError(404, f"there is nothing at {shorten(path, 80)}: "
                             f"the MCP endpoint is {policy.path}")


def check_http_method(head: Head, allow: str) -> None:
    """The endpoint takes POST, and with sessions GET and DELETE too; a document takes GET."""
    if head.method not in (*allow.split(", "), "OPTIONS"):
        raise HTTPError(405, f"{shorten(head.method, 20)} is not offered here: use {allow}",
                        (("Allow", allow),))


def check_content_type(head: Head) -> None:
    """A POST carries JSON. Browsers send JSON across origins only after asking first."""
    media_type = parse_media_type(head.headers.get("content-type"))
    if media_type != JSON_TYPE:
        raise HTTPError(415, "Unsupported Media Type: " + must_be(
            "Content-Type", JSON_TYPE, media_type or "missing", 80))
    if head.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPError(415, "Unsupported Media Type: a compressed body is not read",
                        (("Accept-Encoding", "identity"),))


def check_accept(head: Head, policy: Policy) -> None:
    """The client takes whatever form the answer may have."""
    accept = head.headers.get("accept")
    wanted = {"GET": (STREAM_TYPE,),
              "POST": (JSON_TYPE, STREAM_TYPE) if policy.streams else (JSON_TYPE,)}
    wanted = wanted.get(head.method, ())
    missing = [name for name in wanted if not is_acceptable(accept, name)]
    if missing:
        raise HTTPError(406, "Not Acceptable: Client must accept "
                        + ("both " if len(wanted) == 2 else "") + " and ".join(wanted),
                        data={"missing": missing, "accept": accept})


class CheckedRequest(NamedTuple):
    """A request head that passed all checks, with what reading on takes."""

    head: Head
    length: Optional[int]                # of the body; None when it is chunked
    keep_alive: bool
    expects_continue: bool
    origin: Optional[str]                # the browser page that calls the endpoint, if one does
    document: Optional[Document] = None  # the document that is asked for; None: the endpoint
    principal: Any = None                # the caller, as `Policy.access` knows it


def classify_head(head: Head, policy: Policy) -> CheckedRequest:
    """Return the CheckedRequest of a request head; raises the HTTPError of the first failure."""
    path, is_post = parse_target(head.target), head.method == "POST"
    document = None if path == policy.path else policy.documents.get(path)
    origin = principal = None
    check_host(head, policy)
    if document is None:                 # what a document says, it says to pages of every site
        check_origin(head, policy)
        check_path(head, policy)
        if policy.access is not None and head.method != "OPTIONS":
            # A browser that asks before it sends (OPTIONS) has no token yet.
            principal = policy.access.authenticate(head)
        origin = head.headers.get("origin")
    check_http_method(head, (document or policy).allow)
    if is_post:
        check_content_type(head)
    if document is None:
        check_accept(head, policy)
    length = parse_content_length(head, policy.limits.max_body) if is_post else 0
    expect = None if head.is_http_1_0 else head.headers.get("expect")
    if expect is not None and expect.lower() != "100-continue":
        raise HTTPError(417, "the only expectation that is met is 100-continue, but it is "
                        + shorten(expect, 80))
    # Only a POST has a body that is read; after any other with one the connection is closed.
    has_body = "transfer-encoding" in head.headers or head.headers.get(
        "content-length", "0") != "0"
    return CheckedRequest(head, length, is_kept_alive(head) and (is_post or not has_body),
                          expect is not None, origin, document, principal)


def admit(policy: Policy, data: bytes) -> CheckedRequest:
    """Return the CheckedRequest of the bytes of a request head, or raise HTTPError."""
    return classify_head(parse_head(data, policy.limits.max_headers), policy)


def find_refused_head(policy: Policy, data: bytes) -> Tuple[Optional[Head], Optional[str]]:
    """Return what can be known of a head that is refused: the head, and the page that may read why.

    Both may be None: the head if it is malformed, the page unless it may call this server.
    """
    head = None
    try:
        head = parse_head(data, policy.limits.max_headers)
        check_host(head, policy)
        check_origin(head, policy)
    except HTTPError:
        return head, None
    return head, head.headers.get("origin")


# ---- Checks of a modern message.
# Spec: 2026-07-28 basic, _meta; streamable-http, Server Validation.

def check_meta_complete(route: RequestContext, offer: Features) -> None:
    """Every request says its version and its client's capabilities."""
    meta = route.meta
    if not isinstance(meta.get(META_PROTOCOL_VERSION), str):
        key, wanted = META_PROTOCOL_VERSION, "a string"
    elif not isinstance(meta.get(META_CLIENT_CAPABILITIES), dict):
        key, wanted = META_CLIENT_CAPABILITIES, "an object"
    elif META_LOG_LEVEL in meta and meta[META_LOG_LEVEL] not in LOG_LEVELS:
        key, wanted = META_LOG_LEVEL, f"one of {', '.join(LOG_LEVELS)}"
    else:
        return
    raise MCPError(INVALID_PARAMS, "Invalid params: " + must_be(
        f"_meta[{key!r}]", wanted, meta.get(key, "missing")))


def check_headers_equal_body(route: RequestContext, offer: Features) -> None:
    """The headers say what the body says, so that a proxy may route by them."""
    if route.headers is None:
        return
    headers, message, fact = route.headers, route.message, METHODS.get(route.message.method)
    if headers.get("mcp-protocol-version") != route.version:
        raise mismatch_error(HEADER_PROTOCOL_VERSION, headers, route.version)
    if headers.get("mcp-method") != message.method:
        raise mismatch_error(HEADER_METHOD, headers, message.method)
    if fact is not None and fact.name_param is not None:
        name, header = message.params.get(fact.name_param), headers.get("mcp-name")
        if header is None or name is None or parse_header_value(header) != name:
            raise mismatch_error(HEADER_NAME, headers, name)


def mismatch_error(name: str, headers: Headers, body: Any) -> MCPError:
    """Return the error for a header that is missing, unreadable, or not what the body says."""
    header = headers.get(name.lower())
    if header is None:
        seen = "is missing"
    elif parse_header_value(header) is None:
        seen = f"cannot be read ({shorten(header)})"
    else:
        seen = f"says {shorten(header)}"
    return MCPError(HEADER_MISMATCH, f"Header mismatch: the {name} header {seen}, the body says "
                    + ("nothing" if body is None else shorten(body)))


def check_version_supported(route: RequestContext, offer: Features) -> None:
    """The message's version is one that the modern era has here."""
    if route.version not in MODERN_VERSIONS:
        raise version_error(route.version)


def version_error(requested: str) -> MCPError:
    """Return the error for a version that is not spoken; it lists those that are."""
    return MCPError(UNSUPPORTED_VERSION, "Unsupported protocol version: this server speaks "
                    + ", ".join(SUPPORTED_VERSIONS),
                    {"supported": list(SUPPORTED_VERSIONS), "requested": requested})


# ---- Checks of a legacy message. Spec: 2025-11-25 transports, Session Management, Protocol Version
# Header.

def check_session(route: RequestContext, offer: Features) -> None:
    """If sessions are kept, everything but `initialize` names one that lives."""
    if offer.needs_session and route.session is None and (
            getattr(route.message, "method", None) != "initialize"):
        raise session_error(route.headers)


def session_error(headers: Headers) -> HTTPError:
    """Return the refusal of a request without a living session."""
    if "mcp-session-id" not in headers:
        return HTTPError(400, "Bad Request: Missing session ID")
    return HTTPError(404, "Not Found: this session has ended, or never was; "
                          "send initialize without a session ID")


def check_version_header(route: RequestContext, offer: Features) -> None:
    """The version header names a revision that is spoken here."""
    version = (route.headers or {}).get("mcp-protocol-version")
    if version is not None and version not in LEGACY_VERSIONS:
        raise version_error(version)


# ---- What both eras check last.

def check_method(route: RequestContext, offer: Features) -> None:
    """The revision has the method, the server its feature, the client what the method needs."""
    if not isinstance(route.message, Request):
        return
    method = route.message.method
    fact = METHODS.get(method)
    if fact is None or route.version not in fact.versions or (
            fact.capability and fact.capability not in offer.features):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
    if fact.needs:
        check_declared(fact.needs, route.meta[META_CLIENT_CAPABILITIES])


_TYPE_NAMES = {str: "a string", dict: "an object"}


def check_params(route: RequestContext, offer: Features) -> None:
    """The method's parameters are there and of their types."""
    if not isinstance(route.message, Request):
        return
    params = route.message.params
    for name, (wanted, required) in METHODS[route.message.method].params.items():
        value = params.get(name)
        if not isinstance(value, wanted) and (required or value is not None):
            raise MCPError(INVALID_PARAMS, "Invalid params: " + must_be(
                name, _TYPE_NAMES[wanted], params.get(name, "missing")))


MODERN_CHECKS = (check_meta_complete, check_headers_equal_body, check_version_supported,
                 check_method, check_params)
LEGACY_CHECKS = (check_session, check_version_header, check_method, check_params)


def is_modern(meta: dict, headers: Optional[Headers]) -> bool:
    """Return whether a message is of the modern era, by its `_meta` or its version header."""
    return (META_PROTOCOL_VERSION in meta
            or headers is not None and headers.get("mcp-protocol-version") in MODERN_VERSIONS)


def build_route(message: Message, headers: Optional[Headers], session: Optional[Session],
                principal: Any = None) -> RequestContext:
    """Return the RequestContext of a message, not yet checked."""
    meta = None if isinstance(message, Response) else message.params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    header = None if headers is None else headers.get("mcp-protocol-version")
    if META_PROTOCOL_VERSION in meta or header in MODERN_VERSIONS:         # as in `is_modern`
        version = meta.get(META_PROTOCOL_VERSION, header)
        return RequestContext(message, meta, headers, None, "modern", version, principal)
    version = header or ASSUMED_VERSION if session is None else session.version
    return RequestContext(message, meta, headers, session, "legacy", version, principal)


def classify_message(route: RequestContext, offer: Features) -> None:
    """Raise the MCPError or HTTPError of the first check that a message fails.

    The modern transport asks nothing of a notification but a version that is spoken.
    """
    checks = LEGACY_CHECKS if route.era == "legacy" else MODERN_CHECKS
    if route.era == "modern" and not isinstance(route.message, Request):
        if isinstance(route.message, Response):
            # Spec: streamable-http, Sending Messages: the client MUST NOT send responses.
            raise MCPError(INVALID_REQUEST, "Invalid Request: a modern client sends no responses")
        checks = (check_version_supported,)
    for check in checks:
        check(route, offer)


# ---- What the log says of a request, whatever became of it.

_TRACEPARENT = "00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_SECRET_PARTS = r"(?s)(?<=//)[^/?#]*@|[?#].*"      # of a URI


def build_log_entry(value: Any, head: Optional[Head], status: int, seconds: Optional[float],
                    session_id: Optional[str]) -> dict:
    """Return what the log says of a request: no arguments, no results, no tokens, nothing long.

    `value` is the JSON value in its body and `head` its HTTP head; None if there is none, or it
    cannot be read. "method" is that of JSON-RPC, else that of HTTP; "name" the tool, prompt or
    resource; "session" the start of a session id; "ms" how long it took; "traceId" that of a
    valid traceparent (W3C Trace Context, version 00). Members that are unknown are left out.
    """
    params = find_object(value, "params")
    method = value.get("method") if isinstance(value, dict) else None
    if not isinstance(method, str):
        method = head.method if head else None
    name = params.get(METHODS[method].name_param) if method in METHODS else None
    traces = [re.fullmatch(_TRACEPARENT, holder["traceparent"])
              for holder in (head.headers if head else {}, find_object(params, "_meta"))
              if isinstance(holder.get("traceparent"), str)]
    return without_none({
        "method": None if method is None else shorten(method, 100),
        "name": shorten(re.sub(_SECRET_PARTS, "", name), 100) if isinstance(name, str) else None,
        "status": status, "ms": None if seconds is None else round(seconds * 1000, 1),
        "session": shorten_session_id(session_id) if session_id else None,
        "traceId": next((match.group(1) for match in traces if match), None)})


def format_log_text(entry: dict) -> str:
    """Return an entry of the log as a line for a person."""
    words = {"ms": "{} ms", "session": "session={}", "traceId": "trace={}"}
    return " ".join(words.get(name, "{}").format(value) for name, value in entry.items())


LOG_FORMATS = {"json": encode_json, "text": format_log_text}


# =============================================================================================
# 9. SESSIONS AND STREAMS
# =============================================================================================
# In: what a legacy client says once and means from then on. Out: who it is, and the way back to it.
# Clock, ids, locks and the log come in as a Runtime; the shells make a Channel of what they have.


class Runtime(NamedTuple):
    """What a server needs of the world around it."""

    now: Callable[[], float]               # seconds on a clock that never goes back
    wall_now: Callable[[], float]          # seconds since 1970, as the world outside counts
    new_id: Callable[[], str]              # unguessable, of visible ASCII
    secret: bytes                          # signs what clients keep for us
    new_lock: Callable[[], Any]
    new_event: Callable[[], Any]
    new_condition: Callable[[], Any]
    start_thread: Callable[[Callable[[], None]], Any]    # RuntimeError if there is none left
    log: Callable[[str], None]             # one line for the operator
    log_exception: Callable[[str], None]   # the same, with the traceback of the current exception


class Answer(NamedTuple):
    """What goes back for one message: JSON, or nothing (202), with the status that carries it."""

    status: int
    data: bytes = b""
    headers: tuple = ()
    media_type: str = JSON_TYPE


class Stream:
    """Messages on their way to one client, in order, of which the last ones are kept.

    `append` never waits. The one reader takes messages from where it is; it has lost some if it is
    further behind than the stream is long. A later reader takes the place of the former, so that
    no message travels twice. Spec: 2025-11-25 transports, Resumability.
    """

    def __init__(self, name: int, runtime: Runtime, limits: Limits):
        self.name = name                     # unique in the session: event ids begin with it
        self.first_id = f"{name}-0"          # the event id that stands before every message
        self.is_closed = False               # nothing more will come
        self.size = 0                        # bytes of the messages
        self._messages: deque = deque()
        self._limits = limits
        self._last = 0                       # number of the newest message; they count from 1
        self.reader: Any = None              # the one that may take messages
        self._position = 0                   # number of the last message that was taken
        self._changed = runtime.new_condition()        # guards all of these

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, text: str, once: bool = False) -> str:
        """Add a message and return its event id; `once`: not if the same one still waits there.

        The oldest messages go if there are too many; the newest stays.
        """
        with self._changed:
            if not (once and self._position < self._last and self._messages[-1] == text):
                self._last += 1
                self._messages.append(text)
                self.size += len(text)
                while len(self._messages) > self._limits.max_events or (
                        self.size > self._limits.max_event_bytes and len(self._messages) > 1):
                    self.size -= len(self._messages.popleft())
                self._changed.notify_all()
            return f"{self.name}-{self._last}"

    def close(self) -> None:
        """Let the stream end after what it has."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def attach(self, reader: Any, after: Optional[int] = None) -> None:
        """Make this the reader, from after a message, or from where the last reader was."""
        with self._changed:
            self.reader = reader
            position = self._position if after is None else min(after, self._last)
            self._position = max(position, self._last - len(self._messages))
            self._changed.notify_all()

    def detach(self, reader: Any) -> None:
        """Leave the stream without a reader, if it is still this one."""
        with self._changed:
            if self.reader is reader:
                self.reader = None
                self._changed.notify_all()

    def has_overflowed(self, reader: Any) -> bool:
        """Return whether this is the reader, and messages that it has not taken are gone."""
        return self.reader is reader and not self.has_after(self._position)

    def has_after(self, number: int) -> bool:
        """Return whether everything after a message is still there."""
        return self._last - len(self._messages) <= number <= self._last

    def read(self, reader: Any, seconds: float) -> Optional[List[Tuple[str, str]]]:
        """Return the messages that wait, with their event ids; none if none come in time.

        None means that there will be no more: the stream has ended, another reader has taken its
        place, or it has lost some.
        """
        with self._changed:
            if self._position == self._last and not self.is_closed and self.reader is reader:
                self._changed.wait(seconds)
            waiting = self._last - self._position
            if self.reader is not reader or waiting > len(self._messages) or (
                    self.is_closed and not waiting):
                return None
            fresh = islice(self._messages, len(self._messages) - waiting, None)
            start, self._position = self._position + 1, self._last
            return [(f"{self.name}-{number}", text) for number, text in enumerate(fresh, start)]


class Filter(NamedTuple):
    """The changes that a listener wants to hear of. Spec: basic/patterns/subscriptions."""

    lists: Collection[str] = frozenset()     # features whose lists may change
    uris: Collection[str] = frozenset()      # resources
    others: Mapping[str, Collection[str]] = {}         # what extras offer, ids by wire name

    def to_wire(self) -> dict:
        """Return the filter as requests and acknowledgements have it."""
        ids = {"resourceSubscriptions": self.uris, **self.others}
        return {**{f"{feature}ListChanged": True for feature in LIST_CHANGES
                   if feature in self.lists},
                **{name: sorted(value) for name, value in ids.items() if value}}


def parse_filter(wanted: dict, limits: Limits, others: Iterable[str]) -> Filter:
    """Return a filter as it came, `others` of its members too; raises MCPError for a wrong one."""
    ids = {}
    for name in ("resourceSubscriptions", *others):
        value = wanted.get(name) or []
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise MCPError(INVALID_PARAMS, "Invalid params: "
                           + must_be(name, "a list of strings", value))
        if len(set(value)) > limits.max_subscriptions:
            raise subscriptions_error(limits)
        ids[name] = frozenset(value)
    lists = frozenset(feature for feature in LIST_CHANGES
                      if wanted.get(f"{feature}ListChanged") is True)
    return Filter(lists, ids.pop("resourceSubscriptions"), ids)


def subscriptions_error(limits: Limits) -> MCPError:
    """Return the error for more subscriptions than one client may have."""
    return MCPError(INVALID_PARAMS, "Invalid params: one client may subscribe to "
                    f"{limits.max_subscriptions:,} resources")


def check_kept(what: str, value: Any) -> None:
    """Raise MCPError for more than is kept of what a client says once, for as long as it stays."""
    if len(encode_json(value)) > MAX_CLIENT_CHARS:
        raise MCPError(INVALID_PARAMS, f"Invalid params: {what} longer than {MAX_CLIENT_CHARS:,} "
                       "characters")


class Subscription:
    """A modern client that listens; `mark` goes into each notification."""

    __slots__ = ("filter", "stream", "mark")

    def __init__(self, wanted: Filter, stream: Stream, mark: dict):
        self.filter, self.stream, self.mark = wanted, stream, mark


class Session:
    """A legacy client after its `initialize`, and what is on its way to it.

    Owned by Sessions, which changes `last_used` under its lock; the others change in one step
    each. As a listener it wants every change of a list, and those resources it subscribed to.
    """

    def __init__(self, session_id: Optional[str], version: str, client_info: dict,
                 client_capabilities: dict, runtime: Runtime, limits: Limits,
                 owner: Optional[str] = None):
        self.id = session_id                 # None on stdio, where the process is the session
        self.version = version
        self.client_info = client_info
        self.client_capabilities = client_capabilities
        self.log_level = "info"
        self.last_used = runtime.now()
        self.channels: set = set()           # that serve it now: such a session is not idle
        self.replies: Dict[Any, Callable[[Response], None]] = {}     # by id of our request
        self.filter = Filter(frozenset(LIST_CHANGES), set())
        self.mark: dict = {}
        self.streams: Dict[int, Stream] = {}           # by name, oldest first, to be resumed
        self._numbers = count(1)             # of streams and requests
        self._runtime = runtime
        self._limits = limits
        self.owner = owner                   # the subject who opened it, None if no one is asked

    @property
    def stream(self) -> Stream:
        """The stream of what belongs to no call. It is made by its first use: most never are."""
        if 0 not in self.streams:
            self.streams.setdefault(0, Stream(0, self._runtime, self._limits))
        return self.streams[0]

    def expect(self, receive: Callable[[Response], None]) -> int:
        """Return the id for a request to the client; its response will be handed to `receive`."""
        request_id = next(self._numbers)
        self.replies[request_id] = receive
        return request_id

    def take_response(self, response: Response) -> None:
        """Hand a response to what waits for it; any other is dropped."""
        receive = self.replies.pop(response.id, None)
        if receive is not None:
            receive(response)

    def open_stream(self) -> Stream:
        """Return a new stream for a call; the oldest ones that have ended make room."""
        streams = [stream for stream in list(self.streams.values()) if stream.name > 0]
        length, size = sum(map(len, streams)), sum(stream.size for stream in streams)
        for stream in streams:
            if length < self._limits.max_events and size < self._limits.max_event_bytes:
                break
            if stream.is_closed:
                length, size = length - len(stream), size - stream.size
                self.streams.pop(stream.name, None)
        stream = Stream(next(self._numbers), self._runtime, self._limits)
        self.streams[stream.name] = stream
        return stream

    def find_stream(self, event_id: Optional[str]) -> Tuple[Stream, Optional[int]]:
        """Return the stream that an event id is of, and the number of that event in it.

        Without an id it is the one of what belongs to no call. Raises HTTPError (400) if what
        came after the event is no longer there.
        """
        if event_id is None:
            return self.stream, None
        match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", event_id)
        name, number = map(int, match.groups()) if match else (None, 0)
        stream = self.stream if name == 0 else self.streams.get(name)
        if stream is None or not stream.has_after(number):
            raise HTTPError(400, f"nothing is kept after event {shorten(event_id, 40)}: "
                              "listen again, without Last-Event-ID")
        return stream, number

    def close(self) -> None:
        """End what serves the session at the moment."""
        for channel in tuple(self.channels):
            channel.close()


# A session id begins with the name of the instance that made it, and a dot.
_INSTANCE = r"[A-Za-z0-9_-]{1,32}"


def shorten_session_id(session_id: str) -> str:
    """Return the start of a session id, which tells sessions apart but lets no one in."""
    return shorten(re.match(rf"(?:{_INSTANCE}\.)?.{{0,8}}", session_id, re.DOTALL).group())


class Sessions:
    """The legacy sessions of one server, least recently used first.

    If the server is one of several, `instance` is its name, with which all their ids begin, so
    that a proxy can tell whose they are. Raises UsageError for a name that is not valid.
    """

    def __init__(self, runtime: Runtime, limits: Limits, instance: Optional[str] = None):
        if instance is not None and not (isinstance(instance, str)
                                         and re.fullmatch(_INSTANCE, instance)):
            raise UsageError(must_be("the name of an instance", "1 to 32 letters, digits, _ or -",
                                     instance))
        self._prefix = "" if instance is None else instance + "."
        self._runtime = runtime
        self._limits = limits
        self._lock = runtime.new_lock()
        self._by_id: Dict[str, Session] = {}         # guarded by _lock

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def create(self, version: str, client_info: dict, client_capabilities: dict,
               owner: Optional[str] = None) -> Session:
        """Return a new session; expired ones go, and the idlest one if there are too many."""
        now = self._runtime.now()
        session = Session(self._prefix + self._runtime.new_id(), version, client_info,
                          client_capabilities, self._runtime, self._limits, owner)
        ended = []
        with self._lock:
            for old in list(islice(self._by_id.values(), 8)):        # few, so that cost is flat
                if old.channels:
                    self._touch(old, now)
                elif self._is_expired(old, now) or len(self._by_id) >= self._limits.max_sessions:
                    ended.append(self._by_id.pop(old.id))
            while len(self._by_id) >= max(1, self._limits.max_sessions):
                ended.append(self._by_id.pop(next(iter(self._by_id))))
            self._by_id[session.id] = session
        for old in ended:
            old.close()
        return session

    def _is_expired(self, session: Session, now: float) -> bool:
        return not session.channels and now - session.last_used > self._limits.session_seconds

    def _touch(self, session: Session, now: float) -> None:
        """Mark a session as used. Holds the lock."""
        self._by_id[session.id] = self._by_id.pop(session.id)
        session.last_used = now

    def find(self, session_id: Optional[str], owner: Optional[str] = None) -> Optional[Session]:
        """Return the living session with this id and mark it as used, else None.

        To anybody but its owner a session does not exist: an id may be guessed, or be stolen.
        """
        now = self._runtime.now()
        with self._lock:
            session = self._by_id.get(session_id)
            if session is None or session.owner != owner:
                return None
            if self._is_expired(session, now):
                del self._by_id[session_id]
                return None
            self._touch(session, now)
            return session

    def delete(self, session_id: Optional[str]) -> None:
        """End a session, if there is one with this id."""
        with self._lock:
            session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()


class Channel:
    """The way back to the client of one request; the shells make it real.

    `Server.receive` takes one: this class itself drops what is sent ahead of the answer.
    """

    session: Optional[Session] = None      # the session that `initialize` opened
    can_stream = True                      # messages may go ahead of the answer
    cancelled = False                      # the client no longer wants the answer
    cancelled_ids: frozenset = frozenset() # the same for these requests only: it may be a batch
    access: Any = None                     # what checks the caller's scopes, None: nothing does
    principal: Any = None                  # who calls, if the server asks
    is_stopping = False                    # the client does, but the server is about to end

    def send(self, message: dict) -> None:
        """Send a message ahead of the answer, or drop it if that cannot be done."""

    def is_cancelled(self, request_id: Any) -> bool:
        """Return whether the client no longer wants the answer to a request."""
        return self.cancelled or request_id in self.cancelled_ids

    def follow(self, stream: Stream) -> bool:
        """Send what comes in a stream until it ends; return False if some of it was lost."""
        return True

    def send_progress(self, token: Any, progress: float, total: Optional[float],
                      message: Optional[str]) -> None:
        """Notify the client how far the work is, if it gave a token for that."""
        if is_request_id(token):
            self.send(build_notification("notifications/progress", without_none(
                {"progressToken": token, "progress": progress, "total": total,
                 "message": message})))

    def open_session(self, version: str, client_info: dict, client_capabilities: dict) -> None:
        """Remember the legacy client, if this transport does."""

    def close_stream(self, retry_ms: int) -> None:
        """Have the client come back for the answer, if it can."""

    def close(self) -> None:
        """End what would otherwise go on: a stream that is followed, or the call."""


# =============================================================================================
# 10. INPUT REQUESTS
# =============================================================================================
# In: what a handler wants to know of the user, of a model, or of the client's folders. Out: the
# answers. A legacy client is asked on the stream of the call and answers by a POST of its own. A
# modern one gets the questions as the result of its call and calls again with the answers; those
# of earlier rounds come back in a sealed requestState, so that nothing is kept here between them.


class Elicited(NamedTuple):
    """What the user did with a form or a link: "accept", "decline" or "cancel".

    `content` is what an accepted form holds: a dict, or an instance of the class that was given
    as its schema. It is None otherwise.
    """

    action: str
    content: Any = None


class Elicitation(NamedTuple):
    """A question to the user: a form to fill in (`schema`), or a page to visit (`url`).

    `schema` is a JSON Schema of a flat object, or a dataclass, TypedDict or NamedTuple of str,
    int, float, bool, date, datetime, Enum, Literal, or lists of the last two; without one there is
    only to accept or decline. Secrets belong on a page, never in a form. Spec: client/elicitation.
    """

    message: str
    schema: Any = None
    url: Optional[str] = None
    method = "elicitation/create"

    @property
    def capability(self) -> dict:
        """What the client must have declared."""
        return {"elicitation": {"form" if self.url is None else "url": {}}}

    def build_params(self, version: str, new_id: Callable[[], str]) -> dict:
        """Return the params of the request; raises UsageError for what cannot be asked so."""
        if self.url is None:
            return {"message": self.message, "requestedSchema": build_form(self.schema)[0]}
        if self.schema is not None or re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+",
                                                   self.url) is None:
            raise UsageError("a question has a schema or the whole URL of a page, but this one "
                             f"has {shorten(self.schema)} and {shorten(self.url)}")
        params = {"mode": "url", "message": self.message, "url": self.url}
        if version == LATEST_LEGACY_VERSION:   # the one revision that asks for an id of the visit
            params["elicitationId"] = new_id()
        return params

    def read(self, result: dict) -> Elicited:
        """Return what the user did, or raise ValueError for an answer that breaks the rules."""
        action, content = result.get("action"), result.get("content")
        if action not in ("accept", "decline", "cancel"):
            raise ValueError(must_be("action", "accept, decline or cancel", action))
        if action != "accept" or self.url is not None:
            return Elicited(action)
        schema, convert = build_form(self.schema)
        content = {} if content is None else content
        errors = compile_schema(schema).errors(content)
        if errors:
            raise ValueError("content: " + "; ".join(errors))
        # Spec: basic/patterns/mrtr, Error Handling: what was not asked for is ignored.
        return Elicited(action, convert({name: value for name, value in content.items()
                                         if name in schema["properties"]}))


# ---- forms. Spec: client/elicitation, Requested Schema.

def build_form(schema: Any) -> Tuple[dict, Callable[[Any], Any]]:
    """Return the schema of a form, given one, a class, or None (a form without members); and what
    makes of its content what the asker wants.

    Raises UsageError for a member that no form can show, SchemaError for a broken schema.
    """
    convert = _give_back
    if schema is None:
        schema = {"type": "object", "properties": {}}
    elif not isinstance(schema, dict):
        whole, convert, _ = adapt(schema)
        schema = {name: whole[name] for name in ("type", "properties", "required")
                  if name in whole}
        for member in schema.get("properties", {}).values():
            if member.get("format") not in (None, "email", "uri", "date", "date-time"):
                del member["format"]
    compile_schema(schema)
    members = schema.get("properties")
    if schema.get("type") != "object" or members is None:
        raise UsageError("a form's schema describes an object with properties, but is "
                         + shorten(schema))
    for name, member in members.items():
        kind = member.get("type") if isinstance(member, dict) else None
        choices = _list_form_choices(member.get("items") if kind == "array" else member)
        if not (kind == "string" or kind in ("number", "integer", "boolean") and not choices
                or kind == "array" and choices and all(isinstance(one, str) for one in choices)):
            raise UsageError(f"a form cannot ask for {name}: it takes str, int, float, bool, "
                             "dates, choices of texts and lists of these (instead of None, use a "
                             "default)")
    return schema, convert


def _list_form_choices(schema: Any) -> list:
    schema = schema if isinstance(schema, dict) else {}
    titled = [choice for name in ("oneOf", "anyOf") for choice in schema.get(name, ())]
    return [*schema.get("enum", ()),
            *(choice.get("const") for choice in titled if isinstance(choice, dict))]


# Type of a content block to the members that a reader of it counts on, and their kinds.
_SAMPLING_BLOCKS = {"text": {"text": str}, "image": {"data": str, "mimeType": str},
                    "audio": {"data": str, "mimeType": str},
                    "tool_use": {"id": str, "name": str, "input": dict},
                    "tool_result": {"toolUseId": str, "content": list}}


class Sampling(NamedTuple):
    """A question to the client's model; the answer is its message, a dict.

    `messages` is a str (said by the user) or a list of {"role", "content"}; `tools` are
    definitions as `tools/list` has them, `tool_choice` is {"mode": "auto" | "required" | "none"}.
    Spec: client/sampling.
    """

    messages: Any
    max_tokens: int = 1000
    system_prompt: Optional[str] = None
    temperature: Optional[float] = None
    stop_sequences: Optional[list] = None
    model_preferences: Optional[dict] = None
    include_context: Optional[str] = None
    tools: Optional[list] = None
    tool_choice: Optional[dict] = None
    metadata: Optional[dict] = None
    method = "sampling/createMessage"

    @property
    def capability(self) -> dict:
        """What the client must have declared."""
        has_tools = self.tools is not None or self.tool_choice is not None
        return {"sampling": {**({"tools": {}} if has_tools else {}),
                             **({"context": {}} if self.include_context not in (None, "none")
                                else {})}}

    def build_params(self, version: str, new_id: Callable[[], str]) -> dict:
        """Return the params of the request; its members are named as those of this class."""
        messages: List[dict] = []
        for value in self.messages if isinstance(self.messages, list) else [self.messages]:
            message = value if isinstance(value, dict) and "role" in value else {
                "role": "user", "content": value}
            if isinstance(message.get("content"), str):
                message = {**message, "content": {"type": "text", "text": message["content"]}}
            messages.append(message)
        return without_none({**{re.sub("_(.)", lambda match: match[1].upper(), name): value
                                for name, value in self._asdict().items()}, "messages": messages})

    def read(self, result: dict) -> dict:
        """Return the model's message, or raise ValueError for what is none."""
        content = result.get("content")
        for block in content if isinstance(content, list) else [content]:
            block = block if isinstance(block, dict) else {}
            members = {"type": str, **_SAMPLING_BLOCKS.get(str(block.get("type")), {})}
            if result.get("role") not in ("assistant", "user") or not all(
                    isinstance(block.get(name), kind) for name, kind in members.items()):
                raise ValueError(f"this is no message of a model: {shorten(result)}")
        return result


class Roots(NamedTuple):
    """The question which folders the client works in; the answer is a list of {"uri", "name"}."""

    method = "roots/list"
    capability = {"roots": {}}

    def build_params(self, version: str, new_id: Callable[[], str]) -> dict:
        """Return the params of the request."""
        return {}

    def read(self, result: dict) -> list:
        """Return the roots, or raise ValueError for what holds none."""
        roots = result.get("roots")
        if not isinstance(roots, list) or not all(
                isinstance(root, dict) and isinstance(root.get("uri"), str) for root in roots):
            raise ValueError(must_be("roots", "a list of objects with a uri", roots))
        return roots


Question = Union[Elicitation, Sampling, Roots]


def build_input_request(question: Question, version: str) -> dict:
    """Return a question as a modern client gets it, among `inputRequests`."""
    return {"method": question.method, "params": question.build_params(version, lambda: "")}


def parse_input_request(request: dict) -> Question:
    """Return the question in one of `inputRequests`, as far as its answer is judged by it."""
    method, params = request["method"], request["params"]
    if method == Elicitation.method:
        return Elicitation(params["message"], params.get("requestedSchema"), params.get("url"))
    return Sampling(params["messages"]) if method == Sampling.method else Roots()


def read_answer(key: str, question: Question, answer: Any) -> Any:
    """Return what an answer says, or raise MCPError -32602 for one that breaks the rules."""
    try:
        if not isinstance(answer, dict):
            raise ValueError(must_be("it", "an object", answer))
        return question.read(answer)
    except (TypeError, ValueError) as error:
        raise MCPError(INVALID_PARAMS, f"Invalid answer to {shorten(key, 80)}: {error}") from None


# ---- what the client has declared

def find_undeclared(needed: dict, declared: Any) -> dict:
    """Return the part of the needed capabilities that a client has not declared."""
    missing = {}
    for name, inner in needed.items():
        has = declared.get(name) if isinstance(declared, dict) else None
        if name == "elicitation" and has == {}:
            has = {"form": {}}                 # Spec: client/elicitation, Capabilities
        if not isinstance(has, dict) or find_undeclared(inner, has):
            missing[name] = inner
    return missing


def check_declared(needed: dict, declared: dict, remark: str = "") -> None:
    """Raise MCPError -32021 unless the client has declared all that is needed."""
    def list_names(capabilities: dict, parent: str = "") -> List[str]:
        return [path for name, inner in sorted(capabilities.items())
                for path in list_names(inner, f"{parent}{name}/") or [parent + name]]

    missing = find_undeclared(needed, declared)
    if missing:
        raise MCPError(MISSING_CLIENT_CAPABILITY, "Missing required client capability: "
                       + ", ".join(list_names(missing)) + remark,
                       {"requiredCapabilities": missing})


# ---- the ways to ask: a function takes questions by key, and returns the answers by key

def ask_on_stream(route: RequestContext, channel: Channel, runtime: Runtime, seconds: float,
                  questions: Dict[str, Question]) -> dict:
    """Ask a legacy client by requests on the stream of its own call, and wait for the answers.

    Raises TransportError if they do not come within so many seconds.
    """
    params = {key: question.build_params(route.version, runtime.new_id)
              for key, question in questions.items()}          # all of them, before one is sent
    arrived, ids, responses = runtime.new_event(), {}, {}
    deadline = runtime.now() + seconds

    def receive(response: Response) -> None:
        responses[response.id] = response
        arrived.set()
    try:
        for key, question in questions.items():
            ids[key] = route.session.expect(receive)
            channel.send(build_request(ids[key], question.method, params[key]))
        while len(responses) < len(ids):
            if arrived.wait(0.25):
                arrived.clear()
            elif channel.is_cancelled(route.message.id):
                raise TransportError("the client cancelled the call that asked it something")
            elif channel.is_stopping:
                raise TransportError("the server is stopping, and the client has not answered")
            elif runtime.now() > deadline:
                methods = ", ".join(sorted({question.method for question in questions.values()}))
                raise TransportError(f"the client did not answer {methods} within {seconds:g} s")
        for response in responses.values():
            if response.error is not None:
                raise response.error
        return {key: read_answer(key, question, responses[ids[key]].result)
                for key, question in questions.items()}
    finally:
        for request_id in ids.values():
            if route.session.replies.pop(request_id, None) is not None:
                channel.send(build_notification("notifications/cancelled", {
                    "requestId": request_id, "reason": "the answer is no longer wanted"}))


class InputRequired(BaseException):
    """Ends a modern round that needs answers; `result` goes to the client.

    Not an Exception, for a handler that forgives every Exception must still ask.
    """

    def __init__(self, result: dict):
        super().__init__()
        self.result = result


class RoundAsker:
    """Asks a modern client by an `input_required` result; the handler runs again on its retry.

    An answer belongs to its key and to the very question, both of which a digest stands for: if
    the question has changed meanwhile, it is asked again. Spec: basic/patterns/mrtr.
    """

    def __init__(self, route: RequestContext, server_name: str, runtime: Runtime, limits: Limits):
        params = route.message.params
        self._version = route.version
        self._runtime = runtime
        self._limits = limits
        self._purpose = [server_name, route.message.method, route.subject, _build_digest(
            {name: value for name, value in params.items()
             if name not in ("_meta", "inputResponses", "requestState")})]
        self._given = params.get("inputResponses") or {}
        state = {"asked": None, "answers": {}}
        if params.get("requestState") is not None:
            state = self._open(params["requestState"])
        self._asked: Optional[list] = state["asked"]     # digests; None: we do not know
        self._answers: Dict[str, Any] = state["answers"]            # by digest

    def ask(self, questions: Dict[str, Question]) -> dict:
        """Return the answers by key, or raise InputRequired for those that are missing."""
        results, missing, asked = {}, {}, []
        for key, question in questions.items():
            wire = build_input_request(question, self._version)
            digest = _build_digest([key, wire])
            answer = self._answers.get(digest)
            if answer is None and (self._asked is None or digest in self._asked):
                answer = self._given.get(key)
            if answer is None:
                missing[key] = wire
                asked.append(digest)
            else:
                results[key] = read_answer(key, question, answer)
                self._answers[digest] = answer
        if missing:
            raise InputRequired({
                "resultType": "input_required", "inputRequests": missing,
                "requestState": self._seal({"asked": asked, "answers": self._answers})})
        return results

    def _sign(self, data: bytes) -> bytes:
        import hmac
        return hmac.digest(self._runtime.secret, b"requestState:" + data, "sha256")

    def _seal(self, state: dict) -> str:
        expiry = int(self._runtime.wall_now() + self._limits.state_seconds)
        data = encode_json({**state, "for": self._purpose, "until": expiry}).encode("ascii")
        if len(data) > self._limits.max_body / 2:
            raise UsageError(f"the answers so far take {len(data):,} bytes, too many for the "
                             f"client to bring back (max_body is {self._limits.max_body:,})")
        return ".".join(base64.urlsafe_b64encode(part).decode("ascii")
                        for part in (data, self._sign(data)))

    def _open(self, sealed: Any) -> dict:
        """Return the state of a requestState: ours, in time, and given for this very request."""
        import hmac
        state = None
        with contextlib.suppress(AttributeError, ValueError):
            data, signature = (base64.b64decode(part.encode("ascii"), b"-_", validate=True)
                               for part in sealed.split("."))
            if hmac.compare_digest(signature, self._sign(data)):
                state = json.loads(data)
        if state is None or state["for"] != self._purpose:
            raise MCPError(INVALID_PARAMS, "Invalid requestState: it was not given for this "
                           "request (send the one of the last input_required result unchanged)")
        if state["until"] < self._runtime.wall_now():
            raise MCPError(INVALID_PARAMS, "Invalid requestState: it has expired; call again "
                           "without it")
        return state


def _build_digest(value: Any) -> str:
    """Return what stands for a JSON value, whatever the order of its members."""
    import hashlib
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


# =============================================================================================
# 11. SERVER
# =============================================================================================
# In: a JSON value with the headers that carried it. Out: an Answer. What is offered (tools,
# resources, prompts, completions), and a handler for each method.

# Spec: 2025-03-26 transports: the only revision that allows JSON-RPC batches.
BATCH_VERSION = "2025-03-26"
MAX_URI_CHARS = 65_536                 # of a URI that is held against templates
MAX_BATCH = 100                        # messages: the answers to all of them are one
PAGE_SIZE = 500


class ToolResult(dict):
    """A whole `tools/call` result, sent as it is: content, structuredContent, isError, _meta."""


class Context:
    """What a handler may know and do beyond its arguments.

    A parameter annotated `Context` receives it; it never shows in a schema. `request_id` and `meta`
    (its `_meta`) are those of the request, `protocol_version` is the revision under which it is
    served. `principal` is who calls, as `auth` found; None on stdio, and if there is no `auth`.
    """

    __slots__ = ("server", "route", "channel", "asker", "extra", "request_id", "protocol_version",
                 "meta", "principal", "_progress", "_keys")

    def __init__(self, server: Server, route: RequestContext, channel: Channel):
        self.server = server
        self.route = route                       # the checked request
        self.channel = channel                   # the way back to its client
        self.request_id, self.protocol_version = route.message.id, route.version
        self.meta, self.principal = route.meta, route.principal
        self.asker: Any = None                   # once something is asked
        self.extra: Any = None                   # of what runs the call, if the core does not
        self._progress: Optional[float] = None
        self._keys: Dict[str, int] = {}          # how often each key of a question has been used

    @property
    def headers(self) -> Mapping:
        """The HTTP headers of the request, names in lower case, read-only; empty on stdio."""
        return types.MappingProxyType(self.route.headers or {})

    @property
    def session_id(self) -> Optional[str]:
        """The legacy session's id, None if there is none."""
        return self.route.session.id if self.route.session else None

    @property
    def client_info(self) -> dict:
        """What the client says of itself: {"name": ..., "version": ...}, or nothing."""
        session = self.route.session
        info = session.client_info if session else self.meta.get(META_CLIENT_INFO)
        return info if isinstance(info, dict) else {}

    @property
    def client_capabilities(self) -> dict:
        """What the client says it can do."""
        if self.route.era == "modern":
            return self.meta[META_CLIENT_CAPABILITIES]
        return self.route.session.client_capabilities if self.route.session else {}

    @property
    def cancelled(self) -> bool:
        """Whether the client has gone or cancelled, or the server is stopping.

        Long work should look now and then. In a server that stops, what is returned within
        `STOP_SECONDS` still reaches the client.
        """
        return self.channel.is_cancelled(self.request_id) or self.channel.is_stopping

    def elicit(self, message: str, schema: Any = None, *, url: Optional[str] = None,
               key: Optional[str] = None) -> Elicited:
        """Ask the user, by a form (`schema`) or a page to visit (`url`); see `Elicitation`.

        Blocks while a legacy client asks. For a modern client it ends the handler,
        which runs again from its start when the answer is there: ask before you act. `key` names
        the question to the client; without one, questions are told apart by their order. Raises
        MCPError -32021 if the client cannot ask (send it on), TransportError if no answer comes.
        """
        return self._ask_one(key or "elicitation", Elicitation(message, schema, url))

    def sample(self, messages: Any, *, key: Optional[str] = None, **options: Any) -> dict:
        """Ask the client's model, and return its message; options and shapes: see `Sampling`."""
        return self._ask_one(key or "sampling", Sampling(messages, **options))

    def roots(self, key: Optional[str] = None) -> list:
        """Ask which folders the client works in: a list of {"uri", "name"}."""
        return self._ask_one(key or "roots", Roots())

    def ask(self, questions: Dict[str, Question]) -> dict:
        """Ask several things at once, each under a key of its own; return the answers by key."""
        method = self.route.message.method
        if not METHODS[method].asks:
            raise UsageError(f"{method} may ask nothing: only tools, prompts and resources do")
        is_known = self.route.session is not None or self.route.era == "modern"
        for question in questions.values():
            check_declared(question.capability, self.client_capabilities, "" if is_known else
                           " (a legacy client declares it for a session, but this is in none)")
        if self.asker is None:
            self.asker = self.server.build_asker(self.route, self.channel)
        return self.asker(questions)

    def _ask_one(self, key: str, question: Question) -> Any:
        # In a loop the same words ask again: each time under another key.
        times = self._keys[key] = self._keys.get(key, 0) + 1
        key = key if times == 1 else f"{key}-{times}"
        return self.ask({key: question})[key]

    def close_stream(self, retry_seconds: float = 1.0) -> None:
        """Hang up on a legacy client of 2025-11-25 with a session; the call goes on.

        It comes back after `retry_seconds` for what it has missed and for the answer. Without
        effect for others. Spec: 2025-11-25 transports, Sending Messages.
        """
        if self.route.session is not None and self.route.version == LATEST_LEGACY_VERSION:
            self.channel.close_stream(int(retry_seconds * 1000))

    def progress(self, progress: float, total: Optional[float] = None,
                 message: Optional[str] = None) -> None:
        """Notify the client how far the work is, if it asked for that.

        `progress` must grow from call to call; one that does not is dropped, as the
        specification forbids it. Spec: basic/patterns/progress.
        """
        if self._progress is None or progress > self._progress:
            self._progress = progress
            self.channel.send_progress(self.meta.get("progressToken"), progress, total, message)

    def log(self, level: str, data: Any, logger: Optional[str] = None) -> None:
        """Send a log message to the client, if it wants messages of this level.

        A modern request says so in `_meta`, a legacy client by `logging/setLevel` ("info" until
        then). `level` is one of LOG_LEVELS. Spec: server/utilities/logging.
        """
        if level not in LOG_LEVELS:
            raise UsageError(must_be("the log level", f"one of {', '.join(LOG_LEVELS)}", level))
        session = self.route.session
        least = (self.meta.get(META_LOG_LEVEL) if self.route.era == "modern"
                 else session.log_level if session else "info")
        if least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least):
            self.channel.send(build_notification("notifications/message", without_none(
                {"level": level, "logger": logger, "data": data})))


class Item(NamedTuple):
    """One registered tool, resource, template, prompt or completion.

    `definition` is what a list shows of it; `legacy_definition` the same for revisions that know
    no other structured content than objects.
    """

    key: str
    function: Callable
    signature: Signature
    definition: dict
    legacy_definition: dict
    input_schema: CompiledSchema
    output_schema: Optional[CompiledSchema] = None
    mime_type: Optional[str] = None
    template: Optional[UriTemplate] = None
    cache_hints: dict = {}                 # of what a resource gives to read, if it has its own
    header_parameters: HeaderParameters = {}
    scopes: Tuple[str, ...] = ()           # that a caller must have
    runner: Optional[Callable] = None      # runner(tool, bound, context) runs a call of the tool

    def bind(self, arguments: dict, context: Optional[Context]) -> dict:
        """Return JSON arguments as the function takes them; raises ArgumentError."""
        errors = self.input_schema.errors(arguments)
        if errors:
            raise ArgumentError("; ".join(errors))
        bound, name = self.signature.bind(arguments), self.signature.context_parameter
        return bound if name is None else {**bound, name: context}

    def check_scopes(self, context: Context) -> None:
        """Raise HTTPError (403) if the caller lacks a scope that this item asks for."""
        if self.scopes and context.channel.access is not None:
            context.channel.access.check_scopes(context.principal, self.scopes)

    def is_open_to(self, principal: Any) -> bool:
        """Return whether a caller may see it; None is one who is not asked."""
        return not self.scopes or principal is None or principal.has_scopes(self.scopes)


# What extras add to the options of Server and of add_tool: by name, a function(server, value), and
# by names, a function(server, **given) that returns an Item's `runner`, or None.
SERVER_OPTIONS: Dict[str, Callable] = {}
TOOL_OPTIONS: Dict[Tuple[str, ...], Callable] = {}
# What extras let a client listen to: by the member of `notifications` that has the ids, a
# function(server, id, context) that says whether the caller may.
FILTER_GRANTS: Dict[str, Callable] = {}


class Server:
    """An MCP server: what it offers, and how it answers.

    `version`, `title`, `description`, `website_url` and `icons` describe it to clients,
    `instructions` tells a model how to use it. `sessions=True` gives legacy HTTP clients a
    session; without, nothing is kept between requests. `instance` names this one of several equal
    servers, in the ids of its sessions. `stream` says when an answer over HTTP is
    an event stream: "auto" (when there is something to stream, or it takes longer than a second),
    "always" or "never". `ttl_ms` and `cache_scope` ("public" or "private") are the caching hints
    of lists and reads. `auth` says who may call over HTTP (None: all); callers that it lets in are
    answered with the cache scope "private". Any of LIMITS may be given by name, and what
    SERVER_OPTIONS has. Raises UsageError for values that are wrong.
    """

    def __init__(self, name: str, version: str = "0.0.0", *, title: Optional[str] = None,
                 description: Optional[str] = None, website_url: Optional[str] = None,
                 icons: Optional[list] = None, instructions: Optional[str] = None,
                 sessions: bool = False, stream: str = "auto", ttl_ms: int = 0,
                 cache_scope: str = "public", page_size: int = PAGE_SIZE, auth: Any = None,
                 instance: Optional[str] = None, runtime: Optional[Runtime] = None,
                 **options: Any):
        limits = {key: value for key, value in options.items() if key in LIMITS}
        unknown = sorted(set(options) - set(limits) - set(SERVER_OPTIONS))
        if unknown:
            raise UsageError(f"Server knows no {', '.join(unknown)}: "
                             f"the limits are {', '.join(LIMITS)}")
        if stream not in ("auto", "always", "never"):
            raise UsageError(f'stream is "auto", "always" or "never", but is {shorten(stream)}')
        if page_size < 1:
            raise UsageError(f"a page has at least 1 item, but page_size is {page_size}")
        if auth is not None and not hasattr(auth, "bind"):
            raise UsageError(must_be("auth", "an object that says who may call", auth))
        self.info = without_none({"name": name, "version": version, "title": title,
                                  "description": description, "websiteUrl": website_url,
                                  "icons": icons})
        self.instructions = instructions
        self.keeps_sessions = sessions
        self.stream = stream
        self.page_size = page_size
        self.auth = auth
        self.limits = Limits(**limits)
        self.runtime = runtime or system_runtime()
        self.instance = instance
        self.sessions = Sessions(self.runtime, self.limits, instance)
        self._own_meta = {META_SERVER_INFO: self.info}
        self._cache_hints = build_cache_hints(ttl_ms, cache_scope)
        self.tools: Dict[str, Item] = {}
        self.resources: Dict[str, Item] = {}
        self.templates: Dict[str, Item] = {}
        self.prompts: Dict[str, Item] = {}
        self.completions: Dict[Tuple[str, str], Item] = {}
        self.listeners: set = set()          # subscriptions, and sessions of stdio
        # What extras keep of this server; each has close(), suspend() before a fork, and
        # check_shareable(), which raises UsageError if other processes could not serve it.
        self.extras: Dict[str, Any] = {}
        self._registering = self.runtime.new_lock()    # guards the registries
        self.add_features({"logging"})
        for key in SERVER_OPTIONS.keys() & options:
            SERVER_OPTIONS[key](self, options[key])

    def run(self, *, stdio: bool = False, **options: Any) -> None:
        """Serve until a signal: what a server's file does when it is the program.

        Over HTTP, `options` are those of HTTPService (host, port, path, ...), and its URL is
        printed; with `stdio=True` over standard input and output, until the input ends. Ctrl-C
        and SIGTERM end it within three seconds. Raises TransportError when the address cannot be
        bound, UsageError when standard input or output is closed. More options: RUN_OPTIONS.
        """
        for extra in self.extras.values():
            extra.suspend()                  # an open file must not be carried over a fork
        run_server(lambda: self, stdio, **options)

    # ---- registration

    def tool(self, function: Optional[Callable] = None, **options: Any) -> Callable:
        """Decorate a function as a tool; with options (see `add_tool`) or without parentheses."""
        return _decorate(self.add_tool, function, options)

    def add_tool(self, function: Callable, *, name: Optional[str] = None,
                 title: Optional[str] = None, description: Optional[str] = None,
                 annotations: Optional[dict] = None, icons: Optional[list] = None,
                 input_schema: Optional[dict] = None, output_schema: Optional[dict] = None,
                 mime_type: Optional[str] = None, meta: Optional[dict] = None,
                 scopes: Collection[str] = (), **options: Any) -> None:
        """Offer a function as a tool.

        Schemas come from its annotations unless given; those given are kept word for word.
        `annotations` are the hints of the specification (readOnlyHint, ...). `mime_type` is that
        of bytes which it returns. Only callers who have all of `scopes` see and reach it.
        Raises SchemaError when a signature cannot be expressed. More options: TOOL_OPTIONS.
        """
        signature = build_signature(function, Context, (ToolResult,))
        runner = None
        for names, build in TOOL_OPTIONS.items():
            given = {key: options.pop(key) for key in names if key in options}
            runner = build(self, **given) or runner
        if options:
            raise TypeError(f"a tool has no option {', '.join(options)}")
        output_schema = signature.output_schema if output_schema is None else output_schema
        definition = without_none({
            "name": name or function.__name__, "title": title,
            "description": signature.description if description is None else description,
            "inputSchema": signature.input_schema if input_schema is None else input_schema,
            "outputSchema": output_schema, "annotations": annotations, "icons": icons,
            "_meta": meta})
        # Spec: 2025-11-25 and older: an output schema describes an object.
        legacy = dict(definition)
        if output_schema is not None and output_schema.get("type") != "object":
            del legacy["outputSchema"]
        self._add(self.tools, "tools", Item(
            definition["name"], function, signature, definition, legacy,
            compile_schema(definition["inputSchema"]),
            None if output_schema is None else compile_schema(output_schema), mime_type,
            header_parameters=find_header_parameters(definition["inputSchema"]),
            scopes=self._check_scopes(scopes), runner=runner))

    def resource(self, uri: str, **options: Any) -> Callable:
        """Decorate a function as the resource at a URI, or at all URIs of a template.

        A template has `{name}` parts (one path segment) or `{+name}` (with slashes), which become
        the function's parameters. No part climbs out of its place by a segment "..", but one may be
        an absolute path: look at it before you open a file. Options: see `add_resource`.
        """
        if not isinstance(uri, str) or ":" not in uri:
            raise UsageError('a resource needs a URI with a scheme: '
                             '@server.resource("notes://all")')
        return _decorate(functools.partial(self.add_resource, uri=uri), None, options)

    def add_resource(self, function: Callable, *, uri: str, name: Optional[str] = None,
                     title: Optional[str] = None, description: Optional[str] = None,
                     mime_type: str = "text/plain", size: Optional[int] = None,
                     annotations: Optional[dict] = None, icons: Optional[list] = None,
                     ttl_ms: Optional[int] = None, cache_scope: Optional[str] = None,
                     meta: Optional[dict] = None, scopes: Collection[str] = ()) -> None:
        """Offer what a function returns (str, bytes, or a JSON value) as a resource.

        None means that there is no such resource, as a template's function may find out.
        `ttl_ms` and `cache_scope` are the caching hints of what is read, instead of the server's:
        "private" for what depends on who asks. `scopes`: see `add_tool`.
        """
        signature = build_signature(function, Context)
        template = UriTemplate(uri) if "{" in uri else None
        parts = set(template.names if template else ())
        parameters = set(signature.input_schema["properties"])
        if parts != parameters:
            raise SchemaError(f"the parts of {uri} are {sorted(parts)}, but the parameters of "
                              f"{function.__name__} are {sorted(parameters)}")
        definition = {"uri" if template is None else "uriTemplate": uri,
                      **_describe(function, signature, name, title, description, icons, meta),
                      "mimeType": mime_type, "size": size, "annotations": annotations}
        self._add(self.resources if template is None else self.templates, "resources", _build_item(
            uri, function, signature, definition, mime_type=mime_type, template=template,
            cache_hints=build_cache_hints(ttl_ms, cache_scope), scopes=self._check_scopes(scopes)))

    def prompt(self, function: Optional[Callable] = None, **options: Any) -> Callable:
        """Decorate a function as a prompt; with options (see `add_prompt`) or without."""
        return _decorate(self.add_prompt, function, options)

    def add_prompt(self, function: Callable, *, name: Optional[str] = None,
                   title: Optional[str] = None, description: Optional[str] = None,
                   icons: Optional[list] = None, meta: Optional[dict] = None,
                   scopes: Collection[str] = ()) -> None:
        """Offer a function as a prompt.

        Its parameters are the prompt's arguments. It returns a str (one user message), a message,
        a list of either, or a whole result with "messages". `scopes`: see `add_tool`.
        """
        signature = build_signature(function, Context)
        schema = signature.input_schema
        definition = _describe(function, signature, name, title, description, icons, meta)
        definition["arguments"] = [
            without_none({"name": part, "title": member.get("title"),
                          "description": member.get("description"),
                          "required": part in schema.get("required", ())})
            for part, member in schema["properties"].items()]
        self._add(self.prompts, "prompts", _build_item(
            definition["name"], function, signature, definition,
            scopes=self._check_scopes(scopes)))

    def completion(self, reference: str, argument: str) -> Callable:
        """Decorate a function that suggests values of one argument.

        `reference` is a prompt's name or a resource template. The function takes `value` (what
        has been typed) and may take `arguments` (those already filled in); it returns strings.
        """
        item = self.prompts.get(reference) or self.templates.get(reference)
        names = item.signature.input_schema["properties"] if item else {}
        if argument not in names:
            raise UsageError(f"there is no prompt or template {reference} with an argument "
                             f"{argument}: register it before its completion")

        def add_completion(function: Callable) -> None:
            signature = build_signature(function, Context)
            if not {"value"} <= set(signature.input_schema["properties"]) <= {"value", "arguments"}:
                raise UsageError(f"{function.__name__} completes {argument}: its parameters are "
                                 "value and, if it likes, arguments")
            self._add(self.completions, "completions",
                      _build_item((reference, argument), function, signature, {}))
        return _decorate(add_completion, None, {})

    def remove_tool(self, name: str) -> None:
        """Stop offering a tool; clients that listen are notified. UsageError if it is unknown."""
        self._remove("tools", name, self.tools)

    def remove_resource(self, uri: str) -> None:
        """Stop offering a resource, or a template; clients that listen are notified."""
        self._remove("resources", uri, self.resources, self.templates)

    def remove_prompt(self, name: str) -> None:
        """Stop offering a prompt; clients that listen are notified."""
        self._remove("prompts", name, self.prompts)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that it has changed."""
        self.notify("notifications/resources/updated", {"uri": uri},
                    lambda wanted: uri in wanted.uris)

    def _check_scopes(self, scopes: Collection[str]) -> Tuple[str, ...]:
        """Return an item's scopes; UsageError if they could not be checked."""
        if scopes and self.auth is None:
            raise UsageError(f"the scopes {', '.join(scopes)} would not be checked: "
                             "Server(auth=...) says who has which")
        return self.auth.parse_scopes(scopes) if self.auth is not None else ()

    def _add(self, registry: dict, feature: str, item: Item) -> None:
        features = {feature}
        # The values that a prompt or template lets one choose from are completed at once.
        if feature != "tools" and any(
                map(list_choices, item.signature.input_schema["properties"].values())):
            features.add("completions")
        with self._registering:
            if item.key in registry:
                raise UsageError(f"{item.key!r} is registered twice")
            registry[item.key] = item
            self.add_features(features)
        self._notify_list_changed(feature)

    def _remove(self, feature: str, key: str, *registries: dict) -> None:
        with self._registering:
            registry = next((known for known in registries if key in known), None)
            if registry is None:
                raise UsageError(f"there is no {feature[:-1]} {key!r} to be removed")
            del registry[key]
        self._notify_list_changed(feature)

    def _notify_list_changed(self, feature: str) -> None:
        if feature in LIST_CHANGES:
            self.notify(LIST_CHANGES[feature], {}, lambda wanted: feature in wanted.lists)

    def notify(self, method: str, params: dict, matches: Callable[[Filter], bool]) -> None:
        """Put a notification on the way to the listeners whose filter matches; waits for none."""
        for listener in [*self.listeners, *self.sessions]:
            if matches(listener.filter):
                message = build_notification(method, {**params, **listener.mark})
                # Two changes before the first is read are one change.
                listener.stream.append(encode_json(message), once=True)

    def add_features(self, features: Iterable[str]) -> None:
        """Declare features; those of extensions are named as members of `_meta` are."""
        self.features = frozenset(features) | getattr(self, "features", frozenset())
        self._offers = (Features(self.features, False), Features(self.features, True))

    def close(self) -> None:
        """End what extras keep: for the end of serving; does not wait for anything."""
        for extra in self.extras.values():
            extra.close()

    # ---- answering

    def receive(self, value: Any, headers: Optional[Headers], session: Optional[Session],
                channel: Channel, needs_session: bool = False) -> Answer:
        """Return the Answer to a JSON value from a client; never raises.

        `headers` are those of the HTTP request, None on stdio; `session` the living legacy
        session that it names. In 2025-03-26 the value may be a batch.
        """
        if isinstance(value, list) and value and (
                session.version if session else (headers or {}).get("mcp-protocol-version")
                ) == BATCH_VERSION:
            return self._receive_batch(value, headers, session, channel, needs_session)
        route = request_id = None
        try:
            message = parse_message(value)
            route = build_route(message, headers, session, channel.principal)
            classify_message(route, self._offers[needs_session])
            if not isinstance(message, Request):
                if isinstance(message, Response) and session is not None:
                    session.take_response(message)
                return Answer(202)
            request_id, context = message.id, Context(self, route, channel)
            if METHODS[message.method].asks and "requestState" in message.params and (
                    route.era == "modern"):
                # A state that is not ours is refused also if nothing is asked any more.
                context.asker = self.build_asker(route, channel)
            try:
                result = HANDLERS[message.method](self, message.params, context)
            except InputRequired as pause:
                result = pause.result
            return Answer(200, format_message(build_result(
                request_id, self.complete(result, route))))
        except HTTPError as error:
            return build_refusal(error, request_id)
        except BaseException as error:      # a handler may also exit or be interrupted; we go on
            if isinstance(error, MCPError) and headers is None and is_notification(value):
                return Answer(202)          # on stdio there is no status to refuse it with
            what = "a message" if request_id is None else message.method
            return self._build_error(find_request_id(value), self.explain(error, what),
                                     "legacy" if route is None else route.era)

    def _receive_batch(self, parts: list, headers: Optional[Headers], session: Optional[Session],
                       channel: Channel, needs_session: bool) -> Answer:
        if needs_session and session is None:
            return build_refusal(session_error(headers))
        if len(parts) > MAX_BATCH or not all(
                isinstance(part, dict) and part.get("method") != "initialize" for part in parts):
            # Spec: 2025-03-26 lifecycle. Many at once would also end the sessions of all.
            return build_refusal(HTTPError(400, f"Invalid Request: a batch holds {MAX_BATCH} "
                                                "messages at most, and neither initialize nor "
                                                "batches"))
        answers = [self.receive(part, headers, session, channel, needs_session) for part in parts]
        data = b",".join(answer.data for answer in answers if answer.data)
        return Answer(200, b"[" + data + b"]") if data else Answer(202)

    def explain(self, error: BaseException, what: str) -> MCPError:
        """Return the error that a client sees for an exception that is being handled."""
        if isinstance(error, MCPError):
            return error
        if isinstance(error, (ToolError, TransportError)):
            return MCPError(INTERNAL_ERROR, str(error))
        # The one catch-all: what a client sees says nothing of the cause.
        self.runtime.log_exception(f"{what} failed")
        return MCPError(INTERNAL_ERROR, "Internal error")

    def build_asker(self, route: RequestContext, channel: Channel) -> Callable[[dict], dict]:
        """Return what asks the client of a request, in the way of its era."""
        if route.era == "modern":
            return RoundAsker(route, self.info["name"], self.runtime, self.limits).ask
        if not channel.can_stream:
            raise UsageError('a server with stream="never" cannot ask a legacy client')
        return functools.partial(ask_on_stream, route, channel, self.runtime,
                                 self.limits.ask_seconds)

    def _build_error(self, request_id: Union[str, int, None], error: MCPError,
                     era: str) -> Answer:
        try:
            return Answer(ERROR_STATUS.get(error.code, (200, 200))[era == "modern"],
                          format_message(build_error(request_id, error)))
        except (TypeError, ValueError, RecursionError):
            self.runtime.log_exception("an error of the handler's is not valid JSON")
            return self._build_error(request_id, MCPError(INTERNAL_ERROR, "Internal error"), era)

    def complete(self, result: dict, route: RequestContext) -> dict:
        """Return a handler's result with what the protocol adds to every one."""
        if METHODS[route.message.method].cacheable and "inputRequests" not in result:
            result = {**self._cache_hints, **result}
            if route.principal is not None:    # what one caller may see, another may not
                result["cacheScope"] = "private"
            if {"inputResponses", "requestState"} & set(route.message.params):
                # Spec: server/utilities/caching: it depends on more than the cache's key.
                result.update(ttlMs=0, cacheScope="private")
        if route.era == "modern":
            meta = self._own_meta
            if "_meta" in result:
                meta = {**meta, **result["_meta"]}
            result = {"resultType": "complete", **result, "_meta": meta}
        return result

    @property
    def capabilities(self) -> dict:
        """What the server declares: one member for each feature that it has."""
        capabilities = {feature: {"listChanged": True} if feature in LIST_CHANGES else {}
                        for feature in sorted(self.features) if "/" not in feature}
        if "resources" in capabilities:
            capabilities["resources"]["subscribe"] = True
        return capabilities

    def find_resource(self, uri: str,
                      context: Optional[Context] = None) -> Optional[Tuple[Item, dict]]:
        """Return what serves a URI, with its arguments: a resource, or the first template."""
        item = self.resources.get(uri)
        if item is not None:
            return item, item.bind({}, context)
        for item in list(self.templates.values()):
            texts = item.template.match(uri)
            # Spec: server/resources, Security: a path must not lead out of where it belongs.
            if texts is None or any(".." in re.split(r"[/\\]", text) for text in texts.values()):
                continue
            with contextlib.suppress(ArgumentError):
                return item, item.bind(coerce_texts(texts, item.signature.input_schema), context)
        return None


def _decorate(add: Callable, function: Optional[Callable], options: dict) -> Callable:
    """Return the decorated function, or the decorator when there is no function yet."""
    def decorator(function: Callable) -> Callable:
        add(function, **options)
        return function
    return decorator if function is None else decorator(function)


def _describe(function: Callable, signature: Signature, name: Optional[str],
              title: Optional[str], description: Optional[str], icons: Optional[list],
              meta: Optional[dict]) -> dict:
    """Return the members that resources and prompts have in common, None if not given."""
    if description is None:
        description = signature.description or None
    return {"name": name or function.__name__, "title": title,
            "description": description, "icons": icons, "_meta": meta}


def _build_item(key: Any, function: Callable, signature: Signature, definition: dict,
                **more: Any) -> Item:
    definition = without_none(definition)
    return Item(key, function, signature, definition, definition,
                compile_schema(signature.input_schema), **more)


# ---- the handlers: handle_x_y(server, params, context) serves the method x/y

def handle_initialize(server: Server, params: dict, context: Context) -> dict:
    """Open the legacy conversation; answer with a revision that both speak."""
    requested = params["protocolVersion"]
    # A modern or unknown version is never echoed: it has no handshake to agree on.
    version = requested if requested in LEGACY_VERSIONS else LATEST_LEGACY_VERSION
    client_info, capabilities = params.get("clientInfo"), params.get("capabilities")
    check_kept("clientInfo and capabilities are", [client_info, capabilities])
    context.channel.open_session(
        version, client_info if isinstance(client_info, dict) else {},
        capabilities if isinstance(capabilities, dict) else {})
    capabilities = server.capabilities
    if context.channel.session is None:       # a subscription could not be remembered
        capabilities.get("resources", {}).pop("subscribe", None)
    return without_none({"capabilities": capabilities, "protocolVersion": version,
                         "serverInfo": server.info, "instructions": server.instructions})


def handle_server_discover(server: Server, params: dict, context: Context) -> dict:
    """Say which revisions, features and extensions there are."""
    extensions = {name: {} for name in sorted(server.features) if "/" in name} or None
    return without_none({"supportedVersions": list(SUPPORTED_VERSIONS),
                         "capabilities": without_none({**server.capabilities,
                                                       "extensions": extensions}),
                         "instructions": server.instructions})


def handle_logging_set_level(server: Server, params: dict, context: Context) -> dict:
    """Remember which log messages a legacy session wants."""
    if params["level"] not in LOG_LEVELS:
        raise MCPError(INVALID_PARAMS, "Invalid params: " + must_be(
            "level", f"one of {', '.join(LOG_LEVELS)}", params["level"]))
    if context.route.session is not None:
        context.route.session.log_level = params["level"]
    return {}


def handle_list(member: str, registry: str, server: Server, params: dict,
                context: Context) -> dict:
    """Return one page of what a caller may see of a registry, in the order of registration."""
    items = [item for item in list(getattr(server, registry).values())
             if item.is_open_to(context.principal)]
    start = _find_start(params.get("cursor"), [item.key for item in items])
    end = start + server.page_size
    modern = context.route.era == "modern"
    page = {member: [item.definition if modern else item.legacy_definition
                     for item in items[start:end]]}
    if end < len(items):
        page["nextCursor"] = _format_cursor(items[end - 1].key)
    return page


# A cursor names the last item of its page, so that what comes or goes elsewhere moves no page.

def _format_cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogatepass")).decode("ascii")


def _find_start(cursor: Optional[str], keys: List[str]) -> int:
    """Return the index of the first item of the page that a cursor asks for."""
    if cursor is None:
        return 0
    try:
        key = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("utf-8", "surrogatepass")
        if _format_cursor(key) == cursor:
            return keys.index(key) + 1
    except ValueError:
        pass
    raise MCPError(INVALID_PARAMS, f"Invalid cursor: {shorten(cursor, 80)} "
                   "(use the nextCursor of a list as it is, or start without one)")


def handle_tools_call(server: Server, params: dict, context: Context) -> dict:
    """Run a tool. What goes wrong inside it is a result: the model may correct it."""
    tool = server.tools.get(params["name"])
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {shorten(params['name'])}")
    if tool.scopes:
        tool.check_scopes(context)
    arguments = params.get("arguments") or {}
    if tool.header_parameters and context.route.era == "modern" and context.route.headers:
        check_parameter_headers(tool.header_parameters, arguments, context.route.headers)
    try:
        bound = tool.bind(arguments, context)
    except ArgumentError as error:
        return _build_tool_error(f"Invalid arguments for tool {tool.key!r}: {error.message}")
    return (tool.runner or run_tool)(tool, bound, context)


def run_tool(tool: Item, bound: dict, context: Context) -> dict:
    """Return the result of a tool with bound arguments."""
    try:
        return build_tool_result(tool.function(**bound), tool, context.route.era)
    except (MCPError, InputRequired):
        raise
    except (ToolError, TransportError) as error:
        return _build_tool_error(str(error))
    except BaseException:
        context.server.runtime.log_exception(f"tool {tool.key} failed")
        return _build_tool_error(f"Error calling tool {tool.key!r}: internal error")


def handle_resources_read(server: Server, params: dict, context: Context) -> dict:
    """Read the resource at a URI, or from the first template that makes it."""
    uri = params["uri"]
    item, bound = _find_open_resource(server, uri, context)
    value = item.function(**bound)
    if value is None:
        raise resource_error(uri)
    if not (isinstance(value, dict) and isinstance(value.get("contents"), list)):
        contents = {"uri": uri, "mimeType": item.mime_type}
        if isinstance(value, bytes):
            contents["blob"] = base64.b64encode(value).decode("ascii")
        else:
            contents["text"] = (value if isinstance(value, str)
                                else encode_json(to_json_value(value)))
        value = {"contents": [contents]}
    return {**item.cache_hints, **value}


def _find_open_resource(server: Server, uri: str, context: Context) -> Tuple[Item, dict]:
    """Return what serves a URI to this caller; MCPError or HTTPError if nothing does."""
    found = server.find_resource(uri, context)
    if found is None:
        raise resource_error(uri)
    found[0].check_scopes(context)
    return found


def resource_error(uri: str) -> MCPError:
    """Return the error for a URI at which nothing is. Spec: server/resources, Error Handling."""
    return MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


def handle_prompts_get(server: Server, params: dict, context: Context) -> dict:
    """Fill in a prompt."""
    item = server.prompts.get(params["name"])
    if item is None:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {shorten(params['name'])}")
    item.check_scopes(context)
    arguments = coerce_texts(params.get("arguments") or {}, item.signature.input_schema)
    try:
        bound = item.bind(arguments, context)
    except ArgumentError as error:
        raise MCPError(INVALID_PARAMS, f"Invalid arguments for prompt {item.key!r}: "
                       + error.message) from None
    value = item.function(**bound)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return value
    result = {"messages": [
        {**part, "content": build_content_block(part["content"])}
        if isinstance(part, dict) and "role" in part
        else {"role": "user", "content": build_content_block(part)}
        for part in (value if isinstance(value, list) else [value])]}
    return {**result, **{key: item.definition[key] for key in ("description",)
                         if key in item.definition}}


def handle_completion_complete(server: Server, params: dict, context: Context) -> dict:
    """Suggest values of an argument: those of its completion, or of its annotation."""
    kind, name, uri = map(params["ref"].get, ("type", "name", "uri"))
    item = None
    if kind == "ref/prompt" and isinstance(name, str):
        item = server.prompts.get(name)
    elif kind == "ref/resource" and isinstance(uri, str):
        item = server.templates.get(uri) or server.resources.get(uri)
    if item is None:
        raise MCPError(INVALID_PARAMS, f"Unknown reference: {shorten(params['ref'])}")
    item.check_scopes(context)
    name, value = params["argument"].get("name"), params["argument"].get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise MCPError(INVALID_PARAMS, "Invalid params: argument needs a name and a value, "
                       f"but is {shorten(params['argument'])}")
    members = item.signature.input_schema["properties"]
    if name not in members:
        raise MCPError(INVALID_PARAMS, f"Unknown argument: {shorten(name)} (there are: "
                       f"{', '.join(members) or 'none'})")
    completion = server.completions.get((item.key, name))
    if completion is None:
        start = value.casefold()         # once: it may be long, and the choices many
        values = [choice for choice in list_choices(members[name])
                  if choice.casefold().startswith(start)]
    else:
        given = (params.get("context") or {}).get("arguments")
        known = {"value": value, "arguments": given if isinstance(given, dict) else {}}
        wanted = completion.signature.input_schema["properties"]
        bound = completion.bind({key: known[key] for key in wanted}, context)
        values = [str(to_json_value(one)) for one in completion.function(**bound)]
    return {"completion": {"values": values[:100], "total": len(values),
                           "hasMore": len(values) > 100}}


def handle_resources_subscribe(server: Server, params: dict, context: Context) -> dict:
    """Notify a legacy session from now on when a resource changes, or no longer."""
    if context.route.session is None:
        raise MCPError(METHOD_NOT_FOUND, "Method not found (without a session, a subscription "
                       "cannot be remembered)", context.route.message.method)
    uris, uri = context.route.session.filter.uris, params["uri"]
    if context.route.message.method == "resources/unsubscribe":
        uris.discard(uri)
        return {}
    _find_open_resource(server, uri, context)
    if uri not in uris and len(uris) >= server.limits.max_subscriptions:
        raise subscriptions_error(server.limits)
    if sum(map(len, uris)) + len(uri) > MAX_CLIENT_CHARS:
        raise MCPError(INVALID_PARAMS, "Invalid params: the URIs that one client subscribes to "
                       f"have at most {MAX_CLIENT_CHARS:,} characters in all")
    uris.add(uri)
    return {}


def handle_subscriptions_listen(server: Server, params: dict, context: Context) -> dict:
    """Notify a modern client of changes, on the stream of this request, for as long as it is
    open. Spec: basic/patterns/subscriptions."""
    if not context.channel.can_stream:
        raise MCPError(METHOD_NOT_FOUND, "Method not found (this server never streams)",
                       "subscriptions/listen")
    check_kept("a request to listen is", [context.request_id, params])
    wanted = parse_filter(params["notifications"], server.limits, FILTER_GRANTS)
    granted = Filter(
        frozenset(wanted.lists) & server.features,
        frozenset(uri for uri in wanted.uris if _may_follow(server, uri, context.principal)),
        {name: {one for one in ids if FILTER_GRANTS[name](server, one, context)}
         for name, ids in wanted.others.items()})
    stream = Stream(0, server.runtime, server.limits)
    mark = {"_meta": {META_SUBSCRIPTION_ID: context.request_id}}
    stream.append(encode_json(build_notification(
        "notifications/subscriptions/acknowledged",
        {"notifications": granted.to_wire(), **mark})))
    subscription = Subscription(granted, stream, mark)
    server.listeners.add(subscription)
    try:
        if not context.channel.follow(stream):
            raise MCPError(INTERNAL_ERROR, "You read too slowly, and notifications were lost: "
                           "read the lists again and listen again")
    finally:
        server.listeners.discard(subscription)
    return mark



def _may_follow(server: Server, uri: str, principal: Any) -> bool:
    """Return whether a caller may be notified of a resource, which may be still to come."""
    found = server.find_resource(uri)
    return "resources" in server.features and (found is None or found[0].is_open_to(principal))


HANDLERS: Dict[str, Callable] = {
    "initialize": handle_initialize,
    "server/discover": handle_server_discover,
    "ping": lambda server, params, context: {},
    "logging/setLevel": handle_logging_set_level,
    "tools/list": functools.partial(handle_list, "tools", "tools"),
    "tools/call": handle_tools_call,
    "resources/list": functools.partial(handle_list, "resources", "resources"),
    "resources/templates/list": functools.partial(handle_list, "resourceTemplates", "templates"),
    "resources/read": handle_resources_read,
    "prompts/list": functools.partial(handle_list, "prompts", "prompts"),
    "prompts/get": handle_prompts_get,
    "completion/complete": handle_completion_complete,
    "resources/subscribe": handle_resources_subscribe,
    "resources/unsubscribe": handle_resources_subscribe,
    "subscriptions/listen": handle_subscriptions_listen,
}


def build_refusal(error: HTTPError, request_id: Union[str, int, None] = None) -> Answer:
    """Return the Answer of an HTTPError: its status, and a JSON-RPC error.

    The error has no id if the refused request was not read.
    """
    return Answer(error.status, format_message(build_error(request_id, error.error)),
                  error.headers)


def build_unserved(value: Any, text: str) -> Answer:
    """Return the Answer (503) to a message that cannot be served."""
    error = build_error(find_request_id(value), MCPError(INTERNAL_ERROR, text))
    return Answer(503, b"" if is_notification(value) else format_message(error))


STOPPED = "the server was stopped before this was done"


# ---- documents beside the endpoint

# For load balancers and supervisors; the refusal of every request says 503 once a server stops.
HEALTH_PATH = "/healthz"
HEALTH = Document(lambda url: {"status": "ok"}, headers=(("Cache-Control", "no-store"),),
                  is_logged=False)

# Of documents that pages of every site may read.
PUBLIC_HEADERS = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Methods", "GET"),
                  ("Access-Control-Allow-Headers", "Content-Type"),
                  ("Cache-Control", "public, max-age=3600"))


def build_cache_hints(ttl_ms: Optional[int], cache_scope: Optional[str]) -> dict:
    """Return the caching hints of a result. Spec: server/utilities/caching."""
    if ttl_ms is not None and (type(ttl_ms) is not int or ttl_ms < 0):
        raise UsageError(f"ttl_ms is a number of milliseconds, but is {shorten(ttl_ms)}")
    if cache_scope not in (None, "public", "private"):
        raise UsageError(f'cache_scope is "public" or "private", but is {shorten(cache_scope)}')
    return without_none({"ttlMs": ttl_ms, "cacheScope": cache_scope})


# ---- In: what an author's function returned. Out: the result that the protocol wants of it.

# Type of a content block to the members that it must have.
CONTENT_TYPES = {"text": ("text",), "image": ("data", "mimeType"), "audio": ("data", "mimeType"),
                 "resource": ("resource",), "resource_link": ("uri", "name")}


def is_content_block(value: Any) -> bool:
    """Return whether a value is a content block, as tools return and prompts carry them."""
    return isinstance(value, dict) and isinstance(value.get("type"), str) and all(
        member in value for member in CONTENT_TYPES.get(value["type"], ("no such type",)))


def build_content_block(value: Any, mime_type: Optional[str] = None) -> dict:
    """Return a str, bytes (of a media type) or content block as a content block."""
    if is_content_block(value):
        return value
    if isinstance(value, bytes):
        mime_type = mime_type or "application/octet-stream"
        data = base64.b64encode(value).decode("ascii")
        kind = mime_type.partition("/")[0]
        if kind in ("image", "audio"):
            return {"type": kind, "data": data, "mimeType": mime_type}
        return {"type": "resource", "resource": {"uri": f"data:{mime_type};base64,",
                                                 "mimeType": mime_type, "blob": data}}
    return {"type": "text", "text": value if isinstance(value, str)
            else encode_json(to_json_value(value))}


def build_tool_result(value: Any, tool: Item, era: str) -> dict:
    """Return the `tools/call` result for what a tool returned.

    A str, bytes or content blocks become content; any other JSON value becomes structured content
    with its compact JSON as text. Raises ValueError or TypeError for what is no JSON value.
    """
    if isinstance(value, ToolResult):
        return dict(value)
    if tool.output_schema is None:
        values = [] if value is None else value if isinstance(value, list) else [value]
        if value is None or isinstance(value, str) or any(
                isinstance(part, bytes) or is_content_block(part) for part in values):
            return {"content": [build_content_block(part, tool.mime_type) for part in values]}
    if tool.output_schema is None or not tool.output_schema.is_plainly_valid(value):
        value = to_json_value(value)
        errors = tool.output_schema.errors(value) if tool.output_schema else ()
        if errors:
            raise ValueError("the result breaks the tool's own outputSchema: " + "; ".join(errors))
    text = value if isinstance(value, str) else encode_json(value)
    result = {"content": [{"type": "text", "text": text}]}
    # Spec: 2025-11-25 and older: structured content is an object, or there is none.
    if isinstance(value, dict) or era == "modern":
        result["structuredContent"] = value
    return result


def _build_tool_error(text: str) -> dict:
    return {"content": [{"type": "text", "text": text}], "isError": True}


# ---- URI templates. Spec: RFC 6570, levels 1 and 2.

_TEMPLATE_PART = r"\{(\+?)([A-Za-z0-9_.]+)\}"
_ESCAPED_SIMPLE = rb"[^A-Za-z0-9\-._~]"
_ESCAPED_RESERVED = rb"[^A-Za-z0-9\-._~%:/?#\[\]@!$&'()*+,;=]|%(?![0-9A-Fa-f]{2})"


class UriTemplate:
    """A URI template: it makes URIs of texts, and finds the texts in a URI.

    `{name}` stands for text that is escaped wherever a URI would give it a meaning, `{+name}` for
    any text, with slashes. Raises SchemaError for other kinds of parts.
    """

    def __init__(self, template: str):
        parts = re.split(_TEMPLATE_PART, template)
        self.literals, self.names = parts[::3], parts[2::3]      # one literal more than names
        self._takes_any = [sign == "+" for sign in parts[1::3]]
        if re.search("[{}]", "".join(self.literals)):
            raise SchemaError(f"the template {template} has parts other than {{name}} "
                              "and {+name}")
        if len(set(self.names)) < len(self.names):
            raise SchemaError(f"the template {template} uses a name twice")

    def expand(self, texts: Mapping) -> str:
        """Return the URI for texts by name; raises UsageError unless they are those wanted."""
        if set(texts) != set(self.names):
            raise UsageError(f"the template wants {', '.join(self.names) or 'nothing'}, "
                             f"but gets {shorten(', '.join(map(str, texts)) or 'nothing')}")
        uri = self.literals[0]
        for name, takes_any, literal in zip(self.names, self._takes_any, self.literals[1:]):
            text = texts[name] if isinstance(texts[name], str) else encode_json(texts[name])
            escaped = _ESCAPED_RESERVED if takes_any else _ESCAPED_SIMPLE
            data = text.encode("utf-8", "surrogatepass")
            uri += re.sub(escaped, lambda match: b"%%%02X" % match[0][0], data).decode("ascii")
            uri += literal
        return uri

    def match(self, uri: str) -> Optional[Dict[str, str]]:
        """Return the texts by name that make a URI, None when there are none.

        If there are several, the first is as long as can be, then the second, and so on. No
        regular expression does this: of `{name}.{type}` it would try every pair of places.
        """
        if len(uri) > MAX_URI_CHARS or not uri.startswith(self.literals[0]):
            return None
        stops = [*(stop.start() for stop in re.finditer("[/?#]", uri)), len(uri)]
        # From the last part to the first: the places where it may end so that all the rest fits.
        ends = [len(uri) - len(self.literals[-1])] if uri.endswith(self.literals[-1]) else []
        layers = [ends]
        for index in range(len(self.names) - 1, 0, -1):
            literal = self.literals[index]
            places = (place.start() for place in re.finditer(f"(?={re.escape(literal)})", uri))
            ends = [place for place in places
                    if self._find_end(index, place + len(literal), ends, stops)]
            layers.insert(0, ends)
        texts, start = {}, len(self.literals[0])
        for index, (name, ends) in enumerate(zip(self.names, layers)):
            end = self._find_end(index, start, ends, stops)
            if not end:
                return None
            texts[name] = parse_percent(uri[start:end])
            start = end + len(self.literals[index + 1])
        return texts

    def _find_end(self, index: int, start: int, ends: List[int], stops: List[int]) -> int:
        """Return the last place where a part that starts here may end, 0 if there is none."""
        limit = stops[-1 if self._takes_any[index] else bisect_left(stops, start)]
        count = bisect_right(ends, limit)
        return ends[count - 1] if count and ends[count - 1] > start else 0


# ---- the server that `serve` runs when it is given none

class Pong(typing.TypedDict):
    """What the pong tool answers."""

    response: typing.Annotated[str, "the response from the agent"]


def build_pong_server() -> Server:
    """Return the smallest useful server: one tool, which answers pong."""
    server = Server("mcpkit pong", __version__)
    title = "Answers every message with the word pong."

    @server.tool(description=title, annotations={
        "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
        "readOnlyHint": True, "title": title})
    def pong(message: typing.Annotated[str, "the message to send to the agent"]) -> Pong:
        return {"response": "pong"}

    return server


# =============================================================================================
# 12. HTTP SERVER
# =============================================================================================
# The shell around a Server: a listening socket, a thread for each connection, clocks and the log.
# What decides lies above; here bytes are moved, in time. `ThreadedServer` and `RequestHandler` are
# a server of any kind, `HTTPService` and `HTTPHandler` the one that speaks MCP.

ANSWER_STEP_BYTES = 1024 * 1024        # of an answer, that a client takes within read_seconds
MAX_TURNED_AWAY = 100                  # connections too many that may still read why
STREAM_AFTER_SECONDS = 1.0             # an answer that takes longer becomes an event stream
CHUNK_LINE_BYTES = 4096
REFUSED_SECONDS = 2.0                  # that a refused client has to see why, as it still sends
DRAIN_SECONDS = 0.25                   # before that, in which a connection ends with its answer
IDLE_THREAD_SECONDS = 10.0             # that an idle thread waits for another connection


def system_runtime() -> Runtime:
    """Return the real clocks, randomness, locks, and a log on standard error.

    The secret is that of MCPKIT_SECRET, for servers that answer in turn; else one of its own.
    """
    secret = os.environ.get("MCPKIT_SECRET", "").encode("utf-8", "surrogateescape")
    if 0 < len(secret) < 16:
        raise UsageError("MCPKIT_SECRET signs what clients bring back: it must have 16 bytes or "
                         f"more, but has {len(secret)}")
    return Runtime(time.monotonic, time.time, new_id, secret or os.urandom(32), threading.Lock,
                   threading.Event, threading.Condition, start_thread, log_entry, log_exception)


def new_id() -> str:
    """Return an id that cannot be guessed, without the module `secrets`, which loads OpenSSL."""
    return os.urandom(16).hex()


def start_thread(run: Callable[[], None]) -> None:
    """Run a function in a thread of its own, which does not keep the process from ending."""
    threading.Thread(target=run, daemon=True).start()


# ---- the log

def log_line(text: str) -> None:
    """Write one line for the operator to standard error, controls escaped."""
    # A closed or full stderr must never break the answer to a client.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(escape_text(text, keep="\n") + "\n")
        sys.stderr.flush()


def log_entry(text: str) -> None:
    """Write what may hold the words of a peer: below the first line they are indented.

    So no peer can forge a line of the log.
    """
    log_line(text.replace("\n", "\n  "))


def log_exception(text: str) -> None:
    """Write a line and the traceback of the current exception to standard error."""
    import traceback
    log_entry(f"{text}\n{traceback.format_exc()}")


def get_log_format(form: Optional[str]) -> Optional[Callable]:
    """Return what formats the log's line of a request, None for no log; UsageError if unknown."""
    if form is not None and form not in LOG_FORMATS:
        raise UsageError(f"log is {' or '.join(LOG_FORMATS)}, but is {shorten(form)}")
    return LOG_FORMATS.get(form)


def log_request(service: Any, status: int, started: Optional[float], value: Any = None,
                head: Optional[Head] = None, session_id: Optional[str] = None) -> None:
    """Write the line of a request that a service has answered, if it logs requests."""
    if service.log_format is not None:
        seconds = None if started is None else time.monotonic() - started
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        service.mcp.runtime.log(service.log_format(
            {"time": moment, **build_log_entry(value, head, status, seconds, session_id)}))


# ---- sockets

def _is_ready(sock: socket.socket, direction: str, seconds: float = 0.0) -> bool:
    """Return whether a socket can be read ("in") or written ("out") within some seconds.

    One that is closed can: whoever reads or writes it finds out.
    """
    try:                                     # select stops at descriptor 1024 on Unix
        with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
            selector.register(sock, selectors.EVENT_READ if direction == "in"
                              else selectors.EVENT_WRITE)
            return bool(selector.select(seconds))
    except (OSError, ValueError):
        return True


def is_peer_gone(sock: socket.socket) -> bool:
    """Return whether the other end has closed its side, without waiting and without reading."""
    try:
        return _is_ready(sock, "in") and sock.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):
        return True


def shut_down(sock: socket.socket, how: int) -> None:
    """Wake whoever reads (SHUT_RD) or uses (SHUT_RDWR) a socket in another thread."""
    with contextlib.suppress(OSError):       # it is closed already
        sock.shutdown(how)


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; TransportError when it cannot be bound."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        if os.name == "posix":               # elsewhere it lets two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(ThreadedServer.request_queue_size)
    except (OSError, OverflowError) as error:
        listener.close()
        raise TransportError(f"cannot listen on {host}:{port}: "
                             f"{getattr(error, 'strerror', None) or error}") from None
    return listener


def systemd_socket() -> Optional[socket.socket]:
    """Return the listening socket that systemd started us with, None if there is none.

    It outlives us, so what connects while we are restarted waits. Spec: sd_listen_fds(3).
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    listener = socket.socket(fileno=3)
    os.set_inheritable(3, False)             # the children of tools have no use for it
    if os.environ.get("LISTEN_FDS") != "1" or listener.family not in (
            socket.AF_INET, socket.AF_INET6):
        raise UsageError("a socket unit of systemd gives one ListenStream=, an address with a port")
    return listener


class RequestHandler(http.server.BaseHTTPRequestHandler):
    """One connection of a ThreadedServer: requests are read strictly and each within its time.

    A subclass defines `check(data)`, which returns the CheckedRequest of the bytes of a head or
    raises HTTPError, and `answer(request, body)`; it may override `refuse`. The server's watcher
    acts on `read_by` and `send_by`. `send_error` of the base class, which writes HTML, is never
    called.
    """

    server: ThreadedServer
    disable_nagle_algorithm = True
    channel: Any = None                      # what the watcher looks after while a call runs
    origin: Optional[str] = None             # the page that may read the answer (CORS)

    def setup(self) -> None:
        """Begin to be watched."""
        super().setup()
        self.read_by = self.send_by = math.inf
        self.is_late = False
        self.started: Any = None             # when the first byte of the request came
        self.server.connections[self.request] = self
        self.is_too_many = len(self.server.connections) > self.server.limits.max_connections

    def handle_one_request(self) -> None:
        """Read and answer one request; afterwards the connection is in step, or closed."""
        self.close_connection = True
        self.is_http_1_0 = self.omits_body = False
        self.data = self.head = self.status = self.channel = self.origin = None
        server = self.server
        try:
            with server.starting:            # yield to a connection that gets its thread
                pass
            if self.is_too_many:
                raise HTTPError(503, f"there are {server.limits.max_connections} connections "
                                "already: try again soon", (("Retry-After", "1"),))
            data = self.data = self.read_head()
            if data is None:
                return
            self.omits_body = data.startswith(b"HEAD ")
            request = self.check(data)
            self.head = request.head
            self.is_http_1_0 = request.head.is_http_1_0
            if server.is_stopping:
                raise HTTPError(503, "this server is stopping", (("Retry-After", "1"),))
            if request.expects_continue:
                self.send_bytes(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = self.read_body(request.length)
            self.close_connection = not request.keep_alive
            self.answer(request, body)
        except HTTPError as error:
            # What was not read of this request must never be taken for the next one.
            self.close_connection = True
            self.refuse(error)
            self.drain()
        except OSError as error:
            self.close_connection = True
            server.log_debug(f"connection lost: {error}")

    def refuse(self, error: HTTPError) -> None:
        """Answer a request that is refused; then the connection is closed."""
        self.send_answer(build_refusal(error))

    # ---- reading

    def read_head(self) -> Optional[bytes]:
        """Return the bytes of the next head without its blank line, None if the client is gone.

        Waits `idle_seconds` for its first byte and `read_seconds` for all of it. What a client
        sends at once is there at the first look; what comes after the head stays in `rfile`.
        """
        head, limits = b"", self.server.limits
        self.read_by = idle = time.monotonic() + limits.idle_seconds
        while True:
            data = self.rfile.peek()
            if self.read_by == idle:
                self.started, self.is_late = time.monotonic(), False
                self.read_by = self.started + limits.read_seconds
            if not (data or self.is_late):
                return None
            head += data if not self.is_late else self._receive(data)
            while head.startswith(b"\r\n"):  # Spec: RFC 9112, 2.2: empty lines before a request
                head = head[2:]
            end = head.find(b"\r\n\r\n")
            if end < 0 or end > limits.max_head:
                check_partial_head(head[:end] if end >= 0 else head, end >= 0, limits.max_head)
                self.rfile.read(len(data))
            else:
                self.rfile.read(len(data) - (len(head) - end - 4))
                return head[:end]

    def read_body(self, length: Optional[int]) -> bytes:
        """Return a body of `length` bytes, or a chunked one if that is None.

        Raises HTTPError for broken chunks (400), too much (413), too slow (408), and
        ConnectionError when the client is gone in the middle.
        """
        self.read_by = time.monotonic() + self.server.limits.read_seconds
        body = self._read_chunks() if length is None else self._read_exactly(length)
        self.read_by = math.inf
        return body

    def _read_exactly(self, length: int) -> bytes:
        parts = []
        while length:
            parts.append(self._receive(self.rfile.read1(min(length, 1 << 18))))
            length -= len(parts[-1])
        return b"".join(parts)

    def _read_chunks(self) -> bytes:
        """Return a chunked body; extensions and trailers are skipped. Spec: RFC 9112, 7.1."""
        limits, chunks, total = self.server.limits, [b"x"], 0
        while chunks[-1]:
            line = self._read_line()
            match = _CHUNK_LINE.fullmatch(line)
            if match is None:
                raise HTTPError(400, f"a chunk size is malformed: {shorten(line, 40)}")
            total += int(match.group(1), 16)
            if total > limits.max_body:
                raise size_error(limits.max_body)
            chunks.append(self._read_exactly(int(match.group(1), 16)))
            if chunks[-1] and self._receive(self.rfile.readline(2)) != b"\r\n":
                raise HTTPError(400, "a chunk is longer than its size says")
        for _ in range(limits.max_headers + 1):
            line = self._read_line()
            if not line:
                return b"".join(chunks[1:])
            if _HEADER_LINE.fullmatch(line.decode("latin-1")) is None:
                raise HTTPError(400, f"a trailer is malformed: {shorten(line, 40)}")
        raise HTTPError(400, "a chunked body has too many trailers")

    def _read_line(self) -> bytes:
        """Return a line of a chunked body without its CRLF."""
        line = self._receive(self.rfile.readline(CHUNK_LINE_BYTES))
        if line.endswith(b"\r\n") and b"\r" not in line[:-2]:
            return line[:-2]
        raise HTTPError(400, "a line of a chunked body " + (
            "does not end with CRLF" if len(line) < CHUNK_LINE_BYTES else
            f"is longer than {CHUNK_LINE_BYTES:,} bytes"))

    def _receive(self, data: bytes) -> bytes:
        """Return what came of a request, unless it came too late or is the end."""
        if self.is_late:
            raise HTTPError(408, "the request did not arrive within "
                                 f"{self.server.limits.read_seconds:g} s")
        if not data:
            raise ConnectionError("the client closed the connection inside a request")
        return data

    def drain(self) -> None:
        """Read away what a refused client still sends, for REFUSED_SECONDS at most.

        Closing at once would reset the connection, and the client would never see why.
        """
        with contextlib.suppress(OSError):
            self.is_late, self.read_by = False, time.monotonic() + REFUSED_SECONDS
            self.connection.shutdown(socket.SHUT_WR)
            while not self.is_late and self.rfile.read1(1 << 16):
                pass

    # ---- writing

    def build_head(self, status: int, headers: tuple) -> bytes:
        """Return the head of an answer, without the blank line."""
        server, now = self.server, int(time.time())
        if server.date[0] != now:
            server.date = (now, self.date_time_string(now))
        self.status = status
        self.close_connection = self.close_connection or server.is_draining
        return format_head(status, REASONS.get(status, ""), headers, server.date[1], self.origin,
                           self.close_connection)

    def send_answer(self, answer: Answer, session: Optional[Session] = None) -> None:
        """Send head and body in one write: two would wait for each other's acknowledgement.

        `session` is the one that the answer opens.
        """
        headers = answer.headers
        if session is not None:
            headers = ((HEADER_SESSION_ID, session.id),) + headers
        if answer.data:
            headers = (("Content-Type", answer.media_type),) + headers
        head = self.build_head(answer.status, headers)
        length = (b"" if answer.status in BODILESS
                  else b"Content-Length: %d\r\n" % len(answer.data))
        self.send_bytes(b"%b%b\r\n%b" % (head, length, b"" if self.omits_body else answer.data))

    def send_bytes(self, data: bytes) -> bool:
        """Send bytes, each MiB within `read_seconds`; return whether the client takes them."""
        try:
            for start in range(0, len(data), ANSWER_STEP_BYTES):
                self.send_by = time.monotonic() + self.server.limits.read_seconds
                self.connection.sendall(data[start:start + ANSWER_STEP_BYTES])
            self.send_by = math.inf
            return True
        except OSError:
            self.close_connection = True
            return False

    def watch(self, now: float) -> None:
        """Act on what takes too long. Called by the watcher, which must never wait."""
        if now > self.send_by:
            shut_down(self.connection, socket.SHUT_RDWR)
        elif now > self.read_by:
            if self.is_late:                 # since the last look: it reads, and nothing comes
                shut_down(self.connection, socket.SHUT_RD)
            self.is_late = True
        elif self.channel is not None:
            self.channel.watch(now)


def check_partial_head(head: bytes, is_whole: bool, max_bytes: int) -> None:
    """Refuse, at once, a head that is too long, or the start of one that will never be a head."""
    if len(head) > max_bytes:
        raise HTTPError(431, f"the request line and headers are larger than {max_bytes:,} bytes")
    if not is_whole and head and not (0x21 <= head[0] <= 0x7e or head[0] == 0x0d):
        raise HTTPError(400, "this is not HTTP (a TLS handshake?): the port speaks plain HTTP/1.1")
    newline = head.find(b"\n")
    if newline >= 0 and head[newline - 1:newline] != b"\r":
        raise HTTPError(400, "lines of a head end with CRLF, but one ends with LF alone")


REASONS = {status.value: status.phrase for status in http.HTTPStatus}


class ThreadedServer(http.server.ThreadingHTTPServer):
    """A server on a listening socket; each connection has a thread, and threads are used again.

    `run` serves in this thread until another calls `stop`; as a context manager it serves in a
    thread of its own and stops at the end of the block.
    """

    handler_class: type = RequestHandler
    request_queue_size = 512                 # with 5, as usual, clients wait when many come at once
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, limits: Limits = Limits()):
        listener.setblocking(False)          # another process may be faster to take a connection
        # Not the next class: it would bind, and look up the name of this machine.
        socketserver.BaseServer.__init__(self, listener.getsockname(), self.handler_class)
        self.socket = listener
        self.limits = limits
        self.connections: Dict[socket.socket, Optional[RequestHandler]] = {}
        self.date = (0, "")                  # of answers, made once a second
        self.is_draining = False             # each answer is the last of its connection
        self.is_stopping = False             # what still comes is refused
        self.stopped = threading.Event()
        self.starting = threading.Lock()     # held while a thread starts: among many busy ones it
        self._jobs: Any = queue.SimpleQueue()        # would come last, and its client with it
        self._idle: List[None] = []          # as many as threads wait for a job that is not put yet
        threading.Thread(target=self._watch, daemon=True, name="mcpkit-watcher").start()

    def __enter__(self) -> Any:
        threading.Thread(target=self.serve_forever, args=(STOP_LOOK_SECONDS,), daemon=True,
                         name="mcpkit-http").start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def run(self) -> None:
        """Serve until `stop` is called from another thread."""
        self.serve_forever(0.1)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Free the address, take no more requests and end open streams.

        A connection that is busy may end with its answer. Then running calls see `ctx.cancelled`
        and have `seconds` to answer, or an error goes out in their place. The rest is cut.
        """
        self.is_draining = True
        self.shutdown()
        self.server_close()
        self._wait_for_connections(DRAIN_SECONDS)
        self.is_stopping = True
        self.stopped.set()
        for connection, handler in list(self.connections.items()):
            if handler is not None and handler.channel is not None:
                handler.channel.close()
            shut_down(connection, socket.SHUT_RD)
        self._wait_for_connections(seconds)
        for handler in list(self.connections.values()):
            if handler is not None and handler.channel is not None:
                handler.channel.abandon()
        while self._idle:
            self._idle.pop()
            self._jobs.put(())

    def _wait_for_connections(self, seconds: float) -> None:
        deadline, tick = time.monotonic() + seconds, threading.Event()
        while self.connections and time.monotonic() < deadline:
            tick.wait(0.01)

    def get_request(self) -> Tuple[Any, Any]:
        """Accept a connection; without descriptors for one, wait a little instead of spinning."""
        try:
            connection, address = super().get_request()
        except BlockingIOError:                   # another process has been faster
            raise
        except OSError:
            self.stopped.wait(0.05)
            raise
        connection.setblocking(True)              # the BSDs hand down that the listener is not
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Have an idle thread serve a connection, or a new one.

        Up to MAX_TURNED_AWAY connections too many still get an answer, which says so.
        """
        if len(self.connections) >= self.limits.max_connections + MAX_TURNED_AWAY:
            request.close()
            return
        self.connections[request] = None
        try:
            self._idle.pop()
        except IndexError:
            try:
                with self.starting:
                    threading.Thread(target=self._work, args=(request, client_address), daemon=True,
                                     name="mcpkit-thread").start()
            except RuntimeError:                  # no thread to be had
                self.shutdown_request(request)
        else:
            self._jobs.put((request, client_address))

    def _work(self, *job: Any) -> None:
        """Serve connections, one after the other, until none comes for IDLE_THREAD_SECONDS."""
        while job:
            try:
                self.finish_request(*job)
            except Exception:
                self.handle_error(*job)
            self._idle.append(None)           # first: a client that saw its connection end may
            self.shutdown_request(job[0])     # come back at once, and finds this thread
            try:
                job = self._jobs.get(timeout=IDLE_THREAD_SECONDS)
            except queue.Empty:
                try:
                    self._idle.pop()
                    return
                except IndexError:                # a job has just been given to this thread
                    job = self._jobs.get()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and count it out."""
        super().shutdown_request(request)
        self.connections.pop(request, None)

    def _watch(self) -> None:
        """Look after connections four times a second, until the server stops."""
        while not self.stopped.wait(0.25):
            now = time.monotonic()
            for handler in list(self.connections.values()):
                if handler is not None:
                    handler.watch(now)

    def log_debug(self, text: str) -> None:
        """Write a line for whoever looks for a fault; here none is written."""


class HTTPChannel(Channel):
    """The answer to one request: a JSON object, or an event stream once there is something to
    stream. Its lock covers everything that writes, since the watcher may be the first to.

    The stream of a call in a session of 2025-11-25 is kept in a Stream as well: when the
    connection is lost, or closed by `close_stream`, the call goes on and its client may come back.
    """

    def __init__(self, handler: HTTPHandler, can_stream: bool, caller: Optional[Session] = None):
        self._handler = handler
        self.can_stream = can_stream         # whether an event stream may be the answer
        self.caller = caller                 # the legacy session that the request names
        self.value: Any = None               # the message that is being answered
        self.started = self._last_write = handler.started
        self._lock = threading.RLock()       # guards all that follows
        self._is_streaming = self._is_finished = self._is_broken = False
        self._kept: Optional[Stream] = None  # what the client may resume
        self._followed: Optional[Stream] = None
        if handler.principal is not None:
            self.principal, self.access = handler.principal, handler.server.policy.access

    @property
    def is_stopping(self) -> bool:
        """Whether the service is about to end."""
        return self._handler.server.is_stopping

    def send(self, message: dict) -> None:
        """Send a message; the first makes the answer an event stream."""
        with self._lock:
            if self.can_stream and not self._is_finished:
                self._write_message(encode_json(message))

    def open_session(self, version: str, client_info: dict, client_capabilities: dict) -> None:
        """Open a session if the server keeps them; its id goes out with the answer."""
        server = self._handler.server.mcp
        if server.keeps_sessions:
            self.session = server.sessions.create(version, client_info, client_capabilities,
                                                  self._handler.owner)

    def finish(self, answer: Optional[Answer]) -> None:
        """Send the answer, as the last event if there is a stream; None only ends the stream."""
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            if answer is None:
                self._write(b"", last=True)
            elif self._is_streaming:
                self._write_message(answer.data.decode("ascii"), last=True)
            elif answer.status == 200 and self.can_stream and (
                    self._handler.server.mcp.stream == "always"):
                self._write(format_event(answer.data.decode("ascii")), last=True)
            else:
                self._handler.send_answer(answer, self.session)

    def follow(self, stream: Stream, after: Optional[int] = None, with_ids: bool = False) -> bool:
        """Send what comes in a stream until it ends; return False if some of it was lost.

        A reader that is too slow is disconnected: by the watcher, for it may hang in a write.
        """
        self._followed = stream
        stream.attach(self, after)
        with self._lock:
            self._write(b"")
        while not self.cancelled and self._handler.recheck():
            messages = stream.read(self, KEEP_ALIVE_SECONDS)
            if messages is None:
                break
            with self._lock:
                self._write(b"".join(format_event(text, event_id=event_id if with_ids else None)
                                     for event_id, text in messages))
        if stream.has_overflowed(self):
            self._hang_up()
            return False
        return True

    def close_stream(self, retry_ms: int) -> None:
        """Close the connection but not the stream: the client will be back."""
        with self._lock:
            if self.can_stream and not self._is_finished and not self._is_broken:
                self._begin()
                self._write(format_event("", None, None, retry_ms), last=True)
                self._kept.detach(self)
                self._hang_up()

    def close(self) -> None:
        """End the stream that is followed, or have the call know that its client has gone."""
        if self._followed is not None:
            self._followed.detach(self)
        else:
            self.cancelled = True

    def abandon(self) -> None:
        """Answer in the place of a handler that takes too long; never waits.

        What only follows a stream is about to end by itself.
        """
        if self._followed is None and self._lock.acquire(blocking=False):
            try:
                if _is_ready(self._handler.connection, "out"):
                    self.finish(build_unserved(self.value, STOPPED))
            finally:
                self._lock.release()
        self._handler.log()

    def watch(self, now: float) -> None:
        """See to a request that takes its time: is the client there, does it know we are?

        This is all there is of slow calls: after a second the answer becomes a stream, later a
        comment keeps it alive, and a client that is gone is noticed. The watcher must never
        wait, so a channel that is busy is left alone.
        """
        if self._followed is not None and self._followed.has_overflowed(self):
            self._hang_up()
        if not self._lock.acquire(blocking=False):
            return
        try:
            connection = self._handler.connection
            if self._is_finished or self._is_broken or self.cancelled:
                return
            if is_peer_gone(connection):
                # Or it has only shut its sending side: the answer is tried all the same.
                self._lose_client()
            elif (now - self._last_write >= KEEP_ALIVE_SECONDS if self._is_streaming else
                  self.can_stream and now - self.started >= STREAM_AFTER_SECONDS) and (
                      _is_ready(connection, "out")):
                self._begin()
                self._write(b": keep-alive\n\n")
        finally:
            self._lock.release()

    def _lose_client(self) -> None:
        """Go on without the client if it can come back, else cancel the call."""
        self._handler.close_connection = True
        if self._kept is not None:
            self._kept.detach(self)
        else:
            self.cancelled = True
            self.close()

    def _hang_up(self) -> None:
        """Close the connection under whatever hangs in it."""
        self._is_broken = self._handler.close_connection = True
        shut_down(self._handler.connection, socket.SHUT_RDWR)

    def _begin(self) -> None:
        """Begin the stream of a call; if it can be resumed, with the event id to begin from.

        Spec: 2025-11-25 transports, Sending Messages: earlier clients know no events without data.
        """
        if not self._is_streaming and self._followed is None and self.caller is not None and (
                self.caller.version == LATEST_LEGACY_VERSION):
            self._kept = self.caller.open_stream()
            self._kept.attach(self)
            self._write(format_event("", None, self._kept.first_id))

    def _write_message(self, text: str, last: bool = False) -> None:
        """Write a message as an event, and keep it if the stream can be resumed."""
        self._begin()
        event_id = None
        if self._kept is not None:
            event_id = self._kept.append(text)
            if last:
                self._kept.close()
            if self._kept.reader is not self:           # the client has come back elsewhere
                return
        self._write(format_event(text, event_id=event_id), last)

    def _write(self, data: bytes, last: bool = False) -> None:
        """Write events, after the head of the stream if it is not out yet."""
        handler = self._handler
        if self._is_broken or self._is_streaming and not (data or last):
            return
        head = b"" if self._is_streaming else handler.build_stream_head(self.session)
        self._is_streaming = True
        self._last_write = time.monotonic()
        if not handler.is_http_1_0:
            data = (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (
                b"0\r\n\r\n" if last else b"")
        if not handler.send_bytes(head + data):
            self._is_broken = True
            self._lose_client()


class HTTPHandler(RequestHandler):
    """One connection of an HTTPService."""

    server: HTTPService
    principal: Any = None                    # who sent the request, if callers are known
    owner: Optional[str] = None              # whose sessions it may open or use

    def check(self, data: bytes) -> CheckedRequest:
        """Return what a head asks for, as the checks of REQUEST CHECKS have it."""
        service = self.server
        # Clients repeat their headers to the byte; what they say is worked out once. A head with
        # credentials is not kept.
        lower = data.lower()
        has_secrets = (service.policy.access is not None or b"\nauthorization:" in lower
                       or b"\ncookie:" in lower)
        request = (service.check_again if has_secrets else service.check)(data)
        self.principal = request.principal
        self.owner = self.principal and self.principal.subject
        self.origin, self.rechecked = request.origin, self.started
        return request

    def answer(self, request: CheckedRequest, body: bytes) -> None:
        """Answer a request to the endpoint, or for a document beside it."""
        if request.document is None:
            ANSWER_METHODS[request.head.method](self, request.head, body)
        else:
            self.answer_document(request.head, request.document)
            if not request.document.is_logged:
                return
        if self.server.log_format is not None:
            self.log()

    def refuse(self, error: HTTPError) -> None:
        """Answer a request that is refused, so that a page which may read it can."""
        if self.head is None and self.data is not None:
            self.head, self.origin = find_refused_head(self.server.policy, self.data)
        super().refuse(error)
        self.log()

    def recheck(self) -> bool:
        """Return whether a client may follow its stream further: tokens end, and are revoked."""
        access, now = self.server.policy.access, time.monotonic()
        if access is None or now - self.rechecked < KEEP_ALIVE_SECONDS:
            return True
        self.rechecked = now
        return access.recheck(self.head, self.principal)

    def log(self) -> None:
        """Write the line of a request that has been answered, once, if requests are logged."""
        channel, status, self.status = self.channel, self.status, None
        if status is not None:
            value, session = (channel.value, channel.session) if channel else (None, None)
            named = self.head.headers.get("mcp-session-id") if self.head else None
            log_request(self.server, status, self.started, value, self.head,
                        session.id if session else named)

    def answer_post(self, head: Head, body: bytes) -> None:
        """Answer a POST, which carries one message."""
        service, mcp, session = self.server, self.server.mcp, None
        if mcp.keeps_sessions and not is_modern({}, head.headers):
            session = mcp.sessions.find(head.headers.get("mcp-session-id"), self.owner)
        channel = self.channel = HTTPChannel(self, service.policy.streams, session)
        try:
            channel.value = value = parse_json(body, mcp.limits.max_depth)
        except ValueError as error:
            answer = build_refusal(HTTPError(400, f"Parse error: {error}", code=PARSE_ERROR))
        else:
            if session is not None:
                if is_request(value) or isinstance(value, list):
                    session.channels.add(channel)
                cancelled = list_cancelled_ids(value)
                for other in tuple(session.channels) if cancelled else ():
                    other.cancelled_ids |= cancelled
            try:
                answer = mcp.receive(value, head.headers, session, channel, mcp.keeps_sessions)
            finally:
                if session is not None:
                    session.channels.discard(channel)
        channel.finish(answer)
        if service.verbose:
            took = (time.monotonic() - channel.started) * 1000
            service.log_debug(f"{head.method} {head.target} {shorten(body)}\n"
                              f"{answer.status} {took:.1f} ms {shorten(answer.data)}")

    def answer_get(self, head: Head, body: bytes) -> None:
        """Send a legacy session what belongs to no call, or what was lost of an earlier stream.

        Spec: 2025-11-25 transports, Listening and Resumability.
        """
        session = self._find_session(head)
        stream, after = session.find_stream(head.headers.get("last-event-id"))
        channel = self.channel = HTTPChannel(self, False)
        channel.session = session
        session.channels.add(channel)
        try:
            channel.follow(stream, after, with_ids=True)
        finally:
            session.channels.discard(channel)
            stream.detach(channel)
        channel.finish(None)

    def answer_delete(self, head: Head, body: bytes) -> None:
        """End a legacy session."""
        self.server.mcp.sessions.delete(self._find_session(head).id)
        self.send_answer(Answer(200))

    def _find_session(self, head: Head) -> Session:
        session_id = head.headers.get("mcp-session-id")
        session = self.server.mcp.sessions.find(session_id, self.owner)
        if session is None:
            raise session_error(head.headers)
        version = head.headers.get("mcp-protocol-version", session.version)
        if version not in LEGACY_VERSIONS:
            raise HTTPError(400, str(version_error(version).message))
        return session

    def answer_options(self, head: Head, body: bytes) -> None:
        """Answer a browser that asks before it sends (CORS); needs no token and no session."""
        wanted = split_list(head.headers.get("access-control-request-headers", "").lower())
        names = [*CORS_HEADERS, *(name for name in wanted if name not in CORS_HEADERS
                                  and re.fullmatch(r"mcp-[a-z0-9-]+", name))]
        allow = self.server.policy.allow
        self.send_answer(Answer(204, b"", (
            ("Allow", allow), ("Access-Control-Allow-Methods", allow + ", OPTIONS"),
            ("Access-Control-Allow-Headers", ", ".join(names)),
            ("Access-Control-Max-Age", "86400"))))

    def answer_document(self, head: Head, document: Document) -> None:
        """Answer a GET of a document beside the endpoint, or a browser that asks whether it may."""
        if head.method == "OPTIONS":
            self.send_answer(Answer(204, b"", (("Allow", document.allow),) + document.headers))
            return
        service, host = self.server, head.headers.get("host")
        url = service.public_url or (
            f"http://{host}{service.policy.path}" if host else service.url)
        # A name that was not checked must not be kept by those between for others who ask.
        headers = document.headers if service.public_url else tuple(
            (name, "no-store" if name == "Cache-Control" else text)
            for name, text in document.headers)
        self.send_answer(Answer(200, format_message(document.build(url)), headers,
                                document.media_type))

    def build_stream_head(self, session: Optional[Session]) -> bytes:
        """Return the head of an event stream; one that cannot be chunked ends its connection."""
        headers = list(STREAM_HEADERS)
        if self.is_http_1_0 or self.server.is_draining:
            self.close_connection = True
        if not self.close_connection:
            headers.append(("Connection", "keep-alive"))
        if not self.is_http_1_0:
            headers.append(("Transfer-Encoding", "chunked"))
        if session is not None:
            headers.append((HEADER_SESSION_ID, session.id))
        return self.build_head(200, tuple(headers)) + b"\r\n"


ANSWER_METHODS = {"POST": HTTPHandler.answer_post, "GET": HTTPHandler.answer_get,
                  "DELETE": HTTPHandler.answer_delete, "OPTIONS": HTTPHandler.answer_options}

STREAM_HEADERS = (("Cache-Control", "no-cache, no-transform"), ("Content-Type", STREAM_TYPE),
                  ("X-Accel-Buffering", "no"))

# What a page may send to us; other mcp-* names that it asks for are added.
CORS_HEADERS = ("accept", "authorization", "content-type", "last-event-id", "mcp-method",
                "mcp-name", "mcp-protocol-version", "mcp-session-id")


# What extras add to the options of HTTPService: by name, a function(service, value) that returns
# documents by path.
SERVICE_OPTIONS: Dict[str, Callable] = {}


class HTTPService(ThreadedServer):
    """A Server bound to an address. `url` is where it is reached.

    `run` serves in this thread until another calls `stop`; as a context manager it serves in a
    thread of its own and stops at the end of the block. Port 0 lets the system pick one. `log`
    is one of LOG_FORMATS: a line for each request. Documents beside the endpoint name `public_url`;
    without one, the URL that was asked. `listener` is a listening socket, instead of host and port,
    that others may serve as well. More options: SERVICE_OPTIONS.
    Raises TransportError when the address cannot be bound, UsageError for options that are wrong.
    """

    handler_class = HTTPHandler

    def __init__(self, mcp: Server, host: str = "127.0.0.1", port: int = 8000,
                 path: str = "/mcp", allow_origins: Iterable[str] = (),
                 allow_hosts: Iterable[str] = (), verbose: bool = False,
                 log: Optional[str] = None, public_url: Optional[str] = None,
                 listener: Optional[socket.socket] = None, **options: Any):
        self.path = path = "/" + path.lstrip("/")
        if not options.keys() <= SERVICE_OPTIONS.keys():
            raise TypeError(f"HTTPService has no option {', '.join(options)}")
        if public_url is not None and (
                not is_http_url(public_url) or re.search(r"[\s?#]", public_url)):
            raise UsageError("the public URL is where clients reach the endpoint: http or https, "
                             f"without query and fragment, but is {shorten(public_url)}")
        self.mcp = mcp
        self.verbose = verbose
        self.log_format = get_log_format(log)
        own, access = listener, None
        listener = listener or open_listener(host, port)
        try:
            host, port = listener.getsockname()[0] if own else host, listener.getsockname()[1]
            self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
            if mcp.auth is not None:
                access = mcp.auth.bind(self.url, host, mcp.info.get("title", mcp.info["name"]),
                                       mcp.runtime)
        except UsageError:
            listener.close()
            raise
        super().__init__(listener, mcp.limits)
        self.public_url = public_url or (access and access.public_url)
        documents = {HEALTH_PATH: HEALTH, **(access.documents if access else {})}
        for name, value in options.items():
            documents.update(SERVICE_OPTIONS[name](self, value))
        self.policy = Policy(path, is_loopback(host), frozenset(map(str.lower, allow_hosts)),
                             frozenset(origin.lower().rstrip("/") for origin in allow_origins),
                             mcp.stream != "never", mcp.keeps_sessions, mcp.limits,
                             documents, access)
        self.check_again = functools.partial(admit, self.policy)
        self.check = functools.lru_cache(maxsize=64)(self.check_again)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what should never happen; the other connections go on."""
        self.mcp.runtime.log_exception("a connection failed")

    def log_debug(self, text: str) -> None:
        """Write to the log when the service is verbose."""
        if self.verbose:
            self.mcp.runtime.log(text)


# ---- from the start of a service to its end

# The signals that stop a server, if the system has them; closing its terminal sends one.
STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


@contextlib.contextmanager
def catch_signals(receive: Callable[[int, Any], None]) -> Iterator[None]:
    """Have a function called for each of STOP_SIGNALS that comes during a block.

    Outside the main thread, which has no signals in Python, it never is.
    """
    import signal
    former = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in STOP_SIGNALS if hasattr(signal, name)]
        # nohup means it when it has SIGHUP ignored; a shell has SIGINT so for all that ends in &.
        former = {number: signal.signal(number, receive) for number in numbers
                  if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in former.items():
                signal.signal(number, handler or signal.SIG_DFL)


@contextlib.contextmanager
def catch_stop_signals() -> Iterator[List[int]]:
    """Give a list to which the first signal that says stop is added; a second ends us at once.

    A thread reads the signals from a pipe. A handler would run in the main thread only, which may
    wait for the end of all others, and is not woken by a signal that another thread has received.
    """
    received: List[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    import signal
    ours, theirs = os.pipe()
    if os.name == "posix":
        os.set_blocking(theirs, False)

    def read() -> None:
        while True:
            data = os.read(ours, 1)
            if not data or received:
                break
            if signal.Signals(data[0]).name in STOP_SIGNALS:
                received.append(data[0])
        if data:
            os._exit(128 + data[0])
        os.close(ours)

    with catch_signals(lambda number, frame: None):
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        threading.Thread(target=read, daemon=True, name="mcpkit-signals").start()
        try:
            yield received
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.set_wakeup_fd(-1)
                os.close(theirs)


def run_until(service: Any, is_told: Callable[[], Any]) -> None:
    """Run a service until it ends by itself, or `is_told` and it has stopped."""
    faults = []

    def run() -> None:
        try:
            service.run()
        except BaseException as error:
            faults.append(error)

    # In a thread, as a signal must interrupt nothing in the middle.
    thread = threading.Thread(target=run, daemon=True, name="mcpkit-service")
    thread.start()
    while thread.is_alive() and not is_told():
        thread.join(0.1)
    if is_told():
        # Not even a client that takes nothing in keeps us for more than three seconds.
        stopper = threading.Thread(target=service.stop, daemon=True, name="mcpkit-stop")
        stopper.start()
        stopper.join(STOP_SECONDS + 0.5)
    for error in faults:
        raise error


# What extras do in the place of `run_server`, by the option that asks for it: a function(make,
# stdio, **options).
RUN_OPTIONS: Dict[str, Callable] = {}


def run_server(make: Callable[[], Server], stdio: bool, log: Optional[str] = None,
               **options: Any) -> None:
    """Serve what `make` returns until a signal comes; the rest is said at Server.run."""
    for name, run in RUN_OPTIONS.items():
        if options.get(name) is not None:
            run(make, stdio, log=log, **options)
            return
        options.pop(name, None)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(make()))
        signals = stack.enter_context(catch_stop_signals())
        if stdio:
            service: Any = StdioService(server, *take_stdio(), log=log)
        else:
            service = HTTPService(server, log=log, listener=systemd_socket(), **options)
            print_out(describe_service(service))
            flush_out()
        if __name__ == "__main__" and sys.version_info[:2] in OUTLIVABLE:
            OUTLIVING.append(functools.partial(outlive_script, service, signals, stack.pop_all()))
        else:
            run_until(service, lambda: signals)


# Python keeps the syntax tree of a script for as long as it runs, and that of this file is large.
# So what a script serves is served by a thread, to which the program leaves it at its end.
OUTLIVING: List[Callable] = []
OUTLIVABLE = ((3, 9), (3, 10), (3, 11), (3, 13))      # 3.12 starts no threads after the script


def outlive_script(service: Any, signals: List[int], stack: contextlib.ExitStack) -> None:
    """Run a service once the script has ended, in less memory (glibc keeps what is freed)."""
    threading.main_thread().join()
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes
        ctypes.CDLL(None).malloc_trim(0)
    with stack:
        run_until(service, lambda: signals)


def describe_service(service: HTTPService, by: str = "") -> str:
    """Return the line that a server says when it serves, and by which it is found."""
    callers = "" if service.mcp.auth is None else " to callers with a token"
    return (f"{escape_text(service.mcp.info['name'])} serves {service.url}{callers}{by} "
            "(Ctrl-C ends it)")


# =============================================================================================
# 13. STDIO SERVER
# =============================================================================================
# A Server on a pair of byte streams: one message a line. What may take its time has a thread, so
# that the lines after it are not kept waiting.


class StdioChannel(Channel):
    """The way back over standard output, shared by all requests of one StdioService."""

    def __init__(self, service: StdioService, value: Any):
        self._service = service
        self._followed: Optional[Stream] = None
        self.value = value                   # the message that is being answered, if one is
        self.is_answered = False             # guarded by the service's _changed
        self.started = time.monotonic()

    @property
    def is_stopping(self) -> bool:
        """Whether the service is about to end."""
        return self._service.is_stopping

    def send(self, message: dict) -> None:
        """Send a message, unless the client has cancelled."""
        if not self.cancelled:
            self._service.write_line(format_message(message))

    def follow(self, stream: Stream) -> bool:
        """Send what comes in a stream until it ends; return False if some of it was lost."""
        self._followed = stream
        stream.attach(self)
        while not self.cancelled:
            messages = stream.read(self, KEEP_ALIVE_SECONDS)
            if messages is None:
                break
            for _, text in messages:
                self._service.write_line(text.encode("ascii"))
        return not stream.has_overflowed(self)

    def open_session(self, version: str, client_info: dict, client_capabilities: dict) -> None:
        """Remember the legacy client as long as the process lives, and notify it of changes."""
        service = self._service
        service.close_session()
        mcp = service.mcp
        self.session = service.session = Session(None, version, client_info, client_capabilities,
                                                 mcp.runtime, mcp.limits)
        mcp.listeners.add(self.session)
        start_thread(functools.partial(service.notify, self.session))

    def close(self) -> None:
        """End the stream that is followed, if one is."""
        if self._followed is not None:
            self._followed.detach(self)

    def cancel(self) -> None:
        """Have the call know that it is no longer wanted; its answer is not sent."""
        self.cancelled = True
        self.close()


class StdioService:
    """A Server on a pair of byte streams: one message a line, answers in the order they are ready.

    `run` returns when the input ends, at most `grace_seconds` after it if calls still run. `log`
    is one of LOG_FORMATS: a line for each message.
    """

    def __init__(self, mcp: Server, reader: Any, writer: Any, grace_seconds: float = 0.8,
                 log: Optional[str] = None):
        self.session: Optional[Session] = None
        self.is_stopping = False                        # what still comes is not read
        self.mcp = mcp
        self.log_format = get_log_format(log)
        self._reader = reader
        self._writer = writer
        self._grace_seconds = grace_seconds
        self._lock = threading.Lock()                   # one line at a time
        self._running: set = set()                      # channels; guarded by _changed
        self._changed = threading.Condition()           # notified when a message has been served

    def run(self) -> None:
        """Serve until the input ends or the output is closed."""
        limit = self.mcp.limits.max_body
        while True:
            line = self._reader.readline(limit + 2)
            if not line or self.is_stopping:
                break
            if len(line) > limit + 1:
                while line and not line.endswith(b"\n"):
                    line = self._reader.readline(65536)
                self._refuse(size_error(limit))
            elif line.strip():
                self._receive_line(line)
        self._end(self._grace_seconds)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Have running calls see that it ends; answer in the place of those that run on."""
        self.is_stopping = True
        self._end(seconds)
        for channel in self._list_running():
            self._finish(channel, build_unserved(channel.value, STOPPED))

    def _list_running(self) -> tuple:
        with self._changed:
            return tuple(self._running)

    def _end(self, seconds: float) -> None:
        """End streams, and wait for calls."""
        for channel in self._list_running():
            channel.close()
        self.close_session()
        with self._changed:
            self._changed.wait_for(lambda: not self._running, seconds)

    def _receive_line(self, line: bytes) -> None:
        """Answer one line; what runs the author's code gets a thread."""
        try:
            value = parse_json(line, self.mcp.limits.max_depth)
        except ValueError as error:
            self._refuse(HTTPError(400, f"Parse error: {error}", code=PARSE_ERROR))
            return
        cancelled = list_cancelled_ids(value)
        for running in self._list_running() if cancelled else ():
            running.cancelled_ids |= cancelled
            if is_request(running.value) and running.value["id"] in cancelled:
                running.cancel()
        channel, limit = StdioChannel(self, value), self.mcp.limits.max_connections
        with self._changed:
            self._running.add(channel)

        def answer() -> None:
            self._finish(channel, self.mcp.receive(value, None, self.session, channel))

        if is_slow(value) and len(self._running) > limit:
            self._finish(channel, build_unserved(value, f"Too many calls: {limit} run here "
                                                         "already; try again later"))
            return
        if is_slow(value):
            with contextlib.suppress(RuntimeError):     # no more threads: others wait
                start_thread(answer)
                return
        answer()

    def notify(self, session: Session) -> None:
        """Send a session what belongs to no call; after a loss it goes on with the newest."""
        while not session.stream.is_closed:
            StdioChannel(self, None).follow(session.stream)

    def close_session(self) -> None:
        """Notify the client no longer, if there is one."""
        if self.session is not None:
            self.mcp.listeners.discard(self.session)
            self.session.stream.close()

    def _finish(self, channel: StdioChannel, answer: Answer) -> None:
        """Write the answer, unless there was one already or the client has cancelled."""
        with self._changed:
            is_first, channel.is_answered = not channel.is_answered, True
        if is_first:
            if answer.data and not channel.cancelled:
                self.write_line(answer.data)
            log_request(self, answer.status, channel.started, channel.value)
        with self._changed:
            self._running.discard(channel)
            self._changed.notify_all()

    def _refuse(self, error: HTTPError) -> None:
        self.write_line(build_refusal(error).data)
        log_request(self, error.status, None)

    def write_line(self, data: bytes) -> None:
        """Write one message; a closed output ends nothing but the writing."""
        with contextlib.suppress(OSError, ValueError), self._lock:
            self._writer.write(data + b"\n")
            self._writer.flush()


def list_cancelled_ids(value: Any) -> set:
    """Return the ids of the requests that a message, or a batch, cancels."""
    parts = value if isinstance(value, list) else [value]
    return {find_cancelled_id(part) for part in parts} - {None}


@functools.lru_cache(maxsize=None)
def take_stdio() -> Tuple[Any, Any]:
    """Return standard input and output as byte streams that are the protocol's alone.

    What tools and their children print goes to standard error from then on, and what they read is
    empty. A process has one pair, which every call returns. Raises UsageError when one of the two
    is closed.
    """
    closed = UsageError("--stdio needs a standard input and output, but one is closed")
    if sys.stdin is None or sys.stdout is None:   # else dup(0) would take the place of fd 1
        raise closed
    try:
        reader = open(os.dup(0), "rb")
        writer = open(os.dup(1), "wb", buffering=0)
    except OSError:
        raise closed from None
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:                               # there is no stderr
        os.dup2(null, 1)
    sys.stdout = sys.stderr
    return reader, writer


# =============================================================================================
# 14. CLIENT MESSAGES
# =============================================================================================
# In: a call, and the server's answers. Out: messages with the headers they need, results, and the
# decision which era the server is of. What is known of a server is in its ClientSession.

MAX_CACHED = 1000                      # results that a client keeps


class Incoming(NamedTuple):
    """The answer of a server to one message, whatever carried it.

    `status` is the HTTP status, None on stdio; `response` the JSON-RPC response, None if there
    was none; `text` the start of a body that was something else.
    """

    status: Optional[int]
    headers: Headers
    response: Optional[Response]
    text: str = ""


class ClientSession:
    """What a client knows of its server, and so how it talks to it.

    `era` is None until it is known. Owned by one Client, which changes it under its lock.
    """

    def __init__(self, client_info: dict, capabilities: dict, log_level: Optional[str] = None,
                 unanswered: Collection[str] = ()):
        self.client_info, self.client_capabilities = client_info, capabilities
        self.log_level = log_level
        # Legacy servers send their requests themselves: what has no handler is not declared.
        self.unanswered = unanswered
        self.era: Optional[str] = None
        self.version: str = LATEST_MODERN_VERSION
        self.session_id: Optional[str] = None
        self.server_info: dict = {}
        self.capabilities: dict = {}
        self.instructions: Optional[str] = None
        self.header_parameters: Dict[str, HeaderParameters] = {}      # by tool
        self.output_schemas: Dict[str, CompiledSchema] = {}           # by tool

    def build_params(self, params: Optional[dict]) -> Optional[dict]:
        """Return the params of a request, in the modern era with its `_meta`."""
        if self.era == "legacy":
            return params
        meta = {META_PROTOCOL_VERSION: self.version, META_CLIENT_INFO: self.client_info,
                META_CLIENT_CAPABILITIES: self.client_capabilities}
        if self.log_level is not None:
            meta[META_LOG_LEVEL] = self.log_level
        return {**(params or {}), "_meta": {**meta, **find_object(params, "_meta")}}

    def build_headers(self, message: dict) -> Headers:
        """Return the protocol's own headers for a message. Spec: streamable-http."""
        headers = {"Accept": RPC_ACCEPT, "Content-Type": JSON_TYPE}
        method, params = message.get("method"), find_object(message, "params")
        if self.era == "legacy":
            if method != "initialize":
                headers[HEADER_PROTOCOL_VERSION] = self.version
                if self.session_id is not None:
                    headers[HEADER_SESSION_ID] = self.session_id
            return headers
        headers[HEADER_PROTOCOL_VERSION] = find_object(params, "_meta").get(
            META_PROTOCOL_VERSION, self.version)
        headers[HEADER_METHOD] = format_header_value(method)
        row = METHODS.get(method)
        if row is not None and row.name_param in params:
            name = params[row.name_param]
            headers[HEADER_NAME] = format_header_value(str(name))
            if method == "tools/call" and isinstance(name, str):
                headers.update(build_parameter_headers(
                    self.header_parameters.get(name, {}), params.get("arguments")))
        return headers

    def build_initialize(self, version: str = LATEST_LEGACY_VERSION) -> dict:
        """Return the params of `initialize`."""
        return {"protocolVersion": version, "clientInfo": self.client_info,
                "capabilities": {name: value for name, value in self.client_capabilities.items()
                                 if name not in self.unanswered}}

    def learn(self, era: str, version: Any, result: dict, session_id: Optional[str] = None) -> None:
        """Take in the answer to `initialize` or `server/discover`, with the version it chose.

        Raises ProtocolError when the answer to `initialize` cannot be used.
        """
        if era == "legacy" and version not in LEGACY_VERSIONS:
            raise ProtocolError(f"the server chose protocolVersion {shorten(version)}, but the "
                                f"handshake offers {', '.join(LEGACY_VERSIONS)}")
        if not _PLAIN_VALUE.fullmatch(session_id or ""):
            raise ProtocolError("no header can carry the session id that the server gave: "
                                + shorten(session_id))
        self.era, self.version, self.session_id = era, version, session_id
        self.server_info = find_object(result, "serverInfo") if era == "legacy" else (
            find_object(result.get("_meta"), META_SERVER_INFO))
        self.capabilities = find_object(result, "capabilities")
        self.instructions = result.get("instructions")

    def learn_tools(self, tools: List[Any], is_http: bool) -> Tuple[List[Any], List[str]]:
        """Return the tools that can be called, and a warning for each that is not quite right.

        Spec: streamable-http, Schema Extension: clients MUST drop a tool whose `x-mcp-header` is
        against the rules, and keep the rest.
        """
        kept, warnings = [], []
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            what = "is left out"
            try:
                if isinstance(name, str) and is_http and self.era == "modern":
                    self.header_parameters[name] = find_header_parameters(tool.get("inputSchema"))
                kept.append(tool)
                what = "has an outputSchema that cannot be used"
                if isinstance(name, str) and isinstance(tool.get("outputSchema"), dict):
                    self.output_schemas[name] = compile_schema(
                        tool["outputSchema"], is_foreign=True)
            except SchemaError as error:
                warnings.append(f"tool {shorten(name)} {what}: {error}")
        return kept, warnings

    def find_result_faults(self, name: str, result: dict) -> List[str]:
        """Return how a tool's result breaks the outputSchema that it was listed with."""
        schema = self.output_schemas.get(name)
        if schema is None or result.get("isError"):
            return []
        if "structuredContent" not in result:
            return ["structuredContent is missing"]
        return schema.errors(result["structuredContent"])


# ---- what an answer says

def decide_era(answer: Optional[Incoming]) -> Optional[str]:
    """Return the modern version to speak with a server that answered `server/discover` like this.

    None means legacy: send `initialize`. Anything that is not plainly modern means that, silence
    (None) and every status, code and text: legacy servers refuse an unknown method in every way
    there is. Raises the MCPKitError for a server that is modern and cannot be spoken to. Spec:
    stdio and streamable-http, Backward Compatibility.
    """
    response = answer.response if answer is not None else None
    result, error = (response.result, response.error) if response else (None, None)
    if result and ("supportedVersions" in result or "capabilities" in result):
        versions = result.get("supportedVersions")
        if not find_list(versions):
            raise ProtocolError(must_be("the server's supportedVersions", "a list of versions",
                                        versions))
    elif error is not None and error.code in MODERN_ERRORS:
        # Only modern servers have these errors; one of them names versions to try.
        versions = find_list(find_object(vars(error), "data").get("supported"))
        if error.code != UNSUPPORTED_VERSION or not versions:
            raise build_status_error(answer)
    else:
        return None
    for version in SUPPORTED_VERSIONS:
        if version in versions:
            return version if version in MODERN_VERSIONS else None
    raise ProtocolError(f"the server speaks {shorten(versions)}, mcpkit "
                        f"{', '.join(SUPPORTED_VERSIONS)}: there is none in common")


# The kinds of results, each with the capabilities of a client that may get one.
RESULT_TYPES: Dict[str, dict] = {"complete": {}, "input_required": {}}


def read_result(answer: Incoming, capabilities: Mapping = types.MappingProxyType({})) -> dict:
    """Return the result in an answer to a client with these capabilities, complete or not.

    Raises the MCPError or ProtocolError that it is instead.
    """
    response = answer.response
    if response is None or response.error is not None:
        raise build_status_error(answer)
    kind = response.result.get("resultType", "complete")
    needed = RESULT_TYPES.get(kind) if isinstance(kind, str) else None
    if needed is None or find_undeclared(needed, capabilities):
        # Spec: basic, ResultType: an unrecognized one MUST be considered invalid.
        raise ProtocolError(f"the result is of an unknown resultType: {shorten(kind)}")
    return response.result


def build_status_error(answer: Incoming) -> MCPKitError:
    """Return the error that an unsuccessful answer amounts to, with all that it says."""
    error = answer.response.error if answer.response else None
    if error is not None:
        return MCPError(error.code, error.message, error.data, answer.status)
    if answer.status == 401:
        challenge = answer.headers.get("www-authenticate")
        return ProtocolError("the server wants authorization (HTTP 401), " + (
            f"challenge: {shorten(challenge)}" if challenge else
            "without saying how (no WWW-Authenticate)"))
    seen = parse_media_type(answer.headers.get("content-type")) or "no content type"
    with contextlib.suppress(ValueError):
        value = parse_json(answer.text.encode("utf-8", "surrogatepass"), MAX_ANSWER_DEPTH)
        if seen == JSON_TYPE and isinstance(value, dict) and "id" in value:
            seen += (f" that has the id {encode_json(value['id'])[:80]}, which is not that of the "
                     "request")
    return ProtocolError(f"no MCP answer: HTTP {answer.status}, {seen}"
                         + (f": {shorten(answer.text)}" if answer.text.strip() else ", no body"))


def find_title(text: str) -> str:
    """Return the title of an HTML page, "" when there is none."""
    match = re.search(r"<title[^<>]*>([^<]{0,200})", text, re.IGNORECASE)
    return match.group(1).strip() if match else ""


def parse_answer(value: Any, request_id: Union[str, int]) -> Optional[Response]:
    """Return the response to a request among the messages of a JSON value, else None.

    An error without an id answers the only request that was asked: many servers cannot read it.
    Raises ProtocolError for a response with the request's id that is not valid.
    """
    for part in value if isinstance(value, list) else [value]:
        if not isinstance(part, dict) or "method" in part:
            continue
        is_ours = part.get("id") == request_id and type(part.get("id")) is type(request_id)
        if is_ours or (part.get("id") is None and "error" in part):
            try:
                return parse_message(part)
            except MCPError as error:
                if is_ours:                          # else an error of another protocol
                    raise ProtocolError("the answer is not a JSON-RPC response: "
                                        + error.message) from None
    return None


# ---- what a server asks

# The requests of a server for input: what a client declares that answers them.
INPUT_REQUESTS = {"elicitation/create": {"elicitation": {"form": {}, "url": {}}},
                  "sampling/createMessage": {"sampling": {"tools": {}}},
                  "roots/list": {"roots": {}}}


class Responder:
    """Answers what a server asks by the handlers of a Client; `capabilities` declare them."""

    def __init__(self, *handlers: Optional[Callable]):
        self._handlers = {method: handler for method, handler in zip(INPUT_REQUESTS, handlers)
                          if handler is not None}
        self.capabilities: dict = {}
        self.unanswered: Set[str] = set()      # capabilities without a handler
        for method, declared in INPUT_REQUESTS.items():
            (self.capabilities if method in self._handlers else self.unanswered).update(declared)

    def has_answer(self, request: Any) -> bool:
        """Return whether there is a handler for a request of the server."""
        method = request.get("method") if isinstance(request, dict) else None
        return isinstance(method, str) and method in self._handlers

    def answer(self, request: dict, **more: Any) -> dict:
        """Return the result for a request that has an answer; `more` are params of ours."""
        method, params = request["method"], find_object(request, "params")
        params = {**{name: params[name] for name in params if name != "key"}, **more}
        handler = self._handlers[method]
        value = handler() if method == "roots/list" else handler(params)
        if method == "roots/list":
            return {"roots": [root if isinstance(root, dict) else {"uri": str(root)}
                              for root in value]}
        if method == "sampling/createMessage":
            return value if isinstance(value, dict) else {
                "role": "assistant", "content": {"type": "text", "text": str(value)},
                "model": "unknown", "stopReason": "endTurn"}
        action, content = value if isinstance(value, Elicited) else (
            "decline" if value is None or value is False else "accept", value)
        if action != "accept" or params.get("mode") == "url":
            return {"action": action}
        return {"action": action, "content": fill_defaults(params.get("requestedSchema"), content)}

    def reply(self, request: dict) -> dict:
        """Return our response to a request that a legacy server sent, whatever a handler raises.

        Spec: 2025-11-25 ping: the receiver MUST respond promptly.
        """
        if request["method"] == "ping":
            return build_result(request["id"], {})
        if not self.has_answer(request):
            return build_error(request["id"], MCPError(METHOD_NOT_FOUND, "Method not found",
                                                       str(request["method"])))
        try:
            return build_result(request["id"], self.answer(request))
        except MCPError as error:
            return build_error(request["id"], error)
        except Exception as error:                     # the server waits: it must hear something
            text = str(error) if isinstance(error, MCPKitError) else type(error).__name__
            return build_error(request["id"], MCPError(INTERNAL_ERROR, text))

    def build_round(self, result: dict) -> dict:
        """Return the params that a request gets when it is repeated after an input_required result.

        Raises QuestionError for requests without a handler. Spec: basic/patterns/mrtr.
        """
        requests = result.get("inputRequests", {})
        if not isinstance(requests, dict):
            raise ProtocolError("the server wants input before it answers, but "
                                + must_be("its inputRequests", "an object", requests))
        unanswered = {key: request for key, request in requests.items()
                      if not self.has_answer(request)}
        responses = {}
        for key, request in () if unanswered else requests.items():
            try:
                responses[key] = self.answer(request, key=key)
            except QuestionError:
                unanswered[key] = request
        if unanswered:
            raise QuestionError(unanswered)
        more: dict = {"inputResponses": responses} if responses else {}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        if not more:
            raise ProtocolError("the server wants input before it answers, but does not say "
                                "which: neither inputRequests nor requestState")
        return more


def fill_defaults(schema: Any, content: Any) -> dict:
    """Return the content of a form with the defaults of what it leaves out."""
    members = find_object(schema, "properties")
    defaults = {name: member["default"] for name, member in members.items()
                if isinstance(member, dict) and "default" in member}
    return {**defaults, **(content if isinstance(content, dict) else {})}


def describe_question(request: Any) -> str:
    """Return a server's request for input as one line for a person."""
    method = request.get("method") if isinstance(request, dict) else request
    params = find_object(request, "params")
    text = params.get("message") or params.get("messages")
    return (shorten(method) + (f": {shorten(text)}" if text else "")
            + (f" ({shorten(params['url'])})" if "url" in params else ""))


# ---- what is kept, and what is refused

class Cache:
    """The results that a client may use again. Spec: server/utilities/caching.

    They are kept as text, so that what is handed out is the caller's own. Owned by one Client,
    which guards it with a lock; `now` is on the clock of the caller.
    """

    def __init__(self) -> None:
        self._kept: Dict[Tuple[str, str], Tuple[float, str]] = {}     # until when, what

    def find(self, method: str, key: str, now: float) -> Optional[List[dict]]:
        """Return the results kept for a method and what it is about, None when none is fresh."""
        until, text = self._kept.get((method, key), (now, ""))
        return json.loads(text) if now < until else None

    def keep(self, method: str, key: str, results: List[dict], now: float) -> None:
        """Keep results for as long as all of them allow; the oldest ones make room."""
        ttls = [result.get("ttlMs") for result in results]
        if all(type(ttl) is int and ttl > 0 for ttl in ttls):
            while len(self._kept) >= MAX_CACHED:
                del self._kept[next(iter(self._kept))]
            self._kept[method, key] = (now + min(1e15, *ttls) / 1000, encode_json(results))

    def drop(self, method: str, params: dict) -> None:
        """Forget what a notification says has changed."""
        if method == "notifications/resources/updated":
            self._kept.pop(("resources/read", str(params.get("uri"))), None)
        for name in METHODS:
            if name.endswith("/list") and method == LIST_CHANGES.get(name.partition("/")[0]):
                self._kept.pop((name, ""), None)


def find_tool_fault(tool: Any) -> Optional[str]:
    """Return what makes a listed tool unusable, None when nothing does."""
    if not isinstance(tool, dict):
        return f"is not an object: {shorten(tool)}"
    if not isinstance(tool.get("name"), str):
        return "has no name"
    if find_object(tool, "inputSchema").get("type") != "object":
        return ('needs an inputSchema of type "object", but it is '
                + shorten(tool.get("inputSchema")))
    return None


def find_schema_fault(tool: dict) -> Optional[str]:
    """Return why a schema of a listed tool cannot be used, None when nothing is wrong with it."""
    for name in ("inputSchema", "outputSchema"):
        try:
            compile_schema(tool.get(name, {}))
        except SchemaError as error:
            return f"has an {name} that cannot be used: {error}"
    return None


def check_header(name: str, value: str) -> None:
    """Raise UsageError when a name and value cannot go into an HTTP header as they are."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise UsageError(must_be("a header", "a name and a text", [name, value]))
    if name.lower() in ("content-length", "transfer-encoding", "connection", "host"):
        raise UsageError(f"the {name} header is the client's own")
    if not (_TOKEN.fullmatch(name) and _HEADER_LINE.fullmatch(f"{name}: {value}")
            and value.isascii()):
        raise UsageError(f"not a header: {shorten(name)}: ... (names must be tokens, values ASCII "
                         "without control characters)")


# =============================================================================================
# 15. HTTP CLIENT
# =============================================================================================
# In: a request and how long it may take. Out: its response, or the error that says in one line
# which layer failed. http.client reads the responses; here is what it lacks: deadlines, proxies by
# the rules of urllib.request, reasons, limits, and connections that are used again.

ADDRESS_SECONDS = 5.0                  # that one address of a host may take, if it has others

NOTED_BYTES = 1024 * 1024               # of a body that an observer gets
ANSWER_HEAD_BYTES = 256 * 1024          # of a response's head, with those that announce it
PIECE_BYTES = 64 * 1024                 # of a body at once


class Exchange(NamedTuple):
    """One HTTP exchange or stdio message pair, as an observer sees it.

    The names of `headers` are in lower case, those of `request_headers` as they were sent, without
    Host. On stdio, bodies are lines. `error` says why there is no answer, or not all of it.
    """

    method: str                    # of HTTP, or "stdio"
    url: str
    request_headers: Headers
    request_body: bytes
    status: Optional[int]
    headers: Headers
    answer: bytes                  # the first NOTED_BYTES of its body
    size: int                      # bytes of it that were read
    is_stream: bool
    seconds: float
    error: Optional[str]
    notes: Tuple[str, ...] = ()    # what is worth telling of the way to the server
    title: str = ""                # what it is about; "": its method


def find_json(data: bytes) -> Any:
    """Return the JSON value in bytes, None if they are not JSON."""
    try:
        return parse_json(data, max_depth=MAX_ANSWER_DEPTH)
    except ValueError:
        return None


def read_object(data: bytes) -> Optional[dict]:
    """Return the JSON object in a document, None if there is none."""
    value = find_json(data)
    return value if isinstance(value, dict) else None


class Timeouts(NamedTuple):
    """How long one exchange may take: `silence` between two bytes, and until `deadline` in all."""

    silence: float
    deadline: float

    def left(self) -> float:
        """Return the seconds to wait for the next byte; TransportError when none are left."""
        seconds = min(self.silence, self.deadline - time.monotonic())
        if seconds <= 0:
            raise TransportError("no answer in time: the time limit is used up", timed_out=True)
        return seconds


def build_timeouts(seconds: float) -> Timeouts:
    """Return the limits of an exchange that may take so many seconds from now."""
    return Timeouts(seconds, time.monotonic() + seconds)


class Attempt:
    """One request on its way: `notes` worth telling of it, and a way to end it from outside."""

    def __init__(self) -> None:
        self.notes: List[str] = []
        self.aborted = threading.Event()
        self._sock: Optional[socket.socket] = None

    def use(self, sock: socket.socket) -> None:
        """Go on with this socket; raises TransportError if the request was aborted."""
        self._sock = sock
        if self.aborted.is_set():
            raise TransportError("the request was aborted")

    def abort(self) -> None:
        """End the request at once, from any thread: whoever waits for it gets an error."""
        self.aborted.set()
        if self._sock is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown: that drops what the thread that reads still needs.
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)


# ---- the way to a server

class Network(NamedTuple):
    """How a client reaches servers over HTTP: through what, and which certificates it trusts.

    `proxy` is the http URL of a proxy for every host, "" means none at all; with None HTTP_PROXY,
    HTTPS_PROXY and NO_PROXY say, and never for this machine itself. `cacert` names a PEM file of
    authorities to trust instead of the system's (or those of SSL_CERT_FILE). `client_cert` and
    `client_key` name PEM files that say who we are; `insecure` trusts every certificate.
    """

    proxy: Optional[str] = None
    cacert: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    insecure: bool = False


class Proxy(NamedTuple):
    """A proxy, and the headers that are meant for it."""

    host: str
    port: int
    headers: Tuple[Tuple[str, str], ...] = ()


class Route(NamedTuple):
    """An origin, and the proxy through which it is reached, if any."""

    scheme: str
    host: str
    port: int
    proxy: Optional[Proxy]

    @property
    def address(self) -> str:
        """The origin's "host:port"."""
        return format_address(self.host, self.port)


def format_address(host: str, port: int) -> str:
    """Return "host:port", an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_origin(url: str) -> Tuple[str, str, int]:
    """Return the scheme, host and port of an http or https URL."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port


def parse_proxy(text: str) -> Proxy:
    """Return the proxy that a URL names; raises UsageError, which does not repeat its password."""
    match = re.fullmatch(r"(?:http://)?(?:([^/@]*)@)?(\[[^\]/]+\]|[^][/@:]+)(?::(\d{1,5}))?/?",
                         text)
    if match is None:
        raise UsageError("a proxy must be http://[USER:PASSWORD@]HOST[:PORT]")
    user, host, port = match.groups()
    headers = ()
    if user is not None:
        pair = urllib.parse.unquote_to_bytes(user if ":" in user else user + ":")
        headers = (("Proxy-Authorization", "Basic " + base64.b64encode(pair).decode("ascii")),)
    return Proxy(host.strip("[]").lower(), int(port or 80), headers)


def find_route(url: str, network: Network) -> Tuple[Route, str]:
    """Return the way to a URL, and why a proxy of the environment is not on it, "" if none is."""
    scheme, host, port = split_origin(url)
    host = host if host.isascii() else host.encode("idna").decode("ascii")
    proxy, bypassed = network.proxy, ""
    if proxy is None and (not sys.platform.startswith("linux")
                          or any(name.lower().endswith("_proxy") for name in os.environ)):
        from urllib.request import getproxies, proxy_bypass          # slow to import
        proxy = getproxies().get(scheme)
        if proxy and is_loopback(host):
            proxy, bypassed = None, "proxy bypassed: loopback"
        elif proxy and proxy_bypass(f"{host}:{port}"):
            proxy, bypassed = None, "proxy bypassed: NO_PROXY"
    return Route(scheme, host, port, parse_proxy(proxy) if proxy else None), bypassed


def find_addresses(host: str, port: int, waits: Timeouts) -> list:
    """Return what socket.getaddrinfo does, within the time limit: it knows none itself."""
    look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    with contextlib.suppress(socket.gaierror):
        return look_up(flags=socket.AI_NUMERICHOST)      # no name service is needed
    found: list = []

    def run() -> None:
        try:
            found.append(look_up())
        except Exception as error:                       # raised by the thread that waits
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(waits.left())
    if not found:
        raise TransportError(f"name: the name service says nothing of {host}", True, "name")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def open_socket(host: str, port: int, waits: Timeouts, attempt: Attempt) -> socket.socket:
    """Return a socket connected to the first address of a host that answers.

    Raises what the only address did, or a TransportError that names them all.
    """
    addresses, failures = find_addresses(host, port, waits), []
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        left = waits.left()                              # raises: nothing may be open yet
        sock = socket.socket(family, kind, protocol)
        try:
            attempt.use(sock)
            sock.settimeout(left if number == len(addresses) else min(left / 2, ADDRESS_SECONDS))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException as error:
            sock.close()
            if len(addresses) == 1 or not isinstance(error, OSError):
                raise
            is_refused = isinstance(error, ConnectionRefusedError)
            failures.append(f"{address[0]} {'refused' if is_refused else shorten(str(error))}")
        else:
            attempt.notes += [", ".join([*failures, f"{address[0]} ok"])] if failures else []
            return sock
    raise TransportError(f"connect: nothing answers at {format_address(host, port)} "
                         f"({', '.join(failures)})", layer="tcp")


def open_route(way: Route, waits: Timeouts, attempt: Optional[Attempt] = None) -> socket.socket:
    """Return a socket at whose other end the origin of a route is, or its proxy for plain http."""
    attempt = attempt or Attempt()
    if way.proxy is None:
        return open_socket(way.host, way.port, waits, attempt)
    host, port, headers = way.proxy
    try:
        sock = open_socket(host, port, waits, attempt)
    except (OSError, TransportError) as error:
        fault = explain_transport_error(error, f"http://{format_address(host, port)}", None, waits)
        raise TransportError(f"proxy: {fault}", fault.timed_out, "proxy") from None
    try:
        if way.scheme == "https":
            sock.settimeout(waits.left())
            sock.sendall(encode_request_head("CONNECT", way.address, {
                "Host": way.address, **dict(headers)}))
            with contextlib.closing(HTTPResponse(waits, 0, sock, method="CONNECT")) as response:
                response.begin()
                check_proxy(response, way)
        return sock
    except BaseException:
        sock.close()
        raise


def encode_request_head(method: str, target: str, headers: Headers) -> bytes:
    """Return a request line and headers with the blank line; UsageError for what breaks them."""
    lines = [f"{method} {target} HTTP/1.1", *map("{0[0]}: {0[1]}".format, headers.items())]
    for line, form in zip(lines, chain((_REQUEST_LINE,), cycle((_HEADER_LINE,)))):
        if not (form.fullmatch(line) and line.isascii()):
            raise UsageError(f"no request can have the line {shorten(line, 80)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def check_proxy(response: HTTPResponse, way: Route) -> None:
    """Raise TransportError for a response with which a proxy refuses to reach an origin."""
    if response.status == 407:
        challenge = shorten(response.headers.get("proxy-authenticate", "without saying how"))
        raise TransportError(f"proxy: the proxy wants credentials (HTTP 407, {challenge}): give "
                             "them as http://USER:PASSWORD@HOST:PORT", layer="proxy")
    if way.scheme == "https" and not 200 <= response.status < 300:
        raise TransportError(f"proxy: the proxy refuses {way.address} (HTTP {response.status} "
                             f"{shorten(response.reason)})", layer="proxy")


# ---- TLS: what it takes to trust a server, and what is said of one that is not trusted

def build_tls_context(network: Network) -> Any:
    """Return the ssl.SSLContext for a Network; UsageError for files that cannot be used."""
    import ssl

    def refuse_password() -> str:                        # OpenSSL itself would ask the terminal
        raise UsageError(f"the key in {network.client_key or network.client_cert} is encrypted")

    if network.client_key is not None and network.client_cert is None:
        raise UsageError("a client key is of no use without the client certificate it is for")
    name = network.cacert
    try:
        context = ssl.create_default_context(cafile=network.cacert)
        name = network.client_cert
        if name is not None:
            context.load_cert_chain(name, network.client_key, refuse_password)
    except OSError as error:
        raise UsageError(f"{name} cannot be used for TLS: {error.strerror or error}") from None
    # Asked for by default from 3.13 on; private authorities seldom keep all of RFC 5280.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return trust_everybody(context) if network.insecure else context


def trust_everybody(context: Any = None) -> Any:
    """Return an ssl.SSLContext (the one given, or a new one) that does not check certificates."""
    import ssl
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def open_tls(way: Route, waits: Timeouts, context: Any, attempt: Optional[Attempt] = None) -> Any:
    """Return a TLS socket to an origin; raises OSError, ssl.SSLError or TransportError."""
    attempt = attempt or Attempt()
    sock = open_route(way, waits, attempt)
    try:
        sock = context.wrap_socket(sock, server_hostname=way.host, do_handshake_on_connect=False)
        attempt.use(sock)
        sock.settimeout(waits.left())
        sock.do_handshake()
        return sock
    except BaseException:
        sock.close()
        raise


class Certificate(NamedTuple):
    """What a certificate says: whose it is, who vouches for it, for which days and names."""

    subject: str
    issuer: str
    starts: str
    ends: str
    names: str


def parse_certificate(info: dict) -> Certificate:
    """Return what ssl's `getpeercert()` says of a certificate."""
    import ssl
    short = {"commonName": "CN", "organizationName": "O"}
    subject, issuer = (
        shorten(", ".join(f"{short[kind]}={text}" for group in info.get(side, ())
                          for kind, text in group if kind in short)) or "(nameless)"
        for side in ("subject", "issuer"))
    starts, ends = (time.strftime("%Y-%m-%d", time.gmtime(ssl.cert_time_to_seconds(info[name])))
                    for name in ("notBefore", "notAfter"))
    names = [shorten(name) for kind, name in info.get("subjectAltName", ())
             if kind in ("DNS", "IP Address")]
    return Certificate(subject, issuer, starts, ends, ", ".join(names))


def read_certificate(way: Route, waits: Timeouts) -> Certificate:
    """Return what the certificate of an origin says that may not be trusted.

    The ssl module describes only what it trusts: one handshake gets the certificate, and a second
    one trusts it alone. Raises OSError, ValueError or TransportError when they fail.
    """
    import ssl
    with open_tls(way, waits, trust_everybody()) as sock:
        der = sock.getpeercert(binary_form=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=der)
    context.verify_flags |= 0x80000 | 0x200000           # X509_V_FLAG_PARTIAL_CHAIN, NO_CHECK_TIME
    with open_tls(way, waits, context) as sock:
        return parse_certificate(sock.getpeercert())


# Why OpenSSL does not trust a certificate (X509_V_ERR_...), to what is said of it, and to do.
TRUST_HINT = ("give the certificate of its authority to clients (--cacert FILE), or have it issued "
              "by one that they know")
UNKNOWN_ISSUER = (
    "the certificate of {host} was issued by {issuer}, which is not in the trust store; a "
    "TLS-inspecting proxy? Pass its authority with --cacert FILE", TRUST_HINT)
WRONG_NAME = ("the certificate is for {names}, not for {host}",
              "use a name in the URL that the certificate has")
CERTIFICATE_FAULTS = {
    9: ("the certificate of {host} is not valid before {starts}: is this machine's clock right?",
        "set the clock of this machine, or of the one that made the certificate"),
    10: ("the certificate of {host} has expired on {ends}",
         "have it renewed, and the server restarted"),
    18: ("the certificate of {host} is self-signed by {subject}: pass it with --cacert FILE if you "
         "trust it", TRUST_HINT),
    19: UNKNOWN_ISSUER, 20: UNKNOWN_ISSUER, 21: UNKNOWN_ISSUER, 62: WRONG_NAME, 64: WRONG_NAME,
}


def explain_certificate(error: Any, way: Route, waits: Timeouts) -> TransportError:
    """Return why a certificate is not trusted, with what it says of itself if it can be seen."""
    code = 20 if way.proxy is not None and error.verify_code == 18 else error.verify_code
    text, hint = CERTIFICATE_FAULTS.get(code, ("the certificate of {host} is not trusted: {reason}",
                                               ""))
    reason = shorten(error.verify_message)
    try:
        facts = read_certificate(way, waits)._asdict()
        text += " (subject {subject}, issuer {issuer}, {starts} to {ends})"
    except (OSError, ValueError, TransportError):
        facts, text = {"names": ""}, "the certificate of {host} is not trusted ({reason})"
    facts.update(host=way.host, reason=reason, names=facts["names"] or facts.get("subject"))
    return TransportError("tls: " + text.format(**facts), layer="tls", hint=hint)


# ---- connections and responses

class _Reader(io.RawIOBase):
    """What comes on a socket for one response, each wait within the response's limits."""

    def __init__(self, response: HTTPResponse, file: Any):
        self._response, self._file = response, file
        self.head_left: float = ANSWER_HEAD_BYTES
        self.at_end = False                  # the other end has closed its side

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.head_left < 0:
            raise http.client.HTTPException("the head of its answer does not end")
        self._response.sock.settimeout(self._response.waits.left())
        size = self._file.readinto(buffer)
        self.head_left -= size
        self.at_end = not size
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


class HTTPResponse(http.client.HTTPResponse):
    """A response whose head has been read; its body is read as it comes, within its limits.

    `headers` is a dict with names in lower case, `fields` its lines, also the repeated ones, as
    pairs. `size` counts the bytes of the body that were
    read, `noted` are the first of them; more than `max_bytes` are an error. `waits` may be changed
    while it is read.
    """

    def __init__(self, waits: Any, max_bytes: float, sock: socket.socket, *args: Any,
                 **options: Any):
        super().__init__(sock, *args, **options)
        self.waits, self.max_bytes, self.sock = waits, max_bytes, sock
        self._reader = _Reader(self, self.fp.detach())
        self.fp = io.BufferedReader(self._reader, PIECE_BYTES)
        self.size = 0
        self.noted = bytearray()

    def begin(self) -> None:
        """Read the head, over those that only say that it is to come."""
        super().begin()
        while 100 <= self.status < 200 and self.status != 101:
            self.headers = None
            super().begin()
        self._check_head()
        self._reader.head_left = math.inf
        self.fields = [(name.lower(), re.sub(r"\s*\n\s*", " ", value).strip())
                       for name, value in self.headers.items()]
        self.headers = {}
        for name, value in self.fields:
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        if self.length == 0:                 # else a read would wait for more
            self.close()

    def _check_head(self) -> None:
        """Raise HTTPException for a head that two readers could understand differently.

        Spec: RFC 9112, 6.1 and 6.3.
        """
        codings = ", ".join(self.headers.get_all("transfer-encoding", ()))
        lengths = ", ".join(dict.fromkeys(self.headers.get_all("content-length", ())))
        fault = ""
        if self._reader.at_end:
            fault = "the head of its answer does not end"
        elif self.headers.defects or "\0" in "".join(self.headers.values()):
            fault = "a header line is malformed"
        elif codings and codings.lower() != "chunked":
            fault = f"its Transfer-Encoding is {shorten(codings, 80)}"
        elif lengths and not codings and not re.fullmatch("[0-9]{1,18}", lengths):
            fault = f"its Content-Length is {shorten(lengths, 80)}"
        if fault:
            raise http.client.HTTPException(fault)
        # If there are two ways to tell the end, somebody between may have taken the other.
        self.will_close |= self.status == 101 or bool(codings) and (
            bool(lengths) or self.version == 10)

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return (self.status == 200
                and parse_media_type(self.headers.get("content-type")) == STREAM_TYPE)

    def read_some(self) -> bytes:
        """Return the bytes that have come, at least one; none at the end.

        Raises ProtocolError for too many, or for a body that is compressed although that was not
        asked for; OSError or HTTPException for one that is cut or comes too slowly.
        """
        coding = self.headers.get("content-encoding") or "identity"
        if coding.lower() != "identity":
            raise ProtocolError(f"the answer comes in the coding {shorten(coding)}, which was not "
                                "asked for (Accept-Encoding: identity) and is not read")
        try:
            # `read` waits until it has all, and `read1` of old Pythons counts only chunks.
            data = self.read1(PIECE_BYTES) if self.chunked else (
                self.read(len(self.peek(1)[:PIECE_BYTES]) or 1))
        except http.client.IncompleteRead:
            if self._reader.at_end:
                raise
            raise http.client.HTTPException("a chunk size is malformed") from None
        if self.length and not data:
            raise http.client.IncompleteRead(b"")
        self.size += len(data)
        self.noted += data[:max(0, NOTED_BYTES - len(self.noted))]
        if self.size > self.max_bytes:
            raise ProtocolError(f"the answer is larger than {self.max_bytes:,} bytes")
        return data

    def read_all(self) -> bytes:
        """Return the whole body."""
        return b"".join(iter(self.read_some, b""))

    def read_whole(self) -> Tuple[int, Headers, bytes]:
        """Return the status, the headers and the whole body."""
        return self.status, self.headers, self.read_all()

    def finish(self) -> None:
        """Read the end of a stream if it is there already, so that its connection can be kept."""
        self.waits = build_timeouts(0.02)
        with contextlib.suppress(OSError, MCPKitError, http.client.HTTPException):
            self.read_some()


def is_quiet(sock: socket.socket) -> bool:
    """Return whether the other end neither sent what was not asked for nor hung up."""
    try:
        sock.settimeout(0)
        sock.recv(1)
    except (OSError, ValueError) as error:
        return isinstance(error, BlockingIOError) or type(error).__name__ == "SSLWantReadError"
    return False


def _ignore(*_: Any) -> None:
    """Take no notice."""


class HTTPPool:
    """Sends HTTP requests. The connections of each route are kept and used again.

    A body of more than `max_bytes` is not read. No redirect is followed, and no status is an error.
    """

    def __init__(self, network: Network, max_bytes: float):
        self._network = network
        self._max_bytes = max_bytes
        self._context: Any = None                        # an ssl.SSLContext, made at first use
        # What is shared by threads changes by single steps, which need no lock.
        self._idle: Dict[Route, deque] = defaultdict(deque)
        self._attempts: Set[Attempt] = set()             # that go on
        self.is_closed = False
        # The environment is slow to read.
        self._plan = functools.lru_cache(maxsize=64)(self._plan_request)
        self._proven: Set[Route] = set()                 # on which an answer came

    def request(self, method: str, url: str, headers: Headers, body: Optional[bytes],
                waits: Timeouts, read: Callable[[HTTPResponse], Any] = HTTPResponse.read_whole, *,
                observe: Callable[[Exchange], None] = _ignore, attempt: Optional[Attempt] = None,
                is_safe: bool = False) -> Any:
        """Send a request and return what `read` returns of the response.

        `observe` gets the exchange, also if it failed; `attempt` can end it from another thread.
        A request that `is_safe` to repeat is sent once more if a kept connection turns out to be
        dead. Raises only MCPKitErrors: TransportError, or what `read` raises.
        """
        started, response, error = time.monotonic(), None, None
        attempt = attempt or Attempt()
        attempt.notes.clear()
        try:
            response = self._send(method, url, headers, body, waits, attempt, is_safe)
            return read(response)
        except (OSError, MCPKitError, http.client.HTTPException) as caught:
            error = explain_transport_error(caught, url, response, waits)
            raise error from None
        finally:
            self._finish(attempt, response)
            seen = (None, {}, b"", 0, False) if response is None else (
                response.status, response.headers, bytes(response.noted), response.size,
                response.is_stream)
            observe(Exchange(method, url, headers, body or b"", *seen, time.monotonic() - started,
                             error and str(error), tuple(attempt.notes)))

    def _send(self, method: str, url: str, headers: Headers, body: Optional[bytes], waits: Timeouts,
              attempt: Attempt, is_safe: bool) -> HTTPResponse:
        """Send a request and return the response, of which the head has been read."""
        way, bypassed, target, own = self._plan(url)
        given = set(map(str.lower, headers))
        headers = {**{name: own[name] for name in own if name.lower() not in given}, **headers}
        if (body is not None or method == "POST") and "content-length" not in given:
            headers["Content-Length"] = str(len(body or b""))
        head = encode_request_head(method, target, headers)
        self._attempts.add(attempt)
        if self.is_closed:
            raise TransportError("the connection was closed")
        kept, response = self._take(way), None
        if kept is None and bypassed:
            attempt.notes.append(bypassed)
        sock = kept or self._connect(way, waits, attempt)
        try:
            attempt.use(sock)
            sock.settimeout(waits.left())
            with contextlib.suppress(BrokenPipeError):   # it may have answered already
                sock.sendall(head + (body or b""))
            response = HTTPResponse(waits, self._max_bytes, sock, method=method)
            response.url, response.route = url, way
            response.begin()
            if way.proxy is not None and way.scheme == "http":
                check_proxy(response, way)
            self._proven.add(way)
            return response
        except BaseException as error:
            if response is not None:
                response.close()
            sock.close()
            if not isinstance(error, ConnectionError) or attempt.aborted.is_set():
                raise
            if kept is not None and is_safe:
                return self._send(method, url, headers, body, waits, attempt, False)
            if self._speaks_tls(way, waits):
                raise TransportError(f"tls: {way.address} speaks TLS, not plain HTTP: use "
                                     "https://", layer="tls", hint=USE_HTTPS) from None
            raise

    def _plan_request(self, url: str) -> Tuple[Route, str, str, Headers]:
        """Return the route to a URL, what is told of it, and the target and headers to send."""
        way, bypassed = find_route(url, self._network)
        target = re.sub(r"^[^/]*//[^/?#]*|#.*", "", escape_url(url))
        target = target if target.startswith("/") else "/" + target
        has_port = urllib.parse.urlsplit(url).port
        host = way.address if has_port else way.address.rpartition(":")[0]
        headers = {"Host": host, "Accept-Encoding": "identity"}
        if way.proxy is not None and way.scheme == "http":
            target = f"http://{host}{target}"
            headers.update(way.proxy.headers)
        return way, bypassed, target, headers

    def _connect(self, way: Route, waits: Timeouts, attempt: Attempt) -> socket.socket:
        """Return a new connection to an origin, with TLS if its scheme says so."""
        if way.scheme == "http":
            return open_route(way, waits, attempt)
        import ssl
        self._context = self._context or build_tls_context(self._network)
        try:
            return open_tls(way, waits, self._context, attempt)
        except ssl.SSLCertVerificationError as error:
            raise explain_certificate(error, way, waits) from None

    def _speaks_tls(self, way: Route, waits: Timeouts) -> bool:
        """Return whether a server that hangs up on plain HTTP takes a TLS handshake instead."""
        if way.scheme != "http" or way.proxy is not None or way in self._proven:
            return False
        try:
            limits = waits._replace(silence=min(waits.silence, 2.0))
            open_tls(way, limits, trust_everybody()).close()
            return True
        except (OSError, ValueError, TransportError):
            return False

    def _take(self, way: Route) -> Optional[socket.socket]:
        """Return an idle connection that the server has not closed meanwhile."""
        with contextlib.suppress(IndexError):            # there is none left
            while True:
                sock = self._idle[way].pop()
                if is_quiet(sock):
                    return sock
                sock.close()
        return None

    def _finish(self, attempt: Attempt, response: Optional[HTTPResponse]) -> None:
        """Keep the connection of a response that was read to its end; close any other."""
        self._attempts.discard(attempt)
        if response is not None and response.isclosed() and not response.will_close:
            self._idle[response.route].append(response.sock)
        elif response is not None:
            response.close()
            response.sock.close()
        if self.is_closed:
            self.close()

    def close(self) -> None:
        """Close what is idle, and end what goes on."""
        self.is_closed = True
        for attempt in tuple(self._attempts):
            attempt.abort()
        while self._idle:
            for sock in self._idle.popitem()[1]:
                sock.close()


# ---- URLs and redirects

def is_http_url(url: str) -> bool:
    """Return whether a URL names a host to be reached over HTTP, and nothing that hides in it."""
    try:
        parts = urllib.parse.urlsplit(url)
        (parts.hostname or "").encode("idna")
        return (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
                and url.isprintable() and not set("@ ") & set(parts.netloc))
    except ValueError:                            # a bad port or name, an unclosed [
        return False


def describe_bad_url(url: str) -> str:
    """Return what is wrong with a URL that is no http URL; a password in it is not repeated."""
    shown = re.sub("//[^/?#]*@", "//***@", url)
    return f"not an http or https URL: {shorten(shown)}" + (
        "" if shown == url else "; credentials go into a header (--header 'Authorization: ...')")


def escape_url(url: str) -> str:
    """Return a URL in which the characters that no URL has are escaped, but for its host."""
    head = re.match(r"[^/]*//[^/?#]*", url).group()
    return head + urllib.parse.quote(url[len(head):], safe=string.punctuation)


def resolve_reference(base: str, reference: str) -> Optional[str]:
    """Return the http URL that a reference means, None when it means none. Spec: RFC 3986, 5.

    Its characters are kept as they are, but for those that no URL has, which are escaped.
    """
    if re.search(r"[\x00-\x1f\x7f]", reference):
        return None                               # urllib would drop them, and say nothing
    try:
        url = urllib.parse.urljoin(base, reference.strip(" "))
    except ValueError:
        return None
    return escape_url(url) if is_http_url(url) else None


def is_same_origin(url: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port. Spec: RFC 6454."""
    return split_origin(url) == split_origin(other)


def get_redirect_target(url: str, status: int, headers: Headers) -> str:
    """Return the URL that a redirected request may be sent on to; ProtocolError if to none.

    Only 307 and 308 keep a POST a POST. What a request carries is meant for one origin: it goes to
    no other, except from http to https on one host.
    """
    location = headers.get("location", "")
    target = resolve_reference(url, location) if location else None
    text = f"HTTP {status} redirects to {shorten(target or location or 'nowhere')}"
    if status not in (307, 308) or target is None:
        raise ProtocolError(f"{text}: use that URL if you trust it; a POST is not sent on by "
                            "itself")
    (scheme, host, _), (new_scheme, new_host, _) = split_origin(url), split_origin(target)
    is_upgrade = (scheme, new_scheme, host) == ("http", "https", new_host)
    if not is_upgrade and not is_same_origin(url, target):
        raise ProtocolError(f"{text}, which is another origin: use that URL if you trust it; "
                            "nothing is sent there by itself")
    return target


# ---- what went wrong

SEE_LOG = "see the server's log: it ended the connection"
USE_HTTP, USE_HTTPS = "use http:// in the URL", "use https:// in the URL"
# What went wrong below MCP, most telling first: a type, words in its text, its layer, what to say
# and, if the layer does not say it all, what to do.
TRANSPORT_FAULTS: Tuple[tuple, ...] = (
    (http.client.RemoteDisconnected, "", "http",
     "connection: {at} closed the connection without an answer", SEE_LOG),
    (http.client.IncompleteRead, "", "http",
     "connection: {at} closed the connection inside its answer", SEE_LOG),
    (http.client.BadStatusLine, "\x15\x03", "tls",        # how TLS complains of plain HTTP
     "tls: {at} speaks TLS, not plain HTTP: use https://", USE_HTTPS),
    (http.client.HTTPException, "", "http", "http: {at} does not answer in HTTP: {text}", ""),
    (socket.gaierror, "", "name", "name: the name {host} cannot be resolved", ""),
    (ConnectionRefusedError, "", "tcp", "connect: nothing listens at {at} (refused)", ""),
    (OSError, "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", "tls",    # the latter: OpenSSL 3.2
     "tls: {at} speaks plain HTTP, not TLS: use http://", USE_HTTP),
    (OSError, "CERTIFICATE_REQUIRED", "tls",
     "tls: {at} wants to know us by a certificate: --client-cert FILE", ""),
    (OSError, "ALERT_UNKNOWN_CA", "tls", "tls: {at} does not trust our certificate", ""),
    (OSError, "SSL", "tls", "tls: the TLS handshake with {at} failed ({text})", ""),
    (ConnectionResetError, "", "http", "connection: {at} reset the connection", SEE_LOG),
    (OSError, "", "tcp", "connect: {at} cannot be reached ({text})", ""),
)


def explain_transport_error(error: Exception, url: str, response: Any,
                            waits: Timeouts) -> MCPKitError:
    """Return the error of the family that says in one line which layer failed, and how.

    `response` is what has come before, or None.
    """
    if isinstance(error, MCPKitError):
        return error
    _, host, port = split_origin(url)
    at = f"{host}:{port}"
    if isinstance(error, socket.timeout):
        seen = "no answer"
        if response is not None:
            seen = f"headers received (HTTP {response.status}), then " + (
                f"{response.size:,} bytes without an answer" if response.size else "no data")
        return TransportError(f"{seen} for {waits.silence:g} s from {at}", timed_out=True)
    text = shorten(str(error))
    for kind, words, layer, form, hint in TRANSPORT_FAULTS:
        if isinstance(error, kind) and re.search(words, str(error)):
            return TransportError(form.format(host=host, at=at, text=text), layer=layer, hint=hint)
    return TransportError(text)


# =============================================================================================
# 16. CLIENT TRANSPORTS
# =============================================================================================
# In: the messages of a Client. Out: their answers. One class for each way to carry them: each
# message a POST of its own, or all through the pipes of a child process. TRANSPORTS lists them.

MAX_REDIRECTS = 5
RESUME_SECONDS = 1.0                   # before a lost stream is asked for again; then doubled
RESUME_LEAST_SECONDS = 0.05            # the same, whatever the server says
RESUME_ATTEMPTS = 5                    # in which no event came
CHILD_END_SECONDS = 2.0                # that a child has to end with its input, and then by TERM
MAX_CHALLENGES = 3                     # of a server, that a client meets for one request


class TransportOptions(NamedTuple):
    """What a transport is made with; each uses what it has a use for.

    `auth` has `authorize(method, url, endpoint)`, which returns headers to send, and
    `handle_challenge(endpoint, answer, sent)`, which returns whether to send a request again.
    """

    headers: Headers = {}
    max_bytes: int = MAX_ANSWER_BYTES
    observe: Callable[[Exchange], None] = _ignore
    network: Network = Network()
    auth: Any = None
    on_message: Callable[[dict], None] = _ignore          # what is sent to all, on a shared stream
    on_junk: Callable[[int, bytes], None] = _ignore       # lines of a child that are not messages
    env: Mapping[str, str] = {}
    cwd: Optional[str] = None


class ChildExit(NamedTuple):
    """How a child process ended when its input did: the signal that it took ("": none)."""

    signal: str
    seconds: float
    left_something: bool           # running in its group


def format_own(message: dict) -> bytes:
    """Return one of our messages as bytes; UsageError if the caller gave what is not JSON."""
    try:
        return format_message(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the parameters are not JSON: {error}") from None


class StreamEnded(ProtocolError):
    """A stream came to its end without the answer that it was there for."""

    timed_out = False

    def __init__(self, request_id: Any, unfinished: int):
        super().__init__(("the stream of changes ended" if request_id is None else
                          f"the stream ended before the response to request {request_id!r}")
                         + (f"; {unfinished} bytes of an unfinished event were discarded"
                            if unfinished else ""))


def read_event_value(event: SSEEvent) -> Any:
    """Return the JSON value in an event, None for events without data or of other types."""
    if event.event != "message" or not event.data.strip():
        return None
    try:
        return parse_json(event.data.encode("utf-8", "surrogatepass"), max_depth=MAX_ANSWER_DEPTH)
    except ValueError as error:
        raise ProtocolError(f"an event of the stream is not JSON: {error}") from None


class Call(Attempt):
    """One exchange over HTTP: the answer that is awaited, and how far a stream has been read.

    Without `on_message` a stream is not read.
    """

    def __init__(self, request_id: Any = None, on_message: Optional[Callable] = None,
                 on_open: Callable[[], None] = _ignore):
        super().__init__()
        self.request_id, self.on_message, self.on_open = request_id, on_message, on_open
        self.has_stream = False
        self.event_id: Optional[str] = None
        self.pause = RESUME_SECONDS          # before the stream is asked for again
        self.events = 0

    def read_event(self, event: SSEEvent, retry: Optional[int]) -> Optional[Response]:
        """Return the answer in an event, None when it holds something else."""
        self.events += 1
        if _PLAIN_VALUE.fullmatch(event.id):          # else no header can carry it
            self.event_id = event.id or self.event_id
        if retry is not None:
            self.pause = max(retry / 1000, RESUME_LEAST_SECONDS)
        value = read_event_value(event)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict) and "method" in part:
                self.on_message(part)
        return parse_answer(value, self.request_id)


class HTTPTransport:
    """Messages to a Streamable HTTP endpoint, each a POST of its own."""

    name = "HTTP"
    is_http = True
    shares_stream = False                    # on which the answers to all requests come
    version: Optional[str] = None            # that `initialize` asks for, None for the latest
    ended: Optional[str] = None              # why no more answers will come
    noise: Sequence[str] = ()                # what a child wrote to standard error
    child_exit: Optional[ChildExit] = None   # of a child, once it is closed

    def __init__(self, url: str, options: TransportOptions = TransportOptions()):
        self.url = self.endpoint = url       # `url` may move for good
        self.options = options
        self._pool = HTTPPool(options.network, options.max_bytes)
        self.calls: Dict[Any, Call] = {}    # by request id, None for `listen`; changed key by key

    def exchange(self, message: dict, headers: Headers, waits: Timeouts,
                 on_message: Callable[[dict], None], may_resume: bool = False) -> Incoming:
        """Send one message and return the answer to it; others go to `on_message` as they come.

        With `may_resume`, a stream that breaks off is asked for again.
        """
        call = Call(message.get("id") if "method" in message else None, on_message)
        self.calls[call if call.request_id is None else call.request_id] = call
        method = message.get("method", "")
        is_safe = method.endswith("/list") or method in ("initialize", "server/discover", "ping")
        try:
            return self._send(call, "POST", format_own(message), headers, waits, is_safe)
        except (StreamEnded, TransportError) as error:
            is_lost = call.event_id is not None and not error.timed_out
            if not (may_resume and is_lost) or call.aborted.is_set():
                raise
            return self._resume(call, headers, waits)
        finally:
            self.calls.pop(call if call.request_id is None else call.request_id)

    def listen(self, headers: Headers, waits: Timeouts, on_message: Callable[[dict], None],
               on_open: Callable[[], None]) -> None:
        """Hand on what comes on the stream of a legacy session; raises when there is no more.

        `on_open` is called as soon as nothing that is sent on it can be missed. `abort(None)`
        makes it return.
        """
        call = self.calls[None] = Call(None, on_message, on_open)
        try:
            self._resume(call, headers, waits)
        except MCPKitError:
            if not call.aborted.is_set() or self._pool.is_closed:
                raise
        finally:
            self.calls.pop(None, None)

    def _resume(self, call: Call, headers: Headers, waits: Timeouts) -> Incoming:
        """Ask for a stream, or the rest of one, again and again while events come.

        Spec: 2025-11-25 transports, Resumability and Sending Messages (retry).
        """
        attempts, pause = 0, 0.0 if call.event_id is None else call.pause
        while not call.aborted.wait(min(pause, waits.left())):
            seen = call.events
            more = {} if call.event_id is None else {"Last-Event-ID": call.event_id}
            try:
                answer = self._send(call, "GET", None, {**headers, "Accept": STREAM_TYPE, **more},
                                    waits)
                if answer.response is None:            # no stream: that is final
                    raise build_status_error(answer)
                return answer
            except (StreamEnded, TransportError) as error:
                attempts = attempts + 1 if call.events == seen else 0
                if attempts >= RESUME_ATTEMPTS or error.timed_out:
                    raise
            pause = call.pause * 2 ** attempts
        raise StreamEnded(call.request_id, 0)

    def pause(self) -> Any:
        """Return what holds up the limit of silence during a block: here nothing is read in it."""
        return contextlib.nullcontext()

    def get(self, headers: Headers, waits: Timeouts) -> Incoming:
        """Send a GET and return its status, headers and the start of its body."""
        return self._send(Call(), "GET", None, headers, waits)

    def delete(self, headers: Headers, waits: Timeouts) -> Incoming:
        """Send a DELETE, which ends a legacy session."""
        return self._send(Call(), "DELETE", None, headers, waits)

    def abort(self, request_id: Any) -> None:
        """End the exchange of a request, or (None) the stream that listens, for good."""
        call = self.calls.get(request_id)
        if call is not None:
            call.abort()

    def close(self) -> None:
        """Close the connections, and end what still goes on."""
        self._pool.close()
        for call in tuple(self.calls.values()):
            call.abort()

    def _send(self, call: Call, method: str, body: Optional[bytes], headers: Headers,
              waits: Timeouts, is_safe: bool = False) -> Incoming:
        """Send a request, also to where it is redirected, and again after a login."""
        auth, seconds, redirects = self.options.auth, waits.deadline - time.monotonic(), 0
        # Nobody is asked to log in only to end a session.
        challenges = 0 if auth is None or method == "DELETE" else MAX_CHALLENGES
        url = self.url
        while redirects <= MAX_REDIRECTS:
            more = {} if auth is None else auth.authorize(method, url, self.endpoint)
            sent = {"User-Agent": f"mcpkit/{__version__}", **headers, **more,
                    **self.options.headers}
            try:
                answer = self._pool.request(
                    method, url, sent, body, waits, functools.partial(self._read, call),
                    observe=self.options.observe, attempt=call, is_safe=is_safe)
            except TransportError as error:
                if call.has_stream and call.request_id is not None:
                    raise TransportError(f"{error}, before the response to request "
                                         f"{call.request_id!r}", error.timed_out, error.layer,
                                         error.hint) from None
                raise
            if 300 <= answer.status < 400:
                target = get_redirect_target(url, answer.status, answer.headers)
                if answer.status == 308 and url == self.url:
                    self.url = target            # for good
                url, redirects = target, redirects + 1
            elif challenges and auth.handle_challenge(self.endpoint, answer, more):
                # Each try has all the time: a person may have taken it to log in.
                url, challenges = self.url, challenges - 1
                waits = waits._replace(deadline=time.monotonic() + seconds)
            else:
                return answer
        raise ProtocolError(f"more than {MAX_REDIRECTS} redirects, the last one to {shorten(url)}")

    def _read(self, call: Call, response: HTTPResponse) -> Incoming:
        """Return the answer in a response, from JSON or from an event stream."""
        status, headers = response.status, response.headers
        call.has_stream = response.is_stream
        if response.is_stream or 300 <= status < 400:
            is_read = response.is_stream and call.on_message is not None
            return Incoming(status, headers, self._read_stream(call, response) if is_read else None)
        data = response.read_all()
        text = data[:2000].decode("utf-8", "replace")
        if (call.request_id is None or parse_media_type(headers.get("content-type")) != JSON_TYPE
                or not data.strip()):
            return Incoming(status, headers, None, text)
        try:
            value = parse_json(data, max_depth=MAX_ANSWER_DEPTH)
        except ValueError as error:
            raise ProtocolError(f"the answer (HTTP {status}, {len(data):,} bytes of JSON) "
                                f"cannot be read: {error}") from None
        return Incoming(status, headers, parse_answer(value, call.request_id), text)

    def _read_stream(self, call: Call, response: HTTPResponse) -> Response:
        """Return the answer among the events of a stream, which may stay open after it."""
        call.on_open()
        parser = SSEParser(self.options.max_bytes)
        for data in iter(response.read_some, b""):
            for event in parser.feed(data):
                answer = call.read_event(event, parser.retry)
                if answer is not None:
                    response.finish()
                    return answer
        raise StreamEnded(call.request_id, len(parser.close()))


class SharedStream:
    """What a transport needs on which one stream brings all answers: each goes by its id to the
    thread that waits for it, everything else to `on_message`."""

    shares_stream = True
    _LISTEN = "(listen)", None               # stands for the id of a request where there is none

    def __init__(self, name: str, options: TransportOptions):
        self.url = name
        self.options = options
        self.ended: Optional[str] = None          # why no more answers will come
        self._waiting: Dict[Any, queue.Queue] = {}     # by request id; changed key by key
        self._pauses: List[None] = []             # one for each that goes on
        self._heard = 0.0                         # when something last came
        self._stray = (0.0, "")                   # when an answer to nothing last came, and its id

    def listen(self, headers: Headers, waits: Timeouts, on_message: Callable[[dict], None],
               on_open: Callable[[], None]) -> None:
        """Wait for the end: what the server sends comes on the one stream anyway."""
        on_open()
        with self._expect(self._LISTEN) as answers:
            self._wait(answers, waits)

    def abort(self, request_id: Any) -> None:
        """End the wait for the answer to a request, or (None) `listen`."""
        answers = self._waiting.get(self._LISTEN if request_id is None else request_id)
        if answers is not None:
            answers.put({"jsonrpc": JSONRPC_VERSION, "id": request_id, "result": {}})

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Hold up the limit of silence during a block: the server waits for us."""
        self._pauses.append(None)
        try:
            yield
        finally:
            self._heard = time.monotonic()
            self._pauses.pop()

    @contextlib.contextmanager
    def _expect(self, request_id: Any) -> Iterator[queue.Queue]:
        """Have the answer to a request (None: to none) put into a queue during a block."""
        answers: queue.Queue = queue.Queue()
        if request_id is not None:
            self._waiting[request_id] = answers
        try:
            yield answers
        finally:
            self._waiting.pop(request_id, None)

    def _wait(self, answers: queue.Queue, waits: Timeouts) -> Any:
        """Return the JSON value that answers; raises TransportError when there will be none."""
        started = time.monotonic()
        while not (self.ended and answers.empty()):
            # What the server says meanwhile, or we think about, is no silence.
            now = time.monotonic()
            since = now if self._pauses else max(started, self._heard)
            left = min(since + waits.silence, waits.deadline) - now
            if left <= 0:
                came, stray = self._stray
                raise TransportError(
                    f"no answer for {waits.silence:g} s from {self.url}" + (
                        f"; an answer to the id {stray} came, which was not asked"
                        if came > started else "") + self._describe_stderr(), timed_out=True)
            with contextlib.suppress(queue.Empty):
                value = answers.get(timeout=left)
                if value is not None:
                    return value
        raise TransportError(f"{self.ended}{self._describe_stderr()}")

    def _describe_stderr(self) -> str:
        return ""

    def _take(self, value: Any) -> None:
        """Hand on a message, or those of a batch."""
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict):
                continue
            if "method" in part:
                self.options.on_message(part)
                continue
            answers = self._waiting.get(find_request_id(part))
            asked = [each for each in tuple(self._waiting) if each != self._LISTEN]
            if answers is None and "error" in part and part.get("id") is None and len(asked) == 1:
                answers = self._waiting.get(asked[0])      # the only request that it can be about
            if answers is not None:
                answers.put(part)
            else:
                self._stray = (time.monotonic(), encode_json(part.get("id"))[:80])

    def _end(self, reason: str) -> None:
        """End all waits; the first reason counts."""
        self.ended = self.ended or reason
        for answers in tuple(self._waiting.values()):
            answers.put(None)


class StdioTransport(SharedStream):
    """Messages to a child process, one a line, and its answers in the same way.

    The child and its children form a group that is ended as one: its input is closed, then it
    gets TERM, then KILL. Its standard error is read all the time; the tail is kept for errors.
    """

    name = "stdio"
    is_http = False
    version: Optional[str] = None
    STDERR_TAIL = 4096

    def __init__(self, command: List[str], options: TransportOptions = TransportOptions()):
        import shutil
        super().__init__(" ".join(command), options)
        environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8", **options.env}
        # A command with a folder in it is looked for from where the child will be.
        program = shutil.which(os.path.abspath(os.path.join(options.cwd or "", command[0]))
                               if os.path.dirname(command[0]) else command[0],
                               path=environment.get("PATH"))
        if program is None:
            raise TransportError(f"command not found: {command[0]}", layer="start",
                                 hint="check its spelling and the PATH")
        self.child_exit: Optional[ChildExit] = None
        self._stderr = b""
        self._outgoing: queue.Queue = queue.Queue(1000)       # lines, then None
        self._child: Any = None
        self._fault: Optional[Exception] = None        # why it does not start
        self._threads = [threading.Thread(target=run, daemon=True)
                         for run in (self._read_stdout, self._read_stderr, self._write_stdin)]
        has_started = threading.Event()
        starter = threading.Thread(target=self._start, daemon=True, args=(
            [program, *command[1:]], environment, has_started))
        try:
            starter.start()
            has_started.wait()
        except BaseException:
            # A signal may raise in this thread at any time: inside of Popen, it would leave a
            # child that is not known.
            if starter.ident is not None:
                has_started.wait()
            self._signal("KILL")
            raise
        if self._fault is not None:
            place = "" if options.cwd is None else f" in {shorten(options.cwd)}"
            raise TransportError(f"cannot start {program}{place}: "
                                 f"{getattr(self._fault, 'strerror', None) or self._fault}",
                                 layer="start", hint="check that it is a program, and that its "
                                 "folder is there")

    def _start(self, command: List[str], environment: Dict[str, str],
               has_started: threading.Event) -> None:
        import subprocess
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=environment, cwd=self.options.cwd, start_new_session=os.name == "posix")
            for thread in reversed(self._threads):     # the first waits for the others at the end
                thread.start()
        except (OSError, ValueError) as error:         # ValueError: a NUL, or = in a name
            self._fault = error
        finally:
            has_started.set()

    def _read_stdout(self) -> None:
        """Hand on each message on the child's standard output."""
        import subprocess
        most = self.options.max_bytes
        with contextlib.suppress(OSError, ValueError), self._child.stdout as pipe:
            for number, line in enumerate(iter(lambda: pipe.readline(most + 1), b""), 1):
                if len(line) > most:
                    self._end(f"the server sent a line of more than {most:,} bytes")
                    break
                self._heard = time.monotonic()
                value = find_json(line)
                if isinstance(value, list) or (
                        isinstance(value, dict) and value.get("jsonrpc") == JSONRPC_VERSION):
                    self._take(value)
                elif line.strip():
                    self.options.on_junk(number, line)
        try:
            code = self._child.wait(1.0)
            self._threads[1].join(1.0)                # its last words may come later
            self._end(f"{self.url} has exited with code {code}")
        except subprocess.TimeoutExpired:
            self._end(f"{self.url} has closed its output")

    def exchange(self, message: dict, headers: Headers, waits: Timeouts,
                 on_message: Callable[[dict], None], may_resume: bool = False) -> Incoming:
        """Send one message and wait for the answer to it; only a request has one."""
        started, error, value = time.monotonic(), None, None
        line = format_own(message)
        request_id = message.get("id") if "method" in message else None
        try:
            with self._expect(request_id) as answers:
                self._write(line, waits)
                if request_id is None:
                    return Incoming(None, {}, None)
                value = self._wait(answers, waits)
                return Incoming(None, {}, parse_answer(value, request_id), shorten(value))
        except MCPKitError as caught:
            error = str(caught)
            raise
        finally:
            data = b"" if value is None else format_message(value)
            self.options.observe(Exchange(
                "stdio", self.url, {}, line, None, {}, data[:NOTED_BYTES], len(data), False,
                time.monotonic() - started, error))

    def _write(self, line: bytes, waits: Timeouts) -> None:
        """Have a line written by a thread of its own: a child may stop reading for ever.

        The thread that reads does not wait here at all: a child may stop until all is read.
        """
        is_reader = threading.current_thread() is self._threads[0]
        try:
            self._outgoing.put(line + b"\n", timeout=0 if is_reader else waits.left())
        except queue.Full:
            raise TransportError(f"{self.url} does not read its input"
                                 + self._describe_stderr()) from None

    def _write_stdin(self) -> None:
        """Write the lines as they are handed over, until there are no more."""
        try:
            with self._child.stdin as pipe:
                for line in iter(self._outgoing.get, None):
                    pipe.write(line)
                    pipe.flush()
        except (OSError, ValueError):
            self._threads[0].join(1.0)            # so that the exit and its reason are known
            self._end("the server has closed its input")

    def _read_stderr(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._child.stderr as pipe:
            for data in iter(lambda: pipe.read1(65536), b""):
                self._stderr = (self._stderr + data)[-self.STDERR_TAIL:]

    @property
    def noise(self) -> List[str]:
        """The last lines that the child wrote to its standard error."""
        return self._stderr.decode("utf-8", "replace").splitlines()

    def _describe_stderr(self) -> str:
        tail = self._stderr.decode("utf-8", "replace").strip()
        return f"; its last words: {shorten(tail[-400:], 400)}" if tail else ""

    def close(self) -> None:
        """End the child and everything that it started."""
        import subprocess
        with contextlib.suppress(queue.Full):     # it reads nothing: the signals will end it
            self._outgoing.put_nowait(None)
        started = time.monotonic()
        for name in ("", "TERM", "KILL"):
            if name:
                self._signal(name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(CHILD_END_SECONDS)
                break
        self.child_exit = ChildExit(name, time.monotonic() - started, self._signal(""))
        self._signal("KILL")                      # what the child left behind in its group
        # Each thread closes its own pipe at the end. If a process outside of the group holds the
        # other end, that may be far away: it is not waited for.
        for thread in self._threads:
            thread.join(CHILD_END_SECONDS)

    def _signal(self, name: str) -> bool:
        """Send a signal ("" for none) to the child's group; return whether there is one left."""
        try:
            if self._child is not None and os.name == "posix":
                import signal
                os.killpg(self._child.pid, getattr(signal, "SIG" + name) if name else 0)
                return True
            if self._child is not None and name:
                self._child.kill()
        except OSError:
            pass
        return False


# How a target is recognised, and the class that carries messages to it.
TRANSPORTS: List[Tuple[Callable[[Any], bool], Any]] = [
    (lambda target: isinstance(target, list), StdioTransport),
    (lambda target: isinstance(target, str) and is_http_url(target), HTTPTransport),
]
# What may open another transport after a server refused `initialize`: functions of the transport,
# the answer and Timeouts, which return the new one (and close the old one), or None.
FALLBACKS: List[Callable[[Any, Incoming, Timeouts], Any]] = []


def open_transport(target: Union[str, List[str]], options: TransportOptions) -> Any:
    """Return the transport to a target; UsageError when there is none for it."""
    for is_theirs, transport in TRANSPORTS:
        if is_theirs(target):
            return transport(target, options)
    raise UsageError(describe_bad_url(target))


# =============================================================================================
# 17. CLIENT
# =============================================================================================
# The shell around a ClientSession, which people use: calls in, results out, and what the server
# sends on its own to those who wait for it. It opens the transport, finds out the era, numbers the
# requests.

MAX_QUESTIONS = 100                    # of a server, that a client answers at the same time
MAX_PAGES = 1000
MAX_ROUNDS = 20                        # of questions that a client answers for one result
MAX_JUNK_LINES = 100                   # that are kept of what a stdio server prints beside MCP

Handler = Optional[Callable[..., Any]]


class ChangeListener:
    """What one `listen` waits for, and what has come for it."""

    def __init__(self, wanted: Filter):
        self.filter = wanted
        self.request_id: Any = None          # of the modern subscription
        self.has_ended = False
        self.changes: queue.Queue = queue.Queue()     # (method, params), then None or an error

    def take(self, method: str, params: dict) -> List[str]:
        """Take a notification if it is for us; return warnings of what the server never sends."""
        meta = find_object(params, "_meta")
        if self.request_id is not None and meta.get(META_SUBSCRIPTION_ID) != self.request_id:
            return []
        if method == "notifications/subscriptions/acknowledged":
            granted = find_object(params, "notifications")
            return [f"the server will not tell of {name}" for name in self.filter.to_wire()
                    if name not in granted]
        if any(method == LIST_CHANGES[feature] for feature in self.filter.lists) or (
                method == "notifications/resources/updated"
                and str(params.get("uri")) in self.filter.uris):
            self.changes.put((method, params))
        return []

    def end(self, error: Optional[Exception]) -> None:
        """End the waiting, by an error or as it should end."""
        self.has_ended = True
        self.changes.put(error)


class Client:
    """An MCP client, for one server; use it as a context manager, from as many threads as you like.

    `target` is the URL of an endpoint, or the command of a stdio server as a list, which runs in
    the folder `cwd` with the variables `env` on top of ours. `headers` go with every HTTP request,
    `network` says how it is reached (see `Network`), and `auth` gets the tokens that it wants.
    `era` "auto" finds out whether the server is modern or legacy, and by which transport it talks.
    `timeout` is how many seconds the server may be silent, `max_time` how many one call may take in
    all; `until` ends all waiting at a moment of time.monotonic().

    `on_elicit`, `on_sample` and `on_roots` answer what the server asks, in both eras.
    `on_elicit(params)` gets {"message", "requestedSchema"} or {"mode": "url", "message", "url"}. It
    returns what the form holds, a dict in which defaults are filled in (or True for a page that
    was visited), None to decline, or an Elicited. `on_sample(params)` gets {"messages",
    "maxTokens", ...} and returns a text, or a whole message with its "model". `on_roots()` returns
    folders: paths, file URIs, or {"uri", "name"}. In the modern era `params` also has the "key" of
    the question. A handler that cannot answer raises QuestionError.

    `on_log(level, data, logger)` gets the server's log messages, from `log_level` on (by default
    "info"), `on_notification(method, params)` all its notifications, and `observe(exchange)` each
    exchange. An exception of theirs is logged, and ends nothing. Lists and reads are cached for as
    long as the server says, unless it notifies us of a change. With an extension among its
    `capabilities`, the result of a call may be of a type that the extension adds.

    `is_http` says whether the server is reached over HTTP, `warnings` what is not quite right with
    it, `junk` the number and text of lines on its standard output that are not messages. After
    close(), `noise` has its last lines on standard error, and `child_exit` how it ended.

    Every method raises MCPError (the server answered with an error), ProtocolError (it broke a
    rule) or TransportError (there was no answer).
    """

    def __init__(self, target: Union[str, List[str]], *, headers: Optional[Headers] = None,
                 auth: Any = None, era: str = "auto", timeout: float = 30.0,
                 max_time: float = 600.0, discover_timeout: float = DISCOVER_SECONDS,
                 max_bytes: int = MAX_ANSWER_BYTES, until: Optional[float] = None,
                 network: Network = Network(), client_info: Optional[dict] = None,
                 capabilities: Optional[dict] = None, on_elicit: Handler = None,
                 on_sample: Handler = None, on_roots: Handler = None, on_log: Handler = None,
                 log_level: Optional[str] = None, on_notification: Handler = None,
                 env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
                 observe: Callable[[Exchange], None] = _ignore):
        if era not in ("auto", "legacy", "modern"):
            raise UsageError(must_be("era", '"auto", "legacy" or "modern"', era))
        for name, value in (headers or {}).items():
            check_header(name, value)
        self.is_http = isinstance(target, str)
        self._target = target if self.is_http else list(target)
        self._has_header = any(name.lower() == "authorization" for name in headers or {})
        self._auth = None if self._has_header else auth      # who gives a token knows better
        self._wanted_era, self._discover_timeout = era, discover_timeout
        self._timeout, self._max_time, self._until = timeout, max_time, until or math.inf
        self._options = TransportOptions(
            dict(headers or {}), max_bytes, observe, network, self._auth, self._take,
            self._note_junk, dict(env or {}), cwd)
        self._on_log, self._on_notification = on_log, on_notification
        self._responder = Responder(on_elicit, on_sample, on_roots)
        declared = {**self._responder.capabilities, **(capabilities or {})}
        extensions = {**getattr(auth, "extensions", {}), **find_object(declared, "extensions")}
        if extensions:
            declared["extensions"] = extensions
        self._session = ClientSession(
            client_info or {"name": "mcpkit", "version": __version__}, declared,
            log_level or ("info" if on_log is not None else None), self._responder.unanswered)
        self.warnings: List[str] = []
        self.junk: List[Tuple[int, str]] = []
        self.noise: Sequence[str] = ()
        self.child_exit: Optional[ChildExit] = None
        self._cache = Cache()
        self._cache_lock = threading.Lock()       # not _lock: notifications come while it is held
        self._progress: Dict[str, Callable] = {}  # by token; changed key by key
        self._questions = threading.Semaphore(MAX_QUESTIONS)      # of a legacy server
        self._listeners: Set[ChangeListener] = set()
        self._stream: Optional[threading.Event] = None     # of a legacy server, for all listeners
        self._lock = threading.RLock()            # held while connecting; guards the session
        self._last_id = 0                         # guarded by _lock
        self._transport: Any = None               # guarded by _closing
        self._is_closed = False                   # guarded by _closing
        self._closing = threading.Lock()          # not _lock: close() ends a connect() that waits

    # ---- connecting

    def __enter__(self) -> Client:
        self.connect()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    era = property(operator.attrgetter("_session.era"),
                   doc='"modern" or "legacy"; None until connected.')
    protocol_version = property(operator.attrgetter("_session.version"),
                                doc="The revision of the protocol that is spoken.")
    server_info = property(operator.attrgetter("_session.server_info"),
                           doc='The name that the server has: {"name", "version"}, or {}.')
    capabilities = property(operator.attrgetter("_session.capabilities"),
                            doc="What the server declares that it offers.")
    instructions = property(operator.attrgetter("_session.instructions"),
                            doc="How the server wants to be used, in its own words, or None.")
    session_id = property(operator.attrgetter("_session.session_id"),
                          doc="The id of the legacy session, None if there is none.")

    @property
    def transport(self) -> Optional[str]:
        """What carries the messages: "HTTP", "HTTP+SSE" or "stdio"; None until connected."""
        return None if self._transport is None else self._transport.name

    def connect(self) -> None:
        """Reach the server and find out how to speak to it; once connected, do nothing."""
        with self._lock:
            if self._session.era is not None:
                return
            try:
                self._is_closed = False
                self._use(open_transport(self._target, self._options))
                if self._wanted_era == "legacy":
                    self._initialize()
                else:
                    self._discover()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the session, if there is one, and the connection.

        In another thread, a connect() or a request that waits ends with a TransportError.
        """
        with self._closing:
            self._is_closed = True
            transport, self._transport = self._transport, None
        if transport is None:
            return
        session = self._session
        try:
            if self.is_http and session.session_id is not None:
                # Spec: 2025-11-25 transports: clients SHOULD end what they no longer need.
                transport.delete(session.build_headers({"method": "close"}),
                                 self._waits(min(self._timeout, 2.0)))
        except MCPKitError:
            pass                                  # the server may not allow it, or be gone
        finally:
            session.session_id = session.era = None
            transport.close()
            self.noise = transport.noise
            self.child_exit = transport.child_exit

    def _use(self, transport: Any) -> None:
        """Have a transport carry the messages, unless the client was closed meanwhile."""
        with self._closing:
            is_closed, was = self._is_closed, self._transport
            self._transport = None if is_closed else transport
        for unused in (transport if is_closed else None, was):
            if unused is not None:
                unused.close()
        if is_closed:
            raise TransportError("the client was closed")

    def _note_junk(self, number: int, line: bytes) -> None:
        if len(self.junk) < MAX_JUNK_LINES:
            self.junk.append((number, shorten(line.strip())))

    def _discover(self) -> None:
        """Ask what the server speaks; fall back to the handshake unless it is plainly modern."""
        session, version, answer = self._session, LATEST_MODERN_VERSION, None
        is_auto, transport = self._wanted_era == "auto", self._transport
        silence = min(self._timeout, self._discover_timeout if is_auto and not self.is_http
                      else math.inf)
        for _ in range(2):                        # the same, too: one address may be many servers
            session.era, session.version = "modern", version
            try:
                answer = self._exchange("server/discover", None, silence)
            except TransportError:                # a stdio server that is silent is legacy
                if self.is_http or transport is not self._transport or transport.ended:
                    raise
            if answer is not None and answer.status in (401, 403):
                # With credentials, it may come from a gateway that knows only the old methods.
                has_token = self._auth is not None and self._auth.has_token(self._target)
                if not (is_auto and (self._has_header or has_token)):
                    raise build_status_error(answer)
            version = decide_era(answer)
            if version is None:
                break
            if answer.response.error is None:
                session.learn("modern", version, answer.response.result)
                return
        session.era = None
        if version is not None or not is_auto:
            raise ProtocolError("the server does not speak the modern era: " + (
                str(build_status_error(answer)) if answer else "it did not answer server/discover"))
        try:
            self._initialize()
        except MCPError as error:
            if answer is not None or error.code != UNSUPPORTED_VERSION:
                raise
            self._wanted_era = "modern"           # it was merely slow
            self._discover()

    def _initialize(self) -> None:
        """Open a legacy session with the handshake."""
        session = self._session
        session.era, session.session_id = "legacy", None
        try:
            answer = self._exchange("initialize", session.build_initialize())
            for fall_back in FALLBACKS if not 200 <= (answer.status or 200) < 300 else ():
                seconds = min(self._timeout, self._discover_timeout)
                other = fall_back(self._transport, answer, self._waits(seconds))
                if other is not None:
                    self._use(other)
                    answer = self._exchange("initialize", session.build_initialize(other.version))
            result = read_result(answer)
            session.learn("legacy", result.get("protocolVersion"), result,
                          answer.headers.get("mcp-session-id"))
        except MCPKitError:
            session.era = None
            raise
        self.notify("notifications/initialized")
        if self.is_http and self._responder.capabilities:
            # What a server asks outside of the stream of a call would be lost without this.
            self._stream = None                   # one of an earlier session is of no more use
            self._open_stream()
        if session.log_level is not None and "logging" in session.capabilities:
            read_result(self._exchange("logging/setLevel", {"level": session.log_level}))

    # ---- asking

    def request(self, method: str, params: Optional[dict] = None, *,
                on_progress: Optional[Callable] = None) -> dict:
        """Send any request and return its result, answering what the server asks on the way.

        `on_progress(progress, total, message)` is called as the server gets on. Raises
        QuestionError for a question that there is no handler for.
        """
        more: dict = {}
        token = f"progress-{self._new_id()}" if on_progress is not None else ""
        if on_progress is not None:
            self._progress[token] = on_progress
            meta = find_object(params, "_meta")
            params = {**(params or {}), "_meta": {**meta, "progressToken": token}}
        try:
            for _ in range(MAX_ROUNDS):
                result = self._request_once(method, {**(params or {}), **more} if more else params)
                if result.get("resultType") != "input_required":
                    return result
                more = self._responder.build_round(result)
        finally:
            self._progress.pop(token, None)
        raise ProtocolError(f"the server asked {MAX_ROUNDS} times, and gave no result")

    def _request_once(self, method: str, params: Optional[dict]) -> dict:
        """Return the result of a request, complete or with questions."""
        self.connect()
        session_id = self.session_id
        answer = self._exchange(method, params)
        if answer.status == 404 and session_id is not None:
            # Spec: 2025-11-25 transports: a client whose session ended MUST start a new one.
            with self._lock:
                if self.session_id == session_id:
                    self._initialize()
            answer = self._exchange(method, params)
        return read_result(answer, self._session.client_capabilities)

    def notify(self, method: str, params: Optional[dict] = None) -> None:
        """Send a notification; raises ProtocolError when the server refuses it."""
        if self._transport is None:
            self.connect()
        answer = self._send(build_notification(method, self._session.build_params(params)))
        if answer.status is not None and not 200 <= answer.status < 300:
            raise build_status_error(answer)

    def ping(self) -> None:
        """Return when the server has answered, even if it has no `ping` (as modern ones)."""
        try:
            self.request("ping")
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise

    def list_tools(self) -> List[dict]:
        """Return all tools of the server, as it describes them.

        Those that break the rules for headers are left out; `warnings` then says why.
        """
        tools, warnings = self._session.learn_tools(self._list("tools/list", "tools"),
                                                    self.is_http)
        self._warn(*warnings)
        return tools

    def list_resources(self) -> List[dict]:
        """Return all resources of the server."""
        return self._list("resources/list", "resources")

    def list_resource_templates(self) -> List[dict]:
        """Return all resource templates of the server."""
        return self._list("resources/templates/list", "resourceTemplates")

    def list_prompts(self) -> List[dict]:
        """Return all prompts of the server."""
        return self._list("prompts/list", "prompts")

    def call_tool(self, name: str, arguments: Optional[dict] = None, *,
                  on_progress: Optional[Callable] = None) -> dict:
        """Call a tool and return the whole result: content, structuredContent, isError.

        A result that breaks the `outputSchema` of a listed tool is returned all the same;
        `warnings` then says so.
        """
        params = {"name": name, "arguments": arguments or {}}
        try:
            result = self.request("tools/call", params, on_progress=on_progress)
        except MCPError as error:
            if error.code != HEADER_MISMATCH or not self.is_http:
                raise
            # Spec: streamable-http, Client Behavior: its headers are unknown, or have changed.
            with self._cache_lock:
                self._cache.drop(LIST_CHANGES["tools"], {})
            self.list_tools()
            result = self.request("tools/call", params, on_progress=on_progress)
        self._warn(*(f"the result of {shorten(name)} breaks its outputSchema: {fault}"
                     for fault in self._session.find_result_faults(name, result)))
        return result

    def read_resource(self, uri: str, arguments: Optional[dict] = None) -> dict:
        """Read a resource and return the whole result, with its contents.

        `uri` may be a resource template, which `arguments` fill in.
        """
        uri = uri if arguments is None else UriTemplate(uri).expand(arguments)
        return self._cached("resources/read", uri, lambda: [
            self.request("resources/read", {"uri": uri})])[0]

    def get_prompt(self, name: str, arguments: Optional[Dict[str, str]] = None) -> dict:
        """Fill in a prompt and return the whole result, with its messages."""
        return self.request("prompts/get", {"name": name, "arguments": arguments or {}})

    def complete(self, ref: dict, name: str, value: str,
                 arguments: Optional[Dict[str, str]] = None) -> dict:
        """Return the suggestions for one argument: {"values": [...], ...}.

        `ref` is {"type": "ref/prompt", "name": ...} or {"type": "ref/resource", "uri": ...};
        `arguments` are those already filled in.
        """
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        if arguments:
            params["context"] = {"arguments": arguments}
        return self.request("completion/complete", params).get("completion", {})

    def _list(self, method: str, member: str) -> List[dict]:
        """Return the items of all pages."""
        pages = self._cached(method, "", lambda: self._list_pages(method, member))
        return [item for page in pages for item in page[member]]

    def _list_pages(self, method: str, member: str) -> List[dict]:
        """Return the results of all pages; a cursor that comes again ends them."""
        pages: List[dict] = []
        cursors: Set[str] = set()
        size, params = 0, None
        while len(pages) < MAX_PAGES and size <= MAX_ANSWER_BYTES:
            page = self.request(method, params)
            if not isinstance(page.get(member), list):
                raise ProtocolError(f"the result of {method} has no list of {member}: "
                                    + shorten(page))
            pages.append(page)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return pages
            if cursor in cursors:
                self._warn(f"{method}: the cursor {shorten(cursor, 80)} came a second time, so the "
                           "list may be incomplete")
                return pages
            cursors.add(cursor)
            params = {"cursor": cursor}
            size += len(encode_json(page))               # of those that are not the last one
        self._warn(f"{method}: only the first {len(pages):,} pages were read")
        return pages

    def _cached(self, method: str, key: str, ask: Callable[[], List[dict]]) -> List[dict]:
        """Return what is cached, or the results that `ask` gives, kept as long as they allow."""
        started = time.monotonic()
        with self._cache_lock:
            results = self._cache.find(method, key, started)
        if results is None:
            results = ask()
            with self._cache_lock:
                self._cache.keep(method, key, results, started)
        return results

    def _warn(self, *warnings: str) -> None:
        self.warnings += [text for text in warnings if text not in self.warnings]

    # ---- listening

    def listen(self, tools: bool = False, prompts: bool = False, resources: bool = False,
               uris: Iterable[str] = ()) -> Iterator[Tuple[str, dict]]:
        """Yield (method, params) of each change that the server notifies us of, until it ends that.

        `tools`, `prompts` and `resources` are changes of those lists, `uris` resources whose
        changes are wanted. Close the generator to end it from here. Raises what ended it
        otherwise. Spec: basic/patterns/subscriptions; 2025-11-25 transports, Listening.
        """
        self.connect()
        lists = [feature for feature, is_wanted in zip(LIST_CHANGES, (tools, prompts, resources))
                 if is_wanted]
        listener = ChangeListener(Filter(lists, frozenset(uris)))
        self._listeners.add(listener)
        try:
            if self.era == "modern":
                listener.request_id = self._new_id()
                self._run_aside(lambda: read_result(self._exchange(
                    "subscriptions/listen", {"notifications": listener.filter.to_wire()},
                    LISTEN_SECONDS, listener.request_id)), listener.end)
            else:
                self._open_stream()               # first: changes come from the subscription on
                for uri in () if listener.has_ended else sorted(listener.filter.uris):
                    self.request("resources/subscribe", {"uri": uri})
            for change in iter(listener.changes.get, None):
                if isinstance(change, Exception):
                    raise change
                yield change
        finally:
            self._listeners.discard(listener)
            if self._transport is not None and not listener.has_ended:
                self._stop_listening(listener, self._transport)

    def _open_stream(self) -> None:
        """Open the stream of a legacy server for what belongs to no call, if it is not open.

        Returns when the server has opened it, refused it, or taken too long.
        """
        with self._lock:
            if self._stream is not None or self._transport is None:
                return
            stream, transport = threading.Event(), self._transport
            self._stream = stream
            headers = self._session.build_headers({"method": "listen"})

        def end(error: Optional[Exception]) -> None:
            if self._stream is stream:
                self._stream = None
            for listener in tuple(self._listeners):
                listener.end(error)
            stream.set()

        waits = self._waits(LISTEN_SECONDS)
        self._run_aside(lambda: transport.listen(headers, waits, self._take, stream.set), end)
        stream.wait(OPEN_SECONDS)

    def _run_aside(self, run: Callable[[], Any], end: Callable[[Optional[Exception]], None]
                   ) -> None:
        """Run something in a thread, and then `end` with the error that it raised, or None."""
        def run_to_end() -> None:
            ended_by = None
            try:
                run()
            except Exception as error:            # raised where the changes are waited for
                ended_by = error
            end(ended_by)
        threading.Thread(target=run_to_end, daemon=True).start()

    def _stop_listening(self, listener: ChangeListener, transport: Any) -> None:
        if self.era == "modern":
            if not self.is_http:
                self._cancel(listener.request_id, "no longer wanted")
            transport.abort(listener.request_id)
            return
        others = tuple(self._listeners)
        with contextlib.suppress(MCPKitError):
            for uri in sorted(listener.filter.uris.difference(
                    *(other.filter.uris for other in others))):
                self._exchange("resources/unsubscribe", {"uri": uri}, min(self._timeout, 2.0))
        if not others and not self._responder.capabilities:     # what it asks comes there, too
            transport.abort(None)

    # ---- exchanges

    def _new_id(self) -> int:
        with self._lock:
            self._last_id += 1
            return self._last_id

    def _send(self, message: dict, silence: float = 0.0, on_message: Optional[Callable] = None,
              may_resume: bool = False) -> Incoming:
        """Send a message, and return the answer to it, whatever that is."""
        transport = self._transport
        if transport is None:
            raise TransportError("the client was closed")
        return transport.exchange(message, self._session.build_headers(message),
                                  self._waits(silence or self._timeout),
                                  on_message or self._take, may_resume)

    def _exchange(self, method: str, params: Optional[dict], silence: float = 0.0,
                  request_id: Optional[int] = None) -> Incoming:
        """Send a request, and cancel it when no answer comes in time."""
        with self._lock:
            message = build_request(request_id or self._new_id(), method,
                                    self._session.build_params(params))
            is_legacy = self.era == "legacy"
        try:
            return self._send(message, silence, may_resume=is_legacy)
        except (MCPKitError, KeyboardInterrupt) as error:
            is_interrupt = isinstance(error, KeyboardInterrupt)
            if self._is_closed and not is_interrupt:
                raise TransportError("the client was closed before the answer came") from None
            # Closing its stream cancels a request of a modern server over HTTP.
            if getattr(error, "timed_out", is_interrupt) and (is_legacy or not self.is_http) and (
                    method not in ("initialize", "server/discover")):
                self._cancel(message["id"], "no answer in time")
            raise

    def _cancel(self, request_id: Any, reason: str) -> None:
        """Notify the server that an answer is not waited for any more, if that can be sent."""
        with contextlib.suppress(MCPKitError):
            self._send(build_notification("notifications/cancelled", self._session.build_params(
                {"requestId": request_id, "reason": reason})), min(self._timeout, 2.0), _ignore)

    def _waits(self, silence: float) -> Timeouts:
        """Return the time limits of an exchange: that of listening is none of `max_time`."""
        now = time.monotonic()
        deadline = min(self._until, now + (
            silence if silence == LISTEN_SECONDS else self._max_time))
        return Timeouts(min(silence, round(deadline - now, 2)), deadline)

    def _take(self, message: dict) -> None:
        """Take what the server sends on its own: a notification, or (legacy) a request."""
        transport, method = self._transport, message["method"]
        if is_request(message) and transport is not None and self.era == "legacy":
            self._take_request(message, transport)
        if not is_notification(message):
            return
        params = find_object(message, "params")
        with self._cache_lock:
            self._cache.drop(method, params)
        for listener in tuple(self._listeners):
            self._warn(*listener.take(method, params))
        if method == "notifications/progress":
            on_progress = self._progress.get(str(params.get("progressToken")))
            self._call_back(on_progress, *map(params.get, ("progress", "total", "message")))
        elif method == "notifications/message":
            self._call_back(self._on_log, str(params.get("level")), params.get("data"),
                            params.get("logger"))
        self._call_back(self._on_notification, method, params)

    def _take_request(self, request: dict, transport: Any) -> None:
        """Answer a request of a legacy server, or have a thread do so."""
        def reply(build: Callable[[dict], dict] = self._responder.reply) -> None:
            # A reply that cannot be delivered costs nothing else.
            with transport.pause(), contextlib.suppress(MCPKitError):
                self._send(build(request), on_message=_ignore)

        if not (transport.shares_stream and self._responder.has_answer(request)):
            reply()
        elif self._questions.acquire(blocking=False):
            # The answer may take its time, and the reader of the one stream must go on.
            self._run_aside(reply, lambda _: self._questions.release())
        else:
            reply(lambda request: build_error(request["id"], MCPError(
                INTERNAL_ERROR, f"{MAX_QUESTIONS} questions are still to be answered: ask again "
                "later")))

    def _call_back(self, function: Optional[Callable], *values: Any) -> None:
        """Call a function of the caller if there is one; what it raises ends nothing."""
        try:
            if function is not None:
                function(*values)
        except Exception:
            log_exception("a callback of the client failed")


# =============================================================================================
# 18. PROBE
# =============================================================================================
# In: a target. Out: a report that says what works, what was seen, and what to do about the rest.
# The probe sends the handshake and tools/list in each era, and nothing that could change anything:
# never tools/call, prompts/get or resources/read, and no credentials but those it is given. All
# that it sees is one list of Findings; layers, checks, verdict and headline are views of it.

PROBE_SECONDS = 12.0
PROBE_ANSWER_BYTES = 4 * 1024 * 1024
PROBE_NOTE_BYTES = 64 * 1024           # at this size, the usual online testers stop reading
SLOW_START_MS = 5000                   # some clients wait no longer for a stdio server
GREETING_SECONDS = 0.5                 # for a program that speaks first to say what it is
MAX_REPORT_CHARS = 1000                # of one text in a report
MAX_FAULTY_TOOLS = 100                 # named in a report

# The layers in the order in which they are passed; some are only of HTTP, some only of stdio.
LAYERS = ["target", "name", "proxy", "tcp", "tls", "start", "http", "content", "output", "era",
          "handshake", "session", "authorization", "tools", "exit"]
VERDICTS = ("pass", "partial", "fail", "unreachable")      # best first


class Finding(NamedTuple):
    """One thing that was seen at a server.

    `status` is "ok", "note", "warning", "fail" or "skipped". `layer` is the step on the way to the
    server that it reports, if it does, and `ms` how long that took, None if nothing was waited for.
    `level` is "MUST" or "SHOULD" for a rule of the specification, `spec` the section with it. `era`
    is the one that it is about, "" for all.
    """

    id: str
    status: str
    message: str
    hint: str = ""
    spec: str = ""
    layer: str = ""
    ms: Optional[float] = None
    level: str = ""
    era: str = ""


def layer(name: str, status: str, message: str, hint: str = "", ms: Optional[float] = None
          ) -> Finding:
    """Return the finding that reports a layer."""
    return Finding(name, status, message, hint, "", name, ms)


# What extras add: steps that run after the handshakes, each (option of `probe`, its default,
# function of the Prober and the option's value, called if that is true); and formats, each the name
# of an option of the command to a function that turns a report into the text of a file.
PROBE_STEPS: List[Tuple[str, Any, Callable[[Any, Any], None]]] = []
REPORTS: Dict[str, Callable[[dict], str]] = {}


# ---- what a refusal means

_SENDING = "streamable-http, Sending Messages"
_MOVED = ("http", "the endpoint has moved", "probe the URL in Location")
_HOST = ("http", "the server does not answer to this host name",
         "use the name it was started with, or allow this one there")
_OTHER_SESSION = ("it may have restarted, or several processes answer: have each client always "
                  "reach the same one, or let the server do without sessions")
_NO_ROUTE = "the endpoint is often at /mcp: probe that, or look for it in the program"
_START = "start the server, and check the address that the proxy has for it"

# Statuses, a header ("": the body), and a pattern in it, to the layer that fails, what the answer
# means, and what to do; {seen} stands for what matched. The first row that fits counts.
REFUSALS: Tuple[Tuple[Sequence[int], str, str, Tuple[str, str, str]], ...] = (
    ((302,), "location", r"log-?in|sign-?in|auth|sso|saml",
     ("http", "a login page stands in front of the server",
      "have the path excepted from single sign-on: an MCP client has no browser")),
    ((301, 302, 303, 307, 308), "", "", _MOVED),
    ((400,), "", r"plain HTTP request|HTTP request to an HTTPS",
     ("tls", "this port speaks TLS, and got plain HTTP", "use https:// in the URL")),
    ((400,), "", r"session", ("session", "the server wants a session that it knows",
                              _OTHER_SESSION)),
    ((400,), "", r"protocol.?version|unsupported.{0,200}version",
     ("handshake", "the server does not speak this revision", "see the revisions that it names")),
    ((400,), "", r"mcp-method|mcp-name|header",
     ("handshake", "the server misses a header, or it does not match the body",
      "look for a proxy that drops or changes Mcp-* headers")),
    ((400, 403), "", r"\bhost\b", _HOST),
    ((421,), "", "", _HOST),
    ((400,), "", "", ("handshake", "the server read the request and refused it", "see its words: "
                      "a version that it does not speak, a missing session id, or no MCP")),
    ((401,), "www-authenticate", r"resource_metadata",
     ("authorization", "the server is there and wants a token", "fetch resource_metadata to find "
      "the authorization server, or give a token with --header 'Authorization: Bearer ...'")),
    ((401,), "www-authenticate", "",
     ("authorization", "the server is there and wants credentials, but names no resource_metadata",
      "give them with --header 'Authorization: ...'")),
    ((401,), "", "", ("authorization", "the server refuses, and does not say how to be let in",
                      "ask whoever runs it for a token")),
    ((403,), "cf-mitigated", "", ("http", "Cloudflare wants proof of a person",
                                  "have the path excepted from its bot rules")),
    ((403,), "www-authenticate", r"insufficient_scope",
     ("http", "the token lacks a scope",
      "log in again, and ask for the scope that the challenge names")),
    ((403,), "", r"origin",
     ("http", "the server refuses the Origin, or that there is none",
      "allow it in the server's settings: the probe sends none, as no program does")),
    ((403,), "", "", ("http", "the server, or something in front of it, refuses this caller",
                      "check the token's rights, and rules on address or region")),
    ((404,), "", r"session", ("session", "the server does not know the session (any more)",
                              _OTHER_SESSION)),
    ((404,), "", r"cannot post", ("http", "the program has no route for a POST here",
                                  _NO_ROUTE)),
    ((404,), "", "", ("http", "there is nothing at this path", _NO_ROUTE)),
    ((405, 501), "", "",
     ("http", "this path takes no POST, so it is no MCP endpoint",
      "the endpoint is often at /mcp; a server that takes only GET here may be of the old HTTP+SSE "
      "transport")),
    ((406, 411, 415), "", "", ("http", "the server refuses Accept, Content-Type or Content-Length, "
                               "though they are right", "look for a proxy that changes them")),
    ((407,), "", "", ("http", "a proxy wants credentials",
                      "give them in HTTP_PROXY: http://USER:PASSWORD@HOST:PORT")),
    ((413,), "", "", ("http", "the server takes no body of this size, though it is small",
                      "look for a limit in a proxy (nginx: client_max_body_size)")),
    ((429,), "retry-after", r".+", ("http", "the server has had too many requests", "try again "
                                    "after {seen} (its Retry-After: seconds, or a date)")),
    ((429,), "", "", ("http", "the server has had too many requests", "try again later")),
    ((502,), "server", r".+",
     ("http", "{seen} is there, but cannot reach the server behind it", _START)),
    ((502, 521), "", "", ("http", "a proxy is there, but the server behind it is not", _START)),
    ((503,), "retry-after", r".+",
     ("http", "the server is too busy, or not up yet",
      "try again after {seen} (its Retry-After: seconds, or a date)")),
    ((503,), "", "", ("http", "the server is too busy, or not up yet", "try again soon")),
    ((504, 522), "", "", ("http", "a proxy got no answer from the server behind it",
                          "see the server's log, and whether it lets the proxy in")),
    ((511,), "", "", ("http", "the network wants you to log in first",
                      "open any page in a browser")),
    (range(500, 1000), "", "", ("http", "the server failed", "see the server's log")),
    (range(1000), "", "", ("http", "no success", "see its words")),
)
# Headers of a refusal that say why, or who refuses.
TELLING_HEADERS = ("www-authenticate", "location", "allow", "retry-after", "mcp-name", "mcp-method",
                   "x-error", "proxy-authenticate", "cf-ray", "via")


def is_challenge(exchange: Exchange) -> bool:
    """Return whether an answer wants credentials, and says so as HTTP has it."""
    return exchange.status == 401 and "www-authenticate" in exchange.headers


def find_refusal(status: int, headers: Headers, text: str) -> Tuple[str, str, str]:
    """Return the layer, meaning and hint of a status other than success."""
    for statuses, name, pattern, meaning in REFUSALS:
        words = headers.get(name) if name else text
        match = None if words is None or status not in statuses else re.search(
            pattern, words, re.IGNORECASE)
        if match:
            seen = shorten(match[0], 80)
            return tuple(part.replace("{seen}", seen) for part in meaning)
    raise LookupError(status)


def explain_status(status: int, headers: Headers, text: str) -> Finding:
    """Return what an HTTP status other than success means to a client of MCP."""
    name, message, hint = find_refusal(status, headers, text)
    value: Any = read_object(text.encode("utf-8", "surrogatepass"))
    for member in ("error", "message", "detail", "title") if value is not None else ():
        if isinstance(value, dict) and value.get(member):
            value = value[member]
    words = [] if status == 401 and "www-authenticate" in headers else [
        find_title(text) or text.strip() if value is None else
        value if isinstance(value, str) else shorten(value)]
    words += [f"{header}: {headers[header]}" for header in TELLING_HEADERS if header in headers]
    seen = ", ".join(shorten(word) for word in words if word)
    return layer(name, "fail", f"HTTP {status}: {message}" + (f" ({seen})" if seen else ""), hint)


def explain_body(status: int, headers: Headers, text: str) -> Finding:
    """Return what a successful answer is that holds no MCP."""
    kind = parse_media_type(headers.get("content-type")) or "no content type"
    if "html" not in kind and text.lstrip()[:1] != "<":
        return layer("content", "fail", f"HTTP {status}, {kind}, but no JSON-RPC answer: "
                     f"{shorten(text) or '(empty)'}", "is this an MCP endpoint?")
    title = shorten(find_title(text))
    return layer("content", "fail", f"HTTP {status} with a web page"
                 + (f" titled '{title}'" if title else "") + ", not MCP", "a login page, a captive "
                 "portal, or the wrong path: the endpoint is often at /mcp")


# ---- what an error means

# What to do about a layer that fails, if the error does not say it itself.
LAYER_HINTS = {
    "name": "check the spelling of the host, and this machine's name service",
    "tcp": "check address and port, that the server runs, and that no firewall is between",
    "tls": "check http against https, and the certificate",
    "proxy": "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
    "http": "another program listens at this port",
}


def explain_fault(error: MCPKitError) -> Finding:
    """Return the layer at which an error from below HTTP arose, what was seen, and what to do."""
    text, name = escape_text(str(error)), getattr(error, "layer", "")
    if not name:
        name = "content" if text.startswith("headers received") else "http"
        return layer(name, "fail", text, "is it stuck, or slow? --timeout gives it longer")
    seen = text if name == "start" else text.partition(": ")[2].partition(": use ")[0]
    return layer(name, "fail", seen, error.hint or LAYER_HINTS.get(name, ""))


def explain_failure(error: MCPKitError, exchange: Optional[Exchange]) -> Finding:
    """Return the layer at which the conversation in one era ended, "" for that it had reached."""
    status = exchange.status if exchange is not None else None
    text = exchange.answer.decode("utf-8", "replace") if exchange is not None else ""
    words = escape_text(str(error))
    if isinstance(error, TransportError):
        fault = explain_fault(error)
        kind = ": that is an SSH server" if "in HTTP: SSH-" in fault.message else ""
        return fault._replace(message=fault.message + kind)
    if isinstance(error, MCPError) and status != 401:    # a HTTP status says more of what to do
        if error.http_status in (200, None):
            inside = " inside a 200: the request arrived, and was refused"
            return layer("", "fail", words + (inside if error.http_status else ""),
                         "the server says what it wants; see also its log")
        name, _, hint = find_refusal(error.http_status, exchange.headers if exchange else {},
                                     error.message)
        return layer("" if error.http_status == 400 else name, "fail", words, hint)
    if status is None:
        return layer("", "fail", words)
    if not 200 <= status < 300:
        return explain_status(status, exchange.headers, text)
    if not exchange.is_stream and parse_media_type(
            exchange.headers.get("content-type")) != JSON_TYPE:
        return explain_body(status, exchange.headers, text)
    is_unread = exchange.error or "jsonrpc" not in (read_object(exchange.answer) or {})
    return layer("content" if is_unread and exchange.method != "stdio" else "", "fail", words,
                 "is it MCP? --max-bytes has more of it read" if "larger than" in words else
                 "the server's answer breaks a rule: see its log, or ask its author")


# ---- what is worth a line though it went well

REDIRECT_HINT = "give clients the URL that it leads to: some lose the request on the way"


def is_redirect(exchange: Exchange) -> bool:
    """Return whether an answer sends the request on to another URL."""
    return exchange.status is not None and 300 <= exchange.status < 400


def explain_exchange(exchange: Exchange) -> Iterator[Finding]:
    """Yield what is worth a line about one exchange."""
    message = json.loads(exchange.request_body or b"{}")
    method, status = message.get("method"), exchange.status
    seen = f"{method or exchange.method} was answered with"
    if status is not None and not 200 <= status < 300:
        location = exchange.headers.get("location")
        yield Finding("step", "note", f"{seen} HTTP {status}"
                      + (f", Location: {shorten(location)}" if location else ""),
                      REDIRECT_HINT if is_redirect(exchange) else "")
    elif status is not None and message and "id" not in message and status != 202:
        yield Finding("notification-status", "warning", f"{seen} HTTP {status}",
                      "it should be 202 Accepted without a body", _SENDING)
    if exchange.size > PROBE_NOTE_BYTES:
        yield Finding("answer-size", "note", f"{seen} {exchange.size:,} bytes, over the "
                      f"{PROBE_NOTE_BYTES:,} at which online testers stop reading",
                      "page the list, or shorten schemas")


def explain_tools(tools: List[Any]) -> Iterator[Finding]:
    """Yield what is worth a line about a tool list, of faulty tools MAX_FAULTY_TOOLS lines."""
    faulty = 0
    for index, tool in enumerate(tools):
        fault = find_tool_fault(tool) or find_schema_fault(tool)
        faulty += fault is not None
        if faulty > MAX_FAULTY_TOOLS:
            yield Finding("tool", "warning", f"tool {index} {fault}, and others may, too",
                          "clients may drop them", "server/tools, Tool")
            return
        if fault is not None:
            name = tool.get("name") if isinstance(tool, dict) else None
            yield Finding("tool", "warning", f"tool {index} ({shorten(name)}) {fault}",
                          "clients may drop it", "server/tools, Tool")


# ---- the layers below HTTP

def trace_route(url: str, network: Network, waits: Timeouts) -> Iterator[Finding]:
    """Yield each layer on the way to a URL, up to the first that fails; no request is sent.

    Raises OSError or TransportError for a layer that fails.
    """
    way, bypassed = find_route(url, network)
    near = way.proxy or way                       # the host that is connected to
    yield layer("target", "ok", f"{way.scheme} at {way.address}, path "
                f"{shorten(urllib.parse.urlsplit(url).path or '/')}")
    found = [entry[4][0] for entry in find_addresses(near.host, near.port, waits)]
    whose = " (the proxy; it looks up the server itself)" if way.proxy else ""
    yield layer("name", "ok", f"{near.host} is an address{whose}" if found == [near.host]
                else f"{near.host}{whose} is {', '.join(found)}")
    yield layer("proxy", "ok", f"through {format_address(near.host, near.port)}" if way.proxy
                else bypassed or "none is set")
    attempt = Attempt()
    with open_route(way, waits, attempt) as sock:
        yield layer("tcp", "note", attempt.notes[0], "a client that tries one address only may "
                    "fail: have the server listen at all of them, or name one that works in the "
                    "URL") if attempt.notes else layer("tcp", "ok", f"{sock.getpeername()[0]} ok")
    yield layer("tls", "ok", "none: plain HTTP") if way.scheme == "http" else (
        try_tls(way, url, network, waits))


def try_tls(way: Route, url: str, network: Network, waits: Timeouts) -> Finding:
    """Return the layer of TLS: a handshake, and what the certificate says."""
    try:
        with open_tls(way, waits, build_tls_context(network)) as sock:
            info, version = sock.getpeercert(), sock.version()
        seen = parse_certificate(info) if info else read_certificate(way, waits)
        return layer("tls", "note" if network.insecure else "ok", f"{version}, for "
                     f"{seen.names or seen.subject}, issued by {seen.issuer}, until {seen.ends}"
                     + ("; not checked" if network.insecure else ""))
    except OSError as error:
        if hasattr(error, "verify_code"):
            return explain_fault(explain_certificate(error, way, waits))
        fault = explain_fault(explain_transport_error(error, url, None, waits))
    greeting = read_greeting(way, waits)
    if not greeting or greeting.startswith("\x15\x03"):          # an alert is TLS, but not ours
        return layer("tls", "fail", f"no TLS handshake: {fault.message}", fault.hint)
    is_http = greeting.startswith("HTTP/")
    kind = "a server of plain HTTP" if is_http else (
        "an SSH server" if greeting.startswith("SSH-") else "something else")
    return layer("tls", "fail", f"{way.address} speaks no TLS: it is {kind} "
                 f"({shorten(greeting.splitlines()[0], 80)})",
                 USE_HTTP if is_http else LAYER_HINTS["http"])


def read_greeting(way: Route, waits: Timeouts) -> str:
    """Return what a server says first, or to HEAD; "" if it says nothing."""
    with contextlib.suppress(OSError, TransportError), open_route(way, waits) as sock:
        for request in (b"", b"HEAD / HTTP/1.0\r\n\r\n"):
            sock.sendall(request)
            sock.settimeout(min(GREETING_SECONDS, waits.left()))
            with contextlib.suppress(socket.timeout):
                return sock.recv(256).decode("latin-1")
    return ""


# ---- one era

class EraReport:
    """What the probe found in one era: `facts` for the report, and findings.

    `fault` is the finding that ended the conversation early, None if nothing did.
    """

    def __init__(self, name: str, is_http: bool):
        self.name, self.is_http = name, is_http
        self.facts: dict = {"verdict": "fail", "protocolVersion": None, "serverInfo": {},
                            "session": False, "transport": None, "tools": []}
        self.findings: List[Finding] = []
        self.exchanges: List[Exchange] = []       # of this era
        self.fault: Optional[Finding] = None

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return self.facts["verdict"]

    @property
    def depth(self) -> int:
        """How many layers were passed."""
        return LAYERS.index(self.fault.layer) if self.fault else len(LAYERS)

    @property
    def version(self) -> Optional[str]:
        """The revision that was agreed on, None if none was."""
        return self.facts["protocolVersion"]

    def stop(self, fault: Finding, verdict: str) -> None:
        """Note what ends the conversation; what was seen of later layers is dropped."""
        status = "warning" if verdict == "partial" else "fail"
        self.facts["verdict"], self.fault = verdict, fault._replace(status=status)
        self.findings = [seen for seen in self.findings
                         if not seen.layer or LAYERS.index(seen.layer) < self.depth]
        self.findings.append(self.fault)

    def run(self, client: Client, exchanges: List[Exchange]) -> None:
        """Open the era, ask for its tool list, and close the client; note what is seen.

        `exchanges` grow with what the client sends.
        """
        start, opened, result, error = len(exchanges), 0, {}, None
        try:
            client.connect()
            opened = len(exchanges) - start
            result = client.request("tools/list")
            if not isinstance(result.get("tools"), list):
                raise ProtocolError(f"tools/list has no list of tools: {shorten(result)}")
        except MCPKitError as caught:
            error = caught
        finally:
            self.exchanges = exchanges[start:]
            self._note_carrier()
            if opened:
                self._note_opening(client, opened)
            client.close()
        if error is None:
            self._note_tools(result, opened)
        else:
            self._note_failure(error)
        self._note_child(client.junk, client.child_exit)

    def _note_carrier(self) -> None:
        """Note what carries messages."""
        first = self.exchanges[0] if self.exchanges else None
        if first is not None and first.status is not None:
            server, location = first.headers.get("server"), first.headers.get("location")
            moved = f", on to {shorten(location)}" if is_redirect(first) and location else ""
            self.findings.append(layer(
                "http", "note" if is_redirect(first) else "ok",
                f"HTTP {first.status} to a {first.method}"
                + (f", from {shorten(server, 80)}" if server else "") + moved,
                REDIRECT_HINT if is_redirect(first) else "", first.seconds * 1000))
            last = next((seen for seen in self.exchanges if not is_redirect(seen)), first)
            kind = shorten(parse_media_type(last.headers.get("content-type")), 80)
            if last.size:
                self.findings.append(layer("content", "ok", f"{kind or 'no content type'}, "
                                           f"{last.size:,} bytes"))
        elif not self.is_http and first is not None:
            self.findings.append(layer("start", "ok", "it runs"))

    def _note_opening(self, client: Client, opened: int) -> None:
        """Note the layers of a conversation that was opened, by the first `opened` exchanges."""
        self.facts.update(
            protocolVersion=client.protocol_version, serverInfo=client.server_info,
            session=client.session_id is not None, transport=client.transport)
        took, name = sum_ms(self.exchanges[:opened]), format_server_name(self.facts)
        is_slow = not self.is_http and took > SLOW_START_MS
        self.findings += [layer("era", "ok", f"{self.version} ({self.name})"), layer(
            "handshake", "note", f"{name} starts slowly", "clients may give up on it: answer "
            "first, and load what takes long when it is needed", took) if is_slow else layer(
                "handshake", "ok", name, "", took)]
        is_old = client.transport != HTTPTransport.name
        if self.is_http and self.name == "legacy":
            self.findings.append(layer("session", "ok", "as long as its stream is open" if is_old
                                       else "one was opened, and ended" if client.session_id
                                       else "none: the server is stateless"))
        if self.is_http:
            is_given = "authorization" in map(str.lower, self.exchanges[0].request_headers)
            self.findings.append(layer("authorization", "ok", "the credentials given are taken"
                                       if is_given else "none is asked for"))
        if self.is_http and is_old:
            self.findings.append(Finding(
                "transport", "note", "the POST was refused, but the server speaks the older "
                f"transport {client.transport}", "newer clients want Streamable HTTP",
                "2025-11-25 basic/transports, Backwards Compatibility"))

    def _note_tools(self, result: dict, opened: int) -> None:
        tools = result["tools"]
        seen = [check for exchange in self.exchanges for check in explain_exchange(exchange)]
        step = next((check for check in seen if check.id == "step"), None)
        self.findings += [check for check in seen if check.id != "step" or check is step]
        self.findings += explain_tools(tools)
        if "nextCursor" in result:
            self.findings.append(Finding(
                "pages", "note", f"tools/list has more pages; the first names {len(tools)} tools, "
                "and the probe reads no other", "list them all with the command list"))
        names = [tool["name"] for tool in tools if isinstance(tool, dict)
                 and isinstance(tool.get("name"), str)]
        self.facts.update(tools=names, verdict="pass" if names else "partial")
        more = ", ..." if len(names) > 5 else ""
        shown = ", ".join(shorten(name, 80) for name in names[:5])
        took = sum_ms(self.exchanges[opened:])
        self.findings.append(
            layer("tools", "ok", f"{len(names)}: {shown}{more}", "", took) if names else layer(
                "tools", "warning", "tools/list names no tool",
                "is something missing in the server's configuration?", took))

    def _note_failure(self, error: MCPKitError) -> None:
        exchange = self.exchanges[-1] if self.exchanges else None
        fault, verdict = explain_failure(error, exchange), "fail"
        name = fault.layer or ("tools" if self.version else "handshake")
        if isinstance(error, TransportError):
            verdict = "unreachable"
            if not self.is_http and name != "start":
                is_gone = self.version is None and not error.timed_out
                name = "start" if is_gone else "tools" if self.version else "handshake"
            if not self.is_http and "exited with" in fault.message:
                fault = fault._replace(hint="run the command by hand, and see what it says")
        elif exchange is not None and is_challenge(exchange):
            verdict = "partial"
        took = exchange.seconds * 1000 if exchange is not None else None
        self.stop(fault._replace(id=name, layer=name, ms=took), verdict)

    def _note_child(self, junk: List[Tuple[int, str]], ending: Optional[ChildExit]) -> None:
        """Note what a stdio server printed beside messages, and how it ended."""
        if not self.is_http and self.depth > LAYERS.index("output"):
            self.findings.append(layer("output", "warning" if junk else "ok", count_things(
                len(junk), "line") + " of something else" if junk else "messages only"))
        for number, text in junk:
            self.findings.append(Finding(
                "stdout", "warning", f"not MCP on stdout, line {number}: {text}",
                "have it write UTF-8 (PYTHONUTF8=1), and only messages"
                if "\ufffd" in text or "\\x00" in text else
                "print to standard error: standard output is the protocol's",
                "basic/transports/stdio"))
        if ending is not None:
            status, message, hint = "ok", "it ended when its input did", ""
            if ending.signal:
                status, hint = "warning", "end at the end of standard input, as clients expect"
                message = f"it did not end when its input did: it took SIG{ending.signal}"
            elif ending.left_something:
                status, hint = "warning", "end what the server starts before it ends"
                message = "it ended, but left processes running"
            self.findings.append(layer("exit", status, message, hint, ending.seconds * 1000))


def sum_ms(exchanges: List[Exchange]) -> float:
    """Return how long exchanges took, in milliseconds."""
    return sum(exchange.seconds for exchange in exchanges) * 1000


def format_server_name(facts: dict) -> str:
    """Return what a server calls itself."""
    info = facts["serverInfo"]
    return escape_text(
        f"{info.get('name', 'a nameless server')} {info.get('version', '')}".rstrip())


# ---- the probe

def complete_url(target: str) -> str:
    """Return a target with the scheme that it lacks: http for this machine, else https."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w-]+(?:\.[\w-]+)+|localhost|[\w-]+(?=:\d))"
                         r"(:\d+)?([/?].*)?", target)
    return target if match is None else ("http" if is_loopback(match[1]) else "https") + (
        f"://{target}")


class Prober:
    """Probes one server; see `probe`. What it has found so far is open to PROBE_STEPS."""

    def __init__(self, target: Union[str, List[str]], *, era: str = "auto",
                 timeout: float = PROBE_SECONDS, max_bytes: int = PROBE_ANSWER_BYTES,
                 headers: Optional[Headers] = None, env: Optional[Mapping[str, str]] = None,
                 cwd: Optional[str] = None, network: Network = Network(),
                 observe: Callable[[Exchange], None] = _ignore, **options: Any):
        self.is_http = isinstance(target, str)
        if self.is_http:
            target = complete_url(target)
            if not is_http_url(target):
                raise UsageError(describe_bad_url(target))
        unknown = set(options).difference(step[0] for step in PROBE_STEPS)
        if unknown:
            raise TypeError(f"probe() has no option {', '.join(sorted(unknown))}")
        self.target = self.endpoint = target
        self.options = {**{name: default for name, default, _ in PROBE_STEPS}, **options}
        self.max_bytes, self.network, self.headers = max_bytes, network, headers or {}
        self._env, self._cwd, self._observe = env, cwd, observe
        self._names = ("legacy", "modern") if era == "auto" else (era,)
        self._started = time.monotonic()
        self.waits = Timeouts(timeout, self._started + timeout)
        self.exchanges: List[Exchange] = []
        self.findings: List[Finding] = []
        self.eras: List[EraReport] = []
        self.trail: List[Dict[str, str]] = []     # what was asked beside the endpoint
        self._client: Optional[Client] = None     # that speaks to the server right now

    @property
    def best(self) -> EraReport:
        """The era that came farthest."""
        return max(self.eras, key=lambda report: report.depth)

    def run(self) -> dict:
        """Probe, and return the report."""
        self.look()
        for name, _, step in PROBE_STEPS:
            if self.options[name]:
                step(self, self.options[name])
        return build_report(self, (time.monotonic() - self._started) * 1000)

    def close(self) -> None:
        """End what runs of a stdio server, from another thread than that which probes."""
        if not self.is_http and self._client is not None:
            self._client.close()

    def look(self) -> None:
        """Look at each layer between us and the endpoint, and speak to what is there."""
        self.findings, self.eras = [], []
        self._look_below()
        if self.findings[-1].status == "fail":
            self.eras = [EraReport(self._names[0], self.is_http)]
            self.eras[0].stop(self.findings.pop(), "unreachable")
        for name in self._names:
            if all(report.verdict != "unreachable" for report in self.eras):
                self._client = self.make_client(name)
                self.eras.append(EraReport(name, self.is_http))
                self.eras[-1].run(self._client, self.exchanges)
        works = any(report.verdict in ("pass", "partial") for report in self.eras)
        for report in self.eras:
            for seen in report.findings:
                if works and report.verdict == "fail" and seen.status == "fail":
                    seen = seen._replace(status="note", hint=f"the {report.name} era is not spoken "
                                         "here; the other is")
                self.findings.append(seen._replace(era=report.name))

    def _look_below(self) -> None:
        """Look at the layers below HTTP, as far as there are any."""
        if not self.is_http:
            self.findings.append(layer("target", "ok", shorten(" ".join(self.target))))
            return
        started = time.monotonic()

        def keep(seen: Finding) -> None:             # in place of an earlier one of its layer
            ms = None if seen.id in ("target", "proxy") else (time.monotonic() - started) * 1000
            self.findings = [other for other in self.findings if other.id != seen.id]
            self.findings.append(seen._replace(ms=ms))

        try:
            for seen in trace_route(self.endpoint, self.network, self.waits):
                keep(seen)
                started = time.monotonic()
        except (OSError, TransportError) as error:
            keep(explain_fault(explain_transport_error(error, self.endpoint, None, self.waits)))

    def fetch(self, url: str, is_anonymous: bool = False) -> Exchange:
        """Return the exchange of a GET; credentials go only to the origin that was named."""
        headers = {} if is_anonymous else self.headers_for(url)
        options = TransportOptions(headers, PROBE_NOTE_BYTES, self.note, self.network)
        with contextlib.closing(HTTPTransport(url, options)) as transport:
            with contextlib.suppress(MCPKitError):       # the exchange says all the same
                transport.get({"Accept": "application/json, text/html;q=0.5"}, self.waits)
        return self.exchanges[-1]

    def headers_for(self, url: Any) -> Headers:
        """Return the headers given for the target, for a URL of its origin only."""
        is_same = not self.is_http or split_origin(url) == split_origin(self.target)
        return self.headers if is_same else {}

    def make_client(self, era: str, url: Optional[str] = None) -> Client:
        """Return a client of the endpoint, or of another URL, whose exchanges are noted."""
        target, seconds = url or self.endpoint, self.waits.silence
        if not self.is_http and self.eras:        # it has answered in the other era: is it silent?
            seconds = min(seconds, DISCOVER_SECONDS)
        return Client(target, era=era, timeout=seconds, until=self.waits.deadline,
                      headers=self.headers_for(target), max_bytes=self.max_bytes, env=self._env,
                      cwd=self._cwd, network=self.network, observe=self.note)

    def note(self, exchange: Exchange) -> None:
        """Keep an exchange, and show it to whoever observes the probe."""
        self.exchanges.append(exchange)
        self._observe(exchange)

    def advise(self, hint: str) -> None:
        """Replace what to do about the failure that is the headline."""
        message = self.best.fault.message
        self.findings = [finding._replace(hint=hint) if finding.message == message else finding
                         for finding in self.findings]


def probe(target: Union[str, List[str]], **options: Any) -> dict:
    """Return a report on a server: a URL, or the command of a stdio server as a list (see Client).

    First what lies below HTTP is looked at, then the server is spoken to. Legacy: `initialize`,
    `notifications/initialized`, `tools/list`; modern: `server/discover`, `tools/list`.

    Options: `era` ("auto": both; "legacy"; "modern"), `timeout` for all of it (12 seconds),
    `max_bytes` of an answer (4 MiB), `headers` for the target's origin, `env` and `cwd` of a stdio
    server, `network` (a Network), `observe` (a function that gets each Exchange), and those of
    PROBE_STEPS.

    The report has "target", "endpoint", "verdict" ("pass": a tool is listed; "partial": a 401 with
    a challenge, no tools, or a broken rule; "fail"; "unreachable"), "eras", "checks" ("id",
    "status", "message", "hint", "spec"), "requests", "elapsedMs", "headline" ("layer": the first
    that fails, or None; "message"; "hint"), "layers" ("name", "status", "message", "hint", "ms"),
    up to the first that fails, and "trail" ("source", "url", "outcome" of what was asked beside the
    endpoint). Raises UsageError for a target that cannot be one, TypeError for an unknown option.
    """
    return Prober(target, **options).run()


# ---- the report

def build_report(prober: Prober, ms: float) -> dict:
    """Return the report on what was found: its parts are views of the findings."""
    broken = [seen for seen in prober.findings if (seen.level, seen.status) == ("MUST", "fail")]
    for report in prober.eras:
        if report.verdict == "pass" and any(seen.era == report.name for seen in broken):
            report.facts["verdict"] = "partial"
    verdict = min((report.verdict for report in prober.eras), key=VERDICTS.index)
    agreed = " and ".join(seen.message for seen in prober.findings if seen.layer == "era")
    steps = sorted((seen for seen in prober.findings       # of the era that came farthest
                    if seen.layer and seen.era in ("", prober.best.name)),
                   key=lambda seen: LAYERS.index(seen.layer))
    layers = [{"name": seen.layer, "status": seen.status, "hint": seen.hint,
               "message": agreed if seen.layer == "era" else seen.message,
               "ms": seen.ms and round(seen.ms, 2)} for seen in steps]
    checks = [{"id": f"{seen.era}-{seen.id}" if seen.era else seen.id, "status": seen.status,
               "message": seen.message, "hint": seen.hint,
               "spec": f"{seen.level}, {seen.spec}" if seen.level else seen.spec}
              for seen in prober.findings if seen.era or not seen.layer]
    headline = build_headline(prober, verdict, layers, len({seen.id for seen in broken}))
    for part in (*checks, *layers, *prober.trail, headline):
        for name, text in part.items():           # what a peer says may be long
            if isinstance(text, str) and len(text) > MAX_REPORT_CHARS:
                part[name] = text[:MAX_REPORT_CHARS] + "..."
    return {"target": prober.target, "endpoint": prober.endpoint if prober.is_http else None,
            "verdict": "partial" if broken and verdict == "pass" else verdict,
            "eras": {report.name: report.facts for report in prober.eras}, "checks": checks,
            "requests": sum(seen.method != "SSE" for seen in prober.exchanges),
            "elapsedMs": round(ms), "headline": headline, "layers": layers, "trail": prober.trail}


def build_headline(prober: Prober, verdict: str, layers: List[dict], broken: int) -> dict:
    """Return what matters most: the first layer that fails, with what to do about it.

    If none does, it is what the server speaks, and how many MUST rules it breaks.
    """
    wanted = {"pass": "", "partial": "warning"}.get(verdict, "fail")
    for seen in layers:
        if seen["status"] == wanted and seen["name"] != "output":
            return {"layer": seen["name"], "message": seen["message"], "hint": seen["hint"]}
    versions = [report.version for report in prober.eras if report.version]
    message = f"{format_server_name(prober.best.facts)} speaks {' and '.join(versions)}"
    if not broken:
        return {"layer": None, "message": message, "hint": ""}
    return {"layer": None, "message": f"{message}, but breaks {count_things(broken, 'MUST rule')}",
            "hint": "see the findings"}


STATUSES = ("fail", "warning", "note", "ok")                # of findings, worst first


def count_things(number: int, name: str) -> str:
    """Return a number and a noun, in the plural unless the number is 1."""
    return f"{number} {name}" + ("" if number == 1 else "s")


def is_rule(check: dict) -> bool:
    """Return whether a check of a report is about a rule of the specification."""
    return check["spec"].startswith(("MUST,", "SHOULD,"))


def list_findings(report: dict) -> List[dict]:
    """Return the checks to be shown, by severity; the same finding in both eras is one.

    Rules that are kept or do not apply are only counted, in the lines on the eras.
    """
    found: Dict[Any, dict] = {}
    for number, check in enumerate(report["checks"]):
        if is_rule(check) and check["status"] not in ("fail", "warning"):
            continue
        key = (check["id"].partition("-")[2], check["message"]) if is_rule(check) else number
        ids = [found[key]["id"]] if key in found else []
        found[key] = {**found.get(key, check), "id": ", ".join([*ids, check["id"]])}
    return sorted(found.values(), key=lambda check: STATUSES.index(check["status"]))


def describe_era(era: dict) -> str:
    """Return what is known of an era as a line."""
    info = era["serverInfo"]
    words = [era["protocolVersion"], f"{info.get('name', '')} {info.get('version', '')}".strip(),
             "with a session" if era["session"] else "",
             f"tools: {', '.join(era['tools'])}" if era["tools"] else ""]
    return escape_text(", ".join(word for word in words if word))


def describe_counts(era: dict) -> List[str]:
    """Return what was counted and timed in an era, a line each."""
    levels, lines = era.get("levels"), []
    if levels:
        parts = [f"{count['ok']} of {count['ok'] + count['broken']} {level} kept"
                 for level, count in levels.items()]
        skipped = sum(count["skipped"] for count in levels.values())
        lines = [", ".join(parts) + (f", {skipped} not applicable" if skipped else "")]
    return lines + [
        f"{method:<16} median {seen['median']:.1f} ms, 99th percentile {seen['p99']:.1f} ms "
        f"({seen['count']} times)" for method, seen in era.get("timings", {}).items()]


def describe_target(report: dict) -> str:
    """Return the target of a report as one line."""
    target = report["target"]
    return escape_text(target if isinstance(target, str) else " ".join(target))


def describe_headline(report: dict) -> str:
    """Return the headline of a report on a single server as a line."""
    headline = report["headline"]
    return escape_text((f"at {headline['layer']}: " if headline["layer"] else "")
                       + headline["message"])


def describe_cost(report: dict) -> str:
    """Return how many requests a report took, and how long."""
    return f"{count_things(report['requests'], 'request')}, {report['elapsedMs']} ms"


def list_reports(report: dict) -> List[dict]:
    """Return the reports on single servers that a report consists of: mostly it is one itself."""
    return list(report["servers"].values()) if "servers" in report else [report]


def format_hint(hint: str) -> List[str]:
    """Return the line that says what to do about the one before, if there is something."""
    return [escape_text(f"           -> {hint}")] if hint else []


def format_report(report: dict) -> str:
    """Return a report of `probe` as text for a person, a line for each thing that was seen.

    A report on several servers begins with a summary. All that a peer said is escaped.
    """
    parts = [format_single(part) for part in list_reports(report)]
    if "servers" not in report:
        return parts[0]
    lines = [f"probe of {count_things(len(parts), 'server')} in {describe_target(report)}"]
    for part in list_reports(report):
        lines += [f"  {part['verdict']:<11} {describe_target(part)}: {describe_headline(part)}",
                  *format_hint(part["headline"]["hint"])]
    return "\n\n".join(["\n".join(lines), *parts,
                        f"verdict: {report['verdict']} ({describe_cost(report)})"])


def format_single(report: dict) -> str:
    """Return a report on one server: the headline, layers, eras, findings, the verdict."""
    headline = report["headline"]
    glue = " " if headline["layer"] else ": "
    lines = [f"probe of {describe_target(report)}",
             f"{report['verdict']}{glue}{describe_headline(report)}",
             *format_hint(headline["hint"])]
    for seen in report["layers"]:
        is_headline = seen["name"] == headline["layer"]
        took = f" ({seen['ms']:.0f} ms)" if seen["ms"] is not None else ""
        words = "see above" if is_headline else seen["message"]
        lines.append(escape_text(f"  {seen['status']:<8} {seen['name']:<13} {words}{took}"))
        lines += [] if is_headline else format_hint(seen["hint"])
    for name, era in report["eras"].items():
        counts = describe_counts(era)
        if counts:
            lines.append(f"  {name:<8} {era['verdict']:<13} {describe_era(era)}".rstrip())
            lines += [f"           {line}" for line in counts]
    for step in report["trail"]:
        lines.append(escape_text(f"  looked   {step['url']} ({step['source']}): {step['outcome']}"))
    shown = {seen["message"] for seen in report["layers"]}
    for check in list_findings(report):
        if check["status"] != "ok" and check["message"] not in shown:
            lines.append(f"  {check['status']:<8} {check['id']}: {escape_text(check['message'])}")
            lines += format_hint(check["hint"])
            lines += [f"           ({check['spec']})"] if is_rule(check) else []
    return "\n".join([*lines, f"verdict: {report['verdict']} ({describe_cost(report)})"])


_COLOURS = {"fail": 31, "unreachable": 31, "warning": 33, "partial": 33, "note": 36, "ok": 32,
            "pass": 32}


def paint_line(line: str) -> str:
    """Return a line of a report with its status or verdict in a colour of the terminal."""
    return re.sub(rf"^(verdict: |  (?:\w+ +)?)({'|'.join(_COLOURS)})\b",
                  lambda match: f"{match[1]}\x1b[{_COLOURS[match[2]]}m{match[2]}\x1b[0m", line)


# =============================================================================================
# 19. COMMAND LINE
# =============================================================================================
# In: words. Out: text or JSON on standard output, one line on standard error when something is
# wrong, and an exit code. A command is a row of COMMANDS, and so is each of its options; extras add
# commands, options, and functions to the lists of steps. Nothing here decides about the protocol.

EXIT_CODES = {
    0: "ok, the probe's verdict is pass, or the server was told to stop (SIGTERM, Ctrl-C)",
    1: "the peer answered with an error, a replay differs, or the probe's verdict is fail",
    2: "the command line, or the server's file, is not valid",
    3: "the server asks something and has no answer, or the probe's verdict is partial",
    4: "unreachable, no answer in time, or the address to serve is taken",
    5: "the tool's result is an error",
    130: "interrupted (a server: by the second Ctrl-C)",
    143: "terminated (a server: by the second SIGTERM)",
}
# An error's class to its exit code; the first that fits counts.
EXIT_OF_ERROR = ((UsageError, 2), (SchemaError, 2), (TransportError, 4), (QuestionError, 3),
                 (MCPKitError, 1))
EXIT_OF_VERDICT = {"pass": 0, "fail": 1, "partial": 3, "unreachable": 4}


class Command(NamedTuple):
    """A row of COMMANDS: the function that runs it, its options, and examples of its use.

    `options` are rows of `option`, and lists of such rows that several commands share.
    """

    run: Callable[[Any], int]
    options: tuple
    examples: Tuple[str, ...]
    defaults: dict


COMMANDS: Dict[str, Command] = {}


def option(*flags: str, **how: Any) -> Tuple[tuple, dict]:
    """Return a row of a command's options: the arguments of argparse's add_argument.

    A command line has one at most of the options with the same `group`.
    """
    return flags, how


def add_command(name: str, run: Callable[[Any], int], *options: Any, examples: Sequence[str] = (),
                **defaults: Any) -> None:
    """Add a command; the docstring of the function that runs it, one line, is its help."""
    COMMANDS[name] = Command(run, options, tuple(examples), defaults)


def add_options(name: str, *options: Any) -> None:
    """Add options to a command."""
    COMMANDS[name] = COMMANDS[name]._replace(options=COMMANDS[name].options + options)


def parse_number(name: str, make: type, least: float, most: float) -> Callable[[str], Any]:
    """Return a function that reads a number of an option and raises ValueError out of bounds."""
    def parse(text: str) -> Any:
        value = make(text)
        if not least <= value <= most:
            raise ValueError(text)
        return value
    parse.__name__ = name                         # argparse says it when it refuses a value
    return parse


parse_seconds = parse_number("seconds", float, 1e-9, 1e9)
parse_count = parse_number("count", int, 1, 2 ** 53)
parse_port = parse_number("port", int, 0, 65535)

# ---- what extras add to the steps of commands

# How a target that is no URL is found: functions(options, name) -> ServerEntry or None.
TARGETS: List[Callable] = []
# The options that name a server in the place of TARGET.
TARGET_OPTIONS: List[str] = []
# What else the client of a command has: functions(options) -> keywords of Client.
CLIENT_STEPS: List[Callable[[Any], dict]] = []
# What is done to a server before it is served: functions(options) -> function(server) or None.
SERVE_STEPS: List[Callable] = []
# Who sees each exchange of a command: functions(options) -> function(exchange) or None.
OBSERVERS: List[Callable] = [
    lambda options: functools.partial(print_exchange, options.hidden) if options.verbose else None]
# How several servers are probed by one command: functions(options, exchanges) -> report or None.
PROBERS: List[Callable] = []
# What else is made of a probe: functions(options, report, exchanges) -> lines to be printed.
PROBE_OUTPUTS: List[Callable] = []


# ---- output

def print_out(text: str) -> None:
    """Print text on standard output, if there is one, whatever its encoding."""
    if sys.stdout is not None:
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def flush_out() -> None:
    """Have standard output written, if there is one."""
    if sys.stdout is not None:
        sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print_out(json.dumps(value, indent=2, ensure_ascii=True))


class Title(str):
    """A line of text that is bold on a terminal."""


def print_text(text: str) -> None:
    """Print text of a peer: lines and tabs kept, every other control character shown."""
    shown = escape_text(text, keep="\n\t")
    print_out(f"\x1b[1m{shown}\x1b[0m" if isinstance(text, Title) and has_colours() else shown)


def has_colours() -> bool:
    """Return whether standard output is a terminal that wants colours (https://no-color.org)."""
    return sys.stdout is not None and sys.stdout.isatty() and os.name != "nt" and not (
        os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb")


# The headers of requests whose values are no secret.
OPEN_HEADERS = "(?i)accept|content-type|user-agent|last-event-id|mcp-.*"


def print_exchange(hidden: Dict[str, str], exchange: Exchange) -> None:
    """Print one exchange on standard error, for -v; credentials are not shown."""
    lines = [f"> {exchange.method} {exchange.url}",
             *(f"> {name}: {value if re.fullmatch(OPEN_HEADERS, name) else '***'}"
               for name, value in exchange.request_headers.items()),
             f"> {shorten(exchange.request_body, 4000)}"]
    if exchange.status is not None:
        lines.append(f"< HTTP {exchange.status}")
        lines += [f"< {name}: {value}" for name, value in exchange.headers.items()]
    lines += [f"< {shorten(exchange.answer, 4000)}", *(f"  {note}" for note in exchange.notes),
              f"  {exchange.seconds * 1000:.1f} ms"
              + (f", failed: {exchange.error}" if exchange.error else "")]
    log_line("\n".join(escape_text(hide_secrets(line, hidden)) for line in lines))


@contextlib.contextmanager
def showing_progress() -> Iterator[Optional[Callable]]:
    """Yield a function that shows on a terminal how far a call is; None if there is no terminal."""
    shown = ""

    def show(progress: Any, total: Any, message: Any) -> None:
        nonlocal shown
        # A server may send anything.
        done, whole = (value if type(value) in (int, float) and abs(value) < 1e15 else None
                       for value in (progress, total))
        words = [] if done is None else [f"{done:g}"]
        if done is not None and whole is not None and whole > 0:
            part = min(max(done, 0), whole) / whole
            words = [f"[{'#' * int(part * 30):.<30}] {part:4.0%}"]
        words += [] if message is None else [shorten(message, 30)]
        line = " ".join(words)
        sys.stderr.write(f"\r{line:<{len(shown)}}")
        sys.stderr.flush()
        shown = line

    try:
        yield show if sys.stderr.isatty() else None
    finally:
        if shown:
            sys.stderr.write(f"\r{'':<{len(shown)}}\r")


# ---- secrets: what must not be shown, to what is shown in its place

MIN_SECRET = 6                     # what is shorter is no secret, and may be part of any word
MAX_SHORTENED = 10_000             # characters of a text in which something was shortened
# Headers whose values let somebody in.
SECRET_HEADERS = ("(?i)authorization|cookie|token|secret|password|session-id|api-?key|credential"
                  "|dpop")


def hide_secrets(value: Any, hidden: Dict[str, str]) -> Any:
    """Return a text, or a JSON value with the texts in it, in which no secret is left.

    Nor is the beginning of one whose rest `shorten` has cut off.
    """
    def hide(text: str) -> str:
        for secret in sorted(hidden, key=len, reverse=True):      # the longest may hold others
            if len(secret) < MIN_SECRET:
                continue
            name = hidden[secret]
            text = text.replace(secret, name)
            if len(text) <= MAX_SHORTENED:
                text = re.sub(re.escape(secret[:MIN_SECRET]) + r".*?\.\.\.", lambda match: (
                    name + "..." if secret.startswith(match.group()[:-3]) else match.group()), text)
        return text
    return change_texts(value, hide)


def change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its texts changed; names of members stay."""
    if isinstance(value, list):
        return [change_texts(part, change) for part in value]
    if isinstance(value, dict):
        return {name: change_texts(part, change) for name, part in value.items()}
    return change(value) if isinstance(value, str) else value


def split_credentials(value: str) -> Tuple[str, str]:
    """Return the scheme in the value of a secret header, with a space, and what is secret."""
    scheme, separator, secret = value.rpartition(" ")
    is_plain = separator and "," not in value and "=" not in scheme
    return (scheme + separator, secret) if is_plain else ("", value)


# ---- input

def read_input(value: str) -> str:
    """Return a value as it is, `@FILE`'s content, or that of standard input for `-`."""
    try:
        if value == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        if value.startswith("@"):
            with open(value[1:], encoding="utf-8-sig") as file:
                return file.read()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{value} cannot be read: {error}") from None
    return value


def write_file(path: str, data: Union[str, bytes]) -> None:
    """Write a file, text as UTF-8; raises UsageError if that cannot be done."""
    try:
        with open(path, "wb") as file:
            file.write(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def parse_json_word(text: str, name: str) -> Any:
    """Return the JSON value in a text of the command line; raises UsageError that names it."""
    try:
        return parse_json(text.encode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}") from None


def read_json_object(text: Optional[str], name: str) -> dict:
    """Return the JSON object in an option, in `@FILE` or `-`; an empty one if it is not given."""
    value = {} if text is None else parse_json_word(read_input(text), name)
    if not isinstance(value, dict):
        raise UsageError(must_be(name, "a JSON object", value))
    return value


def parse_arguments(words: List[str], schema: Any = None, given: Optional[str] = None) -> dict:
    """Return arguments from `name=value` (by the schema) and `name:=json` words."""
    arguments, texts = read_json_object(given, "--args"), {}
    for word in words:
        match = re.fullmatch(r"([^=:]+|[^=]*[^=:])(:?=)(.*)", word, re.DOTALL)
        if match is None:
            raise UsageError(f"an argument is name=value or name:=json, but is {shorten(word)}")
        name, sign, text = match.groups()
        if sign == "=":
            texts[name] = text
        else:
            arguments[name] = parse_json_word(text, name)
    return {**arguments, **coerce_texts(texts, schema or {})}


def find_headers(options: Any) -> Headers:
    """Return the headers that options give, the token of a bearer among them."""
    headers = {}
    for line in chain.from_iterable(
            read_input(value).splitlines() if value.startswith("@") else [value]
            for value in options.header):
        name, colon, text = (part.strip() for part in line.partition(":"))
        if name and not colon:
            raise UsageError("a header is written 'Name: value'; this one has no colon")
        if colon:
            check_header(name, text)
            headers[name] = text
            if re.search(SECRET_HEADERS, name):
                options.hidden[split_credentials(text)[1]] = f"({name})"
    for name, text in (("--bearer-env", find_secret(options.bearer_env)),
                       ("--bearer-file", options.bearer_file and read_input(
                           "@" + options.bearer_file))):
        if text is not None:
            token = text.strip()
            if not parse_bearer(f"Bearer {token}"):
                raise UsageError(f"{name} must lead to one token, which has letters, digits and "
                                 "-._~+/ only, and = at its end")
            options.hidden[token] = f"({name})"
            headers["Authorization"] = f"Bearer {token}"
    return headers


def find_secret(name: Optional[str]) -> Optional[str]:
    """Return the value of an environment variable; UsageError if it has none."""
    if name is not None and not os.environ.get(name):
        raise UsageError(f"the variable {name} is not set, or empty")
    return None if name is None else os.environ[name]


def find_similar(name: str, names: Iterable[Any]) -> str:
    """Return the advice to take a name that is nearly the same, if there is one."""
    import difflib
    similar = difflib.get_close_matches(name, map(str, names), 2)
    return f"; did you mean {' or '.join(map(shorten, similar))}?" if similar else ""


# ---- serve

def run_serve(options: Any) -> int:
    """Serve a file's Server, or pong, over HTTP or stdio."""
    names = ("stdio", "host", "port", "path", "verbose", "log", "public_url", *RUN_OPTIONS,
             *SERVICE_OPTIONS)
    run_server(functools.partial(make_server, options), allow_origins=options.allow_origin,
               allow_hosts=options.allow_host, **{name: getattr(options, name) for name in names})
    return 0


def make_server(options: Any) -> Server:
    """Return the server that is to be served, changed as the options say."""
    steps = [step for step in (prepare(options) for prepare in SERVE_STEPS) if step]
    if options.stdio:
        take_stdio()                              # so that what the file prints is no message
    server = load_server(options.target) if options.target else build_pong_server()
    for member, value in (("keeps_sessions", options.sessions), ("stream", options.stream),
                          ("instance", options.instance)):
        if value is not None:
            setattr(server, member, value)
    server.limits = server.limits.replace(**{
        name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None})
    server.sessions = Sessions(server.runtime, server.limits, server.instance)
    for step in steps:
        step(server)
    return server


def load_server(path: str) -> Server:
    """Return the Server that a Python file makes; raises UsageError when there is none."""
    import importlib.util
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}: TARGET is a Python file with a mcpkit.Server")
    # The file says `from mcpkit import Server`, and means this very module, whatever its name.
    for name in ("mcpkit", os.path.splitext(os.path.basename(__file__))[0]):
        sys.modules.setdefault(name, sys.modules[__name__])
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("mcpkit_target", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = sys.modules["mcpkit_target"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        import traceback
        lines = [f"line {frame.lineno}: " for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == path]
        raise UsageError(f"{path} cannot be loaded: {''.join(lines[-1:])}{type(error).__name__}: "
                         f"{error}") from error
    servers = {name: value for name, value in vars(module).items() if isinstance(value, Server)}
    if "server" in servers or len(set(map(id, servers.values()))) == 1:
        return servers.get("server") or next(iter(servers.values()))
    raise UsageError(
        f"{path} makes {len(servers)} servers: name the one to serve `server`" if servers
        else f"{path} has no mcpkit.Server at its top level")


# ---- the server that a command goes to

class ServerEntry(NamedTuple):
    """How one server is reached, in the words of Client: `target` is a URL, or a command.

    `hidden` has what must not be shown, to what is shown in its place.
    """

    target: Union[str, List[str]]
    headers: Headers = {}
    env: Dict[str, str] = {}
    cwd: Optional[str] = None
    hidden: Dict[str, str] = {}


def find_server(options: Any) -> ServerEntry:
    """Return how the server of a command is reached; raises UsageError if TARGET is none."""
    if options.command:
        return ServerEntry(options.command)
    name = options.target or ""
    found = next(filter(None, (find(options, name) for find in TARGETS)), None)
    if found is None and not is_endpoint(options, name):
        raise target_error("a URL", name)
    found = found or ServerEntry(name)
    options.hidden.update(found.hidden)
    return found


def is_endpoint(options: Any, name: str) -> bool:
    """Return whether TARGET says by itself where a server is; a probe also takes a bare host."""
    return "://" in name or options.run is run_probe and complete_url(name) != name


def target_error(wanted: str, name: str, names: Iterable[str] = ()) -> UsageError:
    """Return the error for a TARGET that is none; `names` are those that it could have been."""
    advice = f"; did you mean http://{shorten(name)}" if re.match(
        r"[\w.-]+:\d+(/|$)", name) else find_similar(name, names)
    return UsageError(f"TARGET is {wanted}, or is left out and `-- COMMAND` names a stdio server, "
                      "but is " + (shorten(name) + advice if name else "missing"))


def parse_network(options: Any) -> Network:
    """Return how the options say that servers are reached."""
    if options.insecure:
        log_line("mcpkit: warning: --insecure: no certificate is checked, so anybody on the way "
                 "can read and change everything, credentials too")
    return Network(*(getattr(options, name) for name in Network._fields))


def join_observers(*observers: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    """Return a function that shows an exchange to all observers."""
    def observe(exchange: Exchange) -> None:
        for show in observers:
            show(exchange)
    return observe


def find_observer(options: Any) -> Callable[[Exchange], None]:
    """Return a function that shows an exchange to all who want to see those of a command."""
    return join_observers(*filter(None, (find(options) for find in OBSERVERS)))


def build_keywords(options: Any, server: ServerEntry, *observers: Callable) -> Dict[str, Any]:
    """Return what Client and Prober alike have to know to reach the server of a command."""
    return {"headers": {**server.headers, **find_headers(options)}, "env": server.env,
            "cwd": server.cwd, "network": parse_network(options), "era": options.era,
            "timeout": options.timeout, "observe": join_observers(*observers)}


@contextlib.contextmanager
def open_client(options: Any) -> Iterator[Client]:
    """Connect to the server of a command for a block; then say what was not quite right."""
    def print_log(level: str, data: Any, logger: Optional[str]) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        log_entry(hide_secrets(f"{level} {logger or 'server'}: {text}", options.hidden))

    def print_warnings(*_: Any) -> None:
        while client.warnings:
            log_line(f"mcpkit: {client.warnings.pop(0)}")

    server, answers = find_server(options), Answers(options)
    keywords = build_keywords(options, server, find_observer(options))
    for step in CLIENT_STEPS:
        keywords.update(step(options))
    if options.verbose:
        keywords.update(on_log=print_log, log_level="debug")
    if options.root:
        import pathlib
        paths = [pathlib.Path(folder).resolve() for folder in options.root]
        keywords["on_roots"] = lambda: [{"uri": path.as_uri(), "name": path.name} for path in paths]
    client = Client(
        server.target, until=options.max_time and time.monotonic() + options.max_time,
        capabilities={"elicitation": {"form": {}, "url": {}}}, **answers.handlers, **keywords,
        on_notification=print_warnings)
    try:
        with client:
            yield client
    except MCPError as error:
        raise answers.fault or error               # a legacy server fails for want of an answer
    finally:
        print_warnings()
        if options.verbose:
            for line in [f"not a message: {line}" for _, line in client.junk] + [
                    f"stderr: {line}" for line in client.noise]:
                log_line(hide_secrets(line, options.hidden))
    if answers.fault is not None:
        raise answers.fault


# ---- answers to what a server asks

YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
ACTIONS = ("accept", "decline", "cancel")


class Answers:
    """Answers a server from --answers and --answer; at a terminal a person is asked for the rest.

    An answer has the name of a form's field, or is to a whole question, and has its key, or
    "elicitation" or "sampling". `fault` is the first failure to answer: legacy servers go on.
    """

    def __init__(self, options: Any):
        given = read_json_object(options.answers and "@" + options.answers, "--answers")
        self._given = {**given, **parse_arguments(options.answer)}
        self._can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        self.fault: Optional[MCPKitError] = None
        # The handlers of a Client: for no more than can be answered.
        self.handlers: Dict[str, Callable] = {"on_sample": self.sample} if self._given else {}
        if self._given or self._can_ask:
            self.handlers["on_elicit"] = self.elicit

    def sample(self, params: dict) -> Any:
        """Return what a model would say."""
        whole = self._given.get(params.get("key", ""), self._given.get("sampling"))
        if whole is None:
            self._fail_to_answer("sampling", "sampling/createMessage", params)
        return whole

    def elicit(self, params: dict) -> Any:
        """Return the answer to a form, or to a page that is to be visited."""
        fields, required = find_form(params)
        whole = self._given.get(params.get("key", ""), self._given.get("elicitation"))
        found: Any = {name: parse_field(self._given[name], field)
                      for name, field in fields.items() if name in self._given}
        if whole is not None and not found:
            found = parse_whole(whole, fields)
        elif not found or not required.issubset(found):
            if not self._can_ask:
                self._fail_to_answer("elicitation", "elicitation/create", params)
            found = ask_person(params, fields, required, found)
        if isinstance(found, dict) and params.get("mode") != "url":
            with contextlib.suppress(SchemaError):
                schema = params.get("requestedSchema", True)
                compiled = compile_schema(schema, is_foreign=True)
                for fault in compiled.errors(fill_defaults(schema, found))[:1]:
                    self._fail(UsageError(f"the answers do not fit: {fault}"))
        return found

    def _fail_to_answer(self, kind: str, method: str, params: dict) -> None:
        self._fail(QuestionError({params.get("key", kind): {"method": method, "params": params}}))

    def _fail(self, error: MCPKitError) -> None:
        self.fault = self.fault or error
        raise error


def ask_person(params: dict, fields: Dict[str, dict], required: Set[str], found: dict) -> Any:
    """Ask at the terminal for each field that is not found, until it fits; None declines."""
    def read(prompt: str) -> str:
        sys.stderr.write(escape_text(prompt))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    log_entry(f"the server asks: {params.get('message')} (Ctrl-D declines)")
    try:
        if params.get("mode") == "url" or not fields:
            prompt = f"visit {params['url']}, and then: done" if "url" in params else "accept"
            return {} if YES_OR_NO.get(read(f"  {prompt}? (y/n) ").lower()) else None
        for name, field in fields.items():
            while name not in found:
                text = read(f"  {describe_field(name, field)}: ")
                if not text and name not in required:
                    break
                value = parse_field(text, field)
                faults = compile_schema(field, is_foreign=True).errors(value) if text else [
                    "it cannot be left out"]
                if faults:
                    log_line("  " + faults[0].replace("(root): ", "", 1))
                else:
                    found[name] = value
        return found
    except EOFError:
        log_line("")
        return None


def find_form(params: Any) -> Tuple[Dict[str, dict], Set[str]]:
    """Return the fields of a form by name, and those that are required and have no default."""
    schema = find_object(params, "requestedSchema")
    fields = {name: field for name, field in find_object(schema, "properties").items()
              if isinstance(field, dict)}
    required = find_list(schema.get("required"))
    return fields, {name for name in fields if name in required and "default" not in fields[name]}


def find_choices(field: dict) -> Dict[str, Any]:
    """Return what may be chosen for a field: what is shown, to the value."""
    named = find_list(field.get("oneOf")) or find_list(field.get("anyOf"))
    values = find_list(field.get("enum"))
    names = find_list(field.get("enumNames")) or values
    return {**{str(part.get("title", part["const"])): part["const"] for part in named
               if isinstance(part, dict) and "const" in part},
            **{str(name): value for name, value in zip(names, values)}}


def parse_field(value: Any, field: dict) -> Any:
    """Return an answer as the value of a field: a text by its choices and type, else as it is."""
    if not isinstance(value, str):
        return value
    types = find_types(field, field)
    if types == {"array"} and not value.startswith("["):
        return [parse_field(part.strip(), find_object(field, "items"))
                for part in value.split(",") if part.strip()]
    if types == {"boolean"}:
        return YES_OR_NO.get(value.lower(), value)
    value = find_choices(field).get(value, value)
    return coerce_text(value, field) if isinstance(value, str) else value


def parse_whole(value: Any, fields: Dict[str, dict]) -> Any:
    """Return the answer to a whole question: an action, an object, or its only field."""
    if isinstance(value, bool):
        value = ACTIONS[not value]
    if value in ACTIONS:
        return {} if value == "accept" else Elicited(value)
    if isinstance(value, str) and value.startswith("{"):
        return read_json_object(value, "the answer")
    if not isinstance(value, dict) and len(fields) == 1:
        return {name: parse_field(value, field) for name, field in fields.items()}
    if not isinstance(value, dict):
        raise UsageError(f"an answer is accept, decline, cancel or a JSON object, but is "
                         f"{shorten(value)}")
    return value


def describe_field(name: str, field: dict) -> str:
    """Return a form's field as one line: title, what it is, what may be chosen, the default."""
    choices = find_choices(field) or find_choices(find_object(field, "items"))
    return (shorten(field.get("title", name))
            + (f" ({shorten(field['description'])})" if "description" in field else "")
            + (f" {{{', '.join(map(shorten, choices))}}}" if choices else "")
            + (f" [{shorten(field['default'])}]" if "default" in field else ""))


def describe_open(key: str, question: Any) -> List[str]:
    """Return the options that would answer a question, a line each."""
    method = str(question.get("method")) if isinstance(question, dict) else ""
    if method == "roots/list":
        return ["  --root DIR"]
    if "sampling" in method:
        return [f"  --answer {shorten(key)}=...   a text"]
    fields, _ = find_form(find_object(question, "params"))
    return [f"  --answer {shorten(name)}=...   {describe_field(name, field)}"
            for name, field in fields.items()] or [
        f"  --answer {shorten(key)}=...   accept or decline"]


# ---- commands of the client

def add_client_command(name: str, ask: Callable, *options: Any, examples: Sequence[str]) -> None:
    """Add a command: `ask(options, client)` returns a server's result, and its lines for a person.

    The docstring of `ask`, one line, is its help.
    """
    def run(options: Any) -> int:
        with open_client(options) as client:
            result, lines = ask(options, client)
        if options.json:
            print_json(result)
        else:
            for line in lines:
                print_text(line)
        return 5 if name == "call" and result.get("isError") else 0

    run.__doc__ = ask.__doc__
    add_command(name, run, TARGET, *options, SERVER, NETWORK, CLIENT, examples=examples)


# What `list` can list: option, member of the result, capability, and the method of Client.
LISTS = (
    ("tools", "tools", "tools", Client.list_tools),
    ("resources", "resources", "resources", Client.list_resources),
    ("templates", "resourceTemplates", "resources", Client.list_resource_templates),
    ("prompts", "prompts", "prompts", Client.list_prompts),
)


def ask_lists(options: Any, client: Client) -> tuple:
    """List what a server offers."""
    asked, found = [name for name, *_ in LISTS if getattr(options, name)], {}
    for name, member, capability, method in LISTS:
        if name in asked or (not asked and capability in client.capabilities):
            try:
                found[member] = method(client)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                found[member] = []                # it does not have the feature
    info = client.server_info
    lines = [Title(f"{shorten(info.get('name', 'unnamed'))} {shorten(info.get('version', ''))} "
                   f"({client.protocol_version})")]
    for member, items in found.items():
        lines += [Title(f"\n{member}: {len(items)}"), *map(describe_item, items, count())]
    return found, lines


def describe_item(item: Any, index: int) -> str:
    """Return a listed tool, resource, template or prompt as lines for a person."""
    if not isinstance(item, dict):
        return f"  [{index}] is no object: {shorten(item)}"
    name = item.get("uri") or item.get("uriTemplate") or item.get("name") or f"[{index}]"
    schema = item.get("inputSchema")
    required = find_list(schema.get("required") if isinstance(schema, dict) else None)
    names = []
    for parameter, part in find_object(schema, "properties").items():
        types = "|".join(sorted(find_types(part, schema) - {"other"}))
        names.append(shorten(parameter) + ("" if parameter in required else "?")
                     + (f": {shorten(types)}" if types else ""))
    names += [shorten(argument.get("name")) + ("" if argument.get("required") else "?")
              for argument in find_list(item.get("arguments")) if isinstance(argument, dict)]
    lines = [f"  {shorten(name)}" + (f"({', '.join(names)})" if names else "")]
    text = str(item.get("description") or item.get("title") or "").strip()
    lines += [f"      {line}" for line in text.split("\n")[:3] if line.strip()]
    fault = find_tool_fault(item) if "uri" not in item and "inputSchema" in item else None
    return "\n".join(lines + ([f"      fault: it {fault}"] if fault else []))


def ask_tool(options: Any, client: Client) -> tuple:
    """Call a tool."""
    with showing_progress() as on_progress:
        tools = client.list_tools() if options.arguments else []
        schema = next((tool["inputSchema"] for tool in tools if find_tool_fault(tool) is None
                       and tool["name"] == options.tool), {})
        arguments = parse_arguments(options.arguments, schema, options.args)
        with advising(options, options.tool, client.list_tools) as advise:
            result = client.call_tool(options.tool, arguments, on_progress=on_progress)
            if result.get("isError"):
                advise()
    return result, take_content(options, find_list(result.get("content")))


@contextlib.contextmanager
def advising(options: Any, name: str, list_all: Callable[[], list]) -> Iterator[Callable]:
    """If a block fails for an unknown name, say which one was meant; yields what says it."""
    def advise() -> None:
        names = [item.get("name") for item in list_all() if isinstance(item, dict)]
        advice = "" if name in names or options.json else find_similar(name, names)
        if "=" in name and name not in names:
            advice = ": it looks like an argument, and the form is call TARGET TOOL name=value"
        if advice and not options.json:
            log_line(f"mcpkit: there is no {shorten(name)}{advice}")

    try:
        yield advise
    except MCPError:
        with contextlib.suppress(MCPKitError):
            advise()
        raise


def take_content(options: Any, blocks: list) -> List[str]:
    """Return the blocks of a result's content as texts, without the one that --output FILE takes.

    That is the one binary block, or, if there is none, the one text.
    """
    shown = list(map(describe_content, blocks))
    if options.output is not None:
        parts = [(index, read_block(block)) for index, block in enumerate(blocks)]
        found = [part for part in parts if isinstance(part[1], bytes)] or [
            part for part in parts if part[1] is not None]
        if len(found) != 1:
            raise UsageError("--output takes one binary part, or else one text, but there are "
                             f"{len(found)}: see --json")
        write_file(options.output, found[0][1])
        del shown[found[0][0]]
    return shown


def read_block(block: Any) -> Union[str, bytes, None]:
    """Return the text or the bytes of a content block or a resource's contents, if it has some."""
    inner = find_object(block, "resource") or block
    if isinstance(inner, dict):
        text, data = inner.get("text"), inner.get("data", inner.get("blob"))
        if isinstance(text, str):
            return text
        with contextlib.suppress(ValueError):
            return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    return None


def describe_content(block: Any) -> str:
    """Return a block, or a resource's contents, as text; what is none is named with its size."""
    data = read_block(block)
    if isinstance(data, str) or not isinstance(block, dict):
        return shorten(block) if data is None else data
    if block.get("type") == "resource_link":
        return f"[link to {shorten(block.get('uri'))}: {shorten(block.get('name'))}]"
    inner = find_object(block, "resource") or block
    size = "unreadable: see --json" if data is None else (
        f"{len(data):,} bytes: --output FILE saves it")
    return (f"[{shorten(inner.get('uri', block.get('type')))}, "
            f"{shorten(inner.get('mimeType', 'no type'))}, {size}]")


def ask_resource(options: Any, client: Client) -> tuple:
    """Read a resource."""
    result = client.read_resource(options.uri, parse_arguments(options.arguments) or None)
    return result, take_content(options, find_list(result.get("contents")))


def ask_prompt(options: Any, client: Client) -> tuple:
    """Fill in a prompt."""
    with advising(options, options.name, client.list_prompts):
        result = client.get_prompt(options.name, parse_arguments(options.arguments))
    return result, [f"{shorten(message.get('role'))}: {describe_content(message.get('content'))}"
                    for message in find_list(result.get("messages")) if isinstance(message, dict)]


# The kinds of what a completion is for, to the members of the reference.
REFERENCES = {"prompt": ("ref/prompt", "name"), "resource": ("ref/resource", "uri")}


def ask_completion(options: Any, client: Client) -> tuple:
    """Ask how an argument of a prompt or resource template may go on."""
    kind, member = REFERENCES[options.kind]
    found = client.complete({"type": kind, member: options.ref}, options.argument,
                            options.value, parse_arguments(options.arguments))
    values = found.get("values") if isinstance(found, dict) else None
    return found, map(shorten, find_list(values))


def run_send(options: Any) -> int:
    """Send any request and print its result."""
    params = None if options.params is None else read_json_object(options.params, "params")
    with open_client(options) as client:
        print_json(client.request(options.method, params))
    return 0


def run_listen(options: Any) -> int:
    """Print a server's notifications of changes, one JSON object a line, until Ctrl-C."""
    with open_client(options) as client:
        lists = {feature: getattr(options, feature) for feature in LIST_CHANGES}
        if not any(lists.values()) and not options.uri:
            lists = {feature: feature in client.capabilities for feature in LIST_CHANGES}
        for method, params in client.listen(**lists, uris=options.uri):
            print_out(json.dumps({"method": method, "params": params}))
            flush_out()
    return 0


def run_probe(options: Any) -> int:
    """Probe a server, and print the report."""
    exchanges: List[Exchange] = []
    report = next(filter(None, (find(options, exchanges) for find in PROBERS)), None)
    if report is None:
        server = find_server(options)
        prober = build_prober(options, server, exchanges.append, find_observer(options))
        report = {**prober.run(), "target": options.target or server.target}
    report = hide_secrets(report, options.hidden)
    lines = [line for finish in PROBE_OUTPUTS for line in finish(options, report, exchanges)]
    if options.json:
        print_json(report)
        return EXIT_OF_VERDICT[report["verdict"]]
    for line in (escape_text(line, keep="\t") for line in format_report(report).split("\n")):
        print_out(paint_line(line) if has_colours() else line)
    for line in lines:
        print_text(line)
    return EXIT_OF_VERDICT[report["verdict"]]


def build_prober(options: Any, server: ServerEntry, *observers: Callable[[Exchange], None],
                 **steps: Any) -> Prober:
    """Return what probes one server as the options want it, and shows each exchange to observers.

    `steps` are values for PROBE_STEPS other than those of the options.
    """
    keywords = build_keywords(options, server, *observers)
    keywords.update((name, getattr(options, name)) for name, _, _ in PROBE_STEPS
                    if hasattr(options, name))
    keywords["timeout"] = min(options.timeout, options.max_time or options.timeout)
    return Prober(server.target, max_bytes=options.max_bytes, **{**keywords, **steps})


def run_sse(options: Any) -> int:
    """Turn an event stream into one JSON object a line."""
    parser, is_piped = SSEParser(), options.file in (None, "-")
    if is_piped and sys.stdin is None:
        raise UsageError("standard input is closed: name a FILE")
    try:
        source = sys.stdin.buffer if is_piped else open(options.file, "rb")
    except OSError as error:
        raise UsageError(f"{options.file} cannot be read: {error.strerror}") from None
    with source:
        for data in iter(lambda: source.read1(65536), b""):
            for event in parser.feed(data):
                print_out(json.dumps(event._asdict()))
            flush_out()
    unfinished = len(parser.close())
    if unfinished:
        log_line(f"mcpkit: the stream ended inside an event: {unfinished} bytes discarded")
    return 0


# ---- options, and the commands that have them

TARGET_HELP = ("a URL; or leave it out and end the line with -- COMMAND ARG... for a stdio server")
TARGET = option("target", metavar="TARGET", help=TARGET_HELP)
OPTIONAL_TARGET = option("target", metavar="TARGET", nargs="?", help=TARGET_HELP)
JSON = option("--json", action="store_true", help="one JSON document; errors too")
OUTPUT = option("--output", metavar="FILE", help="write the binary part of the result, or else "
                "its text, to this file")
ARGUMENTS = option("arguments", nargs="*", default=[], metavar="name=value",
                   help="an argument, read by the tool's schema; name:=json for JSON")
ADDRESS = [
    option("--host", default="127.0.0.1",
           help="address to listen on (%(default)s; localhost means IPv4)"),
    option("--port", type=parse_port, default=8000, help="0: a free one (%(default)s)"),
    option("--stdio", action="store_true", help="serve stdin and stdout, not HTTP"),
]
NETWORK = [
    option("--proxy", metavar="URL", group="proxy", help="reach every host through this proxy "
           "(none given: as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say)"),
    option("--no-proxy", dest="proxy", group="proxy", action="store_const", const="",
           help="use no proxy, whatever the environment says"),
    option("--cacert", metavar="FILE",
           help="trust the authorities in this PEM file, not the system's"),
    option("--client-cert", metavar="FILE", help="our certificate, and perhaps its key, for "
           "servers that want to know us by one (PEM)"),
    option("--client-key", metavar="FILE", help="the key of --client-cert (PEM)"),
    option("--insecure", action="store_true", help="check no certificate"),
]
# Of every command that has a TARGET: how its server is reached, and what is shown of that.
SERVER = [
    JSON,
    option("--header", action="append", default=[], metavar="'Name: value'",
           help="send this header; @FILE: one a line (keeps secrets out of ps)"),
    option("--bearer-env", metavar="NAME",
           help="send the token that this environment variable holds"),
    option("--bearer-file", metavar="FILE", help="send the token in this file"),
    option("--timeout", type=parse_seconds, default=30.0, metavar="S",
           help="seconds that the server may be silent (%(default)s)"),
    option("--max-time", type=parse_seconds, metavar="S",
           help="seconds that all of it may take"),
    option("-v", "--verbose", action="store_true",
           help="show each exchange, and what the server logs, on standard error"),
]
ERA = option("--era", choices=("auto", "legacy", "modern"), default="auto",
             help="speak to it in this era only (%(default)s: find out)")
# Of every command with a client: how its server is reached, and what the client answers.
CLIENT = [
    option("--answer", action="append", default=[], metavar="name=value", help="answer what the "
           "server asks: a field of its form, or the key of the question; name:=json for JSON"),
    option("--answers", metavar="FILE", help="answers: a JSON object of these"),
    option("--root", action="append", default=[], metavar="DIR",
           help="a folder that the server may know of"),
    ERA,
]
SERVE = [
    option("target", nargs="?", metavar="TARGET",
           help="a Python file with a mcpkit.Server (none: the pong server)"),
    option("--path", default="/mcp", help="path of the endpoint (%(default)s)"),
    option("--sessions", action="store_true", default=None,
           help="give legacy clients sessions (none given: as the server says)"),
    option("--no-sessions", action="store_false", dest="sessions", default=None,
           help="give legacy clients no sessions"),
    option("--instance", metavar="NAME", help="begin the ids of sessions with this name and a "
           "dot, by which a proxy finds their server"),
    option("--stream", choices=("auto", "always", "never"),
           help="when answers are event streams"),
    option("--allow-origin", action="append", default=[], metavar="O",
           help="let pages of this origin call"),
    option("--allow-host", action="append", default=[], metavar="H",
           help="answer to this host name too"),
    option("--public-url", metavar="URL", help="the endpoint as clients reach it, if a proxy "
           "stands before it"),
    option("--log", choices=tuple(LOG_FORMATS),
           help="a line on standard error for each request, without its contents"),
    option("-v", "--verbose", action="store_true",
           help="log each request and its answer, shortened"),
]


def list_limit_options() -> List[Tuple[tuple, dict]]:
    """Return an option for each of LIMITS, to which extras may have added."""
    return [option("--" + name.replace("_", "-"), metavar="N", help=f"{meaning} ({default})",
                   type=parse_seconds if isinstance(default, float) else parse_count)
            for name, (default, meaning) in LIMITS.items()]


add_command("serve", run_serve, SERVE, ADDRESS, list_limit_options, examples=(
    "serve", "serve hello.py --port 8001", "serve hello.py --stdio"))
add_client_command(
    "list", ask_lists,
    *(option(f"--{name}", action="store_true", help=f"list the {name}") for name, *_ in LISTS),
    examples=("list http://127.0.0.1:8000/mcp", "list --tools -- python3 server.py"))
add_client_command(
    "call", ask_tool, option("tool", metavar="TOOL"), ARGUMENTS,
    option("--args", metavar="JSON", help="all arguments: JSON, @FILE, or -"), OUTPUT,
    examples=("call URL greet name=Ada times=2", "call URL greet --args '{\"name\": \"Ada\"}'",
              "call URL book day:=5 --answer seat=window", "call URL chart --output chart.png",
              "call greet name=Ada -- python3 server.py"))
add_client_command(
    "read", ask_resource, option("uri", metavar="URI", help="a URI, or a template and its values"),
    ARGUMENTS, OUTPUT,
    examples=("read URL hello://names", "read URL hello://logo --output logo.png"))
add_client_command("prompt", ask_prompt, option("name", metavar="NAME"), ARGUMENTS,
                   examples=("prompt URL introduce name=Ada",))
add_client_command(
    "complete", ask_completion, option("kind", choices=tuple(REFERENCES)),
    option("ref", metavar="REF", help="the prompt's name, or the template's URI"),
    option("argument", metavar="ARGUMENT", help="the argument to be completed"),
    option("value", metavar="VALUE", help="what is there of it already"), ARGUMENTS,
    examples=("complete URL prompt introduce name A",
              "complete URL resource 'hello://card/{name}' name A"))
add_command(
    "listen", run_listen, TARGET, *(option(f"--{feature}", action="store_true",
                                           help=f"show changes of the list of {feature}")
                                    for feature in LIST_CHANGES),
    option("--uri", action="append", default=[], metavar="U",
           help="show changes of this resource; none of these: all lists"), SERVER, NETWORK, CLIENT,
    examples=("listen URL", "listen URL --tools --uri hello://names"))
add_command(
    "send", run_send, TARGET, option("method", metavar="METHOD"),
    option("params", nargs="?", metavar="JSON", help="params: JSON, @FILE, or -"), SERVER, NETWORK,
    CLIENT,
    examples=("send URL tools/list", "send URL tools/call '{\"name\": \"greet\"}'"))
add_command("probe", run_probe, OPTIONAL_TARGET, SERVER, NETWORK, ERA, option(
    "--max-bytes", type=parse_count, default=PROBE_ANSWER_BYTES, metavar="N",
    help="read at most this much of an answer (%(default)s)"), timeout=PROBE_SECONDS,
    examples=("probe URL", "probe --json -- python3 server.py"))
add_command("sse", run_sse, option("file", nargs="?", metavar="FILE"),
            examples=("sse answer.txt", "curl -N URL | mcpkit.py sse"))

EXAMPLES = ("serve hello.py", "list http://127.0.0.1:8000/mcp",
            "call http://127.0.0.1:8000/mcp greet name=Ada times=2",
            "call greet name=Ada -- python3 server.py", "probe https://example.com/mcp")


# ---- words to options

def build_parser(has_target: bool) -> Any:
    """Return the argument parser; with `-- COMMAND` or the like there is no TARGET word."""
    import argparse

    class Parser(argparse.ArgumentParser):
        """A parser whose errors are UsageErrors, so that they look like all others."""

        def error(self, message: str) -> None:
            raise UsageError(f"{message} (see {self.prog} --help)")

    def describe(examples: Iterable[str], *more: str) -> Dict[str, Any]:
        lines = ["examples:", *(f"  mcpkit.py {example}" for example in examples), *more]
        return {"epilog": "\n".join(lines).replace("%", "%%"),
                "formatter_class": argparse.RawDescriptionHelpFormatter}

    codes = ("", "exit codes:", *(f"  {code:<4} {text}" for code, text in EXIT_CODES.items()))
    parser = Parser(description="The Model Context Protocol in one file.",
                    **describe(EXAMPLES, *codes))
    parser.add_argument("--version", action="version", version=f"mcpkit {__version__}")
    commands = parser.add_subparsers(dest="name_of_command", metavar="COMMAND", required=True)
    for name, row in COMMANDS.items():
        text = row.run.__doc__ or ""
        command = commands.add_parser(name, help=text.rstrip("."), description=text,
                                      **describe(row.examples))
        groups: Dict[str, Any] = defaultdict(command.add_mutually_exclusive_group)
        for part in row.options:
            part = part() if callable(part) else part
            for flags, how in part if isinstance(part, list) else [part]:
                if has_target or (flags, how) not in (TARGET, OPTIONAL_TARGET):
                    keywords = {key: value for key, value in how.items() if key != "group"}
                    holder = groups[how["group"]] if "group" in how else command
                    holder.add_argument(*flags, **keywords)
        command.set_defaults(**{"run": row.run, "target": None, "command": None, "hidden": {},
                                "json": False, "output": None, **row.defaults})
    return parser


def parse_command_line(words: List[str]) -> Any:
    """Return the options in the words of a command line; raises UsageError."""
    command = None
    if "--" in words:
        end = words.index("--")
        words, command = words[:end], words[end + 1:]
        if not command:
            raise UsageError("after -- comes the command of a stdio server")
    given = [name for name in TARGET_OPTIONS
             if any(word == name or word.startswith(name + "=") for word in words)]
    given += ["-- COMMAND"] if command is not None else []
    if len(given) > 1:
        raise UsageError(f"there are both {' and '.join(given)}: which one is it")
    parser = build_parser(has_target=not given)
    # argparse takes optional words in one run only; those after an option come back as rest.
    options, rest = parser.parse_known_args(words)
    unknown = [word for word in rest if word[:1] == "-" and word != "-"]
    if hasattr(options, "arguments") and not unknown:
        options.arguments = options.arguments + rest
    elif hasattr(options, "params") and options.params is None and len(rest) == 1 and not unknown:
        options.params = rest[0]
    elif rest:
        parser.error(f"unknown words: {' '.join(unknown or rest)}" + (
            "" if unknown else "; the command of a stdio server comes after --"))
    if given and "://" in getattr(options, "tool", ""):
        parser.error(f"there are both a URL and {given[0]}: which one is it")
    options.command = command
    return options


def print_error(error: MCPKitError, code: int, as_json: bool, hidden: Dict[str, str]) -> None:
    """Print an error as one line on standard error; below questions, what would answer them."""
    questions = error.questions if isinstance(error, QuestionError) else {}
    if as_json:
        report: dict = {"kind": error.kind, "message": str(error), "exitCode": code}
        if isinstance(error, MCPError):
            report["error"] = error.to_wire()
        if questions:
            report["questions"] = questions
        log_line(json.dumps({"error": hide_secrets(report, hidden)}))
        return
    log_line(f"mcpkit: {escape_text(hide_secrets(str(error), hidden))}")
    for key, question in questions.items():
        log_line(hide_secrets("\n".join(describe_open(key, question)), hidden))


def main(words: Optional[List[str]] = None) -> int:
    """Run a command line and return its exit code; see EXIT_CODES."""
    words = sys.argv[1:] if words is None else words
    if sys.stderr is None:                        # closed by who started us
        sys.stderr = open(os.devnull, "w")
    options = None
    try:
        options = parse_command_line(words)
        if options.run is not run_serve:
            exit_on_signals()
        code = options.run(options)
        flush_out()
        return code
    except MCPKitError as error:
        code = next(code for kind, code in EXIT_OF_ERROR if isinstance(error, kind))
        print_error(error, code, "--json" in words, getattr(options, "hidden", {}))
        return code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # The reader of our output has seen enough, or a full disk, or a file that cannot be read.
        if not isinstance(error, BrokenPipeError):
            log_line(f"mcpkit: {error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)      # nothing more can be written at exit
        return int(not isinstance(error, BrokenPipeError))


def exit_on_signals() -> None:
    """Have SIGTERM and SIGHUP end us by way of our own clean-up: a child must not outlive us."""
    import signal
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))


def end_process(code: int) -> None:
    """End this process, shortly even if threads or exit hooks of a server's file hold it up."""
    if OUTLIVING:
        def serve() -> None:
            OUTLIVING.pop()()
            end_process(code)

        threading.Thread(target=serve).start()
        sys.exit(code)
    timer = threading.Timer(0.3, os._exit, (code,))
    timer.daemon = True
    timer.start()
    sys.exit(code)


# EXTRAS: each section below can be cut off; nothing above names anything below.


# =============================================================================================
# 20. ACCESS
# =============================================================================================
# In: the token of a request. Out: the Principal that it stands for, or the refusal that tells how
# to get a better one. A server with an Auth is an OAuth resource server: it issues no tokens, it
# judges those of others.

MAX_KNOWN_TOKENS = 1000                # whose introspection is remembered
INTROSPECTION_SECONDS = 5.0            # that an authorization server may take to judge a token
INTROSPECTION_BYTES = 256 * 1024
TOKEN_CACHE_SECONDS = 60.0             # a revoked token is served so much longer, at most
CLOCK_SKEW_SECONDS = 30.0              # that an issuer's clock may be ahead of ours

# The path at which a protected resource names the issuers of its tokens. Spec: RFC 9728, 3.
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"


class Principal(NamedTuple):
    """Who calls, as a checked token says.

    `subject` names one person or program, for as long as it may keep its sessions. `scopes` are
    what the token allows, None everything. `claims` are whatever else is known of the token; of
    these `exp` and `nbf` (seconds since 1970) and `aud` are held against clock and resource.
    """

    subject: str
    scopes: Optional[Collection[str]] = ()
    claims: Mapping = types.MappingProxyType({})

    def has_scopes(self, scopes: Iterable[str]) -> bool:
        """Return whether the caller has all of these scopes."""
        return self.scopes is None or frozenset(self.scopes).issuperset(scopes)


_SCOPE = r"[!#-\[\]-~]+"            # RFC 6749, 3.3


def check_names(what: str, names: Collection[str]) -> Tuple[str, ...]:
    """Return a list of strings as a tuple; UsageError if it is something else, say one str."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Collection) or not all(
            isinstance(name, str) and name for name in names):
        raise UsageError(f"{what} must be a list of strings")
    return tuple(names)


def check_scope_names(scopes: Collection[str]) -> Tuple[str, ...]:
    """Return scopes as a tuple; UsageError for what no scope can be."""
    for scope in check_names("scopes", scopes):
        if not re.fullmatch(_SCOPE, scope):
            raise UsageError("a scope has no spaces, quotes or backslashes, but is "
                             + shorten(scope))
    return tuple(scopes)


_RESOURCE = r"(?i)(https?://)(\[[0-9a-f:.]+\]|[^/?#@:\[\]]+)(:[0-9]{1,5})?(/[^?#]*)?"


def split_resource(url: str) -> Tuple[str, str]:
    """Return the origin of a URL in lower case, and its path ("" for the root).

    Raises UsageError if it cannot name a resource. Spec: RFC 8707, 2; RFC 9728, 3.1.
    """
    match = re.fullmatch(_RESOURCE, url) if isinstance(url, str) and re.fullmatch(
        r"[!#-\[\]-~]+", url) else None
    if match is None:
        raise UsageError("a resource is an http or https URL without query and fragment, but is "
                         + shorten(url))
    scheme, host, port, path = match.groups()
    return (scheme + host + (port or "")).lower(), "" if path in (None, "/") else path


def check_secure_url(what: str, url: str) -> None:
    """Raise UsageError unless a URL is https, or http on this machine.

    Spec: 2026-07-28 basic/authorization/security-considerations, Communication Security.
    """
    match = re.match(r"(https?)://([^/?#]*)", url) if isinstance(url, str) else None
    host = split_host(match.group(2)) if match else ""
    if not host or match.group(1) == "http" and not is_on_loopback(url):
        raise UsageError(f"{what} must be at an https URL (http on this machine only), but is at "
                         + shorten(url))


def is_on_loopback(url: str) -> bool:
    """Return whether what is at a URL is on this machine, as it says."""
    return is_loopback(split_host(re.split("[/?#]", url.partition("://")[2])[0]))


def expand_scopes(scopes: Iterable[str], implied: Mapping[str, Iterable[str]]) -> frozenset:
    """Return scopes with all that they imply, and what those imply."""
    found, waiting = set(), list(scopes)
    while waiting:
        scope = waiting.pop()
        if scope not in found:
            found.add(scope)
            waiting += implied.get(scope, ())
    return frozenset(found)


class Auth:
    """Who may call a server over HTTP, for `Server(auth=...)`. On stdio no token is asked for.

    `verify` takes a token and returns its Principal, or None when it is worth nothing here. It
    checks what makes a token genuine (its signature, or its row in a table); one that cannot tell
    at the moment raises TransportError. It runs in the thread of its request, for each request, and
    again every KEEP_ALIVE_SECONDS while a stream stands open.

    `authorization_servers` are the issuers whose tokens are accepted: with them the server
    publishes protected resource metadata (RFC 9728), from which clients learn where to log in.
    `scopes` are asked of every request, those of an item on top (`@server.tool(scopes=[...])`).
    `resource` is the URL by which clients know this endpoint, if it is not the one that it
    listens at: behind a proxy, or under a host name. A token with an `aud` claim must name that
    resource, or one of `audience` if that is given. `implied_scopes` maps a scope to the narrower
    ones that it includes. Raises UsageError for what makes no sense.
    """

    def __init__(self, verify: Callable[[str], Optional[Principal]], *,
                 authorization_servers: Collection[str] = (), scopes: Collection[str] = (),
                 resource: Optional[str] = None, audience: Collection[str] = (),
                 implied_scopes: Optional[Mapping[str, Collection[str]]] = None):
        if not callable(verify):
            raise UsageError("Auth needs a function that takes a token and returns a Principal or "
                             f"None, but is given {shorten(verify)}")
        self.verify = verify
        self.authorization_servers = check_names("authorization_servers", authorization_servers)
        self.scopes = check_scope_names(scopes)
        self.audience = check_names("audience", audience)
        self.resource = resource
        self.implied_scopes = {scope: check_scope_names(implied)
                               for scope, implied in (implied_scopes or {}).items()}
        for url in self.authorization_servers:
            check_secure_url("an authorization server", url)
        if resource is not None:
            split_resource(resource)

    parse_scopes = staticmethod(check_scope_names)        # those of an item

    def bind(self, url: str, host: str, name: str, runtime: Runtime) -> Access:
        """Return what judges the callers of a server, which listens at this URL.

        Raises UsageError if a server bound to this host has no URL to tell its clients.
        """
        if self.resource is None and self.authorization_servers and host in ("", "0.0.0.0", "::"):
            raise UsageError(f"a server on all addresses ({host}) must know its own: give Auth "
                             "the URL that clients use, as resource=")
        return Access(self, url, name, runtime)

    @classmethod
    def bearer(cls, tokens: Collection[str]) -> Auth:
        """Return an Auth for fixed tokens, each of which may do everything.

        The subject of a caller is "token 1" for the first of them, and so on.
        """
        return cls(StaticTokens(check_names("tokens", tokens)))

    @classmethod
    def introspection(cls, url: str, client_id: str, client_secret: str, *,
                      timeout: float = INTROSPECTION_SECONDS,
                      cache_seconds: float = TOKEN_CACHE_SECONDS, **options: Any) -> Auth:
        """Return an Auth that asks the introspection endpoint at a URL about each token (RFC 7662).

        `client_id` and `client_secret` are this server's own at the authorization server. What was
        answered holds for `cache_seconds`, never beyond a token's `exp`; no answer within `timeout`
        seconds is a 503. The answer must name this resource in `aud`. Options: those of Auth.
        """
        check_secure_url("the introspection endpoint", url)
        return cls(Introspection(url, (client_id, client_secret), timeout, cache_seconds),
                   **options)


class Access:
    """An Auth at one endpoint: what is published of it, and its verdict on each caller."""

    def __init__(self, auth: Auth, url: str, title: str, runtime: Runtime):
        self._auth, self._runtime = auth, runtime
        self.public_url = auth.resource
        resource = auth.resource or url
        self._audience = frozenset(map(_normalize, auth.audience or [resource]))
        self._metadata_url: Optional[str] = None
        self.documents: Dict[str, Document] = {}
        if auth.authorization_servers:
            origin, path = split_resource(resource)
            self._metadata_url = origin + RESOURCE_METADATA_PATH + path
            metadata = without_none({                     # Spec: RFC 9728, 2
                "resource": resource,
                "authorization_servers": list(auth.authorization_servers),
                "scopes_supported": list(auth.scopes) or None,
                "bearer_methods_supported": ["header"],
                "resource_name": title})
            document = Document(lambda url: metadata, headers=PUBLIC_HEADERS)
            # A proxy may have put the endpoint at another path than it has here.
            self.documents = {RESOURCE_METADATA_PATH + path: document
                              for path in ("", path, split_resource(url)[1])}

    def authenticate(self, head: Head) -> Principal:
        """Return the Principal that sent a request; raises HTTPError as `identify` does."""
        token = parse_bearer(head.headers.get("authorization"))
        if token is None:
            # Spec: RFC 6750, 3.1: no error code if the client knew of no need to authenticate.
            where = f"; {self._metadata_url} says who issues them" if self._metadata_url else ""
            raise self._error(401, None, "this server wants a token: send the header "
                              f"Authorization: Bearer TOKEN{where}", self._auth.scopes)
        if not token:
            raise self._error(401, "invalid_token", "the Authorization header must be Bearer and "
                              f"one token of at most {MAX_TOKEN_CHARS:,} letters, digits and "
                              "-._~+/=", self._auth.scopes)
        return self.identify(token)

    def identify(self, token: str) -> Principal:
        """Return the Principal that a token stands for now, its scopes complete.

        Raises HTTPError: 401 when it is worth nothing, 403 when it is worth too little, 503 when
        that cannot be found out, 500 when `verify` fails.
        """
        principal = self._verify(token)
        fault = "this token is unknown, revoked or expired" if principal is None else (
            find_claim_fault(principal.claims, self._audience, self._runtime.wall_now()))
        if fault is not None:
            raise self._error(401, "invalid_token", fault, self._auth.scopes)
        if principal.scopes is not None:
            principal = principal._replace(
                scopes=expand_scopes(principal.scopes, self._auth.implied_scopes))
        self.check_scopes(principal, ())
        return principal

    def recheck(self, head: Head, principal: Principal) -> bool:
        """Return whether the caller of an open stream is still who it was, with the same scopes."""
        try:
            known = self.identify(parse_bearer(head.headers["authorization"]))
        except HTTPError:                    # also if that cannot be found out
            return False
        return known[:2] == principal[:2]

    def _verify(self, token: str) -> Optional[Principal]:
        try:
            value = self._auth.verify(token)
            if value is not None and not (
                    isinstance(value, Principal) and isinstance(value.subject, str)
                    and not isinstance(value.scopes, str)):
                raise TypeError("verify must return a Principal (a str, and a list of scopes) or "
                                f"None, but returned a {type(value).__name__}")
            return value
        except (TransportError, ProtocolError) as error:
            self._runtime.log(f"a token cannot be checked: {error}")
            raise HTTPError(503, "tokens cannot be checked at the moment: try again soon",
                            (("Retry-After", "5"),), INTERNAL_ERROR) from None
        except BaseException:                # as for handlers: a stranger learns nothing of it
            self._runtime.log_exception("checking a token failed")
            raise HTTPError(500, "Internal error", code=INTERNAL_ERROR) from None

    def check_scopes(self, principal: Optional[Principal], scopes: Tuple[str, ...]) -> None:
        """Raise HTTPError (403) unless a caller has the scopes of every request and these.

        The challenge names all that is needed, so that one more login is enough.
        """
        needed = self._auth.scopes + tuple(
            scope for scope in scopes if scope not in self._auth.scopes)
        if principal is not None and not principal.has_scopes(needed):
            missing = " ".join(scope for scope in needed if scope not in principal.scopes)
            raise self._error(403, "insufficient_scope", f"the token lacks {missing}", needed)

    def _error(self, status: int, code: Optional[str], text: str,
               scopes: Iterable[str]) -> HTTPError:
        """Return the refusal that says in its challenge how to get a better token."""
        params = without_none({
            "error": code,
            "error_description": text if code else None,
            "resource_metadata": self._metadata_url,
            "scope": " ".join(scopes) or None})
        challenge = format_challenge("Bearer", params or {"realm": "mcp"})
        return HTTPError(status, text, (("WWW-Authenticate", challenge),))


def _normalize(audience: str) -> str:
    """Return an audience in the one spelling of its kind, so that two can be compared."""
    try:
        origin, path = split_resource(audience)
    except UsageError:                       # not every audience is a URL
        return audience
    return origin + path.rstrip("/")


def find_claim_fault(claims: Mapping, audience: frozenset, now: float) -> Optional[str]:
    """Return why a token with these claims is worth nothing here and now, None if it is not so.

    Spec: RFC 7519, 4.1. A claim that is missing says nothing; one that cannot be read is a fault.
    """
    expires, starts = claims.get("exp"), claims.get("nbf")
    if expires is not None and not (_is_number(expires) and now < expires):
        return "this token has expired"
    if starts is not None and not (_is_number(starts) and starts <= now + CLOCK_SKEW_SECONDS):
        return "this token is not valid yet"
    names = claims.get("aud", ())
    names = [names] if isinstance(names, str) else names
    if "aud" in claims and not (isinstance(names, (list, tuple)) and any(
            isinstance(name, str) and _normalize(name) in audience for name in names)):
        return "this token was issued for another audience"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---- two ways to verify

def _digest(token: str) -> bytes:
    # What is kept of a token, so that a dump of our memory has none of the tokens in use.
    import hashlib                  # it brings OpenSSL, which is large, and slow to load
    return hashlib.sha256(token.encode("utf-8")).digest()


class StaticTokens:
    """A `verify` for fixed tokens, compared in the same time wherever they differ."""

    def __init__(self, tokens: Tuple[str, ...]):
        for number, token in enumerate(tokens, 1):
            if not parse_bearer(f"Bearer {token}"):
                raise UsageError(f"token {number} cannot stand in a header: a token has letters, "
                                 "digits and -._~+/ only, and = at its end")
        if not tokens:
            raise UsageError("there are no tokens, so no caller could be let in")
        self._digests = list(map(_digest, tokens))

    def __call__(self, token: str) -> Optional[Principal]:
        import hmac
        digest, number = _digest(token), 0
        for candidate, known in enumerate(self._digests, 1):      # all of them, found or not
            number = candidate if hmac.compare_digest(digest, known) else number
        return Principal(f"token {number}", None) if number else None


class Introspection:
    """A `verify` that asks an authorization server, and remembers its answers for a while."""

    def __init__(self, url: str, credentials: Tuple[str, str], timeout: float,
                 cache_seconds: float):
        self._url, self._timeout, self._cache_seconds = url, timeout, cache_seconds
        # Spec: RFC 6749, 2.3.1.
        basic = ":".join(map(urllib.parse.quote_plus, credentials)).encode("ascii")
        self._headers = {
            "Accept": JSON_TYPE,
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": "Basic " + base64.b64encode(basic).decode("ascii"),
            "User-Agent": f"mcpkit/{__version__}"}
        self._pool = HTTPPool(Network(), INTROSPECTION_BYTES)
        self._lock = threading.Lock()
        # By digest, in the order of asking; each with the time until which it holds.
        self._known: Dict[bytes, Tuple[float, Optional[Principal]]] = {}      # guarded by _lock

    def __call__(self, token: str) -> Optional[Principal]:
        digest = _digest(token)
        with self._lock:
            until, principal = self._known.get(digest, (0.0, None))
        if time.monotonic() < until:
            return principal
        principal = self._ask(token, digest.hex())
        lasts = self._cache_seconds
        if principal is not None and _is_number(principal.claims.get("exp")):
            lasts = min(lasts, max(principal.claims["exp"] - int(time.time()), 0))
        with self._lock:
            self._known.pop(digest, None)
            self._known[digest] = (time.monotonic() + lasts, principal)
            while len(self._known) > MAX_KNOWN_TOKENS:
                del self._known[next(iter(self._known))]
        return principal

    def _ask(self, token: str, name: str) -> Optional[Principal]:
        """Return what the authorization server says of a token, None if it is not active.

        `name` is the subject if the answer has none. Raises TransportError or ProtocolError for
        no answer. Spec: RFC 7662, 2.2.
        """
        form = urllib.parse.urlencode({"token": token, "token_type_hint": "access_token"})
        status, _, data = self._pool.request("POST", self._url, self._headers,
                                             form.encode("ascii"), build_timeouts(self._timeout))
        if status != 200:
            advice = ": check client_id and client_secret" if status in (400, 401, 403) else ""
            raise ProtocolError(f"{self._url} answered with HTTP {status}{advice}")
        try:
            answer = parse_json(data)
        except ValueError as error:
            raise ProtocolError(f"{self._url} answered with no JSON: {error}") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("active"), bool):
            raise ProtocolError(f'{self._url} answered without "active": {shorten(answer)}')
        if not answer["active"]:
            return None
        names = [answer.get("sub"), answer.get("client_id"), name]
        scope = answer.get("scope")
        # The specification wants tokens that name us; one without audience may be for others.
        claims = types.MappingProxyType({"aud": (), **answer})
        return Principal(next(name for name in names if isinstance(name, str) and name),
                         frozenset(scope.split() if isinstance(scope, str) else ()), claims)


# ---- tokens of `serve`

def require_tokens(options: Any) -> Optional[Callable[[Server], None]]:
    """Return what lets in only callers with a token of --token-env or --token-file, if given."""
    sources = {}
    if options.token_env is not None:
        sources[f"the variable {options.token_env}"] = os.environ.get(options.token_env, "")
    if options.token_file is not None:
        sources[f"the file {options.token_file}"] = read_input("@" + options.token_file)
    tokens: List[str] = []
    for name, text in sources.items():
        lines = [line.strip() for line in text.splitlines()]
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise UsageError(f"{name} holds no token: put one a line there, say the output of "
                             "python3 -c 'import secrets; print(secrets.token_urlsafe())'")
        tokens += found
    if tokens and options.stdio:
        raise UsageError("--stdio asks for no token: whoever starts the server may use it")
    return (lambda server: setattr(server, "auth", Auth.bearer(tokens))) if tokens else None


__all__ += ["Auth", "Principal"]
SERVE_STEPS.append(require_tokens)
add_options(
    "serve",
    option("--token-env", metavar="NAME", help="let in only callers with the token that this "
           "environment variable holds"),
    option("--token-file", metavar="FILE",
           help="let in only callers with one of the tokens in it, one a line"))


# =============================================================================================
# 21. TASKS
# =============================================================================================
# In: a tools/call whose client takes a handle for an answer. Out: the handle, and by `tasks/get`
# what has become of the call. A task is a row of an SQLite database, in memory or in a file that
# several processes may use. Requests about it read and change the row, and so does the thread that
# runs it. Spec: SEP-2663, the extension io.modelcontextprotocol/tasks.

# Extensions are named as `_meta` members are. Spec: extensions/overview, Negotiation.
TASKS_EXTENSION = META_PREFIX + "tasks"
# What the client must have declared of itself before it gets a task, or asks for one.
TASKS_NEEDED = {"extensions": {TASKS_EXTENSION: {}}}
RESULT_TYPES["task"] = TASKS_NEEDED
POLL_SECONDS = 1.0                     # how often a client is advised to ask for a task
FOREVER_SECONDS = 1e9                  # as a number that JSON carries everywhere
BEAT_SECONDS = 0.5                     # how often a process marks its tasks as running
SILENT_SECONDS = 10.0                  # a process that has not done so for this long has ended
DATABASE_MARK = 0x6d637002             # "mcp" and the number of the form: the user_version

METHODS.update({name: Method(MODERN_VERSIONS, TASKS_EXTENSION, {"taskId": (str, True), **params},
                             "taskId", needs=TASKS_NEEDED)
                for name, params in (("tasks/get", {}), ("tasks/cancel", {}),
                                     ("tasks/update", {"inputResponses": (dict, True)}))})
LIMITS.update(
    max_tasks=(1000, "tasks kept at a time (the one that ended the longest time ago makes room)"),
    max_running_tasks=(100, "tasks that run at a time in one process (an error beyond)"),
    task_seconds=(3600.0, "seconds that a task is kept, from its call on, unless its tool says "
                          "otherwise"))


# ---- a task is the DetailedTask of the specification, with one member that is not shown to
# clients: `answers`, what they have answered so far, by key

def show_task(task: dict) -> dict:
    """Return what clients see of a task."""
    return {name: value for name, value in task.items() if name != "answers"}


def end_task(task: dict, status: str, message: Optional[str] = None, **outcome: dict) -> dict:
    """Return a task as it ended, with its `result` or `error`."""
    kept = {name: task[name] for name in ("taskId", "createdAt", "ttlMs", "pollIntervalMs")}
    return without_none({**kept, "status": status, "statusMessage": message, **outcome})


def fail_task(task: dict, error: MCPError) -> dict:
    """Return a task as it ended with an error."""
    return end_task(task, "failed", error.message, error=error.to_wire())


def answer_task(task: dict, responses: dict) -> dict:
    """Return a task with the answers to what it asks; others are ignored.

    Raises MCPError -32602 for an answer that breaks the rules; the question stays open then.
    """
    asked = dict(task.get("inputRequests", {}))
    given = {key: responses[key] for key in asked if key in responses}
    for key, response in given.items():
        read_answer(key, parse_input_request(asked.pop(key)), response)
    return task if not given else without_none({
        **task, "status": "input_required" if asked else "working",
        "inputRequests": asked or None, "answers": {**task.get("answers", {}), **given}})


def format_timestamp(seconds: float) -> str:
    """Return a moment since 1970 as ISO 8601, in UTC and to the millisecond."""
    whole, ms = divmod(round(seconds * 1000), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{ms:03}Z"


def count_ms(seconds: float) -> int:
    """Return seconds as the milliseconds of the wire: an integer, and more than 0."""
    return max(1, round(min(seconds, FOREVER_SECONDS) * 1000))


# ---- their database

def open_database(path: Union[str, os.PathLike, None]) -> Any:
    """Return a connection to the SQLite file of tasks, made if it is missing; None: in memory.

    Any thread may use it, one at a time, and says where its transactions begin and end. Raises
    UsageError for a file that cannot be used.
    """
    try:
        import sqlite3
    except ImportError:
        raise UsageError("this Python was built without sqlite3: it can keep no tasks") from None
    # A connection in memory may be dropped, and is closed then: newer Pythons would warn.
    factory = type("Database", (sqlite3.Connection,), {"__del__": lambda self: None})
    try:
        if path is not None:
            path = os.path.realpath(path)        # or SQLite would make what a link leads to
            # Only its owner may read what tasks hold. SQLite gives its other files the same mode.
            # A file that exists is not opened: closing it would undo the locks of SQLite.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        database = sqlite3.connect(path or ":memory:", timeout=5.0, isolation_level=None,
                                   check_same_thread=False, factory=factory)
        with database:
            run = database.execute
            run("BEGIN IMMEDIATE")
            (mark,), (tables,) = *run("PRAGMA user_version"), *run(
                "SELECT count(*) FROM sqlite_master")
            if not tables and not mark:
                # `seen` is when the process `owner`, which runs the task, was last heard of; NULL
                # if the task has ended.
                run("CREATE TABLE task (id TEXT PRIMARY KEY, principal TEXT, expires REAL, "
                    "owner TEXT, seen REAL, data TEXT)")
                run(f"PRAGMA user_version = {DATABASE_MARK}")
            elif mark != DATABASE_MARK:
                raise UsageError(f"{path} is an SQLite file, but not the state file of this "
                                 "version of mcpkit: name another")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")       # a power failure may cost the last moments
        return database
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"the state file {path} cannot be used: "
                         f"{getattr(error, 'strerror', None) or error}") from None


class Tasks:
    """The tasks of one server, and the calls that run as tasks in this process.

    They are in the SQLite file at `path`, or in memory (None). If the database cannot be read or
    written, methods raise MCPError, and the log says why.
    """

    def __init__(self, server: Server, path: Union[str, os.PathLike, None] = None):
        self.path = path
        self.server = server
        self._id = server.runtime.new_id()           # of this owner of tasks
        self._lock = server.runtime.new_lock()       # guards the rest; changes keep their order
        self._database: Any = None                   # opened by the first use
        self._calls: Dict[str, TaskCall] = {}        # by task id, while their threads run
        self._is_beating = False                     # whether the thread of `_beat` runs
        self._closed = server.runtime.new_event()

    @contextlib.contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[Callable]:
        """Give a block `execute`; what it did is kept unless it raises. Needs the lock."""
        if self._closed.is_set():
            raise MCPError(INTERNAL_ERROR, "This server is stopping: it keeps no tasks any more")
        if self._database is None:
            self._database = open_database(self.path)
        import sqlite3
        try:
            with self._database:
                self._database.execute("BEGIN " + kind)
                yield self._database.execute
        except sqlite3.Error as error:               # a full disk, say
            self.server.runtime.log(f"the state file {self.path} cannot be used: {error}")
            raise MCPError(INTERNAL_ERROR, "Internal error: no task can be kept or looked up here "
                           "at the moment; try again later") from None

    def create(self, task_id: str, principal: Optional[str], seconds: float,
               poll_seconds: float) -> dict:
        """Return a new task, which is kept; raises MCPError if too many are that have not ended.

        Those whose time is over go, and as many as need be of those that ended first.
        """
        limit, wall_now = self.server.limits.max_tasks, self.server.runtime.wall_now()
        moment = format_timestamp(wall_now)
        task = {"taskId": task_id, "status": "working", "createdAt": moment,
                "lastUpdatedAt": moment, "ttlMs": count_ms(seconds),
                "pollIntervalMs": count_ms(poll_seconds)}
        with self._lock, self._transaction() as run:
            now = self.server.runtime.now()          # not before others have written theirs
            run("DELETE FROM task WHERE expires <= ?", (wall_now,))
            excess = max(0, run("SELECT count(*) FROM task").fetchone()[0] + 1 - limit)
            # The order of the row ids is that of the last changes.
            if run("DELETE FROM task WHERE rowid IN (SELECT rowid FROM task WHERE (seen BETWEEN ? "
                   "AND ?) IS NOT 1 ORDER BY rowid LIMIT ?)",
                   (now - SILENT_SECONDS, now, excess)).rowcount < excess:
                raise MCPError(INTERNAL_ERROR, f"Too many tasks: {limit} are kept here and none "
                               "has ended; try again later")
            run("INSERT INTO task VALUES (?, ?, ?, ?, ?, ?)", (
                task_id, principal, wall_now + task["ttlMs"] / 1000, self._id, now,
                encode_json(task)))
        return task

    def read(self, task_id: str, principal: Optional[str]) -> Optional[dict]:
        """Return a task of a principal as it is now, None if there is none any more.

        One has failed if it does not run here any more, or the process that ran it has not been
        heard of for SILENT_SECONDS.
        """
        runtime = self.server.runtime
        if not task_id.isascii():        # no id of ours; and SQLite takes no lone surrogates
            return None
        with self._lock, self._transaction("DEFERRED") as run:
            row = run("SELECT data, owner, seen FROM task WHERE id = ? AND principal IS ? AND "
                      "expires > ?", (task_id, principal, runtime.wall_now())).fetchone()
        task = row and json.loads(row[0])
        if row is None or row[2] is None or task_id in self._calls or row[1] != self._id and (
                0 <= runtime.now() - row[2] <= SILENT_SECONDS):
            return task
        interrupted = MCPError(INTERNAL_ERROR, "the task was interrupted: what ran it has ended "
                               "without an outcome; call again")
        with contextlib.suppress(MCPError):      # what cannot be written is so all the same
            return self.change(task_id, lambda task: fail_task(task, interrupted))
        return fail_task(task, interrupted)

    def change(self, task_id: str, change: Callable[[dict], dict]) -> Optional[dict]:
        """Change a task that has not ended and notify those who listen; return how it is then."""
        with self._lock:
            with self._transaction() as run:
                row = run("SELECT data, seen FROM task WHERE id = ?", (task_id,)).fetchone()
                task = row and json.loads(row[0])
                changed = task if row is None or row[1] is None else change(task)
                if changed == task:
                    return task
                changed["lastUpdatedAt"] = format_timestamp(self.server.runtime.wall_now())
                is_over = changed["status"] in ("completed", "failed", "cancelled")
                run("UPDATE task SET rowid = (SELECT max(rowid) + 1 FROM task), data = ?, "
                    "seen = CASE WHEN ? THEN NULL ELSE seen END WHERE id = ?",
                    (encode_json(changed), is_over, task_id))
            if task_id in self._calls:
                self._calls[task_id].wake(is_over)
            # Spec: SEP-2663, Task Status Notifications: in the order of changes.
            self.server.notify("notifications/tasks", show_task(changed),
                               lambda wanted: task_id in wanted.others.get("taskIds", ()))
            return changed

    def start(self, call: TaskCall, body: Callable[[], None]) -> None:
        """Run the body of a call in a thread of its own; raises MCPError if too many run."""
        def run() -> None:
            try:
                body()
            finally:
                with self._lock:
                    del self._calls[call.id]

        if self._closed.is_set():
            raise MCPError(INTERNAL_ERROR, "This server is stopping: no task begins here any more")
        limit = self.server.limits.max_running_tasks
        with self._lock:
            try:
                if len(self._calls) >= limit:
                    raise RuntimeError
                self._calls[call.id] = call
                if not self._is_beating:
                    self.server.runtime.start_thread(self._beat)
                    self._is_beating = True
                self.server.runtime.start_thread(run)
            except RuntimeError:                     # also if the system has no thread left
                self._calls.pop(call.id, None)
                raise MCPError(INTERNAL_ERROR, f"Too many tasks: no more than {limit} run here at "
                               "a time; try again later") from None

    def _beat(self) -> None:
        """Mark what runs here as alive and see what others have changed, until nothing runs."""
        runtime = self.server.runtime
        while True:
            with self._lock:
                if not self._calls or self._closed.is_set():
                    self._is_beating = False
                    return
            with contextlib.suppress(MCPError), self._lock, self._transaction() as run:
                for call in self._calls.values():
                    found = run("UPDATE task SET seen = ? WHERE id = ? AND seen IS NOT NULL AND "
                                "expires > ?", (runtime.now(), call.id, runtime.wall_now()))
                    call.wake(call.task is not None and not found.rowcount)
            self._closed.wait(BEAT_SECONDS)

    def suspend(self) -> None:
        """Close the file, if there is one: it must not be open in a fork. It opens by itself."""
        if self.path is not None and self._database is not None:
            self._database.close()
            self._database = None

    def check_shareable(self) -> None:
        """Raise UsageError if other processes of this server could not know of its tasks."""
        if self.path is None and TASKS_EXTENSION in self.server.features:
            raise UsageError("workers do not know each other's tasks unless they are kept in a "
                             "file: name one with --state")

    def close(self) -> None:
        """Have what runs see that it is cancelled, and close the database; waits for nothing."""
        with self._lock:
            if self._database is not None:
                # In one statement: handlers that stop for nothing may leave us little time.
                with contextlib.suppress(MCPError), self._transaction() as run:
                    run("UPDATE task SET seen = -1e9 WHERE owner = ? AND seen IS NOT NULL",
                        (self._id,))
                self._database.close()
            self._closed.set()
        for call in tuple(self._calls.values()):
            call.wake(True)


class TaskCall(Channel):
    """A `tools/call` that becomes a task; then it is its handler's channel and asks for it, too.

    The handler runs in a thread of its own. What that does first answers the call: it asks before
    there is a task, it starts the task, or it fails. There is no stream to send anything on: log
    messages are dropped, as the specification has it.
    """

    def __init__(self, tasks: Tasks, context: Context, seconds: Optional[float],
                 poll_seconds: float):
        self.id = tasks.server.runtime.new_id()
        self.task: Optional[dict] = None             # as it was created
        self._tasks = tasks
        self._route = context.route
        self._seconds = (seconds or tasks.server.limits.task_seconds, poll_seconds)
        self.answers: Any = queue.SimpleQueue()      # of the call, or errors: the first one counts
        self._changed = tasks.server.runtime.new_event()     # set when the task may have changed
        self._keys: set = set()                      # all that were ever asked under

    def start(self) -> TaskCall:
        """Create the task, unless that has been done, and answer the call with its handle."""
        if self.task is None:
            self.task = self._tasks.create(self.id, self._route.subject, *self._seconds)
            self.answers.put({"resultType": "task", **self.task})
        return self

    def run(self, handler: Callable[[], dict], name: str) -> None:
        """Run a handler, which returns a result, to its end: the body of the thread."""
        try:
            result = handler()
            self.start()
            end = functools.partial(end_task, status="completed", result=result)
        except InputRequired as pause:
            self.answers.put(pause.result)
            return
        except BaseException as error:
            shown = self._tasks.server.explain(error, name)
            self.answers.put(shown)
            end = functools.partial(fail_task, error=shown)
        with contextlib.suppress(MCPError):          # the log says why it cannot be written
            self._tasks.change(self.id, end)

    def wake(self, is_over: bool) -> None:
        """Have the handler see that the task may have changed, or is over."""
        self.cancelled = self.cancelled or is_over
        self._changed.set()

    def send_progress(self, token: Any, progress: float, total: Optional[float],
                      message: Optional[str]) -> None:
        """Show the message, if there is one, as the task's status message."""
        if message is not None:
            with contextlib.suppress(MCPError):      # a full disk is no reason to end the work
                self._tasks.change(self.id, lambda task: {**task, "statusMessage": message})

    def ask(self, questions: Dict[str, Question]) -> dict:
        """Return the answers by key, when all are there; raises TransportError when none will be.

        Keys are those of the author, but never the same twice in the life of a task.
        """
        names, requests = {}, {}
        for key, question in questions.items():
            names[key] = next(name for name in chain([key], (f"{key}-{n}" for n in count(2)))
                              if name not in self._keys)
            self._keys.add(names[key])
            requests[names[key]] = build_input_request(question, self._route.version)
        task = self._tasks.change(self.id, lambda task: {
            **task, "status": "input_required",
            "inputRequests": {**task.get("inputRequests", {}), **requests}})
        while not (self.cancelled or task and set(requests) <= set(task.get("answers", ()))):
            self._changed.wait()
            self._changed.clear()
            task = self._tasks.read(self.id, self._route.subject)
        if self.cancelled:
            raise TransportError("the task was over before what it asked was answered")
        return {key: read_answer(key, question, task["answers"][names[key]])
                for key, question in questions.items()}


# ---- how it is added to a server

def use_store(server: Server, state: Union[str, os.PathLike, None]) -> None:
    """Keep the tasks of a server in this file from now on, None: in memory. For before serving.

    The file still has them when the process has ended, and several processes may use it at once.
    Raises UsageError for a file that cannot be used.
    """
    server.extras["tasks"] = Tasks(server, state)
    if state is not None:
        open_database(state).close()


def get_tasks(server: Server) -> Tasks:
    """Return the tasks of a server, in memory until `use_store` names a file."""
    if "tasks" not in server.extras:
        use_store(server, None)
    return server.extras["tasks"]


def build_task_runner(server: Server, task: Optional[str] = None, asks: str = "within",
                      task_seconds: Optional[float] = None,
                      poll_seconds: float = POLL_SECONDS) -> Optional[Callable]:
    """Return what runs the calls of a tool that may become tasks, None if it may not.

    `task` "optional" has a call answered at once with the handle of a task, if the client
    has declared the extension, and run as usual for others; "required" refuses others with
    -32021. A tool that `asks` "within" its task waits there for the answers. One that asks
    "before" does so as any tool does, run again for each round, until it calls
    `ctx.start_task()` or ends: only then there is a task. It is kept for `task_seconds` from
    then on (None: the server's limit), and clients are advised to look each `poll_seconds`.
    """
    if task not in (None, "optional", "required"):
        raise UsageError(must_be("task", '"optional" or "required"', task))
    if asks not in ("within", "before"):
        raise UsageError(must_be("asks", '"within" or "before" (the task)', asks))
    for name, value in (("task_seconds", task_seconds), ("poll_seconds", poll_seconds)):
        if not (value is None or value > 0):
            raise UsageError(must_be(name, "more than 0", value))
    if task is None:
        return None
    get_tasks(server)
    server.add_features({TASKS_EXTENSION})

    def run_task_tool(tool: Item, bound: dict, context: Context) -> dict:
        # Spec: Backward Compatibility: what a legacy client declares does not count.
        declared = context.client_capabilities if context.route.era == "modern" else {}
        if task == "required":
            check_declared(TASKS_NEEDED, declared)
        if find_undeclared(TASKS_NEEDED, declared):
            return run_tool(tool, bound, context)
        call = context.extra = TaskCall(server.tasks, context, task_seconds, poll_seconds)

        def handler() -> dict:
            if asks == "within":
                context.start_task()
            result = server.complete(run_tool(tool, bound, context), context.route)
            encode_json(result)          # what could never be sent is no outcome
            return result
        server.tasks.start(call, lambda: call.run(handler, f"tool {tool.key} as a task"))
        answer = call.answers.get()
        if isinstance(answer, MCPError):
            raise answer
        return answer
    return run_task_tool


def start_task(context: Context) -> None:
    """Go on as a task: the call is answered now, and what follows may take its time.

    For a tool that `asks="before"`, which calls this after its last question; what it asks
    from then on, it asks within the task. If the call is no task, or is one already, nothing
    happens. Raises MCPError if there are too many tasks (send it on).
    """
    if context.extra is not None:
        context.channel = context.extra.start()
        context.asker = context.extra.ask


def find_task(server: Server, params: dict, context: Context) -> dict:
    """Return the task that a request is about; MCPError -32602, the same for all that is not."""
    task = server.tasks.read(params["taskId"], context.route.subject)
    if task is None:
        raise MCPError(INVALID_PARAMS, f"Unknown task: {shorten(params['taskId'], 80)} has "
                       "expired, or never was")
    return task


def handle_tasks_get(server: Server, params: dict, context: Context) -> dict:
    """Say how a task is, and what came of it."""
    return show_task(find_task(server, params, context))


def handle_tasks_update(server: Server, params: dict, context: Context) -> dict:
    """Take answers to what a task asks."""
    server.tasks.change(find_task(server, params, context)["taskId"],
                        lambda task: answer_task(task, params["inputResponses"]))
    return {}


def handle_tasks_cancel(server: Server, params: dict, context: Context) -> dict:
    """End a task for its client at once; its handler sees `ctx.cancelled`."""
    server.tasks.change(find_task(server, params, context)["taskId"],
                        lambda task: end_task(task, "cancelled", "cancelled by the client"))
    return {}


def may_hear_of_task(server: Server, task_id: str, context: Context) -> bool:
    """Return whether a caller may be notified of a task; -32021 if it does not know tasks."""
    check_declared(TASKS_NEEDED, context.client_capabilities)
    return server.tasks.read(task_id, context.route.subject) is not None


Server.tasks = property(get_tasks)
Context.start_task = start_task
HANDLERS.update({"tasks/get": handle_tasks_get, "tasks/update": handle_tasks_update,
                 "tasks/cancel": handle_tasks_cancel})
SERVER_OPTIONS["state"] = use_store
TOOL_OPTIONS["task", "asks", "task_seconds", "poll_seconds"] = build_task_runner
FILTER_GRANTS["taskIds"] = may_hear_of_task
SERVE_STEPS.append(lambda options: None if options.state is None else (
    lambda server: use_store(server, options.state)))
add_options("serve", option("--state", metavar="FILE",
                            help="keep tasks in this file, also when the server ends"))


# =============================================================================================
# 22. WORKERS
# =============================================================================================
# Processes that serve one address together. The first binds it, forks the workers and looks after
# them; it runs no server and has no threads, for only such a process may fork. Workers have nothing
# in common but the listening socket, so a server that keeps something in memory can have none.

WORKER_SECONDS = 30.0                  # that a worker may take before it serves
STEADY_SECONDS = 10.0                  # a worker that lived so long did not die of how it began
REPLACE_SECONDS = 0.25                 # before a worker that died again is replaced; then doubled
REPLACE_MOST_SECONDS = 30.0


def run_workers(make: Callable[[], Server], stdio: bool, workers: int, host: str = "127.0.0.1",
                port: int = 8000, **options: Any) -> None:
    """Serve what `make` returns, in each of so many processes, until a signal says stop.

    Each makes it for itself, after the fork; SIGHUP replaces them, one after the other. A worker
    leaves by `os._exit`, so what a file has registered with `atexit` is not called. Raises
    UsageError if this process can have no workers, or the server cannot be shared.
    """
    if type(workers) is not int or workers < 1:
        raise UsageError(must_be("workers", "a number of processes", workers))
    if stdio:
        raise UsageError("--stdio is a conversation with one process: leave out --workers")
    if not hasattr(os, "fork"):
        raise UsageError("--workers forks, which this system cannot: start several servers on "
                         "ports of their own, with --instance, behind a proxy")
    if threading.active_count() > 1:
        raise UsageError("--workers forks, which a program with threads cannot: start none before "
                         "run(), or have `mcpkit.py serve FILE --workers N` load the file")
    listener = systemd_socket() or open_listener(host, port)
    secret, first = os.urandom(32), os.getpid()

    def serve(number: int, greet: Callable[[str], None], must_stop: Callable[[], Any]) -> None:
        # The threads of one Python process take turns: that is faster if they change no cores, and
        # fairer if one that is woken does not push aside the one that runs.
        with contextlib.suppress(AttributeError, OSError):       # not on macOS and Windows
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[(first + number) % len(cores)]})
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        with contextlib.closing(make()) as server:
            if server.keeps_sessions:
                raise UsageError("workers do not know each other's sessions: serve without them "
                                 "(--no-sessions), or start several servers with --instance "
                                 "behind a proxy")
            for extra in server.extras.values():
                extra.check_shareable()
            if not os.environ.get("MCPKIT_SECRET"):
                server.runtime = server.runtime._replace(secret=secret)
            service = HTTPService(server, listener=listener, **options)
            greet(describe_service(service, f" with {workers} worker{'s' * (workers > 1)}"))
            run_until(service, must_stop)

    Workers(workers, serve, listener).run()


class Workers:
    """The processes in a number of places, from their start to their end.

    What a worker does is `serve(number, greet, must_stop)`: it calls `greet` with a line once it
    serves, and returns after `must_stop` says so. A MCPKitError that it raises is passed on.
    """

    def __init__(self, count: int, serve: Callable, listener: socket.socket):
        self._serve = serve
        self._listener = listener          # of all of us
        self._pid = os.getpid()
        self._had_terminal = has_terminal()
        self._signals: List[int] = []      # those that say stop
        self._must_reload = False          # SIGHUP has come
        self._places = [types.SimpleNamespace(
            pid=None,                      # of the worker, None: to be filled when it is `due`
            started=0.0, due=0.0, deaths=0) for _ in range(count)]     # one soon after the other
        self._leaving: List[int] = []      # workers that have been asked to stop

    def run(self) -> None:
        """Have every place filled until a signal says stop.

        Raises UsageError if one of the first workers does not come to serve.
        """
        with catch_signals(self._receive_signal):
            try:
                for number, place in enumerate(self._places):
                    greeting = self._start(place)
                    if number == 0 and greeting:
                        print_out(greeting)
                        flush_out()
                while not self._signals:
                    if self._must_reload:
                        self._must_reload = False        # before: another may come meanwhile
                        self._reload()
                    self._replace_dead()
                    time.sleep(0.1)
            finally:
                self._stop()

    def _receive_signal(self, number: int, _: Any) -> None:
        import signal
        # SIGHUP says stop only if it means that our terminal was closed.
        if number == signal.SIGHUP and (has_terminal() or not self._had_terminal):
            self._must_reload = True
        else:
            self._signals.append(number)

    def _start(self, place: Any) -> str:
        """Put a new worker in a place; return its greeting once it serves, "" if we must stop.

        Raises UsageError if it does not come to serve.
        """
        import signal
        reader, writer = os.pipe()
        flush_out()
        pid = os.fork()
        if pid == 0:
            self._work(self._places.index(place), writer)
        os.close(writer)
        word, deadline = "", time.monotonic() + WORKER_SECONDS
        while not (word or self._signals):
            if select.select([reader], [], [], 0.1)[0]:
                word = os.read(reader, 65536).decode("utf-8", "replace") or "-"
            elif time.monotonic() > deadline:
                word = f"-a worker did not come to serve within {WORKER_SECONDS:g} s"
        os.close(reader)
        if word[:1] == "+":
            place.pid, place.started = pid, time.monotonic()
            return word[1:]
        os.kill(pid, signal.SIGKILL)
        end = find_end(pid, 0)
        if self._signals:
            return ""
        raise UsageError(word[1:] or f"a worker {end} before it served")

    def _work(self, number: int, writer: int) -> None:
        """Be a worker, in the process that has just been forked, to its end."""
        import signal
        code = 1
        try:
            self._serve(number, lambda greeting: os.write(writer, b"+" + greeting.encode(
                "utf-8", "replace")), lambda: (
                    # Ctrl-C and SIGHUP are for our parent to understand.
                    signal.SIGTERM in self._signals or os.getppid() != self._pid))
            code = 0
        except MCPKitError as error:
            os.write(writer, b"-" + str(error).encode("utf-8", "replace"))
        except BaseException:
            log_exception("a worker failed")
        finally:                           # what called us goes on in our parent alone
            with contextlib.suppress(Exception):
                flush_out()
            os._exit(code)

    def _replace_dead(self) -> None:
        """See who has died, and fill the places that are due: later and later if that goes on."""
        self._leaving = [pid for pid in self._leaving if find_end(pid) is None]
        for place in self._places:
            now, cause = time.monotonic(), None
            if place.pid is not None:
                end = find_end(place.pid)
                cause = end and f"worker {place.pid} {end}"
                if end and now - place.started >= STEADY_SECONDS:
                    place.deaths = 0
            elif place.due <= now:
                try:
                    self._start(place)
                except UsageError as error:
                    cause = str(error)
            if cause:
                delay = min(REPLACE_SECONDS * 2 ** (place.deaths - 1), REPLACE_MOST_SECONDS)
                delay = delay if place.deaths else 0.0
                place.pid, place.due, place.deaths = None, now + delay, min(place.deaths + 1, 20)
                log_line(f"{cause}: another takes its place" + (
                    f" in {delay:g} s" if delay else ""))

    def _reload(self) -> None:
        """Put a new worker in each place; if one does not come to serve, leave the rest."""
        for place in self._places:
            former = place.pid
            try:
                greeting = self._start(place)
            except UsageError as error:
                log_line(f"not reloaded: {error}")
                return
            if not greeting:
                return
            self._dismiss(former)
        log_line("reloaded")

    def _dismiss(self, pid: Optional[int]) -> None:
        """Have a worker stop, if there is one."""
        import signal
        if pid is not None:
            self._leaving.append(pid)
            with contextlib.suppress(OSError):         # it has died, and may have been reaped
                os.kill(pid, signal.SIGTERM)

    def _stop(self) -> None:
        """Have all workers end; by force those that take too long, and all on a second signal."""
        import signal
        seen, deadline = len(self._signals), time.monotonic() + STOP_SECONDS + 0.8
        self._listener.close()
        for place in self._places:
            self._dismiss(place.pid)
        while self._leaving:
            if len(self._signals) > seen or time.monotonic() > deadline:
                for pid in self._leaving:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            self._leaving = [pid for pid in self._leaving if find_end(pid) is None]
        if len(self._signals) > seen:
            os._exit(128 + self._signals[-1])


def find_end(pid: int, flags: Optional[int] = None) -> Optional[str]:
    """Return how a process of ours has ended; None if it runs (flags 0: wait for its end)."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG if flags is None else flags)
    except ChildProcessError:              # something else has asked for it
        return "ended"
    if not ended:
        return None
    code = os.waitstatus_to_exitcode(status)
    return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"


def has_terminal() -> bool:
    """Return whether there is a terminal that this process would end with."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY))
        return True
    except OSError:
        return False


RUN_OPTIONS["workers"] = run_workers
add_options("serve", option("--workers", type=parse_count, metavar="N",
                            help="serve with N processes (SIGHUP replaces them)"))


# =============================================================================================
# 23. HTTP+SSE
# =============================================================================================
# The HTTP+SSE transport of 2024-11-05: each message is a POST, and all answers come on the stream
# of one GET, whose first event names where to POST. A client falls back to it when a server
# refuses the POST of an `initialize`. Spec: 2024-11-05 transports, HTTP with SSE.

SSE_SIGNS = (400, 404, 405)              # statuses with which a server of 2024 may refuse a POST


class SSETransport(SharedStream, HTTPTransport):
    """Messages by the HTTP+SSE transport."""

    name = "HTTP+SSE"
    version = "2024-11-05"

    def __init__(self, url: str, options: TransportOptions = TransportOptions()):
        HTTPTransport.__init__(self, url, options)
        SharedStream.__init__(self, url, options)         # `url` becomes that of the POSTs
        self._opened = threading.Event()                  # or found not to be of this transport
        self._fault: Optional[MCPKitError] = None
        self.stream = Call(None, _ignore)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def open(self, waits: Timeouts) -> bool:
        """Open the stream; return whether there is one.

        Raises ProtocolError for a stream that is not of this transport.
        """
        self._waits = waits
        self._thread.start()
        self._opened.wait()                               # the thread keeps to the time limit
        if self.stream.aborted.is_set():
            raise TransportError("the connection was closed")
        if self._fault is not None and self.stream.has_stream:
            raise ProtocolError(f"a GET opens an event stream, but {self._fault}: this is "
                                "not MCP")
        return self.stream.has_stream

    def _run(self) -> None:
        """Read the stream to its end."""
        try:
                self._send(self.stream, "GET", None, {"Accept": STREAM_TYPE}, self._waits)
        except MCPKitError as error:
            self._fault = error
        self._end(str(self._fault or "there was no event stream"))
        self._opened.set()

    def _read_stream(self, call: Call, response: HTTPResponse) -> Any:
        response.max_bytes = math.inf                     # that limit is one of each event
        parser = SSEParser(self.options.max_bytes)
        for data in iter(response.read_some, b""):
            self._heard = time.monotonic()
            for event in parser.feed(data):
                if self._opened.is_set():
                    self._take(read_event_value(event))
                    continue
                self.url = find_endpoint(event, response.url)
                # From here on the time limits are those of the requests.
                response.waits = build_timeouts(LISTEN_SECONDS)
                self._opened.set()
        if not self._opened.is_set():
            raise ProtocolError("it ended without the event endpoint")
        unfinished = len(parser.close())
        raise TransportError("connection: the server ended the event stream" + (
            f"; {unfinished} bytes of an unfinished event were discarded" if unfinished else ""),
            layer="http", hint=SEE_LOG)

    def exchange(self, message: dict, headers: Headers, waits: Timeouts,
                 on_message: Callable[[dict], None], may_resume: bool = False) -> Incoming:
        """POST one message and wait for the answer to it on the stream."""
        request_id = message.get("id") if "method" in message else None
        # Neither a version nor a session had a header then.
        headers = {"Accept": RPC_ACCEPT, "Content-Type": JSON_TYPE}
        with self._expect(request_id) as answers:
            sent = self._send(Call(), "POST", format_own(message), headers, waits)
            if request_id is None or not 200 <= sent.status < 300:
                return sent
            started = time.monotonic()
            value = self._wait(answers, waits)
        data = format_message(value)
        self.options.observe(Exchange("SSE", self.endpoint, {}, b"", None, {}, data[:NOTED_BYTES],
                                      len(data), True, time.monotonic() - started, None))
        return Incoming(sent.status, sent.headers, parse_answer(value, request_id), shorten(value))

    def close(self) -> None:
        """Close the stream, which ends the session."""
        super().close()
        if self._thread.ident is not None:
            self._thread.join(2.0)


def find_endpoint(event: SSEEvent, url: str) -> str:
    """Return the URL to POST to that the first event on the stream of a URL names.

    Raises ProtocolError if it names none, or one to which our credentials do not belong.
    """
    if event.event != "endpoint":
        raise ProtocolError(f"its first event is {shorten(event.event)}, not endpoint")
    endpoint = resolve_reference(url, event.data) if event.data.strip() else None
    if endpoint is None:
        raise ProtocolError("its event endpoint holds no URL to POST to: "
                            f"{shorten(event.data) or '(nothing)'}")
    if not is_same_origin(endpoint, url):
        raise ProtocolError(f"its event endpoint names {shorten(endpoint)}, which is another "
                            "origin, and nothing is sent there")
    return endpoint


def open_sse(transport: Any, refusal: Incoming, waits: Timeouts) -> Optional[SSETransport]:
    """Return the HTTP+SSE transport of a server that refused a POST, None if it has none."""
    error = refusal.response.error if refusal.response else None
    if transport.shares_stream or refusal.status not in SSE_SIGNS or (
            error is not None and error.code in MODERN_ERRORS):
        return None
    other = SSETransport(transport.endpoint, transport.options)
    transport.calls["HTTP+SSE"] = other.stream            # so that closing it ends the wait
    is_open = False
    try:
        is_open = other.open(waits)
    except ProtocolError as error:
        raise ProtocolError(f"{build_status_error(refusal)}; {error}") from None
    finally:
        transport.calls.pop("HTTP+SSE", None)
        (transport if is_open else other).close()
    return other if is_open else None


FALLBACKS.append(open_sse)


# =============================================================================================
# 24. LOGIN
# =============================================================================================
# In: what a server that refuses us says, and the documents and answers that this leads to. Out:
# tokens, which an OAuth gets, keeps and renews for a Client. What comes from outside is compared
# before it is believed, strings as they are: two spellings of one URL are two issuers. Signatures
# are made by the openssl program. Spec: 2026-07-28 basic/authorization.

REDIRECT_PATH = "/callback"            # where a login comes back to this machine
DEFAULT_REDIRECT = "http://127.0.0.1:33418" + REDIRECT_PATH
LOGIN_SECONDS = 300.0                  # that a person has for a login
LOGIN_BYTES = 1024 * 1024              # of a document that a login reads
LOCK_SECONDS = 60.0                    # that a client waits for others who change the tokens
ASSERTION_SECONDS = 300                # that a signed proof of who we are is good for

ISSUER_METADATA_PATH = "/.well-known/oauth-authorization-server"      # RFC 8414, 3
OPENID_METADATA_PATH = "/.well-known/openid-configuration"
OAUTH_URN = "urn:ietf:params:oauth:"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TOKEN_SCHEMES = {"bearer": "Bearer", "dpop": "DPoP"}
SECRET_METHODS = ["client_secret_basic", "client_secret_post", "none"]      # best first
NO_PASSPHRASE = ("-passin", "pass:")      # or openssl would ask the terminal for one, and wait

# How a token is got, and the grant types in the registration of a client that does so.
GRANTS = {
    "authorization_code": ["authorization_code", "refresh_token"],
    "client_credentials": ["client_credentials"],
    "jwt_bearer": [OAUTH_URN + "grant-type:jwt-bearer"],    # RFC 7523
    "stored": [],                                           # only while an earlier login lasts
}


class AuthChallenge(NamedTuple):
    """What a 401 or 403 asks of the client. Spec: RFC 6750, 3; RFC 9728, 5.1; RFC 9449, 9."""

    error: str = ""
    scopes: Tuple[str, ...] = ()
    metadata_url: Optional[str] = None


def parse_auth_challenge(headers: Headers) -> AuthChallenge:
    """Return what the challenges for a token ask; those of other schemes do not count."""
    params = join_params(challenge for challenge in parse_challenges(
        headers.get("www-authenticate", "")) if challenge.scheme in TOKEN_SCHEMES)
    return AuthChallenge(params.get("error", ""), split_scopes(params.get("scope")),
                         params.get("resource_metadata"))


def split_scopes(value: Any) -> Tuple[str, ...]:
    """Return the scopes in a text or a list, each once, without what cannot be a scope."""
    names = re.split(r"[\s,]+", value) if isinstance(value, str) else find_list(value)
    return tuple(dict.fromkeys(name for name in names
                               if isinstance(name, str) and re.fullmatch(_SCOPE, name)))


# ---- documents: who issues the tokens of a resource, and how

def list_resource_metadata_urls(url: str, named: Optional[str]) -> List[str]:
    """Return where the metadata of the resource at a URL may be, in the order of asking.

    `named` is what the challenge names. Spec: Protected Resource Metadata Discovery Requirements.
    """
    origin, path = split_resource(url.partition("?")[0])
    root = origin + RESOURCE_METADATA_PATH
    return list(dict.fromkeys(([named] if named else []) + [root + path, root]))


def list_resource_names(url: str) -> List[str]:
    """Return the names that the resource at a URL may have: its own, and those of its parents."""
    origin, path = split_resource(url.partition("?")[0])
    parts = path.rstrip("/").split("/")
    names = [origin + "/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return [spelling for name in names for spelling in (name, name + "/")]


def list_issuer_metadata_urls(issuer: str) -> List[str]:
    """Return where an authorization server's metadata may be, in the order of asking.

    Spec: Authorization Server Metadata Discovery.
    """
    origin, path = split_resource(issuer)
    path = path.rstrip("/")
    appended = [origin + path + OPENID_METADATA_PATH] if path else []
    return [origin + ISSUER_METADATA_PATH + path, origin + OPENID_METADATA_PATH + path, *appended]


def check_named_url(what: str, url: Any, author: str) -> None:
    """Raise ProtocolError unless a URL that the server at the URL `author` names may be asked.

    It is https, or http on this machine if its author is there too: a server elsewhere must not
    have us ask what only we can reach. Spec: security best practices, SSRF.
    """
    try:
        check_secure_url(what, url)
    except UsageError as error:
        raise ProtocolError(str(error)) from None
    if url.startswith("http:") and not is_on_loopback(author):
        raise ProtocolError(f"{what} is at {shorten(url)}, on this machine, says a server that is "
                            "elsewhere: nothing is asked there")
    if not re.fullmatch(r"[!-~]+", url):
        raise ProtocolError(f"{what} has a URL with characters that none has: {shorten(url)}")


class Resource(NamedTuple):
    """A protected resource, as it names itself, and the issuers of its tokens."""

    name: str
    issuers: Tuple[str, ...]
    scopes: Tuple[str, ...] = ()


def parse_resource_metadata(document: dict, url: str) -> Resource:
    """Return the Resource in the metadata of the endpoint at a URL; ProtocolError if not its.

    Spec: RFC 9728, 3.3: a document about something else is not to be used.
    """
    name, issuers = document.get("resource"), find_list(document.get("authorization_servers"))
    names = list_resource_names(url)
    if name not in names:
        raise ProtocolError(f"the metadata is of the resource {shorten(name)}, not of {names[0]}: "
                            "a token for it would be meant for another server")
    if not issuers:
        raise ProtocolError("the resource metadata names no authorization_servers")
    for issuer in issuers:
        check_named_url("an authorization server", issuer, url)
        if re.search(r"[?#]", issuer):        # Spec: RFC 8414, 2
            raise ProtocolError(f"an issuer has no query and no fragment, but is {shorten(issuer)}")
    return Resource(name, tuple(issuers), split_scopes(document.get("scopes_supported")))


class Issuer(NamedTuple):
    """An authorization server, as its metadata describes it. Spec: RFC 8414, 2."""

    name: str
    token_endpoint: str
    authorization_endpoint: Optional[str] = None
    registration_endpoint: Optional[str] = None
    scopes: Tuple[str, ...] = ()
    auth_methods: Tuple[str, ...] = ()
    challenge_methods: Tuple[str, ...] = ()
    sends_iss: bool = False
    reads_client_metadata: bool = False


def parse_issuer_metadata(document: dict, name: str) -> Issuer:
    """Return the Issuer in a document; ProtocolError if it is of another one, or of no use."""
    if document.get("issuer") != name:
        raise ProtocolError(f"the metadata of the issuer {name} says that it is of "
                            f"{shorten(document.get('issuer'))}: they must be equal")
    endpoints = {key: document.get(key) for key in (
        "token_endpoint", "authorization_endpoint", "registration_endpoint")}
    if endpoints["token_endpoint"] is None:
        raise ProtocolError(f"the metadata of {name} has no token_endpoint")
    for key, url in endpoints.items():
        if url is not None:
            check_named_url(f"the {key} of {name}", url, name)
    methods = find_list(document.get("token_endpoint_auth_methods_supported"))
    return Issuer(
        name, **endpoints, scopes=split_scopes(document.get("scopes_supported")),
        auth_methods=tuple(methods) or ("client_secret_basic",),       # as RFC 8414 says
        challenge_methods=tuple(find_list(document.get("code_challenge_methods_supported"))),
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
        reads_client_metadata=document.get("client_id_metadata_document_supported") is True)


def check_can_log_in(issuer: Issuer) -> None:
    """Raise ProtocolError unless an issuer takes a person's login in a safe way.

    Spec: security-considerations, Authorization Code Protection.
    """
    if issuer.authorization_endpoint is None:
        raise ProtocolError(f"{issuer.name} has no authorization_endpoint, so no person can log in")
    if "S256" not in issuer.challenge_methods:
        raise ProtocolError(f"{issuer.name} does not say that it supports PKCE with S256 (its "
                            "code_challenge_methods_supported is "
                            f"{shorten(list(issuer.challenge_methods))}): a stolen code could be "
                            "used there, so no login is safe")


# ---- tokens, and the client that they are for

class ClientIdentity(NamedTuple):
    """What this client is to one issuer; nothing of it goes to another one."""

    client_id: str
    client_secret: Optional[str] = None
    auth_method: str = "none"
    redirect_uri: Optional[str] = None


class TokenRecord(NamedTuple):
    """An access token and all that is needed to use and to renew it.

    `scopes` are those that were asked for, `granted` those that it has, `endpoints` the URLs that
    wanted it. `expires_at` counts seconds since 1970, None if that is not known.
    """

    issuer: str
    resource: str
    client: ClientIdentity
    access_token: str
    token_type: str = "Bearer"
    scopes: Tuple[str, ...] = ()
    granted: Tuple[str, ...] = ()
    refresh_token: Optional[str] = None
    expires_at: Optional[float] = None
    endpoints: Tuple[str, ...] = ()

    @property
    def authorization(self) -> str:
        """The header that presents it."""
        return f"{self.token_type} {self.access_token}"


class GrantError(ProtocolError):
    """An authorization server refused; `code` is its error. Spec: RFC 6749, 4.1.2.1 and 5.2."""

    def __init__(self, code: str, description: str, issuer: str):
        super().__init__(f"{issuer} refused: {shorten(code)}"
                         + (f" ({shorten(description)})" if description else ""))
        self.code = code


def build_grant_error(status: int, answer: dict, issuer: str, default: str = "") -> GrantError:
    """Return the error in an answer, by its status if it names none."""
    code = answer.get("error")
    return GrantError(code if isinstance(code, str) else f"HTTP {status}",
                      str(answer.get("error_description") or default), issuer)


def parse_token_answer(status: int, answer: dict, asked: TokenRecord) -> TokenRecord:
    """Return a record with what a token endpoint gave, and otherwise as it was asked.

    Raises GrantError if it refused, ProtocolError if its answer is of no use.
    """
    if status >= 500:
        raise ProtocolError(f"the token endpoint of {asked.issuer} fails (HTTP {status})")
    if status // 100 != 2 or "error" in answer:
        raise build_grant_error(status, answer, asked.issuer)
    token, kind = answer.get("access_token"), str(answer.get("token_type", "Bearer")).lower()
    if kind not in TOKEN_SCHEMES or not isinstance(token, str) or not parse_bearer(
            f"Bearer {token}"):
        raise ProtocolError(f"{asked.issuer} gave no token that can be used (token_type "
                            f"{shorten(kind)})")
    if asked.token_type == "DPoP" and kind != "dpop":
        raise ProtocolError(f"{asked.issuer} gave a token that is not bound to our key, though "
                            "one was asked for (DPoP)")
    seconds, refresh_token = answer.get("expires_in"), answer.get("refresh_token")
    lasts = min(max(seconds, 0), 1e9) if _is_number(seconds) else None
    return asked._replace(
        access_token=token, token_type=TOKEN_SCHEMES[kind],
        granted=split_scopes(answer.get("scope")) or asked.granted or asked.scopes,
        # Spec: RFC 6749, 6: a new one replaces the old, none leaves it as it is.
        refresh_token=refresh_token if isinstance(refresh_token, str) else asked.refresh_token,
        expires_at=None if lasts is None else time.time() + lasts)


def choose_auth_method(issuer: Issuer, has_secret: bool, has_key: bool) -> str:
    """Return how a client with a secret or a key authenticates at an issuer's token endpoint."""
    able = ["private_key_jwt"] if has_key else SECRET_METHODS if has_secret else ["none"]
    return next((method for method in able if method in issuer.auth_methods), able[0])


def build_client_auth(client: ClientIdentity, assertion: str = "") -> Tuple[Headers, dict]:
    """Return the headers and the members of a form that authenticate a client.

    Spec: RFC 6749, 2.3; RFC 7523, 2.2.
    """
    if client.auth_method == "client_secret_basic":
        pair = ":".join(urllib.parse.quote(text or "", safe="", errors="surrogatepass")
                        for text in client[:2])
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}
    form = {"client_id": client.client_id}
    if client.auth_method == "client_secret_post":
        form["client_secret"] = client.client_secret or ""
    if client.auth_method == "private_key_jwt":
        form["client_assertion_type"] = OAUTH_URN + "client-assertion-type:jwt-bearer"
        form["client_assertion"] = assertion
    return {}, form


def format_form(members: Mapping[str, str]) -> str:
    """Return members as a form, or as the query of a URL. Spec: RFC 6749, appendix B."""
    return urllib.parse.urlencode(members, safe="", errors="surrogatepass",
                                  quote_via=urllib.parse.quote)


def parse_redirect(url: str, state: str, issuer: Issuer) -> str:
    """Return the code in the URL to which a login was sent back; raises ProtocolError.

    What is not proven to come from this login and this issuer is neither used nor shown.
    Spec: Authorization Response Validation; RFC 9207, 2.4.
    """
    import hmac
    members: Dict[str, str] = {}
    for name, value in urllib.parse.parse_qsl(url.partition("#")[0].partition("?")[2], True):
        if name in members:
            raise ProtocolError(f"the answer of the login has {shorten(name)} more than once")
        members[name] = value
    if not hmac.compare_digest(members.get("state", "").encode("utf-8", "surrogatepass"),
                               state.encode("ascii")):
        raise ProtocolError("the answer does not belong to this login (its state is another one): "
                            "use the whole URL that the browser was sent to, and log in again")
    if "iss" not in members and issuer.sends_iss:
        raise ProtocolError(f"the answer of the login does not name its issuer (iss), though "
                            f"{issuer.name} says that it always does: it may come from another")
    if members.get("iss", issuer.name) != issuer.name:
        raise ProtocolError(f"the answer of the login comes from {shorten(members['iss'])}, not "
                            f"from {issuer.name}: nothing of it was used")
    if "error" in members:
        raise GrantError(members["error"], members.get("error_description", ""), issuer.name)
    if not members.get("code"):
        raise ProtocolError("the answer of the login has no code")
    return members["code"]


def send_once(method: str, url: str, body: Optional[bytes], headers: Headers, seconds: float,
              network: Network = Network()) -> Tuple[int, Headers, bytes]:
    """Send one request on a connection of its own; return status, headers and body of the answer.

    No redirect is followed. Raises TransportError within `seconds`, ProtocolError when the body
    has more than LOGIN_BYTES.
    """
    if not is_http_url(url):
        raise ProtocolError(f"there is nothing to be reached at {shorten(url)}")
    headers = {"User-Agent": f"mcpkit/{__version__}", "Accept": JSON_TYPE, **headers}
    with contextlib.closing(HTTPPool(network, LOGIN_BYTES)) as pool:
        return pool.request(method, url, headers, body, build_timeouts(seconds))


class TokenExchange:
    """An `assertion` for OAuth: what an identity provider gives in exchange for a login to it.

    `url` is the provider's token endpoint, `subject_token` the token of the login (an ID token),
    `client_id` (and `client_secret`) ours there. Spec: extension enterprise-managed-authorization.
    """

    def __init__(self, url: str, subject_token: str, client_id: str,
                 client_secret: Optional[str] = None, *, subject_type: str = "id_token",
                 requested_type: str = "id-jag", timeout: float = 30.0,
                 send: Callable = send_once):
        check_secure_url("an identity provider", url)
        self._url, self._timeout, self._send = url, timeout, send
        self._headers, more = build_client_auth(ClientIdentity(
            client_id, client_secret, "client_secret_basic" if client_secret else "none"))
        self._form = {
            "grant_type": OAUTH_URN + "grant-type:token-exchange",      # RFC 8693
            "subject_token": subject_token,
            "subject_token_type": f"{OAUTH_URN}token-type:{subject_type}",
            "requested_token_type": f"{OAUTH_URN}token-type:{requested_type}",
            **more}

    def __call__(self, issuer: str, resource: str) -> str:
        """Return a token that the issuer of a resource's tokens takes as an assertion."""
        form = format_form({**self._form, "audience": issuer, "resource": resource})
        status, _, data = self._send("POST", self._url, form.encode("ascii"),
                                     {**FORM, **self._headers}, self._timeout)
        answer = read_object(data) or {}
        token = answer.get("access_token")
        if status // 100 != 2 or not isinstance(token, str):
            raise build_grant_error(status, answer, self._url)
        return token


# ---- tokens and keys in files

class Tokens:
    """Token records, one for each issuer and resource, that last as long as this object."""

    def __init__(self, records: Iterable[TokenRecord] = ()):
        self._records = {record[:2]: record for record in records}

    def read(self) -> Tokens:
        """Return all tokens."""
        return self

    def locked(self) -> Any:
        """Return a context that yields the tokens; an OAuth changes them under its own lock."""
        return contextlib.nullcontext(self)

    def open_signer(self) -> Signer:
        """Return a Signer with a new key, to which tokens are bound."""
        return Signer(None)

    def find(self, issuer: str, resource: str) -> Optional[TokenRecord]:
        """Return the record of an issuer and a resource."""
        return self._records.get((issuer, resource))

    def find_endpoint(self, url: str) -> Optional[TokenRecord]:
        """Return the record that was last got for the endpoint at a URL."""
        return next((record for record in reversed(list(self._records.values()))
                     if url in record.endpoints), None)

    def put(self, record: TokenRecord) -> None:
        """Keep a record as the only one that serves its endpoints."""
        self._records.pop(record[:2], None)
        for key, other in self._records.items():
            self._records[key] = other._replace(endpoints=tuple(
                url for url in other.endpoints if url not in record.endpoints))
        self._records[record[:2]] = record

    def drop(self, matches: Callable[[TokenRecord], bool]) -> int:
        """Forget the records that match, and return how many there were."""
        dropped = [key for key, record in self._records.items() if matches(record)]
        for key in dropped:
            del self._records[key]
        return len(dropped)

    def to_json(self) -> dict:
        """Return all records as one JSON value."""
        return {"version": 1, "tokens": [{**record._asdict(), "client": record.client._asdict()}
                                         for record in self._records.values()]}


class TokenFile:
    """Tokens that are kept in a file, which its owner alone may read; None: that of the commands.

    Several processes may share one: it is locked while it changes, and replaced as a whole.
    """

    def __init__(self, path: Optional[str] = None):
        if path is None and os.name == "nt":
            base = os.environ.get("APPDATA") or os.path.expanduser("~")
        elif path is None:
            # Spec: XDG Base Directory: a relative path is to be ignored.
            base = os.environ.get("XDG_CONFIG_HOME", "")
            base = base if os.path.isabs(base) else os.path.expanduser("~/.config")
        self._path = path or os.path.join(base, "mcpkit", "tokens.json")

    def read(self) -> Tokens:
        """Return all tokens; none if there is no file, or one that cannot be read.

        A record that is damaged is left out.
        """
        try:
            with open(self._path, "rb") as file:
                entries = find_list((read_object(file.read()) or {}).get("tokens"))
        except OSError:                           # writing there will say why
            entries = []
        load, records = adapt(TokenRecord, globals()).load, []
        for entry in entries:
            with contextlib.suppress(ValueError):
                record = load(entry)
                if (record.token_type in TOKEN_SCHEMES.values() and parse_bearer(
                        f"Bearer {record.access_token}") and record.client.auth_method in (
                            *SECRET_METHODS, "private_key_jwt")):
                    records.append(record)
        return Tokens(records)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Tokens]:
        """Yield the tokens while no other process can change them; write what was changed."""
        with lock_path(self._path):
            tokens = self.read()
            before = tokens.to_json()
            yield tokens
            if tokens.to_json() != before:
                replace_file(self._path, format_message(tokens.to_json()))

    def open_signer(self) -> Signer:
        """Return the Signer whose key tokens are bound to, made if there is none."""
        path = os.path.join(os.path.dirname(self._path), "dpop.pem")
        with lock_path(path):
            return Signer(path, may_make=True)


def open_private(path: str) -> Any:
    """Return a file to write that only its owner can read, made if it is missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    return os.fdopen(descriptor, "r+b")


def replace_file(path: str, data: bytes) -> None:
    """Write a file of its owner alone; if that fails it is as before, and UsageError is raised."""
    new = f"{path}.{os.getpid()}.new"
    try:
        with open_private(new) as file:
            file.truncate()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def lock_path(path: str) -> Iterator[None]:
    """Keep other processes from changing a file during the block; make its folder if need be.

    Raises TransportError if another one keeps it locked, UsageError if nothing can be written.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        lock = open_private(path + ".lock")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    with lock:                                    # closing the file ends the lock
        while True:
            try:
                if os.name == "nt":
                    import msvcrt
                    msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
                else:
                    import fcntl
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise TransportError(f"another process has kept {path} locked for "
                                         f"{LOCK_SECONDS:g} s", timed_out=True) from None
                time.sleep(0.05)
        yield


def encode_base64url(data: bytes) -> str:
    """Return bytes in base64url without padding. Spec: RFC 7515, appendix C."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def hash_base64url(text: str) -> str:
    """Return the SHA-256 digest of ASCII text in base64url."""
    import hashlib
    return encode_base64url(hashlib.sha256(text.encode("ascii")).digest())


class Signer:
    """Signs with the P-256 key in a PEM file, by the openssl program, which alone reads the key.

    With `may_make` a missing file is made; without a path the key lives as long as this object.
    """

    def __init__(self, path: Optional[str], may_make: bool = False):
        import shutil
        self._openssl = shutil.which("openssl")
        if self._openssl is None:
            raise UsageError("signatures are made by the openssl program, which is not found: "
                             "install it, or do without key_file and dpop")
        if path is None:
            import tempfile
            import weakref
            folder = tempfile.mkdtemp(prefix="mcpkit-")
            weakref.finalize(self, shutil.rmtree, folder, True)
            path, may_make = os.path.join(folder, "key.pem"), True
        self._path = path
        if may_make and not os.path.exists(path):
            replace_file(path, self._run("ecparam", "-name", "prime256v1", "-genkey", "-noout"))
        if not os.path.isfile(path):
            raise UsageError(f"there is no key file {path}")
        if os.name == "posix" and os.stat(path).st_mode & 0o077:
            raise UsageError(f"others can read the key in {path}: chmod 600 {path}")
        public = self._run("ec", "-in", path, *NO_PASSPHRASE, "-pubout", "-outform", "DER")
        if len(public) != 91 or public[-65] != 4:     # DER of P-256 ends with the point
            raise UsageError("the key is not a P-256 key, which ES256 takes")
        self.public_jwk = {
            "kty": "EC",
            "crv": "P-256",
            "x": encode_base64url(public[-64:-32]),
            "y": encode_base64url(public[-32:])}

    def build_jwt(self, header: dict, claims: dict) -> str:
        """Return claims as a signed token with a new id. Spec: RFC 7515; RFC 7518, 3.4."""
        import secrets
        claims = {**claims, "iat": int(time.time()), "jti": secrets.token_urlsafe(16)}
        text = ".".join(encode_base64url(format_message(part))
                        for part in ({"alg": "ES256", **header}, claims))
        data = self._run("dgst", "-sha256", *NO_PASSPHRASE, "-sign", self._path,
                         data=text.encode("ascii"))
        end = 4 + data[3]                             # DER has two numbers, JOSE 32 bytes of each
        numbers = [data[4:end], data[end + 2:]]
        return text + "." + encode_base64url(b"".join(
            number.lstrip(b"\0").rjust(32, b"\0") for number in numbers))

    def _run(self, *words: str, data: bytes = b"") -> bytes:
        import subprocess
        try:
            done = subprocess.run([self._openssl, *words], input=data, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=30.0)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"openssl does not run: {error}") from None
        if done.returncode:
            raise UsageError(f"openssl {words[0]} failed: {shorten(done.stderr.strip())}")
        return done.stdout


# ---- the way to the browser and back

class RedirectHandler(http.server.BaseHTTPRequestHandler):
    """Takes the one GET that matters; a browser asks for icons, too."""

    timeout = 10.0

    def do_GET(self) -> None:
        """Take the answer of the login, and tell the person what to do next."""
        is_answer = self.path.partition("?")[0] == REDIRECT_PATH
        body = b"You can close this page: the rest happens where you started the login.\n"
        self.send_response(200 if is_answer else 404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body) if is_answer else 0))
        self.send_header("Connection", "close")
        self.end_headers()
        if is_answer:
            self.wfile.write(body)
            self.server.answers.append(self.path)     # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None:
        """Log nothing: the path holds the code."""


class RedirectServer(http.server.ThreadingHTTPServer):
    """Waits on this machine for the browser to come back from a login. Spec: RFC 8252, 7.3."""

    def __init__(self, wanted_uri: Optional[str] = None):
        self.answers: List[str] = []
        port = urllib.parse.urlsplit(wanted_uri).port if wanted_uri else None
        try:
            super().__init__(("127.0.0.1", port or 0), RedirectHandler)
        except OSError:                           # taken: another one means another registration
            super().__init__(("127.0.0.1", 0), RedirectHandler)
        self.redirect_uri = f"http://127.0.0.1:{self.server_address[1]}{REDIRECT_PATH}"

    def handle_error(self, *_: Any) -> None:
        """Say nothing: a browser may hang up at any time."""

    def authorize(self, url: str) -> str:
        """Open the browser at a URL, and return the one to which it was sent back."""
        import webbrowser
        log_line(f"mcpkit: log in with your browser: {url}")
        webbrowser.open(url)
        self.timeout, deadline = STOP_LOOK_SECONDS, time.monotonic() + LOGIN_SECONDS
        while not self.answers:
            if time.monotonic() > deadline:
                raise TransportError(f"no login was finished within {LOGIN_SECONDS:g} s",
                                     timed_out=True)
            self.handle_request()
        return self.answers[0]


class OAuth:
    """Gets a Client the tokens that its server wants: `Client(url, auth=OAuth(...))`.

    With no arguments a person logs in by the web browser. `authorize(url)` sends the person there
    in another way: it returns the whole URL, at `redirect_uri`, to which the login was sent back.
    Of the identities for the client the first that fits is used: `client_id` (with a
    `client_secret`, or the `key_file` of a P-256 key for signed assertions; good at `issuer` only,
    or else at the first that is met), `client_metadata_url` (an https URL of yours that describes
    the client), registration on the spot (by `client_name` and `application_type`).

    `grant` "client_credentials" asks without a person, "jwt_bearer" with an `assertion`: a token,
    or a function (issuer, resource) that returns one, such as a TokenExchange. `scopes` are asked
    for instead of those that the server proposes. `store` keeps tokens for the next time, say a
    TokenFile; without it they end with this object. `dpop` has tokens bound to a key, so that
    only its owner can use them. Each exchange may take `timeout` seconds; `send` is what carries
    them, as `send_once` does.

    Its methods raise ProtocolError (GrantError) if a server refuses or cannot be trusted,
    TransportError if there is no answer, UsageError for what cannot work.
    """

    def __init__(self, *, client_id: Optional[str] = None, client_secret: Optional[str] = None,
                 key_file: Optional[str] = None, issuer: Optional[str] = None,
                 client_metadata_url: Optional[str] = None, client_name: str = "mcpkit",
                 application_type: str = "native", grant: str = "authorization_code",
                 assertion: Union[str, Callable[[str, str], str], None] = None,
                 scopes: Collection[str] = (), authorize: Optional[Callable[[str], str]] = None,
                 redirect_uri: str = DEFAULT_REDIRECT, store: Optional[TokenFile] = None,
                 dpop: bool = False, timeout: float = 30.0, send: Callable = send_once):
        if grant not in GRANTS:
            raise UsageError(f"grant is one of {', '.join(GRANTS)}, but is {shorten(grant)}")
        if grant in ("client_credentials", "jwt_bearer") and not client_id:
            raise UsageError(f"{grant} needs the client_id of a client that is registered for it")
        if (grant == "jwt_bearer") != (assertion is not None):
            raise UsageError("an assertion is what the grant jwt_bearer needs, and no other takes")
        if client_metadata_url and not re.match(r"https://[^/?#]+/[^?#]", client_metadata_url):
            raise UsageError("client_metadata_url is an https URL with a path, but is "
                             + shorten(client_metadata_url))
        self._client_id = client_id
        self._client_secret = client_secret
        self._issuer = issuer
        self._signer = Signer(key_file) if key_file else None
        self._client_metadata_url = client_metadata_url
        self._client_name = client_name
        self._application_type = application_type
        self._grant = grant
        self._assertion = assertion
        self._scopes = check_scope_names(scopes)
        self._authorize = authorize
        self._redirect_uri = redirect_uri
        self._store: Any = store or Tokens()
        self._token_type = "DPoP" if dpop else "Bearer"
        self._timeout = timeout
        self._send = send
        self._lock = threading.RLock()
        self._known: Dict[str, Optional[TokenRecord]] = {}   # by endpoint; guarded by _lock
        # By endpoint: whether a token that was not used yet was "known", by "refresh" or "grant".
        self._unproven: Dict[str, str] = {}
        self._nonces: Dict[str, str] = {}         # that servers want in proofs, by origin
        self._proof_signer: Optional[Signer] = None
        self._tried: List[str] = []               # what the search for documents has met

    # ---- what a Client asks

    @property
    def extensions(self) -> dict:
        """The protocol extensions that a client declares which gets its tokens so."""
        # Spec: extensions/auth.
        name = ("enterprise-managed-authorization" if isinstance(self._assertion, TokenExchange)
                else "oauth-client-credentials" if self._grant == "client_credentials" else "")
        return {META_PREFIX + name: {}} if name else {}

    def has_token(self, url: str) -> bool:
        """Return whether there is a token for an endpoint."""
        with self._lock:
            return self._find(url) is not None

    def authorize(self, method: str, url: str, endpoint: str) -> Headers:
        """Return what to send with a request: nothing if no token is known for the endpoint.

        `url` is where the request goes, perhaps by a redirect of the endpoint.
        """
        with self._lock:
            record = self._find(endpoint)
            if record is None:
                return {}
            if record.refresh_token and record.expires_at is not None and (
                    record.expires_at < time.time() + CLOCK_SKEW_SECONDS):
                with contextlib.suppress(MCPKitError):        # the server will say what is wrong
                    record = self._refresh(self._read_issuer(record.issuer), record, endpoint)
            return {"Authorization": record.authorization,
                    **self._prove(method, url, record.token_type, record.access_token)}

    def handle_challenge(self, url: str, answer: Incoming, sent: Headers) -> bool:
        """Do what the answer to a request asks of us; return whether to send it again.

        `sent` is what `authorize` gave. Raises MCPKitError if nothing can be done.
        """
        challenge = parse_auth_challenge(answer.headers)
        with self._lock:
            if answer.status != 401:
                self._unproven.pop(url, None)
                if answer.status != 403 or challenge.error != "insufficient_scope":
                    return False
            if self._learn_nonce(url, answer.headers, challenge.error):
                return True
            record = self._find(url)
            if record is not None and record.authorization != sent.get("Authorization"):
                return True                       # another thread was quicker
            if record is not None and answer.status == 403 and (
                    set(challenge.scopes) <= set(record.granted)):
                wanted = " ".join(challenge.scopes) or "more, without saying which"
                raise ProtocolError(
                    f"the token is refused (HTTP 403): the server wants the scopes {wanted}, and "
                    f"the token has {' '.join(record.granted) or 'none that is named'}, so that "
                    "another login would give no more")
            return self._obtain(url, challenge, record, may_refresh=answer.status == 401)

    def log_in(self, url: str) -> TokenRecord:
        """Get a token for an endpoint, though it has not asked for one, unless there is one."""
        with self._lock:
            if self._find(url) is None:
                self._obtain(url, AuthChallenge(), None)
            return self._known[url]

    def log_out(self, url: str) -> int:
        """Forget the tokens for an endpoint, and return how many there were."""
        with self._lock, self._store.locked() as tokens:
            self._known.pop(url, None)
            return tokens.drop(lambda record: url in record.endpoints)

    # ---- from a challenge to a token

    def _find(self, url: str) -> Optional[TokenRecord]:
        if url not in self._known:
            self._known[url] = self._store.read().find_endpoint(url)
        return self._known[url]

    def _keep(self, tokens: Tokens, record: TokenRecord, url: str, how: str) -> TokenRecord:
        endpoints = tuple(dict.fromkeys((*record.endpoints, url)))
        self._known[url] = record = record._replace(endpoints=endpoints)
        self._unproven[url] = how
        tokens.put(record)
        return record

    def _obtain(self, url: str, challenge: AuthChallenge, refused: Optional[TokenRecord],
                may_refresh: bool = True) -> bool:
        """Get a token for an endpoint in place of one that was refused.

        Returns whether there is one; False if only a login could give it, which is not ours.
        """
        how = self._unproven.get(url)
        if how == "grant" and may_refresh and refused is not None:
            raise ProtocolError("the server refuses (HTTP 401) the token that "
                                f"{refused.issuer} has just given for it")
        if self._grant == "stored" and refused is None:
            return self._advise(url, challenge, None)
        self._tried = []
        resource = self._read_resource(url, challenge.metadata_url)
        issuer = self._read_issuer(self._choose_issuer(resource))
        if may_refresh and how != "refresh" and self._take_known(issuer, resource, refused, url):
            return True
        if self._grant == "stored":
            return self._advise(url, challenge, refused)
        # What was asked earlier, and what is asked now, is never left out, or the next call might
        # miss it. Spec: Scope Selection Strategy; Step-Up Authorization Flow; Refresh Tokens.
        known = self._store.read().find(issuer.name, resource.name)
        earlier = known.scopes if known else ()
        is_login = self._grant == "authorization_code"
        scopes = tuple(dict.fromkeys((
            *(self._scopes or challenge.scopes or resource.scopes), *earlier,
            *(challenge.scopes if earlier else ()),
            *(["offline_access"] if is_login and "offline_access" in issuer.scopes else ()))))
        ask = self._ask_person if is_login else self._ask_issuer
        client, form = ask(issuer, resource.name, scopes, known.client if known else None)
        record = self._redeem(issuer, {**form, "resource": resource.name}, TokenRecord(
            issuer.name, resource.name, client, "", self._token_type, scopes))
        with self._store.locked() as tokens:
            self._keep(tokens, record, url, "grant")
        return True

    def _advise(self, url: str, challenge: AuthChallenge, refused: Optional[TokenRecord]) -> bool:
        """Name the command that logs in, if it is a login that the server wants."""
        import shlex
        command = f"{os.path.basename(__file__)} login {shlex.quote(url)}"
        if refused is not None and challenge.error == "insufficient_scope":
            scopes = dict.fromkeys((*refused.scopes, *challenge.scopes))
            raise ProtocolError("the server wants more than the token allows (HTTP 403): run: "
                                + " --scope ".join((command, *map(shlex.quote, scopes))))
        if challenge.metadata_url is None and self._find_document(
                list_resource_metadata_urls(url, None)) is None:
            return False
        raise ProtocolError(f"the server wants a login (HTTP 401): run: {command}")

    def _take_known(self, issuer: Issuer, resource: Resource, refused: Optional[TokenRecord],
                    url: str) -> bool:
        """Use what is known of an issuer and resource: a newer token, or a refreshed one."""
        known = self._store.read().find(issuer.name, resource.name)
        if known is None:
            return False
        if refused is None or known.access_token != refused.access_token:
            with self._store.locked() as tokens:
                self._keep(tokens, known, url, "known")
            return True
        try:
            return known.refresh_token is not None and bool(self._refresh(issuer, known, url))
        except GrantError as error:               # it has ended: only a login helps
            if error.code == "invalid_client":    # with a client that is registered again
                with self._store.locked() as tokens:
                    tokens.drop(lambda record: record.client == known.client)
            return False

    def _refresh(self, issuer: Issuer, record: TokenRecord, url: str) -> TokenRecord:
        """Renew a token, unless another process with the same store has done it meanwhile."""
        with self._store.locked() as tokens:
            newest = tokens.find(record.issuer, record.resource) or record
            if newest.access_token == record.access_token:
                form = {
                    "grant_type": "refresh_token",
                    "refresh_token": record.refresh_token,
                    "resource": record.resource}
                newest = self._redeem(issuer, form, record)
            return self._keep(tokens, newest, url, "refresh")

    def _choose_issuer(self, resource: Resource) -> str:
        """Return who shall issue our token; a client_id is known to one issuer only."""
        if self._issuer is not None and self._issuer not in resource.issuers:
            # Spec: Authorization Server Binding.
            raise ProtocolError(f"the server's tokens now come from {', '.join(resource.issuers)}, "
                                f"but the client_id is known to {self._issuer}: nothing was sent")
        issuer = self._issuer or resource.issuers[0]
        if self._client_id is not None:
            self._issuer = issuer
        return issuer

    # ---- documents

    def _read_resource(self, url: str, named: Optional[str]) -> Resource:
        """Return what the server says of its tokens; by default, its own origin issues them."""
        check_secure_url("a server that is sent tokens", url)
        if named is not None:
            check_named_url("the resource metadata", named, url)
        document = self._find_document(list_resource_metadata_urls(url, named))
        if document is not None:
            return parse_resource_metadata(document, url)
        # Spec: 2025-03-26 basic/authorization, Authorization Base URL: before there was any.
        name = list_resource_names(url)[0]
        return Resource(name, (split_resource(name)[0],))

    def _read_issuer(self, name: str) -> Issuer:
        document = self._find_document(list_issuer_metadata_urls(name))
        if document is None:
            raise ProtocolError(f"no metadata of the authorization server {name} was found: "
                                + "; ".join(self._tried))
        return parse_issuer_metadata(document, name)

    def _find_document(self, urls: List[str]) -> Optional[dict]:
        """Return the first JSON object that is found at one of some URLs.

        A server that fails (5xx) ends it: what it cannot say now may matter.
        """
        for url in urls:
            status, headers, data = self._send("GET", url, None, {}, self._timeout)
            kind = parse_media_type(headers.get("content-type")) or "no content type"
            self._tried.append(f"{url} gave HTTP {status}, {kind}")
            document = read_object(data) if status == 200 else None
            if document is not None:
                return document
            if status >= 500:
                raise ProtocolError("the login stops at a server that fails: "
                                    + "; ".join(self._tried))
        return None

    # ---- grants

    def _identify(self, issuer: Issuer, redirect_uri: str, scopes: Tuple[str, ...],
                  known: Optional[ClientIdentity]) -> ClientIdentity:
        """Return who we are to an issuer. Spec: client-registration, in its order."""
        if self._client_id is not None:
            client_id, secret = self._client_id, self._client_secret
        else:
            client_id = self._client_metadata_url if issuer.reads_client_metadata else None
            secret = None
        if client_id is not None:
            method = choose_auth_method(issuer, bool(secret), bool(self._signer))
            return ClientIdentity(client_id, secret, method, redirect_uri)
        if known is not None and known.redirect_uri == redirect_uri:
            return known
        return self._register(issuer, redirect_uri, scopes)

    def _register(self, issuer: Issuer, redirect_uri: str,
                  scopes: Tuple[str, ...]) -> ClientIdentity:
        """Return the identity that an issuer gives a client. Spec: RFC 7591, 2; SEP-837."""
        if issuer.registration_endpoint is None:
            raise ProtocolError(f"{issuer.name} registers no clients by itself: register one there "
                                "by hand, and give its id (--client-id, client_id=)")
        methods = [method for method in ("none", "client_secret_basic", "client_secret_post")
                   if method in issuer.auth_methods]
        request = without_none({
            "client_name": self._client_name,
            "redirect_uris": [redirect_uri],
            "response_types": ["code"],
            "grant_types": GRANTS["authorization_code"],
            "application_type": self._application_type,
            "token_endpoint_auth_method": (methods or ["none"])[0],
            "scope": " ".join(scopes) or None})
        status, _, data = self._send("POST", issuer.registration_endpoint, format_message(request),
                                     {"Content-Type": JSON_TYPE}, self._timeout)
        answer = read_object(data) or {}
        if status // 100 != 2:
            raise build_grant_error(status, answer, issuer.name, "it registers no such client")
        client_id, secret = answer.get("client_id"), answer.get("client_secret")
        if not isinstance(client_id, str) or not client_id:
            raise ProtocolError(f"{issuer.name} registered this client without a client_id")
        secret = secret if isinstance(secret, str) and secret else None
        method = answer.get("token_endpoint_auth_method")
        if method not in SECRET_METHODS:
            method = choose_auth_method(issuer, secret is not None, False)
        return ClientIdentity(client_id, secret, method, redirect_uri)

    def _ask_person(self, issuer: Issuer, resource: str, scopes: Tuple[str, ...],
                    known: Optional[ClientIdentity]) -> Tuple[ClientIdentity, dict]:
        """Have a person log in; return our identity, and the form that redeems the code of it."""
        import secrets
        check_can_log_in(issuer)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        with contextlib.ExitStack() as stack:
            authorize, redirect_uri = self._authorize, self._redirect_uri
            if authorize is None:
                server = stack.enter_context(RedirectServer(known and known.redirect_uri))
                authorize, redirect_uri = server.authorize, server.redirect_uri
            client = self._identify(issuer, redirect_uri, scopes, known)
            query = format_form(without_none({
                "response_type": "code",
                "client_id": client.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(scopes) or None,
                "state": state,
                "code_challenge": hash_base64url(verifier),       # Spec: RFC 7636, 4.2
                "code_challenge_method": "S256",
                "resource": resource}))
            page = issuer.authorization_endpoint or ""
            answer = authorize(page + ("&" if "?" in page else "?") + query)
        return client, {
            "grant_type": "authorization_code",
            "redirect_uri": redirect_uri,
            "code": parse_redirect(answer, state, issuer),
            "code_verifier": verifier}

    def _ask_issuer(self, issuer: Issuer, resource: str, scopes: Tuple[str, ...],
                    known: Optional[ClientIdentity]) -> Tuple[ClientIdentity, dict]:
        """Return our identity, and the form that gets a token without a person."""
        assertion = self._assertion
        form = without_none({
            "grant_type": GRANTS[self._grant][0], "scope": " ".join(scopes) or None,
            "assertion": assertion(issuer.name, resource) if callable(assertion) else assertion})
        return self._identify(issuer, self._redirect_uri, scopes, known), form

    def _redeem(self, issuer: Issuer, form: dict, asked: TokenRecord) -> TokenRecord:
        """Send a form to the token endpoint, and return the record of what it gives."""
        client, assertion, url = asked.client, "", issuer.token_endpoint
        if client.auth_method == "private_key_jwt":                   # Spec: RFC 7523, 3
            if self._signer is None:
                raise UsageError("this client proves itself with a key: give its key_file")
            assertion = self._signer.build_jwt({"typ": "JWT"}, {
                "iss": client.client_id,
                "sub": client.client_id,
                "aud": issuer.name,
                "exp": int(time.time()) + ASSERTION_SECONDS})
        headers, more = build_client_auth(client, assertion)
        body = format_form({**form, **more}).encode("ascii")
        for _ in range(2):
            proof = self._prove("POST", url, asked.token_type)
            status, answered, data = self._send("POST", url, body, {**FORM, **headers, **proof},
                                                self._timeout)
            answer = read_object(data) or {}
            if not self._learn_nonce(url, answered, answer.get("error", "")):
                break
        return parse_token_answer(status, answer, asked)

    # ---- proofs. Spec: RFC 9449, 4 and 8.

    def _learn_nonce(self, url: str, headers: Headers, error: str) -> bool:
        """Take the nonce that a server wants in proofs; return whether that is all it wants."""
        nonce = headers.get("dpop-nonce")
        if nonce is None or error != "use_dpop_nonce":
            return False
        origin = split_resource(url.partition("?")[0])[0]
        is_new = self._nonces.get(origin) != nonce
        self._nonces[origin] = nonce
        return is_new

    def _prove(self, method: str, url: str, token_type: str, access_token: str = "") -> Headers:
        """Return the header with a proof for one request, none for a token that needs none."""
        if token_type != "DPoP":
            return {}
        if self._proof_signer is None:
            self._proof_signer = self._store.open_signer()
        claims = without_none({
            "htm": method, "htu": re.split(r"[?#]", url)[0],
            "ath": hash_base64url(access_token) if access_token else None,
            "nonce": self._nonces.get(split_resource(url.partition("?")[0])[0])})
        header = {"typ": "dpop+jwt", "jwk": self._proof_signer.public_jwk}
        return {"DPoP": self._proof_signer.build_jwt(header, claims)}


# ---- commands

def find_url(options: Any) -> str:
    """Return the URL of a command that is for HTTP only."""
    target = find_server(options).target
    if not isinstance(target, str) or not is_http_url(target):
        raise UsageError("a login is for a server at an http or https URL")
    return target


def use_stored_login(options: Any) -> dict:
    """Return what a command's client needs to use the tokens of a login."""
    network = Network(*(getattr(options, name) for name in Network._fields))
    return {"auth": OAuth(grant="stored", store=TokenFile(), timeout=options.timeout,
                          send=functools.partial(send_once, network=network))}


def run_login(options: Any) -> int:
    """Log in to a server, so that all commands may use it."""
    url, headers, network = find_url(options), find_headers(options), parse_network(options)
    means = {"timeout": options.timeout, "send": functools.partial(send_once, network=network)}
    auth = OAuth(client_id=options.client_id, client_secret=find_secret(options.client_secret_env),
                 key_file=options.key_file, issuer=options.issuer, grant=options.grant,
                 assertion=find_assertion(options, means),
                 client_metadata_url=options.client_metadata_url, scopes=options.scope,
                 authorize=ask_for_redirect if options.no_browser else None, dpop=options.dpop,
                 store=TokenFile(), **means)
    auth.log_out(url)
    with Client(url, headers=headers, era=options.era, timeout=options.timeout, auth=auth,
                network=network, observe=find_observer(options)):
        record = auth.log_in(url)
    if options.json:
        print_json({"issuer": record.issuer, "resource": record.resource,
                    "scopes": list(record.granted), "expiresAt": record.expires_at})
    else:
        scopes = f", scopes {' '.join(record.granted)}" if record.granted else ""
        print_text(f"logged in to {record.resource} by {record.issuer}{scopes}")
    return 0


def find_assertion(options: Any, means: dict) -> Union[str, TokenExchange, None]:
    """Return what `login` presents for the grant jwt_bearer, None if there is nothing."""
    if options.assertion_file is None:
        if options.exchange is not None:
            raise UsageError("--exchange exchanges the token in --assertion-file, which is missing")
        return None
    token = read_input("@" + options.assertion_file).strip()
    if options.exchange is None:
        return token
    return TokenExchange(options.exchange, token, options.exchange_client or options.client_id,
                         find_secret(options.exchange_secret_env), **means)


def ask_for_redirect(url: str) -> str:
    """Have a person log in with a browser that is elsewhere, and paste where it ended up."""
    log_line(f"Open this URL in a browser, and log in:\n\n{url}\n\nThe browser then goes to a page "
             f"that does not load, {DEFAULT_REDIRECT}?...\nPaste the URL of that page here:")
    answer = sys.stdin.readline().strip() if sys.stdin is not None else ""
    if not answer:
        raise UsageError("no URL was pasted, so there is no login")
    return answer


def run_logout(options: Any) -> int:
    """Forget the tokens of a login."""
    count = OAuth(store=TokenFile()).log_out(find_url(options))
    print_text("logged out" if count else "nobody was logged in")
    return 0


__all__ += ["GrantError", "OAuth", "TokenExchange", "TokenFile"]
CLIENT_STEPS.append(use_stored_login)
LOGIN = [
    option("--client-id", metavar="ID", help="of a client that is registered with the server's "
           "issuer (none: register one)"),
    option("--client-secret-env", metavar="NAME",
           help="the environment variable with the secret of that client"),
    option("--key-file", metavar="FILE", help="the P-256 key of that client (PEM), which signs in "
           "the place of a secret, by the openssl program"),
    option("--issuer", metavar="URL", help="where that client is registered, and nowhere else "
           "(none: the first issuer that the server names)"),
    option("--client-metadata-url", metavar="URL",
           help="of a document that describes the client, for issuers that read it"),
    option("--grant", choices=list(GRANTS)[:3], default="authorization_code", help="how to get a "
           "token: %(default)s has a person log in, the others need none"),
    option("--assertion-file", metavar="FILE",
           help="the token that --grant jwt_bearer presents"),
    option("--exchange", metavar="URL", help="have the identity provider with this token endpoint "
           "exchange that token first"),
    option("--exchange-client", metavar="ID",
           help="our client id there (none: that of --client-id)"),
    option("--exchange-secret-env", metavar="NAME",
           help="the environment variable with its secret"),
    option("--scope", action="append", default=[], metavar="SCOPE",
           help="ask for this scope (none: for what the server proposes)"),
    option("--no-browser", action="store_true",
           help="print the URL of the login, and take its answer from you"),
    option("--dpop", action="store_true",
           help="bind the token to a key of this machine, by the openssl program"),
]
add_command("login", run_login, TARGET, SERVER, NETWORK, ERA, LOGIN,
            examples=("login URL", "login URL --client-id ID --no-browser"))
add_command("logout", run_logout, TARGET, SERVER, NETWORK, examples=("logout URL",))


# =============================================================================================
# 25. CONFIGURATION FILES
# =============================================================================================
# In: a file in which a client, of whatever make, keeps its servers. Out: how each is reached.
# There is no standard, so what is read is what the dialects have in common. Any value in such a
# file may be a secret: no error says one, and `hide_secrets` takes them out of all else.

# Where servers are kept: first those of a project, in its folder.
PROJECT_FILES = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json",
                 ".gemini/settings.json", ".kiro/settings/mcp.json", ".amazonq/mcp.json",
                 ".roo/mcp.json")
# Then those of the user; {settings} is the folder where programs keep their settings.
USER_FILES = ("~/.claude.json", "{settings}/Claude/claude_desktop_config.json",
              "{settings}/Code/User/mcp.json", "~/.cursor/mcp.json",
              "~/.codeium/windsurf/mcp_config.json", "~/.gemini/settings.json",
              "~/.kiro/settings/mcp.json", "~/.aws/amazonq/mcp.json", "~/.lmstudio/mcp.json",
              "~/.copilot/mcp-config.json")

# The members in which a file has its servers, from the outside inwards; {folder} is the project.
SERVER_MEMBERS = (("projects", "{folder}", "mcpServers"), ("mcpServers",), ("servers",),
                  ("mcp", "servers"))
URL_MEMBERS = ("url", "serverUrl", "httpUrl")
# What `type` says, in small letters alone, to the kind of server.
SERVER_KINDS = {"stdio": "stdio", "local": "stdio", "http": "http", "streamablehttp": "http",
                "sse": "http", "remote": "http"}


def parse_config(data: bytes, source: str, folder: str = "") -> Dict[str, Any]:
    """Return the servers in a file as they stand there, by name; `folder` is the project's.

    The file is JSON, with or without comments, trailing commas, and a byte order mark. Raises
    UsageError that names `source`, the line and the column.
    """
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        config = json.loads(blank_comments(data.decode(encoding)))
    except json.JSONDecodeError as error:
        raise UsageError(f"{source}:{error.lineno}:{error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from None
    servers: Dict[str, Any] = {}
    for members in SERVER_MEMBERS:
        part = config
        for member in members:
            part = find_object(part, member.format(folder=folder))
        servers = {**part, **servers}
    return servers


# Each takes strings too, so that what looks like a comment or comma in one stays in it.
_COMMENTS = r'(?s)("(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*(?:.*?\*/|.*)'
_TRAILING_COMMAS = r'(?s)("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[\]}])'


def blank_comments(text: str) -> str:
    """Return JSON text with blanks for comments and trailing commas: all else keeps its place."""
    for pattern in (_COMMENTS, _TRAILING_COMMAS):
        text = re.sub(pattern, lambda match: (
            match.group(1) or re.sub(r"\S", " ", match.group())), text)
    return text


def resolve_server(name: str, entry: Any, source: str,
                   find_variable: Callable[[str], Optional[str]]) -> ServerEntry:
    """Return how a server in a file is reached; UsageError, without values, where it cannot be."""
    hidden: Dict[str, str] = {}
    try:
        kind = find_kind(entry)
        check_variables(entry, find_variable)
        parts = {member: read_texts(entry[member], types, member, find_variable, hidden)
                 for member, types in ENTRY_MEMBERS.items() if entry.get(member) is not None}
        headers, env = parts.get("headers", {}), parts.get("env", {})
        target: Union[str, List[str]] = ""
        if kind == "http":
            target = next((parts[name] for name in URL_MEMBERS if name in parts), "")
            if not is_http_url(target):
                raise UsageError("has a url that is no http or https URL")
        else:
            command = parts.get("command") or ""
            target = [*([command] if isinstance(command, str) else command),
                      *parts.get("args", [])]
            if not target[0]:
                raise UsageError("has an empty command")
        for header, value in headers.items():
            check_header(header, value)
    except UsageError as error:
        raise UsageError(f"{source}: the server {shorten(name)} {error}") from None
    hidden.update(dict.fromkeys((*env.values(), *headers.values()), "***"))
    if isinstance(target, str):
        path = "/" + target.partition("://")[2].partition("/")[2]
        hidden.update({path: "***", path.partition("?")[0]: "***", target: name})
    else:                                         # a program's mere name is no secret
        hidden.update({words: name for words in (target[0], " ".join(target)) if " " in words})
    return ServerEntry(target, headers, env, parts.get("cwd"), hidden)


def find_kind(entry: Any) -> str:
    """Return "stdio" or "http", as a server's `type` says or else its other members."""
    if not isinstance(entry, dict):
        raise UsageError("is no object")
    has = {"stdio": "command" in entry, "http": any(name in entry for name in URL_MEMBERS)}
    word = entry.get("type", "stdio" if has["stdio"] else "http")
    kind = SERVER_KINDS.get(re.sub("[^a-z]", "", str(word).lower()))
    if kind is None:
        raise UsageError(f"is of an unknown type, {shorten(word)}: stdio, http and sse are known")
    if not has[kind]:
        raise UsageError("has neither command nor url" if "type" not in entry else
                         f"is of type {shorten(word)} but has no "
                         + ("command" if kind == "stdio" else "url"))
    return kind


# The members of an entry that count, and the types that each may be of.
ENTRY_MEMBERS = {"command": (str, list), "args": (list,), "env": (dict,), "cwd": (str,),
                 "headers": (dict,), **dict.fromkeys(URL_MEMBERS, (str,))}
_MEMBER_TYPES = {str: "a text", list: "a list of texts", dict: "an object of texts"}


def read_texts(value: Any, types: tuple, member: str,
               find_variable: Callable[[str], Optional[str]], hidden: Dict[str, str]) -> Any:
    """Return a member as texts: numbers and booleans are written out, null members left out.

    ${NAME}, ${env:NAME} and ${NAME:-default} are replaced; what came from a variable is noted in
    `hidden`. See check_variables for one that is not set.
    """
    def replace(match: Any) -> str:
        name, has_default, default = match.group(1).partition(":-")
        found = find_variable(name) or ""
        if has_default and not found:
            return default
        hidden[found] = match.group()
        return found

    if str in types and isinstance(value, (str, int, float)):
        return re.sub(_VARIABLE, replace, value) if isinstance(value, str) else json.dumps(value)
    inner = functools.partial(read_texts, types=(str,), member=member,
                              find_variable=find_variable, hidden=hidden)
    if list in types and isinstance(value, list):
        return list(map(inner, value))
    if dict in types and isinstance(value, dict):
        return {name: inner(part) for name, part in value.items() if part is not None}
    raise UsageError(f"has a member {member} that is not "
                     + " or ".join(_MEMBER_TYPES[kind] for kind in types))


_VARIABLE = r"\$\{(?:env:)?((?:(?!\$\{)[^}])*)\}"


def check_variables(entry: dict, find_variable: Callable[[str], Optional[str]]) -> None:
    """Check that each variable is set that the members which count need."""
    text = json.dumps([entry.get(member) for member in ENTRY_MEMBERS], ensure_ascii=False)
    missing = [shorten(name) for name in dict.fromkeys(re.findall(_VARIABLE, text))
               if ":-" not in name and find_variable(name) is None]
    if missing:
        several = len(missing) > 1
        raise UsageError(f"needs the variable{'s' if several else ''} {' and '.join(missing)}, "
                         f"which {'are' if several else 'is'} not set")


def describe_server(name: str, entry: Any, source: str) -> Dict[str, str]:
    """Return a server's name, kind, source, and the host or program, which are no secrets."""
    try:
        kind = find_kind(entry)
    except UsageError as error:
        return {"name": name, "kind": "unusable", "where": f"it {error}", "source": source}
    command = entry.get("command")
    command = command[0] if isinstance(command, list) and command else command
    url = next((entry[member] for member in URL_MEMBERS if member in entry), "")
    match = re.match(r"https?://(?:[^/?#]*@)?([^/?#]+)", str(url))
    where = (match.group(1) if match else "") if kind == "http" else (
        re.split(r"[\\/]", str(command))[-1].split(" ")[0])
    return {"name": name, "kind": kind, "where": where, "source": source}


# ---- commands

def find_configured(options: Any, name: str) -> Optional[ServerEntry]:
    """Return the server that a configuration file names, None for a target that is no name."""
    if options.server is None and "://" in name:
        if options.config is not None:
            raise UsageError("--config goes with the name of a server in it, not with a URL")
        return None
    name, names = options.server or name, []
    for source in find_config_files(options.config):
        servers = read_config(source)
        if name in servers:
            return resolve_server(name, servers[name], source, find_variable)
        names += servers
    if options.server is not None or options.config is not None:
        where = options.config or "any configuration file"
        raise UsageError(f"there is no server {shorten(name)} in {where}"
                         + find_similar(name, names))
    if is_endpoint(options, name):
        return None
    raise target_error("a URL, or the name of a server in a configuration file", name, names)


def find_variable(name: str) -> Optional[str]:
    """Return a variable of a configuration file: of the environment, or of some editors."""
    known = {"workspaceFolder": os.getcwd(), "userHome": os.path.expanduser("~")}
    try:
        return known.get(name, os.environ.get(name))
    except UnicodeError:                          # half a character, as JSON may have: no name
        return None


def find_config_files(given: Optional[str] = None) -> List[str]:
    """Return the files to look for servers in: the given one, or all that there are."""
    settings = {"win32": os.environ.get("APPDATA", "~"), "darwin": "~/Library/Application Support"}
    folder = settings.get(sys.platform, os.environ.get("XDG_CONFIG_HOME", "~/.config"))
    files = [*PROJECT_FILES, *(name.format(settings=folder) for name in USER_FILES)]
    return [name for name in files if os.path.isfile(os.path.expanduser(name))
            ] if given is None else [given]


def read_config(source: str) -> Dict[str, Any]:
    """Return the servers in a configuration file, by name."""
    try:
        with open(os.path.expanduser(source), "rb") as file:
            return parse_config(file.read(), source, os.getcwd())
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}") from None


def run_servers(options: Any) -> int:
    """List the servers in configuration files: each name can be a TARGET."""
    rows: List[Dict[str, str]] = []
    for source in find_config_files(options.config):
        try:
            rows += [describe_server(str(name), entry, source)
                     for name, entry in read_config(source).items()]
        except UsageError as error:
            if options.config is not None:
                raise
            log_line(f"mcpkit: {error}")
    if options.json:
        print_json({"servers": rows})
        return 0
    for row in rows:
        print_text("  ".join(f"{shorten(row[member]):<{width}}" for member, width in (
            ("name", 20), ("kind", 8), ("where", 24), ("source", 0))).rstrip())
    return 0


MAX_PROBES = 16                    # at the same time, of the servers in one file


def probe_file(options: Any, exchanges: List[Exchange]) -> Optional[dict]:
    """Return one report on all servers of a configuration file, probed side by side.

    None if the command names one server.
    """
    if options.config is None or options.target or options.server or options.command:
        return None
    started, probers = time.monotonic(), {}
    servers, reports = find_all_servers(options)
    seen: Dict[str, List[Exchange]] = {name: [] for name in servers}
    show = find_observer(options)

    def run(name: str) -> dict:
        # Rules may start a stdio server again and again, and a file has many servers.
        steps = {} if isinstance(servers[name].target, str) else {"deep": False}
        steps = {step: value for step, value in steps.items() if hasattr(options, step)}
        probers[name] = build_prober(options, servers[name], seen[name].append, show, **steps)
        return probers[name].run()

    try:
        found = run_together({name: functools.partial(run, name) for name in servers})
    except BaseException:                         # a signal: no server may outlive us
        run_together({name: prober.close for name, prober in probers.items()})
        raise
    for name, report in found.items():
        reports[name] = {**report, "target": name}
        exchanges += seen[name]
    verdicts = [report["verdict"] for report in reports.values()]
    return {"target": options.config, "verdict": max(verdicts, key=VERDICTS.index),
            "servers": reports, "requests": sum(report["requests"] for report in reports.values()),
            "elapsedMs": round((time.monotonic() - started) * 1000)}


def run_together(tasks: Dict[str, Callable[[], Any]]) -> Dict[str, Any]:
    """Return what each task returns, by name; they run in threads that hold up no exit."""
    results, errors = dict.fromkeys(tasks), []
    slots = threading.Semaphore(MAX_PROBES)

    def run(name: str) -> None:
        with slots:
            try:
                results[name] = tasks[name]()
            except BaseException as error:        # raised where it is waited for
                errors.append(error)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not errors:   # signals do not end a wait on every system
            thread.join(0.1)
    for error in errors:
        raise error
    return results


def find_all_servers(options: Any) -> Tuple[Dict[str, ServerEntry], Dict[str, dict]]:
    """Return how each server of the file is reached; a report on each that cannot be."""
    servers, reports = {}, {}
    entries = read_config(options.config)
    if not entries:
        raise UsageError(f"{options.config} names no servers")
    for name, entry in entries.items():
        reports[name] = {}                        # which keeps their order
        try:
            servers[name] = resolve_server(name, entry, options.config, find_variable)
            options.hidden.update(servers[name].hidden)
        except UsageError as error:
            texts = {"message": str(error).replace(f"{options.config}: ", "", 1),
                     "hint": "fix its entry, or set what it needs"}
            reports[name] = {
                "target": name, "endpoint": None, "verdict": "fail", "eras": {},
                "checks": [{"id": "configuration", "status": "fail", "spec": "", **texts}],
                "headline": {"layer": "configuration", **texts},
                "layers": [{"name": "configuration", "status": "fail", "ms": None, **texts}],
                "trail": [], "requests": 0, "elapsedMs": 0}
    return servers, reports


CONFIG = option("--config", metavar="FILE", help="the file that names the server; `probe` without "
                "TARGET takes all that are in it")
TARGETS.append(find_configured)
TARGET_OPTIONS.append("--server")
PROBERS.append(probe_file)
SERVER += [CONFIG, option("--server", metavar="NAME", help="the server's name, instead of TARGET")]
add_command("servers", run_servers, CONFIG, JSON,
            examples=("servers", "servers --config mcp.json"))


# =============================================================================================
# 26. PROBE RULES
# =============================================================================================
# In: a server that was probed. Out: a finding for each rule of the specification, from raw
# requests, right or with one thing wrong, and from all that was answered. No request runs, reads or
# changes anything of the server's. To add a rule, call `changed`, or put @rule over a check.

PROBE_SILENCE_SECONDS = 3.0            # that a request waits for a byte
PROBE_LISTEN_SECONDS = 0.15            # for a stream to end after its response, or else stay open
MAX_PROBE_PAGES = 50                   # of a list
UNKNOWN_VERSION, UNKNOWN_METHOD = "1900-01-01", "probe/unknown"
FOREIGN_ORIGIN = "http://mcpkit-probe.invalid"
FEATURES = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}
RULE_CLIENT = {"name": "mcpkit", "version": __version__}
REFUSED = -1                           # expected of a request: any refusal will do
SAME = "="                             # the modern section of a rule: that of the legacy one
Faults = Iterator[Tuple[str, Any]]     # pairs of a rule's id and what breaks it, None if nothing


class Inapplicable(Exception):
    """A rule that says nothing of this server; the text is why."""


def parse_objects(text: bytes) -> List[dict]:
    """Return the JSON object in a text, or those of the batch in it; none if it is no JSON."""
    with contextlib.suppress(ValueError):
        value = parse_json(text, max_depth=MAX_ANSWER_DEPTH)
        return [item for item in (value if isinstance(value, list) else [value])
                if isinstance(item, dict)]
    return []


class RawResponse(NamedTuple):
    """What came back for one raw request, as far as it was read."""

    status: int
    headers: Headers
    body: bytes
    texts: List[bytes]                 # what may be JSON: the body, or the data of each event
    messages: List[dict]               # the JSON objects in them
    is_open: bool = False              # an event stream that had not ended when reading did

    @property
    def kind(self) -> str:
        """The media type of the answer."""
        return parse_media_type(self.headers.get("content-type"))

    @property
    def response(self) -> dict:
        """The JSON-RPC response in it, {} if there is none."""
        return next((message for message in self.messages if "method" not in message), {})

    @property
    def result(self) -> Optional[dict]:
        """The result in it, None if there is none."""
        result = self.response.get("result")
        return result if isinstance(result, dict) else None

    @property
    def error(self) -> dict:
        """The JSON-RPC error in it, {} if there is none."""
        return find_object(self.response, "error")

    @property
    def seen(self) -> str:
        """The beginning of a finding about it."""
        words = f"was answered with HTTP {self.status}"
        if self.result is not None:
            return words + " with a result"
        if self.error.get("code") is not None:
            return f"{words} with error {shorten(self.error['code'])}"
        return f"{words}, {shorten(self.kind or 'no content type')}" + (
            "" if self.body else ", no body")

    def compare(self, *expected: int) -> Optional[str]:
        """Return what is wrong about it: a result is expected, or a status and one of codes."""
        if not expected:
            is_right = self.status == 200 and self.result is not None
        elif expected[0] == REFUSED:
            is_right = self.status < 500 and self.result is None
        else:
            is_right = self.status == expected[0] and (
                len(expected) == 1 or self.error.get("code") in expected[1:])
        return None if is_right else f"{self.seen}, not {describe_expected(expected)}"


def describe_expected(expected: Sequence[int]) -> str:
    """Return what is expected of an answer in words."""
    if not expected or expected[0] == REFUSED:
        return "refused" if expected else "a result"
    return f"HTTP {expected[0]}" + (
        f" with error {' or '.join(map(str, expected[1:]))}" if expected[1:] else "")


def read_raw_answer(response: Any, enough: str) -> RawResponse:
    """Return the answer in a response; a stream that has enough is read on for a little."""
    answer = RawResponse(response.status, response.headers, b"", [], [])
    if answer.kind != STREAM_TYPE:
        body = response.read_all()
        return answer._replace(body=body, texts=[body], messages=parse_objects(body))
    parser, parts, is_limited, is_open = SSEParser(), [b""], False, False
    while parts[-1] or len(parts) == 1:
        if not is_limited and (enough == "headers" or getattr(answer, enough)):
            response.waits = build_timeouts(PROBE_LISTEN_SECONDS)
            is_limited = True
        try:
            parts.append(response.read_some())
        except (socket.timeout, TransportError) as error:
            if not is_limited or not getattr(error, "timed_out", True):
                raise
            is_open = True
            break
        for event in parser.feed(parts[-1]):
            if event.event == "message" and event.data.strip():
                text = event.data.encode("utf-8", "surrogatepass")
                answer.texts.append(text)
                answer.messages.extend(parse_objects(text))
    return answer._replace(body=b"".join(parts), is_open=is_open)


class ServerUnderTest:
    """One server in one era: right requests to it, and all that it answered in `seen`."""

    def __init__(self, era: str, url: str, prober: Prober):
        self.era, self.url, self.prober = era, url, prober
        self.version = LATEST_MODERN_VERSION if era == "modern" else LATEST_LEGACY_VERSION
        # A request that every server of the era answers, and that does nothing.
        self.harmless = "server/discover" if era == "modern" else "ping"
        self.session_id: Optional[str] = None
        self.seen: List[RawResponse] = []
        self.pool = HTTPPool(prober.network, prober.max_bytes)
        self._count = 0
        self._faults: Dict[Callable, Dict[str, Any]] = {}

    @functools.cached_property
    def opening(self) -> RawResponse:
        """The answer to the first request of the era."""
        return self.ask("server/discover") if self.era == "modern" else (
            self.initialize(self.version))

    @property
    def opened(self) -> dict:
        """The result of the first request, {} if there is none."""
        return self.opening.result or {}

    @functools.cached_property
    def lists(self) -> Dict[str, List[dict]]:
        """The pages of every list that the server declares, by feature, MAX_PROBE_PAGES each."""
        lists: Dict[str, List[dict]] = {}
        for feature, method in FEATURES.items():
            if feature in find_object(self.opened, "capabilities"):
                pages = lists[feature] = []
                cursor: Any = None
                while len(pages) < MAX_PROBE_PAGES and (not pages or cursor is not None):
                    result = self.ask(method, cursor and {"cursor": cursor}).result
                    if result is None:
                        break
                    pages.append(result)
                    cursor = result.get("nextCursor")
        return lists

    def list_items(self, feature: str) -> List[Any]:
        """Return the items on all pages of a list; raises Inapplicable if there are none."""
        items = [item for page in self.lists.get(feature, ()) for item
                 in find_list(page.get(feature))]
        if not items:
            raise Inapplicable(f"no {feature}")
        return items

    def initialize(self, version: str) -> RawResponse:
        """Send `initialize` for a version, as a client that knows no session yet."""
        return self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                       "clientInfo": RULE_CLIENT},
                        {HEADER_SESSION_ID: None, HEADER_PROTOCOL_VERSION: None})

    def open_session(self) -> None:
        """Go through the handshake, if the era has one."""
        opened = self.opened
        if self.era == "legacy":
            version = opened.get("protocolVersion")
            self.version = version if version in LEGACY_VERSIONS else self.version
            self.session_id = self.opening.headers.get("mcp-session-id")
            self.post(build_notification("notifications/initialized"))

    def close_session(self) -> Optional[RawResponse]:
        """End the session, if there is one, and return the answer."""
        return self.send("DELETE") if self.session_id is not None else None

    def ask(self, method: str, params: Optional[dict] = None, headers: Optional[dict] = None,
            meta: Optional[dict] = None, **members: Any) -> RawResponse:
        """Send a request that is right but for what is given.

        `headers` and `meta` replace or (None) leave out what would be there, `members` replace
        those of the message itself. A header may be a list: it is sent so many times.
        """
        self._count += 1
        params = dict(params or {})
        if self.era == "modern":
            params["_meta"] = without_none({
                META_PROTOCOL_VERSION: self.version, META_CLIENT_CAPABILITIES: {},
                META_CLIENT_INFO: RULE_CLIENT, **(meta or {})})
        message = build_request(f"probe-{self._count}", method, params or None)
        return self.post({**message, **members}, headers)

    def post(self, message: Any, headers: Optional[dict] = None) -> RawResponse:
        """Send a message, or bytes that are none."""
        method = message.get("method") if isinstance(message, dict) else None
        data = message if isinstance(message, bytes) else encode_json(message).encode("utf-8")
        own = {"Content-Type": JSON_TYPE, "Accept": RPC_ACCEPT,
               HEADER_METHOD: method if self.era == "modern" else None}
        return self.send("POST", {**own, **(headers or {})}, data,
                         "messages" if method == "subscriptions/listen" else "response")

    def check_time(self) -> None:
        """Raise Inapplicable when the time is used up."""
        if time.monotonic() >= self.prober.waits.deadline:
            raise Inapplicable("the time is used up: --timeout gives it more")

    def send(self, verb: str, headers: Optional[dict] = None, data: bytes = b"",
             enough: str = "headers") -> RawResponse:
        """Send an HTTP request. A stream is read until it has `enough` and a little longer.

        Raises TransportError if there is no answer, Inapplicable when the time is used up.
        """
        self.check_time()
        waits = Timeouts(PROBE_SILENCE_SECONDS, self.prober.waits.deadline)
        own = {HEADER_PROTOCOL_VERSION: self.version,
               HEADER_SESSION_ID: self.session_id if self.era == "legacy" else None,
               "Accept": STREAM_TYPE if verb == "GET" else None, **(headers or {})}
        sent: Headers = {"User-Agent": f"mcpkit/{__version__}"}
        for name, values in {**self.prober.headers_for(self.url), **own}.items():
            sent = {key: value for key, value in sent.items() if key.lower() != name.lower()}
            for value in values if isinstance(values, list) else [values]:
                if value is not None:             # a name that repeats is written in another case
                    sent[name.swapcase() if name in sent else name] = value
        self.seen.append(self.pool.request(
            verb, self.url, sent, data or None, waits,
            lambda response: read_raw_answer(response, enough), observe=self.prober.note))
        return self.seen[-1]

    def find_faults(self, check: Callable) -> Dict[str, Any]:
        """Return what a check found, by rule; what ended it is the fault of its other rules."""
        if check not in self._faults:
            faults = self._faults[check] = {}
            try:
                for name, fault in check(self):
                    faults[name] = faults.get(name) or fault
            except (Inapplicable, TransportError, ProtocolError) as error:
                faults[""] = error
        return self._faults[check]


class Rule(NamedTuple):
    """One rule of the specification, and the sections of 2025-11-25 and 2026-07-28 that state it.

    `check(server)` yields pairs of a rule's id and what breaks it: the end of a sentence that
    `about` begins, None if nothing does, or an Inapplicable. It may raise one, too.
    """

    id: str
    level: str
    legacy: str                        # "": the era has no such rule
    modern: str
    about: str
    hint: str
    since: str                         # the first legacy revision with the rule
    check: Callable[[ServerUnderTest], Faults]

    def judge(self, server: ServerUnderTest) -> Finding:
        """Return the outcome of the rule: "ok", "fail" (MUST), "warning" (SHOULD) or "skipped"."""
        spec, latest = (self.legacy, LATEST_LEGACY_VERSION) if server.era == "legacy" else (
            self.modern, LATEST_MODERN_VERSION)
        if not spec.startswith(("RFC", "HTML", "OWASP")):
            spec = f"{latest} {spec}"
        if PROTOCOL_VERSIONS.index(server.version) < PROTOCOL_VERSIONS.index(self.since):
            fault: Any = Inapplicable(f"since {self.since}")
        else:
            faults = server.find_faults(self.check)
            fault = faults.get(self.id, faults.get(""))
        status, hint = "fail" if self.level == "MUST" else "warning", self.hint
        if fault is None or isinstance(fault, Inapplicable):
            status, hint = "skipped" if fault else "ok", ""
            fault = fault and f"({fault})"
        elif isinstance(fault, TransportError):
            fault = f"was not answered ({escape_text(str(fault))})"
        elif isinstance(fault, ProtocolError):
            fault = f"got an answer that cannot be read ({escape_text(str(fault))})"
        message = f"{self.about} {fault}" if fault else re.sub("(, but.*|:)$", "", self.about)
        return Finding(self.id, status, message, hint, spec, level=self.level, era=server.era)


RULES: List[Rule] = []                 # in the order in which they are tried


def rule(rule_id: str, level: str, legacy: str, modern: str, about: str, hint: str,
         since: str = "2025-03-26") -> Callable:
    """Return a decorator that adds a rule with the function as its check; see Rule."""
    def add(check: Callable) -> Callable:
        RULES.append(Rule(rule_id, level, legacy, legacy if modern is SAME else modern, about, hint,
                          since, check))
        return check
    return add


def changed(rule_id: str, level: str, legacy: str, modern: str, *expected: int, about: str = "",
            hint: str = "", since: str = "2025-03-26", **change: Any) -> None:
    """Add a rule on a harmless request with one change, and the answer that is expected.

    `change` has the arguments of ServerUnderTest.ask. `about` and `hint` are made of it all, unless
    they are given. Without `expected` the request is served.
    """
    words = [f"with the {name} {shorten(value)}" for name, value in change.items()
             if name not in ("headers", "meta")]
    for name, value in {**change.get("headers", {}), **change.get("meta", {})}.items():
        words.append(f"without {name}" if value is None else f"with {name} twice, and different"
                     if isinstance(value, list) else f"with {name}: {value}")
    is_compared = HEADER_MISMATCH in expected
    if not about:
        about = "a request " + " and ".join(words) + (
            ", which its body contradicts," if is_compared and ": " in words[0] else "")
    if not hint:
        hint = "refuse it" if REFUSED in expected else "answer it with " + (
            describe_expected(expected).replace(" with ", " and ")) + (
                ": compare the headers with the body" if is_compared else "")

    @rule(rule_id, level, legacy, modern, about, hint, since)
    def check(server: ServerUnderTest) -> Faults:
        yield rule_id, server.ask(server.harmless, **change).compare(*expected)


UNKNOWN_EVERYWHERE = {"headers": {HEADER_PROTOCOL_VERSION: UNKNOWN_VERSION},
                      "meta": {META_PROTOCOL_VERSION: UNKNOWN_VERSION}}
_HTTP = "basic/transports/streamable-http, "
_CHECKED, _EARLIER = _HTTP + "Server Validation", _HTTP + "Earlier Streamable HTTP Revisions"
_CASE, _RECEIVING = _HTTP + "Case Sensitivity", _HTTP + "Receiving Messages"
_OLD = "basic/transports, "
_POSTING, _OLD_SESSION = _OLD + "Sending Messages to the Server", _OLD + "Session Management"
_NEW_POSTING, _OLD_GET = _HTTP + "Sending Messages", _OLD + "Listening for Messages from the Server"
_SECURITY, _NEW_SECURITY = _OLD + "Security Warning", _HTTP + "Security & Endpoint"
_LEFT_OUT = "clients leave such an item out"


# ---- openings

@rule("discover", "MUST", "", "server/discover, Response",
      "server/discover",
      "answer it with supportedVersions and capabilities")
@rule("initialize", "MUST", "basic/lifecycle, Initialization", "",
      "initialize",
      "answer with protocolVersion, capabilities and serverInfo")
@rule("server-info", "SHOULD", "", "basic, _meta",
      f"_meta[{META_SERVER_INFO!r}]",
      "put name and version there")
def rule_opening(server: ServerUnderTest) -> Faults:
    result, name = server.opened, "discover" if server.era == "modern" else "initialize"
    yield name, server.opening.compare()
    if not result:
        return
    versions, version = result.get("supportedVersions"), result.get("protocolVersion")
    if server.era == "modern" and server.version not in find_list(versions):
        yield name, f"names {shorten(versions)}, without {server.version}"
    if server.era == "legacy" and version not in LEGACY_VERSIONS:
        yield name, f"agreed on {shorten(version)}, which is no such version"
    if not isinstance(result.get("capabilities"), dict):
        yield name, "has no capabilities"
    info = result.get("serverInfo") if server.era == "legacy" else (
        find_object(result, "_meta").get(META_SERVER_INFO))
    if not isinstance(info, dict) or not all(isinstance(info.get(member), str)
                                             for member in ("name", "version")):
        fault = f"is {shorten(info)}; it must have a name and a version"
        yield "server-info", fault
        yield "initialize", f"has a serverInfo that {fault}"


@rule("lists-answer", "MUST", "basic/lifecycle, Capability Negotiation",
      "server/tools, Capabilities", "the capabilities", "answer the list of all that is declared")
def rule_lists_answer(server: ServerUnderTest) -> Faults:
    for feature, pages in server.lists.items():
        if not pages or not all(isinstance(page.get(feature), list) for page in pages):
            yield "lists-answer", f"names {feature}, but {FEATURES[feature]} gives no list of them"


@rule("initialize-unknown", "MUST", "basic/lifecycle, Version Negotiation", "",
      f"initialize for {UNKNOWN_VERSION}",
      "answer with the latest version that is supported")
def rule_initialize_unknown(server: ServerUnderTest) -> Faults:
    answer = server.initialize(UNKNOWN_VERSION)
    session_id = answer.headers.get("mcp-session-id")
    if session_id is not None:
        server.send("DELETE", {HEADER_SESSION_ID: session_id})
    if (answer.result or {}).get("protocolVersion") == UNKNOWN_VERSION:
        yield "initialize-unknown", f"agreed on {UNKNOWN_VERSION}, which there is not"
    if answer.status >= 500:
        yield "initialize-unknown", answer.seen


@rule("ping", "MUST", "basic/utilities/ping, Behavior Requirements", "",
      "ping",
      "answer it with an empty result")
def rule_ping(server: ServerUnderTest) -> Faults:
    answer = server.ask("ping")
    yield "ping", answer.compare()
    if set(answer.result or {}) - {"_meta"}:
        yield "ping", f"was answered with {shorten(answer.result)}; it must be {{}}"


# ---- requests with one thing wrong, or odd but right

# A server for old clients may take it for 2025-03-26, which has no server/discover.
changed("version-missing", "MUST", "", _CHECKED, REFUSED, headers={HEADER_PROTOCOL_VERSION: None})
changed("version-mismatch", "MUST", "", _CHECKED, 400, HEADER_MISMATCH,
        headers={HEADER_PROTOCOL_VERSION: LATEST_LEGACY_VERSION})
changed("version-repeated", "MUST", "", _CHECKED, 400, HEADER_MISMATCH, headers={
    HEADER_PROTOCOL_VERSION: [LATEST_MODERN_VERSION, LATEST_LEGACY_VERSION]})
changed("version-unknown", "MUST", "", _HTTP + "Protocol Version Header", 400, UNSUPPORTED_VERSION,
        about=f"version {UNKNOWN_VERSION}", **UNKNOWN_EVERYWHERE)
changed("version-header", "MUST", _OLD + "Protocol Version Header", "", 400,
        headers={HEADER_PROTOCOL_VERSION: UNKNOWN_VERSION}, since="2025-06-18")
changed("version-assumed", "SHOULD", _OLD + "Protocol Version Header", "",
        headers={HEADER_PROTOCOL_VERSION: None}, since="2025-06-18",
        hint=f"take the session's version, or {ASSUMED_VERSION}")
changed("method-missing", "MUST", "", _CHECKED, 400, HEADER_MISMATCH, headers={HEADER_METHOD: None})
changed("method-mismatch", "MUST", "", _CHECKED, 400, HEADER_MISMATCH,
        headers={HEADER_METHOD: "tools/list"})
changed("method-case", "MUST", "", _CASE, 400, HEADER_MISMATCH,
        headers={HEADER_METHOD: "SERVER/DISCOVER"})
changed("header-names", "MUST", "", _CASE, about="a request with mcp-method in lower case",
        headers={HEADER_METHOD: None, HEADER_METHOD.lower(): "server/discover"},
        hint="compare names case-insensitively")
changed("capabilities-missing", "MUST", "", "basic, _meta", 400, INVALID_PARAMS,
        meta={META_CLIENT_CAPABILITIES: None})
changed("session-ignored", "SHOULD", "", _EARLIER, headers={HEADER_SESSION_ID: "no-such-session"},
        hint="ignore the header")
changed("id-null", "MUST", "basic, Requests", SAME, REFUSED, id=None)
changed("accept-case", "MUST", "RFC 9110 8.3.1", SAME,
        headers={"Accept": "Text/Event-Stream;q=0.5, Application/JSON;q=0.9"},
        hint="compare media types case-insensitively, without parameters")
changed("content-type-charset", "MUST", "RFC 9110 8.3.1", SAME,
        headers={"Content-Type": "application/json; charset=utf-8"},
        hint="look at the media type without its parameters")
changed("origin", "MUST", _SECURITY, _NEW_SECURITY, 403, headers={"Origin": FOREIGN_ORIGIN},
        hint="refuse origins that are not allowed with 403, against DNS rebinding",
        since="2025-11-25")
changed("last-event-id", "SHOULD", "", _EARLIER, headers={"Last-Event-ID": "probe"})


# ---- messages

@rule("version-list", "MUST", "", "basic/versioning, Protocol Version Negotiation",
      f"the error for version {UNKNOWN_VERSION}",
      "list the supported versions in data.supported")
def rule_version_list(server: ServerUnderTest) -> Faults:
    error = server.ask(server.harmless, **UNKNOWN_EVERYWHERE).error
    supported = find_object(error, "data").get("supported")
    if server.version not in find_list(supported):
        yield "version-list", (f"says that {shorten(supported)} are supported; it must name "
                               f"{server.version}")


@rule("meta-missing", "MUST", "", "basic, _meta",
      "a request without _meta",
      "answer it with HTTP 400 and error -32602")
def rule_meta_missing(server: ServerUnderTest) -> Faults:
    # Without _meta the header has nothing to match either: both errors are right.
    answer = server.post(build_request("bare", server.harmless, None))
    yield "meta-missing", answer.compare(400, INVALID_PARAMS, HEADER_MISMATCH)


@rule("id-echo", "MUST", "basic, Responses", SAME,
      "the id",
      "answer with the same id, of the same type")
def rule_id_echo(server: ServerUnderTest) -> Faults:
    for request_id in ("", "\u00df \u2028", 0, MAX_SAFE_INTEGER):
        answer = server.ask(server.harmless, id=request_id)
        seen = answer.response.get("id")
        if seen != request_id or type(seen) is not type(request_id):
            yield "id-echo", f"{encode_json(request_id)} {answer.seen} and the id {shorten(seen)}"
            return


@rule("method-unknown", "MUST", "basic, Messages", _HTTP + "Protocol Version Header",
      f"the method {UNKNOWN_METHOD}",
      "answer with -32601")
@rule("error-id", "MUST", "basic, Responses", "basic, Error Responses",
      "the error for an unknown method",
      "answer with the id of the request")
@rule("error-escaping", "SHOULD", "OWASP ASVS 1.2.1", SAME,
      "the method <b>probe</b>",
      "escape what goes into a page")
def rule_unknown_methods(server: ServerUnderTest) -> Faults:
    answer = server.ask(UNKNOWN_METHOD, id="mine")
    yield "method-unknown", answer.compare(404 if server.era == "modern" else answer.status,
                                           METHOD_NOT_FOUND)
    if answer.error and answer.response.get("id") != "mine":
        yield "error-id", f'has the id {shorten(answer.response.get("id"))}; it must be "mine"'
    answer = server.ask("<b>probe</b>")
    if "html" in answer.kind and b"<b>probe</b>" in answer.body:
        yield "error-escaping", "is answered with a page that says it as it is"


@rule("bad-json", "MUST", "basic, Messages", SAME,
      "a body that is no JSON",
      "refuse it with 400 and -32700")
def rule_bad_json(server: ServerUnderTest) -> Faults:
    answer = server.post(b'{"jsonrpc": "2.0", "id": 1, ')
    code = answer.error.get("code")
    yield "bad-json", answer.compare(REFUSED)
    if code not in (None, PARSE_ERROR):
        yield "bad-json", f"was answered with error {shorten(code)}; it must be {PARSE_ERROR}"


@rule("batch", "MUST", "basic, Messages", SAME,
      "a batch of two requests",
      "refuse it with 400 and -32600", "2025-06-18")
def rule_batch(server: ServerUnderTest) -> Faults:
    meta = {} if server.era == "legacy" else {"params": {"_meta": {
        META_PROTOCOL_VERSION: server.version, META_CLIENT_CAPABILITIES: {}}}}
    batch = [{"jsonrpc": "2.0", "id": number, "method": server.harmless, **meta}
             for number in (1, 2)]
    answer = server.post(batch, {HEADER_METHOD: server.harmless} if meta else None)
    # By JSON-RPC both are answered, by this protocol neither; one of two is a message lost.
    served = sorted(message["id"] for message in answer.messages
                    if message.get("id") in (1, 2) and "result" in message)
    if answer.status >= 500 or served not in ([], [1, 2]):
        yield "batch", f"{answer.seen}, of {len(served)} of them"


@rule("notification", "MUST", _POSTING, _NEW_POSTING,
      "a notification",
      "answer 202 without a body")
@rule("response", "MUST", _POSTING, "",
      "a response to no request",
      "answer 202 without a body")
def rule_accepted(server: ServerUnderTest) -> Faults:
    messages = {"notification": build_notification("notifications/probe")}
    if server.era == "legacy":
        messages["response"] = build_result("no-such-request", {})
    for name, message in messages.items():
        answer = server.post(message)
        if answer.status < 400 and (answer.status != 202 or answer.body):
            yield name, f"{answer.seen}; it must be 202 without a body, or an HTTP error"


# ---- HTTP and sessions

@rule("preflight", "SHOULD", _SECURITY, _NEW_SECURITY,
      f"a preflight from a page of {FOREIGN_ORIGIN}",
      "allow only the origins that may call", "2025-11-25")
def rule_preflight(server: ServerUnderTest) -> Faults:
    answer = server.send("OPTIONS", {
        "Origin": FOREIGN_ORIGIN, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type"})
    allowed = answer.headers.get("access-control-allow-origin")
    if allowed in ("*", FOREIGN_ORIGIN):
        yield "preflight", f"was answered with Access-Control-Allow-Origin: {allowed}"


@rule("host", "SHOULD", "RFC 9110 7.4", SAME,
      "a request for the host mcpkit-probe.invalid",
      "refuse hosts that are not this server with 421, against DNS rebinding")
def rule_host(server: ServerUnderTest) -> Faults:
    if not is_loopback(urllib.parse.urlsplit(server.url).hostname or ""):
        raise Inapplicable("not on this machine")
    yield "host", server.ask(server.harmless, headers={
        "Host": FOREIGN_ORIGIN.partition("//")[2]}).compare(REFUSED)


@rule("get", "MUST", _OLD_GET, "",
      "a GET",
      "answer with 405 if there is no stream")
@rule("get-refused", "SHOULD", "", _EARLIER,
      "a GET",
      "answer with 405")
@rule("get-responses", "MUST", _OLD_GET, "",
      "the stream of a GET",
      "send responses on the stream of the request")
def rule_get(server: ServerUnderTest) -> Faults:
    answer = server.send("GET")
    if answer.status != 405 and not (answer.status == 200 and answer.kind == STREAM_TYPE):
        yield "get", f"{answer.seen}; it must be an event stream, or 405"
    if answer.kind == STREAM_TYPE and answer.response:
        yield "get-responses", f"holds the response {shorten(answer.response)}"
    is_modern_only = set(find_list(server.opened.get("supportedVersions"))) <= set(MODERN_VERSIONS)
    yield "get-refused", answer.compare(405) if is_modern_only else Inapplicable(
        "other revisions are spoken too")


@rule("session-id", "MUST", _OLD_SESSION, "",
      "the session ID",
      "use visible ASCII characters only")
@rule("session-missing", "SHOULD", _OLD_SESSION, "",
      "a request without the session ID",
      "refuse it with 400")
@rule("session-unknown", "SHOULD", _OLD_SESSION, "",
      "a request of an unknown session",
      "refuse it with 404")
def rule_session(server: ServerUnderTest) -> Faults:
    if server.session_id is None:
        raise Inapplicable("no session ID")
    is_visible = re.fullmatch(r"[\x21-\x7e]+", server.session_id)
    yield "session-id", None if is_visible else f"is {shorten(server.session_id)}"
    answer = server.ask("ping", headers={HEADER_SESSION_ID: None})
    if answer.result is None:                                   # it may do without the id
        yield "session-missing", answer.compare(400)
    yield "session-unknown", server.ask(
        "ping", headers={HEADER_SESSION_ID: "no-such-session"}).compare(404)


@rule("session-ended", "MUST", _OLD_SESSION, "",
      "a request of a session that was ended",
      "refuse it with 404")
def rule_session_ended(server: ServerUnderTest) -> Faults:
    if server.session_id is None:
        raise Inapplicable("no session ID")
    other = ServerUnderTest("legacy", server.url, server.prober)
    with contextlib.closing(other.pool):
        other.open_session()
        ended = other.close_session()
        is_ended = ended is not None and 200 <= ended.status < 300
        yield "session-ended", other.ask("ping").compare(404) if is_ended else Inapplicable(
            "sessions cannot be ended")


@rule("listen", "MUST", "", "basic/patterns/subscriptions, Acknowledgment",
      "subscriptions/listen",
      "send notifications/subscriptions/acknowledged first, with the subscription's id")
@rule("listen-open", "SHOULD", "", "basic/patterns/subscriptions, Graceful Closure",
      "the stream of subscriptions/listen",
      "keep it open, or send a response before it ends")
def rule_listening(server: ServerUnderTest) -> Faults:
    answer = server.ask("subscriptions/listen", {"notifications": {}}, id="listen")
    if answer.error.get("code") == METHOD_NOT_FOUND:
        raise Inapplicable("no subscriptions/listen")
    first = answer.messages[0] if answer.messages else {}
    seen = find_object(find_object(first, "params"), "_meta").get(META_SUBSCRIPTION_ID)
    if first.get("method") != "notifications/subscriptions/acknowledged":
        yield "listen", f"begins with {shorten(first) if first else answer.seen}"
    elif seen != "listen":
        yield "listen", (f'is acknowledged with the subscription ID {shorten(seen)}; it must be '
                         '"listen"')
    if not answer.is_open and not answer.response:
        yield "listen-open", "ended at once, without a response"


# ---- lists and tools

@rule("pages-end", "SHOULD", "server/utilities/pagination", SAME,
      "a list",
      "leave nextCursor out on the last page")
@rule("cache-hints", "MUST", "", "server/utilities/caching, Cacheable Results",
      "a cacheable result:",
      "give ttlMs (0 or more) and cacheScope")
@rule("cache-scopes", "MUST", "", "server/utilities/caching, Interaction with Pagination",
      "the cacheScope of the pages of one list:",
      "use one for all pages")
def rule_lists(server: ServerUnderTest) -> Faults:
    for method, pages in [("server/discover", [server.opened]), *(
            (FEATURES[feature], pages) for feature, pages in server.lists.items())]:
        for page in pages:
            ttl, scope = page.get("ttlMs"), page.get("cacheScope")
            if not isinstance(ttl, (int, float)) or isinstance(ttl, bool) or ttl < 0 or ttl % 1:
                yield "cache-hints", f"{method} has the ttlMs {shorten(ttl)}"
            if scope not in ("public", "private"):
                yield "cache-hints", f"{method} has the cacheScope {shorten(scope)}"
        if len({shorten(page.get("cacheScope")) for page in pages}) > 1:
            yield "cache-scopes", f"those of {method} differ"
        cursors = [page["nextCursor"] for page in pages if page.get("nextCursor") is not None]
        if len(cursors) != len(set(map(encode_json, cursors))):
            yield "pages-end", f"{method} gives the same nextCursor twice"
        if cursors and len(cursors) == len(pages) < MAX_PROBE_PAGES:
            yield "pages-end", f"{method} names a page that cannot be read"


@rule("cursor-invalid", "SHOULD", "server/utilities/pagination, Error Handling", SAME,
      "an unknown cursor",
      "answer with -32602")
def rule_cursor(server: ServerUnderTest) -> Faults:
    if not server.lists:
        raise Inapplicable("no lists")
    answer = server.ask(FEATURES[next(iter(server.lists))], {"cursor": "no such cursor"})
    yield "cursor-invalid", answer.compare(answer.status, INVALID_PARAMS)


@rule("resources", "MUST", "server/resources, Resource", SAME,
      "a resource has a uri, with a scheme, and a name, but",
      _LEFT_OUT)
@rule("prompts", "MUST", "server/prompts, Prompt", SAME,
      "a prompt has a name, but",
      _LEFT_OUT)
def rule_members(server: ServerUnderTest) -> Faults:
    for feature, members in (("resources", ("uri", "name")), ("prompts", ("name",))):
        try:
            items = server.list_items(feature)
        except Inapplicable as reason:
            yield feature, reason
            continue
        for index, item in enumerate(items):
            for name in members:
                value = item.get(name) if isinstance(item, dict) else None
                if not isinstance(value, str) or name == "uri" and not re.match(
                        r"[A-Za-z][A-Za-z0-9+.-]*:", value):
                    yield feature, f"number {index} has the {name} {shorten(value)}"


@rule("tool-names", "SHOULD", "server/tools, Tool Names", SAME,
      "a tool's name has 1 to 128 letters of ASCII, digits, _, - and ., but",
      "some clients take no other characters", "2025-11-25")
@rule("tool-names-unique", "SHOULD", "server/tools, Tool Names", SAME,
      "the tools' names are unique, but",
      "rename one of the tools", "2025-11-25")
@rule("tool-schemas", "MUST", "server/tools, Tool", SAME,
      "a tool's schemas are JSON Schemas, but",
      _LEFT_OUT)
@rule("header-parameters", "MUST", "", _HTTP + "Schema Extension",
      "an x-mcp-header names one plain parameter, but",
      _LEFT_OUT)
@rule("schema-references", "SHOULD", "", "basic, $ref Resolution",
      "a $ref does not lead to the network, but",
      "put the schema into $defs")
def rule_tools(server: ServerUnderTest) -> Faults:
    names: List[str] = []
    for index, item in enumerate(server.list_items("tools")):
        tool = item if isinstance(item, dict) else {}
        name = tool.get("name")
        here = f"tool {index} ({shorten(name)})"
        if isinstance(name, str):
            if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name):
                yield "tool-names", f"there is {shorten(encode_json(name))}"
            if name in names:
                yield "tool-names-unique", f"{shorten(name)} is there twice"
            names.append(name)
        fault = find_tool_fault(tool)
        yield "tool-schemas", fault and f"{here} {fault}"
        schemas = {label: tool.get(label, {}) for label in ("inputSchema", "outputSchema")}
        for label, schema in schemas.items():
            try:
                check_schema(schema)
            except SchemaError as error:
                yield "tool-schemas", f"{here} has an {label} that is no JSON Schema: {error}"
        try:
            find_header_parameters(tool.get("inputSchema"))
        except SchemaError as error:
            yield "header-parameters", f"{here} is to be rejected: {error}"
        reference = find_network_reference(schemas)
        yield "schema-references", reference and f"{here} refers to {shorten(reference)}"


@rule("list-order", "SHOULD", "", "server/tools, Capabilities",
      "the order of the tools",
      "list them in the same order each time")
def rule_list_order(server: ServerUnderTest) -> Faults:
    server.list_items("tools")                    # there are some
    first, again = server.lists["tools"][0], server.ask("tools/list").result or {}
    before, after = ([shorten(tool.get("name")) for tool in find_list(page.get("tools"))
                      if isinstance(tool, dict)] for page in (first, again))
    if before != after and sorted(before) == sorted(after):
        yield "list-order", f"was {shorten(before)}, then {shorten(after)}"


def find_network_reference(schema: Any) -> Optional[str]:
    """Return a `$ref` in a schema that leads out of it to the network, None when none does."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and re.match("https?:", reference, re.IGNORECASE):
                return reference
            waiting += [member for keyword, member in part.items()
                        if keyword not in ("const", "default", "enum", "examples")]
    return None


# ---- all that was answered; these checks come last

@rule("stream-framing", "MUST", "HTML 9.2.6", SAME, "a stream",
      "begin each line with data:, event:, id:, retry: or a colon, and end each event with a "
      "blank line")
@rule("stream-retry", "SHOULD", "HTML 9.2.6", SAME,
      "a stream",
      "write it in digits: milliseconds")
@rule("event-ids", "MUST", _OLD + "Resumability and Redelivery", "",
      "an event's id is unique in its session, but one stream or another",
      "count on over all streams of a session")
@rule("stream-messages", "MUST", _POSTING, _RECEIVING,
      "an event of a stream",
      "send one JSON-RPC message an event")
@rule("stream-requests", "MUST", "", _RECEIVING,
      "a stream",
      "ask by a result of type input_required")
@rule("stream-logs", "MUST", "", "server/utilities/logging",
      "a stream for which no logs were asked",
      f"log only if _meta has {META_LOG_LEVEL}")
@rule("stream-ends", "SHOULD", _POSTING, _RECEIVING,
      "a stream",
      "end it with the response")
@rule("stream-buffering", "SHOULD", "", _RECEIVING,
      "X-Accel-Buffering: no: a stream",
      "tell proxies not to buffer")
def rule_streams(server: ServerUnderTest) -> Faults:
    ids: List[bytes] = []
    streams = [answer for answer in server.seen if answer.kind == STREAM_TYPE]
    if not streams:
        raise Inapplicable("no event streams")
    for stream in streams:
        # An initialize that was tried out got a session of its own.
        is_own = stream.headers.get("mcp-session-id", server.session_id) == server.session_id
        for line in stream.body.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True):
            name, value = split_field(line.strip(b"\r\n"))        # "" is a comment, or no line
            if line[-1:] in b"\r\n" and name not in (b"", b"data", b"event", b"id", b"retry"):
                yield "stream-framing", f"holds a line that is no field, {shorten(name)}"
            if name == b"retry" and not value.isdigit():
                yield "stream-retry", f"has the retry {shorten(value)}"
            if name == b"id" and is_own:
                if value in ids:
                    yield "event-ids", f"has the id {shorten(value)} twice"
                ids.append(value)
        parser = SSEParser()
        parser.feed(stream.body)
        rest = parser.close()
        if rest and not stream.is_open:
            yield "stream-framing", f"ends inside of an event, which is lost: {shorten(rest)}"
        for text in stream.texts:
            values = parse_objects(text)
            if text[:1] == b"[" or not values or values[0].get("jsonrpc") != JSONRPC_VERSION:
                yield "stream-messages", f"holds {shorten(text)}"
        for message in stream.messages:
            if "method" in message and "id" in message:
                yield "stream-requests", f"asks {shorten(message['method'])}"
            if message.get("method") == "notifications/message":
                yield "stream-logs", f"holds {shorten(message)}"
        if stream.is_open and stream.response:
            yield "stream-ends", "stays open after the response"
        if stream.headers.get("x-accel-buffering") != "no":
            yield "stream-buffering", "comes without it"


@rule("answer-type", "MUST", _POSTING, _NEW_POSTING,
      "the answer",
      f"send {JSON_TYPE} or {STREAM_TYPE}")
@rule("result-type", "MUST", "", "basic, Result Responses",
      "resultType",
      'put "resultType": "complete" into each result')
@rule("error-shape", "MUST", "basic, Responses", "basic, Error Responses",
      "an error",
      "give a code (an integer) and a message (a text)")
@rule("error-codes", "MUST", "", "basic, Error Codes",
      "a code that the protocol reserves:",
      "use the defined codes, or some outside -32768 to -32000")
@rule("utf-8", "MUST", "basic/transports", "basic/transports, Messages",
      "an answer:",
      "encode messages in UTF-8")
def rule_answers(server: ServerUnderTest) -> Faults:
    for answer in server.seen:
        result, code = answer.result, answer.error.get("code")
        is_known = answer.kind in (JSON_TYPE, STREAM_TYPE)
        if "error" in answer.response and not (isinstance(code, int) and isinstance(
                answer.error.get("message"), str)):
            yield "error-shape", f"is {shorten(answer.response['error'])}"
        if isinstance(code, int) and (-32099 <= code <= -32020 and code not in MODERN_ERRORS
                                      or code in (-32002, -32042)):
            yield "error-codes", f"{code} is used"
        if result is not None and not isinstance(result.get("resultType"), str):
            yield "result-type", f"is missing in {shorten(result)}"
        if result is not None and not is_known:
            yield "answer-type", f"is of type {shorten(answer.kind or 'none')}"
        try:
            answer.body.decode("utf-8" if is_known else "latin-1")
        except UnicodeDecodeError:
            yield "utf-8", f"{shorten(answer.body)} is no UTF-8"


def judge_server(server: ServerUnderTest) -> Iterator[Finding]:
    """Yield the outcome of every rule of an era, from its opening to its end."""
    try:
        server.open_session()
        for row in RULES:
            if row.legacy if server.era == "legacy" else row.modern:
                yield row.judge(server)
        server.check_time()
        server.close_session()
    except Inapplicable as reason:
        yield Finding("deep", "note", f"not every rule was tried: {reason}", era=server.era)
    except MCPKitError as error:
        yield Finding("answers", "fail", "a right request was not answered "
                      f"({escape_text(str(error))})", "see the server's log",
                      f"{server.version} basic, Responses", level="MUST", era=server.era)


def probe_deep(prober: Prober, _: Any) -> None:
    """Try every rule in each era that is spoken, and count those kept, broken and skipped."""
    if not prober.is_http:
        raise UsageError("the deep checks are for URLs: they are about HTTP")
    # Redirects are followed to where the headers may go.
    urls = [exchange.url for exchange in prober.exchanges
            if exchange.method == "POST" and not is_redirect(exchange)]
    for report in prober.eras:
        if report.facts["transport"] != HTTPTransport.name:
            if report.version is not None:
                prober.findings.append(Finding("deep", "note", "no rule was tried: they are about "
                                               "Streamable HTTP", era=report.name))
            continue
        server = ServerUnderTest(report.name, urls[-1] if urls else prober.endpoint, prober)
        with contextlib.closing(server.pool):
            found = list(judge_server(server))
        prober.findings += found
        report.facts["levels"] = {level: {
            name: sum(seen.level == level and seen.status in statuses for seen in found)
            for name, statuses in (("ok", ("ok",)), ("broken", ("fail", "warning")),
                                   ("skipped", ("skipped",)))} for level in ("MUST", "SHOULD")}


PROBE_STEPS.append(("deep", False, probe_deep))
add_options("probe", option(
    "--deep", action="store_true", help=f"try {len(RULES)} rules of the specification too, right "
    "and wrong requests that change nothing"))


# =============================================================================================
# 27. PROBE DISCOVERY
# =============================================================================================
# In: a page or bare host, or the refusal of a server that wants a token. Out: the endpoint, or who
# issues tokens, with the trail of all that was asked. Nothing of finding an endpoint is ratified:
# what is found counts when a handshake confirms it. And what a server of ours says of itself.

# Where to find a server from nothing but its domain, and what to know before connecting. Drafts:
# modelcontextprotocol/experimental-ext-server-card, docs/discovery.md; Agent-Card/ai-catalog.
CATALOG_PATH, CATALOG_TYPE = "/.well-known/ai-catalog.json", "application/ai-catalog+json"
CARD_PATH, CARD_TYPE = "/server-card", "application/mcp-server-card+json"     # below the endpoint
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"


def build_catalog(info: dict, url: str) -> dict:
    """Return the AI catalog of a domain that has one server: where its card is.

    What the card says of the server is not said again. `url` is that of the endpoint.
    """
    namespace, _, name = build_card(info, url)["name"].partition("/")
    domain = ".".join(reversed(namespace.split(".")))
    return {"specVersion": "1.0", "entries": [{
        "identifier": f"urn:air:{domain}:mcp:{name}", "type": CARD_TYPE,
        "url": url.rstrip("/") + CARD_PATH}]}


def build_card(info: dict, url: str) -> dict:
    """Return the card of a server: who it is and how to reach it, but not what it offers.

    A name like "com.example/weather" stays. Any other is put below the host of the endpoint, turned
    around.
    """
    def cut(text: Optional[str]) -> Optional[str]:
        return f"{text[:97]}..." if text and len(text) > 100 else text or None

    name = info["name"]
    description = info.get("description") or info.get("title") or name or "An MCP server"
    if len(name) > 200 or not re.fullmatch("[A-Za-z0-9.-]+/[A-Za-z0-9._-]+", name):
        host = split_host(url.partition("://")[2].partition("/")[0])
        labels = re.sub("[^a-z0-9.-]+", "-", host).strip("-.").split(".")
        name = re.sub("[^A-Za-z0-9._-]+", "-", name).strip("-")
        name = f"{'.'.join(reversed(labels))[:100] or 'localhost'}/{name[:99] or 'server'}"
    return without_none({
        "$schema": CARD_SCHEMA, "name": name, "version": info["version"][:255],
        "description": cut(description), "title": cut(info.get("title")),
        "websiteUrl": info.get("websiteUrl"), "icons": info.get("icons"),
        "remotes": [{"type": "streamable-http", "url": url,
                     "supportedProtocolVersions": list(SUPPORTED_VERSIONS)}]})


def build_public_documents(service: HTTPService, publish: bool) -> Dict[str, Document]:
    """Return what a server publishes of itself, by path."""
    rows = ((CATALOG_PATH, build_catalog, CATALOG_TYPE),
            (service.path.rstrip("/") + CARD_PATH, build_card, CARD_TYPE))
    return {path: Document(functools.partial(build, service.mcp.info), kind, PUBLIC_HEADERS)
            for path, build, kind in rows if publish}


SERVICE_OPTIONS["publish"] = build_public_documents


# ---- candidates

MAX_DISCOVERY_REQUESTS = 12
MAX_CANDIDATES = 100                   # that are taken from one document
CONFIRM_REQUESTS = 3                   # that a handshake in an unknown era may take
CARD_TYPES = (CARD_TYPE, "application/mcp-server+json")               # the second is older
# Where to look first: the rank, what is expected there, the path, and who names it.
PLACES = (
    (0, "page", "", "the page"), (1, "catalog", CATALOG_PATH, "well-known"),
    (3, "resource", RESOURCE_METADATA_PATH, "RFC 9728"),
    *((5, "endpoint", path, "a usual path") for path in ("/mcp", "/api/mcp", "/sse")))
LINK_RELATIONS = {"ai-catalog": (1, "catalog"), "mcp": (4, "endpoint"),
                  "mcp-server": (4, "endpoint")}
LAYERS.insert(1, "discovery")


class Candidate(NamedTuple):
    """A URL that may name an endpoint, or be one, and what `kind` of document is expected there.

    Those of the lowest `rank` are tried first; `source` says who named it, in a `card` perhaps.
    """

    rank: int
    kind: str
    url: str
    source: str
    card: Optional[dict] = None


def resolve_link(base: str, reference: Any) -> str:
    """Return the http URL that a document's reference means, else the reference itself."""
    try:
        url = urljoin(base, reference)
        return escape_url(url) if is_http_url(url) else str(reference)
    except (TypeError, ValueError):               # an unclosed [, say
        return str(reference)


def is_near(url: str, target: str) -> bool:
    """Return whether a URL is on the target's host or a subdomain of it, and on its port."""
    if not is_http_url(url):
        return False
    (scheme, host, port), (old_scheme, old_host, old_port) = map(split_origin, (url, target))
    return port == old_port and scheme in (old_scheme, "https") and (
        host == old_host or host.endswith("." + old_host))


_LINK = r"""<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:"[^"]*"|[^\s;,"]*))?)*)"""
_ATTRIBUTE = r"""(?<![\w-])([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>;]+))"""


def read_page(header: str, page: str, origin: Candidate) -> Iterator[Candidate]:
    """Yield what the links of a page and of its Link header lead to. Spec: RFC 8288, 3."""
    import html
    tags = re.findall(r"<link\b([^<>]*)>", page, re.I)
    for target, text in re.findall(_LINK, header) + [("", attributes) for attributes in tags]:
        members = {name.lower(): html.unescape("".join(values))
                   for name, *values in re.findall(_ATTRIBUTE, text)}
        reference = target or members.get("href", "")
        for relation in members.get("rel", "").lower().split():
            if relation in LINK_RELATIONS and reference:
                yield Candidate(*LINK_RELATIONS[relation], resolve_link(origin.url, reference),
                                f"link {relation}")


def read_document(document: dict, origin: Candidate) -> Iterator[Candidate]:
    """Yield the endpoint that a document names, and the cards and catalogs in a catalog.

    The variables in the URLs of a server card are filled in with their defaults.
    """
    for remote in find_list(document.get("remotes")) if origin.kind == "card" else ():
        if isinstance(remote, dict) and remote.get("type") == "streamable-http" and isinstance(
                remote.get("url"), str):
            url, variables = remote["url"], remote.get("variables")
            for name, variable in variables.items() if isinstance(variables, dict) else ():
                if isinstance(variable, dict) and isinstance(variable.get("default"), str):
                    url = url.replace("{" + name + "}", variable["default"])
            yield Candidate(origin.rank, "endpoint", resolve_link(origin.url, url), "the card",
                            document)
    for entry in find_list(document.get("entries")) if origin.kind == "catalog" else ():
        kind = (entry.get("type") or entry.get("mediaType")) if isinstance(entry, dict) else None
        if kind in CARD_TYPES and isinstance(entry.get("data"), dict):
            yield from read_document(entry["data"], origin._replace(kind="card"))
        elif kind in (*CARD_TYPES, CATALOG_TYPE) and isinstance(entry.get("url"), str):
            yield Candidate(1, "card" if kind in CARD_TYPES else "catalog",
                            resolve_link(origin.url, entry["url"]), "the catalog")
    resource = document.get("resource") if origin.kind == "resource" else None
    url = resolve_link(origin.url, resource)
    if resource and is_http_url(url):
        yield Candidate(origin.rank, "endpoint", url, origin.source)


def read_candidate(exchange: Exchange, origin: Candidate) -> Tuple[str, List[Candidate]]:
    """Return what came of asking for a document, and the candidates that it names."""
    location = exchange.headers.get("location")
    if is_redirect(exchange) and location:
        url = resolve_link(origin.url, location)
        return f"HTTP {exchange.status} to {url}", [origin._replace(url=url)]
    document = read_object(exchange.answer)
    if exchange.status != 200 or (document is None and origin.kind != "page"):
        return describe_document(exchange), []           # some sites answer 200 to everything
    found = list(read_document(document, origin) if origin.kind != "page" else read_page(
        exchange.headers.get("link", ""), exchange.answer.decode("utf-8", "replace"), origin))
    found = found[:MAX_CANDIDATES]
    return "names " + (", ".join(candidate.url for candidate in found) or "no endpoint"), found


def describe_document(exchange: Exchange) -> str:
    """Return what came of asking for a JSON object."""
    if exchange.status != 200 or read_object(exchange.answer) is not None:
        return f"HTTP {exchange.status}" if exchange.status else str(exchange.error)
    kind = parse_media_type(exchange.headers.get("content-type")) or "no content type"
    return f"HTTP 200 with {kind}, no JSON object"


def fetch_document(prober: Prober, source: str, url: str, is_anonymous: bool = False
                   ) -> Optional[dict]:
    """Return the JSON object at a URL, None if there is none; the trail says what came of it."""
    exchange = prober.fetch(escape_url(url), is_anonymous)
    prober.trail.append({"source": source, "url": url, "outcome": describe_document(exchange)})
    return read_object(exchange.answer) if exchange.status == 200 else None


def try_candidate(prober: Prober, candidate: Candidate, requests: int
                  ) -> Tuple[str, Optional[List[Candidate]]]:
    """Return what came of a candidate, and those that it names, None if it is the endpoint.

    `requests` is how many there may be still.
    """
    is_endpoint = candidate.kind == "endpoint"
    if not is_near(candidate.url, prober.target):
        return "on another site, so not asked", []
    if requests < (CONFIRM_REQUESTS if is_endpoint else 1):
        return f"not asked: {MAX_DISCOVERY_REQUESTS} requests are the limit", []
    if not is_endpoint:
        return read_candidate(prober.fetch(candidate.url), candidate)
    with contextlib.closing(prober.make_client("auto", candidate.url)) as client:
        try:
            client.connect()
        except MCPKitError as error:
            last = prober.exchanges[-1]
            return explain_failure(error, last).message, None if is_challenge(last) else []
        return f"is an endpoint: a handshake agreed on {client.protocol_version}", None


def search_endpoint(prober: Prober) -> Optional[Candidate]:
    """Return the endpoint on the target's site that was confirmed, None if there is none."""
    waiting = [Candidate(rank, kind, urljoin(prober.target, path), source)
               for rank, kind, path, source in PLACES
               if kind != "endpoint" or urljoin(prober.target, path) != prober.target]
    seen, limit = set(), len(prober.exchanges) + MAX_DISCOVERY_REQUESTS
    while waiting:
        candidate = min(waiting, key=lambda other: other.rank)     # the first of the lowest rank
        waiting.remove(candidate)
        if candidate[1:3] not in seen:
            seen.add(candidate[1:3])
            outcome, named = try_candidate(prober, candidate, limit - len(prober.exchanges))
            prober.trail.append({"source": candidate.source, "url": candidate.url,
                                 "outcome": outcome})
            if named is None:
                return candidate
            waiting += named
    return None


def probe_elsewhere(prober: Prober, _: Any) -> None:
    """Look for an endpoint elsewhere on the target's site; go on there from a page or bare host.

    If the target names a path that is not there, the hint says where the endpoint is.
    """
    if not prober.is_http or prober.best.depth not in map(LAYERS.index, ("http", "content")) or any(
            report.verdict != "fail" for report in prober.eras):
        return
    start = len(prober.exchanges)
    found = search_endpoint(prober)
    pages = [exchange for exchange in prober.exchanges[start:] if exchange.method == "GET"][:1]
    is_page = any(page.status == 200 and "html" in parse_media_type(
        page.headers.get("content-type")) for page in pages)
    if found is None:
        prober.advise(re.sub("the endpoint is often at /mcp.*", "no endpoint was found at /mcp or "
                             "another usual path: look for it in the program",
                             prober.best.fault.hint))
        return
    if not is_page and urllib.parse.urlsplit(prober.target).path not in ("", "/"):
        prober.advise(f"the endpoint is {found.url}: probe that")
        return
    prober.endpoint = found.url
    prober.look()
    prober.findings.append(layer("discovery", "ok", f"found {shorten(found.url)}, named by "
                                 f"{found.source}"))
    if found.card is not None:
        prober.findings += check_card(prober, found.card)


def probe_card(prober: Prober, _: Any) -> None:
    """Look for a server card at the endpoint, and compare it with what the server says."""
    if prober.best.version is not None and prober.is_http:
        card = fetch_document(prober, "server card", prober.endpoint.partition("?")[0].rstrip("/")
                              + CARD_PATH)
        prober.findings += check_card(prober, card or {})


def check_card(prober: Prober, card: dict) -> Iterator[Finding]:
    """Yield where a server card says something else than the server itself."""
    eras = {report.name: report.version for report in prober.eras}
    spoken = [version for version in eras.values() if version]
    urls = [one.url for one in read_document(card, Candidate(0, "card", prober.endpoint, ""))]
    promised = {version for remote in find_list(card.get("remotes")) if isinstance(remote, dict)
                for version in find_list(remote.get("supportedProtocolVersions"))
                if isinstance(version, str)}
    is_kept = promised.issuperset(spoken) and not any(
        eras.get("modern" if version in MODERN_VERSIONS else "legacy", version) is None
        for version in promised)
    version, own = card.get("version"), prober.best.facts["serverInfo"].get("version")
    for is_wrong, text in (
            (urls and prober.endpoint not in urls, f"leads to {shorten(urls)}"),
            (promised and not is_kept, f"promises {', '.join(map(shorten, sorted(promised)))}, but "
             f"the server speaks {', '.join(spoken)}"),
            (version and own and version != own,
             f"says version {shorten(version)}, the server {shorten(own)}")):
        if is_wrong:
            yield Finding("card", "warning", f"the server card {text}", "bring the card up to date",
                          CARD_SCHEMA)


# ---- who issues tokens

def fetch_metadata(prober: Prober, source: str, list_urls: Callable, *names: Any
                   ) -> Optional[dict]:
    """Return the first document; one that is not there lets us go on, a failure does not."""
    try:
        urls = list_urls(*names)
    except UsageError:                            # a name that can be none has no documents
        urls = []
    for url in urls:
        if is_http_url(url) and (
                url.startswith("https:") or is_same_origin(url, prober.endpoint)
                or is_on_loopback(url) and is_on_loopback(prober.endpoint)):
            document = fetch_document(prober, source, url, is_anonymous=True)
            status = prober.exchanges[-1].status
            if document is not None or status is None or status >= 500:
                return document
        else:
            prober.trail.append({
                "source": source, "url": url, "outcome": "plain http, which clients do not ask, so "
                "not asked" if is_http_url(url) else "no http URL"})
    return None


def find_repeated(value: str) -> List[str]:
    """Return the parameters that a challenge of a WWW-Authenticate value has twice."""
    seen: set = set()
    repeated = []
    for match in re.finditer(_CHALLENGE_PART, value):
        name = (match["name"] or "").lower()
        if match["scheme"]:
            seen.clear()
        elif name in seen:
            repeated.append(name)
        seen.add(name)
    return [name for name in repeated if name]


def probe_tokens(prober: Prober, _: Any) -> None:
    """Read who issues the tokens of a server that wants one; see `check_tokens`."""
    fault = prober.best.fault
    if prober.is_http and fault is not None and fault.layer == "authorization":
        headers = prober.best.exchanges[-1].headers
        prober.findings += check_tokens(prober, headers.get("www-authenticate", ""))


def check_tokens(prober: Prober, challenge: str) -> Iterator[Finding]:
    """Yield what keeps clients from getting a token, and last what a client would do to get one."""
    def warn(name: str, message: str, hint: str, spec: str) -> Finding:
        return Finding(f"authorization-{name}", "warning", message, hint, spec)

    params = join_params(parse_challenges(challenge))
    repeated = shorten(", ".join(find_repeated(challenge)))
    if repeated:
        yield warn("challenge", f"the challenge has {repeated} more than once: the first is used, "
                   "and clients may differ", "send it once", "RFC 9110, 11.2")
    document = fetch_metadata(prober, "resource metadata", list_resource_metadata_urls,
                              prober.endpoint, params.get("resource_metadata"))
    if document is None:
        yield warn("resource", "there is no protected resource metadata: a client cannot find out "
                   "who issues tokens", "serve it at the first of the URLs that were tried, or "
                   "give clients a token by other means", "RFC 9728, 3")
        return
    try:
        resource = parse_resource_metadata(document, prober.endpoint)
        if resource.name != prober.endpoint:
            yield warn("resource", f"the metadata is of {shorten(resource.name)}, and not, to the "
                       f"byte, of {shorten(prober.endpoint)}: strict clients refuse it",
                       "set resource to the URL that clients use", "RFC 9728, 3.3")
        name = resource.issuers[0]
        metadata = fetch_metadata(prober, "issuer metadata", list_issuer_metadata_urls, name)
        if metadata is None:
            raise ProtocolError(f"{shorten(name)} has no metadata as an authorization server")
        check_can_log_in(parse_issuer_metadata(metadata, name))
    except ProtocolError as error:
        yield warn("login", escape_text(str(error)), "until that is fixed, clients cannot log in",
                   "RFC 9728; RFC 8414; basic/authorization")
        return
    yield Finding("authorization-next", "note", describe_login(params, document, metadata),
                  "the probe does not log in; give a token with --header 'Authorization: Bearer "
                  "...'", "basic/authorization")


def describe_login(params: Dict[str, str], resource: dict, metadata: dict) -> str:
    """Return what a client would do next, the ways to register in the specification's order."""
    scopes = [scope for scope in re.split(r"[\s,]+", params.get("scope", "")) if scope] or [
        scope for scope in find_list(resource.get("scopes_supported")) if isinstance(scope, str)]
    ways = (("client_id_metadata_document_supported", "with a client ID metadata document"),
            ("registration_endpoint", "after registering itself"))
    way = next((text for name, text in ways if metadata.get(name)), "with an id that the issuer's "
               "operator gives it (the issuer takes no registrations)")
    return (f"a client would log in {way}, at {shorten(metadata.get('authorization_endpoint'))}, "
            f"for {shorten(resource.get('resource'))}"
            + (f", with the scopes {shorten(' '.join(scopes))}" if scopes else ""))


# The endpoint has to be found before its rules are tried.
PROBE_STEPS[:0] = [("guess", True, probe_elsewhere), ("tokens", True, probe_tokens)]
PROBE_STEPS.append(("deep", False, probe_card))
add_options("serve", option("--publish", action="store_true", help="tell everybody how to "
                            f"connect: {CATALOG_PATH} and PATH{CARD_PATH}"))
add_options("probe", option("--no-guess", dest="guess", action="store_false",
                            help="look for no other endpoint if there is none at the URL"))


# =============================================================================================
# 28. REPORTS
# =============================================================================================
# In: the report of a probe, or the exchanges that it saw. Out: files for other programs and for
# people, without the secrets in them, and how long requests take.

def escape_markup(text: str) -> str:
    """Return text as it stands in an element or attribute of XML and HTML."""
    import html
    return html.escape(escape_text(text))


def format_junit(report: dict) -> str:
    """Return a report of `probe` as JUnit XML: a suite for each era, a case for each check.

    Failures and warnings fail, rules that do not apply are skipped, notes are cases that pass.
    """
    suites = []
    for part in list_reports(report):
        server = "" if part is report else f"{describe_target(part)}: "
        groups: Dict[str, List[dict]] = {name: [] for name in (*part["eras"], "endpoint")}
        for check in part["checks"]:
            era = check["id"].partition("-")[0]
            groups[era if era in part["eras"] else "endpoint"].append(check)
        for name, checks in groups.items():
            states = [check["status"] for check in checks]
            failures = states.count("fail") + states.count("warning")
            suites += [f'<testsuite name="{escape_markup(server + name)}" tests="{len(checks)}" '
                       f'failures="{failures}" skipped="{states.count("skipped")}" errors="0">\n',
                       *map(format_case, checks), "</testsuite>\n"] if checks else []
    return ('<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<testsuites name="probe of {escape_markup(describe_target(report))}" '
            f'time="{report["elapsedMs"] / 1000:.3f}">\n' + "".join(suites) + "</testsuites>\n")


def format_case(check: dict) -> str:
    """Return a check as a test case."""
    message, status = escape_markup(check["message"]), check["status"]
    inner = f"<system-out>{message}</system-out>"
    if status in ("fail", "warning"):
        text = escape_markup("\u2014".join(filter(None, (check["hint"], check["spec"]))))
        inner = f'<failure type="{status}" message="{message}">{text}</failure>'
    elif status == "skipped":
        inner = f'<skipped message="{message}"/>'
    return f'<testcase classname="probe" name="{escape_markup(check["id"])}">{inner}</testcase>\n'


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>TITLE</title>
<style>
:root { color-scheme: light dark; --soft: #57606a; --fail: #b42318; --warning: #8a5a00;
  --note: #175cd3; --ok: #15703a }
@media (prefers-color-scheme: dark) { :root { --soft: #9aa4af; --fail: #ff8a80; --warning: #f2c14e;
  --note: #8ab4ff; --ok: #6fd08c } }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
table { width: 100%; border-collapse: collapse } tr { border-bottom: 1px solid var(--soft) }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; min-width: 3rem;
  overflow-wrap: anywhere } th:last-child { width: 30% } span { white-space: nowrap }
article[id] { margin-top: 3rem; border-top: 2px solid } small { display: block; color: var(--soft) }
.fail, .unreachable { color: var(--fail); font-weight: 600 } .note { color: var(--note) }
.warning, .partial { color: var(--warning); font-weight: 600 } .skipped { color: var(--soft) }
.ok, .pass { color: var(--ok); font-weight: 600 }
@media print { :root { color-scheme: light } body { margin: 0; max-width: none; font-size: 10pt }
  article[id] { break-before: page } tr { break-inside: avoid } h2 { break-after: avoid } }
</style>
</head>
<body>
<main>
"""


def format_html(report: dict) -> str:
    """Return a report of `probe` as an HTML page with no script, no picture and no network."""
    title = escape_markup(f"Probe of {describe_target(report)}")
    parts = list_reports(report)
    articles = [format_article(part, "" if part is report else f' id="server-{number}"')
                for number, part in enumerate(parts, 1)]
    if "servers" in report:
        rows = [[mark(part["verdict"]), f'<a href="#server-{number}">'
                 f"{escape_markup(part['target'])}</a>", escape_markup(describe_headline(part)),
                 escape_markup(part["headline"]["hint"])] for number, part in enumerate(parts, 1)]
        articles.insert(0, f"<h1>{title}</h1>\n<p>Verdict: {mark(report['verdict'])}</p>\n"
                        f"<p><small>{describe_cost(report)}</small></p>\n" + format_table(
                            "Servers", "verdict, server, what was seen, what to do", rows))
    return _PAGE.replace("TITLE", title) + "".join(articles) + "</main>\n</body>\n</html>\n"


def format_article(report: dict, anchor: str) -> str:
    """Return a report on one server as HTML; `anchor` is the attribute to which links lead."""
    headline, escape = report["headline"], escape_markup
    layers = [[mark(seen["status"]), mark(seen["name"], ""),
               "" if seen["ms"] is None else f"{seen['ms']:.0f}", escape(seen["message"]),
               escape(seen["hint"])] for seen in report["layers"]]
    eras = [[mark(era["verdict"]), mark(name, ""), escape(
        describe_era(era) or "nothing was agreed on"), "<br>".join(describe_counts(era))]
        for name, era in report["eras"].items()]
    trail = [[escape(step[member]) for member in ("source", "url", "outcome")]
             for step in report["trail"]]
    findings, rules = [
        [[mark(check["status"]),
          f"{escape(check['message'])}<small>{escape(check['id'])}</small>", escape(check[last])]
         for check in checks]
        for last, checks in (("hint", list_findings(report)),
                             ("spec", filter(is_rule, report["checks"])))]
    hint = f"<p>What to do: {escape(headline['hint'])}.</p>\n" if headline["hint"] else ""
    return (f"<article{anchor}>\n<h1>{escape('Probe of ' + describe_target(report))}</h1>\n"
            f"<p>{mark(report['verdict'])} {escape(describe_headline(report))}</p>\n{hint}"
            f"<p><small>{describe_cost(report)}</small></p>\n"
            + format_table("Layers", "status, layer, ms, what was seen, what to do", layers)
            + format_table("Eras", "verdict, era, server, rules and times", eras)
            + format_table("Where else was looked", "named by, address, outcome", trail)
            + format_table("Findings", "status, what was seen, what to do", findings)
            + format_table("Rules", "outcome, rule, where it is stated", rules) + "</article>\n")


def mark(word: str, style: Optional[str] = None) -> str:
    """Return a word as HTML that is not broken, a status or verdict in its colour."""
    return f'<span class="{word if style is None else style}">{word}</span>'


def format_table(title: str, names: str, rows: List[List[str]]) -> str:
    """Return a titled table of HTML, "" without rows; the cells are HTML already."""
    head = "".join(f'<th scope="col">{name}</th>' for name in names.split(", "))
    body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in rows)
    return (f"<h2>{title}</h2>\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n"
            "</table>\n") if rows else ""


def format_curl(exchange: Exchange) -> str:
    """Return a request as a curl command; each secret is a variable of the shell, to be set."""
    import shlex
    words = ["curl -sSi"]
    if exchange.method != "POST":
        words.append(f"-X {shlex.quote(exchange.method)}")
    words.append(shlex.quote(Redactor().hide(exchange.url)))
    for name, value in exchange.request_headers.items():
        variable = re.sub(r"\W", "_", name).upper()
        words.append("-H " + (f'{shlex.quote(name + ": ")}"${variable}"' if re.search(
            SECRET_HEADERS, name) else shlex.quote(f"{name}: {value}")))
    if exchange.request_body:
        words.append("--data-binary "
                     + shlex.quote(exchange.request_body.decode("utf-8", "replace")))
    return " \\\n  ".join(words)


def probe_times(prober: Prober, times: int) -> None:
    """Measure how long requests of each era take: the facts get "timings", by method.

    There are fewer of them if the time is used up, or the server fails.
    """
    for report in prober.eras:
        if report.version:
            first = "ping" if report.name == "legacy" else "server/discover"
            seconds: Dict[str, List[float]] = {first: [], "tools/list": []}
            with contextlib.suppress(MCPKitError), contextlib.closing(
                    prober.make_client(report.name)) as client:
                client.connect()
                for method in [name for name in seconds for _ in range(times)]:
                    start = len(prober.exchanges)
                    client.request(method)
                    seconds[method] += [seen.seconds for seen in prober.exchanges[start:]]
            report.facts["timings"] = {
                method: rank_seconds(found) for method, found in seconds.items() if found}


def rank_seconds(seconds: List[float]) -> dict:
    """Return the median and the 99th percentile (nearest rank) of durations, in milliseconds."""
    import statistics
    ranked = sorted(seconds)
    return {"count": len(ranked), "median": round(statistics.median(ranked) * 1000, 3),
            "p99": round(ranked[math.ceil(len(ranked) * 0.99) - 1] * 1000, 3)}


PROBE_STEPS.append(("repeat", 0, probe_times))
REPORTS.update(junit=format_junit, html=format_html)
__all__ += ["format_html", "format_junit"]


# ---- options of `probe`

def write_reports(options: Any, report: dict, exchanges: List[Exchange]) -> List[str]:
    """Write the files that are asked for; return the requests as curl commands for --curl.

    The files may be sent on, so they have no secrets.
    """
    redactor = Redactor(options.hidden)
    for exchange in exchanges:
        redactor.learn(exchange)
    for name, build in REPORTS.items():
        path = getattr(options, name)
        if path is not None:
            write_file(path, build(change_texts(report, redactor.hide)))
    if not options.curl:
        return []
    report["curl"] = [hide_secrets(format_curl(exchange), options.hidden)
                      for exchange in exchanges if exchange.method != "stdio"]
    return report["curl"]


PROBE_OUTPUTS.append(write_reports)
add_options(
    "probe",
    option("--repeat", type=parse_count, default=0, metavar="N", help="send the era's cheapest "
           "requests N times each, and show how long they take"),
    option("--junit", metavar="FILE", help="write the report as JUnit XML"),
    option("--html", metavar="FILE", help="write the report as a web page"),
    option("--curl", action="store_true",
           help="print each request as a curl command; secrets are variables in it"))


# =============================================================================================
# 29. TRANSCRIPTS
# =============================================================================================
# In: exchanges. Out: the text of an .http file, numbered and without secrets, which a person can
# read, and exchanges again; and where two answers differ. Reader and writer are inverse to each
# other but for what no reader needs: line ends of a body, how its JSON was laid out, its length.


CLIENT_LEFT = "the client went away"    # the error of an exchange that is not the server's fault


def find_title_of(exchange: Exchange) -> str:
    """Return what an exchange is about: the JSON-RPC method, or what there is instead."""
    value = find_json(exchange.request_body) if exchange.request_body else None
    if isinstance(value, list):
        return f"a batch of {len(value)}"
    if isinstance(value, dict):
        return shorten(value.get("method", "a response"))
    return f"{exchange.method}, a body that is no JSON" if exchange.request_body else (
        exchange.method)


# ---- secrets

PLACEHOLDER = r"<(?:secret|session)-([0-9]{1,9})>"


class Redactor:
    """Puts a placeholder in the place of each secret, always the same for the same.

    Secrets are the values of secret headers, also where they are repeated elsewhere, members and
    query parameters with such names, and those that are given. The placeholders that a transcript
    has already are kept.
    """

    MAX_FOUND = 200                # of those in texts, that are looked for elsewhere too

    # The bounds keep the search linear in a text that is all quotes and tokens.
    _MEMBER = (r'(?i)("(?!progressToken")[^"]{0,40}(?:authorization|token|secret|password|'
               r'api_?key|session_?id)"\s{0,9}:\s{0,9}")((?:[^"\\]|\\.)*)(?=")')
    _QUERY = (r"(?i)([?&][^=&#\s]{0,40}(?:token|secret|password|key|code|sig|session_?id)"
              r"[^=&#\s]{0,40}=)([^&#\s\"]*)")

    def __init__(self, secrets_given: Iterable[str] = ()):
        self._names: Dict[str, str] = {}          # a secret to its placeholder
        self._known: Dict[str, str] = {}          # the same of those that are looked for
        self._found = 0                           # how many of these were in texts
        self._last = 0                            # the highest number of a placeholder
        for secret in secrets_given:
            self._replace(secret, "", is_sought=True)

    def learn(self, exchange: Exchange) -> None:
        """Take in the secrets of an exchange, so that they are known wherever they stand."""
        both = (exchange.request_headers, exchange.headers)
        texts = [exchange.url, *(value for headers in both for value in headers.values()),
                 *(body.decode("utf-8", "replace") for body in (exchange.request_body,
                                                                exchange.answer))]
        self._last = max(self._last, 0, *(int(number) for text in texts
                                          for number in re.findall(PLACEHOLDER, text)))
        for headers in both:
            for name, value in headers.items():
                if re.search(SECRET_HEADERS, name):
                    self._replace(split_credentials(value)[1], name, is_sought=True)

    def hide(self, text: str) -> str:
        """Return text without secrets."""
        for secret in sorted(self._known, key=len, reverse=True):
            if len(secret) >= 6:                  # a shorter one would be found in any text
                text = text.replace(secret, self._known[secret])
        def hide_found(match: Any) -> str:
            is_new = match[2] not in self._names and self._found < self.MAX_FOUND
            placeholder = self._replace(match[2], match[1], is_sought=is_new)
            self._found += is_new and placeholder != match[2]
            return match[1] + placeholder

        for pattern in (self._MEMBER, self._QUERY):
            text = re.sub(pattern, hide_found, text)
        return text

    def hide_header(self, name: str, value: str) -> str:
        """Return the value of a header without secrets."""
        if not re.search(SECRET_HEADERS, name):
            return self.hide(value)
        scheme, secret = split_credentials(value)
        return scheme + self._replace(secret, name)

    def _replace(self, secret: str, name: str, is_sought: bool = False) -> str:
        """Return the placeholder of what a header or member with a name has.

        One that is sought is hidden wherever it stands from now on.
        """
        if not secret or re.fullmatch(PLACEHOLDER, secret):
            return secret
        if secret not in self._names:
            self._last += 1
            kind = "session" if "session" in name.lower() else "secret"
            self._names[secret] = f"<{kind}-{self._last}>"
        if is_sought:
            self._known[secret] = self._names[secret]
        return self._names[secret]


# ---- exchanges to text

# What a body's length and coding made necessary is left out: the body is kept as it was meant.
_FRAMING = frozenset({"host", "content-length", "content-encoding"})
_REQUEST_FRAMING = _FRAMING | {"accept-encoding", "connection", "transfer-encoding"}
# Headers whose values differ each time; they are what all transcripts have in the same words.
VOLATILE_HEADERS = {"date": "<http-date>"}
# How lines begin that are no part of a body; one that has to begin so is escaped.
_TAKEN = r"#|//|\\|HTTP/|[<>] "


def format_transcript(exchanges: Sequence[Exchange], hidden: Iterable[str] = ()) -> str:
    """Return exchanges in the form of an .http file: numbered, titled, without secrets.

    Dates are not kept, so that two transcripts can be compared; of `hidden` secrets, nothing is.
    """
    redaction = Redactor(hidden)
    for exchange in exchanges:
        redaction.learn(exchange)
    return "\n\n".join(format_block(number, format_exchange(exchange, redaction))
                       for number, exchange in enumerate(exchanges, 1))


def format_block(number: int, text: str) -> str:
    """Return what format_exchange made of an exchange, as the block with a number."""
    return f"### {number} \u00b7 {text}"


def format_exchange(exchange: Exchange, redaction: Redactor) -> str:
    """Return an exchange as its title, its request and its answer."""
    title = escape_text(redaction.hide(exchange.title or find_title_of(exchange)))
    if not is_of_http(exchange):
        lines = _format_lines(exchange, redaction)
        return "\n".join([title, *lines, *_format_remarks(exchange)])
    parts = [f"{title}\n{format_request_head(exchange, redaction)}",
             format_body(exchange.request_body, redaction)]
    if exchange.status is None:
        return "\n\n".join([*parts, *_format_remarks(exchange)])
    body = format_body(exchange.answer, redaction)
    if exchange.error and exchange.is_stream and re.search(rb"(\r?\n){2}$", exchange.answer):
        body += "\n"                              # it broke off between two events, not within one
    answer = "\n".join([*([body] if body else []), *_format_remarks(exchange)])
    return "\n\n".join([*parts, format_answer_head(exchange, redaction), answer])


def is_of_http(exchange: Exchange) -> bool:
    """Return whether an exchange is a request and a response of HTTP, and not only messages."""
    return exchange.method not in ("stdio", "SSE")


def _format_remarks(exchange: Exchange) -> List[str]:
    """Return as comments why an answer is not, or not all of it, there."""
    remarks = []
    if exchange.size > len(exchange.answer):
        remarks.append(f"# cut: {exchange.size:,} bytes in all")
    if exchange.error:
        is_missing = exchange.status is None and not exchange.answer
        remarks.append(f"# {'no answer' if is_missing else 'broken off'}: "
                       + escape_text(exchange.error))
    return remarks


def _format_lines(exchange: Exchange, redaction: Redactor) -> Iterator[str]:
    for mark, data in (("> ", exchange.request_body), ("< ", exchange.answer)):
        for line in data.split(b"\n") if data else ():
            text = redaction.hide(line.rstrip(b"\r").decode("utf-8", "surrogateescape"))
            yield mark + (escape_json(text) if find_json(line) is not None else format_line(text))


def format_request_head(exchange: Exchange, redaction: Redactor) -> str:
    """Return the first lines of a request."""
    host, path = re.fullmatch(r"(?s)([^/?#]*)/?(.*)", exchange.url.partition("://")[2]).groups()
    path = "/" + path
    lines = [f"{exchange.method} {redaction.hide(path)} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {redaction.hide_header(name, value)}"
              for name, value in exchange.request_headers.items()
              if name.lower() not in _REQUEST_FRAMING]
    return "\n".join(map(escape_text, lines))


def format_answer_head(exchange: Exchange, redaction: Redactor) -> str:
    """Return the first lines of an answer."""
    lines = [f"HTTP/1.1 {exchange.status} {REASONS.get(exchange.status, '')}".rstrip()]
    for name, value in sorted(exchange.headers.items()):
        if name not in _FRAMING:
            shown = VOLATILE_HEADERS.get(name) or redaction.hide_header(name, value)
            lines.append(f"{'-'.join(map(str.capitalize, name.split('-')))}: {shown}")
    return "\n".join(map(escape_text, lines))


def format_body(data: bytes, redaction: Redactor) -> str:
    """Return a body as lines: JSON is indented, all else is as it is."""
    value = find_json(data)
    if isinstance(value, (dict, list)):
        return escape_json(redaction.hide(json.dumps(value, indent=2, ensure_ascii=False)))
    text = re.sub("(?<!\r)\r+\n", "\n", data.decode("utf-8", "surrogateescape")).strip("\n")
    return "\n".join(map(format_line, redaction.hide(text).split("\n")))


def format_line(line: str) -> str:
    """Return a line of a body so that it can be seen, and taken for nothing else."""
    name, _, value = line.partition(":")
    if name == "data" and not line.isprintable() and find_json(value.encode("utf-8", "replace")):
        line = escape_json(line)
    if line.replace("\t", " ").isprintable() and not re.match(_TAKEN, line):
        return line
    return "\\" + escape_text(line.replace("\\", "\\\\"))


def escape_json(text: str) -> str:
    """Return JSON in which what cannot be seen is escaped as JSON does."""
    if text.isprintable():
        return text
    text = re.sub(r"[\t\r]", " ", text)           # white space between values: strings have none
    return "".join(character if character.isprintable() or character == "\n"
                   else encode_json(character)[1:-1] for character in text)


# ---- text to exchanges

Lines = List[Tuple[int, str]]           # with their numbers

_TITLE = r"###(?!#)[ \t]*(?:\d+[ \t]*\u00b7[ \t]*)?(.*)"
_REQUEST = r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]+(\S+)(?:[ \t]+HTTP/[0-9.]+)?[ \t]*"
_ANSWER = r"HTTP/[0-9.]+[ \t]+([1-9][0-9]{2})\b.*"
_ESCAPE = r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|(.))"
_CONTROLS = {"r": "\r", "n": "\n", "t": "\t"}
_REMARK = r"# (?:no answer|broken off): (.*)"
_CUT = r"# cut: ([0-9][0-9,]{0,24}) bytes in all"


def parse_transcript(text: str) -> List[Exchange]:
    """Return the exchanges in the text of a transcript; raises UsageError naming the line.

    Written by hand it may have CRLF, no version after the path, no answers, and lines that begin
    with # or // and say something to people.
    """
    found = [parse_block(title, lines) for title, lines in split_blocks(text)]
    return [exchange for exchange in found if exchange is not None]


def split_blocks(text: str) -> List[Tuple[str, Lines]]:
    """Return the blocks of a transcript, each with its title; first what is above all titles."""
    blocks: List[Tuple[str, Lines]] = [("", [])]
    for number, line in enumerate(text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"), 1):
        match = re.fullmatch(_TITLE, line)
        if match is not None:
            blocks.append((match[1].strip(), []))
        else:
            blocks[-1][1].append((number, line))
    return blocks


def update_transcript(text: str, exchanges: Sequence[Exchange], hidden: Iterable[str] = ()) -> str:
    """Return a transcript with other exchanges in the place of its own, one for one.

    Comments stay: those of an exchange stand above it.
    """
    blocks, rest = [], iter(format_transcript(exchanges, hidden).split("\n\n### "))
    for title, lines in split_blocks(text):
        if parse_block(title, lines) is None:
            blocks.append("\n".join([*([f"### {title}"] if title else []),
                                     *(line for _, line in lines)]).strip("\n"))
            continue
        comments = [line for _, line in lines if is_comment(line)
                    and not re.fullmatch(f"{_REMARK}|{_CUT}", line)]
        head, _, body = next(rest).partition("\n")
        blocks.append("\n".join([head if head.startswith("### ") else f"### {head}", *comments,
                                 body]))
    return "\n\n".join(filter(None, blocks)) + "\n"


def parse_block(title: str, lines: Lines) -> Optional[Exchange]:
    """Return the exchange in the lines below a title, None if there is nothing to read."""
    start = next((index for index, (_, line) in enumerate(lines)
                  if line.strip() and not is_comment(line)), None)
    if start is None:
        return None
    number, first = lines[start]
    try:
        parse = _parse_lines if first[:1] in ("<", ">") else _parse_http
        exchange = parse(lines[start:], _find_remarks(lines))
        if not is_of_http(exchange) and not (exchange.request_body or exchange.answer):
            return None
    except UnicodeEncodeError as error:
        raise UsageError(f"line {number} begins an exchange with an escape that is no character: "
                         f"{error.reason}") from None
    return exchange if title == find_title_of(exchange) else exchange._replace(title=title)


def is_comment(line: str) -> bool:
    """Return whether a line of a transcript is there for people only."""
    return line.startswith(("#", "//"))


def _find_remarks(lines: Lines) -> Tuple[Optional[str], Optional[int]]:
    """Return why an answer is not complete, and how large it was, None if nothing says so."""
    error, size = None, None
    for _, line in reversed(lines):
        error = (re.fullmatch(_REMARK, line) or ["", error])[1]
        cut = re.fullmatch(_CUT, line)
        size = int(cut[1].replace(",", "")) if cut else size
    return error, size


def _parse_lines(lines: Lines, remarks: tuple) -> Exchange:
    """Return a message on stdio, and what came back for it."""
    sides: Dict[str, List[bytes]] = {">": [], "<": []}
    for number, line in lines:
        if line.strip() and not is_comment(line):
            if line[:2] not in ("> ", "< ", ">", "<"):
                raise UsageError(f"line {number} of stdio begins with neither > nor <: "
                                 + shorten(line, 60))
            sides[line[0]].append(_parse_body_line(line[2:]).rstrip(b"\r"))
    answer = b"\n".join(sides["<"])
    error, size = remarks
    return Exchange("stdio", "", {}, b"\n".join(sides[">"]), None, {}, answer,
                    size or len(answer), False, 0.0, error)


def _parse_http(lines: Lines, remarks: tuple) -> Exchange:
    """Return an exchange of HTTP: a request, and an answer if there is one."""
    end = next((index for index, (_, line) in enumerate(lines) if re.fullmatch(_ANSWER, line)),
               len(lines))
    number, first = lines[0]
    match = re.fullmatch(_REQUEST, first)
    if match is None:
        raise UsageError(f"line {number} is no request: METHOD /path HTTP/1.1, or > and a line of "
                         f"stdio, but is {shorten(first, 60)}")
    sent, body = _parse_headers(lines[1:end])
    host = next((value for name, value in sent.items() if name.lower() == "host"), "localhost")
    url = match[2] if re.match("https?://", match[2]) else f"http://{host}{match[2]}"
    if not is_http_url(url) or "://" not in match[2] and not (
            match[2].startswith("/") and re.fullmatch(r"[^\s/?#]+", host)):
        asked = match[2] if "://" in match[2] else host + match[2]
        raise UsageError(f"line {number} asks for what is no http URL: {shorten(asked, 60)}")
    headers, answer = _parse_headers(lines[end + 1:])
    headers = {name.lower(): value for name, value in headers.items()}
    status = int(re.fullmatch(_ANSWER, lines[end][1])[1]) if end < len(lines) else None
    error, size = remarks
    data = _parse_body(answer)
    is_stream = status is not None and parse_media_type(headers.get("content-type")) == STREAM_TYPE
    if is_stream and data:
        texts = [line for _, line in answer]
        end = next((index for index, line in enumerate(texts) if re.fullmatch(_REMARK, line)), 0)
        data += b"\n\n" if not end or not texts[end - 1] else b"\n"
    return Exchange(match[1], url, {name: value for name, value in sent.items()
                                    if name.lower() != "host"}, _parse_body(body), status, headers,
                    data, size or len(data), is_stream, 0.0, error)


def _parse_headers(lines: Lines) -> Tuple[Headers, Lines]:
    """Return the headers at the start of lines, and the lines after the blank one below them."""
    headers: Headers = {}
    for index, (number, line) in enumerate(lines):
        if not line.strip():
            return headers, lines[index + 1:]
        name, colon, value = line.partition(":")
        if not is_comment(line):
            if not (colon and _TOKEN.fullmatch(name)):
                raise UsageError(f"line {number} is no header, and no blank line comes before it: "
                                 + shorten(line, 60))
            headers[name] = value.strip()
    return headers, []


def _parse_body(lines: Lines) -> bytes:
    """Return the bytes of a body, JSON without what was only there to be read."""
    texts = [_parse_body_line(line) for _, line in lines if not is_comment(line)]
    data = b"\n".join(texts).strip(b"\n")
    value = find_json(data)
    return format_message(value) if isinstance(value, (dict, list)) else data


def _parse_body_line(line: str) -> bytes:
    """Return the bytes that format_line shows as a line."""
    if line.startswith("\\"):
        line = re.sub(_ESCAPE, lambda match: (
            _CONTROLS.get(match[4], match[4]) if match[4] else
            chr(int(match[1] or match[2] or match[3], 16))), line[1:])
    return line.encode("utf-8", "surrogateescape")


# ---- where two answers differ

class Difference(NamedTuple):
    """A member of an answer that is not what it was; ABSENT stands for nothing."""

    path: str
    was: Any
    now: Any

    def __str__(self) -> str:
        was, now = ("absent" if value is ABSENT else shorten(value)
                    for value in (self.was, self.now))
        return f"{escape_text(self.path)}: was {was}, is {now}"


ABSENT = object()

# Members that differ each time, wherever they stand.
VOLATILE_MEMBERS = ("progressToken", "requestState", "taskId", "createdAt", "lastUpdatedAt",
                    "nextCursor")
# Headers of an answer that mean something to a client of MCP, and how their values are compared.
COMPARED_HEADERS = {
    "content-type": parse_media_type, "mcp-session-id": bool, "allow": str, "location": str,
    "www-authenticate": str,
}


@functools.lru_cache(maxsize=10)
def build_ignored(patterns: Tuple[str, ...]) -> Callable[[str], Any]:
    """Return what tells whether a path is ignored, by patterns like `result.tools[*].title`.

    A pattern covers all that is below it; one without dots means members of that name anywhere.
    """
    parts = []
    for pattern in (*VOLATILE_MEMBERS, *patterns):
        start = "" if re.search(r"[.\[]", pattern) else r"(?:.*[.\]])?"
        text = re.escape(pattern).replace(r"\*", r"[^.\[\]]*")
        parts.append(f"{start}{text}(?![^.\\[])")
    return re.compile("|".join(parts)).match


def compare_answers(was: Exchange, now: Exchange, ignored: Iterable[str] = ()
                    ) -> List[Difference]:
    """Return where the answer that came now is not the one that is in a transcript.

    Compared are the status, the headers that mean something to a client of MCP, and the messages,
    member by member; each difference has the path of a member, and shows as a line of text. Paths
    that match `ignored` patterns may differ: `result.tools[*].title` with all that is below it, or
    a name without dots wherever it is. So may what differs each time, say a `nextCursor`.
    """
    is_ignored = build_ignored(tuple(ignored))
    found = list(_compare_heads(was, now))
    before, after = find_parts(was), find_parts(now)
    if not before and not after and is_of_http(was) and is_of_http(now):
        before, after = ({"body": exchange.answer.decode("utf-8", "replace").strip()}
                         for exchange in (was, now))
    for label in (*before, *(label for label in after if label not in before)):
        pair = before.get(label, ABSENT), after.get(label, ABSENT)
        found += compare_values(*pair, label, is_ignored)
    return [difference for difference in found if not is_ignored(difference.path)]


def _compare_heads(was: Exchange, now: Exchange) -> Iterator[Difference]:
    if now.error and not was.error:
        yield Difference("answer", "complete", now.error)
    if was.status is None or now.status is None:
        return                                    # on stdio there is none
    if was.status != now.status:
        yield Difference("status", was.status, now.status)
    for name, read in COMPARED_HEADERS.items():
        values = [exchange.headers.get(name) for exchange in (was, now)]
        if read(values[0] or "") != read(values[1] or ""):
            yield Difference(f"headers.{name}", *(ABSENT if value is None else value
                                                  for value in values))


def find_messages(exchange: Exchange) -> List[Any]:
    """Return the JSON-RPC messages in an answer, whatever carried them."""
    if exchange.is_stream and is_of_http(exchange):
        events = SSEParser().feed(exchange.answer)
        values = [find_json(event.data.encode("utf-8", "surrogatepass")) for event in events
                  if event.event == "message"]
    elif is_of_http(exchange):
        values = [find_json(exchange.answer)]
    else:
        values = list(map(find_json, exchange.answer.split(b"\n")))
    return [part for value in values for part in (value if isinstance(value, list) else [value])
            if isinstance(part, dict)]


def find_parts(exchange: Exchange) -> Dict[str, Any]:
    """Return what an answer says by the path at which it is shown.

    The response's own members have no more of a path; other messages are counted by method.
    """
    parts: Dict[str, Any] = {}
    seen: Dict[str, int] = {}
    for message in find_messages(exchange):
        method = message.get("method")
        name = shorten(method) if "method" in message else ""
        seen[name] = seen.get(name, 0) + 1
        start = f"{name}[{seen[name]}]" if name or seen[name] > 1 else ""
        for member in ("params",) if name else ("id", "result", "error"):
            if member in message:
                parts[f"{start}.{member}" if start else member] = message[member]
    return parts


def compare_values(was: Any, now: Any, path: str, is_ignored: Callable[[str], Any]
                   ) -> Iterator[Difference]:
    """Yield where two JSON values differ."""
    if is_ignored(path):
        return
    if isinstance(was, dict) and isinstance(now, dict):
        parts = [(f"{path}.{shorten(name)}", name) for name in {**was, **now}]
    elif isinstance(was, list) and isinstance(now, list):
        was, now = _name_items(was, now)
        parts = [(f"{path}[{shorten(name)}]", name) for name in {**was, **now}]
    else:
        if was != now or isinstance(was, bool) != isinstance(now, bool):
            yield Difference(path, was, now)
        return
    for inner, name in parts:
        yield from compare_values(was.get(name, ABSENT), now.get(name, ABSENT), inner, is_ignored)


def _name_items(*lists: list) -> List[Dict[Any, Any]]:
    """Return the items of lists by what all of them are called, else by their places."""
    for member in ("name", "uri", "uriTemplate"):
        named = [{item[member]: item for item in items if isinstance(item, dict)
                  and isinstance(item.get(member), str)} for items in lists]
        if all(map(len, lists)) and list(map(len, named)) == list(map(len, lists)):
            return named
    return [dict(enumerate(items)) for items in lists]


# ---- a transcript's requests, sent again

# What a server gives out and a client brings back: in these members, and in these headers.
CARRIED_MEMBERS = ("requestState", "taskId", "taskIds", "nextCursor", "cursor", "sessionId")
CARRIED_HEADERS = ("mcp-session-id", "mcp-name", "last-event-id")


class Substitutions:
    """What a client has to carry over: what a server said in a transcript, to what it says now."""

    def __init__(self) -> None:
        self._texts: Dict[str, str] = {}
        self._versions: Dict[str, str] = {}
        self._ids: Dict[Any, Any] = {}            # of the server's own requests

    def learn(self, was: Exchange, now: Exchange) -> None:
        """Take in what an answer gives out: the session, versions, states, cursors, ids."""
        sessions = [exchange.headers.get("mcp-session-id") for exchange in (was, now)]
        if all(sessions):
            self._texts[sessions[0]] = sessions[1]
        before, after = find_messages(was), find_messages(now)
        self.learn_questions(before, after)
        self._learn_value(*([message.get("result") for message in messages
                             if "result" in message] for messages in (before, after)))

    def learn_questions(self, before: List[dict], after: List[dict]) -> None:
        """Take in the ids of what the server asks."""
        self._ids.update(zip(*([message["id"] for message in messages if is_request(message)]
                               for messages in (before, after))))

    def apply(self, exchange: Exchange) -> Exchange:
        """Return an exchange with the request that a client would send now, and no answer.

        A header that holds a placeholder, of which nobody has the secret, is left out.
        """
        exchange = exchange._replace(status=None, headers={}, answer=b"", size=0, error=None)
        headers = {}
        for name, value in exchange.request_headers.items():
            if name.lower() == "mcp-protocol-version":
                value = self._versions.get(value, value)
            elif name.lower() in CARRIED_HEADERS or re.fullmatch(PLACEHOLDER, value):
                value = self._texts.get(value, value)
            if not re.search(PLACEHOLDER, value):
                headers[name] = value
        value = find_json(exchange.request_body)
        if value is None:
            return exchange._replace(request_headers=headers)
        if isinstance(value, dict) and "method" not in value:
            value["id"] = self._ids.get(find_request_id(value), value.get("id"))
        return exchange._replace(request_headers=headers,
                                 request_body=format_message(self._replace(value, False)))

    def restore(self, exchange: Exchange) -> Exchange:
        """Return an exchange in which what stood for a secret in the transcript does so again."""
        pairs = [(now, was) for was, now in self._texts.items() if re.fullmatch(PLACEHOLDER, was)]
        headers, answer = dict(exchange.headers), exchange.answer
        for now, was in pairs:
            headers = {name: value.replace(now, was) for name, value in headers.items()}
            answer = answer.replace(now.encode("utf-8"), was.encode("utf-8"))
        return exchange._replace(headers=headers, answer=answer)

    def _learn_value(self, was: Any, now: Any) -> None:
        if isinstance(was, list) and isinstance(now, list):
            for pair in zip(was, now):
                self._learn_value(*pair)
        for name in was if isinstance(was, dict) and isinstance(now, dict) else ():
            pair = was[name], now.get(name)
            if name in CARRIED_MEMBERS and all(isinstance(value, str) and value for value in pair):
                self._texts[pair[0]] = pair[1]
            elif name == "protocolVersion" and isinstance(pair[1], str):
                self._versions[str(pair[0])] = pair[1]
            else:
                self._learn_value(*pair)

    def _replace(self, value: Any, is_carried: bool) -> Any:
        if isinstance(value, dict):
            return {name: self._replace(part, name in CARRIED_MEMBERS)
                    for name, part in value.items()}
        if isinstance(value, list):
            return [self._replace(part, is_carried) for part in value]
        is_known = isinstance(value, str) and (is_carried or re.fullmatch(PLACEHOLDER, value))
        return self._texts.get(value, value) if is_known else value


__all__ += ["compare_answers", "format_transcript", "parse_transcript"]


# =============================================================================================
# 30. MOCK AND FAULTS
# =============================================================================================
# In: a transcript, or a server, and a request. Out: the answer that was recorded, with the ids of
# the one who asks now, as parts to be sent one after another. A fault changes them on their way.


class MockRequest(NamedTuple):
    """One request to a mock. `value` is its JSON value, None if it has none."""

    method: str                    # of HTTP, or "stdio"
    target: str
    headers: Headers               # by names in lower case
    value: Any
    count: int = 0                 # of earlier requests of the same name

    @property
    def name(self) -> str:
        """The JSON-RPC method, "" if there is none."""
        method = self.value.get("method") if isinstance(self.value, dict) else None
        return method if isinstance(method, str) else ""

    @property
    def is_request(self) -> bool:
        """Whether it is a JSON-RPC request, which wants an answer."""
        return is_request(self.value)

    @property
    def params(self) -> dict:
        """Its params without `_meta`."""
        params = find_object(self.value, "params")
        return {name: params[name] for name in params if name != "_meta"}

    @property
    def is_modern(self) -> bool:
        """Whether it is of the modern era."""
        return is_modern(find_meta_of(self.value), self.headers)

    @property
    def origin(self) -> str:
        """The origin at which the mock was asked."""
        return f"http://{self.headers.get('host', 'localhost')}"


def find_meta_of(value: Any) -> dict:
    """Return the `_meta` of a JSON value that may be a message, {} if there is none."""
    return find_object(find_object(value, "params"), "_meta")


class ConnectionAction(enum.Enum):
    """What a mock does between two pieces of its answer, beside waiting for some seconds."""

    RESET = "resets the connection"
    HANG_UP = "closes the connection, or exits, without the rest"
    STAY = "ends from now on neither with its input nor by SIGTERM"


class WaitForReply(NamedTuple):
    """A pause until the client has answered the question with this id."""

    id: Any


class StderrOutput(NamedTuple):
    """What a stdio server writes to its standard error meanwhile."""

    data: bytes


# Bytes to be sent, seconds to wait, or what else happens on the connection.
Part = Union[bytes, float, ConnectionAction, WaitForReply, StderrOutput]
FOR_EVER = math.inf                                   # seconds


class MockReply(NamedTuple):
    """What a mock answers: messages, or other `parts` in their place.

    Over HTTP these are the pieces of a body, with `is_raw` of the whole answer, head and all; on
    stdio pieces of standard output, and the status means nothing.
    """

    status: int = 200
    headers: Headers = {}          # by names as they are sent
    messages: Tuple[Any, ...] = ()
    is_stream: bool = False
    parts: Optional[Iterable[Part]] = None
    is_raw: bool = False


def build_reply(status: int, text: Union[bytes, str] = b"", kind: str = "text/plain",
                **headers: str) -> MockReply:
    """Return a MockReply of some text; names of headers are written with underscores."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return MockReply(status, {**({"Content-Type": kind} if data else {}), **given},
                     parts=(data,) if data else ())


def format_messages(reply: MockReply, is_stdio: bool = False,
                    encode: Callable[[Any], str] = encode_json) -> bytes:
    """Return the messages of a MockReply as an event stream, or as lines on stdio."""
    if is_stdio:
        return "".join(f"{encode(message)}\n" for message in reply.messages).encode("utf-8")
    return b"".join(format_event(encode(message)) for message in reply.messages)


def format_reply_lines(reply: MockReply) -> Iterable[Part]:
    """Return a MockReply as parts of a stdio server's standard output."""
    return reply.parts if reply.parts is not None else [format_messages(reply, True)]


def format_reply(reply: MockReply, date: str) -> Iterator[Part]:
    """Yield a MockReply as parts of what is sent over a connection."""
    parts = reply.parts
    if parts is None:
        body = format_messages(reply) if reply.is_stream else b"".join(
            map(format_message, reply.messages[-1:]))
        parts = (body,) if body else ()
    if reply.is_raw:
        yield from parts
        return
    headers = dict(reply.headers)
    if reply.is_stream:
        headers["Transfer-Encoding"] = "chunked"
    elif reply.status not in BODILESS:
        parts = tuple(parts)
        size = sum(len(part) for part in parts if isinstance(part, bytes))
        headers.setdefault("Content-Length", str(size))
    yield format_head(reply.status, REASONS.get(reply.status, "Unknown"), tuple(headers.items()),
                      date, None, False) + b"\r\n"
    for part in parts:
        is_chunk = reply.is_stream and isinstance(part, bytes)
        yield b"%x\r\n%b\r\n" % (len(part), part) if is_chunk else part
        if part is ConnectionAction.HANG_UP or part is ConnectionAction.RESET:
            return
    if reply.is_stream:
        yield b"0\r\n\r\n"


def answer_by_server(server: Server, asked: MockRequest) -> MockReply:
    """Return what a Server answers, without a session and as one JSON object."""
    if asked.method not in ("POST", "stdio"):
        return refuse_method(asked)
    headers = None if asked.method == "stdio" else asked.headers
    answer = server.receive(asked.value, headers, None, Channel())
    message = find_json(answer.data) if answer.data else None
    kind = {"Content-Type": JSON_TYPE} if answer.data else {}
    return MockReply(answer.status, {**kind, **dict(answer.headers)}, (message,) if message else ())


def refuse_method(asked: MockRequest) -> MockReply:
    """Return the answer to a request of HTTP that is no POST, and was never recorded."""
    if asked.method == "DELETE":
        return MockReply(200)
    if "/.well-known/" in asked.target:
        return build_reply(404, "there is no such document")
    return build_reply(405, "this server takes POSTs only", Allow="POST")


class Mock:
    """Answers as a transcript says, to whoever asks.

    A request gets the answer to one of the same method and params, else of the same name, else of
    the same method; the same one again gets the next answer to it, and the last for ever.
    `log(text)` gets what was never recorded, `make_id()` makes the ids of sessions.
    """

    def __init__(self, exchanges: Sequence[Exchange], log: Callable[[str], None],
                 make_id: Callable[[], str]):
        self._log, self._make_id = log, make_id
        self._recorded: Dict[tuple, List[Exchange]] = {}
        self._used: Dict[tuple, int] = {}         # changed key by key
        for exchange in exchanges:
            target = exchange.url.partition("://")[2].partition("/")[2]
            asked = MockRequest(exchange.method, "/" + target, {}, find_json(exchange.request_body))
            for key in self._list_keys(asked) if exchange.request_body or (
                    is_of_http(exchange)) else ():
                self._recorded.setdefault(key, []).append(exchange)

    def answer(self, asked: MockRequest) -> MockReply:
        """Return the recorded answer, or the refusal of what was never recorded."""
        for key in self._list_keys(asked):
            if key in self._recorded:
                number = self._used[key] = self._used.get(key, 0) + 1
                return self._build(self._recorded[key][:number][-1], asked)
        if asked.name or asked.method not in ("POST", "stdio"):
            self._log(f"never recorded: {shorten(asked.name or asked.method)} "
                      f"{shorten(asked.params if asked.name else asked.target)}")
        if asked.is_request:
            error = MCPError(METHOD_NOT_FOUND, "Method not found: it is not in the transcript")
            return MockReply(404 if asked.is_modern else 200, {"Content-Type": JSON_TYPE},
                             (build_error(asked.value["id"], error),))
        return MockReply(202) if asked.method in ("POST", "stdio") else refuse_method(asked)

    @staticmethod
    def _list_keys(asked: MockRequest) -> List[tuple]:
        """Return by what an exchange is found, the most telling first."""
        if not asked.name:
            is_message = asked.method in ("POST", "stdio")
            return [] if is_message else [(asked.method, asked.target)]
        name = asked.params.get(METHODS.get(asked.name, Method()).name_param)
        return [(asked.name, "params", json.dumps(asked.params, sort_keys=True)),
                *([(asked.name, "name", str(name))] if name is not None else []),
                (asked.name,)]

    def _build(self, exchange: Exchange, asked: MockRequest) -> MockReply:
        """Return the answer of an exchange, as it is for the one who asks now."""
        if exchange.error and exchange.status is None and not exchange.answer:
            return MockReply(parts=(ConnectionAction.HANG_UP,), is_raw=True)
        was = find_json(exchange.request_body)
        rewrite = functools.partial(rewrite_message, was=was, now=asked.value)
        messages = tuple(map(rewrite, find_messages(exchange)))
        if asked.method == "stdio":
            return self._build_lines(exchange, asked, messages, rewrite)
        if not is_of_http(exchange):
            if not messages:
                return MockReply(202)
            is_stream = any("method" in message for message in messages)
            events = b"\n\n".join(b"data: " + format_message(message) for message in messages)
            return MockReply(200, {"Content-Type": STREAM_TYPE if is_stream else JSON_TYPE},
                             messages, is_stream,
                             list(rewrite_stream(events + b"\n\n", dict)) if is_stream else None)
        headers = {"-".join(map(str.capitalize, name.split("-"))): value
                   for name, value in exchange.headers.items() if name not in _ANSWER_FRAMING}
        if "Mcp-Session-Id" in headers:
            headers["Mcp-Session-Id"] = self._make_id()
        parts: Optional[Iterable[Part]] = None
        if exchange.is_stream:
            parts = list(rewrite_stream(exchange.answer, rewrite))
            # The stream of a GET lasts as long as its client, which that one did not.
            if exchange.error == CLIENT_LEFT or (exchange.error is None
                                                 and exchange.method == "GET"):
                parts.append(FOR_EVER)
            elif exchange.error is not None:
                parts.append(ConnectionAction.HANG_UP)
        elif exchange.answer and not messages:
            parts = (exchange.answer,)
        return MockReply(exchange.status or 200, headers, messages, exchange.is_stream, parts)

    @staticmethod
    def _build_lines(exchange: Exchange, asked: MockRequest, messages: Tuple[dict, ...],
                     rewrite: Callable[[dict], dict]) -> MockReply:
        """Return the answer of an exchange for stdio."""
        if is_of_http(exchange):
            if asked.is_request and not messages:
                messages = (build_error(asked.value["id"], MCPError(
                    INTERNAL_ERROR, f"the recorded answer, HTTP {exchange.status}, is none on "
                                    "stdio")),)
            return MockReply(messages=messages)
        parts: List[Part] = []
        for line in exchange.answer.split(b"\n") if exchange.answer else ():
            message = find_json(line)
            is_message = isinstance(message, dict)
            parts.append((format_message(rewrite(message)) if is_message else line) + b"\n")
            parts += [WaitForReply(message["id"])] if is_request(message) else []
        parts += [ConnectionAction.HANG_UP] if exchange.error else []
        return MockReply(messages=messages, parts=parts)


_ANSWER_FRAMING = _FRAMING | {"date", "connection", "keep-alive", "transfer-encoding"}


def rewrite_message(message: dict, was: Any, now: Any) -> dict:
    """Return a message of a recorded answer with the ids of the request that is asked now."""
    before, after = find_request_id(was), find_request_id(now)
    if "method" not in message:
        is_own = None not in (before, after) and message.get("id") == before
        return {**message, "id": after} if is_own else message
    params = dict(find_object(message, "params"))
    tokens = [find_meta_of(value).get("progressToken") for value in (was, now)]
    if tokens[0] is not None and params.get("progressToken") == tokens[0]:
        params["progressToken"] = tokens[1]
    meta = find_meta_of(message)
    if before is not None and meta.get(META_SUBSCRIPTION_ID) == before:
        params["_meta"] = {**meta, META_SUBSCRIPTION_ID: after}
    return {**message, "params": params} if "params" in message else message


def rewrite_stream(data: bytes, rewrite: Callable[[dict], dict]) -> Iterator[Part]:
    """Yield the events of a stream, each with its message rewritten; all else is as it was."""
    *blocks, rest = data.split(b"\n\n")
    for block in blocks:
        fields = [(line, *split_field(line)) for line in block.split(b"\n")]
        message = find_json(b"\n".join(value for _, name, value in fields if name == b"data"))
        if isinstance(message, dict):
            lines = [line for line, name, _ in fields if name != b"data"]
            block = b"\n".join([*lines, b"data: " + format_message(rewrite(message))])
        yield block + b"\n\n"
        if is_request(message):
            yield WaitForReply(message["id"])
    if rest:
        yield rest


# In: the right answer to a request. Out: what a server with a known fault answers. Each is a row
# of FAULTS. What is no fault but only unusual is there too, for a client must bear it.

ApplyFault = Callable[[MockReply, MockRequest], MockReply]


class Fault(NamedTuple):
    """A way in which servers go wrong: where ("HTTP", "stdio" or "both"), and what is wrong."""

    where: str
    meaning: str
    apply: ApplyFault


A_NOTE = "\u4e16\U0001f600 \u2028\u2029\u0085"


# ---- what a fault does, from what is common to several

def on_requests(apply: ApplyFault, *methods: str) -> ApplyFault:
    """Return what changes the answers to requests only, or to those of some methods."""
    def apply_some(reply: MockReply, asked: MockRequest) -> MockReply:
        is_meant = asked.is_request and (not methods or asked.name in methods)
        return apply(reply, asked) if is_meant else reply
    return apply_some


def on_notifications(reply_instead: MockReply) -> ApplyFault:
    """Return what answers notifications with something else."""
    return lambda reply, asked: reply_instead if asked.name and not asked.is_request else reply


def on_http(method: str, apply: ApplyFault) -> ApplyFault:
    """Return what changes the answers to one method of HTTP."""
    return lambda reply, asked: apply(reply, asked) if asked.method == method else reply


def answer_with(status: int, text: Union[bytes, str] = b"", kind: str = "text/plain",
                **headers: str) -> ApplyFault:
    """Return what answers with a text instead."""
    return lambda reply, asked: build_reply(status, text, kind, **headers)


def with_type(kind: str) -> ApplyFault:
    """Return what gives answers another Content-Type."""
    return on_requests(lambda reply, asked: reply._replace(
        headers={**reply.headers, "Content-Type": kind}))


def answer_raw(*parts: Part) -> ApplyFault:
    """Return what sends something in the place of an HTTP answer, its head included."""
    return lambda reply, asked: reply._replace(parts=parts, is_raw=True)


def in_stream(change: Callable[[bytes], Union[bytes, Iterable[Part]]]) -> ApplyFault:
    """Return what makes an answer an event stream (on stdio: lines) and changes its bytes.

    `change` returns the bytes, or parts: pieces of them, pauses and marks.
    """
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        is_stdio, parts = asked.method == "stdio", reply.parts
        if (reply.is_stream or is_stdio) and isinstance(parts, (tuple, list)) and all(
                isinstance(part, bytes) for part in parts):
            sent = b"".join(parts)                # of another fault
        else:
            sent = format_messages(reply, is_stdio)
        changed = change(sent)
        return build_stream(reply, (changed,) if isinstance(changed, bytes) else changed)
    return on_requests(apply)


def build_stream(reply: MockReply, parts: Iterable[Part]) -> MockReply:
    """Return a MockReply whose parts are those of an event stream."""
    headers = {**reply.headers, "Content-Type": STREAM_TYPE}
    return reply._replace(status=200, headers=headers, is_stream=True, parts=parts)


def change_answer(change: Callable[[dict], Any], *methods: str) -> ApplyFault:
    """Return what changes the JSON of responses; `change` gets a copy, and returns another."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        return reply._replace(parts=None, messages=tuple(
            change(dict(message)) if isinstance(message, dict) and "method" not in message
            else message for message in reply.messages))         # of another fault, perhaps a list
    return on_requests(apply, *methods)


def change_result(change: Callable[[dict], dict], *methods: str) -> ApplyFault:
    """Return what changes the results of requests."""
    def change_it(message: dict) -> dict:
        if isinstance(message.get("result"), dict):
            message["result"] = change(dict(message["result"]))
        return message
    return change_answer(change_it, *methods)


def refuse(code: int, text: str, *methods: str, data: Any = None, status: int = 400) -> ApplyFault:
    """Return what answers requests with a JSON-RPC error."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        error = build_error(asked.value["id"], MCPError(code, text, data))
        return MockReply(status, {"Content-Type": JSON_TYPE}, (error,))
    return on_requests(apply, *methods)


def refuse_body(body: dict, status: int, *methods: str) -> ApplyFault:
    """Return what answers requests with a JSON body that is not theirs."""
    return on_requests(answer_with(status, encode_json(body), JSON_TYPE), *methods)


# ---- what is peculiar to one

PROGRESS = format_event(encode_json(build_notification(
    "notifications/progress", {"progressToken": "nobody's", "progress": 1})))


def add_note(reply: MockReply, note: str) -> MockReply:
    """Return a MockReply with a note in the `_meta` of its result."""
    def change(message: dict) -> dict:
        result = find_object(message, "result")
        return message if not result else {**message, "result": {
            **result, "_meta": {**find_object(result, "_meta"), "note": note}}}
    return reply._replace(parts=None, messages=tuple(map(change, reply.messages)))


def send_note(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send characters that are no line ends, though some split lines at them, unescaped."""
    encode = functools.partial(json.dumps, ensure_ascii=False)
    return build_stream(reply, (
        format_messages(add_note(reply, A_NOTE), asked.method == "stdio", encode),))


def cut_characters(reply: MockReply, asked: MockRequest) -> MockReply:
    """Cut the stream after each byte of a character that has several."""
    (data,) = send_note(reply, asked).parts
    return build_stream(reply, re.findall(rb"[\x00-\x7f]*[\x80-\xff]|[\x00-\x7f]+", data))


def send_huge_event(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send an event of 5 MiB."""
    long = add_note(reply, "x" * (5 * 1024 * 1024))
    return build_stream(reply, (format_messages(long, asked.method == "stdio"),))


def spread_lines(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send JSON over several data lines."""
    encode = functools.partial(json.dumps, indent=1)
    return build_stream(reply, (format_messages(reply, False, encode),))


def repeat_page(message: dict) -> dict:
    """Have each page of a list followed by the same one."""
    result = find_object(message, "result") or {"tools": []}          # it refuses the cursor, say
    return build_result(message.get("id"), {**result, "nextCursor": "again"})


BAD_TOOLS = [{"name": "none", "inputSchema": None}, {"name": "empty", "inputSchema": {}},
             {"name": "text", "inputSchema": "x"}, {"inputSchema": {"type": "object"}},
             {"name": "string", "inputSchema": {"type": "string"}}, "no object"]


def build_tool(name: str, properties: dict, **members: Any) -> dict:
    """Return a tool as it is listed."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}, **members}


BAD_PARAMETERS = [
    build_tool("a-number", {"a": {"type": "number", "x-mcp-header": "A"}}),
    build_tool("twice", {name: {"type": "string", "x-mcp-header": name} for name in ("b", "B")}),
    build_tool("items", {"a": {"type": "array", "items": {"type": "string",
                                                          "x-mcp-header": "A"}}}),
    build_tool("a-space", {"a": {"type": "string", "x-mcp-header": "A B"}})]
FOREIGN_SCHEMA = build_tool("foreign", {"a": {"$ref": "http://127.0.0.1:9/x.json"}})
ODD_NAMES = build_tool("a\x1b[2J", {}, description="\x1b]8;;http://evil\x07 \u202e \x9b31m")


def add_tools(*tools: Any) -> ApplyFault:
    """Return what lists more tools than there are."""
    return change_result(lambda result: {**result, "tools": [
        *find_list(result.get("tools")), *tools]}, "tools/list")


def with_session(is_lost: Callable[[MockRequest], bool],
                 header: str = HEADER_SESSION_ID) -> ApplyFault:
    """Return what gives legacy clients a session, of which some requests find that it is lost."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        if asked.name == "initialize":
            return reply._replace(headers={**reply.headers, header: "a-session"})
        if not asked.is_request:
            return reply
        if "mcp-session-id" not in asked.headers:
            return build_reply(400, "Missing session ID")
        return build_reply(404, "Session not found") if is_lost(asked) else reply
    return apply


def be_legacy(apply: ApplyFault) -> ApplyFault:
    """Return what changes the answers of a server that knows the handshake only."""
    def apply_it(reply: MockReply, asked: MockRequest) -> MockReply:
        if asked.is_modern or asked.name == "server/discover":
            return refuse(METHOD_NOT_FOUND, "Method not found", status=200)(reply, asked)
        return apply(reply, asked)
    return apply_it


def redirect(status: int, to: str) -> ApplyFault:
    """Return what redirects to a URL, or to the path with `to` at its end."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        if to and asked.target.endswith(to):
            return reply
        return MockReply(status, {"Location": to if "://" in to else asked.target + to}, parts=())
    return apply


def as_http_sse(event: bytes) -> ApplyFault:
    """Return what takes no POST and opens a stream for a GET, as the old transport does."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        if asked.method == "GET":
            return MockReply(200, {"Content-Type": STREAM_TYPE}, is_stream=True,
                             parts=(event, FOR_EVER))
        return build_reply(405, "Method Not Allowed", Allow="GET")
    return apply


def deny(challenge: str = "", page: str = "", document: Optional[ApplyFault] = None) -> ApplyFault:
    """Return what refuses everybody; {origin} in a challenge is the mock's own."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        if "/.well-known/" in asked.target:
            return document(reply, asked) if document is not None else reply
        headers = {"WWW_Authenticate": challenge.format(origin=asked.origin)} if challenge else {}
        return build_reply(401, page or "Unauthorized", "text/html" if page else "text/plain",
                           **headers)
    return apply


def wrong_resource(reply: MockReply, asked: MockRequest) -> MockReply:
    """Answer with the metadata of a resource that is somebody else's."""
    return build_reply(200, encode_json({"resource": "https://other.invalid/mcp",
                                         "authorization_servers": [asked.origin]}), JSON_TYPE)


def ask_first(reply: MockReply, asked: MockRequest) -> MockReply:
    """Ask for a name before a tool answers."""
    form = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
    question = {"method": "elicitation/create", "params": {
        "mode": "form", "message": "Name?", "requestedSchema": form}}
    return reply if "inputResponses" in asked.params else change_result(lambda result: {
        "resultType": "input_required", "inputRequests": {"q": question},
        "requestState": "opaque=="})(reply, asked)


def cut_json(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send the first half of the answer's JSON, as if it were all."""
    data = b"".join(map(format_message, reply.messages))
    return build_reply(reply.status, data[:len(data) // 2], JSON_TYPE)


def cut_body(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send less than the Content-Length says."""
    data = b"".join(map(format_message, reply.messages))
    headers = {"Content-Type": JSON_TYPE, "Content-Length": str(len(data) + 9)}
    return MockReply(reply.status, headers, parts=(data, ConnectionAction.HANG_UP))


def send_nan(reply: MockReply, asked: MockRequest) -> MockReply:
    """Put a NaN into the result."""
    data = b"".join(map(format_message, add_note(reply, A_NOTE).messages[-1:]))
    data = data.replace(encode_json(A_NOTE).encode("ascii"), b"NaN")
    return reply._replace(parts=(data + b"\n",))


def build_bomb(reply: MockReply, asked: MockRequest) -> MockReply:
    """Send 200 MiB of nothing, as 200 KiB of gzip: many members, each of a MiB."""
    import zlib
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    member = packer.compress(bytes(1024 * 1024)) + packer.flush()
    return MockReply(200, {"Content-Type": JSON_TYPE, "Content-Encoding": "gzip"},
                     parts=(member * 200,))


def send_first(*parts: Part, methods: Tuple[str, ...] = ()) -> ApplyFault:
    """Return what a stdio server does before it answers."""
    def apply(reply: MockReply, asked: MockRequest) -> MockReply:
        rest = format_reply_lines(reply)          # of another fault, perhaps without an end
        return reply._replace(parts=(*parts, *rest) if isinstance(rest, (tuple, list))
                              else chain(parts, rest))
    return on_requests(apply, *methods)


def answer_late(reply: MockReply, asked: MockRequest) -> MockReply:
    """Answer server/discover, of which the id is taken to be one less, only with `initialize`."""
    if asked.name == "server/discover":
        return reply._replace(parts=())
    if asked.name != "initialize" or not isinstance(asked.value["id"], int):
        return reply
    late = build_result(asked.value["id"] - 1, {
        "supportedVersions": [LATEST_MODERN_VERSION], "capabilities": {}})
    return reply._replace(parts=None, messages=(late, *reply.messages))


def refuse_versions(versions: Any) -> ApplyFault:
    """Return what has server/discover name other versions."""
    return change_result(lambda result: {**result, "supportedVersions": versions},
                         "server/discover")


JUNK_LINES = (b'Server v1 started\nnpm warn x\n{"status":200}\n'
              b'log: {"jsonrpc":"2.0","id":1,"result":{}}\n')
LOGIN_PAGE = "<html><title>Sign in</title><form>Who are you?</form></html>"


# ---- the table

FAULTS: Dict[str, Fault] = {
    # of event streams
    "crlf": Fault("both", "lines end with CR LF",
        in_stream(lambda data: data.replace(b"\n", b"\r\n"))),
    "cut-crlf": Fault("both", "CR and LF arrive one after the other",
        in_stream(lambda data: re.findall(rb"[^\r]*\r|[^\r]+", data.replace(b"\n", b"\r\n")))),
    "line-separators": Fault("both", "U+2028, U+2029 and U+0085 stand in JSON unescaped",
        on_requests(send_note)),
    "no-space": Fault("HTTP", "there is no space after the colon of a field",
        in_stream(lambda data: data.replace(b": ", b":", 2))),
    "many-data-lines": Fault("HTTP", "one message is spread over several data lines",
        on_requests(spread_lines)),
    "other-events": Fault("HTTP", "events of the type ping go before each message",
        in_stream(lambda data: b"event: ping\ndata: ping\n\n" + data)),
    "comments": Fault("HTTP", "comments of all forms go before each message",
        in_stream(lambda data: b": keep-alive\n\n:\r\n\r\n:x\n" + data)),
    "priming-event": Fault("HTTP", "an event with an id and no data goes first",
        in_stream(lambda data: b"id: 1\ndata\n\n" + data)),
    "unfinished-event": Fault("HTTP", "the stream ends without the last blank line",
        in_stream(lambda data: data.rstrip(b"\n") + b"\n")),
    "cut-characters": Fault("both", "characters of several bytes arrive cut",
        on_requests(cut_characters)),
    "huge-event": Fault("both", "one line has 5 MiB", on_requests(send_huge_event)),
    "open-stream": Fault("HTTP", "the stream stays open after the answer",
        in_stream(lambda data: (data, FOR_EVER))),
    "lost-answer": Fault("HTTP", "the stream ends after progress, without the answer",
        in_stream(lambda data: PROGRESS)),
    "reset": Fault("HTTP", "the connection is reset in the stream",
        in_stream(lambda data: (PROGRESS, 0.05, ConnectionAction.RESET))),
    "silent-stream": Fault("HTTP", "nothing comes after the head of the stream",
        in_stream(lambda data: (FOR_EVER,))),
    "only-comments": Fault("HTTP", "nothing but comments comes, for ever",
        in_stream(lambda data: cycle((b": still here\n\n", 0.1)))),
    "endless-stream": Fault("HTTP", "the stream goes on for ever at full speed",
        in_stream(lambda data: cycle((b":" + b"." * 65536 + b"\n\n",)))),
    "broken-off": Fault("HTTP", "the stream ends after an event id, to be gone on with",
        in_stream(lambda data: b"id: e1\nretry: 50\ndata:\n\n")),
    "slow": Fault("HTTP", "the answer takes half a second, with progress all the time",
        in_stream(lambda data: (*(PROGRESS, 0.1) * 5, data))),
    # of JSON-RPC
    "duplicate-answers": Fault("both", "each answer comes twice",
        in_stream(lambda data: data + data)),
    "foreign-id": Fault("both", "the answer has the id of another request",
        change_answer(lambda message: {**message, "id": 987654321})),
    "id-as-string": Fault("both", "a number comes back as a string",
        change_answer(lambda message: {**message, "id": str(message.get("id"))})),
    "batch": Fault("both", "the answer comes in an array",
        change_answer(lambda message: [message])),
    "wrong-envelope": Fault("HTTP", '"jsonrpc" is "1.0"',
        change_answer(lambda message: {**message, "jsonrpc": "1.0"})),
    "error-without-id": Fault("both", "the id of an error is null",
        change_answer(lambda message: build_error(None, MCPError(INVALID_PARAMS, "bad cursor")))),
    "not-a-number": Fault("both", "there is a NaN in the result", on_requests(send_nan)),
    "cut-json": Fault("HTTP", "the JSON ends in the middle", on_requests(cut_json)),
    # of HTTP answers
    "login-page": Fault("HTTP", "each answer is an HTML page to log in",
        answer_with(200, LOGIN_PAGE, "text/html")),
    "plain-text": Fault("HTTP", "JSON comes as text/plain", with_type("text/plain")),
    "error-in-400": Fault("HTTP", "a JSON-RPC error comes with HTTP 400",
        refuse(INVALID_PARAMS, "bad cursor", "tools/list", "tools/call")),
    "type-in-capitals": Fault("HTTP", "the Content-Type has capitals and a parameter",
        with_type("Application/JSON; charset=utf-8")),
    "202-with-body": Fault("HTTP", "a notification is answered with 202 and a text",
        on_notifications(build_reply(202, "Accepted"))),
    "204-for-202": Fault("HTTP", "a notification is answered with 204",
        on_notifications(MockReply(204))),
    "200-for-202": Fault("HTTP", "a notification is answered with 200 and {}",
        on_notifications(build_reply(200, "{}", JSON_TYPE))),
    "406": Fault("HTTP", "no Accept is good enough", answer_with(406, "Not Acceptable")),
    "no-answer": Fault("HTTP", "the connection is closed without an answer",
        on_requests(answer_raw(ConnectionAction.HANG_UP))),
    "silence": Fault("HTTP", "no byte of an answer comes", on_requests(answer_raw(FOR_EVER))),
    "short-body": Fault("HTTP", "the body is shorter than its Content-Length",
        on_requests(cut_body)),
    # of the finding out of versions
    "discover-other-code": Fault("both", "server/discover is refused with -32602",
        refuse(INVALID_PARAMS, "Invalid params", "server/discover", status=200)),
    "discover-400": Fault("HTTP", "server/discover is answered with 400 and a text",
        on_requests(answer_with(400, "Bad Request"), "server/discover")),
    "discover-404": Fault("HTTP", "server/discover is answered with 404",
        on_requests(answer_with(404), "server/discover")),
    "discover-405": Fault("HTTP", "server/discover is answered with 405",
        on_requests(answer_with(405), "server/discover")),
    "discover-nothing": Fault("HTTP", "server/discover is answered with 200 and {}",
        refuse_body({}, 200, "server/discover")),
    "discover-401": Fault("HTTP", "server/discover, and nothing else, wants a token",
        on_requests(answer_with(401, "Unauthorized", WWW_Authenticate="Bearer"),
                    "server/discover")),
    "discover-silent": Fault("stdio", "server/discover is never answered",
        on_requests(lambda reply, asked: reply._replace(parts=()), "server/discover")),
    "discover-late": Fault("stdio", "server/discover is answered after initialize", answer_late),
    "legacy-versions": Fault("both", "server/discover names legacy versions only",
        refuse_versions(["2025-11-25"])),
    "no-versions": Fault("both", "server/discover names no versions", refuse_versions([])),
    "future-versions": Fault("both", "all versions but 2099-01-01 are refused",
        refuse(UNSUPPORTED_VERSION, "Unsupported protocol version",
               data={"supported": ["2099-01-01"], "requested": "2026-07-28"})),
    "header-mismatch": Fault("HTTP", "a header is said to differ from the body",
        refuse(HEADER_MISMATCH, "Mcp-Method header does not match the body")),
    "missing-capability": Fault("both", "a capability of the client is asked for",
        refuse(MISSING_CLIENT_CAPABILITY, "Missing required client capability",
               data={"requiredCapabilities": {"sampling": {}}})),
    "unknown-version": Fault("both", "initialize is answered with 2099-01-01",
        be_legacy(change_result(lambda result: {**result, "protocolVersion": "2099-01-01"},
                                "initialize"))),
    "version-refused": Fault("HTTP", "the version that was agreed on is refused",
        be_legacy(on_requests(answer_with(400, "Unsupported protocol version"), "tools/list",
                              "tools/call", "ping"))),
    # of legacy sessions
    "session-lost": Fault("HTTP", "the session is unknown at once, each time",
        with_session(lambda asked: True)),
    "session-lost-once": Fault("HTTP", "each first request finds the session gone",
        with_session(lambda asked: not asked.count)),
    "session-in-small-letters": Fault("HTTP", "the header is mcp-session-id",
        with_session(lambda asked: False, "mcp-session-id")),
    "get-404": Fault("HTTP", "a GET is answered with 404",
        be_legacy(on_http("GET", answer_with(404, "Not Found")))),
    "get-text": Fault("HTTP", "a GET is answered with text/plain",
        be_legacy(on_http("GET", answer_with(200, "hello")))),
    "get-empty": Fault("HTTP", "the stream of a GET ends at once, each time",
        be_legacy(on_http("GET", answer_with(200, b"", Content_Type=STREAM_TYPE)))),
    "no-ping": Fault("both", "ping is an unknown method",
        be_legacy(refuse(METHOD_NOT_FOUND, "Method not found", "ping", status=200))),
    # of the old transport
    "no-endpoint": Fault("HTTP", "a GET opens a stream whose first event is no endpoint",
        as_http_sse(b"event: hello\ndata: x\n\n")),
    "endpoint-elsewhere": Fault("HTTP", "the event endpoint names another origin",
        as_http_sse(b"event: endpoint\ndata: http://evil.example/m\n\n")),
    "405": Fault("HTTP", "no method is allowed", answer_with(405, "Method Not Allowed")),
    # of redirects
    "redirect-303": Fault("HTTP", "a POST is redirected with 303", redirect(303, "/")),
    "redirect-307": Fault("HTTP", "a POST is redirected with 307, to the same path and /",
        redirect(307, "/")),
    "redirect-elsewhere": Fault("HTTP", "a POST is redirected with 308 to another origin",
        redirect(308, "http://other.invalid/mcp")),
    "redirect-loop": Fault("HTTP", "each redirect leads to another", redirect(307, "")),
    # of results
    "asks-first": Fault("both", "a tool asks for a name before it answers",
        on_requests(ask_first, "tools/call")),
    "repeated-cursor": Fault("both", "the next page is always the same",
        change_answer(repeat_page, "tools/list")),
    "bad-tools": Fault("both", "some tools have no name, or no schema that can be used",
        add_tools(*BAD_TOOLS)),
    "bad-parameters": Fault("both", "the x-mcp-header of some tools breaks the rules",
        add_tools(*BAD_PARAMETERS)),
    "foreign-schema": Fault("both", "a schema refers to another server",
        add_tools(FOREIGN_SCHEMA)),
    "terminal-codes": Fault("both", "a tool's name and text would command a terminal",
        add_tools(ODD_NAMES)),
    "wrong-output": Fault("both", "structuredContent breaks the outputSchema",
        change_result(lambda result: {**result, "structuredContent": {"response": 5}},
                      "tools/call")),
    "no-output": Fault("both", "structuredContent is missing",
        change_result(lambda result: {name: value for name, value in result.items()
                                      if name != "structuredContent"}, "tools/call")),
    # of authorization
    "401": Fault("HTTP", "a token is wanted, without a challenge", deny()),
    "401-challenge": Fault("HTTP", "the challenge is the third of a list, oddly spaced",
        deny('Negotiate, Basic realm="x, Bearer y", Bearer error="invalid_token", '
             'resource_metadata = "{origin}/.well-known/no"')),
    "401-page": Fault("HTTP", "a token is wanted, by an HTML page", deny(page=LOGIN_PAGE)),
    "metadata-lies": Fault("HTTP", "the metadata is that of another resource",
        deny("Bearer", document=wrong_resource)),
    "metadata-page": Fault("HTTP", "the metadata is an HTML page, with 200",
        deny("Bearer", document=answer_with(200, LOGIN_PAGE, "text/html"))),
    "metadata-500": Fault("HTTP", "the metadata cannot be had: HTTP 500",
        deny("Bearer", document=answer_with(500, "Oops"))),
    # of what is no MCP server at all
    "ssh": Fault("HTTP", "the port is that of SSH",
        answer_raw(b"SSH-2.0-OpenSSH_9.6\r\n", 0.1, ConnectionAction.HANG_UP)),
    "tarpit": Fault("HTTP", "the head of the answer comes a line at a time, and never ends",
        answer_raw(b"HTTP/1.1 200 OK\r\n", *(b"X-A: b\r\n", 0.1) * 50, FOR_EVER)),
    "gzip-bomb": Fault("HTTP", "200 MiB come as 200 KiB of gzip", on_requests(build_bomb)),
    "200-for-all": Fault("HTTP", "everything is answered with 200 and {}",
        answer_with(200, "{}", JSON_TYPE)),
    # of stdio
    "junk-lines": Fault("stdio", "lines that are no messages go before each answer",
        send_first(JUNK_LINES)),
    "bad-bytes": Fault("stdio", "a line that is no UTF-8 goes before each answer",
        send_first(b"\xff\n")),
    "stderr-flood": Fault("stdio", "256 KiB go to standard error before each answer",
        send_first(StderrOutput(b"x" * 262_144))),
    "exit": Fault("stdio", "the server exits when its tools are listed or called, with last words",
        send_first(StderrOutput(b"fatal: no such tool\n"), ConnectionAction.HANG_UP,
                   methods=("tools/list", "tools/call"))),
    "stays": Fault("stdio", "the server ends neither with its input nor by SIGTERM",
        send_first(ConnectionAction.STAY)),
}


def find_faults(names: Sequence[str], is_stdio: bool) -> List[Fault]:
    """Return faults by their names; raises UsageError for one that there is not."""
    where = "stdio" if is_stdio else "HTTP"
    for name in names:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {shorten(name)}: see --list-faults")
        if FAULTS[name].where not in (where, "both"):
            raise UsageError(f"the fault {name} is one of {FAULTS[name].where} only")
    return [FAULTS[name] for name in names]


# =============================================================================================
# 31. RECORD AND REPLAY
# =============================================================================================
# The shells around transcripts and mocks: what sends requests again, what stands between a client
# and a server, what serves recorded answers. What they say, and what differs, is decided above.

AWAIT_SECONDS = 10.0                   # that a mock waits for the answer to what it asks
LOOK_SECONDS = 0.1                     # how often it is looked whether a client is still there
REPLAY_LISTEN_SECONDS = 1.0            # for what comes on a stream when all else has been replayed


# ---- replay

def send_exchange(pool: HTTPPool, asked: Exchange, waits: Any,
                  take: Callable[[Any, bytes], bool]) -> Exchange:
    """Send a request as it is and return its exchange with the answer, or the error in its place.

    `take(response, data)` gets the head of the answer (with no data), and the pieces of its body
    as they come, until it returns True: that is enough.
    """
    def read(response: Any) -> None:
        is_enough = take(response, b"")
        while not is_enough:
            data = response.read_some()
            is_enough = not data or take(response, data)
        response.finish()

    found: List[Exchange] = []
    with contextlib.suppress(MCPKitError):
        pool.request(asked.method, asked.url, asked.request_headers, asked.request_body or None,
                     waits, read, observe=found.append)
    return found[0]._replace(title=asked.title)


class AnswerReader:
    """Reads an answer until all is there that a transcript has of it.

    `on_messages` gets the messages of a stream so far, each time that there are more.
    """

    def __init__(self, was: Exchange, on_messages: Callable[[List[dict]], None]):
        message, messages = find_json(was.request_body), find_messages(was)
        self._request_id = find_request_id(message) if is_request(message) else None
        if was.error is not None and all("method" in message for message in messages):
            self._request_id = None               # no answer came: there is none to wait for
        self._count = len(messages)
        self._is_cut = was.error is not None and was.method != "GET"
        self._on_messages = on_messages
        self._parser = SSEParser()
        self.messages: List[dict] = []
        self.response: Any = None                 # once its head is there
        self.opened, self.ended = threading.Event(), threading.Event()
        self.found: Optional[Exchange] = None     # once it has ended

    def take(self, response: Any, data: bytes) -> bool:
        """Take in a piece of the answer; return whether that is enough."""
        self.response = response
        self.opened.set()
        if not response.is_stream:
            return False
        for event in self._parser.feed(data):
            value = find_json(event.data.encode("utf-8", "surrogatepass"))
            found = [part for part in (value if isinstance(value, list) else [value])
                     if isinstance(part, dict)]
            self.messages += found
            if found:
                self._on_messages(self.messages)
        if self._request_id is None:
            return self._count <= len(self.messages) and (self._count > 0 or self._is_cut)
        return any("method" not in message and message.get("id") == self._request_id
                   for message in self.messages)

    def build_exchange(self, asked: Exchange) -> Exchange:
        """Return an exchange with the answer as far as it has come."""
        if self.found is not None or self.response is None:
            return self.found or asked._replace(error="nothing has come yet")
        answer = b"".join(format_event(encode_json(message)) for message in self.messages)
        return asked._replace(status=self.response.status, headers=self.response.headers,
                              answer=answer, size=len(answer), is_stream=True, error=None)


class HTTPTarget:
    """A server that a transcript is replayed to over HTTP.

    All requests go to `url`, but for those that were to another path than the first one.
    """

    def __init__(self, url: str, headers: Headers, network: Network, exchanges: List[Exchange],
                 timeout: float, deadline: float):
        self._url, self._headers = url, headers
        self._own_path = next((urllib.parse.urlsplit(exchange.url).path for exchange in exchanges
                               if is_of_http(exchange)), "")
        self._waits = Timeouts(timeout, deadline)
        self._pool = HTTPPool(network, MAX_ANSWER_BYTES)
        self._session = ClientSession({}, {})     # for messages that came without headers
        self._streams: List[Tuple[Exchange, AnswerReader]] = []     # of GETs, each with a thread

    def send(self, asked: Exchange, was: Exchange, on_messages: Callable) -> Exchange:
        """Send a request and return the exchange that it makes."""
        asked, reader = self._address(asked), AnswerReader(was, on_messages)
        if asked.method == "GET" and was.is_stream:
            self._streams.append((asked, reader))
            start_thread(lambda: self._listen(asked, reader))
            reader.opened.wait(min(OPEN_SECONDS, self._waits.silence))
            return asked
        now = send_exchange(self._pool, asked, self._waits, reader.take)
        for message in () if is_of_http(was) else find_messages(now):
            result = find_object(message, "result")
            if "protocolVersion" in result:
                with contextlib.suppress(MCPKitError):
                    self._session.learn("legacy", result["protocolVersion"], result,
                                        now.headers.get("mcp-session-id"))
        return now

    def _listen(self, asked: Exchange, reader: AnswerReader) -> None:
        """Read a stream while the rest is replayed."""
        waits = Timeouts(LISTEN_SECONDS, self._waits.deadline)
        reader.found = send_exchange(self._pool, asked, waits, reader.take)
        reader.opened.set()
        reader.ended.set()

    def settle(self, now: Exchange) -> Exchange:
        """Return an exchange as it is when all else has been sent: a GET listened till now."""
        for asked, reader in self._streams:
            if now is asked:
                reader.ended.wait(min(REPLAY_LISTEN_SECONDS, self._waits.silence))
                return reader.build_exchange(asked)
        return now

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        for _, reader in self._streams:
            reader.ended.wait(self._waits.silence)

    def _address(self, asked: Exchange) -> Exchange:
        """Return a request as it is sent to this server."""
        headers, url = asked.request_headers, self._url
        if not is_of_http(asked):
            # The headers that a message of stdio needs here.
            message = find_json(asked.request_body)
            message = message if isinstance(message, dict) else {}
            is_new = "method" in message and is_modern(find_meta_of(message), None)
            self._session.era = "modern" if is_new else "legacy"
            headers = self._session.build_headers(message)
            asked = asked._replace(method="POST")
        elif urllib.parse.urlsplit(asked.url).path != self._own_path:
            url = urljoin(url, "/" + asked.url.partition("://")[2].partition("/")[2])
        given = {name.lower() for name in self._headers} | _REQUEST_FRAMING
        headers = {**{name: value for name, value in headers.items()
                      if name.lower() not in given}, **self._headers}
        return asked._replace(url=url, request_headers=headers)


class StdioTarget:
    """A stdio server that a transcript is replayed to; what only HTTP has is not sent."""

    def __init__(self, command: List[str], env: Mapping[str, str], cwd: Optional[str],
                 timeout: float, deadline: float):
        self._waits = Timeouts(timeout, deadline)
        self._messages: List[dict] = []
        self._on_messages: Callable = _ignore
        self._transport = StdioTransport(command, TransportOptions(on_message=self._take, env=env,
                                                                   cwd=cwd))
        self.close = self._transport.close

    def send(self, asked: Exchange, was: Exchange, on_messages: Callable) -> Optional[Exchange]:
        """Send a message and return the exchange that it makes, None if there is none."""
        message = find_json(asked.request_body)
        if not isinstance(message, dict):
            return None
        outer, self._on_messages = (self._messages, self._on_messages), on_messages
        self._messages, error, value = [], None, None
        try:
            value = self._transport.exchange(message, {}, self._waits, _ignore).response
        except MCPKitError as caught:
            error = str(caught)
        if value is not None:
            self._messages.append(build_error(value.id, value.error) if value.error
                                  else build_result(value.id, value.result))
        answer = b"\n".join(map(format_message, self._messages))
        self._messages, self._on_messages = outer
        return asked._replace(method="stdio", status=None, headers={}, answer=answer,
                              size=len(answer), is_stream=False, error=error)

    def settle(self, now: Exchange) -> Exchange:
        """Return an exchange as it is when all else has been sent."""
        return now

    def _take(self, message: dict) -> None:
        self._messages.append(message)
        self._on_messages(self._messages)


class Replayed(NamedTuple):
    """One exchange of a transcript: its number, what it was, and what it is now (None: unsent)."""

    number: int
    was: Exchange
    now: Optional[Exchange]


class Replayer:
    """Sends the requests of a transcript again, as the client would that sent them first.

    What the server gave out is carried over, and what it asks is answered as it was.
    """

    def __init__(self, exchanges: List[Exchange], target: Any, only: Collection[int] = ()):
        self.carried = Substitutions()
        self._exchanges = exchanges
        self._target = target
        self._only = only
        self._done: Dict[int, Optional[Exchange]] = {}      # by index: what came of it

    def run(self) -> List[Replayed]:
        """Return what came of each exchange, or of `only` some. TransportError: of none."""
        for index, exchange in enumerate(self._exchanges):
            # Without a handshake there is nothing to say to a legacy server.
            if index not in self._done and (
                    not self._only or index + 1 in self._only or find_title_of(exchange) in (
                        "initialize", "notifications/initialized")):
                self._send(index)
        found = [Replayed(index + 1, self._exchanges[index],
                          now and self._target.settle(now))
                 for index, now in sorted(self._done.items())]
        return [one for one in found if not self._only or one.number in self._only]

    def update(self, replayed: List[Replayed]) -> None:
        """Put the answers that came now into the exchanges."""
        for number, was, now in replayed:
            if now is not None and is_of_http(now) == is_of_http(was):
                now = self.carried.restore(now)
                self._exchanges[number - 1] = now._replace(
                    method=was.method, url=was.url, request_headers=was.request_headers,
                    title=was.title)

    def _send(self, index: int) -> None:
        was = self._exchanges[index]
        self._done[index] = None                  # so that nothing sends it again meanwhile
        asked = self.carried.apply(was)

        def answer(messages: List[dict]) -> None:
            self.carried.learn_questions(find_messages(was), messages)
            self._answer(find_messages(was), messages)

        now = self._target.send(asked, was, answer) if (
            is_of_http(was) or was.request_body) else None
        if now is not None and now.error and now.status is None and not any(self._done.values()):
            raise TransportError(now.error)
        if now is not None:
            self.carried.learn(was, now)
        self._done[index] = now

    def _answer(self, before: List[dict], messages: List[dict]) -> None:
        """Send the answers to what the server has asked up to now."""
        asked = [message["id"] for message in before if is_request(message)]
        count = sum(map(is_request, messages))
        for index, exchange in enumerate(self._exchanges):
            value = find_json(exchange.request_body) if index not in self._done else None
            if isinstance(value, dict) and "method" not in value and (
                    value.get("id") in asked[:count]):
                self._send(index)


# ---- between a client and what answers it

class ReplyHandler(RequestHandler):
    """One connection of a ReplyService: request after request, handed over with its body."""

    server: ReplyService

    def check(self, data: bytes) -> CheckedRequest:
        """Return what a head asks for; any method and any path will do."""
        head = parse_head(data)
        if not is_host_allowed(head.headers.get("host"), frozenset(), self.server.is_local):
            # A page whose name was re-bound to this machine would be let in by way of us.
            raise HTTPError(403, "this service answers to the names of this machine only")
        has_body = not head.headers.keys().isdisjoint({"content-length", "transfer-encoding"})
        length = parse_content_length(head, MAX_ANSWER_BYTES) if has_body else 0
        return CheckedRequest(head, length, is_kept_alive(head), "expect" in head.headers, None)

    def answer(self, request: CheckedRequest, body: bytes) -> None:
        """Answer a request as the service does."""
        self.server.serve(self, request.head, body)

    def send_parts(self, parts: Iterable[Part]) -> None:
        """Send the parts of an answer, with the pauses between them."""
        for part in parts:
            if isinstance(part, bytes):
                if not self.send_bytes(part):
                    raise ConnectionAbortedError
            elif isinstance(part, WaitForReply):
                self.server.wait_for(lambda: self.server.is_answered(part.id), AWAIT_SECONDS, self)
            elif isinstance(part, (int, float)):
                self.server.wait_for(lambda: False, part, self)
            else:
                self._end(part)
                return

    def _end(self, mark: ConnectionAction) -> None:
        self.close_connection = True
        if mark is ConnectionAction.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        else:
            self.drain()


class ReplyService(ThreadedServer):
    """A service for requests of any kind; as a context manager it serves in a thread of its own."""

    handler_class = ReplyHandler

    def __init__(self, host: str, port: int, path: str = "/mcp"):
        self.is_local = is_loopback(host)
        super().__init__(open_listener(host, port), Limits(max_body=MAX_ANSWER_BYTES))
        self.origin = f"http://{format_address(host, self.server_address[1])}"
        self.url = self.origin + path

    def serve(self, handler: ReplyHandler, head: Head, body: bytes) -> None:
        """Answer a request."""
        raise NotImplementedError

    def stop(self, seconds: float = 0.0) -> None:
        """Free the address; what is being answered is given up."""
        self.stopped.set()
        super().stop(seconds)

    def is_answered(self, question_id: Any) -> bool:
        """Return whether a client has answered a question."""
        return True

    def wait_for(self, is_over: Callable[[], bool], seconds: float, handler: ReplyHandler) -> None:
        """Wait until something is so, or for some seconds, while the client is there."""
        deadline = time.monotonic() + seconds
        while not is_over() and time.monotonic() < deadline:
            if self.stopped.wait(min(LOOK_SECONDS, deadline - time.monotonic())) or (
                    is_peer_gone(handler.connection)):
                raise ConnectionAbortedError


# ---- mock

Source = Callable[[MockRequest], MockReply]


class FaultySource:
    """Answers as a source does, with faults: all of them each time, or, at a `rate`, one now and
    then, which `random` picks."""

    def __init__(self, source: Source, faults: Sequence[Fault], rate: Optional[float] = None,
                 seed: Optional[int] = None):
        self._source, self._faults, self._rate = source, faults, rate
        self._random: Any = None
        self._seed = seed
        self._counts: Dict[str, int] = {}
        self._answered: set = set()               # ids of questions
        self._lock = threading.Lock()             # guards the three above

    def answer(self, asked: MockRequest) -> MockReply:
        """Return the answer to a request, spoiled."""
        with self._lock:
            asked = asked._replace(count=self._counts.get(asked.name, 0))
            self._counts[asked.name] = asked.count + 1
            if isinstance(asked.value, dict) and "method" not in asked.value:
                self._answered.add(find_request_id(asked.value))
            faults = self._pick()
        reply = self._source(asked)
        for fault in faults:
            reply = fault.apply(reply, asked)
        return reply

    def is_answered(self, question_id: Any) -> bool:
        """Return whether the client has answered a question."""
        return question_id in self._answered

    def _pick(self) -> Sequence[Fault]:
        if self._rate is None:
            return self._faults
        if self._random is None:
            import random
            self._random = random.Random(self._seed)
        is_due = self._random.random() < self._rate
        return [self._random.choice(self._faults)] if is_due else []


class MockService(ReplyService):
    """Answers over HTTP as a FaultySource says."""

    def __init__(self, source_with_faults: FaultySource, host: str = "127.0.0.1", port: int = 0,
                 path: str = "/mcp"):
        self._faulty = source_with_faults
        self.is_answered = source_with_faults.is_answered
        super().__init__(host, port, path)

    def serve(self, handler: ReplyHandler, head: Head, body: bytes) -> None:
        """Answer a request."""
        value = find_json(body) if body else None
        reply = self._faulty.answer(MockRequest(head.method, head.target, head.headers, value))
        if reply.is_raw:
            handler.close_connection = True
        parts = format_reply(reply, handler.date_time_string())
        handler.send_parts(islice(parts, 1) if head.method == "HEAD" else parts)


def build_spoiler(exchanges: Sequence[Exchange], names: Sequence[str], rate: Optional[float],
                  seed: Optional[int], log: Callable[[str], None],
                  is_stdio: bool = False) -> FaultySource:
    """Return what answers as exchanges say, or as the pong server, with some faults by name."""
    faults = find_faults(names, is_stdio)
    if rate is not None and not faults:
        where = ("both", "stdio" if is_stdio else "HTTP")
        faults = [fault for fault in FAULTS.values() if fault.where in where]
    source = Mock(exchanges, log, new_id).answer if exchanges else (
        functools.partial(answer_by_server, build_pong_server()))
    return FaultySource(source, faults, rate, seed)


def find_mock_path(exchanges: Sequence[Exchange]) -> str:
    """Return the path of the first request over HTTP in a transcript, else the usual one."""
    url = next((exchange.url for exchange in exchanges if is_of_http(exchange)), "//h/mcp")
    return urllib.parse.urlsplit(url).path


def open_mock(exchanges: Sequence[Exchange] = (), faults: Sequence[str] = (),
              rate: Optional[float] = None, seed: Optional[int] = None,
              log: Callable[[str], None] = log_line, host: str = "127.0.0.1",
              port: int = 0) -> MockService:
    """Return a server over HTTP that answers as a transcript says, to test a client with.

    `exchanges` are those of parse_transcript; without any, it answers as the pong server. `faults`
    are names that `mcpkit mock --list-faults` explains: all of them spoil each answer or, at a
    `rate` from 0 to 1, one of them now and then, which `seed` determines. `log(text)` gets a line
    for each request that was never recorded. Use it as a context manager; its `url` is where it is
    reached. Raises UsageError for an unknown fault, TransportError when the address cannot be
    bound.
    """
    return MockService(build_spoiler(exchanges, faults, rate, seed, log), host, port,
                       find_mock_path(exchanges))


class MockStdio:
    """Answers on a pair of byte streams as a FaultySource says, each message in its own thread."""

    def __init__(self, source_with_faults: FaultySource, reader: Any, writer: Any):
        self._faulty, self._reader, self._writer = source_with_faults, reader, writer
        self._changed = threading.Condition()     # guards the writer, and the two below
        self._running = 0
        self._stays = False

    def run(self) -> None:
        """Serve until the input ends."""
        for line in iter(self._reader.readline, b""):
            if line.strip():
                with self._changed:
                    self._running += 1
                start_thread(functools.partial(self._answer, line))
        with self._changed:
            self._changed.wait_for(lambda: not self._running, 1.0)

    def stop(self) -> None:
        """End, whatever is still to be answered."""

    def linger(self) -> None:
        """Stay for ever, if a fault says so."""
        with self._changed:
            while self._stays:
                self._changed.wait(LOOK_SECONDS)

    def _answer(self, line: bytes) -> None:
        try:
            reply = self._faulty.answer(MockRequest("stdio", "", {}, find_json(line)))
            with self._changed:
                for part in format_reply_lines(reply):
                    self._send(part)
        except (OSError, ValueError):
            pass                                  # the client has gone
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _send(self, part: Part) -> None:
        """Send one part. Holds the lock, but not while it waits."""
        if isinstance(part, bytes):
            self._writer.write(part)
            self._writer.flush()
        elif isinstance(part, StderrOutput):
            sys.stderr.buffer.write(part.data)
            sys.stderr.flush()
        elif isinstance(part, WaitForReply):
            self._changed.wait_for(lambda: self._faulty.is_answered(part.id), AWAIT_SECONDS)
        elif part is ConnectionAction.STAY:
            self._stays = True
        elif isinstance(part, ConnectionAction):
            os._exit(3)
        else:
            self._changed.wait(min(part, AWAIT_SECONDS))


# ---- record

class Recorder:
    """Writes exchanges to a transcript as they end, in the order in which they began.

    The file is whole after each of them; of `hidden` secrets nothing is in it. Raises UsageError
    where it cannot be written.
    """

    def __init__(self, path: str, hidden: Iterable[str] = ()):
        self._path = path
        self._redaction = Redactor(hidden)
        self._begun: List[float] = []             # when each exchange began
        self._blocks: List[str] = []              # its text
        self._ends: List[int] = []                # and where that ends in the file
        self._last = 0.0
        self._lock = threading.Lock()             # guards the four above, and the file
        write_file(path, "")

    def begin(self) -> float:
        """Return a moment, of time.monotonic(), that no other exchange has begun at."""
        with self._lock:
            self._last = max(time.monotonic(), math.nextafter(self._last, math.inf))
            return self._last

    def put(self, begun: float, exchange: Exchange) -> None:
        """Write an exchange that began at a moment, again if it is there already."""
        with self._lock:
            self._redaction.learn(exchange)
            text = format_exchange(exchange, self._redaction)
            index = bisect_left(self._begun, begun)
            if self._begun[index:index + 1] == [begun]:
                self._blocks[index] = text
            else:
                self._begun.insert(index, begun)
                self._blocks.insert(index, text)
            try:
                self._write_from(index)
            except OSError as error:              # the talk goes on, whatever becomes of the file
                log_line(f"mcpkit: {self._path} cannot be written: {error.strerror}")

    def note(self, exchange: Exchange) -> None:
        """Write an exchange that has just ended, as an observer sees it."""
        self.put(time.monotonic() - exchange.seconds, exchange)

    def _write_from(self, index: int) -> None:
        """Write the blocks from one on: nearly always it is the last, and the file grows."""
        index = min(index, len(self._ends))       # those before were perhaps not written either
        del self._ends[index:]
        with open(self._path, "r+b") as file:
            file.truncate(file.seek(self._ends[-1] if index else 0))
            for number, text in enumerate(self._blocks[index:], index):
                block = ("\n" if number else "") + format_block(number + 1, text) + "\n"
                file.write(block.encode("utf-8", "backslashreplace"))
                self._ends.append(file.tell())


class RecordService(ReplyService):
    """Stands between clients and the server at a URL, and has a Tape keep what they say.

    What comes is handed on as it comes, streams too. Raises TransportError when the address cannot
    be bound.
    """

    def __init__(self, upstream: str, recorder: Recorder, network: Network = Network(),
                 host: str = "127.0.0.1", port: int = 0):
        self._recorder = recorder
        self._pool = HTTPPool(network, math.inf)
        parts = urllib.parse.urlsplit(upstream)
        self.upstream = f"{parts.scheme}://{parts.netloc}"
        self._running = 0                         # guarded by _changed
        self._changed = threading.Condition()
        super().__init__(host, port, parts.path or "/")

    def serve(self, handler: ReplyHandler, head: Head, body: bytes) -> None:
        """Hand a request on, and its answer back."""
        headers = {"-".join(map(str.capitalize, name.split("-"))): value
                   for name, value in head.headers.items()
                   if name not in _REQUEST_FRAMING | HOP_HEADERS}
        target = head.target if head.target.startswith("/") else parse_target(head.target)
        asked = Exchange(head.method, self.upstream + target, headers, body, None, {}, b"", 0,
                         False, 0.0, None)
        begun = self._recorder.begin()
        relay = Relay(handler, self)
        with self._changed:
            self._running += 1
        try:
            waits = Timeouts(LISTEN_SECONDS, time.monotonic() + LISTEN_SECONDS)
            now = send_exchange(self._pool, asked, waits, relay.take)
            self._recorder.put(begun, now)
            relay.finish(now)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """Free the address, and have what is going on recorded as far as it is."""
        super().stop()
        with self._changed:
            self._changed.wait_for(lambda: not self._running, STOP_SECONDS)
        self._pool.close()


# Headers that are about one connection only. Spec: RFC 9110, 7.6.1.
HOP_HEADERS = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer",
                         "transfer-encoding", "upgrade", "expect", "proxy-authorization"})
# Headers in which a server names itself.
PLACE_HEADERS = ("location", "www-authenticate", "link")


class Relay:
    """Hands the answer to one request back to who asked, as it comes."""

    def __init__(self, handler: ReplyHandler, service: RecordService):
        self._handler, self._service = handler, service
        self._response: Any = None
        self._is_chunked = False
        self._held = b""                          # what is sent with the next piece, or the end

    def take(self, response: Any, data: bytes) -> bool:
        """Send the head of an answer, or a piece of its body; TransportError: nobody is there.

        A piece of what is no stream waits for the next one, so that the last of all can wait until
        the exchange is recorded.
        """
        if self._response is None:
            self._response = response
            self._held = self._build_head(response)
            response.waits = self
        elif data:
            self._held += b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data
        if self._is_chunked or len(self._held) > NOTED_BYTES:
            self._send_held()
        return False

    def finish(self, now: Exchange) -> None:
        """Send the end of an answer, or close the connection if it has none."""
        if self._response is None:
            reply = build_reply(502, f"mcpkit record: {now.error}", Connection="close")
            self._handler.send_parts(format_reply(reply, self._handler.date_time_string()))
            return
        self._held += b"0\r\n\r\n" if self._is_chunked and not now.error else b""
        self._handler.close_connection |= bool(now.error)
        with contextlib.suppress(TransportError):
            self._send_held()

    def _send_held(self) -> None:
        held, self._held = self._held, b""
        try:
            self._handler.connection.sendall(held)
        except OSError:
            raise TransportError(CLIENT_LEFT) from None

    def _build_head(self, response: Any) -> bytes:
        lines = [f"HTTP/1.1 {response.status} {response.reason or ''}".rstrip()]
        for name, value in response.fields:
            if name in PLACE_HEADERS:
                value = value.replace(self._service.upstream, self._service.origin)
            if name not in HOP_HEADERS | _FRAMING:
                lines.append(f"{name}: {value}")
        length = response.headers.get("content-length")
        if length is not None and response.headers.keys().isdisjoint(
                {"content-encoding", "transfer-encoding"}):
            lines.append(f"Content-Length: {length}")
        elif response.status not in BODILESS and not self._handler.omits_body:
            self._is_chunked = True
            lines.append("Transfer-Encoding: chunked")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def left(self) -> float:
        """Wait for more of the answer; TransportError when nobody waits for it with us."""
        sock = self._response.sock
        while not (getattr(sock, "pending", int)() or _is_ready(sock, "in", LOOK_SECONDS)):
            if self._service.stopped.is_set() or is_peer_gone(self._handler.connection):
                raise TransportError(CLIENT_LEFT)
        return LISTEN_SECONDS


class LineTape:
    """Puts the lines of a stdio conversation on a Recorder: an exchange for each line of the
    client, with the answer to it, and what the server says meanwhile.

    An exchange is written with its answer, and whatever else came when the next one begins.
    """

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._exchanges: Dict[float, Exchange] = {}
        self._asked: Dict[Any, float] = {}        # ids of requests that have no answer yet
        self._latest: Optional[float] = None
        self._lock = threading.RLock()            # guards the three above

    def hear_client(self, line: bytes) -> None:
        """Take in a line of the client."""
        with self._lock:
            value, begun = find_json(line), self._open(line.rstrip(b"\r\n"))
            if is_request(value):
                self._asked[value["id"]] = begun
            self._recorder.put(begun, self._exchanges[begun])

    def hear_server(self, line: bytes) -> None:
        """Take in a line of the server."""
        with self._lock:
            value = find_json(line)
            is_answer = isinstance(value, dict) and "method" not in value
            asked = self._asked.pop(find_request_id(value), None) if is_answer else None
            begun = self._latest if asked is None else asked
            begun = self._open(b"") if begun is None else begun
            was = self._exchanges[begun]
            more = (b"\n" if was.answer else b"") + line.rstrip(b"\r\n")
            self._exchanges[begun] = was._replace(
                answer=(was.answer + more)[:NOTED_BYTES], size=was.size + len(more))
            if asked is not None:
                self._recorder.put(begun, self._exchanges[begun])

    def close(self) -> None:
        """Write what is not recorded yet."""
        if self._latest is not None:
            self._recorder.put(self._latest, self._exchanges[self._latest])

    def _open(self, line: bytes) -> float:
        self.close()
        self._latest = self._recorder.begin()
        self._exchanges[self._latest] = Exchange("stdio", "", {}, line, None, {}, b"", 0, False,
                                                 0.0, None)
        return self._latest


def record_stdio(command: List[str], recorder: Recorder) -> int:
    """Run a stdio server on our own input and output, and return its exit code."""
    import subprocess
    lines = LineTape(recorder)
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise TransportError(f"cannot start {command[0]}: {error.strerror or error}") from None
    reader, writer = take_stdio()

    def hand_on() -> None:
        with contextlib.suppress(OSError, ValueError), child.stdin as pipe:
            for line in iter(reader.readline, b""):
                lines.hear_client(line)
                pipe.write(line)
                pipe.flush()

    start_thread(hand_on)
    try:
        with child.stdout as pipe:
            for line in iter(pipe.readline, b""):
                lines.hear_server(line)
                writer.write(line)
                writer.flush()
        return child.wait()
    except BrokenPipeError:                       # whoever listened has gone
        return 0
    finally:
        lines.close()
        end_child(child)


def end_child(child: Any) -> None:
    """End a child process: it is asked to, and then made to."""
    import subprocess
    for end in (child.terminate, child.kill):
        if child.poll() is None:
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2.0)


# ---- commands

def run_replay(options: Any) -> int:
    """Send the requests of a transcript to a server again, and show what is different."""
    exchanges = read_transcript(options.file)
    for number in options.only:
        if number > len(exchanges):
            raise UsageError(f"--only {number}: there are {len(exchanges)} exchanges in "
                             f"{options.file}")
    target = open_replay_target(options, exchanges)
    with contextlib.closing(target):
        replayer = Replayer(exchanges, target, options.only)
        replayed = replayer.run()
    answers = [one.now for one in replayed if one.now is not None]
    for exchange in answers if options.verbose else ():
        print_exchange(options.hidden, exchange)
    if options.transcript is not None:
        write_file(options.transcript, format_transcript(answers, options.hidden) + "\n")
    found = [(one, None if one.now is None else compare_answers(one.was, one.now, options.ignore))
             for one in replayed]
    if options.update:
        replayer.update(replayed)
        text = update_transcript(read_input("@" + options.file), exchanges, options.hidden)
        write_file(options.file + ".new", text)
        os.replace(options.file + ".new", options.file)
    print_replay(found, options)
    return 1 if any(differences for _, differences in found) else 0


def read_transcript(path: str) -> List[Exchange]:
    """Return the exchanges in a file; raises UsageError if it has none."""
    try:
        exchanges = parse_transcript(read_input("@" + path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if not exchanges:
        raise UsageError(f"{path} has no exchanges: each begins with ### and a title")
    return exchanges


def open_replay_target(options: Any, exchanges: List[Exchange]) -> Any:
    """Return the server of a command, as a Replayer wants it."""
    server = find_server(options)
    deadline = time.monotonic() + (options.max_time or LISTEN_SECONDS)
    if not isinstance(server.target, str):
        return StdioTarget(server.target, server.env, server.cwd, options.timeout, deadline)
    if not is_http_url(server.target):
        raise UsageError(f"not an http or https URL: {shorten(server.target)}")
    headers = {**server.headers, **find_headers(options)}
    return HTTPTarget(server.target, headers, parse_network(options), exchanges, options.timeout,
                      deadline)


def print_replay(found: List[Tuple[Replayed, Optional[List[Difference]]]], options: Any) -> None:
    """Print what is different, an exchange after the other."""
    counts = {"the same": 0, "different": 0, "not sent": 0}
    rows = []
    for (number, was, _), differences in found:
        outcome = "not sent" if differences is None else "different" if differences else "the same"
        counts[outcome] += 1
        title = was.title or find_title_of(was)
        rows.append({"number": number, "title": title, "outcome": outcome, "differences": [
            {"path": path, **{name: value for name, value in (("was", before), ("is", after))
                              if value is not ABSENT}}
            for path, before, after in differences or ()]})
        if not options.json:
            print_text(f"{number} \u00b7 {shorten(title)}: {outcome}")
            for difference in differences or ():
                print_text(hide_secrets(f"  {difference}", options.hidden))
    if options.json:
        print_json({"same": not counts["different"], "exchanges": rows})
        return
    print_text(f"{len(found)} exchange{'s' * (len(found) != 1)}: " + ", ".join(
        f"{count} {outcome}" for outcome, count in counts.items() if count))


def run_mock(options: Any) -> int:
    """Serve the answers of a transcript, or those of pong, with faults if they are wanted."""
    if options.list_faults:
        rows = [{"name": name, "where": fault.where, "meaning": fault.meaning}
                for name, fault in FAULTS.items()]
        if options.json:
            print_json(rows)
        for row in () if options.json else rows:
            print_text("{name:<25} {where:<6} {meaning}".format(**row))
        return 0
    names = [name for given in options.fault for name in given.split(",") if name]
    exchanges = [] if options.file is None else read_transcript(options.file)
    apply = functools.partial(build_spoiler, exchanges, names, options.fault_rate, options.seed,
                              lambda text: log_line(f"mcpkit: {text}"))
    with catch_stop_signals() as received:
        if options.stdio:
            service: Any = MockStdio(apply(is_stdio=True), *take_stdio())
        else:
            service = MockService(apply(), options.host, options.port, find_mock_path(exchanges))
            spoiled = f", spoiled by {', '.join(names)}" if names else ""
            print_out(f"{options.file or 'pong'} answers at {service.url}{spoiled} "
                      "(Ctrl-C ends it)")
            flush_out()
        run_until(service, lambda: received)
        if options.stdio:
            service.linger()
    return 0


def run_record(options: Any) -> int:
    """Stand between clients and a server, and write what they say to a transcript."""
    if (options.command is None) == (options.upstream is None):
        raise UsageError("record takes the URL of a server, or -- and the COMMAND of one")
    if options.command is not None:
        return record_stdio(options.command, Recorder(options.out))
    if not is_http_url(options.upstream):
        raise UsageError(f"not an http or https URL: {shorten(options.upstream)}")
    with catch_stop_signals() as received:
        service = RecordService(options.upstream, Recorder(options.out), parse_network(options),
                                options.host, options.port)
        print_out(f"{service.url} leads to {options.upstream}, recorded in {options.out} "
                  "(Ctrl-C ends it)")
        flush_out()
        run_until(service, lambda: received)
    return 0


__all__ += ["open_mock"]
OBSERVERS.append(lambda options: None if options.transcript is None else
                 Recorder(options.transcript, options.hidden).note)
SERVER.append(option("--transcript", metavar="FILE", help="write each request and its answer to "
                     "this file, without secrets"))
FILE = option("file", metavar="FILE", help="a transcript")
add_command(
    "record", run_record, ADDRESS[:2], NETWORK,
    option("upstream", nargs="?", metavar="URL", help="of the server; or leave it out and end the "
           "line with -- COMMAND ARG... for a stdio server"),
    option("--out", required=True, metavar="FILE", help="where to write it"),
    examples=("record http://127.0.0.1:8000/mcp --port 8001 --out pong.http",
              "record --out pong.http -- python3 server.py"))
add_command(
    "replay", run_replay, FILE, TARGET, SERVER, NETWORK,
    option("--ignore", action="append", default=[], metavar="PATH", help="a member that may "
           "differ: result.tools[*].title, or a name wherever it is (these always may: "
           f"{', '.join(VOLATILE_MEMBERS)})"),
    option("--only", action="append", default=[], type=parse_count, metavar="N",
           help="send this exchange only, and the handshake before it"),
    option("--update", action="store_true", help="put the answers that come now into FILE"),
    examples=("replay pong.http http://127.0.0.1:8000/mcp",
              "replay pong.http URL --ignore result.serverInfo --only 3",
              "replay pong.http --update -- python3 server.py"))
add_command(
    "mock", run_mock,
    option("file", nargs="?", metavar="FILE", help="a transcript (none: the answers of the pong "
           "server)"),
    ADDRESS,
    option("--fault", action="append", default=[], metavar="NAME[,NAME]",
           help="answer with these faults"),
    option("--fault-rate", type=parse_number("rate", float, 0, 1), metavar="R",
           help="one of them (none given: of all) at this rate: 0.1, one in ten"),
    option("--seed", type=int, metavar="N", help="of the chance at that rate"),
    option("--list-faults", action="store_true",
           help="print each fault, where it is, and what it does"),
    option("--json", action="store_true", help="the list as a JSON document"),
    examples=("mock pong.http", "mock pong.http --stdio", "mock --fault crlf,other-events",
              "mock pong.http --fault-rate 0.1 --seed 7", "mock --list-faults"))


if __name__ == "__main__":
    end_process(main())
