/* Stands between a process and the system, for stories of trouble: clocks jump, and syncs of files take long.

   WEFT_CHAOS_TROUBLE names a file of two numbers of 64 bits, which is mapped: nanoseconds that are added to the time of
   day, and nanoseconds that every fsync takes longer.  Clocks that only measure (CLOCK_MONOTONIC) are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *trouble;
static const int64_t BILLION = 1000000000;

__attribute__((constructor)) static void look(void) {
    const char *name = getenv("WEFT_CHAOS_TROUBLE");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *here = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (here != MAP_FAILED) trouble = here;
}

static void shift(struct timespec *at) {
    int64_t now = (int64_t)at->tv_sec * BILLION + at->tv_nsec + (trouble ? trouble[0] : 0);
    at->tv_sec = now / BILLION;
    at->tv_nsec = now % BILLION;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, at);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(at);
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

static void wait_long(void) {
    if (!trouble || trouble[1] <= 0) return;
    struct timespec pause = {trouble[1] / BILLION, trouble[1] % BILLION};
    nanosleep(&pause, NULL);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    wait_long();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    wait_long();
    return real(file);
}
