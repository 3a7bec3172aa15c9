#include "tests/support/protocol_md.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FENCE "```"
#define OPENING "```hex "

typedef struct doc_reader {
    FILE *file;
    char line[1024]; /* without its newline */
    unsigned number;
} doc_reader;

_Noreturn static void fail(const doc_reader *doc, const char *what)
{
    (void)fprintf(stderr, "%s:%u: %s\n", TF_PROTOCOL_MD, doc->number, what);
    abort();
}

static void doc_open(doc_reader *doc)
{
    *doc = (doc_reader){.file = fopen(TF_PROTOCOL_MD, "r")};
    if (doc->file == NULL) {
        fail(doc, "cannot be opened");
    }
}

static bool doc_line(doc_reader *doc)
{
    if (fgets(doc->line, sizeof(doc->line), doc->file) == NULL) {
        return false;
    }
    doc->number++;
    size_t len = strlen(doc->line);
    if (len == 0 || doc->line[len - 1] != '\n') {
        fail(doc, "a line is too long or has no end");
    }
    doc->line[len - 1] = '\0';
    return true;
}

/* Goes to the next hex block; its name is then in `name`. */
static bool doc_next_block(doc_reader *doc, char name[TF_DOC_NAME_MAX])
{
    do {
        if (!doc_line(doc)) {
            return false;
        }
    } while (strncmp(doc->line, OPENING, sizeof(OPENING) - 1) != 0);
    int len = snprintf(name, TF_DOC_NAME_MAX, "%s", doc->line + sizeof(OPENING) - 1);
    if (len <= 0 || (size_t)len >= TF_DOC_NAME_MAX) {
        fail(doc, "a name is empty or too long");
    }
    return true;
}

static unsigned hex_digit(const doc_reader *doc, char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    if (at == NULL) {
        fail(doc, "not a pair of lower-case hex digits");
    }
    return (unsigned)(at - digits);
}

/* Appends the bytes of one line; false when they do not fit. */
static bool line_bytes(const doc_reader *doc, uint8_t *buf, size_t cap, size_t *len)
{
    const char *at = doc->line;
    while (*at != '\0' && *at != '#') {
        if (*at == ' ') {
            at++;
            continue;
        }
        unsigned value = hex_digit(doc, at[0]) * 16;
        value += hex_digit(doc, at[1]);
        if (*len == cap) {
            return false;
        }
        buf[(*len)++] = (uint8_t)value;
        at += 2;
    }
    return true;
}

/* Reads the block that was just opened, to its end. */
static bool block_bytes(doc_reader *doc, uint8_t *buf, size_t cap, size_t *len)
{
    bool fits = true;
    *len = 0;
    while (doc_line(doc)) {
        if (strcmp(doc->line, FENCE) == 0) {
            return fits;
        }
        fits = line_bytes(doc, buf, cap, len) && fits;
    }
    fail(doc, "the last block is not closed");
}

bool tf_doc_block(const char *name, uint8_t *buf, size_t cap, size_t *len)
{
    doc_reader doc;
    char found[TF_DOC_NAME_MAX];
    bool seen = false;
    bool fits = false;
    doc_open(&doc);
    while (doc_next_block(&doc, found)) {
        if (strcmp(found, name) != 0) {
            continue;
        }
        if (seen) {
            fail(&doc, "a name occurs twice");
        }
        seen = true;
        fits = block_bytes(&doc, buf, cap, len);
    }
    (void)fclose(doc.file);
    return seen && fits;
}

bool tf_doc_block_name(size_t index, char name[TF_DOC_NAME_MAX])
{
    doc_reader doc;
    bool found = false;
    doc_open(&doc);
    for (size_t i = 0; i <= index; i++) {
        found = doc_next_block(&doc, name);
    }
    (void)fclose(doc.file);
    return found;
}
