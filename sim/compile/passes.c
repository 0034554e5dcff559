/* Runs a compiler's passes on a sharded program, in the order of one table. software.csv lists the passes of a
 * software. passes.csv describes each, with date and source. */
#include "sim/compile/passes.h"
#include "sim/compile/pass_settings.csv.h"

#include <string.h>

const struct sim_settings sim_pass_settings = {PASS_SETTINGS};

/* Condition under which a pass runs. */
enum runner {
    SOFTWARE, /* software whose row names it; it replaces the default pass of its stage */
    COMPILER, /* every compiler, unless the software's row names another pass of that stage */
    EXECUTOR  /* the executor */
};

_Static_assert(SIM_PASS_COUNT <= 8 * sizeof(sim_pass_set), "sets of passes need a wider type");

static const struct {
    const char *name;
    enum sim_stage stage;
    enum runner runner;
    sim_pass_function *run; /* NULL: partitioning or pricing reads the pass as an option */
} table[] = {SIM_PASS_ROWS};

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

/* The executor runs the rewritten program with its own kernels, in the scheduler's order. */
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
