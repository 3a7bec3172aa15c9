#include "node/store/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#define PIECE ((size_t)256 * 1024)
#define SUM_BYTES 32u

static void to_hex(const uint8_t *bytes, char out[TF_SUM_TEXT])
{
    for (size_t i = 0; i < SUM_BYTES; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

static bool sum_of(tf_slice bytes, char out[TF_SUM_TEXT])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (EVP_Digest(bytes.data, bytes.len, sum, &len, EVP_sha256(), NULL) != 1 || len != SUM_BYTES) {
        return false;
    }
    to_hex(sum, out);
    return true;
}

/* -- the text ------------------------------------------------------------------------------------------------------ */

size_t tf_manifest_format(const tf_manifest *m, char out[TF_MANIFEST_MAX])
{
    char sum[TF_SUM_TEXT];
    int len = snprintf(out, TF_MANIFEST_MAX,
                       "twofold-backup %u\ntwofold %s\ncreated %s\napplied-lsn %" PRIu64 "\nchannels %" PRIu64
                       "\nmessages %" PRIu64 "\nfile %s %" PRIu64 " %s\n",
                       TF_MANIFEST_VERSION, m->twofold, m->created, m->applied_lsn, m->channels, m->messages,
                       TF_MANIFEST_DB, m->size, m->sum);
    TF_ASSERT(len > 0 && (size_t)len < TF_MANIFEST_MAX - 2 * TF_SUM_TEXT);
    bool summed = sum_of(tf_slice_of(out, (size_t)len), sum);
    TF_ASSERT(summed); /* SHA-256 of a short text */
    return (size_t)len + (size_t)snprintf(out + len, TF_MANIFEST_MAX - (size_t)len, "sum %s\n", sum);
}

/* What is left to be parsed; bad: it was not as it should be. */
typedef struct text {
    tf_slice rest;
    bool bad;
} text;

static void expect(text *t, const char *what)
{
    tf_slice word = tf_slice_str(what);
    t->bad = t->bad || t->rest.len < word.len || !tf_slice_eq(tf_slice_of(t->rest.data, word.len), word);
    if (!t->bad) {
        t->rest = tf_slice_of(t->rest.data + word.len, t->rest.len - word.len);
    }
}

/* Up to that byte, which is passed over; printable and shorter than cap. */
static void take(text *t, char end, char *out, size_t cap)
{
    size_t len = 0;
    while (!t->bad && len < t->rest.len && t->rest.data[len] != (uint8_t)end) {
        t->bad = len + 1 >= cap || t->rest.data[len] <= 0x20 || t->rest.data[len] > 0x7e;
        len += t->bad ? 0 : 1;
    }
    t->bad = t->bad || len == 0 || len == t->rest.len;
    out[0] = '\0';
    if (!t->bad) {
        memcpy(out, t->rest.data, len);
        out[len] = '\0';
        t->rest = tf_slice_of(t->rest.data + len + 1, t->rest.len - len - 1);
    }
}

static uint64_t take_number(text *t, char end)
{
    char digits[20];
    uint64_t value = 0;
    take(t, end, digits, sizeof(digits));
    for (const char *at = digits; *at != '\0'; at++) {
        t->bad = t->bad || *at < '0' || *at > '9';
        value = value * 10 + (uint64_t)(*at - '0');
    }
    return t->bad ? 0 : value;
}

static void take_sum(text *t, char out[TF_SUM_TEXT])
{
    take(t, '\n', out, TF_SUM_TEXT);
    t->bad = t->bad || strspn(out, "0123456789abcdef") != TF_SUM_TEXT - 1;
}

static tf_err is_none(char why[TF_WHY_MAX])
{
    (void)tf_why(why, "the %s is damaged, or no manifest of a backup", TF_MANIFEST_NAME);
    return TF_ERR_DAMAGED;
}

tf_err tf_manifest_parse(tf_manifest *out, tf_slice bytes, char why[TF_WHY_MAX])
{
    text t = {.rest = bytes};
    char sum[TF_SUM_TEXT];
    char own[TF_SUM_TEXT];
    expect(&t, "twofold-backup ");
    uint64_t version = take_number(&t, '\n');
    if (!t.bad && version > TF_MANIFEST_VERSION) {
        return tf_why(why, "the backup has version %" PRIu64 ", this program knows versions up to %u", version,
                      TF_MANIFEST_VERSION);
    }
    t.bad = t.bad || version != TF_MANIFEST_VERSION;
    expect(&t, "twofold ");
    take(&t, '\n', out->twofold, sizeof(out->twofold));
    expect(&t, "created ");
    take(&t, '\n', out->created, sizeof(out->created));
    expect(&t, "applied-lsn ");
    out->applied_lsn = take_number(&t, '\n');
    expect(&t, "channels ");
    out->channels = take_number(&t, '\n');
    expect(&t, "messages ");
    out->messages = take_number(&t, '\n');
    expect(&t, "file " TF_MANIFEST_DB " ");
    out->size = take_number(&t, ' ');
    take_sum(&t, out->sum);
    size_t summed = bytes.len - t.rest.len;
    expect(&t, "sum ");
    take_sum(&t, sum);
    if (t.bad || t.rest.len != 0 || !sum_of(tf_slice_of(bytes.data, summed), own) || strcmp(sum, own) != 0) {
        return is_none(why);
    }
    return TF_OK;
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

typedef struct source {
    const tf_files *files;
    tf_file *file;
    const tf_files *to_files;
    tf_file *to;
} source;

static tf_err sum_pieces(const source *s, EVP_MD_CTX *hash, uint8_t *piece, uint64_t *size)
{
    size_t got = PIECE;
    *size = 0;
    while (got == PIECE) {
        tf_err err = tf_files_read(s->files, s->file, *size, piece, PIECE, &got);
        if (err == TF_OK && got > 0 && s->to != NULL) {
            err = tf_files_write(s->to_files, s->to, *size, tf_slice_of(piece, got));
        }
        if (err != TF_OK) {
            return err;
        }
        if (EVP_DigestUpdate(hash, piece, got) != 1) {
            return TF_ERR_CRYPTO;
        }
        *size += got;
    }
    return TF_OK;
}

tf_err tf_manifest_sum(const tf_files *files, const char *name, const tf_files *to_files, tf_file *to, tf_manifest *out)
{
    source s = {.files = files, .to_files = to_files, .to = to};
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    uint8_t *piece = malloc(PIECE);
    uint8_t sum[EVP_MAX_MD_SIZE];
    tf_err err = hash == NULL || piece == NULL ? TF_ERR_NOMEM : tf_files_open(files, name, TF_FILE_READ, &s.file);
    if (err == TF_OK && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        err = TF_ERR_CRYPTO;
    }
    if (err == TF_OK) {
        err = sum_pieces(&s, hash, piece, &out->size);
    }
    if (err == TF_OK && EVP_DigestFinal_ex(hash, sum, NULL) != 1) {
        err = TF_ERR_CRYPTO;
    }
    if (err == TF_OK) {
        to_hex(sum, out->sum);
    }
    tf_files_close(files, s.file);
    free(piece);
    EVP_MD_CTX_free(hash);
    return err;
}
