/* A whole training run: steps, time, device-hours, and their price if given. */
#include "reports/reports.h"

#include <math.h>

struct reports_run_length reports_length_of_run(const struct reports_training *t, const struct sim_prediction *p)
{
    double devices = p->tokens_per_s / p->tokens_per_s_per_device;
    struct reports_run_length run = {.steps = ceil(t->train_tokens / (p->tokens_per_s * p->step_s))};
    run.wall_s = run.steps * p->step_s;
    run.device_hours = run.wall_s / 3600 * devices;
    run.price = run.device_hours * t->device_hour_price;
    return run;
}

void reports_put_training(struct base_json_writer *w, const struct reports_training *t, const struct sim_prediction *p)
{
    struct reports_run_length run = reports_length_of_run(t, p);
    base_json_member_open_inline(w, "training", '{');
    base_json_member_double(w, "train_tokens", t->train_tokens);
    base_json_member_double(w, "steps", run.steps);
    base_json_member_double(w, "wall_s", run.wall_s);
    base_json_member_double(w, "device_hours", run.device_hours);
    if (t->device_hour_price > 0) base_json_member_double(w, "device_hour_price", t->device_hour_price);
    if (t->device_hour_price > 0) base_json_member_double(w, "price", run.price);
    base_json_close(w, '}');
}

/* Digits as justified by a prediction. */
const char *reports_price_words(struct base_arena *arena, double price)
{
    return price < 1000 ? base_print(arena, "%.2f", price) : base_copy(arena, base_count(price));
}

const char *reports_wall_words(struct base_arena *arena, double wall_s)
{
    if (wall_s < 120) return base_copy(arena, base_seconds(wall_s));
    if (wall_s < 2 * 3600.0) return base_print(arena, "%.1f minutes", wall_s / 60);
    if (wall_s < 2 * 86400.0) return base_print(arena, "%.1f hours", wall_s / 3600);
    return base_print(arena, "%.1f days", wall_s / 86400);
}

void reports_training_text(const struct reports_training *t, const struct sim_prediction *p, struct base_text *out)
{
    struct reports_run_length run = reports_length_of_run(t, p);
    base_putf(out, "%s target tokens: %s steps, %s, %s device-hours", base_count(t->train_tokens),
              base_count(run.steps), reports_wall_words(out->arena, run.wall_s), base_count(run.device_hours));
    if (t->device_hour_price > 0)
        base_putf(out, ": %s at %.4g a device-hour", reports_price_words(out->arena, run.price), t->device_hour_price);
    base_put(out, "\n");
}
