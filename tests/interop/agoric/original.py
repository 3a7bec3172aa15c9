"""Gets the original implementation: Node.js and the npm package that package.json names, with the versions and hashes
of package-lock.json, installed into the build folder."""
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ("package.json", "package-lock.json")
NODE_LEAST = (20, 9)
HANG = 600  # seconds for npm; ends what hangs


class Missing(Exception):
    """It cannot be had here; the text says why."""


def node_version(node):
    try:
        text = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout
    except OSError:
        return (0, 0)
    match = re.match(r"v(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def contents(folder):
    try:
        return [open(os.path.join(folder, name), encoding="utf-8").read() for name in FILES]
    except OSError:
        return None


def npm_ci(folder, options):
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("npm is not installed")
    os.makedirs(folder, exist_ok=True)
    for name in FILES:
        shutil.copy(os.path.join(HERE, name), folder)
    command = [npm, "ci", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--fetch-retries=1"]
    try:
        run = subprocess.run([*command, *options], cwd=folder, check=False, capture_output=True, text=True,
                             timeout=HANG)
    except subprocess.TimeoutExpired:
        raise Missing(f"npm did not end within {HANG} s") from None
    if run.returncode == 0:
        return
    os.remove(os.path.join(folder, FILES[1]))  # so that the next run does not take it for installed
    errors = [line for line in run.stderr.splitlines() if re.match(r"npm (error|ERR!)", line)]
    if any(word in run.stderr for word in ("EINTEGRITY", "EUSAGE")):
        raise RuntimeError("npm ci: " + " | ".join(errors))
    raise Missing("npm cannot get the packages: " + (errors[0] if errors else f"exit status {run.returncode}"))


def get(build):
    """(node, the folder that holds node_modules)."""
    folder = os.path.join(build, "tests", "interop", "original")
    node = shutil.which("node")
    is_late = node is not None and node_version(node) >= NODE_LEAST
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "none")
    bundled = os.path.join(folder, "node_modules", f"node-linux-{machine}", "bin", "node")
    if contents(folder) != contents(HERE) or not (is_late or os.path.exists(bundled)):
        npm_ci(folder, ["--omit=optional"] if is_late else [])
    node = node if is_late else bundled
    if node_version(node) < NODE_LEAST:
        raise Missing("Node.js {}.{} or later is not installed, and npm has none for this machine".format(*NODE_LEAST))
    return node, folder
