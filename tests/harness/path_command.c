#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "tests/harness/path.h"

#define WORDS_MAX 3

/* Both ways, or the one that is named; false: there is none of that name. */
static bool ways_of(const char *word, size_t *first, size_t *last)
{
    *first = 0;
    *last = TF_PATH_WAYS - 1;
    if (word == NULL) {
        return true;
    }
    if (strcmp(word, "ab") == 0) {
        *last = 0;
    } else if (strcmp(word, "ba") == 0) {
        *first = 1;
    } else {
        return false;
    }
    return true;
}

static bool number_of(const char *word, double max, double scale, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(word, &end);
    if (errno != 0 || end == word || *end != '\0' || !(number >= 0 && number <= max)) {
        return false;
    }
    *value = (uint64_t)(number * scale + 0.5);
    return true;
}

static bool set(tf_path_way ways[TF_PATH_WAYS], char *const words[WORDS_MAX])
{
    static const struct {
        const char *name;
        double max;
        double scale;
    } rows[TF_PATH_FAULTS] = {
        [TF_PATH_DELAY] = {"delay", TF_PATH_DELAY_MAX_MS, 1e6},
        [TF_PATH_JITTER] = {"jitter", TF_PATH_DELAY_MAX_MS, 1e6},
        [TF_PATH_LOSS] = {"loss", 100, 1e4},
        [TF_PATH_BURST] = {"burst", 1000, 1},
        [TF_PATH_REPEAT] = {"repeat", 100, 1e4},
        [TF_PATH_RATE] = {"rate", 1e8, 1e3},
        [TF_PATH_QUEUE] = {"queue", TF_PATH_BYTES_MAX, 1},
        [TF_PATH_BLOAT] = {"bloat", TF_PATH_DELAY_MAX_MS, 1e6},
        [TF_PATH_MTU] = {"mtu", TF_PATH_PACKET_MAX, 1},
        [TF_PATH_HOLE] = {"hole", 1, 1},
    };
    size_t first;
    size_t last;
    uint64_t value;
    for (size_t i = 0; i < TF_PATH_FAULTS; i++) {
        if (strcmp(words[0], rows[i].name) != 0) {
            continue;
        }
        if (words[1] == NULL || !number_of(words[1], rows[i].max, rows[i].scale, &value) ||
            !ways_of(words[2], &first, &last)) {
            return false;
        }
        for (size_t way = first; way <= last; way++) {
            ways[way].faults[i] = value;
        }
        return true;
    }
    return false;
}

static void answer_stats(const tf_path_way ways[TF_PATH_WAYS], FILE *out)
{
    static const char *const names[TF_PATH_WAYS] = {"ab", "ba"};
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        const tf_path_way *way = &ways[i];
        const struct {
            const char *name;
            uint64_t value;
        } rows[] = {
            {"in", way->in},
            {"out", way->out},
            {"lost", way->lost},
            {"repeated", way->repeated},
            {"holed", way->holed},
            {"too_long", way->too_long},
            {"overflow", way->overflow},
            {"unmapped", way->unmapped},
            {"waiting", way->count},
            {"udp", way->udp},
            {"udp_bytes", way->udp_bytes},
            {"tcp", way->tcp},
            {"tcp_bytes", way->tcp_bytes},
            {"syns", way->syns},
        };
        for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
            const char *before = i + row == 0 ? "" : " ";
            (void)fprintf(out, "%s%s_%s=%" PRIu64, before, names[i], rows[row].name, rows[row].value);
        }
    }
    (void)fputc('\n', out);
}

bool tf_path_command(tf_path *path, char *line, FILE *out)
{
    char *words[WORDS_MAX] = {0};
    char *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(line, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (count == WORDS_MAX) {
            return false;
        }
        words[count++] = word;
    }
    if (count == 1 && strcmp(words[0], "stats") == 0) {
        answer_stats(path->ways, out);
        return true;
    }
    if (count == 1 && strcmp(words[0], "rebind") == 0) {
        tf_path_nat_rebind(&path->nat);
    } else if (count < 2 || !set(path->ways, words)) {
        return false;
    }
    (void)fputs("ok\n", out);
    return true;
}
