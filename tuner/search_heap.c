/* The open nodes of a search: smallest bound first, ties in order of the space. */
#include "tuner/search.h"

#include <string.h>

bool tuner_search_before(const struct node *a, const struct node *b)
{
    if (a->unpriced != b->unpriced) return b->unpriced;
    if (a->bound != b->bound) return a->bound < b->bound;
    if (a->kind != b->kind) return a->kind > b->kind;
    if (a->group != b->group) return a->group < b->group;
    if (a->microbatches != b->microbatches) return a->microbatches < b->microbatches;
    if (a->submesh != b->submesh) return a->submesh < b->submesh;
    return a->saved < b->saved;
}

static struct node *grown(struct search *s, struct node *nodes, int64_t count, int64_t *capacity)
{
    if (count < *capacity) return nodes;
    *capacity = *capacity ? 2 * *capacity : 1024;
    struct node *larger = base_new(s->space->arena, struct node, *capacity);
    if (count) memcpy(larger, nodes, (size_t)count * sizeof *larger);
    return larger;
}

void tuner_search_push(struct search *s, struct node node)
{
    s->heap = grown(s, s->heap, s->heap_count, &s->heap_capacity);
    int64_t at = s->heap_count++;
    for (; at > 0 && tuner_search_before(&node, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = node;
}

void tuner_search_set_aside(struct search *s, struct node node)
{
    s->too_large = grown(s, s->too_large, s->too_large_count, &s->too_large_capacity);
    s->too_large[s->too_large_count++] = node;
}

struct node tuner_search_pop(struct search *s)
{
    struct node top = s->heap[0], last = s->heap[--s->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && tuner_search_before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!tuner_search_before(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    if (s->heap_count) s->heap[at] = last;
    return top;
}
