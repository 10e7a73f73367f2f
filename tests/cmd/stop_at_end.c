/* Preloaded: rank 1 of mpirun is stopped, as a host that is cut off is silent, when it calls the
 * function that $STOP_AT names, MPI_Barrier or MPI_Finalize; "malloc": in MPI_Finalize, in which
 * the others do nothing but tidy their memory. Without mpi.h, since this is compiled where MPI is
 * not: a communicator is an int or a pointer, which a pointer's room passes on. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

int MPI_Barrier(void *comm);
int PMPI_Barrier(void *comm);
int MPI_Finalize(void);
int PMPI_Finalize(void);

/* Whether that is where it is to be. */
static int stop_at(const char *name) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *at = getenv("STOP_AT");
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank || !at || strcmp(at, name) != 0) return 0;
    if (!strcmp(rank, "1")) raise(SIGSTOP);
    return 1;
}

int MPI_Barrier(void *comm) {
    stop_at("MPI_Barrier");
    return PMPI_Barrier(comm);
}

int MPI_Finalize(void) {
    stop_at("MPI_Finalize");
    while (stop_at("malloc")) malloc_trim(0); /* which holds its lock nearly all the time */
    return PMPI_Finalize();
}
