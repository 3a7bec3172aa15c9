"""One who stands beside a path: sees the datagrams that leave by a device, sends copies of them from an address of its own
by a faster path, and passes what comes back to that address on to whom it was meant for, under the true sender's address.
So whoever asks "are you there?" at its address gets an answer. It has no keys. Run by test_field_moves.py in the
namespace of the client; ends with its stdin and prints how many datagrams it copied and how many answers it passed on.

    field_attacker.py SEEN-DEVICE OWN-DEVICE OWN-ADDRESS VICTIM-ADDRESS VICTIM-PORT
"""
import select
import socket
import struct
import sys

ETH_P_IP = 0x0800
PACKET_OUTGOING = 4


def parse(packet):
    """(source port, destination, destination port, payload) of a datagram, or None."""
    header = 4 * (packet[0] & 15)
    if packet[9] != socket.IPPROTO_UDP or len(packet) < header + 8:
        return None
    source, destination = struct.unpack_from("!HH", packet, header)
    return source, socket.inet_ntoa(packet[16:20]), destination, packet[header + 8:]


def datagram(source, destination, payload):
    """An IP packet with UDP in it, without a UDP checksum; the kernel adds that of the header."""
    udp = struct.pack("!HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0,
                     socket.inet_aton(source[0]), socket.inet_aton(destination[0]))
    return ip + udp


def main():
    seen_device, own_device, own, victim, port = sys.argv[1:5] + [int(sys.argv[5])]
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))  # ETH_P_ALL: also what goes out
    seen.bind((seen_device, 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, own_device.encode())
    sender.bind((own, 0))
    forger = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    client, copied, passed = None, 0, 0
    print("ready", flush=True)
    while True:
        ready = select.select([seen, sender, sys.stdin], [], [])[0]
        if seen in ready:
            packet, address = seen.recvfrom(65535)
            got = parse(packet) if address[1] == ETH_P_IP and address[2] == PACKET_OUTGOING else None
            if got and got[1:3] == (victim, port):
                client = (socket.inet_ntoa(packet[12:16]), got[0])
                sender.sendto(got[3], (victim, port))
                copied += 1
        if sender in ready:
            payload = sender.recv(65535)
            if client:
                forger.sendto(datagram((victim, port), client, payload), (client[0], 0))
                passed += 1
        if sys.stdin in ready and not sys.stdin.readline():
            print(f"{copied} {passed}")
            return


main()
