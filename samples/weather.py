"""A server whose tools come and go, and whose resource changes."""
from mcpkit import Server

server = Server("weather", version="1.0.0")
sky = {"now": "clear"}


@server.resource("weather://now")
def now():
    """The weather."""
    return sky["now"]


@server.tool
def change(to: str) -> str:
    """Change the weather, and offer an umbrella when it rains."""
    sky["now"] = to
    server.resource_updated("weather://now")
    if to == "rain" and "umbrella" not in server.tools:
        server.add_tool(lambda: "opened", name="umbrella")
    elif to != "rain" and "umbrella" in server.tools:
        server.remove_tool("umbrella")
    return to
