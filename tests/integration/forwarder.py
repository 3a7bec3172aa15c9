"""Starts tf-forwarder and gives it commands; for tests that put it between a client and a relay.

    with Forwarder("127.0.0.1:7420", "--udp-drop", "5") as forwarder:
        ... "127.0.0.1:%d" % forwarder.port ...
        forwarder.command("stream stall")
        forwarder.stats()["datagram_up_dropped"]
"""
import os
import subprocess

BINARY = os.environ.get("TF_FORWARDER")


class Forwarder:
    """One tf-forwarder. It ends with the `with` block, and at the latest with this process (the end of its stdin)."""

    def __init__(self, to, *options, listen="127.0.0.1:0"):
        command = [BINARY, "--listen", listen, "--to", to, "--print-port", "--stdin", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            raise RuntimeError(f"tf-forwarder did not start: {command}, status {self.process.wait()}")
        self.port = int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, line):
        """The answer to one command."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def command(self, line):
        answer = self.ask(line)
        if answer != "ok":
            raise RuntimeError(f"tf-forwarder: {line}: {answer or 'it has ended'}")

    def stats(self):
        return {key: int(value) for key, value in (pair.split("=") for pair in self.ask("stats").split())}

    def close(self):
        """Ends it; the exit status."""
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()
