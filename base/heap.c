/* The heap of a program that lives for milliseconds. Touching a page for the first time costs more than most of the
 * work on it, so the heap starts in large pages and never shrinks. */
#define _DEFAULT_SOURCE /* sbrk, madvise */
#include "base/base.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE_PAGE_BYTES = 2 << 20, BEGINNING_BYTES = 16 << 20, KEPT_BYTES = 64 << 20 };

static void ask_for_large_pages(uintptr_t at, uintptr_t end)
{
    const uintptr_t start = (at + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if (at && start < end) madvise((void *)start, end - start, MADV_HUGEPAGE); /* a hint */
}

void base_prefer_large_pages(void *at, size_t bytes)
{
    const uintptr_t end = (uintptr_t)at + bytes;
    ask_for_large_pages((uintptr_t)at, end / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES);
}

void base_heap_begin(void)
{
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    mallopt(M_TOP_PAD, BEGINNING_BYTES);
    void *first = malloc(LARGE_PAGE_BYTES);
    const uintptr_t at = (uintptr_t)first, end = (uintptr_t)sbrk(0);
    free(first);
    if (end - at < KEPT_BYTES) ask_for_large_pages(at, end); /* only if the heap ends there */
}
