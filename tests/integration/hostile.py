"""What the tests of hostile peers and of many peers share: a bystander that must be served meanwhile, tf-hostile, and what a
relay has: descriptors, memory."""
import os
import re
import resource
import ssl
import subprocess
import time

import lib

LOG_LINES_MAX = 20  # fewer than that, whatever a stranger does
LOG_BUCKETS, LOG_BURST, LOG_SUMMARY = 1024, 5, 30  # node/log.h: peers that have lines of their own, lines, seconds


class Traffic:
    """A subscriber and a publisher that are at work while the relay is attacked."""

    def __init__(self, world, relay, uri=None):
        self.sub = world.sub(uri or relay.uri, "live", "--verify", "--from", "first")
        self.pub = world.pub(uri or relay.uri, "live", stdin=subprocess.PIPE)
        self.sent = []

    def send(self, count=1, size=0):
        """Sends lines (of at least so many bytes) and waits until they were delivered: the service goes on."""
        new = [(b"live %d" % (len(self.sent) + each)).ljust(size, b".") for each in range(count)]
        self.sent += new
        self.pub.process.stdin.write(b"\n".join(new) + b"\n")
        self.pub.process.stdin.flush()
        self.sub.out.wait_lines(len(self.sent))

    def ends_well(self):
        self.send()
        self.pub.process.stdin.close()
        self.pub.succeeds()
        lib.same_lines(bytes(self.sub.out.data), self.sent, "the subscriber")
        self.sub.signal(lib.signal.SIGTERM)
        _, err = self.sub.ends(lib.INTERRUPTED)
        assert err == "", err


def client_hello():
    """The bytes that a TLS client of ours would send first."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["twofold/1"])
    handshake = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Hostile(lib.Program):
    """tf-hostile (tests/harness), whose peers have their keys and wait for go()."""

    def __init__(self, world, mode, uri, *options, build=None):
        program = os.path.join(build or os.environ["TF_BUILD"], "tests", "harness", "tf-hostile")
        super().__init__([program, mode, uri, *options], stdin=subprocess.PIPE, env=world.env)
        world.programs.append(self)
        if mode != "clients":
            self.out.wait_for("ready\n")

    def say(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    go = say

    def wait_served(self, count=1):
        """Until all its peers have been served, so many times."""
        self.out.wait_for("served peers=", count)

    def was_served(self):
        return b"served peers=" in self.out.data

    def counts(self):
        """All that it has counted until now."""
        lines = self.out.text().count("\ncounts ")
        self.say()
        self.out.wait_for("\ncounts ", lines + 1)
        self.out.wait(lambda: self.out.data.endswith(b"\n"), "a whole line")
        return last_counts(self)

    def wait_counts(self, condition, what):
        """Until what it counts is as it should be; the counts."""
        end = time.monotonic() + lib.HANG
        while not condition(counts := self.counts()):
            assert time.monotonic() < end, f"{what}: {counts}"
            time.sleep(0.05)  # nobody tells
        return counts

    def leaves(self):
        """All its peers close their connections."""
        self.process.stdin.close()
        assert self.wait() == lib.OK, self.err.tail()


def last_counts(hostile):
    line = [line for line in hostile.out.text().splitlines() if line.startswith("counts ")][-1]
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}


def sockets(program):
    """How many descriptors of a process are sockets."""
    count, folder = 0, f"/proc/{program.process.pid}/fd"
    for name in os.listdir(folder):
        try:
            count += os.readlink(os.path.join(folder, name)).startswith("socket:")
        except FileNotFoundError:
            pass  # it was closed in between
    return count


def memory(program):
    """RSS in KiB."""
    with open(f"/proc/{program.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.M).group(1))


def need_descriptors(count):
    """Allows this process, and those that it starts, so many; skips where that is not granted."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < count:
        raise lib.Skip(f"a process may have {most} descriptors here; this takes {count} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
