"""The same messages by one TCP connection, or by Linux MPTCP over both paths: for comparison with twofold. Writes the
latency file of tf-load. Run by routes_run.py:

    routes_peers.py recv tcp|mptcp ADDRESS COUNT SIZE FILE        (prints "ready")
    routes_peers.py send tcp|mptcp ADDRESS COUNT SIZE RATE
"""
import socket
import struct
import sys
import time

PORT = 7421
BUFFER = 8 << 20
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
IPPROTO_MPTCP = 262
STAMP = struct.Struct("=QQQ")


def make(kind):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if kind == "mptcp" else 0)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    return sock


def receive(kind, address, count, size, file):
    listener = make(kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, PORT))
    listener.listen(1)
    print("ready", flush=True)
    sock, _ = listener.accept()
    rest, lines = b"", []
    while len(lines) < count:
        part = sock.recv(1 << 16)
        now = time.monotonic_ns()
        if not part:
            break
        rest += part
        at = 0
        while at + size <= len(rest):
            seq, sent, due = STAMP.unpack_from(rest, at)
            lines.append(f"{seq} {sent} {now} {due}\n")
            at += size
        rest = rest[at:]
    with open(file, "w", encoding="ascii") as out:
        out.writelines(lines)


def send(kind, address, count, size, rate):
    sock = make(kind)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.connect((address, PORT))
    time.sleep(0.5)  # further subflows of MPTCP are made
    begin = time.monotonic_ns()
    pad = b"." * (size - STAMP.size)
    for seq in range(count):
        due = begin + seq * 1_000_000_000 // rate
        wait = due - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        sock.sendall(STAMP.pack(seq, time.monotonic_ns(), due) + pad)
    sock.shutdown(socket.SHUT_WR)
    sock.recv(1)


def main():
    role, kind, address, count, size, last = sys.argv[1:]
    if role == "recv":
        receive(kind, address, int(count), int(size), last)
    else:
        send(kind, address, int(count), int(size), int(last))


if __name__ == "__main__":
    main()
