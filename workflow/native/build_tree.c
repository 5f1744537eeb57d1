/* Builds a tree by as few system calls as there are for it: three for each file (open, write, close), one for
 * each folder, link and empty file. What it builds lies in one file, which is mapped (subjects/tree_stores.py
 * writes it).
 *
 * usage: build_tree PACK TARGET            TARGET is not there
 *        build_tree --empty PACK TARGET    the same folders and files, the files with nothing in them
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of each entry, in the order in which they are built; its name and its content follow, a NUL behind each. */
struct entry {
    uint8_t kind; /* 'd', 'f', 'l' (a symbolic link) or 'h' (a hard link): of the last two the content is where to */
    uint32_t mode;
    uint32_t name_bytes;
    uint64_t content_bytes;
} __attribute__((packed));

static void must(int done, const char *what)
{
    if (done >= 0)
        return;
    fprintf(stderr, "build_tree: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void write_file(const char *name, mode_t mode, const char *content, uint64_t bytes)
{
    int file = open(name, O_WRONLY | O_CREAT | O_EXCL, mode);
    must(file, name);
    while (bytes) {
        ssize_t written = write(file, content, bytes);
        must(written < 0 ? -1 : 0, name);
        content += written;
        bytes -= written;
    }
    must(close(file), name);
}

static void build(const struct entry *entry, const char *name, const char *content, int empty)
{
    switch (entry->kind) {
    case 'd':
        must(mkdir(name, entry->mode), name);
        break;
    case 'l':
        must(symlink(content, name), name);
        break;
    case 'h':
        must(link(content, name), name);
        break;
    default:
        if (empty || !entry->content_bytes)
            must(mknod(name, S_IFREG | entry->mode, 0), name);
        else
            write_file(name, entry->mode, content, entry->content_bytes);
    }
}

int main(int argc, char **argv)
{
    int empty = argc == 4 && !strcmp(argv[1], "--empty");
    if (argc != 3 + empty) {
        fprintf(stderr, "usage: build_tree [--empty] PACK TARGET\n");
        return 2;
    }
    const char *pack = argv[1 + empty], *target = argv[2 + empty];
    int file = open(pack, O_RDONLY);
    must(file, pack);
    struct stat about;
    must(fstat(file, &about), pack);
    must(mkdir(target, 0777), target);
    if (!about.st_size)
        return 0;
    const char *at = mmap(NULL, about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    must(at == MAP_FAILED ? -1 : 0, pack);
    const char *end = at + about.st_size;
    must(chdir(target), target);
    umask(0);
    while (at < end) {
        const struct entry *entry = (const struct entry *)at;
        const char *name = at + sizeof *entry;
        const char *content = name + entry->name_bytes + 1;
        build(entry, name, content, empty);
        at = content + entry->content_bytes + 1;
    }
    return 0;
}
