"""backup and restore of a store, store check and repair: what was acked is in a backup, what is damaged has a name, and the
rest is saved."""
import json
import os
import signal
import sqlite3
import stat
import threading

import lib
from lib import BAD_CONFIG, NEGATIVE, OK, USAGE

DAMAGED = 7


def backup(world, *arguments, data="relay", to="copy"):
    return world.twofold("backup", "--data", world.path(data), "--json", *arguments, world.path(to))


def restore(world, *arguments, data="fresh", source="copy"):
    return world.twofold("restore", "--data", world.path(data), *arguments, world.path(source))


def check(world, data="relay"):
    return world.twofold("store", "check", "--json", "--data", world.path(data))


def found(program):
    """The findings and the summary of a check."""
    lines = [json.loads(line) for line in program.out.text().splitlines()]
    return lines[:-1], lines[-1]


def complains(program, status, *words):
    program.ends(status)
    err = program.err.text()
    assert all(word in err for word in words), err


def stored(world, relay, channel, count):
    sub = world.sub(relay.uri, channel, "--from", "first", "--json", "--verify", "-n", str(count))
    return [json.loads(line) for line in sub.succeeds().splitlines()]


def stop(relay):
    relay.signal(signal.SIGTERM)
    relay.ends(OK)


def filled(world, count=300):
    """A relay that has stopped, with a channel of so many messages of 1000 bytes."""
    relay = world.relay()
    world.pub(relay.uri, "alpha", stdin=b"".join(b"%0999d\n" % i for i in range(count))).succeeds()
    world.pub(relay.uri, "beta", "only").succeeds()
    stop(relay)


def flip(path, needle):
    """One bit of the first place where the needle is."""
    with open(path, "r+b") as file:
        data = file.read()
        at = data.index(needle)
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))


class Publisher:
    """pub that sends for as long as it is let."""

    def __init__(self, world, uri):
        self.stop = threading.Event()
        self.program = world.pub(uri, "alpha", "--json", stdin=lib.subprocess.PIPE)
        self.thread = threading.Thread(target=self.feed, daemon=True)
        self.thread.start()

    def feed(self):
        number = 0
        while not self.stop.is_set():
            self.program.process.stdin.write(b"".join(b"%d\n" % (number + i) for i in range(50)))
            number += 50
        self.program.process.stdin.close()

    def acks(self):
        """Those that were whole until now."""
        text = bytes(self.program.out.data).decode()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def test_backup_while_all_is_busy(world):
    relay = world.relay()
    world.pub(relay.uri, "beta", "only").succeeds()
    publisher = Publisher(world, relay.uri)
    for round_ in range(3):
        publisher.program.out.wait_lines(2000 * (round_ + 1))
        acked = publisher.acks()
        told = json.loads(backup(world, to=f"copy{round_}").succeeds())
        assert told["v"] == 1 and told["channels"] == 2 and told["messages"] > len(acked)
    publisher.stop.set()
    publisher.program.succeeds()
    relay.kill()
    restore(world, source="copy2").succeeds()
    fresh = world.relay(data="fresh")
    got = stored(world, fresh, "alpha", told["messages"] - 1)
    assert [a["seq"] for a in got] == list(range(1, len(got) + 1))
    assert [(a["client_id"], a["id"], a["timestamp"]) for a in got[:len(acked)]] == \
           [(a["client_id"], a["id"], a["timestamp"]) for a in acked]
    assert [a["body"] for a in got] == [str(i) for i in range(len(got))]
    ack = json.loads(world.pub(fresh.uri, "alpha", "--json", "next").succeeds())
    assert ack["seq"] == len(got) + 1
    assert ack["id"].split("-")[0] != got[-1]["id"].split("-")[0], "the numbering goes on under its old epoch"
    resent = json.loads(world.pub(fresh.uri, "alpha", "--json", "--id", acked[0]["client_id"], "0").succeeds())
    assert not resent["duplicate"] or resent["seq"] == 1
    assert [a["body"] for a in stored(world, fresh, "beta", 1)] == ["only"]
    stop(fresh)
    check(world, data="fresh").succeeds()


def test_backup_of_what_is_stopped_or_was_killed(world):
    filled(world)
    told = json.loads(backup(world, to="one").succeeds())
    assert told["messages"] == 301
    relay = world.relay()
    world.pub(relay.uri, "alpha", "late").succeeds()
    relay.kill()
    assert json.loads(backup(world, to="two").succeeds())["messages"] == 302
    folder = world.path("two")
    assert sorted(os.listdir(folder)) == ["manifest", "store.db"]
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder)} == {0o600}
    restore(world, source="two").succeeds()
    assert stored(world, world.relay(data="fresh"), "alpha", 301)[-1]["body"] == "late"


def test_a_backup_takes_an_empty_directory(world):
    filled(world, 3)
    os.mkdir(world.path("empty"))
    backup(world, to="empty").succeeds()
    with open(world.path("empty/manifest"), "rb") as file:
        before = file.read()
    complains(backup(world, to="empty"), NEGATIVE, "not an empty directory")
    with open(world.path("empty/manifest"), "rb") as file:
        assert file.read() == before
    world.write("file", "x")
    complains(backup(world, to="file"), NEGATIVE, "not an empty directory")
    complains(backup(world, data="nothing"), NEGATIVE, "there is no store")
    assert not os.path.exists(world.path("copy"))


def test_restore_refuses_what_is_not_as_it_was_written(world):
    filled(world, 50)
    backup(world).succeeds()
    path = world.path("copy/store.db")
    with open(path, "rb") as file:
        whole = file.read()
    for bad in (whole[:-1], whole + b"x", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], b""):
        world.write("copy/store.db", bad)
        complains(restore(world), DAMAGED, "store.db", "sum")
        assert os.listdir(world.path("fresh")) == []
    world.write("copy/store.db", whole)
    with open(world.path("copy/manifest")) as file:
        manifest = file.read()
    for bad in (manifest[:-1], manifest + "x\n", manifest.replace("channels 2", "channels 3"), "", "\n" * 5000):
        world.write("copy/manifest", bad)
        complains(restore(world), DAMAGED, "manifest")
    world.write("copy/manifest", manifest.replace("twofold-backup 1", "twofold-backup 2"))
    complains(restore(world), NEGATIVE, "version 2", "up to 1")
    os.remove(world.path("copy/manifest"))
    complains(restore(world), DAMAGED, "no manifest", "not finished")
    complains(restore(world, source="nowhere"), NEGATIVE, "no backup")
    assert os.listdir(world.path("fresh")) == []


def test_restore_refuses_a_directory_that_is_not_empty(world):
    filled(world, 50)
    backup(world).succeeds()
    before = sorted(os.listdir(world.path("relay/store")))
    complains(restore(world, data="relay"), NEGATIVE, "not empty")
    assert sorted(os.listdir(world.path("relay/store"))) == before
    os.makedirs(world.path("fresh/store"))
    os.makedirs(world.path("fresh/store.new"))
    world.write("fresh/store.new/index.db", "left behind by one that was killed")
    restore(world).succeeds()
    assert os.listdir(world.path("fresh")) == ["store"]
    check(world, data="fresh").succeeds()


def test_a_backup_that_was_killed_is_none(world):
    filled(world, 3000)
    killed = backup(world)
    while killed.is_running() and not os.path.exists(world.path("copy/store.db")):
        pass
    killed.kill()
    if os.path.exists(world.path("copy/manifest")):
        raise lib.Skip("the backup was over before it could be killed")
    complains(restore(world), DAMAGED, "not finished")
    complains(backup(world), NEGATIVE, "not an empty directory")


def test_check_of_what_is_sound(world):
    relay = world.relay()
    world.pub(relay.uri, "alpha", stdin=b"".join(b"%d\n" % i for i in range(1000))).succeeds()
    complains(check(world), NEGATIVE, "running relay")
    relay.kill()
    program = check(world)
    program.succeeds()
    assert found(program)[0] == [] and found(program)[1]["messages"] == 1000 and found(program)[1]["sound"]
    stop(world.relay())
    text = world.twofold("store", "check", "--data", world.path("relay")).succeeds().decode()
    assert text == "sound: 1000 messages in 1 channels can be read\n", text
    complains(check(world, data="nothing"), NEGATIVE, "there is no store")


def test_damage_has_a_name(world):
    filled(world)
    flip(world.path("relay/store/index.db"), b"%0999d" % 150)
    program = check(world)
    program.ends(DAMAGED)
    findings, summary = found(program)
    assert [f["kind"] for f in findings] == ["damaged"] and findings[0]["channel"] == "alpha", findings
    assert findings[0]["first"] <= 151 <= findings[0]["last"], findings
    lost = findings[0]["last"] - findings[0]["first"] + 1
    assert not summary["sound"] and summary["messages"] == 301 - lost < 300
    complains(backup(world), DAMAGED, "damaged alpha", "--damaged-too")
    assert not os.path.exists(world.path("copy"))
    complains(backup(world, "--damaged-too"), OK, "damaged alpha")
    restore(world).succeeds()
    again = check(world, data="fresh")
    again.ends(DAMAGED)
    assert found(again)[0] == findings


def test_a_hole_has_a_name(world):
    filled(world)
    database = sqlite3.connect(world.path("relay/store/index.db"))
    first, count = database.execute("SELECT first, count FROM blocks WHERE channel = 1 ORDER BY first LIMIT 1 OFFSET 1"
                                    ).fetchone()
    database.execute("DELETE FROM blocks WHERE channel = 1 AND first = ?", (first,))
    database.commit()
    database.close()
    program = check(world)
    program.ends(DAMAGED)
    assert [(f["kind"], f["channel"], f["first"], f["last"]) for f in found(program)[0]] == \
           [("lost", "alpha", first, first + count - 1)]


def behind(world):
    """A store whose index has but the first 10 messages, its log 50 more, and no relay."""
    index = world.path("relay/store/index.db")
    relay = world.relay()
    world.pub(relay.uri, "alpha", stdin=b"".join(b"%0999d\n" % i for i in range(10))).succeeds()
    stop(relay)
    with open(index, "rb") as file:
        old = file.read()
    relay = world.relay()
    world.pub(relay.uri, "alpha", stdin=b"".join(b"%0999d\n" % i for i in range(10, 60))).succeeds()
    relay.kill()
    for name in (index, index + "-wal", index + "-shm"):
        if os.path.exists(name):
            os.remove(name)
    world.write(index, old)


def log_with(world, needle):
    """The segment of the commit log that has it."""
    folder = world.path("relay/store/log")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            if needle in file.read():
                return os.path.join(folder, name)
    raise AssertionError("no segment has it")


def test_what_only_the_log_has_is_checked_and_copied(world):
    behind(world)
    program = check(world)
    program.succeeds()
    summary = found(program)[1]
    assert summary["messages"] == 60 and summary["log_records"] == 50, summary
    assert json.loads(backup(world).succeeds())["messages"] == 60
    restore(world).succeeds()
    got = stored(world, world.relay(data="fresh"), "alpha", 60)
    assert [int(a["body"]) for a in got] == list(range(60))


def test_damage_of_the_log_has_a_name(world):
    behind(world)
    flip(log_with(world, b"%0999d" % 12), b"%0999d" % 12)
    program = check(world)
    program.ends(DAMAGED)
    findings, summary = found(program)
    assert findings[0]["kind"] == "log" and findings[0]["first"] > 0 and "sound" in summary, findings
    complains(backup(world), DAMAGED, "commit log is damaged", f"changes {findings[0]['first']} to ")
    assert not os.path.exists(world.path("copy"))
    backup(world, "--damaged-too").succeeds()


def repair(world, data="relay"):
    return world.twofold("store", "repair", "--json", "--data", world.path(data))


def epoch_of(activity):
    return activity["id"].split("-")[0]


def test_repair_saves_what_can_be_read(world):
    filled(world)
    flip(world.path("relay/store/index.db"), b"%0999d" % 150)
    program = check(world)
    program.ends(DAMAGED)
    damaged = found(program)[0][0]
    program = repair(world)
    program.succeeds()
    findings, summary = found(program)
    assert {(f["kind"], f["channel"]) for f in findings} == {("lost", "alpha"), ("epoch", "alpha")}, findings
    assert [(f["first"], f["last"]) for f in findings if f["kind"] == "lost"] == [(damaged["first"], damaged["last"])]
    kept = 301 - (damaged["last"] - damaged["first"] + 1)
    assert summary["repaired"] and summary["messages"] == kept and os.path.exists(summary["aside"]), summary
    program = check(world)
    program.ends(DAMAGED)
    assert [(f["kind"], f["first"], f["last"]) for f in found(program)[0]] == [("lost", damaged["first"], damaged["last"])]
    relay = world.relay()
    rest = world.twofold("cat", "-i", world.key("sub"), relay.uri, "alpha", "--from", str(damaged["last"] + 1), "--json")
    rest = [json.loads(line) for line in rest.succeeds().splitlines()]
    assert [a["seq"] for a in rest] == list(range(damaged["last"] + 1, 301))
    assert [int(a["body"]) + 1 for a in rest] == [a["seq"] for a in rest]
    ack = json.loads(world.pub(relay.uri, "alpha", "--json", "next").succeeds())
    assert ack["seq"] == 301 and epoch_of(ack) != epoch_of(rest[0])
    stop(relay)
    again = repair(world)
    again.succeeds()
    findings, summary = found(again)
    assert [f["kind"] for f in findings] == ["lost"] and not summary["repaired"] and "aside" not in summary, findings


def test_repair_of_an_index_that_is_garbage(world):
    relay = world.relay()
    world.pub(relay.uri, "alpha", stdin=b"".join(b"%0999d\n" % i for i in range(60))).succeeds()
    complains(repair(world), NEGATIVE, "running relay")
    relay.kill()
    world.write("relay/store/index.db", b"garbage" * 2000)
    complains(world.twofold("relay", "--listen", "127.0.0.1:0", "--data", world.path("relay")), DAMAGED, "store repair")
    program = check(world)
    program.ends(DAMAGED)
    assert [f["kind"] for f in found(program)[0]] == ["index"]
    program = repair(world)
    program.succeeds()
    assert found(program)[1]["repaired"] and found(program)[1]["messages"] == 60
    with open(found(program)[1]["aside"], "rb") as file:
        assert b"garbage" in file.read()
    check(world).succeeds()
    assert [int(a["body"]) for a in stored(world, world.relay(), "alpha", 60)] == list(range(60))


def test_repair_of_a_log_and_of_what_is_sound(world):
    behind(world)
    flip(log_with(world, b"%0999d" % 12), b"%0999d" % 12)
    program = repair(world)
    program.succeeds()
    findings, summary = found(program)
    assert [f["kind"] for f in findings][0] == "log" and summary["repaired"] and "aside" not in summary, findings
    program = check(world)
    program.ends(DAMAGED)
    lost = found(program)[0]
    assert [f["kind"] for f in lost] == ["lost"] and lost[0]["first"] <= 13 <= lost[0]["last"], lost
    assert summary["messages"] == 60 - (lost[0]["last"] - lost[0]["first"] + 1)
    filled_again = world.relay(data="other")
    world.pub(filled_again.uri, "alpha", "one").succeeds()
    stop(filled_again)
    text = world.twofold("store", "repair", "--data", world.path("other")).succeeds().decode()
    assert text == "nothing to repair: 1 messages in 1 channels can be read\n", text


def test_wrong_usage(world):
    rows = [(["backup"], "one directory"), (["backup", "a", "b"], "one directory"), (["restore"], "one directory"),
            (["store"], "check"), (["store", "nonsense"], "'nonsense' is neither"), (["store", "check", "more"], "check")]
    for arguments, word in rows:
        complains(world.twofold(*arguments), USAGE, word)
    bad = world.write("bad.conf", "[store]\nkind = nonsense\n")
    complains(world.twofold("backup", "-c", bad, world.path("copy")), BAD_CONFIG, "bad.conf")
    memory = world.write("memory.conf", "[store]\nkind = memory\n")
    complains(world.twofold("store", "check", "-c", memory), NEGATIVE, "memory")


lib.main(globals())
