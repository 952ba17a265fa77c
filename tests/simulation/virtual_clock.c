/* A preloaded gettimeofday() that returns the number in the file TELLBACK_SIMULATED_CLOCK (microseconds since 1970).
   redis-server reads all its times with it, but for the monotonic clock of its event loop. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile int64_t *cell(void) {
    static volatile int64_t *mapped;
    if (mapped == NULL) {
        const char *path = getenv("TELLBACK_SIMULATED_CLOCK");
        int file = path == NULL ? -1 : open(path, O_RDONLY);
        void *at = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *mapped, PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED)
            abort();
        mapped = at;
    }
    return mapped;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int64_t microseconds = *cell();
    (void)zone;
    time->tv_sec = microseconds / 1000000;
    time->tv_usec = microseconds % 1000000;
    return 0;
}
