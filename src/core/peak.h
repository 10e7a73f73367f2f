/* What this machine can do at best, measured: the scale that speeds are held against. Of more
 * threads than there are processors as many as these measure. 0: there is no memory for it. */
#ifndef CORE_PEAK_H
#define CORE_PEAK_H

/* GFLOP/s of fused multiply-adds on registers alone, all threads at once: the best of several
 * kernels (vector widths and numbers of independent chains), run in turn for 0.1 s, by the time
 * that threads had on their processors: so it is the machine's, and not what others leave of it. */
double peak_gflops(int threads);

/* GFLOP/s of products of 64 x 128 by 128 x 128, one product a thread at a time. */
double peak_gemm_gflops(int threads);

/* GB/s of y = a x + y over memory far larger than any cache, reads and writes counted. */
double peak_bandwidth(int threads);

#endif
