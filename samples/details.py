"""Icons, pages, headers from arguments, cancellation, templates and completion."""
from typing import Annotated, Literal
from mcpkit import Context, Server

server = Server("details", version="1.0.0", sessions=True, page_size=2, ttl_ms=60_000,
                instructions="Ask forecast for one region at a time.",
                icons=[{"src": "https://example.com/sun.png", "mimeType": "image/png"}])


@server.tool(title="Forecast", annotations={"readOnlyHint": True})
def forecast(region: Annotated[str, {"x-mcp-header": "Region"}],
             day: Literal["today", "tomorrow"] = "today") -> str:
    """Tell the weather; proxies may route by the region."""
    return f"{day} the {region} is sunny"


@server.tool
def patience(ctx: Context) -> str:
    """Hang up while working; a legacy client comes back for the answer."""
    ctx.progress(1, 2, "hanging up")
    ctx.close_stream(retry_seconds=0.1)
    ctx.progress(2, 2, "done")
    return "worth the wait"


@server.tool
def until_cancelled(ctx: Context) -> str:
    """Work until nobody wants it any more."""
    while not ctx.cancelled:
        pass
    return "stopped"


@server.resource("details://{city}/{+path}", ttl_ms=5_000, mime_type="application/json")
def page(city: str, path: str) -> dict:
    """A page about a city; {+path} may have slashes."""
    return {"city": city, "path": path.split("/")}


@server.prompt
def postcard(city: str, tone: Literal["warm", "funny"] = "warm") -> str:
    """Write a postcard."""
    return f"Write a {tone} postcard from {city}."


@server.completion("postcard", "city")
def suggest_city(value: str) -> list:
    return [city for city in ("Rome", "Riga", "Oslo") if city.startswith(value)]
