"""A field laboratory: network namespaces joined by two or three paths with emulated delay, loss, rates and holes
(tests/harness/path.c), and optionally a NAT on the way. Needs root, iproute2, /dev/net/tun; the NAT nftables and
conntrack. Everything is named after this process and removed at the end; what a killed run left is removed first.

    with field.Lab(delay=10) as lab:                  # RTT 20 ms on both paths
        lab.command("b", [TWOFOLD, "relay", ...])     # the command that runs this in namespace b
        lab.paths[0].set("hole 1", "ab")              # path 0 swallows all packets from a to b
        lab.paths[0].stats()["ab_holed"]

Ends: `a` has the addresses 10.80.0.1 and 10.81.0.1, `b` 10.80.0.2 and 10.81.0.2; path N is 10.8N.0.0/24.
"""
import os
import re
import shutil
import subprocess

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PREFIX = "tf-field-"
NAT_PORTS = 1000  # from which the NAT chooses; the next rebinding uses the next so many


class Unavailable(Exception):
    """There can be no laboratory here; the text says why."""


def tool(name):
    found = shutil.which(name, path=PATH)
    if found is None:
        raise Unavailable(f"{name} is not installed")
    return found


def run(*command, text=None):
    """The output of a command that has to succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=text, env={**os.environ, "PATH": PATH})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def path_binary():
    binary = os.environ.get("TF_PATH") or os.path.join(os.environ.get("TF_BUILD", "build"), "tests/harness/tf-path")
    if not os.path.exists(binary):
        raise RuntimeError(f"{binary} is not there; TF_BUILD names the folder it was built in")
    return binary


def check(nat=False):
    """Raises Unavailable when there can be no laboratory."""
    tool("ip")
    if nat:
        tool("nft")
        tool("conntrack")
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if not os.path.exists("/dev/net/tun"):
        raise Unavailable("there is no /dev/net/tun")
    name = f"{PREFIX}{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "del", name)
        if nat:
            run("unshare", "-n", "nft", "add table ip probe; add chain ip probe c { type nat hook postrouting priority 100; }")
    except RuntimeError as error:
        raise Unavailable(str(error)) from error


def sweep():
    """Removes the namespaces of runs that were killed."""
    for line in run("ip", "netns", "list").splitlines():
        match = re.match(PREFIX + r"(\d+)-\w+", line)
        if match and not os.path.exists(f"/proc/{match.group(1)}"):
            subprocess.run(["ip", "netns", "del", match.group()], check=False, env={**os.environ, "PATH": PATH})


class Path:
    """One tf-path. `set` changes a fault in both directions or one (ab, ba)."""

    def __init__(self, ends, seed, prefix):
        self.process = subprocess.Popen([*prefix, path_binary(), *ends, str(seed)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"tf-path {ends} did not start, status {self.process.wait()}")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def set(self, fault, way=""):
        answer = self.ask(f"{fault} {way}")
        if answer != "ok":
            raise RuntimeError(f"tf-path: {fault} {way}: {answer or 'it has ended'}")

    def stats(self):
        return {key: int(value) for key, value in (pair.split("=") for pair in self.ask("stats").split())}

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Lab:
    """Namespaces and paths, from the constructor to close() or the end of the `with` block. delay: milliseconds, one
    way. nat: path 1 of namespace a leads through a third namespace, n, which masquerades UDP. seed: of all faults.
    prefix: of every command, for instance chrt."""

    def __init__(self, delay=10.0, paths=2, nat=False, seed=1, prefix=()):
        check(nat)
        sweep()
        self.prefix = list(prefix)
        self.names = {}
        self.paths = []
        self.nat_base = 40000
        try:
            for end in ("a", "b", "n") if nat else ("a", "b"):
                self.add_namespace(end)
            for number in range(paths):
                self.add_path(number, seed + number, "n" if nat and number == 1 else "a")
                self.paths[number].set(f"delay {delay}")
            if nat:
                self.add_nat()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def add_namespace(self, end):
        name = f"{PREFIX}{os.getpid()}-{end}"
        run("ip", "netns", "add", name)
        self.names[end] = name
        run("ip", "-n", name, "link", "set", "lo", "up")
        self.sysctl(end, "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
                    "net.ipv4.tcp_no_metrics_save=1", "net.ipv6.conf.default.disable_ipv6=1")

    def sysctl(self, end, *settings):
        for setting in settings:
            name, value = setting.split("=")
            file = "/proc/sys/" + name.replace(".", "/")
            script = f'[ ! -e {file} ] || echo {value} > {file}'
            run("ip", "netns", "exec", self.names[end], "sh", "-c", script)

    def ip(self, end, *arguments):
        return run("ip", "-n", self.names[end], *arguments)

    def add_path(self, number, seed, left):
        ends = [(left, f"pa{number}"), ("b", f"pb{number}")]
        self.paths.append(Path([f"{self.names[end]}:{device}" for end, device in ends], seed, self.prefix))
        for (end, device), mine, other in zip(ends, (1, 2), (2, 1)):
            net = f"10.8{number}.0"
            self.ip(end, "addr", "add", f"{net}.{mine}", "peer", f"{net}.{other}", "dev", device)
            self.ip(end, "link", "set", device, "up", "mtu", "1500", "txqueuelen", "1000")

    def add_nat(self):
        """a is 10.90.0.1 behind n, whose side of path 1 is the address that b sees, with ports of its choice."""
        run("ip", "link", "add", "an", "netns", self.names["a"], "type", "veth", "peer", "name", "na", "netns",
            self.names["n"])
        for end, device, address in (("a", "an", "10.90.0.1/24"), ("n", "na", "10.90.0.254/24")):
            self.ip(end, "addr", "add", address, "dev", device)
            self.ip(end, "link", "set", device, "up")
        self.ip("a", "route", "add", "10.81.0.0/24", "via", "10.90.0.254")
        self.sysctl("n", "net.ipv4.ip_forward=1")
        self.nft("n", "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }")
        self.rebind()

    def rebind(self):
        """The NAT forgets all mappings: from now on a's datagrams come from other ports."""
        first = self.nat_base
        self.nat_base = 40000 + (first - 40000 + NAT_PORTS) % 20000
        self.nft("n", "flush chain ip nat post\nadd rule ip nat post oifname \"pa1\" ip protocol udp masquerade to "
                      f":{first}-{first + NAT_PORTS - 1}\nadd rule ip nat post oifname \"pa1\" masquerade")
        forget = ["ip", "netns", "exec", self.names["n"], "conntrack", "-D", "-p", "udp"]
        subprocess.run(forget, check=False, capture_output=True, env={**os.environ, "PATH": PATH})

    def nft(self, end, text):
        run("ip", "netns", "exec", self.names[end], "nft", "-f", "-", text=text)

    def command(self, end, command):
        """The command line that runs this in the namespace of that end."""
        return [*self.prefix, tool("ip"), "netns", "exec", self.names[end], *command]

    def close(self):
        for path in self.paths:
            path.close()
        self.paths = []
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, env={**os.environ, "PATH": PATH})
        self.names = {}
