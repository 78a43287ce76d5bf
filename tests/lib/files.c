/*
 * files.c - see files.h.
 */
#define _POSIX_C_SOURCE 200809L /* scandir */

#include "lib/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char paths[2][4096];

static const char *join(const char *directory, const char *relative)
{
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", directory, relative);
    return path;
}

static const char *source_directory(void)
{
    const char *directory = getenv("srcdir"); /* set by make check */
    return directory ? directory : TOP_SRCDIR;
}

const char *source_path(const char *relative)
{
    return join(source_directory(), relative);
}

const char *golden_path(const char *relative)
{
    const char *shared = getenv("CAFKA_SHARED");
    char directory[2048];
    if (shared && *shared)
        snprintf(directory, sizeof directory, "%s/golden", shared);
    else
        snprintf(directory, sizeof directory, "%s/../shared/golden", TOP_SRCDIR);
    DIR *found = opendir(directory);
    if (!found) {
        printf("skipped: golden data not found\n");
        return NULL;
    }
    closedir(found);
    return join(directory, relative);
}

char *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t capacity = 1 << 16, used = 0;
    char *text = malloc(capacity);
    while (text) {
        size_t got = fread(text + used, 1, capacity - used - 1, file);
        used += got;
        if (!got)
            break;
        if (used == capacity - 1) {
            char *larger = realloc(text, capacity *= 2);
            if (!larger)
                free(text);
            text = larger;
        }
    }
    bool failed = ferror(file);
    fclose(file);
    if (!text || failed) {
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *size = used;
    return text;
}

bool file_lines(const char *path, void (*each)(struct str line, void *user), void *user)
{
    size_t size;
    char *text = file_read(path, &size);
    if (!text)
        return false;
    for (char *at = text; at < text + size;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        size_t length = end ? (size_t)(end - at) : (size_t)(text + size - at);
        each((struct str){at, length}, user);
        at += length + 1;
    }
    free(text);
    return true;
}

bool directory_files(const char *path, const char *ending,
                     void (*each)(const char *path, void *user), void *user)
{
    struct dirent **entries;
    char directory[2048];
    snprintf(directory, sizeof directory, "%s", path);
    int count = scandir(directory, &entries, NULL, alphasort);
    if (count < 0)
        return false;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(entries[i]->d_name), tail = strlen(ending);
        if (length > tail && !strcmp(entries[i]->d_name + length - tail, ending))
            each(join(directory, entries[i]->d_name), user);
        free(entries[i]);
    }
    free(entries);
    return true;
}
