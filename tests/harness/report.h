/* What runs of a scenario came to, for people (a table, a picture) and for programs (JSON). Pure but for the stream
 * that is written to, whose errors are the caller's to look at. */
#ifndef TF_TESTS_HARNESS_REPORT_H
#define TF_TESTS_HARNESS_REPORT_H

#include <stdio.h>

#include "tests/harness/verdict.h"

typedef struct tf_lab_report {
    const tf_scenario *s;
    const tf_lab_verdict *verdict;
    const tf_lab_results *results;
    const char *mode; /* "forwarders" and so on */
    tf_routes routes; /* that clients used at most */
} tf_lab_report;

/* With a second run (may be NULL), its figures stand beside those of the first; only the first is judged. */
void tf_lab_report_table(const tf_lab_report *report, const tf_lab_report *other, FILE *out);
/* One line, one object. */
void tf_lab_report_json(const tf_lab_report *report, FILE *out);
/* Which route delivered what, and how late it was, over time; what was wrong is shaded. An SVG document. */
void tf_lab_report_svg(const tf_lab_report *report, const tf_lab_report *other, FILE *out);

/* "both", "stream" or "datagram". */
const char *tf_lab_routes_name(tf_routes routes);
/* "12.3 ms", "1.50 s". */
const char *tf_lab_time_text(tf_time span, char out[32]);

#endif
