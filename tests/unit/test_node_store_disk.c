/* node/store/disk: what a store must do, on the one on disk, with real files. */
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/store/disk.h"
#include "tests/support/support.h"
#include "tests/unit/store_suite.h"

typedef struct fixture {
    char directory[64];
    tf_disk_store *store;
} fixture;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static tf_store open_store(fixture *f)
{
    char why[TF_WHY_MAX] = "";
    tf_disk_store_config config = {.directory = f->directory,
                                   .mem = tf_test_mem(),
                                   .rand = tf_test_rand(3),
                                   .segment_size = 256u * 1024,
                                   .segments_max = 6,
                                   .tail_bytes = 4096, /* so that most is read from the index */
                                   .cache_bytes = 256u * 1024};
    must(tf_disk_store_open(&f->store, &config, why) == TF_OK, why);
    return tf_disk_store_get(f->store);
}

static tf_store suite_open(void *ctx)
{
    fixture *f = ctx;
    (void)snprintf(f->directory, sizeof(f->directory), "/tmp/tf-disk-XXXXXX");
    must(mkdtemp(f->directory) != NULL, "no directory");
    return open_store(f);
}

static tf_store suite_reopen(void *ctx)
{
    fixture *f = ctx;
    tf_disk_store_close(f->store);
    return open_store(f);
}

static int remove_one(const char *path, const struct stat *state, int type, struct FTW *where)
{
    (void)state;
    (void)type;
    (void)where;
    return remove(path);
}

static void suite_close(void *ctx)
{
    fixture *f = ctx;
    tf_disk_store_close(f->store);
    f->store = NULL;
    must(nftw(f->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, "the directory cannot be removed");
}

static void suite_settle(void *ctx)
{
    fixture *f = ctx;
    uint64_t count = 0;
    struct pollfd wait = {.fd = tf_disk_store_fd(f->store), .events = POLLIN};
    (void)poll(&wait, 1, -1);
    ssize_t got = read(wait.fd, &count, sizeof(count));
    (void)got;
}

int main(void)
{
    fixture f = {.store = NULL};
    const suite_store store = {.ctx = &f,
                               .open = suite_open,
                               .reopen = suite_reopen,
                               .close = suite_close,
                               .settle = suite_settle,
                               .block = 512};
    return store_suite_run("node/store/disk", &store);
}
