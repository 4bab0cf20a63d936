"""A client that waits for a task of samples/bakery.py: bakery_client.py URL."""
import sys
import time
from mcpkit import Client

CAN = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
with Client(sys.argv[1], capabilities=CAN) as client:
    task = client.call_tool("bake", {"cakes": 3})
    print(task["resultType"])
    while task["status"] not in ("completed", "failed", "cancelled"):
        time.sleep(task["pollIntervalMs"] / 1000)
        task = client.request("tasks/get", {"taskId": task["taskId"]})
        for key, question in task.get("inputRequests", {}).items():
            print(task["statusMessage"] + ",", question["params"]["message"])
            client.request("tasks/update", {"taskId": task["taskId"], "inputResponses": {
                key: {"action": "accept", "content": {"color": "pink"}}}})
    print(task["result"]["content"][0]["text"])
