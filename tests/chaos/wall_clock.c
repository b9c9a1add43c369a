/*
 * A wall clock for one process. When preloaded, it adds the offset in the file $LODGE_CLOCK_FILE to all times that the
 * process reads of CLOCK_REALTIME, and subtracts it from all times of that clock that the process waits for. The offset
 * may change while the process runs. No other clock changes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Times of a clock that starts with the machine are smaller, so a larger time belongs to the wall clock. */
#define LEAST_WALL_CLOCK_SECONDS 1000000000

static const int64_t none = 0;
static const volatile int64_t *shift = &none;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("LODGE_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) shift = page;
    close(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long raw(long number, long a, long b, long c, long d, long e, long f) {
    static __typeof__(&syscall) real;
    if (real == NULL) real = REAL(syscall);
    return real(number, a, b, c, d, e, f);
}

static const struct timespec *true_time(const struct timespec *until, struct timespec *moved) {
    if (until == NULL || until->tv_sec < LEAST_WALL_CLOCK_SECONDS) return until;
    *moved = *until;
    moved->tv_sec -= *shift;
    return moved;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (real == NULL) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (where != NULL) *where = now.tv_sec;
    return now.tv_sec;
}

#define WAITS(name, parameters, ...)                                                                                   \
    int name parameters {                                                                                              \
        static __typeof__(&name) real;                                                                                 \
        struct timespec moved;                                                                                         \
        if (real == NULL) real = REAL(name);                                                                           \
        until = true_time(until, &moved);                                                                              \
        return real(__VA_ARGS__);                                                                                      \
    }

WAITS(pthread_cond_timedwait, (pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until), c, m, until)
WAITS(pthread_cond_clockwait, (pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *until), c,
      m, clock, until)
WAITS(pthread_mutex_timedlock, (pthread_mutex_t *m, const struct timespec *until), m, until)
WAITS(sem_timedwait, (sem_t *s, const struct timespec *until), s, until)
WAITS(sem_clockwait, (sem_t *s, clockid_t clock, const struct timespec *until), s, clock, until)

/* Locks outside the C library wait by calling futex directly. */
long syscall(long number, ...) {
    va_list arguments;
    long a[6];
    struct timespec moved;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME)) a[3] = (long)true_time((const struct timespec *)a[3], &moved);
    return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
