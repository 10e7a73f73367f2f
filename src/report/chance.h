/* Runs that have learned nothing, as far as can be told. A mean over seeds hides them. */
#ifndef REPORT_CHANCE_H
#define REPORT_CHANCE_H

#include "report/figures.h"

/* Two standard errors above an accuracy of p on so many examples, both accuracies in per cent: what
 * guessing may come to. */
double chance_most(double p, double examples);

/* How many of the group's runs have no more than that of always the same answer: in their tests or,
 * where they have none, in their last validations (the best of many validations is luck). 0 of
 * masked training and of unknown tasks. */
int chance_runs(const Group *g);

#endif
