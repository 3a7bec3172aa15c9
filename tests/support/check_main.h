/* The main function of a unit test program, less its list of tests. */
#ifndef TF_TESTS_SUPPORT_CHECK_MAIN_H
#define TF_TESTS_SUPPORT_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

/* limit: seconds for one test, 0 for none; below 0 Check's own. */
static inline int tf_test_run_suite(const char *module, const TTest *const *tests, double limit)
{
    Suite *suite = suite_create(module);
    TCase *tcase = tcase_create(module);
    suite_add_tcase(suite, tcase);
    if (limit >= 0) {
        tcase_set_timeout(tcase, limit);
    }
    for (size_t i = 0; tests[i] != NULL; i++) {
        tcase_add_test(tcase, tests[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs the tests of one module; gives the exit status of the program. Ends with a NULL:
 *     static const TTest *const tests[] = {window_repeat_is_refused, ..., NULL};
 *     return tf_test_run("dedup/window", tests); */
static inline int tf_test_run(const char *module, const TTest *const *tests)
{
    return tf_test_run_suite(module, tests, -1);
}

/* The same for tests that wait for events and end by themselves what hangs: Check sets them no limit. */
static inline int tf_test_run_waiting(const char *module, const TTest *const *tests)
{
    return tf_test_run_suite(module, tests, 0);
}

#endif
