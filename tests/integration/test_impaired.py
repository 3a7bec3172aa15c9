"""Bad routes: every line still comes once and in order, and neither end exits or complains (P2, P3).

The seeds of the forwarders are fixed and printed; TF_SEED changes them."""
import os
import time

import lib

LINES = 30000
RATE = 5000  # so that it takes long enough for all faults
SEED = int(os.environ.get("TF_SEED", "1"))


def impaired(world, options, during, sub_options=(), pub_options=()):
    """Runs the job through one forwarder a client; during(forwarders, sub) hurts them meanwhile."""
    print(f"        seeds {SEED} and {SEED + 1}", flush=True)
    lines = lib.numbered_lines(LINES, seed=SEED)
    relay = world.relay()
    forwarders = [world.forwarder(relay, *options, "--seed", str(SEED + number)) for number in (0, 1)]
    sub = world.sub(relay.uri_via(forwarders[0]), "hurt", "--verify", "--from", "first", "-n", str(LINES), *sub_options)
    with open(world.write("lines", b"\n".join(lines) + b"\n"), "rb") as file:
        pub = world.pub(relay.uri_via(forwarders[1]), "hurt", "--rate", str(RATE), *pub_options, stdin=file)
    during(forwarders, sub)
    assert pub.succeeds() == b""
    lib.same_lines(sub.succeeds(), lines, "the subscriber")
    return [forwarder.stats() for forwarder in forwarders], relay


def stall_for_3_seconds(forwarders, sub):
    sub.out.wait_lines(LINES // 5)
    for forwarder in forwarders:
        forwarder.command("stream stall")
    time.sleep(3)  # the length of the fault
    for forwarder in forwarders:
        forwarder.command("stream flow")


def test_all_faults_at_once_lose_and_repeat_nothing(world):
    faults = ("--udp-drop", "20", "--udp-repeat", "10", "--udp-reorder", "20", "--tcp-close-every", "1000")
    stats, _ = impaired(world, faults, stall_for_3_seconds)
    for each in stats:
        for key in ("stream_cut", "datagram_up_dropped", "datagram_up_repeated", "datagram_up_reordered",
                    "datagram_down_dropped", "datagram_down_repeated", "datagram_down_reordered"):
            assert each[key] > 0, f"the forwarder did not hurt: {key} is 0 of {each}"


def test_stalled_stream_is_carried_by_a_lossy_datagram_route(world):
    impaired(world, ("--udp-drop", "5"), stall_for_3_seconds)


def test_stream_that_flaps_is_enough_without_datagrams(world):
    stats, _ = impaired(world, ("--tcp-close-every", "300", "--udp-drop", "100"), lambda *_: None)
    assert all(each["stream_cut"] > 2 for each in stats), stats


def test_datagram_route_alone_makes_good_its_losses(world):
    impaired(world, ("--udp-drop", "20", "--udp-repeat", "10", "--udp-reorder", "20"), lambda *_: None,
             ("--routes", "datagram"), ("--routes", "datagram"))


def test_new_addresses_of_the_clients_are_followed(world):
    def rebind(forwarders, sub):
        for part in (1, 2, 3):
            sub.out.wait_lines(part * LINES // 5)
            for forwarder in forwarders:
                forwarder.command("datagram rebind")

    stats, relay = impaired(world, (), rebind, ("--routes", "datagram"), ("--routes", "datagram"))
    assert all(each["datagram_rebinds"] == 3 for each in stats), stats
    assert relay.events("address_moved"), relay.err.text()


lib.main(globals())
