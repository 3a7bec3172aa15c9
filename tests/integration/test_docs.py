"""The manual, the README and the example configuration say what the program does."""
import os
import re
import signal

import lib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def options_in_help(world, command):
    text = world.twofold("help", command).succeeds().decode()
    return {option for line in text.splitlines() if line.startswith("  -")
            for option in re.findall(r"(?<![\w-])(--?[a-z0-9][a-z-]*)", line[:30])}


def test_manual_has_every_option_and_no_other(world):
    manual = text_of("deploy", "man", "twofold.1").replace("\\-", "-")
    known = {"--help", "--name", "-x"}
    for command in ("relay", "pub", "sub", "cat", "channel", "ping", "serve", "call", "ref", "backup", "restore", "store",
                    "keygen"):
        options = options_in_help(world, command)
        assert options, command
        for option in options:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", manual), f"{option} of {command} is not in the manual"
        known |= options
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", manual))
    assert told <= known, f"the manual has options that are none: {told - known}"


def test_manual_has_every_exit_code_of_the_help(world):
    manual = text_of("deploy", "man", "twofold.1")
    codes = re.findall(r"\b(\d+) [a-z]", world.twofold("help").succeeds().decode().split("Exit codes:")[1])
    assert len(codes) > 5, codes
    for code in codes:
        assert f"\n.B {code}\n" in manual, f"exit code {code} is not in the manual"


def test_example_configuration_is_good(world):
    text = text_of("deploy", "relay.conf.example")
    text = re.sub(r"^;(?=\w+ = |\[)", "", text, flags=re.M)
    for key, value in {"data": world.path("data"), "key": world.path("data/key"), "address": "127.0.0.1:0"}.items():
        text, count = re.subn(rf"^{key} = /?[^\s5]\S*$", f"{key} = {value}", text, flags=re.M)
        assert count == 1, key
    text = text.replace("52 characters a-z and 2-7", world.id("alice"))
    text = text.replace("NODEID@relay.example:7420", world.id("alice") + "@127.0.0.1:1")
    relay = lib.Relay([lib.TWOFOLD, "relay", "-c", world.write("relay.conf", text), "--print-uri"], world.env)
    world.programs.append(relay)
    world.pub(relay.uri, "c", "hello", key="alice").succeeds()
    relay.signal(signal.SIGTERM)
    relay.ends(lib.OK)


def test_readme_names_only_files_that_exist(world):
    assert world.folder
    for name in re.findall(r"`((?:[a-z]+/)+[\w.-]*)`", text_of("README.md")):
        found = name.startswith("build/") or os.path.exists(os.path.join(ROOT, name))
        assert found, f"README.md names {name}, which does not exist"


lib.main(globals())
