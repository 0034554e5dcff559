/* Runs a compiler's passes on a sharded program, in the order of one table. software.csv chooses passes for a software;
 * passes.csv describes each, with date and source. */
#include "sim/compile/passes.h"

#include <string.h>

/* Condition under which a pass runs. */
enum runner {
    SOFTWARE, /* a software whose row names it; it replaces the usual pass of its stage */
    COMPILER, /* every compiler, unless its software's row names another of that stage */
    EXECUTOR  /* the executor */
};

_Static_assert(SIM_PASS_COUNT <= 8 * sizeof(sim_pass_set), "sets of passes need a wider type");

static const struct {
    const char *name;
    enum sim_stage stage;
    enum runner runner;
    sim_pass_function *run; /* NULL: whoever partitions or prices asks for the pass */
} table[SIM_PASS_COUNT] = {
    [SIM_PASS_PROPAGATE_SHARDINGS] = {"propagate_shardings", SIM_STAGE_PARTITION, SOFTWARE, NULL},
    [SIM_PASS_SPREAD_THROUGH_UPDATES] = {"spread_through_updates", SIM_STAGE_PARTITION, SOFTWARE, NULL},
    [SIM_PASS_SHARE_GATHERS] = {"share_gathers", SIM_STAGE_REWRITE, SOFTWARE, sim_share_gathers},
    [SIM_PASS_KEEP_GATHERED] = {"keep_gathered", SIM_STAGE_REWRITE, SOFTWARE, sim_keep_gathered},
    [SIM_PASS_REGROUP_SUMS] = {"regroup_sums", SIM_STAGE_REWRITE, SOFTWARE, sim_regroup_sums},
    [SIM_PASS_REASSOCIATE_ALL_REDUCE] = {"reassociate_all_reduce", SIM_STAGE_REWRITE, SOFTWARE,
                                         sim_reassociate_all_reduce},
    [SIM_PASS_HOIST_GRADIENT_ALL_REDUCE] = {"hoist_gradient_all_reduce", SIM_STAGE_REWRITE, SOFTWARE,
                                            sim_hoist_gradient_all_reduce},
    [SIM_PASS_KEEP_SUM_DTYPE] = {"keep_sum_dtype", SIM_STAGE_REWRITE, SOFTWARE, NULL}, /* hoisting asks for it */
    [SIM_PASS_HOIST_LONE_ALL_REDUCE] = {"hoist_lone_all_reduce", SIM_STAGE_REWRITE, SOFTWARE,
                                        sim_hoist_lone_all_reduce},
    [SIM_PASS_REWRITE_GRADIENT_ACCUMULATION] = {"rewrite_gradient_accumulation", SIM_STAGE_REWRITE, SOFTWARE,
                                                sim_rewrite_gradient_accumulation},
    [SIM_PASS_REDUCE_AT_BOUNDARY] = {"reduce_at_boundary", SIM_STAGE_REWRITE, SOFTWARE, sim_reduce_at_boundary},
    [SIM_PASS_JOIN_INPUT_GRADIENTS] = {"join_input_gradients", SIM_STAGE_REWRITE, SOFTWARE, sim_reassociate_all_reduce},
    [SIM_PASS_SCATTER_ACTIVATIONS] = {"scatter_activations", SIM_STAGE_REWRITE, SOFTWARE, sim_scatter_activations},
    [SIM_PASS_CREATE_REDUCE_SCATTERS] = {"create_reduce_scatters", SIM_STAGE_REWRITE, SOFTWARE,
                                         sim_create_reduce_scatters},
    [SIM_PASS_WIDEN_GRADIENT_SUMS] = {"widen_gradient_sums", SIM_STAGE_REWRITE, SOFTWARE, sim_widen_gradient_sums},
    [SIM_PASS_SAVE_QUANTISED] = {"save_quantised", SIM_STAGE_REWRITE, SOFTWARE, sim_save_quantised},
    [SIM_PASS_PREFETCH_SHARDS] = {"prefetch_shards", SIM_STAGE_REWRITE, SOFTWARE, sim_prefetch_shards},
    [SIM_PASS_KEEP_UNITS_WHOLE] = {"keep_units_whole", SIM_STAGE_PRICE, SOFTWARE, NULL}, /* lifetimes ask for it */
    [SIM_PASS_COMBINE_COLLECTIVES] = {"combine_collectives", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_SUM_WHOLE_SLICES] = {"sum_whole_slices", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_GATHER_BY_DIMENSION] = {"gather_by_dimension", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_REMATERIALIZE] = {"rematerialize", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_FUSE_KERNELS] = {"fuse_kernels", SIM_STAGE_FUSE, COMPILER, sim_fuse_kernels},
    [SIM_PASS_EAGER_KERNELS] = {"eager_kernels", SIM_STAGE_FUSE, SOFTWARE, sim_eager_kernels},
    [SIM_PASS_FUSE_ROWS] = {"fuse_rows", SIM_STAGE_FUSE, EXECUTOR, sim_fuse_rows},
    [SIM_PASS_OVERLAP_COLLECTIVES] = {"overlap_collectives", SIM_STAGE_SCHEDULE, SOFTWARE, sim_overlap_collectives},
    [SIM_PASS_OVERLAP_ALL_GATHERS] = {"overlap_all_gathers", SIM_STAGE_SCHEDULE, SOFTWARE, sim_overlap_collectives},
    [SIM_PASS_OVERLAP_GRADIENT_ALL_REDUCES] = {"overlap_gradient_all_reduces", SIM_STAGE_SCHEDULE, SOFTWARE, NULL},
    [SIM_PASS_OVERLAP_ROUNDS] = {"overlap_rounds", SIM_STAGE_SCHEDULE, SOFTWARE, sim_overlap_rounds},
    [SIM_PASS_COLLECTIVE_MATMUL] = {"collective_matmul", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_WINDOW_PRODUCTS] = {"window_products", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_VECTOR_UNITS] = {"vector_units", SIM_STAGE_PRICE, SOFTWARE, NULL},
    [SIM_PASS_TRACK_LIFETIMES] = {"track_lifetimes", SIM_STAGE_LIFETIMES, COMPILER, sim_track_lifetimes},
};

const char *sim_pass_name(enum sim_pass pass)
{
    return table[pass].name;
}

int sim_pass_named(const char *name, size_t length)
{
    for (int pass = 0; pass < SIM_PASS_COUNT; pass++)
        if (table[pass].runner == SOFTWARE && !strncmp(table[pass].name, name, length) && !table[pass].name[length])
            return pass;
    return -1;
}

int sim_pass_choices(const char *names[SIM_PASS_COUNT])
{
    int count = 0;
    for (int pass = 0; pass < SIM_PASS_COUNT; pass++)
        if (table[pass].runner == SOFTWARE) names[count++] = table[pass].name;
    return count;
}

static bool has(const struct sim_compiler *compiler, int pass)
{
    return compiler->passes >> pass & 1;
}

static bool has_one_of(const struct sim_compiler *compiler, enum sim_stage stage)
{
    for (int pass = 0; pass < SIM_PASS_COUNT; pass++)
        if (table[pass].stage == stage && has(compiler, pass)) return true;
    return false;
}

/* The executor runs the rewritten program with its own kernels, in the order of the software's scheduler. */
static bool runs(const struct sim_compiler *compiler, int pass)
{
    const enum runner runner = table[pass].runner;
    if (compiler->target == SIM_FOR_EXECUTOR)
        return runner == EXECUTOR ||
               ((table[pass].stage == SIM_STAGE_REWRITE || table[pass].stage == SIM_STAGE_SCHEDULE) &&
                has(compiler, pass));
    return has(compiler, pass) || (runner == COMPILER && !has_one_of(compiler, table[pass].stage));
}

void sim_compile(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    for (int pass = 0; pass < SIM_PASS_COUNT; pass++)
        if (table[pass].run && runs(compiler, pass)) table[pass].run(arena, compiler, sharded);
}
