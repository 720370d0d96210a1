"""Creates a JetStream stream, or shows what is in one, with nothing but Python: for machines without the nats tool.

    python3 examples/from-python/jetstream.py "$NATS_URL" create orders 'orders.>'
    python3 examples/from-python/jetstream.py "$NATS_URL" read orders [KEY]

It speaks the text protocol of NATS to a server without TLS and login: enough to look at, not for production.
"""

import base64
import json
import socket
import sys
from urllib.parse import urlparse


class Connection:
    def __init__(self, url):
        place = urlparse(url)
        self.socket = socket.create_connection((place.hostname, place.port or 4222), timeout=10)
        self.lines = self.socket.makefile("rb")
        self.socket.sendall(b'CONNECT {"verbose":false}\r\nSUB reply.here 1\r\n')

    def ask(self, subject, question):
        """Sends a request to the server's API and waits for its answer."""
        body = json.dumps(question).encode()
        self.socket.sendall(b"PUB %s reply.here %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while True:
            line = self.lines.readline()
            if line.startswith(b"MSG "):
                answer = json.loads(self.lines.read(int(line.split()[-1]) + 2))
                if "error" in answer:
                    sys.exit(answer["error"]["description"])
                return answer
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            if not line or line.startswith(b"-ERR"):
                sys.exit(f"the server ended the connection: {line.decode()}")


def create(server, name, subjects):
    server.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subjects], "storage": "file"})
    print(f"stream {name} stores {subjects}")


def read(server, name, key=None):
    state = server.ask(f"$JS.API.STREAM.INFO.{name}", {})["state"]
    for number in range(max(1, state["first_seq"]), state["last_seq"] + 1):
        message = server.ask(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": number})["message"]
        lines = base64.b64decode(message["hdrs"]).decode().splitlines()[1:]
        headers = {header: value for header, _, value in (line.partition(": ") for line in lines if line)}
        if key in (None, headers.get("postrider-key")):
            wanted = ["postrider-key", "correlation-id", "Content-Type", "Nats-Msg-Id"]
            shown = [f"{header}={headers.get(header)}" for header in wanted]
            print(message["subject"], *shown, base64.b64decode(message.get("data", "")).decode())


commands = {"create": create, "read": read}
commands[sys.argv[2]](Connection(sys.argv[1]), *sys.argv[3:])
