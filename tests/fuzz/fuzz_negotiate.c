/* handshake/hello and handshake/negotiate: any payload is read without a fault and within bounds; what is read is
 * written and read again as the same; an acceptor's answer is one that the dialler of that HELLO takes.
 * Input: 11 bytes of decisions (our configuration, our session), then the payload. */
#include <stdlib.h>

#include "handshake/negotiate.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define NEW_SESSION 77u
#define SMALL_CAP 600u

static tf_hello take_config(tf_slice *input)
{
    tf_hello hello;
    uint8_t sets = tf_fuzz_u8(input);
    tf_hello_init(&hello);
    hello.versions[0] = 1 + (tf_fuzz_u8(input) & 1u);
    hello.offer.features = sets & 1u;
    hello.offer.routes = (sets & 2u) != 0 ? TF_ROUTES_BOTH : TF_ROUTES_STREAM;
    hello.offer.data = (tf_data_routes){(tf_routes)(sets >> 2 & 3u), (tf_routes)(sets >> 4 & 3u)};
    hello.offer.datagram.ciphers = (tf_ciphers)(1 + (sets >> 6) % 3);
    hello.offer.instance = 9;
    return hello;
}

static tf_negotiate_session take_session(tf_slice *input)
{
    tf_negotiate_session state = {.session = tf_fuzz_u8(input), .new_session = NEW_SESSION};
    state.resumable = state.session != 0;
    state.last_generation = tf_fuzz_u8(input);
    state.receive_next = tf_fuzz_u8(input);
    state.send_floor = tf_fuzz_u8(input);
    state.send_next = state.send_floor + tf_fuzz_u8(input);
    return state;
}

/* What the dialler of that HELLO must have known, so that the answer suits it. */
static tf_negotiate_session session_of_dialler(const tf_hello *hello, const tf_agreed *agreed)
{
    const tf_resume *resume = &hello->offer.resume;
    bool known = resume->present && (agreed->resumed || resume->session != NEW_SESSION);
    return (tf_negotiate_session){.resumable = known,
                                  .session = known ? resume->session : 0,
                                  .last_generation = agreed->generation - 1,
                                  .send_next = UINT64_MAX};
}

static void answer(const tf_hello *theirs, const tf_hello *ours, const tf_negotiate_session *state)
{
    tf_welcome welcome;
    tf_welcome read;
    tf_agreed at_acceptor;
    tf_agreed at_dialler;
    uint8_t buf[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    if (tf_negotiate_answer(theirs, ours, state, &welcome, &at_acceptor) != TF_OK) {
        return;
    }
    TF_ASSERT(at_acceptor.send_routes != 0 && at_acceptor.receive_routes != 0);
    TF_ASSERT(tf_welcome_encode(&welcome, buf, sizeof(buf), &len) == TF_OK);
    TF_ASSERT(tf_welcome_decode(&read, tf_slice_of(buf, len)) == TF_OK);
    tf_negotiate_session state_of_dialler = session_of_dialler(theirs, &at_acceptor);
    TF_ASSERT(tf_negotiate_accept(theirs, &read, &state_of_dialler, &at_dialler) == TF_OK);
    TF_ASSERT(at_dialler.routes == at_acceptor.routes && at_dialler.version == at_acceptor.version);
    TF_ASSERT(at_dialler.send_routes == at_acceptor.receive_routes);
    TF_ASSERT(at_dialler.receive_routes == at_acceptor.send_routes);
    TF_ASSERT(at_dialler.session == at_acceptor.session && at_dialler.resumed == at_acceptor.resumed);
}

static void run_hello(tf_slice payload, const tf_hello *ours, const tf_negotiate_session *state, size_t cap)
{
    tf_hello hello;
    tf_hello again;
    uint8_t first[TF_FRAME_PAYLOAD_MAX];
    uint8_t second[TF_FRAME_PAYLOAD_MAX];
    size_t len = 0;
    size_t len_again = 0;
    if (tf_hello_decode(&hello, payload) != TF_OK) {
        return;
    }
    TF_ASSERT(tf_hello_judge(&hello) == TF_OK);
    answer(&hello, ours, state);
    if (tf_hello_encode(&hello, first, sizeof(first), &len) != TF_OK) {
        TF_ASSERT(hello.offer.datagram.ciphers == 0);
        return;
    }
    TF_ASSERT(tf_hello_decode(&again, tf_slice_of(first, len)) == TF_OK);
    TF_ASSERT(tf_hello_encode(&again, second, sizeof(second), &len_again) == TF_OK);
    TF_ASSERT(len == len_again && memcmp(first, second, len) == 0);
    if (cap < len) {
        uint8_t *room = tf_test_exact(tf_slice_of(first, cap));
        TF_ASSERT(tf_hello_encode(&hello, room, cap, &len_again) == TF_ERR_LIMIT_BYTES);
        free(room);
    }
}

static void run_welcome(tf_slice payload, const tf_hello *ours, const tf_negotiate_session *state)
{
    tf_welcome welcome;
    tf_agreed agreed;
    if (tf_welcome_decode(&welcome, payload) != TF_OK) {
        return;
    }
    TF_ASSERT(tf_welcome_judge(&welcome) == TF_OK);
    if (tf_negotiate_accept(ours, &welcome, state, &agreed) == TF_OK) {
        TF_ASSERT(agreed.send_routes != 0 && agreed.receive_routes != 0);
        TF_ASSERT(((agreed.send_routes | agreed.receive_routes | agreed.routes) & ~ours->offer.routes) == 0);
        TF_ASSERT(agreed.peer_limits.max_message <= TF_MESSAGE_MAX);
        TF_ASSERT(agreed.peer_limits.max_in_flight <= agreed.peer_limits.max_results);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    tf_hello ours = take_config(&input);
    tf_negotiate_session state = take_session(&input);
    size_t cap = tf_fuzz_u32(&input) % SMALL_CAP;
    ours.offer.resume = (tf_resume){state.resumable, state.session, state.receive_next};
    uint8_t *exact = tf_test_exact(input);
    tf_slice payload = tf_slice_of(exact, input.len);
    run_hello(payload, &ours, &state, cap);
    run_welcome(payload, &ours, &state);
    free(exact);
    return 0;
}
