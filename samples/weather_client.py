"""A client that listens to the changes of samples/weather.py: weather_client.py URL."""
import sys
import threading
from mcpkit import Client

with Client(sys.argv[1]) as client:
    changes = client.listen(tools=True, uris=["weather://now"])
    change = threading.Timer(0.5, client.call_tool, ["change", {"to": "rain"}])
    change.start()
    for _ in range(2):
        method, params = next(changes)
        print(method, params.get("uri"))
    print([tool["name"] for tool in client.list_tools()])
    print(client.read_resource("weather://now")["contents"][0]["text"])
    change.join()
