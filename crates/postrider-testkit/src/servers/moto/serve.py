"""Amazon's S3 and DynamoDB in one process, one request at a time: in threads, two writers of moto win over one version.

Arguments: the port, and a file. While the file is there, the port is closed.
"""

import os
import sys
import time

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    timeout = 5  # Nobody who says nothing keeps the others waiting.


port, away = int(sys.argv[1]), sys.argv[2]
application = DomainDispatcherApplication(create_backend_app)
while True:
    server = make_server("127.0.0.1", port, application, threaded=False, request_handler=Handler)
    server.timeout = 0.02
    while not os.path.exists(away):
        server.handle_request()
    server.server_close()
    while os.path.exists(away):
        time.sleep(0.02)
