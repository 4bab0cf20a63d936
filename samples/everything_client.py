"""A client for whatever there is: the tour of a server, and what the conformance suite tests.

    python samples/everything_client.py URL

It lists and uses all that the server at the URL offers, answers whatever that asks, and logs in
where it has to. The official suite (`make conformance`) says in the environment which scenario it
plays, what it wants to be called, and who it takes us for.
"""
import atexit
import json
import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))      # where mcpkit.py is

from mcpkit import Client, MCPError, MCPKitError, OAuth, TokenExchange, send_once

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))

EXAMPLES = {"string": "example", "number": 1.5, "integer": 1, "boolean": True, "array": [],
            "object": {}}


def build_example(schema: dict) -> dict:
    """Return an object with what the schema of an object requires, and nothing else."""
    members = schema.get("properties", {})
    return {name: EXAMPLES.get(members.get(name, {}).get("type"), "example")
            for name in schema.get("required", ())}


def list_calls(tools: list) -> list:
    """Return (name, arguments) of each call: those of the suite, else one for each tool."""
    if "toolCalls" in CONTEXT:
        return [(call["name"], call["arguments"]) for call in CONTEXT["toolCalls"]]
    own = {"json_schema_echo": {"schema": tools[0]["inputSchema"]}} if tools else {}
    return [(tool["name"], own.get(tool["name"]) or build_example(tool["inputSchema"]))
            for tool in tools]


def tour(client: Client) -> None:
    """List and use what the server offers."""
    if "tools" in client.capabilities:
        for name, arguments in list_calls(client.list_tools()):
            show(name, client.call_tool, name, arguments)
    if "resources" in client.capabilities:
        for resource in client.list_resources():
            show(resource["uri"], client.read_resource, resource["uri"])
    if "prompts" in client.capabilities:
        for prompt in client.list_prompts():
            show(prompt["name"], client.get_prompt, prompt["name"], {
                argument["name"]: "example" for argument in prompt.get("arguments", ())})


def show(what: str, use, *arguments) -> None:
    """Print what comes of using something, also where the server answers with an error."""
    try:
        print(what, json.dumps(use(*arguments)))
    except MCPError as error:
        print(what, error)


# ---- who we are to an authorization server

def follow_login(url: str) -> str:
    """Be the browser of a person whom the authorization server knows and trusts already."""
    _, headers, _ = send_once("GET", url, None, {}, 10.0)
    return headers.get("location", "")


def write_key(pem: str) -> str:
    """Return the path of a file with a private key, which only we can read, as long as we run."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem", delete=False) as file:
        file.write(pem)
    atexit.register(os.remove, file.name)
    return file.name


# What an OAuth is given in the scenarios that want something else than a login.
WAYS = {
    "auth/client-credentials-basic": lambda: {"grant": "client_credentials"},
    "auth/client-credentials-jwt": lambda: {
        "grant": "client_credentials", "key_file": write_key(CONTEXT["private_key_pem"])},
    "auth/wif-jwt-bearer": lambda: {"grant": "jwt_bearer", "assertion": CONTEXT["valid_jwt"]},
    "auth/enterprise-managed-authorization": lambda: {
        "grant": "jwt_bearer", "assertion": TokenExchange(
            CONTEXT["idp_token_endpoint"], CONTEXT["idp_id_token"], CONTEXT["idp_client_id"])},
    "auth/dpop": lambda: {"dpop": True},
    "auth/dpop-nonce": lambda: {"dpop": True},
}


def build_auth() -> OAuth:
    """Return what gets tokens in the way that the scenario wants."""
    return OAuth(client_id=CONTEXT.get("client_id"), client_secret=CONTEXT.get("client_secret"),
                 client_metadata_url="https://conformance-test.local/client-metadata.json",
                 authorize=follow_login, **WAYS.get(SCENARIO, dict)())


def main(url: str) -> int:
    """Take the tour; return the exit code."""
    try:
        with Client(url, auth=build_auth(),
                    on_elicit=lambda params: build_example(params.get("requestedSchema", {})),
                    on_sample=lambda params: "an example",
                    on_roots=lambda: [pathlib.Path.cwd().as_uri()]) as client:
            tour(client)
    except MCPKitError as error:
        print(f"everything_client: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
