"""What is broken and what must notice it: patterns of files; of names of tests (ctest), some with arguments of their
own, so that each takes seconds at most. All that link the files, as far as they are quick. Not sim_nodes, whose threads
the linker wraps: that does not reach into shared libraries."""
SESSIONS = ["test_proto_*", "test_node_router*", "sim_refs --seeds 1..150",
            "sim_refs --shape graph --order --seeds 1..100"]
LINKS = ["test_paths_link*", "sim_link --seeds 1..40", "sim_conn --seeds 1..40", "sim_link_cases", "sim_link_costs",
         "sim_link_mtu", "sim_link_repair", "sim_link_day --seeds 1"]
HUBS = ["test_node_hub*", "test_node_channel", "test_node_guard", "test_node_rate*", "test_node_calls*",
        "test_node_client*", "test_node_conn", "test_node_objects", "test_node_node"]

AREAS = {
    "proto": {"files": ["proto/*.c"], "tests": SESSIONS + HUBS + ["test_paths_link*", "sim_conn --seeds 1..20"]},
    "dedup": {"files": ["dedup/*.c"], "tests": ["test_dedup_*"] + LINKS},
    "link": {"files": ["paths/link*.c"], "tests": LINKS + ["sim_link_redundancy", "sim_latency --seeds 1..2"]},
    "hub": {"files": ["node/hub*.c", "node/channel.c", "node/guard.c", "node/rate.c", "node/calls*.c"], "tests": HUBS},
}
