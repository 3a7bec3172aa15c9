/* Promises that one side makes and resolves, and another that never says anything (README.md). 0: as it should be. */
#ifndef TF_TESTS_SIM_REFS_ONE_WAY_H
#define TF_TESTS_SIM_REFS_ONE_WAY_H

int one_way(void);

#endif
