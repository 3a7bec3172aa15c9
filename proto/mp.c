#include "proto/mp.h"

/* The formats 0xc0 to 0xdf: the type, and how many bytes of number, length or count follow. A type of TF_MP_END is
 * refused: 0xc1 is never used, the others are ext types. */
typedef struct mp_format {
    uint8_t type;
    uint8_t width;
} mp_format;

static const mp_format formats[32] = {
    {TF_MP_NIL, 0},  {TF_MP_END, 0},  {TF_MP_BOOL, 0}, {TF_MP_BOOL, 0}, {TF_MP_BIN, 1},   {TF_MP_BIN, 2},
    {TF_MP_BIN, 4},  {TF_MP_END, 0},  {TF_MP_END, 0},  {TF_MP_END, 0},  {TF_MP_FLOAT, 4}, {TF_MP_FLOAT, 8},
    {TF_MP_UINT, 1}, {TF_MP_UINT, 2}, {TF_MP_UINT, 4}, {TF_MP_UINT, 8}, {TF_MP_INT, 1},   {TF_MP_INT, 2},
    {TF_MP_INT, 4},  {TF_MP_INT, 8},  {TF_MP_END, 0},  {TF_MP_END, 0},  {TF_MP_END, 0},   {TF_MP_END, 0},
    {TF_MP_END, 0},  {TF_MP_STR, 1},  {TF_MP_STR, 2},  {TF_MP_STR, 4},  {TF_MP_ARRAY, 2}, {TF_MP_ARRAY, 4},
    {TF_MP_MAP, 2},  {TF_MP_MAP, 4},
};

/* The head of a value: everything but the bytes of a string and the elements of a container. */
typedef struct mp_head {
    tf_mp_type type;
    uint64_t value; /* UINT, BOOL: the value; INT: its two's complement; STR, BIN: bytes; ARRAY, MAP: elements, pairs */
} mp_head;

static mp_head head_of_fix(uint8_t byte)
{
    if (byte < 0x80) {
        return (mp_head){TF_MP_UINT, byte};
    }
    if (byte < 0x90) {
        return (mp_head){TF_MP_MAP, byte & 0x0fu};
    }
    if (byte < 0xa0) {
        return (mp_head){TF_MP_ARRAY, byte & 0x0fu};
    }
    if (byte < 0xc0) {
        return (mp_head){TF_MP_STR, byte & 0x1fu};
    }
    return (mp_head){TF_MP_INT, UINT64_MAX << 8 | byte}; /* 0xe0 to 0xff: -32 to -1 */
}

static uint64_t rd_width(tf_reader *r, uint8_t width)
{
    switch (width) {
    case 1:
        return tf_rd_u8(r);
    case 2:
        return tf_rd_u16(r);
    case 4:
        return tf_rd_u32(r);
    case 8:
        return tf_rd_u64(r);
    default:
        return 0;
    }
}

/* Reads a head; type TF_MP_END and a bad reader when there is none. */
static mp_head rd_head(tf_reader *r)
{
    uint8_t byte = tf_rd_u8(r);
    if (!tf_rd_ok(r)) {
        return (mp_head){TF_MP_END, 0};
    }
    if (byte < 0xc0 || byte > 0xdf) {
        return head_of_fix(byte);
    }
    mp_format format = formats[byte - 0xc0];
    mp_head head = {(tf_mp_type)format.type, rd_width(r, format.width)};
    if (head.type == TF_MP_END) {
        tf_rd_fail(r);
    } else if (head.type == TF_MP_BOOL) {
        head.value = byte & 1u;
    } else if (head.type == TF_MP_INT) {
        uint64_t sign = (uint64_t)1 << (8 * format.width - 1);
        head.type = (head.value & sign) != 0 ? TF_MP_INT : TF_MP_UINT;
        head.value = (head.value ^ sign) - sign;
    }
    if (!tf_rd_ok(r)) {
        return (mp_head){TF_MP_END, 0};
    }
    return head;
}

/* Reads a head that must be of that type and of at most max. */
static uint64_t rd_typed(tf_reader *r, tf_mp_type type, uint64_t max)
{
    mp_head head = rd_head(r);
    if (head.type != type || head.value > max) {
        tf_rd_fail(r);
        return 0;
    }
    return head.value;
}

/* Reads a head and the bytes of a string; gives the number of values that follow as its elements. */
static uint64_t walk_one(tf_reader *r, bool *container)
{
    mp_head head = rd_head(r);
    *container = head.type == TF_MP_ARRAY || head.type == TF_MP_MAP;
    if (head.type == TF_MP_STR || head.type == TF_MP_BIN) {
        (void)tf_rd_bytes(r, (size_t)head.value);
    }
    if (!*container) {
        return 0;
    }
    uint64_t values = head.type == TF_MP_MAP ? 2 * head.value : head.value;
    if (values > tf_rd_left(r)) { /* each takes at least one byte */
        tf_rd_fail(r);
        return 0;
    }
    return values;
}

/* Walks over exactly one value; the reader is bad afterwards if it has not the right shape. */
static void walk(tf_reader *r, size_t max_depth, size_t max_items)
{
    uint64_t open[TF_MP_DEPTH_MAX]; /* values still to come in each open container */
    size_t depth = 0;
    for (size_t items = 0; items < max_items; items++) {
        bool container = false;
        uint64_t values = walk_one(r, &container);
        if (!tf_rd_ok(r) || (container && depth == max_depth)) {
            tf_rd_fail(r);
            return;
        }
        if (values > 0) {
            open[depth++] = values;
            continue;
        }
        while (depth > 0 && --open[depth - 1] == 0) {
            depth--;
        }
        if (depth == 0) {
            return;
        }
    }
    tf_rd_fail(r);
}

tf_err tf_mp_check(tf_slice in, size_t max_depth, size_t max_items)
{
    TF_ASSERT(max_depth <= TF_MP_DEPTH_MAX);
    tf_reader r;
    tf_rd_init(&r, in);
    walk(&r, max_depth, max_items);
    return tf_rd_end(&r);
}

tf_mp_type tf_mp_peek(const tf_reader *r)
{
    tf_reader ahead = *r;
    return rd_head(&ahead).type;
}

uint64_t tf_mp_rd_uint(tf_reader *r)
{
    if (tf_rd_left(r) > 0 && *r->at < 0x80) {
        return tf_rd_u8(r); /* most of them */
    }
    return rd_typed(r, TF_MP_UINT, UINT64_MAX);
}

int64_t tf_mp_rd_int(tf_reader *r)
{
    mp_head head = rd_head(r);
    if (head.type == TF_MP_INT) {
        return -(int64_t)~head.value - 1; /* -1 - ~v is v in two's complement, and never overflows */
    }
    if (head.type != TF_MP_UINT || head.value > INT64_MAX) {
        tf_rd_fail(r);
        return 0;
    }
    return (int64_t)head.value;
}

bool tf_mp_rd_bool(tf_reader *r)
{
    return rd_typed(r, TF_MP_BOOL, 1) != 0;
}

void tf_mp_rd_nil(tf_reader *r)
{
    (void)rd_typed(r, TF_MP_NIL, 0);
}

tf_slice tf_mp_rd_str(tf_reader *r, size_t max)
{
    return tf_rd_bytes(r, (size_t)rd_typed(r, TF_MP_STR, max));
}

tf_slice tf_mp_rd_bin(tf_reader *r, size_t max)
{
    return tf_rd_bytes(r, (size_t)rd_typed(r, TF_MP_BIN, max));
}

size_t tf_mp_rd_array(tf_reader *r, size_t max)
{
    size_t count = (size_t)rd_typed(r, TF_MP_ARRAY, max);
    if (count > tf_rd_left(r)) {
        tf_rd_fail(r);
        return 0;
    }
    return count;
}

size_t tf_mp_rd_map(tf_reader *r, size_t max)
{
    size_t pairs = (size_t)rd_typed(r, TF_MP_MAP, max);
    if (pairs > tf_rd_left(r) / 2) {
        tf_rd_fail(r);
        return 0;
    }
    return pairs;
}

void tf_mp_skip(tf_reader *r)
{
    walk(r, TF_MP_DEPTH_MAX, SIZE_MAX);
}

tf_slice tf_mp_rd_raw(tf_reader *r)
{
    const uint8_t *start = r->at;
    tf_mp_skip(r);
    return tf_rd_ok(r) ? tf_slice_of(start, (size_t)(r->at - start)) : tf_slice_of(r->end, 0);
}

void tf_mp_wr_nil(tf_writer *w)
{
    tf_wr_u8(w, 0xc0);
}

void tf_mp_wr_bool(tf_writer *w, bool value)
{
    tf_wr_u8(w, value ? 0xc3 : 0xc2);
}

/* `first` is the format byte of the narrowest form; the wider ones follow it. */
static void wr_sized(tf_writer *w, uint8_t first, size_t value)
{
    TF_ASSERT(value <= UINT32_MAX);
    if (value <= UINT8_MAX) {
        tf_wr_u8(w, first);
        tf_wr_u8(w, (uint8_t)value);
    } else if (value <= UINT16_MAX) {
        tf_wr_u8(w, (uint8_t)(first + 1));
        tf_wr_u16(w, (uint16_t)value);
    } else {
        tf_wr_u8(w, (uint8_t)(first + 2));
        tf_wr_u32(w, (uint32_t)value);
    }
}

void tf_mp_wr_uint(tf_writer *w, uint64_t value)
{
    if (value <= 0x7f) {
        tf_wr_u8(w, (uint8_t)value);
    } else if (value <= UINT32_MAX) {
        wr_sized(w, 0xcc, (size_t)value);
    } else {
        tf_wr_u8(w, 0xcf);
        tf_wr_u64(w, value);
    }
}

void tf_mp_wr_int(tf_writer *w, int64_t value)
{
    if (value >= 0) {
        tf_mp_wr_uint(w, (uint64_t)value);
    } else if (value >= -32) {
        tf_wr_u8(w, (uint8_t)value);
    } else if (value >= INT8_MIN) {
        tf_wr_u8(w, 0xd0);
        tf_wr_u8(w, (uint8_t)value);
    } else if (value >= INT16_MIN) {
        tf_wr_u8(w, 0xd1);
        tf_wr_u16(w, (uint16_t)value);
    } else if (value >= INT32_MIN) {
        tf_wr_u8(w, 0xd2);
        tf_wr_u32(w, (uint32_t)value);
    } else {
        tf_wr_u8(w, 0xd3);
        tf_wr_u64(w, (uint64_t)value);
    }
}

void tf_mp_wr_long_str(tf_writer *w, tf_slice text)
{
    wr_sized(w, 0xd9, text.len);
    tf_wr_bytes(w, text);
}

void tf_mp_wr_bin(tf_writer *w, tf_slice bytes)
{
    wr_sized(w, 0xc4, bytes.len);
    tf_wr_bytes(w, bytes);
}

/* A container has a short form for up to 15 and no form with one byte of count. */
static void wr_container(tf_writer *w, uint8_t fix, uint8_t wide, size_t count)
{
    TF_ASSERT(count <= UINT32_MAX);
    if (count < 16) {
        tf_wr_u8(w, (uint8_t)(fix | count));
    } else if (count <= UINT16_MAX) {
        tf_wr_u8(w, wide);
        tf_wr_u16(w, (uint16_t)count);
    } else {
        tf_wr_u8(w, (uint8_t)(wide + 1));
        tf_wr_u32(w, (uint32_t)count);
    }
}

void tf_mp_wr_array(tf_writer *w, size_t count)
{
    wr_container(w, 0x90, 0xdc, count);
}

void tf_mp_wr_map(tf_writer *w, size_t pairs)
{
    wr_container(w, 0x80, 0xde, pairs);
}

/* What must follow the first byte of a character (RFC 3629 §4): `bytes` bytes, the first of them in low..high, the others
 * in 0x80..0xbf. */
typedef struct utf8_tail {
    size_t bytes;
    uint8_t low;
    uint8_t high;
} utf8_tail;

/* False when no character starts with that byte. */
static bool utf8_tail_of(uint8_t first, utf8_tail *tail)
{
    *tail = (utf8_tail){first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3, 0x80, 0xbf};
    if (first == 0xe0) {
        tail->low = 0xa0; /* no longer form of a shorter one */
    } else if (first == 0xed) {
        tail->high = 0x9f; /* no surrogates */
    } else if (first == 0xf0) {
        tail->low = 0x90;
    } else if (first == 0xf4) {
        tail->high = 0x8f; /* nothing above U+10FFFF */
    }
    return first < 0x80 || (first >= 0xc2 && first <= 0xf4);
}

/* The bytes of the character that text starts with; 0 when it is none. */
static size_t utf8_char(tf_slice text)
{
    utf8_tail tail;
    if (!utf8_tail_of(text.data[0], &tail) || tail.bytes > text.len - 1) {
        return 0;
    }
    for (size_t i = 1; i <= tail.bytes; i++) {
        if (text.data[i] < tail.low || text.data[i] > tail.high) {
            return 0;
        }
        tail.low = 0x80;
        tail.high = 0xbf;
    }
    return 1 + tail.bytes;
}

bool tf_utf8_is_valid(tf_slice text)
{
    while (text.len > 0) {
        size_t len = utf8_char(text);
        if (len == 0) {
            return false;
        }
        text = tf_slice_of(text.data + len, text.len - len);
    }
    return true;
}
