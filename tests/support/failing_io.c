/* Lets a share of the calls that write or sync files below a folder fail, in the process that it is preloaded in.
 *
 * FAILING_FOLDER   the folder
 * FAILING_PERCENT  a file with the share, in percent; none fails where it is missing
 * FAILING_LOG      a file to which the name of each call that failed is added, in a line
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_below(int file) {
    char link[64], path[4096];
    const char *folder = getenv("FAILING_FOLDER");
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path);
    return folder && length > 0 && (size_t)length >= strlen(folder) && !strncmp(path, folder, strlen(folder));
}

static long share(void) {
    char text[16] = {0};
    int file = open(getenv("FAILING_PERCENT"), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

static void note(const char *name) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", name);
    int file = open(getenv("FAILING_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (REAL(write)(file, line, length) != length) abort();
    close(file);
}

static int fails(int file, const char *name) {
    if (!is_below(file) || random() % 100 >= share()) return 0;
    note(name);
    errno = random() % 2 ? EIO : ENOSPC;
    return 1;
}

/* A write that fails may have written a part before: every other one is cut short, as a full disk would. */
static int is_short(size_t length, const char *name) {
    return length > 1 && random() % 2 && (note(name), 1);
}

static int writes_less(int file, size_t length) {
    return is_below(file) && random() % 100 < share() && is_short(length, "short");
}

ssize_t write(int file, const void *bytes, size_t length) {
    if (writes_less(file, length)) return REAL(write)(file, bytes, length / 2);
    return fails(file, "write") ? -1 : REAL(write)(file, bytes, length);
}

static ssize_t half(int file, const struct iovec *pieces, off_t at) {
    return REAL(pwrite)(file, pieces[0].iov_base, pieces[0].iov_len / 2, at);
}

ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t at) {
    if (count > 0 && writes_less(file, pieces[0].iov_len)) return half(file, pieces, at);
    return fails(file, "write") ? -1 : REAL(pwritev)(file, pieces, count, at);
}

ssize_t pwritev64(int file, const struct iovec *pieces, int count, off64_t at) { return pwritev(file, pieces, count, at); }

ssize_t pwritev2(int file, const struct iovec *pieces, int count, off_t at, int flags) {
    if (count > 0 && writes_less(file, pieces[0].iov_len)) return half(file, pieces, at);
    return fails(file, "write") ? -1 : REAL(pwritev2)(file, pieces, count, at, flags);
}

ssize_t pwritev64v2(int file, const struct iovec *pieces, int count, off64_t at, int flags) {
    return pwritev2(file, pieces, count, at, flags);
}

int ftruncate(int file, off_t length) { return fails(file, "ftruncate") ? -1 : REAL(ftruncate)(file, length); }
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }
int fsync(int file) { return fails(file, "fsync") ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails(file, "fdatasync") ? -1 : REAL(fdatasync)(file); }
int syncfs(int file) { return fails(file, "syncfs") ? -1 : REAL(syncfs)(file); }
