/* Integer programs with GLPK. GLPK exits on invalid arguments, prints, and keeps its own memory. So every argument is
 * checked here, its terminal is off, and its memory is freed with the program. Coefficients are scaled to about one,
 * since its tolerances are absolute. */
#include "tuner/ilp.h"

#include <glpk.h>
#include <math.h>
#include <pthread.h>

/* GLPK accepts integers within 1e-5 of a variable and rows within 1e-7, so bounds are lowered by as much. */
static const double tolerance = 1e-5;

/* Limits are counts, not times: an answer must not depend on the machine's speed. */
enum { MOST_NODES = 500 };

/* GLPK keeps one memory list per process, so its users lock. A longjmp must not happen under the lock, so nothing is
 * allocated from an arena there. */
static pthread_mutex_t glpk = PTHREAD_MUTEX_INITIALIZER;
static int program_count; /* existing programs */

static glp_prob *create_program(void)
{
    glp_term_out(GLP_OFF);
    program_count++;
    return glp_create_prob();
}

static void delete_program(glp_prob *program)
{
    glp_delete_prob(program);
    program_count--;
}

/* The best remaining bound if branching stops early. */
struct watch {
    double bound;
    int nodes;
};

static void watch_tree(glp_tree *tree, void *info)
{
    struct watch *watch = info;
    if (glp_ios_reason(tree) != GLP_ISELECT) return;
    int best = glp_ios_best_node(tree);
    if (best) watch->bound = glp_ios_node_bound(tree, best);
    if (++watch->nodes > MOST_NODES) glp_ios_terminate(tree);
}

struct layer_columns {
    const struct tuner_layer_program *p;
    glp_prob *program;
    int *number, count; /* number: by option, its column or 0; count: columns of options */
    int *at, length;    /* of the current row */
    double *value, scale;
    int rows;
};

static void begin_row(struct layer_columns *c)
{
    c->length = 0;
}

static void put(struct layer_columns *c, int column, double value)
{
    c->at[++c->length] = column, c->value[c->length] = value;
}

static void end_row(struct layer_columns *c, int kind, double low, double high)
{
    const int row = glp_add_rows(c->program, 1);
    glp_set_row_bnds(c->program, row, kind, low, high);
    glp_set_mat_row(c->program, row, c->length, c->at, c->value);
}

enum weight { EACH_ONCE, AS_ITS_LAYERS };

/* Puts the columns of all options of one stage, or (-1) of all stages, with their coefficients. */
static void put_options(struct layer_columns *c, const double *worth, enum weight weight, int stage)
{
    const struct tuner_layer_program *p = c->p;
    for (int i = 0; i < p->stages * p->most; i++) {
        if (!c->number[i] || (stage >= 0 && i / p->most != stage)) continue;
        put(c, c->number[i], worth ? worth[i] / c->scale : weight == AS_ITS_LAYERS ? i % p->most + 1 : 1);
    }
}

/* Columns: options, the largest sum, the largest final cost. Sums are relative to the largest one, and bounds are
 * lowered by the tolerance on it. */
static void put_layer_rows(struct layer_columns *c)
{
    const struct tuner_layer_program *p = c->p;
    for (int s = 0; s < p->stages; s++) {
        begin_row(c), put_options(c, NULL, EACH_ONCE, s);
        end_row(c, GLP_FX, 1, 1);
    }
    begin_row(c), put_options(c, NULL, AS_ITS_LAYERS, -1);
    end_row(c, GLP_FX, (double)p->layers, (double)p->layers);
    for (int r = 0; r < p->rows; r++) {
        begin_row(c), put_options(c, p->row[r], EACH_ONCE, -1), put(c, c->count + 1, -1);
        end_row(c, GLP_UP, 0, 0);
    }
    for (int s = 0; s < p->stages; s++) {
        begin_row(c), put_options(c, p->last, EACH_ONCE, s), put(c, c->count + 2, -1);
        end_row(c, GLP_UP, 0, 0);
    }
    for (int k = 0; k < p->cuts; k++) {
        begin_row(c);
        for (int s = 0; s < p->stages; s++)
            if (c->number[s * p->most + p->cut[k][s] - 1]) put(c, c->number[s * p->most + p->cut[k][s] - 1], 1);
        if (c->length == p->stages) end_row(c, GLP_UP, 0, p->stages - 1);
    }
}

/* False: some stage has no option, or a cost is not a number. */
static bool make_layer_columns(struct base_arena *arena, struct layer_columns *c)
{
    const struct tuner_layer_program *p = c->p;
    const int options = p->stages * p->most;
    c->number = base_new(arena, int, options);
    c->at = base_new(arena, int, options + 3), c->value = base_new(arena, double, options + 3);
    for (int i = 0; i < options; i++) {
        if (!p->allowed[i]) continue;
        c->number[i] = ++c->count;
        if (!isfinite(p->last[i])) return false;
        for (int r = 0; r < p->rows; r++) {
            if (!isfinite(p->row[r][i])) return false;
            c->scale = fmax(c->scale, fabs(p->row[r][i]));
        }
    }
    return c->count > 0 && c->count <= TUNER_MOST_OPTIONS && c->scale > 0;
}

static enum tuner_layers_outcome solve_layers(struct layer_columns *c, short *layers, double *bound)
{
    const struct tuner_layer_program *p = c->p;
    struct watch watch = {0, 0};
    glp_iocp branching;
    glp_init_iocp(&branching);
    branching.msg_lev = GLP_MSG_OFF;
    branching.presolve = GLP_ON;
    branching.cb_func = watch_tree;
    branching.cb_info = &watch;
    const int outcome = glp_intopt(c->program, &branching), status = glp_mip_status(c->program);
    if (outcome == GLP_ENOPFS || (outcome == 0 && status == GLP_NOFEAS)) return TUNER_NOTHING_WITHIN_LIMIT;
    const bool solved = outcome == 0 && status == GLP_OPT;
    const double value = (solved ? glp_mip_obj_val(c->program) : watch.bound) * c->scale;
    *bound = value - fabs(value) * tolerance;
    if (!solved) return TUNER_UNDECIDED;
    for (int i = 0; i < p->stages * p->most; i++)
        if (c->number[i] && glp_mip_col_val(c->program, c->number[i]) > 0.5)
            layers[i / p->most] = (short)(i % p->most + 1);
    return TUNER_CHOSEN;
}

static enum tuner_layers_outcome make_and_solve_layers(struct layer_columns *c, const double least[2], short *layers,
                                                       double *bound)
{
    c->program = create_program();
    glp_set_obj_dir(c->program, GLP_MIN);
    glp_add_cols(c->program, c->count + 2);
    for (int i = 1; i <= c->count; i++) glp_set_col_kind(c->program, i, GLP_BV);
    for (int i = c->count + 1; i <= c->count + 2; i++) {
        glp_set_col_bnds(c->program, i, GLP_LO, least[i - c->count - 1] / c->scale, 0);
        glp_set_obj_coef(c->program, i, 1);
    }
    put_layer_rows(c);
    const enum tuner_layers_outcome outcome = solve_layers(c, layers, bound);
    delete_program(c->program);
    return outcome;
}

enum tuner_layers_outcome tuner_layers_solve(struct base_arena *arena, const struct tuner_layer_program *program,
                                             short *layers, double *bound)
{
    struct layer_columns c = {.p = program};
    *bound = 0;
    if (!make_layer_columns(arena, &c)) return c.count ? TUNER_UNDECIDED : TUNER_NOTHING_WITHIN_LIMIT;
    const double least[] = {tuner_layer_list_least(tuner_layer_list_new(arena, program)),
                            tuner_layers_least_last(program)};
    if (isinf(least[0])) return TUNER_NOTHING_WITHIN_LIMIT;
    pthread_mutex_lock(&glpk);
    const enum tuner_layers_outcome outcome = make_and_solve_layers(&c, least, layers, bound);
    pthread_mutex_unlock(&glpk);
    return outcome;
}

void tuner_layers_end(void)
{
    pthread_mutex_lock(&glpk);
    if (!program_count) glp_free_env();
    pthread_mutex_unlock(&glpk);
}
