#!/usr/bin/env python3
"""many_names.py HOST:PORT TOPIC COUNT - one AlterReplicaLogDirs request that names a topic COUNT times.

Each time with another partition. Prints how many bytes the answer has.
"""
import socket
import struct
import sys

ALTER_REPLICA_LOG_DIRS, VERSION = 34, 1


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


def main(address, topic, count):
    host, port = address.rsplit(":", 1)
    body = struct.pack(">i", 1) + string("/nowhere") + struct.pack(">i", count)
    body += b"".join(string(topic) + struct.pack(">ii", 1, i) for i in range(count))
    request = struct.pack(">hhih", ALTER_REPLICA_LOG_DIRS, VERSION, 1, -1) + body
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
            got = connection.recv(1 << 16)
            if not got:
                sys.exit("the broker hung up")
            answer += got
    print(len(answer))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
