/* Preloaded, kills the process when it is about to make its KILL_AT-th call that changes files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void count(void) {
  static int calls = 0;
  const char* at = getenv("KILL_AT");
  if (at != NULL && ++calls == atoi(at)) kill(getpid(), SIGKILL);
}

#define COUNTED(result, name, parameters, arguments)              \
  EXPORT result name parameters {                                 \
    static result(*next) parameters = NULL;                       \
    count();                                                      \
    if (next == NULL) *(void**)(&next) = dlsym(RTLD_NEXT, #name); \
    return next arguments;                                        \
  }

COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))
COUNTED(int, chmod, (const char* path, mode_t mode), (path, mode))
COUNTED(int, fchmod, (int file, mode_t mode), (file, mode))
COUNTED(int, fchmodat, (int folder, const char* path, mode_t mode, int flags), (folder, path, mode, flags))
COUNTED(char*, mkdtemp, (char* path), (path))
COUNTED(ssize_t, write, (int file, const void* bytes, size_t size), (file, bytes, size))
COUNTED(int, fsync, (int file), (file))
COUNTED(int, rename, (const char* from, const char* to), (from, to))
COUNTED(int, renameat2, (int a, const char* from, int b, const char* to, unsigned int flags),
        (a, from, b, to, flags))
COUNTED(int, unlink, (const char* path), (path))
COUNTED(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
COUNTED(int, rmdir, (const char* path), (path))
COUNTED(int, remove, (const char* path), (path))
COUNTED(int, ftruncate, (int file, off_t size), (file, size))

EXPORT int open(const char* path, int flags, ...) {
  static int (*next)(const char*, int, ...) = NULL;
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
    count();
  }
  if (next == NULL) *(void**)(&next) = dlsym(RTLD_NEXT, "open");
  return next(path, flags, mode);
}
