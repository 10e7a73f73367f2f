/* deny_exec PROGRAM ARGUMENT...: runs it as systemd does with MemoryDenyWriteExecute=yes: it may
 * not have memory that is writable and executable, nor make memory executable. Status 1: there are
 * no such filters here. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define PROTECTION args[2]
#define JUMP(how, what, yes, no) BPF_JUMP(BPF_JMP | (how) | BPF_K, what, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

int main(int argc, char **argv) {
    enum { BOTH = PROT_WRITE | PROT_EXEC };
    struct sock_filter code[] = {
        LOAD(nr),
        JUMP(BPF_JEQ, __NR_mmap, 0, 3),
        LOAD(PROTECTION),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, BOTH),
        JUMP(BPF_JEQ, BOTH, 3, 4),
        JUMP(BPF_JEQ, __NR_mprotect, 0, 3),
        LOAD(PROTECTION),
        JUMP(BPF_JSET, PROT_EXEC, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        perror("deny_exec");
        return 1;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 1;
}
