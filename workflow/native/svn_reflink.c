/* A library to preload into Subversion's client: it installs working files as clones (FICLONE) of their
   pristines, where the file system can, and leaves everything else to the client.

   A client installs a file by svn_stream_copy3() from a stream on the pristine to one on a temporary file in
   the working copy. Where both are plain files (neither translates keywords or line ends, nor decompresses)
   and neither has been read or written yet, the one can become a clone of the other. What cannot be cloned
   is copied by the real function.

   At the end of a run that installed files, a line of what was done is added to $SVN_REFLINK_STATS:
       cloned=N passed_on=N failed=N errno=N

   It needs no headers of Subversion's or of APR's: the functions are looked up when the client has loaded
   them, and their types are opaque here.
       cc -shared -fPIC -O2 svn_reflink.c -o svn_reflink.so -ldl  */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>

typedef void svn_error_t, svn_stream_t, apr_file_t, apr_pool_t;
typedef svn_error_t *(*cancel_t)(void *);
typedef svn_error_t *(*copy3_t)(svn_stream_t *, svn_stream_t *, cancel_t, void *, apr_pool_t *);

enum { CURRENT = 1 /* APR_CUR */ };

static copy3_t copy3;
static apr_file_t *(*file_of)(svn_stream_t *);
static svn_error_t *(*close_stream)(svn_stream_t *);
static svn_error_t *(*compose)(svn_error_t *, svn_error_t *);
static int (*name_get)(const char **, apr_file_t *);
static int (*flush)(apr_file_t *);
static int (*seek)(apr_file_t *, int, off_t *);
static int (*descriptor)(int *, apr_file_t *);
static long cloned, passed_on, failed;
static int last_errno;

static void tell(void)
{
  const char *path = getenv("SVN_REFLINK_STATS");
  FILE *file;

  if (!path || !(cloned + passed_on) || !(file = fopen(path, "a")))
    return;
  fprintf(file, "cloned=%ld passed_on=%ld failed=%ld errno=%d\n", cloned, passed_on, failed, last_errno);
  fclose(file);
}

/* Whether this process has all that is needed; outside of Subversion it has nothing of it. */
static int look_up(void)
{
  static const char *const names[] = {
    "svn_stream__aprfile", "svn_stream_close", "svn_error_compose_create",
    "apr_file_name_get", "apr_file_flush", "apr_file_seek", "apr_os_file_get" };
  void **const functions[] = {
    (void **)&file_of, (void **)&close_stream, (void **)&compose,
    (void **)&name_get, (void **)&flush, (void **)&seek, (void **)&descriptor };
  size_t i;

  for (i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (!(*functions[i] = dlsym(RTLD_DEFAULT, names[i])))
      return 0;
  return 1;
}

/* The descriptor of a plain file that is at its beginning, else -1. */
static int at_beginning(apr_file_t *file)
{
  off_t at = 0;
  int found;

  return seek(file, CURRENT, &at) == 0 && at == 0 && descriptor(&found, file) == 0 ? found : -1;
}

static int clone(apr_file_t *from, apr_file_t *to)
{
  const char *name = NULL;
  int source, target;

  if (!from || !to || name_get(&name, from) != 0 || !name || !strstr(name, "/.svn/pristine/"))
    return 0;
  if (flush(to) != 0 || (source = at_beginning(from)) < 0 || (target = at_beginning(to)) < 0)
    return 0;
  if (ioctl(target, FICLONE, source) == 0)
    return 1;
  failed++;
  last_errno = errno; /* EOPNOTSUPP, EXDEV, ... */
  return 0;
}

svn_error_t *svn_stream_copy3(svn_stream_t *from, svn_stream_t *to, cancel_t cancel, void *baton,
                              apr_pool_t *pool)
{
  static int known = -1;

  if (known < 0)
    {
      known = look_up();
      copy3 = (copy3_t)dlsym(RTLD_NEXT, "svn_stream_copy3");
      atexit(tell);
    }
  if (known && clone(file_of(from), file_of(to)))
    {
      svn_error_t *first = close_stream(from);

      cloned++;
      return compose(first, close_stream(to));
    }
  passed_on++;
  return copy3(from, to, cancel, baton, pool);
}
