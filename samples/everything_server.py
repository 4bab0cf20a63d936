"""Every feature of a server, each once: the tour, and what the official conformance suite tests.

    python mcpkit.py serve samples/everything_server.py

Names and texts are those that the suite asks for (`make conformance`).
"""
import base64
import time
from typing import Annotated, Literal, TypedDict

from mcpkit import Context, Server, ToolError, ToolResult

PNG_DATA = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElF"
            "TkSuQmCC")
PNG = base64.b64decode(PNG_DATA)                                                # one red dot
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")    # silence

server = Server("everything", version="1.0.0", title="Everything", sessions=True, ttl_ms=1000,
                icons=[{"src": f"data:image/png;base64,{PNG_DATA}", "mimeType": "image/png"}],
                instructions="Shows each feature of a server; none of its tools does any harm.")


def embed(uri: str, text: str, mime_type: str = "text/plain") -> dict:
    """Return a content block that carries a resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


# ---- what a tool returns

@server.tool(title="Simple Text", annotations={"readOnlyHint": True})
def test_simple_text():
    """Return text."""
    return "This is a simple text response for testing."


@server.tool(mime_type="image/png")
def test_image_content():
    """Return a picture."""
    return PNG


@server.tool(mime_type="audio/wav")
def test_audio_content():
    """Return a sound."""
    return WAV


@server.tool
def test_embedded_resource():
    """Return a resource as it is, without a detour over its URI."""
    return embed("test://embedded-resource", "This is an embedded resource content.")


@server.tool(mime_type="image/png")
def test_multiple_content_types():
    """Return content of several kinds."""
    return ["Multiple content types test:", PNG,
            embed("test://mixed-content-resource", '{"test":"data","value":123}',
                  "application/json")]


class Sum(TypedDict):
    """What `test_structured_content` returns, and its output schema."""

    total: Annotated[float, "All numbers together."]
    count: int


@server.tool
def test_structured_content(numbers: list[float]) -> Sum:
    """Return data, which is held against its schema, and the same as text."""
    return {"total": sum(numbers), "count": len(numbers)}


@server.tool
def test_whole_result():
    """Return a result word for word, with everything that a result may have."""
    return ToolResult(content=[{"type": "text", "text": "Here is the link.",
                                "annotations": {"audience": ["user"], "priority": 0.9}},
                               {"type": "resource_link", "uri": "test://static-text",
                                "name": "static_text"}],
                      _meta={"example.com/took": 0.01})


@server.tool
def test_error_handling():
    """Fail in a way that the model is told of."""
    raise ToolError("This tool intentionally returns an error for testing")


# ---- what a tool takes

@server.tool
def test_x_mcp_header(region: Annotated[str, "Where to look.", {"x-mcp-header": "Region"}],
                      limit: Annotated[int, {"minimum": 1}] = 10,
                      order: Literal["newest", "oldest"] = "newest"):
    """Take an argument that proxies can route by: clients repeat it in a header."""
    return f"The {limit} {order} of {region}."


@server.tool(input_schema={
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {
        "$anchor": "addressDef",
        "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False})
def json_schema_2020_12_tool(**contact):
    """Take what a schema written by hand allows."""
    return f"Contact: {', '.join(f'{name}={value}' for name, value in contact.items())}"


# ---- what a tool says while it runs

@server.tool
def test_tool_with_progress(ctx: Context):
    """Say how far it is, to a client that asked for it."""
    for percent in (0, 50, 100):
        ctx.progress(percent, 100, f"{percent} % done")
        time.sleep(0.05)
    return "Done."


@server.tool
def test_tool_with_logging(ctx: Context):
    """Log what it does."""
    for step in ("started", "processing data", "completed"):
        ctx.log("info", f"Tool execution {step}")
        time.sleep(0.05)
    return "Done, and logged."


@server.tool
def test_logging_tool(ctx: Context):
    """Log at several levels; the client says which it wants to hear."""
    for level in ("debug", "info", "warning"):
        ctx.log(level, {"a": level}, logger="everything")
    return "Logged."


# ---- resources

@server.resource("test://static-text")
def static_text():
    """Return text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary():
    """Return bytes."""
    return PNG


@server.resource("test://watched-resource")
def watched_resource():
    """Say when it was read."""
    return f"read at {time.ctime()}"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str):
    """Return the data of an id, one of many resources of the same kind."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# ---- prompts and suggestions for their arguments

@server.prompt
def test_simple_prompt():
    """Say something simple."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: Annotated[str, "First test argument"],
                               arg2: Annotated[str, "Second test argument"]):
    """Say something with arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
def suggest_arg1(value: str):
    """Suggest what the user may want to type."""
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: Annotated[str, "The resource to embed"]):
    """Show a resource to the model."""
    return [embed(resourceUri, "Embedded resource content for testing."),
            "Please process the embedded resource above."]


@server.prompt
def test_prompt_with_image():
    """Show a picture to the model."""
    return [{"type": "image", "data": PNG_DATA, "mimeType": "image/png"},
            "Please analyze the image above."]
