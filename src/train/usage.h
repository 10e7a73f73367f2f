/* Memory of this process, as the system counts it. */
#ifndef TRAIN_USAGE_H
#define TRAIN_USAGE_H

typedef struct Usage {
    double own;    /* bytes in memory that belong to the process alone */
    double mapped; /* bytes of mapped files in memory: data sets, program and libraries */
} Usage;

/* From /proc, as the next; zeros where there is none. */
Usage usage_read(void);
/* The most bytes that were in memory at a time, mapped ones too. */
double usage_peak(void);

#endif
