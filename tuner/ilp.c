/* Integer programs with GLPK. GLPK exits on invalid arguments, prints, and keeps its own memory. So every argument is
 * checked here, its terminal is off, and its memory is freed with the program. Coefficients are scaled to about one,
 * since its tolerances are absolute.
 *
 * HiGHS 1.16 was measured as an alternative: it finds the same optima for 242 programs of two searches (T5 11B on
 * v4-512 with --search rules, Llama 70B on v5p-512 with --search rules,remat; at most 165 rows) in 1.46 s of CPU;
 * GLPK needs 0.13 s. The programs are small, and most of that is HiGHS's start-up. So there is one back end. */
#include "tuner/ilp.h"

#include <assert.h>
#include <glpk.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* GLPK accepts integers within 1e-5 of a variable and rows within 1e-7, so bounds are lowered by as much. */
static const double tolerance = 1e-5;

/* Limits are counts, not times: an answer must not depend on the machine's speed. */
enum { MOST_PIVOTS = 5000, MOST_NODES = 500 };

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

struct tuner_choices *tuner_choices_new(struct base_arena *arena)
{
    struct tuner_choices *choices = base_new(arena, struct tuner_choices, 1);
    choices->arena = arena;
    choices->own.exhausted = arena->exhausted;
    return choices;
}

int tuner_choices_group(struct tuner_choices *choices)
{
    return choices->group_count++;
}

int tuner_choices_option(struct tuner_choices *choices, int group)
{
    choices->options = base_grown(choices->arena, choices->options, choices->option_count, &choices->option_capacity,
                                  sizeof *choices->options);
    choices->options[choices->option_count] = (struct option){group, 0, 0};
    return choices->option_count++;
}

void tuner_choices_need(struct tuner_choices *choices, int option, const int *any_of, int count)
{
    struct need *need = base_new(choices->arena, struct need, 1);
    *need = (struct need){option, base_new(choices->arena, int, count + 1), count, choices->needs};
    for (int i = 0; i < count; i++) need->any_of[i] = any_of[i];
    choices->needs = need;
    choices->need_count++;
}

void tuner_choices_set(struct tuner_choices *choices, int option, double cost, double weight)
{
    choices->options[option].cost = cost;
    choices->options[option].weight = weight;
}

static void drop_program(struct tuner_choices *c)
{
    pthread_mutex_lock(&glpk);
    if (c->program) delete_program(c->program);
    pthread_mutex_unlock(&glpk);
    c->program = NULL;
}

/* The program needs one more row, so it is rebuilt. */
void tuner_choices_at_most(struct tuner_choices *choices, const int *options, int count, int most)
{
    struct cut *cut = base_new(&choices->own, struct cut, 1);
    *cut = (struct cut){base_new(&choices->own, int, count + 1), count, most,
                        base_new(&choices->own, bool, choices->option_count + 1), choices->cuts};
    for (int i = 0; i < count; i++) {
        cut->options[i] = options[i];
        cut->has[options[i]] = true;
    }
    choices->cuts = cut;
    choices->cut_count++;
    drop_program(choices);
}

bool tuner_choices_is_taken(const struct tuner_choices *choices, int option)
{
    return choices->list ? tuner_listed_is_taken(choices, option) : glp_mip_col_val(choices->program, option + 1) > 0.5;
}

double tuner_choices_unit_worth(const struct tuner_choices *choices)
{
    return choices->unit_worth;
}

static int row_count(const struct tuner_choices *c)
{
    return c->group_count + c->need_count + c->cut_count + 1;
}

static void put_cuts(struct tuner_choices *c, int row)
{
    for (const struct cut *cut = c->cuts; cut; cut = cut->next, row++) {
        for (int i = 0; i < cut->count; i++) c->columns[i + 1] = cut->options[i] + 1, c->values[i + 1] = 1;
        glp_set_row_bnds(c->program, row, GLP_UP, 0, cut->most);
        glp_set_mat_row(c->program, row, cut->count, c->columns, c->values);
    }
}

/* Rows: one per group, one per requirement, one per cut, and the limit last. GLPK counts from 1. */
static void make_program(struct tuner_choices *c)
{
    c->program = create_program();
    glp_set_obj_dir(c->program, GLP_MIN);
    glp_add_cols(c->program, c->option_count);
    for (int i = 0; i < c->option_count; i++) glp_set_col_kind(c->program, i + 1, GLP_BV);
    glp_add_rows(c->program, row_count(c));
    for (int g = 0; g < c->group_count; g++) {
        int length = 0;
        for (int i = 0; i < c->option_count; i++)
            if (c->options[i].group == g) c->columns[++length] = i + 1, c->values[length] = 1;
        glp_set_row_bnds(c->program, g + 1, GLP_FX, 1, 1);
        glp_set_mat_row(c->program, g + 1, length, c->columns, c->values);
    }
    int row = c->group_count;
    for (const struct need *need = c->needs; need; need = need->next) {
        int length = 1;
        c->columns[1] = need->option + 1, c->values[1] = 1;
        for (int i = 0; i < need->count; i++) c->columns[++length] = need->any_of[i] + 1, c->values[length] = -1;
        glp_set_row_bnds(c->program, ++row, GLP_UP, 0, 0);
        glp_set_mat_row(c->program, row, length, c->columns, c->values);
    }
    put_cuts(c, c->group_count + c->need_count + 1);
}

/* Weights relative to the limit, costs relative to the largest. */
static double put_coefficients(struct tuner_choices *c, double weight_limit)
{
    int row = row_count(c), length = 0;
    double largest = 0;
    for (int i = 0; i < c->option_count; i++) largest = fmax(largest, fabs(c->options[i].cost));
    if (!(largest > 0)) largest = 1;
    for (int i = 0; i < c->option_count; i++) {
        glp_set_obj_coef(c->program, i + 1, c->options[i].cost / largest);
        if (c->options[i].weight > 0)
            c->columns[++length] = i + 1, c->values[length] = c->options[i].weight / weight_limit;
    }
    glp_set_mat_row(c->program, row, length, c->columns, c->values);
    /* The tolerance only raises the limit slightly, so the result stays a bound. */
    glp_set_row_bnds(c->program, row, GLP_UP, 0, 1 + 1e-9);
    return largest;
}

static bool is_usable(const struct tuner_choices *c, double weight_limit)
{
    bool usable =
        c->option_count > 0 && c->option_count <= TUNER_MOST_OPTIONS && weight_limit > 0 && isfinite(weight_limit);
    for (int i = 0; usable && i < c->option_count; i++)
        usable = isfinite(c->options[i].cost) && isfinite(c->options[i].weight) && c->options[i].weight >= 0 &&
                 c->options[i].weight / weight_limit < 1e12;
    return usable;
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

static enum tuner_choices_outcome solve(struct tuner_choices *c, double weight_limit, double *bound)
{
    if (!c->program) make_program(c);
    double scale = put_coefficients(c, weight_limit);
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    simplex.it_lim = MOST_PIVOTS;
    int failure = glp_simplex(c->program, &simplex);
    if (failure == GLP_EBADB || failure == GLP_ESING || failure == GLP_ECOND) {
        glp_std_basis(c->program); /* the last solution is a bad start here */
        failure = glp_simplex(c->program, &simplex);
    }
    if (failure) return TUNER_UNDECIDED;
    if (glp_get_status(c->program) == GLP_NOFEAS) return TUNER_NOTHING_WITHIN_LIMIT;
    if (glp_get_status(c->program) != GLP_OPT) return TUNER_UNDECIDED;
    c->unit_worth = -glp_get_row_dual(c->program, row_count(c)) * scale / weight_limit;
    struct watch watch = {glp_get_obj_val(c->program), 0};
    glp_iocp branching;
    glp_init_iocp(&branching);
    branching.msg_lev = GLP_MSG_OFF;
    branching.cb_func = watch_tree;
    branching.cb_info = &watch;
    int outcome = glp_intopt(c->program, &branching), status = glp_mip_status(c->program);
    if (outcome == 0 && status == GLP_NOFEAS) return TUNER_NOTHING_WITHIN_LIMIT;
    bool solved = outcome == 0 && status == GLP_OPT;
    double value = (solved ? glp_mip_obj_val(c->program) : watch.bound) * scale;
    *bound = value - fabs(value) * tolerance;
    return solved ? TUNER_CHOSEN : TUNER_UNDECIDED;
}

enum tuner_choices_outcome tuner_choices_solve(struct tuner_choices *c, double weight_limit, double *bound)
{
    *bound = 0;
    if (weight_limit <= 0) return TUNER_NOTHING_WITHIN_LIMIT;
    if (!is_usable(c, weight_limit)) return TUNER_UNDECIDED;
    if (!c->by_glpk && tuner_is_listable(c)) return tuner_listed_solve(c, weight_limit, bound);
    if (!c->program) {
        c->columns = base_new(c->arena, int, c->option_count + 3);
        c->values = base_new(c->arena, double, c->option_count + 3);
    }
    pthread_mutex_lock(&glpk);
    const enum tuner_choices_outcome outcome = solve(c, weight_limit, bound);
    pthread_mutex_unlock(&glpk);
    return outcome;
}

void tuner_choices_free(struct tuner_choices *c)
{
    drop_program(c);
    base_arena_free(&c->own);
    c->list = NULL;
}

/* ---- layers to stages ---- */

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

static enum tuner_choices_outcome solve_layers(struct layer_columns *c, short *layers, double *bound)
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

static enum tuner_choices_outcome make_and_solve_layers(struct layer_columns *c, const double least[2], short *layers,
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
    const enum tuner_choices_outcome outcome = solve_layers(c, layers, bound);
    delete_program(c->program);
    return outcome;
}

enum tuner_choices_outcome tuner_layers_solve(struct base_arena *arena, const struct tuner_layer_program *program,
                                              short *layers, double *bound)
{
    struct layer_columns c = {.p = program};
    *bound = 0;
    if (!make_layer_columns(arena, &c)) return c.count ? TUNER_UNDECIDED : TUNER_NOTHING_WITHIN_LIMIT;
    const double least[] = {tuner_layer_list_least(tuner_layer_list_new(arena, program)),
                            tuner_layers_least_last(program)};
    if (isinf(least[0])) return TUNER_NOTHING_WITHIN_LIMIT;
    pthread_mutex_lock(&glpk);
    const enum tuner_choices_outcome outcome = make_and_solve_layers(&c, least, layers, bound);
    pthread_mutex_unlock(&glpk);
    return outcome;
}

void tuner_choices_end(void)
{
    pthread_mutex_lock(&glpk);
    if (!program_count) glp_free_env();
    pthread_mutex_unlock(&glpk);
}
