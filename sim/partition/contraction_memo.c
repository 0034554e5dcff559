/* Memoises partitioned contractions, since layers, optimizers, remat policies and models repeat them. The key holds
 * everything that the result depends on: letters, dimensions, shardings, choices by size, and relations of mesh axes if
 * used. Different choices may give the same result. So a program is tested for reuse by looking its contractions up
 * again; their choices are not compared. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

struct known_contraction {
    struct sim_contraction contraction;
    struct sim_placed *answers;
};

struct sim_placed {
    struct known_contraction *known;
    struct sim_contraction answer;
    const struct sim_placed *alike; /* the first entry with the same answer */
    uint64_t mesh_relation;
    unsigned char compared;
    int decision_count;
    struct sim_decision *decisions;
    struct sim_placed *next; /* the same contraction with other choices */
};

static void begin_key(struct base_memo *memo, const struct sim_extents *extents, const struct sim_contraction *c)
{
    const unsigned char split = (unsigned char)sim_mesh_axes(extents), result = (unsigned char)c->result,
                        keeps = c->keeps_shards;
    base_memo_begin(memo, split);
    base_memo_bytes(memo, &result, 1);
    base_memo_bytes(memo, &keeps, 1);
    for (int i = 0; i < BASE_COUNT(c->shapes); i++) {
        const struct sim_shape *shape = &c->shapes[i];
        const unsigned char dtype = (unsigned char)shape->dtype;
        base_memo_text(memo, c->letters[i]);
        base_memo_bytes(memo, shape->dims, shape->rank);
        base_memo_bytes(memo, c->layouts[i].of, shape->rank * sizeof *c->layouts[i].of);
        base_memo_bytes(memo, &dtype, 1);
    }
}

static struct known_contraction *find_known(struct base_memo *memo, const struct sim_extents *extents,
                                            const struct sim_contraction *c)
{
    begin_key(memo, extents, c);
    struct known_contraction *known = base_memo_find(memo);
    if (known) return known;
    known = base_new(memo->arena, struct known_contraction, 1);
    known->contraction = *c;
    for (int i = 0; i < BASE_COUNT(c->letters); i++)
        known->contraction.letters[i] = base_copy(memo->arena, c->letters[i]);
    base_memo_store(memo, known);
    return known;
}

static bool holds(const struct sim_placed *placed, const struct sim_extents *extents)
{
    const struct sim_extents unnoted = {extents->sizes, extents->mesh, NULL};
    if (placed->compared && placed->mesh_relation != sim_mesh_relation(extents->mesh, placed->compared)) return false;
    for (int i = 0; i < placed->decision_count; i++)
        if (sim_decide(&unnoted, &placed->decisions[i]) != placed->decisions[i].larger) return false;
    return true;
}

static bool same_step(const struct sim_step *a, const struct sim_step *b, int rank)
{
    bool same = a->operand == b->operand && a->kind == b->kind && a->axes == b->axes && a->groups == b->groups &&
                a->plain == b->plain;
    return same && sim_layouts_equal(&a->from, &b->from, rank) && sim_layouts_equal(&a->after, &b->after, rank);
}

static bool same_answer(const struct sim_contraction *a, const struct sim_contraction *b)
{
    bool same = a->steps.count == b->steps.count && a->steps.too_many == b->steps.too_many;
    for (int i = 0; i < BASE_COUNT(a->split); i++)
        same = same && sim_layouts_equal(&a->split[i], &b->split[i], a->shapes[i].rank);
    same = same && sim_layouts_equal(&a->propagated, &b->propagated, a->shapes[2].rank);
    for (int i = 0; same && i < a->steps.count; i++)
        same = same_step(&a->steps.steps[i], &b->steps.steps[i], a->shapes[a->steps.steps[i].operand].rank);
    return same;
}

static const struct sim_placed *first_alike(const struct known_contraction *known, const struct sim_placed *placed)
{
    for (const struct sim_placed *other = known->answers; other; other = other->next)
        if (same_answer(&other->answer, &placed->answer)) return other->alike;
    return placed;
}

static const struct sim_placed *answer(struct sim_known_contractions *contractions, const struct sim_extents *extents,
                                       struct known_contraction *known)
{
    struct sim_decision few[16]; /* enough for nearly all contractions */
    struct sim_decisions log = {.arena = &contractions->notes, .made = few, .capacity = BASE_COUNT(few)};
    struct sim_extents noted = {extents->sizes, extents->mesh, &log};
    for (struct sim_placed *placed = known->answers; placed; placed = placed->next)
        if (holds(placed, extents)) return placed;
    struct sim_placed *placed = base_new(contractions->memo.arena, struct sim_placed, 1);
    placed->known = known;
    placed->answer = known->contraction;
    sim_contract(&noted, &placed->answer);
    placed->compared = log.compared;
    placed->mesh_relation = sim_mesh_relation(extents->mesh, log.compared);
    placed->decision_count = log.count;
    placed->decisions = base_new(contractions->memo.arena, struct sim_decision, log.count);
    if (log.count) memcpy(placed->decisions, log.made, (size_t)log.count * sizeof *log.made);
    placed->alike = first_alike(known, placed);
    placed->next = known->answers;
    known->answers = placed;
    return placed;
}

static void add_asked(struct sim_asked *asked, const struct sim_placed *placed)
{
    asked->placed = base_grown(asked->arena, asked->placed, asked->count, &asked->capacity, sizeof *asked->placed);
    asked->placed[asked->count++] = placed;
}

static void note(struct sim_asked *asked, const struct sim_placed *placed)
{
    for (int i = 0; i < asked->count; i++)
        if (asked->placed[i] == placed) return;
    add_asked(asked, placed);
}

void sim_contract_again(struct sim_known_contractions *contractions, const struct sim_extents *extents,
                        struct sim_asked *asked, struct sim_contraction *c)
{
    const char *const letters[] = {c->letters[0], c->letters[1], c->letters[2]};
    const struct sim_placed *placed = answer(contractions, extents, find_known(&contractions->memo, extents, c));
    note(asked, placed);
    *c = placed->answer;
    memcpy(c->letters, letters, sizeof letters);
}

bool sim_ask_again(struct sim_known_contractions *contractions, const struct sim_extents *extents,
                   const struct sim_placed *const *before, int before_count, struct sim_asked *now)
{
    now->count = 0;
    for (int i = 0; i < before_count; i++) {
        const struct sim_placed *placed = answer(contractions, extents, before[i]->known);
        if (placed->alike != before[i]->alike) return false;
        add_asked(now, placed);
    }
    return true;
}

void sim_note_asked(const struct sim_asked *asked, struct sim_decisions *log)
{
    for (int i = 0; i < asked->count; i++) {
        const struct sim_placed *placed = asked->placed[i];
        for (int d = 0; d < placed->decision_count; d++) sim_note_decision(log, &placed->decisions[d]);
        log->compared |= placed->compared;
    }
}
