/* What a search found: the plans in their order, what was decided by what, and which plans cannot be launched. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

/* ---- plans ---- */

static bool varies(const struct tuner_space *space, enum tuner_dimension d)
{
    return space->values[d].count > 1;
}

static const char *value_of(const struct tuner_space *space, const struct sim_plan_text *text, enum tuner_dimension d)
{
    enum sim_key key = d == TUNER_SUBMESH && space->by_partitions ? SIM_NUM_PARTITIONS : tuner_key(d);
    return text->values[key] ? text->values[key] : "";
}

static struct tuner_shape shape_of(const struct tuner_space *space, struct tuner_plan plan)
{
    return space->shapes[space->groups[plan.group].shape];
}

/* ---- the space as a table ---- */

static const enum sim_key table_keys[] = {SIM_MODEL, SIM_TOPOLOGY, SIM_SUBMESH, SIM_NUM_PARTITIONS, SIM_RULES, SIM_OPTIMIZER_PARTITIONING, SIM_SEQUENCE_PARALLEL, SIM_INPUTS_LENGTH,
                                          SIM_TARGETS_LENGTH, SIM_BATCH_SIZE, SIM_NUM_MICROBATCHES, SIM_OPTIMIZER, SIM_REMAT_POLICY, SIM_DTYPE, SIM_ATTENTION, SIM_SOFTWARE,
                                          SIM_MEMORY_KIND, SIM_LEARNING_RATE, SIM_SEED, SIM_OVERRIDES, SIM_ADAFACTOR};

static void put_row(const struct tuner_space *space, struct tuner_plan plan, int64_t id, struct base_text *line)
{
    struct sim_plan_text text = tuner_plan_text(space, plan);
    base_putf(line, "%lld", (long long)id);
    for (int k = 0; k < BASE_COUNT(table_keys); k++) {
        const char *value = text.values[table_keys[k]];
        base_put(line, ",");
        if (value) base_put_csv(line, value);
    }
    base_put(line, "\n");
}

void reports_space_csv(const struct tuner_space *space, void (*put)(void *where, const char *bytes, size_t length), void *where)
{
    struct base_text line = {.arena = space->arena};
    int64_t id = 0;
    base_put(&line, "id");
    for (int k = 0; k < BASE_COUNT(table_keys); k++) base_putf(&line, ",%s", sim_key_names[table_keys[k]]);
    base_put(&line, "\n");
    for (int g = 0; g < space->group_count; g++)
        for (int s = 0; s < tuner_group_submesh_count(space, g); s++)
            for (int m = 0; m < tuner_group_microbatch_count(space, g); m++) {
                put(where, line.data, line.length);
                line.length = 0;
                put_row(space, (struct tuner_plan){g, s, m}, id++, &line);
            }
    put(where, line.data, line.length);
}

/* ---- JSON ---- */

static void put_found(struct base_json_writer *w, const struct reports_tuned *r, const struct tuner_found *found, const struct reports_prediction *prediction)
{
    struct sim_plan_text text = tuner_plan_text(r->space, found->plan);
    base_json_open(w, '{');
    base_json_key(w, "plan");
    sim_plan_put_json(r->arena, &text, w);
    base_json_key(w, "prediction");
    reports_put_answer(w, prediction);
    base_json_close(w, '}');
}

static void put_counts(struct base_json_writer *w, const struct tuner_counts *c)
{
    base_json_key(w, "decided_by");
    base_json_open(w, '{');
    base_json_member_int(w, "full_prediction", c->evaluated);
    base_json_member_int(w, "time_bound", c->by_time);
    base_json_member_int(w, "memory_bound", c->by_memory);
    base_json_member_int(w, "integer_program", c->by_program);
    base_json_member_int(w, "prediction_of_a_sibling", c->by_sibling);
    base_json_member_int(w, "nothing", c->open);
    base_json_close(w, '}');
}

static void put_refusals(struct base_json_writer *w, const struct tuner_space *space)
{
    base_json_member_int(w, "refused_count", space->refused_count);
    base_json_key(w, "refusals");
    base_json_open(w, '[');
    for (int i = 0; i < space->refusal_count; i++) {
        base_json_open(w, '{');
        base_json_member_int(w, "plan_count", space->refusals[i].plan_count);
        base_json_member_string(w, "reason", space->refusals[i].reason);
        base_json_member_string(w, "example", space->refusals[i].example);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_search(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_result *result = r->result;
    base_json_key(w, "search");
    base_json_open(w, '{');
    base_json_member_string(w, "objective", tuner_objective_name(r->objective));
    base_json_member_int(w, "space_count", r->space->plan_count);
    base_json_member_int(w, "rule_set_count", r->space->rule_set_count);
    base_json_member_int(w, "evaluated_count", result->counts.evaluated);
    base_json_member_bool(w, "proven_optimal", result->proven_optimal);
    base_json_member_double(w, "gap_frac", result->gap_frac);
    base_json_member_double(w, "wall_s", result->wall_s);
    put_counts(w, &result->counts);
    base_json_member_int(w, "integer_program_count", result->counts.programs);
    base_json_member_int(w, "bound_violation_count", result->bound_violations);
    put_refusals(w, r->space);
    base_json_close(w, '}');
}

static void put_front(struct base_json_writer *w, const struct reports_tuned *r)
{
    base_json_key(w, "pareto");
    base_json_open(w, '[');
    for (int i = 0; i < r->result->front_count; i++) {
        const struct tuner_found *f = &r->result->front[i];
        struct sim_plan_text text = tuner_plan_text(r->space, f->plan);
        base_json_open(w, '{');
        base_json_key(w, "plan");
        sim_plan_put_json(r->arena, &text, w);
        base_json_member_double(w, "tokens_per_s", f->prediction.tokens_per_s);
        base_json_member_double(w, "step_s", f->prediction.step_s);
        base_json_member_int(w, "peak_bytes", f->prediction.memory.peak_bytes);
        base_json_member_int(w, "capacity_bytes", f->prediction.memory.capacity_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_nearest(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_found *nearest = &r->result->nearest;
    struct sim_plan_text text = tuner_plan_text(r->space, nearest->plan);
    base_json_key(w, "nearest_miss");
    base_json_open(w, '{');
    base_json_key(w, "plan");
    sim_plan_put_json(r->arena, &text, w);
    base_json_member_int(w, "peak_bytes", nearest->prediction.memory.peak_bytes);
    base_json_member_int(w, "capacity_bytes", nearest->prediction.memory.capacity_bytes);
    base_json_member_int(w, "missing_bytes", nearest->prediction.memory.peak_bytes - nearest->prediction.memory.capacity_bytes);
    base_json_close(w, '}');
}

void reports_tuned_json(const struct reports_tuned *r, bool compact, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .compact = compact};
    base_json_open(&w, '{');
    base_json_key(&w, "best");
    if (r->result->plan_count) {
        struct sim_plan_text text = tuner_plan_text(r->space, r->result->plans[0].plan);
        sim_plan_put_json(r->arena, &text, &w);
    } else {
        base_json_put_null(&w);
    }
    base_json_key(&w, "plans");
    base_json_open(&w, '[');
    for (int i = 0; i < r->result->plan_count; i++) put_found(&w, r, &r->result->plans[i], &r->plans[i]);
    base_json_close(&w, ']');
    if (r->result->front) put_front(&w, r);
    if (!r->result->plan_count && r->result->has_nearest) put_nearest(&w, r);
    put_search(&w, r);
    base_json_close(&w, '}');
}

/* ---- text ---- */

static void put_varying(const struct reports_tuned *r, struct tuner_plan plan, struct base_text *out)
{
    struct sim_plan_text text = tuner_plan_text(r->space, plan);
    for (int d = 0; d < TUNER_SUBMESH; d++)
        if (varies(r->space, (enum tuner_dimension)d)) base_putf(out, ", %s %s", sim_key_names[tuner_key((enum tuner_dimension)d)], value_of(r->space, &text, (enum tuner_dimension)d));
}

static void put_plan_line(const struct reports_tuned *r, const struct tuner_found *found, struct base_text *out)
{
    struct sim_plan_text text = tuner_plan_text(r->space, found->plan);
    struct tuner_shape shape = shape_of(r->space, found->plan);
    base_putf(out, "%s %s (data %d x model %d), rules %s, %s microbatches", r->space->by_partitions ? "num_partitions" : "submesh", value_of(r->space, &text, TUNER_SUBMESH), shape.data,
              shape.model, value_of(r->space, &text, TUNER_RULES), value_of(r->space, &text, TUNER_MICROBATCHES));
    put_varying(r, found->plan, out);
}

static void put_table(const struct reports_tuned *r, struct base_text *out)
{
    char tokens[BASE_HUMANE], step[BASE_HUMANE], peak[BASE_HUMANE], left[BASE_HUMANE];
    base_putf(out, "\n      %12s %10s %11s %11s  plan\n", "tokens/s", "step", "peak", "free");
    for (int i = 0; i < r->result->plan_count; i++) {
        const struct tuner_found *f = &r->result->plans[i];
        const struct sim_memory *m = &f->prediction.memory;
        base_putf(out, "  %2d. %12s %10s %11s %11s  ", i + 1, base_format_count(tokens, f->prediction.tokens_per_s), base_format_seconds(step, f->prediction.step_s),
                  base_format_bytes(peak, (double)m->peak_bytes), base_format_bytes(left, (double)(m->capacity_bytes - m->peak_bytes)));
        put_plan_line(r, f, out);
        base_put(out, "\n");
    }
}

static void put_front_table(const struct reports_tuned *r, struct base_text *out)
{
    char tokens[BASE_HUMANE], peak[BASE_HUMANE];
    base_put(out, "\nTokens per second against peak memory: each of these plans is faster than all that need less\n");
    for (int i = 0; i < r->result->front_count; i++) {
        const struct tuner_found *f = &r->result->front[i];
        base_putf(out, "    %12s tokens/s %11s  ", base_format_count(tokens, f->prediction.tokens_per_s), base_format_bytes(peak, (double)f->prediction.memory.peak_bytes));
        put_plan_line(r, f, out);
        base_put(out, "\n");
    }
}

static void put_proof(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_result *result = r->result;
    const struct tuner_counts *c = &result->counts;
    double all = (double)r->space->plan_count;
    if (result->proven_optimal && result->plan_count) base_put(out, "Proven: no plan of the space is better.\n");
    else if (result->proven_optimal) base_put(out, "Proven: no plan of the space fits.\n");
    else if (result->plan_count) base_putf(out, "Not proven: the search was ended before its end; the best plan is at most %.1f %% better.\n", 100 * result->gap_frac / (1 - result->gap_frac));
    else base_put(out, "The search was ended before it found a plan that fits.\n");
    base_putf(out, "Of %lld plans %lld were predicted in full (%.1f %%); bounds on time decided %lld, bounds on memory %lld, ", (long long)r->space->plan_count, (long long)c->evaluated,
              100 * (double)c->evaluated / all, (long long)(c->by_time + c->by_program), (long long)c->by_memory);
    base_putf(out, "a plan of the same mesh in another order %lld.\n", (long long)c->by_sibling);
}

static void put_refused(const struct tuner_space *space, struct base_text *out)
{
    enum { SHOWN = 4 };
    if (!space->refused_count) return;
    base_putf(out, "\n%lld more cannot be launched:\n", (long long)space->refused_count);
    for (int i = 0; i < space->refusal_count && i < SHOWN; i++) base_putf(out, "    %8lld  such as %s\n", (long long)space->refusals[i].plan_count, space->refusals[i].example);
    if (space->refusal_count > SHOWN) base_putf(out, "    and for %d other reasons, which --json lists\n", space->refusal_count - SHOWN);
}

static void put_verdict(const struct reports_tuned *r, struct base_text *out)
{
    char peak[BASE_HUMANE], capacity[BASE_HUMANE], missing[BASE_HUMANE];
    const struct tuner_result *result = r->result;
    if (result->plan_count) {
        base_put(out, "Best: ");
        put_plan_line(r, &result->plans[0], out);
        base_put(out, "\n");
        return;
    }
    base_put(out, "Nothing fits.\n");
    if (!result->has_nearest) return;
    const struct sim_memory *m = &result->nearest.prediction.memory;
    base_put(out, "Nearest: ");
    put_plan_line(r, &result->nearest, out);
    base_putf(out, "\n         needs %s of %s on each device, %s too much\n", base_format_bytes(peak, (double)m->peak_bytes), base_format_bytes(capacity, (double)m->capacity_bytes),
              base_format_bytes(missing, (double)(m->peak_bytes - m->capacity_bytes)));
}

void reports_tuned_text(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_space *space = r->space;
    base_putf(out, "%s on %s: %lld plans, %d rule sets\n\n", space->plan.values[SIM_MODEL], space->plan.values[SIM_TOPOLOGY], (long long)space->plan_count, space->values[TUNER_RULES].count);
    put_verdict(r, out);
    put_proof(r, out);
    if (r->result->plan_count) put_table(r, out);
    if (r->result->front) put_front_table(r, out);
    put_refused(space, out);
}
