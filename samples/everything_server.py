"""Every feature of a server, each once: the tour, and what the official conformance suite tests.

    python mcpkit.py serve samples/everything_server.py

Names and texts are those that the suite asks for (`make conformance`).
"""
import base64
import time
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from mcpkit import (
    Context, Elicitation, MCPError, Roots, Sampling, Server, ToolError, ToolResult,
)

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


def form(**types: str) -> dict:
    """Return the schema of a form whose fields, all required, have these JSON types."""
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()},
            "required": list(types)}


def read_text(message: dict) -> str:
    """Return the text of what a client's model said, in one content block or in several."""
    content = message["content"]
    blocks = content if isinstance(content, list) else [content]
    return " ".join(block.get("text", block["type"]) for block in blocks)


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


@server.tool
def test_reconnection(ctx: Context):
    """Close the stream in the middle: a legacy client comes back for the answer."""
    ctx.close_stream()
    time.sleep(0.1)
    return "Welcome back."


# ---- asking the client: the same code waits (legacy) or is run again with the answers (modern)

@dataclass
class Person:
    """A form with a default for each kind of field."""

    name: Annotated[str, "How you are called."] = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class User(TypedDict):
    """A form whose fields are all required."""

    username: Annotated[str, "User's response"]
    email: Annotated[str, "User's email address"]


OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": "value1", "title": "First Option"},
          {"const": "value2", "title": "Second Option"}]
CHOICES = {"type": "object", "properties": {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"],
                   "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}}}}


@server.tool
def test_elicitation(message: str, ctx: Context):
    """Ask the user to fill in a form."""
    answer = ctx.elicit(message, User)
    return f"User response: action={answer.action}, content={answer.content}"


@server.tool
def test_elicitation_sep1034_defaults(ctx: Context):
    """Ask with defaults."""
    answer = ctx.elicit("Please check your profile", Person)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@server.tool
def test_elicitation_sep1330_enums(ctx: Context):
    """Ask to choose, in all the ways there are."""
    answer = ctx.elicit("Please choose", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@server.tool
def test_elicitation_url(ctx: Context):
    """Ask the user to visit a page, for what the client is not to see."""
    answer = ctx.elicit("Please sign in", url="https://example.com/sign-in")
    return f"Visit: {answer.action}"


@server.tool(name="test_streaming_elicitation")
@server.tool
def test_input_required_result_elicitation(ctx: Context):
    """Ask for a name."""
    answer = ctx.elicit("What is your name?", form(name="string"), key="user_name")
    return f"Hello, {answer.content['name']}!" if answer.action == "accept" else "Hello!"


@server.tool
def test_sampling(prompt: str, ctx: Context):
    """Ask the client's model."""
    return f"LLM response: {read_text(ctx.sample(prompt, max_tokens=100))}"


@server.tool
def test_input_required_result_sampling(ctx: Context):
    """Ask the client's model for a capital."""
    reply = ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question",
                       system_prompt="You are a geographer.")
    return f"The model says: {read_text(reply)}"


@server.tool
def test_missing_capability(ctx: Context):
    """Ask the model of a client that may have none: then the call is refused."""
    return f"The model says: {read_text(ctx.sample('Are you there?', max_tokens=10))}"


@server.tool
def test_input_required_result_list_roots(ctx: Context):
    """Ask which folders the client works in."""
    roots = ctx.roots(key="client_roots")
    return "Roots: " + ", ".join(root["uri"] for root in roots)


@server.tool(name="test_input_required_result_tampered_state")
@server.tool
def test_input_required_result_request_state(ctx: Context):
    """Ask to confirm; what the client carries between the rounds is signed."""
    answer = ctx.elicit("Please confirm", form(ok="boolean"), key="confirm")
    return f"state-ok: {answer.action}"


@server.tool
def test_input_required_result_multi_round(ctx: Context):
    """Ask twice, the second time with the first answer in hand."""
    first = ctx.elicit("Step 1: What is your name?", form(name="string"), key="step1")
    name = first.content["name"] if first.action == "accept" else "stranger"
    second = ctx.elicit(f"Step 2: What is your favorite color, {name}?", form(color="string"),
                        key="step2")
    color = second.content["color"] if second.action == "accept" else "none"
    return f"{name} likes {color}."


@server.tool
def test_input_required_result_multiple_inputs(ctx: Context):
    """Ask several things at once."""
    answers = ctx.ask({"user_name": Elicitation("What is your name?", form(name="string")),
                       "greeting": Sampling("Generate a greeting", max_tokens=50),
                       "client_roots": Roots()})
    return f"Answered: {', '.join(answers)}"


@server.tool
def test_input_required_result_capabilities(ctx: Context):
    """Ask only what this client can answer."""
    questions = {"elicitation": Elicitation("What is your name?", form(name="string")),
                 "sampling": Sampling("Generate a greeting", max_tokens=50),
                 "roots": Roots()}
    answers = ctx.ask({capability: question for capability, question in questions.items()
                       if capability in ctx.client_capabilities})
    return f"Answered: {', '.join(answers)}"


# ---- tasks: the client is answered at once, and fetches the result later

@server.tool
def greet(name: str):
    """Greet, which takes no time and so is never a task."""
    return f"Hello, {name}!"


@server.tool(task="optional")
def slow_compute(ctx: Context, seconds: float = 1.0, label: str = ""):
    """Take time, as a task where the client knows tasks."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.02)
    return f"{label or 'Something'} took {seconds} s."


@server.tool(task="required")
def failing_job():
    """Fail as a tool does: the task completes, with a result that says so."""
    raise ToolError("This job always fails.")


@server.tool(task="required")
def protocol_error_job():
    """Fail as a method does: the task has failed."""
    raise MCPError(-32603, "This job ends in a protocol error.")


@server.tool(task="optional", asks="within")
def confirm_delete(filename: str, ctx: Context):
    """Ask while it runs as a task, which waits for the answer."""
    answer = ctx.elicit(f"Delete {filename}?", form(confirm="boolean"))
    agreed = answer.action == "accept" and answer.content["confirm"]
    return f"{filename} is {'deleted' if agreed else 'kept'}."


@server.tool(task="optional", asks="within")
def multi_input(ctx: Context):
    """Ask two things at once while it runs as a task; each may be answered in its time."""
    answers = ctx.ask({"name": Elicitation("What is your name?", form(name="string")),
                       "confirm": Elicitation("Are you sure?", form(confirm="boolean"))})
    return f"Answered: {', '.join(answers)}"


@server.tool(task="required", asks="before")
def test_tool_with_task(ctx: Context):
    """Ask first, and become a task with the answer."""
    answer = ctx.elicit("What is your name?", form(name="string"), key="user_name")
    return f"Done for {answer.content['name'] if answer.action == 'accept' else 'nobody'}."


# ---- changes while the server runs: whoever listens is told

changes = []                    # one for each change of test://watched-resource


@server.tool
def test_trigger_tool_change():
    """Offer another tool, or withdraw it."""
    if "extra_tool" in server.tools:
        server.remove_tool("extra_tool")
    else:
        server.add_tool(test_simple_text, name="extra_tool")
    return "The list of tools has changed."


@server.tool
def test_trigger_prompt_change():
    """Offer another prompt, or withdraw it."""
    if "extra_prompt" in server.prompts:
        server.remove_prompt("extra_prompt")
    else:
        server.add_prompt(test_simple_prompt, name="extra_prompt")
    return "The list of prompts has changed."


@server.tool
def test_trigger_resource_update():
    """Change a resource."""
    changes.append(time.time())
    server.resource_updated("test://watched-resource")
    return "The resource has changed."


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
    """Say how often `test_trigger_resource_update` has been called."""
    return f"changed {len(changes)} times"


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


@server.prompt
def test_input_required_result_prompt(ctx: Context):
    """Ask the user before the model is asked."""
    answer = ctx.elicit("What context should the prompt use?", form(context="string"),
                        key="user_context")
    return f"Use this context: {answer.content['context']}" if answer.content else "Use no context."
