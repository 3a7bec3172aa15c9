"""The configuration of a relay at work: rights of channels, what a reload changes, what cannot be had."""
import json
import os
import signal
import sqlite3
import time

import lib


def configured(world, text, *options, peers=("pub", "sub"), **more):
    """A relay with sections for these peers and then the text."""
    heads = "".join(f'[peer "{name}"]\nkey = {world.id(name)}\n' for name in peers)
    return world.relay("-c", world.write("relay.conf", heads + text), *options, allow=(), **more)


def reload(world, relay, text, peers=("pub", "sub")):
    heads = "".join(f'[peer "{name}"]\nkey = {world.id(name)}\n' for name in peers)
    done = len(relay.events("reloaded"))
    world.write("relay.conf", heads + text)
    relay.signal(signal.SIGHUP)
    relay.err.wait_for(" event=reloaded ", done + 1)
    return relay.events("reloaded")[-1]


def is_forbidden(program):
    _, err = program.ends(lib.REFUSED)
    assert "forbidden" in err or "not allowed" in err, err


# -- rights ----------------------------------------------------------------------------------------------------------


def test_without_rights_everybody_may_do_everything(world):
    relay = configured(world, '[channel "news"]\nmax_count = 1000\n')
    for key in ("pub", "sub"):
        for channel in ("news", "other"):
            world.pub(relay.uri, channel, "hello", key=key).succeeds()


def test_one_may_write_and_the_other_only_read(world):
    relay = configured(world, '[channel "news*"]\nread = pub, sub\nwrite = pub\n')
    sub = world.sub(relay.uri, "news/a", "-n", "2", "--from", "first")
    _, err = sub.ends(lib.REFUSED)  # it may read what is not there yet, but not make it
    assert "no such channel" in err or "channel_not_found" in err, err
    world.pub(relay.uri, "news/a", "one").succeeds()
    is_forbidden(world.pub(relay.uri, "news/a", "two", key="sub"))
    world.pub(relay.uri, "news/a", "three").succeeds()
    assert world.sub(relay.uri, "news/a", "-n", "2", "--from", "first").succeeds() == b"one\nthree\n"
    # What no section allows is forbidden.
    is_forbidden(world.pub(relay.uri, "elsewhere", "x"))
    is_forbidden(world.sub(relay.uri, "elsewhere"))


def test_first_section_that_matches_counts_and_only_that(world):
    relay = configured(world, '[channel "log/secret"]\nwrite = pub\n[channel "log/*"]\nread = any\nwrite = any\n')
    world.pub(relay.uri, "log/secret", "hidden").succeeds()
    is_forbidden(world.sub(relay.uri, "log/secret", "--from", "first", "-n", "1"))
    world.pub(relay.uri, "log/public", "seen", key="sub").succeeds()
    assert world.sub(relay.uri, "log/public", "--from", "first", "-n", "1").succeeds() == b"seen\n"


def test_keys_without_a_name_count_as_any(world):
    relay = configured(world, '[channel "a"]\nread = any\nwrite = any\n[channel "b"]\nread = pub\nwrite = pub\n',
                       "--allow", world.id("guest"))
    world.pub(relay.uri, "a", "hello", key="guest").succeeds()
    is_forbidden(world.pub(relay.uri, "b", "hello", key="guest"))
    world.pub(relay.uri, "b", "hello").succeeds()


# -- reload ----------------------------------------------------------------------------------------------------------


def test_reload_takes_the_right_from_a_live_subscriber(world):
    rights = '[channel "c"]\nread = sub\nwrite = pub\n'
    relay = configured(world, rights)
    pub = world.twofold("pub", "-i", world.key("pub"), relay.uri, "c", "one")
    pub.succeeds()
    live = world.sub(relay.uri, "c", "--from", "first")
    live.out.wait_for(b"one\n")
    assert live.is_running()
    reload(world, relay, '[channel "c"]\nread = pub\nwrite = pub\n')
    is_forbidden(live)
    world.pub(relay.uri, "c", "two").succeeds()
    assert bytes(live.out.data) == b"one\n"
    is_forbidden(world.sub(relay.uri, "c", "--from", "first", "-n", "1"))
    # A file with an error changes nothing.
    world.write("relay.conf", "[channel \"c\"]\nread = nobody\n")
    relay.signal(signal.SIGHUP)
    relay.err.wait_for("event=reload_failed")
    assert 'no [peer "nobody"]' in relay.err.text()
    is_forbidden(world.sub(relay.uri, "c", "--from", "first", "-n", "1"))
    reload(world, relay, rights)
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "2").succeeds() == b"one\ntwo\n"


def test_reload_takes_the_right_from_a_live_sender(world):
    relay = configured(world, '[channel "c"]\nwrite = pub\nread = sub\n')
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as input_file, os.fdopen(write_end, "wb", buffering=0) as feed:
        pub = world.twofold("pub", "-i", world.key("pub"), relay.uri, "c", "--json", stdin=input_file)
        feed.write(b"one\n")
        pub.out.wait_lines(1)
        reload(world, relay, '[channel "c"]\nwrite = sub\nread = sub\n')
        feed.write(b"two\n")
        pub.out.wait_lines(2)
    pub.ends(lib.REFUSED)
    acked, refused = map(json.loads, pub.out.text().splitlines())
    assert acked["seq"] == 1 and refused["code"] == "forbidden", (acked, refused)
    assert world.sub(relay.uri, "c", "--from", "first", "-n", "1").succeeds() == b"one\n"


def test_reload_says_what_needs_a_restart(world):
    relay = configured(world, "")
    assert "needs_restart=false" in reload(world, relay, '[channel "c"]\nread = any\n')
    assert "needs_restart=true" in reload(world, relay, "[limits]\nchannels = 7\n")
    assert "needs_restart=false" in reload(world, relay, "[limits]\nchannels = 7\n")


# -- retention and rates ---------------------------------------------------------------------------------------------


def first_kept(world, relay, channel):
    """The seq of the oldest message that is still there."""
    sub = world.sub(relay.uri, channel, "--from", "first", "-n", "1", "--json")
    out, _ = sub.ends(lib.OK)
    return json.loads(out)["seq"]


def test_what_is_not_kept_is_not_read(world):
    relay = configured(world, '[channel "short/*"]\nmax_count = 100\n')
    for channel in ("short/a", "long"):
        world.pub(relay.uri, channel, "--count", "1000").succeeds()
    first = first_kept(world, relay, "short/a")
    assert 901 - 100 // 8 - 64 - 1 <= first <= 901, first
    assert first_kept(world, relay, "long") == 1


def test_reload_changes_what_is_kept(world):
    relay = configured(world, "")
    world.pub(relay.uri, "c", "--count", "100").succeeds()
    assert first_kept(world, relay, "c") == 1
    reload(world, relay, '[channel "c"]\nmax_count = 10\n')
    while first_kept(world, relay, "c") < 91:  # it is done behind the reload; the limit of a test ends what never comes
        pass
    assert first_kept(world, relay, "c") == 91


def test_rate_of_a_sender_is_kept_and_nothing_is_lost(world):
    relay = configured(world, "[limits]\nmax_in_flight = 2\nrate = 10\n")
    started = time.monotonic()
    world.pub(relay.uri, "c", "--count", "35").succeeds()
    assert time.monotonic() - started > 2.4, "35 sends, of which 10 may come at once, in less than 2.5 s"
    sub = world.sub(relay.uri, "c", "--from", "first", "-n", "35", "--verify")
    assert sub.succeeds() == b"".join(b"%d\n" % number for number in range(1, 36))
    reload(world, relay, "[limits]\nmax_in_flight = 2\n")
    world.pub(relay.uri, "c", "--count", "2000").succeeds()  # 200 s at the old rate


# -- the store -------------------------------------------------------------------------------------------------------


def starts_not(world, status, data, *options):
    """A second relay on that data directory: what it says."""
    relay = world.twofold("relay", "--listen", "127.0.0.1:0", "--data", world.path(data), *options)
    return relay.ends(status)[1]


def test_store_on_disk_is_there_again_and_in_memory_is_not(world):
    for kind, kept in (("disk", True), ("memory", False)):
        text = f"[store]\nkind = {kind}\n"
        relay = configured(world, text, data=kind)
        world.pub(relay.uri, "c", "first").succeeds()
        assert os.path.isdir(world.path(f"{kind}/store")) == kept
        relay.signal(signal.SIGKILL)
        relay.wait()
        relay = configured(world, text, data=kind)
        world.pub(relay.uri, "c", "second").succeeds()
        sub = world.sub(relay.uri, "c", "--from", "first", "-n", "2" if kept else "1")
        assert sub.succeeds() == (b"first\nsecond\n" if kept else b"second\n")
        relay.signal(signal.SIGTERM)
        relay.ends(lib.OK)


def test_store_has_the_sizes_that_were_given(world):
    relay = configured(world, "[store]\nsegment_size = 512KiB\nlog_size = 2MiB\n")
    world.pub(relay.uri, "c", "hello").succeeds()
    log = world.path("relay/store/log")
    sizes = [os.path.getsize(os.path.join(log, name)) for name in os.listdir(log)]
    assert 512 * 1024 in sizes and max(sizes) < 1 << 20, sizes
    assert "needs_restart=true" in reload(world, relay, "[store]\nsegment_size = 1MiB\n")


def test_store_of_another_relay_is_refused(world):
    relay = configured(world, "")
    err = starts_not(world, lib.NEGATIVE, "relay")
    assert "another" in err, err
    world.pub(relay.uri, "c", "still here").succeeds()


def test_store_that_cannot_be_made_is_refused_with_the_reason(world):
    world.write("file", "")
    assert "is not a directory" in starts_not(world, lib.NEGATIVE, "file/data")
    os.mkdir(world.path("data"))
    world.write("data/store", "")
    err = starts_not(world, lib.NEGATIVE, "data")
    assert world.path("data/store") in err and len(err.splitlines()) == 1, err


def test_store_damaged_beyond_opening_ends_with_7(world):
    relay = configured(world, "")
    world.pub(relay.uri, "c", "hello").succeeds()
    relay.signal(signal.SIGTERM)
    relay.ends(lib.OK)
    world.write("relay/store/index.db", b"this was a data base")
    err = starts_not(world, lib.DAMAGED, "relay")
    assert "index.db" in err, err


def test_store_of_a_later_version_is_refused(world):
    relay = configured(world, "")
    world.pub(relay.uri, "c", "hello").succeeds()
    relay.signal(signal.SIGTERM)
    relay.ends(lib.OK)
    index = sqlite3.connect(world.path("relay/store/index.db"))
    index.execute("PRAGMA user_version = 1000")
    index.commit()
    index.close()
    err = starts_not(world, lib.NEGATIVE, "relay")
    assert "newer twofold" in err and "1000" in err, err


# -- errors ----------------------------------------------------------------------------------------------------------


def test_every_error_is_told_and_nothing_is_started(world):
    path = world.write("bad.conf", '[peer "alice"]\nkey = ' + world.id("alice") + '\n[channel "c"]\nread = alcie\n'
                                   "dedup_age = 1h\n[store]\nlog_size = 8MiB\n")
    relay = world.twofold("relay", "-c", path, "--data", world.path("never"))
    out, err = relay.ends(lib.BAD_CONFIG)
    assert out == b""
    for text in ('bad.conf:4: read: no [peer "alcie"]: did you mean "alice"?', "bad.conf:5: dedup_age = 1h (line 5)",
                 "bad.conf:7: log_size = 8MiB (line 7) is less than 4 segments"):
        assert text in err, err
    assert not os.path.exists(world.path("never"))


lib.main(globals())
