#!/usr/bin/env python3
"""bad_proxy.py KIND FROM TO - a way to a broker on which fetched records are damaged.

Takes connections at the address FROM (host:port) and passes them on to the broker at TO. Of every
Fetch answer that has records, as the last thing in it,
    cut   the last 10 bytes of the records are missing
    flip  one bit of their last byte is wrong
The frame's and the records' lengths are right for what is sent. Prints `ready` when it listens.
"""
import socket
import struct
import sys
import threading

FETCH, TAGS = 1, 3  # behind the records: no tags of partition, topic and answer, a byte each


def frames(connection):
    """Whole frames, without their lengths."""
    data = b""
    while True:
        got = connection.recv(1 << 16)
        if not got:
            return
        data += got
        while len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
            size = struct.unpack_from(">i", data)[0]
            yield data[4:4 + size]
            data = data[4 + size:]


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def damaged(frame, kind):
    """The records are found from behind: a length that says just what follows it, then a batch."""
    end = len(frame) - TAGS
    for start in range(8, end - 61):
        count = end - start
        length = varint(count + 1)  # compact: one more
        if frame[start - len(length):start] == length and frame[start + 16] == 2:
            records = frame[start:end]
            records = records[:-10] if kind == "cut" else records[:-1] + bytes([records[-1] ^ 1])
            return frame[:start - len(length)] + varint(len(records) + 1) + records + frame[end:]
    return frame


def pump(source, target, change):
    try:
        for frame in frames(source):
            frame = change(frame)
            target.sendall(struct.pack(">i", len(frame)) + frame)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client, to, kind):
    broker = socket.create_connection(to)
    fetches = set()

    def remember(frame):
        api, _, correlation = struct.unpack_from(">hhi", frame)
        if api == FETCH:
            fetches.add(correlation)
        return frame

    def change(frame):
        return damaged(frame, kind) if struct.unpack_from(">i", frame)[0] in fetches else frame

    threading.Thread(target=pump, args=(client, broker, remember), daemon=True).start()
    pump(broker, client, change)


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    kind, at, to = sys.argv[1], address(sys.argv[2]), address(sys.argv[3])
    listener = socket.create_server(at)
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, to, kind), daemon=True).start()


main()
