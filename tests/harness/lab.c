/* twofold-lab: runs a scenario, with real relays and clients and impaired routes between them, and judges what came of
 * it. See usage_text and twofold-lab(1). */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/version.h"
#include "tests/harness/lab.h"
#include "tests/harness/report.h"

#define EXIT_HELD 0
#define EXIT_BROKEN 1
#define EXIT_USAGE 2
#define EXIT_CANNOT TF_LAB_CANNOT
#define EXIT_BAD_FILE 8
#define RUNS_MAX 2

static const char usage_text[] =
    "usage: twofold-lab [OPTION]... FILE\n"
    "Starts a relay and clients with impaired routes between them, as the scenario in FILE says, and reports what was "
    "lost,\n"
    "repeated and late. twofold-lab(1) describes the file.\n"
    "  --mode forwarders|namespaces|sim  what stands between: forwarders in user space (default; no rights needed);\n"
    "                                  network namespaces with the kernel's own TCP and UDP (root, or user\n"
    "                                  namespaces); or nothing is real: whole nodes in virtual time, at once and\n"
    "                                  the same from the same seed\n"
    "  --seed N                        of all that is random, in place of the file's\n"
    "  --routes both|stream|datagram   that clients may use (default both)\n"
    "  --compare stream|datagram       runs a second time with that route only, and shows both\n"
    "  --json                          one line of JSON for each run instead of the table\n"
    "  --svg PICTURE                   writes a picture of the run, too\n"
    "  --check                         reads the file and ends\n"
    "  --keep                          keeps the folder with logs and the store\n"
    "  --twofold PROGRAM               the relay (default: twofold beside this program, or in PATH)\n"
    "  --help, --version\n"
    "exit status: 0 everything held, 1 something did not, 2 usage, 3 it cannot be run here, 8 the file is wrong\n";

typedef struct options {
    tf_lab_options lab;
    const char *file;
    const char *svg;
    tf_routes compare; /* 0: no second run */
    uint64_t seed;
    bool has_seed;
    bool json;
    bool check;
    bool help;
    bool version;
    char program[TF_LAB_TEXT_MAX];
} options;

/* -- options ------------------------------------------------------------------------------------------------------- */

static const char *const mode_names[] = {
    [TF_LAB_FORWARDERS] = "forwarders", [TF_LAB_NAMESPACES] = "namespaces", [TF_LAB_SIM] = "sim"};
#define MODES (sizeof(mode_names) / sizeof(mode_names[0]))

static bool parse_mode(options *o, const char *text)
{
    size_t mode = 0;
    while (mode < MODES && strcmp(text, mode_names[mode]) != 0) {
        mode++;
    }
    o->lab.mode = mode < MODES ? (tf_lab_mode)mode : TF_LAB_FORWARDERS;
    return mode < MODES;
}

static bool parse_seed(options *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long seed = strtoull(text, &end, 10);
    o->seed = seed;
    o->has_seed = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
    return o->has_seed;
}

static bool parse_routes(tf_routes *out, const char *text)
{
    *out = strcmp(text, "stream") == 0     ? TF_ROUTES_STREAM
           : strcmp(text, "datagram") == 0 ? TF_ROUTES_DATAGRAM
           : strcmp(text, "both") == 0     ? TF_ROUTES_BOTH
                                           : 0;
    return *out != 0;
}

static bool one_option(options *o, int option)
{
    bool good = true;
    switch (option) {
    case 'm':
        good = parse_mode(o, optarg);
        break;
    case 'r':
        good = parse_routes(&o->lab.routes, optarg);
        break;
    case 'c':
        good = parse_routes(&o->compare, optarg) && o->compare != TF_ROUTES_BOTH;
        break;
    case 'e':
        good = parse_seed(o, optarg);
        break;
    case 'j':
        o->json = true;
        break;
    case 's':
        o->svg = optarg;
        break;
    case 'n':
        o->check = true;
        break;
    case 'k':
        o->lab.keep = true;
        break;
    case 't':
        o->lab.twofold = optarg;
        break;
    case 'h':
        o->help = true;
        break;
    case 'v':
        o->version = true;
        break;
    default: /* getopt has complained */
        return false;
    }
    if (!good) {
        (void)fprintf(stderr, "twofold-lab: '%s' is no value of that option\n", optarg);
    }
    return good;
}

static bool parse(options *o, int argc, char **argv)
{
    static const struct option known[] = {
        {"mode", required_argument, NULL, 'm'},    {"routes", required_argument, NULL, 'r'},
        {"compare", required_argument, NULL, 'c'}, {"seed", required_argument, NULL, 'e'},
        {"json", no_argument, NULL, 'j'},          {"svg", required_argument, NULL, 's'},
        {"check", no_argument, NULL, 'n'},         {"keep", no_argument, NULL, 'k'},
        {"twofold", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (!one_option(o, option)) {
            return false;
        }
    }
    o->file = optind < argc ? argv[optind] : NULL;
    return argc - optind == 1;
}

/* Beside this program, else whatever PATH has. */
static const char *find_twofold(char out[TF_LAB_TEXT_MAX])
{
    ssize_t len = readlink("/proc/self/exe", out, TF_LAB_TEXT_MAX - sizeof("twofold"));
    out[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL) {
        memcpy(slash + 1, "twofold", sizeof("twofold"));
        if (access(out, X_OK) == 0) {
            return out;
        }
    }
    const char *path = getenv("PATH");
    for (const char *at = path; at != NULL && *at != '\0';) {
        int folder = (int)strcspn(at, ":");
        if (snprintf(out, TF_LAB_TEXT_MAX, "%.*s/twofold", folder, at) < (int)TF_LAB_TEXT_MAX &&
            access(out, X_OK) == 0) {
            return out;
        }
        at += folder + (at[folder] == ':' ? 1 : 0);
    }
    return NULL;
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

static uint8_t *read_file(const char *name, size_t *len)
{
    uint8_t *bytes = malloc(TF_SCENARIO_FILE_MAX + 1);
    FILE *file = bytes == NULL ? NULL : fopen(name, "re");
    if (file == NULL) {
        (void)fprintf(stderr, "twofold-lab: %s: %s\n", name, strerror(errno));
        free(bytes);
        return NULL;
    }
    *len = fread(bytes, 1, TF_SCENARIO_FILE_MAX + 1, file);
    bool failed = ferror(file) != 0;
    (void)fclose(file);
    if (failed) {
        (void)fprintf(stderr, "twofold-lab: %s: %s\n", name, strerror(errno));
        free(bytes);
        return NULL;
    }
    return bytes;
}

static bool load(const char *name, tf_scenario *s)
{
    static tf_scenario_errors errors;
    size_t len = 0;
    uint8_t *bytes = read_file(name, &len);
    if (bytes == NULL) {
        return false;
    }
    bool good = tf_scenario_parse(s, tf_slice_of(bytes, len), &errors);
    free(bytes);
    for (unsigned i = 0; i < errors.count && i < TF_SCENARIO_ERRORS_MAX; i++) {
        if (errors.list[i].line != 0) {
            (void)fprintf(stderr, "%s:%u: %s\n", name, errors.list[i].line, errors.list[i].text);
        } else {
            (void)fprintf(stderr, "%s: %s\n", name, errors.list[i].text);
        }
    }
    if (errors.count > TF_SCENARIO_ERRORS_MAX) {
        (void)fprintf(stderr, "%s: and %u more\n", name, errors.count - TF_SCENARIO_ERRORS_MAX);
    }
    return good;
}

/* -- runs ---------------------------------------------------------------------------------------------------------- */

static bool draw(const options *o, const tf_lab_report *first, const tf_lab_report *second)
{
    FILE *file = fopen(o->svg, "we");
    if (file != NULL) {
        tf_lab_report_svg(first, second, file);
    }
    bool good = file != NULL && ferror(file) == 0;
    good = file != NULL && fclose(file) == 0 && good;
    if (!good) {
        (void)fprintf(stderr, "twofold-lab: %s: %s\n", o->svg, strerror(errno));
    }
    return good;
}

static int show(const options *o, const tf_lab_report reports[RUNS_MAX])
{
    const tf_lab_report *second = o->compare != 0 ? &reports[1] : NULL;
    if (o->json) {
        tf_lab_report_json(&reports[0], stdout);
        if (second != NULL) {
            tf_lab_report_json(second, stdout);
        }
    } else {
        tf_lab_report_table(&reports[0], second, stdout);
    }
    if (fflush(stdout) != 0) {
        perror("twofold-lab: stdout");
        return EXIT_CANNOT;
    }
    if (o->svg != NULL && !draw(o, &reports[0], second)) {
        return EXIT_CANNOT;
    }
    return reports[0].results->broken_count == 0 ? EXIT_HELD : EXIT_BROKEN;
}

static int run_all(const options *o, const tf_scenario *s)
{
    tf_lab_verdict *verdicts[RUNS_MAX] = {NULL, NULL};
    tf_lab_report reports[RUNS_MAX];
    char why[TF_LAB_TEXT_MAX];
    int status = EXIT_HELD;
    for (int i = 0; i < (o->compare != 0 ? RUNS_MAX : 1) && status == EXIT_HELD; i++) {
        tf_lab_options lab = o->lab;
        lab.routes = i == 1 ? o->compare : o->lab.routes;
        reports[i] = (tf_lab_report){.s = s, .routes = lab.routes};
        reports[i].mode = mode_names[lab.mode];
        bool good = lab.mode == TF_LAB_SIM ? tf_lab_sim_run(s, &lab, &verdicts[i], &reports[i].results, why)
                                           : tf_lab_run(s, &lab, &verdicts[i], &reports[i].results, why);
        if (!good) {
            (void)fprintf(stderr, "twofold-lab: %s\n", why);
            status = EXIT_CANNOT;
        }
        reports[i].verdict = verdicts[i];
    }
    if (status == EXIT_HELD) {
        status = show(o, reports);
    }
    for (int i = 0; i < RUNS_MAX; i++) {
        tf_lab_verdict_free(verdicts[i]);
    }
    return status;
}

int main(int argc, char **argv)
{
    static options o = {.lab = {.routes = TF_ROUTES_BOTH}};
    static tf_scenario s;
    bool parsed = parse(&o, argc, argv);
    if (o.help || o.version) {
        (void)fputs(o.help ? usage_text : "twofold-lab " TF_VERSION "\n", stdout);
        return EXIT_HELD;
    }
    if (!parsed) {
        (void)fputs(usage_text, stderr);
        return EXIT_USAGE;
    }
    if (!load(o.file, &s)) {
        return EXIT_BAD_FILE;
    }
    if (o.check) {
        return EXIT_HELD;
    }
    s.seed = o.has_seed ? o.seed : s.seed;
    if (o.lab.twofold == NULL) {
        o.lab.twofold = find_twofold(o.program);
    }
    if (o.lab.twofold == NULL && o.lab.mode != TF_LAB_SIM) {
        (void)fputs("twofold-lab: there is no twofold beside this program or in PATH; --twofold names one\n", stderr);
        return EXIT_CANNOT;
    }
    return run_all(&o, &s);
}
