#!/usr/bin/env python3
"""liar.py KIND - a server on a free port of 127.0.0.1 that is no Kafka broker; prints its port.

KIND is how it answers whatever it is sent:
    http      "400 Bad Request", as a web server does
    huge      a frame that says to be 2 GB long, then zeros for as long as they are taken
    negative  a frame of length -1
    garbage   bytes that mean nothing, in a frame of fitting length
    silent    not at all
    closing   by closing the connection
Runs until it is killed.
"""
import random
import socket
import struct
import sys
import threading

ANSWERS = {
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "huge": struct.pack(">i", 0x7FFFFFFF),
    "negative": struct.pack(">i", -1),
    "garbage": struct.pack(">i", 500) + random.Random(1).randbytes(500),
}


def serve(connection, kind):
    try:
        while connection.recv(65536):
            if kind == "closing":
                break
            connection.sendall(ANSWERS.get(kind, b""))
            while kind == "huge":
                connection.sendall(bytes(1 << 20))
            if kind == "http":
                break
    except OSError:
        pass  # the client had enough
    connection.close()


def main():
    kind = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, kind), daemon=True).start()


main()
