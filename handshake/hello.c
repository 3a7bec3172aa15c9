#include "handshake/hello.h"

#include <msgpack.h>

#include "proto/mp.h"

#define DEPTH_MAX 8u    /* of a whole payload, unknown keys included */
#define ITEMS_MAX 2048u /* likewise */
#define LITERAL(text) ((tf_slice){(const uint8_t *)(text), sizeof(text) - 1})

_Static_assert(DEPTH_MAX <= TF_MP_DEPTH_MAX, "what the shape check can do");

/* -- names of the members of sets ---------------------------------------------------------------------------------- */

/* The name of a bit; no bytes for one that has none. A set's bits are numbered from 0 without a hole. */
typedef tf_slice name_of_bit(unsigned bit);

static tf_slice route_name(unsigned bit)
{
    switch (bit) {
    case TF_ROUTE_STREAM:
        return LITERAL("stream");
    case TF_ROUTE_DATAGRAM:
        return LITERAL("datagram");
    default:
        return LITERAL("");
    }
}

static tf_slice cipher_name(unsigned bit)
{
    switch (bit) {
#define X(id, number, text)                                                                                            \
    case number:                                                                                                       \
        return LITERAL(text);
        TF_CIPHER_MAP(X)
#undef X
    default:
        return LITERAL("");
    }
}

static tf_slice feature_name(unsigned bit)
{
    switch (bit) {
#define X(id, number, text)                                                                                            \
    case number:                                                                                                       \
        return LITERAL(text);
        TF_FEATURE_MAP(X)
#undef X
    default:
        return LITERAL("");
    }
}

/* The set of one name; empty for one that is not known. */
static uint32_t bit_of(name_of_bit *name_of, tf_slice name)
{
    for (unsigned bit = 0; name_of(bit).len > 0; bit++) {
        if (tf_slice_eq(name_of(bit), name)) {
            return 1u << bit;
        }
    }
    return 0;
}

/* Length of a text in a field of cap bytes. */
static size_t text_len(const char *text, size_t cap)
{
    size_t len = 0;
    while (len < cap && text[len] != '\0') {
        len++;
    }
    return len;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

static int write_bounded(void *ctx, const char *buf, size_t len)
{
    tf_writer *w = ctx;
    tf_wr_bytes(w, tf_slice_of(buf, len));
    return tf_wr_ok(w) ? 0 : -1;
}

/* The results of the pack functions are not asked one by one: the writer remembers that it was full. */
static void pack_text(msgpack_packer *pk, tf_slice text)
{
    (void)msgpack_pack_str(pk, text.len);
    (void)msgpack_pack_str_body(pk, text.data, text.len);
}

static void pack_uint(msgpack_packer *pk, tf_slice key, uint64_t value)
{
    pack_text(pk, key);
    (void)msgpack_pack_uint64(pk, value);
}

static void pack_string(msgpack_packer *pk, tf_slice key, const char *text, size_t max)
{
    pack_text(pk, key);
    pack_text(pk, tf_slice_of(text, text_len(text, max)));
}

static void pack_names(msgpack_packer *pk, tf_slice key, uint32_t set, name_of_bit *name_of)
{
    size_t count = 0;
    for (unsigned bit = 0; name_of(bit).len > 0; bit++) {
        count += set >> bit & 1u;
    }
    pack_text(pk, key);
    (void)msgpack_pack_array(pk, count);
    for (unsigned bit = 0; name_of(bit).len > 0; bit++) {
        if ((set >> bit & 1u) != 0) {
            pack_text(pk, name_of(bit));
        }
    }
}

static void pack_datagram(msgpack_packer *pk, const tf_datagram_offer *offer)
{
    bool host = offer->host[0] != '\0';
    bool port = offer->port != 0;
    uint8_t id[TF_CONNECTION_ID_LEN];
    tf_writer w;
    tf_wr_init(&w, id, sizeof(id));
    tf_wr_u64(&w, offer->connection_id);
    pack_text(pk, LITERAL("datagram"));
    (void)msgpack_pack_map(pk, 2 + (size_t)host + (size_t)port);
    pack_text(pk, LITERAL("connection_id"));
    (void)msgpack_pack_bin(pk, sizeof(id));
    (void)msgpack_pack_bin_body(pk, id, sizeof(id));
    pack_names(pk, LITERAL("ciphers"), offer->ciphers, cipher_name);
    if (host) {
        pack_string(pk, LITERAL("host"), offer->host, TF_HOST_MAX);
    }
    if (port) {
        pack_uint(pk, LITERAL("port"), offer->port);
    }
}

static void pack_limits(msgpack_packer *pk, const tf_peer_limits *limits)
{
    pack_text(pk, LITERAL("limits"));
    (void)msgpack_pack_map(pk, 7);
    pack_uint(pk, LITERAL("max_in_flight"), limits->max_in_flight);
    pack_uint(pk, LITERAL("max_message"), limits->max_message);
    pack_uint(pk, LITERAL("window_bytes"), limits->window_bytes);
    pack_uint(pk, LITERAL("window_segments"), limits->window_segments);
    pack_uint(pk, LITERAL("max_refs"), limits->max_refs);
    pack_uint(pk, LITERAL("max_promises"), limits->max_promises);
    pack_uint(pk, LITERAL("max_results"), limits->max_results);
}

static void pack_resume(msgpack_packer *pk, const tf_resume *resume, bool hello)
{
    pack_text(pk, LITERAL("resume"));
    (void)msgpack_pack_map(pk, hello ? 2 : 1);
    if (hello) {
        pack_uint(pk, LITERAL("session"), resume->session);
    }
    pack_uint(pk, LITERAL("next"), resume->next);
}

/* How many keys pack_offer writes. */
static size_t offer_keys(const tf_offer *offer)
{
    return 8 + (size_t)((offer->routes & TF_ROUTES_DATAGRAM) != 0) + (size_t)offer->resume.present;
}

static void pack_offer(msgpack_packer *pk, const tf_offer *offer, bool hello)
{
    pack_string(pk, LITERAL("software"), offer->software, TF_SOFTWARE_MAX);
    pack_names(pk, LITERAL("features"), offer->features, feature_name);
    pack_names(pk, LITERAL("routes"), offer->routes, route_name);
    pack_text(pk, LITERAL("data"));
    (void)msgpack_pack_map(pk, 2);
    pack_names(pk, LITERAL("up"), offer->data.up, route_name);
    pack_names(pk, LITERAL("down"), offer->data.down, route_name);
    if ((offer->routes & TF_ROUTES_DATAGRAM) != 0) {
        pack_datagram(pk, &offer->datagram);
    }
    pack_limits(pk, &offer->limits);
    pack_uint(pk, LITERAL("keepalive_ms"), offer->keepalive_ms);
    pack_uint(pk, LITERAL("instance"), offer->instance);
    pack_text(pk, LITERAL("exclusive"));
    (void)(offer->exclusive ? msgpack_pack_true(pk) : msgpack_pack_false(pk));
    if (offer->resume.present) {
        pack_resume(pk, &offer->resume, hello);
    }
}

static tf_err pack_end(const tf_writer *w, size_t *len)
{
    if (!tf_wr_ok(w)) {
        return TF_ERR_LIMIT_BYTES;
    }
    *len = tf_wr_len(w);
    return TF_OK;
}

/* A datagram route without a cipher is malformed only when it is ours: a peer may know ciphers that we do not. */
static bool can_be_written(const tf_offer *offer)
{
    return (offer->routes & TF_ROUTES_DATAGRAM) == 0 || (offer->datagram.ciphers & TF_CIPHERS_ALL) != 0;
}

tf_err tf_hello_encode(const tf_hello *hello, uint8_t *buf, size_t cap, size_t *len)
{
    if (tf_hello_judge(hello) != TF_OK || !can_be_written(&hello->offer)) {
        return TF_ERR_USAGE;
    }
    tf_writer w;
    tf_wr_init(&w, buf, cap);
    msgpack_packer pk;
    msgpack_packer_init(&pk, &w, write_bounded);
    (void)msgpack_pack_map(&pk, 1 + offer_keys(&hello->offer));
    pack_text(&pk, LITERAL("versions"));
    (void)msgpack_pack_array(&pk, hello->version_count);
    for (size_t i = 0; i < hello->version_count; i++) {
        (void)msgpack_pack_uint32(&pk, hello->versions[i]);
    }
    pack_offer(&pk, &hello->offer, true);
    return pack_end(&w, len);
}

tf_err tf_welcome_encode(const tf_welcome *welcome, uint8_t *buf, size_t cap, size_t *len)
{
    if (tf_welcome_judge(welcome) != TF_OK || !can_be_written(&welcome->offer)) {
        return TF_ERR_USAGE;
    }
    tf_writer w;
    tf_wr_init(&w, buf, cap);
    msgpack_packer pk;
    msgpack_packer_init(&pk, &w, write_bounded);
    (void)msgpack_pack_map(&pk, 3 + offer_keys(&welcome->offer));
    pack_uint(&pk, LITERAL("version"), welcome->version);
    pack_offer(&pk, &welcome->offer, false);
    pack_uint(&pk, LITERAL("generation"), welcome->generation);
    pack_uint(&pk, LITERAL("session"), welcome->session);
    return pack_end(&w, len);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* A map, and whether anything asked of it so far was malformed. */
typedef struct map_reader {
    const msgpack_object_map *map;
    bool bad;
} map_reader;

static tf_slice text_of(const msgpack_object *value)
{
    return tf_slice_of(value->via.str.ptr, value->via.str.size);
}

/* Every key a text, none twice. */
static bool keys_are_valid(const msgpack_object_map *map)
{
    if (map->size > TF_KEYS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < map->size; i++) {
        if (map->ptr[i].key.type != MSGPACK_OBJECT_STR) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (tf_slice_eq(text_of(&map->ptr[i].key), text_of(&map->ptr[k].key))) {
                return false;
            }
        }
    }
    return true;
}

static void map_open(map_reader *m, const msgpack_object *value)
{
    *m = (map_reader){NULL, true};
    if (value->type == MSGPACK_OBJECT_MAP && keys_are_valid(&value->via.map)) {
        *m = (map_reader){&value->via.map, false};
    }
}

/* The value of a key of that type; NULL when it is not there (or, and then the reader is bad, of another type). */
static const msgpack_object *take(map_reader *m, tf_slice key, msgpack_object_type type)
{
    for (uint32_t i = 0; !m->bad && i < m->map->size; i++) {
        if (tf_slice_eq(text_of(&m->map->ptr[i].key), key)) {
            const msgpack_object *value = &m->map->ptr[i].val;
            m->bad = value->type != type;
            return m->bad ? NULL : value;
        }
    }
    return NULL;
}

static bool take_uint(map_reader *m, tf_slice key, uint64_t max, uint64_t *out)
{
    const msgpack_object *value = take(m, key, MSGPACK_OBJECT_POSITIVE_INTEGER);
    if (value == NULL) {
        return false;
    }
    m->bad = value->via.u64 > max;
    *out = value->via.u64;
    return !m->bad;
}

static void read_uint(map_reader *m, tf_slice key, uint64_t max, uint64_t *out)
{
    if (!take_uint(m, key, max, out)) {
        m->bad = true;
    }
}

/* In what follows: read_ is for keys that must be there; take_ leaves *out as it is when the key is not. */

/* A limit that is larger than the field is as good as the largest. */
static void take_limit(map_reader *m, tf_slice key, uint32_t *out)
{
    uint64_t value = *out;
    if (take_uint(m, key, UINT64_MAX, &value)) {
        *out = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    }
}

/* out has room for max + 1 bytes. */
static void take_text(map_reader *m, tf_slice key, size_t max, char *out)
{
    const msgpack_object *value = take(m, key, MSGPACK_OBJECT_STR);
    if (value == NULL) {
        return;
    }
    tf_slice text = text_of(value);
    if (text.len > max) {
        m->bad = true;
        return;
    }
    if (text.len > 0) {
        memcpy(out, text.data, text.len);
    }
    out[text.len] = '\0';
    m->bad = text_len(out, max) != text.len; /* a NUL in it */
}

static bool take_names(map_reader *m, tf_slice key, name_of_bit *name_of, uint32_t *out)
{
    const msgpack_object *value = take(m, key, MSGPACK_OBJECT_ARRAY);
    if (value == NULL) {
        return false;
    }
    uint32_t set = 0;
    m->bad = value->via.array.size > TF_NAMES_MAX;
    for (uint32_t i = 0; !m->bad && i < value->via.array.size; i++) {
        const msgpack_object *name = &value->via.array.ptr[i];
        m->bad = name->type != MSGPACK_OBJECT_STR || name->via.str.size > TF_NAME_MAX;
        set |= m->bad ? 0 : bit_of(name_of, text_of(name));
    }
    *out = set;
    return !m->bad;
}

static void read_versions(map_reader *m, tf_hello *out)
{
    const msgpack_object *value = take(m, LITERAL("versions"), MSGPACK_OBJECT_ARRAY);
    if (value == NULL || value->via.array.size > TF_VERSIONS_MAX) {
        m->bad = true;
        return;
    }
    out->version_count = value->via.array.size;
    for (uint32_t i = 0; i < value->via.array.size; i++) {
        const msgpack_object *version = &value->via.array.ptr[i];
        if (version->type != MSGPACK_OBJECT_POSITIVE_INTEGER || version->via.u64 > TF_VERSION_MAX) {
            m->bad = true;
            return;
        }
        out->versions[i] = (uint32_t)version->via.u64;
    }
}

static void take_routes(map_reader *m, tf_slice key, tf_routes *out)
{
    uint32_t set = *out;
    (void)take_names(m, key, route_name, &set);
    *out = (tf_routes)set;
}

static void take_data(map_reader *m, tf_data_routes *out)
{
    const msgpack_object *value = take(m, LITERAL("data"), MSGPACK_OBJECT_MAP);
    if (value == NULL) {
        return;
    }
    map_reader data;
    map_open(&data, value);
    take_routes(&data, LITERAL("up"), &out->up);
    take_routes(&data, LITERAL("down"), &out->down);
    m->bad = data.bad;
}

static void read_connection_id(map_reader *m, uint64_t *out)
{
    const msgpack_object *value = take(m, LITERAL("connection_id"), MSGPACK_OBJECT_BIN);
    if (value == NULL || value->via.bin.size != TF_CONNECTION_ID_LEN) {
        m->bad = true;
        return;
    }
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(value->via.bin.ptr, value->via.bin.size));
    *out = tf_rd_u64(&r);
}

static void read_datagram(map_reader *m, tf_datagram_offer *out)
{
    const msgpack_object *value = take(m, LITERAL("datagram"), MSGPACK_OBJECT_MAP);
    if (value == NULL) {
        m->bad = true; /* only asked for when the route is offered */
        return;
    }
    map_reader datagram;
    uint32_t ciphers = 0;
    uint64_t port = 0;
    map_open(&datagram, value);
    read_connection_id(&datagram, &out->connection_id);
    if (!take_names(&datagram, LITERAL("ciphers"), cipher_name, &ciphers)) {
        datagram.bad = true;
    }
    take_text(&datagram, LITERAL("host"), TF_HOST_MAX, out->host);
    (void)take_uint(&datagram, LITERAL("port"), UINT16_MAX, &port);
    out->ciphers = (tf_ciphers)ciphers;
    out->port = (uint16_t)port;
    m->bad = datagram.bad;
}

static void take_limits(map_reader *m, tf_peer_limits *out)
{
    const msgpack_object *value = take(m, LITERAL("limits"), MSGPACK_OBJECT_MAP);
    if (value == NULL) {
        return;
    }
    map_reader limits;
    map_open(&limits, value);
    take_limit(&limits, LITERAL("max_in_flight"), &out->max_in_flight);
    take_limit(&limits, LITERAL("max_message"), &out->max_message);
    take_limit(&limits, LITERAL("window_bytes"), &out->window_bytes);
    take_limit(&limits, LITERAL("window_segments"), &out->window_segments);
    take_limit(&limits, LITERAL("max_refs"), &out->max_refs);
    take_limit(&limits, LITERAL("max_promises"), &out->max_promises);
    take_limit(&limits, LITERAL("max_results"), &out->max_results);
    m->bad = limits.bad;
}

static void take_resume(map_reader *m, bool hello, tf_resume *out)
{
    const msgpack_object *value = take(m, LITERAL("resume"), MSGPACK_OBJECT_MAP);
    if (value == NULL) {
        return;
    }
    map_reader resume;
    map_open(&resume, value);
    if (hello) {
        read_uint(&resume, LITERAL("session"), UINT64_MAX, &out->session);
    }
    read_uint(&resume, LITERAL("next"), UINT64_MAX, &out->next);
    out->present = true;
    m->bad = resume.bad;
}

static void take_keepalive(map_reader *m, uint32_t *out)
{
    uint64_t value = *out;
    (void)take_uint(m, LITERAL("keepalive_ms"), UINT32_MAX, &value);
    *out = (uint32_t)value;
}

static void take_exclusive(map_reader *m, bool *out)
{
    const msgpack_object *value = take(m, LITERAL("exclusive"), MSGPACK_OBJECT_BOOLEAN);
    *out = value != NULL && value->via.boolean;
}

static void read_offer(map_reader *m, bool hello, tf_offer *out)
{
    uint32_t routes = 0;
    tf_offer_init(out);
    take_text(m, LITERAL("software"), TF_SOFTWARE_MAX, out->software);
    (void)take_names(m, LITERAL("features"), feature_name, &out->features);
    if (!take_names(m, LITERAL("routes"), route_name, &routes)) {
        m->bad = true;
    }
    out->routes = (tf_routes)routes;
    out->data = (tf_data_routes){out->routes, out->routes};
    take_data(m, &out->data);
    if ((out->routes & TF_ROUTES_DATAGRAM) != 0) {
        read_datagram(m, &out->datagram);
    }
    take_limits(m, &out->limits);
    take_keepalive(m, &out->keepalive_ms);
    read_uint(m, LITERAL("instance"), UINT64_MAX, &out->instance);
    take_exclusive(m, &out->exclusive);
    take_resume(m, hello, &out->resume);
}

/* Unpacks what has passed the shape check. The zone is msgpack-c's own memory, at most 48 bytes an item. */
static tf_err unpack(msgpack_unpacked *unpacked, tf_slice payload)
{
    if (payload.len > TF_FRAME_PAYLOAD_MAX || tf_mp_check(payload, DEPTH_MAX, ITEMS_MAX) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    size_t offset = 0;
    msgpack_unpack_return got = msgpack_unpack_next(unpacked, (const char *)payload.data, payload.len, &offset);
    if (got == MSGPACK_UNPACK_NOMEM_ERROR) {
        return TF_ERR_NOMEM;
    }
    return got == MSGPACK_UNPACK_SUCCESS && offset == payload.len ? TF_OK : TF_ERR_PEER_SYNTAX;
}

static tf_err hello_read(const msgpack_object *value, tf_hello *out)
{
    map_reader m;
    map_open(&m, value);
    read_versions(&m, out);
    read_offer(&m, true, &out->offer);
    return m.bad ? TF_ERR_PEER_SYNTAX : tf_hello_judge(out);
}

static tf_err welcome_read(const msgpack_object *value, tf_welcome *out)
{
    uint64_t version = 0;
    map_reader m;
    map_open(&m, value);
    read_uint(&m, LITERAL("version"), TF_VERSION_MAX, &version);
    read_offer(&m, false, &out->offer);
    read_uint(&m, LITERAL("generation"), TF_GENERATION_MAX, &out->generation);
    read_uint(&m, LITERAL("session"), UINT64_MAX, &out->session);
    out->version = (uint32_t)version;
    return m.bad ? TF_ERR_PEER_SYNTAX : tf_welcome_judge(out);
}

tf_err tf_hello_decode(tf_hello *out, tf_slice payload)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    tf_hello hello = {0};
    tf_err err = unpack(&unpacked, payload);
    err = err != TF_OK ? err : hello_read(&unpacked.data, &hello);
    msgpack_unpacked_destroy(&unpacked);
    if (err == TF_OK) {
        *out = hello;
    }
    return err;
}

tf_err tf_welcome_decode(tf_welcome *out, tf_slice payload)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    tf_welcome welcome = {0};
    tf_err err = unpack(&unpacked, payload);
    err = err != TF_OK ? err : welcome_read(&unpacked.data, &welcome);
    msgpack_unpacked_destroy(&unpacked);
    if (err == TF_OK) {
        *out = welcome;
    }
    return err;
}
