/* The collectives of a single contraction, for estimates before a program exists. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

/* False if steps move parts of axes. These steps may be replaced by others, axis by axis (sim_part_take_steps). */
static bool goes_by_whole_axes(const struct sim_steps *steps, int operand)
{
    bool whole = !steps->too_many;
    for (int i = 0; i < steps->count; i++)
        whole = whole && (steps->steps[i].operand != operand || steps->steps[i].plain);
    return whole;
}

void sim_ask_contraction(struct sim_known_contractions *known, const struct sim_extents *extents,
                         const struct sim_contraction_asked *asked, struct sim_contraction_done *out)
{
    struct sim_contraction c = {.letters = {asked->letters[0], asked->letters[1], asked->letters[2]},
                                .result = asked->gradient ? SIM_GRADIENT : SIM_PROPAGATED,
                                .keeps_shards = asked->keeps_shards};
    struct sim_asked noted = {.arena = &known->notes};
    memcpy(c.shapes, asked->shapes, sizeof c.shapes);
    for (int i = 0; i < BASE_COUNT(c.layouts); i++) c.layouts[i] = sim_layout_of(asked->specs[i], c.shapes[i].rank);
    sim_contract_again(known, extents, &noted, &c);
    out->move_count = 0;
    for (int i = 0; i < BASE_COUNT(out->axes); i++) {
        for (int d = 0; d < c.shapes[i].rank; d++) out->axes[i][d] = sim_set_of(c.split[i].of[d]);
        for (int s = 0; s < c.steps.count && goes_by_whole_axes(&c.steps, i); s++) {
            const struct sim_step *step = &c.steps.steps[s];
            if (step->operand == i && step->kind != SIM_COLLECTIVE_PERMUTE)
                out->moves[out->move_count++] = (struct sim_move){i, step->kind, step->axes, step->before};
        }
    }
}
